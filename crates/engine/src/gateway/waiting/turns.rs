//! Commands that wait for their turn (`LOCK.ACQUIRE`, `LOCK.SECTION`): the shard has the queue, the
//! gateway has the session without a reply, and the time that it has waited at all leaders together.

use super::circles::{Searched, Suspect};
use crate::entry::Apply;
use crate::gateway::api::SessionId;
use crate::gateway::clients::session::BlockedBy;
use crate::gateway::errors::unexpected;
use crate::gateway::mail::{Pending, Target};
use crate::gateway::routing::route::key_too_long;
use crate::gateway::timer::Timer;
use crate::gateway::txn::work::{Finish, Form};
use crate::gateway::{Gateway, Job};
use crate::ids::{Age, GatewayId, RequestId, ShardId};
use crate::message::{Answer, Body};
use adt::{Awaiting, Blob, ErrorReply, Reply};
use smallvec::smallvec;

/// Turn that a session waits for.
pub(in crate::gateway) struct AwaitedTurn {
    target: Target,
    pub(in crate::gateway) shard: ShardId,
    pub(in crate::gateway) token: u64,
    since_us: u64,
    timeout_ms: u64,
    /// Recipe for the reply of a section.
    section: Option<Box<Finish>>,
    /// The session is to be refused if it waits in a deadlock cycle.
    pub(in crate::gateway) suspect: Option<Box<Suspect>>,
}

impl Gateway {
    /// An operation that waits for its turn, outside of a transaction.
    pub(in crate::gateway) fn begin_awaiting(&mut self, id: SessionId, awaiting: Awaiting) {
        if let Some(error) = key_too_long(&awaiting.key) {
            return self.reply(id, error.into());
        }
        if awaiting.near {
            return self.begin_visit(id, awaiting);
        }
        let Awaiting { key, mut op, timeout_ms, .. } = awaiting;
        let request = self.take_request(id);
        if op.ticket().is_some() {
            op.give_ticket(self.ticket(request.as_ref()));
        }
        let target = self.place(id, None);
        self.bar(target);
        let apply = Apply { ops: smallvec![(key, op)], request, ..Apply::default() };
        self.begin_turn(target, apply, timeout_ms, None);
    }

    /// Ticket of a request: the same however often it is asked, and unlike that of any other request.
    fn ticket(&mut self, request: Option<&RequestId>) -> Blob {
        Blob::from(match request {
            Some(RequestId { client, number }) => {
                [b"r", &client[..], format!(" {number}").as_bytes()].concat()
            }
            None => {
                let Age { began, gateway } = self.core.new_age();
                let GatewayId { machine, worker, life } = gateway;
                format!("g{}.{worker}.{life}.{}", machine.0, began.0).into_bytes()
            }
        })
    }

    /// Operations that wait for their turn, on one shard.
    pub(in crate::gateway) fn begin_turn(
        &mut self,
        target: Target,
        apply: Apply,
        timeout_ms: u64,
        section: Option<Box<Finish>>,
    ) {
        let shard = self.core.mail.shard_of(&apply.ops[0].0);
        let since_us = self.core.now.mono_us;
        let suspect = apply.ops.first().and_then(|(lock, op)| Suspect::of(lock, op));
        let turn = AwaitedTurn { target, shard, token: 0, since_us, timeout_ms, section, suspect };
        let job = self.jobs.insert(Job::Turn(turn));
        let body = Body::Await { apply, timeout_ms };
        let token = self.core.mail.ask(shard, Pending::Turn { job }, body);
        if let Some(Job::Turn(turn)) = self.jobs.get_mut(job) {
            turn.token = token;
        }
        if let Some(session) = self.sessions.get_mut(target.session.0) {
            session.blocked = Some(BlockedBy::Job(job));
        }
        self.core.mail.stats.blocked += 1;
        self.suspect(job);
    }

    /// Gives the session its reply, as the shard has answered.
    pub(in crate::gateway) fn turn_taken(&mut self, job: u64, answer: Answer) {
        let Some(turn) = self.end_turn(job) else { return };
        let replies = match answer {
            Answer::Replies(replies) | Answer::Repeated(replies) => replies,
            other => return self.finish(turn.target, unexpected(&other)),
        };
        match (turn.section, &replies[..]) {
            // The session was not let in.
            (Some(section), [Reply::Nil]) if section.form == Form::Array => {
                self.finish(turn.target, Reply::NilArray);
            }
            (None, [reply]) | (Some(_), [reply @ (Reply::Nil | Reply::Error(_))]) => {
                self.finish(turn.target, reply.clone());
            }
            (Some(section), _) => self.complete(turn.target, &section, replies.into_iter()),
            (None, _) => self.finish(turn.target, unexpected(&Answer::Replies(replies))),
        }
    }

