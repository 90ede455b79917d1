//! Servers under test: child processes, delayed links between them, and a connection beside the load.

pub mod control;
pub mod etcd;
pub(crate) mod links;
pub mod postgres;
pub mod process;
