//! Latency along one parameter: measured as a solid line with dots, predicted as a broken line.

use super::{ALONG, Area, Row, by, differ, is_overloaded, range};
use crate::picture::{FONT, Failure, LABEL, colour, figure, legend, mark, short};
use crate::report::number;
use plotters::prelude::*;

/// Lines of a cut: their names, and their rows.
fn lines<'a>(rows: &[&'a Row], along: &str) -> Vec<(String, Vec<&'a Row>)> {
    let mut lines = Vec::new();
    for (key, rows) in by(rows, &["algorithm", "measure"]) {
        let name = if key[1] == "lock" { &key[0] } else { &key[1] };
        let differs = |field: &&str| *field != along && differ(&rows, field);
        let also: Vec<&str> = ALONG.into_iter().filter(differs).collect();
        for (_, rows) in by(&rows, &also) {
            let called = |field: &&str| {
                let (what, unit) = field.strip_suffix("_ms").map_or((*field, ""), |f| (f, " ms"));
                let value = number(rows[0], field).map_or(String::new(), short);
                format!(", {} {value}{unit}", what.replace('_', " "))
            };
            let called: String = also.iter().map(called).collect();
            lines.push((format!("{name}{called}"), rows));
        }
    }
    lines
}

/// A quantity that is drawn along a parameter: its field, the field of the prediction, and its
/// label.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    pub field: &'static str,
    pub expected: &'static str,
    pub says: &'static str,
}

/// Latency of a request.
pub const LATENCY: Drawn =
    Drawn { field: "mean_ms", expected: "predicted_ms", says: "mean latency, ms" };
/// Capacity of a lock under constant demand, and its cost.
pub const CAPACITY: [Drawn; 2] = [
    Drawn { field: "acquisitions_per_s", expected: "", says: "acquisitions per second" },
    Drawn {
        field: "writes_per_acquisition",
        expected: "predicted_writes",
        says: "log entries per acquisition",
    },
];

/// Draws a quantity over a field, with a line for each algorithm or, without one, for each measure,
/// and for each other field that differs.
pub fn draw(
    area: &Area<'_>,
    title: &str,
    (along, what): (&str, Drawn),
    rows: &[&Row],
) -> Result<(), Failure> {
    let drawn: Vec<&Row> = rows.iter().copied().filter(|row| !is_overloaded(row)).collect();
    let x = |row: &Row| number(row, along);
    let xs: Vec<f64> = rows.iter().filter_map(|row| x(row)).collect();
    let most = xs.iter().copied().fold(0.0, f64::max);
    let both = |row: &&Row| [number(row, what.field), number(row, what.expected)];
    let y = range(drawn.iter().flat_map(both).flatten());
    let mut chart =
        figure(area, title).build_cartesian_2d(-most * 0.03..most * 1.05, y.log_scale())?;
    chart
        .configure_mesh()
        .x_desc(along.replace('_', " "))
        .y_desc(what.says)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .x_labels(7)
        .label_style((FONT, LABEL))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (number_of, (name, rows)) in lines(&drawn, along).iter().enumerate() {
        let colour = colour(number_of);
        let points = |field: &str| -> Vec<(f64, f64)> {
            let mut points: Vec<(f64, f64)> =
                rows.iter().filter_map(|row| x(row).zip(number(row, field))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let measured = points(what.field);
        let line = LineSeries::new(measured.iter().copied(), colour.stroke_width(2));
        chart.draw_series(line)?.label(name).legend(move |at| mark(at, colour.stroke_width(2)));
        let predicted = points(what.expected);
        let broken = DashedLineSeries::new(predicted, 4, 4, colour.stroke_width(1));
        chart.draw_series(broken)?;
        let dots = measured.iter().map(|point| Circle::new(*point, 3, colour.filled()));
        chart.draw_series(dots)?;
    }
    legend(&mut chart, SeriesLabelPosition::UpperLeft)
}

/// Draws the positions of points: round trip of clients across, contention (the fraction of the
/// time between requests for which the lock is held) upwards.
pub fn plan(area: &Area<'_>, rows: &[&Row]) -> Result<(), Failure> {
    let across = |row: &Row| number(row, "client_rtt_ms");
    let upwards = |row: &Row| Some(number(row, "service_ms")? / number(row, "interarrival_ms")?);
    let most = rows.iter().filter_map(|row| across(row)).fold(1.0, f64::max);
    let mut chart = figure(area, "Where the cuts lie")
        .build_cartesian_2d(-most * 0.03..most * 1.05, -0.03..1.05)?;
    chart
        .configure_mesh()
        .x_desc("round trip of clients, ms")
        .y_desc("service over interarrival")
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .label_style((FONT, LABEL))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (number_of, (key, rows)) in by(rows, &["experiment"]).iter().enumerate() {
        let colour = colour(number_of);
        let mut points: Vec<(f64, f64)> =
            rows.iter().filter_map(|row| across(row).zip(upwards(row))).collect();
        points.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        points.dedup();
        let line = LineSeries::new(points.iter().copied(), colour.mix(0.4).stroke_width(8));
        chart
            .draw_series(line)?
            .label(&key[0])
            .legend(move |at| mark(at, colour.mix(0.4).stroke_width(8)));
        let dots = points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
        chart.draw_series(dots)?;
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}
