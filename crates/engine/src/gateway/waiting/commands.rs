//! Commands that wait: the gateway gives each a place for its reply, hands it to the part that knows how to
//! wait for it, and blocks the session until that part is done.

use super::blocking::BlockingEffect;
use super::near::NearEffect;
use super::turns;
use crate::entry::Apply;
use crate::gateway::Gateway;
use crate::gateway::api::{NearWord, SessionId};
use crate::gateway::clients::session::BlockedBy;
use crate::gateway::mail::Target;
use crate::gateway::parts::Parts;
use crate::gateway::routing::route::{Route, key_too_long, long_key};
use crate::gateway::txn::work::{Finish, Form, ProgramStep, Work};
use crate::ids::GatewayId;
use crate::now::Now;
use adt::{Awaiting, Blob, Blocking, ErrorReply, Op};
use smallvec::{SmallVec, smallvec};

impl Gateway {
    /// Handles a message of another gateway of this server about locks that are kept for clients.
    pub fn near_told(&mut self, now: Now, from: GatewayId, word: NearWord) {
        self.parts.core.now = now;
        self.parts.near_locks.receive(&mut self.parts.core, from, word);
        self.settle();
    }
}

impl Parts {
    /// Begins a blocking command outside of a transaction.
    pub(in crate::gateway) fn begin_blocking(&mut self, id: SessionId, blocking: Blocking) {
        let steps = [ProgramStep::Attempts(blocking)];
        if let Some(error) = long_key(&steps) {
            return self.sessions.reply(&mut self.core, id, error.into());
        }
        let [ProgramStep::Attempts(blocking)] = steps else { return };
        let target = self.sessions.place(id, None);
        self.sessions.bar(target);
        let job = self.blocked.add(&self.core, target, blocking);
        self.block(id, BlockedBy::Command(job));
        let effect = self.blocked.advance(&mut self.core, job);
        self.blocked_goes_on(effect);
    }

    /// Begins an operation that waits for its turn, outside of a transaction.
    pub(in crate::gateway) fn begin_awaiting(&mut self, id: SessionId, awaiting: Awaiting) {
        if let Some(error) = key_too_long(&awaiting.key) {
            return self.sessions.reply(&mut self.core, id, error.into());
        }
        let Awaiting { key, mut op, timeout_ms, near } = awaiting;
        let near = match &op {
            Op::Lock(adt::kinds::lock::Op::Acquire(grant)) if near => Some(grant.lease_ms * 1000),
            _ if near => {
                return self.sessions.reply(&mut self.core, id, ErrorReply::syntax().into());
            }
            _ => None,
        };
        let request = self.sessions.take_request(id);
        let target = self.sessions.place(id, None);
        self.sessions.bar(target);
        if let Some(lease_us) = near {
            let lock = (key, lease_us);
            let visit = self.near_locks.visit(&mut self.core, target, lock, request, timeout_ms);
            return self.block(id, BlockedBy::Near(visit));
        }
        if op.ticket().is_some() {
            op.give_ticket(turns::ticket(&mut self.core, request.as_ref()));
        }
        let apply = Apply { ops: smallvec![(key, op)], request, ..Apply::default() };
        self.await_turn(target, apply, timeout_ms, None);
    }

    /// Blocks a session until operations on one shard have had their turn.
    pub(super) fn await_turn(
        &mut self,
        target: Target,
        apply: Apply,
        timeout_ms: u64,
        section: Option<Box<Finish>>,
    ) {
        let turn = self.turns.begin(&mut self.core, target, apply, timeout_ms, section);
        self.block(target.session, BlockedBy::Turn(turn));
    }

