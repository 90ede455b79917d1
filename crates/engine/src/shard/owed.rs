//! Whoever waits long for units of pipelines is owed its turn.
//!
//! A unit stands in the order of its records from the moment at which it comes; an operation that is in
//! no stream waits until its records are free, which under ever new pipelines they never are. So where
//! one has waited for a while, units that come for its records are refused until it has gone ahead: their
//! gateways dispatch them again, a little later. To refuse them holds nobody up; to let them wait would,
//! at other shards.

use super::{Shard, Waiter};
use crate::limits::UNITS_OWE_US;
use crate::message::{Body, Now};
use crate::pipeline::Group;

impl Shard {
    /// Whether somebody is owed a record that units of a pipeline are for.
    pub(super) fn is_owed(&mut self, now: Now, group: &Group) -> bool {
        let owed = |shard: &Self| group.ops().any(|(key, _)| shard.streams.owed.contains(key));
        if self.streams.owed.is_empty() || !owed(self) {
            return false;
        }
        // It may have gone ahead in the meantime.
        self.note_owed(now);
        owed(self)
    }

    /// Looks for those who have waited long for units of pipelines.
    pub(super) fn note_owed(&mut self, now: Now) {
        self.streams.owed.clear();
        if !self.streams.hold_records() || self.waiters.is_empty() {
            return;
        }
        let owed = |waiter: &Waiter| {
            let waited = now.mono_us >= waiter.since_us.saturating_add(UNITS_OWE_US);
            // Who asks again what has failed must not stand in its own way.
            let unit = matches!(waiter.request.body, Body::Pipeline(_));
            waited && !unit && self.waits_for_units(waiter)
        };
        let owed = self.waiters.values().filter(|waiter| owed(waiter));
        let keys = owed.flat_map(|waiter| waiter.claims.iter().map(|(key, _)| key.clone()));
        self.streams.owed = keys.collect();
    }
}
