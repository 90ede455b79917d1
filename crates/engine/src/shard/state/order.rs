//! Prepared transactions: the order in which they are carried out, and which wait for which until then.
//!
//! On every key the prepared transactions stand in the order of the earliest timestamp that each
//! can get: the commit timestamp once it is decided, until then the bound that the shard voted. A
//! decided transaction is carried out when no transaction that it conflicts with stands before it.
//! Until then it is noted with the latest one that does, and looked at again when that one has moved.

use super::{Executed, PreparedTxn, State};
use crate::entry::Prepare;
use crate::ids::TxnId;
use crate::shard::ahead::AheadOfLog;
use adt::collections::Map;
use adt::random::mix;
use adt::record::{self, Record};
use adt::{Access, Blob, Ctx, Op, Timestamp};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

type Position = (Timestamp, TxnId);

/// Places of prepared transactions.
#[derive(Clone, Debug, Default)]
pub struct ExecutionOrder {
    /// By key, in order. Mostly there is one.
    on: Map<Blob, SmallVec<[Position; 1]>>,
    /// Decided transactions by the one that they wait for, and the other way round.
    behind: BTreeMap<TxnId, Vec<TxnId>>,
    waits_for: BTreeMap<TxnId, TxnId>,
}

impl ExecutionOrder {
    /// The decided `txn` waits for `other`.
    fn stand_behind(&mut self, other: TxnId, txn: TxnId) {
        self.behind.entry(other).or_default().push(txn);
        self.waits_for.insert(txn, other);
    }

    fn enter<'k>(&mut self, place: Position, keys: impl Iterator<Item = &'k Blob>) {
        for key in keys {
            match self.on.get_mut(key) {
                Some(places) => {
                    if let Err(at) = places.binary_search(&place) {
                        places.insert(at, place);
                    }
                }
                None => {
                    self.on.insert(key.clone(), smallvec![place]);
                }
            };
        }
    }

    fn leave<'k>(&mut self, place: Position, keys: impl Iterator<Item = &'k Blob>) {
        for key in keys {
            let Some((position, _, places)) = self.on.get_full_mut(key) else { continue };
            if let Ok(at) = places.binary_search(&place) {
                places.remove(at);
            }
            if places.is_empty() {
                self.on.swap_remove_index(position);
            }
        }
    }
}

/// Prepared transactions, with their order.
#[derive(Clone, Debug, Default)]
pub struct PreparedTxns {
    txns: Map<TxnId, PreparedTxn>,
    order: ExecutionOrder,
    /// Transactions that this replica, as the leader, has carried out or dropped ahead of the log: the
    /// outcome is not committed in it yet, so that other replicas still have the transaction prepared. The
    /// table outlives the lead and is in snapshots, because the records show its transactions already.
    unsettled: BTreeMap<TxnId, Option<Timestamp>>,
}

fn place_of(prepared: &PreparedTxn) -> Position {
    (prepared.commit.unwrap_or(prepared.bound), prepared.prepare.txn)
}

fn keys_of(prepared: &PreparedTxn) -> impl Iterator<Item = &Blob> {
    prepared.prepare.apply.ops.iter().map(|(key, _)| key)
}

impl PreparedTxns {
    /// Adds a transaction whose fate is open.
    fn add(&mut self, prepared: PreparedTxn) {
        self.order.enter(place_of(&prepared), keys_of(&prepared));
        self.txns.insert(prepared.prepare.txn, prepared);
    }

    /// A prepared transaction moves to its commit timestamp.
    pub(in crate::shard) fn put_in_place(&mut self, txn: TxnId, commit: Timestamp) {
        let prepared = self.txns.get_mut(&txn).filter(|prepared| prepared.commit.is_none());
        let Some(prepared) = prepared else { return };
        if prepared.bound != commit {
            self.order.leave((prepared.bound, txn), keys_of(prepared));
            self.order.enter((commit, txn), keys_of(prepared));
        }
        prepared.commit = Some(commit);
    }

    /// Takes the decided transactions that waited for `txn` into `ready`: they are to be looked at again.
    pub(super) fn wake(&mut self, txn: TxnId, ready: &mut BTreeSet<Position>) {
        for waiting in self.order.behind.remove(&txn).into_iter().flatten() {
            self.order.waits_for.remove(&waiting);
            if let Some(commit) = self.txns.get(&waiting).and_then(|p| p.commit) {
                ready.insert((commit, waiting));
            }
        }
    }

