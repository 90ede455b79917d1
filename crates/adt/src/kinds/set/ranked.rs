//! The members of a set by rank, in the order of their bytes.
//!
//! The choice of `SPOP` must follow from the contents of the set alone: replicas may have added the
//! same members in different orders, because adds commute. A set that was never popped does not
//! need this index.

use crate::Blob;

/// A chunk that has become longer is divided.
const CHUNK_MAX: usize = 1024;

/// Members in ascending order, in chunks none of which is empty.
#[derive(Clone, Debug, Default)]
pub(in crate::kinds::set) struct Ranked {
    chunks: Vec<Vec<Blob>>,
}

impl Ranked {
    pub fn of<'a>(members: impl Iterator<Item = &'a Blob>) -> Self {
        let mut sorted: Vec<Blob> = members.cloned().collect();
        sorted.sort_unstable();
        let chunks = sorted.chunks(CHUNK_MAX / 2).map(<[Blob]>::to_vec).collect();
        Self { chunks }
    }

    /// Adds a member that is not there.
    pub fn insert(&mut self, member: &Blob) {
        let found = self.chunk_of(member).min(self.chunks.len().saturating_sub(1));
        let Some(chunk) = self.chunks.get_mut(found) else {
            return self.chunks.push(vec![member.clone()]);
        };
        let at = chunk.partition_point(|other| other < member);
        chunk.insert(at, member.clone());
        if chunk.len() > CHUNK_MAX {
            let upper = chunk.split_off(CHUNK_MAX / 2);
            self.chunks.insert(found + 1, upper);
        }
    }

    /// Removes a member.
    pub fn remove(&mut self, member: &Blob) {
        let found = self.chunk_of(member);
        if let Some(chunk) = self.chunks.get_mut(found)
            && let Ok(at) = chunk.binary_search(member)
        {
            chunk.remove(at);
            self.forget_if_empty(found);
        }
    }

    /// Removes and gives the member with `rank` smaller ones.
    pub fn take(&mut self, mut rank: usize) -> Option<Blob> {
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            if rank < chunk.len() {
                let member = chunk.remove(rank);
                self.forget_if_empty(index);
                return Some(member);
            }
            rank -= chunk.len();
        }
        None
    }

    /// The chunk that would contain the member.
    fn chunk_of(&self, member: &Blob) -> usize {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| last < member))
    }

    fn forget_if_empty(&mut self, index: usize) {
        if self.chunks[index].is_empty() {
            self.chunks.remove(index);
        }
    }
}
