//! Gamma accuracy: number of nodes that never suspect, or are never suspected, wrongly.
//!
//! A Gamma-accurate failure detector makes no mistakes within a set Gamma of nodes. The size of
//! that set depends on the time-out and on the window in which no mistake may happen. The
//! literature reads it in more than one way, so all readings are computed: observers that are right
//! about all nodes (strong), observers that are right about one node, for the best such node
//! (weak), and nodes about which all observers are right (targets). Consensus with a detector of
//! scope k tolerates f < min(k, n/2) crashes: the weak reading must reach f + 1.
//!
//! For every window and group the worst latency of each pair is kept; all three readings at any
//! time-out follow from it exactly.

use super::round::{Group, Round};
use super::suspicion::levels_ns;
use super::tail::LOST;
use super::{Evidence, Needs, ms};
use serde::Serialize;
use std::collections::BTreeMap;

/// Largest group size.
pub const SIZE_MAX: usize = 9;

/// One group in one window: the worst latency of every observed pair.
#[derive(Clone, Debug, Default)]
pub struct Worst {
    /// Worst latency by caller and callee, including calls of a node to itself.
    pub by_pair: BTreeMap<(u16, u16), u64>,
    /// Members of the group.
    pub size: u8,
}

impl Worst {
    /// Nodes that have called another node.
    pub fn observers(&self) -> Vec<u16> {
        let mut all: Vec<u16> = self.by_pair.keys().map(|(from, _)| *from).collect();
        all.dedup();
        all
    }

    /// Nodes that another node has called while they were alive.
    pub fn targets(&self) -> Vec<u16> {
        let mut all: Vec<u16> =
            self.by_pair.keys().filter(|(from, to)| from != to).map(|(_, to)| *to).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Worst latency of a pair. A node does not suspect itself, so its calls to itself are no
    /// mistakes.
    fn between(&self, from: u16, to: u16) -> u64 {
        if from == to { 0 } else { self.by_pair.get(&(from, to)).copied().unwrap_or(0) }
    }

    /// Least time-out at which a reading has each cardinality, ascending, from cardinality 1 on.
    fn thresholds_ns(&self, reading: Reading) -> Vec<u64> {
        let (observers, targets) = (self.observers(), self.targets());
        let worst = |of: &mut dyn Iterator<Item = u64>| of.max().unwrap_or(0);
        let mut thresholds: Vec<u64> = match reading {
            Reading::Strong => observers
                .iter()
                .map(|from| worst(&mut targets.iter().map(|to| self.between(*from, *to))))
                .collect(),
            Reading::Target => targets
                .iter()
                .map(|to| worst(&mut observers.iter().map(|from| self.between(*from, *to))))
                .collect(),
            Reading::Weak => {
                // For each target the k-th best observer; then the best target for each k.
                let mut best = vec![LOST; observers.len()];
                for to in &targets {
                    let mut seen: Vec<u64> =
                        observers.iter().map(|from| self.between(*from, *to)).collect();
                    seen.sort_unstable();
                    best.iter_mut().zip(seen).for_each(|(best, ns)| *best = ns.min(*best));
                }
                best
            }
        };
        thresholds.sort_unstable();
        thresholds
    }
}

/// Reading of "Gamma-accurate".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Observers that are right about all nodes.
    Strong,
    /// Observers that are right about one node, for the best such node.
    Weak,
    /// Nodes about which every observer is right.
    Target,
}

impl Reading {
    /// All readings.
    pub const ALL: [Self; 3] = [Self::Strong, Self::Weak, Self::Target];
}

/// Collects the worst latencies.
#[derive(Clone, Debug)]
pub struct Windows {
    window_ns: i64,
    by_window: BTreeMap<(i64, Group), Worst>,
}

impl Windows {
    /// Creates windows of this length, counted from the beginning of 1970, so that a day is a day
    /// in UTC.
    pub fn new(window_ns: i64) -> Self {
        Self { window_ns: window_ns.max(1), by_window: BTreeMap::new() }
    }

    /// Adds a round.
    pub fn observe(&mut self, round: &Round) {
        let window = round.at_ns.div_euclid(self.window_ns);
        let worst = self.by_window.entry((window, round.group)).or_default();
        worst.size = worst.size.max(round.size);
        for edge in &round.edges {
            let seen = worst.by_pair.entry((round.from, edge.to)).or_insert(0);
            *seen = edge.latency_ns.max(*seen);
        }
    }

    /// Each group in each window.
    pub fn all(&self) -> impl Iterator<Item = &Worst> {
        self.by_window.values()
    }

