//! Rows and ratios of a report, and their output.

use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write;

/// Result of a bench: one document.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// One object per cell.
    pub rows: Vec<Map<String, Value>>,
    /// Figures that compare rows; `null` where one side was not measured.
    pub ratios: Map<String, Value>,
    /// Lines of text below the printed table; the document has the same facts among the further
    /// results.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Further results that belong to no single row.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Builds part of a row from named values.
pub fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A field of a row as text; empty if it has none.
pub fn text(row: &Map<String, Value>, field: &str) -> String {
    match row.get(field) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

/// A field of a row as a number, if it has one.
pub fn number(row: &Map<String, Value>, field: &str) -> Option<f64> {
    row.get(field)?.as_f64()
}

/// Rounds a number to four significant digits, so that reports are readable.
pub fn rounded(value: f64) -> Value {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { Value::from(0) } else { Value::Null };
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    let scale = 10f64.powi(digits);
    let rounded = (value * scale).round() / scale;
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        Value::from(rounded as i64)
    } else {
        Value::from(rounded)
    }
}

/// A ratio, `null` unless both sides are known.
pub fn ratio(over: Option<f64>, under: Option<f64>) -> Value {
    match (over, under) {
        (Some(over), Some(under)) if under > 0.0 => rounded(over / under),
        _ => Value::Null,
    }
}

/// Middle of the values; NaN if there are none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Report {
    /// Report as text: the given columns of all rows, then the ratios and the notes.
    pub fn table(&self, columns: &[&str]) -> String {
        let text = |value: Option<&Value>| match value {
            None | Some(Value::Null) => "-".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        let known = |column: &&&str| self.rows.iter().any(|row| row.contains_key(**column));
        let columns: Vec<&str> = columns.iter().filter(known).copied().collect();
        let cells: Vec<Vec<String>> =
            std::iter::once(columns.iter().map(|c| c.to_string()).collect())
                .chain(
                    self.rows.iter().map(|row| columns.iter().map(|c| text(row.get(*c))).collect()),
                )
                .collect();
        let width =
            |i: usize| cells.iter().map(|row: &Vec<String>| row[i].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns.len()).map(width).collect();
        let mut out = String::new();
        for row in &cells {
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(out, "{cell:>width$}  ");
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        if !self.ratios.is_empty() {
            out.push('\n');
        }
        for (name, value) in &self.ratios {
            let _ = writeln!(out, "{name}: {}", text(Some(value)));
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(out, "{note}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_what_they_are_worth() {
        assert_eq!(rounded(12345.678), Value::from(12350));
        assert_eq!(rounded(0.123456), Value::from(0.1235));
        assert_eq!(rounded(0.0), Value::from(0));
        assert_eq!(rounded(f64::NAN), Value::Null);
        assert_eq!(ratio(Some(1.0), Some(3.0)), Value::from(0.3333));
        assert_eq!(ratio(Some(1.0), None), Value::Null);
        assert_eq!(ratio(Some(1.0), Some(0.0)), Value::Null);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn the_table_is_aligned_and_the_document_flat() {
        let mut report = Report::default();
        for (cc, tps) in [("none", 120), ("full", 7)] {
            let row = [("cc", Value::from(cc)), ("txn_per_s", Value::from(tps))];
            report.rows.push(row.into_iter().map(|(k, v)| (k.to_owned(), v)).collect());
        }
        report.ratios.insert("full_over_none".into(), Value::Null);
        report.more.insert("seed".into(), Value::from(1));
        let table = report.table(&["cc", "txn_per_s", "absent"]);
        assert_eq!(
            table,
            "  cc  txn_per_s\nnone        120\nfull          7\n\nfull_over_none: -\n"
        );
        let json = serde_json::to_value(&report).expect("plain data");
        assert_eq!(json["seed"], 1);
        assert_eq!(json["rows"][1]["cc"], "full");
    }
}
