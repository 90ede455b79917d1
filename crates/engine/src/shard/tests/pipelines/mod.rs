//! Stories about pipelines over several shards.

mod bundles;
mod chains;
mod owed;
mod streams;

use super::*;
