//! Slow nodes, in the view of each observer, and the agreement of observers.

use super::{Latency, Row, quantile};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Quantity and threshold by which an observer compares.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// `seed`, `remote`, `service` or `action`.
    pub variant: &'static str,
    /// The quantile, in parts per million.
    pub quantile: u64,
    /// Tenths of the factor: 20 is twice.
    pub tenths: u64,
    /// Additional margin that `action` requires, in nanoseconds.
    pub floor_ns: u64,
}

impl Watch {
    /// The plain rule: p90, twice.
    pub const fn plain(variant: &'static str, floor_ns: u64) -> Self {
        Self { variant, quantile: 900_000, tenths: 20, floor_ns }
    }

    fn is_slow(&self, value: Latency, least: Latency) -> bool {
        let (Latency::Ns(value), Latency::Ns(least)) = (value, least) else { return value > least };
        let enough = self.variant != "action" || value - least >= self.floor_ns;
        enough && u128::from(value) * 10 >= u128::from(least) * u128::from(self.tenths)
    }

    /// Nodes that are slow in the view of an observer, from its calls.
    fn slow(&self, observer: u16, rows: &[&Row]) -> BTreeSet<u16> {
        let mut values: BTreeMap<u16, Vec<Latency>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.counts()) {
            if row.dst == observer && self.variant != "seed" {
                continue;
            }
            if self.variant != "service" {
                values.entry(row.dst).or_default().push(row.latency());
            } else if let (Some(svc), Latency::Ns(_)) = (row.svc_100ns, row.latency()) {
                values.entry(row.dst).or_default().push(Latency::Ns(u64::from(svc) * 100));
            }
        }
        let seen: BTreeMap<u16, Latency> = values
            .into_iter()
            .filter_map(|(dst, values)| Some((dst, quantile(&values, self.quantile)?)))
            .collect();
        let Some(least) = seen.values().min() else { return BTreeSet::new() };
        seen.iter()
            .filter(|(_, value)| self.is_slow(**value, *least))
            .map(|(dst, _)| *dst)
            .collect()
    }
}

/// The sets of all observers, by day, group and observer, with the group's size.
/// Latencies by caller and callee.
type ByPair = BTreeMap<(u16, u16), Vec<Latency>>;

type Sets = BTreeMap<(i64, u16, u16), (u8, BTreeSet<u16>)>;

fn sets(rows: &[Row], watch: &Watch) -> Sets {
    let mut days: BTreeMap<(i64, u16, u16), Vec<&Row>> = BTreeMap::new();
    rows.iter().for_each(|row| days.entry((row.day, row.group, row.src)).or_default().push(row));
    days.into_iter().map(|(key, rows)| (key, (rows[0].size, watch.slow(key.2, &rows)))).collect()
}

/// The sets that are not empty.
pub fn slow_sets(rows: &[Row], watch: &Watch) -> Value {
    let sets = sets(rows, watch);
    let told = sets.iter().filter(|(_, (_, slow))| !slow.is_empty());
    told.map(|((day, group, observer), (_, slow))| {
        json!({"day": day, "group": group, "observer": observer, "slow": slow})
    })
    .collect()
}

/// Histogram of the number of nodes that an observer calls slow, in groups of one size.
pub fn slow_histogram(rows: &[Row], watch: &Watch, size: u8) -> Value {
    let sets = sets(rows, watch);
    let of_size: Vec<&BTreeSet<u16>> =
        sets.values().filter(|(found, _)| *found == size).map(|(_, slow)| slow).collect();
    let counts: Vec<usize> = (0..=usize::from(size))
        .map(|many| of_size.iter().filter(|slow| slow.len() == many).count())
        .collect();
    json!({"observer_days": of_size.len(), "counts": counts})
}

/// Similarity of the sets of two observers of one group.
pub fn jaccard(rows: &[Row], watch: &Watch) -> Value {
    let sets = sets(rows, watch);
    let mut found = Vec::new();
    for ((day, group, a), (_, slow_a)) in &sets {
        for ((other_day, other_group, b), (_, slow_b)) in &sets {
            if (day, group) != (other_day, other_group) || a >= b {
                continue;
            }
            let mut pair = [slow_a.clone(), slow_b.clone()];
            if watch.variant != "seed" {
                pair[0].remove(b);
                pair[1].remove(a);
            }
            if pair.iter().any(BTreeSet::is_empty) {
                continue;
            }
            let common = pair[0].intersection(&pair[1]).count();
            let all = pair[0].union(&pair[1]).count();
            found.push((common, all));
        }
    }
    let bin = |at: usize| {
        let within = |(common, all): &&(usize, usize)| (common * 10 / all).min(9) == at;
        found.iter().filter(within).count()
    };
    let sum: f64 = found.iter().map(|(common, all)| *common as f64 / *all as f64).sum();
    json!({
        "pairs": found.len(),
        "identical": found.iter().filter(|(common, all)| common == all).count(),
        "histogram": (0..10).map(bin).collect::<Vec<_>>(),
        "mean": if found.is_empty() { Value::Null } else { json!(sum / found.len() as f64) },
    })
}

