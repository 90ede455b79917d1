//! Measurements of other programs: CSV of time, source, destination and latency, and matrices of
//! round trips.
//!
//! What cannot be read is left out, counted by reason and shown with its line. All nodes are one
//! group; the calls of one source at one time are a session.

mod csv;
mod matrix;

use crate::error::Error;
use crate::meta::{Clock, Config, Metadata, Origin, Table, VERSION};
use crate::progress::Progress;
use crate::recorder::{CallRecorder, PIECES};
use probe::schedule::{DEADLINE_NS, epoch_of};
use probe::{Sample, Status, Workload};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// So many lines that were left out are shown.
const SHOWN: usize = 10;
/// The longest latency that the table can hold.
const LATENCY_MAX_NS: u64 = u32::MAX as u64 * 100;

/// What the numbers of a file mean.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// Nanoseconds in a unit of time.
    pub time_ns: f64,
    /// Nanoseconds in a unit of latency.
    pub latency_ns: f64,
}

/// A line that was left out.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Refused {
    /// The file.
    pub file: String,
    /// The line, the first being 1.
    pub line: usize,
    /// Why.
    pub reason: &'static str,
    /// What it says.
    pub text: String,
}

/// What was imported.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Imported {
    /// Rows that were written.
    pub rows: u64,
    /// Names of the nodes, in the order of their numbers.
    pub nodes: Vec<String>,
    /// Days.
    pub days: u64,
    /// Lines that were left out, by reason.
    pub excluded: BTreeMap<&'static str, u64>,
    /// The first of them.
    pub first_excluded: Vec<Refused>,
}

/// A call as another program wrote it down.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Row {
    src: u16,
    t_ns: i64,
    dst: u16,
    /// `None` is a call without reply.
    latency_ns: Option<u64>,
}

/// Rows, and what was left out.
#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    names: Vec<String>,
    numbers: BTreeMap<String, u16>,
    told: Imported,
}

impl Rows {
    /// The number of a node.
    fn node(&mut self, name: &str) -> Option<u16> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        let number = u16::try_from(self.names.len()).ok()?;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Some(number)
    }

    fn refuse(&mut self, path: &Path, line: usize, reason: &'static str, text: &str) {
        *self.told.excluded.entry(reason).or_default() += 1;
        if self.told.first_excluded.len() < SHOWN {
            let file = path.display().to_string();
            let text = text.chars().take(80).collect();
            self.told.first_excluded.push(Refused { file, line, reason, text });
        }
    }

    fn push(
        &mut self,
        names: (&str, &str),
        t_ns: i64,
        latency_ns: Option<u64>,
    ) -> Result<(), &'static str> {
        if names.0.is_empty() || names.1.is_empty() {
            return Err("name_missing");
        }
        if latency_ns.is_some_and(|ns| ns > LATENCY_MAX_NS) {
            return Err("latency_above_429_s");
        }
        let src = self.node(names.0).ok_or("too_many_nodes")?;
        let dst = self.node(names.1).ok_or("too_many_nodes")?;
        self.rows.push(Row { src, t_ns, dst, latency_ns });
        Ok(())
    }
}

/// Nanoseconds of a number in a file, or what is wrong with it.
fn latency_of(text: &str, unit_ns: f64) -> Result<u64, &'static str> {
    let number: f64 = text.parse().map_err(|_| "latency_not_a_number")?;
    if !number.is_finite() {
        return Err("latency_not_finite");
    }
    if number < 0.0 {
        return Err("latency_negative");
    }
    Ok((number * unit_ns).round() as u64)
}

/// Imports a file of CSV, or a folder of matrices, into an empty folder.
///
/// # Errors
/// A file cannot be read or written, or has no row that can be used.
pub fn import(
    from: &Path,
    units: Units,
    deployment: &str,
    root: &Path,
    progress: &dyn Progress,
) -> Result<Imported, Error> {
    let mut rows = Rows::default();
    if from.is_dir() {
        matrix::read(from, &mut rows)?;
    } else {
        csv::read(from, units, &mut rows)?;
    }
    if rows.rows.is_empty() {
        let reasons = rows.told.first_excluded.first().map(|first| {
            format!("; line {}: {}: {}", first.line, first.reason.replace('_', " "), first.text)
        });
        return Err(Error::content(from, format!("has no call{}", reasons.unwrap_or_default())));
    }
    std::fs::create_dir_all(root).map_err(Error::io(root))?;
    if std::fs::read_dir(root).map_err(Error::io(root))?.next().is_some() {
        return Err(Error::content(root, "is not empty"));
    }
    write(rows, deployment, root, progress)
}

