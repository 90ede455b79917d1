//! How late can a correct node be?
//!
//! Every time-out and every lease of a replicated store is a bet on that. The probe measures it:
//! agents call the members of their group once a second, in an open loop, and write down each call.
//! This crate is the part that needs nothing of the outside: what is written down, who calls whom
//! and when.
//!
//! | module | says |
//! |---|---|
//! | [`sample`] | what one call is, as a row of the table `rpc` |
//! | [`caller`] | what an agent calls, and what became of it |
//! | [`message`] | what agents say to each other |
//! | [`peers`] | who takes part, and where |
//! | [`groups`] | who is in a group with whom |
//! | [`schedule`] | when is a call due, and what is it to do |
//! | [`rank`] | what a quantile is, everywhere |
//! | [`random`] | the same numbers everywhere, from a seed |
//! | [`calibrate`] | which time-outs, sizes and risks follow from it |
//! | [`proc`] | what Linux says about a host |
//! | [`resources`] | what a host was busy with, as a row of the table `res` |
//! | [`watch`] | which machine of a running cluster is slow, and which leads should leave it |
//!
//! The crate is pure: the time, seeds and latencies come from outside.

pub mod calibrate;
pub mod caller;
pub mod groups;
pub mod message;
pub mod peers;
pub mod proc;
pub mod random;
pub mod rank;
pub mod resources;
pub mod sample;
pub mod schedule;
pub mod slow_call;
pub mod watch;

pub use resources::Resources;
pub use sample::{Sample, Status, Workload};
pub use slow_call::SlowCall;
