//! Figures of the study as one SVG: measurements and predictions in one picture.
//!
//! Rows of an experiment that differ in both round trips become heat maps, rows that differ in one
//! parameter a cut along it, operations bars, round trips a density. The mean of an overloaded lock
//! depends only on the length of the measurement: such points are left out of cuts, and hatched in
//! maps.

mod bars;
mod cut;
mod heat;

use crate::coordination::results::regions;
use crate::picture::{Failure, short};
use crate::report::{Report, number, text};
use bars::Bars;
use cut::Drawn;
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

type Row = Map<String, Value>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (560, 420);
fn differ(rows: &[&Row], field: &str) -> bool {
    rows.iter().any(|row| row.get(field) != rows[0].get(field))
}

fn is_overloaded(row: &Row) -> bool {
    text(row, "state") == "overloaded"
}

/// Range of a logarithmic axis that contains these values.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let above = crate::picture::range(values.filter(|value| *value > 0.0));
    if above.start > above.end { 0.1..1.0 } else { above }
}

/// Contents of one panel.
enum Panel<'a> {
    /// A cut along a field.
    Cut { title: String, along: &'static str, what: Drawn, rows: Vec<&'a Row> },
    /// Map of a field of the rows over both round trips, coloured from least to most.
    Heat { title: String, field: &'static str, rows: Vec<&'a Row>, least: f64, most: f64 },
    /// A bar chart.
    Bars { title: String, bars: Bars },
    /// Distribution of round trips.
    Density { title: String, row: &'a Row },
    /// Positions of the points of the four cuts in the plane of round trip and contention.
    Plan { rows: Vec<&'a Row> },
}

/// Names of the four cuts through that plane.
const CUTS: [&str; 4] = ["E8", "E9", "E10", "E11"];

/// Parameters that a cut can go along; the first one that differs is used.
const ALONG: [&str; 6] =
    ["service_ms", "client_rtt_ms", "server_rtt_ms", "clients", "interarrival_ms", "poll_ms"];

/// Groups rows by the values of these fields.
fn by<'a>(rows: &[&'a Row], fields: &[&str]) -> BTreeMap<Vec<String>, Vec<&'a Row>> {
    let mut groups: BTreeMap<Vec<String>, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key = fields.iter().map(|field| text(row, field)).collect();
        groups.entry(key).or_default().push(row);
    }
    groups
}

fn panels(report: &Report) -> Vec<Panel<'_>> {
    let all: Vec<&Row> = report.rows.iter().collect();
    let mut panels = Vec::new();
    let of_cuts = |row: &&Row| CUTS.contains(&text(row, "experiment").as_str());
    let cuts: Vec<&Row> = all.iter().copied().filter(of_cuts).collect();
    if !cuts.is_empty() && differ(&cuts, "experiment") {
        panels.push(Panel::Plan { rows: cuts });
    }
    for (key, rows) in by(&all, &["experiment", "measure"]) {
        let name = key[0].clone();
        let by_service = |of: fn(&[&Row]) -> Bars| {
            let each = by(&rows, &["backend", "servers"]);
            let panel = |(key, rows): (Vec<String>, Vec<&Row>)| Panel::Bars {
                title: format!("{name}: {}, {} servers", key[0], key[1]),
                bars: of(&rows),
            };
            each.into_iter().map(panel).collect::<Vec<_>>()
        };
        if rows[0].contains_key("density") {
            let titled = rows.iter().map(|row| Panel::Density {
                title: format!("{name}: round trips, {} ms added", text(row, "client_rtt_ms")),
                row,
            });
            panels.extend(titled);
        } else if rows[0].contains_key("operation") {
            let bars = bars::operations(&rows);
            panels.push(Panel::Bars { title: format!("{name}: operations"), bars });
        } else if rows[0].contains_key("wait_for") {
            let bars = bars::replies(&rows);
            panels.push(Panel::Bars { title: format!("{name}: waiting for replies"), bars });
        } else if rows[0].contains_key("story") {
            panels.extend(by_service(bars::stories));
        } else if rows.iter().any(|row| row.keys().any(|field| field.starts_with("share_at_"))) {
            panels.extend(by_service(bars::shares));
        } else if !rows.iter().any(|row| row.contains_key("mean_ms")) {
            // Nothing was measured here: it is only a plan.
        } else if differ(&rows, "client_rtt_ms") && differ(&rows, "server_rtt_ms") {
            heat_maps(&name, &rows, &mut panels);
        } else {
            cuts_of(&name, &rows, &mut panels);
        }
    }
    if CUTS.iter().all(|cut| all.iter().any(|row| text(row, "experiment") == *cut)) {
        for (region, told) in regions::of(&report.rows) {
            let title = format!("E12: {region}");
            panels.push(Panel::Bars { title, bars: bars::region(&told) });
        }
    }
    panels
}

