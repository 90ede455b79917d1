//! The lock manager: open transactions, the requests that wait for locks, and the links between them.
//!
//! The lock table ([`super::locks`]) decides what may go ahead. The manager knows to which transaction
//! and request each entry of the table belongs: it puts requests into the queues and takes them out,
//! grants locks, and ends transactions. Requests that it admits are given back to the shard, which
//! carries them out.

use super::claims::{Claims, age_of, claims_of, txn_of};
use super::contention::Contention;
use super::locks::{Claim, Place, WaiterId};
use super::whole::Whole;
use crate::entry::Prepare;
use crate::ids::{Age, GatewayId, MachineId, RequestId, Token, TxnId};
use crate::limits::{LOCK_WAITERS_BUSY, LOCK_WAITERS_MAX, ORPHAN_US};
use crate::message::{Answer, Body, Notice, Refusal, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::streams::is_own;
use crate::shard::tail::Recipient;
use crate::shard::waiting::room::WaitingRoom;
use crate::stats::ShardStats;
use adt::Blob;
use adt::collections::Map;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// How often requests that wait for locks are looked at, in microseconds.
const LOOK_US: u64 = 100_000;

/// A transaction that holds or waits for something here.
#[derive(Debug, Default)]
pub(super) struct OpenTxn {
    pub gateway: GatewayId,
    pub keys: SmallVec<[Blob; 4]>,
    pub touched_us: u64,
    pub waiters: SmallVec<[WaiterId; 1]>,
    /// Prepare that is held back; [`OpenTxn::probes`] has the transactions that hold it back.
    pub unlogged: Option<(Prepare, Recipient)>,
    pub probes: BTreeSet<TxnId>,
    /// Where the replies go once the transaction is executed.
    pub decided: Option<(GatewayId, Token)>,
    /// Other senders of the same decision, which want the replies as well.
    pub askers: SmallVec<[(GatewayId, Token); 1]>,
    /// The prepare is in the log.
    pub prepared: bool,
    /// The only record, which commits the transaction, is in the log.
    pub committing: bool,
    pub request: Option<RequestId>,
    /// An earlier leader has prepared it, and may have learnt of its decision.
    pub inherited: bool,
    /// A gateway of another process has asked for its fate, and may decide it.
    pub inquired: bool,
    /// Last log entry that its program was told something of before it was durable.
    pub rests_on: u64,
}

/// A request that waits for locks.
#[derive(Debug)]
pub(in crate::shard) struct LockWaiter {
    pub age: Age,
    pub since_us: u64,
    pub claims: Claims,
    pub request: Request,
    /// Whether it stands behind an obstacle, and is looked at when that is gone.
    pub stands: bool,
}

impl LockWaiter {
    /// The transaction that the request belongs to, if it is one for locks.
    pub(super) fn txn(&self) -> Option<TxnId> {
        txn_of(&self.request.body)
    }
}

/// Open transactions and waiting requests of a shard's leader.
#[derive(Debug, Default)]
pub(in crate::shard) struct LockManager {
    pub(super) txns: Map<TxnId, OpenTxn>,
    /// Transactions that were asked to give way, and the age of the oldest request that they block.
    pub(super) wounded: BTreeMap<TxnId, Age>,
    /// Request numbers under which something is not decided, with the transaction; none while a record
    /// that settles the number is on its way.
    pub(in crate::shard) open_requests: BTreeMap<RequestId, TxnId>,
    /// Inquiries whether an open request takes effect.
    pub(in crate::shard) resolving: BTreeMap<RequestId, Vec<Request>>,
    /// By prepared transaction: transactions, and groups of pipelines, that wait for word whether it is
    /// decided.
    pub(super) probing: BTreeMap<TxnId, Vec<TxnId>>,
    /// Groups of pipelines for which such word has come, and about which transaction.
    probed: Vec<(TxnId, TxnId)>,
    /// Prepared transactions that may have been decided without any sign of it here. See "Transactions
    /// that are prepared together" in `docs/internals/transactions/timestamps.md`.
    pub(super) doubtful: BTreeSet<TxnId>,
    pub(super) waiters: BTreeMap<WaiterId, Box<LockWaiter>>,
    pub(super) ages: BTreeSet<Place>,
    /// The waiting requests by their senders.
    pub(super) senders: BTreeSet<(GatewayId, u64, WaiterId)>,
    pub(super) next_waiter: WaiterId,
    /// Transactions that must not be prepared here, as soon as the record that says so is applied.
    pub(super) voiding: BTreeSet<TxnId>,
    pub(super) contention: Contention,
    /// Records for which a request has waited so long that no more units are let in, and the request.
    pub(super) owed: BTreeMap<Blob, WaiterId>,
    /// Transaction about all keys.
    pub whole: Whole,
    /// The youngest transaction of all that were here, and how many leases are: no request that is younger
    /// asks anything to give way, unless there are leases.
    pub(super) youngest: Age,
    pub(super) leases: usize,
    /// How often a transaction was told something before it was durable.
    pub(in crate::shard) reads_ahead: u64,
    /// How often a waiting request was looked at.
    pub(in crate::shard) looks: u64,
}

impl LockManager {
    /// Whether no transaction is here.
    pub fn is_free(&self) -> bool {
        self.txns.is_empty() && !self.whole.is_open()
    }

    /// Whether no request waits for locks.
    pub fn has_no_waiters(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Whether a transaction holds something here, or waits for it.
    pub fn knows(&self, txn: TxnId) -> bool {
        self.txns.contains_key(&txn)
    }

    /// Last log entry that the program of a transaction was told something of before it was durable.
    pub fn rests_on(&self, txn: TxnId) -> u64 {
        self.txns.get(&txn).map_or(0, |txn| txn.rests_on)
    }

    /// Gateway of a transaction that is open here.
    pub fn gateway_of(&self, txn: TxnId) -> Option<GatewayId> {
        self.txns.get(&txn).map(|txn| txn.gateway)
    }

    /// Whether a transaction's prepare is in the log.
    pub fn is_prepared(&self, txn: TxnId) -> bool {
        self.txns.get(&txn).is_some_and(|txn| txn.prepared)
    }

    /// Requests that wait for locks.
    pub fn waiting(&self) -> impl Iterator<Item = &LockWaiter> {
        self.waiters.values().map(|waiter| &**waiter)
    }

    /// Keys that prepared transactions hold.
    pub fn prepared_keys(&self) -> impl Iterator<Item = &Blob> {
        self.txns.values().filter(|txn| txn.prepared).flat_map(|txn| &txn.keys)
    }

    /// Whether some transaction is about to commit, or to vote.
    pub fn commits(&self) -> bool {
        let open = |txn: &OpenTxn| txn.prepared || txn.committing || txn.unlogged.is_some();
        self.txns.values().any(open)
    }

    /// Adds the sizes and the contention to the counters.
    pub fn count(&self, stats: &mut ShardStats) {
        stats.waiting = self.waiters.len() as u64;
        stats.conflicts = self.contention.conflicts();
        stats.hot_keys = self.contention.hot_keys();
    }

    /// Opens the transaction of a request for locks, unless it is refused: too many requests wait, and new
    /// transactions should come back later.
    pub fn open(&mut self, core: &mut ShardCore, now: Now, request: &Request) -> bool {
        let Some(txn) = txn_of(&request.body) else { return true };
        let busy = self.waiters.len() >= LOCK_WAITERS_BUSY;
        if busy && !self.knows(txn) && !matches!(request.body, Body::Prepare { .. }) {
            core.stats.refused += 1;
            core.answer(request.gateway, request.token, Answer::Refused(Refusal::Busy));
            return false;
        }
        let gateway = request.gateway;
        let (youngest, leases) = (&mut self.youngest, &mut self.leases);
        let entry = self.txns.entry(txn).or_insert_with(|| {
            *youngest = txn.age.max(*youngest);
            *leases += usize::from(txn.is_lease());
            OpenTxn { gateway, ..OpenTxn::default() }
        });
        entry.touched_us = now.mono_us;
        true
    }

    /// Claims of a request, without those on writes of its transaction that it holds already: it names all
    /// earlier writes on the record each time.
    pub fn new_claims(&self, core: &ShardCore, body: &Body) -> Claims {
        let mut claims = claims_of(body, &core.config.tags);
        let Body::Lock { txn, key, .. } = body else { return claims };
        let Some(asked) = claims.pop() else { return claims };
        // Both are in the order of its writes, so that each is not compared with all.
        let mut held = core.locks.held_early(key, *txn);
        claims.retain(|(_, claim)| {
            let found = held.clone().position(|held| held.op == claim.op);
            found.map(|at| held.nth(at)).is_none()
        });
        claims.push(asked);
        claims
    }

    /// Lets a transaction hold a record.
    pub fn hold(&mut self, core: &mut ShardCore, txn: TxnId, key: &Blob, claim: Claim) {
        let is_first = core.locks.hold(key, txn, claim);
        if let Some(entry) = self.txns.get_mut(&txn).filter(|_| is_first) {
            entry.keys.push(key.clone());
        }
    }

    /// Ends a transaction here: it holds nothing and waits for nothing any more.
    pub fn end(&mut self, core: &mut ShardCore, txn: TxnId) {
        self.whole.leave(txn);
        let Some(entry) = self.txns.swap_remove(&txn) else { return };
        if entry.rests_on > core.tail.applied() {
            // Nothing would decide it.
            core.delayed.take_prepare(txn);
        }
        self.wounded.remove(&txn);
        self.doubtful.remove(&txn);
        self.leases -= usize::from(txn.is_lease());
        if let Some(request) = entry.request
            && self.open_requests.get(&request) == Some(&txn)
        {
            self.close_request(core, &request);
        }
        for id in entry.waiters {
            self.take_waiter(core, id);
        }
        for key in entry.keys {
            core.locks.release(&key, txn);
        }
        self.probe_answered(core, txn);
    }

    pub(super) fn remove_waiter(&mut self, id: WaiterId) -> Option<Box<LockWaiter>> {
        let waiter = self.waiters.remove(&id)?;
        self.ages.remove(&(waiter.age, id));
        let Request { gateway, token, .. } = waiter.request;
        self.senders.remove(&(gateway, token.handle(), id));
        Some(waiter)
    }

    /// Takes a waiting request out of its queues.
    pub fn take_waiter(&mut self, core: &mut ShardCore, id: WaiterId) -> Option<Box<LockWaiter>> {
        let waiter = self.remove_waiter(id)?;
        for (key, _) in &waiter.claims {
            // A request may ask several things of one record.
            core.locks.dequeue(key, (waiter.age, id));
        }
        Some(waiter)
    }

    /// Takes the waiting requests out that `is` accepts.
    pub fn take_waiting(
        &mut self,
        core: &mut ShardCore,
        is: impl Fn(&LockWaiter) -> bool,
    ) -> Vec<Request> {
        let found = self.waiters.iter().filter(|(_, waiter)| is(waiter)).map(|(id, _)| *id);
        let found: Vec<WaiterId> = found.collect();
        let taken = found.into_iter().filter_map(|id| self.take_waiter(core, id));
        taken.map(|waiter| waiter.request).collect()
    }

    /// Notes that `txn` is decided, or was certainly undecided when a prepare that hangs on it was asked
    /// for. Groups of pipelines that hang on it come out of [`LockManager::take_probed`].
    pub fn probe_answered(&mut self, core: &mut ShardCore, txn: TxnId) {
        let waiting: Vec<TxnId> = self.probing.remove(&txn).into_iter().flatten().collect();
        for id in waiting {
            if let Some(entry) = self.txns.get_mut(&id) {
                entry.probes.remove(&txn);
                self.log_prepare_if_ready(core, id);
            } else {
                self.probed.push((id, txn));
            }
        }
    }

    /// A group of pipelines for which word has come about a transaction that it hangs on.
    pub fn take_probed(&mut self) -> Option<(TxnId, TxnId)> {
        if self.probed.is_empty() { None } else { Some(self.probed.remove(0)) }
    }

    /// Notes that a prepared transaction may be decided without any sign of it here, if it is so: its gateway
    /// is in another process, or was not the only one that could decide it.
    pub(super) fn doubt(&mut self, core: &ShardCore, txn: TxnId) {
        let Some(entry) = self.txns.get(&txn) else { return };
        let is_own = core.is_near(entry.gateway) && !entry.inherited && !entry.inquired;
        if entry.prepared && entry.decided.is_none() && !is_own {
            self.doubtful.insert(txn);
        }
    }

    /// Notes that a gateway has learnt that a transaction is prepared here: it may decide its fate.
    pub fn inquired_by(&mut self, core: &ShardCore, gateway: GatewayId, txn: TxnId) {
        if let Some(entry) = self.txns.get_mut(&txn)
            && entry.gateway != gateway
            && !core.is_near(gateway)
        {
            entry.inquired = true;
            self.doubt(core, txn);
        }
    }

    /// Asks gateways whether prepared transactions that matter to this one are decided already; gives these
    /// transactions. Nothing is asked about those of this process: whatever begins after one of them is
    /// decided gets a later timestamp by its clock.
    pub fn probe(
        &mut self,
        core: &mut ShardCore,
        txn: TxnId,
        claims: &[(Blob, Claim)],
    ) -> BTreeSet<TxnId> {
        let mut open = BTreeSet::new();
        if self.doubtful.is_empty() {
            return open;
        }
        for (key, claim) in claims {
            let record = core.state.get(key);
            let prepared = core.locks.prepared_conflicts(key, claim, txn, record);
            open.extend(prepared.filter(|other| self.doubtful.contains(other)));
        }
        for other in &open {
            self.probing.entry(*other).or_default().push(txn);
            let Some(entry) = self.txns.get(other) else { continue };
            // The gateways that have asked for its fate settle it, and its own one need not know.
            if !entry.inquired {
                let notice = Notice::Probe { txn: *other, shard: core.config.id };
                core.notice(entry.gateway, Token::default(), notice);
            }
        }
        open
    }

    /// Reports transactions to the gateway next to this shard that are prepared here, and whose fate was not
    /// sent for long.
    pub fn find_orphans(&mut self, core: &mut ShardCore, now: Now) {
        if !core.config.clustered {
            return;
        }
        let silent = |touched_us: u64| now.mono_us.saturating_sub(touched_us) >= ORPHAN_US;
        let orphans = self.txns.iter_mut();
        let orphans =
            orphans.filter(|(_, t)| t.prepared && t.decided.is_none() && silent(t.touched_us));
        for (txn, entry) in orphans {
            entry.touched_us = now.mono_us;
            let Some(prepared) = core.state.prepared().get(txn) else { continue };
            let (txn, participants) = (*txn, prepared.prepare.participants.clone());
            let notice = Notice::Orphan { txn, participants };
            core.outbox.notice(core.config.beside, Token::default(), notice);
        }
    }

    /// Place of a request that comes now in the queues.
    pub(super) fn place(&self, now: Now, request: &Request) -> Place {
        (age_of(now, request), self.next_waiter)
    }
}

impl WaitingRoom for LockManager {
    fn limit(&self) -> usize {
        LOCK_WAITERS_MAX
    }

    fn len(&self) -> usize {
        self.waiters.len() + self.resolving.values().map(Vec::len).sum::<usize>()
    }

    /// When to look at what waits for locks, and at the prepared transactions of a cluster.
    fn next_us(&self, core: &ShardCore, now: Now) -> Option<u64> {
        let prepared = core.config.clustered && !core.state.prepared().is_empty();
        (prepared || !self.waiters.is_empty()).then_some(now.mono_us + LOOK_US)
    }

    /// Ends the transactions of the machine, unless they are prepared: these are reported as orphans soon.
    /// Its waiting requests are dropped.
    fn forget(&mut self, core: &mut ShardCore, now: Now, machine: MachineId) {
        let of_it = |gateway: GatewayId| gateway.machine == machine;
        let gone = self.txns.iter().filter(|(_, t)| of_it(t.gateway) && !t.committing);
        let gone: Vec<(TxnId, bool)> = gone.map(|(txn, t)| (*txn, t.prepared)).collect();
        for (txn, prepared) in gone {
            if !prepared {
                self.end(core, txn);
            } else if let Some(entry) = self.txns.get_mut(&txn) {
                entry.touched_us = entry.touched_us.min(now.mono_us.saturating_sub(ORPHAN_US));
            }
        }
        self.take_waiting(core, |waiter| of_it(waiter.request.gateway));
        self.resolving.retain(|_, asked| {
            asked.retain(|request| !of_it(request.gateway));
            !asked.is_empty()
        });
    }

    /// Sends the requests that wait for locks to the next leader, but for those of the shard itself, and
    /// inquiries whether requests take effect. Forgets all transactions.
    fn end_lead(&mut self, core: &mut ShardCore) {
        let Self { txns, waiters, resolving, contention, next_waiter, whole, .. } =
            std::mem::take(self);
        *self = Self { contention, next_waiter, whole, ..Self::default() };
        let waiting = waiters.into_values().map(|waiter| waiter.request);
        let waiting = waiting.filter(|request| !is_own(&request.body));
        for request in waiting.chain(resolving.into_values().flatten()) {
            core.turn_away(request.gateway, request.token, request.body);
        }
        for (txn, entry) in txns {
            if let Some((_, target)) = entry.unlogged {
                core.answer(target.gateway, target.token, Answer::Refused(Refusal::LocksLost));
            }
            let commit = core.state.prepared().get(&txn).and_then(|p| p.commit);
            for (gateway, token) in entry.decided.into_iter().chain(entry.askers) {
                if commit.is_some() {
                    core.turn_away(gateway, token, Body::Decide { txn, commit });
                }
            }
        }
    }
}
