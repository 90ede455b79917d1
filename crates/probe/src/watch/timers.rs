//! Time-outs that would follow from one machine's measurements of the others.
//!
//! Inputs are the round trips and the machine's own lateness of some days, in bounded memory, and
//! the formulas of [`crate::calibrate::protocols::raft`]. The result is a proposal with its evidence, which
//! takes no effect here.

use super::law::LOST_US;
use crate::calibrate::pauses::Measured;
use crate::calibrate::protocols::raft;
use crate::calibrate::protocols::raft::{Report, Wanted};
use crate::calibrate::tail::{LOST, Recorder};
use crate::random::Numbers;
use std::collections::BTreeMap;

/// Number of largest latencies that are kept exactly.
const KEEP: usize = 8_192;
/// Minimum number of requests for a proposal: a quarter of an hour with two other machines.
pub const QUESTIONS_MIN: u64 = 1_800;
/// Accepted rate of false suspicions of a leader: one in thirty days.
const FALSE_SUSPICIONS_PER_S: f64 = 1.0 / (30.0 * 86_400.0);
/// Rate of crashes of a machine, for the least cost: one in ninety days.
const CRASHES_PER_S: f64 = 1.0 / (90.0 * 86_400.0);
/// Cost of an election, as seconds without service.
const ELECTION_COST_S: f64 = 1.0;

/// Measurements so far.
#[derive(Clone, Debug)]
pub struct Collected {
    rtt: Recorder,
    beyond: Recorder,
    latency: Recorder,
    lag: Recorder,
    /// Sum and number of the round trips to each machine, and the shortest one.
    sums_ns: BTreeMap<u16, (f64, u64, u64)>,
    questions: u64,
}

impl Default for Collected {
    fn default() -> Self {
        let [rtt, beyond, latency, lag] = [KEEP; 4].map(Recorder::new);
        Self { rtt, beyond, latency, lag, sums_ns: BTreeMap::new(), questions: 0 }
    }
}

/// Time-outs in use.
#[derive(Clone, Copy, Debug)]
pub struct InUse {
    /// Number of machines of a group.
    pub size: u8,
    /// Lower edge of the election time-out.
    pub election_ms: f64,
    /// Heartbeat interval.
    pub heartbeat_ms: f64,
    /// Maximum relative difference between the speeds of two clocks.
    pub drift: f64,
}

impl Collected {
    /// Adds a request with its lag and round trip, which is [`LOST_US`] without an answer.
    pub fn add(&mut self, machine: u16, lag_us: u32, rtt_us: u32) {
        self.questions += 1;
        let lag_ns = u64::from(lag_us) * 1_000;
        self.lag.record(lag_ns);
        if rtt_us == LOST_US {
            self.rtt.record(LOST);
            self.beyond.record(LOST);
            self.latency.record(LOST);
            return;
        }
        let rtt_ns = u64::from(rtt_us) * 1_000;
        self.rtt.record(rtt_ns);
        self.latency.record(lag_ns + rtt_ns);
        let (sum, count, least) = self.sums_ns.entry(machine).or_insert((0.0, 0, LOST));
        (*sum, *count, *least) = (*sum + rtt_ns as f64, *count + 1, rtt_ns.min(*least));
        self.beyond.record(rtt_ns - *least);
    }

    /// Number of requests so far.
    pub fn questions(&self) -> u64 {
        self.questions
    }

    /// Proposal for one false suspicion in thirty days; `None` while there is too little data.
    pub fn propose(self, in_use: InUse) -> Option<Report> {
        self.propose_for(in_use, FALSE_SUSPICIONS_PER_S)
    }

    /// Proposal for this rate of false suspicions.
    pub fn propose_for(self, in_use: InUse, false_suspicions_per_s: f64) -> Option<Report> {
        if self.questions < QUESTIONS_MIN {
            return None;
        }
        let means = self.sums_ns.values().map(|(sum, count, _)| sum / *count as f64);
        let lag = self.lag.finish();
        let lag_p99 = lag.quantile(0.99).map(|found| found.ns).filter(|ns| *ns != LOST);
        let measured = Measured {
            mean_rtt_max_ns: means.fold(0.0, f64::max),
            lag_p99_ns: lag_p99.unwrap_or(0),
            rtt: self.rtt.finish(),
            beyond: self.beyond.finish(),
            latency: self.latency.finish(),
            lag,
            // Every request covers one machine for a second.
            node_seconds: self.questions,
            size: in_use.size,
        };
        let wanted = Wanted {
            size: in_use.size,
            false_suspicions_per_s,
            pre_vote: true,
            crashes_per_s: CRASHES_PER_S,
            election_cost_s: ELECTION_COST_S,
            heartbeat_min_ms: in_use.heartbeat_ms / 2.0,
            drift: in_use.drift,
        };
        // The same figures give the same intervals.
        let mut draws = Numbers::new(self.questions);
        Some(raft::report(&measured, None, &wanted, &mut draws))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_USE: InUse = InUse { size: 3, election_ms: 950.0, heartbeat_ms: 100.0, drift: 0.1 };

    /// Requests to two machines, every thousandth of which meets a pause of up to `pause_us`.
    fn asked(questions: u64, pause_us: u64) -> Collected {
        let (mut collected, mut draws) = (Collected::default(), Numbers::new(7));
        for question in 0..questions {
            let pause_us = if question % 1_000 == 999 { draws.below(pause_us) } else { 0 };
            let rtt_us = 200 + draws.below(200) + pause_us;
            let machine = 2 + (question % 2) as u16;
            collected.add(machine, draws.below(100) as u32, rtt_us as u32);
        }
        collected
    }

    #[test]
    fn with_too_little_nothing_is_proposed() {
        assert!(asked(QUESTIONS_MIN - 1, 50_000).propose(IN_USE).is_none());
        assert!(asked(QUESTIONS_MIN, 50_000).propose(IN_USE).is_some());
    }

    #[test]
    fn longer_pauses_need_longer_time_outs_and_both_say_what_they_rest_on() {
        let proposed = |pause_us| {
            let report = asked(300_000, pause_us).propose(IN_USE).unwrap();
            assert!(report.observed_node_days < report.needed_node_days);
            assert!(report.evidence.extrapolated, "three days are less than thirty");
            report.election_timeout_ms.unwrap()
        };
        let (short, long) = (proposed(20_000), proposed(400_000));
        assert!(short < long, "{short} {long}");
        assert!(long > 390.0, "{long}: pauses of up to 400 ms must be tolerated");
    }
}