    /// Ends the wait with this error, because no leader can be asked for the turn.
    pub(in crate::gateway) fn turn_given_up(&mut self, job: u64, error: Reply) {
        if let Some(turn) = self.end_turn(job) {
            self.finish(turn.target, error);
        }
    }

    fn end_turn(&mut self, job: u64) -> Option<AwaitedTurn> {
        let Some(Job::Turn(turn)) = self.jobs.remove(job) else { return None };
        self.core.mail.stats.blocked -= 1;
        if let Some(session) = self.sessions.get_mut(turn.target.session.0) {
            session.blocked = None;
        }
        Some(turn)
    }

    /// Request to be asked again after a change of leaders, with what is left of its time-out.
    pub(in crate::gateway) fn with_time_left(&self, token: u64, mut body: Body) -> Body {
        if let Body::Await { timeout_ms, .. } = &mut body
            && let Some(Pending::Turn { job }) = self.core.mail.pending.get(token)
            && let Some(Job::Turn(turn)) = self.jobs.get(*job)
            && turn.timeout_ms > 0
        {
            let waited_ms = self.core.now.mono_us.saturating_sub(turn.since_us) / 1000;
            // Zero would mean no time-out.
            *timeout_ms = turn.timeout_ms.saturating_sub(waited_ms).max(1);
        }
        body
    }

    /// Ends the wait without a reply. A grant that is on its way is taken back.
    pub(in crate::gateway) fn give_up_turn(&mut self, job: u64) -> Option<Target> {
        let turn = self.end_turn(job)?;
        self.core.mail.withdraw(turn.shard, turn.token, Body::Unblock);
        Some(turn.target)
    }

    /// Ends the wait by `CLIENT UNBLOCK`. False for a section, which may be carried out already: nothing
    /// takes that back.
    pub(in crate::gateway) fn unblock_turn(&mut self, job: u64, error: bool) -> bool {
        if matches!(self.jobs.get(job), Some(Job::Turn(turn)) if turn.section.is_some()) {
            return false;
        }
        let Some(target) = self.give_up_turn(job) else { return false };
        self.finish(target, if error { unblocked() } else { Reply::Nil });
        true
    }
}

impl Gateway {
    /// Sets the timer for the next search of a deadlock cycle that a client may wait in.
    pub(in crate::gateway) fn suspect(&mut self, job: u64) {
        let several = self.core.mail.routes.shards() > 1;
        let Some(Job::Turn(turn)) = self.jobs.get_mut(job) else { return };
        let Some(suspect) = turn.suspect.as_mut().filter(|_| several) else { return };
        self.core.set_timer(suspect.next_us(), Timer::Circle { job });
    }

    /// Begins a search for a client that has waited long enough.
    pub(in crate::gateway) fn search_for_deadlock(&mut self, job: u64) {
        let Some(Job::Turn(turn)) = self.jobs.get(job) else { return };
        let Some(suspect) = &turn.suspect else { return };
        self.deadlocks.begin(&mut self.core, (job, turn.token), suspect);
    }

    /// Takes a shard's report on waits. If a search is over by it, lets the shard of the lock refuse a client
    /// that waits in a cycle, and sets the timer for the next search.
    pub(in crate::gateway) fn waits_told(&mut self, job: u64, shard: ShardId, answer: Answer) {
        let over = self.deadlocks.answered(&mut self.core, (job, shard), answer);
        let Some(Searched { turn: job, token, cycle }) = over else { return };
        let Some(Job::Turn(turn)) = self.jobs.get(job) else { return };
        if turn.token != token {
            return;
        }
        if let Some(told) = cycle {
            let body = Body::EndCircle { told: Blob::from(told.as_str()) };
            self.core.mail.add(turn.shard, token, body);
        }
        self.suspect(job);
    }
}

/// Reply to a session whose wait `CLIENT UNBLOCK ... ERROR` has ended.
pub(in crate::gateway) fn unblocked() -> Reply {
    ErrorReply::new("UNBLOCKED", "client unblocked via CLIENT UNBLOCK").into()
}
