//! Accrual detectors: the rate of mistakes that each threshold gives.
//!
//! An accrual detector turns the time since the last heartbeat into a level of suspicion phi, by a
//! model of the gaps between heartbeats. A threshold of 8 is meant to mean "one mistake in 10^8
//! gaps". Its actual meaning depends on the model, and on the system's definition of phi:
//!
//! | model | phi at time t | used by |
//! |---|---|---|
//! | exact | -log10 of the measured part of gaps above t | |
//! | normal | -log10 of the normal tail at (t - mean - pause) / deviation | the paper, Hazelcast |
//! | logistic | the same tail by a logistic formula, which overstates phi far out | Akka |
//! | exponential | t / (mean ln 10) | Cassandra |
//! | chitchat | t / mean | Quickwit's chitchat |
//!
//! So thresholds do not carry over between systems.

use super::numeric::{normal_above, normal_upper, poisson_interval};
use super::round::{Group, Round};
use super::tail::{LOST, Recorder, Tail};
use super::{Evidence, Needs, ms};
use serde::Serialize;
use std::collections::BTreeMap;

const KEEP: usize = 65_536;

/// The thresholds that are tabulated.
pub const THRESHOLDS: [f64; 8] = [1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 12.0, 16.0];

/// Number of periods between two rounds of a caller above which they are separate observations.
const PERIODS_MAX: i64 = 3;

/// Collects the gaps between replies, in the order of time.
#[derive(Clone, Debug)]
pub struct Gaps {
    workload: Option<u8>,
    period_ns: i64,
    /// Time of each pair's last reply, and its group.
    last_ns: BTreeMap<(u16, u16), (Group, i64)>,
    /// Due time of each caller's last round.
    round_ns: BTreeMap<u16, i64>,
    gaps: Recorder,
}

/// Gaps of all pairs.
#[derive(Debug)]
pub struct Heartbeats {
    gaps: Tail,
}

impl Gaps {
    /// Creates a collector for replies of one workload, or of all, to callers with this period.
    pub fn new(workload: Option<u8>, period_ns: i64) -> Self {
        let (last_ns, round_ns) = (BTreeMap::new(), BTreeMap::new());
        // A given workload is used in every fifth round.
        let period_ns = if workload.is_some() { 5 * period_ns } else { period_ns };
        Self { workload, period_ns, last_ns, round_ns, gaps: Recorder::new(KEEP) }
    }

    /// Adds a round: a reply is a heartbeat. A reply that its successor overtook is ignored, and
    /// the time around a callee's downtime or a caller's pause is no gap.
    pub fn observe(&mut self, round: &Round) {
        let (at_ns, from) = (round.at_ns, round.from);
        if self.workload.is_some_and(|only| only != round.workload) {
            return;
        }
        let before = self.round_ns.insert(from, at_ns);
        let paused = before.is_some_and(|before| at_ns - before > PERIODS_MAX * self.period_ns);
        if paused || round.edges.is_empty() {
            self.last_ns.retain(|pair, _| pair.0 != from);
        }
        for to in &round.down {
            self.last_ns.remove(&(from, *to));
        }
        for edge in round.others().filter(|edge| edge.latency_ns != LOST) {
            let arrived_ns = at_ns.saturating_add_unsigned(edge.latency_ns);
            let pair = (from, edge.to);
            match self.last_ns.get(&pair).copied() {
                Some((group, last)) if group == round.group && arrived_ns > last => {
                    self.gaps.record(arrived_ns.abs_diff(last));
                }
                Some((group, _)) if group == round.group => continue,
                _ => {}
            }
            self.last_ns.insert(pair, (round.group, arrived_ns));
        }
    }

    /// Returns the gaps of the added rounds.
    pub fn finish(self) -> Heartbeats {
        Heartbeats { gaps: self.gaps.finish() }
    }
}

impl Heartbeats {
    /// Creates heartbeats with given gaps.
    pub const fn new(gaps: Tail) -> Self {
        Self { gaps }
    }

    /// Measured phi: -log10 of the fraction of gaps above `t_ns`; `None` if no gap is.
    pub fn exact_phi(&self, t_ns: u64) -> Option<f64> {
        let part = self.gaps.part_above(t_ns);
        (part > 0.0).then(|| -part.log10())
    }
}

