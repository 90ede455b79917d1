//! The replicated log of one shard: the consensus library behind an interface of our own.
//!
//! The group takes opaque payloads and gives them back in order once they are durable on a
//! majority. It never does IO: what must be durable is handed out as [`Persist`], and the driver
//! says when it is.
//!
//! What must be durable before what, in the library's terms (`raft` 0.7, see its `Ready`):
//! 1. entries and hard state of one `Persist` are written in one atomic batch;
//! 2. only then is [`Group::persisted`] called, with the numbers in order;
//! 3. only entries that are given out by [`Group::committed`] are applied.
//!
//! This module knows nothing of data types, keys or transactions.

mod log;

pub use log::MemoryLog;

use crate::message::ShardId;
use raft::eraftpb::{Entry, HardState};
use raft::{Config, RawNode, StateRole};
use std::collections::VecDeque;
use std::fmt;

/// What a group wants to have on disk.
#[derive(Clone, Debug, Default)]
pub struct Persist {
    /// The group.
    pub group: ShardId,
    /// Number to be given back to [`Group::persisted`].
    pub number: u64,
    /// Entries to append; an entry with an index that is already there replaces it and all later
    /// ones.
    pub entries: Vec<Entry>,
    /// Term, vote and commit index, if they have changed.
    pub hard_state: Option<HardState>,
    /// Whether promises to others hang on it, so that it must reach the disk itself.
    pub must_sync: bool,
}

/// What a start has read back from disk.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Index and term of the last entry in the snapshot that the state was restored from.
    pub snapshot: (u64, u64),
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// Entries after the snapshot, in order and without gaps.
    pub entries: Vec<Entry>,
}

/// A committed entry: its index, its term and its payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// Index.
    pub index: u64,
    /// Term.
    pub term: u64,
    /// Payload; empty for the library's own entries.
    pub payload: bytes::Bytes,
}

/// The consensus library refused to go on, which is a broken invariant of the caller.
#[derive(Debug)]
pub struct GroupError(String);

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the replicated log refuses to go on: {}", self.0)
    }
}

impl std::error::Error for GroupError {}

impl From<raft::Error> for GroupError {
    fn from(error: raft::Error) -> Self {
        Self(error.to_string())
    }
}

/// This server's replica in a group.
const REPLICA: u64 = 1;

/// One replica of a replicated log. A group of one replica commits whatever it has on disk.
pub struct Group {
    id: ShardId,
    node: RawNode<MemoryLog>,
    outstanding: Option<u64>,
    held: Option<Persist>,
    unsaved: Option<HardState>,
    committed: VecDeque<Committed>,
    serving_from: Option<u64>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({})", self.id.0)
    }
}

impl Group {
    /// A replica with what was read back from disk (nothing at all, at the first start). It makes
    /// itself leader: the first [`Group::take_persist`] has the proof of that.
    pub fn new(id: ShardId, recovered: Recovered) -> Result<Self, GroupError> {
        let applied = recovered.snapshot.0;
        let log = MemoryLog::recovered(REPLICA, recovered);
        let config = Config {
            id: REPLICA,
            election_tick: 10,
            heartbeat_tick: 1,
            // A range of one value: the library has no randomness of its own then.
            min_election_tick: 10,
            max_election_tick: 11,
            applied,
            pre_vote: true,
            check_quorum: true,
            batch_append: true,
            max_size_per_msg: 4 << 20,
            max_inflight_msgs: 256,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let mut node = RawNode::new(&config, log, &logger)?;
        node.campaign()?;
        Ok(Self {
            id,
            node,
            outstanding: None,
            held: None,
            unsaved: None,
            committed: VecDeque::new(),
            serving_from: None,
        })
    }

    /// Whether this replica leads the group and has applied everything that was committed before
    /// it did.
    pub fn is_serving(&self) -> bool {
        self.node.raft.state == StateRole::Leader
            && self.serving_from.is_some()
            && self.committed.is_empty()
    }

    /// Term of this replica.
    pub fn term(&self) -> u64 {
        self.node.raft.term
    }

    /// Whether a [`Persist`] is on its way. Proposals made in the meantime go into the next one.
    pub fn is_persisting(&self) -> bool {
        self.outstanding.is_some()
    }

    /// Appends a payload to the log; gives its index.
    pub fn propose(&mut self, payload: Vec<u8>) -> Result<u64, GroupError> {
        self.node.propose(Vec::new(), payload)?;
        Ok(self.node.raft.raft_log.last_index())
    }

    /// What is to be made durable now, if anything is and nothing is under way.
    pub fn take_persist(&mut self) -> Option<Persist> {
        self.pump();
        self.held.take()
    }

    /// What was handed out under `number` is durable.
    pub fn persisted(&mut self, number: u64) {
        assert_eq!(self.outstanding.take(), Some(number), "batches become durable in order");
        self.node.on_persist_ready(number);
        self.pump();
    }

    /// Lets the library work until it has something to make durable.
    fn pump(&mut self) {
        while self.outstanding.is_none() && self.node.has_ready() {
            let mut ready = self.node.ready();
            assert!(ready.snapshot().is_empty(), "a group of one is never sent a snapshot");
            let committed = ready.take_committed_entries();
            let entries = ready.take_entries();
            let (number, must_sync) = (ready.number(), ready.must_sync());
            if let Some(state) = ready.hs() {
                self.unsaved = Some(state.clone());
                self.node.mut_store().set_hard_state(state.clone());
            }
            self.node.mut_store().append(&entries);
            self.node.advance_append_async(ready);
            self.give_out(committed);
            if entries.is_empty() && !must_sync {
                // A moved commit index alone is no promise to anybody; it goes with the next batch.
                self.node.on_persist_ready(number);
                continue;
            }
            let hard_state = self.unsaved.take();
            self.outstanding = Some(number);
            self.held = Some(Persist { group: self.id, number, entries, hard_state, must_sync });
        }
    }

    fn give_out(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            if entry.data.is_empty() && entry.term == self.node.raft.term {
                // The leader's first entry of its term: everything before it is applied now.
                self.serving_from = Some(entry.index);
            }
            let Entry { index, term, data: payload, .. } = entry;
            self.committed.push_back(Committed { index, term, payload });
        }
    }

    /// The next entry that is durable on a majority.
    pub fn committed(&mut self) -> Option<Committed> {
        let next = self.committed.pop_front()?;
        self.node.advance_apply_to(next.index);
        Some(next)
    }

    /// Index of the last applied entry, with its term.
    pub fn applied(&self) -> (u64, u64) {
        let index = self.node.raft.raft_log.applied;
        (index, self.node.store().term_of(index).unwrap_or(0))
    }

    /// Forgets entries up to `index`, which a durable snapshot contains.
    pub fn compact(&mut self, index: u64) {
        self.node.mut_store().compact(index);
    }
}
