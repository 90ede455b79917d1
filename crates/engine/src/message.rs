//! Messages between gateways and shards.
//!
//! A gateway numbers its requests with tokens of its own; a shard answers each request exactly once
//! under that token. It sends [`Notice`]s without a request.

mod following;

pub use crate::concurrency::Concurrency;
pub use following::{Following, KeyEvent};

use crate::coordination::JointId;
use crate::coordination::{Ask, CoordinationAnswer, SessionNotice, TreeSessionId, Zxid};
use crate::entry::Apply;
use crate::ids::{Age, GatewayId, KeyedOp, MachineId, RequestId, ShardId, StreamId, Token, TxnId};
use crate::limits::PEER_FRAME_BYTES_MAX;
use crate::pipeline::bundles::Disturbance;
use crate::pipeline::{Group, UnitOutcome};
use crate::script::ScriptRun;
use adt::command::condition::Expected;
use adt::{Args, Attempt, Blob, ErrorReply, Op, Reply, Timestamp};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// Ways in which a blocked request takes a value, by the indexes of its keys.
#[derive(Clone)]
pub struct Takes(pub Arc<[Attempt]>);

impl fmt::Debug for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Takes({})", self.0.len())
    }
}

/// Replies of an answered request.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// The request.
    pub request: RequestId,
    /// Replies of its commands, with nil for commands that are executed afterwards.
    pub replies: Vec<Reply>,
}

/// Condition on a record. Operations with a guard that does not hold have no effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// The key.
    pub key: Blob,
    /// Condition on its record.
    pub condition: Condition,
}

/// Condition on the record under a key, or on its absence.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// No change since the record was read at this version (`WATCH`).
    Unchanged(Version),
    /// A read with a certain reply, or with another one (`EXEC IFEQ`).
    Replies(Expected),
}

impl Guard {
    /// Whether the condition is that there is still no record, as at an earlier read.
    pub fn is_absence(&self) -> bool {
        matches!(self.condition, Condition::Unchanged(Version::Absent { .. }))
    }
}

/// Fencing token of a request: the request is refused if a larger token of the same lock was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The lock's name.
    pub lock: Blob,
    /// Token of the grant under which the request is sent.
    pub token: u64,
}

/// Version of a record at a read, for [`Guard`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The record was last changed at this commit timestamp.
    Changed(Timestamp),
    /// There was no record, and this leader had counted so many removals. Only the leader of this
    /// term can tell whether there was one in the meantime; later leaders require that there is
    /// none.
    Absent {
        /// Term of the leader.
        term: u64,
        /// Number of removals that the leader had counted.
        removals: u64,
    },
}

impl Version {
    /// A version that no record has.
    pub const NONE: Self = Self::Changed(Timestamp::ZERO);
}

/// A request to a shard.
#[derive(Debug)]
pub struct Request {
    /// The sending gateway.
    pub gateway: GatewayId,
    /// Token of the request.
    pub token: Token,
    /// The preceding request of the same session to the same shard, if it was not answered when
    /// this one was sent: this one must not overtake it.
    pub after: Option<Token>,
    /// Content of the request.
    pub body: Body,
}

/// Use that the program of an interactive transaction makes of the reply to an early access before the
/// commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// Not seen. Reads are always observed.
    Deferred,
    /// Seen.
    Observed,
    /// Seen, by a program that is expected to write the record afterwards: of all transactions that
    /// announce a write of a record, one holds it at a time. Such an access shares the record with
    /// other reads.
    Announced,
}

