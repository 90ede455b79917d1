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
//! | [`client`] | many sessions of ZooKeeper's protocol in one thread |
//! | [`nodes`] | interface of a service with nodes, for any protocol |
//! | [`recipes`], [`mirror`], [`znodes`] | the lock recipes on nodes |
//! | [`tasks`], [`sessions`] | work of a run's sessions, in this process or in another program |
//! | [`grants`] | the server's own lock, over the Redis protocol |
//! | [`keepers`] | processes that keep it and hand it on among their clients |
//! | [`adaptive`] | a lock that changes its recipe as the model recommends |
//! | [`locker`] | interface between the generator and the lock algorithms |
//! | [`crowd`] | many mostly idle sessions |
//! | [`generator`] | arrival of requests, and the check of mutual exclusion |
//! | [`backend`], [`zookeeper`] | the services, with links of adjustable delay |
//! | [`experiments`], [`plan`], [`resume`] | points to measure, and points that are already measured |
//! | [`forecast`], [`figures`], [`agreement`] | predictions, results, and their agreement |

pub mod adaptive;
mod agreement;
pub mod args;
pub mod backend;
mod barrier;
pub mod client;
pub mod crowd;
mod draw;
mod echoes;
pub mod experiments;
mod failure;
pub mod figures;
pub mod forecast;
pub mod generator;
pub mod grants;
pub mod keepers;
pub mod locker;
pub mod locks;
mod mirror;
pub mod nodes;
pub mod operations;
pub mod plan;
mod plot;
pub mod recipes;
mod regions;
pub mod resume;
mod sections;
mod sessions;
pub mod smoke;
mod stop;
pub mod tasks;
pub mod znodes;
pub mod zookeeper;

use indicatif::{ProgressBar, ProgressStyle};

/// Creates a progress bar on standard error, in expected seconds.
fn progress(expected_s: f64) -> ProgressBar {
    let bar = ProgressBar::new(expected_s.ceil() as u64);
    let style = ProgressStyle::with_template("{wide_bar} {elapsed} of about {len} s {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
