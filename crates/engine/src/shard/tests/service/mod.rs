//! Stories about the coordination service.

mod ahead;
pub(super) mod coordination;
pub(super) mod joints;
mod spread;

use super::*;
