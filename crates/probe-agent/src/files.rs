//! Thread that writes rows, so that a slow disk delays no call.
//!
//! The first failure of a file is reported once, and the agent goes on measuring: the sketches for
//! its summary need no disk. Ten minutes later it tries again. The same thread thins out old days
//! when a new one begins.

use probe::calibrate::ms;
use probe::calibrate::tail;
use probe::caller::Epoch;
use probe::schedule::epoch_of;
use probe::{Resources, Sample, SlowCall, Workload};
use probe_data::progress::Silent;
use probe_data::tables::meta::{Incarnation, Metadata};
use probe_data::tables::recorder::{CallRecorder, HostRows, PIECE_NS, Recorder, Rows, SlowRows};
use probe_data::tables::thin::{self, Thinned};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Maximum number of rows that wait to be written.
pub const WAITING_MAX: usize = 1 << 16;
/// Time after a disk error until the next attempt.
const RETRY: Duration = Duration::from_secs(600);
/// Number of exact values of a sketch.
const SKETCH_KEEP: usize = 1_024;

/// A message to the thread.
#[derive(Clone, Debug)]
pub enum Message {
    /// An epoch begins.
    Epoch(Epoch),
    /// Names of all nodes, with new ones at the end.
    Nodes(Vec<String>),
    /// All incarnations that rows point to from now on.
    Incarnations(Vec<(u16, u64)>),
    /// A call.
    Call(Sample),
    /// A second of the host.
    Host(Box<Resources>),
    /// A call of another node that was slow on this agent.
    Slow(SlowCall),
}

/// Written rows, and statistics of the calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Written {
    /// Number of rows of calls.
    pub calls: u64,
    /// Number of rows about the host.
    pub host_rows: u64,
    /// Number of rows about other nodes' calls that were slow on this agent.
    pub slow_calls: u64,
    /// Number of rows that could not be written.
    pub rows_lost: u64,
    /// Reason for the lost rows.
    pub error: Option<String>,
    /// Result of thinning out old days, if that was requested.
    pub thinned: Option<Thinned>,
    /// Reason why some of them were left unchanged.
    pub thin_error: Option<String>,
    /// Statistics of the calls.
    pub sketches: Vec<Sketch>,
}

/// Statistics of the calls to one callee with one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Sketch {
    /// The callee.
    pub to: u16,
    /// Workload of the calls.
    pub workload: Workload,
    /// Number of calls that count, answered or not.
    pub calls: u64,
    /// Number of calls without an answer.
    pub unanswered: u64,
    /// Median latency in an open loop; `None` if that call was not answered.
    pub p50_ms: Option<f64>,
    /// 90th percentile of the latency.
    pub p90_ms: Option<f64>,
    /// 99th percentile of the latency.
    pub p99_ms: Option<f64>,
    /// Largest latency of an answered call.
    pub max_ms: Option<f64>,
}

/// A file for each day, with the day of the current one.
struct Daily<R>(Option<(i64, Recorder<R>)>);

impl<R: Rows> Daily<R> {
    fn push(
        &mut self,
        root: &Path,
        metadata: &Metadata,
        row: &R::Row,
    ) -> Result<(), probe_data::Error> {
        let day = epoch_of(R::t_ns(row));
        if let Some((_, before)) = self.0.take_if(|(of, _)| *of != day) {
            before.finish()?;
        }
        if self.0.is_none() {
            let epoch = u16::try_from(day).unwrap_or(u16::MAX);
            let metadata = Metadata { epoch, ..metadata.clone() };
            self.0 = Some((day, Recorder::new(root, metadata, PIECE_NS)?));
        }
        self.0.as_mut().map_or(Ok(()), |(_, recorder)| recorder.push(row))
    }

    fn close_piece(&mut self) -> Result<(), probe_data::Error> {
        self.0.as_mut().map_or(Ok(()), |(_, recorder)| recorder.close_piece())
    }
}

/// Files of one agent.
pub struct Files {
    root: PathBuf,
    /// Metadata that all files share.
    metadata: Metadata,
    calls: Option<CallRecorder>,
    hosts: Daily<HostRows>,
    slow: Daily<SlowRows>,
    failed: Option<Instant>,
    waiting: u64,
    sketches: BTreeMap<(u16, u8), tail::Recorder>,
    keep_days: Option<u16>,
    written: Written,
    told: Box<dyn FnMut(&str) + Send>,
}

impl Files {
    /// Creates the files in a folder. Days older than `keep_days` are thinned out, if that is set.
    /// `told` receives the first error.
    pub fn new(
        root: PathBuf,
        metadata: Metadata,
        keep_days: Option<u16>,
        told: Box<dyn FnMut(&str) + Send>,
    ) -> Self {
        Self {
            root,
            keep_days,
            metadata,
            calls: None,
            hosts: Daily(None),
            slow: Daily(None),
            failed: None,
            waiting: 0,
            sketches: BTreeMap::new(),
            written: Written::default(),
            told,
        }
    }

    /// Writes until all senders are gone.
    pub fn run(mut self, messages: &Receiver<Message>) -> Written {
        while let Ok(message) = messages.recv() {
            match message {
                Message::Epoch(epoch) => self.epoch(epoch),
                Message::Nodes(nodes) => self.nodes(nodes),
                Message::Incarnations(known) => self.incarnations(&known),
                Message::Call(row) => self.call(&row),
                Message::Host(row) => {
                    self.written.host_rows +=
                        self.write(|files| files.hosts.push(&files.root, &files.metadata, &row));
                }
                Message::Slow(call) => {
                    self.written.slow_calls +=
                        self.write(|files| files.slow.push(&files.root, &files.metadata, &call));
                }
            }
        }
        self.end();
        self.written
    }

