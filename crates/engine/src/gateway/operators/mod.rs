//! Commands of operators about the commands of clients: slow ones and durations, a view of all of them, and
//! pauses.

mod answers;
pub(super) mod commands;
mod holding;
pub mod latency;
pub mod monitor;
pub mod pause;
pub mod questions;
pub mod slow;
pub mod slowlog;
mod watching;
pub mod words;