    /// Whether a unit need not wait for another one that was carried out: they are of one stream.
    pub(super) fn passes(&self, unit: TxnId, other: TxnId) -> bool {
        let done = |txn| self.txns.get(&txn).is_some_and(|p| p.done);
        unit.age == other.age && done(other)
    }

    /// Forgets a prepare that is not in the log.
    pub(in crate::shard) fn renounce_prepared(&mut self, txn: TxnId) {
        self.forget(txn);
        // Those that wait for it only know so as long as this replica leads.
        for waiting in self.order.behind.remove(&txn).into_iter().flatten() {
            self.order.waits_for.remove(&waiting);
        }
    }

    /// Forgets the decisions that are not in the log and were not carried out.
    pub(in crate::shard) fn renounce_decisions(&mut self) {
        let ahead = |(txn, p): (&TxnId, &PreparedTxn)| {
            (p.commit.is_some() && !p.settled && !p.done).then_some(*txn)
        };
        let ahead: Vec<TxnId> = self.txns.iter().filter_map(ahead).collect();
        for txn in ahead {
            self.unsettled.remove(&txn);
            self.renounce_decision(txn);
        }
    }

    /// Forgets a decision that is not in the log.
    fn renounce_decision(&mut self, txn: TxnId) {
        let Some(prepared) = self.txns.get_mut(&txn) else { return };
        self.order.leave(place_of(prepared), keys_of(prepared));
        prepared.commit = None;
        self.order.enter(place_of(prepared), keys_of(prepared));
        if let Some(first) = self.order.waits_for.remove(&txn)
            && let Some(behind) = self.order.behind.get_mut(&first)
        {
            behind.retain(|waiting| *waiting != txn);
        }
    }

    /// Removes a transaction.
    pub(super) fn forget(&mut self, txn: TxnId) -> Option<PreparedTxn> {
        let prepared = self.txns.swap_remove(&txn)?;
        self.order.leave(place_of(&prepared), keys_of(&prepared));
        Some(prepared)
    }

    /// The undecided transaction that a decided one waits for in the end. `seen` are transactions
    /// that were followed before: nothing new is found behind them.
    pub fn awaited_by(&self, mut txn: TxnId, seen: &mut BTreeSet<TxnId>) -> Option<TxnId> {
        while seen.insert(txn) {
            match self.order.waits_for.get(&txn) {
                Some(next) => txn = *next,
                None => return self.txns.get(&txn).filter(|p| p.commit.is_none()).map(|_| txn),
            }
        }
        None
    }

    /// The decided transactions that wait for `txn`, directly or through others.
    pub fn decided_behind(&self, txn: TxnId) -> Vec<TxnId> {
        let behind = |txn| self.order.behind.get(&txn).map_or(&[][..], Vec::as_slice);
        let mut found = behind(txn).to_vec();
        let mut next = 0;
        while let Some(&txn) = found.get(next) {
            found.extend(behind(txn));
            next += 1;
        }
        found
    }

    /// Prepared transactions whose prepare records are committed.
    pub(in crate::shard) fn confirmed(
        &self,
        ahead: &AheadOfLog,
    ) -> impl Iterator<Item = &PreparedTxn> {
        self.txns.iter().filter(|(txn, _)| !ahead.is_announced(**txn)).map(|(_, p)| p)
    }

    /// The leader has decided about a transaction and acts on it before the log has the outcome.
    pub(in crate::shard) fn act_ahead(&mut self, txn: TxnId, commit: Option<Timestamp>) {
        self.unsettled.insert(txn, commit);
    }

    /// The outcome of a transaction is committed in the log.
    pub(in crate::shard) fn settle(&mut self, txn: TxnId) {
        self.unsettled.remove(&txn);
        if let Some(prepared) = self.txns.get_mut(&txn) {
            prepared.settled = true;
        }
    }

    /// Decision of the leader about a transaction that it has acted on ahead of the log.
    pub(in crate::shard) fn ahead_of_log(&self, txn: TxnId) -> Option<Option<Timestamp>> {
        self.unsettled.get(&txn).copied()
    }

    /// Transactions that the leader has acted on ahead of the log.
    pub fn unsettled(&self) -> impl Iterator<Item = (TxnId, Option<Timestamp>)> {
        self.unsettled.iter().map(|(txn, commit)| (*txn, *commit))
    }

