//! Recorder of a machine's measurements of the others, in the files of `claret probe`.
//!
//! A thread writes them, so that a slow disk never delays the server; measurements that it cannot
//! take are counted and lost. Measurements arrive when they are known, possibly some seconds late,
//! and go into the files in the order of time.

use probe::Sample;
use probe::caller::Epoch;
use probe::schedule::epoch_of;
use probe_agent::files::{Files, Message, WAITING_MAX};
use probe_data::tables::meta::{self, Clock, Config, Metadata, Origin, Table};
use server::synchrony::record::{Record, RecordTo, node_of};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Age after which a request has its answer or never gets it.
const LATE_NS: i64 = 7_000_000_000;
/// Maximum number of measurements that wait for earlier ones; never reached unless time jumps.
const HELD_MAX: usize = 1 << 16;
/// Interval of the requests of a pair.
const PERIOD_MS: u64 = 1_000;

/// Recorder of one machine.
#[derive(Debug)]
struct Recorder {
    to_files: Option<SyncSender<Message>>,
    writer: Option<JoinHandle<()>>,
    /// Parameters of the writer, which cannot begin before it knows the machines.
    begin: Option<Begin>,
    /// Measurements by due time, group and callee.
    held: BTreeMap<(i64, u16, u16), Sample>,
    newest_ns: i64,
    day: Option<i64>,
    nodes: Vec<String>,
    lost: u64,
}

/// Parameters of a writer.
#[derive(Debug)]
struct Begin {
    dir: PathBuf,
    deployment: String,
    keep_days: u16,
    messages: Receiver<Message>,
}

/// Begins recording.
pub fn begin(to: RecordTo<'_>) -> Box<dyn Record> {
    let (to_files, messages) = sync_channel(WAITING_MAX);
    let (dir, deployment) = (to.dir.to_owned(), to.cluster.to_owned());
    let begin = Begin { dir, deployment, keep_days: to.keep_days, messages };
    Box::new(Recorder {
        to_files: Some(to_files),
        writer: None,
        begin: Some(begin),
        held: BTreeMap::new(),
        newest_ns: i64::MIN,
        day: None,
        nodes: Vec::new(),
        lost: 0,
    })
}

/// Metadata that all files share.
fn metadata(deployment: String, node: u16, nodes: Vec<String>) -> Metadata {
    Metadata {
        version: meta::VERSION,
        table: Table::Rpc,
        origin: Origin::Measured,
        deployment,
        first_epoch: 0,
        epoch: 0,
        node,
        nodes,
        groups: Vec::new(),
        resting: Vec::new(),
        config: Config { period_ms: PERIOD_MS, apart: true, ..Config::default() },
        clock: Clock::default(),
        incarnations: Vec::new(),
        build: env!("CARGO_PKG_VERSION").into(),
        planted: None,
    }
}

impl Recorder {
    fn send(&mut self, message: Message) {
        let Some(to_files) = &self.to_files else { return };
        let why = match to_files.try_send(message) {
            Ok(()) => return,
            Err(TrySendError::Full(_)) => "its disk is too slow",
            Err(TrySendError::Disconnected(_)) => "the writing thread is gone",
        };
        self.lose(why);
    }

    fn lose(&mut self, why: &str) {
        if self.lost == 0 {
            tracing::warn!("measurements for synchrony_dir are lost: {why}");
        }
        self.lost += 1;
    }

    /// Both groups contain all machines.
    fn epoch(&self, day: i64) -> Epoch {
        let all: Vec<u16> =
            (0..self.nodes.len()).filter_map(|node| u16::try_from(node).ok()).collect();
        Epoch { day, groups: vec![all.clone(), all], resting: Vec::new() }
    }

    /// Passes measurements older than a moment to the writer.
    fn pass_on(&mut self, until_ns: i64) {
        while let Some(((due_ns, ..), _)) = self.held.first_key_value()
            && (*due_ns <= until_ns || self.held.len() > HELD_MAX)
        {
            let Some((_, sample)) = self.held.pop_first() else { return };
            let day = epoch_of(sample.t_sched_ns);
            if self.day.is_some_and(|begun| day < begun) {
                self.lose("the clock went back to a day whose file is finished");
                continue;
            }
            if self.day.replace(day) != Some(day) {
                self.send(Message::Epoch(self.epoch(day)));
            }
            self.send(Message::Call(sample));
        }
    }
}

impl Record for Recorder {
    fn machines(&mut self, own: engine::ids::MachineId, machines: &[engine::ids::MachineId]) {
        let count = machines.iter().chain([&own]).map(|one| usize::from(node_of(*one)) + 1).max();
        let count = count.unwrap_or(0).max(self.nodes.len());
        if count == self.nodes.len() {
            return;
        }
        self.nodes = (1..=count).map(|number| number.to_string()).collect();
        if let Some(Begin { dir, deployment, keep_days, messages }) = self.begin.take() {
            let metadata = metadata(deployment, node_of(own), self.nodes.clone());
            let told = |text: &str| tracing::warn!("synchrony_dir: {text}");
            tracing::info!("all measurements are kept in {}", dir.display());
            let files = Files::new(dir, metadata, Some(keep_days), Box::new(told));
            let writer = std::thread::Builder::new().name("measurements".to_owned());
            let writer = writer.spawn(move || drop(files.run(&messages)));
            self.writer = writer.inspect_err(|error| tracing::error!("no thread: {error}")).ok();
        } else {
            self.send(Message::Nodes(self.nodes.clone()));
            if let Some(day) = self.day {
                self.send(Message::Epoch(self.epoch(day)));
            }
        }
    }

    fn sample(&mut self, sample: Sample) {
        if sample.t_sched_ns < self.newest_ns.saturating_sub(10 * LATE_NS) {
            // The clock was set back: the held measurements are older all the same.
            self.pass_on(i64::MAX);
            self.newest_ns = sample.t_sched_ns;
        }
        self.newest_ns = self.newest_ns.max(sample.t_sched_ns);
        self.held.insert((sample.t_sched_ns, sample.group, sample.dst), sample);
        self.pass_on(self.newest_ns.saturating_sub(LATE_NS));
    }
}

impl Drop for Recorder {
    /// Completes all files before the server ends.
    fn drop(&mut self) {
        self.pass_on(i64::MAX);
        drop(self.to_files.take());
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the thread that writes measurements has panicked");
        }
        if self.lost > 0 {
            tracing::warn!("{} measurements were lost", self.lost);
        }
    }
}
