//! Clients that want to be in a lock that a gateway of their server keeps, and what they say about their
//! stays: from the gateway that a client is connected with to the one that keeps the lock, and back.
//!
//! Which gateway keeps a lock follows from the key. The others are told before anybody is let in, so that
//! whoever speaks of a stay, over whichever connection of this server, is understood.

use crate::entry::Apply;
use crate::gateway::api::{NearWord, Output, SessionId};
use crate::gateway::mail::Target;
use crate::gateway::timer::Timer;
use crate::gateway::txn::work::{Finish, Form, Work};
use crate::gateway::waiting::near::{Caller, Near, Stay, Visit};
use crate::gateway::{Gateway, Job};
use crate::message::{GatewayId, Now, RequestId};
use crate::slot::slot;
use adt::lock::{NEAR_LEASE_MS_MAX, Op};
use adt::{Awaiting, Blob, ErrorReply, Op as AnyOp, Reply};
use smallvec::SmallVec;

/// What a session has asked of the gateway that keeps a lock.
pub(in crate::gateway) struct Errand {
    target: Target,
    key: Blob,
    wants: Wants,
}

/// What it wants.
enum Wants {
    /// To be let in.
    Visit,
    /// This, which the shard is asked if the other gateway has nothing to do with it.
    Answer(AnyOp, Option<RequestId>),
}

/// The side of the client.
impl Gateway {
    /// The gateway of this server that keeps a lock, if one does.
    fn near_home(&self, key: &[u8]) -> GatewayId {
        let worker = slot(key) % self.core.config.gateways.max(1);
        GatewayId { worker, ..self.core.config.id }
    }

    /// A client wants a lock that its server is to keep for all of its clients.
    pub(in crate::gateway) fn begin_visit(&mut self, id: SessionId, awaiting: Awaiting) {
        let Awaiting { key, op: AnyOp::Lock(Op::Acquire(grant)), timeout_ms, .. } = awaiting else {
            return self.reply(id, ErrorReply::syntax().into());
        };
        let request = self.take_request(id);
        let target = self.place(id, None);
        self.bar(target);
        let lease_us = grant.lease_ms * 1000;
        let errand = Errand { target, key: key.clone(), wants: Wants::Visit };
        let errand = self.jobs.insert(Job::Errand(Box::new(errand)));
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.blocked = Some(errand);
        }
        self.core.mail.stats.blocked += 1;
        if timeout_ms > 0 {
            self.core.set_timer(timeout_ms.saturating_mul(1000), Timer::Deadline { job: errand });
        }
        let home = self.near_home(&key);
        self.say_near(home, NearWord::Visit { errand, key, lease_us, request });
    }

    fn end_errand(&mut self, errand: u64) -> Option<Box<Errand>> {
        let Some(Job::Errand(ended)) = self.jobs.remove(errand) else { return None };
        if matches!(ended.wants, Wants::Visit) {
            self.core.mail.stats.blocked -= 1;
            if let Some(session) = self.sessions.get_mut(ended.target.session.0) {
                session.blocked = None;
            }
        }
        Some(ended)
    }

    /// A client waits in vain, because its time is over or `CLIENT UNBLOCK` has ended its wait, and is told
    /// so; or it is gone.
    pub(in crate::gateway) fn end_visit(&mut self, errand: u64, reply: Option<Reply>) {
        let Some(ended) = self.end_errand(errand) else { return };
        let home = self.near_home(&ended.key);
        self.say_near(home, NearWord::Leave { errand, key: ended.key });
        if let Some(reply) = reply {
            self.finish(ended.target, reply);
        }
    }

    /// Whether an operation may be about a lock that a gateway of this server keeps.
    #[inline]
    pub(in crate::gateway) fn may_be_near(&self, op: &AnyOp) -> bool {
        matches!(op, AnyOp::Lock(_))
            && !(self.near_locks.is_empty() && self.kept_elsewhere.is_empty())
    }

    /// Asks the gateway that keeps the lock about an operation. None if there is none, or it is no matter of
    /// a stay; false if it must wait until everything that the client has sent before is answered: what it
    /// has done under the lock comes before whoever is let in next.
    pub(in crate::gateway) fn about_stay(
        &mut self,
        id: SessionId,
        key: &Blob,
        op: &AnyOp,
    ) -> Option<bool> {
        if !matches!(op, AnyOp::Lock(Op::Release(_) | Op::Renew(..) | Op::Held(_)))
            || !(self.near_locks.contains_key(key) || self.kept_elsewhere.contains(key))
        {
            return None;
        }
        if !self.sessions.get(id.0)?.queue.is_empty() {
            return Some(false);
        }
        let request = self.take_request(id);
        let target = self.place(id, None);
        self.bar(target);
        let wants = Wants::Answer(op.clone(), request.clone());
        let errand = Errand { target, key: key.clone(), wants };
        let errand = self.jobs.insert(Job::Errand(Box::new(errand)));
        let (key, op, home) = (key.clone(), op.clone(), self.near_home(key));
        self.say_near(home, NearWord::About { errand, key, op, request });
        Some(true)
    }

    fn near_answer(&mut self, errand: u64, reply: Option<Reply>) {
        let Some(ended) = self.end_errand(errand) else { return };
        let Errand { target, key, wants } = *ended;
        match (reply, wants) {
            (Some(reply), _) => self.finish(target, reply),
            (None, Wants::Answer(op, None)) => self.send_single(target, key, op),
            (None, Wants::Answer(op, request)) => {
                let (shard, mut work) = (self.core.mail.shard_of(&key), Work::default());
                work.add(vec![(key, op)], None);
                let ops = SmallVec::from_vec(work.ops);
                let finish = Finish::new(work.outcomes, Form::One, None, None);
                self.apply_there(target, shard, Apply { ops, request, ..Apply::default() }, finish);
            }
            (None, Wants::Visit) => self.finish(target, Reply::Nil),
        }
    }
}

