//! Measurements of other programs: CSV of time, source, destination and latency, and matrices of
//! round trips.
//!
//! What cannot be read is left out, counted by reason and shown with its line; what can be read and
//! is odd all the same is used and counted. All nodes are one group; the calls of one source at one
//! time are a session.
//!
//! Calls are put into the order of files in [`runs`] that fit into memory, so that memory does not
//! grow with them.

mod csv;
mod matrix;
mod runs;
mod write;

use crate::error::Error;
use crate::progress::Progress;
use crate::recorder::PIECES;
use runs::{Row, Runs};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// So many lines that were left out are shown.
const SHOWN: usize = 10;
/// The longest latency that the table can hold.
const LATENCY_MAX_NS: u64 = u32::MAX as u64 * 100;
/// The longest name of a node.
const NAME_BYTES_MAX: usize = 255;

/// What the numbers of a file mean.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// Nanoseconds in a unit of time.
    pub time_ns: f64,
    /// Nanoseconds in a unit of latency.
    pub latency_ns: f64,
}

/// A line that was left out.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Refused {
    /// The file.
    pub file: String,
    /// The line, the first being 1; 0 if it is about the whole file.
    pub line: usize,
    /// Why.
    pub reason: &'static str,
    /// What it says.
    pub text: String,
}

/// What was imported.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Imported {
    /// Rows that were written.
    pub rows: u64,
    /// Names of the nodes, in the order of their numbers.
    pub nodes: Vec<String>,
    /// Days.
    pub days: u64,
    /// Lines that were left out, by reason.
    pub excluded: BTreeMap<&'static str, u64>,
    /// The first of them.
    pub first_excluded: Vec<Refused>,
    /// What was used although it is odd, by what is: `time_went_back` counts lines that are earlier
    /// than the line before of the same source, as after a jump of its clock;
    /// `last_line_without_end` is a file that may be cut.
    pub noticed: BTreeMap<&'static str, u64>,
    /// The longest time between two calls of one source, none if no source called twice: what is
    /// missing, or a clock that jumped ahead.
    pub longest_gap: Option<Gap>,
}

/// A time without calls of one source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// The source.
    pub src: String,
    /// The call before it, in nanoseconds since 1970.
    pub after_ns: i64,
    /// How long it is.
    pub seconds: f64,
}

/// Rows, and what was left out.
struct Rows {
    runs: Runs,
    names: Vec<String>,
    numbers: BTreeMap<String, u16>,
    told: Imported,
}

impl Rows {
    /// Rows that will become a data set in this folder.
    fn new(root: &Path) -> Self {
        let runs = Runs::new(&root.join(PIECES), runs::ROWS);
        Self { runs, names: Vec::new(), numbers: BTreeMap::new(), told: Imported::default() }
    }

    /// The number of a node.
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

    /// A row, if it says something that can be.
    fn row(
        &mut self,
        names: (&str, &str),
        t_ns: i64,
        latency_ns: Option<u64>,
    ) -> Result<Row, &'static str> {
        if latency_ns.is_some_and(|ns| ns > LATENCY_MAX_NS) {
            return Err("latency_above_429_s");
        }
        // Before either has a number: whom no call is about is no node.
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

/// Nanoseconds of a number in a file, or what is wrong with it.
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
/// A file cannot be read or written, its first line names columns of which one is missing or is in
/// another unit, or there is no row that can be used.
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
