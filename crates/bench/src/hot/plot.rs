//! Picture of the rows: a column for each task and skew, with commits per second above and p99
//! below, both by the number of clients; a line for each program.

use crate::picture::{FONT, Failure, LABEL, colour, figure, legend, mark, range, short};
use crate::report::{Report, number, text};
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// Width and height of one figure.
const SIZE: (u32, u32) = (480, 380);

type Rows<'r> = Vec<&'r Map<String, Value>>;
/// Lines by name: points in the order of the rows.
type Lines = BTreeMap<String, Vec<(f64, f64)>>;

/// Rows by the title of their column, in the order in which they were measured.
fn columns(report: &Report) -> Vec<(String, Rows<'_>)> {
    let mut columns: Vec<(String, Rows<'_>)> = Vec::new();
    for row in &report.rows {
        let title = format!("{}, {}", text(row, "task"), text(row, "skew"));
        match columns.iter_mut().find(|(known, _)| *known == title) {
            Some((_, rows)) => rows.push(row),
            None => columns.push((title, vec![row])),
        }
    }
    columns
}

/// Server and program of a row.
fn name(row: &Map<String, Value>) -> String {
    format!("{} {}", text(row, "server"), text(row, "program"))
}

fn lines(rows: &Rows<'_>, field: &str) -> Lines {
    let mut lines = Lines::new();
    for row in rows {
        let value = number(row, field).filter(|value| *value > 0.0);
        let Some(point) = number(row, "clients").zip(value) else { continue };
        lines.entry(name(row)).or_default().push(point);
    }
    lines
}

fn draw_figure<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    title: &str,
    what: &str,
    lines: &Lines,
    names: &BTreeSet<String>,
) -> Result<(), Failure>
where
    DB::ErrorType: 'static,
{
    let points = || lines.values().flatten();
    let (x, y) = (range(points().map(|point| point.0)), range(points().map(|point| point.1)));
    let mut chart = figure(area, title).build_cartesian_2d(x.log_scale(), y.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("clients")
        .y_desc(what)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .x_labels(6)
        .label_style((FONT, LABEL))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (name, points) in lines {
        // The same colour for a program in all figures.
        let number = names.iter().position(|known| known == name).unwrap_or(0);
        let style = colour(number).stroke_width(2);
        let line = LineSeries::new(points.iter().copied(), style);
        chart.draw_series(line)?.label(name).legend(move |at| mark(at, style));
        let dots = points.iter().map(|point| Circle::new(*point, 3, colour(number).filled()));
        chart.draw_series(dots)?;
    }
    legend(&mut chart, plotters::chart::SeriesLabelPosition::UpperLeft)
}

fn picture(report: &Report) -> Result<String, Failure> {
    let columns = columns(report);
    let names: BTreeSet<String> = report.rows.iter().map(name).collect();
    let mut svg = String::new();
    {
        let size = (SIZE.0 * columns.len() as u32, SIZE.1 * 2);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let areas = area.split_evenly((2, columns.len()));
        let (above, below) = areas.split_at(columns.len());
        for ((title, rows), (above, below)) in columns.iter().zip(above.iter().zip(below)) {
            for (area, field, what) in [
                (above, "commits_per_s", "commits per second"),
                (below, "p99_us", "p99 in microseconds"),
            ] {
                let lines = lines(rows, field);
                if !lines.is_empty() {
                    draw_figure(area, title, what, &lines, &names)?;
                }
            }
        }
        area.present()?;
    }
    Ok(svg)
}

/// Draws the rows into a file.
///
/// # Errors
/// There is nothing to draw, or the file cannot be written.
pub fn draw(report: &Report, file: &Path) -> io::Result<()> {
    if report.rows.is_empty() {
        return Err(io::Error::other("there is nothing to draw"));
    }
    let svg = picture(report).map_err(|error| io::Error::other(error.to_string()))?;
    std::fs::write(file, svg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fields;

    #[test]
    fn the_picture_has_a_line_for_each_program() {
        let row = |task: &str, clients: u32, program: &str, rate: u32| {
            fields([
                ("task", task.into()),
                ("skew", "one".into()),
                ("clients", clients.into()),
                ("server", "claret".into()),
                ("program", program.into()),
                ("commits_per_s", rate.into()),
                ("p99_us", 100.into()),
            ])
        };
        let rows = vec![
            row("take", 1, "txn", 10),
            row("take", 8, "txn", 70),
            row("take", 8, "try", 90),
            row("stock", 8, "try", 0),
        ];
        let report = Report { rows, ..Report::default() };
        let columns = columns(&report);
        assert_eq!(
            columns.iter().map(|column| &column.0[..]).collect::<Vec<_>>(),
            ["take, one", "stock, one"]
        );
        let found = lines(&columns[0].1, "commits_per_s");
        assert_eq!(found["claret txn"], [(1.0, 10.0), (8.0, 70.0)]);
        assert!(lines(&columns[1].1, "commits_per_s").is_empty());
        let svg = picture(&report).unwrap();
        for part in ["<svg", "claret try", "commits per second", "p99", "circle"] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(draw(&Report::default(), Path::new("nowhere")).is_err());
    }
}
