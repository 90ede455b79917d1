//! Stories about records: guards, operations that change nothing, outcomes, all keys at once.

mod absence;
mod apply;
mod idle;
mod outcomes;
mod unchanged;
mod whole;

use super::*;
