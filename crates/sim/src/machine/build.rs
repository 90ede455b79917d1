//! Builds of the program, and the formats that each understands.
//!
//! There is only one program to simulate, and one level so far. The program also plays the build of
//! the level before: every entry starts with the level for which it was written, and a build
//! refuses entries of a later level than its own.

use adt::Corrupt;
use engine::cluster::level::Level;
use engine::entry::{Entry, EntryCodec, SnapshotPart};
use wire::entry::EntryFormat;

/// Level of the older of two builds.
pub const OLDER: Level = Level(Level::NEWEST.0 - 1);

/// Build that a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Level that it understands.
    pub level: Level,
    /// Planted bug: it writes the format of its own level, whatever the cluster has agreed on.
    pub hastens: bool,
}

impl Default for Build {
    fn default() -> Self {
        Self { level: Level::NEWEST, hastens: false }
    }
}

impl EntryCodec for Build {
    fn encode_part(&self, part: &SnapshotPart, out: &mut Vec<u8>) {
        EntryFormat.encode_part(part, out);
    }

    fn encode(&self, entry: &Entry, level: Level, out: &mut Vec<u8>) {
        let level = if self.hastens { self.level } else { level };
        out.extend_from_slice(&level.0.to_le_bytes());
        EntryFormat.encode(entry, level, out);
    }

    fn decode(&self, bytes: &[u8]) -> Result<Entry, Corrupt> {
        let (level, entry) = bytes.split_first_chunk().ok_or(Corrupt)?;
        if !self.level.suffices_for(Level(u16::from_le_bytes(*level))) {
            return Err(Corrupt);
        }
        EntryFormat.decode(entry)
    }
}
