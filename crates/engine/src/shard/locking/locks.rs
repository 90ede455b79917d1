//! The lock table: holders and waiting requests of each record, with their modes.
//!
//! The table lives in the leader's memory only. A record has an entry here while a transaction holds it
//! or a request waits for it. The table decides; the lock manager acts on its decisions.

use crate::ids::{Age, TxnId};
use crate::limits::PREPARES_PASS_US_MAX;
use crate::message::Concurrency;
use adt::collections::Map;
use adt::{Access, Blob, Mode, Op, Record, record};
use smallvec::SmallVec;

/// How an access relates to its transaction's commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Answered before the transaction commits, or (in conditions without deferral) locked early.
    Early {
        /// The program has seen the reply.
        observed: bool,
    },
    /// In the log, or about to be: carried out in log order.
    Apply,
    /// Prepared for a transaction over several shards: carried out in timestamp order.
    Prepared,
    /// A read that takes no lock; waits only for prepared transactions.
    Passing,
    /// Kept for a request that has waited for an element. Is held and never asked for.
    Kept,
}

/// One access of a request or of a holder.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The operation.
    pub op: Op,
    /// Relation to the commit.
    pub class: Class,
    void: Mode,
    seen: Mode,
    /// The record's state shows it already, and does not tell with what it commutes.
    done: bool,
}

impl Claim {
    /// A claim for an operation.
    pub fn new(op: Op, class: Class) -> Self {
        let void = record::mode(Access { op: &op, observed: false });
        let seen = record::mode(Access { op: &op, observed: true });
        Self { op, class, void, seen, done: false }
    }

    fn mode(&self, observed: bool) -> Mode {
        if observed { self.seen } else { self.void }
    }

    /// Whether `asked` must wait while `self` is held. See the table in
    /// `docs/internals/transactions.md`.
    fn bars(&self, asked: &Self, cc: Concurrency, state: KeyView<'_>) -> bool {
        use Class::{Apply, Early, Kept, Passing, Prepared};
        let (held_observed, asked_observed) = match (self.class, asked.class) {
            (Kept, _) => return true,
            (_, Kept)
            | (Passing, _)
            | (Apply, Apply | Prepared | Passing)
            | (Prepared, Prepared) => {
                return false;
            }
            (Early { .. }, Passing) => return false,
            (Early { observed: a }, Early { observed: b }) => (a, b),
            (Early { observed }, Apply | Prepared) => (observed, false),
            (Apply | Prepared, Early { observed }) => (false, observed),
            (Prepared, Apply) => (true, true),
            (Prepared, Passing) => (false, true),
        };
        if !cc.shares_by_mode() {
            return self.op.is_write() || asked.op.is_write();
        }
        !self.mode(held_observed).shares(asked.mode(asked_observed))
            && (self.done || !state.commute((self, held_observed), (asked, asked_observed)))
    }

    /// Whether `self`, waiting to go into the log, must go before `later`: a pipeline's operations
    /// on a record keep their order unless it makes no difference.
    fn precedes(&self, later: &Self, state: KeyView<'_>) -> bool {
        self.class == Class::Apply
            && later.class == Class::Apply
            && !self.seen.shares(later.seen)
            && !state.commute((self, true), (later, true))
    }

    /// Type and mode, for people.
    pub fn mode_name(&self) -> (&'static str, &'static str) {
        let observed = !matches!(self.class, Class::Early { observed: false });
        record::mode_name(Access { op: &self.op, observed })
    }
}

/// View of a record's state: the record, and the operations in the log that will change it.
#[derive(Clone, Copy)]
struct KeyView<'a> {
    record: Option<&'a Record>,
    in_flight: &'a [InFlight],
}

impl KeyView<'_> {
    /// Whether two accesses commute in the state in which they will be carried out. The present one
    /// tells only if what is in flight commutes with both: otherwise it may take away what makes
    /// one of them a no-op now.
    fn commute(&self, held: (&Claim, bool), asked: (&Claim, bool)) -> bool {
        let stays = |f: &InFlight, claim: &Claim| {
            f.claim.seen.shares(claim.seen)
                || f.count == 1
                    && record::commutes(
                        self.record,
                        Access { op: &f.claim.op, observed: true },
                        Access { op: &claim.op, observed: true },
                    )
        };
        record::commutes(
            self.record,
            Access { op: &held.0.op, observed: held.1 },
            Access { op: &asked.0.op, observed: asked.1 },
        ) && self.in_flight.iter().all(|f| stays(f, held.0) && stays(f, asked.0))
    }
}

/// Number of a waiting request; grows, so that equal ages are served in order of arrival.
pub type WaiterId = u64;