    /// Completes the file of the past epoch.
    fn epoch(&mut self, epoch: Epoch) {
        if let Some(before) = self.calls.take() {
            let done = before.finish().map(drop);
            self.judge(done);
        }
        self.metadata.epoch = u16::try_from(epoch.day).unwrap_or(u16::MAX);
        (self.metadata.groups, self.metadata.resting) = (epoch.groups, epoch.resting);
        self.failed = None;
        self.thin(epoch.day);
    }

    /// Thins out old days of this node. Rows wait meanwhile; a failure loses nothing.
    fn thin(&mut self, today: i64) {
        let Some(keep_days) = self.keep_days else { return };
        let total = self.written.thinned.get_or_insert_default();
        let node = Some(self.metadata.node);
        let options =
            thin::Options { last_day: today - i64::from(keep_days) - 1, node, threads: 1 };
        match thin::thin(&self.root, options, &Silent) {
            Ok(mut done) => {
                // Unreadable files are found again every day: the newest result counts.
                let excluded = std::mem::take(&mut done.excluded);
                total.add(done);
                total.excluded = excluded;
            }
            // Normal in the first days of a deployment.
            Err(probe_data::Error::Content { .. }) => {}
            Err(error) => {
                let text = error.to_string();
                (self.told)(&format!("cannot thin out old days ({text}); they stay unchanged"));
                self.written.thin_error = Some(text);
            }
        }
    }

    /// Turns the rows so far into pieces; further ones contain the new nodes.
    fn nodes(&mut self, nodes: Vec<String>) {
        self.close_pieces();
        self.calls = None;
        (self.hosts, self.slow) = (Daily(None), Daily(None));
        self.metadata.nodes = nodes;
    }

    fn incarnations(&mut self, known: &[(u16, u64)]) {
        let named = |(node, number): &(u16, u64)| Incarnation {
            node: *node,
            number: format!("{number:016x}"),
        };
        self.metadata.incarnations = known.iter().map(named).collect();
        if let Some(calls) = &mut self.calls {
            calls.name_incarnations(self.metadata.incarnations.clone());
        }
    }

    /// Whether to try the disk.
    fn may_write(&mut self) -> bool {
        if self.failed.is_some_and(|failed| failed.elapsed() >= RETRY) {
            self.failed = None;
        }
        self.failed.is_none()
    }

    fn judge(&mut self, done: Result<(), probe_data::Error>) {
        let Err(error) = done else { return };
        // The recorder's unwritten rows are lost with it.
        self.written.rows_lost += std::mem::take(&mut self.waiting);
        self.calls = None;
        (self.hosts, self.slow) = (Daily(None), Daily(None));
        self.failed = Some(Instant::now());
        if self.written.error.is_none() {
            let text = error.to_string();
            (self.told)(&format!(
                "cannot write ({text}); rows are lost, only the summary continues"
            ));
            self.written.error = Some(text);
        }
    }

    fn call(&mut self, row: &Sample) {
        if row.status.counts() {
            let key = (row.dst, row.workload.code());
            let sketch =
                self.sketches.entry(key).or_insert_with(|| tail::Recorder::new(SKETCH_KEEP));
            sketch.record(row.latency_ns().unwrap_or(tail::LOST));
        }
        self.written.calls += self.write(|files| files.push_call(row));
    }

    /// Writes a row, if the disk is to be tried; returns the number of written rows.
    fn write(&mut self, push: impl FnOnce(&mut Self) -> Result<(), probe_data::Error>) -> u64 {
        if !self.may_write() {
            self.written.rows_lost += 1;
            return 0;
        }
        let done = push(self);
        let written = u64::from(done.is_ok());
        self.waiting += 1;
        self.judge(done);
        written
    }

    fn push_call(&mut self, row: &Sample) -> Result<(), probe_data::Error> {
        if self.calls.is_none() {
            let metadata = self.metadata.clone();
            self.calls = Some(CallRecorder::new(&self.root, metadata, PIECE_NS)?);
        }
        self.calls.as_mut().map_or(Ok(()), |calls| calls.push(row))
    }

    /// Turns the rows so far into pieces: the epoch is not over, and a restarted agent continues
    /// after them.
    fn end(&mut self) {
        self.close_pieces();
        self.summarise();
    }

    fn close_pieces(&mut self) {
        let calls = self.calls.as_mut().map_or(Ok(()), CallRecorder::close_piece);
        self.judge(calls);
        let hosts = self.hosts.close_piece();
        self.judge(hosts);
        let slow = self.slow.close_piece();
        self.judge(slow);
    }

    fn summarise(&mut self) {
        for ((to, workload), sketch) in std::mem::take(&mut self.sketches) {
            let law = sketch.finish();
            let at = |p: f64| law.quantile(p).and_then(|found| ms(found.ns));
            let answered = law.count() - law.lost();
            self.written.sketches.push(Sketch {
                to,
                workload: Workload::from_code(workload).unwrap_or(Workload::Null),
                calls: law.count(),
                unanswered: law.lost(),
                p50_ms: at(0.5),
                p90_ms: at(0.9),
                p99_ms: at(0.99),
                max_ms: law.at_rank(answered).filter(|_| answered > 0).and_then(|q| ms(q.ns)),
            });
        }
    }
}
