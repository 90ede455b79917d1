//! Thread that writes snapshots: it collects the pieces of a snapshot in a file, which becomes
//! valid when it is complete. It also reads snapshots for other machines.

use super::datadir::{DataDir, DirError, SnapshotFile, failed, sync_parent};
use crate::mail::{Mail, Mailbox};
use engine::ids::{MachineId, ShardId};
use engine::limits::{MACHINES_MAX, SNAPSHOT_PIECE_BYTES};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Limit on queued jobs of each shard.
const QUEUE_PER_SHARD: usize = 4 * (1 + MACHINES_MAX);

/// Origin of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Taken by this machine.
    Own,
    /// Received from another machine.
    Machine,
}

impl Origin {
    /// Part of the name of an unfinished file: two snapshots of different origins may reach the
    /// same index at once.
    fn label(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Machine => "received",
        }
    }
}

/// Job for the thread.
#[derive(Debug)]
pub enum Job {
    /// Write a piece.
    Write(Piece),
    /// Read a piece for another machine.
    Read {
        /// Shard.
        shard: ShardId,
        /// Receiver.
        to: MachineId,
        /// Log index of the snapshot.
        index: u64,
        /// Offset in bytes.
        offset: u64,
    },
    /// Abandon a snapshot that was begun.
    GiveUp(ShardId, Origin),
    /// Stop reading a snapshot for a machine.
    Close(ShardId, MachineId),
    /// Remove all snapshots of a shard.
    Remove(ShardId),
}

/// Piece of a shard's snapshot.
#[derive(Debug)]
pub struct Piece {
    /// Shard.
    pub shard: ShardId,
    /// The snapshot contains the shard's log up to this index.
    pub index: u64,
    /// Origin of the snapshot.
    pub origin: Origin,
    /// Number among all snapshots that other machines have begun to send; 0 for this machine's own.
    pub number: u64,
    /// Encoded parts.
    pub bytes: Vec<u8>,
    /// Whether the piece is the first one.
    pub first: bool,
    /// Whether the piece is the last one.
    pub last: bool,
}

/// Handle of the thread.
pub struct SnapshotThread {
    sender: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl SnapshotThread {
    /// Starts the thread. The shard's worker is notified when a piece is taken and when the
    /// snapshot is durable.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn spawn(dir: Arc<DataDir>, workers: Vec<Mailbox>) -> std::io::Result<Self> {
        let (sender, receiver) =
            sync_channel(QUEUE_PER_SHARD * (1 + usize::from(dir.manifest().shards)));
        let (open, reading) = Default::default();
        let writer = Writer { dir, workers, open, reading };
        let thread = std::thread::Builder::new()
            .name("snapshot".to_owned())
            .spawn(move || writer.run(&receiver))?;
        Ok(Self { sender: Some(sender), thread: Some(thread) })
    }

    /// Sender of jobs.
    ///
    /// # Panics
    /// Never: the sender exists until the thread is dropped.
    pub fn sender(&self) -> SyncSender<Job> {
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
    /// Files that are being written, this machine's own and those received from other machines;
    /// none for a snapshot that has failed already.
    open: BTreeMap<(ShardId, Origin), Option<SnapshotFile>>,
    /// Files that are being read for other machines, with the log index of the snapshot.
    reading: BTreeMap<(ShardId, MachineId), (u64, File)>,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Job>) {
        while let Ok(job) = receiver.recv() {
            match job {
                Job::Write(piece) => self.take(piece),
                Job::Read { shard, to, index, offset } => {
                    let read = self.read((shard, to, index), offset);
                    let read = read.map_err(|error| {
                        let (shard, to) = (shard.0, to.0);
                        tracing::error!("shard {shard} is not sent to machine {to}: {error}");
                    });
                    let read = read.ok().flatten();
                    self.worker(shard).send(Mail::SnapshotRead((shard, to, index), offset, read));
                }
                Job::GiveUp(shard, origin) => {
                    if let Some(Some(file)) = self.open.remove(&(shard, origin)) {
                        file.abandon();
                    }
                }
                Job::Close(shard, to) => drop(self.reading.remove(&(shard, to))),
                Job::Remove(shard) => {
                    if let Err(error) = self.remove_older(shard, u64::MAX) {
                        tracing::warn!("snapshots of shard {} cannot be removed: {error}", shard.0);
                    }
                    self.worker(shard).send(Mail::SnapshotsRemoved(shard));
                }
            }
        }
    }

    fn worker(&self, shard: ShardId) -> Mailbox {
        self.workers[usize::from(shard.0) % self.workers.len()].clone()
    }

    fn take(&mut self, piece: Piece) {
        let Piece { shard, origin, number, last, .. } = piece;
        let ok = match self.write(piece) {
            Ok(ok) => ok,
            Err(error) => {
                tracing::error!("the snapshot of shard {} is abandoned: {error}", shard.0);
                if let Some(Some(file)) = self.open.insert((shard, origin), None) {
                    file.abandon();
                }
                false
            }
        };
        if last {
            self.open.remove(&(shard, origin));
        }
        let worker = self.worker(shard);
        match origin {
            Origin::Machine => worker.send(Mail::SnapshotReceived((shard, number), ok)),
            Origin::Own => {
                worker.send(Mail::SnapshotTaken(shard));
                if last {
                    worker.send(Mail::SnapshotDone(shard, ok));
                }
            }
        }
    }

    /// Writes a piece. Returns whether the snapshot has succeeded so far.
    fn write(&mut self, piece: Piece) -> Result<bool, DirError> {
        let Piece { shard, origin, index, bytes, first, last, .. } = piece;
        if first {
            if let Some(Some(file)) = self.open.remove(&(shard, origin)) {
                file.abandon();
            }
            let file = self.dir.create_snapshot(shard, index, origin.label())?;
            self.open.insert((shard, origin), Some(file));
        }
        let Some(Some(file)) = self.open.get_mut(&(shard, origin)) else { return Ok(false) };
        file.write(&bytes)?;
        if last {
            if let Some(Some(file)) = self.open.remove(&(shard, origin)) {
                file.finish()?;
            }
            self.remove_older(shard, index)?;
        }
        Ok(true)
    }

    /// Reads a piece for another machine. Returns the bytes and whether the piece is the last one,
    /// or nothing if the snapshot no longer exists.
    fn read(
        &mut self,
        (shard, to, index): (ShardId, MachineId, u64),
        offset: u64,
    ) -> Result<Option<(Vec<u8>, bool)>, DirError> {
        let open = self.reading.get(&(shard, to));
        if open.is_none_or(|(opened, _)| *opened != index) {
            // Kept open until the end: a newer snapshot may replace this one in the meantime.
            let found = self.dir.snapshots_of(shard)?.into_iter().find(|(of, _)| *of == index);
            let Some((_, path)) = found else { return Ok(None) };
            let file = File::open(&path).map_err(failed(&path, "opened"))?;
            self.reading.insert((shard, to), (index, file));
        }
        let Some((_, file)) = self.reading.get(&(shard, to)) else { return Ok(None) };
        let path = self.dir.path();
        let len = file.metadata().map_err(failed(path, "examined"))?.len();
        let most = len.saturating_sub(offset).min(SNAPSHOT_PIECE_BYTES as u64);
        let mut bytes = vec![0; most as usize];
        file.read_exact_at(&mut bytes, offset).map_err(failed(path, "read"))?;
        Ok(Some((bytes, offset + most == len)))
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
