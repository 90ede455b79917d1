//! Locks that a gateway keeps for the clients of its server (`LOCK.ACQUIRE key NEAR`).
//!
//! The gateway asks for the lock once, with a block of tokens, and lets clients in one after the other,
//! each under a token of its own: a hand-over among them is no message to the shard and no write to the
//! log. It hears from the shard when somebody else wants the lock (`LOCK.WANTED`). Then it lets in so
//! many more at most, and gives the lock back: the others wait for a bounded number of stays. (P6 and P9
//! of "The cost of consensus" in the project's study; lock cohorting: Dice, Marathe, Shavit, 2012.)
//!
//! Nobody is promised more than the gateway has itself: a client is let in, and its lease renewed, only
//! if the gateway's own lease, counted from before it was asked for, ends later. So whoever believes in
//! its lease is right as far as the clocks are. If the gateway is lost, the lock is held until its lease
//! ends, and nobody is let in meanwhile.
//!
//! Of the gateways of a server one keeps a given lock, for the clients of all: [`visits`] is how it hears
//! from them. They share a process, so that they are there together or not at all.

mod visits;

use crate::entry::Apply;
use crate::gateway::api::NearWord;
use crate::gateway::mail::Pending;
use crate::gateway::routing::response::unexpected;
use crate::gateway::timer::Timer;
use crate::gateway::{Gateway, Job};
use crate::limits::{
    NEAR_LEASE_MORE_US, NEAR_LISTEN_AGAIN_US, NEAR_LOCKS_MAX, NEAR_STAYS_MAX, NEAR_TOKENS,
};
use crate::message::{Age, Answer, Body, GatewayId, RequestId};
use adt::lock::{Grant, LEASE_MS_MAX, Op, Share};
use adt::{Blob, Op as AnyOp, Reply};
use smallvec::{SmallVec, smallvec};
use std::collections::VecDeque;
pub(in crate::gateway) use visits::Errand;

/// Who has asked: a gateway of this server, and its number for it.
type Caller = (GatewayId, u64);

/// Somebody who waits to be let in.
struct Visit {
    caller: Caller,
    lease_us: u64,
    request: Option<RequestId>,
}

/// A lock that the gateway keeps, or wants to.
pub(in crate::gateway) struct Near {
    key: Blob,
    /// The next one first.
    waiting: VecDeque<Visit>,
    inside: Option<Stay>,
    held: Option<Held>,
    asking: bool,
    renewing: bool,
    /// So many gateways have not heard yet that this one keeps the lock: they would ask the shard about
    /// a stay.
    unheard: usize,
    /// The request by which the last stay was ended, if it had a number: asked again it is answered again.
    ended_by: Option<RequestId>,
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
    /// Who was told so. If all of them have left before they could hear it, nobody is in.
    told: SmallVec<[Caller; 1]>,
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
pub(in crate::gateway) enum Asked {
    /// The lock.
    Lock { since_us: u64, lease_us: u64 },
    /// Another lease of the grant with this token; and who waits for it, in with which token.
    Lease { first: u64, since_us: u64, lease_us: u64, asks: Option<(Caller, u64)> },
    /// Whether others want what it has by this token.
    Wanted { first: u64 },
    /// That it is given back.
    Return,
}

fn whole_ms(us: u64) -> u64 {
    us.div_ceil(1000).clamp(1, LEASE_MS_MAX)
}

/// The lease that the gateway asks for: twice what a client is promised, so that it is renewed once in that
/// time, and some for messages. It is longer than a day for nobody who may ask
/// ([`adt::lock::NEAR_LEASE_MS_MAX`]).
fn own_lease_us(lease_us: u64) -> u64 {
    lease_us.saturating_mul(2).saturating_add(NEAR_LEASE_MORE_US)
}

/// How much of its own lease the gateway relies on: clocks of machines differ in speed by less than a tenth.
fn relied_us(lease_us: u64) -> u64 {
    lease_us - lease_us / 10
}

impl Gateway {
    fn near(&mut self, lock: u64) -> Option<&mut Near> {
        match self.jobs.get_mut(lock) {
            Some(Job::Near(near)) => Some(near),
            _ => None,
        }
    }

