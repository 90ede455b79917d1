//! The time, as an input of the state machines.

/// Time, as the driver of a state machine passes it in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Wall clock: microseconds since 1970. May jump forward. All shards and gateways of a process
    /// get the same time, which is later than every timestamp that an observer outside may know of:
    /// see `docs/internals/transactions/timestamps.md`.
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
