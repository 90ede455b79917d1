//! What gateways and shards say to each other.
//!
//! A gateway numbers its requests with tokens of its own; a shard answers each request exactly
//! once under that token, and sends notices that nobody asked for as [`Notice`]s.

pub use crate::concurrency::Concurrency;

use crate::coordination::service::JointId;
use crate::coordination::{Answered as Coordinated, Ask, SessionId, Told, Zxid};
use crate::entry::Apply;
use crate::ids::{Age, GatewayId, KeyedOp, MachineId, RequestId, ShardId, StreamId, Token, TxnId};
use crate::limits::PEER_FRAME_BYTES_MAX;
use crate::pipeline::{Answered, Group};
use adt::{Attempt, Blob, Op, Reply, Timestamp};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// What is taken for a request that waits, by the numbers of its keys.
#[derive(Clone)]
pub struct Takes(pub Arc<[Attempt]>);

impl fmt::Debug for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Takes({})", self.0.len())
    }
}

/// What a request has answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// Which.
    pub request: RequestId,
    /// The replies of its commands, and nil for those that are carried out afterwards.
    pub replies: Vec<Reply>,
}

/// A condition on a record: it has not changed since it was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// The key.
    pub key: Blob,
    /// What was seen.
    pub version: Version,
}

impl Guard {
    /// Whether there is to be no record.
    pub fn is_absence(&self) -> bool {
        matches!(self.version, Version::Absent { .. })
    }
}

/// A fencing token that something is done under: it is refused where a larger one of the same lock was
/// seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The lock's name.
    pub lock: Blob,
    /// The token that whoever asks was granted it with.
    pub token: u64,
}

/// What a look at a record has seen of it, for [`Guard`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// It was last changed at this commit timestamp.
    Changed(Timestamp),
    /// There was none, after so many removals that the leader of this term has counted. That leader
    /// alone can tell whether there was one in the meantime; for all others it counts whether there
    /// is one.
    Absent {
        /// Term of the leader.
        term: u64,
        /// What it has counted.
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
    /// Who asks.
    pub gateway: GatewayId,
    /// Under which token.
    pub token: Token,
    /// The request before it of the same session to the same shard, if that was not answered when this
    /// one was sent: this one does not overtake it.
    pub after: Option<Token>,
    /// What.
    pub body: Body,
}

