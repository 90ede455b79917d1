//! The thread that writes rows down, so that a slow disk makes no call late.
//!
//! A file that cannot be written is said so once, and the agent goes on measuring: the sketches that
//! its summary is made of need no disk. Ten minutes later it tries again.

use probe::calibrate::ms;
use probe::calibrate::tail::Recorder;
use probe::caller::Epoch;
use probe::schedule::epoch_of;
use probe::{Resources, Sample, SlowCall, Workload};
use probe_data::meta::{Incarnation, Metadata, Table};
use probe_data::recorder::{CallRecorder, HostRecorder, PIECE_NS, SlowRecorder};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Rows that may wait to be written.
pub const WAITING_MAX: usize = 1 << 16;
/// After an error of the disk, it is tried again after this.
const RETRY: Duration = Duration::from_secs(600);
/// Values of a sketch that are exact.
const SKETCH_KEEP: usize = 1_024;

/// What is to be written.
#[derive(Clone, Debug)]
pub enum Message {
    /// An epoch begins.
    Epoch(Epoch),
    /// All incarnations that rows point to from now on.
    Incarnations(Vec<(u16, u64)>),
    /// A call.
    Call(Sample),
    /// A second of the host.
    Host(Box<Resources>),
    /// A call of somebody else that took this agent long.
    Slow(SlowCall),
}

/// What was written, and what calls were like.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Written {
    /// Rows of calls.
    pub calls: u64,
    /// Rows about the host.
    pub host_rows: u64,
    /// Rows about calls of others that took this agent long.
    pub slow_calls: u64,
    /// Rows that could not be written.
    pub rows_lost: u64,
    /// Why.
    pub error: Option<String>,
    /// What calls were like.
    pub sketches: Vec<Sketch>,
}

/// Calls of one callee and workload.
#[derive(Clone, Debug, Serialize)]
pub struct Sketch {
    /// The callee.
    pub to: u16,
    /// What it did.
    pub workload: Workload,
    /// Calls that count, answered or not.
    pub calls: u64,
    /// Those without an answer.
    pub unanswered: u64,
    /// Latencies in an open loop; none for what was not answered.
    pub p50_ms: Option<f64>,
    /// The same.
    pub p90_ms: Option<f64>,
    /// The same.
    pub p99_ms: Option<f64>,
    /// The largest that was answered.
    pub max_ms: Option<f64>,
}

/// The files of one agent.
pub struct Files {
    root: PathBuf,
    /// What every file says alike.
    metadata: Metadata,
    calls: Option<CallRecorder>,
    hosts: Option<(i64, HostRecorder)>,
    slow: Option<(i64, SlowRecorder)>,
    failed: Option<Instant>,
    waiting: u64,
    sketches: BTreeMap<(u16, u8), Recorder>,
    written: Written,
    told: Box<dyn FnMut(&str) + Send>,
}

impl Files {
    /// Files in a folder. `told` is told of the first error.
    pub fn new(root: PathBuf, metadata: Metadata, told: Box<dyn FnMut(&str) + Send>) -> Self {
        Self {
            root,
            metadata,
            calls: None,
            hosts: None,
            slow: None,
            failed: None,
            waiting: 0,
            sketches: BTreeMap::new(),
            written: Written::default(),
            told,
        }
    }

    /// Writes until nobody has anything to write any more.
    pub fn run(mut self, messages: &Receiver<Message>) -> Written {
        while let Ok(message) = messages.recv() {
            match message {
                Message::Epoch(epoch) => self.epoch(epoch),
                Message::Incarnations(known) => self.incarnations(&known),
                Message::Call(row) => self.call(&row),
                Message::Host(row) => self.host(*row),
                Message::Slow(call) => self.slow(call),
            }
        }
        self.end();
        self.written
    }

