//! Truth of synthetic data.

use super::node::METRICS;
use serde::{Deserialize, Serialize};

/// True correlation of latency with one metric.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Correlation {
    /// The metric.
    pub metric: String,
    /// Number of pairs.
    pub n: u64,
    /// Pearson's coefficient, over all pairs.
    pub r: f64,
}

/// Number of pauses above a length.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PauseTruth {
    /// Length.
    pub longer_than_ms: u64,
    /// Number of pauses.
    pub count: u64,
    /// Pauses per node and second.
    pub per_node_s: f64,
}

/// Latency of the (s + 1)-th slowest of a session, where planted.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct LateTruth {
    /// Number of members that may be late.
    pub s: u64,
    /// Fraction of the sessions in which more may be late, per million.
    pub eps_ppm: u32,
    /// Latency T.
    pub t_ns: u64,
}

/// Number of late members of a session, where planted.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CountTruth {
    /// Latency T.
    pub t_ns: u64,
    /// Fraction of the sessions in which more may be late, per million.
    pub eps_ppm: u32,
    /// Number of members that may be late.
    pub s: u64,
}

/// Truth of a data set.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Truth {
    /// Nodes that are slow all the time.
    pub slow_nodes: Vec<u16>,
    /// Requested pauses per node and second.
    pub pauses_per_node_s: f64,
    /// Seconds of all nodes together.
    pub node_s: u64,
    /// Pauses as they occurred.
    pub pauses: Vec<PauseTruth>,
    /// Correlations of latency with metrics.
    pub correlations: Vec<Correlation>,
    /// Values of T, given s.
    pub t_of_s: Vec<LateTruth>,
    /// Values of s, given T.
    pub s_of_t: Vec<CountTruth>,
}

/// Exact sums for coefficients. Values are below 2^40.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    n: u64,
    x: u128,
    xx: u128,
    y: [u128; METRICS.len()],
    yy: [u128; METRICS.len()],
    xy: [u128; METRICS.len()],
}

impl Sums {
    /// Adds a pair: a latency and the row that it belongs to.
    pub fn add(&mut self, x: u64, row: &[u32; METRICS.len()]) {
        self.n += 1;
        self.x += u128::from(x);
        self.xx += u128::from(x) * u128::from(x);
        for (at, y) in row.iter().enumerate() {
            self.y[at] += u128::from(*y);
            self.yy[at] += u128::from(u64::from(*y) * u64::from(*y));
            self.xy[at] += u128::from(x) * u128::from(*y);
        }
    }

    /// Adds another thread's sums.
    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.x += other.x;
        self.xx += other.xx;
        for at in 0..METRICS.len() {
            self.y[at] += other.y[at];
            self.yy[at] += other.yy[at];
            self.xy[at] += other.xy[at];
        }
    }

    /// Computes the coefficients.
    pub fn correlations(&self) -> Vec<Correlation> {
        let mut found = Vec::new();
        for (at, metric) in METRICS.iter().enumerate() {
            let centred = |both: u128, a: u128, b: u128| {
                // The difference of two large numbers is computed before anything is rounded: a b /
                // n as a whole part and a rest.
                let n = u128::from(self.n.max(1));
                let (whole_a, rest_a, whole_b, rest_b) = (a / n, a % n, b / n, b % n);
                let parts = whole_a * b + rest_a * whole_b;
                let exact = both.cast_signed() - parts.cast_signed();
                exact as f64 - rest_a as f64 * rest_b as f64 / n as f64
            };
            let xy = centred(self.xy[at], self.x, self.y[at]);
            let xx = centred(self.xx, self.x, self.x);
            let yy = centred(self.yy[at], self.y[at], self.y[at]);
            let r = if xx > 0.0 && yy > 0.0 { xy / (xx.sqrt() * yy.sqrt()) } else { 0.0 };
            found.push(Correlation { metric: (*metric).into(), n: self.n, r });
        }
        found
    }
}
