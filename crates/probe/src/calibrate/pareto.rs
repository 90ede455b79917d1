//! Extrapolation: a generalised Pareto distribution of the values above a high threshold.
//!
//! Above a threshold u that a fraction z of the values exceeds, the fraction above x is z (1 + xi
//! (x - u) / sigma)^(-1 / xi). The two parameters come from probability-weighted moments (Hosking
//! and Wallis 1987), which are good for shapes xi below one half and robust with few values.
//! Resampling shows their uncertainty.

use super::tail::Tail;
use crate::random::Numbers;
use serde::Serialize;

/// Minimum number of values above the threshold for a fit.
pub const EXCESSES_MIN: usize = 30;

/// Maximum number of values for a fit: a tail mixes several causes, and follows the distribution of
/// the slowest one only at its end.
pub const EXCESSES_MAX: usize = 1_000;

/// Number of resampled distributions.
const RESAMPLES: usize = 300;

/// Distribution of the values above a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pareto {
    /// Threshold, in nanoseconds.
    pub threshold_ns: f64,
    /// Fraction of all values above it.
    pub part_above: f64,
    /// Shape: above zero, the tail is heavier than exponential; below, it has an end.
    pub shape: f64,
    /// Scale, in nanoseconds.
    pub scale_ns: f64,
}

/// A fitted distribution, and distributions of resampled values that show its uncertainty.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// Fitted distribution.
    pub law: Pareto,
    /// Distributions of resampled values.
    pub resampled: Vec<Pareto>,
    /// Number of values above the threshold.
    pub excesses: u64,
}

/// Parameters of excesses, which are ascending.
fn moments(excesses: &[f64]) -> Option<(f64, f64)> {
    let n = excesses.len() as f64;
    if excesses.len() < 2 {
        return None;
    }
    let a0 = excesses.iter().sum::<f64>() / n;
    let weighted = excesses.iter().zip(1..).map(|(y, i)| (n - f64::from(i)) / (n - 1.0) * y);
    let a1 = weighted.sum::<f64>() / n;
    let spread = a0 - 2.0 * a1;
    if spread <= 0.0 || a1 <= 0.0 {
        return None;
    }
    let shape = 2.0 - a0 / spread;
    let scale = 2.0 * a0 * a1 / spread;
    (shape < 1.0).then_some((shape, scale))
}

impl Pareto {
    /// Fraction of all values above `x_ns`, which is above the threshold.
    pub fn part_above(&self, x_ns: f64) -> f64 {
        let y = (x_ns - self.threshold_ns).max(0.0) / self.scale_ns;
        if self.shape.abs() < 1e-9 {
            return self.part_above * (-y).exp();
        }
        self.part_above * (1.0 + self.shape * y).max(0.0).powf(-1.0 / self.shape)
    }

    /// Negative derivative of [`Self::part_above`], per second.
    pub fn density_per_s(&self, x_ns: f64) -> f64 {
        let y = (x_ns - self.threshold_ns).max(0.0) / self.scale_ns;
        let scale_s = self.scale_ns / 1e9;
        if self.shape.abs() < 1e-9 {
            return self.part_above / scale_s * (-y).exp();
        }
        let inner = (1.0 + self.shape * y).max(0.0);
        if inner == 0.0 {
            0.0
        } else {
            self.part_above / scale_s * inner.powf(-1.0 / self.shape - 1.0)
        }
    }
}

/// Fits the values above the quantile `p`, or the last [`EXCESSES_MAX`] values if there are more.
/// `None` if there are too few, or if their distribution has no mean. Lost replies have no latency
/// and are left out.
pub fn fit(tail: &Tail, p: f64, draws: &mut Numbers) -> Option<Fitted> {
    let largest = tail.largest();
    let completed = tail.count() - tail.lost();
    let wanted = ((1.0 - p) * completed as f64).floor() as usize;
    let n = wanted.min(EXCESSES_MAX).min(largest.len().saturating_sub(1));
    if n < EXCESSES_MIN {
        return None;
    }
    let threshold_ns = largest[largest.len() - n - 1] as f64;
    let excesses: Vec<f64> =
        largest[largest.len() - n..].iter().map(|ns| *ns as f64 - threshold_ns).collect();
    let part_above = n as f64 / tail.count() as f64;
    let of = |excesses: &[f64], part_above: f64| {
        let (shape, scale_ns) = moments(excesses)?;
        Some(Pareto { threshold_ns, part_above, shape, scale_ns })
    };
    let law = of(&excesses, part_above)?;
    let resampled = (0..RESAMPLES).filter_map(|_| {
        let mut drawn: Vec<f64> = (0..excesses.len())
            .map(|_| excesses[draws.below(excesses.len() as u64) as usize])
            .collect();
        drawn.sort_unstable_by(f64::total_cmp);
        of(&drawn, part_above)
    });
    Some(Fitted { law, resampled: resampled.collect(), excesses: n as u64 })
}

impl Fitted {
    /// Value of a figure, and its middle 95 % over the resampled distributions.
    pub fn interval(&self, figure: impl Fn(&Pareto) -> f64) -> (f64, f64, f64) {
        let mut all: Vec<f64> = self.resampled.iter().map(&figure).collect();
        all.sort_unstable_by(f64::total_cmp);
        let value = figure(&self.law);
        let at = |p: f64| {
            let rank = (p * all.len() as f64).ceil().max(1.0) as usize;
            all.get(rank - 1).copied().unwrap_or(value)
        };
        (at(0.025).min(value), value, at(0.975).max(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values with this shape and scale above one second, evenly spread over the probabilities.
    fn exact(shape: f64, scale_s: f64, n: u32) -> Tail {
        let at = |i: u32| {
            let p = (f64::from(i) + 0.5) / f64::from(n);
            1.0 + scale_s * (p.powf(-shape) - 1.0) / shape
        };
        let above = (0..n).map(at).map(|s| (s * 1e9) as u64);
        let below = (0..999 * u64::from(n)).map(|i| 1_000_000_000 - i % 1_000);
        above.chain(below).collect()
    }

    #[test]
    fn the_parameters_are_found_again() {
        for (shape, scale_s) in [(0.25, 0.5), (-0.2, 2.0), (0.4, 0.1)] {
            let tail = exact(shape, scale_s, 2_000);
            let fitted = fit(&tail, 0.999, &mut Numbers::new(1)).unwrap();
            let law = fitted.law;
            assert!((law.shape - shape).abs() < 0.02, "{law:?}");
            assert_eq!(fitted.excesses, 1_000);
            let x_ns = 1e9 + 3.0 * scale_s * 1e9;
            let truth = 1e-3 * (1.0 + shape * 3.0).powf(-1.0 / shape);
            assert!((law.part_above(x_ns) / truth - 1.0).abs() < 0.15, "{law:?}");
            let (low, _, high) = fitted.interval(|law| law.part_above(x_ns));
            assert!(low < truth && truth < high, "{low} {truth} {high}");
            let step = 1e5;
            let slope = law.part_above(x_ns) - law.part_above(x_ns + step);
            assert!((law.density_per_s(x_ns) / (slope / (step / 1e9)) - 1.0).abs() < 1e-3);
        }
    }

    #[test]
    fn few_values_are_not_fitted() {
        let few: Tail = (0..20_000u64).collect();
        assert!(fit(&few, 0.999, &mut Numbers::new(1)).is_none());
        assert!(fit(&few, 0.99, &mut Numbers::new(1)).is_some());
    }
}
