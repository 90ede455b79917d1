//! Examination of the end of the log: is the end torn, or is the middle damaged?
//!
//! A crash may leave the last records half written. They were never acknowledged, and cutting them
//! off is right. A bad record that *had* been durable is another matter: cutting there would
//! silently lose acknowledged writes and everything after them, so the server must refuse to start
//! (Alagappan et al., "Protocol-Aware Recovery for Consensus-Based Storage", FAST 2018). A checksum
//! cannot distinguish the two cases. Every batch therefore carries a [`Marker`]: its own number,
//! and the number of the last batch that was known to be on the disk when it was written. If a
//! marker behind the bad record says that the record had been durable, the middle is damaged; if
//! none does, the end is torn.
//!
//! One case cannot be detected: damage to the very last durable batch with nothing written after
//! it. A clean stop therefore writes a closing batch, and [`super::known`] records where the end
//! was.
//!
//! The layout of raft-engine's files is read here without raft-engine: a file header, then batches
//! of a 16-byte header (big-endian: 56 bits of length, 8 of compression type, 64 of footer offset),
//! the entries with their CRC-32, and a footer whose CRC-32 is combined with the file's number.

use std::path::Path;

/// Beginning of a log file; the version and the alignment follow, 8 bytes each.
const FILE_MAGIC: &[u8] = b"RAFT-LOG-FILE-HEADER-9986AB3E47F320B394C8E84916EB0ED5";
/// Size of the file header of version 2.
pub const FILE_HEADER_BYTES: usize = FILE_MAGIC.len() + 16;
/// Size of a batch's header.
const BATCH_HEADER_BYTES: usize = 16;
/// Size of a checksum.
const CHECKSUM_BYTES: usize = 4;

/// Number of a batch, and the last durable batch at the time of its writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marker {
    /// Number of the batch, from 1.
    pub number: u64,
    /// All batches up to this number were on the disk before this one was written.
    pub durable: u64,
}

/// Sixteen random bytes of the data directory, so that nothing that a client stores can look like a
/// marker.
pub type LogTag = [u8; 16];

impl Marker {
    /// Size of an encoded marker.
    pub const BYTES: usize = 16 + 8 + 8 + CHECKSUM_BYTES;

    /// Encodes the marker.
    pub fn encode(self, tag: &LogTag) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend_from_slice(tag);
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.durable.to_le_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a marker at the beginning of `bytes`.
    pub fn decode(bytes: &[u8], tag: &LogTag) -> Option<Self> {
        let bytes = bytes.get(..Self::BYTES)?;
        let (body, crc) = bytes.split_at(Self::BYTES - CHECKSUM_BYTES);
        if &body[..16] != tag || crc32fast::hash(body).to_le_bytes() != crc {
            return None;
        }
        let number =
            |from: usize| u64::from_le_bytes(body[from..from + 8].try_into().expect("eight bytes"));
        Some(Self { number: number(16), durable: number(24) })
    }
}

/// State of the end of a log file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// All bytes belong to good batches.
    Whole,
    /// Good batches up to `end`, followed by space that was reserved and never written.
    Reserved {
        /// End of the good batches.
        end: u64,
    },
    /// Good batches up to `end`, followed by `torn_bytes` of batches that were not durable.
    Torn {
        /// End of the good batches. Zero if the file's header is incomplete.
        end: u64,
        /// Number of bytes behind the end, without reserved space.
        torn_bytes: u64,
    },
    /// A batch at `at` is bad although it had been durable.
    Damaged {
        /// Offset of the bad batch.
        at: u64,
        /// Offset of a batch behind it that proves it.
        proof: u64,
    },
}

/// Examines a file of the log (`number` is in its name). Returns the state of its end, and the
/// number of its last good batch; 0 if there is none.
///
/// # Errors
/// If the file cannot be read.
pub fn examine(path: &Path, number: u64, tag: &LogTag) -> std::io::Result<(Tail, u64)> {
    Ok(examine_bytes(&std::fs::read(path)?, number, tag))
}

