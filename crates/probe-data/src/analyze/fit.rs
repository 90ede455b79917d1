//! O11: causes of slowness: nodes, links, or observers.
//!
//! The logarithm of each pair's p90 is decomposed into an observer's part, a callee's part and a
//! residual, by medians. If the callees' parts vary most, nodes are slow; if the residual does,
//! links are.

use super::slow::{ObserverDay, Rule, Variant};
use probe::rank::of_sorted;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const P90: usize = 1;
const ROUNDS: usize = 20;
const ENOUGH: f64 = 1e-12;

/// A table of observers by callees; pairs without measurements are `None`.
type Cells = Vec<Vec<Option<f64>>>;

/// Components of a table.
#[derive(Clone, Debug, Default)]
pub struct Fit {
    observers: Vec<f64>,
    callees: Vec<f64>,
    rest: Cells,
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    of_sorted(&values, 500_000).unwrap_or_default()
}

/// Decomposes a table by medians, rows and columns in turn.
pub fn polish(cells: &Cells) -> Fit {
    let columns = cells.first().map_or(0, Vec::len);
    let mut fit =
        Fit { observers: vec![0.0; cells.len()], callees: vec![0.0; columns], rest: cells.clone() };
    for _ in 0..ROUNDS {
        let mut moved = 0.0_f64;
        for (row, part) in fit.rest.iter_mut().zip(&mut fit.observers) {
            let shift = median(row.iter().flatten().copied());
            row.iter_mut().flatten().for_each(|cell| *cell -= shift);
            *part += shift;
            moved = moved.max(shift.abs());
        }
        for column in 0..columns {
            let shift = median(fit.rest.iter().filter_map(|row| row[column]));
            fit.rest
                .iter_mut()
                .filter_map(|row| row[column].as_mut())
                .for_each(|cell| *cell -= shift);
            fit.callees[column] += shift;
            moved = moved.max(shift.abs());
        }
        if moved < ENOUGH {
            break;
        }
    }
    fit
}

fn variance(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let n = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / n;
    values.map(|value| (value - mean) * (value - mean)).sum::<f64>() / n
}

impl Fit {
    /// Variances of the observers' parts, the callees' parts and the residual.
    pub fn variances(&self) -> [f64; 3] {
        [
            variance(self.observers.iter().copied()),
            variance(self.callees.iter().copied()),
            variance(self.rest.iter().flatten().flatten().copied()),
        ]
    }
}

/// Builds document O11: one row for each group and day; and, of those with a node that is slow by a
/// margin, the row with the median share of nodes. Without a slow node the differences are noise,
/// which appears as part of links and of the moments at which observers call.
pub fn node_or_link(days: &[ObserverDay], floor_ns: u64) -> Value {
    let rule = Rule::plain(Variant::Action, floor_ns);
    let mut groups: BTreeMap<(i64, u16), Vec<&ObserverDay>> = BTreeMap::new();
    days.iter().for_each(|day| groups.entry((day.day, day.group)).or_default().push(day));
    let mut rows = Vec::new();
    let mut slow: Vec<[f64; 3]> = Vec::new();
    for ((day, group), observers) in groups {
        let mut callees: Vec<u16> =
            observers.iter().flat_map(|one| one.seen.iter().map(|seen| seen.dst)).collect();
        callees.sort_unstable();
        callees.dedup();
        let cells: Cells = observers
            .iter()
            .map(|one| {
                let cell = |dst: &u16| {
                    let seen =
                        one.seen.iter().find(|seen| seen.dst == *dst && *dst != one.observer)?;
                    let p90_ns = seen.latency_ns[P90];
                    (p90_ns != u64::MAX && p90_ns > 0).then(|| (p90_ns as f64).ln())
                };
                callees.iter().map(cell).collect()
            })
            .collect();
        let [observer, node, link] = polish(&cells).variances();
        let all = observer + node + link;
        if all <= 0.0 {
            continue;
        }
        let share = [node / all, link / all, observer / all];
        if observers.iter().any(|one| !rule.slow(one).is_empty()) {
            slow.push(share);
        }
        rows.push(json!({
            "day": day,
            "group": group,
            "node_share": share[0],
            "link_share": share[1],
            "observer_share": share[2],
        }));
    }
    slow.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let where_slow = slow.get(slow.len().saturating_sub(1) / 2).map(|[node, link, observer]| {
        json!({
            "group_days": slow.len(),
            "node_share": node,
            "link_share": link,
            "observer_share": observer,
        })
    });
    json!({ "group_days": rows.len(), "where_slow": where_slow, "rows": rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(value: impl Fn(usize, usize) -> f64) -> Cells {
        let cell = |y: usize, x: usize| (y != x).then(|| value(y, x));
        (0..7).map(|y| (0..7).map(|x| cell(y, x)).collect()).collect()
    }

    #[test]
    fn what_varies_is_found() {
        let slow_node = polish(&table(|_, x| if x == 3 { 4.0 } else { 1.0 })).variances();
        assert!(slow_node[1] > 1.0 && slow_node[0] < 1e-9 && slow_node[2] < 1e-9, "{slow_node:?}");
        let slow_link = polish(&table(|y, x| if (y, x) == (2, 3) { 4.0 } else { 1.0 })).variances();
        assert!(slow_link[2] > 0.1 && slow_link[0] < 1e-9 && slow_link[1] < 1e-9, "{slow_link:?}");
        let sick = polish(&table(|y, _| if y == 5 { 4.0 } else { 1.0 })).variances();
        assert!(sick[0] > 1.0 && sick[1] < 1e-9 && sick[2] < 1e-9, "{sick:?}");
    }
}
