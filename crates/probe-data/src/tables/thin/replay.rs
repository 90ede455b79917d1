//! Replay of thinned-out days for pauses: all late calls, and the number of the others.
//!
//! Time-outs are far above the 99th percentile of a pair, and all calls above it are still stored
//! one by one. Of the rest only the number matters; their round trip is taken to be their latency,
//! which is slightly more.

use crate::error::Exclusions;
use crate::progress::Progress;
use crate::tables::dataset::DataSet;
use probe::Status;
use probe::calibrate::pauses::Pauses;
use probe::calibrate::tail::LOST;
use serde::Serialize;
use std::collections::BTreeMap;

/// Statistics of the replayed days.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counted {
    /// Number of callers' days.
    pub caller_days: u64,
    /// Number of calls that measure a live callee.
    pub calls: u64,
}

/// Adds all thinned-out days. Unreadable files are excluded.
pub fn replay(
    data: &DataSet,
    exclusions: &mut Exclusions,
    progress: &dyn Progress,
    pauses: &mut Pauses,
) -> Counted {
    progress.begin("files of thinned-out days", data.thinned.len() as u64);
    let mut counted = Counted::default();
    // Largest number of calls of one caller, by day and callee.
    let mut most: BTreeMap<(i64, u16), u64> = BTreeMap::new();
    for ((day, from), files) in &data.thinned {
        match files.read() {
            Ok(left) => {
                exclusions.rows("unknown_code", left.unknown);
                counted.caller_days += 1;
                rounds(&left, *from, pauses);
                for (to, calls) in pairs(&left, *from, pauses) {
                    counted.calls += calls;
                    let most = most.entry((*day, to)).or_default();
                    *most = calls.max(*most);
                }
            }
            Err(error) => {
                let both = files.sketch.files.iter().chain(&files.tail.files);
                both.for_each(|path| exclusions.file(&data.root, path, &error));
            }
        }
        progress.step();
    }
    // A caller calls every period; calls more often than once a second do not cover more seconds.
    let period_s = (data.metadata.config.period_ms as f64 / 1_000.0).min(1.0);
    for ((_, node), calls) in most {
        pauses.count_seconds(node, (calls as f64 * period_s) as u64);
    }
    counted
}

/// Adds the calls to other nodes; returns the number of calls to each.
fn pairs(left: &crate::tables::thin::Left, from: u16, pauses: &mut Pauses) -> BTreeMap<u16, u64> {
    let mut calls: BTreeMap<u16, u64> = BTreeMap::new();
    for row in left.rows.iter().filter(|row| row.status.counts() && row.dst != from) {
        let ns = row.upto_ns.unwrap_or(LOST);
        *calls.entry(row.dst).or_default() += u64::from(row.count);
        pauses.count((from, row.dst), ns, ns, row.count.into());
    }
    for at in 0..left.tail.len() {
        let Some(call) = left.tail.get(at).filter(|call| call.dst != from) else { continue };
        let latency_ns = call.latency_ns().unwrap_or(LOST);
        let rtt_ns = if latency_ns == LOST { LOST } else { latency_ns - u64::from(call.lag_ns) };
        *calls.entry(call.dst).or_default() += 1;
        pauses.count((from, call.dst), latency_ns, rtt_ns, 1);
    }
    calls
}

/// Adds the caller's own delay. A caller calls itself in every round: the number of those calls is
/// that of the rounds, and the delay was at most their latency; where any call of a round was kept,
/// it is known.
fn rounds(left: &crate::tables::thin::Left, from: u16, pauses: &mut Pauses) {
    let mut known: BTreeMap<(i64, u32), u64> = BTreeMap::new();
    let mut kept_of_itself = 0u64;
    for call in (0..left.tail.len()).filter_map(|at| left.tail.get(at)) {
        kept_of_itself += u64::from(call.dst == from);
        known.insert((call.t_sched_ns, call.round), call.lag_ns.into());
    }
    // Rounds whose call to the caller itself was counted, and of which another call was kept.
    let mut twice = (known.len() as u64).saturating_sub(kept_of_itself);
    known.into_values().for_each(|lag_ns| pauses.count_rounds(lag_ns, 1));
    for row in left.rows.iter().filter(|row| row.dst == from) {
        let skipped = row.status == Status::Skipped;
        let again = if skipped { 0 } else { twice.min(row.count.into()) };
        twice -= again;
        let lag_ns = if skipped { LOST } else { row.upto_ns.unwrap_or(LOST) };
        pauses.count_rounds(lag_ns, u64::from(row.count) - again);
    }
}
