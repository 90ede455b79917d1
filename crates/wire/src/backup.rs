//! Backup files as bytes, version 1. `docs/internals/formats/snapshots.md` has the layout.
//!
//! The file begins with [`beginning`]. Frames follow, each with its length and a CRC-32 (IEEE) of
//! length and payload: a description of the backup, pieces of the snapshots of all shards (pieces
//! of different shards may alternate), and an end mark with a checksum of everything before it. A
//! truncated file is therefore recognized, and so are missing or reordered pieces.

use crate::bytes::{Reader, put_u16, put_u32, put_u64, put_word};
use crate::snapshot::{FRAME_HEADER_BYTES, checksum, part_len};
use adt::Corrupt;
use engine::ids::ShardId;
use engine::limits::{SHARDS_MAX, SNAPSHOT_PIECE_BYTES};

/// Version that is written and read.
pub const VERSION: u32 = 1;
/// Magic number at the start of every backup.
const MAGIC: [u8; 8] = *b"CLARETBK";
/// Bytes before the first frame.
pub const BEGINNING_BYTES: usize = 12;
/// Longest frame, in bytes.
pub const FRAME_BYTES_MAX: u64 = 4 * SNAPSHOT_PIECE_BYTES as u64;

const ABOUT: u8 = 1;
const PIECE: u8 = 2;
const END: u8 = 3;

/// Description of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Time of the backup in milliseconds since 1970, by the clock of the machine that wrote it.
    pub taken_ms: u64,
    /// Duration for which writes were held back, in microseconds.
    pub held_us: u64,
    /// Name of the cluster; empty for a stand-alone server.
    pub cluster: String,
    /// The shard map, as text; empty for a stand-alone server.
    pub map: String,
    /// Version of the program that wrote it.
    pub written_by: String,
    /// Number of shards.
    pub shards: u16,
}

/// Part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// First frame.
    About(About),
    /// Piece of a shard's snapshot, split at any byte. The pieces of one shard are in order.
    Piece {
        /// The shard.
        shard: ShardId,
        /// The piece.
        bytes: Vec<u8>,
    },
    /// Last frame.
    End {
        /// Number of frames before this one.
        frames: u64,
        /// CRC-32 (IEEE) of the file up to this frame.
        checksum: u32,
    },
}

/// First bytes of a file: magic number and version.
pub fn beginning() -> [u8; BEGINNING_BYTES] {
    let mut bytes = [0; BEGINNING_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Version of a file with these first bytes; `None` if it is no backup.
pub fn version_of(beginning: &[u8; BEGINNING_BYTES]) -> Option<u32> {
    let version = beginning.strip_prefix(&MAGIC)?;
    version.try_into().ok().map(u32::from_le_bytes)
}

/// Length in bytes of the frame at the start of `bytes`, as its first eight bytes declare it;
/// `None` if they are incomplete or the length is impossible.
pub fn frame_len(bytes: &[u8]) -> Option<u64> {
    part_len(bytes).filter(|len| *len <= FRAME_BYTES_MAX)
}

/// Appends a frame.
pub fn encode(frame: &Frame, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    match frame {
        Frame::About(about) => {
            out.push(ABOUT);
            put_u64(about.taken_ms, out);
            put_u64(about.held_us, out);
            for text in [&about.cluster, &about.map, &about.written_by] {
                put_word(text.as_bytes(), out);
            }
            put_u16(about.shards, out);
        }
        Frame::Piece { shard, bytes } => {
            out.push(PIECE);
            put_u16(shard.0, out);
            out.extend_from_slice(bytes);
        }
        Frame::End { frames, checksum } => {
            out.push(END);
            put_u64(*frames, out);
            put_u32(*checksum, out);
        }
    }
    let len = (out.len() - start - FRAME_HEADER_BYTES) as u64;
    let (header, payload) = out[start..].split_at_mut(FRAME_HEADER_BYTES);
    header[..8].copy_from_slice(&len.to_le_bytes());
    header[8..].copy_from_slice(&checksum(len, payload).to_le_bytes());
}

/// Reads exactly one frame, of which `bytes` must hold all and nothing else.
///
/// # Errors
/// If it is damaged.
pub fn decode(bytes: &[u8]) -> Result<Frame, Corrupt> {
    let mut frame = Reader::new(bytes);
    let (len, crc) = (frame.u64()?, frame.u32()?);
    let payload = frame.rest();
    if payload.len() as u64 != len || checksum(len, payload) != crc {
        return Err(Corrupt);
    }
    let mut reader = Reader::new(payload);
    let frame = match reader.u8()? {
        ABOUT => {
            let (taken_ms, held_us) = (reader.u64()?, reader.u64()?);
            let (cluster, map) = (reader.text()?.to_owned(), reader.text()?.to_owned());
            let (written_by, shards) = (reader.text()?.to_owned(), reader.u16()?);
            if shards == 0 || usize::from(shards) > SHARDS_MAX {
                return Err(Corrupt);
            }
            Frame::About(About { taken_ms, held_us, cluster, map, written_by, shards })
        }
        PIECE => {
            let shard = ShardId(reader.u16()?);
            let bytes = reader.take(reader.rest().len())?.to_vec();
            Frame::Piece { shard, bytes }
        }
        END => Frame::End { frames: reader.u64()?, checksum: reader.u32()? },
        _ => return Err(Corrupt),
    };
    reader.finish()?;
    Ok(frame)
}
