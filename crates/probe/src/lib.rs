//! Probe of the latency of correct nodes.
//!
//! Every time-out and every lease of a replicated store is a bet on that latency. The probe
//! measures it: agents call the members of their group once a second, in an open loop, and record
//! each call. This crate is the part without IO: the recorded data, and the schedule of calls.
//!
//! | module | contents |
//! |---|---|
//! | [`sample`] | one call, as a row of the table `rpc` |
//! | [`caller`] | calls of an agent, and their results |
//! | [`message`] | messages between agents |
//! | [`peers`] | participants and their addresses |
//! | [`groups`] | groups of nodes |
//! | [`schedule`] | due time and workload of each call |
//! | [`rank`] | the common definition of a quantile |
//! | [`random`] | the same numbers on all nodes, from a seed |
//! | [`calibrate`] | time-outs, sizes and risks that follow from measurements |
//! | [`proc`] | Linux's statistics of a host |
//! | [`resources`] | resource usage of a host, as a row of the table `res` |
//! | [`watch`] | slow machines of a running cluster, and leads that should leave them |
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
