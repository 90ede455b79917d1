//! Agreement between the model and the measurements (`claret bench locks --report`), by algorithm
//! and service, over the points with a meaningful mean; and, for each point with an error above a
//! fifth, the possible reasons that its own figures show.

use crate::coordination::locks;
use crate::coordination::points::draw::luck_ms;
use crate::coordination::points::resume;
use crate::report::{Report, fields, number, rounded, text};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Columns of the printed table.
pub const COLUMNS: [&str; 10] = [
    "algorithm",
    "backend",
    "points",
    "left_out",
    "median_abs_error",
    "p90_abs_error",
    "median_error",
    "median_abs_error_luck_apart",
    "above",
    "unexplained",
];

/// Errors from here on are examined.
const FAR: f64 = 0.2;
/// Number of processors busy with other work from which on no measurement is trusted.
const FOREIGN_CPUS: f64 = 0.5;
/// Load from which on a lock is so near its limit that a small increase of anything causes long
/// waits.
const NEAR_LIMIT: f64 = 0.8;
/// Ratio of mean to median from which on waits are of two kinds.
const UNEVEN: f64 = 2.0;
/// Fraction of the expected latency from which on the service's own time dominates.
const OWN_TIME: f64 = 0.25;

type Row = Map<String, Value>;

/// Algorithm of a row, or, for a row that is not about a lock, the measured quantity.
fn way(row: &Row) -> String {
    match text(row, "measure").as_str() {
        "lock" => text(row, "algorithm"),
        other => other.to_owned(),
    }
}

/// Error of a row that counts: a row with a prediction that is about a stable lock or about no
/// lock.
fn error(row: &Row) -> Option<f64> {
    let is_stable =
        matches!(row.get("state"), None | Some(Value::Null)) || text(row, "state") == "stable";
    number(row, "error").filter(|_| is_stable)
}

/// Error of a row that counts, without the luck of its draw of requests.
fn error_luck_apart(row: &Row) -> Option<f64> {
    error(row)?;
    let expected = number(row, "predicted_ms")? + luck_ms(row)?;
    Some(number(row, "mean_ms")? / expected - 1.0)
}

/// Reasons in a row's own figures that may explain a large error.
pub fn reasons(row: &Row) -> Vec<String> {
    let mut reasons = Vec::new();
    let mean = number(row, "mean_ms").unwrap_or(f64::NAN);
    let predicted = number(row, "predicted_ms").unwrap_or(f64::NAN);
    if let Some(cpus) = number(row, "foreign_cpus").filter(|cpus| *cpus > FOREIGN_CPUS) {
        reasons.push(format!("other programs kept {cpus} processors busy"));
    }
    if let Some(load) = number(row, "load").filter(|load| *load > NEAR_LIMIT) {
        reasons.push(format!("near its limit, at a load of {load}"));
    }
    match number(row, "mean_95_ms") {
        Some(half) if (mean - predicted).abs() <= half => {
            reasons.push(format!("its 95 % interval is +/- {half} ms"));
        }
        None if row.contains_key("mean_95_ms") => {
            let requests = number(row, "requests").unwrap_or_default();
            reasons.push(format!("one run of {requests} requests, without an interval"));
        }
        _ => {}
    }
    if let Some(luck) = luck_ms(row).filter(|luck| luck.abs() > FAR / 2.0 * predicted) {
        let (ms, way) = (luck.abs().round(), if luck > 0.0 { "longer" } else { "shorter" });
        reasons.push(format!("this draw of requests waits {ms} ms {way} than average at any lock"));
    }
    if let Some(p50) = number(row, "p50_ms").filter(|p50| *p50 * UNEVEN < mean) {
        reasons.push(format!("two kinds of waits: half of them below {p50} ms"));
    }
    let scale = number(row, "scale").unwrap_or(1.0);
    let own = number(row, "base_write_ms").unwrap_or_default() * scale;
    if own > OWN_TIME * predicted {
        let percent = (own / predicted * 100.0).round();
        reasons.push(format!(
            "a write without added delays takes {percent} % of the expected latency"
        ));
    }
    reasons
}

/// Smallest value that is not exceeded by this share of the values.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// Median of the values; of an even number of values, the mean of the middle two.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some((sorted[low] + sorted[high]) / 2.0)
}

