//! Memory that the server keeps on behalf of all its clients together, besides records.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Total over all workers of the process; each worker adds the changes of its own part.
#[derive(Debug, Default)]
pub struct Sum(AtomicUsize);

impl Sum {
    /// Replaces a worker's part: `before` was counted so far, `now` is counted from here on.
    pub fn change(&self, before: usize, now: usize) {
        if now > before {
            self.0.fetch_add(now - before, Ordering::Relaxed);
        } else if before > now {
            self.0.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// Current total.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Memory kept on behalf of clients, over all workers.
#[derive(Debug, Default)]
pub struct Budget {
    /// Commands that have not been completed.
    pub inputs: Sum,
    /// Replies that have not been sent.
    pub replies: Sum,
}