    /// Whether a prepared transaction is a unit of a stream.
    pub(in crate::shard) fn is_unit(&self, txn: TxnId) -> bool {
        self.txns.get(&txn).is_some_and(PreparedTxn::is_unit)
    }

    /// Whether a transaction is a unit of which the log does not say yet that it may be carried out.
    pub(in crate::shard) fn is_open_unit(&self, txn: TxnId) -> bool {
        self.txns.get(&txn).is_some_and(|p| p.is_unit() && !p.free)
    }

    pub(in crate::shard) fn unit_mut(
        &mut self,
        unit: TxnId,
    ) -> impl Iterator<Item = &mut PreparedTxn> {
        self.txns.get_mut(&unit).into_iter()
    }
}

impl Deref for PreparedTxns {
    type Target = Map<TxnId, PreparedTxn>;

    fn deref(&self) -> &Self::Target {
        &self.txns
    }
}

impl State {
    /// Notes this shard's part of a transaction whose fate is open.
    pub fn prepare(&mut self, prepare: Prepare, bound: Timestamp) {
        let shards = prepare.participants.last().map_or(0, |last| last.0 + 1);
        self.fates.count_shards(shards);
        let (settled, done, free) = (false, false, false);
        let prepared = PreparedTxn { prepare, bound, commit: None, settled, done, free };
        self.prepared.add(prepared);
    }

    /// Settles a prepared transaction, and carries out whatever has become ready by that, in
    /// timestamp order. A transaction that is not known (any more) is left alone.
    pub(in crate::shard) fn decide(
        &mut self,
        txn: TxnId,
        commit: Option<Timestamp>,
        ahead: &mut AheadOfLog,
    ) -> Vec<Executed> {
        let mut ready = BTreeSet::new();
        let mut executed = Vec::new();
        match (self.prepared.get(&txn), commit) {
            (None, _) => return executed,
            (Some(prepared), _) if prepared.done => {
                self.prepared.forget(txn);
            }
            (Some(prepared), Some(ts)) => {
                let ts = prepared.commit.unwrap_or(ts);
                if self.latest_before((ts, txn)).is_some() {
                    self.prepared.put_in_place(txn, ts);
                    ready.insert((ts, txn));
                } else if let Some(prepared) = self.prepared.forget(txn) {
                    // Usually no transaction is before it, and it need not take its place first.
                    executed.push(self.execute(txn, &prepared.prepare, ts, ahead));
                }
            }
            (Some(_), None) => {
                self.prepared.forget(txn);
            }
        }
        self.prepared.wake(txn, &mut ready);
        self.carry_out(ready, &mut executed, ahead);
        executed
    }

    /// Gives units the places that the leader knows: carries those out before which no transaction stands,
    /// and leaves them where they are, for others to wait for them until [`State::release`].
    pub(in crate::shard) fn place_all(
        &mut self,
        units: &[(TxnId, Timestamp)],
        ahead: &mut AheadOfLog,
    ) -> Vec<Executed> {
        let (mut ready, mut executed) = (BTreeSet::new(), Vec::new());
        for (unit, place) in units {
            self.prepared.put_in_place(*unit, *place);
            // Transactions that waited for it may be before it now.
            self.prepared.wake(*unit, &mut ready);
        }
        // None of them waits for another one that has its place by now.
        ready.extend(units.iter().map(|(unit, place)| (*place, *unit)));
        self.carry_out(ready, &mut executed, ahead);
        executed
    }

    /// Ends the wait of other transactions for a unit that was carried out.
    pub(in crate::shard) fn release(
        &mut self,
        unit: TxnId,
        ahead: &mut AheadOfLog,
    ) -> Vec<Executed> {
        self.decide(unit, None, ahead)
    }

    /// All prepared transactions of a snapshot are there: the decided ones wait for others. (One
    /// that does not wait here was decided by a record that is still to be replayed.)
    pub(in crate::shard) fn link_restored(&mut self) {
        let ahead: Vec<(TxnId, Option<Timestamp>)> =
            self.prepared.unsettled().filter(|(txn, _)| self.prepared.is_unit(*txn)).collect();
        for (unit, place) in ahead {
            self.prepared.put_in_place(unit, place.unwrap_or_default());
            self.prepared.txns.get_mut(&unit).into_iter().for_each(|prepared| prepared.done = true);
        }
        let settled = self.streams.settled_units();
        for unit in settled.collect::<Vec<_>>() {
            self.prepared.txns.get_mut(&unit).into_iter().for_each(|prepared| prepared.free = true);
        }
        let carried_out =
            |p: &&PreparedTxn| p.commit.is_some() && !p.done && (p.free || !p.is_unit());
        let waiting = self.prepared.values().filter(carried_out);
        let decided: Vec<Position> = waiting.map(place_of).collect();
        for place in decided {
            if let Some(other) = self.latest_before(place) {
                self.prepared.order.stand_behind(other, place.1);
            }
        }
    }

