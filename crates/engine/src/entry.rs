//! Entries of a shard's log, and parts of its snapshots.
//!
//! An [`Entry`] holds everything that a shard accepted during one turn, so that consensus and the
//! disk are paid once for all of it. `wire` turns entries into bytes through [`EntryCodec`]; the
//! leader applies the typed entry that it kept, so bytes are read only by followers and at start.

use crate::cluster::level::Level;
use crate::cluster::members::Members;
use crate::coordination::service::{Command, Joint, SessionState};
use crate::coordination::spread::Spread;
use crate::coordination::tree::Znode;
use crate::coordination::{Ask, TreeSessionId, Zxid};
use crate::ids::{GatewayId, KeyedOp, RequestId, ShardId, StreamId, TxnId};
use crate::message::{Fence, Guard, Remembered};
use crate::pipeline::{Group, Link, Unit, UnitPlace};
use adt::{Blob, Corrupt, Record, Timestamp};
use smallvec::SmallVec;
use std::sync::Arc;

/// One log entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Wall-clock time at the leader, in milliseconds since 1970, from which `EXPIRE` counts.
    pub now_ms: u64,
    /// Commit timestamp of the first record; see [`Entry::spacing`] for those of the others.
    pub ts: Timestamp,
    /// Random number from which operations with a choice (`SPOP`) derive theirs.
    pub seed: u64,
    /// The records, in commit order.
    pub records: Vec<LogRecord>,
}

impl Entry {
    /// Distance between the timestamps of its records. It follows from the records and is not
    /// written.
    pub fn spacing(&self) -> Spacing {
        Spacing::of(&self.records)
    }

    /// The records, each with its timestamp.
    pub fn timed(&self) -> impl Iterator<Item = (Timestamp, &LogRecord)> {
        let spacing = self.spacing();
        let ts_of = move |index| spacing.ts_of(self.ts, index);
        self.records.iter().enumerate().map(move |(index, record)| (ts_of(index), record))
    }
}

/// Distance between the timestamps of an entry's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// Consecutive timestamps.
    #[default]
    Next,
    /// A microsecond: some records need numbers of their own ([`adt::Waiter::reserves`]).
    Microsecond,
}

impl Spacing {
    /// Spacing of an entry with these records.
    pub fn of(records: &[LogRecord]) -> Self {
        match records.iter().any(LogRecord::takes_numbers) {
            true => Self::Microsecond,
            false => Self::Next,
        }
    }

    /// Timestamp of record number `index` of an entry that begins with `first`.
    pub fn ts_of(self, first: Timestamp, index: usize) -> Timestamp {
        match self {
            Self::Next => Timestamp(first.0 + index as u64),
            Self::Microsecond => first.later_by_us(index as u64),
        }
    }
}

/// One record of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum LogRecord {
    /// A transaction (often of one operation) whose only participant is this shard.
    Apply(Apply),
    /// This shard's part of a transaction over several shards.
    Prepare(Prepare),
    /// Outcome of a prepared transaction: its commit timestamp, or `None` if it was aborted.
    Outcome {
        /// The transaction.
        txn: TxnId,
        /// Commit timestamp.
        commit: Option<Timestamp>,
    },
    /// The transaction was not prepared here, and never will be: an inquiry has asked for its fate.
    Void(TxnId),
    /// Removal of all records of the shard (`FLUSHALL`), or of those of one database (`FLUSHDB`).
    Flush(Option<u8>),
    /// The request, unless it took effect before, never will (`TXN RESOLVE`).
    Resolve(RequestId),
    /// Replies of a request that took effect before.
    Answered(Box<Remembered>),
    /// Units of a stream have their places at this record's timestamp or later.
    Propose(Arc<Group>),
    /// Units of a stream have places other than those of their proposals. Records between the two
    /// places are executed before the units from here on.
    Place {
        /// The stream.
        stream: StreamId,
        /// The units.
        units: Vec<(u32, Timestamp)>,
    },
    /// Units of a stream have their places or have failed, and so have all before them in the
    /// stream: they are executed, or given up.
    Settle {
        /// The stream.
        stream: StreamId,
        /// The units.
        units: Vec<(u32, UnitPlace)>,
    },
    /// Units of this stream that have no proposal here never will.
    Refuse(StreamId),
    /// End of streams about which no machine will ask any more.
    Forget(Vec<StreamId>),
    /// Forgotten streams, whose end no machine has reported for long. A later question about one
    /// gets no outcome, and no more of its units are accepted.
    Outlive(Vec<StreamId>),
    /// Units of a chained stream have arrived; they have no places.
    Content(Arc<Group>),
    /// A unit of a chained stream has its place, and takes effect here.
    Ordered {
        /// The stream.
        stream: StreamId,
        /// Place of the unit.
        link: Link,
        /// Places before it that no earlier record of this shard has.
        before: Vec<Link>,
        /// Operations of the unit. They are not written, because `Content` has them.
        ops: SmallVec<[KeyedOp; 1]>,
    },
    /// Places that leaders of a shard before this term have given to its units are ignored, except
    /// for those in earlier records.
    Promise {
        /// The stream.
        stream: StreamId,
        /// The shard.
        shard: ShardId,
        /// The term.
        term: u64,
    },
    /// Write of the coordination service.
    Coordinate(Box<Command>),
    /// The shard, which has the slots from `first` to `last`, gives those from `at` on, with their
    /// content, to a new shard.
    Split {
        /// The new shard.
        child: ShardId,
        /// First slot that stays.
        first: u16,
        /// First slot that is given away.
        at: u16,
        /// Last slot that is given away.
        last: u16,
    },
}

