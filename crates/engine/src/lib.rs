//! Engine: gateways that own sessions and coordinate transactions, shards that own records and
//! locks, and the replicated log between deciding and applying.
//!
//! Everything here is pure: `(now, input)` goes in, outputs are polled out. There is no clock, no
//! randomness, no IO, no thread and no async in this crate; the server and the simulator drive the
//! same types.

pub mod cluster;
mod concurrency;
pub mod coordination;
mod deadlock;
pub mod entry;
pub mod gateway;
pub mod ids;
pub mod limits;
pub mod message;
pub mod node;
pub mod now;
pub mod pipeline;
mod repeats;
pub mod replica;
pub mod replication;
pub mod script;
pub mod shard;
pub mod stats;
