//! Active replicas of a worker. A turn looks at those alone, so that a thousand sleeping groups
//! cost as much as one: see [`crate::replication`] for when groups sleep.

use adt::Timestamp;
use std::collections::BTreeSet;

/// Set of active replicas.
#[derive(Debug, Default)]
pub(super) struct Active {
    /// Shards whose replicas are active.
    pub list: Vec<usize>,
    /// By shard: whether it is in the list.
    pub is_in: Vec<bool>,
    /// Times at which resting replicas must be looked at (monotonic microseconds).
    pub due: BTreeSet<(u64, usize)>,
    /// Upper bound of the clocks of resting replicas.
    pub clock: Timestamp,
}

impl Active {
    pub fn new(shards: usize) -> Self {
        Self { is_in: vec![false; shards], ..Self::default() }
    }

    /// Makes a replica active.
    #[inline]
    pub fn rouse(&mut self, shard: usize) {
        if !std::mem::replace(&mut self.is_in[shard], true) {
            self.list.push(shard);
        }
    }

    pub fn list(&self) -> &[usize] {
        &self.list
    }

    /// Forgets a removed replica.
    pub fn forget(&mut self, shard: usize) {
        self.is_in[shard] = false;
        self.list.retain(|active| *active != shard);
    }

    /// Time at which the first resting replica must be looked at.
    pub fn due_us(&self) -> Option<u64> {
        self.due.first().map(|(at_us, _)| *at_us)
    }

    pub fn rouse_due(&mut self, now_us: u64) {
        while let Some((at_us, shard)) = self.due.first().copied()
            && at_us <= now_us
        {
            self.due.pop_first();
            self.rouse(shard);
        }
    }
}
