//! Identifiers: of machines and shards, and of requests, transactions and streams.

use adt::{Blob, Op, Timestamp};
use std::fmt;

/// Number of a shard, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

impl ShardId {
    /// Shard number of the group that agrees on the shard map; see [`crate::cluster::map`]. It has no slots.
    /// The number is part of the formats, and all shards have smaller ones.
    pub const MAP: Self = Self(1_024);
}

const _: () = assert!(crate::limits::SHARDS_MAX <= ShardId::MAP.0 as usize);

/// Number of a machine (one server process) in its cluster, from 1; a stand-alone server has 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub u16);

/// Identity of a gateway: a worker of a machine in one of the machine's lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GatewayId {
    /// The machine.
    pub machine: MachineId,
    /// Number of the worker on that machine, from 0.
    pub worker: u16,
    /// Number of the machine's life, which grows with every start, so that effects of an earlier
    /// life are never attributed to a later one.
    pub life: u32,
}

impl GatewayId {
    /// Upper bound of all gateways.
    pub const LAST: Self = Self { machine: MachineId(u16::MAX), worker: u16::MAX, life: u32::MAX };

    /// Gateway of a worker of a stand-alone machine.
    pub fn alone(worker: u16) -> Self {
        Self { machine: MachineId(1), worker, life: 0 }
    }
}

impl fmt::Display for GatewayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.machine.0, self.worker, self.life)
    }
}

/// Number that a gateway chose for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// Width of the lower bits, which identify the request; the upper bits count its attempts.
    pub const HANDLE_BITS: u32 = 56;

    /// Identity of the request, whatever the attempts.
    pub fn handle(self) -> u64 {
        self.0 << (u64::BITS - Self::HANDLE_BITS)
    }

    /// Whether both tokens belong to the same request, whatever the attempts.
    pub fn is_again(self, other: Self) -> bool {
        self.handle() == other.handle()
    }
}

/// A key and an operation on it.
pub type KeyedOp = (Blob, Op);

/// Age of a transaction: the smaller, the older. It is kept across retries, so that every
/// transaction eventually becomes the oldest and cannot be wounded any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Age {
    /// The gateway's logical clock when the transaction first began.
    pub began: Timestamp,
    /// The gateway, which makes ages unique.
    pub gateway: GatewayId,
}

impl Age {
    /// Older than every transaction.
    pub const OLDEST: Self = Self {
        began: Timestamp::ZERO,
        gateway: GatewayId { machine: MachineId(0), worker: 0, life: 0 },
    };
}

/// A transaction: its age and which attempt this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId {
    /// Age.
    pub age: Age,
    /// Attempt, from 0; from [`TxnId::LEASE`] on, the number of a lease.
    pub attempt: u32,
}

impl TxnId {
    /// The first number of a lease: a read lock that several transactions of a gateway share.
    pub const LEASE: u32 = 1 << 31;

    /// Bit in the attempt numbers of blocked requests that were notified of a value to take: the
    /// reservation of the value at its key lets them pass.
    pub const TAKER: u32 = 1 << 30;

    /// Number of the attempt, from 0.
    pub fn tries(self) -> u32 {
        self.attempt & !Self::TAKER
    }

    /// Whether this transaction takes a value for a blocked request.
    pub fn is_taker(self) -> bool {
        self.attempt & Self::TAKER != 0 && !self.is_lease()
    }

    /// Whether this is a lease. Its age is that of the transaction that asked for it first; others
    /// that share it may be younger, so every request that waits for a lease is reported to its
    /// gateway, which knows the ages of all members.
    pub fn is_lease(self) -> bool {
        self.attempt >= Self::LEASE
    }
}

impl fmt::Display for TxnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.age.began.0, self.age.gateway, self.attempt)
    }
}

/// Identity of a session's pipeline: all commands from when none was in flight until none is in
/// flight again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub Age);

impl StreamId {
    /// Identity of a unit among transactions; no transaction has the same.
    pub fn unit(self, seq: u32) -> TxnId {
        TxnId { age: self.0, attempt: seq }
    }
}

/// A client and its number for a request: a retry carries the same one and takes effect once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId {
    /// Name of the client, which it chose itself, unique for ever.
    pub client: Blob,
    /// Number, unique for the client.
    pub number: u64,
}

/// Position, within the number of a lead, of the number of splits above the term.
const SPLITS_SHIFT: u32 = 48;

/// Term in which a lead with this number began.
pub fn term_of(lead: u64) -> u64 {
    lead & ((1 << SPLITS_SHIFT) - 1)
}

/// Number of the shard's splits when a lead with this number began.
pub fn splits_of(lead: u64) -> u16 {
    (lead >> SPLITS_SHIFT) as u16
}

/// Number of a lead that began in a term, after so many splits of the shard.
pub fn lead_of(term: u64, splits: u16) -> u64 {
    u64::from(splits) << SPLITS_SHIFT | term
}

/// Part of a bundle in a log: see [`crate::pipeline::bundles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundlePart {
    /// Number of the bundle; the bundles that go to the disk are numbered from 1 without gaps.
    pub bundle: u64,
    /// Number of the bundle's parts.
    pub parts: u16,
    /// Wave of the bundle: the bundles of a wave become durable together.
    pub wave: u64,
}
