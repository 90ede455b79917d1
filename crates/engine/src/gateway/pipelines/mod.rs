//! Pipelines that keep their order across shards.

pub(in crate::gateway) mod pipeline;
pub(in crate::gateway) mod planned;
pub(in crate::gateway) mod stream;
