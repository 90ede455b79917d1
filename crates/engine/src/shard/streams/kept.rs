//! Replicated memory of streams: the groups that are in the log, and the fate of their units.
//!
//! The effects of units are in the state as those of prepared transactions are.

use super::chain::KeptChain;
use crate::entry::{Apply, KeptGroup, Prepare};
use crate::ids::{GatewayId, StreamId, TxnId};
use crate::limits::OUTLIVED_MAX;
use crate::pipeline::{Group, Unit, UnitPlace};
use crate::shard::ahead::AheadOfLog;
use crate::shard::state::{Executed, State};
use adt::Timestamp;
use adt::collections::Map;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Replicated memory of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptStream {
    /// No further group of the stream is let in.
    pub refused: bool,
    /// Groups in the order of their units. They may have come into the log in another order.
    pub groups: Vec<KeptGroup>,
    /// Further memory of a stream whose order is handed on.
    pub chain: Option<Box<KeptChain>>,
}

impl KeptStream {
    /// Whether the order of the stream is handed on.
    pub(super) fn is_handed_on(&self) -> bool {
        self.chain.is_some()
    }

    /// Whether the fate of all its units is in the log.
    pub fn is_settled(&self) -> bool {
        self.groups.iter().all(KeptGroup::is_settled)
    }

    /// The group with this first unit.
    pub fn group(&self, first: u32) -> Option<&KeptGroup> {
        self.groups[..self.upto(first)].last().filter(|group| group.range().0 == first)
    }

    /// The group that a unit is in.
    pub fn group_of(&self, seq: u32) -> Option<&KeptGroup> {
        let group = self.groups[..self.upto(seq)].last()?;
        group.units.binary_search_by_key(&seq, |(unit, _)| *unit).is_ok().then_some(group)
    }

    /// Proposal of a unit whose group is in the log.
    pub(super) fn proposal(&self, seq: u32) -> Option<Timestamp> {
        self.group_of(seq).map(|group| group.proposal)
    }

    /// Groups with this unit or later ones.
    pub(super) fn groups_since(&self, seq: u32) -> &[KeptGroup] {
        &self.groups[self.groups.partition_point(|group| group.range().1 < seq)..]
    }

    /// Number of groups that begin with this unit or an earlier one.
    fn upto(&self, seq: u32) -> usize {
        self.groups.partition_point(|group| group.range().0 <= seq)
    }

    fn keep(&mut self, group: &Group, proposal: Timestamp) {
        let at = self.upto(group.first());
        let kept = KeptGroup {
            base: group.base,
            homes: group.homes.clone(),
            floor: group.floor,
            proposal,
            units: group.units.iter().map(|unit| (unit.seq, None)).collect(),
        };
        self.groups.insert(at, kept);
    }

    /// Notes the fate of a unit.
    pub(super) fn settle(&mut self, seq: u32, place: UnitPlace) {
        let upto = self.upto(seq);
        let Some(group) = self.groups[..upto].last_mut() else { return };
        if let Ok(at) = group.units.binary_search_by_key(&seq, |(unit, _)| *unit) {
            group.units[at].1 = Some(place);
        }
    }
}

/// Replicated memory of all streams.
#[derive(Clone, Debug, Default)]
pub struct KeptStreams {
    streams: Map<StreamId, KeptStream>,
    /// By gateway: streams that are not older may be forgotten although they were not over.
    outlived: BTreeMap<GatewayId, Timestamp>,
    /// Streams whose order is handed on and that have units here without places, with the timestamp at
    /// which those came.
    pub(super) unplaced: BTreeMap<StreamId, Timestamp>,
}

impl KeptStreams {
    /// Memory of a stream.
    pub fn get(&self, stream: StreamId) -> Option<&KeptStream> {
        self.streams.get(&stream)
    }

    pub(super) fn get_mut(&mut self, stream: StreamId) -> Option<&mut KeptStream> {
        self.streams.get_mut(&stream)
    }

    /// Memory of a stream, which may be new.
    pub(super) fn entry(&mut self, stream: StreamId) -> &mut KeptStream {
        self.streams.entry(stream).or_default()
    }

    /// All streams.
    pub fn iter(&self) -> impl Iterator<Item = (&StreamId, &KeptStream)> {
        self.streams.iter()
    }

    /// Whether no stream is remembered.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Number of streams.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether a transaction that the leader has acted on is a unit of a stream, prepared or not.
    pub(in crate::shard) fn has_unit(&self, txn: TxnId) -> bool {
        self.streams.contains_key(&StreamId(txn.age))
    }

    /// Whether no further group of a stream is let in.
    pub(super) fn is_refused(&self, stream: StreamId) -> bool {
        self.get(stream).is_some_and(|kept| kept.refused)
    }

    /// Whether the fate of all units of a stream is in the log.
    pub(super) fn is_settled(&self, stream: StreamId) -> bool {
        self.get(stream).is_none_or(KeptStream::is_settled)
    }