/// Operations of one log entry on one record, in one mode.
#[derive(Clone, Debug)]
struct InFlight {
    entry: u64,
    count: u32,
    claim: Claim,
}

#[derive(Clone, Debug)]
struct LockHolder {
    txn: TxnId,
    claim: Claim,
}

/// Request in a record's queue, with its claims on this record.
#[derive(Clone, Debug)]
struct QueuedRequest {
    age: Age,
    waiter: WaiterId,
    claims: SmallVec<[Claim; 1]>,
}

impl QueuedRequest {
    /// Whether a prepare of that age need not wait behind this request: it is no transaction's, so
    /// that it holds nothing up elsewhere, and it has not waited for long.
    fn lets_pass(&self, age: Age) -> bool {
        let single = |c: &Claim| matches!(c.class, Class::Apply | Class::Passing);
        let waited_us = age.began.micros().saturating_sub(self.age.began.micros());
        waited_us < PREPARES_PASS_US_MAX && self.claims.iter().all(single)
    }
}

/// Everything about one record.
#[derive(Clone, Debug, Default)]
struct RecordLock {
    in_flight: SmallVec<[InFlight; 2]>,
    holders: Vec<LockHolder>,
    queue: Vec<QueuedRequest>,
}

impl RecordLock {
    fn state<'a>(&'a self, record: Option<&'a Record>) -> KeyView<'a> {
        KeyView { record, in_flight: &self.in_flight }
    }

    /// Whether a holder may be in the way of `txn`. What is kept for a waiter is not in the way of waiters,
    /// nor of a transaction that was here before: the waiter waits for that one.
    fn is_against(&self, holder: &LockHolder, txn: Option<TxnId>) -> bool {
        let passes = |txn: TxnId| txn.is_taker() || self.holders.iter().any(|h| h.txn == txn);
        let kept = holder.claim.class == Class::Kept;
        Some(holder.txn) != txn && !(kept && txn.is_some_and(passes))
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.holders.is_empty() && self.queue.is_empty()
    }
}

/// Why a claim cannot be granted now.
#[derive(Clone, Debug, PartialEq)]
pub enum Barrier {
    /// A transaction holds the record.
    Holder(TxnId),
    /// An operation in the log that is not applied yet.
    InFlight,
    /// An older request waits for the record.
    Queue,
}

/// The lock table of a shard.
#[derive(Clone, Debug)]
pub struct LockTable {
    concurrency: Concurrency,
    records: Map<Blob, RecordLock>,
    /// Records whose queues are to be looked at, because something does not stand in their way any more.
    dirty: Vec<Blob>,
    /// How many holders and queued requests there are on all records.
    holders: usize,
    queued: usize,
}

impl LockTable {
    /// A table without holders and waiting requests.
    pub fn new(concurrency: Concurrency) -> Self {
        Self { concurrency, records: Map::default(), dirty: Vec::new(), holders: 0, queued: 0 }
    }

    /// Obstacle to `claim` by `txn` on `key`: holders of other transactions first,
    /// then (if `age` is given) older requests in the queue that it conflicts with.
    pub fn barrier(
        &self,
        key: &[u8],
        claim: &Claim,
        txn: Option<TxnId>,
        age: Option<(Age, WaiterId)>,
        record: Option<&Record>,
    ) -> Option<Barrier> {
        let lock = self.records.get(key)?;
        let state = lock.state(record);
        for in_flight in &lock.in_flight {
            let bars =
                in_flight.claim.bars(claim, self.concurrency, KeyView { in_flight: &[], ..state });
            // Several operations are represented by one; only their mode is known to be equal.
            let crowd = in_flight.count > 1
                && matches!(claim.class, Class::Early { .. })
                && !in_flight.claim.mode(false).shares(claim.mode(true));
            if bars || crowd {
                return Some(Barrier::InFlight);
            }
        }
        for holder in &lock.holders {
            if lock.is_against(holder, txn) && holder.claim.bars(claim, self.concurrency, state) {
                return Some(Barrier::Holder(holder.txn));
            }
        }
        let age = age?;
        for queued in lock.queue.iter().take_while(|q| (q.age, q.waiter) < age) {
            if claim.class == Class::Prepared && queued.lets_pass(age.0) {
                continue;
            }
            let conflict = |c: &Claim| {
                c.bars(claim, self.concurrency, state)
                    || claim.bars(c, self.concurrency, state)
                    || c.precedes(claim, state)
            };
            if queued.claims.iter().any(conflict) {
                return Some(Barrier::Queue);
            }
        }
        None
    }

