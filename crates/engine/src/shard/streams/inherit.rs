//! Pipelines that an earlier leader has left. Units without a place may have had one, so newcomers do not
//! get in front of them.

use super::chain::RecoveryStep;
use super::leader::{Streams, log_settled};
use super::live::{Live, Progress, lost};
use crate::ids::{StreamId, TxnId};
use crate::message::Body;
use crate::now::Now;
use crate::pipeline::{Group, Unit, UnitPlace};
use crate::shard::core::ShardCore;
use crate::shard::locking::claims::Claims;
use crate::shard::state::Executed;
use adt::Timestamp;
use smallvec::smallvec;
use std::sync::Arc;

impl Streams {
    /// Whether a request must wait because a conflicting unit of an earlier leader has no place.
    pub(in crate::shard) fn keeps_out(
        &self,
        core: &ShardCore,
        body: &Body,
        claims: &Claims,
    ) -> bool {
        if self.unplaced.is_empty() {
            return false;
        }
        let own = match body {
            Body::Pipeline(group) => group.stream.unit(group.first()),
            Body::Prepare { prepare, .. } if prepare.participants.len() > 1 => prepare.txn,
            _ => return false,
        };
        claims.iter().any(|(key, claim)| {
            let record = core.state.get(key);
            core.locks
                .prepared_conflicts(key, claim, own, record)
                .any(|unit| unit.age != own.age && self.unplaced.contains(&unit))
        })
    }

    /// Begins a lead in a term.
    pub(in crate::shard) fn begin_lead(&mut self, term: u64) {
        self.agenda.term = term;
    }

    /// Proceeds with the streams that an earlier leader has left. Gives what is carried out by that.
    pub(in crate::shard) fn inherit(&mut self, core: &mut ShardCore, now: Now) -> Vec<Executed> {
        let kept = core.state.streams.iter().filter(|(_, kept)| !kept.is_handed_on());
        let groups = kept.flat_map(|(id, kept)| kept.groups.iter().map(move |group| (id, group)));
        let open = groups.filter(|(_, group)| !group.is_settled());
        let open: Vec<(StreamId, u32)> = open.map(|(id, group)| (*id, group.range().0)).collect();
        if !open.is_empty() {
            core.track(now);
        }
        let mut executed = Vec::new();
        for (id, first) in open {
            executed.extend(self.inherit_group(core, now, id, first));
        }
        let settled = core.state.prepared().iter().filter(|(_, p)| p.is_unit() && p.free);
        let settled: Vec<_> =
            settled.map(|(unit, p)| (*unit, p.prepare.apply.ops.clone())).collect();
        for (unit, ops) in settled {
            core.track(now);
            self.hold_unit(core, unit, &ops);
            let keys = ops.into_iter().map(|(key, _)| key).collect();
            self.settled.insert(unit, keys);
        }
        for id in self.chains.inherit(core, &mut self.agenda, now) {
            self.stream_mut(now, id);
        }
        self.memory.inherit(core, now);
        executed
    }

    fn inherit_group(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        id: StreamId,
        first: u32,
    ) -> Vec<Executed> {
        let Some(live) = inherited(core, id, first) else { return Vec::new() };
        let kept = core.state.streams.get(id).and_then(|kept| kept.group(first));
        let open = kept.into_iter().flat_map(|group| &group.units).filter(|(_, p)| p.is_none());
        let ahead = open.filter_map(|(seq, _)| {
            let unit = id.unit(*seq);
            let is_over = !core.state.prepared().contains_key(&unit);
            core.state.prepared.ahead_of_log(unit).filter(|_| is_over).map(|place| (*seq, place))
        });
        let ahead: Vec<(u32, UnitPlace)> = ahead.collect();
        log_settled(core, id, &ahead);
        for (unit, progress) in live.group.units.iter().zip(&live.units) {
            let name = id.unit(unit.seq);
            if progress.is_over() {
                continue;
            }
            self.hold_unit(core, name, &unit.ops);
            if progress.is_closed() {
                unit.ops.iter().for_each(|(key, _)| core.locks.carry_out(key, name));
            }
            if *progress == Progress::Open {
                self.unplaced.insert(name);
            }
        }
        let placed = live.units().filter(|(_, progress)| **progress == Progress::Placed);
        let place = |(seq, _)| {
            let unit = id.unit(seq);
            let place = core.state.prepared().get(&unit).and_then(|p| p.commit);
            (unit, place.unwrap_or_default())
        };
        let placed: Vec<(TxnId, Timestamp)> = placed.map(place).collect();
        let stream = self.stream_mut(now, id);
        stream.answered = stream.answered.max(live.group.base);
        stream.groups.push(live);
        self.agenda.mark(id);
        core.state.place_all(&placed, &mut core.ahead)
    }

    /// Proceeds with the recovery of places that an earlier leader has handed on.
    pub(super) fn recover_next(&mut self, core: &mut ShardCore, now: Now) -> RecoveryStep {
        self.chains.recover_next(core, &mut self.agenda, now)
    }
}

/// A group of the log as its new leader begins with it.
fn inherited(core: &ShardCore, id: StreamId, first: u32) -> Option<Live> {
    let kept = core.state.streams.get(id)?.group(first)?;
    let prepared = |seq: u32| core.state.prepared().get(&id.unit(seq));
    let unit = |(seq, _): &(u32, Option<UnitPlace>)| {
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
        let ahead = core.state.prepared.ahead_of_log(id.unit(*seq)).filter(|_| unit.is_none());
        let settled = settled.or(ahead);
        let done = unit.filter(|p| p.done).and_then(|done| done.commit);
        *progress = match (settled, done) {
            (Some(None), _) => Progress::Failed,
            (None, None) if unit.is_some_and(|p| p.commit.is_some()) => Progress::Placed,
            (None, None) => Progress::Open,
            (settled, done) => {
                let released = settled.is_some();
                let place = settled.flatten().or(done).unwrap_or_default();
                let replies = core.state.fates().replies_of(id.unit(*seq)).cloned();
                let replies = replies.unwrap_or_else(|| smallvec![lost()]);
                Progress::Closed { place, replies, released }
            }
        };
    }
    Some(live)
}
