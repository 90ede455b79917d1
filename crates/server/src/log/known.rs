//! Facts about the log that are kept outside of it: the last durable batch, and the files that
//! belong to the log.
//!
//! A log cannot tell that its end is missing. The file `DURABLE` of the data directory therefore
//! records it, in two places that are written alternately, so that one stays valid whatever a crash
//! does to the other. It is written after every batch that was made durable. That write is not made
//! durable itself: it would double the cost of a write. After a crash of the process the file is
//! exact; after a crash of the machine it may be behind the log, never ahead of it. Changes of the
//! list of files are made durable at once.

use super::tail::{FILE_HEADER_BYTES, LogTag, file_number};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Size of one of the two places.
const PLACE_BYTES: usize = 128;
/// Size of the record in a place: tag, six numbers and a checksum.
const RECORD_BYTES: usize = 16 + 6 * 8 + 4;

const _: () = assert!(RECORD_BYTES <= PLACE_BYTES);

/// Numbers of the files that form the log. Later ones may have been appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// First file of the queue that is appended to.
    first: u64,
    /// First and last file with moved entries; 0 for none.
    moved: (u64, u64),
}

impl Files {
    /// Lists the files of a directory.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn of(dir: &Path) -> io::Result<Self> {
        let (appended, moved) = (numbers(dir, "raftlog")?, numbers(dir, "rewrite")?);
        let end = |numbers: &[u64], last: bool| {
            let one = if last { numbers.last() } else { numbers.first() };
            one.copied().unwrap_or(0)
        };
        Ok(Self { first: end(&appended, false), moved: (end(&moved, false), end(&moved, true)) })
    }

    /// First file that belongs to the log and is missing or empty, if any.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn missing(&self, dir: &Path) -> io::Result<Option<PathBuf>> {
        let first = self.first.max(1);
        let newest = numbers(dir, "raftlog")?.last().copied().unwrap_or(0);
        // The newest file may be begun and not finished.
        let end = if newest < first { first + 1 } else { newest };
        let appended = (first..end).map(|n| (n, "raftlog"));
        let moved = (self.moved.0.max(1)..=self.moved.1).map(|n| (n, "rewrite"));
        for (number, suffix) in appended.chain(moved) {
            let path = dir.join(format!("{number:016}.{suffix}"));
            match path.metadata() {
                Ok(found) if found.len() >= FILE_HEADER_BYTES as u64 => {}
                Ok(_) => return Ok(Some(path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(path)),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Numbers of the files with a suffix, in order.
pub fn numbers(dir: &Path, suffix: &str) -> io::Result<Vec<u64>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| file_number(name, suffix)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Recorded facts about a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// All batches up to this number were durable.
    pub durable: u64,
    /// Files of the log; none while they are being compacted.
    pub files: Option<Files>,
}

/// File `DURABLE`.
#[derive(Debug)]
pub struct KnownFile {
    file: File,
    tag: LogTag,
    /// Number of writes so far.
    stamp: u64,
    known: Known,
}

impl KnownFile {
    /// Reads the file; none if it does not exist or cannot be parsed.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path, tag: &LogTag) -> io::Result<Option<Known>> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let newest = bytes
            .chunks(PLACE_BYTES)
            .filter_map(|place| decode(place, tag))
            .max_by_key(|(stamp, _)| *stamp);
        if newest.is_none() {
            tracing::warn!(
                "{} cannot be parsed: it is unknown whether the end of the log is missing",
                path.display()
            );
        }
        Ok(newest.map(|(_, known)| known))
    }

    /// Creates the file anew, durably.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(path: &Path, tag: LogTag, known: Known) -> io::Result<Self> {
        let temporary = path.with_extension("tmp");
        let mut open = OpenOptions::new();
        let file = open.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let mut new = Self { file, tag, stamp: 0, known };
        new.write()?;
        new.write()?;
        new.file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        crate::data::datadir::sync_parent(path)?;
        Ok(new)
    }

    /// Records that all batches up to this number are durable.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn reached(&mut self, durable: u64) -> io::Result<()> {
        self.known.durable = durable;
        self.write()
    }

    /// Records the files of the log, or that they are unknown; durably.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn consists_of(&mut self, files: Option<Files>) -> io::Result<()> {
        self.known.files = files;
        self.write()?;
        self.file.sync_data()
    }

    fn write(&mut self) -> io::Result<()> {
        self.stamp += 1;
        let place = self.stamp % 2 * PLACE_BYTES as u64;
        let mut bytes = encode(self.stamp, &self.known, &self.tag);
        bytes.resize(PLACE_BYTES, 0);
        self.file.write_all_at(&bytes, place)
    }
}

