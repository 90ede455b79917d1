//! Part of the log in memory: everything after the last snapshot and, where other replicas may need
//! it, after the one before.
//!
//! The library reads only from here; the disk is read at start only.

use crate::cluster::members::Members;
use crate::ids::MachineId;
use raft::eraftpb::{Entry, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use std::cell::Cell;
use std::collections::VecDeque;

/// Promises of a replica to others, which the machine must keep when it removes the log: if the
/// machine joined again without them, it might help to elect a leader that lacks entries which it
/// has acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Term of the replica.
    pub term: u64,
    /// Machine that it has voted for in that term; 0 for none.
    pub vote: u64,
    /// Index and term of the last entry that it may have acknowledged.
    pub last: (u64, u64),
}

/// Data that a start has read from disk.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Index and term of the last entry in the snapshot from which the state was restored.
    pub snapshot: (u64, u64),
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// Entries after the snapshot, in order and without gaps.
    pub entries: Vec<Entry>,
    /// Members of the group as of the snapshot; none if they are its founders.
    pub members: Option<Members>,
    /// Promises of an earlier replica of the group on this machine.
    pub promises: Option<Promises>,
}

/// Memory of an entry besides its payload, in bytes: the entry itself, and the allocation around
/// the payload.
const ENTRY_BESIDE_BYTES: u64 = 128;

/// Memory of an entry, in bytes.
fn memory_of(entry: &Entry) -> u64 {
    (entry.data.len() + entry.context.len()) as u64 + ENTRY_BESIDE_BYTES
}

/// Last log entries, with the hard state.
#[derive(Debug, Default)]
pub struct MemoryLog {
    /// Index and term of the entry before the first.
    base: (u64, u64),
    /// Index and term of the last entry in the newest durable snapshot.
    snapshot: (u64, u64),
    hard_state: HardState,
    /// The members at the newest durable snapshot and after every later change, by index.
    members: VecDeque<(u64, Members)>,
    /// Whether some machine needs a newer snapshot: the newest one is from before the machine
    /// became a member.
    wants_snapshot: Cell<bool>,
    entries: VecDeque<Entry>,
    /// Memory of the entries, in bytes.
    bytes: u64,
}

impl MemoryLog {
    /// Creates the log from the data that a start has read, for a group that had these members at
    /// the snapshot.
    pub fn recovered(members: Members, recovered: Recovered) -> Self {
        let mut hard_state = recovered.hard_state;
        // The commit index is not written with every batch. It covers at least the snapshot and at
        // most the log.
        let last = recovered.entries.last().map_or(recovered.snapshot.0, |e| e.index);
        hard_state.commit = hard_state.commit.clamp(recovered.snapshot.0, last);
        hard_state.term = hard_state.term.max(recovered.snapshot.1);
        let (base, snapshot) = (recovered.snapshot, recovered.snapshot);
        let members = VecDeque::from([(recovered.snapshot.0, members)]);
        let bytes = recovered.entries.iter().map(memory_of).sum();
        let entries = recovered.entries.into();
        let wants_snapshot = Cell::new(false);
        Self { base, snapshot, hard_state, members, wants_snapshot, entries, bytes }
    }

    /// Approximate memory of the entries, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Index of the last entry in the newest durable snapshot.
    pub fn covered(&self) -> u64 {
        self.snapshot.0
    }

    fn first(&self) -> u64 {
        self.base.0 + 1
    }

    fn last(&self) -> u64 {
        self.base.0 + self.entries.len() as u64
    }

    /// Appends entries; one with an existing index replaces that entry and all later ones.
    pub fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.base.0, "an entry in a snapshot is never replaced");
        assert!(first.index <= self.last() + 1, "a log has no gaps");
        let kept = (first.index - self.first()) as usize;
        self.bytes -= self.entries.range(kept..).map(memory_of).sum::<u64>();
        self.entries.truncate(kept);
        self.bytes += entries.iter().map(memory_of).sum::<u64>();
        self.entries.extend(entries.iter().cloned());
    }

    /// Sets term, vote and commit index.
    pub fn set_hard_state(&mut self, state: HardState) {
        self.hard_state = state;
    }

    /// Term of the entry at `index`, if it is known.
    pub fn term_of(&self, index: u64) -> Option<u64> {
        if index == self.base.0 {
            return Some(self.base.1);
        }
        let position = index.checked_sub(self.first())?;
        self.entries.get(position as usize).map(|e| e.term)
    }

    /// Notes a durable snapshot of everything up to `index`. Forgets the entries up to there, or up
    /// to the snapshot before if other replicas may still need a few; returns the last forgotten
    /// index.
    pub fn compact(&mut self, index: u64, keep_some: bool) -> u64 {
        let is_newer = index > self.snapshot.0 || index == self.snapshot.0 && !keep_some;
        let Some(term) = self.term_of(index).filter(|_| is_newer) else {
            return self.base.0;
        };
        let before = std::mem::replace(&mut self.snapshot, (index, term));
        let base = if keep_some { before } else { self.snapshot };
        let forgotten = self.entries.drain(..(base.0 - self.base.0) as usize);
        self.bytes -= forgotten.map(|entry| memory_of(&entry)).sum::<u64>();
        self.base = base;
        while self.members.get(1).is_some_and(|(from, _)| *from <= index) {
            self.members.pop_front();
        }
        base.0
    }

    /// Notes the members as of an entry that has changed them.
    pub fn set_members(&mut self, index: u64, members: Members) {
        self.members.push_back((index, members));
    }

    /// Whether some machine needs a newer snapshot; the library asks again if none comes.
    pub fn take_wants_snapshot(&self) -> bool {
        self.wants_snapshot.take()
    }

    /// Replaces the whole log by a snapshot.
    pub fn restore(&mut self, (index, term): (u64, u64), members: Members) {
        self.base = (index, term);
        self.snapshot = (index, term);
        self.members = VecDeque::from([(index, members)]);
        self.entries.clear();
        self.bytes = 0;
    }
}

