//! O14: latency against each metric as a scatter plot: counts in a grid, and some of the points.

use probe::Workload;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Number of cells along each side.
pub const SIDE: usize = 200;

/// Grid row of a latency: 200 rows from a microsecond to 100 s, equal in the logarithm, which is
/// given in units of 2^-32. A value at an edge belongs to the row above it.
pub fn latency_cell(latency_ns: u64, ln: u64) -> usize {
    const BEGIN: f64 = 6.907_755_278_982_137; // ln 1000
    const SPAN: f64 = 18.420_680_743_952_367; // ln 10^8
    let place = (ln as f64 / super::correlate::LN_UNIT - BEGIN) / SPAN * SIDE as f64;
    let mut cell = (place.max(0.0) as usize).min(SIDE - 1);
    // The logarithm is rounded, the edges are not.
    while cell > 0 && latency_ns < EDGES[cell] {
        cell -= 1;
    }
    while cell + 1 < SIDE && latency_ns >= EDGES[cell + 1] {
        cell += 1;
    }
    cell
}

/// Lower edge of each grid row, in nanoseconds.
static EDGES: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let edge = |cell| (1000.0 * 10_f64.powf(f64::from(cell) / 25.0)).round() as u64;
    (0..SIDE as u32).map(edge).collect()
});

/// Grid column of a metric's value: one for zero and below, 199 from 1 to 2^45, equal in the
/// logarithm.
pub fn metric_cell(value: i64) -> u8 {
    if value <= 0 {
        return 0;
    }
    let place = (value as f64).log2() / 45.0 * (SIDE - 1) as f64;
    (1 + place as usize).min(SIDE - 1) as u8
}

/// Lower edge of a grid column.
pub fn metric_edge(cell: usize) -> f64 {
    if cell == 0 { 0.0 } else { 2_f64.powf((cell - 1) as f64 / (SIDE - 1) as f64 * 45.0) }
}

/// Counts of one metric and workload. Empty until the first call.
#[derive(Clone, Debug, Default)]
pub struct Grid(Vec<u64>);

impl Grid {
    /// Counts a call.
    pub fn add(&mut self, latency: usize, metric: u8) {
        if self.0.is_empty() {
            self.0 = vec![0; SIDE * SIDE];
        }
        self.0[latency * SIDE + usize::from(metric)] += 1;
    }

    /// Adds another thread's counts.
    pub fn merge(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(to, from)| *to += from);
    }

    /// Sum over all workloads.
    pub fn sum(grids: &[Self; 5]) -> Self {
        let mut sum = Self::default();
        grids.iter().for_each(|grid| sum.merge(grid));
        sum
    }

    /// Cells with calls: grid row, grid column, number of calls.
    fn cells(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        let cells = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        cells.map(|(at, count)| (at / SIDE, at % SIDE, *count))
    }

    /// Spearman's coefficient of the cells: values of one row or column share the mean of their
    /// ranks.
    pub fn spearman(&self) -> Option<f64> {
        let (mut rows, mut columns) = (vec![0_u64; SIDE], vec![0_u64; SIDE]);
        for (row, column, count) in self.cells() {
            rows[row] += count;
            columns[column] += count;
        }
        let n: u64 = rows.iter().sum();
        // Twice the rank minus its mean, to stay in whole numbers.
        let centred = |counts: &[u64]| -> Vec<i128> {
            let mut before = 0;
            let place = |count: &u64| {
                let twice = 2 * i128::from(before) + i128::from(*count) - i128::from(n);
                before += count;
                twice
            };
            counts.iter().map(place).collect()
        };
        let (x, y) = (centred(&rows), centred(&columns));
        let weigh = |of: &dyn Fn(usize, usize) -> i128| -> f64 {
            let parts =
                self.cells().map(|(row, column, count)| of(row, column) as f64 * count as f64);
            parts.sum()
        };
        let xy = weigh(&|row, column| x[row] * y[column]);
        let xx = weigh(&|row, _| x[row] * x[row]);
        let yy = weigh(&|_, column| y[column] * y[column]);
        (xx > 0.0 && yy > 0.0).then(|| xy / (xx.sqrt() * yy.sqrt()))
    }

    fn document(&self) -> Value {
        let cells: Vec<[u64; 3]> =
            self.cells().map(|(row, column, count)| [row as u64, column as u64, count]).collect();
        json!(cells)
    }
}

/// A call with all metrics of its row.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Point {
    /// Pseudo-random number that decides whether it is kept: the smallest are.
    pub order: u64,
    /// Workload of the call.
    pub workload: u8,
    /// Latency of the call.
    pub latency_ns: u64,
    /// Metrics, in their order.
    pub metrics: Vec<Option<i64>>,
}

/// Uniform sample of calls that does not depend on their order: each call has a pseudo-random
/// number, and the calls with the smallest numbers are kept.
#[derive(Default)]
pub struct Reservoir {
    points: Vec<Point>,
    /// Upper bound of the kept numbers, once there are enough.
    below: Option<u64>,
}

