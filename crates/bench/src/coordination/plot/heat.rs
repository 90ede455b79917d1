//! Latency over both round trips: a grid of colours, each cell with its figure.

use super::{Area, Row, is_overloaded};
use crate::picture::{FONT, Failure, LABEL, figure, short};
use crate::report::number;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// Colour from pale to dark, by the position of a value on a logarithmic scale of the range.
fn colour(value: f64, range: &Range<f64>) -> RGBColor {
    let way = (value / range.start).ln() / (range.end / range.start).ln();
    let way = way.clamp(0.0, 1.0);
    let mix = |from: f64, to: f64| (from + (to - from) * way) as u8;
    RGBColor(mix(255.0, 127.0), mix(247.0, 0.0), mix(224.0, 30.0))
}

/// Distinct values of a field in ascending order.
fn steps(rows: &[&Row], field: &str) -> Vec<f64> {
    let mut values: Vec<f64> = rows.iter().filter_map(|row| number(row, field)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Draws a field of the rows over both round trips. The figure of an overloaded lock is left out,
/// since it would be meaningless.
pub fn draw(
    area: &Area<'_>,
    title: &str,
    field: &str,
    rows: &[&Row],
    range: Range<f64>,
) -> Result<(), Failure> {
    let (xs, ys) = (steps(rows, "client_rtt_ms"), steps(rows, "server_rtt_ms"));
    let mut chart =
        figure(area, title).build_cartesian_2d(0.0..xs.len() as f64, 0.0..ys.len() as f64)?;
    let name = |steps: &[f64], at: f64| {
        let inside = at.fract() == 0.0 && at >= 0.0;
        steps.get(at as usize).filter(|_| inside).map_or(String::new(), |ms| short(*ms))
    };
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("round trip of clients, ms")
        .y_desc("round trip of servers, ms")
        .x_labels(xs.len() + 1)
        .y_labels(ys.len() + 1)
        .x_label_formatter(&|at| name(&xs, *at))
        .y_label_formatter(&|at| name(&ys, *at))
        .label_style((FONT, LABEL))
        .draw()?;
    let place = |steps: &[f64], value: f64| steps.iter().position(|step| *step == value);
    for row in rows {
        let at = number(row, "client_rtt_ms").and_then(|ms| place(&xs, ms));
        let up = number(row, "server_rtt_ms").and_then(|ms| place(&ys, ms));
        let (Some(x), Some(y)) = (at, up) else { continue };
        let (x, y) = (x as f64, y as f64);
        let value = number(row, field).filter(|_| !is_overloaded(row));
        let fill = value.map_or(RGBColor(225, 225, 225), |value| colour(value, &range));
        let corners = [(x, y), (x + 1.0, y + 1.0)];
        chart.draw_series([Rectangle::new(corners, fill.filled())])?;
        let says = value.map_or("overloaded".to_owned(), |ms| match ms {
            ms if ms >= 100.0 => format!("{ms:.0}"),
            ms => short((ms * 100.0).round() / 100.0),
        });
        let dark = fill.1 < 110;
        let style = TextStyle::from((FONT, 11).into_font())
            .color(if dark { &WHITE } else { &BLACK })
            .pos(Pos::new(HPos::Center, VPos::Center));
        chart.draw_series([Text::new(says, (x + 0.5, y + 0.5), style)])?;
    }
    Ok(())
}
