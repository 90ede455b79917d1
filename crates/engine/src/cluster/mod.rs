//! The cluster: its shard map, placement rules, slots, the machines of a group, and the level that its
//! machines have in common.

pub mod level;
pub mod map;
pub mod members;
pub mod rules;
pub mod slot;