/// What a gateway asks of a shard.
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
    /// Operations that take effect at once on this shard alone. Answer: [`Answer::Replies`] (one
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
    },
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
        /// Whether the program sees the reply before it commits. Reads always are observed.
        observed: bool,
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
    /// The fate of a transaction that was prepared here. With a commit timestamp the answer is
    /// [`Answer::Replies`] once the operations are executed; an abort has no answer. Locks of the
    /// transaction are released.
    Decide {
        /// The transaction.
        txn: TxnId,
        /// Commit timestamp, or `None` for an abort.
        commit: Option<Timestamp>,
    },
    /// Asks what is known here of a transaction whose coordinator may be gone. If it was not
    /// prepared here, it never will be from now on. Answer: [`Answer::Fate`], once that is durable.
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
    /// Wait until a key holds something to take. [`Notice::Ready`] follows, once, until the gateway sends
    /// `Block` again (nothing was there after all) or `Unblock`. If the shard is told what is to be taken,
    /// it may do that by itself and answer [`Answer::Reply`], which ends the wait. One that it has no room
    /// for is answered [`Answer::Refused`].
    Block {
        /// The keys on this shard.
        keys: Vec<Blob>,
        /// How to take from each of them, if all of that is on this shard. Does not travel between machines.
        takes: Option<Takes>,
    },
    /// One operation that waits while its reply is nil, and is carried out in the order of arrival among
    /// those that wait for the same record. Answer: as for [`Body::Apply`], with nil when the time is
    /// over. [`Body::Unblock`] with the same token ends the wait without an answer; what was granted by
    /// then is taken back. A read waits for a change of the record and for nobody.
    Await {
        /// The operation.
        apply: Apply,
        /// How long to wait at most, in milliseconds; 0 means for ever.
        timeout_ms: u64,
    },
    /// Who waits for a record. Answer: [`Answer::Reply`] with an array, in the order of arrival.
    Waiting {
        /// The record's key.
        key: Blob,
    },
    /// Which transactions hold a record. Answer: [`Answer::Reply`] with an array: how many wait, for how many
    /// milliseconds the first of them, and the names of the transactions.
    Holders {
        /// The record's key.
        key: Blob,
    },
    /// What some wait for here, by the names of owners, and those for whom they wait, and so on. Answer:
    /// [`Answer::Reply`] with an array of waits, or nil if they are too many.
    Waits {
        /// The names, [`CIRCLE_NAMES_MAX`](crate::limits::CIRCLE_NAMES_MAX) at most.
        names: Vec<Blob>,
    },
    /// What waits under this request's token waits in a circle over several shards: it is refused, if it
    /// still waits. No answer of its own.
    EndCircle {
        /// Who waits for whom.
        told: Blob,
    },
    /// Ends the wait that was registered under this request's token. No answer, but for a wait of which
    /// the shard knows what it takes: [`Answer::Replies`] without replies, or what it has got by then.
    Unblock,
    /// One step of `SCAN` over the shard's keys. Answer: [`Answer::Reply`] as `SCAN` replies, with
    /// the shard's own cursor.
    Scan {
        /// Cursor, pattern, count.
        scan: adt::scan::ScanArgs,
        /// Only keys of this type.
        type_name: Option<Blob>,
    },
    /// All keys that match. Answer: [`Answer::Reply`] with an array.
    Keys {
        /// Glob.
        pattern: Blob,
    },
    /// Number of keys. Answer: [`Answer::Reply`] with an integer.
    Count,
    /// An arbitrary key, or nil. Answer: [`Answer::Reply`].
    RandomKey,
    /// Removes everything. Answer: [`Answer::Reply`] with OK.
    Flush,
    /// Settles whether a request took effect, once and for all. Answer: [`Answer::Reply`] with 1 if
    /// it did; with 0 if it did not and never will.
    Resolve(RequestId),
    /// What a request that took effect has answered, in case it is repeated. Answer: [`Answer::Reply`]
    /// with OK.
    Remember(Box<Remembered>),
    /// Units of a pipeline over several shards. Asked twice, they take effect once. Answer:
    /// [`Answer::Units`].
    Pipeline(Arc<Group>),
    /// Whoever has issued the stream has all answers, and nothing of it is on its way any more. No
    /// answer.
    EndStream {
        /// The stream.
        stream: StreamId,
        /// The shards that have had units of it.
        shards: Vec<ShardId>,
    },
    /// What the shard has counted. Answer: [`Answer::Stats`].
    Stats,
    /// Hand the lead of the shard over to a machine. Answer: [`Answer::Reply`] with OK when that
    /// machine leads, or an error.
    Transfer {
        /// The machine.
        to: MachineId,
    },
    /// Keys of a hash slot. Answer: [`Answer::Reply`] with an array of at most `count` keys.
    KeysInSlot {
        /// The slot.
        slot: u16,
        /// At most so many.
        count: usize,
    },
    /// Something about the coordination service, of the shard that has its tree. Answer:
    /// [`Answer::Coordinated`].
    Coordinate(Box<Ask>),
    /// A step of a cut through all shards, for a backup. Answer: [`Answer::Reply`], which is an
    /// error if the cut does not come about or is not there (any more).
    Cut {
        /// Which cut: a number that no other one has.
        cut: u64,
        /// What is to be done.
        step: CutStep,
    },
}

