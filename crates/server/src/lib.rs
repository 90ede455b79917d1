//! Runs the store on a machine: sockets, TLS, disk, threads, configuration, metrics.
//!
//! [`start`] runs a whole server inside the calling process and returns a [`Handle`] to it.

pub mod backup;
mod budget;
pub mod clock;
pub mod config;
mod console;
mod control;
pub mod counts;
pub mod datadir;
pub mod doctor;
mod http;
mod identity;
mod listen;
pub mod log;
mod mail;
mod mapfile;
pub mod memory;
mod metrics;
pub mod password;
mod peers;
mod recovery;
pub mod secret;
mod server;
mod snapshot;
pub mod synchrony;
mod tls;
mod transport;
mod troubles;
mod words;
mod worker;

pub use server::{Handle, Remote, StartError, raise_descriptor_limit, start};
