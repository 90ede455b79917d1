//! What every replica knows of streams whose order is handed on (`chain`): units that have arrived and have
//! no place yet, the places that are known, and to which leaders of other shards nobody listens any more.

use super::super::kept;
use crate::entry::{Apply, SnapshotPart};
use crate::ids::{KeyedOp, ShardId, StreamId};
use crate::pipeline::{Group, Link, Unit};
use crate::shard::ahead::AheadOfLog;
use crate::shard::state::{Executed, OpReplies, State};
use adt::{Ctx, Timestamp};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What is known of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptChain {
    /// Places, of this shard's units and of those before them, by number.
    pub links: BTreeMap<u32, Link>,
    /// From which terms on leaders of other shards are listened to, where not to all.
    pub promises: BTreeMap<ShardId, u64>,
    /// What the units of this shard that have no place are to do, by number.
    pub contents: BTreeMap<u32, SmallVec<[KeyedOp; 1]>>,
}

impl KeptChain {
    /// From which term on leaders of a shard are listened to.
    pub fn promised(&self, shard: ShardId) -> u64 {
        self.promises.get(&shard).copied().unwrap_or_default()
    }

    /// What a snapshot says of it.
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

impl State {
    /// Units have arrived. They hold nothing, and are in nobody's way.
    pub(super) fn keep_contents(&mut self, group: &Group, ts: Timestamp) {
        let stream = self.streams.entry(group.stream).or_default();
        let at = stream.upto(group.first());
        stream.groups.insert(at, kept(group, ts));
        let chain = stream.chain.get_or_insert_default();
        chain.contents.extend(group.units.iter().map(|unit| (unit.seq, unit.ops.clone())));
        self.contents.insert(group.stream, ts);
    }

    /// What is known of a stream whose units are here, with the shards of all its units.
    pub(in crate::shard) fn chain_of(&self, stream: StreamId) -> Option<(&KeptChain, &[ShardId])> {
        let kept = self.streams.get(&stream)?;
        Some((kept.chain.as_deref()?, &kept.groups.first()?.homes))
    }

    /// What a unit is to do, if it has no place yet.
    pub(in crate::shard) fn content(&self, stream: StreamId, seq: u32) -> Option<&[KeyedOp]> {
        let chain = self.streams.get(&stream)?.chain.as_ref()?;
        chain.contents.get(&seq).map(|ops| &ops[..])
    }

    /// What is to be done by all units that have no places yet.
    pub(in crate::shard) fn all_contents(&self) -> impl Iterator<Item = &KeyedOp> {
        let chains = self.contents.keys().filter_map(|id| self.streams.get(id)?.chain.as_ref());
        chains.flat_map(|chain| chain.contents.values().flatten())
    }

    /// A unit without a place is done with.
    pub(in crate::shard::streams) fn drop_content(
        &mut self,
        stream: StreamId,
        seq: u32,
    ) -> Option<SmallVec<[KeyedOp; 1]>> {
        let chain = self.streams.get_mut(&stream)?.chain.as_mut()?;
        let ops = chain.contents.remove(&seq);
        if chain.contents.is_empty() {
            self.contents.remove(&stream);
        }
        ops
    }

    /// A unit has its place, and takes effect.
    pub(super) fn carry_out_in_order(
        &mut self,
        stream: StreamId,
        link: Link,
        before: &[Link],
        (ctx, ahead): (&Ctx, &mut AheadOfLog),
    ) -> Option<OpReplies> {
        let ops = self.drop_content(stream, link.seq)?;
        let kept = self.streams.get_mut(&stream)?;
        kept.settle(link.seq, Some(link.place));
        let chain = kept.chain.get_or_insert_default();
        chain.links.extend(before.iter().chain([&link]).map(|link| (link.seq, *link)));
        let replies = self.run(&Apply { ops, ..Apply::default() }, ctx, ahead);
        let executed = Executed { txn: stream.unit(link.seq), replies };
        self.fates_mut().note_replies(&executed);
        Some(executed.replies)
    }

    /// Leaders of a shard are not listened to any more that led before this term.
    pub(super) fn promise(&mut self, stream: StreamId, shard: ShardId, term: u64) {
        let chain = self.streams.entry(stream).or_default().chain.get_or_insert_default();
        let promised = chain.promises.entry(shard).or_default();
        *promised = term.max(*promised);
    }

    /// What a snapshot says of a stream whose order is handed on.
    pub(in crate::shard) fn restore_chain(&mut self, stream: StreamId, chain: KeptChain) {
        let kept = self.streams.entry(stream).or_default();
        if !chain.contents.is_empty() {
            let since = kept.groups.first().map(|group| group.proposal);
            self.contents.insert(stream, since.unwrap_or_default());
        }
        kept.chain = Some(Box::new(chain));
    }
}
