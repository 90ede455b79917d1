//! Subcommands that measure, predict and check, without a store of one's own.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod model;
pub(crate) mod probe;
pub(crate) mod sim;
