//! Builds of the program: what each understands of what others have written.
//!
//! There is only one program to simulate, and one level so far. The build of the level before it is played
//! by this one: every entry says at its beginning for which level it was written, and a build refuses
//! entries of a later level than its own.

use adt::Corrupt;
use engine::entry::{Entry, EntryCodec, SnapshotPart};
use engine::level::Level;
use wire::entry::EntryFormat;

/// What the older of two builds understands.
pub const OLDER: Level = Level(Level::NEWEST.0 - 1);

/// What a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// What it understands.
    pub level: Level,
    /// A planted bug: it writes what it understands, whatever the cluster has agreed on.
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
