//! Bar charts, and the distribution of round trips.

use super::{Area, Row, range};
use crate::picture::{FONT, Failure, LABEL, colour, figure, legend, short};
use crate::report::{number, text};
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use serde_json::Value;

/// One bar: its place, its colour group, its height, the expected value, and whether the
/// measurement behind it is invalid.
#[derive(Debug, PartialEq)]
pub struct Bar {
    pub place: String,
    pub group: String,
    pub value: Option<f64>,
    pub expected: Option<f64>,
    pub wrong: bool,
}

/// A bar chart with groups of places and, within those, colours.
#[derive(Debug, PartialEq)]
pub struct Bars {
    /// Unit of the values.
    pub unit: &'static str,
    /// Whether the values are shares of one. Otherwise the axis is logarithmic.
    pub shares: bool,
    pub bars: Vec<Bar>,
}

fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.contains(name) {
            distinct.push(name.clone());
        }
    }
    distinct
}

impl Bars {
    /// Draws the bars; a black stroke in a bar marks the expected value, and a cross marks an
    /// invalid measurement.
    pub fn draw(&self, area: &Area<'_>, title: &str) -> Result<(), Failure> {
        let places = distinct(self.bars.iter().map(|bar| &bar.place));
        let x = 0.0..places.len() as f64;
        let mut figure = figure(area, title);
        if self.shares {
            return self.fill(&mut figure.build_cartesian_2d(x, 0.0..1.0)?, &places, 0.0);
        }
        let y = range(self.bars.iter().flat_map(|bar| [bar.value, bar.expected]).flatten());
        // Leaves room for the legend above the bars.
        let (floor, y) = (y.start, y.start..y.end * 2.5);
        self.fill(&mut figure.build_cartesian_2d(x, y.log_scale())?, &places, floor)
    }

    fn fill<'a, 'b: 'a, Y>(
        &self,
        chart: &mut ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>,
        places: &[String],
        floor: f64,
    ) -> Result<(), Failure>
    where
        Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let name = |at: f64| {
            let inside = (at.fract() - 0.5).abs() < 1e-9 && at >= 0.0;
            places.get(at as usize).filter(|_| inside).cloned().unwrap_or_default()
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .y_desc(self.unit)
            .x_labels(2 * places.len() + 1)
            .x_label_formatter(&|at| name(*at))
            .y_label_formatter(&|value| short(*value))
            .label_style((FONT, 9))
            .light_line_style(TRANSPARENT)
            .draw()?;
        let groups = distinct(self.bars.iter().map(|bar| &bar.group));
        let width = 0.84 / groups.len().max(1) as f64;
        for (number, group) in groups.iter().enumerate() {
            let colour = colour(number);
            let (mut bars, mut strokes, mut crosses) = (Vec::new(), Vec::new(), Vec::new());
            for bar in self.bars.iter().filter(|bar| bar.group == *group) {
                let place = places.iter().position(|place| *place == bar.place).unwrap_or(0);
                let x = place as f64 + 0.08 + width * number as f64;
                if let Some(value) = bar.value {
                    bars.push(Rectangle::new([(x, floor), (x + width, value)], colour.filled()));
                }
                if let Some(ms) = bar.expected {
                    let ends = [(x, ms), (x + width, ms)];
                    strokes.push(PathElement::new(ends, BLACK.stroke_width(1)));
                }
                if bar.wrong {
                    let at = (x + width / 2.0, bar.value.unwrap_or(floor));
                    crosses.push(Cross::new(at, 6, BLACK.stroke_width(2)));
                }
            }
            chart.draw_series(bars)?.label(group).legend(move |(x, y)| {
                Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled())
            });
            chart.draw_series(strokes)?;
            chart.draw_series(crosses)?;
        }
        legend(chart, SeriesLabelPosition::UpperRight)
    }
}

/// Mean times of rows, each in a place and a colour. Unsafe results are marked as invalid.
fn times(rows: &[&Row], unit: &'static str, of: impl Fn(&Row) -> (String, String)) -> Bars {
    let bar = |row: &&Row| {
        let (place, group) = of(row);
        let (value, expected) = (number(row, "mean_ms"), number(row, "predicted_ms"));
        let wrong = row.get("safe").is_some_and(|safe| *safe == false);
        Bar { place, group, value, expected, wrong }
    };
    Bars { unit, shares: false, bars: rows.iter().map(bar).collect() }
}

/// Mean of each operation, for each service and mode.
pub fn operations(rows: &[&Row]) -> Bars {
    let group = |row: &Row| format!("{}, {}", text(row, "backend"), text(row, "mode"));
    times(rows, "time per operation, ms", |row| (text(row, "operation"), group(row)))
}

/// Time until a given number of several replies has arrived.
pub fn replies(rows: &[&Row]) -> Bars {
    let place = |row: &Row| format!("{} followers", text(row, "followers"));
    times(rows, "mean latency, ms", |row| (place(row), text(row, "wait_for")))
}

/// Wait of the next client for the lock in each failure scenario, by algorithm. A scenario in which
/// two clients held the lock is marked as invalid.
pub fn stories(rows: &[&Row]) -> Bars {
    let unit = "time until the next grant, ms";
    times(rows, unit, |row| (text(row, "story"), text(row, "algorithm")))
}

/// Shares of the grants by the distance of the clients.
pub fn shares(rows: &[&Row]) -> Bars {
    let mut bars = Vec::new();
    for row in rows {
        let distance = |field: &String| {
            let ms = field.strip_prefix("share_at_")?.strip_suffix("ms")?;
            Some((ms.parse().ok()?, number(row, field)))
        };
        let mut shares: Vec<(f64, Option<f64>)> = row.keys().filter_map(distance).collect();
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        bars.extend(shares.into_iter().map(|(ms, value)| Bar {
            place: format!("{} ms away", short(ms)),
            group: text(row, "algorithm"),
            value,
            expected: None,
            wrong: false,
        }));
    }
    Bars { unit: "share of the grants", shares: true, bars }
}

/// Ratios of the algorithms to the best one of a region, by measure.
pub fn region(told: &Value) -> Bars {
    let mut bars = Vec::new();
    for (measure, ways) in told.as_object().into_iter().flatten() {
        for way in ways.as_array().into_iter().flatten() {
            bars.push(Bar {
                place: way[0].as_str().unwrap_or_default().to_owned(),
                group: measure.trim_end_matches("_ms").replace('_', " "),
                value: way[1].as_f64(),
                expected: None,
                wrong: false,
            });
        }
    }
    Bars { unit: "ratio to the best", shares: false, bars }
}

/// Draws the frequency of each round trip.
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