/// Parameters of the normal models.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Tuning {
    /// Pause that is added to the mean.
    pub pause_ns: u64,
    /// Lower bound of the deviation.
    pub deviation_min_ns: u64,
}

/// Definition of phi.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// From the measured gaps.
    Exact,
    /// From the normal distribution.
    Normal,
    /// From Akka's logistic approximation of the normal distribution.
    Logistic,
    /// From an exponential distribution.
    Exponential,
    /// From the mean alone.
    Chitchat,
}

impl Model {
    /// All models.
    pub const ALL: [Self; 5] =
        [Self::Exact, Self::Normal, Self::Logistic, Self::Exponential, Self::Chitchat];
}

/// Phi of Akka, `z` deviations above the mean.
pub fn logistic_phi(z: f64) -> f64 {
    let exponent = -z * (1.597_6 + 0.070_566 * z * z);
    let e = exponent.exp();
    // This is log10(1 + 1/e), written so that it neither overflows nor loses digits.
    if z > 0.0 {
        (e.ln_1p() - exponent) / std::f64::consts::LN_10
    } else {
        -(1.0 - 1.0 / (1.0 + e)).log10()
    }
}

/// Phi of the normal distribution, `z` deviations above the mean.
pub fn normal_phi(z: f64) -> f64 {
    -normal_above(z).log10()
}

impl Heartbeats {
    /// Time after the last heartbeat at which phi reaches a threshold, by a model; `None` if it
    /// never does.
    pub fn reaches_ns(&self, model: Model, phi: f64, tuning: &Tuning) -> Option<f64> {
        let mean_ns = self.gaps.mean_ns();
        let deviation_ns = self.gaps.deviation_ns().max(tuning.deviation_min_ns as f64);
        let normal = |z: f64| mean_ns + tuning.pause_ns as f64 + deviation_ns * z;
        match model {
            Model::Exact => {
                let allowed = (10f64.powf(-phi) * self.gaps.count() as f64).floor();
                // Beyond one gap in their total number, nothing was measured.
                let measured = allowed >= 1.0;
                let found = self.gaps.with_at_most_above(allowed as u64).filter(|_| measured);
                found.map(|found| found.ns as f64)
            }
            Model::Normal => Some(normal(normal_upper(10f64.powf(-phi)))),
            Model::Logistic => {
                Some(normal(super::numeric::bisect(-10.0, 40.0, |z| logistic_phi(z) >= phi)))
            }
            Model::Exponential => Some(phi * mean_ns * std::f64::consts::LN_10),
            Model::Chitchat => Some(phi * mean_ns),
        }
    }

    /// Phi of a model at a time after the last heartbeat.
    pub fn phi(&self, model: Model, t_ns: f64, tuning: &Tuning) -> Option<f64> {
        let mean_ns = self.gaps.mean_ns();
        let deviation_ns = self.gaps.deviation_ns().max(tuning.deviation_min_ns as f64);
        let z = (t_ns - mean_ns - tuning.pause_ns as f64) / deviation_ns;
        match model {
            Model::Exact => self.exact_phi(t_ns as u64),
            Model::Normal => Some(normal_phi(z)),
            Model::Logistic => Some(logistic_phi(z)),
            Model::Exponential => Some(t_ns / (mean_ns * std::f64::consts::LN_10)),
            Model::Chitchat => Some(t_ns / mean_ns),
        }
    }
}

/// A threshold of a model.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Model of phi.
    pub model: Model,
    /// Threshold.
    pub phi: f64,
    /// Time after the last heartbeat at which it is reached.
    pub timeout_ms: Option<f64>,
    /// Mistakes per day and pair at that time, by the measured gaps.
    pub mistakes_per_day: Option<f64>,
    /// Ratio of the model's time-out to the one that the measured gaps need for a mistake in 10^phi
    /// gaps.
    pub calibration_error: Option<f64>,
    /// Evidence, with the interval of the mistakes per day.
    pub evidence: Evidence,
}

/// Threshold of a model for a required rate of mistakes.
#[derive(Clone, Debug, Serialize)]
pub struct Recommended {
    /// Model of phi.
    pub model: Model,
    /// Threshold; `None` if nothing was measured at that rate.
    pub phi: Option<f64>,
}

