//! Stories about requests that wait: locks by name, barriers, elections, blocking commands.

mod barriers;
mod deadlocks;
mod followers;
mod kept;
mod observers;
mod rooms;
mod sections;
mod serving;
mod successors;
pub(super) mod turns;

use super::*;
