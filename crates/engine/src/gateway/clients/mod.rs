//! Clients' connections: sessions, dispatch of their commands, replies in order, subscriptions.

pub(in crate::gateway) mod commands;
pub mod connection;
pub(in crate::gateway) mod dispatch;
pub(in crate::gateway) mod effect;
pub(in crate::gateway) mod foreign;
pub(in crate::gateway) mod publish;
pub mod pubsub;
pub(in crate::gateway) mod sending;
pub(in crate::gateway) mod session;
pub mod session_commands;
pub(in crate::gateway) mod sessions;
pub(in crate::gateway) mod settle;
