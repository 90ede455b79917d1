//! How late a thread woke up that sleeps to fixed moments: a canary.
//!
//! This is what a peer of the process experiences when the process, its host or its hypervisor
//! stands still. Moments that were slept through are not made up for: the stall is counted once, with
//! its whole length.

/// A stall above this is counted.
const COUNTED_NS: u64 = 1_000_000;

/// Lateness since the last row was taken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Lateness {
    /// Summed.
    pub sum_ns: u64,
    /// The worst.
    pub max_ns: u64,
    /// How many were above 1 ms.
    pub above_1ms: u64,
}

impl Lateness {
    /// The canary woke up `late_ns` after it should have. Returns how many of its moments, which
    /// are `period_ns` apart, are over: the next one to sleep to is so many later.
    pub fn woke(&mut self, late_ns: u64, period_ns: u64) -> u64 {
        self.sum_ns += late_ns;
        self.max_ns = self.max_ns.max(late_ns);
        self.above_1ms += u64::from(late_ns > COUNTED_NS);
        late_ns / period_ns.max(1) + 1
    }
}
