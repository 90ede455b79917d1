//! A thread that sleeps until fixed moments and measures how late it wakes up.

use super::clock::mono_ns;
use probe::proc::Lateness;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Default time between two moments of a canary.
pub const PERIOD: Duration = Duration::from_millis(1);

/// A canary. It stops when it is dropped.
#[derive(Debug)]
pub struct Canary {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    lateness: Mutex<Lateness>,
    stop: AtomicBool,
}

impl Canary {
    /// Starts a canary.
    ///
    /// # Errors
    /// No thread can be created.
    pub fn start(period: Duration) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
        let thread =
            Builder::new().name("canary".into()).spawn(move || sing(&of_thread, period_ns))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Takes the lateness since the last call.
    pub fn take(&self) -> Lateness {
        let mut lateness = self.shared.lateness.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut lateness)
    }
}

fn sing(shared: &Shared, period_ns: u64) {
    let mut due_ns = mono_ns().unsigned_abs() + period_ns;
    while !shared.stop.load(Ordering::Relaxed) {
        let now_ns = mono_ns().unsigned_abs();
        if due_ns > now_ns {
            std::thread::sleep(Duration::from_nanos(due_ns - now_ns));
        }
        let late_ns = mono_ns().unsigned_abs().saturating_sub(due_ns);
        let mut lateness = shared.lateness.lock().unwrap_or_else(PoisonError::into_inner);
        due_ns += period_ns * lateness.woke(late_ns, period_ns);
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A canary that panicked has no result.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_wakes_up_and_is_a_little_late() {
        let canary = Canary::start(Duration::from_millis(2)).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let first = canary.take();
        assert!(first.sum_ns > 0 && first.max_ns <= first.sum_ns);
    }
}
