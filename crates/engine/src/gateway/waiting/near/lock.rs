//! A lock that a gateway keeps for the clients of its server: the gateway's grant, and the queue of
//! clients that are let in one after the other.

use super::purpose::{Caller, NearPurpose};
use crate::entry::Apply;
use crate::gateway::api::{NearWord, Output};
use crate::gateway::core::Core;
use crate::gateway::mail::Pending;
use crate::gateway::timer::Timer;
use crate::ids::{Age, GatewayId, RequestId};
use crate::limits::{NEAR_LEASE_MORE_US, NEAR_LISTEN_AGAIN_US, NEAR_STAYS_MAX, NEAR_TOKENS};
use crate::message::Body;
use adt::kinds::lock::{Grant, LEASE_MS_MAX, NEAR_LEASE_MS_MAX, Op, Share};
use adt::{Blob, Op as AnyOp, Reply};
use smallvec::{SmallVec, smallvec};
use std::collections::VecDeque;

/// Client that waits to be let in.
pub(super) struct Visit {
    pub caller: Caller,
    pub lease_us: u64,
    pub request: Option<RequestId>,
}

/// Lock that the gateway keeps, or wants to.
pub(super) struct NearLock {
    key: Blob,
    /// The next client first.
    waiting: VecDeque<Visit>,
    inside: Option<Stay>,
    held: Option<HeldGrant>,
    asking: bool,
    renewing: bool,
    /// Number of gateways that have not confirmed that this one keeps the lock: until then they would ask
    /// the shard about a stay.
    unheard: usize,
    /// Number of the request by which the last stay was ended, if it had one. Asked again, it gets the
    /// same answer.
    ended_by: Option<RequestId>,
    /// Name of the gateway's requests that must not be carried out twice, and the last one's number.
    name: Blob,
    requests: u64,
    /// When the timer is due, on the monotonic clock in microseconds.
    looks_us: u64,
}

/// Stay of the client that is in the lock.
struct Stay {
    token: u64,
    lease_us: u64,
    until_us: u64,
    /// A client that asks again under this number is in already.
    request: Option<RequestId>,
    /// Callers that were told of the stay. If all of them have left before they could hear it, the stay is
    /// over.
    told: SmallVec<[Caller; 1]>,
}

/// Grant that the gateway holds.
struct HeldGrant {
    first: u64,
    /// The next token to give to a client.
    next: u64,
    /// End of the block of tokens.
    end: u64,
    until_us: u64,
    /// Others want the lock.
    recalled: bool,
    /// Number of clients that were let in since.
    let_in: u32,
    listening: bool,
    listens_from_us: u64,
}

impl HeldGrant {
    fn is_over(&self) -> bool {
        self.next >= self.end || self.recalled && self.let_in >= NEAR_STAYS_MAX
    }
}

/// Surroundings of a lock while it handles an input.
pub(super) struct NearContext<'a> {
    pub core: &'a mut Core,
    /// Number of the lock.
    pub lock: u64,
    /// Messages of this gateway to itself.
    pub own: &'a mut VecDeque<NearWord>,
}

impl NearContext<'_> {
    /// Answers a request of a client.
    pub fn tell(&mut self, (gateway, errand): Caller, reply: Option<Reply>) {
        send(self.core, self.own, gateway, NearWord::Told { errand, reply });
    }

    fn ask_shard(&mut self, key: &Blob, purpose: NearPurpose, body: Body) {
        let shard = self.core.mail.shard_of(key);
        self.core.mail.ask(shard, Pending::Near { lock: self.lock, purpose }, body);
    }
}

/// Sends a message to a gateway of this server, which may be this one.
pub(super) fn send(core: &mut Core, own: &mut VecDeque<NearWord>, to: GatewayId, word: NearWord) {
    if to == core.config.id {
        own.push_back(word);
    } else {
        core.mail.outputs.push_back(Output::Near { to, word });
    }
}

fn whole_ms(us: u64) -> u64 {
    us.div_ceil(1000).clamp(1, LEASE_MS_MAX)
}

/// Lease that the gateway asks for: twice the lease that a client is promised, so that it is renewed once in
/// that time, and some more for messages. It exceeds a day for no lease that a client may ask for
/// ([`adt::kinds::lock::NEAR_LEASE_MS_MAX`]).
fn own_lease_us(lease_us: u64) -> u64 {
    lease_us.saturating_mul(2).saturating_add(NEAR_LEASE_MORE_US)
}

/// Part of its own lease that the gateway relies on: clocks of machines differ in speed by less than a tenth.
fn relied_us(lease_us: u64) -> u64 {
    lease_us - lease_us / 10
}

