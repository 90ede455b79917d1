//! What is written into a shard's log.
//!
//! An [`Entry`] holds everything that a shard took in during one turn, so that consensus and the
//! disk are paid once for all of it. `wire` turns entries into bytes through [`EntryCodec`]; the
//! leader applies the typed entry that it kept, so bytes are read only by followers and at start.

use crate::coordination::service::{Command, Joint, Session};
use crate::coordination::spread::Spread;
use crate::coordination::tree::Node;
use crate::coordination::{Ask, SessionId, Zxid};
use crate::ids::{GatewayId, KeyedOp, RequestId, ShardId, StreamId, TxnId};
use crate::level::Level;
use crate::members::Members;
use crate::message::{Fence, Guard, Remembered};
use crate::pipeline::{Group, Link, Place, Unit};
use adt::{Blob, Corrupt, Record, Timestamp};
use smallvec::SmallVec;
use std::sync::Arc;

/// One log entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Wall-clock time at the leader, in milliseconds since 1970: what `EXPIRE` counts from.
    pub now_ms: u64,
    /// Commit timestamp of the first record; see [`Entry::spacing`] for those of the others.
    pub ts: Timestamp,
    /// Random number from which operations with a choice (`SPOP`) take theirs.
    pub seed: u64,
    /// The records, in commit order.
    pub records: Vec<LogRecord>,
}

impl Entry {
    /// How far apart the timestamps of its records are, which is not written: it follows from them.
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

/// How far apart the timestamps of an entry's records are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// One follows the other.
    #[default]
    Next,
    /// By a microsecond: some need numbers of their own ([`adt::Waiter::reserves`]).
    Microsecond,
}

impl Spacing {
    /// Of an entry with these records.
    pub fn of(records: &[LogRecord]) -> Self {
        match records.iter().any(LogRecord::takes_numbers) {
            true => Self::Microsecond,
            false => Self::Next,
        }
    }

    /// Timestamp of record number `index` of an entry that begins with this one.
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
    /// A prepared transaction's fate: its commit timestamp, or `None` if it was aborted.
    Outcome {
        /// The transaction.
        txn: TxnId,
        /// Commit timestamp.
        commit: Option<Timestamp>,
    },
    /// The transaction was not prepared here, and never will be: somebody has asked for its fate.
    Void(TxnId),
    /// All records of the shard are removed (`FLUSHALL`).
    Flush,
    /// Unless the request took effect before, it never will (`TXN RESOLVE`).
    Resolve(RequestId),
    /// What a request has answered that took effect before.
    Answered(Box<Remembered>),
    /// Units of a stream have their places at this record's timestamp or later.
    Propose(Arc<Group>),
    /// Units of a stream have places that are not those of their proposals. Whoever comes between the two
    /// is carried out before them from here on.
    Place {
        /// The stream.
        stream: StreamId,
        /// The units.
        units: Vec<(u32, Timestamp)>,
    },
    /// Units of a stream have their places, and all before them in the stream have, or they have failed:
    /// they are carried out, or given up.
    Settle {
        /// The stream.
        stream: StreamId,
        /// The units.
        units: Vec<(u32, Place)>,
    },
    /// Units of this stream that have no proposal here never will.
    Refuse(StreamId),
    /// Nobody will ask about these streams any more.
    Forget(Vec<StreamId>),
    /// Nobody has said for long that these streams are over, and they are forgotten all the same: whoever
    /// asks about one again is not told what became of it, and nothing of it is let in any more.
    Outlive(Vec<StreamId>),
    /// Units of a stream whose order is handed on have arrived; they have no places.
    Content(Arc<Group>),
    /// One of them has its place, and takes effect here.
    Ordered {
        /// The stream.
        stream: StreamId,
        /// Its place.
        link: Link,
        /// The places before it, as far as no earlier record of this shard has them.
        before: Vec<Link>,
        /// What it does; not written, because `Content` has it.
        ops: SmallVec<[KeyedOp; 1]>,
    },
    /// No places of a shard's units are taken that its leaders before this term have given, but those in
    /// records before this one.
    Promise {
        /// The stream.
        stream: StreamId,
        /// The shard.
        shard: ShardId,
        /// The term.
        term: u64,
    },
    /// A change of the coordination service.
    Coordinate(Box<Command>),
    /// The shard, which has the slots from `first` to `last`, gives those from `at` on to a new
    /// shard, with all that is in them.
    Split {
        /// The new shard.
        child: ShardId,
        /// The first slot that stays.
        first: u16,
        /// The first slot that is given away.
        at: u16,
        /// The last slot that is given away.
        last: u16,
    },
}

