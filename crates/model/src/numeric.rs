//! Numerical analysis for the formulas.

/// The error function, to about fourteen digits: its power series where that converges fast, and
/// Lentz's continued fraction of the complement elsewhere (Press et al., Numerical Recipes).
pub fn erf(x: f64) -> f64 {
    if x < 0.0 {
        return -erf(-x);
    }
    if x > 6.0 {
        return 1.0;
    }
    let scale = 2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp();
    if x < 2.5 {
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= 2.0 * x * x / (2.0 * n + 1.0);
            sum += term;
        }
        return scale * sum;
    }
    // erfc(x) = scale / 2 / (x + (1/2) / (x + 1 / (x + (3/2) / (x + ...)))), from the inside out.
    let depth = 80;
    let tail = (1..=depth).rev().fold(x, |inner, n| x + f64::from(n) / 2.0 / inner);
    1.0 - scale / 2.0 / tail
}

/// The integral of `f` over all pieces, by Gauss's rule with two points in each: the ends of pieces
/// are never evaluated, so that jumps between pieces do no harm.
pub fn mean_of_complement(pieces: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    let offset = 0.5 / 3f64.sqrt();
    let of_piece = |ends: &[f64]| {
        let (middle, width) = (0.5 * (ends[0] + ends[1]), ends[1] - ends[0]);
        0.5 * width * (f(middle - offset * width) + f(middle + offset * width))
    };
    pieces.windows(2).map(of_piece).sum()
}

/// The first place from `low` to `high` at which `holds` becomes true for good; `high` if there is
/// none. By bisection, to the precision of the numbers.
pub fn first_above(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// The probabilities of 0, 1, 2, ... events when `mean` are expected, until the rest is negligible.
pub fn poisson(mean: f64) -> Vec<f64> {
    // Begin at the most likely number: for a large mean the probability of none underflows.
    let top = mean.floor();
    let count_max = (mean + 12.0 * mean.sqrt() + 30.0) as usize;
    let mut weights = vec![0.0; count_max + 1];
    weights[top as usize] = 1.0;
    for n in (0..top as usize).rev() {
        weights[n] = if mean > 0.0 { weights[n + 1] * (n + 1) as f64 / mean } else { 0.0 };
    }
    for n in top as usize + 1..=count_max {
        weights[n] = weights[n - 1] * mean / n as f64;
    }
    let total: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= total);
    weights
}
