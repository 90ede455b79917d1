//! O15: times in which nodes were slow, in windows of ten minutes, and their durations.

use crate::analyze::passes::observe::{WINDOW_NS, Windows};
use probe::rank::of_sorted;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One window of a node.
struct Window {
    day: i64,
    window: u32,
    slow: u32,
    observers: u32,
}

impl Window {
    /// Whether most observers see the node as slow.
    const fn is_slow(&self) -> bool {
        self.slow * 2 > self.observers
    }
}

/// Durations of stays in a state, in seconds.
fn sojourns(lengths: &mut [u64]) -> Value {
    lengths.sort_unstable();
    json!({
        "count": lengths.len(),
        "p50_s": of_sorted(lengths, 500_000),
        "p90_s": of_sorted(lengths, 900_000),
        "max_s": lengths.last(),
    })
}

/// Builds document O15.
pub fn slow_timeline(windows: &Windows, names: &[String]) -> Value {
    let mut nodes: BTreeMap<u16, Vec<Window>> = BTreeMap::new();
    for ((day, node), found) in windows {
        let found = found.iter().map(|(window, (slow, observers))| Window {
            day: *day,
            window: *window,
            slow: *slow,
            observers: *observers,
        });
        nodes.entry(*node).or_default().extend(found);
    }
    let length_s = WINDOW_NS / 1_000_000_000;
    let window_s = length_s.unsigned_abs();
    let (mut slow_s, mut normal_s) = (Vec::new(), Vec::new());
    let mut rows = Vec::new();
    for (node, windows) in &nodes {
        let mut runs: Vec<Value> = Vec::new();
        // Stays: windows adjacent in time and with the same state.
        let neighbours = |a: &Window, b: &Window| {
            let place = |one: &Window| one.day * 144 + i64::from(one.window);
            place(b) == place(a) + 1
        };
        for stay in windows.chunk_by(|a, b| neighbours(a, b) && a.is_slow() == b.is_slow()) {
            let length = stay.len() as u64 * window_s;
            if stay[0].is_slow() { slow_s.push(length) } else { normal_s.push(length) }
        }
        // Runs: adjacent windows with the same counts, where at least one observer sees the node as
        // slow.
        let alike = |a: &Window, b: &Window| {
            neighbours(a, b) && (a.slow, a.observers) == (b.slow, b.observers)
        };
        for run in windows.chunk_by(alike).filter(|run| run[0].slow > 0) {
            runs.push(json!({
                "day": run[0].day,
                "window": run[0].window,
                "windows": run.len(),
                "slow_observers": run[0].slow,
                "observers": run[0].observers,
            }));
        }
        let slow = windows.iter().filter(|window| window.is_slow()).count();
        rows.push(json!({
            "node": node,
            "name": names.get(usize::from(*node)),
            "windows": windows.len(),
            "slow_windows": slow,
            "runs": runs,
        }));
    }
    // Covers all observed windows, slow or not.
    let begins_s = |window: &Window| window.day * 86_400 + i64::from(window.window) * length_s;
    let begins: Vec<i64> = nodes.values().flatten().map(begins_s).collect();
    json!({
        "window_s": window_s,
        "from_s": begins.iter().min(),
        "to_s": begins.iter().max().map(|begin| begin + length_s),
        "nodes": rows,
        "sojourn": {"slow": sojourns(&mut slow_s), "normal": sojourns(&mut normal_s)},
    })
}
