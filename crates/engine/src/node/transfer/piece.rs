//! Pieces of snapshots, as machines send them to each other.

use crate::ids::ShardId;
use raft::eraftpb::Message;

/// Piece of a snapshot. Between two machines at most one of a shard is in flight.
#[derive(Debug)]
pub struct SnapshotPiece {
    /// The shard.
    pub shard: ShardId,
    /// Offset of the piece in the snapshot, in bytes.
    pub offset: u64,
    /// Bytes of encoded parts, split anywhere.
    pub bytes: Vec<u8>,
    /// Whether this is the last piece.
    pub last: bool,
    /// Message of the leader's log about the snapshot.
    pub message: Box<Message>,
}

/// Result of a piece of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Accepted; the next piece must begin at this offset.
    Next(u64),
    /// The snapshot is complete, or contains nothing new.
    Complete,
    /// The piece could not be read or written.
    Refused,
}