/// Cuts through rows: each along one parameter, with all others equal except those that distinguish
/// lines.
fn cuts_of<'a>(name: &str, rows: &[&'a Row], panels: &mut Vec<Panel<'a>>) {
    let mut rest = rows.to_vec();
    for along in ALONG {
        let fixed: Vec<&str> =
            ALONG.into_iter().filter(|field| *field != along && *field != "poll_ms").collect();
        let grids = by(&rest, &[&["closed"], &fixed[..]].concat());
        let grids = grids.into_values().filter(|rows| differ(rows, along));
        for grid in grids.collect::<Vec<_>>() {
            rest.retain(|row| !grid.iter().any(|taken| std::ptr::eq(*taken, *row)));
            let told = fixed.iter().filter(|field| differ(rows, field));
            let told: String = told.map(|field| format!(", {}", says(grid[0], field))).collect();
            let capacity = along == "clients" && grid.iter().all(|row| is_closed(row));
            let drawn = if capacity { &cut::CAPACITY[..] } else { &[cut::LATENCY] };
            for (key, rows) in by(&grid, &["backend", "servers"]) {
                panels.extend(drawn.iter().map(|what| Panel::Cut {
                    title: format!("{name}: {}, {} servers{told}", key[0], key[1]),
                    along,
                    what: *what,
                    rows: rows.clone(),
                }));
            }
        }
    }
}

fn is_closed(row: &Row) -> bool {
    row.get("closed").is_some_and(|closed| *closed == true)
}

/// Text of a parameter in a title.
fn says(row: &Row, field: &str) -> String {
    let value = number(row, field).map_or_else(|| text(row, field), short);
    match field.strip_suffix("_ms") {
        Some(what) => format!("{} {value} ms", what.replace('_', " ")),
        None => format!("{value} {field}"),
    }
}

fn heat_maps<'a>(name: &str, rows: &[&'a Row], panels: &mut Vec<Panel<'a>>) {
    let range = range(
        rows.iter()
            .filter(|row| !is_overloaded(row))
            .flat_map(|row| [number(row, "mean_ms"), number(row, "predicted_ms")])
            .flatten(),
    );
    for (key, rows) in by(rows, &["backend", "algorithm", "measure"]) {
        let what = if key[2] == "lock" { &key[1] } else { &key[2] };
        for (field, says) in [("mean_ms", "measured"), ("predicted_ms", "predicted")] {
            let title = format!("{name}: {what}, {}, {says}", key[0]);
            let (least, most) = (range.start, range.end);
            panels.push(Panel::Heat { title, field, rows: rows.clone(), least, most });
        }
    }
}

/// Draws the rows into a file.
///
/// # Errors
/// There is nothing to draw, or the file cannot be written.
pub fn draw(report: &Report, file: &Path) -> io::Result<()> {
    let panels = panels(report);
    if panels.is_empty() {
        let why =
            "there is nothing to draw: ask for several --client-rtt, --server-rtt or --service";
        return Err(io::Error::other(why));
    }
    let svg = picture(&panels).map_err(|error| io::Error::other(error.to_string()))?;
    std::fs::write(file, svg)
}

