//! Scheduling and writing of a worker's snapshots: a small piece in every turn.

use super::{Worker, fail};
use crate::control::Notice;
use crate::data::snapshot::{Job, Origin, Piece};
use crate::host::memory::LogMemory;
use engine::entry::SnapshotCodec;
use engine::ids::ShardId;
use engine::node::Transfer;
use engine::now::Now;
use engine::replica::Replica;
use engine::replication::Promises;
use std::sync::Arc;
use std::sync::mpsc::TrySendError;
use wire::entry::EntryFormat;
use wire::snapshot::SnapshotFormat;

/// Number of parts that are requested at once.
const PARTS: usize = 16;
/// Size at which a piece is handed over, so that a turn stays short.
const PIECE_BYTES: usize = 256 << 10;
/// Limit on pieces on their way to the disk.
const PIECES_MAX: usize = 2;

/// Shard's snapshot that is being written.
#[derive(Debug)]
struct UnderWay {
    index: u64,
    /// Pieces that the snapshot thread has not taken yet.
    pieces: usize,
    /// Whether all pieces have been handed over.
    complete: bool,
    /// Whether it was begun because of [`crate::mail::Mail::Snapshot`].
    asked: bool,
}

#[derive(Debug, Default)]
struct ShardState {
    /// Bytes of log since the last snapshot.
    logged_bytes: u64,
    under_way: Option<UnderWay>,
    /// Begin a snapshot as soon as possible.
    wanted: bool,
    /// Time before which no snapshot begins unless requested, after one has failed (µs).
    rests_until_us: u64,
}

/// Pause after a failed snapshot before the length of the log is a reason for another one.
const REST_US: u64 = 1_000_000;

/// Snapshots of a worker's shards.
#[derive(Debug)]
pub(super) struct Snapshots {
    shards: Vec<ShardState>,
    log_bytes: u64,
    /// Whether there is a log on disk. If not, the log exists in memory only and may be truncated
    /// without a snapshot.
    logged: bool,
    /// Memory that all logs use, and the number of shards.
    memory: Arc<LogMemory>,
    count: u64,
    /// Last reported memory of this worker's logs, and number of its snapshots being written.
    reported: (u64, usize),
}

impl Snapshots {
    pub(super) fn new(count: u16, log_bytes: u64, logged: bool, memory: Arc<LogMemory>) -> Self {
        // Not all numbers are in use: the map's is the last one.
        let shards = usize::from(count.max(ShardId::MAP.0 + 1));
        let mut states = Vec::new();
        states.resize_with(shards, ShardState::default);
        let (count, reported) = (u64::from(count) + 1, (0, 0));
        Self { shards: states, log_bytes, logged, memory, count, reported }
    }

    fn of(&mut self, shard: ShardId) -> &mut ShardState {
        &mut self.shards[usize::from(shard.0)]
    }

    /// Records that a shard's log has grown.
    #[inline]
    pub(super) fn logged(&mut self, shard: ShardId, bytes: u64) {
        self.of(shard).logged_bytes += bytes;
    }

    /// Requests snapshots of these shards.
    pub(super) fn begin_all(&mut self, shards: &[usize]) {
        for &shard in shards {
            self.shards[shard].wanted = true;
        }
    }

    /// Records that the snapshot thread has taken a piece.
    pub(super) fn taken(&mut self, shard: ShardId) {
        if let Some(under_way) = &mut self.of(shard).under_way {
            under_way.pieces = under_way.pieces.saturating_sub(1);
        }
    }

    /// Whether a shard's log takes so much memory that a snapshot should be written early. True at
    /// least for the longest log when all logs together are near their limit.
    fn presses(&self, replica: &Replica<EntryFormat>) -> bool {
        self.memory.is_near()
            && replica.group().log_bytes() > self.memory.taken() / (2 * self.count)
    }

    /// Whether clients have to wait for a snapshot.
    pub(super) fn hold_clients_up(&self) -> bool {
        self.memory.is_full()
    }

    /// Reports the memory of this worker's logs.
    fn report(&mut self, bytes: u64) {
        let (old_bytes, old_count) = self.reported;
        if old_bytes != bytes {
            self.memory.update(old_bytes, bytes);
        }
        let count = self.under_way();
        if old_count != count {
            self.memory.update_under_way(old_count, count);
        }
        self.reported = (bytes, count);
    }

