//! Which keys were removed lately, so that a key that was absent when it was watched, and is absent
//! now, is known to have been absent all the time.
//!
//! Only the leader knows: it counts removals while it leads, and remembers for each of a fixed
//! number of groups of keys when one of them was removed last. What another leader has counted says
//! nothing here, so a guard that it gave out fails. It may also fail because another key of the
//! group was removed; then the client tries again, as it does after any failed guard.

use crate::limits::REMOVAL_GROUPS;
use crate::message::Version;

/// Removals under one lead.
#[derive(Clone, Debug, Default)]
pub(super) struct Removals {
    term: u64,
    count: u64,
    /// For each group of keys the number of the last removal; empty before the first one.
    last: Vec<u64>,
}

impl Removals {
    /// No removals yet, in a lead of this term.
    pub fn of_lead(term: u64) -> Self {
        Self { term, ..Self::default() }
    }

    /// Notes the removal of a key with this hash.
    pub fn note(&mut self, hash: u64) {
        self.count += 1;
        self.last.resize(REMOVAL_GROUPS, 0);
        self.last[group(hash)] = self.count;
    }

    /// Notes the removal of all keys.
    pub fn note_all(&mut self) {
        self.count += 1;
        self.last = vec![self.count; REMOVAL_GROUPS];
    }

    /// Version that a guard may ask of a key that is absent now.
    pub fn absent(&self) -> Version {
        Version::Absent { term: self.term, removals: self.count }
    }

    /// Whether a key with this hash, absent at the look that gave `term` and `removals`, was
    /// certainly not removed since.
    pub fn none_since(&self, hash: u64, (term, removals): (u64, u64)) -> bool {
        term == self.term && self.last.get(group(hash)).is_none_or(|last| *last <= removals)
    }
}

fn group(hash: u64) -> usize {
    // The high bits: a table of records takes the low ones.
    (hash >> 32) as usize % REMOVAL_GROUPS
}
