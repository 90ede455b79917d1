//! Log of all shards of a server on disk.
//!
//! All groups share one log: their entries are written in one append and made durable by at most
//! one fsync ([`LogStore::append`]), by one thread ([`LogThread`]). Entries are read back only at
//! the start; after that the groups keep what they need in memory.
//!
//! The store below is raft-engine 0.4.2 with three precautions: the end of the log is examined
//! before it is opened ([`tail`]), its files end the process when the disk fails ([`files`]), and
//! its `sync` is not used, because it does nothing when there is nothing to write.

pub mod files;
pub mod known;
pub mod tail;
mod thread;

pub use thread::{Completion, LogSender, LogThread, REMOVED};

use crate::operators::counts::LogCounts;
use engine::ids::ShardId;
use engine::replication::{Persist, Recovered};
use files::{LogFiles, OnDiskFailure};
use known::{Files, Known, KnownFile};
use raft::eraftpb::{Entry, HardState};
use raft_engine::{Command, Config, Engine, LogBatch, MessageExt, ReadableSize, RecoveryMode};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tail::{LogTag, Marker, Tail};

/// Key of a group's hard state.
const HARD_STATE: &[u8] = b"hard_state";
/// Key of the marker.
const MARKER: &[u8] = b"marker";
/// Group whose only key is the marker.
const MARKER_GROUP: u64 = u64::MAX;
/// Size at which the log continues in a new file.
const FILE_BYTES: u64 = 32 << 20;

/// Reason why the log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A record is bad although it had been durable.
    #[error(
        "the log is damaged: {} holds a bad record at offset {at} that had been durable (the record \
         at offset {proof} proves it). Nothing was changed. Cutting the log there would lose \
         acknowledged writes: restore the data directory from a backup, or start with an empty one \
         if there is none, and check the disk", file.display()
    )]
    Damaged {
        /// File.
        file: PathBuf,
        /// Offset of the bad record.
        at: u64,
        /// Offset of the marker that proves that it had been durable.
        proof: u64,
    },
    /// Entries are missing at the beginning.
    #[error(
        "the log of shard {shard} begins with entry {first}, but the newest good snapshot ends with \
         entry {snapshot}: entries between them are missing. Restore the data directory from a backup"
    )]
    Gap {
        /// Shard.
        shard: u16,
        /// First entry in the log.
        first: u64,
        /// Last entry in the snapshot.
        snapshot: u64,
    },
    /// Entries are missing at the end.
    #[error(
        "the newest snapshot of shard {shard} is damaged, and the log ends with entry {last}, before \
         the end of that snapshot (entry {reach}). Restore the data directory from a backup"
    )]
    Short {
        /// Shard.
        shard: u16,
        /// Last entry in the log.
        last: u64,
        /// Index that the log must reach.
        reach: u64,
    },
    /// The end of the log is missing.
    #[error(
        "the log in {} ends with batch {last}, but {} says that it was durable up to batch {durable}: \
         acknowledged writes are missing. {}", dir.display(), known.display(), way_out(known)
    )]
    Lost {
        /// Directory of the log.
        dir: PathBuf,
        /// Last batch in the log.
        last: u64,
        /// Last batch that was durable.
        durable: u64,
        /// File that records it.
        known: PathBuf,
    },
    /// A file is missing.
    #[error(
        "the log's file {} is missing, empty or cut short, and {} says that it belongs to the log: \
         acknowledged writes may be missing. {}", file.display(), known.display(), way_out(known)
    )]
    Missing {
        /// Missing file.
        file: PathBuf,
        /// File that lists it.
        known: PathBuf,
    },
    /// The store below refuses an operation.
    #[error("the log in {} cannot be {what}: {reason}", dir.display())]
    Store {
        /// Directory of the log.
        dir: PathBuf,
        /// Attempted operation.
        what: &'static str,
        /// Reason.
        reason: String,
    },
}

/// Advice for a log of which a part is missing.
fn way_out(known: &Path) -> String {
    format!(
        "Nothing was changed. Put the log's files back as they were, or restore the data directory \
         from a backup; a machine of a cluster can be filled again by the others (see 'When a disk \
         is lost' in docs/operating/disks.md). A server that is alone goes on with what is left, and \
         without those writes, when {} is removed",
        known.display()
    )
}

