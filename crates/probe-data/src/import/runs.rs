//! External sort of calls into the order of files: runs that fit into memory are sorted and stored
//! in files, and these are merged.

use crate::error::Error;
use crate::tables::recorder::UNFINISHED;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Number of rows in memory: 32 bytes each.
pub const ROWS: usize = 1 << 20;
/// Number of files that are merged into one, so that few are open at a time.
const FILES_MAX: usize = 128;
const BUFFER_BYTES: usize = 1 << 16;
const ROW_BYTES: usize = 20;

/// A call as another program recorded it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Row {
    /// The caller.
    pub src: u16,
    /// Time since 1970, in nanoseconds.
    pub t_ns: i64,
    /// The callee.
    pub dst: u16,
    /// Latency; `None` is a call without reply.
    pub latency_ns: Option<u64>,
}

impl Row {
    /// Sort key. Rows with equal keys are one call that was recorded twice.
    pub const fn key(&self) -> (u16, i64, u16) {
        (self.src, self.t_ns, self.dst)
    }

    fn encode(&self) -> [u8; ROW_BYTES] {
        let mut bytes = [0; ROW_BYTES];
        bytes[..2].copy_from_slice(&self.src.to_le_bytes());
        bytes[2..10].copy_from_slice(&self.t_ns.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.dst.to_le_bytes());
        bytes[12..].copy_from_slice(&self.latency_ns.unwrap_or(u64::MAX).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; ROW_BYTES]) -> Self {
        let number = |from: usize, to: usize| {
            let mut wide = [0; 8];
            wide[..to - from].copy_from_slice(&bytes[from..to]);
            u64::from_le_bytes(wide)
        };
        let latency_ns = number(12, 20);
        Self {
            src: number(0, 2) as u16,
            t_ns: number(2, 10).cast_signed(),
            dst: number(10, 12) as u16,
            latency_ns: (latency_ns != u64::MAX).then_some(latency_ns),
        }
    }
}

/// Temporary files, which are removed when the value is dropped.
#[derive(Debug)]
struct Files {
    folder: PathBuf,
    paths: Vec<PathBuf>,
    named: usize,
}

impl Files {
    /// Creates a new file and returns it with its path. The name marks it as temporary.
    fn create(&mut self) -> Result<(BufWriter<File>, PathBuf), Error> {
        fs::create_dir_all(&self.folder).map_err(Error::io(&self.folder))?;
        let path = self.folder.join(format!("run-{:05}.{UNFINISHED}", self.named));
        self.named += 1;
        let file = File::create(&path).map_err(Error::io(&path))?;
        Ok((BufWriter::with_capacity(BUFFER_BYTES, file), path))
    }

