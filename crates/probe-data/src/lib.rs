//! Files, synthetic data and analyses of the synchrony probe.
//!
//! What agents measure is kept as Parquet, one file per caller and day, which any engine can read.
//! This crate stands apart from [`probe`] because a server measures, but neither reads nor analyses
//! such files: what that needs stays out of its build.
//!
//! | module | does |
//! |---|---|
//! | [`meta`] | what a file says about itself |
//! | [`columns`] | columns of numbers in Parquet files |
//! | [`calls`], [`hosts`] | the tables `rpc` and `res` |
//! | [`recorder`] | writes files so that little is lost when the writer dies |
//! | [`simulate`] | makes up data of which the truth is known |
//! | [`import`] | takes over what other programs measured |
//! | [`analyze`] | says what data mean: the analyses O1 to O16 |
//! | [`rounds`], [`calibrate`] | which time-outs, sizes and risks follow from data |
//! | [`law`] | the law of round trips or of log writes, for models |
//! | [`thin`] | makes old days small: sketches, and the calls that were late |
//! | [`dataset`] | finds the files of a folder, and says which cannot be used |

pub mod analyze;
pub mod calibrate;
pub mod calls;
pub mod columns;
pub mod dataset;
pub mod error;
pub mod hosts;
pub mod import;
pub mod law;
pub mod meta;
mod pool;
pub mod progress;
pub mod recorder;
pub mod rounds;
pub mod simulate;
pub mod slow_calls;
pub mod thin;

pub use dataset::DataSet;
pub use error::{Error, Exclusions};
