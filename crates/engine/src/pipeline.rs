//! Pipelines over several shards: requests to shards, and messages among shards.
//!
//! A session that sends commands without waiting for replies, to several shards, does so in a
//! *stream*. A stream's *units* (commands) are numbered in the order of their issue. A *group* is
//! the units that a shard receives together. See `docs/internals/order/` for the protocol.

pub mod bundles;

use crate::coordination::{Ask, TreeSessionId};
use crate::ids::{KeyedOp, ShardId, StreamId, TxnId};
use adt::{Blob, Reply, Timestamp};
use smallvec::SmallVec;

/// One command of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unit {
    /// Number of the unit, from 0.
    pub seq: u32,
    /// Operations, which take effect together.
    pub ops: SmallVec<[KeyedOp; 1]>,
    /// Request to the tree of the coordination service. The operations then have no effect and hold
    /// the branches of the request: see [`crate::coordination::branch`].
    pub ask: Option<Box<Ask>>,
}

/// Units of a stream that a shard receives together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The stream.
    pub stream: StreamId,
    /// First unit that was not answered when this was sent.
    pub base: u32,
    /// First unit that was sent together with this group. Shards report their units that were sent
    /// together to each other without being asked.
    pub fresh: u32,
    /// Shards of the units from `base` on, up to the last that was sent together with this group.
    pub homes: Vec<ShardId>,
    /// Last place that was answered before `base`.
    pub floor: Timestamp,
    /// Whether the stream is chained: the order is handed from unit to unit (`chain`) instead of
    /// following from proposals. The units of such a stream are all sent together.
    pub chained: bool,
    /// Units of this shard; at least one.
    pub units: Vec<Unit>,
}

impl Group {
    /// Number of its first unit, which identifies the group within the stream.
    pub fn first(&self) -> u32 {
        self.units.first().map_or(0, |unit| unit.seq)
    }

    /// Number of its last unit.
    pub fn last(&self) -> u32 {
        self.units.last().map_or(0, |unit| unit.seq)
    }

    /// Units before `seq` that were not answered, with their shards.
    pub fn window(&self, seq: u32) -> impl Iterator<Item = (u32, ShardId)> + '_ {
        (self.base..seq).zip(self.homes.iter().copied())
    }

    /// Shards that have units after the group's first one, as far as they were sent together with
    /// it.
    pub fn later_homes(&self) -> SmallVec<[ShardId; 8]> {
        self.homes_from(self.first())
    }

    /// Shards that have this unit or later ones, as far as they were sent together with the group.
    pub fn homes_from(&self, seq: u32) -> SmallVec<[ShardId; 8]> {
        let from = (seq - self.base) as usize;
        let mut homes: SmallVec<[ShardId; 8]> = SmallVec::new();
        for home in self.homes.iter().skip(from) {
            if !homes.contains(home) {
                homes.push(*home);
            }
        }
        homes
    }

    /// Whether the numbers are consistent, and the units belong to this shard.
    pub fn is_sound(&self, shard: ShardId) -> bool {
        let end = u64::from(self.base) + self.homes.len() as u64;
        let rising = self.units.windows(2).all(|two| two[0].seq < two[1].seq);
        let inside = |unit: &Unit| {
            let at = unit.seq.checked_sub(self.base).map(|at| at as usize);
            at.and_then(|at| self.homes.get(at)) == Some(&shard) && !unit.ops.is_empty()
        };
        let fresh = (self.base..=self.first()).contains(&self.fresh);
        let named = end <= u64::from(TxnId::LEASE);
        let whole = !self.chained || self.base == 0;
        named && whole && rising && fresh && !self.units.is_empty() && self.units.iter().all(inside)
    }

    /// Whether its units are requests to the tree of the coordination service: either all of them
    /// are, or none.
    pub fn has_asks(&self) -> bool {
        self.units.first().is_some_and(|unit| unit.ask.is_some())
    }

    /// Requests of its units to the tree.
    pub fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.units.iter().filter_map(|unit| unit.ask.as_deref())
    }

    /// Session that has sent the requests.
    pub fn session(&self) -> Option<TreeSessionId> {
        self.asks().find_map(Ask::session)
    }

    /// All keys with their operations.
    pub fn ops(&self) -> impl Iterator<Item = &(Blob, adt::Op)> {
        self.units.iter().flat_map(|unit| &unit.ops)
    }
}

/// Outcome of a unit: its place in the order and its replies, or `None` if it has failed and had no
/// effect.
pub type UnitOutcome = Option<(Timestamp, SmallVec<[Reply; 1]>)>;

/// Outcome of a unit, as the log has it: its place, or `None` if it has failed.
pub type UnitPlace = Option<Timestamp>;

/// Place of a unit of a chained stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Number of the unit.
    pub seq: u32,
    /// Place of the unit.
    pub place: Timestamp,
    /// Term of the leader of its shard that has given the place, or of a later leader that knows
    /// it.
    pub term: u64,
}

/// Message between leaders of shards about a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamMessage {
    /// Durable: the units of a group have their places at this timestamp or later.
    Proposed {
        /// The stream.
        stream: StreamId,
        /// The sending shard.
        shard: ShardId,
        /// Numbers of the group's first and last unit.
        units: (u32, u32),
        /// Timestamp of the proposal.
        proposal: Timestamp,
    },
    /// The units of the stream on this shard up to this one are closed: nothing can be placed
    /// before them any more.
    Closed {
        /// The stream.
        stream: StreamId,
        /// The sending shard.
        shard: ShardId,
        /// Last closed unit.
        upto: u32,
    },
    /// Durable: a unit will have no effect, and neither will any that was issued while it was open.
    Refused {
        /// The stream.
        stream: StreamId,
        /// Number of the unit.
        seq: u32,
    },
    /// Question for the outcomes of these units, for which the sending shard waits.
    Asks {
        /// The stream.
        stream: StreamId,
        /// The sending shard.
        shard: ShardId,
        /// Whether to refuse at once the units that are unknown.
        hurries: bool,
        /// Numbers of the units.
        units: Vec<u32>,
    },
    /// The units of the stream on this shard are settled: all of its replicas will know the
    /// outcomes, without asking.
    Settled {
        /// The stream.
        stream: StreamId,
        /// The sending shard.
        shard: ShardId,
    },
    /// The last of these units has its place, as have all before it: the next one can get its own.
    HandedOn {
        /// The stream.
        stream: StreamId,
        /// Places from the stream's first unit on.
        links: Vec<Link>,
    },
    /// Question of a new leader for the units of its shard whose places an earlier leader has
    /// handed on. The receiver will ignore earlier leaders of that shard.
    AsksPlaces {
        /// The stream.
        stream: StreamId,
        /// The sending shard.
        shard: ShardId,
        /// Term of the asking leader.
        term: u64,
    },
    /// Durable: answer to that question.
    Knows {
        /// The stream.
        stream: StreamId,
        /// The sending shard.
        shard: ShardId,
        /// Term of the leader that has asked.
        term: u64,
        /// Places from the stream's first unit on up to the last one of the shard that has asked.
        links: Vec<Link>,
    },
}

impl StreamMessage {
    /// The stream of the message.
    pub fn stream(&self) -> StreamId {
        match self {
            Self::Proposed { stream, .. }
            | Self::Closed { stream, .. }
            | Self::Refused { stream, .. }
            | Self::Asks { stream, .. }
            | Self::Settled { stream, .. }
            | Self::HandedOn { stream, .. }
            | Self::AsksPlaces { stream, .. }
            | Self::Knows { stream, .. } => *stream,
        }
    }
}
