//! The table `load`: resource usage of a host, in rows of ten minutes.

use crate::tables::thin::sketch::WINDOW_NS;
use probe::Resources;
use probe::resources::{Kind, METRICS};

/// Aggregates the rows of each window. Counters are summed; of gauges the largest value is kept,
/// and of free memory the least. `dt` and `cost` are summed, as far as they can be represented.
pub fn by_window(rows: &[Resources]) -> Vec<Resources> {
    let window = |row: &Resources| row.t_ns.div_euclid(WINDOW_NS);
    let mut sorted: Vec<&Resources> = rows.iter().collect();
    sorted.sort_by_key(|row| row.t_ns);
    let windows = sorted.chunk_by(|a, b| window(a) == window(b));
    windows
        .filter_map(|rows| rows.split_first().map(|(first, rest)| together(first, rest)))
        .collect()
}

/// The row has the time of the window's end, like a row of a second.
fn together(first: &Resources, rest: &[&Resources]) -> Resources {
    let mut all = (*first).clone();
    for row in rest {
        (all.t_ns, all.mono_ns) = (row.t_ns, row.mono_ns);
        all.dt_us = all.dt_us.saturating_add(row.dt_us);
        all.cost_us = all.cost_us.saturating_add(row.cost_us);
    }
    for metric in METRICS {
        let values = std::iter::once(first).chain(rest.iter().copied());
        let values = values.filter_map(|row| (metric.get)(row));
        let value = match metric.kind {
            Kind::Counter => values.reduce(i64::saturating_add),
            Kind::Gauge if metric.name == "mem_available_kb" => values.min(),
            Kind::Gauge => values.max(),
        };
        *(metric.at)(&mut all) = value.map(|value| metric.width.saturate(value));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_and_the_worst_of_a_state_is_kept() {
        let row = |second: i64| Resources {
            t_ns: second * 1_000_000_000,
            dt_us: 1_000_000,
            cpu_ctxt: Some(10),
            cpu_maxcore_percent: Some(second % 100),
            mem_available_kb: Some(5_000 - second),
            stall_n: (second == 3).then_some(60_000),
            alloc_slow: None,
            ..Resources::default()
        };
        // Some of the rows of two windows, the second one first.
        let mut rows: Vec<Resources> = (600..605).map(row).collect();
        rows.extend((0..10).map(row));
        let found = by_window(&rows);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].t_ns, found[0].dt_us), (9_000_000_000, 10_000_000));
        assert_eq!((found[0].cpu_ctxt, found[0].cpu_maxcore_percent), (Some(100), Some(9)));
        assert_eq!((found[0].mem_available_kb, found[0].stall_n), (Some(4_991), Some(60_000)));
        assert_eq!(
            (found[1].cpu_ctxt, found[1].stall_n, found[1].alloc_slow),
            (Some(50), None, None)
        );
    }
}
