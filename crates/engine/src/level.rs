//! Levels: what the machines of a cluster may say to each other, and write where another one reads
//! it.
//!
//! Every build understands one more level than the build before it whenever something about log
//! entries, snapshots or messages between machines is new, and all levels before it. What is written
//! is decided by the cluster and not by the build: the shard map names a level, and nobody uses what
//! a later one has brought. So machines can be replaced one after the other by a newer build, which
//! goes on in the old forms; when the last one is there, the level is raised, and from then on
//! nobody who does not understand it is let in.

use std::fmt;

/// What a build understands, or what a cluster uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(pub u16);

impl Level {
    /// What a cluster uses whose map names none: that of the first builds that formed clusters.
    pub const CLUSTERS: Self = Self(2);
    /// Entries of the log have short numbers; see `docs/internals/formats.md`.
    pub const COMPACT: Self = Self(3);
    /// Pipelines keep their order across shards; see `docs/internals/order.md`.
    pub const ORDERED: Self = Self(4);
    /// The order of a pipeline may be handed from shard to shard; see `docs/internals/order.md`.
    pub const CHAINED: Self = Self(5);
    /// Changes of the coordination service are in the log; see `docs/internals/coordination.md`.
    pub const COORDINATED: Self = Self(6);
    /// Hard quotas of the coordination service hold, and locks have sections; see
    /// `docs/internals/coordination.md`.
    pub const QUOTAS: Self = Self(7);
    /// Locks have leaders with values, grants with several tokens and holders that hear when somebody else
    /// waits, there are barriers, and circles of those who wait are found over several shards; see
    /// `docs/internals/coordination.md`.
    pub const LOCKS: Self = Self(8);
    /// Machines ask each other how long messages take, and where leads should go; see
    /// `docs/internals/slow-machines.md`.
    pub const PROBED: Self = Self(9);
    /// Machines agree on how long an election time-out is; see `docs/internals/slow-machines.md`.
    pub const PACED: Self = Self(10);
    /// Machines tell each other how long appends take on each of them; see
    /// `docs/internals/slow-machines.md`.
    pub const APPENDS: Self = Self(11);
    /// Who is next for a lock may be in the log before the release; see
    /// `docs/internals/coordination.md`.
    pub const NAMED: Self = Self(12);
    /// The tree of the coordination service may be spread over several shards; see
    /// `docs/internals/coordination.md`.
    pub const SPREAD: Self = Self(13);
    /// What a session sends ahead to several shards of a tree keeps its order as a pipeline's commands do;
    /// see `docs/internals/coordination.md`.
    pub const STREAMED: Self = Self(14);
    /// A `multi` may be about several shards of a tree; see `docs/internals/coordination.md`.
    pub const JOINT: Self = Self(15);
    /// The newest that this build understands.
    pub const NEWEST: Self = Self::JOINT;

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
