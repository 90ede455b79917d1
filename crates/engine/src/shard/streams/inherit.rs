//! A new leader goes on with pipelines that an earlier one has left: those of its units that have no place
//! yet may have had one, so nobody gets in front of them meanwhile.

use super::live::{Live, Progress, lost};
use crate::ids::{MachineId, StreamId, TxnId};
use crate::message::{Answer, Body, Refusal, Request};
use crate::now::Now;
use crate::pipeline::{Group, Place, Unit};
use crate::shard::Shard;
use crate::shard::locking::claims::Claims;
use adt::Timestamp;
use smallvec::smallvec;
use std::sync::Arc;

impl Shard {
    /// Whether something that an earlier leader has left without a place stands in the way.
    pub(in crate::shard) fn waits_for_places(&self, body: &Body, claims: &Claims) -> bool {
        if self.streams.unplaced.is_empty() {
            return false;
        }
        let own = match body {
            Body::Pipeline(group) => group.stream.unit(group.first()),
            Body::Prepare { prepare, .. } if prepare.participants.len() > 1 => prepare.txn,
            _ => return false,
        };
        claims.iter().any(|(key, claim)| {
            let record = self.core.state.get(key);
            self.core
                .locks
                .prepared_conflicts(key, claim, own, record)
                .any(|unit| unit.age != own.age && self.streams.unplaced.contains(&unit))
        })
    }

    /// Keeps a request until what an earlier leader has left has its place.
    pub(in crate::shard) fn hold_newcomer(&mut self, request: Request) {
        self.streams.held.push(request);
    }

    pub(super) fn let_newcomers_in(&mut self, now: Now) {
        if self.streams.held.is_empty() {
            return;
        }
        for request in std::mem::take(&mut self.streams.held) {
            let ended = match &request.body {
                Body::Prepare { prepare, .. } => !self.locking.knows(prepare.txn),
                _ => false,
            };
            if !ended {
                self.begin_locking(now, request);
            }
        }
    }

    /// Takes out requests that are held and of which `is` says yes.
    pub(super) fn take_newcomers(&mut self, is: impl Fn(&Request) -> bool) -> Vec<Request> {
        let held = std::mem::take(&mut self.streams.held);
        let (taken, held) = held.into_iter().partition(is);
        self.streams.held = held;
        taken
    }

    /// A transaction that is held back is not let in.
    pub(in crate::shard) fn refuse_newcomer(&mut self, txn: TxnId, why: Refusal) {
        let of_it = |request: &Request| match &request.body {
            Body::Prepare { prepare, .. } => prepare.txn == txn,
            _ => false,
        };
        for request in self.take_newcomers(of_it) {
            self.core.answer(request.gateway, request.token, Answer::Refused(why));
        }
    }

    /// Nothing more comes from the gateways of a machine.
    pub(in crate::shard) fn forget_newcomers(&mut self, machine: MachineId) {
        self.streams.held.retain(|request| request.gateway.machine != machine);
    }

