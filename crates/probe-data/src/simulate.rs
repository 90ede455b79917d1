//! Synthetic data with known truth.
//!
//! A deployment is made up in which it is known which nodes are slow, how often nodes pause, which
//! calls are late and how latency goes with what the hosts were busy with. An analysis that does
//! not find that out is wrong.
//!
//! Everything follows from the seed: what a caller's file has does not depend on which thread wrote
//! it, or when.

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

/// What is to be made up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes.
    pub nodes: u16,
    /// Sizes of groups, taken in turn.
    pub plan: Plan,
    /// Days.
    pub days: u16,
    /// Nodes that are slow all the time.
    pub slow: u16,
    /// The seed.
    pub seed: u64,
    /// Ticks of each caller and day; 86,400 are a whole day.
    pub rounds: u32,
    /// Pauses per node and hour.
    pub pauses_per_hour: f64,
    /// Write the table of resources, too.
    pub resources: bool,
    /// Threads.
    pub threads: usize,
}

/// What was made.
#[derive(Clone, Debug, Serialize)]
pub struct Made {
    /// Rows of the table of calls.
    pub rows: u64,
    /// Rows of the table of resources.
    pub resource_rows: u64,
    /// Bytes of the files of calls.
    pub bytes: u64,
    /// Their bytes per row.
    pub bytes_per_row: f64,
    /// Wall time.
    pub seconds: f64,
    /// Rows of calls per second of it.
    pub rows_per_s: f64,
    /// What was planted.
    pub truth: Truth,
}

/// The file with the truth, beside the tables.
pub const TRUTH: &str = "truth.json";
/// The day of the first epoch: 2024-01-01.
pub const FIRST_EPOCH: i64 = 19_723;

/// Makes up a data set in an empty folder, which is created if need be.
///
/// # Errors
/// Numbers that cannot be, a folder that is not empty, or a disk that is full.
pub fn simulate(options: &Options, root: &Path, progress: &dyn Progress) -> Result<Made, Error> {
    let told = |what: &str| Err(Error::Asked(what.into()));
    if options.nodes < 3 {
        return told("a group needs three nodes");
    }
    if options.slow >= options.nodes {
        return told("slow is slow beside others: not all nodes can be");
    }
    if options.days == 0 || options.rounds == 0 || options.rounds > 86_400 {
        return told("there must be a day, and from 1 to 86,400 rounds in it");
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
