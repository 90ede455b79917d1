//! Snapshots that are taken in small steps while the shard goes on working.
//!
//! A snapshot shows the state at the moment it was begun. Records are written by position, a few
//! per step; a record that is about to change before its turn is written first, as it was. Keys
//! that did not exist at the beginning are left out.

use crate::cluster::members::Members;
use crate::coordination::Zxid;
use crate::coordination::service::{Command, Coordination, Ending};
use crate::entry::SnapshotPart;
use crate::ids::{KeyedOp, ShardId};
use crate::shard::state::slots::Slots;
use crate::shard::state::{PreparedTxn, State};
use crate::shard::streams::{KeptChain, KeptStream};
use adt::collections::Set;
use adt::{Blob, Corrupt, Timestamp, Whole};
use std::collections::VecDeque;

/// A snapshot in the making.
#[derive(Debug)]
pub struct Writer {
    /// Keys that were there at the beginning and are not written yet.
    pub(super) left: Set<Blob>,
    /// Paths of nodes of the coordination service that were there at the beginning and are not written yet.
    pub(super) nodes: Set<Blob>,
    pub(super) ready: VecDeque<SnapshotPart>,
    /// Records as they were before they changed. They come first: each takes memory.
    pub(super) copies: VecDeque<SnapshotPart>,
    pub(super) parts: u64,
    pub(super) ended: bool,
}

impl Writer {
    /// The next parts, at most `count` and the end mark; none when everything was given.
    pub(in crate::shard) fn parts(&mut self, state: &State, count: usize) -> Vec<SnapshotPart> {
        let mut parts: Vec<SnapshotPart> = Vec::new();
        // The header comes before everything else.
        if self.parts == 0 {
            parts.extend(self.ready.pop_front());
        }
        while parts.len() < count {
            if let Some(part) = self.copies.pop_front().or_else(|| self.ready.pop_front()) {
                parts.push(part);
            } else if let Some(key) = self.left.pop() {
                if let Some(record) = state.get(&key) {
                    parts.push(SnapshotPart::Record(key, record.clone()));
                }
            } else if let Some(path) = self.nodes.pop() {
                parts.extend(node_part(state, path));
            } else {
                break;
            }
        }
        self.parts += parts.len() as u64;
        if parts.len() < count && !self.ended {
            self.ended = true;
            parts.push(SnapshotPart::End { parts: self.parts });
        }
        parts
    }

    /// A record that is about to change goes into the snapshot as it is.
    fn keep(&mut self, state: &State, ops: &[KeyedOp]) {
        for (key, op) in ops {
            if let Some(Whole::Flush(_)) = op.whole() {
                return self.keep_all(state);
            }
            if op.is_write()
                && self.left.swap_remove(key)
                && let Some(record) = state.get(key)
            {
                self.copies.push_back(SnapshotPart::Record(key.clone(), record.clone()));
            }
        }
    }

    /// Everything is about to change.
    fn keep_all(&mut self, state: &State) {
        while let Some(key) = self.left.pop() {
            if let Some(record) = state.get(&key) {
                self.ready.push_back(SnapshotPart::Record(key.clone(), record.clone()));
            }
        }
    }

    /// Nodes that are about to change go into the snapshot as they are.
    fn keep_nodes(&mut self, state: &State, command: &Command) {
        if self.nodes.is_empty() {
            return;
        }
        for path in state.coordination().changed_by(command) {
            if self.nodes.swap_remove(&path) {
                self.copies.extend(node_part(state, path));
            }
        }
    }

    /// How many records are kept as they were.
    pub(in crate::shard) fn copies(&self) -> usize {
        self.copies.len()
    }
}

/// Snapshots in the making. Records that are about to change go into them as they are.
#[derive(Debug, Default)]
pub(in crate::shard) struct Writers {
    /// For the log to be cut short, or for another machine.
    pub snapshot: Option<Writer>,
    /// For a backup.
    pub cut: Option<Writer>,
}

impl Writers {
    #[inline]
    fn each(&mut self, mut keep: impl FnMut(&mut Writer)) {
        if let Some(writer) = &mut self.snapshot {
            keep(writer);
        }
        if let Some(writer) = &mut self.cut {
            keep(writer);
        }
    }

    /// Copies records that are about to change.
    #[inline]
    pub fn keep(&mut self, state: &State, ops: &[KeyedOp]) {
        self.each(|writer| writer.keep(state, ops));
    }

    /// Copies nodes of the coordination service that are about to change.
    pub fn keep_nodes(&mut self, state: &State, command: &Command) {
        self.each(|writer| writer.keep_nodes(state, command));
    }

    /// Copies all records, which are about to change.
    pub fn keep_all(&mut self, state: &State) {
        self.each(|writer| writer.keep_all(state));
    }
}

/// The parts of a snapshot that are about sessions.
pub(super) fn session_parts(coordination: &Coordination) -> Vec<SnapshotPart> {
    let (over, departed) = (coordination.spread(), coordination.departed());
    let mut parts = Vec::new();
    if over.is_spread() || departed > Zxid::default() {
        parts.push(SnapshotPart::Spread { over, departed });
    }
    for (session, kept) in coordination.sessions() {
        let (session, kept) = (*session, Box::new(kept.without_nodes()));
        parts.push(SnapshotPart::Session { session, kept, ending: None });
    }
    for (session, ends) in coordination.ending() {
        let (session, kept) = (*session, Box::new(ends.session.without_nodes()));
        let ending = Some((ends.ended, ends.finished));
        parts.push(SnapshotPart::Session { session, kept, ending });
    }
    parts.extend(coordination.joints().map(|(session, joint)| {
        let joint = Box::new(joint.clone());
        SnapshotPart::Joint { session, joint }
    }));
    parts
}

