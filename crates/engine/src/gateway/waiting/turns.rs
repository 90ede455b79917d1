//! Turns: sessions that wait in `LOCK.ACQUIRE`, `LOCK.SECTION` or `BARRIER.WAIT`. The shard has the waiter
//! queue. The gateway has the session without a reply, and the time that it has waited at all leaders
//! together.

use super::deadlocks::{DeadlockSearches, Searched, Suspect};
use super::effect::WaitEffect;
use crate::entry::Apply;
use crate::gateway::api::SessionId;
use crate::gateway::clients::session::BlockedBy;
use crate::gateway::clients::sessions::Sessions;
use crate::gateway::core::Core;
use crate::gateway::errors::unexpected;
use crate::gateway::mail::{Pending, Target};
use crate::gateway::routing::route::unusable_key;
use crate::gateway::slab::Slab;
use crate::gateway::timer::Timer;
use crate::gateway::txn::work::{Finish, Form};
use crate::ids::{Age, GatewayId, RequestId, ShardId};
use crate::message::{Answer, Body};
use adt::{Awaiting, Blob, ErrorReply, Reply};
use smallvec::smallvec;

/// Turn that a session waits for.
struct AwaitedTurn {
    target: Target,
    shard: ShardId,
    /// Request for the turn.
    token: u64,
    since_us: u64,
    timeout_ms: u64,
    /// Recipe for the reply of a section.
    section: Option<Box<Finish>>,
    /// The session is to be refused if it waits in a deadlock cycle.
    suspect: Option<Box<Suspect>>,
    /// `CLIENT UNBLOCK` was to end the wait, with an error or with nil.
    unblocked: Option<bool>,
}

/// Turns that sessions of this gateway wait for, and the searches for deadlock cycles among them.
#[derive(Default)]
pub(in crate::gateway) struct Turns {
    turns: Slab<AwaitedTurn>,
    deadlocks: DeadlockSearches,
}

/// Ticket of a request: the same however often it is asked, and unlike that of any other request.
fn ticket(core: &mut Core, request: Option<&RequestId>) -> Blob {
    Blob::from(match request {
        Some(RequestId { client, number }) => {
            [b"r", &client[..], format!(" {number}").as_bytes()].concat()
        }
        None => {
            let Age { began, gateway } = core.new_age();
            let GatewayId { machine, worker, life } = gateway;
            format!("g{}.{worker}.{life}.{}", machine.0, began.0).into_bytes()
        }
    })
}

/// Reply to a session whose wait `CLIENT UNBLOCK ... ERROR` has ended.
pub(super) fn unblocked() -> Reply {
    ErrorReply::new("UNBLOCKED", "client unblocked via CLIENT UNBLOCK").into()
}

impl Turns {
    /// Begins an operation of a session that waits for its turn, outside of a transaction.
    pub fn begin(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        awaiting: Awaiting,
    ) {
        let Awaiting { key, mut op, timeout_ms, .. } = awaiting;
        let Some(session) = sessions.get(id.0) else { return };
        if let Some(error) = unusable_key(session.reach, &key) {
            return sessions.reply(core, id, error.into());
        }
        let request = sessions.take_request(id);
        if op.ticket().is_some() {
            op.give_ticket(ticket(core, request.as_ref()));
        }
        let target = sessions.place(id, None);
        let apply = Apply { ops: smallvec![(key, op)], request, ..Apply::default() };
        self.wait(core, sessions, target, (apply, timeout_ms), None);
    }

    /// Blocks a session until operations on one shard have had their turn.
    pub fn wait(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        target: Target,
        (apply, timeout_ms): (Apply, u64),
        section: Option<Box<Finish>>,
    ) {
        sessions.bar(target);
        let shard = core.mail.shard_of(&apply.ops[0].0);
        let since_us = core.now.mono_us;
        let suspect = apply.ops.first().and_then(|(lock, op)| Suspect::of(lock, op));
        let (token, unblocked) = (0, None);
        let turn =
            AwaitedTurn { target, shard, token, since_us, timeout_ms, section, suspect, unblocked };
        let job = self.turns.insert(turn);
        let body = Body::Await { apply, timeout_ms };
        let token = core.mail.ask(shard, Pending::Turn { job }, body);
        if let Some(turn) = self.turns.get_mut(job) {
            turn.token = token;
        }
        core.mail.stats.blocked += 1;
        if let Some(session) = sessions.get_mut(target.session.0) {
            session.block(BlockedBy::Turn(job), core.now);
        }
        self.suspect(core, job);
    }