/// Findings on accrual detectors.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Number of gaps between heartbeats.
    pub gaps: u64,
    /// Mean gap.
    pub mean_gap_ms: f64,
    /// Standard deviation of the gaps.
    pub deviation_ms: f64,
    /// Accepted pause of the normal models.
    pub pause_ms: f64,
    /// Lower bound of their deviation.
    pub deviation_min_ms: f64,
    /// Required rate of mistakes of one pair.
    pub wanted_mistakes_per_day: f64,
    /// Least time-out with that rate; `None` if the measurements do not reach that far.
    pub timeout_ms: Option<f64>,
    /// Days of one pair's gaps that would certify the rate.
    pub needed_days: f64,
    /// Days of gaps in the data.
    pub observed_days: f64,
    /// Number of gaps in which one mistake at the required rate would be visible.
    pub needs: Needs,
    /// Whether no gap was long enough to exceed the rate: then the time-out is only a lower bound.
    pub extrapolated: bool,
    /// Recommendation for each model.
    pub recommended: Vec<Recommended>,
    /// Rows by model and threshold.
    pub rows: Vec<Row>,
}

const DAY_NS: f64 = 86_400e9;

/// Computes thresholds for a rate of mistakes of one pair, in events per second.
pub fn report(heartbeats: &Heartbeats, tuning: &Tuning, mistakes_per_s: f64) -> Report {
    let gaps = &heartbeats.gaps;
    let observed_days = gaps.mean_ns() * (gaps.count() - gaps.lost()) as f64 / DAY_NS;
    let wanted_mistakes_per_day = mistakes_per_s * 86_400.0;
    let allowed = (wanted_mistakes_per_day * observed_days).floor() as u64;
    let timeout_ns = gaps.with_at_most_above(allowed).map(|found| found.ns).filter(|ns| *ns > 0);
    let recommended = Model::ALL.map(|model| Recommended {
        model,
        phi: timeout_ns.and_then(|ns| match model {
            Model::Exact => heartbeats.exact_phi(ns.saturating_sub(1)),
            _ => heartbeats.phi(model, ns as f64, tuning),
        }),
    });
    let rows = Model::ALL.into_iter().flat_map(|model| THRESHOLDS.map(|phi| (model, phi)));
    Report {
        gaps: gaps.count(),
        mean_gap_ms: gaps.mean_ns() / 1e6,
        deviation_ms: gaps.deviation_ns() / 1e6,
        pause_ms: tuning.pause_ns as f64 / 1e6,
        deviation_min_ms: tuning.deviation_min_ns as f64 / 1e6,
        wanted_mistakes_per_day,
        timeout_ms: timeout_ns.and_then(ms),
        needed_days: 3.0 / wanted_mistakes_per_day,
        observed_days,
        needs: Needs::of(1.0 / wanted_mistakes_per_day, observed_days, "days of heartbeats"),
        extrapolated: allowed == 0,
        recommended: recommended.to_vec(),
        rows: rows.map(|(model, phi)| row(heartbeats, tuning, model, phi, observed_days)).collect(),
    }
}

