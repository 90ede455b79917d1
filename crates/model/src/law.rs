//! Distributions of random times: a round trip, a log write, a client's lateness.
//!
//! All other modules ask a distribution for three things: the probability that the time is at most
//! `t`, the time that is not exceeded with probability `p`, and the mean. Distributions are never
//! sampled here. All times are milliseconds and none is negative.

use crate::numeric::{erf, mean_of_complement};
use serde::Serialize;
use std::fmt;

/// Most values of an empirical distribution.
pub const SAMPLES_MAX: usize = 1_000_000;

/// Points of a distribution that is computed from others.
const TABLE_POINTS: usize = 2_048;

/// Probability that is cut off at the end of unbounded distributions.
const TAIL: f64 = 1e-12;

/// Pieces into which the range of a distribution is cut, besides the places where it jumps or
/// bends.
const PIECES: usize = 1_024;

/// Jumps up to which every one of them bounds a piece; with more, an integral is as exact as its
/// pieces are small.
const EXACT_JUMPS_MAX: usize = 4_096;

/// Reason why the input does not permit a prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub(crate) String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

/// Refuses numbers that are not times: below zero, infinite or not a number.
pub(crate) fn time(what: &str, ms: f64) -> Result<f64, Invalid> {
    if ms.is_finite() && ms >= 0.0 {
        return Ok(ms);
    }
    Err(Invalid(format!("{what} must be a number of milliseconds, zero or more, not {ms}")))
}

/// Refuses numbers that are not times above zero.
pub(crate) fn positive(what: &str, ms: f64) -> Result<f64, Invalid> {
    if time(what, ms)? > 0.0 {
        return Ok(ms);
    }
    Err(Invalid(format!("{what} must be above zero")))
}

/// Distribution of a time. Created by functions that check their arguments.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Law(Kind);

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Constant { ms: f64 },
    Uniform { low_ms: f64, high_ms: f64 },
    Exponential { mean_ms: f64 },
    Normal { centre_ms: f64, deviation_ms: f64 },
    Shifted { by_ms: f64, law: Box<Kind> },
    Empirical(Steps),
    Tabulated(Table),
}

/// Values in growing order, each with the probability of a time up to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Steps {
    #[serde(skip)]
    values_ms: Vec<f64>,
    #[serde(skip)]
    cumulative: Vec<f64>,
    samples: usize,
    mean_ms: f64,
}

/// A distribution function that is linear between its points.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Table {
    start_ms: f64,
    #[serde(skip)]
    step_ms: f64,
    #[serde(skip)]
    cdf: Vec<f64>,
    mean_ms: f64,
}

impl Law {
    /// A constant time.
    ///
    /// # Errors
    /// `ms` is not a time.
    pub fn constant(ms: f64) -> Result<Self, Invalid> {
        Ok(Self(Kind::Constant { ms: time("a constant", ms)? }))
    }

    /// No time at all.
    pub const fn zero() -> Self {
        Self(Kind::Constant { ms: 0.0 })
    }

    /// A time that is uniformly distributed from `low_ms` to `high_ms`.
    ///
    /// # Errors
    /// Either is not a time, or they are in the wrong order.
    pub fn uniform(low_ms: f64, high_ms: f64) -> Result<Self, Invalid> {
        let (low_ms, high_ms) = (time("the lower end", low_ms)?, time("the upper end", high_ms)?);
        if low_ms > high_ms {
            return Err(Invalid(format!(
                "the lower end {low_ms} is above the upper end {high_ms}"
            )));
        }
        if low_ms == high_ms {
            return Self::constant(low_ms);
        }
        Ok(Self(Kind::Uniform { low_ms, high_ms }))
    }

    /// An exponentially distributed time.
    ///
    /// # Errors
    /// `mean_ms` is not a time.
    pub fn exponential(mean_ms: f64) -> Result<Self, Invalid> {
        if time("a mean", mean_ms)? == 0.0 {
            return Ok(Self::zero());
        }
        Ok(Self(Kind::Exponential { mean_ms }))
    }