    fn carry_out(
        &mut self,
        mut ready: BTreeSet<Position>,
        executed: &mut Vec<Executed>,
        ahead: &mut AheadOfLog,
    ) {
        while let Some(next) = ready.pop_first() {
            self.carry_out_next(next, &mut ready, executed, ahead);
        }
    }

    fn carry_out_next(
        &mut self,
        (ts, txn): Position,
        ready: &mut BTreeSet<Position>,
        executed: &mut Vec<Executed>,
        ahead: &mut AheadOfLog,
    ) {
        if let Some(other) = self.latest_before((ts, txn)) {
            self.prepared.order.stand_behind(other, txn);
            ahead.moved(txn);
            return;
        }
        if self.prepared.is_open_unit(txn) {
            if !ahead.leads() {
                // The log will say when.
                return;
            }
            executed.extend(self.carry_out_unit(txn, ts, ahead));
        } else if let Some(prepared) = self.prepared.forget(txn) {
            executed.push(self.execute(txn, &prepared.prepare, ts, ahead));
        }
        self.prepared.wake(txn, ready);
    }

    /// A unit takes effect where it stands, and stays there.
    fn carry_out_unit(
        &mut self,
        unit: TxnId,
        ts: Timestamp,
        ahead: &mut AheadOfLog,
    ) -> Option<Executed> {
        let prepared = self.prepared.txns.get_mut(&unit).filter(|prepared| !prepared.done)?;
        prepared.done = true;
        let prepare = std::mem::take(&mut prepared.prepare);
        let executed = self.execute(unit, &prepare, ts, ahead);
        if let Some(prepared) = self.prepared.txns.get_mut(&unit) {
            prepared.prepare = prepare;
        }
        self.prepared.act_ahead(unit, Some(ts));
        Some(executed)
    }

    fn execute(
        &mut self,
        txn: TxnId,
        prepare: &Prepare,
        ts: Timestamp,
        ahead: &mut AheadOfLog,
    ) -> Executed {
        // The time is that of the place: all replicas come to the same.
        let ctx = Ctx { now_ms: ts.micros() / 1000, ts, seed: mix(ts.0) };
        let replies = self.run(&prepare.apply, &ctx, ahead);
        if !prepare.is_unit() {
            self.remember_outcome(txn, ts);
        }
        let executed = Executed { txn, replies };
        self.fates.note_replies(&executed);
        executed
    }

    /// The latest transaction that conflicts with the decided one at `place` and could still come, or has to
    /// come, before it. Those that conflict with one another thus wait in a chain, of which each carries
    /// out the next, and not all for the first.
    fn latest_before(&self, place: Position) -> Option<TxnId> {
        let ops = &self.prepared.get(&place.1)?.prepare.apply.ops;
        ops.iter().find_map(|(key, op)| {
            let places = self.prepared.order.on.get(key)?;
            let earlier = &places[..places.partition_point(|other| *other < place)];
            if earlier.is_empty() {
                return None;
            }
            let record = self.get(key);
            let others = earlier.iter().rev().map(|(_, other)| *other);
            let mut others = others.filter(|other| *other != place.1);
            others.find(|other| {
                !self.prepared.passes(place.1, *other)
                    && self.prepared.conflict_on(key, record, op, *other)
            })
        })
    }
}

impl PreparedTxns {
    /// Whether an operation on a record conflicts with one of another transaction.
    fn conflict_on(&self, key: &Blob, record: Option<&Record>, op: &Op, other: TxnId) -> bool {
        let asked = Access { op, observed: true };
        let other = self.get(&other);
        let others = other.map_or(&[][..], |p| &p.prepare.apply.ops);
        // With a state that it has changed already, anything may seem to commute.
        let done = other.is_some_and(|p| p.done);
        others.iter().filter(|(k, _)| k == key).any(|(_, other)| {
            let held = Access { op: other, observed: true };
            !record::mode(asked).shares(record::mode(held))
                && (done || !record::commutes(record, held, asked))
        })
    }
}
