//! Files of the log, as raft-engine uses them: readable by their owner only. The process ends with
//! a clear message when the disk fails.
//!
//! After a write or an fsync has failed, it is unknown what is on the disk, and retrying proves
//! nothing: the kernel may have dropped the dirty pages with the first error (Rebello et al., "Can
//! Applications Recover from fsync Failures?", ATC 2020). So the process stops, and the next start
//! reads what the disk really holds.

use raft_engine::env::{FileSystem, Handle, Permission, WriteExt};
use rustix::fs::FallocateFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Result, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Handler for a failed disk: must not return.
pub type OnDiskFailure = fn(&Path, &str, &io::Error) -> !;

/// Ends the process.
pub fn stop_process(path: &Path, what: &str, error: &io::Error) -> ! {
    tracing::error!(
        "{what} of {} failed: {error}. The server stops, because it cannot know what is on the \
         disk; nothing was acknowledged that is not. Check the disk and its free space, then start \
         the server again.",
        path.display()
    );
    eprintln!("claret: {what} of {} failed: {error}; stopped", path.display());
    std::process::exit(74)
}

/// The file system below the log.
pub struct LogFiles {
    on_failure: OnDiskFailure,
}

impl LogFiles {
    /// Creates a file system that calls `on_failure` when a write or an fsync fails.
    pub fn new(on_failure: OnDiskFailure) -> Self {
        Self { on_failure }
    }
}

/// Open file of the log.
pub struct LogFile {
    path: PathBuf,
    file: File,
    on_failure: OnDiskFailure,
}

impl Handle for LogFile {
    fn truncate(&self, offset: usize) -> Result<()> {
        self.file.set_len(offset as u64)
    }

    fn file_size(&self) -> Result<usize> {
        Ok(self.file.metadata()?.len() as usize)
    }

    fn sync(&self) -> Result<()> {
        match self.file.sync_data() {
            Ok(()) => Ok(()),
            Err(error) => (self.on_failure)(&self.path, "fsync", &error),
        }
    }
}

/// Zeros that are written at once ahead of the data.
const ZEROS: &[u8] = &[0; 256 << 10];

/// Position in a file of the log.
pub struct Cursor {
    file: Arc<LogFile>,
    offset: u64,
    /// From here to `reserved` the file has space that was never written.
    zeroed: u64,
    reserved: u64,
}

impl Cursor {
    fn new(file: Arc<LogFile>) -> Self {
        Self { file, offset: 0, zeroed: 0, reserved: 0 }
    }

    /// Fills the space ahead of the data with zeros. A write to blocks that were only reserved
    /// makes the next `fsync` commit the file's metadata too; with the zeros that cost is paid once
    /// for many records.
    fn fill_ahead(&mut self) {
        if self.offset <= self.zeroed {
            return;
        }
        let room = self.reserved.saturating_sub(self.offset).min(ZEROS.len() as u64);
        // Nothing depends on the zeros: if the disk is failing, the next record will show it.
        if let Err(error) = self.file.file.write_all_at(&ZEROS[..room as usize], self.offset) {
            tracing::debug!("filling {} failed: {error}", self.file.path.display());
        }
        self.zeroed = self.offset + room;
    }
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.file.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl Write for Cursor {
    fn write(&mut self, buffer: &[u8]) -> Result<usize> {
        match self.file.file.write_at(buffer, self.offset) {
            Ok(count) => {
                self.offset += count as u64;
                self.fill_ahead();
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => (self.file.on_failure)(&self.file.path, "write", &error),
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let (base, distance) = match to {
            SeekFrom::Start(offset) => (offset, 0),
            SeekFrom::Current(distance) => (self.offset, distance),
            SeekFrom::End(distance) => (self.file.file_size()? as u64, distance),
        };
        self.offset = base
            .checked_add_signed(distance)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.offset)
    }
}

impl WriteExt for Cursor {
    fn truncate(&mut self, offset: usize) -> Result<()> {
        self.file.truncate(offset)?;
        self.offset = offset as u64;
        self.reserved = self.reserved.min(self.offset);
        self.zeroed = self.zeroed.min(self.offset);
        Ok(())
    }

    fn allocate(&mut self, offset: usize, size: usize) -> Result<()> {
        let file = &self.file.file;
        match rustix::fs::fallocate(file, FallocateFlags::empty(), offset as u64, size as u64) {
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            other => {
                other?;
                // Data before this offset are already written and stay.
                self.zeroed = self.zeroed.max(offset as u64);
                self.reserved = (offset + size) as u64;
                Ok(())
            }
        }
    }
}

impl LogFiles {
    fn wrap(&self, path: &Path, file: File) -> LogFile {
        LogFile { path: path.to_owned(), file, on_failure: self.on_failure }
    }
}

impl FileSystem for LogFiles {
    type Handle = LogFile;
    type Reader = Cursor;
    type Writer = Cursor;

    fn create<P: AsRef<Path>>(&self, path: P) -> Result<LogFile> {
        let path = path.as_ref();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        Ok(self.wrap(path, options.open(path)?))
    }

    fn open<P: AsRef<Path>>(&self, path: P, permission: Permission) -> Result<LogFile> {
        let path = path.as_ref();
        let write = permission == Permission::ReadWrite;
        Ok(self.wrap(path, OpenOptions::new().read(true).write(write).open(path)?))
    }

    fn delete<P: AsRef<Path>>(&self, path: P) -> Result<()> {
        std::fs::remove_file(path)
    }

    fn rename<P: AsRef<Path>>(&self, from: P, to: P) -> Result<()> {
        std::fs::rename(from, to)
    }

    fn new_reader(&self, file: Arc<LogFile>) -> Result<Cursor> {
        Ok(Cursor::new(file))
    }

    fn new_writer(&self, file: Arc<LogFile>) -> Result<Cursor> {
        Ok(Cursor::new(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_written_only_where_nothing_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, b"old").unwrap();
        let files = LogFiles::new(stop_process);
        let file = Arc::new(files.open(&path, Permission::ReadWrite).unwrap());
        let mut writer = files.new_writer(file).unwrap();
        writer.seek(SeekFrom::End(0)).unwrap();
        writer.allocate(3, 1000).unwrap();
        writer.write_all(b"new").unwrap();
        writer.rewind().unwrap();
        writer.write_all(b"O").unwrap();
        let mut expected = b"Oldnew".to_vec();
        expected.resize(1003, 0);
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        writer.truncate(6).unwrap();
        writer.write_all(b"er").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"Oldnewer");
    }
}
