//! Stories about the coordination service.

mod ahead;
mod coordination;
mod joints;
mod spread;

use super::*;
