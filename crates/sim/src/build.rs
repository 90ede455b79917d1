//! Builds of the program: what each understands of what others have written.
//!
//! There is only one program to simulate. An older build is played by this one, which refuses what a
//! build that knows one level less could not read.

use adt::Corrupt;
use engine::entry::{Entry, EntryCodec, SnapshotPart};
use engine::level::Level;
use wire::entry::EntryFormat;

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
        EntryFormat.encode(entry, if self.hastens { self.level } else { level }, out);
    }

    fn decode(&self, bytes: &[u8]) -> Result<Entry, Corrupt> {
        if !self.level.suffices_for(wire::entry::level_of(bytes)) {
            return Err(Corrupt);
        }
        EntryFormat.decode(bytes)
    }
}
