//! Stories about three machines that hold three shards.

mod leads;
mod maps;
mod sleep;
mod story;
