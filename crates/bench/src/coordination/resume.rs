//! Rows in a file, one JSON object a line, so that a long measurement can be gone on with.

use super::plan::Point;
use serde_json::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

/// Rows that a file has, and the file to append more to.
#[derive(Debug, Default)]
pub struct Rows {
    known: Vec<Map<String, Value>>,
    file: Option<File>,
}

impl Rows {
    /// What is in a file, which is made if it is not there; without one, nothing. A last line that
    /// is not whole, because somebody was stopped while writing it, is written over.
    ///
    /// # Errors
    /// It cannot be read or written, or has a line that is no row.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let (mut known, mut whole_bytes, mut line) = (Vec::new(), 0, String::new());
        let mut reader = BufReader::new(&file);
        loop {
            line.clear();
            let read = reader.read_line(&mut line)?;
            if read == 0 || !line.ends_with('\n') {
                break;
            }
            let row = serde_json::from_str(&line).map_err(|error| {
                io::Error::other(format!("{}: not a row: {error}", path.display()))
            })?;
            known.push(row);
            whole_bytes += read as u64;
        }
        file.set_len(whole_bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { known, file: Some(file) })
    }

    /// Whether a point was measured.
    pub fn has(&self, point: &Point) -> bool {
        self.known.iter().any(|row| point.has(row))
    }

    /// The rows of these points, in the order of the file.
    pub fn of(&self, points: &[Point]) -> Vec<Map<String, Value>> {
        let wanted = |row: &&Map<String, Value>| points.iter().any(|point| point.has(row));
        self.known.iter().filter(wanted).cloned().collect()
    }

    /// Appends rows that were measured, all at once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, rows: &[Map<String, Value>]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut lines = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut lines, row).map_err(io::Error::other)?;
            lines.push(b'\n');
        }
        file.write_all(&lines)?;
        file.flush()
    }
}
