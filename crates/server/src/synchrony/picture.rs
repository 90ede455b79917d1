//! What the probe of a machine knows, for the console and for metrics.

use super::Synchrony;
use super::calibrate::Timers;
use probe::watch::{Event, LOST_US, Law3, Subject, Verdict};
use serde::Serialize;

/// Events that are told.
const EVENTS_SHOWN: usize = 50;

/// What the probe knows. A time of `None` is one that never came.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Picture {
    /// What it may do.
    pub mode: &'static str,
    /// The machine.
    pub own: u16,
    /// How late its own timers were in the last minute.
    pub late: Quantiles,
    /// What each machine has seen of the others, as it has told last.
    pub observers: Vec<Observer>,
    /// What this machine has seen: the last minute, ten minutes, day.
    pub peers: Vec<Peer>,
    /// Machines that nobody has heard of for a minute.
    pub silent: Vec<u16>,
    /// What is so now.
    pub verdicts: Vec<Held>,
    /// Time-outs that would follow, once enough was measured.
    pub timers: Option<Timers>,
    /// The election time-out in use: the lower edge, in milliseconds.
    pub election_ms: u32,
    /// What has happened, the newest first.
    pub events: Vec<Happened>,
}

/// What a machine has seen of the others in a minute.
#[derive(Clone, Debug, Serialize)]
pub struct Observer {
    /// The machine.
    pub machine: u16,
    /// How old that is.
    pub age_s: u64,
    /// How long the machine has been there.
    pub up_s: u32,
    /// How late its own timers were: the 90th percentile.
    pub late_us: u32,
    /// What it has seen.
    pub seen: Vec<Cell>,
    /// How long its appends took until they were durable on others.
    pub appends: Vec<Append>,
}

/// How long a machine's appends took until they were durable on another one.
#[derive(Clone, Debug, Serialize)]
pub struct Append {
    machine: u16,
    count: u16,
    lost: u16,
    p90_us: Option<u32>,
    near_us: Option<u32>,
}

/// What a machine has seen of another one.
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

/// Quantiles of a span of time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Quantiles {
    /// Questions.
    pub count: u32,
    /// Those of them that were never answered in time.
    pub lost: u32,
    /// Median.
    pub p50_us: Option<u32>,
    /// 90th percentile.
    pub p90_us: Option<u32>,
    /// 99th percentile.
    pub p99_us: Option<u32>,
}

/// What this machine has seen of another one.
#[derive(Clone, Debug, Serialize)]
pub struct Peer {
    /// The other machine.
    pub machine: u16,
    /// Questions that were never answered in time since this machine has begun.
    pub lost_total: u64,
    /// The last minute.
    pub minute: Quantiles,
    /// The last ten minutes.
    pub ten_minutes: Quantiles,
    /// The last day.
    pub day: Quantiles,
}

/// A verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// `slow`, `observer`, `link`, `everywhere` or `disk`.
    pub kind: &'static str,
    /// The machines that it is about; none if it is about most.
    pub machines: Vec<u16>,
    /// In words.
    pub text: String,
    /// For how long.
    pub for_s: u64,
    /// What it rests on.
    pub evidence: String,
}

/// An event.
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
    /// What the probe knows now.
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
