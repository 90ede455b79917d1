//! Locks that a gateway keeps for the clients that are connected to it (`LOCK.ACQUIRE key NEAR`).
//!
//! The gateway asks for the lock once, with a block of tokens, and lets its clients in one after the
//! other, each under a token of its own: a hand-over among them is no message to the shard and no write
//! to the log. It hears from the shard when somebody else wants the lock (`LOCK.WANTED`). Then it lets in
//! so many more at most, and gives the lock back: the others wait for a bounded number of stays. (P6 and P9
//! of "The cost of consensus" in the project's study; lock cohorting: Dice, Marathe, Shavit, 2012.)
//!
//! Nobody is promised more than the gateway has itself: a client is let in, and its lease renewed, only
//! if the gateway's own lease, counted from before it was asked for, ends later. So whoever believes in
//! its lease is right as far as the clocks are. If the gateway is lost, the lock is held until its lease
//! ends, and nobody is let in meanwhile.

use super::api::SessionId;
use super::dispatch::too_new;
use super::mail::{Pending, Target};
use super::response::unexpected;
use super::timer::Timer;
use super::{Gateway, Job};
use crate::entry::Apply;
use crate::level::Level;
use crate::limits::{
    NEAR_LEASE_MORE_US, NEAR_LISTEN_AGAIN_US, NEAR_LOCKS_MAX, NEAR_STAYS_MAX, NEAR_TOKENS,
};
use crate::message::{Age, Answer, Body, RequestId, ShardId};
use adt::lock::{Grant, LEASE_MS_MAX, Op, Share};
use adt::{Awaiting, Blob, ErrorReply, Op as AnyOp, Reply};
use smallvec::smallvec;
use std::collections::VecDeque;

/// A session that waits for a lock that the gateway keeps.
pub(super) struct Visit {
    target: Target,
    lock: u64,
    lease_us: u64,
    request: Option<RequestId>,
}

/// A lock that the gateway keeps, or wants to.
pub(super) struct Near {
    key: Blob,
    /// Who waits, the next one first: visits.
    waiting: VecDeque<u64>,
    inside: Option<Stay>,
    held: Option<Held>,
    /// It is asked for: at which shard, and the token of the request.
    asking: Option<(ShardId, u64)>,
    renewing: bool,
    /// The name and the last number of requests that must not be carried out twice.
    name: Blob,
    requests: u64,
    /// When it is looked at next, on the monotonic clock in microseconds.
    looks_us: u64,
}

/// Who is in.
struct Stay {
    token: u64,
    lease_us: u64,
    until_us: u64,
    /// Whoever asks again under this number is in already.
    request: Option<RequestId>,
}

/// What the gateway has.
struct Held {
    first: u64,
    /// The next token, and the one behind the last.
    next: u64,
    end: u64,
    until_us: u64,
    recalled: bool,
    /// How many were let in since.
    let_in: u32,
    listening: bool,
    listens_from_us: u64,
}

impl Held {
    fn is_over(&self) -> bool {
        self.next >= self.end || self.recalled && self.let_in >= NEAR_STAYS_MAX
    }
}

/// What the gateway has asked a shard, of a lock that it keeps.
#[derive(Debug)]
pub(super) enum Asked {
    /// The lock.
    Lock { since_us: u64, lease_us: u64 },
    /// Another lease of the grant with this token; and who waits for it, in with which token.
    Lease { first: u64, since_us: u64, lease_us: u64, asks: Option<(Target, u64)> },
    /// Whether others want what it has by this token.
    Wanted { first: u64 },
    /// That it is given back.
    Return,
}

fn whole_ms(us: u64) -> u64 {
    us.div_ceil(1000).clamp(1, LEASE_MS_MAX)
}

