//! Maps and sets whose order of iteration depends on their history alone.
//!
//! They are hash tables beside a dense vector ([`Map`], [`Set`]) or beside blocks of entries
//! ([`Dense`]); a [`Compact`] collection is one piece of memory while it is small. Iteration follows
//! insertion (and the swaps of removals), never the hash. Replicas that applied the same operations
//! therefore iterate alike although every process hashes with its own key, which keeps an attacker
//! from choosing colliding members. [`scan`] walks them backwards, which preserves the guarantee of
//! `SCAN` (an entry that is present from start to end is returned) while entries are added and
//! removed: a removal moves the last entry, which a backward walk has already passed.

mod compact;
mod dense;
mod packed;

pub use compact::{Compact, Large, Part};
pub use dense::Dense;

use foldhash::quality::FixedState;
use indexmap::{IndexMap, IndexSet};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

static SEED: AtomicU64 = AtomicU64::new(0x5eed_c1a2_e700_0001);

/// Sets the process-wide hash key. Call it once, before there are any data: a map made under one
/// key cannot be read under another. Nothing observable depends on the key.
pub fn set_hash_seed(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
}

/// Hashes with the process-wide key; takes no room in the map.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keyed;

impl BuildHasher for Keyed {
    type Hasher = <FixedState as BuildHasher>::Hasher;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        FixedState::with_seed(SEED.load(Ordering::Relaxed)).build_hasher()
    }
}

/// Hash of a byte string with the process-wide key.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    Keyed.hash_one(bytes)
}

/// A map in order of insertion.
pub type Map<K, V> = IndexMap<K, V, Keyed>;

/// A set in order of insertion.
pub type Set<T> = IndexSet<T, Keyed>;

/// One step of a backward walk over `len` entries: visits up to `count` positions through `visit`
/// and returns the next cursor, 0 when the walk is over. A cursor is one more than the position
/// that comes next; 0 starts at the end.
pub fn scan(len: usize, cursor: u64, count: usize, mut visit: impl FnMut(usize)) -> u64 {
    let start = if cursor == 0 { len } else { (cursor as usize).min(len) };
    let end = start.saturating_sub(count.max(1));
    for position in (end..start).rev() {
        visit(position);
    }
    end as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_returns_whatever_stays_although_others_go() {
        let mut set: Set<u32> = (0..100).collect();
        let mut seen = Vec::new();
        let mut cursor = 0;
        let mut step = 0;
        loop {
            cursor = scan(set.len(), cursor, 7, |i| seen.push(*set.get_index(i).unwrap()));
            // Remove an odd number and add a new one between any two steps.
            set.swap_remove(&(step * 2 + 1));
            set.insert(1000 + step);
            step += 1;
            if cursor == 0 {
                break;
            }
        }
        for even in (0..100).step_by(2) {
            assert!(seen.contains(&even), "{even}");
        }
    }
}