    /// A normally distributed time, truncated at zero: its mean lies above `centre_ms`.
    ///
    /// # Errors
    /// Either is not a time.
    pub fn normal(centre_ms: f64, deviation_ms: f64) -> Result<Self, Invalid> {
        time("the centre", centre_ms)?;
        if time("the standard deviation", deviation_ms)? == 0.0 {
            return Self::constant(centre_ms);
        }
        Ok(Self(Kind::Normal { centre_ms, deviation_ms }))
    }

    /// An empirical distribution: all samples are equally likely.
    ///
    /// # Errors
    /// There is none, more than [`SAMPLES_MAX`], or one that is not a time.
    pub fn samples(samples_ms: &[f64]) -> Result<Self, Invalid> {
        let bars: Vec<(f64, f64)> = samples_ms.iter().map(|&ms| (ms, 1.0)).collect();
        Self::histogram(&bars)
    }

    /// Values with weights, in any order. Weights need not sum up to one.
    ///
    /// # Errors
    /// There is none, more than [`SAMPLES_MAX`], or one that is not a time; a weight is not above
    /// zero.
    pub fn histogram(bars: &[(f64, f64)]) -> Result<Self, Invalid> {
        if bars.is_empty() || bars.len() > SAMPLES_MAX {
            let found = bars.len();
            return Err(Invalid(format!("a law needs 1 to {SAMPLES_MAX} samples, not {found}")));
        }
        let mut sorted = Vec::with_capacity(bars.len());
        for &(ms, weight) in bars {
            if !(weight.is_finite() && weight > 0.0) {
                return Err(Invalid(format!("a weight must be above zero, not {weight}")));
            }
            sorted.push((time("a sample", ms)?, weight));
        }
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = sorted.iter().map(|(_, weight)| weight).sum();
        let mean_ms = sorted.iter().map(|(ms, weight)| ms * weight).sum::<f64>() / total;
        let mut steps =
            Steps { values_ms: Vec::new(), cumulative: Vec::new(), samples: sorted.len(), mean_ms };
        let mut below = 0.0;
        for (ms, weight) in sorted {
            below += weight / total;
            if steps.values_ms.last() == Some(&ms) {
                steps.cumulative.pop();
            } else {
                steps.values_ms.push(ms);
            }
            steps.cumulative.push(below.min(1.0));
        }
        if let Some(last) = steps.cumulative.last_mut() {
            *last = 1.0;
        }
        Ok(Self(Kind::Empirical(steps)))
    }

    /// This time plus `by_ms`.
    ///
    /// # Errors
    /// `by_ms` is not a time.
    pub fn shifted(self, by_ms: f64) -> Result<Self, Invalid> {
        time("a shift", by_ms)?;
        Ok(self.later(by_ms))
    }

    fn later(self, by_ms: f64) -> Self {
        if by_ms == 0.0 {
            return self;
        }
        Self(match self.0 {
            Kind::Constant { ms } => Kind::Constant { ms: ms + by_ms },
            Kind::Shifted { by_ms: before, law } => Kind::Shifted { by_ms: before + by_ms, law },
            law => Kind::Shifted { by_ms, law: Box::new(law) },
        })
    }

