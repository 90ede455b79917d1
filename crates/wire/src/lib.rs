//! Byte formats: the protocols of clients, log entries, snapshots, backups, and messages between
//! machines.
//!
//! This crate is pure: it turns bytes into values and values into bytes. Decoders treat every
//! length as hostile: a declared length alone allocates nothing.

pub mod backup;
mod bytes;
mod coordination;
pub mod entry;
pub mod jute;
pub mod peer;
pub mod resp;
mod saved;
pub mod snapshot;
mod stream;
