//! A call that took its callee long, and where its time went: a row of the table `slow`.
//!
//! The callee's own view, and only of the slowest: what a row of the table `rpc` says of it is its
//! `svc`. Which calls are kept is said by [`Threshold`].

use crate::sample::Workload;
use crate::watch::Sliding;

/// A call of which a callee knows that it took long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SlowCall {
    /// When its header had been read, on the callee's wall clock.
    pub t_rx_ns: i64,
    /// Who called.
    pub src: u16,
    /// That agent's incarnation.
    pub incarnation: u64,
    /// Who was called: the agent that writes this down.
    pub dst: u16,
    /// The group, counted within the epoch.
    pub group: u32,
    /// The caller's tick within the epoch.
    pub round: u32,
    /// What was to be done.
    pub workload: Workload,
    /// From the header to the reply, in units of 100 ns. What the parts below leave of it is reading
    /// the payload, and waiting until the reply could be written.
    pub svc_100ns: u32,
    /// Waiting for others that wrote to the disk before it.
    pub queue_100ns: u32,
    /// Computing the digest.
    pub handler_100ns: u32,
    /// Writing and syncing; none if it did not write.
    pub sync_100ns: Option<u32>,
    /// How long the thread that did it was ready to run without a processor, since it last had
    /// nothing to do; none if the kernel does not say.
    pub runq_100ns: Option<u32>,
    /// Page faults of that thread in the same time.
    pub faults: Option<u32>,
}

/// Who took longer than that is slow, however long others took.
const SLOW_US: u32 = 5_000;
/// Calls of one workload before its own law counts.
const CALLS_MIN: u32 = 200;
/// The law is looked at again after so many.
const LOOK_EVERY: u32 = 50;
const SPAN_US: u64 = 600_000_000;
const P99: u32 = 990_000;

/// Which calls are slow: those above 5 ms, and those above the 99th percentile of their workload in
/// the last ten minutes.
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
    /// Whether a call that took so long is slow. It counts from now on.
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
        // Of another workload nothing is known yet, and it is above 5 ms whatever is usual.
        assert!(!is_slow(1_000, Workload::Disk, 4_000));
        let slow = (1_000..2_000).filter(|second| is_slow(*second, Workload::Disk, 9_000)).count();
        assert_eq!(slow, 1_000);
    }
}
