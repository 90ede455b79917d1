//! Files, synthetic data and analyses of the synchrony probe.
//!
//! Measurements are stored as Parquet, one file per caller and day, which any engine can read. This
//! crate is separate from [`probe`] because a server measures, but neither reads nor analyses such
//! files, so its build does not need the dependencies for that.
//!
//! | module | contents |
//! |---|---|
//! | [`meta`] | metadata of a file |
//! | [`columns`] | columns of numbers in Parquet files |
//! | [`calls`], [`hosts`] | the tables `rpc` and `res` |
//! | [`recorder`] | crash-tolerant writing of files |
//! | [`simulate`] | synthetic data with known truth |
//! | [`import`] | import of other programs' measurements |
//! | [`analyze`] | the analyses O1 to O16 |
//! | [`rounds`], [`calibrate`] | time-outs, sizes and risks that follow from data |
//! | [`law`] | the distribution of round trips or of log writes, for models |
//! | [`thin`] | compaction of old days: sketches, and late calls |
//! | [`dataset`] | the files of a folder, and the unusable ones among them |

pub mod analyze;
pub mod calibrate;
pub mod error;
pub mod import;
pub mod law;
mod pool;
pub mod progress;
pub mod simulate;
pub mod tables;

pub use crate::tables::dataset::DataSet;
pub use error::{Error, Exclusions};
