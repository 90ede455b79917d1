//! Thinning out of old days: late calls are kept one by one, all others are counted.
//!
//! Of a caller's old day, the file of calls becomes two: `sketch-...` ([`sketch`]) and `tail-...`,
//! which has the columns of `rpc` and the calls above the 99th percentile of their callee and
//! workload. Of a host's day, `load-...` has the columns of `res` and a row per ten minutes. The
//! slow calls of a callee (`slow-...`) are few, and stay.
//!
//! New files are on the disk before old ones are removed. An interrupted job leaves both; readers
//! use the new files if both of them exist, and else the old one.

pub mod load;
pub mod replay;
pub mod sketch;

use super::calls;
use super::calls::Calls;
use super::columns;
use super::dataset::{DataSet, Source, ThinnedDay};
use super::hosts;
use super::meta::{Metadata, Table};
use super::recorder;
use super::recorder::write_file;
use crate::error::{Error, Exclusions};
use crate::pool;
use crate::progress::Progress;
use serde::Serialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Options of thinning out.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Last day that may be thinned out, counted since 1970.
    pub last_day: i64,
    /// Node whose files are thinned out; `None` for all nodes.
    pub node: Option<u16>,
    /// Number of threads.
    pub threads: usize,
}

/// Result of thinning out.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Thinned {
    /// Number of callers' days.
    pub caller_days: u64,
    /// Number of hosts' days.
    pub host_days: u64,
    /// Number of calls of these callers.
    pub calls: u64,
    /// Number of calls that were kept one by one.
    pub kept: u64,
    /// Size of the removed files in bytes.
    pub bytes_before: u64,
    /// Size of the files that replaced them in bytes.
    pub bytes_after: u64,
    /// Unreadable files, which were left unchanged.
    pub excluded: Exclusions,
}

impl Thinned {
    /// Adds another job's result.
    pub fn add(&mut self, other: Self) {
        self.caller_days += other.caller_days;
        self.host_days += other.host_days;
        self.calls += other.calls;
        self.kept += other.kept;
        self.bytes_before += other.bytes_before;
        self.bytes_after += other.bytes_after;
        self.excluded.merge(other.excluded);
    }
}

/// Contents of a caller's thinned-out day.
#[derive(Debug, Default)]
pub struct Left {
    /// Calls that were counted.
    pub rows: Vec<sketch::Row>,
    /// Calls that were kept.
    pub tail: Calls,
    /// Number of rows with unknown codes.
    pub unknown: u64,
}

impl ThinnedDay {
    /// Reads both of its files.
    ///
    /// # Errors
    /// A file cannot be read to its end.
    pub fn read(&self) -> Result<Left, Error> {
        let mut left = Left::default();
        for path in &self.sketch.files {
            left.unknown += sketch::visit(&columns::open(path)?, |row| left.rows.push(*row))?;
        }
        left.tail = self.tail.calls(&probe::sample::COLUMNS)?;
        let unknown = (0..left.tail.len()).filter(|at| left.tail.get(*at).is_none()).count();
        left.unknown += unknown as u64;
        Ok(left)
    }
}

/// Thins out the old days of a folder.
///
/// # Errors
/// The folder has no measurements, or files cannot be written; days that are complete by then stay
/// complete.
pub fn thin(root: &Path, options: Options, progress: &dyn Progress) -> Result<Thinned, Error> {
    // One at a time, until the end: agents that share a folder all begin at midnight.
    let folder = File::open(root).map_err(Error::io(root))?;
    folder.lock().map_err(Error::io(root))?;
    let data = DataSet::open(root)?;
    let old = |(day, node): &(i64, u16)| {
        *day <= options.last_day && options.node.is_none_or(|of| of == *node)
    };
    let sources = data.calls.iter().chain(&data.hosts).filter(|(key, _)| old(key));
    let sources: Vec<&Source> = sources.map(|(_, source)| source).collect();
    progress.begin("thinning out", sources.len() as u64);
    let states = pool::run(&sources, options.threads, |done: &mut Thinned, source| {
        let made = match source.metadata.table {
            Table::Res => host_day(root, source),
            _ => caller_day(root, source),
        };
        progress.step();
        match made {
            Ok(one) => done.add(one),
            // An unreadable file is left unchanged.
            Err(error @ (Error::Parquet { .. } | Error::Content { .. })) => {
                source.files.iter().for_each(|path| done.excluded.file(root, path, &error));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    let mut all = Thinned { excluded: data.exclusions, ..Thinned::default() };
    states.into_iter().for_each(|one| all.add(one));
    Ok(all)
}

fn caller_day(root: &Path, source: &Source) -> Result<Thinned, Error> {
    let calls = source.calls(&probe::sample::COLUMNS)?;
    let kept = sketch::kept(&calls);
    let rows = sketch::sketch(&calls, &kept);
    let mut tail = Calls::default();
    (0..calls.len()).filter(|at| kept[*at]).for_each(|at| tail.push_row(&calls, at));
    let named = |table| Metadata { table, ..source.metadata.clone() };
    let made = [
        write(root, &sketch::columns(), &named(Table::Sketch), sketch::values(&rows))?,
        write(root, &calls::columns(), &named(Table::Tail), tail.values())?,
    ];
    let bytes_after = replace(root, source, &made)?;
    Ok(Thinned {
        caller_days: 1,
        calls: calls.len() as u64,
        kept: tail.len() as u64,
        bytes_before: source.bytes,
        bytes_after,
        ..Thinned::default()
    })
}

fn host_day(root: &Path, source: &Source) -> Result<Thinned, Error> {
    let mut rows = Vec::new();
    for file in source.open()? {
        rows.extend(hosts::rows(&file)?);
    }
    let metadata = Metadata { table: Table::Load, ..source.metadata.clone() };
    let values = hosts::values(&load::by_window(&rows));
    let made = [write(root, &hosts::columns(), &metadata, values)?];
    let bytes_after = replace(root, source, &made)?;
    let bytes_before = source.bytes;
    Ok(Thinned { host_days: 1, bytes_before, bytes_after, ..Thinned::default() })
}

fn write(
    root: &Path,
    columns: &[columns::Column],
    metadata: &Metadata,
    values: Vec<columns::Values>,
) -> Result<PathBuf, Error> {
    let path = root.join(format!("{}.parquet", metadata.stem()));
    write_file(&path, columns, metadata, [Ok(values)])?;
    Ok(path)
}

/// Removes the files of a day once their replacements are on the disk; returns the size of the
/// latter.
fn replace(root: &Path, source: &Source, made: &[PathBuf]) -> Result<u64, Error> {
    let mut bytes = 0;
    for path in made {
        let file = File::open(path).map_err(Error::io(path))?;
        file.sync_all().map_err(Error::io(path))?;
        bytes += file.metadata().map_err(Error::io(path))?.len();
    }
    let folder = File::open(root).map_err(Error::io(root))?;
    folder.sync_all().map_err(Error::io(root))?;
    let stem = source.metadata.stem();
    let mut old = source.files.clone();
    if root.join(recorder::PIECES).is_dir() {
        // Pieces of a complete file, whose writer ended before it could remove them.
        old.extend(recorder::pieces_of(root, &stem)?);
    }
    old.sort();
    old.dedup();
    old.iter().try_for_each(|path| fs::remove_file(path).map_err(Error::io(path)))?;
    Ok(bytes)
}
