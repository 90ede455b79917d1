//! Crash-tolerant writer of files.
//!
//! The footer of a Parquet file is written last: an unfinished file cannot be read at all. So rows
//! go into pieces, each a small file that gets its name only once it is complete, and at the end of
//! the epoch the pieces become one file. Readers that find pieces without the file read the pieces.

use super::calls;
use super::calls::Calls;
use super::columns;
use super::columns::{Column, Values};
use super::hosts;
use super::meta::{Incarnation, Metadata, Table};
use super::slow_calls;
use crate::error::Error;
use probe::{Resources, Sample, SlowCall};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Maximum number of rows of a piece and of a row group.
pub const GROUP_ROWS: usize = 1 << 20;
/// Time span of a piece's rows after which it is closed.
pub const PIECE_NS: i64 = 600_000_000_000;
/// Folder of pieces within a data set.
pub const PIECES: &str = "pieces";
/// Suffix of unfinished files.
pub const UNFINISHED: &str = "unfinished";

/// Rows of a table, which become columns.
pub trait Rows: Default {
    /// Type of a row.
    type Row;
    /// Table of the rows.
    const TABLE: Table;
    /// The columns of the table, with their encodings.
    fn columns() -> Vec<Column>;
    /// Time that determines the epoch and the piece of a row.
    fn t_ns(row: &Self::Row) -> i64;
    /// Number of rows.
    fn len(&self) -> usize;
    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Adds a row.
    fn push(&mut self, row: &Self::Row);
    /// Columns in the order of the table.
    fn values(&self) -> Vec<Values>;
    /// Appends the rows of a finished file.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read_back(&mut self, path: &Path) -> Result<(), Error>;
}

impl Rows for Calls {
    type Row = Sample;
    const TABLE: Table = Table::Rpc;

    fn columns() -> Vec<Column> {
        calls::columns()
    }

    fn t_ns(row: &Sample) -> i64 {
        row.t_sched_ns
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn push(&mut self, row: &Sample) {
        Self::push(self, row);
    }

    fn values(&self) -> Vec<Values> {
        Self::values(self)
    }

    fn read_back(&mut self, path: &Path) -> Result<(), Error> {
        let file = columns::open(path)?;
        (0..file.groups()).try_for_each(|group| self.read(&file, group, &probe::sample::COLUMNS))
    }
}

/// Rows of the table `res` as they were written.
#[derive(Default)]
pub struct HostRows(Vec<Resources>);

impl Rows for HostRows {
    type Row = Resources;
    const TABLE: Table = Table::Res;

    fn columns() -> Vec<Column> {
        hosts::columns()
    }

    fn t_ns(row: &Resources) -> i64 {
        row.t_ns
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn push(&mut self, row: &Resources) {
        self.0.push(row.clone());
    }

    fn values(&self) -> Vec<Values> {
        hosts::values(&self.0)
    }

    fn read_back(&mut self, path: &Path) -> Result<(), Error> {
        self.0.extend(hosts::rows(&columns::open(path)?)?);
        Ok(())
    }
}

/// Rows of the table `slow` as they were written.
#[derive(Default)]
pub struct SlowRows(Vec<SlowCall>);

impl Rows for SlowRows {
    type Row = SlowCall;
    const TABLE: Table = Table::Slow;

    fn columns() -> Vec<Column> {
        slow_calls::columns()
    }

    fn t_ns(row: &SlowCall) -> i64 {
        row.t_rx_ns
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn push(&mut self, row: &SlowCall) {
        self.0.push(*row);
    }

    fn values(&self) -> Vec<Values> {
        slow_calls::values(&self.0)
    }

    fn read_back(&mut self, path: &Path) -> Result<(), Error> {
        self.0.extend(slow_calls::rows(&columns::open(path)?)?);
        Ok(())
    }
}

/// Writer of the rows of one node in one epoch.
pub struct Recorder<R> {
    root: PathBuf,
    metadata: Metadata,
    rows: R,
    first_ns: Option<i64>,
    piece_ns: i64,
    written: Vec<PathBuf>,
    next: usize,
}

/// Writer of the calls of one caller.
pub type CallRecorder = Recorder<Calls>;
/// Writer of the resources of one host.
pub type HostRecorder = Recorder<HostRows>;
/// Writer of the calls that were slow on one callee.
pub type SlowRecorder = Recorder<SlowRows>;

impl Recorder<Calls> {
    /// Sets the incarnations that the column `inc` refers to, from the current piece on.
    pub fn name_incarnations(&mut self, incarnations: Vec<Incarnation>) {
        self.metadata.incarnations = incarnations;
    }
}

impl<R: Rows> Recorder<R> {
    /// Creates a recorder. Pieces are closed after [`GROUP_ROWS`] rows, and when their rows span
    /// `piece_ns` (agents: [`PIECE_NS`]). The table in `metadata` is set here.
    ///
    /// # Errors
    /// The folder cannot be created or read.
    pub fn new(root: &Path, metadata: Metadata, piece_ns: i64) -> Result<Self, Error> {
        let metadata = Metadata { table: R::TABLE, ..metadata };
        let folder = root.join(PIECES);
        fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
        // An agent that restarts within an epoch continues after the pieces of its earlier run.
        let written = pieces_of(root, &metadata.stem())?;
        let next = written.len();
        let rows = R::default();
        Ok(Self { root: root.into(), metadata, rows, first_ns: None, piece_ns, written, next })
    }

