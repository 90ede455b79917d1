//! File to which callees write before they answer: a ring of slots.
//!
//! The file is on the device that is to be measured. It is filled with zeros at its creation
//! instead of only being given a length, so that a write of a slot is not an allocation. Every
//! record is synced by itself; there is no group commit, because one write is measured.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Size of a slot in bytes.
const SLOT_BYTES: u64 = 4_096;
/// Size of the ring in bytes.
const RING_BYTES: u64 = 16 << 20;

/// Ring of slots in a file.
#[derive(Debug)]
pub struct Ring {
    file: File,
    next: u64,
}

impl Ring {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// The file cannot be written to its full length, or cannot be synced.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() != RING_BYTES {
            file.set_len(0)?;
            let zeros = vec![0; 1 << 16];
            for _ in 0..RING_BYTES / zeros.len() as u64 {
                file.write_all(&zeros)?;
            }
            file.sync_all()?;
        }
        Ok(Self { file, next: 0 })
    }

    /// Writes a record and waits until it is on the device.
    pub fn write(&mut self, parts: [&[u8]; 2]) -> io::Result<()> {
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let taken = bytes.div_ceil(SLOT_BYTES).max(1) * SLOT_BYTES;
        if self.next + taken > RING_BYTES {
            self.next = 0;
        }
        let mut at = self.next;
        for part in parts {
            self.file.write_all_at(part, at)?;
            at += part.len() as u64;
        }
        self.next = (self.next + taken) % RING_BYTES;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_begins_again_at_its_end_and_keeps_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ring");
        let mut ring = Ring::open(&path).unwrap();
        ring.write([b"head", b""]).unwrap();
        ring.next = RING_BYTES - SLOT_BYTES;
        ring.write([&[1; 44], &[2; 51_200]]).unwrap();
        assert_eq!(ring.next, 13 * SLOT_BYTES);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((bytes.len() as u64, bytes[0], bytes[44]), (RING_BYTES, 1, 2));
        assert_eq!(Ring::open(&path).unwrap().next, 0);
    }
}
