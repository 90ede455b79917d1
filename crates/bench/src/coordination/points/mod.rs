//! Points of a study: parameters to measure, and rows that are measured already.

pub(in crate::coordination) mod draw;
pub mod experiments;
pub mod plan;
pub mod resume;