/// Options of the log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Directory of the log.
    pub dir: PathBuf,
    /// File with facts about the log (see [`known`]).
    pub known: PathBuf,
    /// Tag of its records (see [`tail`]).
    pub tag: LogTag,
    /// Bytes of log beyond which old files are removed, as far as snapshots allow.
    pub keep_bytes: u64,
    /// Handler for a failed disk.
    pub on_failure: OnDiskFailure,
}

/// Tells raft-engine how to read the entries.
struct RaftEntries;

impl MessageExt for RaftEntries {
    type Entry = Entry;
    fn index(entry: &Entry) -> u64 {
        entry.index
    }
}

/// Log on disk.
pub struct LogStore {
    engine: Engine<LogFiles>,
    options: LogOptions,
    batch: LogBatch,
    marker: Marker,
    /// Whether anything was written after the last fsync.
    unsynced: bool,
    known: KnownFile,
    counts: Arc<LogCounts>,
}

impl LogStore {
    /// Opens the log, or creates an empty one. Records at the end that a crash has left half
    /// written are cut off.
    ///
    /// # Errors
    /// If a record is bad that had been durable, or the files cannot be read.
    pub fn open(options: LogOptions) -> Result<Self, LogError> {
        let store_error =
            |what, reason: String| LogError::Store { dir: options.dir.clone(), what, reason };
        let known = KnownFile::read(&options.known, &options.tag)
            .map_err(|error| store_error("opened", error.to_string()))?;
        let end = find_end(&options)?;
        if let Some(known) = known {
            check_known(&options, known, &end)?;
        }
        if !options.dir.exists() {
            crate::data::datadir::make_dir(&options.dir)
                .map_err(|error| store_error("created", error.to_string()))?;
        }
        mend(&options, known, &end)?;
        let config = Config {
            dir: options.dir.to_string_lossy().into_owned(),
            recovery_mode: RecoveryMode::AbsoluteConsistency,
            recovery_threads: 1,
            batch_compression_threshold: ReadableSize(0),
            target_file_size: ReadableSize(FILE_BYTES),
            purge_threshold: ReadableSize(options.keep_bytes.max(4 * FILE_BYTES)),
            // Records of an earlier life in the unwritten part of a file could be mistaken for
            // damage.
            enable_log_recycle: false,
            ..Config::default()
        };
        let files = Arc::new(LogFiles::new(options.on_failure));
        let engine = Engine::open_with_file_system(config, files)
            .map_err(|error| store_error("opened", error.to_string()))?;
        let marker = engine.get(MARKER_GROUP, MARKER);
        let marker = marker.and_then(|bytes| Marker::decode(&bytes, &options.tag));
        let number = marker.unwrap_or_default().number;
        // The tail was made durable before the engine was opened.
        let marker = Marker { number, durable: number };
        let known_file = Files::of(&options.dir).and_then(|files| {
            let known = Known { durable: number, files: Some(files) };
            KnownFile::create(&options.known, options.tag, known)
        });
        let known = known_file.map_err(|error| store_error("opened", error.to_string()))?;
        Ok(Self {
            engine,
            options,
            batch: LogBatch::default(),
            marker,
            unsynced: false,
            known,
            counts: Arc::default(),
        })
    }

    /// Shared counters of the log.
    pub fn counts(&self) -> Arc<LogCounts> {
        self.counts.clone()
    }

    fn error(&self, what: &'static str, error: impl std::fmt::Display) -> LogError {
        LogError::Store { dir: self.options.dir.clone(), what, reason: error.to_string() }
    }

