//! When keys changed last, on the leader's monotonic clock.
//!
//! A gateway that has read several shards of different machines asks itself whether all values were
//! there at one instant. The clocks of machines cannot tell; durations can: a value that had not
//! changed for as long as the question took was there when the question was sent. See
//! "Reads over several shards" in `docs/internals/replication/transactions.md`.

use crate::ids::KeyedOp;
use adt::Blob;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// Keys that fall into one place count as one.
const PLACES: usize = 4096;

/// Times of changes, by hash of the key.
#[derive(Debug)]
pub(in crate::shard) struct Recent {
    changed_us: Vec<u64>,
    /// Nothing is known about earlier changes.
    since_us: u64,
}

impl Default for Recent {
    fn default() -> Self {
        Self { changed_us: vec![0; PLACES], since_us: 0 }
    }
}

fn place(key: &Blob) -> usize {
    FixedState::with_seed(0).hash_one(&key[..]) as usize % PLACES
}

impl Recent {
    /// A key changes.
    pub fn note(&mut self, key: &Blob, mono_us: u64) {
        self.changed_us[place(key)] = mono_us;
    }

    /// Operations take effect.
    pub fn note_written(&mut self, ops: &[KeyedOp], mono_us: u64) {
        let written = ops.iter().filter(|(_, op)| op.is_write());
        written.for_each(|(key, _)| self.note(key, mono_us));
    }

    /// Anything may have changed until now.
    pub fn note_all(&mut self, mono_us: u64) {
        self.since_us = mono_us;
    }

    /// For how long a key has not changed at least.
    pub fn held_us(&self, key: &Blob, mono_us: u64) -> u64 {
        mono_us.saturating_sub(self.changed_us[place(key)].max(self.since_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_as_old_as_its_last_change_or_what_is_known() {
        let mut recent = Recent::default();
        let (a, b) = (Blob::from("a"), Blob::from("b"));
        recent.note_all(100);
        recent.note(&a, 150);
        assert_eq!((recent.held_us(&a, 180), recent.held_us(&b, 180)), (30, 80));
        recent.note_all(170);
        assert_eq!((recent.held_us(&a, 180), recent.held_us(&b, 180)), (10, 10));
    }
}