    /// The sum of this time and an independent other one. Exact if one of them is constant, else on
    /// a grid of 2,048 points.
    pub fn plus(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Kind::Constant { ms }, _) => other.clone().later(*ms),
            (_, Kind::Constant { ms }) => self.clone().later(*ms),
            _ => convolve(self, other),
        }
    }

    /// The distribution of the time multiplied by `factor`: 0.5 makes a one-way delay of a round
    /// trip.
    ///
    /// # Errors
    /// `factor` is negative or not a number.
    pub fn scaled(&self, factor: f64) -> Result<Self, Invalid> {
        time("a factor", factor)?;
        Ok(Self(self.0.scaled(factor)))
    }

    /// The mean, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.0.mean_ms()
    }

    /// The variance, in square milliseconds.
    pub fn variance(&self) -> f64 {
        let mean = self.mean_ms();
        // The square of a time is above t^2 as often as the time is above t.
        let square = mean_of_complement(&self.pieces(), |t| 2.0 * t * (1.0 - self.cdf(t)));
        (square - mean * mean).max(0.0)
    }

    /// Probability that the time is at most `t_ms`.
    pub fn cdf(&self, t_ms: f64) -> f64 {
        self.0.cdf(t_ms)
    }

    /// The time that is not exceeded with probability `p`; `p` is clamped to 0 and 1, and an
    /// unbounded distribution ends at 1 - 10^-12.
    pub fn quantile(&self, p: f64) -> f64 {
        self.0.quantile(p.clamp(0.0, 1.0))
    }

    /// Whether the time is constant.
    pub fn is_constant(&self) -> bool {
        matches!(self.0, Kind::Constant { .. })
    }

    /// The distribution with the function `cdf`, which must grow from 0 below `start_ms` to 1 at
    /// `end_ms`, and with this mean.
    pub(crate) fn tabulated(
        start_ms: f64,
        end_ms: f64,
        mean_ms: f64,
        cdf: impl Fn(f64) -> f64,
    ) -> Self {
        let step_ms = ((end_ms - start_ms) / (TABLE_POINTS - 1) as f64).max(f64::MIN_POSITIVE);
        let points = (0..TABLE_POINTS).map(|i| cdf(start_ms + step_ms * i as f64));
        Self(Kind::Tabulated(Table { start_ms, step_ms, cdf: points.collect(), mean_ms }))
    }

    /// Bounds of the pieces for integrals over this distribution: its ends, its jumps, and evenly
    /// between them.
    pub(crate) fn pieces(&self) -> Vec<f64> {
        pieces(std::slice::from_ref(self))
    }
}

impl Kind {
    fn mean_ms(&self) -> f64 {
        match self {
            Self::Constant { ms } => *ms,
            Self::Uniform { low_ms, high_ms } => (low_ms + high_ms) / 2.0,
            Self::Exponential { mean_ms } => *mean_ms,
            Self::Normal { centre_ms, deviation_ms } => {
                let z = centre_ms / deviation_ms;
                let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
                centre_ms + deviation_ms * density / bell(z)
            }
            Self::Shifted { by_ms, law } => by_ms + law.mean_ms(),
            Self::Empirical(steps) => steps.mean_ms,
            Self::Tabulated(table) => table.mean_ms,
        }
    }

    fn cdf(&self, t: f64) -> f64 {
        if t < 0.0 {
            return 0.0;
        }
        match self {
            Self::Constant { ms } => f64::from(u8::from(t >= *ms)),
            Self::Uniform { low_ms, high_ms } => {
                ((t - low_ms) / (high_ms - low_ms)).clamp(0.0, 1.0)
            }
            Self::Exponential { mean_ms } => -(-t / mean_ms).exp_m1(),
            Self::Normal { centre_ms, deviation_ms } => {
                let negative = bell(-centre_ms / deviation_ms);
                ((bell((t - centre_ms) / deviation_ms) - negative) / (1.0 - negative))
                    .clamp(0.0, 1.0)
            }
            Self::Shifted { by_ms, law } => law.cdf(t - by_ms),
            Self::Empirical(steps) => {
                let at_most = steps.values_ms.partition_point(|&value| value <= t);
                if at_most == 0 { 0.0 } else { steps.cumulative[at_most - 1] }
            }
            Self::Tabulated(table) => table.cdf(t),
        }
    }

    fn quantile(&self, p: f64) -> f64 {
        match self {
            Self::Constant { ms } => *ms,
            Self::Uniform { low_ms, high_ms } => low_ms + p * (high_ms - low_ms),
            Self::Exponential { mean_ms } => -mean_ms * (1.0 - p.min(1.0 - TAIL)).ln(),
            Self::Normal { centre_ms, deviation_ms } => {
                let high = centre_ms + 9.0 * deviation_ms;
                crate::numeric::first_above(0.0, high, |t| self.cdf(t) >= p.min(1.0 - TAIL))
            }
            Self::Shifted { by_ms, law } => by_ms + law.quantile(p),
            Self::Empirical(steps) => {
                let below = steps.cumulative.partition_point(|&cumulative| cumulative < p);
                steps.values_ms[below.min(steps.values_ms.len() - 1)]
            }
            Self::Tabulated(table) => table.quantile(p),
        }
    }

