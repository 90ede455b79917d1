//! Stories about records: guards, operations that change nothing, outcomes, all keys at once.

mod absence;
mod apply;
mod crowds;
mod escrow;
mod idle;
mod outcomes;
mod probes;
mod rests;
mod unchanged;
pub(super) mod updates;
mod whole;

use super::*;