impl Gateway {
    /// A client wants a lock that this gateway is to keep for all of its clients.
    pub(super) fn begin_visit(&mut self, id: SessionId, awaiting: Awaiting) {
        let Awaiting { key, op: AnyOp::Lock(Op::Acquire(grant)), timeout_ms, .. } = awaiting else {
            return self.reply(id, ErrorReply::syntax().into());
        };
        if !self.all_understand(Level::LOCKS) {
            return self.reply(id, too_new().into());
        }
        let request = self.take_request(id);
        let Some(lock) = self.near_lock(&key) else {
            let text = "this server keeps too many locks for its clients already";
            return self.reply(id, ErrorReply::new("BUSY", text).into());
        };
        if let Some(token) = self.inside_already(lock, request.as_ref()) {
            return self.reply(id, Reply::Int(token as i64));
        }
        let target = self.place(id, None);
        self.bar(target);
        let lease_us = grant.lease_ms * 1000;
        let visit = self.jobs.insert(Job::Visit(Visit { target, lock, lease_us, request }));
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.blocked = Some(visit);
        }
        self.mail.stats.blocked += 1;
        if timeout_ms > 0 {
            self.set_timer(timeout_ms.saturating_mul(1000), Timer::Deadline { job: visit });
        }
        if let Some(near) = self.near(lock) {
            near.waiting.push_back(visit);
        }
        self.look_at_near(lock);
    }

    fn near(&mut self, lock: u64) -> Option<&mut Near> {
        match self.jobs.get_mut(lock) {
            Some(Job::Near(near)) => Some(near),
            _ => None,
        }
    }

    fn near_lock(&mut self, key: &Blob) -> Option<u64> {
        if let Some(lock) = self.near_locks.get(key) {
            return Some(*lock);
        }
        if self.near_locks.len() >= NEAR_LOCKS_MAX {
            return None;
        }
        // An age is given once, by any gateway.
        let Age { began, gateway } = self.new_age();
        let name = format!("near {}.{} {}", gateway.machine.0, gateway.worker, began.0);
        let near = Near {
            key: key.clone(),
            name: Blob::from(name.as_str()),
            waiting: VecDeque::new(),
            inside: None,
            held: None,
            asking: None,
            renewing: false,
            requests: 0,
            looks_us: u64::MAX,
        };
        let lock = self.jobs.insert(Job::Near(Box::new(near)));
        self.near_locks.insert(key.clone(), lock);
        Some(lock)
    }

    /// The token of whoever has asked under this number before, if it is in.
    fn inside_already(&mut self, lock: u64, request: Option<&RequestId>) -> Option<u64> {
        let now_us = self.now.mono_us;
        let stay = self.near(lock)?.inside.as_ref()?;
        (request.is_some() && stay.request.as_ref() == request && stay.until_us > now_us)
            .then_some(stay.token)
    }

    /// A client does not wait any more: where its reply goes.
    fn leave_visit(&mut self, job: u64) -> Option<Target> {
        let Some(Job::Visit(visit)) = self.jobs.remove(job) else { return None };
        self.mail.stats.blocked -= 1;
        if let Some(session) = self.sessions.get_mut(visit.target.session.0) {
            session.blocked = None;
        }
        if let Some(near) = self.near(visit.lock) {
            near.waiting.retain(|waiting| *waiting != job);
        }
        Some(visit.target)
    }

    /// A client waits in vain, because its time is over or `CLIENT UNBLOCK` has ended its wait, and is told
    /// so; or it is gone.
    pub(super) fn end_visit(&mut self, job: u64, reply: Option<Reply>) {
        let Some(Job::Visit(visit)) = self.jobs.get(job) else { return };
        let lock = visit.lock;
        if let (Some(target), Some(reply)) = (self.leave_visit(job), reply) {
            self.finish(target, reply);
        }
        self.look_at_near(lock);
    }

    /// Does whatever can be done now, and sees to it that it is looked at again in time.
    pub(super) fn look_at_near(&mut self, lock: u64) {
        let now_us = self.now.mono_us;
        let Some(near) = self.near(lock) else { return };
        if near.inside.as_ref().is_some_and(|stay| stay.until_us <= now_us) {
            near.inside = None;
        }
        let lapsed = near.held.as_ref().is_some_and(|held| held.until_us <= now_us);
        if lapsed && !near.renewing {
            near.inside = None;
            self.give_back(lock);
        }
        while self.let_in_next(lock) {}
        let Some(near) = self.near(lock) else { return };
        let idle = near.inside.is_none() && near.waiting.is_empty();
        if idle && near.held.as_ref().is_some_and(|held| held.recalled) {
            self.give_back(lock);
        }
        self.listen(lock);
        let Some(near) = self.near(lock) else { return };
        if near.held.is_none() && near.waiting.is_empty() {
            if let Some((shard, token)) = near.asking.take() {
                self.mail.withdraw(shard, token, Body::Unblock);
            }
            let Some(near) = self.near(lock) else { return };
            let key = near.key.clone();
            self.near_locks.swap_remove(&key);
            self.jobs.remove(lock);
            return;
        }
        let stay = near.inside.as_ref().map(|stay| stay.until_us);
        let held = near.held.as_ref().map(|held| match held.listening {
            true => held.until_us,
            false => held.until_us.min(held.listens_from_us),
        });
        let next_us = stay.into_iter().chain(held).min().unwrap_or(u64::MAX);
        if next_us != near.looks_us && next_us < u64::MAX {
            near.looks_us = next_us;
            self.set_timer(next_us.saturating_sub(now_us).max(1), Timer::Near { job: lock });
        }
    }

    /// The moment has come to look again.
    pub(super) fn near_due(&mut self, lock: u64) {
        if let Some(near) = self.near(lock) {
            near.looks_us = u64::MAX;
        }
        self.look_at_near(lock);
    }

    /// Lets in whoever is next; false if that cannot be yet, or nobody waits.
    fn let_in_next(&mut self, lock: u64) -> bool {
        let now_us = self.now.mono_us;
        let Some(next) = self.near(lock).and_then(|near| near.waiting.front().copied()) else {
            return false;
        };
        let Some(Job::Visit(visit)) = self.jobs.get(next) else { return false };
        let (lease_us, request) = (visit.lease_us, visit.request.clone());
        let Some(near) = self.near(lock) else { return false };
        if near.inside.is_some() {
            return false;
        }
        let Some(held) = &mut near.held else {
            self.ask_for_lock(lock, lease_us);
            return false;
        };
        if held.is_over() {
            self.give_back(lock);
            return true;
        }
        let left_us = held.until_us - now_us;
        if left_us < lease_us {
            self.renew_near(lock, lease_us, None);
            return false;
        }
        let token = held.next;
        held.next += 1;
        held.let_in += u32::from(held.recalled);
        near.inside = Some(Stay { token, lease_us, until_us: now_us + lease_us, request });
        if left_us < lease_us + lease_us / 2 && !near.renewing {
            // In time for whoever comes next.
            self.renew_near(lock, lease_us, None);
        }
        if let Some(target) = self.leave_visit(next) {
            self.finish(target, Reply::Int(i64::try_from(token).unwrap_or(i64::MAX)));
        }
        true
    }

    /// Twice what clients are promised, so that it is renewed once in that time, and some for messages.
    fn near_lease_us(lease_us: u64) -> u64 {
        lease_us.saturating_mul(2).saturating_add(NEAR_LEASE_MORE_US).min(LEASE_MS_MAX * 1000)
    }

    fn near_request(&mut self, lock: u64) -> Option<RequestId> {
        let near = self.near(lock)?;
        near.requests += 1;
        Some(RequestId { client: near.name.clone(), number: near.requests })
    }

    fn ask_for_lock(&mut self, lock: u64, lease_us: u64) {
        let (id, since_us) = (self.config.id, self.now.mono_us);
        let Some(near) = self.near(lock).filter(|near| near.asking.is_none()) else { return };
        let key = near.key.clone();
        let lease_us = Self::near_lease_us(lease_us);
        let grant = Grant {
            wait: true,
            lease_ms: whole_ms(lease_us),
            share: Share::Alone,
            owner: Blob::from(format!("near {}.{}", id.machine.0, id.worker).as_str()),
            detect: false,
            value: None,
            tokens: NEAR_TOKENS,
        };
        let request = self.near_request(lock);
        let op = AnyOp::Lock(Op::Acquire(Box::new(grant)));
        let shard = self.mail.shard_of(&key);
        let apply = Apply { ops: smallvec![(key, op)], request, ..Apply::default() };
        let pending = Pending::Near { lock, asked: Asked::Lock { since_us, lease_us } };
        let token = self.mail.ask(shard, pending, Body::Await { apply, timeout_ms: 0 });
        if let Some(near) = self.near(lock) {
            near.asking = Some((shard, token));
        }
    }

    fn renew_near(&mut self, lock: u64, lease_us: u64, asks: Option<(Target, u64)>) {
        let since_us = self.now.mono_us;
        let lease_us = Self::near_lease_us(lease_us);
        let Some(near) = self.near(lock).filter(|near| asks.is_some() || !near.renewing) else {
            return;
        };
        let Some(held) = &near.held else { return };
        let (first, key) = (held.first, near.key.clone());
        near.renewing = true;
        let op = AnyOp::Lock(Op::Renew(first, Some(whole_ms(lease_us))));
        let shard = self.mail.shard_of(&key);
        let apply = Apply { ops: smallvec![(key, op)], ..Apply::default() };
        let asked = Asked::Lease { first, since_us, lease_us, asks };
        self.mail.ask(shard, Pending::Near { lock, asked }, Body::Apply(apply));
    }

    fn give_back(&mut self, lock: u64) {
        let request = self.near_request(lock);
        let Some(near) = self.near(lock) else { return };
        let Some(held) = near.held.take() else { return };
        let key = near.key.clone();
        let op = AnyOp::Lock(Op::Release(held.first));
        let shard = self.mail.shard_of(&key);
        let apply = Apply { ops: smallvec![(key, op)], request, ..Apply::default() };
        let pending = Pending::Near { lock, asked: Asked::Return };
        self.mail.ask(shard, pending, Body::Apply(apply));
    }

    fn listen(&mut self, lock: u64) {
        let now_us = self.now.mono_us;
        let Some(near) = self.near(lock) else { return };
        let Some(held) = &mut near.held else { return };
        if held.listening || held.recalled || held.listens_from_us > now_us {
            return;
        }
        held.listening = true;
        let (first, key) = (held.first, near.key.clone());
        let shard = self.mail.shard_of(&key);
        let op = AnyOp::Lock(Op::Wanted(first));
        let apply = Apply { ops: smallvec![(key, op)], ..Apply::default() };
        let pending = Pending::Near { lock, asked: Asked::Wanted { first } };
        self.mail.ask(shard, pending, Body::Await { apply, timeout_ms: 0 });
    }

    /// A shard has answered.
    pub(super) fn near_answered(&mut self, lock: u64, asked: Asked, answer: Answer) {
        let reply = match answer {
            Answer::Replies(mut replies) | Answer::Repeated(mut replies) if replies.len() == 1 => {
                replies.remove(0)
            }
            Answer::Reply(reply) => reply,
            other => unexpected(&other),
        };
        match asked {
            Asked::Lock { since_us, lease_us } => {
                self.near_granted(lock, since_us + lease_us, reply)
            }
            Asked::Lease { first, since_us, lease_us, asks } => {
                self.near_renewed(lock, first, since_us + lease_us, &reply);
                if let Some(asks) = asks {
                    self.stay_renewed(lock, asks, reply);
                }
            }
            Asked::Wanted { first } => self.near_wanted(lock, first, &reply),
            Asked::Return => {}
        }
        self.look_at_near(lock);
    }

    /// The lease has begun when the lock was granted, which may be any time since it was asked for. What of
    /// it is certain is counted from there; if that is over already, it is renewed first.
    fn near_granted(&mut self, lock: u64, until_us: u64, reply: Reply) {
        let now_us = self.now.mono_us;
        let Some(near) = self.near(lock) else { return };
        near.asking = None;
        let Reply::Int(first) = reply else {
            for visit in near.waiting.clone() {
                if let Some(target) = self.leave_visit(visit) {
                    self.finish(target, reply.clone());
                }
            }
            return;
        };
        let first = first.unsigned_abs();
        near.held = Some(Held {
            first,
            // The shard knows the grant by the first one, and would take who has that for the gateway.
            next: first + 1,
            end: first + u64::from(NEAR_TOKENS),
            until_us: until_us.max(now_us + 1),
            recalled: false,
            let_in: 0,
            listening: false,
            listens_from_us: now_us,
        });
    }

    fn near_renewed(&mut self, lock: u64, first: u64, until_us: u64, reply: &Reply) {
        let Some(near) = self.near(lock) else { return };
        near.renewing = false;
        let Some(held) = near.held.as_mut().filter(|held| held.first == first) else { return };
        match reply {
            Reply::Int(1) => held.until_us = held.until_us.max(until_us),
            Reply::Int(_) => (near.held, near.inside) = (None, None),
            // It may have been renewed or not; who waits asks again when the lease has ended.
            _ => {}
        }
    }

    fn near_wanted(&mut self, lock: u64, first: u64, reply: &Reply) {
        let again_us = self.now.mono_us + NEAR_LISTEN_AGAIN_US;
        let Some(near) = self.near(lock) else { return };
        let Some(held) = near.held.as_mut().filter(|held| held.first == first) else { return };
        held.listening = false;
        match reply {
            Reply::Int(0) => (near.held, near.inside) = (None, None),
            Reply::Int(_) => held.recalled = true,
            _ => held.listens_from_us = again_us,
        }
    }
}

