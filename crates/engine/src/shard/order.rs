//! Prepared transactions: in which order they are carried out, and who waits for whom until then.
//!
//! On every key the prepared transactions stand in the order of the earliest timestamp that each
//! can get: the commit timestamp once it is decided, until then the bound that the shard voted. A
//! decided transaction is carried out when nobody that it conflicts with stands before it. Until
//! then it is noted with the first one that does, and looked at again when that one has moved.

use super::apply::{Executed, Prepared, State, mix};
use crate::entry::Prepare;
use crate::message::TxnId;
use adt::collections::Map;
use adt::record;
use adt::{Access, Blob, Ctx, Op, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

type Place = (Timestamp, TxnId);

/// Who stands where.
#[derive(Clone, Debug, Default)]
pub struct Order {
    on: Map<Blob, BTreeSet<Place>>,
    /// Decided transactions by the first that they wait for, and the other way round.
    behind: BTreeMap<TxnId, Vec<TxnId>>,
    waits_for: BTreeMap<TxnId, TxnId>,
    /// Decided transactions that wait for somebody new.
    moved: Vec<TxnId>,
}

impl Order {
    /// The decided `txn` waits for `first`.
    fn stand_behind(&mut self, first: TxnId, txn: TxnId) {
        self.behind.entry(first).or_default().push(txn);
        self.waits_for.insert(txn, first);
    }
}

fn place_of(prepared: &Prepared) -> Place {
    (prepared.commit.unwrap_or(prepared.bound), prepared.prepare.txn)
}

impl State {
    /// Notes this shard's part of a transaction whose fate is open.
    pub fn prepare(&mut self, prepare: Prepare, bound: Timestamp) {
        let txn = prepare.txn;
        let shards = prepare.participants.last().map_or(0, |last| last.0 + 1);
        self.shards = self.shards.max(shards);
        let prepared = Prepared { prepare, bound, commit: None, settled: false };
        self.enter(&prepared);
        self.prepared.insert(txn, prepared);
    }

    fn enter(&mut self, prepared: &Prepared) {
        let place = place_of(prepared);
        for (key, _) in &prepared.prepare.apply.ops {
            match self.order.on.get_mut(key) {
                Some(places) => places.insert(place),
                None => self.order.on.entry(key.clone()).or_default().insert(place),
            };
        }
    }

    fn leave(&mut self, prepared: &Prepared) {
        let place = place_of(prepared);
        for (key, _) in &prepared.prepare.apply.ops {
            let Some((position, _, places)) = self.order.on.get_full_mut(key) else { continue };
            places.remove(&place);
            if places.is_empty() {
                self.order.on.swap_remove_index(position);
            }
        }
    }

    /// Settles a prepared transaction, and carries out whatever has become ready by that, in
    /// timestamp order. A transaction that is not known (any more) is left alone.
    pub fn decide(&mut self, txn: TxnId, commit: Option<Timestamp>, now_ms: u64) -> Vec<Executed> {
        let mut ready = BTreeSet::new();
        let mut executed = Vec::new();
        match (self.prepared.get(&txn), commit) {
            (None, _) => return executed,
            (Some(prepared), Some(ts)) => {
                let ts = prepared.commit.unwrap_or(ts);
                if self.first_before((ts, txn)).is_some() {
                    self.put_in_place(txn, ts);
                    ready.insert((ts, txn));
                } else if let Some(prepared) = self.forget(txn) {
                    // Usually nobody is before it, and it need not take its place first.
                    executed.push(self.execute(&prepared, ts, now_ms));
                }
            }
            (Some(_), None) => {
                self.forget(txn);
            }
        }
        self.wake(txn, &mut ready);
        self.carry_out(ready, now_ms, &mut executed);
        executed
    }

    /// A prepared transaction moves to its commit timestamp.
    pub(super) fn put_in_place(&mut self, txn: TxnId, commit: Timestamp) {
        let Some(mut prepared) = self.prepared.swap_remove(&txn) else { return };
        if prepared.commit.is_none() {
            self.leave(&prepared);
            prepared.commit = Some(commit);
            self.enter(&prepared);
        }
        self.prepared.insert(txn, prepared);
    }

    /// All prepared transactions of a snapshot are there: the decided ones wait for others. (One
    /// that waits for nobody here was decided by a record that is still to be replayed.)
    pub(super) fn link_restored(&mut self) {
        let decided: Vec<Place> =
            self.prepared.values().filter(|p| p.commit.is_some()).map(place_of).collect();
        for place in decided {
            if let Some(first) = self.first_before(place) {
                self.order.stand_behind(first, place.1);
            }
        }
    }

    /// Those that waited for `txn` are to be looked at again.
    fn wake(&mut self, txn: TxnId, ready: &mut BTreeSet<Place>) {
        for waiting in self.order.behind.remove(&txn).into_iter().flatten() {
            self.order.waits_for.remove(&waiting);
            if let Some(commit) = self.prepared.get(&waiting).and_then(|p| p.commit) {
                ready.insert((commit, waiting));
            }
        }
    }

    fn carry_out(&mut self, mut ready: BTreeSet<Place>, now_ms: u64, executed: &mut Vec<Executed>) {
        while let Some((ts, txn)) = ready.pop_first() {
            if let Some(first) = self.first_before((ts, txn)) {
                self.order.stand_behind(first, txn);
                self.order.moved.push(txn);
                continue;
            }
            let Some(prepared) = self.forget(txn) else { continue };
            executed.push(self.execute(&prepared, ts, now_ms));
            self.wake(txn, &mut ready);
        }
    }

    fn execute(&mut self, prepared: &Prepared, ts: Timestamp, now_ms: u64) -> Executed {
        let txn = prepared.prepare.txn;
        let ctx = Ctx { now_ms, ts, seed: mix(ts.0) };
        let replies = self.run(&prepared.prepare.apply, &ctx);
        self.remember_outcome(txn, ts);
        let executed = Executed { txn, replies };
        self.keep_replies_of(&executed);
        executed
    }

    /// Somebody who conflicts with the decided transaction at `place` and could still come, or has
    /// to come, before it.
    fn first_before(&self, place: Place) -> Option<TxnId> {
        let ops = &self.prepared.get(&place.1)?.prepare.apply.ops;
        ops.iter().find_map(|(key, op)| {
            let earlier = self.order.on.get(key)?.range(..place);
            let mut others = earlier.map(|(_, other)| *other).filter(|other| *other != place.1);
            others.find(|other| self.conflict_on(key, op, *other))
        })
    }

    fn conflict_on(&self, key: &Blob, op: &Op, other: TxnId) -> bool {
        let record = self.get(key);
        let asked = Access { op, observed: true };
        let others = self.prepared.get(&other).map_or(&[][..], |p| &p.prepare.apply.ops);
        others.iter().filter(|(k, _)| k == key).any(|(_, other)| {
            let held = Access { op: other, observed: true };
            !record::mode(asked).shares(record::mode(held))
                && !record::commutes(record, held, asked)
        })
    }

    /// Forgets a prepare that is not in the log.
    pub(super) fn renounce_prepared(&mut self, txn: TxnId) {
        self.forget(txn);
        // Those that wait for it only know so as long as this replica leads.
        for waiting in self.order.behind.remove(&txn).into_iter().flatten() {
            self.order.waits_for.remove(&waiting);
        }
    }

    /// Forgets a decision that is not in the log.
    pub(super) fn renounce_decision(&mut self, txn: TxnId) {
        let Some(mut prepared) = self.prepared.swap_remove(&txn) else { return };
        self.leave(&prepared);
        prepared.commit = None;
        self.enter(&prepared);
        self.prepared.insert(txn, prepared);
        if let Some(first) = self.order.waits_for.remove(&txn)
            && let Some(behind) = self.order.behind.get_mut(&first)
        {
            behind.retain(|waiting| *waiting != txn);
        }
    }

    fn forget(&mut self, txn: TxnId) -> Option<Prepared> {
        let prepared = self.prepared.swap_remove(&txn)?;
        self.leave(&prepared);
        Some(prepared)
    }

    /// The undecided transaction that a decided one waits for in the end. `seen` are transactions
    /// that were followed before: nothing new is found behind them.
    pub fn awaited_by(&self, mut txn: TxnId, seen: &mut BTreeSet<TxnId>) -> Option<TxnId> {
        while seen.insert(txn) {
            match self.order.waits_for.get(&txn) {
                Some(next) => txn = *next,
                None => return self.prepared.get(&txn).filter(|p| p.commit.is_none()).map(|_| txn),
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

    /// Decided transactions that have begun to wait for somebody since the last call.
    pub fn take_moved(&mut self) -> Vec<TxnId> {
        std::mem::take(&mut self.order.moved)
    }
}
