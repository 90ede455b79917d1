//! State of the probe, for the console and for metrics.

use super::Synchrony;
use super::calibrate::Timers;
use probe::watch::{Event, LOST_US, Law3, Subject, Verdict};
use serde::Serialize;

/// Limit on the events shown.
const EVENTS_SHOWN: usize = 50;

/// State of the probe. A time of `None` means that no answer came.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Picture {
    /// Permissions of the probe.
    pub mode: &'static str,
    /// This machine.
    pub own: u16,
    /// Lateness of this machine's timers in the last minute.
    pub late: Quantiles,
    /// Measurements of each machine, as it reported them last.
    pub observers: Vec<Observer>,
    /// Measurements of this machine: the last minute, ten minutes, day.
    pub peers: Vec<Peer>,
    /// Machines that have not been heard of for a minute.
    pub silent: Vec<u16>,
    /// Verdicts that hold now.
    pub verdicts: Vec<Held>,
    /// Derived time-outs, once there are enough measurements.
    pub timers: Option<Timers>,
    /// Lower bound of the election time-out in use, in milliseconds.
    pub election_ms: u32,
    /// Events, the newest first.
    pub events: Vec<Happened>,
}

/// A machine's measurements of the others in one minute.
#[derive(Clone, Debug, Serialize)]
pub struct Observer {
    /// Machine.
    pub machine: u16,
    /// Age of the measurements.
    pub age_s: u64,
    /// Time since the machine's start.
    pub up_s: u32,
    /// 90th percentile of the lateness of its timers.
    pub late_us: u32,
    /// Measurements of other machines.
    pub seen: Vec<Cell>,
    /// Time until its appends were durable on others.
    pub appends: Vec<Append>,
}

/// Time until a machine's appends were durable on another one.
#[derive(Clone, Debug, Serialize)]
pub struct Append {
    machine: u16,
    count: u16,
    lost: u16,
    p90_us: Option<u32>,
    near_us: Option<u32>,
}

/// A machine's measurements of another one.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    machine: u16,
    count: u16,
    lost: u16,
    silent_s: u16,
    p50_us: Option<u32>,
    p90_us: Option<u32>,
    near_us: Option<u32>,
    service_us: u32,
    settled: bool,
}

/// Quantiles over a period.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Quantiles {
    /// Number of questions.
    pub count: u32,
    /// Number of questions without an answer in time.
    pub lost: u32,
    /// Median.
    pub p50_us: Option<u32>,
    /// 90th percentile.
    pub p90_us: Option<u32>,
    /// 99th percentile.
    pub p99_us: Option<u32>,
}

/// This machine's measurements of another one.
#[derive(Clone, Debug, Serialize)]
pub struct Peer {
    /// Other machine.
    pub machine: u16,
    /// Questions without an answer in time since this machine's start.
    pub lost_total: u64,
    /// Last minute.
    pub minute: Quantiles,
    /// Last ten minutes.
    pub ten_minutes: Quantiles,
    /// Last day.
    pub day: Quantiles,
}

/// Verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// `slow`, `observer`, `link`, `everywhere` or `disk`.
    pub kind: &'static str,
    /// Machines concerned; none if most are.
    pub machines: Vec<u16>,
    /// Description.
    pub text: String,
    /// Duration so far.
    pub for_s: u64,
    /// Evidence.
    pub evidence: String,
}

/// Event.
#[derive(Clone, Debug, Serialize)]
pub struct Happened {
    at_ms: u64,
    what: String,
    before: String,
    after: String,
    evidence: String,
}

fn known(us: u32) -> Option<u32> {
    (us != LOST_US).then_some(us)
}

impl From<Law3> for Quantiles {
    fn from(law: Law3) -> Self {
        let Law3 { count, lost, p50_us, p90_us, p99_us } = law;
        let [p50_us, p90_us, p99_us] = [p50_us, p90_us, p99_us].map(known);
        Self { count, lost, p50_us, p90_us, p99_us }
    }
}

impl Held {
    fn of(verdict: &Verdict, now_us: u64) -> Self {
        let (kind, machines) = match verdict.subject {
            Subject::Slow(machine) => ("slow", vec![machine]),
            Subject::Observer(machine) => ("observer", vec![machine]),
            Subject::Link(a, b) => ("link", vec![a, b]),
            Subject::Everywhere => ("everywhere", Vec::new()),
            Subject::Disk(machine) => ("disk", vec![machine]),
        };
        let for_s = now_us.saturating_sub(verdict.since_us) / 1_000_000;
        let (text, evidence) = (verdict.subject.to_string(), verdict.evidence.clone());
        Self { kind, machines, text, for_s, evidence }
    }
}

impl From<&Event> for Happened {
    fn from(event: &Event) -> Self {
        let Event { at_ms, what, before, after, evidence } = event.clone();
        Self { at_ms, what, before, after, evidence }
    }
}

impl Synchrony {
    /// Current state of the probe.
    pub fn picture(&mut self) -> Picture {
        let now_us = self.now_us();
        let observers = self.judge.told().map(|(machine, at_us, figures)| Observer {
            machine,
            age_s: now_us.saturating_sub(at_us) / 1_000_000,
            up_s: figures.up_s,
            late_us: figures.late_us,
            seen: figures.rows.iter().map(cell).collect(),
            appends: self.judge.appends(machine).iter().map(append).collect(),
        });
        let observers = observers.collect();
        let totals = self.asker.lost_totals().collect::<Vec<_>>();
        let laws = self.asker.laws(now_us).into_iter();
        let peers = laws.zip(totals).map(|((machine, laws), (_, lost_total))| {
            let [minute, ten_minutes, day] = laws.map(Quantiles::from);
            Peer { machine, lost_total, minute, ten_minutes, day }
        });
        Picture {
            mode: self.mode.name(),
            own: self.around.own.0,
            peers: peers.collect(),
            late: self.asker.lateness(now_us).into(),
            observers,
            silent: self.judge.found().silent.iter().copied().collect(),
            verdicts: self.judge.verdicts().iter().map(|v| Held::of(v, now_us)).collect(),
            timers: self.calibration.found().cloned(),
            election_ms: self.agreement.used_us() / 1_000,
            events: self.judge.events().rev().take(EVENTS_SHOWN).map(Happened::from).collect(),
        }
    }
}

fn append(row: &probe::watch::AppendRow) -> Append {
    let [p90_us, near_us] = [row.p90_us, row.near_us].map(known);
    Append { machine: row.machine, count: row.count, lost: row.lost, p90_us, near_us }
}

fn cell(row: &probe::watch::Row) -> Cell {
    Cell {
        machine: row.machine,
        count: row.count,
        lost: row.lost,
        silent_s: row.silent_s,
        p50_us: known(row.p50_us),
        p90_us: known(row.p90_us),
        near_us: known(row.near_us),
        service_us: row.service_us,
        settled: row.settled,
    }
}
