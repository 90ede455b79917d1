//! Locks that a gateway keeps for the clients of its server (`LOCK.ACQUIRE key NEAR`).
//!
//! The gateway asks for the lock once, with a block of tokens, and lets clients in one after the other,
//! each under a token of its own: a hand-over among them is no message to the shard and no write to the
//! log. The shard notifies the gateway when another client wants the lock (`LOCK.WANTED`). Then the gateway
//! lets in a bounded number of clients more and gives the lock back, so that others wait for a bounded
//! number of stays. (P6 and P9 of "The cost of consensus" in the project's study; lock cohorting: Dice,
//! Marathe, Shavit, 2012.)
//!
//! No client is promised more than the gateway has itself: a client is let in, and its lease renewed, only
//! if the gateway's own lease, counted from before it was asked for, ends later. So a client that believes
//! in its lease is right as far as the clocks are. If the gateway is lost, the lock is held until its lease
//! ends, and no client is let in meanwhile.
//!
//! Of the gateways of a server one keeps a given lock, for the clients of all: which one follows from the
//! key. Requests go from the gateway that a client is connected with to the one that keeps the lock, and
//! answers back. The other gateways are informed before a client is let in, so that each understands an
//! operation about a stay, over any connection of this server. The gateways share a process: they are
//! there together or not at all.

mod lock;
mod purpose;

use super::effect::WaitEffect;
use super::turns::unblocked;
use crate::cluster::slot::slot;
use crate::gateway::api::{NearWord, SessionId};
use crate::gateway::clients::session::BlockedBy;
use crate::gateway::clients::sessions::Sessions;
use crate::gateway::core::Core;
use crate::gateway::errors::unexpected;
use crate::gateway::mail::Target;
use crate::gateway::routing::route::unusable_key;
use crate::gateway::slab::Slab;
use crate::gateway::timer::Timer;
use crate::ids::{GatewayId, RequestId};
use crate::limits::NEAR_LOCKS_MAX;
use crate::message::Answer;
use adt::collections::{Map, Set};
use adt::kinds::lock::Op;
use adt::{Awaiting, Blob, ErrorReply, Op as AnyOp, Reply};
use lock::{NearContext, NearLock, Visit};
use purpose::Caller;
pub(in crate::gateway) use purpose::NearPurpose;
use std::collections::VecDeque;

/// Request of a session to the gateway that keeps a lock.
struct NearRequest {
    target: Target,
    key: Blob,
    wants: Wants,
}

/// Content of a session's request.
enum Wants {
    /// A stay in the lock: the session is blocked until then.
    Visit,
    /// The answer to an operation, which the shard gives if the operation is about no stay.
    Answer(AnyOp, Option<RequestId>),
}

/// Locks that this gateway keeps for clients, and requests of its clients about locks that gateways of this
/// server keep.
#[derive(Default)]
pub(in crate::gateway) struct NearLocks {
    locks: Slab<NearLock>,
    by_key: Map<Blob, u64>,
    /// Locks that other gateways of this server keep.
    kept_elsewhere: Set<Blob>,
    requests: Slab<NearRequest>,
    /// Messages of this gateway to itself.
    own: VecDeque<NearWord>,
    effects: VecDeque<WaitEffect>,
}

/// Requests of this gateway's clients.
impl NearLocks {
    /// Removes the next effect on a session that has sent a request.
    #[inline]
    pub fn next_effect(&mut self) -> Option<WaitEffect> {
        self.effects.pop_front()
    }

    /// Whether effects wait to be carried out.
    #[inline]
    pub fn have_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Gateway of this server that keeps a lock, if one does.
    fn home(core: &Core, key: &[u8]) -> GatewayId {
        let worker = slot(key) % core.config.gateways.max(1);
        GatewayId { worker, ..core.config.id }
    }

    /// Whether an operation may be about a lock that a gateway of this server keeps.
    #[inline]
    pub fn may_answer(&self, op: &AnyOp) -> bool {
        matches!(op, AnyOp::Lock(_)) && !(self.by_key.is_empty() && self.kept_elsewhere.is_empty())
    }

    /// Whether the gateway that keeps a lock is to be asked about an operation.
    fn answers(&self, key: &Blob, op: &AnyOp) -> bool {
        matches!(op, AnyOp::Lock(Op::Release(_) | Op::Renew(..) | Op::Held(_)))
            && (self.by_key.contains_key(key) || self.kept_elsewhere.contains(key))
    }

    /// Begins a command of a session that wants a lock its server is to keep for all of its clients.
    pub fn begin(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        awaiting: Awaiting,
    ) {
        let Awaiting { key, op, timeout_ms, .. } = awaiting;
        let Some(session) = sessions.get(id.0) else { return };
        if let Some(error) = unusable_key(session.reach, &key) {
            return sessions.reply(core, id, error.into());
        }
        let AnyOp::Lock(Op::Acquire(grant)) = op else {
            return sessions.reply(core, id, ErrorReply::syntax().into());
        };
        let request = sessions.take_request(id);
        let target = sessions.place(id, None);
        sessions.bar(target);
        let lock = (key, grant.lease_ms * 1000);
        let visit = self.visit(core, target, lock, request, timeout_ms);
        if let Some(session) = sessions.get_mut(id.0) {
            session.block(BlockedBy::Near(visit), core.now);
        }
    }