/// A step of a cut; see [`crate::shard::transfer::cut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutStep {
    /// Change nothing more until it is released, and keep the state of that moment. Answered with
    /// the number of keys and what is known of the slots when nothing is on its way any more.
    Freeze,
    /// Go on. `OK` if nothing has changed here since [`CutStep::Freeze`] was answered.
    Release,
    /// The piece with this number, from 0, of the state that was kept: its bytes, and 1 if it is the
    /// last one. The one that was asked for last may be asked for again.
    Piece(u64),
    /// Go on, and forget the state. `OK`.
    End,
}

impl Body {
    /// What to answer when nothing of a request has happened, because the lead of the shard has
    /// ended or is somewhere else; nothing if nobody waits for an answer. What rests on locks that
    /// the leader's memory held is refused; the rest may go to the next leader.
    pub fn not_taken(self) -> Option<Answer> {
        Some(match self {
            Self::Lock { .. } | Self::Prepare { .. } => Answer::Refused(Refusal::LocksLost),
            Self::Cancel { .. }
            | Self::Release { .. }
            | Self::ProbeAck { .. }
            | Self::Block { .. }
            | Self::EndCircle { .. }
            | Self::Unblock
            | Self::EndStream { .. }
            | Self::Decide { commit: None, .. } => return None,
            Self::Coordinate(ask) if matches!(*ask, Ask::Leave(_)) => return None,
            body => Answer::NotTaken(Box::new(body)),
        })
    }

    /// Whether the answer rests on the state of the one who gives it and not on a log entry of its
    /// own: whoever answers must be certain to lead the shard.
    pub fn rests_on_lead(&self) -> bool {
        let certain = matches!(
            self,
            Self::Decide { commit: Some(_), .. } | Self::Cut { step: CutStep::Release, .. }
        );
        certain || self.only_looks()
    }

    /// Whether somebody waits who may be told that its turn has come as soon as that is certain, which it is
    /// only while the lead is.
    pub fn may_be_next(&self) -> bool {
        matches!(self, Self::Await { apply, .. } if apply.may_be_next())
    }

