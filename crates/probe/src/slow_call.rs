//! A slow call with a breakdown of its time: a row of the table `slow`.
//!
//! This is the callee's own view, and only of the slowest calls; the table `rpc` has only their
//! `svc`. [`Threshold`] decides which calls are kept.

use crate::sample::Workload;
use crate::watch::Sliding;

/// A call that was slow according to its callee.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlowCall {
    /// Time at which its header had been read, on the callee's wall clock.
    pub t_rx_ns: i64,
    /// Caller.
    pub src: u16,
    /// Incarnation of the caller.
    pub incarnation: u64,
    /// Callee: the agent that writes the row.
    pub dst: u16,
    /// Group, counted within the epoch.
    pub group: u32,
    /// Tick of the caller within the epoch.
    pub round: u32,
    /// Workload of the call.
    pub workload: Workload,
    /// Time from the header to the reply, in units of 100 ns. The remainder beyond the parts below
    /// is reading the payload, and waiting until the reply could be written.
    pub svc_100ns: u32,
    /// Time waiting for other calls that wrote to the disk before it.
    pub queue_100ns: u32,
    /// Time computing the digest.
    pub handler_100ns: u32,
    /// Time writing and syncing; `None` if it did not write.
    pub sync_100ns: Option<u32>,
    /// Time for which the working thread was runnable without a processor, since it was last idle;
    /// `None` if the kernel does not report it.
    pub runq_100ns: Option<u32>,
    /// Page faults of that thread in the same time.
    pub faults: Option<u32>,
}

/// Time above which a call is slow, however long others took.
const SLOW_US: u32 = 5_000;
/// Number of calls of a workload from which on its own distribution counts.
const CALLS_MIN: u32 = 200;
/// Number of calls after which the distribution is evaluated again.
const LOOK_EVERY: u32 = 50;
const SPAN_US: u64 = 600_000_000;
const P99: u32 = 990_000;

/// Criterion of slow calls: those above 5 ms, and those above the 99th percentile of their workload
/// in the last ten minutes.
#[derive(Debug)]
pub struct Threshold {
    laws: [(Sliding, u32, u32); Workload::ALL.len()],
}

impl Default for Threshold {
    fn default() -> Self {
        Self { laws: std::array::from_fn(|_| (Sliding::new(SPAN_US), 0, SLOW_US)) }
    }
}

impl Threshold {
    /// Whether a call of this duration is slow. The call is included from now on.
    pub fn is_slow(&mut self, now_us: u64, workload: Workload, svc_us: u32) -> bool {
        let (law, calls, least_us) = &mut self.laws[usize::from(workload.code())];
        let slow = svc_us > *least_us;
        law.record(now_us, svc_us);
        *calls += 1;
        if calls.is_multiple_of(LOOK_EVERY) {
            let law = law.law(now_us);
            let p99_us = if law.count() < CALLS_MIN { SLOW_US } else { law.quantile_us(P99) };
            *least_us = p99_us.min(SLOW_US);
        }
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_slow_above_five_milliseconds_or_above_what_is_usual() {
        let mut threshold = Threshold::default();
        let mut is_slow =
            |second: u64, workload, us| threshold.is_slow(second * 1_000_000, workload, us);
        assert!(!is_slow(0, Workload::Null, 4_000) && is_slow(0, Workload::Null, 5_001));
        let slow = (1..1_000).filter(|second| is_slow(*second, Workload::Null, 40)).count();
        assert_eq!(slow, 0);
        assert!(is_slow(1_000, Workload::Null, 100));
        // For another workload nothing is known yet, and only calls above 5 ms are slow.
        assert!(!is_slow(1_000, Workload::Disk, 4_000));
        let slow = (1_000..2_000).filter(|second| is_slow(*second, Workload::Disk, 9_000)).count();
        assert_eq!(slow, 1_000);
    }
}