    /// Group sizes in the data.
    pub fn sizes(&self) -> Vec<u8> {
        let mut sizes: Vec<u8> = self.all().map(|worst| worst.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// Findings on groups of one size.
#[derive(Clone, Debug, Serialize)]
pub struct OfSize {
    /// Number of members.
    pub size: u8,
    /// Crashes to tolerate.
    pub crashes: u8,
    /// Number of windows, over all groups of that size.
    pub windows: u64,
    /// Least time-out with which the weak reading reaches crashes + 1, with the accepted risk;
    /// `None` if a reply was lost in too many windows, or if half of the group or more is to crash.
    pub timeout_ms: Option<f64>,
    /// Knee of the weak reading's curve: the point furthest from the straight line on a logarithmic
    /// axis.
    pub knee_ms: Option<f64>,
    /// Evidence for the choice.
    pub evidence: Evidence,
    /// Number of windows in which one failure would be visible.
    pub needs: Needs,
    /// Least time-out for every cardinality, by reading.
    pub thresholds: Vec<Threshold>,
    /// Curve over the grid of time-outs.
    pub curve: Vec<Point>,
}

/// Least time-out with which a cardinality can be guaranteed.
#[derive(Clone, Debug, Serialize)]
pub struct Threshold {
    /// Reading of Gamma.
    pub reading: Reading,
    /// Cardinality of Gamma.
    pub cardinality: u8,
    /// Time-out; `None` if no time-out suffices.
    pub timeout_ms: Option<f64>,
}

/// Cardinalities that can be guaranteed with a time-out.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The time-out.
    pub timeout_ms: f64,
    /// Observers that are right about all nodes.
    pub strong: u8,
    /// Observers that are right about the best node.
    pub weak: u8,
    /// Nodes about which all are right.
    pub target: u8,
}

/// Computes for groups of each size the cardinality that each time-out gives in all but a fraction
/// `risk` of the windows. `crashes` is f; by default, the number of a minority.
pub fn cardinalities(windows: &Windows, crashes: Option<u8>, risk: f64) -> Vec<OfSize> {
    let sizes = windows.sizes().into_iter();
    sizes.map(|size| of_size(windows, size, crashes, risk)).collect()
}

/// Index in an ascending list of the windows' thresholds at which all but a fraction `risk` are
/// satisfied: the eps-quantile of cardinalities is at least k exactly if fewer windows than
/// ceil(eps n) fall short of it.
fn promised(windows: usize, risk: f64) -> usize {
    let short = ((risk * windows as f64).ceil() as usize).clamp(1, windows.max(1));
    windows.saturating_sub(short)
}

fn of_size(windows: &Windows, size: u8, crashes: Option<u8>, risk: f64) -> OfSize {
    let crashes = crashes.unwrap_or((size - 1) / 2);
    let mine: Vec<&Worst> = windows.all().filter(|worst| worst.size == size).collect();
    let mut thresholds_ns: BTreeMap<Reading, Vec<u64>> = BTreeMap::new();
    for reading in Reading::ALL {
        let each: Vec<Vec<u64>> = mine.iter().map(|worst| worst.thresholds_ns(reading)).collect();
        let of = |cardinality: usize| {
            let missing = |list: &Vec<u64>| list.get(cardinality - 1).copied().unwrap_or(LOST);
            let mut needed: Vec<u64> = each.iter().map(missing).collect();
            needed.sort_unstable();
            needed.get(promised(needed.len(), risk)).copied().unwrap_or(LOST)
        };
        thresholds_ns.insert(reading, (1..=usize::from(size)).map(of).collect());
    }
    let at = |reading: Reading, timeout_ns: u64| {
        thresholds_ns[&reading].iter().filter(|needed| **needed <= timeout_ns).count() as u8
    };
    let curve: Vec<Point> = levels_ns()
        .into_iter()
        .map(|level| Point {
            timeout_ms: level as f64 / 1e6,
            strong: at(Reading::Strong, level),
            weak: at(Reading::Weak, level),
            target: at(Reading::Target, level),
        })
        .collect();
    let thresholds = thresholds_ns.iter().flat_map(|(reading, list)| {
        let of =
            |(ns, cardinality)| Threshold { reading: *reading, cardinality, timeout_ms: ms(ns) };
        list.iter().copied().zip(1..).map(of)
    });
    let tolerated = 2 * u16::from(crashes) < u16::from(size);
    let chosen = thresholds_ns[&Reading::Weak].get(usize::from(crashes)).copied();
    OfSize {
        size,
        crashes,
        windows: mine.len() as u64,
        timeout_ms: chosen.filter(|_| tolerated).and_then(ms),
        knee_ms: knee(&curve),
        // With fewer windows than 1 / risk even the worst one guarantees less than required.
        evidence: Evidence {
            extrapolated: (mine.len() as f64) * risk < 1.0,
            ..Evidence::counted(mine.len() as u64)
        },
        needs: Needs::of(1.0 / risk, mine.len() as f64, "windows"),
        thresholds: thresholds.collect(),
        curve,
    }
}

/// Point of the weak curve that is furthest above the chord from its last zero to its first full
/// value, on a logarithmic axis of time.
fn knee(curve: &[Point]) -> Option<f64> {
    let full = curve.iter().map(|point| point.weak).max().filter(|most| *most > 0)?;
    let end = curve.iter().position(|point| point.weak == full)?;
    let start = curve.iter().position(|point| point.weak > 0)?.saturating_sub(1);
    if end <= start + 1 {
        return Some(curve[end].timeout_ms);
    }
    let (x0, y0) = (curve[start].timeout_ms.ln(), f64::from(curve[start].weak));
    let (x1, y1) = (curve[end].timeout_ms.ln(), f64::from(full));
    let above = |point: &Point| {
        f64::from(point.weak) - y0 - (point.timeout_ms.ln() - x0) / (x1 - x0) * (y1 - y0)
    };
    let within = curve[start..=end].iter();
    within.max_by(|a, b| above(a).total_cmp(&above(b))).map(|point| point.timeout_ms)
}

#[cfg(test)]
mod tests {
    use super::super::round::made::round;
    use super::*;
    use crate::random::Numbers;

    const MS: u64 = 1_000_000;
    const DAY_NS: i64 = 86_400_000_000_000;

    /// Node 2 is slow for all nodes but itself; node 0 sees node 1 slowly as well.
    fn three() -> Windows {
        let mut windows = Windows::new(DAY_NS);
        for second in 0..10 {
            windows.observe(&round(second, 0, &[MS, 20 * MS, 100 * MS]));
            windows.observe(&round(second, 1, &[2 * MS, MS, 200 * MS]));
            windows.observe(&round(second, 2, &[3 * MS, 4 * MS, 500 * MS]));
        }
        windows
    }

    #[test]
    fn the_three_readings_of_a_small_group() {
        let found = &cardinalities(&three(), None, 0.01)[0];
        assert_eq!((found.size, found.crashes, found.windows), (3, 1, 1));
        let of = |reading: Reading| -> Vec<f64> {
            let mine = found.thresholds.iter().filter(|one| one.reading == reading);
            mine.map(|one| one.timeout_ms.unwrap()).collect()
        };
        // Observer 2 is right about all nodes from 4 ms, 0 from 100 ms, 1 from 200 ms.
        assert_eq!(of(Reading::Strong), [4.0, 100.0, 200.0]);
        // About node 0: itself always, 1 from 2 ms, 2 from 3 ms.
        assert_eq!(of(Reading::Weak), [0.0, 2.0, 3.0]);
        // Node 0 is never suspected from 3 ms, node 1 from 20 ms, node 2 from 200 ms.
        assert_eq!(of(Reading::Target), [3.0, 20.0, 200.0]);
        assert_eq!(found.timeout_ms, Some(2.0));
        assert!(found.evidence.extrapolated, "one window says nothing about one in a hundred");
    }

    #[test]
    fn no_time_out_is_named_for_half_of_the_group() {
        assert_eq!(cardinalities(&three(), Some(2), 0.01)[0].timeout_ms, None);
    }

    #[test]
    fn a_risk_leaves_out_the_worst_windows() {
        let mut windows = Windows::new(1_000_000_000);
        for second in 0..100 {
            let late = if second == 50 { LOST } else { (second as u64 + 1) * MS };
            windows.observe(&round(second, 0, &[MS, late, late]));
            windows.observe(&round(second, 1, &[late, MS, late]));
            windows.observe(&round(second, 2, &[late, late, MS]));
        }
        assert_eq!(cardinalities(&windows, None, 0.01)[0].timeout_ms, None);
        assert_eq!(cardinalities(&windows, None, 0.02)[0].timeout_ms, Some(100.0));
        assert_eq!(cardinalities(&windows, None, 0.03)[0].timeout_ms, Some(99.0));
    }

    #[test]
    fn gamma_never_falls_with_the_time_out() {
        let mut draws = Numbers::new(3);
        let mut windows = Windows::new(20_000_000_000);
        for second in 0..400 {
            for from in 0..5 {
                let mut latency = || (1e6 * (-draws.unit().ln()).powi(4)) as u64;
                let latencies: Vec<u64> = (0..5).map(|_| latency()).collect();
                windows.observe(&round(second, from, &latencies));
            }
        }
        let found = &cardinalities(&windows, None, 0.05)[0];
        for two in found.curve.windows(2) {
            assert!(two[0].strong <= two[1].strong);
            assert!(two[0].weak <= two[1].weak);
            assert!(two[0].target <= two[1].target);
        }
        // An observer that is right about all nodes is right about each: weak is never below
        // strong.
        assert!(found.curve.iter().all(|point| point.strong <= point.weak));
        let knee = found.knee_ms.unwrap();
        assert!(knee > 0.1 && knee < 60_000.0);
    }
}
