//! The thread that writes snapshots: pieces come in, a file that counts comes out.

use crate::datadir::{DataDir, DirError, SnapshotFile, sync_parent};
use crate::mail::{Mail, Mailbox};
use engine::limits::SHARDS_MAX;
use engine::message::ShardId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Most pieces that wait: what all shards may have on their way.
const QUEUE_MAX: usize = 4 * SHARDS_MAX;

/// A piece of a shard's snapshot.
#[derive(Debug)]
pub struct Piece {
    /// The shard.
    pub shard: ShardId,
    /// The snapshot contains the shard's log up to this index.
    pub index: u64,
    /// Encoded parts.
    pub bytes: Vec<u8>,
    /// Nothing follows.
    pub last: bool,
}

/// The thread.
pub struct SnapshotThread {
    sender: Option<SyncSender<Piece>>,
    thread: Option<JoinHandle<()>>,
}

impl SnapshotThread {
    /// Starts the thread. A shard's worker is told when a piece is taken and when the snapshot is
    /// durable.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn spawn(dir: Arc<DataDir>, workers: Vec<Mailbox>) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let writer = Writer { dir, workers, open: BTreeMap::new() };
        let thread = std::thread::Builder::new()
            .name("snapshot".to_owned())
            .spawn(move || writer.run(&receiver))?;
        Ok(Self { sender: Some(sender), thread: Some(thread) })
    }

    /// Where pieces go.
    ///
    /// # Panics
    /// Never: the sender is there until the thread is dropped.
    pub fn sender(&self) -> SyncSender<Piece> {
        self.sender.clone().expect("there until dropped")
    }
}

impl Drop for SnapshotThread {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes snapshots has panicked");
        }
    }
}

struct Writer {
    dir: Arc<DataDir>,
    workers: Vec<Mailbox>,
    /// Files that are being written; none for a snapshot that has failed already.
    open: BTreeMap<ShardId, Option<SnapshotFile>>,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Piece>) {
        while let Ok(piece) = receiver.recv() {
            let shard = piece.shard;
            let worker = self.workers[usize::from(shard.0) % self.workers.len()].clone();
            let last = piece.last;
            let ok = match self.write(piece) {
                Ok(ok) => ok,
                Err(error) => {
                    tracing::error!("the snapshot of shard {} is given up: {error}", shard.0);
                    if let Some(Some(file)) = self.open.insert(shard, None) {
                        file.abandon();
                    }
                    false
                }
            };
            worker.send(Mail::SnapshotTaken(shard));
            if last {
                self.open.remove(&shard);
                worker.send(Mail::SnapshotDone(shard, ok));
            }
        }
    }

    /// Writes a piece; tells whether the snapshot is good so far.
    fn write(&mut self, piece: Piece) -> Result<bool, DirError> {
        let Piece { shard, index, bytes, last } = piece;
        if !self.open.contains_key(&shard) {
            let file = self.dir.create_snapshot(shard, index)?;
            self.open.insert(shard, Some(file));
        }
        let Some(Some(file)) = self.open.get_mut(&shard) else { return Ok(false) };
        file.write(&bytes)?;
        if last {
            if let Some(Some(file)) = self.open.remove(&shard) {
                file.finish()?;
            }
            self.remove_older(shard, index)?;
        }
        Ok(true)
    }

    fn remove_older(&self, shard: ShardId, index: u64) -> Result<(), DirError> {
        for (older, path) in self.dir.snapshots_of(shard)? {
            if older < index
                && let Err(error) = std::fs::remove_file(&path).and_then(|()| sync_parent(&path))
            {
                tracing::warn!("the old snapshot {} cannot be removed: {error}", path.display());
            }
        }
        Ok(())
    }
}