/// Part of a snapshot about a node.
fn node_part(state: &State, path: Blob) -> Option<SnapshotPart> {
    let node = state.coordination().tree().get(&path).ok()?.without_children();
    Some(SnapshotPart::Node(path, Box::new(node)))
}

/// Reads a snapshot back.
#[derive(Debug, Default)]
pub struct Reader {
    state: State,
    header: Option<Header>,
    parts: u64,
    ended: bool,
}

/// Header of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The shard.
    pub shard: ShardId,
    /// Index of the last log entry in it.
    pub index: u64,
    /// Term of that entry.
    pub term: u64,
    /// The shard's clock.
    pub clock: Timestamp,
    /// The machines of the group, if they are others than those that founded it.
    pub members: Option<Members>,
}

impl Reader {
    /// A reader at work at this monotonic time.
    pub fn new(mono_us: u64) -> Self {
        let mut reader = Self::default();
        reader.state.tell_time(mono_us);
        reader
    }

    /// Takes the next part. Parts out of place are [`Corrupt`].
    pub fn take(&mut self, part: SnapshotPart) -> Result<(), Corrupt> {
        if self.ended || (self.header.is_none() != matches!(part, SnapshotPart::Header { .. })) {
            return Err(Corrupt);
        }
        match part {
            SnapshotPart::Header { shard, index, term, clock, removed } => {
                self.header = Some(Header { shard, index, term, clock, members: None });
                self.state.records_mut().restore_removed(removed);
            }
            SnapshotPart::Members(members) => match &mut self.header {
                Some(header) => header.members = Some(members),
                None => return Err(Corrupt),
            },
            SnapshotPart::Slots { splits, first, last } => {
                self.state.restore_slots(Slots { splits, range: Some((first, last)) });
            }
            SnapshotPart::Record(key, record) => self.state.records_mut().restore(key, record),
            SnapshotPart::Prepared { prepare, bound, commit } => {
                let settled = commit.is_some();
                let (done, free) = (false, false);
                let prepared = PreparedTxn { prepare, bound, commit, settled, done, free };
                self.state.restore_prepared(prepared);
            }
            SnapshotPart::Outcome { txn, commit } => self.state.remember_outcome(txn, commit),
            SnapshotPart::Unsettled { txn, commit } => self.state.prepared.act_ahead(txn, commit),
            SnapshotPart::Void(txn) => self.state.void(txn),
            SnapshotPart::Stream { stream, refused, groups } => {
                self.state.streams.restore(stream, KeptStream { refused, groups, chain: None });
            }
            SnapshotPart::Chain { stream, links, promises, contents } => {
                let chain = KeptChain {
                    links: links.into_iter().map(|link| (link.seq, link)).collect(),
                    promises: promises.into_iter().collect(),
                    contents: contents.into_iter().map(|unit| (unit.seq, unit.ops)).collect(),
                };
                self.state.streams.restore_chain(stream, chain);
            }
            SnapshotPart::Request { request, outcome } => {
                self.state.requests_mut().keep(request, outcome);
            }
            SnapshotPart::Outlived { gateway, began } => {
                self.state.streams.restore_outlived(gateway, began);
            }
            SnapshotPart::Fence { lock, token } => self.state.fences_mut().put(lock, token),
            SnapshotPart::FenceFloor(floor) => self.state.fences_mut().restore_floor(floor),
            SnapshotPart::Coordination { last } => {
                self.state.coordination_mut().restore_last(last);
            }
            SnapshotPart::Spread { over, departed } => {
                self.state.coordination_mut().restore_spread(over, departed);
            }
            SnapshotPart::Session { session, kept, ending: None } => {
                self.state.coordination_mut().restore_session(session, *kept);
            }
            SnapshotPart::Session { session, kept, ending: Some((ended, finished)) } => {
                let ending = Ending { session: *kept, ended, finished };
                self.state.coordination_mut().restore_ending(session, ending);
            }
            SnapshotPart::Asked { unit, ask } => self.state.keep_ask(unit, ask),
            SnapshotPart::Joint { session, joint } => {
                self.state.coordination_mut().restore_joint(session, *joint);
            }
            SnapshotPart::Node(path, node) => {
                self.state.coordination_mut().restore_node(path, *node);
            }
            SnapshotPart::End { parts } => {
                if parts != self.parts {
                    return Err(Corrupt);
                }
                self.ended = true;
            }
        }
        self.parts += 1;
        Ok(())
    }

    /// The state, once the end mark was read.
    pub fn finish(mut self) -> Result<(Header, State), Corrupt> {
        self.state.link_restored();
        self.state.coordination_mut().link_restored().map_err(|_| Corrupt)?;
        match self.header {
            Some(header) if self.ended => Ok((header, self.state)),
            _ => Err(Corrupt),
        }
    }
}