    /// Number of snapshots that are being written.
    pub(super) fn under_way(&self) -> usize {
        self.shards.iter().filter(|shard| shard.under_way.is_some()).count()
    }
}

impl Worker {
    /// Begins snapshots that are due and writes a piece of those in progress.
    pub(super) fn write_snapshots(&mut self, now: Now) {
        let mut log_bytes = 0;
        for index in 0..self.node.local().len() {
            let shard = self.node.local()[index];
            let Some(replica) = self.node.replica(ShardId(shard as u16)) else { continue };
            log_bytes += replica.group().log_bytes();
            if !replica.may_snapshot() {
                // The shard is being split: its log is still needed.
                continue;
            }
            let presses = self.snapshots.presses(replica);
            let covered = replica.group().is_covered();
            let state = &mut self.snapshots.shards[shard];
            let long = presses || state.logged_bytes >= self.snapshots.log_bytes;
            let due = long && state.rests_until_us <= now.mono_us;
            if state.under_way.is_some() {
                self.write_piece(shard, false);
            } else if presses && covered {
                self.shorten_log(shard);
            } else if state.wanted || due && self.snapshots.logged {
                self.begin_snapshot(shard);
            } else if due {
                self.forget_log(shard);
            }
        }
        self.snapshots.report(log_bytes);
    }

    /// Truncates the log of a shard whose snapshot already contains everything, including entries
    /// that lagging replicas could need.
    fn shorten_log(&mut self, shard: usize) {
        let shard = ShardId(shard as u16);
        let Some(replica) = self.node.replica_mut(shard) else { return };
        let (before, (index, _)) = (replica.group().log_bytes(), replica.group().applied());
        let index = replica.compact(index, true);
        if replica.group().log_bytes() < before
            && let Some(log) = &self.peers.log
        {
            log.compact(shard, index);
        }
    }

    fn begin_snapshot(&mut self, shard: usize) {
        let Some(replica) = self.node.replica_mut(ShardId(shard as u16)) else { return };
        let (index, _) = replica.begin_snapshot();
        let state = &mut self.snapshots.shards[shard];
        let asked = std::mem::take(&mut state.wanted);
        state.logged_bytes = 0;
        state.under_way = Some(UnderWay { index, pieces: 0, complete: false, asked });
        self.write_piece(shard, true);
    }

    /// Truncates the log of a shard without a log on disk: its entries are never read again.
    fn forget_log(&mut self, shard: usize) {
        let Some(replica) = self.node.replica_mut(ShardId(shard as u16)) else { return };
        let (index, _) = replica.group().applied();
        replica.compact(index, true);
        self.snapshots.shards[shard].logged_bytes = 0;
    }

    fn write_piece(&mut self, shard: usize, first: bool) {
        let Some(replica) = self.node.replica_mut(ShardId(shard as u16)) else { return };
        let Some(under_way) = &mut self.snapshots.shards[shard].under_way else { return };
        if under_way.complete || under_way.pieces >= PIECES_MAX {
            return;
        }
        if !replica.shard().is_taking_snapshot() {
            // The shard was replaced by another machine's snapshot.
            let asked = under_way.asked;
            self.snapshots.shards[shard].under_way = None;
            let shard = ShardId(shard as u16);
            self.give(Job::GiveUp(shard, Origin::Own));
            let _ = self.peers.control.send(Notice::Snapshot { shard, ok: false, asked });
            return;
        }
        let mut bytes = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        while bytes.len() < PIECE_BYTES {
            let parts = replica.snapshot_parts(PARTS);
            if parts.is_empty() {
                under_way.complete = true;
                break;
            }
            for part in &parts {
                SnapshotFormat.encode(part, &mut bytes);
            }
        }
        under_way.pieces += 1;
        let (index, last) = (under_way.index, under_way.complete);
        let (origin, number) = (Origin::Own, 0);
        self.again |= !last && under_way.pieces < PIECES_MAX;
        let piece = Piece { shard: replica.id(), index, origin, number, bytes, first, last };
        self.give(Job::Write(piece));
    }

