//! What may happen next, whatever the protocol.

use crate::story::OpId;

/// Something happens; `F` is what shards tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<F> {
    /// A client issues what it may.
    Issue(u8),
    /// An operation arrives at the leader of its shard.
    Arrive(OpId),
    /// The next record of a shard's log is durable.
    Durable(u8),
    /// A deposed leader hears so.
    OldDurable(u8),
    /// A leader, or a deposed one, is told something.
    Hear(u8, bool, F),
    /// A shard has a new leader, which has so many records.
    Depose(u8, usize),
    /// Somebody has waited long for an operation, and asks its shard.
    Ask(OpId),
    /// A client takes a reply, or hears that something has failed.
    Answer(OpId),
}
