//! Latency by the number of commands of a request, a line for each protocol, as SVG.

use crate::report::Report;
use plotters::prelude::*;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

const SIZE: (u32, u32) = (860, 560);
const FONT: &str = "sans-serif";
/// Distinct without colours too: lines are labelled.
const COLOURS: [RGBColor; 6] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(127, 127, 127),
];
/// What tells lines apart, besides the protocol, if rows differ in it.
const LABELS: [&str; 4] = ["topology", "shards", "zipf", "clients"];

/// A line: its points are numbers of commands with microseconds.
type Lines = BTreeMap<String, Vec<(f64, f64)>>;

fn text(row: &Map<String, Value>, field: &str) -> String {
    match row.get(field) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

/// The lines of the rows that say how many commands a request had.
fn lines(rows: &[Map<String, Value>]) -> Lines {
    let differs = |field: &&&str| rows.iter().any(|row| row.get(**field) != rows[0].get(**field));
    let labels: Vec<&str> = LABELS.iter().filter(differs).copied().collect();
    let mut lines = Lines::new();
    for row in rows {
        let number = |field: &str| row.get(field).and_then(Value::as_f64);
        let Some(point) = number("fanout").zip(number("p50_us")) else { continue };
        let mut name = text(row, "order");
        for label in &labels {
            name.push_str(&format!(", {label} {}", text(row, label)));
        }
        lines.entry(name).or_default().push(point);
    }
    lines
}

/// From where to where an axis goes on which these values lie.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(l, m), v| (l.min(v), m.max(v)));
    least * 0.9..most * 1.2
}

/// Draws the rows into a file.
///
/// # Errors
/// There is nothing to draw, or the file cannot be written.
pub fn draw(report: &Report, file: &Path) -> io::Result<()> {
    let lines = lines(&report.rows);
    if lines.is_empty() {
        return Err(io::Error::other("there is nothing to draw: no row has a fanout"));
    }
    let mut svg = String::new();
    figure(&lines, &mut svg).map_err(|error| io::Error::other(error.to_string()))?;
    std::fs::write(file, svg)
}

fn figure(lines: &Lines, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let points = || lines.values().flatten();
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (x, y) = (range(points().map(|point| point.0)), range(points().map(|point| point.1)));
    let mut chart = ChartBuilder::on(&area)
        .caption("Median latency of a request", (FONT, 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(x.log_scale(), y.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("commands per request")
        .y_desc("microseconds")
        .label_style((FONT, 14))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (number, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        let dots = points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
        chart.draw_series(dots)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .label_font((FONT, 14))
        .draw()?;
    area.present()?;
    drop(chart);
    drop(area);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fields;

    fn row(order: &str, fanout: u32, p50_us: f64) -> Map<String, Value> {
        fields([
            ("order", order.into()),
            ("topology", "uniform".into()),
            ("shards", 9.into()),
            ("fanout", fanout.into()),
            ("p50_us", p50_us.into()),
        ])
    }

    #[test]
    fn there_is_a_line_for_each_protocol() {
        let mut rows = vec![row("single", 1, 4.0), row("single", 8, 32.0), row("constant", 8, 5.0)];
        let mut without = row("single", 1, 7.0);
        without.remove("fanout");
        rows.push(without);
        let found = lines(&rows);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["constant", "single"]);
        assert_eq!(found["single"], [(1.0, 4.0), (8.0, 32.0)]);
        rows[0].insert("shards".into(), 3.into());
        assert!(lines(&rows).contains_key("single, shards 3"));
    }

    #[test]
    fn the_picture_names_its_lines_and_axes() {
        let report = Report { rows: vec![row("single", 1, 4.0)], ..Report::default() };
        let mut svg = String::new();
        figure(&lines(&report.rows), &mut svg).unwrap();
        for part in ["<svg", "single", "commands per request", "microseconds", "circle"] {
            assert!(svg.contains(part), "{part}");
        }
        let empty = draw(&Report::default(), Path::new("nowhere")).unwrap_err();
        assert!(empty.to_string().contains("nothing to draw"));
    }
}