    fn scaled(&self, factor: f64) -> Self {
        if factor == 0.0 {
            return Self::Constant { ms: 0.0 };
        }
        match self {
            Self::Constant { ms } => Self::Constant { ms: ms * factor },
            Self::Uniform { low_ms, high_ms } => {
                Self::Uniform { low_ms: low_ms * factor, high_ms: high_ms * factor }
            }
            Self::Exponential { mean_ms } => Self::Exponential { mean_ms: mean_ms * factor },
            Self::Normal { centre_ms, deviation_ms } => {
                Self::Normal { centre_ms: centre_ms * factor, deviation_ms: deviation_ms * factor }
            }
            Self::Shifted { by_ms, law } => {
                Self::Shifted { by_ms: by_ms * factor, law: Box::new(law.scaled(factor)) }
            }
            Self::Empirical(steps) => {
                let mut steps = steps.clone();
                steps.values_ms.iter_mut().for_each(|ms| *ms *= factor);
                steps.mean_ms *= factor;
                Self::Empirical(steps)
            }
            Self::Tabulated(table) => {
                let mut table = table.clone();
                table.start_ms *= factor;
                table.step_ms *= factor;
                table.mean_ms *= factor;
                Self::Tabulated(table)
            }
        }
    }

    /// Places where the distribution function jumps or bends.
    fn bends(&self, by_ms: f64, into: &mut Vec<f64>) {
        match self {
            Self::Constant { ms } => into.push(by_ms + ms),
            Self::Shifted { by_ms: more, law } => law.bends(by_ms + more, into),
            Self::Empirical(steps) if steps.values_ms.len() <= EXACT_JUMPS_MAX => {
                into.extend(steps.values_ms.iter().map(|ms| by_ms + ms));
            }
            _ => into.extend([by_ms + self.quantile(0.0), by_ms + self.quantile(1.0)]),
        }
    }
}

impl Table {
    fn cdf(&self, t: f64) -> f64 {
        let place = (t - self.start_ms) / self.step_ms;
        if place < 0.0 {
            return 0.0;
        }
        let below = place as usize;
        match (self.cdf.get(below), self.cdf.get(below + 1)) {
            (Some(low), Some(high)) => low + (place - below as f64) * (high - low),
            _ => 1.0,
        }
    }

    fn quantile(&self, p: f64) -> f64 {
        let above = self.cdf.partition_point(|&cdf| cdf < p);
        if above == 0 {
            return self.start_ms;
        }
        let above = above.min(self.cdf.len() - 1);
        let (low, high) = (self.cdf[above - 1], self.cdf[above]);
        let part = if high > low { ((p - low) / (high - low)).clamp(0.0, 1.0) } else { 1.0 };
        self.start_ms + (above as f64 - 1.0 + part) * self.step_ms
    }
}

/// The standard normal distribution function.
fn bell(z: f64) -> f64 {
    0.5 * (1.0 + erf(z / std::f64::consts::SQRT_2))
}

/// Cuts the ranges of some distributions into pieces without jumps inside, from zero on.
pub(crate) fn pieces(laws: &[Law]) -> Vec<f64> {
    let mut cuts = vec![0.0];
    laws.iter().for_each(|law| law.0.bends(0.0, &mut cuts));
    let high = cuts.iter().copied().fold(0.0, f64::max);
    // Most of an unbounded distribution lies near its beginning: cut there more finely.
    let typical = laws.iter().map(|law| law.quantile(0.999)).fold(0.0, f64::max);
    for piece in 1..PIECES {
        let part = piece as f64 / PIECES as f64;
        cuts.extend([typical * part, typical + (high - typical) * part]);
    }
    cuts.sort_by(f64::total_cmp);
    cuts.dedup();
    cuts
}

