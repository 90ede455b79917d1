//! Operations beside each other, and how round trips are spread.

use super::{Area, Row, by, range};
use crate::picture::{FONT, Failure, LABEL, colour, figure, legend, short};
use crate::report::{number, text};
use plotters::prelude::*;
use serde_json::Value;

/// Draws the mean of each operation as a bar for each service and mode; what is predicted is a
/// black stroke in it.
pub fn operations(area: &Area<'_>, title: &str, rows: &[&Row]) -> Result<(), Failure> {
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        let name = text(row, "operation");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let groups = by(rows, &["backend", "mode"]);
    let y = range(rows.iter().filter_map(|row| number(row, "mean_ms")));
    let floor = y.start;
    let mut chart =
        figure(area, title).build_cartesian_2d(0.0..names.len() as f64, y.log_scale())?;
    let name = |at: f64| {
        let inside = (at.fract() - 0.5).abs() < 1e-9 && at >= 0.0;
        names.get(at as usize).filter(|_| inside).cloned().unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .y_desc("time per operation, ms")
        .x_labels(2 * names.len() + 1)
        .x_label_formatter(&|at| name(*at))
        .y_label_formatter(&|value| short(*value))
        .label_style((FONT, 9))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let width = 0.84 / groups.len() as f64;
    for (group, (key, rows)) in groups.iter().enumerate() {
        let colour = colour(group);
        let place = |row: &Row| {
            let own = names.iter().position(|name| *name == text(row, "operation"));
            own.map(|own| own as f64 + 0.08 + width * group as f64)
        };
        let mut bars = Vec::new();
        let mut strokes = Vec::new();
        for row in rows {
            let Some((x, mean)) = place(row).zip(number(row, "mean_ms")) else { continue };
            bars.push(Rectangle::new([(x, floor), (x + width, mean)], colour.filled()));
            if let Some(ms) = number(row, "predicted_ms") {
                let ends = [(x, ms), (x + width, ms)];
                strokes.push(PathElement::new(ends, BLACK.stroke_width(1)));
            }
        }
        chart
            .draw_series(bars)?
            .label(format!("{}, {}", key[0], key[1]))
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled()));
        chart.draw_series(strokes)?;
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}

/// Draws how often which round trip was seen.
pub fn density(area: &Area<'_>, title: &str, row: &Row) -> Result<(), Failure> {
    let pair = |pair: &Value| Some((pair.get(0)?.as_f64()?, pair.get(1)?.as_f64()?));
    let bins: Vec<(f64, f64)> = row
        .get("density")
        .and_then(Value::as_array)
        .map(|bins| bins.iter().filter_map(pair).collect())
        .unwrap_or_default();
    let step = bins.windows(2).map(|two| two[1].0 - two[0].0).fold(f64::MAX, f64::min);
    let end = bins.last().map_or(1.0, |bin| bin.0 + step);
    let start = bins.first().map_or(0.0, |bin| bin.0);
    let most = bins.iter().map(|bin| bin.1).fold(0.0, f64::max);
    let mut chart = figure(area, title).build_cartesian_2d(start..end, 0.0..most * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("round trip, ms")
        .y_desc("share")
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .label_style((FONT, LABEL))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let bar = |(at, share): &(f64, f64)| {
        Rectangle::new([(*at, 0.0), (at + step, *share)], colour(0).filled())
    };
    chart.draw_series(bins.iter().map(bar))?;
    Ok(())
}
