//! The coordination service: sessions, a tree of nodes, and who watches what of it.
//!
//! Its promises are those of ZooKeeper's programmer's guide. [`service`] is the replicated state, which
//! every replica computes from the log; [`watches`] and [`liveness`] are what only the leader knows.
//! Shards carry it out, and gateways serve it to clients.

pub mod acl;
mod ask;
pub mod branch;
pub mod liveness;
pub mod path;
mod quota;
mod request;
pub mod service;
pub mod spread;
pub mod survey;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod watches;

pub use ask::{Answered, Ask, OfSession, Told};
pub use request::{
    Acl, Change, Code, Create, Event, Happened, Identity, Lasts, Mode, Password, Read, Reply,
    SessionId, Stat, Watch, WatcherType, Write, Zxid,
};