    /// Reads the entries of a shard after its snapshot, which ends with this index and term. The
    /// log must reach entry `reach`, unless the snapshot does.
    ///
    /// # Errors
    /// If entries are missing, or the files cannot be read.
    pub fn recover(
        &mut self,
        shard: ShardId,
        snapshot: (u64, u64),
        reach: u64,
    ) -> Result<Recovered, LogError> {
        let group = group(shard);
        let hard_state = self.engine.get_message::<HardState>(group, HARD_STATE);
        let hard_state = hard_state.map_err(|error| self.error("read", error))?;
        let mut entries: Vec<Entry> = Vec::new();
        let bounds = self.engine.first_index(group).zip(self.engine.last_index(group));
        let last = bounds.map_or(0, |(_, last)| last).max(snapshot.0);
        if last < reach {
            return Err(LogError::Short { shard: shard.0, last, reach });
        }
        if let Some((first, last)) = bounds {
            if last <= snapshot.0 {
                // The snapshot reaches further than the log: the log continues after a gap, which
                // is correct only if nothing is before it.
                self.batch.add_command(group, Command::Compact { index: last + 1 });
            } else if first > snapshot.0 + 1 {
                return Err(LogError::Gap { shard: shard.0, first, snapshot: snapshot.0 });
            } else {
                self.engine
                    .fetch_entries_to::<RaftEntries>(
                        group,
                        snapshot.0 + 1,
                        last + 1,
                        None,
                        &mut entries,
                    )
                    .map_err(|error| self.error("read", error))?;
            }
        }
        let committed = hard_state.as_ref().map_or(0, |state| state.commit);
        if bounds.is_none() && committed > snapshot.0 {
            // A snapshot contained the missing entries.
            let (first, snapshot) = (committed + 1, snapshot.0);
            return Err(LogError::Gap { shard: shard.0, first, snapshot });
        }
        if hard_state.is_none() && !entries.is_empty() {
            return Err(self.error("read", format!("the state of shard {} is missing", shard.0)));
        }
        let hard_state = hard_state.unwrap_or_default();
        Ok(Recovered { snapshot, hard_state, entries, members: None, promises: None })
    }

    /// Whether the log holds anything of a shard.
    pub fn holds(&self, shard: ShardId) -> bool {
        let group = group(shard);
        self.engine.last_index(group).is_some() || self.engine.get(group, HARD_STATE).is_some()
    }

    /// Removes everything of a shard, durably.
    ///
    /// # Errors
    /// If it cannot be written. The log must not be used any more then.
    pub fn remove(&mut self, shard: ShardId) -> Result<(), LogError> {
        self.batch.add_command(group(shard), Command::Clean);
        self.write(0, true)
    }

    /// Appends the entries and states of several groups in one write; with `sync` they are durable
    /// on return.
    ///
    /// # Errors
    /// If the batch cannot be written. The log must not be used any more then.
    pub fn append(&mut self, persists: &[Persist], sync: bool) -> Result<(), LogError> {
        for persist in persists {
            let group = group(persist.group);
            if let Some(index) = persist.restored {
                // Nothing remains beyond the end, and the log may continue at any index.
                let index = self.engine.last_index(group).unwrap_or(0).max(index) + 1;
                self.batch.add_command(group, Command::Compact { index });
            }
            if let Err(error) = self.batch.add_entries::<RaftEntries>(group, &persist.entries) {
                return Err(self.error("written", error));
            }
            if let Some(hard_state) = &persist.hard_state {
                let put = self.batch.put_message(group, HARD_STATE.to_vec(), hard_state);
                put.map_err(|error| self.error("written", error))?;
            }
        }
        self.write(persists.iter().map(|persist| persist.entries.len()).sum(), sync)
    }

    /// Writes the batch of `entries` entries, with a marker.
    fn write(&mut self, entries: usize, sync: bool) -> Result<(), LogError> {
        self.marker.number += 1;
        let marker = self.marker.encode(&self.options.tag);
        let put = self.batch.put(MARKER_GROUP, MARKER.to_vec(), marker);
        put.map_err(|error| self.error("written", error))?;
        let written = self.engine.write(&mut self.batch, sync);
        written.map_err(|error| self.error("written", error))?;
        self.counts.wrote(entries, sync);
        self.unsynced = !sync;
        if sync {
            self.marker.durable = self.marker.number;
            let told = self.known.reached(self.marker.number);
            told.map_err(|error| self.error("written", error))?;
        }
        Ok(())
    }

    /// Whether anything was written that may not be on the disk yet.
    pub fn is_unsynced(&self) -> bool {
        self.unsynced
    }

    /// Makes everything durable that was written.
    ///
    /// # Errors
    /// If the disk refuses. The log must not be used any more then.
    pub fn sync(&mut self) -> Result<(), LogError> {
        if self.unsynced { self.write(0, true) } else { Ok(()) }
    }

    /// Closes the log with a batch that proves that everything before it was durable.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn close(mut self) -> Result<(), LogError> {
        self.sync()?;
        self.write(0, true)
    }

    /// Drops a shard's entries up to `index`, which a snapshot contains. Files without needed
    /// entries are removed.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn compact(&mut self, shard: ShardId, index: u64) -> Result<(), LogError> {
        self.batch.add_command(group(shard), Command::Compact { index: index + 1 });
        self.write(0, true)?;
        let unknown = self.known.consists_of(None);
        unknown.map_err(|error| self.error("purged", error))?;
        if let Err(error) = self.engine.purge_expired_files() {
            return Err(self.error("purged", error));
        }
        let files = Files::of(&self.options.dir);
        let known = files.and_then(|files| self.known.consists_of(Some(files)));
        known.map_err(|error| self.error("purged", error))
    }
}

