//! Selection of the data that the figures need: some hundred kilobytes of many megabytes.
//!
//! Nothing is recomputed: invisible points of curves are left out, days are aggregated by their
//! median, and cells of grids are merged four by four.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Number of metrics with bars and grids in the page, the strongest first.
const METRICS: usize = 12;
/// Number of cells of a grid that become one, in each direction.
const COARSE: usize = 4;

/// Elements of a list; none if it is not a list.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Data that the script draws.
pub fn shrink(found: &Value, calibrated: &Value) -> Value {
    let data = &found["data"];
    json!({
        "nodes": data["nodes"],
        "individual": curve(&found["individual"]),
        "group": curve(&found["group"]),
        "by_size": curves(&found["by_group_size"], "group_size", "group"),
        "by_workload": curves(&found["by_workload"], "workload", "individual"),
        "matrix": matrix(&found["observations"]),
        "slow_pairs": slow_pairs(&found["slow_nodes"]["action"]["sets"]),
        "slow_nodes": found["slow_nodes"]["action"]["nodes"],
        "timeline": timeline(&found["slow_timeline"]),
        "slow_histogram": found["slow_histogram"],
        "jaccard": found["jaccard"],
        "correlations": correlations(&found["correlations"]),
        "scatter": scatter(&found["scatter"], &found["correlations"]["strongest_first"]),
        "what_if": what_if(found, calibrated),
    })
}

/// A distribution, with the points of its curve that can be distinguished: by share or, in the
/// tail, by the logarithm of the number of later calls.
fn curve(law: &Value) -> Value {
    let calls = law["calls"].as_u64().unwrap_or(0);
    let at_most: Vec<u64> = list(&law["cdf"]["at_most_ns"]).filter_map(Value::as_u64).collect();
    let counts: Vec<u64> = list(&law["cdf"]["calls"]).filter_map(Value::as_u64).collect();
    let mut points: Vec<(u64, u64)> = Vec::new();
    let pairs: Vec<(u64, u64)> = at_most.into_iter().zip(counts).collect();
    for (at, pair) in pairs.iter().enumerate() {
        let last = at + 1 == pairs.len();
        if points.last().is_none_or(|before| last || apart(before.1, pair.1, calls)) {
            // Keeps the end of a level part, so that a step stays a step.
            if let Some(before) = at.checked_sub(1).map(|before| pairs[before])
                && points.last().is_some_and(|kept| before.0 > kept.0 && before.1 == kept.1)
            {
                points.push(before);
            }
            points.push(*pair);
        }
    }
    json!({
        "calls": calls,
        "no_reply": law["no_reply"],
        "quantiles_ns": law["all_ns"],
        "at_most_ns": points.iter().map(|point| point.0).collect::<Vec<_>>(),
        "counts": points.iter().map(|point| point.1).collect::<Vec<_>>(),
    })
}

fn apart(before: u64, now: u64, calls: u64) -> bool {
    let share = |count: u64| count as f64 / calls.max(1) as f64;
    // Adds half a call, so that the last one has a place on the logarithmic axis.
    let later = |count: u64| ((calls.saturating_sub(count)) as f64 + 0.5).log10();
    share(now) - share(before) >= 0.006 || later(before) - later(now) >= 0.04
}

fn curves(rows: &Value, key: &str, law: &str) -> Value {
    let one = |row: &Value| json!({ "name": row[key], "curve": curve(&row[law]) });
    list(rows).map(one).collect()
}

/// Days, calls, and the three quantiles of each day, of an observer and a callee.
type Pair = (u64, u64, [Vec<u64>; 3]);

