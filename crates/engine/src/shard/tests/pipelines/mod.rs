//! Stories about pipelines over several shards.

mod bundles;
mod chains;
mod owed;
pub(super) mod streams;

use super::*;
