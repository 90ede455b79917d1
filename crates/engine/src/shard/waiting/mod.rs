//! Queues of requests that wait for a record: for elements, for locks, at barriers, for an election.

pub(in crate::shard) mod blocked;
pub(in crate::shard) mod deadlocks;
pub(in crate::shard) mod newcomers;
pub(in crate::shard) mod observers;
pub(in crate::shard) mod serving;
pub(in crate::shard) mod turns;
