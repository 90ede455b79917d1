//! Services under comparison, their servers, and sessions of clients at them.

pub mod backend;
pub mod client;
pub(in crate::coordination) mod sessions;
pub mod tasks;
pub mod zookeeper;
