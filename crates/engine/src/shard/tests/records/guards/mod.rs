//! Stories about guards: operations that take effect only if something holds.

mod absence;
mod replies;
mod unchanged;

use super::*;