fn encode(stamp: u64, known: &Known, tag: &LogTag) -> Vec<u8> {
    let files = known.files.unwrap_or_default();
    let are_known = u64::from(known.files.is_some());
    let (first, (from, to)) = (files.first, files.moved);
    let mut bytes = tag.to_vec();
    for number in [stamp, known.durable, are_known, first, from, to] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8], tag: &LogTag) -> Option<(u64, Known)> {
    let (body, crc) = bytes.get(..RECORD_BYTES)?.split_at(RECORD_BYTES - 4);
    if &body[..16] != tag || crc32fast::hash(body).to_le_bytes() != crc {
        return None;
    }
    let mut numbers = body[16..]
        .chunks(8)
        .map(|chunk| chunk.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    let mut next = || numbers.next().unwrap_or(0);
    let (stamp, durable, are_known) = (next(), next(), next() > 0);
    let files = Files { first: next(), moved: (next(), next()) };
    Some((stamp, Known { durable, files: are_known.then_some(files) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: LogTag = *b"sixteen byte tag";

    #[test]
    fn what_was_written_last_is_read_whichever_place_is_bad() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("DURABLE");
        assert_eq!(KnownFile::read(&path, &TAG).unwrap(), None);
        let mut file = KnownFile::create(&path, TAG, Known::default()).unwrap();
        let files = Files { first: 3, moved: (1, 2) };
        file.consists_of(Some(files)).unwrap();
        file.reached(7).unwrap();
        let known = Known { durable: 7, files: Some(files) };
        assert_eq!(KnownFile::read(&path, &TAG).unwrap(), Some(known));
        assert_eq!(KnownFile::read(&path, &[0; 16]).unwrap(), None, "another log's");
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 4;
            std::fs::write(&path, bad).unwrap();
            let found = KnownFile::read(&path, &TAG).unwrap().unwrap();
            let before = Known { durable: 0, ..known };
            assert!(found == known || found == before, "byte {at}: {found:?}");
        }
    }

    #[test]
    fn a_file_that_is_missing_or_empty_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: usize| {
            std::fs::write(temp.path().join(name), vec![1; bytes]).unwrap();
        };
        for name in ["0000000000000004.raftlog", "0000000000000005.raftlog"] {
            write(name, 200);
        }
        write("0000000000000001.rewrite", 200);
        let files = Files::of(temp.path()).unwrap();
        assert_eq!(files, Files { first: 4, moved: (1, 1) });
        write("0000000000000006.raftlog", 0);
        assert_eq!(files.missing(temp.path()).unwrap(), None, "the newest may be begun");
        for name in ["0000000000000005.raftlog", "0000000000000001.rewrite"] {
            write(name, 0);
            assert_eq!(files.missing(temp.path()).unwrap(), Some(temp.path().join(name)));
            std::fs::remove_file(temp.path().join(name)).unwrap();
            assert_eq!(files.missing(temp.path()).unwrap(), Some(temp.path().join(name)));
            write(name, 200);
        }
        for number in 4..=6 {
            std::fs::remove_file(temp.path().join(format!("{number:016}.raftlog"))).unwrap();
        }
        let first = temp.path().join("0000000000000004.raftlog");
        assert_eq!(files.missing(temp.path()).unwrap(), Some(first));
    }
}