/// Content of a gateway's request to a shard.
#[derive(Clone, Debug)]
pub enum Body {
    /// One read outside of transactions. Answer: [`Answer::Reply`].
    Read {
        /// The key.
        key: Blob,
        /// The read.
        op: Op,
        /// The session has writes on this shard that are not answered yet: read after them.
        fenced: bool,
    },
    /// Operations that take effect together on this shard alone. Answer: [`Answer::Replies`] (one
    /// per operation, in order), [`Answer::Repeated`] or [`Answer::GuardFailed`].
    Apply(Apply),
    /// Reads at one instant, without locks. Answer: [`Answer::Snapshot`].
    Snapshot {
        /// The reads.
        ops: Vec<KeyedOp>,
        /// Read as of this timestamp or later; the shard's clock is moved there.
        at: Timestamp,
        /// The session has writes on this shard that are not answered yet: read after them.
        fenced: bool,
        /// Whether the time in which the values were valid is asked for.
        dated: bool,
        /// For a transaction that only reads: the last timestamp up to which its earlier reads are valid.
        /// Where the values are younger, earlier versions are asked for, as far as the shard keeps them.
        /// Never in a cluster, where the timestamps of shards are not comparable.
        as_of: Option<Timestamp>,
    },
    /// Runs of scripts on records of this shard, one behind the other, each by itself. Answer:
    /// [`Answer::Reply`], [`Answer::Replies`] or [`Answer::Ran`] of those that were carried out, which may be
    /// fewer; or [`Refusal::NotHere`] if the first one needs more than this shard can give. The others had no
    /// effect.
    Run(Vec<ScriptRun>),
    /// Access of an interactive transaction, under a lock that is held until the transaction ends.
    /// Answer: [`Answer::Locked`] or [`Answer::Refused`]; [`Notice::Blocked`] if it has to wait.
    Lock {
        /// The transaction.
        txn: TxnId,
        /// The key.
        key: Blob,
        /// The operation.
        op: Op,
        /// The transaction's own earlier writes to the key, which the reply must show.
        own: Vec<Op>,
        /// Use of the reply before the commit.
        early: Early,
    },
    /// Vote of one participant. Answer: [`Answer::Prepared`], [`Answer::Repeated`],
    /// [`Answer::GuardFailed`] or [`Answer::Refused`]; [`Notice::Blocked`] if it has to wait.
    ///
    /// If the participants are this shard alone, its log record commits the transaction: the
    /// answer is [`Answer::Committed`], and the transaction's locks here are released.
    Prepare {
        /// The shard's part.
        prepare: crate::entry::Prepare,
        /// The transaction must commit after this: the largest clock that its locks reported. So
        /// the durable votes alone determine the commit timestamp.
        floor: Timestamp,
    },
    /// Outcome of a transaction that was prepared here. With a commit timestamp the answer is
    /// [`Answer::Replies`] once the operations are executed; an abort has no answer. Locks of the
    /// transaction are released.
    Decide {
        /// The transaction.
        txn: TxnId,
        /// Commit timestamp, or `None` for an abort.
        commit: Option<Timestamp>,
    },
    /// Asks for the state of a transaction whose coordinator may be gone. If it was not prepared
    /// here, it never will be from now on. Answer: [`Answer::Fate`], once that is durable.
    Inquire {
        /// The transaction.
        txn: TxnId,
    },
    /// Gives up a prepare that still waits for locks here: it is answered with
    /// [`Answer::Refused`]. One that does not wait (any more) goes on. No answer of its own.
    Cancel {
        /// The transaction.
        txn: TxnId,
    },
    /// A transaction that was not prepared here has ended: its locks are released, its requests
    /// that still wait are dropped without answer. `after` moves the shard's clock. No answer.
    Release {
        /// The transaction.
        txn: TxnId,
        /// Commit timestamp of the transaction, or [`Timestamp::ZERO`].
        after: Timestamp,
    },
    /// Answers [`Notice::Probe`]: the transaction was undecided after the probe was sent. No answer.
    ProbeAck {
        /// The transaction.
        txn: TxnId,
    },
    /// The version of a record, for `WATCH`. Answer: [`Answer::Version`].
    Version {
        /// The key.
        key: Blob,
    },
    /// Waits until a key holds a value to take. [`Notice::Ready`] follows, once, until the gateway
    /// sends `Block` again (because the value was gone) or `Unblock`. If the request says how to
    /// take, the shard may do that by itself and answer [`Answer::Reply`], which ends the wait. A
    /// request beyond the limit is answered [`Answer::Refused`].
    Block {
        /// The keys on this shard.
        keys: Vec<Blob>,
        /// How to take from each of them, if all are on this shard. Does not travel between
        /// machines.
        takes: Option<Takes>,
    },
    /// Operation that waits while its reply is nil, and is executed in the order of arrival among
    /// the waiters of the same record. Answer: as for [`Body::Apply`], with nil at the time-out.
    /// [`Body::Unblock`] with the same token ends the wait without an answer, and reverts a grant
    /// that was made by then. A read waits for a change of the record, and takes no place in the
    /// order.
    Await {
        /// The operation.
        apply: Apply,
        /// Time-out in milliseconds; 0 means none.
        timeout_ms: u64,
    },
    /// Question for the waiters of a record. Answer: [`Answer::Reply`] with an array, in the order
    /// of arrival.
    Waiting {
        /// The record's key.
        key: Blob,
    },
    /// Question for the transactions that hold a record. Answer: [`Answer::Reply`] with an array:
    /// the number of waiters, how long the first of them has waited in milliseconds, and the names
    /// of the transactions.
    Holders {
        /// The record's key.
        key: Blob,
    },
    /// Question for the waits of these owners at this shard, of the owners that they wait for, and
    /// so on. Answer: [`Answer::Reply`] with an array of waits, or nil if they are too many.
    Waits {
        /// Names of owners, [`DEADLOCK_NAMES_MAX`](crate::limits::DEADLOCK_NAMES_MAX) at most.
        names: Vec<Blob>,
    },
    /// Refuses the waiter under this request's token because it is part of a deadlock cycle over
    /// several shards, if it still waits. No answer of its own.
    EndDeadlock {
        /// Description of the cycle.
        description: Blob,
    },
    /// Ends the wait for a turn under this request's token, if the turn has not come: the request is answered
    /// with nil. No answer of its own.
    EndTurn,
    /// Ends the wait that was registered under this request's token. No answer, except for a wait
    /// whose value the shard takes by itself: [`Answer::Replies`], without replies or with the
    /// value that was taken by then.
    Unblock,
    /// One step of `SCAN` over the shard's keys of a database. Answer: [`Answer::Reply`] as `SCAN`
    /// replies, with the shard's own cursor.
    Scan {
        /// The database.
        database: u8,
        /// Cursor, pattern, count.
        scan: adt::command::scan::ScanArgs,
        /// Only keys of this type.
        type_name: Option<Blob>,
    },
    /// All keys of a database that match. Answer: [`Answer::Reply`] with an array.
    Keys {
        /// The database.
        database: u8,
        /// Glob.
        pattern: Blob,
    },
    /// Number of keys of a database. Answer: [`Answer::Reply`] with an integer.
    Count {
        /// The database.
        database: u8,
    },
    /// An arbitrary key of a database, or nil. Answer: [`Answer::Reply`].
    RandomKey {
        /// The database.
        database: u8,
    },
    /// Removes everything from a database, or from all of them. Answer: [`Answer::Reply`] with OK.
    Flush {
        /// The database, if it is only one.
        database: Option<u8>,
    },
    /// Settles whether a request took effect, once and for all. Answer: [`Answer::Reply`] with 1 if
    /// it did; with 0 if it did not and never will.
    Resolve(RequestId),
    /// Replies of a request that took effect, to keep in case it is repeated. Answer:
    /// [`Answer::Reply`] with OK.
    Remember(Box<Remembered>),
    /// Units of a pipeline over several shards. If sent twice, they take effect once. Answer:
    /// [`Answer::Units`].
    Pipeline(Arc<Group>),
    /// End of a stream: its gateway has all answers, and no message about it is in flight any more.
    /// No answer.
    EndStream {
        /// The stream.
        stream: StreamId,
        /// Shards that have had units of it.
        shards: Vec<ShardId>,
    },
    /// Question for the shard's counters. Answer: [`Answer::Stats`].
    Stats,
    /// Follows the changes of all keys: [`Notice::Changed`] and [`Notice::Happened`] come from now on, until
    /// the gateway has not sent this for a while. Answer: [`Answer::Reply`] with the number of the feed and
    /// that of its last notice.
    Follow(Following),
    /// Hand the lead of the shard over to a machine. Answer: [`Answer::Reply`] with OK when that
    /// machine leads, or an error.
    Transfer {
        /// The machine.
        to: MachineId,
    },
    /// Keys of a database in a hash slot. Answer: [`Answer::Reply`] with an array of at most `count`
    /// keys.
    KeysInSlot {
        /// The database.
        database: u8,
        /// The slot.
        slot: u16,
        /// Most keys to return.
        count: usize,
    },
    /// Request to the coordination service, at a shard of its tree. Answer:
    /// [`Answer::Coordinated`].
    Coordinate(Box<Ask>),
    /// Step of a cut through all shards, for a backup. Answer: [`Answer::Reply`], which is an error
    /// if the cut fails or does not exist (any more).
    Cut {
        /// Unique number of the cut.
        cut: u64,
        /// Step to execute.
        step: CutStep,
    },
}

