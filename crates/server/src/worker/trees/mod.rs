//! Clients of the coordination service at a worker.

pub(in crate::worker) mod clients;
pub(in crate::worker) mod dialogue;
pub mod talk;
