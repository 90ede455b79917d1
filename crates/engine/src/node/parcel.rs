//! What the machines of a cluster, and the workers of one machine, say to each other.

use super::timing::Timing;
use super::transfer::{SnapshotPiece, Taken};
use crate::gateway::PeerMessage;
use crate::ids::{GatewayId, MachineId, ShardId};
use crate::map::ShardMap;
use crate::members::Members;
use crate::message::{Request, Response};
use crate::pipeline::Word;
use adt::Timestamp;
use raft::eraftpb::{Message, MessageType};

/// Something on its way from one worker to another, on the same machine or not.
///
/// Between two workers parcels arrive in the order in which they were sent, or the connection
/// breaks and none that was sent later arrives.
#[derive(Debug)]
pub enum Parcel {
    /// A request for a shard, sent in the belief that the receiving machine leads it in this term.
    /// If it does not, the answer is [`crate::message::Answer::NotTaken`].
    Request {
        /// The shard.
        shard: ShardId,
        /// The term in which the receiver said that it leads the shard.
        term: u64,
        /// The request.
        request: Request,
    },
    /// The answer of a shard, for the gateway that it names.
    Response(Response),
    /// A message between gateways.
    Gateway {
        /// Who sends it.
        from: GatewayId,
        /// Whom it is for.
        to: GatewayId,
        /// The message.
        message: PeerMessage,
    },
    /// A message between replicas of a shard's log.
    Raft {
        /// The shard.
        shard: ShardId,
        /// The message.
        message: Box<Message>,
    },
    /// A piece of a snapshot for a replica whose log lacks what the leader has forgotten.
    Snapshot(SnapshotPiece),
    /// What became of such a piece.
    SnapshotTaken {
        /// The shard.
        shard: ShardId,
        /// Up to which log index the snapshot goes.
        index: u64,
        /// What became of it.
        taken: Taken,
    },
    /// What leaders of shards tell leaders of these shards about pipelines.
    Words(Vec<(ShardId, Word)>),
    /// The sending machine leads the shard in this term, and takes requests.
    Leads {
        /// The shard.
        shard: ShardId,
        /// The term.
        term: u64,
    },
    /// The newest shard map that the sender knows.
    Map(Box<ShardMap>),
    /// The sending machine leads the shard, and these machines hold it.
    Members {
        /// The shard.
        shard: ShardId,
        /// The term. Older builds compare it with their own.
        term: u64,
        /// Index and term of the last entry that the sender has carried out.
        applied: (u64, u64),
        /// The machines.
        members: Box<Members>,
    },
    /// The sending machine leads these shards, and everything that commits before the timestamp is
    /// settled there: see [`crate::shard::locking::watermark`].
    Watermarks(Vec<(ShardId, Timestamp)>),
    /// The sending machine leads the shard in this term, its log ends with entry `index`, all of it
    /// is committed, and nothing more is said until there is something to say.
    Sleep {
        /// The shard.
        shard: ShardId,
        /// The term.
        term: u64,
        /// The last entry.
        index: u64,
    },
    /// The sending machine's replica of the shard does not sleep: if the receiver leads, its group
    /// must not.
    Wake {
        /// The shard.
        shard: ShardId,
    },
    /// The sending machine does not lead the shard in this term any more. Everything that it had
    /// been asked is answered before this.
    Resigned {
        /// The shard.
        shard: ShardId,
        /// The term.
        term: u64,
    },
    /// A word about how long messages take. A node does nothing with it.
    Timing(Timing),
    /// The receiving machine, if it leads the shard, had better hand the lead over to this one. It
    /// does so only if that one could take it at once.
    LeadElsewhere {
        /// The shard.
        shard: ShardId,
        /// The machine.
        to: MachineId,
    },
}

/// Kinds of parcels, as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParcelKind {
    /// Entries of logs.
    Entries,
    /// Other messages of the consensus library, but for heartbeats.
    Consensus,
    /// Signs of life of groups.
    Heartbeats,
    /// Requests to shards.
    Requests,
    /// Answers of shards.
    Answers,
    /// Words among leaders about pipelines.
    Words,
    /// Words about how long messages take.
    Timing,
    /// Anything else.
    Other,
}

impl ParcelKind {
    /// The kinds with their names, in the order of their numbers.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Entries, "entries"),
        (Self::Consensus, "consensus"),
        (Self::Heartbeats, "heartbeats"),
        (Self::Requests, "requests"),
        (Self::Answers, "answers"),
        (Self::Words, "words"),
        (Self::Timing, "timing"),
        (Self::Other, "other"),
    ];

    /// Whether somebody's request is the reason of it, and not the passing of time.
    pub fn is_work(self) -> bool {
        !matches!(self, Self::Heartbeats | Self::Timing | Self::Other)
    }
}

impl Parcel {
    /// Which kind it is.
    pub fn kind(&self) -> ParcelKind {
        match self {
            Self::Raft { message, .. } if !message.entries.is_empty() => ParcelKind::Entries,
            Self::Raft { message, .. } => match message.get_msg_type() {
                MessageType::MsgHeartbeat | MessageType::MsgHeartbeatResponse => {
                    ParcelKind::Heartbeats
                }
                _ => ParcelKind::Consensus,
            },
            Self::Request { .. } => ParcelKind::Requests,
            Self::Response(_) => ParcelKind::Answers,
            Self::Words(_) => ParcelKind::Words,
            Self::Timing(_) => ParcelKind::Timing,
            Self::Gateway { .. }
            | Self::Snapshot(_)
            | Self::SnapshotTaken { .. }
            | Self::Leads { .. }
            | Self::Map(_)
            | Self::Members { .. }
            | Self::Watermarks(_)
            | Self::Sleep { .. }
            | Self::Wake { .. }
            | Self::Resigned { .. }
            | Self::LeadElsewhere { .. } => ParcelKind::Other,
        }
    }
}
