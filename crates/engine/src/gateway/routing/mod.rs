//! Routing of requests to shards: which machine leads which shard, what is asked again elsewhere, and
//! what happens to a request for a shard without a leader.

pub(in crate::gateway) mod course;
pub(in crate::gateway) mod databases;
pub(in crate::gateway) mod launch;
pub(in crate::gateway) mod leaders;
pub(in crate::gateway) mod leads;
pub(in crate::gateway) mod rerouting;
pub(in crate::gateway) mod response;
pub(in crate::gateway) mod route;
pub(in crate::gateway) mod snapshot;
pub(in crate::gateway) mod unled;
pub(in crate::gateway) mod unread;