    fn remove(&mut self) {
        for path in self.paths.drain(..) {
            // If it stays, the next user of the folder is told about it.
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Collects rows in any order.
#[derive(Debug)]
pub struct Runs {
    rows: Vec<Row>,
    rows_max: usize,
    count: u64,
    earliest_ns: i64,
    files: Files,
}

impl Runs {
    /// Keeps up to `rows_max` rows in memory, and the others in files in this folder, which is
    /// created when needed.
    pub fn new(folder: &Path, rows_max: usize) -> Self {
        let files = Files { folder: folder.into(), paths: Vec::new(), named: 0 };
        Self { rows: Vec::new(), rows_max, count: 0, earliest_ns: i64::MAX, files }
    }

    /// Number of collected rows.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Earliest time of the rows.
    pub const fn earliest_ns(&self) -> i64 {
        self.earliest_ns
    }

    /// Adds a row.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn push(&mut self, row: Row) -> Result<(), Error> {
        self.rows.push(row);
        self.count += 1;
        self.earliest_ns = self.earliest_ns.min(row.t_ns);
        if self.rows.len() < self.rows_max {
            return Ok(());
        }
        self.sort();
        let (mut to, path) = self.files.create()?;
        for row in self.rows.drain(..) {
            to.write_all(&row.encode()).map_err(Error::io(&path))?;
        }
        to.flush().map_err(Error::io(&path))?;
        self.files.paths.push(path);
        if self.files.paths.len() >= FILES_MAX { self.join() } else { Ok(()) }
    }

    /// Stable sort: of rows with equal keys the first one stays first.
    fn sort(&mut self) {
        self.rows.sort_by_key(Row::key);
    }

    /// Merges all files into one.
    fn join(&mut self) -> Result<(), Error> {
        let mut all = Merge::new(&self.files.paths, Vec::new())?;
        let (mut to, path) = self.files.create()?;
        while let Some(row) = all.next()? {
            to.write_all(&row.encode()).map_err(Error::io(&path))?;
        }
        to.flush().map_err(Error::io(&path))?;
        self.files.remove();
        self.files.paths.push(path);
        Ok(())
    }

    /// All rows in order.
    ///
    /// # Errors
    /// A file cannot be read any more.
    pub fn sorted(mut self) -> Result<Sorted, Error> {
        self.sort();
        let merge = Merge::new(&self.files.paths, std::mem::take(&mut self.rows))?;
        Ok(Sorted { merge, _files: self.files })
    }
}

/// Rows in order.
pub struct Sorted {
    merge: Merge,
    _files: Files,
}

impl Sorted {
    /// Returns the next row.
    ///
    /// # Errors
    /// A file cannot be read any more.
    pub fn next(&mut self) -> Result<Option<Row>, Error> {
        self.merge.next()
    }
}

enum Run {
    Memory(std::vec::IntoIter<Row>),
    File(BufReader<File>, PathBuf),
}

impl Run {
    fn next(&mut self) -> Result<Option<Row>, Error> {
        match self {
            Self::Memory(rows) => Ok(rows.next()),
            Self::File(file, path) => {
                let mut bytes = [0; ROW_BYTES];
                match file.read_exact(&mut bytes) {
                    Ok(()) => Ok(Some(Row::decode(&bytes))),
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
                    Err(error) => Err(Error::io(path)(error)),
                }
            }
        }
    }
}

/// Key of a row, the run that it is the next row of, and its latency.
type Next = ((u16, i64, u16), usize, Option<u64>);

/// Merge of several runs. Of rows with equal keys, that of the earlier run is first.
struct Merge {
    runs: Vec<Run>,
    next: BinaryHeap<Reverse<Next>>,
}

impl Merge {
    /// Merges files, and rows that are later than all of them.
    fn new(paths: &[PathBuf], rows: Vec<Row>) -> Result<Self, Error> {
        let mut runs = Vec::with_capacity(paths.len() + 1);
        for path in paths {
            let file = File::open(path).map_err(Error::io(path))?;
            runs.push(Run::File(BufReader::with_capacity(BUFFER_BYTES, file), path.clone()));
        }
        runs.push(Run::Memory(rows.into_iter()));
        let mut merge = Self { next: BinaryHeap::new(), runs };
        (0..merge.runs.len()).try_for_each(|run| merge.advance(run))?;
        Ok(merge)
    }

    fn advance(&mut self, run: usize) -> Result<(), Error> {
        if let Some(row) = self.runs[run].next()? {
            self.next.push(Reverse((row.key(), run, row.latency_ns)));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Row>, Error> {
        let Some(Reverse(((src, t_ns, dst), run, latency_ns))) = self.next.pop() else {
            return Ok(None);
        };
        self.advance(run)?;
        Ok(Some(Row { src, t_ns, dst, latency_ns }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::random::Numbers;

    #[test]
    fn rows_come_in_order_from_any_number_of_files_and_the_first_of_equals_stays_first() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("runs");
        let mut numbers = Numbers::new(1);
        // More files than may be open at a time, and a rest in memory.
        let rows: Vec<Row> = (0..5 * FILES_MAX as u64 / 2 * 7 + 3)
            .map(|n| Row {
                src: numbers.below(3) as u16,
                t_ns: numbers.below(200) as i64 - 100,
                dst: numbers.below(2) as u16,
                latency_ns: (n % 5 > 0).then_some(n),
            })
            .collect();
        let mut runs = Runs::new(&place, 7);
        rows.iter().try_for_each(|row| runs.push(*row)).unwrap();
        assert!(runs.files.paths.len() < FILES_MAX && runs.files.named > FILES_MAX);
        assert_eq!(runs.count(), rows.len() as u64);
        assert_eq!(Some(runs.earliest_ns()), rows.iter().map(|row| row.t_ns).min());
        let mut sorted = runs.sorted().unwrap();
        let mut found = Vec::new();
        while let Some(row) = sorted.next().unwrap() {
            found.push(row);
        }
        let mut expected = rows;
        expected.sort_by_key(Row::key);
        assert_eq!(found, expected);
        drop(sorted);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    }

    #[test]
    fn few_rows_need_no_file() {
        let place = Path::new("/nowhere/at/all");
        let mut runs = Runs::new(place, 2);
        runs.push(Row { src: 0, t_ns: 1, dst: 0, latency_ns: None }).unwrap();
        assert!(runs.sorted().unwrap().next().unwrap().is_some());
    }
}
