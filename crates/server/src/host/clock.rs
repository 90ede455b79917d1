//! Clock from which the workers read the time that they pass to the state machines.

use adt::Timestamp;
use engine::now::Now;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Reads the wall clock and the monotonic clock together.
///
/// All clones of a clock agree on the time. It never goes back, and it is later than every
/// timestamp that a shard of this process has issued (see [`Clock::raise`]).
#[derive(Clone, Debug)]
pub struct Clock {
    origin: Instant,
    floor_us: Arc<AtomicU64>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// Creates a clock whose monotonic time begins now.
    pub fn new() -> Self {
        Self { origin: Instant::now(), floor_us: Arc::default() }
    }

    /// Current time.
    #[inline]
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let floor_us = self.floor_us.load(Ordering::Acquire);
        Now {
            wall_us: floor_us.max(wall.as_micros() as u64),
            mono_us: self.origin.elapsed().as_micros() as u64,
        }
    }

    /// Makes all shards issue later timestamps than `latest` from now on. Must be called before
    /// `latest` becomes visible outside this process.
    #[inline]
    pub fn raise(&self, latest: Timestamp) {
        self.floor_us.fetch_max(latest.after_us(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_later_than_every_timestamp_that_was_given() {
        let clock = Clock::new();
        let copy = clock.clone();
        let given = Timestamp(Timestamp::from_micros(clock.now().wall_us + 60_000_000).0 + 7);
        clock.raise(given);
        clock.raise(Timestamp::ZERO);
        assert!(Timestamp::from_micros(copy.now().wall_us) > given);
    }
}
