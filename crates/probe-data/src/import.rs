//! Import of other programs' measurements: CSV of time, source, destination and latency, and
//! matrices of round trips.
//!
//! Unreadable data is left out, counted by reason and shown with its line; readable but odd data is
//! used and counted. All nodes are one group; the calls of one source at one time are a session.
//!
//! Calls are sorted into the order of files in [`runs`] that fit into memory, so that memory does
//! not grow with their number.

mod csv;
mod matrix;
mod runs;
mod write;

use crate::error::Error;
use crate::progress::Progress;
use crate::tables::recorder::PIECES;
use runs::{Row, Runs};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Number of excluded lines that are shown.
const SHOWN: usize = 10;
/// Maximum latency that the table can hold.
const LATENCY_MAX_NS: u64 = u32::MAX as u64 * 100;
/// Maximum length of a node's name.
const NAME_BYTES_MAX: usize = 255;

/// Units of the numbers in a file.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// Nanoseconds in a unit of time.
    pub time_ns: f64,
    /// Nanoseconds in a unit of latency.
    pub latency_ns: f64,
}

/// An excluded line.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Refused {
    /// The file.
    pub file: String,
    /// Line number, the first being 1; 0 if the whole file is concerned.
    pub line: usize,
    /// Reason.
    pub reason: &'static str,
    /// Text of the line.
    pub text: String,
}

/// Result of an import.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Imported {
    /// Number of written rows.
    pub rows: u64,
    /// Names of the nodes, in the order of their numbers.
    pub nodes: Vec<String>,
    /// Number of days.
    pub days: u64,
    /// Number of excluded lines, by reason.
    pub excluded: BTreeMap<&'static str, u64>,
    /// First excluded lines.
    pub first_excluded: Vec<Refused>,
    /// Number of odd lines that were used, by reason: `time_went_back` counts lines that are
    /// earlier than the previous line of the same source, as after a step of its clock;
    /// `last_line_without_end` is a file that may be truncated.
    pub noticed: BTreeMap<&'static str, u64>,
    /// Longest time between two calls of one source, `None` if no source called twice: missing
    /// data, or a clock that jumped ahead.
    pub longest_gap: Option<Gap>,
}

/// A period without calls of one source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// The source.
    pub src: String,
    /// Time of the call before it, in nanoseconds since 1970.
    pub after_ns: i64,
    /// Length of the period.
    pub seconds: f64,
}

/// Rows, and excluded lines.
struct Rows {
    runs: Runs,
    names: Vec<String>,
    numbers: BTreeMap<String, u16>,
    told: Imported,
}

impl Rows {
    /// Creates an empty set of rows that will become a data set in this folder.
    fn new(root: &Path) -> Self {
        let runs = Runs::new(&root.join(PIECES), runs::ROWS);
        Self { runs, names: Vec::new(), numbers: BTreeMap::new(), told: Imported::default() }
    }

    /// Number of a node.
    fn node(&mut self, name: &str) -> Result<u16, &'static str> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let number = u16::try_from(self.names.len()).map_err(|_| "too_many_nodes")?;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    fn refuse(&mut self, path: &Path, line: usize, reason: &'static str, text: &str) {
        *self.told.excluded.entry(reason).or_default() += 1;
        if self.told.first_excluded.len() < SHOWN {
            let file = path.display().to_string();
            let text = text.chars().take(80).collect();
            self.told.first_excluded.push(Refused { file, line, reason, text });
        }
    }

    fn notice(&mut self, what: &'static str) {
        *self.told.noticed.entry(what).or_default() += 1;
    }

    /// Adds a row, if its values are valid.
    fn row(
        &mut self,
        names: (&str, &str),
        t_ns: i64,
        latency_ns: Option<u64>,
    ) -> Result<Row, &'static str> {
        if latency_ns.is_some_and(|ns| ns > LATENCY_MAX_NS) {
            return Err("latency_above_429_s");
        }
        // Before either has a number: a node without any call is not numbered.
        for name in [names.0, names.1] {
            match name.len() {
                0 => return Err("name_missing"),
                1..=NAME_BYTES_MAX => {}
                _ => return Err("name_too_long"),
            }
        }
        let (src, dst) = (self.node(names.0)?, self.node(names.1)?);
        Ok(Row { src, t_ns, dst, latency_ns })
    }
}

/// Latency in nanoseconds, or a description of the error.
fn latency_of(text: &str, unit_ns: f64) -> Result<u64, &'static str> {
    let number: f64 = text.parse().map_err(|_| "latency_not_a_number")?;
    if !number.is_finite() {
        return Err("latency_not_finite");
    }
    if number < 0.0 {
        return Err("latency_negative");
    }
    Ok((number * unit_ns).round() as u64)
}

/// Imports a file of CSV, or a folder of matrices, into an empty folder.
///
/// # Errors
/// A file cannot be read or written, a column is missing from the names in its first line or is in
/// another unit, or there is no usable row.
pub fn import(
    from: &Path,
    units: Units,
    deployment: &str,
    root: &Path,
    progress: &dyn Progress,
) -> Result<Imported, Error> {
    if root.exists() && std::fs::read_dir(root).map_err(Error::io(root))?.next().is_some() {
        return Err(Error::content(root, "is not empty"));
    }
    let mut rows = Rows::new(root);
    if from.is_dir() {
        matrix::read(from, &mut rows)?;
    } else {
        csv::read(from, units, &mut rows, progress)?;
    }
    if rows.runs.count() == 0 {
        let first = rows.told.first_excluded.first();
        let reasons = first.map(|Refused { line, reason, text, .. }| {
            format!("; line {line}: {}: {text}", reason.replace('_', " "))
        });
        return Err(Error::content(from, format!("has no call{}", reasons.unwrap_or_default())));
    }
    write::write(rows, deployment, root, progress)
}
