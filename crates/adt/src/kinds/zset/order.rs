//! [`Order`]: members sorted by score and then by their bytes, with ranks.
//!
//! A sorted sequence cut into chunks of at most [`CHUNK_MAX`] entries. Finding a place is a binary
//! search over chunks and one within a chunk; inserting moves at most a chunk; a rank adds up the
//! lengths of the chunks before. For sets of up to some millions of members this touches fewer
//! cache lines than a tree or a skip list, and it needs no pointers.

use crate::Blob;

/// Most entries of a chunk: a power of two whose half is moved in a few dozen nanoseconds.
const CHUNK_MAX: usize = 128;

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

/// A run of entries: sort keys and members apart, so that a search reads keys only.
#[derive(Clone, Debug, Default)]
struct Chunk {
    keys: Vec<u64>,
    members: Vec<Blob>,
}

impl Chunk {
    fn with_capacity(capacity: usize) -> Self {
        Self { keys: Vec::with_capacity(capacity), members: Vec::with_capacity(capacity) }
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    fn entry(&self, place: usize) -> (f64, &Blob) {
        (score_of(self.keys[place]), &self.members[place])
    }

    /// Where an entry is, or where it would be.
    fn find(&self, key: u64, member: &[u8]) -> Result<usize, usize> {
        let first = self.keys.partition_point(|k| *k < key);
        match self.keys.get(first) {
            Some(k) if *k == key => {}
            _ => return Err(first),
        }
        // Members of the same score: usually one.
        if self.members[first].as_slice() == member {
            return Ok(first);
        }
        let end = first + self.keys[first..].partition_point(|k| *k == key);
        match self.members[first..end].binary_search_by(|m| m.as_slice().cmp(member)) {
            Ok(place) => Ok(first + place),
            Err(place) => Err(first + place),
        }
    }

    /// Moves the entries from `at` on to the end of `other`.
    fn move_tail(&mut self, at: usize, other: &mut Self) {
        other.keys.extend(self.keys.drain(at..));
        other.members.extend(self.members.drain(at..));
    }
}

/// Members in order of score, then bytes. Scores are neither NaN nor negative zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// Chunks, none of them empty.
    chunks: Vec<Chunk>,
    /// The last key of each chunk.
    ends: Vec<u64>,
    /// The length of each chunk.
    lens: Vec<u32>,
    len: usize,
}

impl Order {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The chunk in which an entry is or would be; the last one for entries beyond it.
    fn chunk_for(&self, key: u64, member: &[u8]) -> usize {
        let mut at = self.ends.partition_point(|end| *end < key);
        // Chunks may end within a run of equal scores.
        while self.ends.get(at) == Some(&key)
            && self.chunks[at].members.last().is_some_and(|last| last.as_slice() < member)
        {
            let skip = self.ends[at + 1..].partition_point(|end| *end == key);
            let run = &self.chunks[at + 1..at + 1 + skip];
            at += 1 + run.partition_point(|chunk| {
                chunk.members.last().is_some_and(|last| last.as_slice() < member)
            });
        }
        at.min(self.chunks.len().saturating_sub(1))
    }

    fn find(&self, score: f64, member: &[u8]) -> (usize, Result<usize, usize>) {
        let key = sort_key(score);
        let at = self.chunk_for(key, member);
        (at, self.chunks.get(at).map_or(Err(0), |chunk| chunk.find(key, member)))
    }

    /// Adds an entry that is not there yet.
    pub fn insert(&mut self, score: f64, member: Blob) {
        let (mut at, place) = self.find(score, &member);
        let Err(mut place) = place else { return };
        if self.chunks.is_empty() {
            self.push_chunk(0, Chunk::default());
        }
        if self.chunks[at].len() == CHUNK_MAX {
            // Appending in order is common (times as scores); full chunks are left behind then.
            let last = at + 1 == self.chunks.len() && place == CHUNK_MAX;
            let keep = if last { CHUNK_MAX } else { CHUNK_MAX / 2 };
            let mut right = Chunk::with_capacity(CHUNK_MAX);
            self.chunks[at].move_tail(keep, &mut right);
            self.push_chunk(at + 1, right);
            self.measure(at);
            if place > keep || last {
                at += 1;
                place -= keep;
            }
        }
        self.chunks[at].keys.insert(place, sort_key(score));
        self.chunks[at].members.insert(place, member);
        self.len += 1;
        self.measure(at);
    }

