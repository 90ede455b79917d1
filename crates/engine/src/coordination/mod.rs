//! The coordination service: sessions, a tree of nodes, and watches on it.
//!
//! Its promises are those of ZooKeeper's programmer's guide. [`service`] is the replicated state,
//! which every replica computes from the log; [`watches`] and [`liveness`] are the leader's memory.
//! Shards execute the requests, and gateways serve them to clients.

mod ask;
pub mod branch;
pub mod liveness;
mod request;
pub mod service;
pub mod spread;
pub mod survey;
#[cfg(test)]
mod tests;
pub mod tree;

pub use ask::{Ask, CoordinationAnswer, OfSession, SessionNotice};
pub use request::{
    Acl, Change, Code, Create, CreateMode, Happened, Identity, JointId, Lasts, Password, Read,
    Reply, SpreadStep, Stat, TreeSessionId, Watch, WatchedEvent, WatcherType, Write, Zxid,
};
