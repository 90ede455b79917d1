//! O13: correlation of latency with metrics.
//!
//! Sums are whole numbers and therefore exact, whatever the order of addition. Nothing is rounded
//! before the last step.

use super::latency::latency;
use super::scatter::Grid;
use probe::Workload;
use probe::random::{Numbers, seed_of};
use probe::rank::of_unsorted;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Maximum value of a metric; larger ones would overflow the sums, and are left out and counted.
pub const METRIC_MAX: i64 = 1 << 45;
/// Unit of logarithms: 2^-32.
pub const LN_UNIT: f64 = 4_294_967_296.0;
/// Number of draws of the bootstrap.
const DRAWS: usize = 500;

/// Logarithm of a latency in nanoseconds, in units of 2^-32.
pub fn ln_fixed(latency_ns: u64) -> u64 {
    ((latency_ns.max(1) as f64).ln() * LN_UNIT).round() as u64
}

/// Sums over calls that belong to the same row of resources.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowSums {
    /// Number of calls.
    pub n: u32,
    /// Sum of their latencies in nanoseconds.
    pub x: u64,
    /// Sum of the logarithms.
    pub l: u64,
    /// Sum of the squares of latencies.
    pub xx: u128,
    /// Sum of the squares of logarithms.
    pub ll: u128,
}

impl RowSums {
    /// Adds a call.
    pub fn add(&mut self, latency_ns: u64, ln: u64) {
        self.n += 1;
        self.x += latency_ns;
        self.l += ln;
        self.xx += u128::from(latency_ns) * u128::from(latency_ns);
        self.ll += u128::from(ln) * u128::from(ln);
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.x += other.x;
        self.l += other.l;
        self.xx += other.xx;
        self.ll += other.ll;
    }

    /// Sums of a single call.
    pub fn one(latency_ns: u64, ln: u64) -> Self {
        let mut sums = Self::default();
        sums.add(latency_ns, ln);
        sums
    }
}

/// Sums for a coefficient of latency x and metric y.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    n: u64,
    x: i128,
    xx: i128,
    y: i128,
    yy: i128,
    xy: i128,
}

impl Sums {
    fn add(&mut self, n: u32, x: u64, xx: u128, y: i64) {
        let (y, n_wide) = (i128::from(y), i128::from(n));
        self.n += u64::from(n);
        self.x += i128::from(x);
        self.xx += xx.cast_signed();
        self.y += n_wide * y;
        self.yy += n_wide * y * y;
        self.xy += i128::from(x) * y;
    }

    fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.x += other.x;
        self.xx += other.xx;
        self.y += other.y;
        self.yy += other.yy;
        self.xy += other.xy;
    }

    /// Pearson's coefficient; `None` if latency or metric is constant.
    pub fn r(&self) -> Option<f64> {
        let xy = self.centred(self.xy, self.x, self.y);
        let xx = self.centred(self.xx, self.x, self.x);
        let yy = self.centred(self.yy, self.y, self.y);
        (xx > 0.0 && yy > 0.0).then(|| xy / (xx.sqrt() * yy.sqrt()))
    }

    /// Sum of products minus a b / n: the large parts cancel as whole numbers.
    fn centred(&self, products: i128, a: i128, b: i128) -> f64 {
        let n = i128::from(self.n.max(1));
        let (whole_a, rest_a) = (a.div_euclid(n), a.rem_euclid(n));
        let (whole_b, rest_b) = (b.div_euclid(n), b.rem_euclid(n));
        let exact = products - whole_a * b - rest_a * whole_b;
        exact as f64 - rest_a as f64 * rest_b as f64 / n as f64
    }
}

/// Sums of one metric.
#[derive(Clone, Debug, Default)]
pub struct Metric {
    /// Sums by workload: all calls, and calls of high latency.
    plain: [[Sums; 2]; 5],
    /// Sums for the logarithm of latency, by workload.
    logarithm: [[Sums; 2]; 5],
    /// Sums by block of ten minutes, over workloads.
    blocks: BTreeMap<i64, [Sums; 2]>,
    /// Number of calls with a too large metric.
    pub too_large: u64,
}

/// Index of the sums over all paired calls.
const ALL: usize = 0;
/// Index of the sums over calls with a latency at or above the p99 of their workload.
const HIGH: usize = 1;

impl Metric {
    /// Adds calls of high latency that belong to one row.
    pub fn add_high(&mut self, workload: usize, block: i64, calls: &RowSums, y: i64) {
        if y.abs() > METRIC_MAX {
            self.too_large += u64::from(calls.n);
            return;
        }
        self.plain[workload][HIGH].add(calls.n, calls.x, calls.xx, y);
        self.logarithm[workload][HIGH].add(calls.n, calls.l, calls.ll, y);
        self.blocks.entry(block).or_default()[HIGH].add(calls.n, calls.x, calls.xx, y);
    }

