//! Stories about three machines that hold three shards.

mod leads;
mod sleep;
mod story;
