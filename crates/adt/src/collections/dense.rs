//! A map for many entries, which adds little to them.

use super::hash;
use crate::Blob;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use smallvec::SmallVec;
use std::fmt;

/// Entries in one block. A block of small entries takes some 64 KiB.
const BLOCK: usize = 1024;

/// Entries from which on a map is too large for the nearest caches of a processor.
const COLD_LEN: usize = 2048;
/// Largest number of keys whose lookups are prepared at a time: their entries fit into the caches.
const WARM_MAX: usize = 256;

/// A map from byte strings, in order of insertion (and of the swaps of removals).
///
/// The entries lie in blocks, so that the map can grow without copying them and keeps no room for as many
/// again; the first block grows with its entries. The index has four bytes and a tag for each entry.
#[derive(Clone)]
pub struct Dense<V> {
    /// Positions of the entries, by hash of the key.
    index: HashTable<u32>,
    /// Each of them is full except the last ones.
    blocks: Vec<Vec<(Blob, V)>>,
    len: usize,
}

impl<V> Default for Dense<V> {
    fn default() -> Self {
        Self { index: HashTable::new(), blocks: Vec::new(), len: 0 }
    }
}

/// A position as the index holds it.
fn position(position: usize) -> u32 {
    u32::try_from(position).expect("so many entries take more than 130 GiB of memory")
}

impl<V: fmt::Debug> fmt::Debug for Dense<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<V> Dense<V> {
    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Position of a key.
    #[inline]
    pub fn position(&self, key: &[u8]) -> Option<usize> {
        let same = |at: &u32| *self.blocks[*at as usize / BLOCK][*at as usize % BLOCK].0 == *key;
        self.index.find(hash(key), same).map(|at| *at as usize)
    }

    /// Reads the memory in which the lookups of the first of these keys will look, and returns how many they
    /// are. Each lookup waits for three reads, one after the other; here those of different keys do not wait
    /// for each other. Does nothing for maps that the processor's caches hold anyway.
    pub fn warm<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> usize {
        if self.len < COLD_LEN {
            return 0;
        }
        // The first entry with the key's tag is nearly always the key's.
        let find = |key| self.index.find(hash(key), |_| true).copied();
        let found: SmallVec<[_; WARM_MAX]> = keys.take(WARM_MAX).map(find).collect();
        let entries = found.iter().flatten().filter_map(|at| self.at(*at as usize));
        std::hint::black_box(entries.fold(0, |sum, (key, _)| sum ^ key.len()));
        found.len()
    }