/// Step of a cut; see [`crate::shard::transfer::cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutStep {
    /// Stops all changes until the release, and keeps the state of that moment. Answered, when
    /// nothing is in flight any more, with the number of keys and the known slots.
    Freeze,
    /// Resumes. Answered `OK` if nothing has changed here since the answer to [`CutStep::Freeze`].
    Release,
    /// Asks for the piece with this number, from 0, of the kept state. Answered with its bytes, and
    /// 1 if it is the last one. The last requested piece may be requested again.
    Piece(u64),
    /// Resumes, and drops the kept state. Answered `OK`.
    End,
}

impl Body {
    /// Answer for a request that has had no effect, because the shard's lead has ended or is at
    /// another machine; `None` if the request expects no answer. A request that depends on locks in
    /// the leader's memory is refused; any other may go to the next leader.
    pub fn not_taken(self) -> Option<Answer> {
        Some(match self {
            Self::Lock { .. } | Self::Prepare { .. } => Answer::Refused(Refusal::LocksLost),
            Self::Cancel { .. }
            | Self::Release { .. }
            | Self::ProbeAck { .. }
            | Self::Block { .. }
            | Self::EndDeadlock { .. }
            | Self::EndTurn
            | Self::Unblock
            | Self::EndStream { .. }
            | Self::Decide { commit: None, .. } => return None,
            Self::Coordinate(ask) if matches!(*ask, Ask::Leave(_)) => return None,
            body => Answer::NotTaken(Box::new(body)),
        })
    }

