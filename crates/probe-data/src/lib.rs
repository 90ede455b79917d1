//! Files, synthetic data and analyses of the synchrony probe.
//!
//! What agents measure is kept as Parquet, one file per caller and day, which any engine can read.
//! This crate stands apart from [`probe`] because a server measures, but neither reads nor analyses
//! such files: what that needs stays out of its build.