    /// Remembers a group whose record is committed.
    pub(super) fn keep(&mut self, group: &Group, proposal: Timestamp) {
        self.entry(group.stream).keep(group, proposal);
    }

    /// Lets no further group of a stream in.
    pub(in crate::shard) fn refuse(&mut self, stream: StreamId) {
        self.entry(stream).refused = true;
    }

    /// Forgets a stream that is over.
    pub(in crate::shard) fn forget(&mut self, stream: StreamId) {
        self.streams.swap_remove(&stream);
        self.unplaced.remove(&stream);
    }

    /// Forgets streams whose end was never reported.
    pub(in crate::shard) fn outlive(&mut self, streams: &[StreamId]) {
        for stream in streams {
            self.forget(*stream);
            self.restore_outlived(stream.0.gateway, stream.0.began);
        }
    }

    /// Notes that streams of a gateway up to this age may be forgotten.
    pub(in crate::shard) fn restore_outlived(&mut self, gateway: GatewayId, began: Timestamp) {
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

    /// Ages up to which streams may be forgotten, by gateway.
    pub(in crate::shard) fn outlived(&self) -> impl Iterator<Item = (GatewayId, Timestamp)> {
        self.outlived.iter().map(|(gateway, began)| (*gateway, *began))
    }

    /// Takes over from a parent shard which streams may be forgotten.
    pub(in crate::shard) fn inherit_outlived(&mut self, parent: &Self) {
        self.outlived.clone_from(&parent.outlived);
    }

    /// Whether the fate of a stream that is not remembered can no longer be told.
    pub(super) fn is_outlived(&self, stream: StreamId) -> bool {
        let upto = self.outlived.get(&stream.0.gateway);
        upto.is_some_and(|upto| stream.0.began <= *upto) && !self.streams.contains_key(&stream)
    }

    /// Puts a stream of a snapshot in its place.
    pub(in crate::shard) fn restore(&mut self, stream: StreamId, kept: KeptStream) {
        self.streams.insert(stream, kept);
    }

    /// The oldest timestamp at which units came that have no places.
    pub(in crate::shard) fn oldest_unplaced(&self) -> Option<Timestamp> {
        self.unplaced.values().copied().min()
    }

    /// Units whose fate is in the log.
    pub(in crate::shard) fn settled_units(&self) -> impl Iterator<Item = TxnId> {
        self.streams.iter().flat_map(|(id, kept)| {
            let units = kept.groups.iter().flat_map(|group| &group.units);
            units.filter(|(_, place)| place.is_some()).map(|(seq, _)| id.unit(*seq))
        })
    }
}

impl State {
    /// Notes the units of a group that is in the log and whose places are open, unless the leader has
    /// announced them.
    pub(in crate::shard) fn prepare_units(
        &mut self,
        group: &Group,
        proposal: Timestamp,
        ahead: &mut AheadOfLog,
    ) {
        for unit in &group.units {
            if !ahead.confirm(group.stream.unit(unit.seq)) {
                self.prepare(prepare_of(group.stream, unit), proposal);
            }
            if let Some(ask) = &unit.ask {
                self.keep_ask(group.stream.unit(unit.seq), ask.clone());
            }
        }
        self.streams.keep(group, proposal);
    }

    /// Notes the units of a group that the leader has proposed; see [`State::announce`].
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

    /// Notes places that differ from the units' proposals. On a replica that does not lead, transactions
    /// that have waited for the units are carried out now.
    pub(in crate::shard) fn place_units(
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
            self.prepared.unit_mut(stream.unit(*seq)).for_each(|prepared| prepared.settled = true);
        }
    }

    /// Notes the fate of units. Units that the leader has carried out or given up ahead of the log are done
    /// with; other replicas carry them out now.
    pub(in crate::shard) fn settle_units(
        &mut self,
        stream: StreamId,
        units: &[(u32, UnitPlace)],
        ahead: &mut AheadOfLog,
    ) -> Vec<Executed> {
        let mut executed = Vec::new();
        for (seq, place) in units {
            let kept = self.streams.get_mut(stream);
            let chained = kept.is_some_and(|kept| {
                kept.settle(*seq, *place);
                kept.is_handed_on()
            });
            if chained {
                // The unit has failed: it had no place, and nothing has waited for it.
                self.streams.drop_content(stream, *seq);
                continue;
            }
            let unit = stream.unit(*seq);
            self.prepared.unit_mut(unit).for_each(|prepared| prepared.free = true);
            // A unit that has to wait for others is carried out later.
            executed.extend(self.decide(unit, *place, ahead));
            self.prepared.settle(unit);
        }
        executed
    }
}

fn prepare_of(stream: StreamId, unit: &Unit) -> Prepare {
    let apply = Apply { ops: unit.ops.iter().cloned().collect(), ..Apply::default() };
    // A prepare with participants is a part of a transaction.
    Prepare { txn: stream.unit(unit.seq), participants: SmallVec::new(), apply }
}