impl LogRecord {
    /// Whether one of its operations needs a number of its own. `Settle`, `Place` and `Ordered`
    /// need none: the record with the operations was counted earlier.
    fn takes_numbers(&self) -> bool {
        let takes = |(_, op): &KeyedOp| op.reserves() > 0;
        match self {
            Self::Apply(apply) | Self::Prepare(Prepare { apply, .. }) => {
                apply.ops.iter().any(takes)
            }
            Self::Propose(group) | Self::Content(group) => group.ops().any(takes),
            _ => false,
        }
    }

    /// Operations that take effect at this record and are known to the leader when it creates the
    /// record.
    pub fn ops(&self) -> &[KeyedOp] {
        match self {
            Self::Apply(apply) => &apply.ops,
            Self::Ordered { ops, .. } => ops,
            Self::Prepare(_)
            | Self::Outcome { .. }
            | Self::Void(_)
            | Self::Flush(_)
            | Self::Resolve(_)
            | Self::Answered(_)
            | Self::Propose(_)
            | Self::Place { .. }
            | Self::Settle { .. }
            | Self::Refuse(_)
            | Self::Forget(_)
            | Self::Outlive(_)
            | Self::Content(_)
            | Self::Promise { .. }
            | Self::Coordinate(_)
            | Self::Split { .. } => &[],
        }
    }
}

/// Operations that take effect together on one shard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Apply {
    /// Operations, in the order in which they see each other. Reads are answered at their place;
    /// the codec leaves those after the last write out of the log unless `request` is set (earlier
    /// ones stay, because random numbers are assigned by position).
    pub ops: SmallVec<[KeyedOp; 1]>,
    /// Conditions; unless all hold, nothing takes effect (`WATCH`).
    pub guards: Vec<Guard>,
    /// Fencing tokens of the request: if one is too small, nothing takes effect.
    pub fences: Vec<Fence>,
    /// Client and request number, so that a retry takes effect once.
    pub request: Option<RequestId>,
}

impl Apply {
    /// Whether the operations are carried out whatever happens: nothing is asked of the state first.
    pub fn is_certain(&self) -> bool {
        let unconditional =
            self.guards.is_empty() && self.fences.is_empty() && self.request.is_none();
        unconditional && !self.ops.iter().any(|(_, op)| op.opens_section())
    }

    /// Keys of its operations and of its guards.
    pub fn keys(&self) -> impl Iterator<Item = &Blob> {
        self.ops.iter().map(|(key, _)| key).chain(self.guards.iter().map(|guard| &guard.key))
    }

    /// Whether it may change a record.
    pub fn writes(&self) -> bool {
        self.ops.iter().any(|(_, op)| op.is_write())
    }

    /// Whether it waits with a ticket, so that it can be named as a successor and may be sent again
    /// safely.
    pub fn may_be_successor(&self) -> bool {
        self.ops.iter().any(|(_, op)| op.ticket().is_some())
    }