    /// This replica leads from now on: what an earlier leader has left is gone on with.
    pub(in crate::shard) fn inherit_streams(&mut self, now: Now) {
        let open: Vec<(StreamId, u32)> = self
            .core
            .state
            .streams()
            .iter()
            .filter(|(_, kept)| !kept.is_handed_on())
            .flat_map(|(id, kept)| kept.groups.iter().map(move |group| (id, group)))
            .filter(|(_, group)| !group.is_settled())
            .map(|(id, group)| (*id, group.range().0))
            .collect();
        if !open.is_empty() {
            self.core.track(now);
        }
        for (id, first) in open {
            let Some(live) = self.inherited(id, first) else { continue };
            let kept = self.core.state.streams().get(&id).and_then(|kept| kept.group(first));
            let open = kept.into_iter().flat_map(|group| &group.units).filter(|(_, p)| p.is_none());
            let ahead = open.filter_map(|(seq, _)| {
                let unit = id.unit(*seq);
                let is_over = !self.core.state.prepared().contains_key(&unit);
                self.core.state.ahead_of_log(unit).filter(|_| is_over).map(|place| (*seq, place))
            });
            let ahead: Vec<(u32, Place)> = ahead.collect();
            self.log_settled(id, &ahead);
            for (unit, progress) in live.group.units.iter().zip(&live.units) {
                let name = id.unit(unit.seq);
                if progress.is_over() {
                    continue;
                }
                self.hold_unit(name, &unit.ops);
                if progress.is_closed() {
                    unit.ops.iter().for_each(|(key, _)| self.core.locks.carry_out(key, name));
                }
                if *progress == Progress::Open {
                    self.streams.unplaced.insert(name);
                }
            }
            let placed = live.units().filter(|(_, progress)| **progress == Progress::Placed);
            let place = |(seq, _)| {
                let unit = id.unit(seq);
                let place = self.core.state.prepared().get(&unit).and_then(|p| p.commit);
                (unit, place.unwrap_or_default())
            };
            let placed: Vec<(TxnId, Timestamp)> = placed.map(place).collect();
            let stream = self.stream_mut(now, id);
            stream.answered = stream.answered.max(live.group.base);
            stream.groups.push(live);
            self.streams.mark(id);
            let executed = self.core.state.place_all(&placed, &mut self.core.ahead);
            self.finish(now, executed);
        }
        let settled = self.core.state.prepared().iter().filter(|(_, p)| p.is_unit() && p.free);
        let settled: Vec<_> =
            settled.map(|(unit, p)| (*unit, p.prepare.apply.ops.clone())).collect();
        for (unit, ops) in settled {
            self.core.track(now);
            self.hold_unit(unit, &ops);
            let keys = ops.into_iter().map(|(key, _)| key).collect();
            self.streams.settled.insert(unit, keys);
        }
        self.inherit_chains(now);
        self.keep_inherited(now);
    }

    /// A group that is in the log, as its new leader begins with it.
    fn inherited(&self, id: StreamId, first: u32) -> Option<Live> {
        let kept = self.core.state.streams().get(&id)?.group(first)?;
        let prepared = |seq: u32| self.core.state.prepared().get(&id.unit(seq));
        let unit = |(seq, _): &(u32, Option<Place>)| {
            let ops = prepared(*seq).map(|p| p.prepare.apply.ops.clone()).unwrap_or_default();
            Unit { seq: *seq, ops, ..Unit::default() }
        };
        let group = Group {
            stream: id,
            base: kept.base,
            fresh: kept.base,
            homes: kept.homes.clone(),
            floor: kept.floor,
            chained: false,
            units: kept.units.iter().map(unit).collect(),
        };
        let mut live = Live::new(Arc::new(group), None);
        (live.durable, live.logged, live.inherited) = (true, true, true);
        for ((seq, settled), progress) in kept.units.iter().zip(&mut live.units) {
            let unit = prepared(*seq);
            // This replica has led before, and acted ahead of the log.
            let ahead = self.core.state.ahead_of_log(id.unit(*seq)).filter(|_| unit.is_none());
            let settled = settled.or(ahead);
            let done = unit.filter(|p| p.done).and_then(|done| done.commit);
            *progress = match (settled, done) {
                (Some(None), _) => Progress::Failed,
                (None, None) if unit.is_some_and(|p| p.commit.is_some()) => Progress::Placed,
                (None, None) => Progress::Open,
                (settled, done) => {
                    let released = settled.is_some();
                    let place = settled.flatten().or(done).unwrap_or_default();
                    let replies = self.core.state.fates().replies_of(id.unit(*seq)).cloned();
                    let replies = replies.unwrap_or_else(|| smallvec![lost()]);
                    Progress::Closed { place, replies, released }
                }
            };
        }
        Some(live)
    }
}
