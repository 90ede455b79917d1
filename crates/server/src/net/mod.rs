//! Connections: listening, TLS, passwords, and the connections among machines.

pub(crate) mod broadcasts;
pub(crate) mod listen;
pub mod password;
pub(crate) mod peers;
pub mod secret;
pub(crate) mod tls;
pub(crate) mod transport;
