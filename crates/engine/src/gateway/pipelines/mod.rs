//! Pipelines that keep their order across shards.

pub(in crate::gateway) mod planned;
pub(in crate::gateway) mod stream;
pub(in crate::gateway) mod streams;
