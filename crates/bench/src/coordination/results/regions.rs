//! Best algorithm by region (E12): quadrants of round trip and contention, from the rows of E8 to
//! E11 that are not overloaded.

use crate::coordination::points::plan::Point;
use crate::report::{rounded, text};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Round trip of clients from which on it counts as high, in milliseconds.
const FAR_MS: f64 = 25.0;
/// Fraction of the time between requests for which the lock is held, from which on it counts as
/// contended.
const CONTENDED: f64 = 0.25;

/// Measures of an algorithm, and whether smaller values are better.
const MEASURES: [(&str, bool); 4] =
    [("mean_ms", true), ("p99_ms", true), ("jain", false), ("writes_per_acquisition", true)];

/// Rows by point, then by algorithm.
type Points<'a> = BTreeMap<String, BTreeMap<String, &'a Map<String, Value>>>;

fn quadrant(row: &Map<String, Value>) -> Option<String> {
    let number = |field: &str| row.get(field)?.as_f64();
    let far = number("client_rtt_ms")? >= FAR_MS;
    let contended = number("service_ms")? / number("interarrival_ms")? >= CONTENDED;
    let far = if far { "high" } else { "low" };
    let contended = if contended { "high" } else { "low" };
    Some(format!("{far} round trip, {contended} contention"))
}

/// Best algorithm of each service and quadrant for each measure, and the ratios of the others to
/// it: the geometric mean over the points at which all of them are known.
pub fn of(rows: &[Map<String, Value>]) -> Map<String, Value> {
    let considered = |row: &&Map<String, Value>| {
        ["E8", "E9", "E10", "E11"].contains(&text(row, "experiment").as_str())
            && text(row, "state") != "overloaded"
    };
    // By service and quadrant.
    let mut points: BTreeMap<String, Points<'_>> = BTreeMap::new();
    for row in rows.iter().filter(considered) {
        let Some(quadrant) = quadrant(row) else { continue };
        let region = format!("{}: {quadrant}", text(row, "backend"));
        let number = |field: &str| row.get(field).map(Value::to_string).unwrap_or_default();
        let point = ["client_rtt_ms", "service_ms", "interarrival_ms"].map(number).join(" ");
        points
            .entry(region)
            .or_default()
            .entry(point)
            .or_default()
            .insert(text(row, "algorithm"), row);
    }
    let mut regions = Map::new();
    for (region, points) in points {
        let mut told = Map::new();
        for (measure, less) in MEASURES {
            if let Some(ranking) = ranking(&points, measure, less) {
                told.insert(measure.to_owned(), ranking);
            }
        }
        regions.insert(region, told.into());
    }
    regions
}

/// Algorithms with their mean ratio to the best one, the best first.
fn ranking(points: &Points<'_>, measure: &str, less: bool) -> Option<Value> {
    let most = points.values().map(BTreeMap::len).max()?;
    let mut logs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for ways in points.values().filter(|ways| ways.len() == most) {
        for (way, row) in ways {
            let value = row.get(measure)?.as_f64().filter(|value| *value > 0.0)?;
            logs.entry(way).or_default().push(value.ln());
        }
    }
    let mean = |logs: &Vec<f64>| logs.iter().sum::<f64>() / logs.len() as f64;
    let mut means: Vec<(&str, f64)> = logs.iter().map(|(way, logs)| (*way, mean(logs))).collect();
    means.sort_by(|a, b| if less { a.1.total_cmp(&b.1) } else { b.1.total_cmp(&a.1) });
    let best = means.first()?.1;
    let told = means
        .iter()
        .map(|(way, mean)| Value::Array(vec![(*way).into(), rounded((mean - best).exp())]));
    Some(told.collect())
}

/// Whether points have the rows from which regions are computed.
pub fn is_about(points: &[Point]) -> bool {
    ["E8", "E9", "E10", "E11"]
        .iter()
        .all(|name| points.iter().any(|point| point.experiment == *name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fields;

    fn row(algorithm: &str, client_ms: f64, service_ms: f64, mean_ms: f64) -> Map<String, Value> {
        fields([
            ("experiment", "E8".into()),
            ("backend", "claret".into()),
            ("algorithm", algorithm.into()),
            ("client_rtt_ms", client_ms.into()),
            ("service_ms", service_ms.into()),
            ("interarrival_ms", 200.0.into()),
            ("state", "stable".into()),
            ("mean_ms", mean_ms.into()),
        ])
    }

    #[test]
    fn the_best_of_a_quadrant_comes_first() {
        let mut rows = vec![
            row("a", 100.0, 1.0, 10.0),
            row("b", 100.0, 1.0, 20.0),
            row("a", 100.0, 25.0, 40.0),
            row("b", 100.0, 25.0, 20.0),
            row("b", 1.0, 100.0, 5.0),
        ];
        let mut overloaded = row("c", 100.0, 1.0, 1.0);
        overloaded.insert("state".into(), "overloaded".into());
        rows.push(overloaded);
        let found = of(&rows);
        assert_eq!(found.len(), 2);
        let far = &found["claret: high round trip, low contention"]["mean_ms"];
        // Twice as good at one point, half as good at the other.
        assert_eq!(far.as_array().unwrap().len(), 2);
        assert_eq!(far[0][1], 1);
        assert_eq!(far[1][1], 1);
        let near = &found["claret: low round trip, high contention"]["mean_ms"];
        assert_eq!(near[0][0], "b");
    }
}
