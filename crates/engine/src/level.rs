//! Levels: what the machines of a cluster may say to each other, and write where another one reads
//! it.
//!
//! A build that changes log entries, snapshots or messages between machines takes the next level, and
//! understands the level before it as well. The cluster decides what is written, not the build: the
//! shard map names a level, and no machine uses what a later level has brought. So machines can be
//! replaced by a newer build one after the other, which goes on in the old forms; when all of them
//! understand the new level, it is raised, and from then on a machine that does not understand it is
//! turned away.
//!
//! There is one level so far. The simulator plays a build of the level before it, [`Level::NONE`].

use std::fmt;

/// What a build understands, or what a cluster uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(pub u16);

impl Level {
    /// Nothing that any level has brought: what is used as long as no map is known.
    pub const NONE: Self = Self(0);
    /// The newest that this build understands.
    pub const NEWEST: Self = Self(1);

    /// Whether a machine that understands this level can be in a cluster that uses another one.
    pub fn suffices_for(self, used: Self) -> bool {
        self >= used
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
