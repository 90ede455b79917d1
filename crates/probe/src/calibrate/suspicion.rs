//! Rate of false suspicions of live nodes, by time-out.
//!
//! For every level t of a grid: the fraction of all samples that were later than t. Late samples in
//! a cluster carry less information than as many isolated ones, so the interval of Clopper and
//! Pearson is taken on an effective count: late samples that are less than a minute apart are one
//! episode, and N is reduced by the ratio of episodes to late samples. Episodes have a curve of
//! their own: a stall of five seconds is one mistake, not five.

use super::numeric::{clopper_pearson, poisson_interval};
use super::round::Round;
use super::{Evidence, ms};
use serde::Serialize;
use std::collections::BTreeMap;

/// Gap between late samples above which they belong to different episodes.
pub const EPISODE_GAP_NS: i64 = 60_000_000_000;

const DAY_S: f64 = 86_400.0;

/// Levels of the grid: ten in every power of ten, from 100 microseconds to 60 seconds.
pub fn levels_ns() -> Vec<u64> {
    let grid = (0..58).map(|i| (1e5 * 10f64.powf(f64::from(i) / 10.0)).round() as u64);
    grid.chain([60_000_000_000]).collect()
}

/// Samples that a curve covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All samples.
    Deployment,
    /// Samples of one handler.
    Workload(u8),
    /// Samples of one caller and callee.
    Pair {
        /// Caller.
        from: u16,
        /// Callee.
        to: u16,
    },
}

#[derive(Clone, Debug)]
struct Counts {
    samples: u64,
    /// Late samples by level.
    late: Vec<u64>,
    episodes: Vec<u64>,
    last_ns: Vec<i64>,
}

impl Counts {
    fn new(levels: usize) -> Self {
        let last_ns = vec![i64::MIN; levels];
        Self { samples: 0, late: vec![0; levels], episodes: vec![0; levels], last_ns }
    }

    fn add(&mut self, at_ns: i64, levels_below: usize) {
        self.samples += 1;
        for level in 0..levels_below {
            self.late[level] += 1;
            // Groups come one after the other: with the next one, time begins again.
            let since_ns = at_ns.saturating_sub(self.last_ns[level]);
            if !(0..EPISODE_GAP_NS).contains(&since_ns) {
                self.episodes[level] += 1;
            }
            self.last_ns[level] = at_ns;
        }
    }
}

/// Collects rounds, in the order of time, of one group after the other.
#[derive(Clone, Debug)]
pub struct Suspicions {
    levels_ns: Vec<u64>,
    by_scope: BTreeMap<Scope, Counts>,
    span_ns: Option<(i64, i64)>,
}

/// A point of a curve.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Time-out.
    pub timeout_ms: f64,
    /// Number of samples that were later, or never arrived.
    pub late: u64,
    /// Number of episodes of such samples.
    pub episodes: u64,
    /// Fraction of all samples.
    pub false_suspicions_per_message: f64,
    /// Evidence for that fraction.
    pub evidence: Evidence,
    /// Episodes per day of the observation.
    pub episodes_per_day: f64,
    /// Lower end of the 95 % interval of that rate.
    pub episodes_per_day_low: f64,
    /// Upper end of the interval.
    pub episodes_per_day_high: f64,
}

/// The curve of one scope.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Samples that the curve covers.
    pub scope: Scope,
    /// Number of samples.
    pub samples: u64,
    /// Points by ascending time-out.
    pub points: Vec<Point>,
}

impl Default for Suspicions {
    fn default() -> Self {
        Self { levels_ns: levels_ns(), by_scope: BTreeMap::new(), span_ns: None }
    }
}

impl Suspicions {
    /// Adds a round. A node does not suspect itself, so its call to itself does not count.
    pub fn observe(&mut self, round: &Round) {
        let (first, last) = self.span_ns.unwrap_or((round.at_ns, round.at_ns));
        self.span_ns = Some((first.min(round.at_ns), last.max(round.at_ns)));
        let levels = self.levels_ns.len();
        for edge in round.others() {
            let below = self.levels_ns.partition_point(|level| *level < edge.latency_ns);
            let pair = Scope::Pair { from: round.from, to: edge.to };
            for scope in [Scope::Deployment, Scope::Workload(round.workload), pair] {
                let counts = self.by_scope.entry(scope).or_insert_with(|| Counts::new(levels));
                counts.add(round.at_ns, below);
            }
        }
    }