/// One line of the table.
fn line(algorithm: &str, backend: &str, rows: &[&Row]) -> Row {
    let errors: Vec<f64> = rows.iter().filter_map(|row| error(row)).collect();
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let apart: Vec<f64> = rows.iter().filter_map(|row| error_luck_apart(row)).collect();
    let apart: Vec<f64> = apart.iter().map(|error| error.abs()).collect();
    let far = || rows.iter().filter(|row| error(row).is_some_and(|error| error.abs() > FAR));
    let option = |value: Option<f64>| value.map_or(Value::Null, rounded);
    fields([
        ("algorithm", algorithm.into()),
        ("backend", backend.into()),
        ("points", errors.len().into()),
        ("left_out", (rows.len() - errors.len()).into()),
        ("median_abs_error", option(median(&sizes))),
        ("p90_abs_error", option(quantile(&sizes, 0.9))),
        ("median_error", option(median(&errors))),
        ("median_abs_error_luck_apart", option(median(&apart))),
        ("above", far().count().into()),
        ("unexplained", far().filter(|row| reasons(row).is_empty()).count().into()),
    ])
}

/// A point with a large error, with the figures that set it apart.
fn far_point(row: &Row) -> Row {
    let told = locks::COLUMNS.map(|field| (field, row.get(field).cloned().unwrap_or(Value::Null)));
    let mut point = fields(told);
    point.insert("reasons".to_owned(), reasons(row).into());
    point
}

/// One line of text for a point with a large error.
fn says(row: &Row) -> String {
    let at = |field: &str| text(row, field);
    let percent = error(row).unwrap_or(f64::NAN) * 100.0;
    let why = match reasons(row) {
        none if none.is_empty() => "unexplained".to_owned(),
        some => some.join("; "),
    };
    format!(
        "{} {} {}, {} servers, C {} S {} s {} every {} ms: {} ms where {} were expected \
         ({percent:+.0} %): {why}",
        at("experiment"),
        at("backend"),
        way(row),
        at("servers"),
        at("client_rtt_ms"),
        at("server_rtt_ms"),
        at("service_ms"),
        at("interarrival_ms"),
        at("mean_ms"),
        at("predicted_ms"),
    )
}

/// Builds the report on the model from measured rows.
pub fn of(rows: &[Row]) -> Report {
    // Rows that can have no error, such as those of the smoke test, say nothing about the model.
    let rows: Vec<&Row> = rows.iter().filter(|row| row.contains_key("error")).collect();
    let mut groups: BTreeMap<(String, String), Vec<&Row>> = BTreeMap::new();
    let mut services: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in &rows {
        let backend = text(row, "backend");
        groups.entry((way(row), backend.clone())).or_default().push(row);
        services.entry(backend).or_default().push(row);
    }
    let mut report = Report::default();
    report.rows.extend(groups.iter().map(|((way, backend), rows)| line(way, backend, rows)));
    report.rows.extend(services.iter().map(|(backend, rows)| line("all", backend, rows)));
    report.rows.push(line("all", "all", &rows));
    let far = |row: &&&Row| error(row).is_some_and(|error| error.abs() > FAR);
    let mut far: Vec<&Row> = rows.iter().filter(far).copied().collect();
    let size = |row: &Row| error(row).unwrap_or_default().abs();
    far.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let points: Vec<Value> = far.iter().map(|row| Value::Object(far_point(row))).collect();
    report.more.insert("above".to_owned(), points.into());
    report.notes = far.iter().map(|row| says(row)).collect();
    report
}