/// Days, calls, and the median over days of the daily quantiles, for each pair of observer and
/// callee. A quantile that was never reached, because too many replies are missing, is null.
fn matrix(observations: &Value) -> Value {
    let columns: Vec<&str> = list(&observations["columns"]).filter_map(Value::as_str).collect();
    let place = |name: &str| columns.iter().position(|column| *column == name);
    let (Some(observer), Some(callee), Some(calls)) =
        (place("observer"), place("callee"), place("calls"))
    else {
        return json!([]);
    };
    let quantiles = ["p50_ns", "p90_ns", "p99_ns"].map(place);
    let mut cells: BTreeMap<(u64, u64), Pair> = BTreeMap::new();
    for row in list(&observations["rows"]) {
        let (Some(from), Some(to)) = (row[observer].as_u64(), row[callee].as_u64()) else {
            continue;
        };
        let cell = cells.entry((from, to)).or_default();
        cell.0 += 1;
        cell.1 += row[calls].as_u64().unwrap_or(0);
        for (kept, column) in cell.2.iter_mut().zip(quantiles) {
            kept.push(column.and_then(|at| row[at].as_u64()).unwrap_or(u64::MAX));
        }
    }
    let told = cells.into_iter().map(|((from, to), (days, calls, quantiles))| {
        let [p50, p90, p99] = quantiles.map(|mut of_days| {
            of_days.sort_unstable();
            let median = of_days[(of_days.len() - 1) / 2];
            (median != u64::MAX).then_some(median)
        });
        json!([from, to, days, calls, p50, p90, p99])
    });
    told.collect()
}

/// Observer, callee, and number of days on which the observer saw the callee as slow.
fn slow_pairs(sets: &Value) -> Value {
    let mut pairs: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for set in list(sets) {
        let observer = set["observer"].as_u64().unwrap_or(0);
        for callee in list(&set["slow"]).filter_map(Value::as_u64) {
            *pairs.entry((observer, callee)).or_default() += 1;
        }
    }
    pairs.into_iter().map(|((from, to), days)| json!([from, to, days])).collect()
}

fn timeline(timeline: &Value) -> Value {
    let node = |node: &Value| {
        let run = |run: &Value| {
            let keys = ["day", "window", "windows", "observers", "slow_observers"];
            Value::from(keys.map(|key| run[key].clone()).to_vec())
        };
        let runs: Vec<Value> = list(&node["runs"]).map(run).collect();
        json!({ "name": node["name"], "windows": node["windows"], "runs": runs })
    };
    json!({
        "window_s": timeline["window_s"],
        "span_s": [timeline["from_s"], timeline["to_s"]],
        "nodes": list(&timeline["nodes"]).map(node).collect::<Vec<_>>(),
    })
}

/// Row of a metric in a list of rows.
fn of_metric<'a>(rows: &'a Value, name: &Value) -> Option<&'a Value> {
    list(rows).find(|row| row["metric"] == *name)
}

fn correlations(correlations: &Value) -> Value {
    let strongest = list(&correlations["strongest_first"]);
    let rows = strongest.filter_map(|name| of_metric(&correlations["metrics"], name)).take(METRICS);
    let short = |told: &Value| {
        let keys = ["n", "pearson_r", "pearson_r_95", "pearson_r_ln", "spearman_r"];
        let kept = keys.iter().map(|key| ((*key).to_owned(), told[*key].clone()));
        Value::Object(kept.collect::<Map<_, _>>())
    };
    let row = |row: &Value| {
        let (all, high) = (short(&row["all"]), short(&row["high"]));
        json!({ "metric": row["metric"], "all": all, "high": high })
    };
    json!({
        "known": list(&correlations["strongest_first"]).count(),
        "rows": rows.map(row).collect::<Vec<_>>(),
    })
}

/// Grids over all workloads, coarser: (latency, metric, calls) one after the other.
fn scatter(scatter: &Value, strongest: &Value) -> Value {
    let every = |edges: &Value| -> Vec<Value> { list(edges).step_by(COARSE).cloned().collect() };
    let grids = list(strongest).filter_map(|name| of_metric(&scatter["grids"], name)).take(METRICS);
    let grid = |grid: &Value| {
        let mut cells: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let of_workloads = grid["cells_by_workload"].as_object();
        for cell in of_workloads.into_iter().flat_map(|by| by.values()).flat_map(list) {
            let at = |place: usize| cell[place].as_u64().unwrap_or(0);
            let coarse = |place: usize| at(place) / COARSE as u64;
            *cells.entry((coarse(0), coarse(1))).or_default() += at(2);
        }
        let flat: Vec<u64> = cells.into_iter().flat_map(|((y, x), n)| [y, x, n]).collect();
        json!({ "metric": grid["metric"], "cells": flat })
    };
    json!({
        "latency_from_ns": every(&scatter["latency_rows_from_ns"]),
        "metric_from": every(&scatter["metric_columns_from"]),
        "grids": grids.map(grid).collect::<Vec<_>>(),
    })
}

