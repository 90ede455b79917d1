//! Rows in a file, one JSON object per line, so that a long measurement can be resumed.

use super::plan::Point;
use serde_json::{Map, Value};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

/// Existing rows of a file, and the file to append to.
#[derive(Debug, Default)]
pub struct Rows {
    known: Vec<Map<String, Value>>,
    file: Option<File>,
}

impl Rows {
    /// Opens a file, creating it if necessary, and reads its rows; without a path, starts empty. An
    /// incomplete last line, left by an interrupted write, is overwritten.
    ///
    /// # Errors
    /// The file cannot be read or written, or has a line that is no row.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let (known, whole_bytes) = whole_lines(&file, path)?;
        file.set_len(whole_bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { known, file: Some(file) })
    }

    /// Whether a point was measured.
    pub fn has(&self, point: &Point) -> bool {
        self.known.iter().any(|row| point.has(row))
    }

    /// Rows of these points, in the order of the file.
    pub fn of(&self, points: &[Point]) -> Vec<Map<String, Value>> {
        let wanted = |row: &&Map<String, Value>| points.iter().any(|point| point.has(row));
        self.known.iter().filter(wanted).cloned().collect()
    }

    /// Appends rows in one write.
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

/// Reads the rows of a file without opening it for writing. An incomplete last line is skipped.
///
/// # Errors
/// The file cannot be read, or has a line that is no row.
pub fn read(path: &Path) -> io::Result<Vec<Map<String, Value>>> {
    let file = File::open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    whole_lines(&file, path).map(|(rows, _)| rows)
}

/// Rows in the complete lines of a file, and the number of bytes of those lines.
fn whole_lines(file: &File, path: &Path) -> io::Result<(Vec<Map<String, Value>>, u64)> {
    let (mut rows, mut whole_bytes, mut line) = (Vec::new(), 0, String::new());
    let mut reader = BufReader::new(file);
    loop {
        line.clear();
        let read = reader.read_line(&mut line)?;
        if read == 0 || !line.ends_with('\n') {
            return Ok((rows, whole_bytes));
        }
        let row = serde_json::from_str(&line)
            .map_err(|error| io::Error::other(format!("{}: not a row: {error}", path.display())))?;
        rows.push(row);
        whole_bytes += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::points;
    use super::*;
    use crate::coordination::args::LocksArgs;
    use clap::{Args, FromArgMatches};
    use std::fs;

    fn two_points() -> Vec<Point> {
        let command = LocksArgs::augment_args(clap::Command::new("locks"));
        let words = ["locks", "--algorithm", "sync-tas", "--client-rtt", "0,0.25ms"];
        points(&LocksArgs::from_arg_matches(&command.get_matches_from(words)).unwrap())
    }

    #[test]
    fn what_was_measured_is_not_measured_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        let points = two_points();
        let mut rows = Rows::open(Some(&path)).unwrap();
        assert!(points.iter().all(|point| !rows.has(point)));
        let mut row = points[2].fields();
        row.insert("mean_ms".into(), 1.5.into());
        rows.add(&[row.clone()]).unwrap();
        // The next row's write was interrupted.
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"experiment\":\"cus");
        fs::write(&path, &text).unwrap();
        let mut rows = Rows::open(Some(&path)).unwrap();
        let known: Vec<bool> = points.iter().map(|point| rows.has(point)).collect();
        assert_eq!(known, [false, false, true, false]);
        assert_eq!(rows.of(&points), [row]);
        rows.add(&[points[0].fields()]).unwrap();
        let rows = Rows::open(Some(&path)).unwrap();
        assert!(rows.has(&points[0]) && rows.has(&points[2]));
    }

    #[test]
    fn another_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        fs::write(&path, "buy milk\n").unwrap();
        let error = Rows::open(Some(&path)).unwrap_err();
        assert!(error.to_string().contains("not a row"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "buy milk\n");
    }
}
