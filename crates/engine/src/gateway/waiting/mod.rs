//! Commands that wait, for locks, at barriers or for elements; locks that this gateway keeps for its
//! clients; the search for deadlock cycles.

pub(in crate::gateway) mod blocking;
mod commands;
mod deadlocks;
mod effect;
pub(in crate::gateway) mod fence;
pub(in crate::gateway) mod near;
mod prefixes;
pub(in crate::gateway) mod section;
pub(in crate::gateway) mod turns;
