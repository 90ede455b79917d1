//! Stories about records: guards, operations that change nothing, outcomes, all keys at once.

mod apply;
mod crowds;
mod escrow;
mod guards;
mod idle;
mod outcomes;
mod probes;
mod rests;
pub(super) mod updates;
mod whole;

use super::*;