    /// Whether the answer depends on the state of the answering leader and not on a log entry of
    /// its own: the machine must then be certain to lead the shard.
    pub fn depends_on_lead(&self) -> bool {
        let certain = matches!(
            self,
            Self::Decide { commit: Some(_), .. } | Self::Cut { step: CutStep::Release, .. }
        );
        certain || self.is_read_only()
    }

    /// Whether the request waits with a ticket, so that its grant may be sent as soon as it is
    /// certain, which requires a certain lead.
    pub fn may_be_successor(&self) -> bool {
        matches!(self, Self::Await { apply, .. } if apply.may_be_successor())
    }

    /// Reason why later parts of bundles might have to wait at the shard, if there is one.
    pub fn disturbance(&self) -> Option<Disturbance> {
        match self {
            Self::Lock { .. }
            | Self::Prepare { .. }
            | Self::Block { .. }
            | Self::Await { .. }
            | Self::Flush { .. }
            | Self::Cut { .. }
            | Self::Transfer { .. }
            | Self::Snapshot { dated: true, .. } => Some(Disturbance::Locks),
            Self::Pipeline(_) => Some(Disturbance::Streams),
            // They wait for nothing of others, or end what was waited for.
            Self::Read { .. }
            | Self::Apply(_)
            | Self::Run(_)
            | Self::Snapshot { dated: false, .. }
            | Self::Version { .. }
            | Self::Decide { .. }
            | Self::Inquire { .. }
            | Self::Cancel { .. }
            | Self::Release { .. }
            | Self::ProbeAck { .. }
            | Self::Waiting { .. }
            | Self::Holders { .. }
            | Self::Waits { .. }
            | Self::EndDeadlock { .. }
            | Self::EndTurn
            | Self::Unblock
            | Self::Scan { .. }
            | Self::Keys { .. }
            | Self::Count { .. }
            | Self::RandomKey { .. }
            | Self::KeysInSlot { .. }
            | Self::Resolve(_)
            | Self::Remember(_)
            | Self::EndStream { .. }
            | Self::Stats
            | Self::Follow(_)
            | Self::Coordinate(_) => None,
        }
    }