    /// Adds calls that belong to rows: for each row its block, its value, and sums by workload and
    /// of all. Neighbouring rows usually have the same block.
    pub fn add_rows<'a>(
        &mut self,
        rows: impl Iterator<Item = (i64, i64, &'a [RowSums; 5], &'a RowSums)>,
    ) {
        let mut of_block = (0, Sums::default());
        for (block, y, of, all) in rows {
            if y.abs() > METRIC_MAX {
                self.too_large += u64::from(all.n);
                continue;
            }
            for ((plain, logarithm), calls) in
                self.plain.iter_mut().zip(&mut self.logarithm).zip(of)
            {
                if calls.n > 0 {
                    plain[ALL].add(calls.n, calls.x, calls.xx, y);
                    logarithm[ALL].add(calls.n, calls.l, calls.ll, y);
                }
            }
            if of_block.0 != block {
                self.add_block(of_block);
                of_block = (block, Sums::default());
            }
            of_block.1.add(all.n, all.x, all.xx, y);
        }
        self.add_block(of_block);
    }

    fn add_block(&mut self, (block, sums): (i64, Sums)) {
        if sums.n > 0 {
            self.blocks.entry(block).or_default()[ALL].merge(&sums);
        }
    }

    /// Adds another thread's sums.
    pub fn merge(&mut self, other: &Self) {
        for workload in 0..5 {
            for which in 0..2 {
                self.plain[workload][which].merge(&other.plain[workload][which]);
                self.logarithm[workload][which].merge(&other.logarithm[workload][which]);
            }
        }
        for (block, sums) in &other.blocks {
            let to = self.blocks.entry(*block).or_default();
            to.iter_mut().zip(sums).for_each(|(to, from)| to.merge(from));
        }
        self.too_large += other.too_large;
    }

    /// Whether no call was paired with a value.
    pub fn is_empty(&self) -> bool {
        self.plain.iter().all(|sums| sums[0].n == 0)
    }

    fn pooled(of: &[[Sums; 2]; 5], which: usize) -> Sums {
        let mut sum = Sums::default();
        of.iter().for_each(|sums| sum.merge(&sums[which]));
        sum
    }

    /// Number of all paired calls, and their coefficient.
    pub fn pooled_r(&self) -> (u64, Option<f64>) {
        let sums = Self::pooled(&self.plain, 0);
        (sums.n, sums.r())
    }

    /// Interval of the coefficients of 95 percent of the draws, with blocks drawn with replacement.
    fn interval(&self, which: usize, seed: u64) -> Option<[f64; 2]> {
        let blocks: Vec<&Sums> = self.blocks.values().map(|sums| &sums[which]).collect();
        if blocks.len() < 2 {
            return None;
        }
        let mut numbers = Numbers::new(seed_of(&[seed, which as u64]));
        let mut found = Vec::new();
        for _ in 0..DRAWS {
            let mut sum = Sums::default();
            for _ in 0..blocks.len() {
                sum.merge(blocks[numbers.below(blocks.len() as u64) as usize]);
            }
            found.extend(sum.r().map(Ordered));
        }
        let low = of_unsorted(&mut found, 25_000)?.0;
        Some([low, of_unsorted(&mut found, 975_000)?.0])
    }

    fn part(&self, which: usize, seed: u64, grids: Option<&[Grid; 5]>) -> Value {
        let plain = Self::pooled(&self.plain, which);
        let logarithm = Self::pooled(&self.logarithm, which);
        let mut told = json!({
            "n": plain.n,
            "pearson_r": plain.r(),
            "pearson_r_95": self.interval(which, seed),
            "pearson_r_ln": logarithm.r(),
        });
        let mut workloads = Map::new();
        for workload in Workload::ALL {
            let at = usize::from(workload.code());
            let sums = self.plain[at][which];
            if sums.n > 0 {
                let mut row = json!({
                    "n": sums.n,
                    "pearson_r": sums.r(),
                    "pearson_r_ln": self.logarithm[at][which].r(),
                });
                if let Some(grids) = grids {
                    row["spearman_r"] = json!(grids[at].spearman());
                }
                workloads.insert(workload.name().into(), row);
            }
        }
        if let Some(grids) = grids {
            told["spearman_r"] = json!(Grid::sum(grids).spearman());
        }
        told["by_workload"] = workloads.into();
        told
    }

    /// Document O13 of this metric.
    pub fn document(&self, name: &str, seed: u64, grids: &[Grid; 5]) -> Value {
        json!({
            "metric": name,
            "all": self.part(0, seed, Some(grids)),
            "high": self.part(1, seed, None),
        })
    }
}

/// A coefficient that can be sorted, since it is never NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Latencies from which on a call counts as high, by workload.
pub fn thresholds(p99_ns: &[Option<u64>; 5]) -> Value {
    let pairs = Workload::ALL.map(|workload| {
        (workload.name().to_owned(), latency(p99_ns[usize::from(workload.code())]))
    });
    Value::Object(pairs.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_are_those_of_the_definition_where_naive_sums_lose_everything() {
        // Large and nearly equal values: squares differ in digits that a double does not have.
        let mut numbers = Numbers::new(5);
        let pairs: Vec<(u64, i64)> = (0..1000)
            .map(|_| {
                let y = numbers.below(1000).cast_signed();
                (300_000_000_000 + y.unsigned_abs() * 3 + numbers.below(2000), (1 << 44) + y)
            })
            .collect();
        let mut sums = Sums::default();
        for (x, y) in &pairs {
            let one = RowSums::one(*x, ln_fixed(*x));
            sums.add(one.n, one.x, one.xx, *y);
        }
        let x: Vec<f64> = pairs.iter().map(|(x, _)| (x - 300_000_000_000) as f64).collect();
        let y: Vec<f64> = pairs.iter().map(|(_, y)| (y - (1 << 44)) as f64).collect();
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let (mx, my) = (mean(&x), mean(&y));
        let dot = |f: &dyn Fn(usize) -> f64| (0..x.len()).map(f).sum::<f64>();
        let expected = dot(&|at| (x[at] - mx) * (y[at] - my))
            / (dot(&|at| (x[at] - mx).powi(2)).sqrt() * dot(&|at| (y[at] - my).powi(2)).sqrt());
        assert!((sums.r().unwrap() - expected).abs() < 1e-9, "{:?} {expected}", sums.r());
    }

    #[test]
    fn what_never_changes_has_no_coefficient() {
        let mut sums = Sums::default();
        (1..9).for_each(|x| sums.add(1, x, u128::from(x * x), 7));
        assert_eq!(sums.r(), None);
    }
}
