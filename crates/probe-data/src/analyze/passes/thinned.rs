//! Results from thinned-out days.
//!
//! Values above the 99th percentile of a pair are exact, values below it at most 1.6 % too large.
//! Other analyses leave these days out, since they need single calls.

use crate::analyze::date;
use crate::error::{Error, Exclusions};
use crate::progress::Progress;
use crate::tables::dataset::{DataSet, ThinnedDay};
use probe::calibrate::tail::{LOST, Recorder};
use probe::{Status, Workload};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Number of exact values, of all calls with one workload.
const KEEP: usize = 65_536;
/// Number of exact values, of the calls to one node on one day.
const KEEP_OF_DAY: usize = 4_096;

#[derive(Default)]
struct All {
    calls: u64,
    kept: u64,
    bytes: u64,
    statuses: BTreeMap<&'static str, u64>,
    by_workload: BTreeMap<u8, Recorder>,
    day: Option<i64>,
    by_callee: BTreeMap<u16, Recorder>,
    callees: Vec<Value>,
}

impl All {
    fn add(&mut self, from: u16, to: u16, workload: Workload, status: Status, latency: Latency) {
        *self.statuses.entry(status.name()).or_default() += latency.count;
        self.calls += latency.count;
        if !status.counts() {
            return;
        }
        let of_workload = self.by_workload.entry(workload.code());
        let of_workload = of_workload.or_insert_with(|| Recorder::new(KEEP));
        (0..latency.count).for_each(|_| of_workload.record(latency.ns));
        if from != to {
            let of_callee = self.by_callee.entry(to);
            let of_callee = of_callee.or_insert_with(|| Recorder::new(KEEP_OF_DAY));
            (0..latency.count).for_each(|_| of_callee.record(latency.ns));
        }
    }

    /// Adds a caller's day.
    fn read(&mut self, day: &ThinnedDay) -> Result<u64, Error> {
        let from = day.sketch.metadata.node;
        // Both files are read before anything is counted.
        let left = day.read()?;
        for row in left.rows {
            let latency = Latency { ns: row.upto_ns.unwrap_or(LOST), count: row.count.into() };
            self.add(from, row.dst, row.workload, row.status, latency);
        }
        let tail = &left.tail;
        for (at, call) in (0..tail.len()).filter_map(|at| Some((at, tail.get(at)?))) {
            self.kept += 1;
            let latency = Latency { ns: tail.latency_ns(at).unwrap_or(LOST), count: 1 };
            self.add(from, call.dst, call.workload, call.status, latency);
        }
        self.bytes += day.sketch.bytes + day.tail.bytes;
        Ok(left.unknown)
    }

    /// Completes the previous day, if this is another one.
    fn begin(&mut self, day: Option<i64>, names: &[String]) {
        if self.day == day {
            return;
        }
        let Some(before) = std::mem::replace(&mut self.day, day) else { return };
        for (node, law) in std::mem::take(&mut self.by_callee) {
            let mut row = law_of(law);
            row["day"] = json!(before);
            row["date"] = json!(date(&before));
            row["node"] = json!(node);
            row["name"] = json!(names.get(usize::from(node)));
            self.callees.push(row);
        }
    }
}

/// Number of calls of one latency.
#[derive(Clone, Copy)]
struct Latency {
    ns: u64,
    count: u64,
}

fn law_of(law: Recorder) -> Value {
    let law = law.finish();
    let ns = |found: Option<probe::calibrate::tail::Quantile>| {
        found.map(|found| found.ns).filter(|ns| *ns != LOST)
    };
    let answered = law.count() - law.lost();
    json!({
        "calls": law.count(),
        "no_reply": law.lost(),
        "p50_ns": ns(law.quantile(0.5)),
        "p90_ns": ns(law.quantile(0.9)),
        "p99_ns": ns(law.quantile(0.99)),
        "p99_9_ns": ns(law.quantile(0.999)),
        "max_ns": ns(law.at_rank(answered)).filter(|_| answered > 0),
    })
}

/// Builds the key `thinned`; null if no day is thinned out.
pub fn document(data: &DataSet, exclusions: &mut Exclusions, progress: &dyn Progress) -> Value {
    if data.thinned.is_empty() {
        return Value::Null;
    }
    progress.begin("files of thinned-out days", data.thinned.len() as u64);
    let names = &data.metadata.nodes;
    let (mut all, mut days, mut caller_days) = (All::default(), BTreeSet::new(), 0u64);
    for ((day, _), files) in &data.thinned {
        all.begin(Some(*day), names);
        match all.read(files) {
            Ok(unknown) => {
                exclusions.rows("unknown_code", unknown);
                days.insert(*day);
                caller_days += 1;
            }
            Err(error) => {
                let both = files.sketch.files.iter().chain(&files.tail.files);
                both.for_each(|path| exclusions.file(&data.root, path, &error));
            }
        }
        progress.step();
    }
    all.begin(None, names);
    let by_workload = all.by_workload.into_iter().filter_map(|(code, law)| {
        let mut row = law_of(law);
        row["workload"] = json!(Workload::from_code(code)?.name());
        Some(row)
    });
    json!({
        "days": days.len(),
        "first_date": days.first().map(date),
        "last_date": days.last().map(date),
        "caller_days": caller_days,
        "calls": all.calls,
        "kept": all.kept,
        "bytes": all.bytes,
        "statuses": all.statuses,
        "by_workload": by_workload.collect::<Vec<_>>(),
        "callees": all.callees,
    })
}
