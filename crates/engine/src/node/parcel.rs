//! Messages between the machines of a cluster, and between the workers of one machine.

use super::timing::Timing;
use super::transfer::piece::{SnapshotPiece, Taken};
use crate::cluster::map::ShardMap;
use crate::cluster::members::Members;
use crate::gateway::{Broadcast, PeerMessage};
use crate::ids::{GatewayId, MachineId, ShardId};
use crate::message::{Request, Response};
use crate::pipeline::StreamMessage;
use adt::Timestamp;
use raft::eraftpb::{Message, MessageType};

/// Message from one worker to another, on the same machine or not.
///
/// Between two workers parcels arrive in the order in which they were sent, or the connection
/// breaks and no later one arrives.
#[derive(Debug)]
pub enum Parcel {
    /// Request for a shard, which the receiving machine is believed to lead in this term. If it
    /// does not, the answer is [`crate::message::Answer::NotTaken`].
    Request {
        /// The shard.
        shard: ShardId,
        /// Term in which the receiver announced that it leads the shard.
        term: u64,
        /// The request.
        request: Request,
    },
    /// Answer of a shard to the gateway that it names.
    Response(Response),
    /// A message between gateways of one machine.
    Gateway {
        /// Sending gateway.
        from: GatewayId,
        /// Receiving gateway.
        to: GatewayId,
        /// The message.
        message: PeerMessage,
    },
    /// A task for all gateways of the receiving machine.
    Broadcast(Broadcast),
    /// The sending machine has taken so many bytes of broadcasts. A node ignores it.
    BroadcastsTaken(u32),
    /// A message between replicas of a shard's log.
    Raft {
        /// The shard.
        shard: ShardId,
        /// The message.
        message: Box<Message>,
    },
    /// Piece of a snapshot for a replica that lacks entries which the leader has forgotten.
    Snapshot(SnapshotPiece),
    /// Result of such a piece.
    SnapshotTaken {
        /// The shard.
        shard: ShardId,
        /// Last log index that the snapshot contains.
        index: u64,
        /// Result of the piece.
        taken: Taken,
    },
    /// Messages about pipelines, each with the shard whose leader it is for.
    StreamMessages(Vec<(ShardId, StreamMessage)>),
    /// The sending machine leads the shard in this term, and accepts requests.
    Leads {
        /// The shard.
        shard: ShardId,
        /// The term.
        term: u64,
    },
    /// The newest shard map that the sender knows.
    Map(Box<ShardMap>),
    /// Members of a shard that the sending machine leads.
    Members {
        /// The shard.
        shard: ShardId,
        /// Term of the sender. Older builds compare it with their own.
        term: u64,
        /// Index and term of the last entry that the sender has applied.
        applied: (u64, u64),
        /// The machines.
        members: Box<Members>,
    },
    /// The sending machine leads these shards, and everything that commits before the timestamp is
    /// settled there: see [`crate::shard::locking::watermark`].
    Watermarks(Vec<(ShardId, Timestamp)>),
    /// The sending machine leads the shard in this term, its log ends with entry `index`, all of it
    /// is committed, and no more messages follow until the group has work to do.
    Sleep {
        /// The shard.
        shard: ShardId,
        /// The term.
        term: u64,
        /// Index of the last entry.
        index: u64,
    },
    /// The sending machine's replica of the shard is awake: if the receiver leads the shard, its
    /// group must not sleep.
    Wake {
        /// The shard.
        shard: ShardId,
    },
    /// The sending machine does not lead the shard in this term any more. All earlier requests are
    /// answered before this.
    Resigned {
        /// The shard.
        shard: ShardId,
        /// The term.
        term: u64,
    },
    /// Message about delays. A node only forwards it.
    Timing(Timing),
    /// Suggestion that the receiving machine, if it leads the shard, hand the lead over to this
    /// one. It does so only if that one could take it at once.
    LeadElsewhere {
        /// The shard.
        shard: ShardId,
        /// The machine.
        to: MachineId,
    },
}

/// Kinds of parcels, by which they are counted.
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
    /// Messages among leaders about pipelines.
    StreamMessages,
    /// Messages about delays.
    Timing,
    /// Messages of `PUBLISH`, and other tasks for all gateways.
    Broadcasts,
    /// All other parcels.
    Other,
}

impl ParcelKind {
    /// The kinds with their names, in the order of their numbers.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Entries, "entries"),
        (Self::Consensus, "consensus"),
        (Self::Heartbeats, "heartbeats"),
        (Self::Requests, "requests"),
        (Self::Answers, "answers"),
        (Self::StreamMessages, "words"),
        (Self::Timing, "timing"),
        (Self::Broadcasts, "broadcasts"),
        (Self::Other, "other"),
    ];

    /// Whether parcels of this kind result from requests, and not from the passing of time.
    pub fn is_work(self) -> bool {
        !matches!(self, Self::Heartbeats | Self::Timing | Self::Other)
    }
}

impl Parcel {
    /// Kind of the parcel.
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
            Self::StreamMessages(_) => ParcelKind::StreamMessages,
            Self::Timing(_) => ParcelKind::Timing,
            Self::Broadcast(_) => ParcelKind::Broadcasts,
            Self::Gateway { .. }
            | Self::BroadcastsTaken(_)
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