    /// Asks the gateway that keeps the lock about an operation. None if no gateway does, or the operation is
    /// about no stay; false if it must wait until all commands of the client before it are answered: their
    /// effects under the lock come before those of the next client that is let in.
    pub fn ask_about(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        (key, op): (&Blob, &AnyOp),
    ) -> Option<bool> {
        if !self.answers(key, op) {
            return None;
        }
        if !sessions.get(id.0)?.queue.is_empty() {
            return Some(false);
        }
        let request = sessions.take_request(id);
        let target = sessions.place(id, None);
        sessions.bar(target);
        self.ask(core, target, (key, op), request);
        Some(true)
    }

    /// Asks for a stay in a lock; returns the number of the request.
    fn visit(
        &mut self,
        core: &mut Core,
        target: Target,
        (key, lease_us): (Blob, u64),
        request: Option<RequestId>,
        timeout_ms: u64,
    ) -> u64 {
        let home = Self::home(core, &key);
        let visit = NearRequest { target, key: key.clone(), wants: Wants::Visit };
        let errand = self.requests.insert(visit);
        core.mail.stats.blocked += 1;
        if timeout_ms > 0 {
            core.set_timer(timeout_ms.saturating_mul(1000), Timer::Visit { visit: errand });
        }
        lock::send(core, &mut self.own, home, NearWord::Visit { errand, key, lease_us, request });
        self.deliver(core);
        errand
    }

    /// Asks about an operation.
    fn ask(
        &mut self,
        core: &mut Core,
        target: Target,
        (key, op): (&Blob, &AnyOp),
        request: Option<RequestId>,
    ) {
        let home = Self::home(core, key);
        let wants = Wants::Answer(op.clone(), request.clone());
        let errand = self.requests.insert(NearRequest { target, key: key.clone(), wants });
        let (key, op) = (key.clone(), op.clone());
        lock::send(core, &mut self.own, home, NearWord::About { errand, key, op, request });
        self.deliver(core);
    }

    fn end_request(&mut self, core: &mut Core, errand: u64) -> Option<NearRequest> {
        let ended = self.requests.remove(errand)?;
        if matches!(ended.wants, Wants::Visit) {
            core.mail.stats.blocked -= 1;
            self.effects.push_back(WaitEffect::Ended(ended.target.session));
        }
        Some(ended)
    }

    /// Ends the wait of a client whose time is over.
    pub fn overdue(&mut self, core: &mut Core, visit: u64) {
        self.leave(core, visit, Some(Reply::Nil));
    }

    /// Ends the wait of a client by `CLIENT UNBLOCK`.
    pub fn unblock(&mut self, core: &mut Core, visit: u64, error: bool) {
        self.leave(core, visit, Some(if error { unblocked() } else { Reply::Nil }));
    }

    /// Ends the wait of a client, with this reply unless its connection is gone.
    pub fn leave(&mut self, core: &mut Core, visit: u64, reply: Option<Reply>) {
        let Some(ended) = self.end_request(core, visit) else { return };
        let home = Self::home(core, &ended.key);
        let word = NearWord::Leave { errand: visit, key: ended.key };
        lock::send(core, &mut self.own, home, word);
        self.deliver(core);
        if let Some(reply) = reply {
            core.finish(ended.target, reply);
        }
    }

    /// Handles the answer to a request.
    fn answered_by_home(&mut self, core: &mut Core, errand: u64, reply: Option<Reply>) {
        let Some(ended) = self.end_request(core, errand) else { return };
        let NearRequest { target, key, wants } = ended;
        match (reply, wants) {
            (Some(reply), _) => core.finish(target, reply),
            (None, Wants::Answer(op, request)) => {
                self.effects.push_back(WaitEffect::Forward { target, key, op, request });
            }
            (None, Wants::Visit) => core.finish(target, Reply::Nil),
        }
    }
}

/// Messages between gateways.
impl NearLocks {
    /// Handles a message of another gateway of this server.
    pub fn receive(&mut self, core: &mut Core, from: GatewayId, word: NearWord) {
        self.hear(core, from, word);
        self.deliver(core);
    }

    /// Handles the messages of this gateway to itself.
    fn deliver(&mut self, core: &mut Core) {
        while let Some(word) = self.own.pop_front() {
            self.hear(core, core.config.id, word);
        }
    }