/// Between the two.
impl Gateway {
    pub(in crate::gateway::waiting::near) fn say_near(&mut self, to: GatewayId, word: NearWord) {
        if to == self.core.config.id {
            self.hear_near(to, word);
        } else {
            self.core.mail.outputs.push_back(Output::Near { to, word });
        }
    }

    pub(in crate::gateway::waiting::near) fn tell_near(
        &mut self,
        (gateway, errand): Caller,
        reply: Option<Reply>,
    ) {
        self.say_near(gateway, NearWord::Told { errand, reply });
    }

    /// Another gateway of this server says something about locks that are kept for clients.
    pub fn near_told(&mut self, now: Now, from: GatewayId, word: NearWord) {
        self.core.now = now;
        self.hear_near(from, word);
        self.settle();
    }

    fn hear_near(&mut self, from: GatewayId, word: NearWord) {
        match word {
            NearWord::Visit { errand, key, lease_us, request } => {
                let visit = Visit { caller: (from, errand), lease_us, request };
                self.receive(&key, visit);
            }
            NearWord::Leave { errand, key } => self.leaves((from, errand), &key),
            NearWord::About { errand, key, op, request } => {
                let caller = (from, errand);
                match self.near_locks.get(&key).copied() {
                    Some(lock) => self.asked_about_stay(caller, lock, &op, request),
                    None => self.tell_near(caller, None),
                }
            }
            NearWord::Told { errand, reply } => self.near_answer(errand, reply),
            NearWord::Keeps { key, lock } => {
                self.kept_elsewhere.insert(key);
                self.say_near(from, NearWord::Heard { lock });
            }
            NearWord::Heard { lock } => {
                if let Some(near) = self.near(lock) {
                    near.unheard = near.unheard.saturating_sub(1);
                }
                self.look_at_near(lock);
            }
            NearWord::Ends { key } => {
                self.kept_elsewhere.swap_remove(&key);
            }
        }
    }
}

/// The side of the lock.
impl Gateway {
    fn receive(&mut self, key: &Blob, visit: Visit) {
        let now_us = self.core.now.mono_us;
        let Some(lock) = self.near_lock(key) else {
            let text = "this server keeps too many locks for its clients already";
            return self.tell_near(visit.caller, Some(ErrorReply::new("BUSY", text).into()));
        };
        let Some(near) = self.near(lock) else { return };
        if let Some(stay) = &mut near.inside
            && visit.request.is_some()
            && stay.request == visit.request
            && stay.until_us > now_us
        {
            let token = stay.token;
            stay.told.push(visit.caller);
            return self.tell_near(visit.caller, Some(Reply::Int(token as i64)));
        }
        near.waiting.push_back(visit);
        self.look_at_near(lock);
    }

