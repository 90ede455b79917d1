//! The two clocks of a caller, and detection of steps.

/// Jump of the wall clock against the monotonic one above which it counts as a step.
pub const STEP_NS: i64 = 1_000_000;

/// One moment on both clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Moment {
    /// Wall-clock time since 1970; may be set.
    pub wall_ns: i64,
    /// Monotonic time since an arbitrary moment; only grows.
    pub mono_ns: i64,
}

/// Offset of the wall clock from the monotonic one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ahead_ns: i64,
}

impl Clock {
    /// Creates a clock with the current offset.
    pub const fn new(now: Moment) -> Self {
        Self { ahead_ns: now.wall_ns - now.mono_ns }
    }

    /// Compares the clocks again: returns the step of the wall clock since the last time; zero if
    /// it was only adjusted gradually.
    pub const fn look(&mut self, now: Moment) -> i64 {
        let ahead_ns = now.wall_ns - now.mono_ns;
        let jump_ns = ahead_ns - self.ahead_ns;
        self.ahead_ns = ahead_ns;
        if jump_ns.abs() > STEP_NS { jump_ns } else { 0 }
    }

    /// Monotonic time at which the wall clock will show this.
    pub const fn mono_of(&self, wall_ns: i64) -> i64 {
        wall_ns - self.ahead_ns
    }
}
