//! Copies of a shard's state: snapshots, cuts for backups, halves of a split.

pub mod cut;
pub mod snapshot;
pub mod split;
mod taking;
mod wiring;
