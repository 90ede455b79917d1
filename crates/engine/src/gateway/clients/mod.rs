//! Clients' connections: sessions, dispatch of their commands, replies in order, subscriptions.

pub mod client_list;
pub(in crate::gateway) mod commands;
pub(in crate::gateway) mod connection;
pub(in crate::gateway) mod dispatch;
pub(in crate::gateway) mod effect;
pub(in crate::gateway) mod foreign;
pub mod hello;
pub(in crate::gateway) mod publish;
pub mod pubsub;
pub(in crate::gateway) mod reply;
pub(in crate::gateway) mod session;
pub mod session_commands;