    /// Takes the shard's answer, which is the reply to the session.
    pub fn answered(&mut self, core: &mut Core, job: u64, answer: Answer) -> Option<WaitEffect> {
        let AwaitedTurn { target, section, unblocked: with_error, .. } = self.end(core, job)?;
        let replies = match answer {
            Answer::Replies(replies) if with_error == Some(true) && replies[..] == [Reply::Nil] => {
                smallvec![unblocked()]
            }
            Answer::Replies(replies) | Answer::Repeated(replies) => replies,
            other => {
                core.finish(target, unexpected(&other));
                return Some(WaitEffect::Ended(target.session));
            }
        };
        match (section, &replies[..]) {
            // The session did not get the lock in time.
            (Some(section), [Reply::Nil]) if section.form == Form::Array => {
                core.finish(target, Reply::NilArray);
            }
            (None, [reply]) | (Some(_), [reply @ (Reply::Nil | Reply::Error(_))]) => {
                core.finish(target, reply.clone());
            }
            (Some(section), _) => {
                let items = section.items(replies.into_iter());
                core.complete(target, *section, items);
            }
            (None, _) => core.finish(target, unexpected(&Answer::Replies(replies))),
        }
        Some(WaitEffect::Ended(target.session))
    }

    /// Ends a wait with this error, because no leader can be asked for the turn.
    pub fn refused(&mut self, core: &mut Core, job: u64, error: Reply) -> Option<WaitEffect> {
        let target = self.end(core, job)?.target;
        core.finish(target, error);
        Some(WaitEffect::Ended(target.session))
    }

    fn end(&mut self, core: &mut Core, job: u64) -> Option<AwaitedTurn> {
        let turn = self.turns.remove(job)?;
        core.mail.stats.blocked -= 1;
        Some(turn)
    }

    /// Rest of a turn's time-out in milliseconds, for asking the next leader; none without a time-out.
    pub fn left_ms(&self, core: &Core, job: u64) -> Option<u64> {
        let turn = self.turns.get(job)?;
        if turn.unblocked.is_some() {
            // The next leader is to end the wait, unless the turn comes at once.
            return Some(1);
        }
        if turn.timeout_ms == 0 {
            return None;
        }
        let waited_ms = core.now.mono_us.saturating_sub(turn.since_us) / 1000;
        // Zero would mean no time-out.
        Some(turn.timeout_ms.saturating_sub(waited_ms).max(1))
    }

    /// Ends a wait without a reply. A grant that is on its way is taken back.
    pub fn give_up(&mut self, core: &mut Core, job: u64) -> Option<Target> {
        let turn = self.end(core, job)?;
        core.mail.withdraw(turn.shard, turn.token, Body::Unblock);
        Some(turn.target)
    }

    /// Ends a wait by `CLIENT UNBLOCK`. Only the shard knows whether the turn has come: it answers the
    /// session, unless the request was never sent to it.
    pub fn unblock(&mut self, core: &mut Core, job: u64, error: bool) -> Option<WaitEffect> {
        let turn = self.turns.get_mut(job)?;
        turn.unblocked = Some(error);
        let (shard, token) = (turn.shard, turn.token);
        if core.mail.may_have_gone(token) {
            // If its leader is lost, the next one is asked to end the wait at once.
            core.mail.add(shard, token, Body::EndTurn);
            return None;
        }
        core.mail.forget(token);
        self.answered(core, job, Answer::Replies(smallvec![Reply::Nil]))
    }

    /// Sets the timer for the next search of a deadlock cycle that a session may wait in.
    fn suspect(&mut self, core: &mut Core, job: u64) {
        let several = core.mail.routes.shards() > 1;
        let Some(turn) = self.turns.get_mut(job) else { return };
        let Some(suspect) = turn.suspect.as_mut().filter(|_| several) else { return };
        core.set_timer(suspect.next_us(), Timer::Deadlock { job });
    }

    /// Begins a search for a session that has waited long enough.
    pub fn search(&mut self, core: &mut Core, job: u64) {
        let Some(turn) = self.turns.get(job) else { return };
        let Some(suspect) = &turn.suspect else { return };
        self.deadlocks.begin(core, (job, turn.token), suspect);
    }

    /// Takes a shard's report on waits. If that completes a search, asks the shard of the lock to refuse a
    /// session that waits in a cycle, and sets the timer for the next search.
    pub fn waits_reported(
        &mut self,
        core: &mut Core,
        (search, shard): (u64, ShardId),
        answer: Answer,
    ) {
        let searched = self.deadlocks.answered(core, (search, shard), answer);
        let Some(Searched { turn: job, token, cycle }) = searched else { return };
        let Some(turn) = self.turns.get(job).filter(|turn| turn.token == token) else { return };
        if let Some(cycle) = cycle {
            let body = Body::EndDeadlock { description: Blob::from(cycle.as_str()) };
            core.mail.add(turn.shard, token, body);
        }
        self.suspect(core, job);
    }

    /// Number of turns that sessions wait for.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.turns.len()
    }
}
