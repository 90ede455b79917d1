//! Locks, elections and barriers.

pub(crate) mod election;
pub(crate) mod keep;
pub(crate) mod lock;
pub(crate) mod retained;