    /// Whether it only reads the shard's state, outside of transactions.
    pub fn is_read_only(&self) -> bool {
        if let Self::Coordinate(ask) = self {
            return ask.is_read_only();
        }
        if let Self::Await { apply, .. } = self {
            return !apply.writes();
        }
        matches!(
            self,
            Self::Read { .. }
                | Self::Snapshot { .. }
                | Self::Version { .. }
                | Self::Scan { .. }
                | Self::Keys { .. }
                | Self::Count { .. }
                | Self::RandomKey { .. }
                | Self::Stats
                | Self::Follow(_)
                | Self::KeysInSlot { .. }
                | Self::Waiting { .. }
                | Self::Holders { .. }
                | Self::Waits { .. }
        )
    }
}

/// A shard's answer to a request.
#[derive(Debug)]
pub struct Response {
    /// Gateway of the request.
    pub gateway: GatewayId,
    /// The request's token; meaningless for notices.
    pub token: Token,
    /// The answer.
    pub answer: Answer,
}

/// Message for the subscribers of a channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Whether it is a sharded channel.
    pub sharded: bool,
    /// The channel.
    pub channel: Blob,
    /// The message.
    pub payload: Blob,
}

impl Published {
    /// Message that the words of `PUBLISH` or `SPUBLISH` contain, if they are such a command.
    pub(crate) fn of(args: &Args<'_>) -> Option<Self> {
        let sharded = args.is(0, "SPUBLISH");
        let publishes = args.len() == 3 && (sharded || args.is(0, "PUBLISH"));
        let word = |at| Blob::from(args.get(at).unwrap_or_default());
        publishes.then(|| Self { sharded, channel: word(1), payload: word(2) })
    }

    /// Bytes of the channel and the message.
    pub(crate) fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len()
    }
}

/// Reply of a script that a shard has run, and what it has published.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReply {
    /// The reply.
    pub reply: Reply,
    /// Messages to deliver now that the run has taken effect, in their order.
    pub published: Vec<Published>,
}

