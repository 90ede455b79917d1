//! Election time-out, heartbeat and lease of Raft.
//!
//! A required rate of false suspicions per group (by default one in thirty days) determines an
//! election time-out E, the lower edge of the timers, which run from E to 2 E. With pre-vote and
//! check-quorum, a follower that pauses disturbs no other node, so the rate is that of the leader's
//! pauses that outlast the first of the followers' timers, and of a majority of followers missing
//! the heartbeats of E at once. Without pre-vote the pauses of followers that outlast their own
//! timer are added.
//!
//! A rate of pauses longer than E itself would be wrong by a factor: the first timer is longer than
//! E, and it began up to a heartbeat before the pause. `claret probe rehearse` compares the results
//! with groups that run under the same pauses.

use crate::calibrate::numeric::choose;
use crate::calibrate::pareto;
use crate::calibrate::pareto::Fitted;
use crate::calibrate::pauses;
use crate::calibrate::pauses::{Measured, Rate, Timer, density_per_s};
use crate::calibrate::tail::{LOST, Tail};
use crate::calibrate::{BEYOND_MAX, Evidence, Needs, ms};
use crate::random::Numbers;
use serde::Serialize;

/// Quantile above which a distribution is fitted.
const FITTED_ABOVE: f64 = 0.999;

/// Number of time-outs that are tried in every power of ten.
const STEPS_PER_DECADE: u32 = 100;

/// Minimum number of heartbeats within E.
const HEARTBEATS_MIN: f64 = 3.0;

const E_MAX_NS: f64 = 50e9;

/// Quality of a failure detector with heartbeats (Chen, Toueg, Aguilera: NFD-S).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Mean time between two mistakes.
    pub between_mistakes_s: f64,
    /// Mean length of a mistake.
    pub mistake_s: f64,
    /// Maximum time until a crash is detected.
    pub detection_s: f64,
    /// Probability of a mistake that begins at one heartbeat.
    pub mistake_per_heartbeat: f64,
}

/// Quality with heartbeats every `period_s` that are lost with probability `loss`, and suspicion
/// `shift_s` after one was expected; `beyond` is the fraction of the delays above a time, in
/// seconds.
pub fn nfd_s(period_s: f64, shift_s: f64, loss: f64, beyond: impl Fn(f64) -> f64) -> Quality {
    let missing = |t_s: f64| loss + (1.0 - loss) * if t_s < 0.0 { 1.0 } else { beyond(t_s) };
    let last = (shift_s / period_s - 1e-9).ceil().max(0.0) as u32;
    let all_missing = |x: f64| -> f64 {
        (0..=last).map(|j| missing(shift_s + x - f64::from(j) * period_s)).product()
    };
    let trusted = (1.0 - loss) * (1.0 - beyond(shift_s + period_s));
    let mistake = trusted * all_missing(0.0);
    let steps = 512;
    let step_s = period_s / f64::from(steps);
    let suspected: f64 =
        (0..steps).map(|i| all_missing((f64::from(i) + 0.5) * step_s) * step_s).sum();
    Quality {
        between_mistakes_s: period_s / mistake,
        mistake_s: if mistake > 0.0 { suspected / mistake } else { 0.0 },
        detection_s: shift_s + period_s,
        mistake_per_heartbeat: mistake,
    }
}

/// Requirements, and parameters that are known from elsewhere.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Wanted {
    /// Members of the group.
    pub size: u8,
    /// Rate of false suspicions of a group.
    pub false_suspicions_per_s: f64,
    /// Whether followers use pre-vote, and leaders check their quorum.
    pub pre_vote: bool,
    /// Rate of crashes of a node.
    pub crashes_per_s: f64,
    /// Cost of an election, as seconds without service.
    pub election_cost_s: f64,
    /// Minimum heartbeat interval; shorter ones cost too much.
    pub heartbeat_min_ms: f64,
    /// Maximum relative difference between the speeds of two clocks.
    pub drift: f64,
}

/// A point of the curve R(E).
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Time-out.
    pub timeout_ms: f64,
    /// Pauses of a node longer than that, as its callers see it by their round trips.
    pub pauses_per_day: f64,
    /// Pauses of a leader that outlast the first of the followers' timers.
    pub outlasting_per_day: f64,
    /// Pauses of a caller that outlast a timer of its own, by its own lag.
    pub own_pauses_per_day: f64,
    /// Density of open-loop latency, which includes both.
    pub open_loop_per_day: f64,
    /// Rate at which a majority of followers misses all heartbeats for that long.
    pub majority_misses_per_day: f64,
    /// R(E): false suspicions of a group.
    pub false_suspicions_per_day: f64,
    /// Evidence for the rate of pauses; its interval is per day.
    pub evidence: Evidence,
}

