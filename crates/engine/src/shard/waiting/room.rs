//! Contract of a place where requests wait.

use crate::ids::MachineId;
use crate::now::Now;
use crate::shard::core::ShardCore;

/// Place where requests wait at the leader of a shard. [`Desk::each_room`] visits all of them.
///
/// [`Desk::each_room`]: crate::shard::Desk::each_room
pub(in crate::shard) trait WaitingRoom {
    /// The largest number of requests that wait, unless the requests of the connections are the only bound.
    fn limit(&self) -> usize {
        usize::MAX
    }

    /// Number of requests that wait.
    fn len(&self) -> usize;

    /// Whether no request waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no further request can wait.
    fn is_full(&self) -> bool {
        self.len() >= self.limit()
    }

    /// When to look at what waits next, on the monotonic clock in microseconds, if time ends a wait.
    fn next_us(&self, _core: &ShardCore, _now: Now) -> Option<u64> {
        None
    }

    /// Ends the waits of clients of a machine that is gone.
    fn forget(&mut self, core: &mut ShardCore, now: Now, machine: MachineId);

    /// Ends all waits: the lead has ended. Every request that waits for an answer gets one.
    fn end_lead(&mut self, core: &mut ShardCore);
}