impl LogRecord {
    /// Whether some of it needs a number of its own. What is ordered by the record was written before it,
    /// in a record of which this was asked then.
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

    /// What takes effect at this record and is known to the leader from the moment on when it is made.
    pub fn ops(&self) -> &[KeyedOp] {
        match self {
            Self::Apply(apply) => &apply.ops,
            Self::Ordered { ops, .. } => ops,
            Self::Prepare(_)
            | Self::Outcome { .. }
            | Self::Void(_)
            | Self::Flush
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
    /// The operations, in the order in which they see each other. Reads are answered at their
    /// place; the codec leaves those after the last write out of the log unless `request` is set
    /// (earlier ones stay, because random numbers are handed out by position).
    pub ops: SmallVec<[KeyedOp; 1]>,
    /// What must still hold, or nothing takes effect (`WATCH`).
    pub guards: Vec<Guard>,
    /// The fencing tokens that it comes with: if one is too small nothing takes effect.
    pub fences: Vec<Fence>,
    /// Client and request number, so that a retry takes effect once.
    pub request: Option<RequestId>,
}

impl Apply {
    /// Whether it can change something.
    pub fn writes(&self) -> bool {
        self.ops.iter().any(|(_, op)| op.is_write())
    }

    /// Whether somebody waits who can be named as the next: to ask again is to ask the same.
    pub fn may_be_next(&self) -> bool {
        self.ops.iter().any(|(_, op)| op.ticket().is_some())
    }

    /// Whether it waits for a record to show something, and not for a turn or beside those who do.
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
    /// What is to be done here at the commit timestamp.
    pub apply: Apply,
}

impl Prepare {
    /// Whether this is a unit of a stream: whoever has participants is a transaction.
    pub fn is_unit(&self) -> bool {
        self.participants.is_empty()
    }
}

/// Turns entries into bytes and back. Bytes are hostile: `decode` checks every length before it
/// allocates and reports [`Corrupt`] for whatever it does not understand.
pub trait EntryCodec {
    /// Appends the bytes of `entry` to `out`, in a form that a machine of this level reads.
    fn encode(&self, entry: &Entry, level: Level, out: &mut Vec<u8>);
    /// Appends a framed part of a snapshot.
    fn encode_part(&self, part: &SnapshotPart, out: &mut Vec<u8>);
    /// Reads an entry back. Reads that `encode` left out are missing.
    fn decode(&self, bytes: &[u8]) -> Result<Entry, Corrupt>;
}

/// One part of a snapshot: a header, then any number of the others in any order, then the end.
/// Every part is framed with its length and a CRC-32 by the codec.
#[derive(Clone, Debug, PartialEq)]
pub enum SnapshotPart {
    /// Comes first.
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
    /// The machines of the group, unless they are those that founded it.
    Members(Members),
    /// The slots of a shard that was split, or came out of a split.
    Slots {
        /// How often it was split.
        splits: u16,
        /// The first slot.
        first: u16,
        /// The last slot.
        last: u16,
    },
    /// A key and its record.
    Record(Blob, Record),
    /// A prepared transaction that is not executed yet, with its timestamp bound, and its commit
    /// timestamp once that is decided.
    Prepared {
        /// The part that was prepared.
        prepare: Prepare,
        /// Its commit timestamp is at least this.
        bound: Timestamp,
        /// Commit timestamp, if decided.
        commit: Option<Timestamp>,
    },
    /// What became of a request.
    Request {
        /// Client and number.
        request: RequestId,
        /// What became of it.
        outcome: RequestOutcome,
    },
    /// What is known of a stream: the groups that it has here, and whether there will be no more.
    Stream {
        /// The stream.
        stream: StreamId,
        /// Nothing more of it is let in.
        refused: bool,
        /// Its groups, without what their units do.
        groups: Vec<KeptGroup>,
    },
    /// What is known of a stream whose order is handed on, besides that. Comes behind it.
    Chain {
        /// The stream.
        stream: StreamId,
        /// The places that are known.
        links: Vec<Link>,
        /// Shards from which nothing is taken that their leaders before these terms have said.
        promises: Vec<(ShardId, u64)>,
        /// Units that have no place yet.
        contents: Vec<Unit>,
    },
    /// Commit timestamp of a transaction over several shards that was executed lately.
    Outcome {
        /// The transaction.
        txn: TxnId,
        /// Its commit timestamp.
        commit: Timestamp,
    },
    /// A transaction that was not prepared here and never will be.
    Void(TxnId),
    /// A transaction whose outcome is in the state already, but not in the log that the snapshot
    /// contains: other replicas have it prepared.
    Unsettled {
        /// The transaction.
        txn: TxnId,
        /// Commit timestamp, or `None` if it was aborted.
        commit: Option<Timestamp>,
    },
    /// Streams of a gateway up to this age may be forgotten although they were not over.
    Outlived {
        /// The gateway.
        gateway: GatewayId,
        /// When the youngest of them began.
        began: Timestamp,
    },
    /// The largest fencing token that was seen here of a lock.
    Fence {
        /// The lock's name.
        lock: Blob,
        /// The token.
        token: u64,
    },
    /// Locks that have no [`SnapshotPart::Fence`] are let through with larger tokens only.
    FenceFloor(u64),
    /// The coordination service was changed here, the last time at this change.
    Coordination {
        /// The number of the change.
        last: Zxid,
    },
    /// The tree of the coordination service is spread over several shards, of which this is one.
    Spread {
        /// Over how many, if this is shard 0.
        over: Spread,
        /// Sessions that have joined with this number or a smaller one may have ended.
        departed: Zxid,
    },
    /// A session of the coordination service.
    Session {
        /// Which.
        session: SessionId,
        /// What is known of it, without its nodes.
        kept: Box<Session>,
        /// If it ends: the number of the change with which that began, and whether it has ended.
        ending: Option<(Zxid, bool)>,
    },
    /// A unit of a stream that asks something of the tree, and what that is: it is not settled.
    Asked {
        /// The unit.
        unit: TxnId,
        /// What it asks.
        ask: Box<Ask>,
    },
    /// The last `multi` of a session over several shards, as far as this one has heard of it.
    Joint {
        /// Whose.
        session: SessionId,
        /// Which, and what has become of it.
        joint: Box<Joint>,
    },
    /// A path of the coordination service and the node there, without its children's names.
    Node(Blob, Box<Node>),
    /// Comes last.
    End {
        /// Number of parts before this one.
        parts: u64,
    },
}

/// What became of a request number.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestOutcome {
    /// The request took effect.
    TookEffect(TookEffect),
    /// It never will, as was settled at this time.
    Void(Timestamp),
    /// Outcomes of this number and all smaller ones are forgotten unless they are kept. The client was
    /// heard of last at this time.
    Forgotten(Timestamp),
}

impl RequestOutcome {
    /// When the client was heard of.
    pub fn ts(&self) -> Timestamp {
        match self {
            Self::TookEffect(TookEffect { ts, .. }) | Self::Void(ts) | Self::Forgotten(ts) => *ts,
        }
    }
}

/// A request that took effect.
#[derive(Clone, Debug, PartialEq)]
pub struct TookEffect {
    /// When.
    pub ts: Timestamp,
    /// The replies of its operations here, or of its commands; none if they were dropped.
    pub replies: Vec<adt::Reply>,
    /// Whether they are those of its commands.
    pub whole: bool,
    /// Why its replies are not kept, if they are not.
    pub dropped: Option<Dropped>,
}

/// Why the replies of a request are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// They are too long.
    TooLong,
    /// Replies of later requests needed the room.
    ForRoom,
}

