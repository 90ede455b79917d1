//! Stories about requests that wait: locks by name, barriers, elections, blocking commands.

mod barriers;
mod circles;
mod kept;
mod observers;
mod sections;
mod serving;
mod successors;
pub(super) mod turns;

use super::*;