    /// Curves of the deployment, then of workloads, then of pairs.
    pub fn curves(&self) -> Vec<Curve> {
        let (first, last) = self.span_ns.unwrap_or((0, 0));
        let days = ((last - first) as f64 / 1e9).max(1.0) / DAY_S;
        let curves = self.by_scope.iter();
        curves.map(|(scope, counts)| self.curve(*scope, counts, days)).collect()
    }

    fn curve(&self, scope: Scope, counts: &Counts, days: f64) -> Curve {
        let mut worth = 1.0;
        let mut points = Vec::with_capacity(self.levels_ns.len());
        for (level, timeout_ns) in self.levels_ns.iter().enumerate() {
            let (late, episodes) = (counts.late[level], counts.episodes[level]);
            // Without late samples at a level, samples have the weight of the last level with some.
            if late > 0 {
                worth = episodes as f64 / late as f64;
            }
            let effective_count = counts.samples as f64 * worth;
            let (low, high) = clopper_pearson(episodes as f64, effective_count);
            let (fewest, most) = poisson_interval(episodes as f64);
            points.push(Point {
                timeout_ms: ms(*timeout_ns).unwrap_or(f64::INFINITY),
                late,
                episodes,
                false_suspicions_per_message: late as f64 / counts.samples as f64,
                evidence: Evidence {
                    count: counts.samples,
                    effective_count,
                    low: Some(low),
                    high: Some(high),
                    extrapolated: false,
                },
                episodes_per_day: episodes as f64 / days,
                episodes_per_day_low: fewest / days,
                episodes_per_day_high: most / days,
            });
        }
        Curve { scope, samples: counts.samples, points }
    }
}

#[cfg(test)]
mod tests {
    use super::super::round::made::round;
    use super::super::tail::LOST;
    use super::*;

    const MS: u64 = 1_000_000;

    fn of(curves: &[Curve], scope: Scope) -> &Curve {
        curves.iter().find(|curve| curve.scope == scope).unwrap()
    }

    #[test]
    fn a_long_stall_is_many_late_messages_and_one_mistake() {
        let mut suspicions = Suspicions::default();
        for second in 0..10_000 {
            let stalled = (5_000..5_005).contains(&second) || second == 9_000;
            let late = if stalled { 2_000 * MS } else { MS };
            suspicions.observe(&round(second, 0, &[5_000 * MS, late]));
        }
        let curves = suspicions.curves();
        let curve = of(&curves, Scope::Deployment);
        assert_eq!(curve.samples, 10_000);
        let at = |ms: f64| curve.points.iter().find(|point| point.timeout_ms >= ms).unwrap();
        let point = at(1_000.0);
        assert_eq!((point.late, point.episodes), (6, 2));
        assert!((point.false_suspicions_per_message - 6e-4).abs() < 1e-15);
        // Two episodes in an effective 3333 samples: the interval holds 6e-4 and is wide.
        let evidence = point.evidence;
        assert!((evidence.effective_count - 10_000.0 / 3.0).abs() < 1e-9);
        assert!(evidence.low.unwrap() < 1e-4 && evidence.high.unwrap() > 2e-3);
        let none = at(3_000.0);
        assert_eq!(none.late, 0);
        assert!((none.evidence.high.unwrap() - 3.0 / (10_000.0 / 3.0)).abs() < 1e-12);
        assert_eq!(of(&curves, Scope::Pair { from: 0, to: 1 }).samples, 10_000);
    }

    #[test]
    fn curves_never_rise_with_the_time_out() {
        let mut suspicions = Suspicions::default();
        for second in 0..2_000i64 {
            let ns = (second as u64).wrapping_mul(2_654_435_761) % (3_000 * MS);
            suspicions.observe(&round(second, 0, &[MS, if second % 97 == 0 { LOST } else { ns }]));
        }
        for curve in suspicions.curves() {
            for two in curve.points.windows(2) {
                assert!(two[0].late >= two[1].late);
                let part = two[1].false_suspicions_per_message;
                let evidence = two[1].evidence;
                assert!(evidence.low.unwrap() <= part && part <= evidence.high.unwrap());
            }
            assert!(curve.points.last().unwrap().late > 0, "a lost reply is always late");
        }
    }
}
