//! Calibration of protocols: the values that each one needs.

pub mod hedge;
pub mod raft;
pub mod visigoth;
pub mod xft;
