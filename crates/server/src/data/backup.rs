//! Backup files: written piece by piece, read as a whole, and turned into a data directory.
//!
//! A file gets its name only when it is complete and durable; until then it is called `.part`.

pub mod restore;
#[cfg(test)]
mod tests;

use super::datadir::sync_parent;
use adt::Record;
use engine::entry::{SnapshotCodec, SnapshotPart};
use engine::ids::ShardId;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wire::backup::{About, BEGINNING_BYTES, Frame, VERSION, beginning, decode, encode};
use wire::backup::{frame_len, version_of};
use wire::snapshot::{FRAME_HEADER_BYTES, SnapshotFormat};

/// Reason why a backup cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file system refuses an operation.
    #[error("{} cannot be {what}: {error}", path.display())]
    Io {
        /// File.
        path: PathBuf,
        /// Attempted operation.
        what: &'static str,
        /// Error of the system.
        error: io::Error,
    },
    /// The file exists already.
    #[error("{} exists already: choose another name, or move it away", .0.display())]
    Exists(PathBuf),
    /// The file is not a backup.
    #[error("{} is not a backup: `claret backup` writes them", .0.display())]
    Foreign(PathBuf),
    /// The format is that of another version.
    #[error(
        "{} has version {found} of the format, and this version of claret reads {VERSION}: restore \
         it with the version that wrote it", path.display()
    )]
    Version {
        /// File.
        path: PathBuf,
        /// Version of the file.
        found: u32,
    },
    /// The file is incomplete or damaged.
    #[error("{} is damaged ({what}): use another backup", path.display())]
    Damaged {
        /// File.
        path: PathBuf,
        /// Description of the damage.
        what: &'static str,
    },
}

fn failed(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |error| BackupError::Io { path, what, error }
}

/// Backup that is being written. If it is dropped before it is finished, it leaves no file.
#[derive(Debug)]
pub struct Backup {
    path: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
    checksum: crc32fast::Hasher,
    frames: u64,
    bytes: u64,
    finished: bool,
}