/// What a client says about a stay that this gateway has let it begin.
impl Gateway {
    /// Whether an operation may be about a lock that the gateway keeps.
    #[inline]
    pub(super) fn may_be_near(&self, op: &AnyOp) -> bool {
        matches!(op, AnyOp::Lock(_)) && !self.near_locks.is_empty()
    }

    /// Answers an operation that is about a stay. None if it is not, and the shard has to answer it; false
    /// if it must wait until everything that the client has sent before is answered: what it has done
    /// under the lock comes before whoever is let in next.
    pub(super) fn about_stay(&mut self, id: SessionId, key: &Blob, op: &AnyOp) -> Option<bool> {
        let AnyOp::Lock(Op::Release(token) | Op::Renew(token, _) | Op::Held(token)) = op else {
            return None;
        };
        let (token, lock) = (*token, *self.near_locks.get(key)?);
        let held = self.near(lock)?.held.as_ref()?;
        if !(held.first + 1..held.end).contains(&token) {
            return None;
        }
        if !self.sessions.get(id.0)?.queue.is_empty() {
            return Some(false);
        }
        self.take_request(id);
        match op {
            AnyOp::Lock(Op::Renew(_, lease_ms)) => self.renew_stay(id, lock, token, *lease_ms),
            AnyOp::Lock(Op::Release(_)) => {
                let was_in = self.stay(lock, token).is_some();
                if let Some(near) = self.near(lock).filter(|_| was_in) {
                    near.inside = None;
                }
                self.reply(id, Reply::Int(was_in.into()));
                self.look_at_near(lock);
            }
            _ => {
                let now_us = self.now.mono_us;
                let until_us = self.stay(lock, token).map_or(now_us, |stay| stay.until_us);
                self.reply(id, Reply::Int((until_us - now_us).div_ceil(1000) as i64));
            }
        }
        Some(true)
    }