    /// A lock that this gateway is to keep, if it keeps not too many.
    fn near_lock(&mut self, key: &Blob) -> Option<u64> {
        if let Some(lock) = self.near_locks.get(key) {
            return Some(*lock);
        }
        if self.near_locks.len() >= NEAR_LOCKS_MAX {
            return None;
        }
        // An age is given once, by any gateway.
        let Age { began, gateway } = self.new_age();
        let name = format!("near {gateway} {}", began.0);
        let near = Near {
            key: key.clone(),
            name: Blob::from(name.as_str()),
            waiting: VecDeque::new(),
            inside: None,
            held: None,
            asking: false,
            renewing: false,
            unheard: self.core.other_gateways().count(),
            ended_by: None,
            requests: 0,
            looks_us: u64::MAX,
        };
        let lock = self.jobs.insert(Job::Near(Box::new(near)));
        self.near_locks.insert(key.clone(), lock);
        for other in self.core.other_gateways() {
            self.say_near(other, NearWord::Keeps { key: key.clone(), lock });
        }
        Some(lock)
    }

    /// Does whatever can be done now, and sees to it that it is looked at again in time.
    fn look_at_near(&mut self, lock: u64) {
        let now_us = self.core.now.mono_us;
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
        if near.held.is_none() && near.waiting.is_empty() && !near.asking {
            return self.end_near(lock);
        }
        let stay = near.inside.as_ref().map(|stay| stay.until_us);
        let held = near.held.as_ref().map(|held| match held.listening || held.recalled {
            true => held.until_us,
            false => held.until_us.min(held.listens_from_us),
        });
        // What has lapsed and is being renewed is looked at when the answer is there.
        let next = stay.into_iter().chain(held).filter(|us| *us > now_us).min();
        if let Some(next_us) = next.filter(|us| *us != near.looks_us) {
            near.looks_us = next_us;
            self.core.set_timer(next_us - now_us, Timer::Near { job: lock });
        }
    }

    fn end_near(&mut self, lock: u64) {
        let Some(Job::Near(near)) = self.jobs.remove(lock) else { return };
        self.near_locks.swap_remove(&near.key);
        for other in self.core.other_gateways() {
            self.say_near(other, NearWord::Ends { key: near.key.clone() });
        }
    }

    /// The moment has come to look again.
    pub(in crate::gateway) fn near_due(&mut self, lock: u64) {
        if let Some(near) = self.near(lock) {
            near.looks_us = u64::MAX;
        }
        self.look_at_near(lock);
    }

    /// Lets in whoever is next; false if that cannot be yet, or nobody waits.
    fn let_in_next(&mut self, lock: u64) -> bool {
        let now_us = self.core.now.mono_us;
        let Some(near) = self.near(lock).filter(|near| near.inside.is_none()) else { return false };
        let Some(lease_us) = near.waiting.front().map(|visit| visit.lease_us) else { return false };
        let Some(held) = &mut near.held else {
            self.ask_for_lock(lock, lease_us);
            return false;
        };
        if held.is_over() {
            self.give_back(lock);
            return true;
        }
        let left_us = held.until_us.saturating_sub(now_us);
        if left_us < lease_us {
            self.renew_near(lock, lease_us, None);
            return false;
        }
        if near.unheard > 0 {
            return false;
        }
        let Some(visit) = near.waiting.pop_front() else { return false };
        let token = held.next;
        held.next += 1;
        held.let_in += u32::from(held.recalled);
        let in_time = left_us < lease_us + lease_us / 2 && !near.renewing;
        let mut told: SmallVec<[Caller; 1]> = smallvec![visit.caller];
        // Others under its number are the same client, who has asked again.
        if visit.request.is_some() {
            near.waiting.retain(|other| {
                let same = other.request == visit.request;
                if same {
                    told.push(other.caller);
                }
                !same
            });
        }
        let until_us = now_us + lease_us;
        let (request, callers) = (visit.request, told.clone());
        near.inside = Some(Stay { token, lease_us, until_us, request, told });
        self.core.mail.stats.near_stays += 1;
        if in_time {
            // For whoever comes next.
            self.renew_near(lock, lease_us, None);
        }
        for caller in callers {
            self.tell_near(caller, Some(Reply::Int(token as i64)));
        }
        true
    }

    /// The number of the next request that must not be carried out twice.
    fn near_request(&mut self, lock: u64) -> Option<RequestId> {
        let near = self.near(lock)?;
        near.requests += 1;
        Some(RequestId { client: near.name.clone(), number: near.requests })
    }

