//! What the bytes are: the protocols of clients, entries of the log, snapshots,
//! what machines say to each other.
//!
//! This crate is pure: it turns bytes into values and values into bytes. Decoders treat every
//! length as hostile: nothing is allocated for what has only been announced.

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