fn row(heartbeats: &Heartbeats, tuning: &Tuning, model: Model, phi: f64, days: f64) -> Row {
    let gaps = &heartbeats.gaps;
    let reached_ns = heartbeats.reaches_ns(model, phi, tuning);
    let measured_ns = heartbeats.reaches_ns(Model::Exact, phi, tuning);
    let mistakes = reached_ns.map(|ns| gaps.above(ns as u64) as f64).filter(|_| days > 0.0);
    let interval = mistakes.map(poisson_interval);
    Row {
        model,
        phi,
        timeout_ms: reached_ns.map(|ns| ns / 1e6),
        mistakes_per_day: mistakes.map(|count| count / days),
        calibration_error: reached_ns.zip(measured_ns).map(|(model, exact)| model / exact),
        evidence: Evidence {
            low: interval.map(|(low, _)| low / days),
            high: interval.map(|(_, high)| high / days),
            extrapolated: mistakes == Some(0.0),
            ..Evidence::counted(gaps.count())
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::round::made::round;
    use super::*;
    use crate::random::Numbers;

    const MS: u64 = 1_000_000;
    const PLAIN: Tuning = Tuning { pause_ns: 0, deviation_min_ns: 0 };

    #[test]
    fn akkas_formula_overstates_phi_far_out() {
        // At five and six deviations: 7.3 and 10.8, where the normal distribution has 6.5 and 9.0.
        let far = [(5.0, 7.3, 6.5), (6.0, 10.8, 9.0)];
        for (z, logistic, normal) in far {
            assert!((logistic_phi(z) - logistic).abs() < 0.06, "{}", logistic_phi(z));
            assert!((normal_phi(z) - normal).abs() < 0.06, "{}", normal_phi(z));
        }
        assert!((logistic_phi(0.0) - normal_phi(0.0)).abs() < 1e-9);
        assert!((logistic_phi(-1.0) - normal_phi(-1.0)).abs() < 1e-3);
        assert!(logistic_phi(30.0).is_finite());
    }

    #[test]
    fn a_threshold_of_eight_is_another_time_in_every_system() {
        let gaps: Tail = (0..1_000u64).map(|i| (950 + i % 101) * MS).collect();
        let heartbeats = Heartbeats::new(gaps);
        let mean_ns = heartbeats.gaps.mean_ns();
        let at = |model| heartbeats.reaches_ns(model, 8.0, &PLAIN).unwrap() / mean_ns;
        assert!((at(Model::Exponential) - 18.42).abs() < 0.01);
        assert!((at(Model::Chitchat) - 8.0).abs() < 1e-9);
        assert!(at(Model::Logistic) < at(Model::Normal) && at(Model::Normal) < 1.2);
        assert_eq!(heartbeats.reaches_ns(Model::Exact, 8.0, &PLAIN), None);
        let paused = Tuning { pause_ns: 3_000 * MS, deviation_min_ns: 100 * MS };
        let later = heartbeats.reaches_ns(Model::Normal, 8.0, &paused).unwrap();
        let expected = mean_ns + 3e9 + 0.1e9 * normal_upper(1e-8);
        assert!((later - expected).abs() < 1.0);
    }

    #[test]
    fn gaps_run_from_reply_to_reply() {
        let mut gaps = Gaps::new(None, 1_000_000_000);
        for (second, latency) in [(0, MS), (1, 2_500 * MS), (2, 2 * MS), (3, 500 * MS), (4, LOST)] {
            gaps.observe(&round(second, 0, &[MS, latency]));
        }
        gaps.observe(&round(100, 0, &[MS, MS]));
        let mut down = round(101, 0, &[MS, MS]);
        down.down = vec![down.edges.pop().unwrap().to];
        gaps.observe(&down);
        gaps.observe(&round(102, 0, &[MS, MS]));
        // The caller paused, and the callee was down: the other times are gaps. The reply of second
        // 1 arrives at 3.5; that of second 2 overtook it, so it is ignored.
        let found = gaps.finish().gaps;
        assert_eq!(found.largest(), [3_499 * MS]);
    }

    #[test]
    fn the_recommended_threshold_has_the_wanted_rate() {
        let mut draws = Numbers::new(5);
        let exponential: Tail = (0..200_000).map(|_| (1e9 * -draws.unit().ln()) as u64).collect();
        let heartbeats = Heartbeats::new(exponential);
        // One mistake in a thousand gaps.
        let found = report(&heartbeats, &PLAIN, 1e-3);
        let phi = |model| {
            let one = found.recommended.iter().find(|one| one.model == model).unwrap();
            one.phi.unwrap()
        };
        assert!((phi(Model::Exponential) - 3.0).abs() < 0.05, "{}", phi(Model::Exponential));
        assert!((phi(Model::Exact) - 3.0).abs() < 0.05);
        assert!((phi(Model::Chitchat) - 6.9).abs() < 0.15);
        let row = found.rows.iter().find(|row| row.model == Model::Exponential && row.phi == 3.0);
        let row = row.unwrap();
        assert!((row.calibration_error.unwrap() - 1.0).abs() < 0.03);
        assert!((row.mistakes_per_day.unwrap() / 86.4 - 1.0).abs() < 0.2);
        assert!(row.evidence.low.unwrap() < 86.4 && row.evidence.high.unwrap() > 86.4);
        assert!(!found.extrapolated && report(&heartbeats, &PLAIN, 1e-7).extrapolated);
        let rates = found.rows.windows(2).filter(|two| two[0].model == two[1].model);
        assert!(rates.into_iter().all(|two| two[1].mistakes_per_day <= two[0].mistakes_per_day));
    }
}
