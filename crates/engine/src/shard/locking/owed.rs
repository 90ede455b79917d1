//! Whoever waits long for units of pipelines is owed its turn.
//!
//! A unit stands in the order of its records from the moment at which it comes; an operation that is in
//! no stream waits until its records are free, which under ever new pipelines they never are. So where
//! one has waited for a while, units that come for its records are refused until it has gone ahead: their
//! gateways dispatch them again, a little later. To refuse them holds nobody up; to let them wait would,
//! at other shards.

use crate::limits::UNITS_OWE_US;
use crate::message::Body;
use crate::now::Now;
use crate::pipeline::Group;
use crate::shard::Shard;

impl Shard {
    /// Whether somebody is owed a record that units of a pipeline are for.
    pub(in crate::shard) fn is_owed(&self, group: &Group) -> bool {
        let owed = &self.streams.owed;
        // Who has gone ahead in the meantime waits no more.
        let waits = |key| owed.get(key).is_some_and(|waiter| self.waiters.contains_key(waiter));
        !owed.is_empty() && group.ops().any(|(key, _)| waits(key))
    }

    /// Looks for those who have waited long for units of pipelines.
    pub(in crate::shard) fn note_owed(&mut self, now: Now) {
        self.streams.owed.clear();
        if !self.streams.hold_records() {
            return;
        }
        for (id, waiter) in &self.waiters {
            let waited = now.mono_us >= waiter.since_us.saturating_add(UNITS_OWE_US);
            // Units have their turn already.
            let unit = matches!(waiter.request.body, Body::Pipeline(_));
            if waited && !unit && self.waits_for_units(waiter) {
                let keys = waiter.claims.iter().map(|(key, _)| (key.clone(), *id));
                self.streams.owed.extend(keys);
            }
        }
    }
}
