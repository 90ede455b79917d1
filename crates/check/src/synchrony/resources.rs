//! Calls beside the resource use of their callees.

use super::{Latency, Row, quantile};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A row of the table `res`: a second of a host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostRow {
    /// The day since 1970.
    pub day: i64,
    /// The host.
    pub node: u16,
    /// Time on the host's own clock.
    pub t_ns: i64,
    /// Metrics of the host.
    pub metrics: BTreeMap<String, i64>,
}

/// A call and the row of its callee.
pub type Pair<'a> = (&'a Row, &'a HostRow);

/// Finds the row of each call that was answered in time: the nearest row of the callee on that day
/// within two seconds, of two equally near rows the earlier.
pub fn pairs<'a>(rows: &'a [Row], hosts: &'a [HostRow]) -> Vec<Pair<'a>> {
    let ok = rows.iter().filter(|row| row.status == 0);
    ok.filter_map(|row| {
        let received_ns = row.t_sched_ns + i64::from(row.rx_off_us?) * 1000;
        let own = hosts.iter().filter(|host| (host.day, host.node) == (row.day, row.dst));
        let nearest = own.min_by_key(|host| (host.t_ns.abs_diff(received_ns), host.t_ns))?;
        (nearest.t_ns.abs_diff(received_ns) <= 2_000_000_000).then_some((row, nearest))
    })
    .collect()
}

/// Statistics of the pairing.
pub fn pairing(rows: &[Row], pairs: &[Pair<'_>]) -> Value {
    let ok = rows.iter().filter(|row| row.status == 0).count();
    json!({"ok_calls": ok, "paired": pairs.len()})
}

/// Pearson's coefficient, by its definition.
fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (mean_x, mean_y) = (mean(x), mean(y));
    let mut sums = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (x, y) = (x - mean_x, y - mean_y);
        sums = (sums.0 + x * y, sums.1 + x * x, sums.2 + y * y);
    }
    (sums.1 > 0.0 && sums.2 > 0.0).then(|| sums.0 / (sums.1.sqrt() * sums.2.sqrt()))
}

/// Ranks from 1; equal values have the mean of their ranks.
fn ranks(values: &[u32]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = |value: &u32| {
        let below = sorted.partition_point(|other| other < value);
        let same = sorted[below..].partition_point(|other| other == value);
        below as f64 + (same as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

/// The cell of a latency and of a metric in a grid of 200 by 200: rows begin at whole nanoseconds,
/// 25 in a power of ten; the first column is for zero and below.
fn cell(latency_ns: f64, metric: i64) -> (u32, u32) {
    let edge = |row: u32| (1000.0 * 10_f64.powf(f64::from(row) / 25.0)).round();
    let row = (1..200).take_while(|row| edge(*row) <= latency_ns).count();
    let column = if metric <= 0 { 0.0 } else { 1.0 + (metric as f64).log2() / 45.0 * 199.0 };
    (row as u32, column.min(199.0) as u32)
}

fn coefficients(pairs: &[(f64, i64)]) -> Value {
    let x: Vec<f64> = pairs.iter().map(|(x, _)| *x).collect();
    let y: Vec<f64> = pairs.iter().map(|(_, y)| *y as f64).collect();
    let logarithms: Vec<f64> = x.iter().map(|x| x.ln()).collect();
    json!({"n": pairs.len(), "pearson_r": pearson(&x, &y), "pearson_r_ln": pearson(&logarithms, &y)})
}

fn spearman(pairs: &[(f64, i64)]) -> Option<f64> {
    let cells: Vec<(u32, u32)> = pairs.iter().map(|(x, y)| cell(*x, *y)).collect();
    let rows: Vec<u32> = cells.iter().map(|cell| cell.0).collect();
    let columns: Vec<u32> = cells.iter().map(|cell| cell.1).collect();
    pearson(&ranks(&rows), &ranks(&columns))
}

/// Correlations with latency: for each metric, over all pairs and over those of high latency.
pub fn correlations(rows: &[Row], pairs: &[Pair<'_>], metric: &str) -> Value {
    let mut high_from = BTreeMap::new();
    for workload in 0..5_u8 {
        let all = super::calls(rows, |row| row.workload == workload);
        high_from.insert(workload, quantile(&all, 990_000).unwrap_or(Latency::Never));
    }
    let chosen = |choose: &dyn Fn(&Row) -> bool| -> Vec<(f64, i64)> {
        let own = pairs.iter().filter(|(row, _)| choose(row));
        own.filter_map(|(row, host)| match (row.latency(), host.metrics.get(metric)) {
            (Latency::Ns(ns), Some(value)) => Some((ns as f64, *value)),
            _ => None,
        })
        .collect()
    };
    let high = |row: &Row| row.latency() >= high_from[&row.workload];
    let mut all = coefficients(&chosen(&|_| true));
    all["spearman_r"] = json!(spearman(&chosen(&|_| true)));
    let names = ["null", "crypto", "disk", "network", "all"];
    for (workload, name) in (0..).zip(names) {
        let own = chosen(&|row| row.workload == workload);
        if !own.is_empty() {
            all["by_workload"][name] = coefficients(&own);
            all["by_workload"][name]["spearman_r"] = json!(spearman(&own));
        }
    }
    json!({"metric": metric, "all": all, "high": coefficients(&chosen(&high))})
}

/// Times in which calls were later than a level, separated by a minute of rest.
pub fn episodes(rows: &[Row], pairs: &[Pair<'_>], level_ns: u64) -> Value {
    let mut late: Vec<&Row> =
        rows.iter().filter(|row| row.counts() && row.latency() > Latency::Ns(level_ns)).collect();
    late.sort_by_key(|row| row.t_sched_ns);
    let mut list: Vec<Vec<&Row>> = Vec::new();
    for row in late {
        match list.last_mut() {
            Some(last) if row.t_sched_ns - last[last.len() - 1].t_sched_ns < 60_000_000_000 => {
                last.push(row);
            }
            _ => list.push(vec![row]),
        }
    }
    let stall = |row: &Row| {
        let pair = pairs.iter().find(|(paired, _)| std::ptr::eq(*paired, row))?;
        pair.1.metrics.get("stall_max_us").map(|us| us.unsigned_abs() * 2000 >= level_ns)
    };
    let told = list.iter().map(|calls| {
        let known: Vec<bool> = calls.iter().filter_map(|row| stall(row)).collect();
        let stalled = known.iter().filter(|stalled| **stalled).count() * 2 >= known.len();
        let length_ns = calls[calls.len() - 1].t_sched_ns - calls[0].t_sched_ns;
        json!({
            "begin_ns": calls[0].t_sched_ns,
            "length_ms": length_ns / 1_000_000,
            "calls": calls.len(),
            "no_reply": calls.iter().filter(|row| row.latency() == Latency::Never).count(),
            "callees": calls.iter().map(|row| row.dst).collect::<BTreeSet<_>>(),
            "callers": calls.iter().map(|row| row.src).collect::<BTreeSet<_>>(),
            "stalled": (!known.is_empty()).then_some(stalled),
        })
    });
    told.collect()
}
