//! A folder with files of all tables.

use super::calls::Calls;
use super::columns;
use super::columns::Opened;
use super::meta::{Metadata, Table};
use super::recorder::{PIECES, UNFINISHED};
use crate::error::{Error, ExcludedFile, Exclusions};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Rows of one node and epoch in one table: a complete file, or pieces of one that was never
/// finished.
#[derive(Clone, Debug)]
pub struct Source {
    /// Metadata of the files.
    pub metadata: Metadata,
    /// Files, in order.
    pub files: Vec<PathBuf>,
    /// Number of rows of all files.
    pub rows: u64,
    /// Size of all files in bytes.
    pub bytes: u64,
}

impl Source {
    /// Day, counted since 1970.
    pub fn day(&self) -> i64 {
        self.metadata.first_epoch + i64::from(self.metadata.epoch)
    }

    /// Opens the files.
    ///
    /// # Errors
    /// A file cannot be read any more.
    pub fn open(&self) -> Result<Vec<Opened>, Error> {
        self.files.iter().map(|path| columns::open(path)).collect()
    }

    /// Reads some columns of all calls.
    ///
    /// # Errors
    /// A file cannot be read to its end.
    pub fn calls(&self, names: &[&str]) -> Result<Calls, Error> {
        let mut calls = Calls::default();
        for file in self.open()? {
            (0..file.groups()).try_for_each(|group| calls.read(&file, group, names))?;
        }
        Ok(calls)
    }
}

/// Sources by day and node.
pub type Sources = BTreeMap<(i64, u16), Source>;

/// A caller's thinned-out day ([`super::thin`]).
#[derive(Clone, Debug)]
pub struct ThinnedDay {
    /// Most of its calls, as counts.
    pub sketch: Source,
    /// Calls that were kept one by one.
    pub tail: Source,
}

/// A folder of files, as far as they are usable.
#[derive(Debug)]
pub struct DataSet {
    /// Path of the folder.
    pub root: PathBuf,
    /// Calls, by day and caller.
    pub calls: Sources,
    /// Resources, by day and host.
    pub hosts: Sources,
    /// Thinned-out days of callers, which are not among the calls.
    pub thinned: BTreeMap<(i64, u16), ThinnedDay>,
    /// Metadata that all files share: names of nodes, deployment.
    pub metadata: Metadata,
    /// Unusable files, and the reasons.
    pub exclusions: Exclusions,
}

impl DataSet {
    /// Examines every file of a folder.
    ///
    /// # Errors
    /// The folder cannot be read, or has no usable call, thinned out or not.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let mut exclusions = Exclusions::default();
        let mut whole = files(root)?;
        let pieces_folder = root.join(PIECES);
        let mut pieces = if pieces_folder.is_dir() { files(&pieces_folder)? } else { Vec::new() };
        whole.sort();
        pieces.sort();
        let mut first: Option<Metadata> = None;
        let mut tables: BTreeMap<Table, Sources> = BTreeMap::new();
        let mut taken = Vec::new();
        for (path, is_piece) in
            whole.iter().map(|path| (path, false)).chain(pieces.iter().map(|path| (path, true)))
        {
            let opened = match columns::open(path) {
                Ok(opened) => opened,
                Err(error) => {
                    exclusions.file(root, path, &error);
                    continue;
                }
            };
            let known = first.get_or_insert(opened.metadata.clone());
            if let Err(error) = agree(known, &opened, path) {
                exclusions.file(root, path, &error);
                continue;
            }
            if opened.metadata.nodes.len() > known.nodes.len() {
                known.nodes.clone_from(&opened.metadata.nodes);
            }
            let key = (
                opened.metadata.first_epoch + i64::from(opened.metadata.epoch),
                opened.metadata.node,
            );
            let sources = tables.entry(opened.metadata.table).or_default();
            let table = opened.metadata.table;
            let bytes = fs::metadata(path).map_or(0, |found| found.len());
            match sources.get_mut(&key) {
                // A complete file and its pieces: the file was made from the pieces.
                Some(_) if is_piece && taken.contains(&(table, key)) => {}
                Some(source) if is_piece => {
                    source.files.push(path.clone());
                    source.rows += opened.rows;
                    source.bytes += bytes;
                }
                Some(_) => {
                    let error = Error::content(path, "a second file of the same node and day");
                    exclusions.file(root, path, &error);
                }
                None => {
                    if !is_piece {
                        taken.push((table, key));
                    }
                    let files = vec![path.clone()];
                    let rows = opened.rows;
                    let source = Source { metadata: opened.metadata, files, rows, bytes };
                    sources.insert(key, source);
                }
            }
        }
        // Later pieces of a day know more nodes, if some were added meanwhile.
        let nodes = first.as_ref().map_or(&[][..], |first| &first.nodes);
        for source in tables.values_mut().flat_map(BTreeMap::values_mut) {
            source.metadata.nodes = nodes.to_vec();
        }
        unfinished(root, &mut exclusions)?;
        unfinished(&pieces_folder, &mut exclusions)?;
        let thinned = thinned(root, &mut tables, &mut exclusions);
        let calls = tables.remove(&Table::Rpc).unwrap_or_default();
        let hosts = tables.remove(&Table::Res).unwrap_or_default();
        let Some(metadata) = first.filter(|_| !calls.is_empty() || !thinned.is_empty()) else {
            let why = exclusions.files.first().map(|file| format!("; {}", file.detail));
            let what =
                format!("has no file with calls that can be read{}", why.unwrap_or_default());
            return Err(Error::content(root, what));
        };
        Ok(Self { root: root.into(), calls, hosts, thinned, metadata, exclusions })
    }

    /// Checks that some days are not thinned out.
    ///
    /// # Errors
    /// All days are thinned out.
    pub fn with_calls(self) -> Result<Self, Error> {
        if self.calls.is_empty() {
            let what = "has only thinned-out days: sketch-*.parquet and tail-*.parquet can be \
                        queried with SQL, as docs/latency/probe-data.md shows";
            return Err(Error::content(&self.root, what));
        }
        Ok(self)
    }

    /// Number of rows of all calls.
    pub fn rows(&self) -> u64 {
        self.calls.values().map(|source| source.rows).sum()
    }
}

