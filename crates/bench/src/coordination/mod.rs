//! The study of the price of coordination: `claret bench smoke`, `claret bench locks` and `claret
//! bench crowd`.
//!
//! Two versions of a paper on the cost of consensus measure locks on ZooKeeper under added delays.
//! This module repeats their experiments on Claret, and on ZooKeeper and etcd for comparison, with
//! the same code, and sets the predictions of [`model`] beside the figures. `docs/study/` describes
//! how to repeat each experiment.
//!
//! | module | contents |
//! |---|---|
//! | [`services`] | the services under comparison, with links of adjustable delay, and clients' sessions at them |
//! | [`recipes`] | the lock recipes on nodes |
//! | [`grants`] | the server's own lock, over the Redis protocol |
//! | [`generator`] | arrival of requests, and the check of mutual exclusion |
//! | [`points`] | points to measure, and points that are already measured |
//! | [`results`] | predictions, results, and their agreement |
//! | [`crowd`] | many mostly idle sessions |

pub mod args;
pub mod crowd;
mod echoes;
mod failure;
pub mod generator;
pub mod grants;
pub mod locks;
pub mod operations;
mod plot;
pub mod points;
pub mod recipes;
pub mod results;
pub mod services;
pub mod smoke;

use indicatif::{ProgressBar, ProgressStyle};

/// Creates a progress bar on standard error, in expected seconds.
fn progress(expected_s: f64) -> ProgressBar {
    let bar = ProgressBar::new(expected_s.ceil() as u64);
    let style = ProgressStyle::with_template("{wide_bar} {elapsed} of about {len} s {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
