//! Beginnings of a snapshot: the state as its parts.

use super::snapshot::{Writer, session_parts};
use crate::cluster::members::Members;
use crate::coordination::Zxid;
use crate::entry::SnapshotPart;
use crate::ids::KeyedOp;
use crate::shard::core::ShardCore;
use crate::shard::state::slots::Slots;
use adt::collections::Set;
use std::collections::VecDeque;

impl ShardCore {
    /// Begins a snapshot of the present state, which contains the log up to `index` of `term`, when
    /// the group had these members (none: those that founded it). One that was begun before is given
    /// up.
    pub fn begin_snapshot(&mut self, index: u64, term: u64, members: Option<Members>) {
        self.writers.snapshot = Some(self.writer(index, term, members));
        // What is prepared may be carried out at any moment. Later ones follow when they are logged.
        let prepared = self.state.prepared().values();
        let ops = prepared.flat_map(|p| p.prepare.apply.ops.iter().cloned());
        let ops: Vec<KeyedOp> = ops.collect();
        self.before_change(&ops);
    }

    /// Writer of the present state.
    pub(in crate::shard) fn writer(
        &self,
        index: u64,
        term: u64,
        members: Option<Members>,
    ) -> Writer {
        let mut ready = VecDeque::new();
        let (shard, clock, removed) = (self.config.id, self.clock, self.state.records().removed());
        ready.push_back(SnapshotPart::Header { shard, index, term, clock, removed });
        ready.extend(members.map(SnapshotPart::Members));
        let Slots { splits, range } = self.state.slots();
        ready.extend(range.map(|(first, last)| SnapshotPart::Slots { splits, first, last }));
        for p in self.state.prepared.confirmed(&self.ahead) {
            let commit = p.commit.filter(|_| p.settled);
            let (prepare, bound) = (p.prepare.clone(), p.bound);
            ready.push_back(SnapshotPart::Prepared { prepare, bound, commit });
        }
        for (request, outcome) in self.state.requests().iter() {
            ready.push_back(SnapshotPart::Request { request, outcome });
        }
        for (txn, commit) in self.state.fates().outcomes() {
            ready.push_back(SnapshotPart::Outcome { txn, commit });
        }
        ready.extend(self.state.fates().voids().map(SnapshotPart::Void));
        for (stream, kept) in self.state.streams.iter() {
            let (stream, refused, groups) = (*stream, kept.refused, kept.groups.clone());
            ready.push_back(SnapshotPart::Stream { stream, refused, groups });
            ready.extend(kept.chain.as_ref().map(|chain| chain.part(stream)));
        }
        let unsettled = self.state.prepared.unsettled();
        ready.extend(unsettled.map(|(txn, commit)| SnapshotPart::Unsettled { txn, commit }));
        let outlived = self.state.streams.outlived();
        ready.extend(outlived.map(|(gateway, began)| SnapshotPart::Outlived { gateway, began }));
        let fences = self.state.fences();
        if fences.floor() > 0 {
            ready.push_back(SnapshotPart::FenceFloor(fences.floor()));
        }
        ready.extend(fences.iter().map(|(lock, token)| {
            let lock = lock.clone();
            SnapshotPart::Fence { lock, token }
        }));
        let left = self.state.records().iter().map(|(key, _)| key.clone()).collect();
        let coordination = self.state.coordination();
        let mut nodes = Set::default();
        if coordination.last() > Zxid::default() {
            ready.push_back(SnapshotPart::Coordination { last: coordination.last() });
            ready.extend(session_parts(coordination));
            ready.extend(self.state.asks().iter().map(|(unit, ask)| {
                let (unit, ask) = (*unit, ask.clone());
                SnapshotPart::Asked { unit, ask }
            }));
            nodes.extend(coordination.tree().iter().map(|(path, _)| path.clone()));
        }
        Writer { left, nodes, ready, copies: VecDeque::new(), parts: 0, ended: false }
    }

    /// The next parts of the snapshot, at most `count`; none when it is complete (the last part is
    /// the end mark) or none was begun.
    pub fn snapshot_parts(&mut self, count: usize) -> Vec<SnapshotPart> {
        let Some(writer) = &mut self.writers.snapshot else { return Vec::new() };
        let parts = writer.parts(&self.state, count);
        if parts.is_empty() {
            self.writers.snapshot = None;
        }
        parts
    }
}