/// Answer of a shard.
#[derive(Debug)]
pub enum Answer {
    /// One reply.
    Reply(Reply),
    /// One reply per operation.
    Replies(SmallVec<[Reply; 1]>),
    /// Replies of scripts, of which one has published something.
    Ran(Vec<RunReply>),
    /// A transaction whose only participant is this shard has committed.
    Committed {
        /// One reply per operation.
        replies: SmallVec<[Reply; 1]>,
        /// Commit timestamp, which the gateway passes on to the other shards on which the
        /// transaction holds locks.
        ts: Timestamp,
    },
    /// The request took effect before, under the same request number, with these replies on this
    /// shard. It has no effect now.
    Repeated(SmallVec<[Reply; 1]>),
    /// Like `Repeated`, for a vote and for requests with more replies than operations.
    TookEffect {
        /// Commit timestamp.
        ts: Timestamp,
        /// Replies of the commands, with nil for commands that are executed afterwards; or, if
        /// those are not remembered, replies of the operations on this shard.
        replies: Vec<Reply>,
        /// Whether the replies are those of the commands.
        whole: bool,
    },
    /// The request was declared void before: it never takes effect.
    Voided,
    /// The outcome under this request number has been forgotten. The request has no effect now.
    Forgotten,
    /// A guard did not hold: nothing took effect. With the error where its read is impossible.
    GuardFailed(Option<ErrorReply>),
    /// A larger fencing token was seen: nothing took effect.
    Fenced,
    /// Values that were valid together on this shard from `since` to `until`, both included.
    Snapshot {
        /// One per read.
        replies: Vec<Reply>,
        /// The youngest of the values' timestamps.
        since: Timestamp,
        /// No later change has a timestamp at or below this one.
        until: Timestamp,
        /// In a cluster: minimum time without a change of these values, by the shard's monotonic
        /// clock, in microseconds.
        held_us: u64,
    },
    /// The lock is held and the operation answered.
    Locked {
        /// The reply.
        reply: Reply,
        /// The shard's clock: the transaction must commit after it.
        clock: Timestamp,
        /// The shard, if the reply rests on operations that are in its log and not durable: it must vote,
        /// even if the transaction writes elsewhere or nowhere. None in a cluster, where it votes in any
        /// case.
        rests_at: Option<ShardId>,
    },
    /// Outcomes of the units of a group, in order.
    Units(Vec<UnitOutcome>),
    /// The participant's vote is yes, and durable.
    Prepared {
        /// The transaction must commit at or after this.
        bound: Timestamp,
    },
    /// The request was not granted and the transaction must abort (and may be retried).
    Refused(Refusal),
    /// Version of a record.
    Version(Version),
    /// The shard's counters.
    Stats(Box<crate::stats::ShardStats>),
    /// Answer of the coordination service.
    Coordinated(Box<CoordinationAnswer>),
    /// State of a transaction at this shard.
    Fate(Fate),
    /// The transaction was executed here before; its replies are not kept any more.
    CarriedOut,
    /// This machine does not lead the shard (any more), and the request has had no effect and will
    /// have none. It comes back for the actual leader.
    NotTaken(Box<Body>),
    /// This machine does not lead the shard any more, and does not know whether the request takes
    /// effect.
    Unknown,
    /// The answer could not be decoded by this machine.
    Unread,
    /// Message without a request.
    Notice(Notice),
}

impl Answer {
    /// Replaces replies that are too long to be sent by errors.
    pub fn without_replies(mut self) -> Self {
        let shorten = |reply: &mut Reply| {
            let most = PEER_FRAME_BYTES_MAX;
            let text = format!(
                "the reply is too long to be sent between machines: more than {most} \
                                bytes; ask for less at once"
            );
            *reply = Reply::err(text);
        };
        match &mut self {
            Self::Reply(reply) | Self::Locked { reply, .. } => shorten(reply),
            Self::Replies(replies) | Self::Repeated(replies) | Self::Committed { replies, .. } => {
                replies.iter_mut().for_each(shorten);
            }
            Self::Snapshot { replies, .. } | Self::TookEffect { replies, .. } => {
                replies.iter_mut().for_each(shorten);
            }
            Self::Ran(runs) => runs.iter_mut().map(|run| &mut run.reply).for_each(shorten),
            Self::Units(units) => {
                units.iter_mut().flatten().flat_map(|(_, replies)| replies).for_each(shorten);
            }
            Self::Voided
            | Self::Forgotten
            | Self::GuardFailed(_)
            | Self::Fenced
            | Self::Prepared { .. }
            | Self::Refused(_)
            | Self::Version(_)
            | Self::Stats(_)
            | Self::Coordinated(_)
            | Self::Fate(_)
            | Self::CarriedOut
            | Self::NotTaken(_)
            | Self::Unknown
            | Self::Unread
            | Self::Notice(_) => {}
        }
        self
    }
}