/// Recommendation.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Requirements.
    pub wanted: Wanted,
    /// E: the least time-out with the required rate; `None` if there is none.
    pub election_timeout_ms: Option<f64>,
    /// Evidence, with the 95 % interval of E by the interval of the rates.
    pub evidence: Evidence,
    /// E with the least total cost of crashes and false elections.
    pub cheapest_timeout_ms: Option<f64>,
    /// Settings that follow from E.
    pub timers: Option<Timers>,
    /// Node-days that certify the required rate without a model.
    pub needed_node_days: f64,
    /// Node-days in the data.
    pub observed_node_days: f64,
    /// Node-days from which on a fitted distribution reaches the required rate.
    pub needs: Needs,
    /// Fitted tail; `None` if too few values were late.
    pub tail: Option<pareto::Pareto>,
    /// Rule of thumb for comparison.
    pub rule_of_thumb: RuleOfThumb,
    /// Curve R(E).
    pub curve: Vec<Point>,
}

/// Settings that follow from an election time-out.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timers {
    /// E; timers run from here to its double.
    pub election_timeout_ms: f64,
    /// Heartbeat interval.
    pub heartbeat_ms: f64,
    /// Number of heartbeats in E.
    pub heartbeats_per_timeout: f64,
    /// Time for which a leader may answer reads alone; `None` if its own lag has been longer than
    /// that.
    pub lease_ms: Option<f64>,
    /// Mean time until a crashed leader is suspected.
    pub detection_mean_ms: f64,
    /// Maximum time until a crashed leader is suspected.
    pub detection_max_ms: f64,
    /// Mean time without a leader: detection, votes, first commit; `None` without samples of synced
    /// writes.
    pub outage_mean_ms: Option<f64>,
    /// Rate of false suspicions with this E.
    pub false_suspicions_per_day: f64,
    /// Quality of one follower alone, as a failure detector.
    pub follower: Quality,
}

/// Usual advice: heartbeats of about a round trip, time-outs of ten.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RuleOfThumb {
    /// Largest mean round trip of a pair.
    pub mean_rtt_max_ms: f64,
    /// Half of that round trip.
    pub heartbeat_low_ms: f64,
    /// One and a half of that round trip.
    pub heartbeat_high_ms: f64,
    /// Ten of that round trip.
    pub election_timeout_min_ms: f64,
    /// Upper bound, independent of the round trip.
    pub election_timeout_max_ms: f64,
}

/// Measured distributions with the fitted ones.
struct World<'a> {
    measured: &'a Measured,
    wanted: &'a Wanted,
    rtt: Option<Fitted>,
    lag: Option<Fitted>,
}

/// Recommends timers. `commit` is the distribution of the time to commit a synced write with a
/// majority; `draws` resample for intervals.
pub fn report(
    measured: &Measured,
    commit: Option<&Tail>,
    wanted: &Wanted,
    draws: &mut Numbers,
) -> Report {
    let rtt = pareto::fit(&measured.beyond, FITTED_ABOVE, draws);
    let lag = pareto::fit(&measured.lag, FITTED_ABOVE, draws);
    let world = World { measured, wanted, rtt, lag };
    let wanted_per_s = wanted.false_suspicions_per_s;
    let tried = world.tried();
    let least = |of: &dyn Fn(&Risk) -> f64| {
        let late = tried.iter().rposition(|(_, risk)| of(risk) > wanted_per_s);
        tried.get(late.map_or(0, |at| at + 1)).copied()
    };
    let chosen = least(&|risk| risk.per_s);
    let evidence = Evidence {
        low: least(&|risk| risk.low_per_s).map(|(e_ns, _)| e_ns / 1e6),
        high: least(&|risk| risk.high_per_s).map(|(e_ns, _)| e_ns / 1e6),
        extrapolated: chosen.is_none_or(|(_, risk)| risk.pauses.evidence.extrapolated),
        ..tried.first().map_or(Evidence::counted(0), |(_, risk)| risk.pauses.evidence)
    };
    let cost = |(e_ns, risk): &(f64, Risk)| {
        let detection_s = world.detection_ns(*e_ns, world.heartbeat_ns(*e_ns)) / 1e9;
        wanted.crashes_per_s * detection_s + risk.per_s * wanted.election_cost_s
    };
    let cheapest = tried.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
    let every = (STEPS_PER_DECADE / 10) as usize;
    let per_day = 86_400.0;
    let rule = measured.mean_rtt_max_ns / 1e6;
    let needed_node_days = 3.0 / wanted_per_s / per_day;
    let observed_node_days = measured.node_seconds as f64 / per_day;
    Report {
        wanted: *wanted,
        election_timeout_ms: chosen.map(|(e_ns, _)| e_ns / 1e6),
        evidence,
        cheapest_timeout_ms: cheapest.map(|(e_ns, _)| e_ns / 1e6),
        timers: chosen.map(|(e_ns, risk)| world.timers(e_ns, &risk, commit)),
        needed_node_days,
        observed_node_days,
        needs: Needs::of(needed_node_days / BEYOND_MAX, observed_node_days, "node-days"),
        tail: world.rtt.as_ref().map(|fitted| fitted.law),
        rule_of_thumb: RuleOfThumb {
            mean_rtt_max_ms: rule,
            heartbeat_low_ms: 0.5 * rule,
            heartbeat_high_ms: 1.5 * rule,
            election_timeout_min_ms: 10.0 * rule,
            election_timeout_max_ms: E_MAX_NS / 1e6,
        },
        curve: tried.iter().step_by(every).map(|(e_ns, risk)| world.point(*e_ns, risk)).collect(),
    }
}