impl Backup {
    /// Creates the file, which is called `.part` until it is finished. An existing `.part` is
    /// overwritten, an existing backup is not.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, about: &About) -> Result<Self, BackupError> {
        Self::check_new(path)?;
        let mut part = OsString::from(path);
        part.push(".part");
        let part = PathBuf::from(part);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&part).map_err(failed(&part, "created"))?;
        let file = BufWriter::with_capacity(1 << 20, file);
        let (path, checksum) = (path.to_owned(), crc32fast::Hasher::new());
        let mut new = Self { path, part, file, checksum, frames: 0, bytes: 0, finished: false };
        new.put(&beginning())?;
        new.frame(&Frame::About(about.clone()))?;
        Ok(new)
    }

    /// Checks that the file does not exist, because it must not be overwritten.
    ///
    /// # Errors
    /// If it exists.
    pub fn check_new(path: &Path) -> Result<(), BackupError> {
        match path.exists() {
            true => Err(BackupError::Exists(path.to_owned())),
            false => Ok(()),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.checksum.update(bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(failed(&self.part, "written"))
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), BackupError> {
        let mut bytes = Vec::new();
        encode(frame, &mut bytes);
        self.frames += 1;
        self.put(&bytes)
    }

    /// Appends a piece of a shard's snapshot.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn piece(&mut self, shard: ShardId, bytes: Vec<u8>) -> Result<(), BackupError> {
        self.frame(&Frame::Piece { shard, bytes })
    }

    /// Finishes a complete backup: makes the file durable and renames it to its final name. Returns
    /// its length.
    ///
    /// # Errors
    /// If that fails; there is no backup then.
    pub fn finish(mut self) -> Result<u64, BackupError> {
        let checksum = self.checksum.clone().finalize();
        self.frame(&Frame::End { frames: self.frames, checksum })?;
        let durable = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        durable.map_err(failed(&self.part, "made durable"))?;
        Self::check_new(&self.path)?;
        std::fs::rename(&self.part, &self.path).map_err(failed(&self.path, "named"))?;
        self.finished = true;
        sync_parent(&self.path).map_err(failed(&self.path, "made durable"))?;
        Ok(self.bytes)
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if !self.finished {
            // An error here cannot be handled; the file is not mistaken for a backup.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// Summary of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Origin of the backup.
    pub about: About,
    /// Length of the file.
    pub bytes: u64,
    /// Number of keys.
    pub keys: u64,
    /// Keys that expire.
    pub expiring: u64,
    /// Number of keys by type.
    pub types: BTreeMap<&'static str, u64>,
    /// Number of request numbers with a remembered outcome.
    pub requests: u64,
    /// Largest clock of a shard.
    pub clock: u64,
    /// Timestamp of the last removal of a record.
    pub removed: u64,
}

impl Contents {
    fn count(&mut self, record: &Record) {
        self.keys += 1;
        self.expiring += u64::from(record.expire_at_ms().is_some());
        *self.types.entry(record.value.type_name()).or_default() += 1;
    }
}

/// Reads a file from beginning to end and summarizes it.
///
/// # Errors
/// If it is not a complete backup of this version.
pub fn inspect(path: &Path) -> Result<Contents, BackupError> {
    let mut contents = Contents::default();
    let (about, bytes) = read::<BackupError>(path, |_, part| {
        match part {
            SnapshotPart::Header { clock, removed, .. } => {
                contents.clock = contents.clock.max(clock.0);
                contents.removed = contents.removed.max(removed.0);
            }
            SnapshotPart::Record(_, record) => contents.count(&record),
            SnapshotPart::Request { .. } => contents.requests += 1,
            _ => {}
        }
        Ok(())
    })?;
    Ok(Contents { about, bytes, ..contents })
}

/// Progress of reading a shard's snapshot.
#[derive(Default)]
struct Stream {
    rest: Vec<u8>,
    parts: u64,
    ended: bool,
}

impl Stream {
    /// Takes a piece and returns the parts that it completes.
    fn take(&mut self, shard: ShardId, bytes: &[u8]) -> Result<Vec<SnapshotPart>, &'static str> {
        self.rest.extend_from_slice(bytes);
        let (mut parts, mut at) = (Vec::new(), 0);
        loop {
            let next = SnapshotFormat.next(&self.rest[at..]);
            let Some((part, len)) = next.map_err(|_| "a part does not read back")? else { break };
            at += len;
            let begins = match &part {
                SnapshotPart::Header { shard: of, .. } if *of != shard => {
                    return Err("a part is of another shard");
                }
                SnapshotPart::Header { .. } => true,
                SnapshotPart::Prepared { .. } | SnapshotPart::Unsettled { .. } => {
                    return Err("a transaction is open in it");
                }
                _ => false,
            };
            if self.ended || begins != (self.parts == 0) {
                return Err("a part stands in a wrong place");
            }
            if let SnapshotPart::End { parts } = part {
                self.ended = true;
                if parts != self.parts {
                    return Err("parts are missing");
                }
            }
            self.parts += 1;
            parts.push(part);
        }
        self.rest.drain(..at);
        Ok(parts)
    }
}

/// Frames of a file, with the checksum of the bytes read so far.
struct Frames {
    file: BufReader<File>,
    checksum: crc32fast::Hasher,
    left: u64,
    count: u64,
}

impl Frames {
    fn open(path: &Path) -> Result<(Self, u64), BackupError> {
        let file = File::open(path).map_err(failed(path, "opened"))?;
        let len = file.metadata().map_err(failed(path, "examined"))?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut first = [0; BEGINNING_BYTES];
        if len < first.len() as u64 {
            return Err(BackupError::Foreign(path.to_owned()));
        }
        file.read_exact(&mut first).map_err(failed(path, "read"))?;
        match version_of(&first) {
            Some(VERSION) => {}
            Some(found) => return Err(BackupError::Version { path: path.to_owned(), found }),
            None => return Err(BackupError::Foreign(path.to_owned())),
        }
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&first);
        Ok((Self { file, checksum, left: len - first.len() as u64, count: 0 }, len))
    }

    /// Next frame, and the checksum of everything before it.
    fn next(&mut self, path: &Path) -> Result<(Frame, u32), BackupError> {
        let damaged = |what| BackupError::Damaged { path: path.to_owned(), what };
        let before = self.checksum.clone().finalize();
        let mut header = [0; FRAME_HEADER_BYTES];
        if self.left < header.len() as u64 {
            return Err(damaged("it is cut off"));
        }
        self.file.read_exact(&mut header).map_err(failed(path, "read"))?;
        let len = frame_len(&header).ok_or_else(|| damaged("a length cannot be right"))?;
        if len > self.left {
            return Err(damaged("it is cut off"));
        }
        let mut bytes = header.to_vec();
        bytes.resize(len as usize, 0);
        self.file.read_exact(&mut bytes[header.len()..]).map_err(failed(path, "read"))?;
        let frame = decode(&bytes).map_err(|_| damaged("a checksum is wrong"))?;
        self.checksum.update(&bytes);
        self.left -= len;
        self.count += 1;
        Ok((frame, before))
    }
}

/// Reads a file and passes every part of every shard's snapshot to `take`. The parts are valid only
/// if no error follows. Returns the origin of the backup and its length.
fn read<E: From<BackupError>>(
    path: &Path,
    mut take: impl FnMut(ShardId, SnapshotPart) -> Result<(), E>,
) -> Result<(About, u64), E> {
    let damaged = |what| E::from(BackupError::Damaged { path: path.to_owned(), what });
    let (mut frames, len) = Frames::open(path)?;
    let (Frame::About(about), _) = frames.next(path)? else {
        return Err(damaged("its origin is missing"));
    };
    let mut streams: Vec<Stream> = Vec::new();
    streams.resize_with(usize::from(about.shards), Stream::default);
    loop {
        let before = frames.count;
        match frames.next(path)? {
            (Frame::Piece { shard, bytes }, _) => {
                let stream = streams.get_mut(usize::from(shard.0));
                let stream = stream.ok_or_else(|| damaged("it names a shard too many"))?;
                for part in stream.take(shard, &bytes).map_err(damaged)? {
                    take(shard, part)?;
                }
            }
            (Frame::End { frames: count, checksum }, found) => {
                if count != before || checksum != found {
                    return Err(damaged("something in it is missing or in another order"));
                }
                break;
            }
            (Frame::About(_), _) => return Err(damaged("its origin appears twice")),
        }
    }
    if frames.left > 0 {
        return Err(damaged("something follows its end"));
    }
    if !streams.iter().all(|stream| stream.ended && stream.rest.is_empty()) {
        return Err(damaged("a shard is missing in part"));
    }
    Ok((about, len))
}