/// State of a transaction over several shards at a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Prepared and undecided.
    Prepared {
        /// Lower bound of the commit timestamp.
        bound: Timestamp,
    },
    /// Committed at this timestamp.
    Committed(Timestamp),
    /// Not prepared, and never will be.
    Void,
}

/// Reason why a transaction must abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another owner holds a conflicting lock, and this server does not queue (`--cc` without
    /// phases).
    Conflict,
    /// Too many requests wait already.
    Busy,
    /// This shard no longer holds what the transaction had locked.
    LocksLost,
    /// The slot of a key has gone, or is about to go, to another shard.
    Moved,
    /// A cut is being made, and a transaction over several shards could be on both of its sides.
    Frozen,
    /// The receiving machine cannot decode the request. A retry would fail alike.
    Unread,
    /// A transaction is prepared under the same request number, and not decided.
    UnderWay,
    /// The script needs more than this shard can give.
    NotHere,
}

/// Message of a shard to a gateway without a request.
#[derive(Debug)]
pub enum Notice {
    /// The request under this response's token waits for a lock; or it is registered at its keys,
    /// if it is a blocking command.
    Blocked {
        /// The waiting transaction, if it is one.
        txn: TxnId,
    },
    /// An older request waits for what this transaction holds: abort it if it is waiting itself,
    /// or as soon as it starts to (wound-wait, spared while it runs).
    Wound {
        /// The transaction that should give way.
        txn: TxnId,
        /// Microseconds since it was last heard of at the shard.
        idle_us: u64,
        /// Age of the request that waits.
        by: Age,
    },
    /// Other requests have waited for long for locks of this transaction, and still do.
    Wanted {
        /// The transaction.
        txn: TxnId,
    },
    /// Answer with [`Body::ProbeAck`] to `shard` unless the transaction is decided already (then
    /// the decision is on its way and settles it).
    Probe {
        /// The transaction.
        txn: TxnId,
        /// The asking shard.
        shard: ShardId,
    },
    /// The transaction is prepared here, and its coordinator has been silent for long: find out its
    /// fate with [`Body::Inquire`], and decide.
    Orphan {
        /// The transaction.
        txn: TxnId,
        /// All its participants.
        participants: SmallVec<[ShardId; 4]>,
    },
    /// Notice for a session of the coordination service that is at this gateway.
    Session {
        /// The sending shard.
        shard: ShardId,
        /// Number of the session.
        session: TreeSessionId,
        /// Content of the notice.
        notice: SessionNotice,
    },
    /// A key on which the request under this response's token is blocked holds a value.
    Ready {
        /// The key.
        key: Blob,
    },
    /// Keys have been written, or all keys of the shard if none is named ([`Body::Follow`]).
    Changed {
        /// The sending shard.
        shard: ShardId,
        /// Number of the feed, which is another one after a gap.
        feed: u64,
        /// Number of this notice in the feed, from 1.
        number: u64,
        /// The keys.
        keys: Arc<[Blob]>,
    },
    /// Keyspace events, in the order of the log ([`Body::Follow`]).
    Happened(Arc<[KeyEvent]>),
    /// A session of the coordination service over several shards is ending: inform all of them.
    Ending {
        /// Number of the session.
        session: TreeSessionId,
        /// Number of the change with which its end began.
        ended: Zxid,
        /// Whether it has ended, and the others only need to know.
        finished: bool,
        /// The other shards.
        shards: Vec<ShardId>,
    },
    /// A prepared `multi` of a session awaits its decision: find out the votes, and decide.
    Undecided {
        /// Number of the session.
        session: TreeSessionId,
        /// Identity of the `multi`.
        id: JointId,
        /// All shards that take part.
        shards: Vec<ShardId>,
    },
}
