//! Abstract locks: the lock table, grants, transactions that hold them, and the counters about them.

pub(in crate::shard) mod commits;
pub(in crate::shard) mod contention;
pub(in crate::shard) mod grants;
pub(in crate::shard) mod idle;
pub(in crate::shard) mod inquiry;
pub(in crate::shard) mod lock_counts;
pub(in crate::shard) mod locks;
pub(in crate::shard) mod owed;
pub(in crate::shard) mod reads;
pub mod watermark;
