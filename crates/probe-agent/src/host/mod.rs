//! The host: its clocks, its disk, its resource usage, and how late its threads wake up.

pub mod canary;
pub mod clock;
pub(crate) mod disk;
pub(crate) mod hosts;
pub mod sampler;
