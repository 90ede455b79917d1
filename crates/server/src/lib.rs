//! Runs the store on a machine: sockets, TLS, disk, threads, configuration, metrics.
//!
//! [`start`] runs a whole server inside the calling process and returns a [`Handle`] to it.

pub mod config;
mod control;
pub mod data;
pub mod host;
pub mod log;
mod mail;
pub mod net;
pub mod operators;
mod server;
pub mod synchrony;
mod worker;

pub use server::{Handle, Remote, StartError, raise_descriptor_limit, start};