/// Values of s by T for each size and risk, and mistakes by T.
fn what_if(found: &Value, calibrated: &Value) -> Value {
    let size = |of: &Value| {
        let risk = |risk: &Value| {
            let steps: Vec<Value> =
                list(&risk["steps"]).map(|step| json!([step["from_t_ns"], step["s"]])).collect();
            json!({ "eps_ppm": risk["eps_ppm"], "steps": steps })
        };
        let risks: Vec<Value> = list(&of["s_of_t"]).map(risk).collect();
        json!({ "size": of["group_size"], "sessions": of["sessions"], "risks": risks })
    };
    let deployment = list(&calibrated["suspicion"]).find(|one| one["scope"] == "deployment");
    let point = |point: &Value| {
        json!([
            point["timeout_ms"],
            point["episodes_per_day"],
            point["episodes_per_day_low"],
            point["episodes_per_day_high"],
        ])
    };
    let points = deployment.map_or(&Value::Null, |of| &of["points"]);
    let row = list(&calibrated["visigoth"]).flat_map(|of| list(&of["table"])).next();
    let period_ms = row.and_then(|row| {
        Some((row["detection_ms"].as_f64()? - row["timeout_ms"].as_f64()?).round())
    });
    json!({
        "sizes": list(&found["s_and_t"]["group_sizes"]).map(size).collect::<Vec<_>>(),
        "mistakes": list(points).map(point).collect::<Vec<_>>(),
        "period_ms": period_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_curve_keeps_its_ends_its_steps_and_never_a_wrong_point() {
        let at_most: Vec<u64> = (0..2_000).map(|at| 1_000 + at * at).collect();
        let counts: Vec<u64> =
            (0..2_000_u64).map(|at| if at < 1_000 { at / 10 } else { at * 50 }).collect();
        let law = json!({ "calls": 100_000, "cdf": { "at_most_ns": at_most, "calls": counts } });
        let thin = curve(&law);
        let kept: Vec<(u64, u64)> = list(&thin["at_most_ns"])
            .zip(list(&thin["counts"]))
            .map(|(at, count)| (at.as_u64().unwrap(), count.as_u64().unwrap()))
            .collect();
        assert!(kept.len() < 400, "{}", kept.len());
        let whole: Vec<(u64, u64)> = at_most.into_iter().zip(counts).collect();
        assert!(kept.iter().all(|point| whole.contains(point)));
        assert_eq!((kept.first(), kept.last()), (whole.first(), whole.last()));
        assert!(kept.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1));
    }

    #[test]
    fn a_cell_is_the_median_of_its_days_and_silence_is_longer_than_anything() {
        let columns = ["observer", "callee", "calls", "p50_ns", "p90_ns", "p99_ns"];
        let rows = json!([
            [0, 1, 10, 5, 50, null],
            [0, 1, 10, 7, 70, null],
            [0, 1, 10, 6, null, 900],
            [1, 0, 3, null, null, null],
        ]);
        let told = matrix(&json!({ "columns": columns, "rows": rows }));
        assert_eq!(told, json!([[0, 1, 3, 30, 6, 70, null], [1, 0, 1, 3, null, null, null]]));
    }

    #[test]
    fn grids_lose_no_call_when_they_become_coarse() {
        let grids = json!([{ "metric": "m", "cells_by_workload": {
            "null": [[0, 0, 3], [3, 3, 4], [4, 0, 1]], "disk": [[1, 2, 2]],
        } }]);
        let document = json!({ "grids": grids });
        let told = scatter(&document, &json!(["m"]));
        assert_eq!(told["grids"][0]["cells"], json!([0, 0, 9, 1, 0, 1]));
    }
}