/// What is kept of a group of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptGroup {
    /// See [`Group::base`].
    pub base: u32,
    /// See [`Group::homes`].
    pub homes: Vec<ShardId>,
    /// See [`Group::floor`].
    pub floor: Timestamp,
    /// Their places are not before this.
    pub proposal: Timestamp,
    /// The numbers of its units, and what became of them, once that is in the log.
    pub units: Vec<(u32, Option<Place>)>,
}

impl KeptGroup {
    /// The numbers of its first and its last unit.
    pub fn range(&self) -> (u32, u32) {
        let number = |unit: Option<&(u32, Option<Place>)>| unit.map_or(0, |(seq, _)| *seq);
        (number(self.units.first()), number(self.units.last()))
    }

    /// Whether the log says what became of all units.
    pub fn is_settled(&self) -> bool {
        self.units.iter().all(|(_, place)| place.is_some())
    }
}

/// Turns snapshot parts into framed bytes and back.
pub trait SnapshotCodec: std::fmt::Debug + Send {
    /// Appends one framed part.
    fn encode(&self, part: &SnapshotPart, out: &mut Vec<u8>);
    /// Reads the next framed part, if all of it is there; gives it and the number of bytes it took.
    fn next(&self, bytes: &[u8]) -> Result<Option<(SnapshotPart, usize)>, Corrupt>;
    /// Reads the next framed part; gives it and the number of bytes it took.
    fn decode(&self, bytes: &[u8]) -> Result<(SnapshotPart, usize), Corrupt>;
}
