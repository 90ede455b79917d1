//! The lock table: holders and waiting requests of each record, with their modes.
//!
//! The table lives in the leader's memory only. A record has an entry here while a transaction holds it
//! or a request waits for it. The table decides; the lock manager acts on its decisions.

mod line;
mod modes;

use crate::ids::{Age, TxnId};
use crate::message::Concurrency;
use adt::collections::Map;
use adt::escrow::Outstanding;
use adt::{Access, Blob, Ctx, Op, Record, record};
pub use line::{Barrier, Place, WaiterId};
use line::{Line, Matter};
pub(super) use modes::ClaimKind;
pub use modes::{Claim, Class};
use modes::{InFlight, KeyView};
use smallvec::SmallVec;

/// Everything about one record.
#[derive(Clone, Debug, Default)]
struct RecordLock {
    in_flight: SmallVec<[InFlight; 2]>,
    holders: Map<TxnId, SmallVec<[Claim; 1]>>,
    /// How many claims of each kind are held.
    held: SmallVec<[(ClaimKind, u32); 2]>,
    /// Sums over what is held and in flight.
    sums: Outstanding,
    line: Line,
}

impl RecordLock {
    fn state<'a>(&'a self, record: Option<&'a Record>) -> KeyView<'a> {
        let tells_all = self.in_flight.iter().all(|f| f.sums.is_some());
        let (in_flight, sums) = (&self.in_flight[..], &self.sums);
        KeyView { record, in_flight, sums, tells_all, queued: false, admitted: false }
    }

    /// Claims that may be in the way of `txn`, each with its transaction; mostly the latest first. What is
    /// kept for a waiter is not in the way of waiters, nor of a transaction that was here before: the waiter
    /// waits for that one.
    fn against(&self, txn: Option<TxnId>) -> impl Iterator<Item = (TxnId, &Claim)> {
        let passes = txn.is_some_and(|txn| txn.is_taker() || self.holders.contains_key(&txn));
        // A transaction may hold thousands of claims, which are not looked at one by one.
        let others = self.holders.iter().rev().filter(move |(holder, _)| Some(**holder) != txn);
        let claims = others.flat_map(|(holder, claims)| claims.iter().map(move |c| (*holder, c)));
        claims.filter(move |(_, claim)| !(passes && claim.class == Class::Kept))
    }

    /// Whether `txn` has been told already what a change of a quantity at its commit answers: then there
    /// was room for it, and it is in the sums.
    fn has_admitted(&self, claim: &Claim, txn: Option<TxnId>) -> bool {
        let own = txn.filter(|_| claim.share.is_some()).and_then(|txn| self.holders.get(&txn));
        let told = Class::Early { observed: true };
        claim.class != told
            && own.is_some_and(|own| own.iter().any(|o| o.class == told && o.op == claim.op))
    }

    /// Whether something is held that may be in the way of claims of this kind.
    fn may_be_held(&self, asked: ClaimKind, cc: Concurrency) -> bool {
        self.held.iter().any(|(held, _)| held.may_bar(asked, cc))
    }

    /// Claims that are held, each with its transaction; mostly the latest first.
    fn claims(&self) -> impl Iterator<Item = (TxnId, &Claim)> {
        let claims = |(txn, claims): (&TxnId, _)| {
            let (txn, claims): (TxnId, &SmallVec<[Claim; 1]>) = (*txn, claims);
            claims.iter().map(move |claim| (txn, claim))
        };
        self.holders.iter().rev().flat_map(claims)
    }

    fn hold(&mut self, txn: TxnId, claim: Claim) {
        self.count(claim.kind(), true);
        if let Some(share) = claim.share.filter(|_| !claim.done) {
            self.sums.add(share);
        }
        self.holders.entry(txn).or_default().push(claim);
    }

    fn count(&mut self, kind: ClaimKind, held: bool) {
        match self.held.iter().position(|(of, _)| *of == kind) {
            Some(at) if held => self.held[at].1 += 1,
            Some(at) if self.held[at].1 > 1 => self.held[at].1 -= 1,
            Some(at) => drop(self.held.swap_remove(at)),
            None if held => self.held.push((kind, 1)),
            None => {}
        }
    }

