//! Lateness of a thread that sleeps until fixed moments: a canary.
//!
//! The canary experiences the same delay as a peer of the process when the process, its host or its
//! hypervisor pauses. Moments that were slept through are not made up for: the stall is counted
//! once, with its whole length.

/// Stall above which it is counted.
const COUNTED_NS: u64 = 1_000_000;

/// Lateness since the last row.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Lateness {
    /// Sum of all lateness.
    pub sum_ns: u64,
    /// Maximum lateness.
    pub max_ns: u64,
    /// Number of stalls above 1 ms.
    pub above_1ms: u64,
}

impl Lateness {
    /// Records that the canary woke up `late_ns` too late. Returns how many of its moments, which
    /// are `period_ns` apart, have passed: the next sleep ends that many periods later.
    pub fn woke(&mut self, late_ns: u64, period_ns: u64) -> u64 {
        self.sum_ns += late_ns;
        self.max_ns = self.max_ns.max(late_ns);
        self.above_1ms += u64::from(late_ns > COUNTED_NS);
        late_ns / period_ns.max(1) + 1
    }
}
