//! What every replica knows of pipelines over several shards: the groups that are in the log, and what
//! became of them. What their units do is in the state as it is for prepared transactions.

mod chain;
mod inherit;
mod leader;
mod live;
mod memory;

pub use chain::KeptChain;
pub(super) use chain::{ChainEffect, RECOVERY, claim_class, is_own};
pub(super) use leader::LeaderStreams;

use crate::entry::{Apply, KeptGroup, Prepare};
use crate::ids::{GatewayId, StreamId, TxnId};
use crate::limits::OUTLIVED_MAX;
use crate::pipeline::{Group, Place, Unit};
use crate::shard::ahead::AheadOfLog;
use crate::shard::state::{Executed, PreparedTxn, State};
use adt::Timestamp;
use adt::collections::Map;
use smallvec::SmallVec;

/// What is known of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Nothing more of it is let in.
    pub refused: bool,
    /// Its groups, in the order of their units. They may have come into the log in another one.
    pub groups: Vec<KeptGroup>,
    /// What is known besides if its order is handed on.
    pub chain: Option<Box<KeptChain>>,
}

impl Kept {
    /// The group with this first unit.
    pub fn group(&self, first: u32) -> Option<&KeptGroup> {
        self.groups[..self.upto(first)].last().filter(|group| group.range().0 == first)
    }

    /// Groups that have this unit or later ones.
    fn groups_since(&self, seq: u32) -> &[KeptGroup] {
        &self.groups[self.groups.partition_point(|group| group.range().1 < seq)..]
    }

    /// The log says what became of a unit.
    fn settle(&mut self, seq: u32, place: Place) {
        let upto = self.upto(seq);
        let Some(group) = self.groups[..upto].last_mut() else { return };
        if let Ok(at) = group.units.binary_search_by_key(&seq, |(unit, _)| *unit) {
            group.units[at].1 = Some(place);
        }
    }

    /// How many groups begin with this unit or an earlier one.
    fn upto(&self, seq: u32) -> usize {
        self.groups.partition_point(|group| group.range().0 <= seq)
    }

    /// The group that a unit is in.
    pub fn group_of(&self, seq: u32) -> Option<&KeptGroup> {
        let group = self.groups[..self.upto(seq)].last()?;
        group.units.binary_search_by_key(&seq, |(unit, _)| *unit).is_ok().then_some(group)
    }
}

/// All streams of which something is known.
pub type Streams = Map<StreamId, Kept>;

fn kept(group: &Group, proposal: Timestamp) -> KeptGroup {
    KeptGroup {
        base: group.base,
        homes: group.homes.clone(),
        floor: group.floor,
        proposal,
        units: group.units.iter().map(|unit| (unit.seq, None)).collect(),
    }
}

impl State {
    /// All streams of which something is known.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// A group is in the log; its units are to be prepared as well, unless they were announced.
    pub(super) fn keep_group(&mut self, group: &Group, proposal: Timestamp) {
        let stream = self.streams.entry(group.stream).or_default();
        let at = stream.upto(group.first());
        stream.groups.insert(at, kept(group, proposal));
        for unit in &group.units {
            if let Some(ask) = &unit.ask {
                self.keep_ask(group.stream.unit(unit.seq), ask.clone());
            }
        }
    }

    /// Notes the units of a group that is in the log, whose places are open. The leader has announced them.
    pub(super) fn prepare_units(
        &mut self,
        group: &Group,
        proposal: Timestamp,
        ahead: &mut AheadOfLog,
    ) {
        for unit in &group.units {
            if !ahead.confirm(group.stream.unit(unit.seq)) {
                self.prepare(prepare_of(group.stream, unit), proposal);
            }
        }
    }

    /// The leader has proposed a group; see [`State::announce`].
    pub(super) fn announce_units(
        &mut self,
        group: &Group,
        proposal: Timestamp,
        ahead: &mut AheadOfLog,
    ) {
        for unit in &group.units {
            self.announce(prepare_of(group.stream, unit), proposal, ahead);
        }
    }

    /// Nothing more of a stream is let in.
    pub(super) fn refuse_stream(&mut self, stream: StreamId) {
        self.streams.entry(stream).or_default().refused = true;
    }