    /// Whether it observes a record, instead of waiting for a turn or listening for waiters.
    pub fn observes(&self) -> bool {
        !self.writes() && self.ops.iter().any(|(_, op)| !op.listens())
    }
}

/// One participant's part of a transaction over several shards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepare {
    /// The transaction.
    pub txn: TxnId,
    /// All participants, ascending, this shard included.
    pub participants: SmallVec<[ShardId; 4]>,
    /// Operations to perform here at the commit timestamp.
    pub apply: Apply,
}

impl Prepare {
    /// Whether this is a unit of a stream. Only transactions have participants.
    pub fn is_unit(&self) -> bool {
        self.participants.is_empty()
    }
}

/// Codec of entries. Bytes are hostile: `decode` checks every length before it allocates and
/// reports [`Corrupt`] for everything that it does not understand.
pub trait EntryCodec {
    /// Appends the bytes of `entry` to `out`, in a form for machines of this level.
    fn encode(&self, entry: &Entry, level: Level, out: &mut Vec<u8>);
    /// Appends a framed part of a snapshot.
    fn encode_part(&self, part: &SnapshotPart, out: &mut Vec<u8>);
    /// Decodes an entry. Reads that `encode` left out are missing.
    fn decode(&self, bytes: &[u8]) -> Result<Entry, Corrupt>;
}

/// Part of a snapshot: a header, then any number of the others in any order, then the end. The
/// codec frames every part with its length and a CRC-32.
#[derive(Clone, Debug, PartialEq)]
pub enum SnapshotPart {
    /// First part.
    Header {
        /// The shard.
        shard: ShardId,
        /// Index of the last log entry that the snapshot contains.
        index: u64,
        /// Term of that entry.
        term: u64,
        /// The shard's clock.
        clock: Timestamp,
        /// Timestamp of the last removal of a record.
        removed: Timestamp,
    },
    /// Members of the group, unless they are its founders.
    Members(Members),
    /// Slots of a shard that was split, or was created by a split.
    Slots {
        /// Number of its splits.
        splits: u16,
        /// First slot.
        first: u16,
        /// Last slot.
        last: u16,
    },
    /// A key and its record.
    Record(Blob, Record),
    /// Prepared transaction that is not executed yet, with its timestamp bound, and its commit
    /// timestamp once that is decided.
    Prepared {
        /// The participant's part.
        prepare: Prepare,
        /// Lower bound of its commit timestamp.
        bound: Timestamp,
        /// Commit timestamp, if decided.
        commit: Option<Timestamp>,
    },
    /// Outcome of a request.
    Request {
        /// Client and number.
        request: RequestId,
        /// Outcome of the request.
        outcome: RequestOutcome,
    },
    /// State of a stream: its groups at this shard, and whether more are accepted.
    Stream {
        /// The stream.
        stream: StreamId,
        /// Whether further groups are refused.
        refused: bool,
        /// Groups of the stream, without the operations of their units.
        groups: Vec<KeptGroup>,
    },
    /// Additional state of a chained stream, after its [`SnapshotPart::Stream`].
    Chain {
        /// The stream.
        stream: StreamId,
        /// Known places.
        links: Vec<Link>,
        /// Shards whose leaders before these terms are ignored.
        promises: Vec<(ShardId, u64)>,
        /// Units without a place.
        contents: Vec<Unit>,
    },
    /// Commit timestamp of a transaction over several shards that was executed recently.
    Outcome {
        /// The transaction.
        txn: TxnId,
        /// Commit timestamp of the transaction.
        commit: Timestamp,
    },
    /// Transaction that was not prepared here and never will be.
    Void(TxnId),
    /// Transaction whose outcome is in the state already, but not in the log that the snapshot
    /// contains: other replicas still hold it as prepared.
    Unsettled {
        /// The transaction.
        txn: TxnId,
        /// Commit timestamp, or `None` if it was aborted.
        commit: Option<Timestamp>,
    },
    /// Streams of a gateway up to this age may have been forgotten before their end.
    Outlived {
        /// The gateway.
        gateway: GatewayId,
        /// Begin of the youngest of them.
        began: Timestamp,
    },
    /// Largest fencing token of a lock that was seen here.
    Fence {
        /// The lock's name.
        lock: Blob,
        /// The token.
        token: u64,
    },
    /// Locks without a [`SnapshotPart::Fence`] require tokens larger than this.
    FenceFloor(u64),
    /// Last change of the coordination service at this shard.
    Coordination {
        /// The number of the change.
        last: Zxid,
    },
    /// The tree of the coordination service is spread over several shards, of which this is one.
    Spread {
        /// Number of shards, if this is shard 0.
        over: Spread,
        /// Bound on ended sessions: a session that has joined with this number or a smaller one may
        /// have ended.
        departed: Zxid,
    },
    /// A session of the coordination service.
    Session {
        /// Number of the session.
        session: TreeSessionId,
        /// State of the session, without its nodes.
        kept: Box<SessionState>,
        /// Number of the change with which its end began, and whether it has ended; none before.
        ending: Option<(Zxid, bool)>,
    },
    /// Unit of a stream with a request to the tree, and not settled.
    Asked {
        /// The unit.
        unit: TxnId,
        /// Request of the unit.
        ask: Box<Ask>,
    },
    /// Last `multi` of a session over several shards that this shard knows.
    Joint {
        /// Number of the session.
        session: TreeSessionId,
        /// Identity and state of the `multi`.
        joint: Box<Joint>,
    },
    /// Path and node of the coordination service, without the names of its children.
    Node(Blob, Box<Znode>),
    /// Last part.
    End {
        /// Number of parts before this one.
        parts: u64,
    },
}

