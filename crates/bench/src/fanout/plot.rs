//! Figures of a report as one SVG: latency by the number of commands, absolute and relative to
//! `single`, latency by throughput, and relative latency by the skew of the keys; each figure only
//! if the rows differ in its parameter, with a line for each protocol.

use crate::picture::{FONT, Failure, LABEL, colour, figure, legend, mark, range, short};
use crate::report::{Report, text};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Width and height of one figure.
const SIZE: (u32, u32) = (620, 460);
/// Fields that distinguish lines, besides the protocol, if rows differ in them.
const LABELS: [&str; 5] = ["topology", "shards", "zipf", "fanout", "clients"];

/// Quantities on the axes of a figure.
struct Figure {
    title: &'static str,
    /// Field in which the rows must differ; its values are joined to a line and are no label.
    varies: &'static str,
    x: &'static str,
    x_says: &'static str,
    y: &'static str,
    y_says: &'static str,
    /// Whether the horizontal axis is logarithmic; the vertical one is.
    log: bool,
}

const FIGURES: [Figure; 4] = [
    Figure {
        title: "Latency relative to single",
        varies: "fanout",
        x: "fanout",
        x_says: "commands per request",
        y: "normalized_p50",
        y_says: "ratio of medians",
        log: true,
    },
    Figure {
        title: "Median latency of a request",
        varies: "fanout",
        x: "fanout",
        x_says: "commands per request",
        y: "p50_us",
        y_says: "microseconds",
        log: true,
    },
    Figure {
        title: "Latency by throughput, with increasing numbers of clients",
        varies: "clients",
        x: "ops_per_s",
        x_says: "commands per second",
        y: "p50_us",
        y_says: "microseconds",
        log: false,
    },
    Figure {
        title: "Relative latency by skew of the keys",
        varies: "zipf",
        x: "zipf",
        x_says: "exponent of the keys' popularity",
        y: "normalized_p50",
        y_says: "median relative to single",
        log: false,
    },
];

type Rows = [Map<String, Value>];
/// Lines by name: points in the order of the rows.
type Lines = BTreeMap<String, Vec<(f64, f64)>>;

fn differ(rows: &Rows, field: &str) -> bool {
    rows.iter().any(|row| row.get(field) != rows[0].get(field))
}

impl Figure {
    /// Lines of the rows that have both coordinates.
    fn lines(&self, rows: &Rows) -> Lines {
        let label = |field: &&&str| **field != self.varies && differ(rows, field);
        let labels: Vec<&str> = LABELS.iter().filter(label).copied().collect();
        let mut lines = Lines::new();
        for row in rows {
            let number = |field: &str| row.get(field).and_then(Value::as_f64);
            let Some(point) = number(self.x).zip(number(self.y)) else { continue };
            let mut name = text(row, "order");
            for label in &labels {
                name.push_str(&format!(", {label} {}", text(row, label)));
            }
            lines.entry(name).or_default().push(point);
        }
        lines
    }

    fn draw<DB: DrawingBackend>(
        &self,
        area: &DrawingArea<DB, plotters::coord::Shift>,
        rows: &Rows,
    ) -> Result<(), Failure>
    where
        DB::ErrorType: 'static,
    {
        let lines = self.lines(rows);
        let points = || lines.values().flatten();
        let x = range(points().map(|point| point.0));
        let y = range(points().map(|point| point.1)).log_scale();
        if self.log {
            self.draw_on(area, &lines, x.log_scale(), y)
        } else {
            let margin = (x.end - x.start) * 0.04;
            self.draw_on(area, &lines, x.start - margin..x.end, y)
        }
    }

    fn draw_on<DB: DrawingBackend, X, Y>(
        &self,
        area: &DrawingArea<DB, plotters::coord::Shift>,
        lines: &Lines,
        x: X,
        y: Y,
    ) -> Result<(), Failure>
    where
        DB::ErrorType: 'static,
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = figure(area, self.title).build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x_says)
            .y_desc(self.y_says)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .x_labels(7)
            .label_style((FONT, LABEL))
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (number, (name, points)) in lines.iter().enumerate() {
            let colour = colour(number);
            let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
            chart.draw_series(line)?.label(name).legend(move |at| mark(at, colour.stroke_width(2)));
            let dots = points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
            chart.draw_series(dots)?;
        }
        // Relative latencies fall with the number of commands, absolute ones grow with it.
        let falls = self.y == "normalized_p50" && self.varies == "fanout";
        let corner =
            if falls { SeriesLabelPosition::LowerLeft } else { SeriesLabelPosition::UpperLeft };
        legend(&mut chart, corner)
    }
}

/// Figures for which these rows have enough data.
fn figures(rows: &Rows) -> Vec<&'static Figure> {
    let enough = |figure: &&Figure| {
        rows.iter().any(|row| row.get(figure.x).is_some_and(Value::is_number))
            && differ(rows, figure.varies)
            && !figure.lines(rows).is_empty()
    };
    FIGURES.iter().filter(enough).collect()
}

/// Draws the rows into a file.
///
/// # Errors
/// There is nothing to draw, or the file cannot be written.
pub fn draw(report: &Report, file: &Path) -> io::Result<()> {
    let figures = figures(&report.rows);
    if figures.is_empty() {
        let why = "there is nothing to draw: ask for several of --fanout, --clients or --zipf";
        return Err(io::Error::other(why));
    }
    let svg = picture(&figures, &report.rows).map_err(|e| io::Error::other(e.to_string()))?;
    std::fs::write(file, svg)
}

fn picture(figures: &[&Figure], rows: &Rows) -> Result<String, Failure> {
    let mut svg = String::new();
    {
        let size = (SIZE.0 * figures.len() as u32, SIZE.1);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        for (figure, area) in figures.iter().zip(area.split_evenly((1, figures.len()))) {
            figure.draw(&area, rows)?;
        }
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fields;

    fn row(order: &str, fanout: u32, p50_us: f64) -> Map<String, Value> {
        fields([
            ("order", order.into()),
            ("topology", "datacenter".into()),
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
        let latency = &FIGURES[1];
        let found = latency.lines(&rows);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["constant", "single"]);
        assert_eq!(found["single"], [(1.0, 4.0), (8.0, 32.0)]);
        rows[0].insert("shards".into(), 3.into());
        assert!(latency.lines(&rows).contains_key("single, shards 3"));
    }

    #[test]
    fn a_figure_is_drawn_for_what_the_rows_differ_in() {
        let mut rows = vec![row("single", 16, 4.0), row("single", 16, 5.0)];
        assert!(figures(&rows).is_empty());
        for (row, (clients, rate)) in rows.iter_mut().zip([(1, 200.0), (8, 900.0)]) {
            row.insert("clients".into(), clients.into());
            row.insert("ops_per_s".into(), rate.into());
        }
        let found = figures(&rows);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].lines(&rows)["single"], [(200.0, 4.0), (900.0, 5.0)]);
    }

    #[test]
    fn the_picture_names_its_lines_and_axes() {
        let rows = [row("single", 1, 4.0), row("single", 2, 8.0)];
        let svg = picture(&figures(&rows), &rows).unwrap();
        for part in ["<svg", "single", "commands per request", "microseconds", "circle"] {
            assert!(svg.contains(part), "{part}");
        }
        let empty = draw(&Report::default(), Path::new("nowhere")).unwrap_err();
        assert!(empty.to_string().contains("nothing to draw"));
    }
}
