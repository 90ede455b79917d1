//! The time, as an input of the state machines.

/// The time as the driver of a state machine tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Wall clock: microseconds since 1970. May jump forward. All shards and gateways of a process
    /// are told one time, which is later than every timestamp that anybody outside may know of:
    /// see "Real time" in `docs/internals/transactions.md`.
    pub wall_us: u64,
    /// Monotonic clock, in microseconds from any origin.
    pub mono_us: u64,
}

impl Now {
    /// Wall clock in milliseconds since 1970.
    pub fn wall_ms(self) -> u64 {
        self.wall_us / 1000
    }
}
