//! The machine: its clock, its memory, and checks of its configuration.

pub(crate) mod budget;
pub mod clock;
pub mod doctor;
pub mod memory;
