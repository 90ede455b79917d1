//! The two clocks of a caller, and whether one was set.

/// A jump of the wall clock against the monotonic one above this is a step.
pub const STEP_NS: i64 = 1_000_000;

/// One moment on both clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Moment {
    /// Since 1970; may be set.
    pub wall_ns: i64,
    /// Since whenever; only grows.
    pub mono_ns: i64,
}

/// What the wall clock is ahead of the monotonic one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ahead_ns: i64,
}

impl Clock {
    /// As it is now.
    pub const fn new(now: Moment) -> Self {
        Self { ahead_ns: now.wall_ns - now.mono_ns }
    }

    /// Looks again: by how much the wall clock was set since; zero if it was only corrected little
    /// by little.
    pub const fn look(&mut self, now: Moment) -> i64 {
        let ahead_ns = now.wall_ns - now.mono_ns;
        let jump_ns = ahead_ns - self.ahead_ns;
        self.ahead_ns = ahead_ns;
        if jump_ns.abs() > STEP_NS { jump_ns } else { 0 }
    }

    /// When the wall clock will show this.
    pub const fn mono_of(&self, wall_ns: i64) -> i64 {
        wall_ns - self.ahead_ns
    }
}
