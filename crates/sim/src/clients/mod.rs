//! Simulated clients, and what they do.

pub(crate) mod cacher;
pub(crate) mod client;
pub(crate) mod errand;
pub(crate) mod guest;
pub(crate) mod holder;
pub(crate) mod workload;
