//! Common style of the pictures of all benches.

use plotters::chart::{ChartBuilder, ChartContext, SeriesLabelPosition};
use plotters::coord::{CoordTranslate, Shift};
use plotters::prelude::*;
use std::ops::Range;

/// Any error while drawing.
pub type Failure = Box<dyn std::error::Error>;

/// Font of all text.
pub const FONT: &str = "sans-serif";
/// Size of the text at axes.
pub const LABEL: u32 = 12;
/// Colours of lines, in the order of use. Lines are also distinct without colours: they are
/// labelled.
pub const COLOURS: [RGBColor; 9] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(255, 127, 14),
    RGBColor(127, 127, 127),
    RGBColor(23, 190, 207),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
];

/// Colour of the line with this number.
pub fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

/// One figure of a picture, with margins for its title and axis labels.
pub fn figure<'a, 'b, DB: DrawingBackend>(
    area: &'a DrawingArea<DB, Shift>,
    title: &str,
) -> ChartBuilder<'a, 'b, DB> {
    let mut chart = ChartBuilder::on(area);
    chart.caption(title, (FONT, 16)).margin(10).x_label_area_size(44).y_label_area_size(72);
    chart
}

/// Mark of a line in the legend.
pub fn mark((x, y): (i32, i32), style: impl Into<ShapeStyle>) -> PathElement<(i32, i32)> {
    PathElement::new([(x, y), (x + 18, y)], style)
}

/// Draws the legend.
pub fn legend<'a, DB, CT>(
    chart: &mut ChartContext<'a, DB, CT>,
    corner: SeriesLabelPosition,
) -> Result<(), Failure>
where
    DB: DrawingBackend + 'a,
    DB::ErrorType: 'static,
    CT: CoordTranslate,
{
    chart
        .configure_series_labels()
        .position(corner)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .label_font((FONT, 11))
        .draw()?;
    Ok(())
}

/// Range of an axis that contains these values, with a margin.
pub fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(l, m), v| (l.min(v), m.max(v)));
    least * 0.8..most * 1.3
}

/// Shortest text of a coordinate.
pub fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_said_without_noughts() {
        assert_eq!([0.25, 100.0, 0.0, 1.2345].map(short), ["0.25", "100", "0", "1.234"]);
        assert_eq!(colour(0), colour(COLOURS.len()), "colours repeat");
    }
}
