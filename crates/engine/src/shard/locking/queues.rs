//! Requests that wait for locks: how they get into the queues of records, and out of them.
//!
//! A transaction that blocks an older request is asked to give way (*wounded*). A request in no stream
//! that has waited long for units of pipelines is *owed* its turn: a unit stands in the order of its
//! records from the moment at which it comes, so under ever new pipelines their records would never be
//! free. Units that come for its records are refused until it has gone ahead; their gateways dispatch
//! them again, a little later. To refuse them holds nothing up; to let them wait would, at other shards.

use super::claims::{Claims, age_of, txn_of, writes};
use super::locks::{Barrier, Claim, WaiterId};
use super::manager::{LockManager, LockWaiter, OpenTxn};
use crate::ids::{Age, GatewayId, Token, TxnId};
use crate::limits::{UNITS_OWE_US, UNITS_STUCK_US, WANTED_AFTER_US};
use crate::message::{Answer, Body, Notice, Refusal, Request};
use crate::now::Now;
use crate::pipeline::Group;
use crate::shard::core::ShardCore;
use crate::shard::streams::{RECOVERY, is_own};
use crate::shard::waiting::room::WaitingRoom;
use adt::{Blob, Reply};
use std::collections::BTreeSet;

impl LockManager {
    /// Obstacle to a request that comes now, if there is one.
    pub fn barrier(
        &self,
        core: &ShardCore,
        now: Now,
        request: &Request,
        claims: &Claims,
    ) -> Option<Barrier> {
        let (txn, place) = (txn_of(&request.body), self.place(now, request));
        claims.iter().find_map(|(key, claim)| {
            let record = core.state.get(key);
            let held = core.locks.barrier(key, claim, txn, record);
            held.or_else(|| core.locks.queued_before(key, claim, (place, txn), record, false))
        })
    }

    /// Whether a script would have to wait for records that it names beside those of its request.
    pub fn bars_script(
        &self,
        core: &ShardCore,
        now: Now,
        (gateway, token): (GatewayId, Token),
        keys: impl Iterator<Item = Blob>,
    ) -> bool {
        // Of a request only the sender counts, and that it is no transaction's.
        let request = Request { gateway, token, after: None, body: Body::Stats };
        let claims = keys.map(|key| (key, Claim::of_script())).collect();
        self.barrier(core, now, &request, &claims).is_some()
    }