    /// Removes an entry; gives the member if it was there.
    pub fn remove(&mut self, score: f64, member: &[u8]) -> Option<Blob> {
        let (at, place) = self.find(score, member);
        let place = place.ok()?;
        let chunk = &mut self.chunks[at];
        chunk.keys.remove(place);
        let member = chunk.members.remove(place);
        self.len -= 1;
        self.merge(at);
        Some(member)
    }

    fn push_chunk(&mut self, at: usize, chunk: Chunk) {
        self.chunks.insert(at, chunk);
        self.ends.insert(at, 0);
        self.lens.insert(at, 0);
        self.measure(at);
    }

    fn drop_chunk(&mut self, at: usize) -> Chunk {
        self.ends.remove(at);
        self.lens.remove(at);
        self.chunks.remove(at)
    }

    /// Updates the last key and the length of a chunk that has changed.
    fn measure(&mut self, at: usize) {
        let chunk = &self.chunks[at];
        self.lens[at] = chunk.len() as u32;
        self.ends[at] = chunk.keys.last().copied().unwrap_or(u64::MAX);
    }

    /// Joins a chunk that has become small with its neighbour, so that chunks stay few.
    fn merge(&mut self, at: usize) {
        let len = self.chunks[at].len();
        if len == 0 {
            self.drop_chunk(at);
            return;
        }
        self.measure(at);
        if len < CHUNK_MAX / 8 {
            let left = if at + 1 < self.chunks.len() { at } else { at.saturating_sub(1) };
            let fits = |right: &Chunk| right.len() + self.chunks[left].len() <= CHUNK_MAX / 2;
            if self.chunks.get(left + 1).is_some_and(fits) {
                let mut right = self.drop_chunk(left + 1);
                right.move_tail(0, &mut self.chunks[left]);
                self.measure(left);
            }
        }
    }

    /// Number of entries before `(score, member)`.
    pub fn rank(&self, score: f64, member: &[u8]) -> usize {
        let (at, place) = self.find(score, member);
        self.before_chunk(at) + place.unwrap_or_else(|place| place)
    }

    /// Number of entries that satisfy `test`, which holds for a prefix of the order.
    pub fn partition_point(&self, test: impl Fn(f64, &[u8]) -> bool) -> usize {
        let holds = |chunk: &Chunk, place: usize| {
            let (score, member) = chunk.entry(place);
            test(score, member)
        };
        let at = self.chunks.partition_point(|chunk| holds(chunk, chunk.len() - 1));
        let Some(chunk) = self.chunks.get(at) else { return self.len };
        let (mut low, mut high) = (0, chunk.len());
        while low < high {
            let middle = low.midpoint(high);
            if holds(chunk, middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.before_chunk(at) + low
    }

    fn before_chunk(&self, at: usize) -> usize {
        self.lens[..at.min(self.lens.len())].iter().map(|len| *len as usize).sum()
    }

    /// The entry with `rank` others before it.
    pub fn get(&self, rank: usize) -> Option<(f64, &Blob)> {
        self.walk(rank, false).next()
    }

    /// Entries from `rank` on, upwards or downwards.
    pub fn walk(&self, rank: usize, down: bool) -> impl Iterator<Item = (f64, &Blob)> {
        let (mut at, mut place) = (0, rank);
        if let Some(last) = self.lens.last()
            && rank == self.len - 1
        {
            (at, place) = (self.lens.len() - 1, *last as usize - 1);
        }
        while let Some(&len) = self.lens.get(at)
            && place >= len as usize
        {
            place -= len as usize;
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
            Some(chunk.entry(place))
        })
    }

    /// The first entry.
    pub fn first(&self) -> Option<(f64, &Blob)> {
        Some(self.chunks.first()?.entry(0))
    }

    /// The last entry.
    pub fn last(&self) -> Option<(f64, &Blob)> {
        let chunk = self.chunks.last()?;
        Some(chunk.entry(chunk.len() - 1))
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
        compare_with_model(50, 60);
        // One score for many chunks.
        compare_with_model(1, 3000);
    }

    fn compare_with_model(scores: usize, members: usize) {
        let mut order = Order::default();
        let mut model: BTreeSet<(u64, Blob)> = BTreeSet::new();
        let mut random = crate::random::Random(7);
        for step in 0..6000 {
            // Mostly insertions at first, mostly removals later.
            let score = random.below(scores) as f64;
            let member = Blob::from(format!("m{}", random.below(members)));
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
        assert_eq!(order.chunks.len(), 1000_usize.div_ceil(CHUNK_MAX));
        assert_eq!(order.first().map(|e| e.0), Some(0.0));
        assert_eq!(order.last().map(|e| e.0), Some(999.0));
    }
}
