//! Writer of sorted rows into the files of a data set: one for each caller and day.

use super::runs::Row;
use super::{Gap, Imported, Rows};
use crate::error::Error;
use crate::progress::Progress;
use crate::tables::meta::{Clock, Config, Metadata, Origin, Table, VERSION};
use crate::tables::recorder::{CallRecorder, PIECES};
use probe::schedule::{DEADLINE_NS, epoch_of};
use probe::{Sample, Status, Workload};
use std::collections::BTreeSet;
use std::path::Path;

/// Rows per step of progress.
const STEP_ROWS: u64 = 1 << 20;

/// File that is being written.
struct Open {
    /// Caller and day, since 1970.
    of: (u16, i64),
    epoch: u16,
    /// Recorder; `None` if the day cannot be represented in a file: its rows are left out.
    recorder: Option<CallRecorder>,
    round: u32,
}

/// Writes all rows, and returns the result.
pub fn write(
    rows: Rows,
    deployment: &str,
    root: &Path,
    progress: &dyn Progress,
) -> Result<Imported, Error> {
    let Rows { runs, names, told, .. } = rows;
    progress.begin("million calls written", runs.count() / STEP_ROWS);
    let nodes = u16::try_from(names.len()).unwrap_or(u16::MAX);
    let template = template(&names, nodes, deployment, epoch_of(runs.earliest_ns()));
    let mut sorted = runs.sorted()?;
    let mut writer =
        Writer { root, template, nodes, told, open: None, last: None, days: BTreeSet::new() };
    let mut written = 0;
    while let Some(row) = sorted.next()? {
        writer.add(&row)?;
        written += 1;
        if written % STEP_ROWS == 0 {
            progress.step();
        }
    }
    writer.close()?;
    drop(sorted);
    let pieces = root.join(PIECES);
    std::fs::remove_dir(&pieces).map_err(Error::io(&pieces))?;
    let Writer { mut told, days, .. } = writer;
    told.nodes = names;
    told.days = days.len() as u64;
    Ok(told)
}

fn template(names: &[String], nodes: u16, deployment: &str, first_epoch: i64) -> Metadata {
    Metadata {
        version: VERSION,
        table: Table::Rpc,
        origin: Origin::Imported,
        deployment: deployment.to_owned(),
        first_epoch,
        epoch: 0,
        node: 0,
        nodes: names.to_vec(),
        groups: vec![(0..nodes).collect()],
        resting: Vec::new(),
        config: Config::default(),
        clock: Clock::default(),
        incarnations: Vec::new(),
        build: env!("CARGO_PKG_VERSION").into(),
        planted: None,
    }
}

struct Writer<'a> {
    root: &'a Path,
    template: Metadata,
    nodes: u16,
    told: Imported,
    open: Option<Open>,
    last: Option<Row>,
    days: BTreeSet<i64>,
}

impl Writer<'_> {
    /// Adds the next row in the order of callers, times and callees.
    fn add(&mut self, row: &Row) -> Result<(), Error> {
        let last = self.last.replace(*row);
        if last.is_some_and(|last| last.key() == row.key()) {
            *self.told.excluded.entry("second_call_of_one_time").or_default() += 1;
            return Ok(());
        }
        if let Some(last) = last.filter(|last| last.src == row.src) {
            self.gap(&last, row);
        }
        let of = (row.src, epoch_of(row.t_ns));
        if self.open.as_ref().is_none_or(|open| open.of != of) {
            self.close()?;
            self.open = Some(self.begin(of)?);
        }
        let again = last.is_some_and(|last| (last.src, last.t_ns) == (row.src, row.t_ns));
        let Some(Open { recorder: Some(recorder), epoch, round, .. }) = &mut self.open else {
            // More than 179 years after the first.
            *self.told.excluded.entry("time_too_far_from_first").or_default() += 1;
            return Ok(());
        };
        *round = round.wrapping_add(u32::from(!again));
        recorder.push(&sample(row, *epoch, *round, self.nodes))?;
        self.told.rows += 1;
        Ok(())
    }

    fn begin(&mut self, of: (u16, i64)) -> Result<Open, Error> {
        let (node, day) = of;
        // The first row of a day begins round 0.
        let none = Open { of, epoch: 0, recorder: None, round: u32::MAX };
        let Ok(epoch) = u16::try_from(day - self.template.first_epoch) else { return Ok(none) };
        self.days.insert(day);
        let metadata = Metadata { epoch, node, ..self.template.clone() };
        let recorder = CallRecorder::new(self.root, metadata, i64::MAX)?;
        Ok(Open { epoch, recorder: Some(recorder), ..none })
    }

    fn close(&mut self) -> Result<(), Error> {
        if let Some(Open { recorder: Some(recorder), .. }) = self.open.take() {
            recorder.finish()?;
        }
        Ok(())
    }

    fn gap(&mut self, last: &Row, row: &Row) {
        let seconds = (i128::from(row.t_ns) - i128::from(last.t_ns)) as f64 / 1e9;
        let longer = |gap: &Gap| seconds > gap.seconds;
        if seconds > 0.0 && self.told.longest_gap.as_ref().is_none_or(longer) {
            let name = self.template.nodes.get(usize::from(row.src)).cloned();
            let src = name.unwrap_or_default();
            self.told.longest_gap = Some(Gap { src, after_ns: last.t_ns, seconds });
        }
    }
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
        // The caller's own delay is unknown; the field holds the remainder below the unit of the
        // round trip, so that the latency equals the number in the file.
        lag_ns: row.latency_ns.map_or(0, |ns| (ns % 100) as u32),
        rtt_100ns: row.latency_ns.map(|ns| (ns / 100) as u32),
        svc_100ns: None,
        rx_off_us: None,
        status,
        incarnation: 0,
    }
}
