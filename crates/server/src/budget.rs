//! What all clients together make the server keep for them, besides records.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What something takes, or how much of it there is, in the whole process: each worker tells its part.
#[derive(Debug, Default)]
pub struct Sum(AtomicUsize);

impl Sum {
    /// A part that was counted as `before` is to be counted as `now`.
    pub fn change(&self, before: usize, now: usize) {
        if now > before {
            self.0.fetch_add(now - before, Ordering::Relaxed);
        } else if before > now {
            self.0.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// The sum.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What clients make the server keep, over all workers.
#[derive(Debug, Default)]
pub struct Budget {
    /// Commands that have not come to their end.
    pub inputs: Sum,
    /// Replies that wait.
    pub replies: Sum,
}