    /// Who is in with a token.
    fn stay(&mut self, lock: u64, token: u64) -> Option<&mut Stay> {
        let now_us = self.now.mono_us;
        let stay = self.near(lock)?.inside.as_mut()?;
        (stay.token == token && stay.until_us > now_us).then_some(stay)
    }

    fn renew_stay(&mut self, id: SessionId, lock: u64, token: u64, lease_ms: Option<u64>) {
        let now_us = self.now.mono_us;
        let held_us = self.near(lock).and_then(|near| Some(near.held.as_ref()?.until_us));
        let (Some(stay), Some(held_us)) = (self.stay(lock, token), held_us) else {
            return self.reply(id, Reply::Int(0));
        };
        stay.lease_us = lease_ms.map_or(stay.lease_us, |ms| ms * 1000);
        let lease_us = stay.lease_us;
        if held_us >= now_us + lease_us {
            stay.until_us = now_us + lease_us;
            return self.reply(id, Reply::Int(1));
        }
        let target = self.place(id, None);
        self.renew_near(lock, lease_us, Some((target, token)));
    }

    /// The lease that a client wanted anew rests on one of the gateway's, which was asked for.
    fn stay_renewed(&mut self, lock: u64, (target, token): (Target, u64), reply: Reply) {
        if reply.is_error() {
            return self.finish(target, reply);
        }
        let now_us = self.now.mono_us;
        let held_us = self.near(lock).and_then(|near| Some(near.held.as_ref()?.until_us));
        let renewed = match (self.stay(lock, token), held_us) {
            (Some(stay), Some(held_us)) => {
                stay.until_us = stay.until_us.max(held_us.min(now_us + stay.lease_us));
                true
            }
            _ => false,
        };
        self.finish(target, Reply::Int(renewed.into()));
    }
}