    /// Lets go what a transaction holds and `goes` accepts, and wakes the requests behind it.
    fn release(&mut self, txn: TxnId, goes: impl Fn(&Claim) -> bool) {
        let Some(claims) = self.holders.get_mut(&txn) else { return };
        let mut gone: SmallVec<[ClaimKind; 2]> = SmallVec::new();
        for claim in claims.iter().filter(|claim| goes(claim)) {
            gone.push(claim.kind());
            if let Some(share) = claim.share.filter(|_| !claim.done) {
                self.sums.remove(share);
            }
        }
        if gone.is_empty() {
            return;
        }
        claims.retain(|claim| !goes(claim));
        if claims.is_empty() {
            self.holders.swap_remove(&txn);
        }
        gone.into_iter().for_each(|kind| self.count(kind, false));
        self.line.wake(Barrier::Holder(txn));
        self.line.wake(Barrier::Room);
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.holders.is_empty() && self.line.is_empty()
    }
}

/// A record as it will be when everything in the log is applied.
#[derive(Clone, Debug, Default)]
struct ForeseenRecord {
    record: Option<Record>,
    /// Until when it is kept though everything is applied, on the monotonic clock in microseconds. The copy
    /// of a large record is not made for each use.
    kept_until_us: u64,
}

/// The lock table of a shard.
#[derive(Clone, Debug)]
pub struct LockTable {
    concurrency: Concurrency,
    records: Map<Blob, RecordLock>,
    /// Records as they will be when everything in the log is applied: those for which requests wait, and
    /// those that scripts use.
    foreseen: Map<Blob, ForeseenRecord>,
    /// Number of those that are kept though everything is applied.
    kept: usize,
    /// Records for which requests wait whose obstacles are gone.
    dirty: Vec<Blob>,
    /// How many holders and queued requests there are on all records.
    holders: usize,
    queued: usize,
}

impl LockTable {
    /// A table without holders and waiting requests.
    pub fn new(concurrency: Concurrency) -> Self {
        let (records, foreseen, dirty) = Default::default();
        Self { concurrency, records, foreseen, kept: 0, dirty, holders: 0, queued: 0 }
    }

    /// Obstacle to `claim` by `txn` among what is held on `key`: operations in the log first, then
    /// holders.
    pub fn barrier(
        &self,
        key: &[u8],
        claim: &Claim,
        txn: Option<TxnId>,
        record: Option<&Record>,
    ) -> Option<Barrier> {
        let lock = self.records.get(key)?;
        let state = KeyView { admitted: lock.has_admitted(claim, txn), ..lock.state(record) };
        let state = match self.foreseen_for(key, claim) {
            Some(record) => KeyView { record: record.as_ref(), in_flight: &[], ..state },
            None => state,
        };
        for in_flight in state.in_flight.iter().rev() {
            let bars =
                in_flight.claim.bars(claim, self.concurrency, KeyView { in_flight: &[], ..state });
            // Several operations are represented by one; only their mode is known to be equal.
            let crowd = in_flight.count > 1
                && matches!(claim.class, Class::Early { .. })
                && !in_flight.claim.void.shares(claim.seen)
                && !state.has_room(&in_flight.claim, claim);
            if bars || crowd {
                return Some(Barrier::InFlight(in_flight.entry));
            }
        }
        let kind = claim.kind();
        // Where there is room, those who use the quantity need not be compared one by one.
        let has_room = state.has_room(claim, claim);
        let may_bar =
            |held: ClaimKind| !(has_room && held.counts) && held.may_bar(kind, self.concurrency);
        if !lock.held.iter().any(|(held, _)| may_bar(*held)) {
            return None;
        }
        let mut against = lock.against(txn).filter(|(_, held)| may_bar(held.kind()));
        let (holder, held) = against.find(|(_, held)| held.bars(claim, self.concurrency, state))?;
        if held.kind().counts
            && kind.counts
            && state.tells_all
            && record::amount(state.record).is_some()
        {
            return Some(Barrier::Room);
        }
        // Perhaps only what is in flight is in the way.
        let newest = state.in_flight.iter().map(|f| f.entry).max();
        let settled = KeyView { in_flight: &[], ..state };
        let entry = newest.filter(|_| !held.bars(claim, self.concurrency, settled));
        Some(entry.map_or(Barrier::Holder(holder), Barrier::InFlight))
    }

