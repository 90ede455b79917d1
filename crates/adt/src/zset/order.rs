//! [`Order`]: members sorted by score and then by their bytes, with ranks.
//!
//! A sorted sequence cut into chunks of at most [`CHUNK_MAX`] entries. Finding a place is a binary
//! search over chunks and one within a chunk; inserting moves at most a chunk; a rank adds up the
//! lengths of the chunks before. For sets of up to some millions of members this touches fewer
//! cache lines than a tree or a skip list, and it needs no pointers.

use crate::Blob;
use std::cmp::Ordering;

/// Most entries of a chunk: a power of two whose half is moved in a few dozen nanoseconds.
const CHUNK_MAX: usize = 256;

/// A score as a number that sorts as the score does.
#[inline]
pub(crate) fn sort_key(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

#[inline]
fn score_of(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

#[derive(Clone, Debug)]
struct Entry {
    key: u64,
    member: Blob,
}

impl Entry {
    #[inline]
    fn order(&self, key: u64, member: &[u8]) -> Ordering {
        self.key.cmp(&key).then_with(|| self.member.as_slice().cmp(member))
    }
}

/// Members in order of score, then bytes. Scores are neither NaN nor negative zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    chunks: Vec<Vec<Entry>>,
    len: usize,
}

impl Order {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The chunk in which an entry is or would be.
    fn chunk_for(&self, key: u64, member: &[u8]) -> usize {
        let after = self.chunks.partition_point(|chunk| {
            chunk.last().is_some_and(|last| last.order(key, member).is_lt())
        });
        after.min(self.chunks.len().saturating_sub(1))
    }

    fn find(&self, score: f64, member: &[u8]) -> (usize, Result<usize, usize>) {
        let key = sort_key(score);
        let at = self.chunk_for(key, member);
        let place = match self.chunks.get(at) {
            Some(chunk) => chunk.binary_search_by(|entry| entry.order(key, member)),
            None => Err(0),
        };
        (at, place)
    }

    /// Adds an entry that is not there yet.
    pub fn insert(&mut self, score: f64, member: Blob) {
        let (mut at, place) = self.find(score, &member);
        let Err(mut place) = place else { return };
        if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
        }
        if self.chunks[at].len() == CHUNK_MAX {
            // Appending in order is common (times as scores): leave full chunks behind then.
            let last = at + 1 == self.chunks.len() && place == CHUNK_MAX;
            let keep = if last { CHUNK_MAX } else { CHUNK_MAX / 2 };
            let mut right = Vec::with_capacity(CHUNK_MAX);
            right.extend(self.chunks[at].drain(keep..));
            self.chunks.insert(at + 1, right);
            if place > keep || last {
                at += 1;
                place -= keep;
            }
        }
        self.chunks[at].insert(place, Entry { key: sort_key(score), member });
        self.len += 1;
    }

    /// Removes an entry, if it is there.
    pub fn remove(&mut self, score: f64, member: &[u8]) {
        let (at, place) = self.find(score, member);
        let Ok(place) = place else { return };
        self.chunks[at].remove(place);
        self.len -= 1;
        self.merge(at);
    }

    /// Joins a chunk that has become small with its neighbour, so that chunks stay few.
    fn merge(&mut self, at: usize) {
        let len = self.chunks[at].len();
        if len == 0 {
            self.chunks.remove(at);
        } else if len < CHUNK_MAX / 8 {
            let left = if at + 1 < self.chunks.len() { at } else { at.saturating_sub(1) };
            if self
                .chunks
                .get(left + 1)
                .is_some_and(|r| r.len() + self.chunks[left].len() <= CHUNK_MAX / 2)
            {
                let right = self.chunks.remove(left + 1);
                self.chunks[left].extend(right);
            }
        }
    }

    /// How many entries come before `(score, member)`.
    pub fn rank(&self, score: f64, member: &[u8]) -> usize {
        let (at, place) = self.find(score, member);
        self.before_chunk(at) + place.unwrap_or_else(|place| place)
    }

    /// How many entries satisfy `test`, which holds for a prefix of the order.
    pub fn partition_point(&self, test: impl Fn(f64, &[u8]) -> bool) -> usize {
        let test = |entry: &Entry| test(score_of(entry.key), &entry.member);
        let at = self.chunks.partition_point(|chunk| chunk.last().is_some_and(test));
        let within = self.chunks.get(at).map_or(0, |chunk| chunk.partition_point(test));
        self.before_chunk(at) + within
    }

    fn before_chunk(&self, at: usize) -> usize {
        self.chunks[..at.min(self.chunks.len())].iter().map(Vec::len).sum()
    }

    /// The entry with `rank` others before it.
    pub fn get(&self, rank: usize) -> Option<(f64, &Blob)> {
        self.walk(rank, false).next()
    }

    /// Entries from `rank` on, upwards or downwards.
    pub fn walk(&self, rank: usize, down: bool) -> impl Iterator<Item = (f64, &Blob)> {
        let mut at = 0;
        let mut place = rank;
        while let Some(chunk) = self.chunks.get(at)
            && place >= chunk.len()
        {
            place -= chunk.len();
            at += 1;
        }
        let mut next = (rank < self.len).then_some((at, place));
        std::iter::from_fn(move || {
            let (at, place) = next?;
            let chunk = &self.chunks[at];
            next = match (down, place) {
                (false, _) if place + 1 < chunk.len() => Some((at, place + 1)),
                (false, _) => (at + 1 < self.chunks.len()).then_some((at + 1, 0)),
                (true, 0) => at.checked_sub(1).map(|at| (at, self.chunks[at].len() - 1)),
                (true, _) => Some((at, place - 1)),
            };
            Some((score_of(chunk[place].key), &chunk[place].member))
        })
    }

    /// The first entry.
    pub fn first(&self) -> Option<(f64, &Blob)> {
        let entry = self.chunks.first()?.first()?;
        Some((score_of(entry.key), &entry.member))
    }

    /// The last entry.
    pub fn last(&self) -> Option<(f64, &Blob)> {
        let entry = self.chunks.last()?.last()?;
        Some((score_of(entry.key), &entry.member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_sort_as_scores_do() {
        let scores = [f64::NEG_INFINITY, -1e300, -1.0, -0.5, 0.0, 1e-300, 2.0, f64::INFINITY];
        for pair in scores.windows(2) {
            assert!(sort_key(pair[0]) < sort_key(pair[1]), "{pair:?}");
        }
        for score in scores {
            assert_eq!(score_of(sort_key(score)), score);
        }
    }

    #[test]
    fn agrees_with_a_sorted_set_of_pairs() {
        let mut order = Order::default();
        let mut model: BTreeSet<(u64, Blob)> = BTreeSet::new();
        let mut random = crate::random::Random(7);
        for step in 0..6000 {
            // Mostly insertions at first, mostly removals later.
            let score = random.below(50) as f64;
            let member = Blob::from(format!("m{}", random.below(60)));
            let entry = (sort_key(score), member.clone());
            if random.below(6000) > step {
                if model.insert(entry) {
                    order.insert(score, member);
                }
            } else {
                order.remove(score, &member);
                model.remove(&entry);
            }
            assert_eq!(order.len(), model.len());
            if step % 97 == 0 {
                let all: Vec<_> =
                    order.walk(0, false).map(|(s, m)| (sort_key(s), m.clone())).collect();
                assert!(all.iter().eq(model.iter()));
                let down: Vec<_> = order.walk(model.len().wrapping_sub(1), true).collect();
                assert_eq!(down.len(), model.len());
                for (rank, (key, member)) in all.iter().enumerate() {
                    assert_eq!(order.rank(score_of(*key), member), rank);
                    assert_eq!(order.get(rank).map(|(_, m)| m), Some(member));
                }
                assert_eq!(
                    order.partition_point(|s, _| s < 25.0),
                    model.iter().filter(|(k, _)| *k < sort_key(25.0)).count()
                );
            }
        }
    }

    #[test]
    fn insertion_in_order_leaves_full_chunks() {
        let mut order = Order::default();
        for i in 0..1000u32 {
            order.insert(f64::from(i), Blob::from("m"));
        }
        assert_eq!(order.chunks.len(), 4);
        assert_eq!(order.first().map(|e| e.0), Some(0.0));
        assert_eq!(order.last().map(|e| e.0), Some(999.0));
    }
}