impl NearLock {
    /// A lock that the gateway does not hold yet.
    pub fn new(core: &mut Core, key: Blob) -> Self {
        // No other gateway gives the same age.
        let Age { began, gateway } = core.new_age();
        let name = format!("near {gateway} {}", began.0);
        Self {
            key,
            name: Blob::from(name.as_str()),
            waiting: VecDeque::new(),
            inside: None,
            held: None,
            asking: false,
            renewing: false,
            unheard: core.other_gateways().count(),
            ended_by: None,
            requests: 0,
            looks_us: u64::MAX,
        }
    }

    /// Key of the lock.
    pub fn key(&self) -> &Blob {
        &self.key
    }

    /// Does everything that is possible now, and sets a timer for the next look. False if the lock need not
    /// be kept any longer.
    pub fn advance(&mut self, cx: &mut NearContext<'_>) -> bool {
        let now_us = cx.core.now.mono_us;
        if self.inside.as_ref().is_some_and(|stay| stay.until_us <= now_us) {
            self.inside = None;
        }
        let lapsed = self.held.as_ref().is_some_and(|held| held.until_us <= now_us);
        if lapsed && !self.renewing {
            self.inside = None;
            self.give_back(cx);
        }
        while self.let_in_next(cx) {}
        let idle = self.inside.is_none() && self.waiting.is_empty();
        if idle && self.held.as_ref().is_some_and(|held| held.recalled) {
            self.give_back(cx);
        }
        self.listen(cx);
        if self.held.is_none() && self.waiting.is_empty() && !self.asking {
            return false;
        }
        let stay = self.inside.as_ref().map(|stay| stay.until_us);
        let held = self.held.as_ref().map(|held| match held.listening || held.recalled {
            true => held.until_us,
            false => held.until_us.min(held.listens_from_us),
        });
        // A lease that has lapsed and is being renewed is looked at when the answer is there.
        let next = stay.into_iter().chain(held).filter(|us| *us > now_us).min();
        if let Some(next_us) = next.filter(|us| *us != self.looks_us) {
            self.looks_us = next_us;
            cx.core.set_timer(next_us - now_us, Timer::Near { job: cx.lock });
        }
        true
    }

    /// Notes that the timer is over.
    pub fn timer_is_over(&mut self) {
        self.looks_us = u64::MAX;
    }

    /// Notes that another gateway knows that this one keeps the lock.
    pub fn is_heard(&mut self) {
        self.unheard = self.unheard.saturating_sub(1);
    }

    /// Lets the next client in; false if that is not possible yet, or no client waits.
    fn let_in_next(&mut self, cx: &mut NearContext<'_>) -> bool {
        let now_us = cx.core.now.mono_us;
        if self.inside.is_some() {
            return false;
        }
        let Some(lease_us) = self.waiting.front().map(|visit| visit.lease_us) else { return false };
        let Some(held) = &mut self.held else {
            self.ask_for_lock(cx, lease_us);
            return false;
        };
        if held.is_over() {
            self.give_back(cx);
            return true;
        }
        let left_us = held.until_us.saturating_sub(now_us);
        if left_us < lease_us {
            self.renew(cx, lease_us, None);
            return false;
        }
        if self.unheard > 0 {
            return false;
        }
        let Some(visit) = self.waiting.pop_front() else { return false };
        let token = held.next;
        held.next += 1;
        held.let_in += u32::from(held.recalled);
        let in_time = left_us < lease_us + lease_us / 2 && !self.renewing;
        let mut told: SmallVec<[Caller; 1]> = smallvec![visit.caller];
        // Other visits under its number are of the same client, which has asked again.
        if visit.request.is_some() {
            self.waiting.retain(|other| {
                let same = other.request == visit.request;
                if same {
                    told.push(other.caller);
                }
                !same
            });
        }
        let until_us = now_us + lease_us;
        let (request, callers) = (visit.request, told.clone());
        self.inside = Some(Stay { token, lease_us, until_us, request, told });
        cx.core.mail.stats.near_stays += 1;
        if in_time {
            // For the next client.
            self.renew(cx, lease_us, None);
        }
        for caller in callers {
            cx.tell(caller, Some(Reply::Int(token as i64)));
        }
        true
    }