fn write(
    mut rows: Rows,
    deployment: &str,
    root: &Path,
    progress: &dyn Progress,
) -> Result<Imported, Error> {
    rows.rows.sort_unstable();
    let before = rows.rows.len();
    rows.rows.dedup_by_key(|row| (row.src, row.t_ns, row.dst));
    let twice = (before - rows.rows.len()) as u64;
    if twice > 0 {
        rows.told.excluded.insert("second_call_of_one_time", twice);
    }
    let first_epoch = rows.rows.iter().map(|row| epoch_of(row.t_ns)).min().unwrap_or_default();
    let nodes = u16::try_from(rows.names.len()).unwrap_or(u16::MAX);
    let template = Metadata {
        version: VERSION,
        table: Table::Rpc,
        origin: Origin::Imported,
        deployment: deployment.to_owned(),
        first_epoch,
        epoch: 0,
        node: 0,
        nodes: rows.names.clone(),
        groups: vec![(0..nodes).collect()],
        resting: Vec::new(),
        config: Config::default(),
        clock: Clock::default(),
        incarnations: Vec::new(),
        build: env!("CARGO_PKG_VERSION").into(),
        planted: None,
    };
    let mut told = rows.told;
    let caller_days =
        rows.rows.chunk_by(|a, b| (a.src, epoch_of(a.t_ns)) == (b.src, epoch_of(b.t_ns)));
    let caller_days: Vec<&[Row]> = caller_days.collect();
    progress.begin("days of callers", caller_days.len() as u64);
    let mut days = std::collections::BTreeSet::new();
    for caller_day in caller_days {
        let day = epoch_of(caller_day[0].t_ns);
        let Ok(epoch) = u16::try_from(day - first_epoch) else {
            // More than 179 years after the first.
            *told.excluded.entry("time_too_far_from_first").or_default() += caller_day.len() as u64;
            continue;
        };
        days.insert(day);
        let metadata = Metadata { epoch, node: caller_day[0].src, ..template.clone() };
        let mut recorder = CallRecorder::new(root, metadata, i64::MAX)?;
        let sessions = caller_day.chunk_by(|a, b| a.t_ns == b.t_ns);
        for (round, session) in (0..).zip(sessions) {
            for row in session {
                recorder.push(&sample(row, epoch, round, nodes))?;
            }
        }
        recorder.finish()?;
        told.rows += caller_day.len() as u64;
        progress.step();
    }
    let pieces = root.join(PIECES);
    std::fs::remove_dir(&pieces).map_err(Error::io(&pieces))?;
    told.nodes = rows.names;
    told.days = days.len() as u64;
    Ok(told)
}

fn sample(row: &Row, epoch: u16, round: u32, nodes: u16) -> Sample {
    let status = match row.latency_ns {
        None => Status::NoReply,
        Some(ns) if ns > DEADLINE_NS.unsigned_abs() => Status::Late,
        Some(_) => Status::Ok,
    };
    Sample {
        epoch,
        group: 0,
        group_size: u8::try_from(nodes).unwrap_or(u8::MAX),
        workload: Workload::Null,
        src: row.src,
        dst: row.dst,
        round,
        t_sched_ns: row.t_ns,
        // Nothing is known of the caller's own delay; what is below the unit of the round trip is
        // kept here, so that the latency is the number of the file.
        lag_ns: row.latency_ns.map_or(0, |ns| (ns % 100) as u32),
        rtt_100ns: row.latency_ns.map(|ns| (ns / 100) as u32),
        svc_100ns: None,
        rx_off_us: None,
        status,
        incarnation: 0,
    }
}
