//! The study of the price of coordination: `claret bench smoke`, `claret bench locks` and
//! `claret bench crowd`.
//!
//! Two versions of a paper on the cost of consensus measure locks on ZooKeeper under added delays.
//! This repeats their experiments on Claret, and on ZooKeeper and etcd beside it, by the same code,
//! with what [`model`] predicts beside the figures. `docs/study/` says how to repeat each of them.
//!
//! | module | what |
//! |---|---|
//! | [`client`] | many sessions of ZooKeeper's protocol in one thread |
//! | [`nodes`] | what is needed of a service that has nodes, whatever it speaks |
//! | [`recipes`], [`mirror`], [`znodes`] | the lock recipes on them |
//! | [`tasks`], [`sessions`] | what a run's sessions do, in this process or in another program |
//! | [`grants`] | the lock that the server itself knows, over the Redis protocol |
//! | [`keepers`] | processes that keep it, always or while that pays, and hand it on among their clients |
//! | [`adaptive`] | a lock that changes its recipe as the model recommends |
//! | [`locker`] | what the generator knows of a way to lock: other protocols are other lockers |
//! | [`crowd`] | many sessions that do little |
//! | [`generator`] | requests that come and go, and the check that nobody overlaps |
//! | [`backend`], [`zookeeper`] | the services, with links that can be made longer |
//! | [`experiments`], [`plan`], [`resume`] | what is measured, and what was already |
//! | [`forecast`], [`figures`], [`agreement`] | what is expected, what was found, and how far they are apart |

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

/// A progress bar on standard error, in seconds that are expected.
fn progress(expected_s: f64) -> ProgressBar {
    let bar = ProgressBar::new(expected_s.ceil() as u64);
    let style = ProgressStyle::with_template("{wide_bar} {elapsed} of about {len} s {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
