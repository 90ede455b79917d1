//! The part of the log that is kept in memory: everything after the last snapshot and, where others
//! may need it, after the one before.
//!
//! All reads of the library are served from here; the disk is read at start only.

use super::Recovered;
use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use std::collections::VecDeque;

/// The last log entries, with the hard state.
#[derive(Debug, Default)]
pub struct MemoryLog {
    /// Index and term of the entry before the first.
    base: (u64, u64),
    /// Index and term of the last entry in the newest durable snapshot.
    snapshot: (u64, u64),
    hard_state: HardState,
    voters: Vec<u64>,
    entries: VecDeque<Entry>,
}

impl MemoryLog {
    /// What a start has read back, for a group of these voters.
    pub fn recovered(voters: Vec<u64>, recovered: Recovered) -> Self {
        let mut hard_state = recovered.hard_state;
        // The commit index is not written with every batch: what the snapshot contains was
        // committed, and nothing beyond the log can have been.
        let last = recovered.entries.last().map_or(recovered.snapshot.0, |e| e.index);
        hard_state.commit = hard_state.commit.clamp(recovered.snapshot.0, last);
        hard_state.term = hard_state.term.max(recovered.snapshot.1);
        let (base, snapshot) = (recovered.snapshot, recovered.snapshot);
        Self { base, snapshot, hard_state, voters, entries: recovered.entries.into() }
    }

    fn first(&self) -> u64 {
        self.base.0 + 1
    }

    fn last(&self) -> u64 {
        self.base.0 + self.entries.len() as u64
    }

    /// Appends entries; one with an index that is there already replaces it and all later ones.
    pub fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.base.0, "an entry in a snapshot is never replaced");
        assert!(first.index <= self.last() + 1, "a log has no gaps");
        self.entries.truncate((first.index - self.first()) as usize);
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

    /// There is a durable snapshot of everything up to `index`. Forgets the entries up to there, or
    /// up to the snapshot before if others may still need a few; gives the last index that is
    /// forgotten.
    pub fn compact(&mut self, index: u64, keep_some: bool) -> u64 {
        let Some(term) = self.term_of(index).filter(|_| index > self.snapshot.0) else {
            return self.base.0;
        };
        let before = std::mem::replace(&mut self.snapshot, (index, term));
        let base = if keep_some { before } else { self.snapshot };
        self.entries.drain(..(base.0 - self.base.0) as usize);
        self.base = base;
        base.0
    }

    /// A snapshot stands in the place of the whole log.
    pub fn restore(&mut self, (index, term): (u64, u64)) {
        self.base = (index, term);
        self.snapshot = (index, term);
        self.entries.clear();
    }
}

impl Storage for MemoryLog {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let conf_state = ConfState { voters: self.voters.clone(), ..ConfState::default() };
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

    /// Tells which snapshot is to be sent. Its contents go another way.
    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        let (index, term) = self.snapshot;
        if index == 0 || index < request_index {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        (metadata.index, metadata.term) = (index, term);
        metadata.mut_conf_state().voters.clone_from(&self.voters);
        Ok(snapshot)
    }
}