    /// The number of the next request that must not be carried out twice.
    fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId { client: self.name.clone(), number: self.requests }
    }

    fn ask_for_lock(&mut self, cx: &mut NearContext<'_>, lease_us: u64) {
        let (id, since_us) = (cx.core.config.id, cx.core.now.mono_us);
        if std::mem::replace(&mut self.asking, true) {
            return;
        }
        let key = self.key.clone();
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
        let request = Some(self.next_request());
        let op = AnyOp::Lock(Op::Acquire(Box::new(grant)));
        let apply = Apply { ops: smallvec![(key, op)], request, ..Apply::default() };
        let purpose = NearPurpose::Lock { since_us, lease_us };
        cx.ask_shard(&self.key, purpose, Body::Await { apply, timeout_ms: 0 });
    }

    fn renew(&mut self, cx: &mut NearContext<'_>, lease_us: u64, asks: Option<(Caller, u64)>) {
        let since_us = cx.core.now.mono_us;
        let lease_us = own_lease_us(lease_us);
        if self.renewing && asks.is_none() {
            return;
        }
        let Some(first) = self.held.as_ref().map(|held| held.first) else { return };
        self.renewing = true;
        let op = AnyOp::Lock(Op::Renew(first, Some(whole_ms(lease_us))));
        let apply = Apply { ops: smallvec![(self.key.clone(), op)], ..Apply::default() };
        let purpose = NearPurpose::Lease { first, since_us, lease_us, asks };
        cx.ask_shard(&self.key, purpose, Body::Apply(apply));
    }

    fn give_back(&mut self, cx: &mut NearContext<'_>) {
        let request = Some(self.next_request());
        let Some(held) = self.held.take() else { return };
        let op = AnyOp::Lock(Op::Release(held.first));
        let apply = Apply { ops: smallvec![(self.key.clone(), op)], request, ..Apply::default() };
        cx.ask_shard(&self.key, NearPurpose::Return, Body::Apply(apply));
    }

    fn listen(&mut self, cx: &mut NearContext<'_>) {
        let now_us = cx.core.now.mono_us;
        let Some(held) = &mut self.held else { return };
        if held.listening || held.recalled || held.listens_from_us > now_us {
            return;
        }
        held.listening = true;
        let first = held.first;
        let op = AnyOp::Lock(Op::Wanted(first));
        let apply = Apply { ops: smallvec![(self.key.clone(), op)], ..Apply::default() };
        let body = Body::Await { apply, timeout_ms: 0 };
        cx.ask_shard(&self.key, NearPurpose::Wanted { first }, body);
    }

    /// Handles the reply of a shard.
    pub fn answered(&mut self, cx: &mut NearContext<'_>, purpose: NearPurpose, reply: Reply) {
        match purpose {
            NearPurpose::Lock { since_us, lease_us } => {
                self.granted(cx, since_us + relied_us(lease_us), &reply);
            }
            NearPurpose::Lease { first, since_us, lease_us, asks } => {
                self.renewed(first, since_us + relied_us(lease_us), &reply);
                if let Some(asks) = asks {
                    self.stay_renewed(cx, asks, reply);
                }
            }
            NearPurpose::Wanted { first } => self.wanted(cx, first, &reply),
            NearPurpose::Return => {}
        }
    }

    /// Takes the grant. Its lease has begun when the lock was granted, which may be any time since it was
    /// asked for. The part of it that is certain is counted from there; if that is over already, the lease
    /// is renewed first.
    fn granted(&mut self, cx: &mut NearContext<'_>, until_us: u64, reply: &Reply) {
        let now_us = cx.core.now.mono_us;
        self.asking = false;
        let Reply::Int(first) = reply else {
            for visit in std::mem::take(&mut self.waiting) {
                cx.tell(visit.caller, Some(reply.clone()));
            }
            return;
        };
        let first = first.unsigned_abs();
        self.held = Some(HeldGrant {
            first,
            // The shard knows the grant by the first token, and would take a client that has it for the
            // gateway.
            next: first + 1,
            end: first + u64::from(NEAR_TOKENS),
            until_us: until_us.max(now_us + 1),
            // The clients that wanted the lock have left: no other is to wait for it.
            recalled: self.waiting.is_empty(),
            let_in: 0,
            listening: false,
            listens_from_us: now_us,
        });
    }

    fn renewed(&mut self, first: u64, until_us: u64, reply: &Reply) {
        self.renewing = false;
        let Some(held) = self.held.as_mut().filter(|held| held.first == first) else { return };
        match reply {
            Reply::Int(1) => held.until_us = held.until_us.max(until_us),
            Reply::Int(_) => (self.held, self.inside) = (None, None),
            // The lease may have been renewed or not. The next client asks again when it has ended.
            _ => {}
        }
    }

    fn wanted(&mut self, cx: &mut NearContext<'_>, first: u64, reply: &Reply) {
        let again_us = cx.core.now.mono_us + NEAR_LISTEN_AGAIN_US;
        let Some(held) = self.held.as_mut().filter(|held| held.first == first) else { return };
        held.listening = false;
        match reply {
            Reply::Int(0) => (self.held, self.inside) = (None, None),
            Reply::Int(_) => held.recalled = true,
            _ => held.listens_from_us = again_us,
        }
    }

    /// Takes a client that wants to be let in; false if it is in already.
    pub fn receive(&mut self, cx: &mut NearContext<'_>, visit: Visit) -> bool {
        let now_us = cx.core.now.mono_us;
        if let Some(stay) = &mut self.inside
            && visit.request.is_some()
            && stay.request == visit.request
            && stay.until_us > now_us
        {
            let token = stay.token;
            stay.told.push(visit.caller);
            cx.tell(visit.caller, Some(Reply::Int(token as i64)));
            return false;
        }
        self.waiting.push_back(visit);
        true
    }

    /// Removes a client that has left. If it was let in meanwhile, it has not heard that.
    pub fn leaves(&mut self, caller: Caller) {
        self.waiting.retain(|visit| visit.caller != caller);
        if let Some(stay) = &mut self.inside {
            let before = stay.told.len();
            stay.told.retain(|told| *told != caller);
            if before > 0 && stay.told.is_empty() {
                self.inside = None;
            }
        }
    }

    /// Handles an operation about a stay; true if the next client may be let in now.
    pub fn asked(
        &mut self,
        cx: &mut NearContext<'_>,
        caller: Caller,
        op: &AnyOp,
        request: Option<RequestId>,
    ) -> bool {
        let AnyOp::Lock(op @ (Op::Release(token) | Op::Renew(token, _) | Op::Held(token))) = op
        else {
            cx.tell(caller, None);
            return false;
        };
        let (token, now_us) = (*token, cx.core.now.mono_us);
        if matches!(op, Op::Release(_)) && request.is_some() && self.ended_by == request {
            cx.tell(caller, Some(Reply::Int(1)));
            return false;
        }
        let tokens = self.held.as_ref().map(|held| held.first + 1..held.end);
        if !tokens.is_some_and(|tokens| tokens.contains(&token)) {
            cx.tell(caller, None);
            return false;
        }
        match op {
            Op::Renew(_, lease_ms) => {
                self.renew_stay(cx, caller, token, *lease_ms);
                false
            }
            Op::Release(_) => {
                let was_in = self.stay(token, now_us).is_some();
                if was_in {
                    (self.inside, self.ended_by) = (None, request);
                }
                cx.tell(caller, Some(Reply::Int(was_in.into())));
                true
            }
            _ => {
                let until_us = self.stay(token, now_us).map_or(now_us, |stay| stay.until_us);
                let left_ms = (until_us - now_us).div_ceil(1000) as i64;
                cx.tell(caller, Some(Reply::Int(left_ms)));
                false
            }
        }
    }

    fn renew_stay(
        &mut self,
        cx: &mut NearContext<'_>,
        caller: Caller,
        token: u64,
        lease_ms: Option<u64>,
    ) {
        let now_us = cx.core.now.mono_us;
        if lease_ms.is_some_and(|ms| ms > NEAR_LEASE_MS_MAX) {
            return cx.tell(caller, Some(adt::kinds::lock::near_lease_too_long().into()));
        }
        let held_us = self.held.as_ref().map_or(0, |held| held.until_us);
        let Some(stay) = self.stay(token, now_us) else {
            return cx.tell(caller, Some(Reply::Int(0)));
        };
        stay.lease_us = lease_ms.map_or(stay.lease_us, |ms| ms * 1000);
        let lease_us = stay.lease_us;
        if held_us >= now_us + lease_us {
            stay.until_us = now_us + lease_us;
            return cx.tell(caller, Some(Reply::Int(1)));
        }
        self.renew(cx, lease_us, Some((caller, token)));
    }

    /// Renews a client's lease, which rests on the gateway's own: that one has been renewed. If this took
    /// long, it is renewed once more, as long as the stay lasts.
    fn stay_renewed(
        &mut self,
        cx: &mut NearContext<'_>,
        (caller, token): (Caller, u64),
        reply: Reply,
    ) {
        if reply.is_error() {
            return cx.tell(caller, Some(reply));
        }
        self.renew_stay(cx, caller, token, None);
    }

    /// The stay with a token, if it lasts.
    fn stay(&mut self, token: u64, now_us: u64) -> Option<&mut Stay> {
        self.inside.as_mut().filter(|stay| stay.token == token && stay.until_us > now_us)
    }
}
