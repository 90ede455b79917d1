//! Picture of the rows: for each task and skew, commits per second on the left and p99 on the right,
//! both by the number of clients; a line for each program. The legend is below all figures.

use crate::picture::{FONT, Failure, colour, figure, mark, range, short};
use crate::report::{Report, number, text};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Width and height of one figure.
const SIZE: (u32, u32) = (480, 380);
/// Size of the text at axes and in the legend.
const TEXT: u32 = 16;
/// Lines in one row of the legend.
const LEGEND_COLUMNS: usize = 3;
/// Height of a row of the legend.
const LEGEND_ROW: i32 = 24;
/// Length of a mark with the gap behind it.
const MARK: i32 = 26;
/// Radius of a point.
const POINT: i32 = 4;

type Rows<'r> = Vec<&'r Map<String, Value>>;
/// Lines by the position of their name: points in the order of the rows.
type Lines = BTreeMap<usize, Vec<(f64, f64)>>;

/// Field of the rows, its unit, and the text at its axis.
const FIELDS: [(&str, f64, &str); 2] =
    [("commits_per_s", 1.0, "commits per second"), ("p99_us", 1e3, "p99 in milliseconds")];

/// Rows by the title of their figures, in the order in which they were measured.
fn cells(report: &Report) -> Vec<(String, Rows<'_>)> {
    let mut cells: Vec<(String, Rows<'_>)> = Vec::new();
    for row in &report.rows {
        let skew = text(row, "skew");
        let records = match &skew[..] {
            "one" => "one record".to_owned(),
            _ => format!("{skew} over {} records", text(row, "records")),
        };
        let title = format!("{}, {records}", text(row, "task"));
        match cells.iter_mut().find(|(known, _)| *known == title) {
            Some((_, rows)) => rows.push(row),
            None => cells.push((title, vec![row])),
        }
    }
    cells
}

/// Server and program of a row.
fn name(row: &Map<String, Value>) -> String {
    format!("{} {}", text(row, "server"), text(row, "program"))
}

/// Names of all lines, in the order in which they were measured.
fn names(report: &Report) -> Vec<String> {
    let mut names = Vec::new();
    for name in report.rows.iter().map(name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn lines(rows: &Rows<'_>, field: &str, unit: f64, names: &[String]) -> Lines {
    let mut lines = Lines::new();
    for row in rows {
        let value = number(row, field).filter(|value| *value > 0.0);
        let Some((clients, value)) = number(row, "clients").zip(value) else { continue };
        let position = names.iter().position(|known| *known == name(row)).unwrap_or(0);
        lines.entry(position).or_default().push((clients, value / unit));
    }
    lines
}

/// Text of a number, with a comma before each three digits.
fn grouped(value: f64) -> String {
    let text = short(value);
    let (whole, rest) = text.split_once('.').map_or((&text[..], None), |(w, r)| (w, Some(r)));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    rest.map_or(out.clone(), |rest| format!("{out}.{rest}"))
}

/// Style of the points of a line: those of Claret are full, the others are rings.
fn point(name: &str, number: usize) -> ShapeStyle {
    let full = name.starts_with("claret ");
    if full { colour(number).filled() } else { colour(number).stroke_width(2) }
}

fn draw_figure<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    title: &str,
    what: &str,
    lines: &Lines,
    names: &[String],
) -> Result<(), Failure>
where
    DB::ErrorType: 'static,
{
    let points = || lines.values().flatten();
    let (x, y) = (range(points().map(|point| point.0)), range(points().map(|point| point.1)));
    let mut clients: Vec<f64> = points().map(|point| point.0).collect();
    clients.sort_by(f64::total_cmp);
    clients.dedup();
    let x = x.log_scale().with_key_points(clients);
    let mut chart = figure(area, title).build_cartesian_2d(x, y.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("clients")
        .y_desc(what)
        .x_label_formatter(&|value| grouped(*value))
        .y_label_formatter(&|value| grouped(*value))
        .label_style((FONT, TEXT))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (&number, points) in lines {
        let style = colour(number).stroke_width(2);
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        let style = point(&names[number], number);
        chart.draw_series(points.iter().map(|point| Circle::new(*point, POINT, style)))?;
    }
    Ok(())
}

/// Draws the names of all lines, row by row.
fn draw_legend<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    names: &[String],
) -> Result<(), Failure>
where
    DB::ErrorType: 'static,
{
    let width = area.dim_in_pixel().0 as i32 / LEGEND_COLUMNS as i32;
    let style = (FONT, TEXT).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
    for (number, name) in names.iter().enumerate() {
        let (column, row) = ((number % LEGEND_COLUMNS) as i32, (number / LEGEND_COLUMNS) as i32);
        let (x, y) = (column * width + width / 6, row * LEGEND_ROW + LEGEND_ROW / 2);
        area.draw(&mark((x, y), colour(number).stroke_width(2)))?;
        area.draw(&Circle::new((x + 9, y), POINT, point(name, number)))?;
        area.draw(&Text::new(&name[..], (x + MARK, y), style.clone()))?;
    }
    Ok(())
}

fn picture(report: &Report) -> Result<String, Failure> {
    let (cells, names) = (cells(report), names(report));
    let mut svg = String::new();
    {
        let figures = SIZE.1 * cells.len() as u32;
        let legend = (names.len().div_ceil(LEGEND_COLUMNS) as i32 + 1) * LEGEND_ROW;
        let size = (SIZE.0 * FIELDS.len() as u32, figures + legend as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        let (above, below) = area.split_vertically(figures);
        let areas = above.split_evenly((cells.len(), FIELDS.len()));
        for ((title, rows), areas) in cells.iter().zip(areas.chunks(FIELDS.len())) {
            for (area, (field, unit, what)) in areas.iter().zip(FIELDS) {
                let lines = lines(rows, field, unit, &names);
                if !lines.is_empty() {
                    draw_figure(area, title, what, &lines, &names)?;
                }
            }
        }
        draw_legend(&below, &names)?;
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
        let cells = cells(&report);
        assert_eq!(
            cells.iter().map(|cell| &cell.0[..]).collect::<Vec<_>>(),
            ["take, one record", "stock, one record"]
        );
        let names = names(&report);
        assert_eq!(names, ["claret txn", "claret try"]);
        let found = lines(&cells[0].1, "commits_per_s", 1.0, &names);
        assert_eq!(found[&0], [(1.0, 10.0), (8.0, 70.0)]);
        assert_eq!(lines(&cells[0].1, "p99_us", 1e3, &names)[&1], [(8.0, 0.1)]);
        assert!(lines(&cells[1].1, "commits_per_s", 1.0, &names).is_empty());
        let svg = picture(&report).unwrap();
        for part in ["<svg", "claret try", "commits per second", "p99", "circle"] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(draw(&Report::default(), Path::new("nowhere")).is_err());
    }

    #[test]
    fn long_numbers_are_grouped() {
        let texts = [0.25, 256.0, 1024.0, 1_000_000.0, 1234.5].map(grouped);
        assert_eq!(texts, ["0.25", "256", "1,024", "1,000,000", "1,234.5"]);
    }
}