/// [`slow_histogram`] for every factor and quantile, in the order of the analyses.
pub fn sensitivity(rows: &[Row], floor_ns: u64, size: u8) -> Value {
    let mut told = Vec::new();
    for variant in ["seed", "remote", "service", "action"] {
        for tenths in [15, 20, 30, 40] {
            for quantile in [500_000, 900_000, 990_000] {
                let watch = Watch { variant, quantile, tenths, floor_ns };
                let observations: usize =
                    sets(rows, &watch).values().map(|(_, slow)| slow.len()).sum();
                told.push(json!({
                    "variant": variant,
                    "factor": tenths as f64 / 10.0,
                    "quantile_ppm": quantile,
                    "slow_observations": observations,
                    "slow_histogram": slow_histogram(rows, &watch, size),
                    "jaccard": jaccard(rows, &watch),
                }));
            }
        }
    }
    told.into()
}

const WINDOW_NS: i64 = 600 * 1_000_000_000;
const DAY_NS: i64 = 86_400 * 1_000_000_000;

/// For each node, the number of windows of ten minutes in which it had observers, and of those in
/// which most observers called it slow.
pub fn slow_timeline(rows: &[Row], floor_ns: u64) -> Value {
    let watch = Watch::plain("action", floor_ns);
    let mut windows: BTreeMap<(i64, i64, u16, u16), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let window = (row.t_sched_ns - row.day * DAY_NS).div_euclid(WINDOW_NS);
        windows.entry((row.day, window, row.group, row.src)).or_default().push(row);
    }
    let mut votes: BTreeMap<(u16, i64, i64), (u32, u32)> = BTreeMap::new();
    for ((day, window, _, observer), rows) in windows {
        let mut enough: BTreeMap<u16, Vec<&Row>> = BTreeMap::new();
        for row in rows.into_iter().filter(|row| row.counts()) {
            enough.entry(row.dst).or_default().push(row);
        }
        enough.retain(|_, rows| rows.len() >= 10);
        let rows: Vec<&Row> = enough.values().flatten().copied().collect();
        let slow = watch.slow(observer, &rows);
        for dst in enough.keys().filter(|dst| **dst != observer) {
            let vote = votes.entry((*dst, day, window)).or_default();
            vote.0 += u32::from(slow.contains(dst));
            vote.1 += 1;
        }
    }
    let nodes: BTreeSet<u16> = votes.keys().map(|(node, _, _)| *node).collect();
    let told = nodes.into_iter().map(|node| {
        let own: Vec<&(u32, u32)> =
            votes.iter().filter(|((of, _, _), _)| *of == node).map(|(_, vote)| vote).collect();
        let slow = own.iter().filter(|(slow, observers)| slow * 2 > *observers).count();
        json!({"node": node, "windows": own.len(), "slow_windows": slow})
    });
    told.collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The value at rank ceil(n / 2).
    sorted.get(sorted.len().div_ceil(2).max(1) - 1).copied().unwrap_or_default()
}

fn variance(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n
}

/// For each day and group, the parts of the variance of ln p90 that belong to callees, links and
/// observers, after twenty rounds of subtracting medians.
pub fn node_or_link(rows: &[Row]) -> Value {
    let mut cells: BTreeMap<(i64, u16), ByPair> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.counts()) {
        let group = cells.entry((row.day, row.group)).or_default();
        group.entry((row.src, row.dst)).or_default().push(row.latency());
    }
    let mut told = Vec::new();
    for ((day, group), pairs) in cells {
        let mut rest: BTreeMap<(u16, u16), f64> = BTreeMap::new();
        for (pair, latencies) in &pairs {
            if let (Some(Latency::Ns(ns)), true) = (quantile(latencies, 900_000), pair.0 != pair.1)
            {
                rest.insert(*pair, (ns as f64).ln());
            }
        }
        let observers: BTreeSet<u16> = pairs.keys().map(|pair| pair.0).collect();
        let callees: BTreeSet<u16> = pairs.keys().map(|pair| pair.1).collect();
        let mut parts: [BTreeMap<u16, f64>; 2] = Default::default();
        for _ in 0..20 {
            for (side, nodes) in [(0, &observers), (1, &callees)] {
                for node in nodes {
                    let own = |pair: &(u16, u16)| [pair.0, pair.1][side] == *node;
                    let values: Vec<f64> = rest
                        .iter()
                        .filter(|(pair, _)| own(pair))
                        .map(|(_, value)| *value)
                        .collect();
                    let shift = median(&values);
                    rest.iter_mut().filter(|(pair, _)| own(pair)).for_each(|(_, v)| *v -= shift);
                    *parts[side].entry(*node).or_default() += shift;
                }
            }
        }
        let of =
            |values: &BTreeMap<u16, f64>| variance(&values.values().copied().collect::<Vec<_>>());
        let link = variance(&rest.values().copied().collect::<Vec<_>>());
        let [observer, node] = [of(&parts[0]), of(&parts[1])];
        let all = observer + node + link;
        told.push(json!({
            "day": day,
            "group": group,
            "node_share": node / all,
            "link_share": link / all,
            "observer_share": observer / all,
        }));
    }
    told.into()
}