    /// Nobody asks about a stream any more.
    pub(super) fn forget_stream(&mut self, stream: StreamId) {
        self.streams.swap_remove(&stream);
        self.contents.remove(&stream);
    }

    /// Streams are forgotten of which nobody has said that they are over.
    pub(super) fn outlive_streams(&mut self, streams: &[StreamId]) {
        for stream in streams {
            self.forget_stream(*stream);
            self.restore_outlived(stream.0.gateway, stream.0.began);
        }
    }

    /// Streams of a gateway up to this age may be forgotten.
    pub(super) fn restore_outlived(&mut self, gateway: GatewayId, began: Timestamp) {
        let known = self.outlived.entry(gateway).or_default();
        *known = began.max(*known);
        if self.outlived.len() > OUTLIVED_MAX {
            // Its gateway was silent for longest.
            let oldest = self.outlived.iter().min_by_key(|(_, began)| **began);
            if let Some(gateway) = oldest.map(|(gateway, _)| *gateway) {
                self.outlived.remove(&gateway);
            }
        }
    }

    /// Whether nobody can tell any more what became of a stream of which nothing is known.
    pub(super) fn is_outlived(&self, stream: StreamId) -> bool {
        let upto = self.outlived.get(&stream.0.gateway);
        upto.is_some_and(|upto| stream.0.began <= *upto) && !self.streams.contains_key(&stream)
    }

    /// What a snapshot says of a stream.
    pub(super) fn restore_stream(&mut self, stream: StreamId, kept: Kept) {
        self.streams.insert(stream, kept);
    }

    /// Whether something that the leader has acted on is a unit of a stream, prepared or not.
    pub(super) fn is_of_stream(&self, txn: TxnId) -> bool {
        self.streams.contains_key(&StreamId(txn.age))
    }

    /// Whether a transaction that is prepared is a unit of a stream.
    pub(super) fn is_unit(&self, txn: TxnId) -> bool {
        self.prepared.get(&txn).is_some_and(PreparedTxn::is_unit)
    }

    /// Whether it is one of which the log does not say yet that it may be carried out.
    pub(super) fn is_open_unit(&self, txn: TxnId) -> bool {
        self.prepared.get(&txn).is_some_and(|p| p.is_unit() && !p.free)
    }

    /// The log says that units have other places than their proposals. On a replica that does not lead,
    /// those who have waited for them are carried out now.
    pub(super) fn place_units(
        &mut self,
        stream: StreamId,
        units: &[(u32, Timestamp)],
        ahead: &mut AheadOfLog,
    ) {
        if !ahead.leads() {
            let units = units.iter().map(|(seq, place)| (stream.unit(*seq), *place));
            self.place_all(&units.collect::<Vec<_>>(), ahead);
        }
        for (seq, _) in units {
            let unit = stream.unit(*seq);
            self.prepared.get_mut(&unit).into_iter().for_each(|prepared| prepared.settled = true);
        }
    }

    /// The log says what became of units. Those that the leader has carried out, or given up, ahead of that
    /// are done with; other replicas carry them out now.
    pub(super) fn settle_units(
        &mut self,
        stream: StreamId,
        units: &[(u32, Place)],
        ahead: &mut AheadOfLog,
    ) -> Vec<Executed> {
        let mut executed = Vec::new();
        for (seq, place) in units {
            let kept = self.streams.get_mut(&stream);
            let chained = kept.is_some_and(|kept| {
                kept.settle(*seq, *place);
                kept.is_handed_on()
            });
            if chained {
                // It has failed: it had no place, and nobody has waited for it.
                self.drop_content(stream, *seq);
                continue;
            }
            let unit = stream.unit(*seq);
            self.prepared.get_mut(&unit).into_iter().for_each(|prepared| prepared.free = true);
            // One that has to wait for others is carried out later.
            executed.extend(self.decide(unit, *place, ahead));
            self.settle(unit);
        }
        executed
    }
}

fn prepare_of(stream: StreamId, unit: &Unit) -> Prepare {
    let apply = Apply { ops: unit.ops.iter().cloned().collect(), ..Apply::default() };
    // Whoever has participants is a transaction.
    Prepare { txn: stream.unit(unit.seq), participants: SmallVec::new(), apply }
}
