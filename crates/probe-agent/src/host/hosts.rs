//! Thread that samples the host every second.

use super::clock;
use super::sampler::Sampler;
use crate::files::Message;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

const PERIOD_NS: i64 = 1_000_000_000;

/// Cost of sampling.
#[derive(Debug, Default)]
pub struct Cost {
    /// Number of rows.
    pub rows: AtomicU64,
    /// Processor time of the sampling thread.
    pub cpu_ns: AtomicU64,
    /// Number of rows that could not be queued.
    pub dropped: AtomicU64,
}

/// Starts the thread. It ends soon after `stop`, sooner if it is unparked.
pub fn start(
    mut sampler: Sampler,
    to: SyncSender<Message>,
    stop: Arc<AtomicBool>,
    cost: Arc<Cost>,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name("sampler".into()).spawn(move || {
        let mut due_ns = clock::mono_ns();
        while !stop.load(Ordering::Relaxed) {
            let left_ns = due_ns - clock::mono_ns();
            if left_ns > 0 {
                std::thread::park_timeout(Duration::from_nanos(left_ns.unsigned_abs()));
                continue;
            }
            if let Some(row) = sampler.row() {
                cost.rows.fetch_add(1, Ordering::Relaxed);
                if to.try_send(Message::Host(Box::new(row))).is_err() {
                    cost.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
            cost.cpu_ns.store(clock::thread_cpu_ns().unsigned_abs(), Ordering::Relaxed);
            // Time that was slept through is part of the next row's true interval.
            due_ns = (due_ns + PERIOD_NS).max(clock::mono_ns());
        }
    })
}