impl Reservoir {
    /// Whether a call with this number would be kept.
    pub fn wants(&self, order: u64, most: usize) -> bool {
        most > 0 && self.below.is_none_or(|below| order < below)
    }

    /// Keeps a call, up to a quarter more than required, before the largest are dropped together.
    pub fn push(&mut self, point: Point, most: usize) {
        self.points.push(point);
        if self.points.len() > most + most / 4 + 64 {
            self.shrink(most);
        }
    }

    fn shrink(&mut self, most: usize) {
        if self.points.len() <= most || most == 0 {
            self.points.truncate(most);
            return;
        }
        let (_, last, _) = self.points.select_nth_unstable(most - 1);
        self.below = Some(last.order);
        self.points.truncate(most);
    }

    /// Adds another thread's sample.
    pub fn merge(&mut self, other: Self, most: usize) {
        other.points.into_iter().for_each(|point| self.push(point, most));
    }

    /// Kept calls, by their numbers.
    fn sorted(mut self, most: usize) -> Vec<Point> {
        self.shrink(most);
        self.points.sort_unstable();
        self.points
    }
}

/// Builds document O14, with at most `most` points. `kept` maps the named metrics to those of the
/// points.
pub fn document(
    names: &[String],
    grids: &[[Grid; 5]],
    points: (Reservoir, usize),
    kept: &[usize],
) -> Value {
    let chosen = |point: &Point| -> Vec<Option<i64>> {
        kept.iter().map(|at| point.metrics.get(*at).copied().flatten()).collect()
    };
    let mut rows = Vec::new();
    for (name, grids) in names.iter().zip(grids) {
        let workloads = Workload::ALL.map(|workload| {
            (workload.name().to_owned(), grids[usize::from(workload.code())].document())
        });
        let counts = Value::Object(workloads.into_iter().collect());
        rows.push(json!({"metric": name, "cells_by_workload": counts}));
    }
    let points = points.0.sorted(points.1);
    json!({
        "cell": ["latency_row", "metric_column", "calls"],
        "latency_rows_from_ns": *EDGES,
        "metric_columns_from": (0..SIDE).map(metric_edge).collect::<Vec<_>>(),
        "grids": rows,
        "points": {
            "metrics": names,
            "workload": points.iter().map(|point| point.workload).collect::<Vec<_>>(),
            "latency_ns": points.iter().map(|point| point.latency_ns).collect::<Vec<_>>(),
            "values": points.iter().map(chosen).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::correlate::ln_fixed;

    #[test]
    fn cells_begin_where_their_edges_are() {
        let cell = |ns| latency_cell(ns, ln_fixed(ns));
        assert_eq!((cell(10), cell(99_999_999), cell(100_000_000)), (0, 124, 125));
        assert_eq!(cell(200_000_000_000), SIDE - 1);
        for (at, edge) in EDGES.iter().enumerate().skip(1) {
            assert_eq!((cell(*edge - 1), cell(*edge)), (at - 1, at));
        }
        assert_eq!((metric_cell(-3), metric_cell(0), metric_cell(1)), (0, 0, 1));
        for cell in 2..SIDE {
            assert!(usize::from(metric_cell(metric_edge(cell).ceil() as i64)) >= cell);
        }
    }

    #[test]
    fn the_calls_with_the_smallest_numbers_are_kept_in_whatever_order_they_come() {
        let point = |order| Point { order, workload: 0, latency_ns: 1, metrics: Vec::new() };
        let kept = |orders: &mut dyn Iterator<Item = u64>, most: usize| -> Vec<u64> {
            let mut parts = [Reservoir::default(), Reservoir::default()];
            for (at, order) in orders.enumerate() {
                if parts[at % 2].wants(order, most) {
                    parts[at % 2].push(point(order), most);
                }
            }
            let [mut all, other] = parts;
            all.merge(other, most);
            all.sorted(most).iter().map(|point| point.order).collect()
        };
        let smallest: Vec<u64> = (0..100).collect();
        assert_eq!(kept(&mut (0..5_000), 100), smallest);
        assert_eq!(kept(&mut (0..5_000).rev(), 100), smallest);
        assert_eq!(kept(&mut (0..5_000).map(|n| n * 2_741 % 5_000), 100), smallest);
        assert_eq!(kept(&mut (0..50), 100), (0..50).collect::<Vec<_>>());
        assert!(kept(&mut (0..50), 0).is_empty());
    }

    #[test]
    fn spearman_sees_order_alone() {
        let mut grid = Grid::default();
        (0..50).for_each(|step| grid.add(step, (step * step / 20) as u8));
        assert!(grid.spearman().unwrap() > 0.99);
        let mut grid = Grid::default();
        (0..50).for_each(|step| grid.add(step, 50 - step as u8));
        assert!((grid.spearman().unwrap() + 1.0).abs() < 1e-12);
        assert_eq!(Grid::default().spearman(), None);
    }
}