/// The distribution of a sum: for each point, the other distribution function averaged over equally
/// likely values of the first.
fn convolve(a: &Law, b: &Law) -> Law {
    let slices = TABLE_POINTS / 4;
    let values: Vec<f64> =
        (0..slices).map(|i| a.quantile((i as f64 + 0.5) / slices as f64)).collect();
    let start = a.quantile(0.0) + b.quantile(0.0);
    let end = a.quantile(1.0 - 1e-9) + b.quantile(1.0 - 1e-9);
    Law::tabulated(start, end, a.mean_ms() + b.mean_ms(), |t| {
        values.iter().map(|value| b.cdf(t - value)).sum::<f64>() / slices as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
    }

    fn all() -> Vec<Law> {
        vec![
            Law::constant(7.0).unwrap(),
            Law::uniform(2.0, 6.0).unwrap(),
            Law::exponential(5.0).unwrap(),
            Law::normal(3.0, 4.0).unwrap(),
            Law::exponential(5.0).unwrap().shifted(10.0).unwrap(),
            Law::histogram(&[(9.0, 1.0), (1.0, 2.0), (1.0, 1.0), (4.0, 4.0)]).unwrap(),
            Law::uniform(2.0, 6.0).unwrap().plus(&Law::exponential(5.0).unwrap()),
        ]
    }

    #[test]
    fn the_mean_is_the_integral_of_the_complement() {
        for law in all() {
            let integral = mean_of_complement(&law.pieces(), |t| 1.0 - law.cdf(t));
            near(integral, law.mean_ms(), 2e-3 * law.mean_ms());
        }
    }

    #[test]
    fn quantiles_undo_the_distribution_function() {
        for law in all() {
            for p in [0.01, 0.25, 0.5, 0.9, 0.999] {
                let t = law.quantile(p);
                assert!(law.cdf(t) >= p - 1e-9, "{law:?} {p}");
                assert!(law.cdf(t * (1.0 - 1e-9) - 1e-9) <= p + 1e-6, "{law:?} {p}");
            }
        }
    }

    #[test]
    fn variances_are_those_of_the_textbook() {
        near(Law::uniform(0.0, 12.0).unwrap().variance(), 12.0, 1e-9);
        near(Law::exponential(5.0).unwrap().variance(), 25.0, 1e-4);
        near(Law::exponential(5.0).unwrap().shifted(9.0).unwrap().variance(), 25.0, 1e-4);
        near(Law::constant(5.0).unwrap().variance(), 0.0, 1e-9);
        near(Law::samples(&[1.0, 3.0]).unwrap().variance(), 1.0, 1e-9);
        let half = Law::uniform(0.0, 12.0).unwrap().scaled(0.5).unwrap();
        near(half.variance(), 3.0, 1e-9);
    }

    #[test]
    fn a_bell_far_from_zero_is_not_cut() {
        let bell = Law::normal(100.0, 5.0).unwrap();
        near(bell.mean_ms(), 100.0, 1e-9);
        near(bell.quantile(0.975), 100.0 + 5.0 * 1.959_963_985, 1e-6);
        near(Law::normal(0.0, 1.0).unwrap().mean_ms(), (2.0 / std::f64::consts::PI).sqrt(), 1e-9);
    }

    #[test]
    fn numbers_that_are_no_times_are_refused_with_the_reason() {
        let wrong = [
            Law::constant(-1.0),
            Law::constant(f64::NAN),
            Law::uniform(2.0, 1.0),
            Law::exponential(f64::INFINITY),
            Law::normal(1.0, -1.0),
            Law::samples(&[]),
            Law::histogram(&[(1.0, 0.0)]),
            Law::zero().shifted(-1.0),
        ];
        for law in wrong {
            assert!(law.is_err_and(|error| !error.to_string().is_empty()));
        }
    }
}
