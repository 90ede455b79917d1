//! Interfaces for operators: console, metrics, health and four-letter commands.

pub(crate) mod console;
pub mod counts;
pub(crate) mod http;
pub(crate) mod metrics;
pub(crate) mod script_lines;
pub(crate) mod settings;
pub(crate) mod troubles;
pub(crate) mod words;