fn picture(panels: &[Panel<'_>]) -> Result<String, Failure> {
    let mut svg = String::new();
    let columns = panels.len().min(4);
    let lines = panels.len().div_ceil(columns);
    {
        let size = (SIZE.0 * columns as u32, SIZE.1 * lines as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        for (panel, area) in panels.iter().zip(area.split_evenly((lines, columns))) {
            match panel {
                Panel::Cut { title, along, what, rows } => {
                    cut::draw(&area, title, (along, *what), rows)?;
                }
                Panel::Heat { title, field, rows, least, most } => {
                    heat::draw(&area, title, field, rows, *least..*most)?;
                }
                Panel::Bars { title, bars } => bars.draw(&area, title)?,
                Panel::Plan { rows } => cut::plan(&area, rows)?,
                Panel::Density { title, row } => bars::density(&area, title, row)?,
            }
        }
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fields;

    fn row(algorithm: &str, client_ms: f64, server_ms: f64, mean_ms: f64, state: &str) -> Row {
        fields([
            ("experiment", "E5".into()),
            ("measure", "lock".into()),
            ("backend", "claret".into()),
            ("servers", 3.into()),
            ("algorithm", algorithm.into()),
            ("client_rtt_ms", client_ms.into()),
            ("server_rtt_ms", server_ms.into()),
            ("state", state.into()),
            ("mean_ms", mean_ms.into()),
            ("predicted_ms", (mean_ms * 1.1).into()),
        ])
    }

    fn drawn(rows: Vec<Row>) -> String {
        let report = Report { rows, ..Report::default() };
        picture(&panels(&report)).unwrap()
    }

    #[test]
    fn what_differs_decides_the_figure() {
        let cut = drawn(vec![
            row("sync-tas", 1.0, 0.0, 5.0, "stable"),
            row("sync-tas", 2.0, 0.0, 9.0, "stable"),
            row("sync-tas", 3.0, 0.0, 90.0, "overloaded"),
        ]);
        assert!(cut.contains("sync-tas") && cut.contains("E5: claret"), "{cut}");
        // Two points were measured; the overloaded one is left out.
        assert_eq!(cut.matches("<circle").count(), 2);
        let heat = drawn(vec![
            row("sync-tas", 1.0, 0.0, 5.0, "stable"),
            row("sync-tas", 2.0, 7.0, 9.0, "stable"),
        ]);
        assert!(heat.contains("measured") && heat.contains("predicted"), "{heat}");
    }

    #[test]
    fn what_differs_besides_is_a_line_of_its_own() {
        let polled = |clients: u32, poll_ms: f64| {
            let mut row = row("async-tas", 20.0, 0.0, 5.0, "stable");
            row.insert("clients".into(), clients.into());
            row.insert("poll_ms".into(), poll_ms.into());
            row
        };
        let rows = [5, 50].map(|clients| [5.0, 20.0].map(|poll_ms| polled(clients, poll_ms)));
        let cut = drawn(rows.into_iter().flatten().collect());
        assert!(
            cut.contains("async-tas, poll 5 ms") && cut.contains("async-tas, poll 20 ms"),
            "{cut}"
        );
    }

    fn with(mut row: Row, fields: &[(&str, Value)]) -> Row {
        row.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        row
    }

    #[test]
    fn grids_of_one_experiment_are_cuts_of_their_own() {
        let at = |client_ms: f64, service_ms: f64, between_ms: f64| {
            let fields = [("service_ms", service_ms), ("interarrival_ms", between_ms)];
            with(row("grant", client_ms, 0.0, 9.0, "stable"), &fields.map(|(n, v)| (n, v.into())))
        };
        let picture = drawn(vec![
            at(100.0, 1.0, 200.0),
            at(100.0, 50.0, 200.0),
            at(10.0, 150.0, 200.0),
            at(25.0, 150.0, 200.0),
            at(0.2, 1.0, 500.0),
            at(25.0, 1.0, 500.0),
        ]);
        for told in [
            "client rtt 100 ms, interarrival 200 ms",
            "service 150 ms, interarrival 200 ms",
            "service 1 ms, interarrival 500 ms",
        ] {
            assert!(picture.contains(told), "{told}: {picture}");
        }
        assert_eq!(picture.matches("<circle").count(), 6, "each point once");
    }

    #[test]
    fn a_closed_loop_with_more_and_more_clients_shows_what_the_lock_can_do() {
        let of = |clients: u32| {
            let fields = [
                ("clients", clients.into()),
                ("closed", true.into()),
                ("acquisitions_per_s", 40.into()),
                ("writes_per_acquisition", 1.01.into()),
            ];
            with(row("grant", 20.0, 0.0, 9.0, "critical"), &fields)
        };
        let picture = drawn(vec![of(5), of(50)]);
        assert!(picture.contains("acquisitions per second"), "{picture}");
        assert!(picture.contains("log entries per acquisition"), "{picture}");
    }

    #[test]
    fn things_beside_each_other_are_bars() {
        let replies = |what: &str, followers: u32| {
            let fields = [("wait_for", what.into()), ("followers", followers.into())];
            with(row("none", 20.0, 0.0, 9.0, "stable"), &fields)
        };
        let picture = drawn(vec![replies("all", 2), replies("all", 4), replies("one", 2)]);
        assert!(picture.contains("2 followers") && picture.contains("4 followers"), "{picture}");
        let story = |safe: bool| {
            let fields = [("story", "waiter-dies".into()), ("safe", safe.into())];
            with(row("sync-queue", 20.0, 0.0, 9.0, "stable"), &fields)
        };
        let strokes = |safe: bool| drawn(vec![story(safe)]).matches("<line ").count();
        assert!(strokes(false) > strokes(true), "a cross marks two holders");
        let shares = ["share_at_100ms", "share_at_1ms", "share_at_20ms"];
        let shares = shares.map(|field| (field, 0.33.into()));
        let picture = drawn(vec![with(row("sync-tas", 0.0, 0.0, 9.0, "stable"), &shares)]);
        let at = |ms: &str| picture.find(&format!("{ms} ms away")).unwrap();
        assert!(at("\n1") < at("\n20") && at("\n20") < at("\n100"), "the nearest first: {picture}");
    }

    #[test]
    fn what_is_best_where_is_drawn_once_all_cuts_are_there() {
        let of = |experiment: &str, algorithm: &str, mean_ms: f64| {
            let fields = [
                ("experiment", experiment.into()),
                ("service_ms", 1.into()),
                ("interarrival_ms", 200.into()),
            ];
            with(row(algorithm, 100.0, 0.0, mean_ms, "stable"), &fields)
        };
        let all = |cuts: &[&str]| {
            let rows = cuts.iter().flat_map(|cut| [of(cut, "grant", 5.0), of(cut, "tas", 9.0)]);
            rows.collect::<Vec<_>>()
        };
        let picture = drawn(all(&CUTS));
        assert!(picture.contains("E12: claret: high round trip, low contention"), "{picture}");
        assert!(!drawn(all(&CUTS[..3])).contains("E12"));
    }

    #[test]
    fn one_point_is_no_figure() {
        let report =
            Report { rows: vec![row("sync-tas", 1.0, 0.0, 5.0, "stable")], ..Report::default() };
        let error = draw(&report, Path::new("nowhere")).unwrap_err();
        assert!(error.to_string().contains("nothing to draw"));
    }
}
