//! Predictions of latency.
//!
//! A coordination service is slow for reasons that can be counted: round trips between client and
//! leader, round trips to a quorum, log writes, and the time for which other clients occupy a lock.
//! This crate counts them, so that a measurement has a prediction beside it, and a choice has a
//! reason.
//!
//! | module | prediction |
//! |---|---|
//! | [`law`] | duration of a single step |
//! | [`order`] | time until some of several replies have arrived |
//! | [`chain`] | time until all replies have arrived, by the papers' method |
//! | [`operation`] | duration of a read, a write, a barrier |
//! | [`queue`] | wait for a server, in order of arrival and in random order |
//! | [`turns`], [`tries`] | wait for a lock that is taken in turn, or by the first successful try |
//! | [`lock`] | costs of a lock algorithm in a setting, under a load |
//! | [`recommend`] | the best algorithm, with reasons |
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
