//! The synchrony probe at work.
//!
//! Everything that decides something is in [`probe`], which knows neither sockets nor clocks. Here is
//! what it needs of a machine: this crate moves bytes, reads clocks, syncs a file and writes down what
//! it is told to.
//!
//! | module | does |
//! |---|---|
//! | [`agent`] | an agent of a deployment, from its first connection to its last row |
//! | [`sampler`] | reads what Linux says of the host, once a second |
//! | [`canary`] | threads that sleep, and tell how late they woke up |
//! | [`clock`] | both clocks of one moment |
//! | [`files`] | writes rows down, on a thread of its own |
//!
//! An agent has a thread for its own calls, one for those of others, one for the disk, one for files,
//! one for the sampler and one for the canary. None of them waits for another, so that what is late
//! is what is measured.

pub mod agent;
pub mod canary;
pub mod clock;
pub mod files;
pub mod sampler;

mod callee;
mod caller;
mod disk;
mod exemplars;
mod hosts;
mod link;
mod payload;

pub use agent::{Agent, Options, Summary};