    /// Adds a row. Rows must be in the order of time.
    ///
    /// # Errors
    /// A piece cannot be written.
    pub fn push(&mut self, row: &R::Row) -> Result<(), Error> {
        self.before(R::t_ns(row))?;
        self.rows.push(row);
        Ok(())
    }

    /// Closes the piece if this row does not belong to it any more.
    fn before(&mut self, t_ns: i64) -> Result<(), Error> {
        let first_ns = *self.first_ns.get_or_insert(t_ns);
        if self.rows.len() >= GROUP_ROWS || t_ns.saturating_sub(first_ns) >= self.piece_ns {
            self.close_piece()?;
            self.first_ns = Some(t_ns);
        }
        Ok(())
    }

    /// Makes the rows so far safe from a crash of this process.
    ///
    /// # Errors
    /// A piece cannot be written.
    pub fn close_piece(&mut self) -> Result<(), Error> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let name = format!("{}-{:05}.parquet", self.metadata.stem(), self.next);
        let path = self.root.join(PIECES).join(name);
        write_file(&path, &R::columns(), &self.metadata, [Ok(self.rows.values())])?;
        self.written.push(path);
        self.next += 1;
        self.rows = R::default();
        self.first_ns = None;
        Ok(())
    }

    /// Ends the epoch: merges the pieces into one file, and returns its path.
    ///
    /// # Errors
    /// A file cannot be read or written; the pieces then still exist.
    pub fn finish(mut self) -> Result<PathBuf, Error> {
        self.close_piece()?;
        let path = self.root.join(format!("{}.parquet", self.metadata.stem()));
        if let [only] = self.written.as_slice() {
            fs::rename(only, &path).map_err(Error::io(only))?;
            return Ok(path);
        }
        // One row group at a time, whatever their number.
        let mut pieces = self.written.iter();
        let groups = std::iter::from_fn(|| {
            let mut rows = R::default();
            while rows.len() < GROUP_ROWS
                && let Some(piece) = pieces.next()
            {
                if let Err(error) = rows.read_back(piece) {
                    return Some(Err(error));
                }
            }
            (!rows.is_empty()).then(|| Ok(rows.values()))
        });
        write_file(&path, &R::columns(), &self.metadata, groups)?;
        for piece in &self.written {
            fs::remove_file(piece).map_err(Error::io(piece))?;
        }
        Ok(path)
    }
}

/// Writes a complete file under a temporary name and then renames it.
pub(crate) fn write_file(
    path: &Path,
    columns: &[Column],
    metadata: &Metadata,
    groups: impl IntoIterator<Item = Result<Vec<Values>, Error>>,
) -> Result<(), Error> {
    let unfinished = path.with_extension(UNFINISHED);
    let file = File::create(&unfinished).map_err(Error::io(&unfinished))?;
    let mut writer =
        columns::writer(BufWriter::with_capacity(1 << 18, file), path, columns, metadata)?;
    for values in groups {
        columns::write_group(&mut writer, &values?).map_err(Error::parquet(path))?;
    }
    writer.close().map_err(Error::parquet(path))?;
    fs::rename(&unfinished, path).map_err(Error::io(path))
}

/// Finished pieces of one file, in order.
pub fn pieces_of(root: &Path, stem: &str) -> Result<Vec<PathBuf>, Error> {
    let folder = root.join(PIECES);
    let begin = format!("{stem}-");
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Error::io(&folder))? {
        let path = entry.map_err(Error::io(&folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(&begin) && name.ends_with(".parquet") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