    /// Whether an earlier request in the queue of `key` must go into the log before `claim`.
    pub fn overtakes(
        &self,
        key: &[u8],
        claim: &Claim,
        place: (Age, WaiterId),
        record: Option<&Record>,
    ) -> bool {
        let Some(lock) = self.records.get(key) else { return false };
        let earlier = lock.queue.iter().take_while(|q| (q.age, q.waiter) < place);
        earlier.flat_map(|q| &q.claims).any(|c| c.precedes(claim, lock.state(record)))
    }

    /// All transactions that hold `key` against `claim`.
    pub fn holders_against<'a>(
        &'a self,
        key: &[u8],
        claim: &'a Claim,
        txn: Option<TxnId>,
        record: Option<&'a Record>,
    ) -> impl Iterator<Item = (TxnId, &'a Claim)> {
        let lock = self.records.get(key);
        let against = move |(lock, h): &(&RecordLock, &LockHolder)| {
            lock.is_against(h, txn) && h.claim.bars(claim, self.concurrency, lock.state(record))
        };
        lock.into_iter()
            .flat_map(|lock| lock.holders.iter().map(move |h| (lock, h)))
            .filter(against)
            .map(|(_, h)| (h.txn, &h.claim))
    }

    /// The transactions that hold `key`, each once.
    pub fn holders(&self, key: &[u8]) -> impl Iterator<Item = TxnId> {
        let holders = self.records.get(key).map_or(&[][..], |lock| &lock.holders);
        let is_first = |at: usize| {
            let kept = holders[at].claim.class == Class::Kept;
            !kept && holders[..at].iter().all(|h| h.txn != holders[at].txn)
        };
        (0..holders.len()).filter(move |at| is_first(*at)).map(|at| holders[at].txn)
    }

    /// Age of the oldest request that waits for what `txn` holds on `key`.
    pub fn oldest_behind(&self, key: &[u8], txn: TxnId, record: Option<&Record>) -> Option<Age> {
        let lock = self.records.get(key)?;
        let held: SmallVec<[&Claim; 2]> =
            lock.holders.iter().filter(|h| h.txn == txn).map(|h| &h.claim).collect();
        let barred =
            |c: &Claim| held.iter().any(|held| held.bars(c, self.concurrency, lock.state(record)));
        lock.queue.iter().find(|q| q.claims.iter().any(barred)).map(|q| q.age)
    }

    /// Prepared transactions on `key` whose order with `claim` matters.
    pub fn prepared_conflicts<'a>(
        &'a self,
        key: &[u8],
        claim: &'a Claim,
        txn: TxnId,
        record: Option<&'a Record>,
    ) -> impl Iterator<Item = TxnId> + 'a {
        let lock = self.records.get(key);
        let matters = move |(lock, h): &(&RecordLock, &LockHolder)| {
            h.txn != txn
                && h.claim.class == Class::Prepared
                && !h.claim.seen.shares(claim.seen)
                && (h.claim.done || !lock.state(record).commute((&h.claim, true), (claim, true)))
        };
        lock.into_iter()
            .flat_map(|lock| lock.holders.iter().map(move |h| (lock, h)))
            .filter(matters)
            .map(|(_, h)| h.txn)
    }

    /// Earliest log entry with an operation on `key`, not applied yet, that changes what `claim`
    /// reads.
    pub fn in_flight_against(
        &self,
        key: &[u8],
        claim: &Claim,
        record: Option<&Record>,
    ) -> Option<u64> {
        let early = Claim { class: Class::Early { observed: true }, ..claim.clone() };
        let lock = self.records.get(key)?;
        let state = KeyView { record, in_flight: &[] };
        let bars = |f: &&InFlight| f.count > 1 || f.claim.bars(&early, self.concurrency, state);
        lock.in_flight.iter().filter(bars).map(|f| f.entry).min()
    }

    /// Lets `txn` hold `key`.
    pub fn hold(&mut self, key: &Blob, txn: TxnId, claim: Claim) {
        self.holders += 1;
        self.records.entry(key.clone()).or_default().holders.push(LockHolder { txn, claim });
    }

    /// Whether the program of `txn` may have been told what it holds `key` for.
    pub fn is_told(&self, key: &[u8], txn: TxnId) -> bool {
        let told =
            |h: &LockHolder| h.txn == txn && h.claim.class == Class::Early { observed: true };
        self.records.get(key).is_some_and(|lock| lock.holders.iter().any(told))
    }

    /// Notes that the operations for which `txn` holds `key` are carried out, and not to be seen yet.
    pub fn carry_out(&mut self, key: &[u8], txn: TxnId) {
        if let Some(lock) = self.records.get_mut(key) {
            let holders = lock.holders.iter_mut().filter(|holder| holder.txn == txn);
            holders.for_each(|holder| holder.claim.done = true);
        }
    }

    /// Notes an operation of log entry `entry` on `key`.
    pub fn fly(&mut self, key: &Blob, op: &Op, entry: u64) {
        if !op.is_write() {
            return;
        }
        let void = record::mode(Access { op, observed: false });
        let lock = self.records.entry(key.clone()).or_default();
        match lock.in_flight.iter_mut().find(|f| f.entry == entry && f.claim.void == void) {
            Some(in_flight) => in_flight.count += 1,
            None => {
                let claim = Claim::new(op.clone(), Class::Apply);
                lock.in_flight.push(InFlight { entry, count: 1, claim });
            }
        }
    }

    /// Removes the operations of log entry `entry` on `key`: it is applied.
    pub fn land(&mut self, key: &Blob, entry: u64) {
        self.update(key, |lock| lock.in_flight.retain(|f| f.entry != entry));
    }

    /// Ends what `txn` holds `key` for.
    pub fn release(&mut self, key: &Blob, txn: TxnId) {
        self.update(key, |lock| lock.holders.retain(|h| h.txn != txn));
    }

    /// Ends what `txn`, which is decided, has locked `key` for before it was prepared.
    pub fn release_early(&mut self, key: &Blob, txn: TxnId) {
        let is_early =
            |h: &LockHolder| h.txn == txn && matches!(h.claim.class, Class::Early { .. });
        self.update(key, |lock| lock.holders.retain(|h| !is_early(h)));
    }

    /// Changes the lock of a record, and marks the record if a request waits for it.
    fn update(&mut self, key: &Blob, change: impl FnOnce(&mut RecordLock)) {
        if self.change(key, change) {
            self.dirty.push(key.clone());
        }
    }

    /// Marks a record whose queue is to be looked at.
    pub fn mark(&mut self, key: Blob) {
        self.dirty.push(key);
    }

    /// Takes a record whose queue is to be looked at.
    pub fn take_marked(&mut self) -> Option<Blob> {
        self.dirty.pop()
    }

    /// Changes the lock of a record. Tells whether a request waits for the record.
    fn change(&mut self, key: &[u8], change: impl FnOnce(&mut RecordLock)) -> bool {
        let Some((position, _, lock)) = self.records.get_full_mut(key) else { return false };
        self.holders -= lock.holders.len();
        self.queued -= lock.queue.len();
        change(lock);
        self.holders += lock.holders.len();
        self.queued += lock.queue.len();
        let waited_for = !lock.queue.is_empty();
        if lock.is_idle() {
            self.records.swap_remove_index(position);
        }
        waited_for
    }

    /// Puts a request into the queue of `key`.
    pub fn enqueue(&mut self, key: &Blob, age: Age, waiter: WaiterId, claim: Claim) {
        let lock = self.records.entry(key.clone()).or_default();
        match lock.queue.iter_mut().find(|q| q.waiter == waiter) {
            Some(queued) => queued.claims.push(claim),
            None => {
                let at = lock.queue.partition_point(|q| (q.age, q.waiter) < (age, waiter));
                let claims = SmallVec::from_iter([claim]);
                lock.queue.insert(at, QueuedRequest { age, waiter, claims });
                self.queued += 1;
            }
        }
    }

    /// Takes a request out of the queue of `key`; tells whether it stood there.
    pub fn dequeue(&mut self, key: &[u8], waiter: WaiterId) -> bool {
        let mut stood = false;
        self.change(key, |lock| {
            let place = lock.queue.iter().position(|q| q.waiter == waiter);
            stood = place.map(|place| lock.queue.remove(place)).is_some();
        });
        stood
    }

    /// The requests that wait for `key`, the oldest first.
    pub fn queue(&self, key: &[u8]) -> Vec<WaiterId> {
        self.records.get(key).map_or(Vec::new(), |l| l.queue.iter().map(|q| q.waiter).collect())
    }

    /// The oldest request that waits for `key`.
    pub fn first(&self, key: &[u8]) -> Option<WaiterId> {
        self.records.get(key)?.queue.first().map(|q| q.waiter)
    }

    /// Whether a transaction holds `key` (log entries in flight do not count).
    pub fn is_held(&self, key: &[u8]) -> bool {
        self.records.get(key).is_some_and(|lock| !lock.holders.is_empty())
    }

    /// Whether some record is held (log entries in flight do not count).
    #[inline]
    pub fn has_holders(&self) -> bool {
        self.holders > 0
    }

    /// Whether anything is held or waited for, beyond log entries in flight.
    #[inline]
    pub fn in_use(&self) -> bool {
        self.holders > 0 || self.queued > 0
    }
}
