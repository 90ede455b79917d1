//! What latency should we expect?
//!
//! A coordination service is slow for reasons that can be counted: round trips between client and
//! leader, round trips to a quorum, log writes, and the time for which one lock is occupied by
//! others. This crate does the counting, so that a measurement has a prediction beside it, and a
//! choice has a reason.
//!
//! | module | question |
//! |---|---|
//! | [`law`] | how long does one thing take? |
//! | [`order`] | how long until some of several replies are there? |
//! | [`chain`] | the same, as the papers put it |
//! | [`operation`] | how long does a read, a write, a barrier take? |
//! | [`queue`] | how long does one wait for a server, in order and at random? |
//! | [`turns`], [`tries`] | how long for a lock that is taken in turn, or by whoever tries first? |
//! | [`lock`] | what does a lock algorithm cost, here and under this load? |
//! | [`recommend`] | which one should it be, and why? |
//!
//! All times are milliseconds. The crate is pure: numbers in, numbers out; nothing is sampled.

mod numeric;

pub mod chain;
pub mod law;
pub mod lock;
pub mod operation;
pub mod order;
pub mod queue;
pub mod recommend;
pub mod tries;
pub mod turns;

pub use law::{Invalid, Law};
pub use lock::{Algorithm, Prediction, Setting, State};
pub use operation::{Attachment, Timing};