    /// Somebody who waited is gone. If it was let in meanwhile, it has not heard that.
    fn leaves(&mut self, caller: Caller, key: &Blob) {
        let Some(lock) = self.near_locks.get(key).copied() else { return };
        let Some(near) = self.near(lock) else { return };
        near.waiting.retain(|visit| visit.caller != caller);
        if let Some(stay) = &mut near.inside {
            let before = stay.told.len();
            stay.told.retain(|told| *told != caller);
            if before > 0 && stay.told.is_empty() {
                near.inside = None;
            }
        }
        self.look_at_near(lock);
    }

    fn asked_about_stay(
        &mut self,
        caller: Caller,
        lock: u64,
        op: &AnyOp,
        request: Option<RequestId>,
    ) {
        let AnyOp::Lock(op @ (Op::Release(token) | Op::Renew(token, _) | Op::Held(token))) = op
        else {
            return self.tell_near(caller, None);
        };
        let (token, now_us) = (*token, self.core.now.mono_us);
        let Some(near) = self.near(lock) else { return };
        if matches!(op, Op::Release(_)) && request.is_some() && near.ended_by == request {
            return self.tell_near(caller, Some(Reply::Int(1)));
        }
        let known = |near: &Near| {
            near.held.as_ref().is_some_and(|held| (held.first + 1..held.end).contains(&token))
        };
        if !known(near) {
            return self.tell_near(caller, None);
        }
        match op {
            Op::Renew(_, lease_ms) => self.renew_stay(caller, lock, token, *lease_ms),
            Op::Release(_) => {
                let was_in = near.stay(token, now_us).is_some();
                if was_in {
                    (near.inside, near.ended_by) = (None, request);
                }
                self.tell_near(caller, Some(Reply::Int(was_in.into())));
                self.look_at_near(lock);
            }
            _ => {
                let until_us = near.stay(token, now_us).map_or(now_us, |stay| stay.until_us);
                let left_ms = (until_us - now_us).div_ceil(1000) as i64;
                self.tell_near(caller, Some(Reply::Int(left_ms)));
            }
        }
    }

    fn renew_stay(&mut self, caller: Caller, lock: u64, token: u64, lease_ms: Option<u64>) {
        let now_us = self.core.now.mono_us;
        if lease_ms.is_some_and(|ms| ms > NEAR_LEASE_MS_MAX) {
            return self.tell_near(caller, Some(adt::lock::near_lease_too_long().into()));
        }
        let Some(near) = self.near(lock) else { return };
        let held_us = near.held.as_ref().map_or(0, |held| held.until_us);
        let Some(stay) = near.stay(token, now_us) else {
            return self.tell_near(caller, Some(Reply::Int(0)));
        };
        stay.lease_us = lease_ms.map_or(stay.lease_us, |ms| ms * 1000);
        let lease_us = stay.lease_us;
        if held_us >= now_us + lease_us {
            stay.until_us = now_us + lease_us;
            return self.tell_near(caller, Some(Reply::Int(1)));
        }
        self.renew_near(lock, lease_us, Some((caller, token)));
    }

    /// The lease that a client wanted anew rests on one of the gateway's, which was asked for. If that was
    /// long on its way it is asked for once more, as long as the stay lasts.
    pub(in crate::gateway::waiting::near) fn stay_renewed(
        &mut self,
        lock: u64,
        (caller, token): (Caller, u64),
        reply: Reply,
    ) {
        if reply.is_error() {
            self.tell_near(caller, Some(reply));
        } else if self.near(lock).is_some() {
            self.renew_stay(caller, lock, token, None);
        } else {
            self.tell_near(caller, Some(Reply::Int(0)));
        }
    }
}

impl Near {
    /// Who is in with a token.
    fn stay(&mut self, token: u64, now_us: u64) -> Option<&mut Stay> {
        self.inside.as_mut().filter(|stay| stay.token == token && stay.until_us > now_us)
    }
}