/// Number in the name of a file of the log with a suffix: `raftlog` for the queue that is appended
/// to, `rewrite` for entries that were moved out of it.
pub fn file_number(name: &str, suffix: &str) -> Option<u64> {
    name.strip_suffix(suffix)?.strip_suffix('.')?.parse().ok()
}

fn examine_bytes(bytes: &[u8], number: u64, tag: &LogTag) -> (Tail, u64) {
    let mut at = FILE_HEADER_BYTES;
    let mut last = 0;
    if !bytes.starts_with(FILE_MAGIC) || bytes.len() < FILE_HEADER_BYTES {
        at = 0;
    } else {
        while let Some(length) = batch_length(&bytes[at..], number as u32) {
            last = markers(&bytes[at..at + length], tag).last().map_or(last, |m| m.1.number);
            at += length;
        }
    }
    let rest = &bytes[at..];
    let Some(written) = rest.iter().rposition(|&byte| byte != 0) else {
        let whole = rest.is_empty() && at > 0;
        return (if whole { Tail::Whole } else { Tail::Reserved { end: at as u64 } }, last);
    };
    // The bad batch directly follows the last good one. If there is no good batch before it, it is
    // not younger than the first marker that follows.
    let behind: Vec<(usize, Marker)> = markers(rest, tag).collect();
    let bad = if last > 0 { last + 1 } else { behind.first().map_or(u64::MAX, |m| m.1.number) };
    let tail = match behind.iter().find(|(_, marker)| marker.durable >= bad) {
        Some((offset, _)) => Tail::Damaged { at: at as u64, proof: (at + offset) as u64 },
        None => Tail::Torn { end: at as u64, torn_bytes: written as u64 + 1 },
    };
    (tail, last)
}

/// Markers in `bytes` with their offsets.
fn markers<'a>(bytes: &'a [u8], tag: &'a LogTag) -> impl Iterator<Item = (usize, Marker)> + 'a {
    memchr::memmem::find_iter(bytes, tag)
        .filter_map(move |at| Marker::decode(&bytes[at..], tag).map(|marker| (at, marker)))
}

/// Length of the batch at the beginning of `bytes`, if it is complete and its checksums match.
fn batch_length(bytes: &[u8], file: u32) -> Option<usize> {
    let header = bytes.get(..BATCH_HEADER_BYTES)?;
    let word =
        |from: usize| u64::from_be_bytes(header[from..from + 8].try_into().expect("eight bytes"));
    let (length, footer) = ((word(0) >> 8) as usize, word(8) as usize);
    let batch = bytes.get(..length)?;
    // The low byte is the type of compression, and none is used here.
    if header[7] != 0 || footer < BATCH_HEADER_BYTES || footer > length {
        return None;
    }
    let entries = &batch[BATCH_HEADER_BYTES..footer];
    let fits =
        (entries.is_empty() || checksum_fits(entries, 0)) && checksum_fits(&batch[footer..], file);
    fits.then_some(length)
}

/// Whether `bytes` end with the CRC-32 of the bytes before it, combined with `sign`.
fn checksum_fits(bytes: &[u8], sign: u32) -> bool {
    match bytes.split_last_chunk::<CHECKSUM_BYTES>() {
        Some((body, crc)) => crc32fast::hash(body) == u32::from_le_bytes(*crc) ^ sign,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_reads_back_and_no_bit_of_it_may_flip() {
        let tag = [7; 16];
        let marker = Marker { number: 12, durable: 11 };
        let bytes = marker.encode(&tag);
        assert_eq!(Marker::decode(&bytes, &tag), Some(marker));
        assert_eq!(Marker::decode(&bytes, &[8; 16]), None);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Marker::decode(&bad, &tag), None, "bit {bit}");
        }
    }

    #[test]
    fn only_files_of_a_queue_have_a_number() {
        assert_eq!(file_number("0000000000000012.raftlog", "raftlog"), Some(12));
        assert_eq!(file_number("0000000000000012.rewrite", "raftlog"), None);
        assert_eq!(file_number("0000000000000012.rewrite", "rewrite"), Some(12));
        assert_eq!(file_number("LOCK", "raftlog"), None);
    }
}