    /// Whether it only looks at the shard's state, outside of transactions.
    pub fn only_looks(&self) -> bool {
        if let Self::Coordinate(ask) = self {
            return ask.only_looks();
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
                | Self::Count
                | Self::RandomKey
                | Self::Stats
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
    /// Whom it is for.
    pub gateway: GatewayId,
    /// The request's token; meaningless for notices.
    pub token: Token,
    /// The answer.
    pub answer: Answer,
}

/// What a shard answers.
#[derive(Debug)]
pub enum Answer {
    /// One reply.
    Reply(Reply),
    /// One reply per operation.
    Replies(SmallVec<[Reply; 1]>),
    /// A transaction whose only participant is this shard has committed.
    Committed {
        /// One reply per operation.
        replies: SmallVec<[Reply; 1]>,
        /// Its commit timestamp: shards that it holds other locks on are told when it ends.
        ts: Timestamp,
    },
    /// The request took effect before, under the same request number; these were its replies on
    /// this shard. Nothing was done now.
    Repeated(SmallVec<[Reply; 1]>),
    /// The same for a vote, and for whatever has answered more than its operations did.
    TookEffect {
        /// When.
        ts: Timestamp,
        /// The replies of the commands, and nil for those that are carried out afterwards; or, if
        /// those are not remembered, the replies of the operations on this shard.
        replies: Vec<Reply>,
        /// Whether they are those of the commands.
        whole: bool,
    },
    /// Somebody was promised before that a request with this number takes no effect.
    Voided,
    /// Whether the request took effect under its number before is not remembered any more. It does
    /// not now.
    Forgotten,
    /// A guard did not hold: nothing took effect.
    GuardFailed,
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
        /// In a cluster: for how long nothing of it has changed at least, by the shard's monotonic
        /// clock, in microseconds.
        held_us: u64,
    },
    /// The lock is held and the operation answered.
    Locked {
        /// The reply.
        reply: Reply,
        /// The shard's clock: the transaction must commit after it.
        clock: Timestamp,
    },
    /// What became of the units of a group, one after the other.
    Units(Vec<Answered>),
    /// The participant's vote is yes, and durable.
    Prepared {
        /// The transaction must commit at or after this.
        bound: Timestamp,
    },
    /// The request was not granted and the transaction must abort (and may be retried).
    Refused(Refusal),
    /// Version of a record.
    Version(Version),
    /// What the shard has counted.
    Stats(Box<crate::stats::ShardStats>),
    /// What came of a request about the coordination service.
    Coordinated(Box<Coordinated>),
    /// What is known here of a transaction.
    Fate(Fate),
    /// The transaction was carried out here before; its replies are not kept any more.
    CarriedOut,
    /// This machine does not lead the shard (any more), and nothing of the request has happened or
    /// will: here it is again, for the one who does.
    NotTaken(Box<Body>),
    /// This machine does not lead the shard any more; whether the request takes effect cannot be
    /// told here.
    Unknown,
    /// Something was answered that this machine cannot read.
    Unread,
    /// Something that nobody asked for.
    Notice(Notice),
}

impl Answer {
    /// The same answer with errors in the place of its replies, which are too long to be sent.
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
            Self::Units(units) => {
                units.iter_mut().flatten().flat_map(|(_, replies)| replies).for_each(shorten);
            }
            Self::Voided
            | Self::Forgotten
            | Self::GuardFailed
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

/// What a participant knows of a transaction over several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is prepared here and undecided; it must commit at or after this.
    Prepared {
        /// The participant's vote.
        bound: Timestamp,
    },
    /// It was committed, at this timestamp.
    Committed(Timestamp),
    /// It was not prepared here and never will be.
    Void,
}

/// Why a transaction must abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody else holds a conflicting lock, and this server does not queue (`--cc` without
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
    /// The machine that was asked cannot read the request. Asked again, it could not either.
    Unread,
    /// A transaction is prepared under the same request number, and not decided.
    UnderWay,
}

/// What a shard tells a gateway without having been asked.
#[derive(Debug)]
pub enum Notice {
    /// The request under this response's token waits for a lock; or it stands in the queues of its keys,
    /// if it is a command that waits for something to take.
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
    /// Others have waited for a while for what this transaction holds, and still do.
    Wanted {
        /// The transaction.
        txn: TxnId,
    },
    /// Answer with [`Body::ProbeAck`] to `shard` unless the transaction is decided already (then
    /// the decision is on its way and settles it).
    Probe {
        /// The transaction.
        txn: TxnId,
        /// Who asks.
        shard: ShardId,
    },
    /// The transaction is prepared here, and nobody has said for long what became of it: find out
    /// with [`Body::Inquire`], and decide.
    Orphan {
        /// The transaction.
        txn: TxnId,
        /// All its participants.
        participants: SmallVec<[ShardId; 4]>,
    },
    /// Something for a session of the coordination service that is at this gateway.
    Session {
        /// The shard that says so.
        shard: ShardId,
        /// Which.
        session: SessionId,
        /// What.
        told: Told,
    },
    /// A key that the request under this response's token is blocked on holds something.
    Ready {
        /// The key.
        key: Blob,
    },
    /// A session of the coordination service ends that is at several shards: see to it that all of them hear
    /// of it.
    Ending {
        /// Which.
        session: SessionId,
        /// The number of the change with which it began to end.
        ended: Zxid,
        /// It has ended, and the others need only be told.
        finished: bool,
        /// The other shards.
        shards: Vec<ShardId>,
    },
    /// A `multi` of a session that is prepared waits to be decided: find out what becomes of it.
    Undecided {
        /// Whose.
        session: SessionId,
        /// Which.
        id: JointId,
        /// All shards that have a part of it.
        shards: Vec<ShardId>,
    },
}
