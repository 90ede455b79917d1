//! IO of the synchrony probe.
//!
//! All decisions are made in [`probe`], which knows neither sockets nor clocks. This crate provides
//! the machine's part: it moves bytes, reads clocks, syncs a file and writes rows.
//!
//! | module | contents |
//! |---|---|
//! | [`agent`] | an agent of a deployment, from its first connection to its last row |
//! | [`sampler`] | reads Linux's statistics of the host, once a second |
//! | [`canary`] | threads that sleep, and measure how late they wake up |
//! | [`clock`] | both clocks at one moment |
//! | [`files`] | writes rows, on a thread of its own |
//!
//! An agent has a thread for its own calls, one for the calls of others, one for the disk, one for
//! files, one for the sampler and one for the canary. None of them waits for another, so that the
//! measured lateness is not their own.

pub mod agent;
pub mod files;
pub mod host;

mod callee;
mod caller;
mod exemplars;
mod link;
mod payload;

pub use agent::{Agent, Options, Summary};
