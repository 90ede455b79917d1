//! Timers of a gateway.

/// Timer. Its subject is found in the table of its kind: handles of two tables may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Next attempt of a refused program.
    Again { job: u64 },
    /// Next piece of a script that has run for a while.
    Script { job: u64 },
    /// Time-out of a blocking command.
    Deadline { job: u64 },
    /// Next look of a blocking command at what may be there by then.
    Look { job: u64 },
    /// Search for a deadlock cycle that a waiter may be in.
    Deadlock { job: u64 },
    /// Time-out of a client that waits for a lock that gateways of its server keep.
    Visit { visit: u64 },
    /// Next look at a lock that the gateway keeps.
    Near { job: u64 },
    /// Time-out of a cut.
    Cut { job: u64 },
    /// Next dispatch of a session's failed commands.
    Dispatch { session: u64 },
    /// Next look at the users of all sessions.
    Users,
    /// Next try to read the definitions of types.
    Types,
    /// Next look at the changes of all shards, for the caches of clients.
    Follow,
    /// End of a pause of the commands of all clients.
    Pause,
    /// Next step of a `multi` over several shards of a tree.
    Joint { job: u64 },
}