    /// One file for the epoch that is over.
    fn epoch(&mut self, epoch: Epoch) {
        if let Some(before) = self.calls.take() {
            let done = before.finish().map(drop);
            self.judge(done);
        }
        self.metadata.epoch = u16::try_from(epoch.day).unwrap_or(u16::MAX);
        (self.metadata.groups, self.metadata.resting) = (epoch.groups, epoch.resting);
        self.failed = None;
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

    /// Whether the disk is worth a try.
    fn may_write(&mut self) -> bool {
        if self.failed.is_some_and(|failed| failed.elapsed() >= RETRY) {
            self.failed = None;
        }
        self.failed.is_none()
    }

    fn judge(&mut self, done: Result<(), probe_data::Error>) {
        let Err(error) = done else { return };
        // What the recorder had not written yet is lost with it.
        self.written.rows_lost += std::mem::take(&mut self.waiting);
        self.calls = None;
        (self.hosts, self.slow) = (None, None);
        self.failed = Some(Instant::now());
        if self.written.error.is_none() {
            let text = error.to_string();
            (self.told)(&format!("cannot write ({text}); only the summary goes on, rows are lost"));
            self.written.error = Some(text);
        }
    }

    fn call(&mut self, row: &Sample) {
        if row.status.counts() {
            let key = (row.dst, row.workload.code());
            let sketch = self.sketches.entry(key).or_insert_with(|| Recorder::new(SKETCH_KEEP));
            sketch.record(row.latency_ns().unwrap_or(probe::calibrate::tail::LOST));
        }
        if !self.may_write() {
            self.written.rows_lost += 1;
            return;
        }
        let done = self.push_call(row);
        self.written.calls += u64::from(done.is_ok());
        self.waiting += 1;
        self.judge(done);
    }

    fn push_call(&mut self, row: &Sample) -> Result<(), probe_data::Error> {
        if self.calls.is_none() {
            let metadata = Metadata { table: Table::Rpc, ..self.metadata.clone() };
            self.calls = Some(CallRecorder::new(&self.root, metadata, PIECE_NS)?);
        }
        self.calls.as_mut().map_or(Ok(()), |calls| calls.push(row))
    }

    fn host(&mut self, row: Resources) {
        if !self.may_write() {
            self.written.rows_lost += 1;
            return;
        }
        let done = self.push_host(row);
        self.written.host_rows += u64::from(done.is_ok());
        self.waiting += 1;
        self.judge(done);
    }

    fn push_host(&mut self, row: Resources) -> Result<(), probe_data::Error> {
        let day = epoch_of(row.t_ns);
        if self.hosts.as_ref().is_none_or(|(of, _)| *of != day) {
            if let Some((_, before)) = self.hosts.take() {
                before.finish()?;
            }
            let epoch = u16::try_from(day).unwrap_or(u16::MAX);
            let metadata = Metadata { table: Table::Res, epoch, ..self.metadata.clone() };
            self.hosts = Some((day, HostRecorder::new(&self.root, metadata, PIECE_NS)?));
        }
        self.hosts.as_mut().map_or(Ok(()), |(_, hosts)| hosts.push(row))
    }

    fn slow(&mut self, call: SlowCall) {
        if !self.may_write() {
            self.written.rows_lost += 1;
            return;
        }
        let done = self.push_slow(call);
        self.written.slow_calls += u64::from(done.is_ok());
        self.waiting += 1;
        self.judge(done);
    }

    fn push_slow(&mut self, call: SlowCall) -> Result<(), probe_data::Error> {
        let day = epoch_of(call.t_rx_ns);
        if self.slow.as_ref().is_none_or(|(of, _)| *of != day) {
            if let Some((_, before)) = self.slow.take() {
                before.finish()?;
            }
            let epoch = u16::try_from(day).unwrap_or(u16::MAX);
            let metadata = Metadata { table: Table::Slow, epoch, ..self.metadata.clone() };
            self.slow = Some((day, SlowRecorder::new(&self.root, metadata, PIECE_NS)?));
        }
        self.slow.as_mut().map_or(Ok(()), |(_, slow)| slow.push(call))
    }

    /// What is there becomes pieces: the epoch is not over, and an agent that begins again goes on
    /// behind them.
    fn end(&mut self) {
        let calls = self.calls.as_mut().map_or(Ok(()), CallRecorder::close_piece);
        self.judge(calls);
        let hosts = self.hosts.as_mut().map_or(Ok(()), |(_, hosts)| hosts.close_piece());
        self.judge(hosts);
        let slow = self.slow.as_mut().map_or(Ok(()), |(_, slow)| slow.close_piece());
        self.judge(slow);
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
