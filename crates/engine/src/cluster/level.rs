//! Format levels of the messages between machines, and of files that other machines read.
//!
//! A build that changes log entries, snapshots or messages between machines introduces the next
//! level, and still supports the level before it. The cluster decides which level is written, not
//! the build: the shard map names a level, and no machine uses the changes of a later one. So
//! machines can be replaced by a newer build one after the other, which goes on in the old forms.
//! When all of them support the new level, it is raised, and from then on a machine that does not
//! support it is refused.
//!
//! There is one level so far. The simulator plays a build of the level before it, [`Level::NONE`].

use std::fmt;

/// Format level that a build supports, or that a cluster uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(pub u16);

impl Level {
    /// Level without any changes, in use as long as no map is known.
    pub const NONE: Self = Self(0);
    /// Newest level that this build supports.
    pub const NEWEST: Self = Self(1);

    /// Whether a machine that supports this level can be in a cluster that uses `used`.
    pub fn suffices_for(self, used: Self) -> bool {
        self >= used
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