    fn block(&mut self, id: SessionId, by: BlockedBy) {
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.blocked = Some(by);
            session.about.arrives = matches!(by, BlockedBy::Command(_));
        }
    }

    /// Notes that a session waits no longer, if one is given.
    pub(in crate::gateway) fn waits_no_longer(&mut self, id: Option<SessionId>) {
        if let Some(session) = id.and_then(|id| self.sessions.get_mut(id.0)) {
            session.blocked = None;
            session.about.arrives = false;
        }
    }

    /// Carries out the next step of a blocked command.
    pub(in crate::gateway) fn blocked_goes_on(&mut self, effect: Option<BlockingEffect>) {
        match effect {
            None => {}
            Some(BlockingEffect::Ended(id)) => self.waits_no_longer(Some(id)),
            Some(BlockingEffect::Arrived(id)) => {
                if let Some(session) = self.sessions.get_mut(id.0) {
                    session.about.arrives = false;
                }
            }
            Some(BlockingEffect::Launch(program)) => self.launch(program, Route::Many),
            Some(BlockingEffect::Take { target, ops, finish }) => {
                self.transactions.begin_taker(&mut self.core, target, ops, finish);
            }
            Some(BlockingEffect::Move(program)) => {
                self.sessions.bar(program.target);
                self.transactions.begin_taking(&mut self.core, program);
            }
        }
    }

    /// `CLIENT UNBLOCK`: ends the wait of a client. Tells whether it was waiting.
    pub(in crate::gateway) fn unblock(&mut self, client: u64, error: bool) -> bool {
        let session = self.sessions.iter().find(|(_, s)| s.about.client == client);
        let core = &mut self.core;
        match session.and_then(|(_, session)| session.blocked) {
            None => return false,
            Some(BlockedBy::Near(visit)) => self.near_locks.unblock(core, visit, error),
            Some(BlockedBy::Turn(turn)) => {
                let ended = self.turns.unblock(core, turn, error);
                self.waits_no_longer(ended);
                return ended.is_some();
            }
            Some(BlockedBy::Command(job)) => {
                let effect = self.blocked.unblock(core, job, error);
                self.blocked_goes_on(effect);
            }
        }
        true
    }

    /// Ends the wait of a session whose connection is gone.
    pub(in crate::gateway) fn stop_waiting(&mut self, by: BlockedBy) {
        match by {
            BlockedBy::Near(visit) => self.near_locks.leave(&mut self.core, visit, None),
            BlockedBy::Turn(turn) => drop(self.turns.give_up(&mut self.core, turn)),
            BlockedBy::Command(job) => drop(self.blocked.give_up(&mut self.core, job)),
        }
    }

    /// Asks the gateway that keeps the lock about an operation. None if no gateway does, or the operation is
    /// about no stay; false if it must wait until all commands of the client before it are answered: their
    /// effects under the lock come before those of the next client that is let in.
    pub(in crate::gateway) fn about_stay(
        &mut self,
        id: SessionId,
        key: &Blob,
        op: &Op,
    ) -> Option<bool> {
        if !self.near_locks.answers(key, op) {
            return None;
        }
        if !self.sessions.get(id.0)?.queue.is_empty() {
            return Some(false);
        }
        let request = self.sessions.take_request(id);
        let target = self.sessions.place(id, None);
        self.sessions.bar(target);
        self.near_locks.ask(&mut self.core, target, (key, op), request);
        Some(true)
    }

    /// Carries out effects of requests about locks on the sessions that have sent them.
    #[inline]
    pub(in crate::gateway) fn settle_near(&mut self) {
        while let Some(effect) = self.near_locks.next_effect() {
            match effect {
                NearEffect::Unblock(id) => self.waits_no_longer(Some(id)),
                NearEffect::Forward { target, key, op, request: None } => {
                    self.sessions.send_single(&mut self.core, target, key, op);
                }
                NearEffect::Forward { target, key, op, request } => {
                    let (shard, mut work) = (self.core.mail.shard_of(&key), Work::default());
                    work.add(vec![(key, op)], None);
                    let ops = SmallVec::from_vec(work.ops);
                    let finish = Finish::new(work.outcomes, Form::One, None, None);
                    let apply = Apply { ops, request, ..Apply::default() };
                    self.sessions.send_work(&mut self.core, target, shard, apply, finish);
                }
            }
        }
    }
}
