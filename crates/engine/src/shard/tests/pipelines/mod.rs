//! Stories about pipelines over several shards.

mod chains;
mod owed;
mod streams;

use super::*;