    fn hear(&mut self, core: &mut Core, from: GatewayId, word: NearWord) {
        match word {
            NearWord::Visit { errand, key, lease_us, request } => {
                self.add_visit(core, key, Visit { caller: (from, errand), lease_us, request });
            }
            NearWord::Leave { errand, key } => {
                if let Some((lock, _)) = self.by_key(core, &key) {
                    lock.leaves((from, errand));
                    self.advance_key(core, &key);
                }
            }
            NearWord::About { errand, key, op, request } => {
                let caller = (from, errand);
                let Some((lock, mut cx)) = self.by_key(core, &key) else {
                    return self.tell(core, caller, None);
                };
                if lock.asked(&mut cx, caller, &op, request) {
                    self.advance_key(core, &key);
                }
            }
            NearWord::Told { errand, reply } => self.answered_by_home(core, errand, reply),
            NearWord::Keeps { key, lock } => {
                self.kept_elsewhere.insert(key);
                lock::send(core, &mut self.own, from, NearWord::Heard { lock });
            }
            NearWord::Heard { lock } => {
                if let Some(lock) = self.locks.get_mut(lock) {
                    lock.is_heard();
                }
                self.advance(core, lock);
            }
            NearWord::Ends { key } => {
                self.kept_elsewhere.swap_remove(&key);
            }
        }
    }

    fn tell(&mut self, core: &mut Core, (gateway, errand): Caller, reply: Option<Reply>) {
        lock::send(core, &mut self.own, gateway, NearWord::Told { errand, reply });
    }
}

/// Locks that this gateway keeps.
impl NearLocks {
    /// A lock with its surroundings.
    fn at<'a>(
        &'a mut self,
        core: &'a mut Core,
        lock: u64,
    ) -> Option<(&'a mut NearLock, NearContext<'a>)> {
        let own = &mut self.own;
        Some((self.locks.get_mut(lock)?, NearContext { core, lock, own }))
    }

    fn by_key<'a>(
        &'a mut self,
        core: &'a mut Core,
        key: &Blob,
    ) -> Option<(&'a mut NearLock, NearContext<'a>)> {
        let lock = *self.by_key.get(key)?;
        self.at(core, lock)
    }

    fn add_visit(&mut self, core: &mut Core, key: Blob, visit: Visit) {
        let Some(lock) = self.lock(core, &key) else {
            let text = "this server keeps too many locks for its clients already";
            let reply = ErrorReply::new("BUSY", text).into();
            return self.tell(core, visit.caller, Some(reply));
        };
        if let Some((near, mut cx)) = self.at(core, lock)
            && near.receive(&mut cx, visit)
        {
            self.advance(core, lock);
        }
    }

    /// Number of a lock that this gateway keeps from now on, unless it keeps too many.
    fn lock(&mut self, core: &mut Core, key: &Blob) -> Option<u64> {
        if let Some(lock) = self.by_key.get(key) {
            return Some(*lock);
        }
        if self.by_key.len() >= NEAR_LOCKS_MAX {
            return None;
        }
        let lock = self.locks.insert(NearLock::new(core, key.clone()));
        self.by_key.insert(key.clone(), lock);
        self.tell_others(core, || NearWord::Keeps { key: key.clone(), lock });
        Some(lock)
    }

    fn tell_others(&mut self, core: &mut Core, word: impl Fn() -> NearWord) {
        for other in core.other_gateways() {
            lock::send(core, &mut self.own, other, word());
        }
    }

    fn advance_key(&mut self, core: &mut Core, key: &Blob) {
        if let Some(lock) = self.by_key.get(key).copied() {
            self.advance(core, lock);
        }
    }

    /// Does everything for a lock that is possible now, and ends it if it is not needed any longer.
    fn advance(&mut self, core: &mut Core, lock: u64) {
        let Some((near, mut cx)) = self.at(core, lock) else { return };
        if near.advance(&mut cx) {
            return;
        }
        let Some(near) = self.locks.remove(lock) else { return };
        self.by_key.swap_remove(near.key());
        self.tell_others(core, || NearWord::Ends { key: near.key().clone() });
    }

    /// Looks at a lock whose time has come.
    pub fn due(&mut self, core: &mut Core, lock: u64) {
        if let Some(near) = self.locks.get_mut(lock) {
            near.timer_is_over();
        }
        self.advance(core, lock);
        self.deliver(core);
    }

    /// Handles a shard's answer about a lock.
    pub fn answered(&mut self, core: &mut Core, lock: u64, purpose: NearPurpose, answer: Answer) {
        let reply = match answer {
            Answer::Replies(mut replies) | Answer::Repeated(mut replies) if replies.len() == 1 => {
                replies.remove(0)
            }
            Answer::Reply(reply) => reply,
            other => unexpected(&other),
        };
        match (self.at(core, lock), purpose) {
            (Some((near, mut cx)), purpose) => near.answered(&mut cx, purpose, reply),
            // The lock is not kept any longer, so that the stay is over.
            (None, NearPurpose::Lease { asks: Some((caller, _)), .. }) => {
                let reply = if reply.is_error() { reply } else { Reply::Int(0) };
                self.tell(core, caller, Some(reply));
            }
            (None, _) => {}
        }
        self.advance(core, lock);
        self.deliver(core);
    }
}
