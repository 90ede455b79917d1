//! Records that were written to lately and stayed as they were, so that a client that watches them need
//! not try again.
//!
//! A guard compares when a record was last written to. Whether a write has changed anything can
//! depend on the order in which a replica carries out what commutes, so replicas cannot agree on it:
//! they count every write. The leader knows what it has seen itself. It lets a guard of an earlier
//! time pass for the present one if all writes in between have left the record as it was. What was
//! forgotten, or seen by another leader, counts as a change.

use crate::limits::UNCHANGED_KEYS_MAX;
use adt::collections::Map;
use adt::{Blob, Timestamp};
use std::collections::VecDeque;

/// The last change and the last write of records of which they differ.
#[derive(Clone, Debug, Default)]
pub(super) struct Unchanged {
    keys: Map<Blob, (Timestamp, Timestamp)>,
    by_age: VecDeque<Blob>,
}

impl Unchanged {
    /// Notes a write at `now` that has left a record as it was, which was last written to at `before`.
    pub fn note(&mut self, key: &Blob, before: Timestamp, now: Timestamp) {
        if let Some((changed, written)) = self.keys.get_mut(key) {
            if *written != before {
                *changed = before;
            }
            *written = now;
            return;
        }
        if self.by_age.len() >= UNCHANGED_KEYS_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.keys.swap_remove(&oldest);
        }
        self.by_age.push_back(key.clone());
        self.keys.insert(key.clone(), (before, now));
    }

    /// Whether a record that was last written to at `written` is as it was at `seen`.
    pub fn since(&self, key: &Blob, seen: Timestamp, written: Timestamp) -> bool {
        self.keys.get(key).is_some_and(|(changed, last)| *last == written && *changed <= seen)
    }
}