/// Outcome of a request number.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestOutcome {
    /// The request took effect.
    TookEffect(TookEffect),
    /// The request will never take effect, as was settled at this time.
    Void(Timestamp),
    /// Outcomes of this number and all smaller ones are forgotten, except for those that are kept.
    /// The time is that of the client's last request.
    Forgotten(Timestamp),
}

impl RequestOutcome {
    /// Time of the client's last request.
    pub fn ts(&self) -> Timestamp {
        match self {
            Self::TookEffect(TookEffect { ts, .. }) | Self::Void(ts) | Self::Forgotten(ts) => *ts,
        }
    }
}

/// A request that took effect.
#[derive(Clone, Debug, PartialEq)]
pub struct TookEffect {
    /// Commit timestamp.
    pub ts: Timestamp,
    /// Replies of its operations here, or of its commands; none if they were dropped.
    pub replies: Vec<adt::Reply>,
    /// Whether the replies are those of its commands.
    pub whole: bool,
    /// Reason why its replies are not kept, if they are not.
    pub dropped: Option<Dropped>,
}

/// Reason why the replies of a request are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The replies are too long.
    TooLong,
    /// Replies of later requests needed the memory.
    ForRoom,
}

/// Group of a stream, without operations.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptGroup {
    /// See [`Group::base`].
    pub base: u32,
    /// See [`Group::homes`].
    pub homes: Vec<ShardId>,
    /// See [`Group::floor`].
    pub floor: Timestamp,
    /// Lower bound of the units' places.
    pub proposal: Timestamp,
    /// Units with their outcomes, once these are in the log.
    pub units: Vec<(u32, Option<UnitPlace>)>,
}

impl KeptGroup {
    /// Numbers of its first and its last unit.
    pub fn range(&self) -> (u32, u32) {
        let number = |unit: Option<&(u32, Option<UnitPlace>)>| unit.map_or(0, |(seq, _)| *seq);
        (number(self.units.first()), number(self.units.last()))
    }

    /// Whether the log has the outcomes of all units.
    pub fn is_settled(&self) -> bool {
        self.units.iter().all(|(_, place)| place.is_some())
    }
}

/// Codec of snapshot parts.
pub trait SnapshotCodec: std::fmt::Debug + Send {
    /// Appends one framed part.
    fn encode(&self, part: &SnapshotPart, out: &mut Vec<u8>);
    /// Decodes the next framed part, if it is complete; returns it and its length.
    fn next(&self, bytes: &[u8]) -> Result<Option<(SnapshotPart, usize)>, Corrupt>;
    /// Decodes the next framed part; returns it and its length.
    fn decode(&self, bytes: &[u8]) -> Result<(SnapshotPart, usize), Corrupt>;
}
