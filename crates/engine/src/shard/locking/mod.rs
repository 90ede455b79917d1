//! Abstract locks: the lock table, the manager of transactions and waiting requests, and the counters
//! about them.

pub(in crate::shard) mod claims;
mod commits;
mod contention;
mod grants;
mod lock_counts;
pub(in crate::shard) mod locks;
pub(in crate::shard) mod manager;
mod queues;
pub mod watermark;
mod whole;
mod wiring;