    fn ask_for_lock(&mut self, lock: u64, lease_us: u64) {
        let (id, since_us) = (self.core.config.id, self.core.now.mono_us);
        let Some(near) = self.near(lock).filter(|near| !near.asking) else { return };
        near.asking = true;
        let key = near.key.clone();
        let lease_us = own_lease_us(lease_us);
        let grant = Grant {
            wait: true,
            lease_ms: whole_ms(lease_us),
            share: Share::Alone,
            owner: Blob::from(format!("near {id}").as_str()),
            detect: false,
            value: None,
            tokens: NEAR_TOKENS,
            ticket: None,
        };
        let request = self.near_request(lock);
        let op = AnyOp::Lock(Op::Acquire(Box::new(grant)));
        let shard = self.core.mail.shard_of(&key);
        let apply = Apply { ops: smallvec![(key, op)], request, ..Apply::default() };
        let pending = Pending::Near { lock, asked: Asked::Lock { since_us, lease_us } };
        self.core.mail.ask(shard, pending, Body::Await { apply, timeout_ms: 0 });
    }

    fn renew_near(&mut self, lock: u64, lease_us: u64, asks: Option<(Caller, u64)>) {
        let since_us = self.core.now.mono_us;
        let lease_us = own_lease_us(lease_us);
        let Some(near) = self.near(lock).filter(|near| asks.is_some() || !near.renewing) else {
            return;
        };
        let Some(held) = &near.held else { return };
        let (first, key) = (held.first, near.key.clone());
        near.renewing = true;
        let op = AnyOp::Lock(Op::Renew(first, Some(whole_ms(lease_us))));
        let shard = self.core.mail.shard_of(&key);
        let apply = Apply { ops: smallvec![(key, op)], ..Apply::default() };
        let asked = Asked::Lease { first, since_us, lease_us, asks };
        self.core.mail.ask(shard, Pending::Near { lock, asked }, Body::Apply(apply));
    }

    fn give_back(&mut self, lock: u64) {
        let request = self.near_request(lock);
        let Some(near) = self.near(lock) else { return };
        let Some(held) = near.held.take() else { return };
        let key = near.key.clone();
        let op = AnyOp::Lock(Op::Release(held.first));
        let shard = self.core.mail.shard_of(&key);
        let apply = Apply { ops: smallvec![(key, op)], request, ..Apply::default() };
        let pending = Pending::Near { lock, asked: Asked::Return };
        self.core.mail.ask(shard, pending, Body::Apply(apply));
    }

    fn listen(&mut self, lock: u64) {
        let now_us = self.core.now.mono_us;
        let Some(near) = self.near(lock) else { return };
        let Some(held) = &mut near.held else { return };
        if held.listening || held.recalled || held.listens_from_us > now_us {
            return;
        }
        held.listening = true;
        let (first, key) = (held.first, near.key.clone());
        let shard = self.core.mail.shard_of(&key);
        let op = AnyOp::Lock(Op::Wanted(first));
        let apply = Apply { ops: smallvec![(key, op)], ..Apply::default() };
        let pending = Pending::Near { lock, asked: Asked::Wanted { first } };
        self.core.mail.ask(shard, pending, Body::Await { apply, timeout_ms: 0 });
    }

    /// A shard has answered.
    pub(in crate::gateway) fn near_answered(&mut self, lock: u64, asked: Asked, answer: Answer) {
        let reply = match answer {
            Answer::Replies(mut replies) | Answer::Repeated(mut replies) if replies.len() == 1 => {
                replies.remove(0)
            }
            Answer::Reply(reply) => reply,
            other => unexpected(&other),
        };
        match asked {
            Asked::Lock { since_us, lease_us } => {
                self.near_granted(lock, since_us + relied_us(lease_us), &reply)
            }
            Asked::Lease { first, since_us, lease_us, asks } => {
                self.near_renewed(lock, first, since_us + relied_us(lease_us), &reply);
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
    fn near_granted(&mut self, lock: u64, until_us: u64, reply: &Reply) {
        let now_us = self.core.now.mono_us;
        let Some(near) = self.near(lock) else { return };
        near.asking = false;
        let Reply::Int(first) = reply else {
            for visit in std::mem::take(&mut near.waiting) {
                self.tell_near(visit.caller, Some(reply.clone()));
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
            // Who wanted it has left: nobody else is to wait for it.
            recalled: near.waiting.is_empty(),
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
        let again_us = self.core.now.mono_us + NEAR_LISTEN_AGAIN_US;
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
