//! Pipelines over several shards: bundles inside one process, and streams.

mod bundles;
mod streams;

use super::*;