/// R(E) and its components.
#[derive(Clone, Copy, Debug)]
struct Risk {
    pauses: Rate,
    longer_per_s: f64,
    own_per_s: f64,
    majority_per_s: f64,
    per_s: f64,
    low_per_s: f64,
    high_per_s: f64,
}

impl World<'_> {
    /// Candidate time-outs: the grid, from ten round trips and three heartbeats on.
    fn tried(&self) -> Vec<(f64, Risk)> {
        let least_ns = (10.0 * self.measured.mean_rtt_max_ns)
            .max(HEARTBEATS_MIN * self.heartbeat_min_ns())
            .max(1e6);
        let step = |i: u32| least_ns * 10f64.powf(f64::from(i) / f64::from(STEPS_PER_DECADE));
        let grid = (0..8 * STEPS_PER_DECADE).map(step).take_while(|e_ns| *e_ns <= E_MAX_NS);
        grid.map(|e_ns| (e_ns, self.risk(e_ns))).collect()
    }

    /// Minimum heartbeat interval: twice the caller's own lag, and the cost limit.
    fn heartbeat_min_ns(&self) -> f64 {
        (2.0 * self.measured.lag_p99_ns as f64).max(self.wanted.heartbeat_min_ms * 1e6)
    }

    /// Heartbeat interval E / m, where m heartbeats must all be lost for a mistake at the required
    /// rate.
    fn heartbeat_ns(&self, e_ns: f64) -> f64 {
        let loss = self.measured.rtt.loss();
        let mut heartbeats = HEARTBEATS_MIN;
        if loss > 0.0 && loss < 1.0 {
            // The number depends on the period, and the period on the number: the iteration
            // converges at once.
            for _ in 0..4 {
                let period_s = e_ns / heartbeats / 1e9;
                let wanted = (self.wanted.false_suspicions_per_s * period_s).ln() / loss.ln();
                heartbeats = wanted.ceil().max(HEARTBEATS_MIN);
            }
        }
        (e_ns / heartbeats).max(self.heartbeat_min_ns())
    }

    /// Quality of a follower whose timer of E is reset by every heartbeat; the whole round trip is
    /// taken for the delay, which is on the safe side.
    fn follower(&self, e_ns: f64) -> Quality {
        let rtt = &self.measured.rtt;
        let completed = (rtt.count() - rtt.lost()).max(1) as f64;
        let beyond = |t_s: f64| {
            let later = rtt.above((t_s * 1e9) as u64).saturating_sub(rtt.lost());
            later as f64 / completed
        };
        let period_ns = self.heartbeat_ns(e_ns);
        nfd_s(period_ns / 1e9, (e_ns - period_ns) / 1e9, rtt.loss(), beyond)
    }

    fn risk(&self, e_ns: f64) -> Risk {
        let Measured { beyond, lag, node_seconds, .. } = self.measured;
        let wanted_per_s = self.wanted.false_suspicions_per_s;
        let heartbeat_ns = self.heartbeat_ns(e_ns);
        let of = |law, fitted: &Option<Fitted>, timers| {
            let timer = Timer { least_ns: e_ns, heartbeat_ns, timers };
            pauses::rate(law, fitted.as_ref(), *node_seconds, &timer, wanted_per_s)
        };
        let others = u32::from(self.wanted.size.saturating_sub(1)).max(1);
        let (pauses, own) = (of(beyond, &self.rtt, others), of(lag, &self.lag, 1));
        let longer_per_s = density_per_s(beyond, e_ns);
        let follower = self.follower(e_ns);
        let period_s = self.heartbeat_ns(e_ns) / 1e9;
        let (followers, majority) =
            (usize::from(self.wanted.size) - 1, usize::from(self.wanted.size) / 2 + 1);
        let p = follower.mistake_per_heartbeat;
        let missing: f64 = (majority..=followers)
            .map(|k| {
                choose(followers, k) * p.powi(k as i32) * (1.0 - p).powi((followers - k) as i32)
            })
            .sum();
        let majority_per_s = missing / period_s;
        let followers = if self.wanted.pre_vote { 0.0 } else { followers as f64 };
        let sum = |pauses: f64, own: f64| pauses + followers * own + majority_per_s;
        let low = |rate: &Rate| rate.evidence.low.unwrap_or(rate.per_s);
        let high = |rate: &Rate| rate.evidence.high.unwrap_or(rate.per_s);
        Risk {
            pauses,
            longer_per_s,
            own_per_s: own.per_s,
            majority_per_s,
            per_s: sum(pauses.per_s, own.per_s),
            low_per_s: sum(low(&pauses), low(&own)),
            high_per_s: sum(high(&pauses), high(&own)),
        }
    }

    fn delay_ns(&self) -> f64 {
        self.measured.rtt.quantile(0.5).map_or(0.0, |found| found.ns as f64 / 2.0)
    }

    /// Expiry of the first of the remaining timers, which began at the last heartbeat.
    fn detection_ns(&self, e_ns: f64, heartbeat_ns: f64) -> f64 {
        let n = f64::from(self.wanted.size);
        e_ns * (1.0 + 1.0 / n) - heartbeat_ns / 2.0 + self.delay_ns()
    }

    fn timers(&self, e_ns: f64, risk: &Risk, commit: Option<&Tail>) -> Timers {
        let heartbeat_ns = self.heartbeat_ns(e_ns);
        let detection_ns = self.detection_ns(e_ns, heartbeat_ns);
        let lag = &self.measured.lag;
        let worst_lag_ns = lag.at_rank(lag.count().saturating_sub(lag.lost()).max(1));
        let lease_ns = worst_lag_ns
            .filter(|_| lag.lost() == 0)
            .map(|worst| e_ns * (1.0 - self.wanted.drift) - worst.ns as f64);
        // Votes are synced as writes are: one quorum for the votes, and one for the first entry.
        let commit = commit.and_then(|law| law.quantile(0.5)).filter(|found| found.ns != LOST);
        Timers {
            election_timeout_ms: e_ns / 1e6,
            heartbeat_ms: heartbeat_ns / 1e6,
            heartbeats_per_timeout: e_ns / heartbeat_ns,
            lease_ms: lease_ns.filter(|ns| *ns > 0.0).map(|ns| ns / 1e6),
            detection_mean_ms: detection_ns / 1e6,
            detection_max_ms: (2.0 * e_ns + self.delay_ns()) / 1e6,
            outage_mean_ms: commit
                .and_then(|found| ms(2 * found.ns))
                .map(|ms| ms + detection_ns / 1e6),
            false_suspicions_per_day: risk.per_s * 86_400.0,
            follower: self.follower(e_ns),
        }
    }

    fn point(&self, e_ns: f64, risk: &Risk) -> Point {
        let per_day = |per_s: f64| per_s * 86_400.0;
        let evidence = risk.pauses.evidence;
        Point {
            timeout_ms: e_ns / 1e6,
            pauses_per_day: per_day(risk.longer_per_s),
            outlasting_per_day: per_day(risk.pauses.per_s),
            own_pauses_per_day: per_day(risk.own_per_s),
            open_loop_per_day: per_day(density_per_s(&self.measured.latency, e_ns)),
            majority_misses_per_day: per_day(risk.majority_per_s),
            false_suspicions_per_day: per_day(risk.per_s),
            evidence: Evidence {
                low: evidence.low.map(per_day),
                high: evidence.high.map(per_day),
                ..evidence
            },
        }
    }
}

#[cfg(test)]
mod tests;