impl Storage for MemoryLog {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let conf_state = self.members.front().map(|(_, members)| members.state());
        let conf_state = conf_state.unwrap_or_default();
        Ok(RaftState { hard_state: self.hard_state.clone(), conf_state })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low < self.first() {
            return Err(Error::Store(StorageError::Compacted));
        }
        if high > self.last() + 1 {
            return Err(Error::Store(StorageError::Unavailable));
        }
        let limit = max_size.into().unwrap_or(u64::MAX);
        let range = (low - self.first()) as usize..(high - self.first()) as usize;
        let mut bytes = 0;
        let mut taken = Vec::with_capacity(range.len());
        for entry in self.entries.range(range) {
            bytes += entry.data.len() as u64;
            if bytes > limit && !taken.is_empty() {
                break;
            }
            taken.push(entry.clone());
        }
        Ok(taken)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        match self.term_of(index) {
            Some(term) => Ok(term),
            None if index < self.base.0 => Err(Error::Store(StorageError::Compacted)),
            None => Err(Error::Store(StorageError::Unavailable)),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    /// Describes the snapshot to send. Its contents travel separately.
    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        let (index, term) = self.snapshot;
        let members = self.members.front().map(|(_, members)| members);
        let machine = u16::try_from(to).map(MachineId);
        // The library rejects a snapshot in which it is no member.
        let has_part = |members: &&Members| machine.is_ok_and(|m| members.contains(m));
        let Some(members) = members.filter(has_part) else {
            self.wants_snapshot.set(true);
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        };
        if index == 0 || index < request_index {
            self.wants_snapshot.set(true);
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        (metadata.index, metadata.term) = (index, term);
        *metadata.mut_conf_state() = members.state();
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64, bytes: usize) -> Entry {
        let mut entry = Entry { index, term, ..Entry::default() };
        entry.data = vec![0; bytes].into();
        entry
    }

    /// Log after a snapshot of everything up to entry 10, with so many bytes in each entry.
    fn log(bytes: &[usize]) -> MemoryLog {
        let entries = (11..).zip(bytes).map(|(index, &bytes)| entry(index, 1, bytes)).collect();
        let recovered = Recovered { snapshot: (10, 1), entries, ..Recovered::default() };
        MemoryLog::recovered(Members::of(vec![MachineId(1)]), recovered)
    }

    fn counted(log: &MemoryLog) -> u64 {
        log.entries.iter().map(memory_of).sum()
    }

    #[test]
    fn the_log_counts_its_memory_whatever_becomes_of_its_entries() {
        let mut log = log(&[100, 200, 300]);
        assert_eq!(log.bytes(), 600 + 3 * ENTRY_BESIDE_BYTES);
        log.append(&[entry(12, 2, 5), entry(13, 2, 6), entry(14, 2, 7)]);
        assert_eq!(log.bytes(), 118 + 4 * ENTRY_BESIDE_BYTES, "two were replaced");
        assert_eq!(log.compact(12, false), 12);
        assert_eq!(log.bytes(), counted(&log));
        log.restore((20, 2), Members::of(vec![MachineId(1)]));
        assert_eq!(log.bytes(), 0);
    }

    #[test]
    fn entries_that_followers_may_need_are_kept_within_a_limit() {
        let mut log = log(&[10, 20, 30, 40]);
        assert_eq!(log.compact(12, true), 10, "up to the snapshot before");
        assert_eq!(log.compact(12, true), 10);
        assert_eq!(log.compact(12, false), 12);
        assert_eq!((log.first_index().unwrap(), log.bytes()), (13, counted(&log)));
    }
}