    /// An older request in the queue of `key` behind which a request with `claim` must wait, unless that one
    /// waits for what `txn` holds: then it cannot go ahead. A request that `overtakes` waits only for what
    /// must go into the log before it; others, for all that they conflict with.
    pub fn queued_before(
        &self,
        key: &[u8],
        claim: &Claim,
        (place, txn): (Place, Option<TxnId>),
        record: Option<&Record>,
        overtakes: bool,
    ) -> Option<Barrier> {
        let lock = self.records.get(key).filter(|lock| !lock.line.is_empty())?;
        let (state, kind) = (lock.state(record), claim.kind());
        let cc = self.concurrency;
        let own = txn.and_then(|txn| lock.holders.get(&txn)).into_iter().flatten();
        let own: SmallVec<[&Claim; 2]> = own.filter(|own| own.class != Class::Kept).collect();
        let matter = |queued: ClaimKind| {
            let cannot_go = own.iter().any(|own| own.kind().bars(queued, cc));
            let clashes = queued.may_precede(kind)
                || !overtakes && (queued.may_bar(kind, cc) || kind.may_bar(queued, cc));
            if cannot_go || !clashes {
                return Matter::Never;
            }
            let may_wait = own.iter().any(|own| own.kind().may_bar(queued, cc));
            if may_wait { Matter::IfSeen } else { Matter::UnlessSeen }
        };
        let both = KeyView { queued: true, ..state };
        let conflicts = |queued: &Claim| {
            let conflicts = queued.precedes(claim, state)
                || !overtakes && (queued.bars(claim, cc, both) || claim.bars(queued, cc, both));
            conflicts && !own.iter().any(|own| own.bars(queued, cc, state))
        };
        lock.line.latest_before(kind, place, matter, conflicts).map(Barrier::Queue)
    }