    /// Hands a job to the thread; its queue has room for the outstanding jobs of all shards.
    fn give(&self, job: Job) {
        if let Err(TrySendError::Disconnected(_) | TrySendError::Full(_)) =
            self.peers.snapshots.try_send(job)
        {
            tracing::error!("the snapshot thread accepts no more jobs");
        }
    }

    /// Passes on jobs with snapshots for or from other machines.
    pub(super) fn transfer_snapshots(&mut self) {
        while let Some(transfer) = self.node.poll_transfer() {
            self.give(match transfer {
                Transfer::Read { shard, to, index, offset } => {
                    if offset == 0 {
                        tracing::info!(
                            "machine {} is far behind: sending it a snapshot of shard {}",
                            to.0,
                            shard.0
                        );
                    }
                    Job::Read { shard, to, index, offset }
                }
                Transfer::Write { shard, from, index, number, bytes, first, last } => {
                    if last {
                        tracing::info!(
                            "machine {} has sent a snapshot of shard {}",
                            from.0,
                            shard.0
                        );
                    }
                    let origin = Origin::Machine;
                    Job::Write(Piece { shard, index, origin, number, bytes, first, last })
                }
                Transfer::Begin { shard, index, number, bytes, first, last } => {
                    if last {
                        tracing::info!("shard {} begins here, created by a split", shard.0);
                    }
                    let origin = Origin::Machine;
                    Job::Write(Piece { shard, index, origin, number, bytes, first, last })
                }
                Transfer::Make(shard) => {
                    let state = self.snapshots.of(shard);
                    if state.under_way.is_none() {
                        state.logged_bytes = u64::MAX / 2;
                        self.again = true;
                    }
                    continue;
                }
                Transfer::Remove(shard, promises) => {
                    self.keep_promises(shard, promises);
                    tracing::info!("shard {} has left this machine: removing its data", shard.0);
                    let state = std::mem::take(self.snapshots.of(shard));
                    if state.wanted || state.under_way.is_some_and(|under_way| under_way.asked) {
                        let done = Notice::Snapshot { shard, ok: true, asked: true };
                        let _ = self.peers.control.send(done);
                    }
                    match &self.peers.log {
                        Some(log) => log.remove(shard),
                        None => self.remove_snapshots(shard),
                    }
                    continue;
                }
                Transfer::GiveUp(shard) => Job::GiveUp(shard, Origin::Machine),
                Transfer::Close(shard, to) => Job::Close(shard, to),
            });
        }
    }

    /// Stores the promises of a replica before it is removed. Removals are so rare that a worker
    /// may wait for the disk.
    fn keep_promises(&self, shard: ShardId, promises: Promises) {
        if let Err(error) = self.peers.map.keep_promises(shard, promises) {
            tracing::error!("the promises of shard {} cannot be stored: {error}", shard.0);
            std::process::exit(74);
        }
    }

    /// Removes the snapshots of a shard that has left this machine, after its log.
    pub(super) fn remove_snapshots(&self, shard: ShardId) {
        self.give(Job::GiveUp(shard, Origin::Own));
        self.give(Job::Remove(shard));
    }

    /// Handles the result of writing a piece of another machine's snapshot.
    pub(super) fn snapshot_received(&mut self, now: Now, which: (ShardId, u64), ok: bool) {
        if let Err(error) = self.node.snapshot_written(now, which, ok) {
            fail(which.0, &error);
        }
    }

    /// Handles a snapshot that is durable or has failed.
    pub(super) fn snapshot_done(&mut self, now: Now, shard: ShardId, ok: bool) {
        let state = self.snapshots.of(shard);
        let Some(under_way) = state.under_way.take() else { return };
        state.rests_until_us = if ok { 0 } else { now.mono_us + REST_US };
        let is_short = self.snapshots.memory.is_near();
        if ok && let Some(replica) = self.node.replica_mut(shard) {
            let index = replica.compact(under_way.index, is_short);
            if let Some(log) = &self.peers.log {
                log.compact(shard, index);
            }
        }
        // The control thread is gone only when the process ends.
        let _ = self.peers.control.send(Notice::Snapshot { shard, ok, asked: under_way.asked });
    }
}
