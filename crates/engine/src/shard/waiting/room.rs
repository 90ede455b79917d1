//! Contract of a kind of wait.

use crate::ids::MachineId;
use crate::now::Now;
use crate::shard::core::ShardCore;

/// One kind of wait.
pub(in crate::shard) trait WaitingRoom {
    /// The largest number of requests that wait.
    const LIMIT: usize;

    /// Number of requests that wait.
    fn len(&self) -> usize;

    /// Whether no request waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no further request can wait.
    fn is_full(&self) -> bool {
        self.len() >= Self::LIMIT
    }

    /// When to look at the waits next, on the monotonic clock in microseconds.
    fn next_us(&self, now: Now) -> Option<u64>;

    /// Ends the waits of clients of a machine that is gone.
    fn forget(&mut self, core: &mut ShardCore, now: Now, machine: MachineId);

    /// Ends all waits: the lead has ended.
    fn end_lead(&mut self, core: &mut ShardCore);
}