/// Number of a shard's group in the engine.
fn group(shard: ShardId) -> u64 {
    u64::from(shard.0) + 1
}

/// Result of examining the end of the log.
struct End {
    /// Files to repair: the end of each, and the number of torn bytes behind it.
    mends: Vec<(PathBuf, Option<u64>, u64)>,
    /// Number of the last good batch.
    last: u64,
}

/// Finds the end of the log without changing anything.
fn find_end(options: &LogOptions) -> Result<End, LogError> {
    let store_error = |error: std::io::Error| LogError::Store {
        dir: options.dir.clone(),
        what: "examined",
        reason: error.to_string(),
    };
    let mut found = End { mends: Vec::new(), last: 0 };
    for suffix in ["raftlog", "rewrite"] {
        // A file of which nothing is left is removed; then the file before it is the last.
        let mut is_last = true;
        for number in known::numbers(&options.dir, suffix).map_err(store_error)?.into_iter().rev() {
            if !is_last && found.last > 0 {
                break;
            }
            let file = options.dir.join(format!("{number:016}.{suffix}"));
            let (tail, last) = tail::examine(&file, number, &options.tag).map_err(store_error)?;
            found.last = found.last.max(last);
            let (end, torn_bytes) = match tail {
                Tail::Whole => (None, 0),
                Tail::Reserved { end } => (Some(end), 0),
                Tail::Damaged { at, proof } => return Err(LogError::Damaged { file, at, proof }),
                Tail::Torn { end, torn_bytes } => (Some(end), torn_bytes),
            };
            if is_last {
                found.mends.push((file, end, torn_bytes));
                is_last = end == Some(0);
            }
        }
    }
    Ok(found)
}

/// Checks that everything exists that is known to have been durable.
fn check_known(options: &LogOptions, known: Known, end: &End) -> Result<(), LogError> {
    let durable = || options.known.clone();
    let files = known.files.unwrap_or_default();
    let missing = files.missing(&options.dir).map_err(|error| LogError::Store {
        dir: options.dir.clone(),
        what: "examined",
        reason: error.to_string(),
    })?;
    if let Some(file) = missing.filter(|_| known.files.is_some()) {
        return Err(LogError::Missing { file, known: durable() });
    }
    if end.last < known.durable {
        let (dir, last, durable_to) = (options.dir.clone(), end.last, known.durable);
        return Err(LogError::Lost { dir, last, durable: durable_to, known: durable() });
    }
    let moved = |file: &Path| file.extension().is_some_and(|suffix| suffix == "rewrite");
    let torn = end.mends.iter().find(|(file, _, torn)| moved(file) && *torn > 0);
    if let Some((file, _, _)) = torn.filter(|_| known.files.is_some()) {
        // No record was being written to this file.
        return Err(LogError::Missing { file: file.clone(), known: durable() });
    }
    Ok(())
}

/// Cuts off what a crash left at the end of the log, and makes the rest durable.
fn mend(options: &LogOptions, known: Option<Known>, end: &End) -> Result<(), LogError> {
    for (file, end, torn_bytes) in &end.mends {
        if let (Some(at), true) = (end, *torn_bytes > 0) {
            let file = file.display();
            let what = match known {
                Some(known) => format!(
                    "every batch that is known to have been durable (up to {}) is there",
                    known.durable
                ),
                None => "whether they were ever complete is not known".to_owned(),
            };
            tracing::warn!(
                "the last records of {file} are incomplete, as after a stop in the middle of a write: \
                 cut {torn_bytes} bytes at offset {at}; {what}"
            );
        }
        cut(file, *end).map_err(|error| LogError::Store {
            dir: options.dir.clone(),
            what: "mended",
            reason: error.to_string(),
        })?;
    }
    Ok(())
}

/// Truncates a file, removes it if nothing is left, and makes it durable.
fn cut(file: &Path, end: Option<u64>) -> std::io::Result<()> {
    if end == Some(0) {
        std::fs::remove_file(file)?;
        return crate::data::datadir::sync_parent(file);
    }
    let open = OpenOptions::new().write(true).open(file)?;
    if let Some(end) = end {
        open.set_len(end)?;
    }
    open.sync_all()
}
