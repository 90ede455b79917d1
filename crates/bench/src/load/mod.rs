//! Load: workloads, the clients that run them, their event loop, and what they record.

pub mod driver;
pub mod postgres;
pub mod random;
pub mod recorder;
pub mod resp;
pub mod runner;
pub mod sample;
pub(crate) mod stream;
pub mod threads;
pub mod timers;
pub mod workload;