/// Finds thinned-out days, which have both of their files: both were complete before the old file
/// was removed, and the removal may have been interrupted.
fn thinned(
    root: &Path,
    tables: &mut BTreeMap<Table, Sources>,
    exclusions: &mut Exclusions,
) -> BTreeMap<(i64, u16), ThinnedDay> {
    let mut take = |table| tables.remove(&table).unwrap_or_default();
    let (sketches, mut tails) = (take(Table::Sketch), take(Table::Tail));
    let (mut calls, mut hosts, loads) = (take(Table::Rpc), take(Table::Res), take(Table::Load));
    let mut exclude = |source: &Source, reason, detail: &str| {
        for path in &source.files {
            let file = path.strip_prefix(root).unwrap_or(path).display().to_string();
            let size_bytes = fs::metadata(path).map_or(0, |found| found.len());
            let detail = format!("{file}: {detail}");
            exclusions.files.push(ExcludedFile { file, reason, detail, size_bytes });
        }
    };
    const ALREADY: &str = "this day is already thinned out; remove the file";
    const HALF: &str = "the other file of a thinned-out day is missing";
    let mut found = BTreeMap::new();
    for (key, sketch) in sketches {
        match tails.remove(&key) {
            Some(tail) => {
                if let Some(old) = calls.remove(&key) {
                    exclude(&old, "thinned_already", ALREADY);
                }
                found.insert(key, ThinnedDay { sketch, tail });
            }
            // As long as the old file exists, nothing is missing.
            None if calls.contains_key(&key) => {}
            None => exclude(&sketch, "half_of_a_day", HALF),
        }
    }
    tails.values().for_each(|tail| exclude(tail, "half_of_a_day", HALF));
    for key in loads.keys() {
        if let Some(old) = hosts.remove(key) {
            exclude(&old, "thinned_already", ALREADY);
        }
    }
    tables.insert(Table::Rpc, calls);
    tables.insert(Table::Res, hosts);
    found
}

/// Parquet files of a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") && path.is_file() {
            found.push(path);
        }
    }
    Ok(found)
}

/// Reports files that their writer did not finish.
fn unfinished(folder: &Path, exclusions: &mut Exclusions) -> Result<(), Error> {
    if !folder.is_dir() {
        return Ok(());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        if path.extension().is_some_and(|extension| extension == UNFINISHED) {
            let size_bytes = fs::metadata(&path).map_or(0, |found| found.len());
            let file = path.file_name().unwrap_or_default().display().to_string();
            let detail = "its writer ended before it was complete".to_owned();
            found.push(ExcludedFile { file, reason: "unfinished", detail, size_bytes });
        }
    }
    found.sort();
    exclusions.files.extend(found);
    Ok(())
}

/// Checks that files of one data set number the nodes in the same way. Some may not contain the
/// latest nodes yet.
fn agree(first: &Metadata, opened: &Opened, path: &Path) -> Result<(), Error> {
    let found = &opened.metadata;
    let name = |metadata: &Metadata| metadata.deployment.clone();
    if found.deployment != first.deployment {
        let what = format!("is of deployment {}, others of {}", name(found), name(first));
        return Err(Error::content(path, what));
    }
    if found.nodes.iter().zip(&first.nodes).any(|(a, b)| a != b) {
        return Err(Error::content(path, "has other names of nodes than the files before it"));
    }
    if usize::from(found.node) >= found.nodes.len() {
        return Err(Error::content(path, format!("is of node {}, which has no name", found.node)));
    }
    Ok(())
}
