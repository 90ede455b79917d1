//! Synthetic data with known truth.
//!
//! In the simulated deployment the slow nodes, the rate of pauses, the late calls and the
//! correlation of latency with resource usage are known. An analysis that does not find them is
//! wrong.
//!
//! Everything follows from the seed: the contents of a caller's file do not depend on the thread
//! that wrote it, or on time.

mod law;
mod node;
mod truth;
mod write;

pub use law::{PAUSE_MAX_MS, PAUSE_MEAN_MS};
pub use truth::{Correlation, PauseTruth, Truth};

use crate::error::Error;
use crate::progress::Progress;
use probe::groups::Plan;
use serde::Serialize;
use std::path::Path;

/// Options of a simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of nodes.
    pub nodes: u16,
    /// Sizes of groups, used in turn.
    pub plan: Plan,
    /// Number of days.
    pub days: u16,
    /// Number of nodes that are slow all the time.
    pub slow: u16,
    /// Seed.
    pub seed: u64,
    /// Ticks of each caller and day; 86,400 are a whole day.
    pub rounds: u32,
    /// Pauses per node and hour.
    pub pauses_per_hour: f64,
    /// Whether to write the table of resources, too.
    pub resources: bool,
    /// Number of threads.
    pub threads: usize,
}

/// Result of a simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Made {
    /// Number of rows of the table of calls.
    pub rows: u64,
    /// Number of rows of the table of resources.
    pub resource_rows: u64,
    /// Size of the files of calls in bytes.
    pub bytes: u64,
    /// Bytes per row of calls.
    pub bytes_per_row: f64,
    /// Wall time.
    pub seconds: f64,
    /// Rows of calls per second of wall time.
    pub rows_per_s: f64,
    /// Planted effects.
    pub truth: Truth,
}

/// Name of the file with the truth, beside the tables.
pub const TRUTH: &str = "truth.json";
/// Day of the first epoch: 2024-01-01.
pub const FIRST_EPOCH: i64 = 19_723;

/// Simulates a data set in an empty folder, which is created if needed.
///
/// # Errors
/// Invalid options, a folder that is not empty, or a full disk.
pub fn simulate(options: &Options, root: &Path, progress: &dyn Progress) -> Result<Made, Error> {
    let told = |what: &str| Err(Error::Asked(what.into()));
    if options.nodes < 3 {
        return told("a group needs three nodes");
    }
    if options.slow >= options.nodes {
        return told("slow nodes need fast ones for comparison: not all nodes can be slow");
    }
    if options.days == 0 || options.rounds == 0 || options.rounds > 86_400 {
        return told("at least one day, and 1 to 86,400 rounds per day");
    }
    if !(0.0..=360.0).contains(&options.pauses_per_hour) {
        return told("a node pauses between 0 and 360 times an hour");
    }
    std::fs::create_dir_all(root).map_err(Error::io(root))?;
    if std::fs::read_dir(root).map_err(Error::io(root))?.next().is_some() {
        return Err(Error::content(root, "is not empty"));
    }
    write::run(options, root, progress)
}
