//! Administration: the cluster and its shard map, backups, and commands that ask all shards or
//! gateways.

pub(in crate::gateway) mod backup;
pub(in crate::gateway) mod cluster;
pub(in crate::gateway) mod gather;
pub mod info;
pub(in crate::gateway) mod inquiry;
pub(in crate::gateway) mod keyspace;
pub(in crate::gateway) mod overview;
pub(in crate::gateway) mod scan;
pub(in crate::gateway) mod shardmap;
pub(in crate::gateway) mod topology;