    /// Obstacle to a waiting request, and the record on which it is. Older requests count first: those
    /// behind one another need not be looked at when what the first one waits for is gone. A phase of the
    /// record `hot` lets the request overtake there, but not jump the queues of other records.
    fn obstacle<'c>(
        core: &ShardCore,
        waiter: &'c LockWaiter,
        id: WaiterId,
        hot: Option<&Blob>,
    ) -> Option<(&'c Blob, Barrier)> {
        let (txn, place) = (waiter.txn(), (waiter.age, id));
        // Reads that take no lock never bar a request, so they need not wait for their turn.
        let is_read = matches!(
            waiter.request.body,
            Body::Read { .. } | Body::Snapshot { .. } | Body::Version { .. }
        );
        let queued = |key: &Blob, claim: &Claim| {
            let record = core.state.get(key);
            let overtakes = is_read || hot == Some(key);
            core.locks.queued_before(key, claim, (place, txn), record, overtakes)
        };
        let held =
            |key: &Blob, claim: &Claim| core.locks.barrier(key, claim, txn, core.state.get(key));
        let all = || waiter.claims.iter();
        let first = all().find_map(|(key, claim)| Some((key, queued(key, claim)?)));
        first.or_else(|| all().find_map(|(key, claim)| Some((key, held(key, claim)?))))
    }

    /// Puts a request that is barred into the queues, unless it is refused. Gives it back if too many
    /// wait.
    pub fn wait_or_refuse(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        request: Request,
        claims: Claims,
        barrier: Barrier,
    ) -> Option<Request> {
        let interactive = matches!(request.body, Body::Lock { .. });
        let no_wait = !core.config.concurrency.waits_for_locks() && interactive;
        if no_wait && !matches!(barrier, Barrier::InFlight(_)) {
            self.contention.count(core, &request, &claims);
            core.stats.refused += 1;
            let refused = Answer::Refused(Refusal::Conflict);
            core.answer(request.gateway, request.token, refused);
            return None;
        }
        // There are no more requests of the shard itself than streams.
        if self.is_full() && !is_own(&request.body) {
            core.stats.refused += 1;
            return Some(request);
        }
        self.contention.count(core, &request, &claims);
        self.enqueue(core, now, request, claims);
        None
    }

    /// Puts a request into the queues of all its records.
    pub fn enqueue(&mut self, core: &mut ShardCore, now: Now, request: Request, claims: Claims) {
        let id = self.next_waiter;
        self.next_waiter += 1;
        core.stats.waited += 1;
        let age = age_of(now, &request);
        for (key, claim) in &claims {
            core.locks.enqueue(key, (age, id), claim.clone());
        }
        let (gateway, token) = (request.gateway, request.token);
        if let Some(txn) = txn_of(&request.body) {
            if let Some(entry) = self.txns.get_mut(&txn) {
                entry.waiters.push(id);
            }
            core.notice(gateway, token, Notice::Blocked { txn });
        }
        let waiter = LockWaiter { age, since_us: now.mono_us, claims, request, stands: false };
        self.waiters.insert(id, Box::new(waiter));
        self.ages.insert((age, id));
        self.senders.insert((gateway, token.handle(), id));
        self.look(core, id, None);
    }

    /// Whether a waiting request can go. If it cannot, it stands behind what is in its way, and younger
    /// transactions in its way are asked to give way.
    fn look(&mut self, core: &mut ShardCore, id: WaiterId, hot: Option<&Blob>) -> bool {
        self.looks += 1;
        let Some(waiter) = self.waiters.get(&id) else { return false };
        let found = Self::obstacle(core, waiter, id, hot);
        let Some((key, barrier)) = found else { return true };
        if !waiter.stands {
            core.locks.stand_behind(key, barrier, (waiter.age, id));
            self.waiters.entry(id).and_modify(|waiter| waiter.stands = true);
            self.wound_for(core, id);
        }
        false
    }

    /// Notes that what a waiting request stood behind is gone.
    pub fn is_woken(&mut self, id: WaiterId) {
        self.waiters.entry(id).and_modify(|waiter| waiter.stands = false);
    }

    /// Takes a waiting request out of its queues if it can go; in a `phase` of `hot` it may overtake others
    /// that wait for that record. Writes cannot go while the shard stands still.
    pub fn admit(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        id: WaiterId,
        (hot, phase): (&Blob, bool),
    ) -> Option<(Request, Claims)> {
        let waiter = self.waiters.get(&id)?;
        if core.frozen && writes(&waiter.request.body) {
            return None;
        }
        if !self.look(core, id, phase.then_some(hot)) {
            return None;
        }
        let waiter = self.remove_waiter(id)?;
        let waited_us = now.mono_us.saturating_sub(waiter.since_us);
        core.stats.waited_us += waited_us;
        self.contention.waited(hot, waited_us);
        for (key, _) in &waiter.claims {
            core.locks.dequeue(key, (waiter.age, id));
        }
        if let Some(entry) = waiter.txn().and_then(|txn| self.txns.get_mut(&txn)) {
            entry.waiters.retain(|waiter| *waiter != id);
            entry.touched_us = now.mono_us;
        }
        Some((waiter.request, waiter.claims))
    }

    /// Asks younger holders that a waiting request is blocked by to give way.
    pub fn wound_for(&mut self, core: &mut ShardCore, id: WaiterId) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        if waiter.age >= self.youngest && self.leases == 0 {
            return;
        }
        let (age, own) = (waiter.age, waiter.txn());
        let is_asked = |txn: TxnId| {
            let told = || self.wounded.get(&txn).is_some_and(|by| !txn.is_lease() || *by <= age);
            (txn.age > age || txn.is_lease()) && Some(txn) != own && !told()
        };
        // A decided one is committed; those that must be carried out before it are not.
        let is_decided = |txn: TxnId| {
            let decided = |holder: &OpenTxn| holder.decided.is_some();
            self.txns.get(&txn).map_or_else(|| core.state.prepared.is_unit(txn), decided)
        };
        let mut hints: Vec<TxnId> = Vec::new();
        let mut seen = BTreeSet::new();
        for (key, claim) in &waiter.claims {
            let record = core.state.get(key);
            // Most holders are older. That is known sooner than whether they are in the way.
            let matters = |txn: TxnId| is_asked(txn) || is_decided(txn);
            for (txn, _) in core.locks.holders_against(key, claim, own, record, matters) {
                hints.extend(is_asked(txn).then_some(txn));
                if is_decided(txn) {
                    let awaited = core.state.prepared.awaited_by(txn, &mut seen);
                    hints.extend(awaited.filter(|txn| is_asked(*txn)));
                }
            }
        }
        for txn in hints {
            self.wound(core, txn, age);
        }
    }

    /// Asks a transaction to give way to a request of age `by`.
    pub fn wound(&mut self, core: &mut ShardCore, txn: TxnId, by: Age) {
        let Some(holder) = self.txns.get(&txn) else { return };
        let idle_us = core.state.mono_us().saturating_sub(holder.touched_us);
        let gateway = holder.gateway;
        self.wounded.insert(txn, by);
        core.stats.wounds += 1;
        core.notice(gateway, Token::default(), Notice::Wound { txn, idle_us, by });
    }

    /// Notifies transactions that hold records for which others have waited long, as long as these wait.
    pub fn tell_wanted(&mut self, core: &mut ShardCore, now: Now) {
        if self.waiters.is_empty() {
            return;
        }
        let long = |waiter: WaiterId| {
            let waiter = self.waiters.get(&waiter);
            waiter.is_some_and(|waiter| now.mono_us >= waiter.since_us + WANTED_AFTER_US)
        };
        let ShardCore { locks, outbox, .. } = core;
        let wanted = |txn: &OpenTxn| txn.keys.iter().any(|key| locks.first(key).is_some_and(long));
        for (txn, open) in self.txns.iter().filter(|(_, txn)| !txn.prepared && wanted(txn)) {
            outbox.notice(open.gateway, Token::default(), Notice::Wanted { txn: *txn });
        }
    }

    /// Row about the holders of a record: how many requests wait, for how many milliseconds the first, and
    /// the transactions that hold it.
    pub fn told_holders(&self, core: &ShardCore, now: Now, key: &Blob) -> Reply {
        let queue = core.locks.queue(key);
        let first = queue.first().and_then(|waiter| self.waiters.get(waiter));
        let waited_us = first.map_or(0, |waiter| now.mono_us.saturating_sub(waiter.since_us));
        let names = core.locks.holders(key).map(|txn| Reply::bulk(txn.to_string()));
        Reply::Array(vec![
            Reply::Int(queue.len() as i64),
            Reply::Int((waited_us / 1000) as i64),
            Reply::Array(names.collect()),
        ])
    }

    /// Whether a request that was taken waits for locks.
    pub fn holds_up(&self, gateway: GatewayId, token: Token) -> bool {
        let from = (gateway, token.handle(), WaiterId::MIN);
        self.senders.range(from..=(gateway, token.handle(), WaiterId::MAX)).next().is_some()
    }

    /// Refuses transactions that have waited long for units of pipelines: what the units wait for, at other
    /// shards, may wait for these transactions.
    pub fn refuse_stuck(&mut self, core: &mut ShardCore, now: Now) {
        let stuck: Vec<WaiterId> = self
            .waiters
            .iter()
            .filter(|(_, w)| w.txn().is_some())
            .filter(|(_, w)| now.mono_us >= w.since_us + UNITS_STUCK_US && waits_for_units(core, w))
            .map(|(id, _)| *id)
            .collect();
        for id in stuck {
            core.stats.refused += 1;
            self.refuse_waiter(core, id, Refusal::Conflict);
        }
    }

    /// Refuses a waiting request of a transaction, which stays open.
    pub(super) fn refuse_waiter(&mut self, core: &mut ShardCore, id: WaiterId, why: Refusal) {
        let Some(waiter) = self.take_waiter(core, id) else { return };
        if let Some(entry) = waiter.txn().and_then(|txn| self.txns.get_mut(&txn)) {
            entry.waiters.retain(|waiting| *waiting != id);
        }
        core.answer(waiter.request.gateway, waiter.request.token, Answer::Refused(why));
    }

    /// Whether a record that units of a pipeline are for is owed to a waiting request.
    pub fn is_owed(&self, group: &Group) -> bool {
        let owed = &self.owed;
        // A request that has gone ahead in the meantime waits no more.
        let waits = |key| owed.get(key).is_some_and(|waiter| self.waiters.contains_key(waiter));
        !owed.is_empty() && group.ops().any(|(key, _)| waits(key))
    }

    /// Notes which records are owed to requests that have waited long for units of pipelines. If no
    /// `units` hold records, there are none.
    pub fn note_owed(&mut self, core: &ShardCore, now: Now, units: bool) {
        self.owed.clear();
        if !units {
            return;
        }
        for (id, waiter) in &self.waiters {
            let waited = now.mono_us >= waiter.since_us.saturating_add(UNITS_OWE_US);
            // Units have their turn already.
            let unit = matches!(waiter.request.body, Body::Pipeline(_));
            if waited && !unit && waits_for_units(core, waiter) {
                let keys = waiter.claims.iter().map(|(key, _)| (key.clone(), *id));
                self.owed.extend(keys);
            }
        }
    }
}

/// Whether a waiting request waits for units of pipelines.
fn waits_for_units(core: &ShardCore, waiter: &LockWaiter) -> bool {
    waiter.claims.iter().any(|(key, claim)| {
        let record = core.state.get(key);
        let is_unit = |txn| txn == RECOVERY || core.state.prepared.is_unit(txn);
        core.locks.holders_against(key, claim, waiter.txn(), record, is_unit).next().is_some()
    })
}