/// Builds the report from the rows of a file.
///
/// # Errors
/// The file cannot be read, has a line that is no row, or has no row with an error.
pub fn of_file(path: &Path) -> io::Result<Report> {
    let rows = resume::read(path)?;
    if !rows.iter().any(|row| row.contains_key("error")) {
        let why = format!("{}: no row has a prediction to compare with", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(of(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock's row with this error, measured on an idle machine.
    fn row(algorithm: &str, backend: &str, error: f64) -> Row {
        fields([
            ("experiment", "E8".into()),
            ("measure", "lock".into()),
            ("backend", backend.into()),
            ("servers", 3.into()),
            ("algorithm", algorithm.into()),
            ("client_rtt_ms", 100.into()),
            ("requests", 1000.into()),
            ("scale", 1.into()),
            ("state", "stable".into()),
            ("load", 0.5.into()),
            ("mean_ms", (200.0 * (1.0 + error)).into()),
            ("predicted_ms", 200.into()),
            ("error", error.into()),
            ("mean_95_ms", 5.into()),
            ("p50_ms", 150.into()),
            ("foreign_cpus", 0.1.into()),
            ("base_write_ms", 1.into()),
        ])
    }

    fn with(mut row: Row, field: &str, value: impl Into<Value>) -> Row {
        row.insert(field.to_owned(), value.into());
        row
    }

    fn found<'a>(report: &'a Report, algorithm: &str, backend: &str) -> &'a Row {
        let same = |row: &&Row| {
            (text(row, "algorithm"), text(row, "backend")) == (algorithm.into(), backend.into())
        };
        report.rows.iter().find(same).expect("a line of the table")
    }

    #[test]
    fn errors_are_counted_by_way_and_service_and_over_all() {
        let report = of(&[
            row("sync-tas", "claret", 0.02),
            row("sync-tas", "claret", -0.08),
            row("sync-tas", "claret", 0.12),
            row("sync-tas", "zookeeper", 0.3),
            row("async-tas", "claret", -0.04),
            // Neither of these rows has a meaningful mean.
            with(row("async-tas", "claret", 4.0), "state", "overloaded"),
            with(row("etcd-mutex", "etcd", 0.0), "error", Value::Null),
        ]);
        let tas = found(&report, "sync-tas", "claret");
        assert_eq!((tas["points"].clone(), tas["left_out"].clone()), (3.into(), 0.into()));
        assert_eq!((&tas["median_abs_error"], &tas["p90_abs_error"]), (&0.08.into(), &0.12.into()));
        assert_eq!(tas["median_error"], 0.02, "they lie on both sides");
        let other = found(&report, "async-tas", "claret");
        assert_eq!((other["points"].clone(), other["left_out"].clone()), (1.into(), 1.into()));
        let unknown = found(&report, "etcd-mutex", "etcd");
        assert_eq!((&unknown["points"], &unknown["median_abs_error"]), (&0.into(), &Value::Null));
        let all = found(&report, "all", "all");
        assert_eq!((all["points"].clone(), all["above"].clone()), (5.into(), 1.into()));
        assert_eq!(found(&report, "all", "claret")["median_abs_error"], 0.06);
    }

    #[test]
    fn a_point_that_is_far_away_says_what_may_be_the_reason() {
        let far = || row("sync-tas", "claret", 0.4);
        assert!(reasons(&far()).is_empty());
        let says = |row: Row, expected: &str| {
            let reasons = reasons(&row);
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(reasons[0].contains(expected), "{reasons:?}");
        };
        says(with(far(), "foreign_cpus", 1.7), "other programs kept 1.7 processors busy");
        says(with(far(), "load", 0.91), "near its limit, at a load of 0.91");
        says(with(far(), "mean_95_ms", 90), "95 % interval is +/- 90 ms");
        says(with(far(), "mean_95_ms", Value::Null), "one run of 1000 requests");
        says(with(far(), "p50_ms", 101), "half of them below 101 ms");
        says(
            with(with(far(), "scale", 5), "base_write_ms", 20),
            "takes 50 % of the expected latency",
        );
    }

    #[test]
    fn what_is_far_away_is_listed_the_furthest_first() {
        let report = of(&[
            row("sync-tas", "claret", 0.25),
            row("sync-tas", "claret", 0.2),
            with(row("async-tas", "zookeeper", -0.5), "load", 0.85),
        ]);
        let above = report.more["above"].as_array().expect("a list");
        assert_eq!(above.len(), 2);
        assert_eq!(
            (&above[0]["algorithm"], &above[0]["error"]),
            (&"async-tas".into(), &(-0.5).into())
        );
        assert_eq!(above[1]["reasons"], Value::Array(Vec::new()));
        assert!(report.notes[0].contains("(-50 %): near its limit"), "{:?}", report.notes);
        assert!(report.notes[1].ends_with("(+25 %): unexplained"), "{:?}", report.notes);
        let all = found(&report, "all", "all");
        assert_eq!((all["above"].clone(), all["unexplained"].clone()), (2.into(), 1.into()));
    }

    #[test]
    fn a_file_without_predictions_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        let missing = of_file(&path).unwrap_err();
        assert!(missing.to_string().contains("rows.jsonl: "), "{missing}");
        assert!(!path.exists(), "nothing is made");
        std::fs::write(&path, "{\"operation\":\"get\"}\n").unwrap();
        let none = of_file(&path).unwrap_err();
        assert!(none.to_string().contains("no row has a prediction"), "{none}");
        // The measurement is still running: the last line is incomplete.
        let line = serde_json::to_string(&row("sync-tas", "claret", 0.1)).unwrap();
        std::fs::write(&path, format!("{line}\n{}", &line[..40])).unwrap();
        assert_eq!(found(&of_file(&path).unwrap(), "all", "all")["points"], 1);
    }
}
