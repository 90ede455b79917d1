//! Replicated memory of streams whose order is handed on (`chain`): units that have arrived and have no
//! place yet, known places, and promises to leaders of other shards.

use super::super::kept::KeptStreams;
use crate::entry::{Apply, SnapshotPart};
use crate::ids::{KeyedOp, ShardId, StreamId};
use crate::pipeline::{Group, Link, Unit};
use crate::shard::ahead::AheadOfLog;
use crate::shard::state::{Executed, OpReplies, State};
use adt::{Ctx, Timestamp};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Replicated memory of one stream whose order is handed on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptChain {
    /// Places, of this shard's units and of those before them, by number.
    pub links: BTreeMap<u32, Link>,
    /// Promises to other shards: the term from which on leaders of the shard are listened to.
    pub promises: BTreeMap<ShardId, u64>,
    /// Operations of the units of this shard that have no place, by number.
    pub contents: BTreeMap<u32, SmallVec<[KeyedOp; 1]>>,
}

impl KeptChain {
    /// The term from which on leaders of a shard are listened to.
    pub fn promised(&self, shard: ShardId) -> u64 {
        self.promises.get(&shard).copied().unwrap_or_default()
    }

    /// The part of a snapshot that describes the chain.
    pub(in crate::shard) fn part(&self, stream: StreamId) -> SnapshotPart {
        let unit = |(seq, ops): (&u32, &SmallVec<[KeyedOp; 1]>)| Unit {
            seq: *seq,
            ops: ops.clone(),
            ..Unit::default()
        };
        SnapshotPart::Chain {
            stream,
            links: self.links.values().copied().collect(),
            promises: self.promises.iter().map(|(shard, term)| (*shard, *term)).collect(),
            contents: self.contents.iter().map(unit).collect(),
        }
    }
}

impl KeptStreams {
    /// Remembers units that have arrived. They hold nothing, and nothing waits for them.
    pub(super) fn keep_contents(&mut self, group: &Group, ts: Timestamp) {
        self.keep(group, ts);
        let chain = self.entry(group.stream).chain.get_or_insert_default();
        chain.contents.extend(group.units.iter().map(|unit| (unit.seq, unit.ops.clone())));
        self.unplaced.insert(group.stream, ts);
    }

    /// Memory of a stream's chain.
    pub(super) fn chain(&self, stream: StreamId) -> Option<&KeptChain> {
        self.get(stream)?.chain.as_deref()
    }

    /// Memory of the chain of a stream whose units are here, with the shards of all its units.
    pub(super) fn chain_with_homes(&self, stream: StreamId) -> Option<(&KeptChain, &[ShardId])> {
        let kept = self.get(stream)?;
        Some((kept.chain.as_deref()?, &kept.groups.first()?.homes))
    }

    /// Operations of a unit that has no place yet.
    pub(super) fn content(&self, stream: StreamId, seq: u32) -> Option<&[KeyedOp]> {
        self.chain(stream)?.contents.get(&seq).map(|ops| &ops[..])
    }

    /// Operations of all units that have no places yet.
    pub(in crate::shard) fn all_contents(&self) -> impl Iterator<Item = &KeyedOp> {
        let chains = self.unplaced.keys().filter_map(|id| self.chain(*id));
        chains.flat_map(|chain| chain.contents.values().flatten())
    }

    /// Streams with units that have no places.
    pub(super) fn with_contents(&self) -> impl Iterator<Item = StreamId> {
        self.unplaced.keys().copied()
    }

    /// Forgets the operations of a unit without a place: it gets one now, or none ever.
    pub(in crate::shard::streams) fn drop_content(
        &mut self,
        stream: StreamId,
        seq: u32,
    ) -> Option<SmallVec<[KeyedOp; 1]>> {
        let chain = self.get_mut(stream)?.chain.as_mut()?;
        let ops = chain.contents.remove(&seq);
        if chain.contents.is_empty() {
            self.unplaced.remove(&stream);
        }
        ops
    }

    /// Promises to listen to no leader of a shard that led before a term.
    pub(super) fn promise(&mut self, stream: StreamId, shard: ShardId, term: u64) {
        let chain = self.entry(stream).chain.get_or_insert_default();
        let promised = chain.promises.entry(shard).or_default();
        *promised = term.max(*promised);
    }

    /// Puts the chain of a snapshot in its place.
    pub(in crate::shard) fn restore_chain(&mut self, stream: StreamId, chain: KeptChain) {
        let kept = self.entry(stream);
        let since = kept.groups.first().map(|group| group.proposal).unwrap_or_default();
        let has_contents = !chain.contents.is_empty();
        kept.chain = Some(Box::new(chain));
        if has_contents {
            self.unplaced.insert(stream, since);
        }
    }
}

impl State {
    /// Carries out a unit that has got its place.
    pub(super) fn carry_out_in_order(
        &mut self,
        stream: StreamId,
        link: Link,
        before: &[Link],
        (ctx, ahead): (&Ctx, &mut AheadOfLog),
    ) -> Option<OpReplies> {
        let ops = self.streams.drop_content(stream, link.seq)?;
        let kept = self.streams.get_mut(stream)?;
        kept.settle(link.seq, Some(link.place));
        let chain = kept.chain.get_or_insert_default();
        chain.links.extend(before.iter().chain([&link]).map(|link| (link.seq, *link)));
        let replies = self.run(&Apply { ops, ..Apply::default() }, ctx, ahead);
        let executed = Executed { txn: stream.unit(link.seq), replies };
        self.fates_mut().note_replies(&executed);
        Some(executed.replies)
    }
}