    /// The value under a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        let (_, value) = self.at(self.position(key)?)?;
        Some(value)
    }

    /// The entry at a position below [`Dense::len`].
    #[inline]
    pub fn at(&self, position: usize) -> Option<(&Blob, &V)> {
        let (key, value) = self.blocks.get(position / BLOCK)?.get(position % BLOCK)?;
        Some((key, value))
    }

    /// The value at a position below [`Dense::len`].
    #[inline]
    pub fn at_mut(&mut self, position: usize) -> Option<&mut V> {
        let (_, value) = self.blocks.get_mut(position / BLOCK)?.get_mut(position % BLOCK)?;
        Some(value)
    }

    /// All entries, by position.
    pub fn iter(&self) -> impl Iterator<Item = (&Blob, &V)> {
        self.blocks.iter().flatten().map(|(key, value)| (key, value))
    }

    /// Sets the value under a key; a new key comes last. Returns the value before.
    pub fn insert(&mut self, key: Blob, value: V) -> Option<V> {
        let Self { index, blocks, len } = self;
        let same = |at: &u32| *blocks[*at as usize / BLOCK][*at as usize % BLOCK].0 == *key;
        let of = |at: &u32| hash(&blocks[*at as usize / BLOCK][*at as usize % BLOCK].0);
        match index.entry(hash(&key), same, of) {
            Entry::Occupied(at) => {
                let at = *at.get() as usize;
                Some(std::mem::replace(&mut blocks[at / BLOCK][at % BLOCK].1, value))
            }
            Entry::Vacant(at) => {
                at.insert(position(*len));
                self.append(key, value);
                None
            }
        }
    }

    /// Adds an entry whose key is not there.
    ///
    /// # Panics
    /// With more than 2^32 entries.
    pub fn push(&mut self, key: Blob, value: V) {
        let Self { index, blocks, len } = self;
        let hashed = hash(&key);
        let of = |at: &u32| hash(&blocks[*at as usize / BLOCK][*at as usize % BLOCK].0);
        index.insert_unique(hashed, position(*len), of);
        self.append(key, value);
    }

    fn append(&mut self, key: Blob, value: V) {
        let Self { blocks, len, .. } = self;
        if *len / BLOCK == blocks.len() {
            blocks.push(if blocks.is_empty() { Vec::new() } else { Vec::with_capacity(BLOCK) });
        }
        blocks[*len / BLOCK].push((key, value));
        *len += 1;
    }

    /// Removes the entry at a position; the last entry takes its place.
    pub fn swap_remove(&mut self, position: usize) -> Option<(Blob, V)> {
        let hashed = hash(self.at(position)?.0);
        let found = self.index.find_entry(hashed, |at| *at as usize == position);
        found.ok()?.remove();
        let last = self.len - 1;
        let moved = self.blocks[last / BLOCK].pop()?;
        self.len = last;
        // One empty block stays, for maps that shrink and grow by turns.
        self.blocks.truncate(last.div_ceil(BLOCK) + 1);
        if position == last {
            return Some(moved);
        }
        if let Some(at) = self.index.find_mut(hash(&moved.0), |at| *at as usize == last) {
            *at = position as u32;
        }
        Some(std::mem::replace(&mut self.blocks[position / BLOCK][position % BLOCK], moved))
    }

    /// Removes the entry under a key; the last entry takes its place.
    pub fn remove(&mut self, key: &[u8]) -> Option<V> {
        let (_, value) = self.swap_remove(self.position(key)?)?;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Map;
    use super::*;
    use crate::random::Random;

    fn check(dense: &Dense<u64>, model: &Map<Blob, u64>) {
        assert_eq!((dense.len(), dense.is_empty()), (model.len(), model.is_empty()));
        assert!(dense.iter().eq(model.iter()), "in the same order");
        for (position, (key, value)) in model.iter().enumerate() {
            assert_eq!(dense.get(key), Some(value));
            assert_eq!(dense.position(key), Some(position));
            assert_eq!(dense.at(position), Some((key, value)));
        }
        assert_eq!((dense.at(model.len()), dense.get(b"absent")), (None, None));
    }

    #[test]
    fn a_dense_map_is_an_index_map() {
        let (mut dense, mut model, mut random) = (Dense::default(), Map::default(), Random(7));
        let keys = |n: usize| Blob::from(format!("{n:0width$}", width = 1 + n % 40));
        // It grows, then shrinks to nothing, over several blocks.
        for (steps, grows) in [(9_000, 8), (20_000, 2), (100, 9)] {
            for step in 0..steps {
                let key = keys(random.below(5_000));
                if random.below(10) < grows {
                    assert_eq!(
                        dense.insert(key.clone(), step),
                        model.insert(key.clone(), step),
                        "{key:?}"
                    );
                } else {
                    assert_eq!(dense.remove(&key), model.swap_remove(&key), "{key:?}");
                }
                if step % 1_000 == 0 {
                    check(&dense, &model);
                }
            }
            check(&dense, &model);
        }
    }

    #[test]
    fn lookups_are_prepared_in_large_maps_only_some_at_a_time() {
        let key = |n: usize| Blob::from(n.to_string());
        let mut dense = Dense::default();
        (0..COLD_LEN - 1).for_each(|n| dense.push(key(n), n));
        let keys: Vec<Blob> = (0..2 * WARM_MAX).map(|n| key(n * 20)).collect();
        let warm = |dense: &Dense<usize>, count| dense.warm(keys.iter().take(count).map(|k| &**k));
        assert_eq!(warm(&dense, 3), 0);
        dense.push(key(COLD_LEN - 1), COLD_LEN - 1);
        assert_eq!([0, 3, 2 * WARM_MAX].map(|count| warm(&dense, count)), [0, 3, WARM_MAX]);
        assert!(keys.iter().all(|k| dense.get(k).is_none_or(|n| key(*n) == *k)), "all as before");
    }

    #[test]
    fn blocks_that_are_left_are_given_back() {
        let mut dense = Dense::default();
        for n in 0..4 * BLOCK {
            dense.push(Blob::from(n.to_string()), ());
        }
        assert_eq!(dense.blocks.len(), 4);
        while dense.len() > 1 {
            dense.swap_remove(0);
        }
        assert_eq!(dense.blocks.len(), 2);
        dense.swap_remove(0);
        assert_eq!((dense.blocks.len(), dense.swap_remove(0)), (1, None));
        dense.push(Blob::from("again"), ());
        assert!(dense.get(b"again").is_some());
    }
}
