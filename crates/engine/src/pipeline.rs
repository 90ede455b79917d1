//! Pipelines over several shards: what is said about them, to shards and among shards.
//!
//! A session that sends commands without waiting for replies, to several shards, does so in a
//! *stream*. A stream's *units* (commands) have numbers in the order in which they were issued. What a
//! shard gets of a stream at once is a *group*. See `docs/internals/order.md` for the protocol.

use crate::coordination::{Ask, SessionId};
use crate::ids::{KeyedOp, ShardId, StreamId, TxnId};
use adt::{Blob, Reply, Timestamp};
use smallvec::SmallVec;

/// One command of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unit {
    /// Its number, from 0.
    pub seq: u32,
    /// What it does, all at once.
    pub ops: SmallVec<[KeyedOp; 1]>,
    /// What it asks of the tree of the coordination service. Its operations change nothing then, and hold
    /// what that is about: see [`crate::coordination::branch`].
    pub ask: Option<Box<Ask>>,
}

/// What a shard gets of a stream at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The stream.
    pub stream: StreamId,
    /// The first unit that had not been answered when this was sent.
    pub base: u32,
    /// The first unit that was sent together with this group. Shards tell each other of those that
    /// came together without being asked.
    pub fresh: u32,
    /// The shards of the units from `base` on, up to the last that was sent together with this group.
    pub homes: Vec<ShardId>,
    /// The last place that was answered before `base`.
    pub floor: Timestamp,
    /// The order is handed from unit to unit (`chain`), and does not follow from proposals. All of such a
    /// stream is sent together.
    pub chained: bool,
    /// This shard's units; at least one.
    pub units: Vec<Unit>,
}

impl Group {
    /// The number of its first unit, which names it within the stream.
    pub fn first(&self) -> u32 {
        self.units.first().map_or(0, |unit| unit.seq)
    }

    /// The number of its last unit.
    pub fn last(&self) -> u32 {
        self.units.last().map_or(0, |unit| unit.seq)
    }

    /// The units that come before `seq` and had not been answered, with their shards.
    pub fn window(&self, seq: u32) -> impl Iterator<Item = (u32, ShardId)> + '_ {
        (self.base..seq).zip(self.homes.iter().copied())
    }

    /// Shards that have units after the group's first one, as far as they came together with it.
    pub fn later_homes(&self) -> SmallVec<[ShardId; 8]> {
        self.homes_from(self.first())
    }

    /// Shards that have this unit or later ones, as far as they came together with the group.
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

    /// Whether the numbers fit together, and the shard named is where the units belong.
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

    /// Whether its units ask something of the tree of the coordination service: all of them do, or none.
    pub fn has_asks(&self) -> bool {
        self.units.first().is_some_and(|unit| unit.ask.is_some())
    }

    /// What its units ask of the tree.
    pub fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.units.iter().filter_map(|unit| unit.ask.as_deref())
    }

    /// The session whose requests they are.
    pub fn session(&self) -> Option<SessionId> {
        self.asks().find_map(Ask::session)
    }

    /// All keys with what is done to them.
    pub fn ops(&self) -> impl Iterator<Item = &(Blob, adt::Op)> {
        self.units.iter().flat_map(|unit| &unit.ops)
    }
}

/// What became of a unit: its place in the order and its replies, or nothing if it has failed and had
/// no effect.
pub type Answered = Option<(Timestamp, SmallVec<[Reply; 1]>)>;

/// What became of a unit, as the log says it: its place, or nothing if it has failed.
pub type Place = Option<Timestamp>;

/// The place of a unit of a stream whose order is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The number of the unit.
    pub seq: u32,
    /// Its place.
    pub place: Timestamp,
    /// The term of its shard's leader that has given the place, or a later one of a leader that knows of
    /// it.
    pub term: u64,
}

/// What leaders of shards tell each other about a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// The units of a group have their place at this timestamp or later: durable.
    Proposed {
        /// The stream.
        stream: StreamId,
        /// The shard that says so.
        shard: ShardId,
        /// The numbers of the first and the last unit of the group.
        units: (u32, u32),
        /// The timestamp.
        proposal: Timestamp,
    },
    /// The units of the stream on this shard up to this one are closed: nobody comes before them any
    /// more.
    Closed {
        /// The stream.
        stream: StreamId,
        /// The shard that says so.
        shard: ShardId,
        /// Up to this unit.
        upto: u32,
    },
    /// A unit will have no effect, and none that was issued while it was open: durable.
    Refused {
        /// The stream.
        stream: StreamId,
        /// The number of the unit.
        seq: u32,
    },
    /// What became of these units? The shard that asks waits for them.
    Asks {
        /// The stream.
        stream: StreamId,
        /// Who asks.
        shard: ShardId,
        /// Whether what is not known is to be refused at once.
        hurries: bool,
        /// The units.
        units: Vec<u32>,
    },
    /// The units of the stream on this shard are settled: all of its replicas will know what became of
    /// them, without asking.
    Settled {
        /// The stream.
        stream: StreamId,
        /// The shard that says so.
        shard: ShardId,
    },
    /// The last of these units has its place, as have all before it: the next one can have its own.
    HandedOn {
        /// The stream.
        stream: StreamId,
        /// The places from the stream's first unit on.
        links: Vec<Link>,
    },
    /// A new leader asks which of its shard's units have a place that an earlier one has handed on. Who
    /// answers listens no more to earlier leaders of that shard.
    AsksPlaces {
        /// The stream.
        stream: StreamId,
        /// Who asks.
        shard: ShardId,
        /// The term in which it leads.
        term: u64,
    },
    /// The answer: durable.
    Knows {
        /// The stream.
        stream: StreamId,
        /// Who answers.
        shard: ShardId,
        /// The term of the leader that has asked.
        term: u64,
        /// The places from the stream's first unit on up to the last one of the shard that has asked.
        links: Vec<Link>,
    },
}

impl Word {
    /// The stream that it is about.
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
