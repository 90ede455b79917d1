//! Tables of measurements: their columns, the files that hold them, and how files are written
//! and thinned out.

pub mod calls;
pub mod columns;
pub mod dataset;
pub mod hosts;
pub mod meta;
pub mod recorder;
pub mod rounds;
pub mod slow_calls;
pub mod thin;