    /// Transactions that `matter` and hold `key` against `claim`.
    pub fn holders_against<'a>(
        &'a self,
        key: &[u8],
        claim: &'a Claim,
        txn: Option<TxnId>,
        record: Option<&'a Record>,
        matter: impl Fn(TxnId) -> bool,
    ) -> impl Iterator<Item = (TxnId, &'a Claim)> {
        let (cc, kind) = (self.concurrency, claim.kind());
        let lock = self.records.get(key).filter(|lock| lock.may_be_held(kind, cc));
        let bars = move |(lock, (holder, held)): &(&RecordLock, (TxnId, &Claim))| {
            matter(*holder) && held.bars(claim, cc, lock.state(record))
        };
        lock.into_iter()
            .flat_map(move |lock| lock.against(txn).map(move |held| (lock, held)))
            .filter(bars)
            .map(|(_, held)| held)
    }

    /// The transactions that hold `key`.
    pub fn holders(&self, key: &[u8]) -> impl Iterator<Item = TxnId> {
        let holders = self.records.get(key).into_iter().flat_map(|lock| &lock.holders);
        let kept = |claims: &SmallVec<[Claim; 1]>| claims.iter().all(|c| c.class == Class::Kept);
        holders.filter(move |(_, claims)| !kept(claims)).map(|(txn, _)| *txn)
    }

    /// Age of the oldest request that waits for what `txn` holds on `key`.
    pub fn oldest_behind(&self, key: &[u8], txn: TxnId, record: Option<&Record>) -> Option<Age> {
        let lock = self.records.get(key)?;
        let held = lock.holders.get(&txn)?;
        let clashes =
            |asked: ClaimKind| held.iter().any(|h| h.kind().may_bar(asked, self.concurrency));
        let state = lock.state(record);
        let barred = |c: &Claim| held.iter().any(|h| h.bars(c, self.concurrency, state));
        lock.line.oldest(clashes, barred)
    }

    /// Prepared transactions on `key` whose order with `claim` matters.
    pub fn prepared_conflicts<'a>(
        &'a self,
        key: &[u8],
        claim: &'a Claim,
        txn: TxnId,
        record: Option<&'a Record>,
    ) -> impl Iterator<Item = TxnId> + 'a {
        let of_that_kind =
            |held: &ClaimKind| held.class == Class::Prepared && !held.seen.shares(claim.seen);
        let lock = self.records.get(key);
        let lock = lock.filter(|lock| lock.held.iter().any(|(held, _)| of_that_kind(held)));
        let matters = move |(lock, (holder, held)): &(&RecordLock, (TxnId, &Claim))| {
            *holder != txn
                && held.class == Class::Prepared
                && !held.seen.shares(claim.seen)
                && (held.done || !lock.state(record).commute((held, true), (claim, true)))
        };
        lock.into_iter()
            .flat_map(|lock| lock.claims().map(move |held| (lock, held)))
            .filter(matters)
            .map(|(_, (holder, _))| holder)
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
        let state = KeyView { in_flight: &[], ..lock.state(record) };
        let bars = |f: &&InFlight| f.count > 1 || f.claim.bars(&early, self.concurrency, state);
        lock.in_flight.iter().filter(bars).map(|f| f.entry).min()
    }

    /// Takes a write into account that goes into the log, and has its effect there whatever happens. The
    /// record is foreseen if requests wait for it, and nothing else changes it; `applied` is its present
    /// state. False if requests wait for the record and this write cannot be foreseen: then later writes
    /// of the same log record cannot be either.
    pub fn foresee(&mut self, key: &Blob, op: &Op, applied: Option<&Record>) -> bool {
        if let Some(foreseen) = self.foreseen.get_mut(key) {
            // A copy that is there already costs nothing more, however large it is.
            let can = match foreseen.kept_until_us {
                0 => record::is_foreseeable(foreseen.record.as_ref(), op),
                _ => record::stays_foreseeable(foreseen.record.as_ref(), op),
            };
            if can {
                record::apply(&mut foreseen.record, op, &Ctx::default());
            } else {
                self.take_foreseen(key);
            }
            return can;
        }
        let is_still = |lock: &&RecordLock| {
            let early = |kind: &ClaimKind| matches!(kind.class, Class::Early { .. });
            lock.in_flight.is_empty() && lock.held.iter().all(|(kind, _)| early(kind))
        };
        let lock = self.records.get(key).filter(|lock| !lock.line.is_empty());
        if !lock.is_some_and(|lock| is_still(&lock)) {
            return true;
        }
        let can = record::is_foreseeable(applied, op);
        if can {
            let mut record = applied.cloned();
            record::apply(&mut record, op, &Ctx::default());
            self.foreseen.insert(key.clone(), ForeseenRecord { record, kept_until_us: 0 });
        }
        can
    }

    /// Drops what is foreseen of a record, or of all.
    pub fn forget_foreseen(&mut self, key: Option<&Blob>) {
        match key {
            Some(key) => drop(self.take_foreseen(key)),
            None => {
                self.foreseen.clear();
                self.kept = 0;
            }
        }
    }

    /// The record under a key as it will be when everything in the log is applied, if that is known and not
    /// the present state.
    pub fn foreseen(&self, key: &[u8]) -> Option<&Option<Record>> {
        self.foreseen.get(key).map(|foreseen| &foreseen.record)
    }

    /// [`LockTable::foreseen`] if a claim may be answered from it.
    pub fn foreseen_for(&self, key: &[u8], claim: &Claim) -> Option<&Option<Record>> {
        let lasts = |record: &&Option<Record>| record.as_ref().is_none_or(Record::lasts);
        let fits = |record: &&Option<Record>| claim.timed || lasts(record);
        self.foreseen(key).filter(|_| claim.ahead).filter(fits)
    }

    /// Takes out what is foreseen of a record.
    pub fn take_foreseen(&mut self, key: &[u8]) -> Option<Option<Record>> {
        let taken = self.foreseen.swap_remove(key)?;
        self.kept -= usize::from(taken.kept_until_us > 0);
        Some(taken.record)
    }

    /// Notes what a record will be when everything in the log is applied, to be kept until this time on the
    /// monotonic clock, or (if that is 0) until everything is applied.
    pub fn put_foreseen(&mut self, key: Blob, record: Option<Record>, kept_until_us: u64) {
        self.take_foreseen(&key);
        self.kept += usize::from(kept_until_us > 0);
        self.foreseen.insert(key, ForeseenRecord { record, kept_until_us });
    }

    /// Whether an operation on a record is in the log and not applied, as far as that is noted.
    pub fn is_in_flight(&self, key: &[u8]) -> bool {
        self.records.get(key).is_some_and(|lock| !lock.in_flight.is_empty())
    }

    /// Until when the first of the records that are foreseen and kept is kept, on the monotonic clock.
    pub fn kept_until_us(&self) -> Option<u64> {
        if self.kept == 0 {
            return None;
        }
        let kept = self.foreseen.values().map(|foreseen| foreseen.kept_until_us);
        kept.filter(|until_us| *until_us > 0).min()
    }

    /// Number of records that are foreseen and kept.
    pub fn kept_foreseen(&self) -> usize {
        self.kept
    }

    /// Whether the record under a key is as it is kept, with nothing on its way to it.
    pub fn is_as_kept(&self, key: &[u8], record: Option<&Record>) -> bool {
        let parts = |record: &Record| (record.value.clone(), record.expire_at_ms());
        let as_kept = |kept: &Option<Record>| kept.as_ref().map(parts) == record.map(parts);
        self.is_in_flight(key) || self.foreseen(key).is_none_or(as_kept)
    }

    /// Drops what is kept of records without need at this time on the monotonic clock. What is in the log and
    /// not applied still ends its copy when it is.
    pub fn drop_kept(&mut self, now_us: u64) {
        let late = |foreseen: &ForeseenRecord| (1..=now_us).contains(&foreseen.kept_until_us);
        if self.kept > 0 {
            self.foreseen.retain(|_, foreseen| !late(foreseen));
            let is_kept = |foreseen: &&ForeseenRecord| foreseen.kept_until_us > 0;
            self.kept = self.foreseen.values().filter(is_kept).count();
        }
    }

    /// Whether anything is foreseen.
    #[inline]
    pub fn foresees(&self) -> bool {
        !self.foreseen.is_empty()
    }

    /// Claims that `txn` holds on `key` before its commit, in the order in which it has asked for them.
    pub fn held_early(&self, key: &[u8], txn: TxnId) -> impl Iterator<Item = &Claim> + Clone {
        let held = self.records.get(key).and_then(|lock| lock.holders.get(&txn));
        held.into_iter().flatten().filter(|claim| matches!(claim.class, Class::Early { .. }))
    }

    /// Lets `txn` hold `key`. Whether it is the first claim of the transaction on the record.
    pub fn hold(&mut self, key: &Blob, txn: TxnId, claim: Claim) -> bool {
        if !matches!(claim.class, Class::Early { .. }) {
            // It changes the record at a moment that is not known.
            self.take_foreseen(key);
        }
        let lock = self.records.entry(key.clone()).or_default();
        self.holders -= lock.holders.len();
        let is_first = !lock.holders.contains_key(&txn);
        lock.hold(txn, claim);
        self.holders += lock.holders.len();
        is_first
    }

    /// Whether the program of `txn` may have been told what it holds `key` for.
    pub fn is_told(&self, key: &[u8], txn: TxnId) -> bool {
        let held = self.records.get(key).and_then(|lock| lock.holders.get(&txn));
        let told = |claim: &Claim| claim.class == Class::Early { observed: true };
        held.is_some_and(|claims| claims.iter().any(told))
    }

    /// Notes that the operations for which `txn` holds `key` are carried out, and not to be seen yet.
    pub fn carry_out(&mut self, key: &[u8], txn: TxnId) {
        let Some(lock) = self.records.get_mut(key) else { return };
        let Some(claims) = lock.holders.get_mut(&txn) else { return };
        let open = claims.iter_mut().filter(|claim| !claim.done);
        let kinds = open.map(|claim| {
            let before = claim.kind();
            claim.done = true;
            (before, claim.kind(), claim.share)
        });
        for (before, after, share) in kinds.collect::<SmallVec<[_; 2]>>() {
            lock.count(before, false);
            lock.count(after, true);
            share.into_iter().for_each(|share| lock.sums.remove(share));
        }
    }

    /// Notes an operation of log entry `entry` on `key`.
    pub fn fly(&mut self, key: &Blob, op: &Op, entry: u64) {
        if !op.is_write() {
            return;
        }
        let void = record::mode(Access { op, observed: false });
        let share = op.share();
        let lock = self.records.entry(key.clone()).or_default();
        match lock.in_flight.iter_mut().find(|f| f.entry == entry && f.claim.void == void) {
            Some(in_flight) => {
                in_flight.count += 1;
                match (&mut in_flight.sums, share) {
                    (Some(sums), Some(share)) => sums.add(share),
                    (Some(sums), None) => {
                        lock.sums.part(sums);
                        in_flight.sums = None;
                    }
                    (None, _) => return,
                }
            }
            None => {
                let claim = Claim::new(op.clone(), Class::Apply);
                let sums = share.map(Outstanding::of);
                lock.in_flight.push(InFlight { entry, count: 1, claim, sums });
            }
        }
        share.into_iter().for_each(|share| lock.sums.add(share));
    }

    /// Removes the operations of log entry `entry` on `key`: it is applied. Gives what was foreseen of the
    /// record if all is applied.
    pub fn land(&mut self, key: &Blob, entry: u64) -> Option<Option<Record>> {
        let mut has_landed = false;
        self.change(key, |lock| {
            for landed in lock.in_flight.iter().filter(|f| f.entry == entry) {
                landed.sums.iter().for_each(|sums| lock.sums.part(sums));
            }
            lock.in_flight.retain(|f| f.entry != entry);
            lock.line.wake(Barrier::InFlight(entry));
            lock.line.wake(Barrier::Room);
            has_landed = lock.in_flight.is_empty();
        });
        let foreseen = self.foreseen.get(key).filter(|_| has_landed)?;
        if foreseen.kept_until_us == 0 { self.take_foreseen(key) } else { None }
    }

    /// Ends what `txn` holds `key` for.
    pub fn release(&mut self, key: &Blob, txn: TxnId) {
        self.change(key, |lock| lock.release(txn, |_| true));
    }

    /// Ends what `txn`, which is decided, has locked `key` for before it was prepared.
    pub fn release_early(&mut self, key: &Blob, txn: TxnId) {
        let is_early = |claim: &Claim| matches!(claim.class, Class::Early { .. });
        self.change(key, |lock| lock.release(txn, is_early));
    }

    /// Wakes all requests that wait for a record.
    pub fn wake_all(&mut self, key: &Blob) {
        self.change(key, |lock| lock.line.wake_all());
    }

    /// Takes a record for which requests wait that are to be looked at.
    pub fn take_marked(&mut self) -> Option<Blob> {
        self.dirty.pop()
    }

    /// Takes the oldest request that is to be looked at, because what it waited for is gone. The first in
    /// the queue comes first, if it is among them.
    pub fn next_woken(&mut self, key: &[u8]) -> Option<Place> {
        self.records.get_mut(key)?.line.next_woken()
    }

    /// The oldest request behind `after` in the queue of `key` that is in none of the lanes which `is_spent`
    /// names, with its lane.
    pub(super) fn next_in_lanes(
        &self,
        key: &[u8],
        after: Option<Place>,
        is_spent: impl Fn(ClaimKind) -> bool,
    ) -> Option<(Place, ClaimKind)> {
        self.records.get(key)?.line.next_in_lanes(after, is_spent)
    }

    /// Changes the lock of a record, and marks the record if requests are woken by that.
    fn change(&mut self, key: &Blob, change: impl FnOnce(&mut RecordLock)) {
        let Some((position, _, lock)) = self.records.get_full_mut(key) else { return };
        self.holders -= lock.holders.len();
        self.queued -= lock.line.len();
        change(lock);
        self.holders += lock.holders.len();
        self.queued += lock.line.len();
        if lock.line.is_awake() {
            self.dirty.push(key.clone());
        }
        if lock.is_idle() {
            self.records.swap_remove_index(position);
        }
    }

    /// Puts a request into the queue of `key`.
    pub fn enqueue(&mut self, key: &Blob, place: Place, claim: Claim) {
        let line = &mut self.records.entry(key.clone()).or_default().line;
        self.queued -= line.len();
        line.enter(place, claim);
        self.queued += line.len();
    }

    /// Notes what a request in the queue of `key` waits for.
    pub fn stand_behind(&mut self, key: &[u8], barrier: Barrier, place: Place) {
        if let Some(lock) = self.records.get_mut(key) {
            lock.line.stand_behind(barrier, place);
        }
    }

    /// Takes a request out of the queue of `key`.
    pub fn dequeue(&mut self, key: &Blob, place: Place) {
        self.change(key, |lock| lock.line.leave(place));
    }

    /// The requests that wait for `key`, the oldest first.
    pub fn queue(&self, key: &[u8]) -> Vec<WaiterId> {
        let lock = self.records.get(key);
        lock.map_or(Vec::new(), |lock| lock.line.places().map(|(_, waiter)| waiter).collect())
    }

    /// The oldest request that waits for `key`.
    pub fn first(&self, key: &[u8]) -> Option<WaiterId> {
        self.records.get(key)?.line.places().next().map(|(_, waiter)| waiter)
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
