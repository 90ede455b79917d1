//! Thread that writes the log.
//!
//! It takes all waiting writes, appends them at once with at most one fsync, and reports them as
//! durable. While it waits for the disk, more writes collect: the slower the disk, the larger the
//! batches (group commit).

use super::{LogError, LogStore};
use crate::config::Durability;
use engine::ids::ShardId;
use engine::limits::PERSISTS_MAX;
use engine::pipeline::bundles::BundleWrites;
use engine::replication::Persist;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Limit on a shard's messages that wait for the thread. A shard has at most [`PERSISTS_MAX`]
/// writes outstanding and compacts rarely, so the limit is never reached.
const QUEUE_PER_SHARD: usize = 2 * PERSISTS_MAX;
/// Interval between fsyncs with `everysec`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Job for the thread.
enum Job {
    Persist(Persist),
    Compact(ShardId, u64),
    Remove(ShardId),
    Stop,
}

/// Shard and number of a completed [`Persist`].
pub type Completion = (ShardId, u64);

/// Number that reports that a shard's log is removed.
pub const REMOVED: u64 = u64::MAX;

/// Sender of jobs to the thread.
#[derive(Clone)]
pub struct LogSender(SyncSender<Job>);

impl LogSender {
    /// Enqueues a write.
    pub fn persist(&self, persist: Persist) {
        self.send(Job::Persist(persist));
    }

    /// Reports that a snapshot contains a shard's entries up to an index.
    pub fn compact(&self, shard: ShardId, index: u64) {
        self.send(Job::Compact(shard, index));
    }

    /// Enqueues the removal of a shard's log, after all earlier jobs; reported as [`REMOVED`].
    pub fn remove(&self, shard: ShardId) {
        self.send(Job::Remove(shard));
    }

    /// The thread ends only after all senders are gone, or with the process.
    fn send(&self, job: Job) {
        if self.0.send(job).is_err() {
            tracing::error!("the log thread has ended; nothing more is written");
        }
    }
}

/// Handle of the thread.
pub struct LogThread {
    sender: LogSender,
    thread: JoinHandle<()>,
}

/// Waiting jobs, collected into one batch.
#[derive(Default)]
struct Batch {
    persists: Vec<Persist>,
    compact: Vec<(ShardId, u64)>,
    remove: Vec<ShardId>,
    stop: bool,
}

impl Batch {
    fn add(&mut self, job: Job) {
        match job {
            Job::Persist(persist) => self.persists.push(persist),
            Job::Compact(shard, index) => self.compact.push((shard, index)),
            Job::Remove(shard) => self.remove.push(shard),
            Job::Stop => self.stop = true,
        }
    }
}

impl LogThread {
    /// Starts the thread for `shards` shards and the map's group. `complete` is called with the
    /// writes that have reached `durability`.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn spawn(
        store: LogStore,
        shards: u16,
        durability: Durability,
        complete: impl Fn(&[Completion]) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE_PER_SHARD * (1 + usize::from(shards)));
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            if let Err(error) = run(store, &receiver, durability, &complete) {
                tracing::error!("{error}; the server stops");
                eprintln!("claret: {error}; stopped");
                std::process::exit(74);
            }
        })?;
        Ok(Self { sender: LogSender(sender), thread })
    }

    /// Sender of jobs to the thread.
    pub fn sender(&self) -> LogSender {
        self.sender.clone()
    }

    /// Writes everything that was sent, makes it durable and ends the thread.
    pub fn stop(self) {
        self.sender.send(Job::Stop);
        if self.thread.join().is_err() {
            tracing::error!("the log thread has panicked");
        }
    }
}

fn run(
    mut store: LogStore,
    receiver: &Receiver<Job>,
    durability: Durability,
    complete: &dyn Fn(&[Completion]),
) -> Result<(), LogError> {
    let sync = durability == Durability::Always;
    let mut synced = Instant::now();
    let mut completions = Vec::new();
    let mut writes = BundleWrites::default();
    loop {
        let mut batch = Batch::default();
        let first = if store.is_unsynced() {
            match receiver.recv_timeout(SYNC_INTERVAL.saturating_sub(synced.elapsed())) {
                Err(RecvTimeoutError::Disconnected) => Some(Job::Stop),
                other => other.ok(),
            }
        } else {
            Some(receiver.recv().unwrap_or(Job::Stop))
        };
        if let Some(first) = first {
            batch.add(first);
        }
        loop {
            match receiver.try_recv() {
                Ok(job) => batch.add(job),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    batch.stop = true;
                    break;
                }
            }
        }
        batch.persists.into_iter().for_each(|persist| writes.add(persist));
        let ready = writes.take_ready();
        if !ready.is_empty() {
            store.append(&ready, sync)?;
            completions.extend(ready.iter().map(|p| (p.group, p.number)));
            complete(&completions);
            completions.clear();
        }
        if store.is_unsynced() && synced.elapsed() >= SYNC_INTERVAL {
            store.sync()?;
            synced = Instant::now();
        }
        for (shard, index) in batch.compact {
            store.compact(shard, index)?;
        }
        for shard in batch.remove {
            store.remove(shard)?;
            complete(&[(shard, REMOVED)]);
        }
        if batch.stop {
            return store.close();
        }
    }
}
