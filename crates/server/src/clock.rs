//! The clock that the state machines are told.

use engine::message::Now;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Reads wall clock and monotonic clock together.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock whose monotonic time begins now.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { wall_us: wall.as_micros() as u64, mono_us: self.origin.elapsed().as_micros() as u64 }
    }
}
