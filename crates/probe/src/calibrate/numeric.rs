//! Special functions that intervals and thresholds need.
//!
//! Press et al., Numerical Recipes, has all of them; the tests compare with values that are printed
//! in tables.

/// Logarithm of the gamma function (Lanczos's sum with nine terms), for `x` above zero.
pub fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let sine = (std::f64::consts::PI * x).sin();
        return (std::f64::consts::PI / sine).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum = TERMS
        .iter()
        .zip(1..)
        .fold(0.999_999_999_999_809_9, |sum, (term, n)| sum + term / (x + f64::from(n)));
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Binomial coefficient "n choose k" for the small numbers of a group.
pub fn choose(n: usize, k: usize) -> f64 {
    if k > n { 0.0 } else { (0..k).fold(1.0, |value, i| value * (n - i) as f64 / (i + 1) as f64) }
}

/// Probability below `x` of a beta distribution with parameters `a` and `b`.
pub fn beta_below(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let ln_front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    if x < (a + 1.0) / (a + b + 2.0) {
        ln_front.exp() * beta_fraction(x, a, b) / a
    } else {
        1.0 - ln_front.exp() * beta_fraction(1.0 - x, b, a) / b
    }
}

/// Lentz's continued fraction of the incomplete beta function.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for m in 1..2_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        h *= d * c;
        if (d * c - 1.0).abs() < 1e-14 {
            break;
        }
    }
    h
}

/// Probability below `x` of a gamma distribution of shape `a` and scale one.
pub fn gamma_below(x: f64, a: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term.abs() > sum.abs() * 1e-16 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return front * sum;
    }
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut h = d;
    for i in 1..2_000 {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        h *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    1.0 - front * h
}

/// Probability that a standard normal value lies above `z`.
pub fn normal_above(z: f64) -> f64 {
    let half = 0.5 * gamma_above_half(0.5 * z * z);
    if z >= 0.0 { half } else { 1.0 - half }
}

/// Complement of the gamma distribution of shape one half, without losing digits in the tail.
fn gamma_above_half(x: f64) -> f64 {
    if x < 1.5 {
        return 1.0 - gamma_below(x, 0.5);
    }
    // By the continued fraction erfc(s) = exp(-s^2) / sqrt(pi) / (s + (1/2) / (s + 1 / (s + (3/2) /
    // (s + ...)))).
    let s = x.sqrt();
    let tail = (1..=120).rev().fold(s, |inner, n| s + 0.5 * f64::from(n) / inner);
    (-x).exp() / std::f64::consts::PI.sqrt() / tail
}

/// Value `z` above which a standard normal value lies with probability `p`, which may be very
/// small.
pub fn normal_upper(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_upper(1.0 - p);
    }
    bisect(0.0, 40.0, |z| normal_above(z) <= p)
}

/// First place from `low` to `high` at which `holds`, if it holds from there on; `high` if there is
/// none.
pub fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
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

/// Clopper and Pearson's 95 % interval of a probability after `k` successes in `n` trials. Both may
/// be fractions: they are effective counts. With `k` zero the upper end is 3 / n, the one-sided
/// bound.
pub fn clopper_pearson(k: f64, n: f64) -> (f64, f64) {
    if n <= 0.0 {
        return (0.0, 1.0);
    }
    if k <= 0.0 {
        return (0.0, (3.0 / n).min(1.0));
    }
    let low = bisect(0.0, 1.0, |p| beta_below(p, k, n - k + 1.0) >= 0.025);
    let high =
        if k >= n { 1.0 } else { bisect(0.0, 1.0, |p| beta_below(p, k + 1.0, n - k) >= 0.975) };
    (low, high)
}

/// Exact 95 % interval of a Poisson mean after `k` events; with none the upper end is 3, the
/// one-sided bound.
pub fn poisson_interval(k: f64) -> (f64, f64) {
    if k <= 0.0 {
        return (0.0, 3.0);
    }
    let ceiling = k + 12.0 * (k + 1.0).sqrt() + 20.0;
    let low = bisect(0.0, ceiling, |x| gamma_below(x, k) >= 0.025);
    (low, bisect(0.0, ceiling, |x| gamma_below(x, k + 1.0) >= 0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, relative: f64) {
        assert!((found - expected).abs() <= relative * expected.abs(), "{found} {expected}");
    }

    #[test]
    fn gamma_and_beta_are_those_of_the_tables() {
        near(ln_gamma(5.0), 24f64.ln(), 1e-12);
        near(ln_gamma(0.5), 0.5 * std::f64::consts::PI.ln(), 1e-12);
        near(choose(9, 4), 126.0, 1e-15);
        // The beta distribution with (2, 3) is below x with 6x^2 - 8x^3 + 3x^4.
        near(beta_below(0.3, 2.0, 3.0), 0.3483, 1e-9);
        near(gamma_below(3.0, 1.0), 1.0 - (-3f64).exp(), 1e-12);
        near(gamma_below(0.5, 1.0), 1.0 - (-0.5f64).exp(), 1e-12);
    }

    #[test]
    fn the_tail_of_the_normal_law_keeps_its_digits() {
        near(normal_above(1.959_963_984_540_054), 0.025, 1e-10);
        near(normal_above(6.0), 9.865_876_450_377e-10, 1e-9);
        near(normal_upper(1e-8), 5.612_001_244_174, 1e-9);
        near(normal_above(-1.0), 0.841_344_746_068_543, 1e-10);
    }

    #[test]
    fn intervals_are_the_exact_ones() {
        // For 3 of 10 trials: 0.0667 to 0.6525; for a Poisson count of 5: 1.623 to 11.668.
        let (low, high) = clopper_pearson(3.0, 10.0);
        near(low, 0.066_74, 1e-3);
        near(high, 0.652_45, 1e-4);
        assert_eq!(clopper_pearson(0.0, 300.0), (0.0, 0.01));
        let (low, high) = poisson_interval(5.0);
        near(low, 1.623_49, 1e-4);
        near(high, 11.668_33, 1e-4);
    }
}
