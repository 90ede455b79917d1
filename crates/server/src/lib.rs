//! How the store runs on a machine: sockets, TLS, disk, threads, configuration, metrics.

pub mod config;
pub mod datadir;
pub mod log;
pub mod memory;
pub mod password;
pub mod secret;
