//! Timers of a gateway.

/// Something that is to happen at a moment. Its subject is found in the table of its kind: two tables may
/// give out the same handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A refused program is tried again.
    Again { job: u64 },
    /// The time of a blocking command is over.
    Deadline { job: u64 },
    /// A waiter has waited for so long that it may be in a deadlock cycle.
    Deadlock { job: u64 },
    /// The time of a client that waits for a lock of its server's gateways is over.
    Visit { visit: u64 },
    /// A lock that the gateway keeps is to be looked at.
    Near { job: u64 },
    /// A cut has not come about.
    Cut { job: u64 },
    /// A session's commands that have failed are dispatched again.
    Dispatch { session: u64 },
    /// A `multi` over several shards of a tree goes on.
    Joint { job: u64 },
}
