//! The data directory: what a machine keeps on its disk besides the log, and how a start reads it.

pub mod backup;
pub mod datadir;
pub(crate) mod identity;
pub(crate) mod mapfile;
pub(crate) mod recovery;
pub(crate) mod snapshot;
