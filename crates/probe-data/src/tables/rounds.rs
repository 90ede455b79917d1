//! Rounds of a data set in the order of time, for calibration: one group of one day after the
//! other.
//!
//! The files of a group are read together, and no others: memory is that of one group and day,
//! whatever the size of the data set.

use super::calls::{Calls, NONE};
use super::dataset::{DataSet, Source};
use crate::error::Error;
use crate::progress::Progress;
use probe::Status;
use probe::calibrate::downtime::{Downtime, Watch};
use probe::calibrate::round::{Edge, Group, Round};
use probe::calibrate::tail::LOST;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The columns that are needed.
const COLUMNS: [&str; 11] =
    ["group", "gsize", "wl", "src", "dst", "seq", "t_sched", "lag", "rtt", "status", "inc"];

/// Statistics of the read data, and of the excluded part.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Seen {
    /// Number of rows of calls.
    pub rows: u64,
    /// Rounds.
    pub rounds: u64,
    /// Number of rounds that the caller was too late to send.
    pub skipped_rounds: u64,
    /// Number of calls without an answer.
    pub unanswered: u64,
    /// Number of calls to nodes that were down, or had left, whose suspicion was right.
    pub down: u64,
    /// Due time of the first round, in nanoseconds since 1970.
    pub first_ns: i64,
    /// Due time of the last round.
    pub last_ns: i64,
}

/// Visits every round of a data set.
///
/// # Errors
/// A file cannot be read any more.
pub fn visit(
    data: &DataSet,
    progress: &dyn Progress,
    show: &mut dyn FnMut(&Round),
) -> Result<Seen, Error> {
    let mut groups: BTreeMap<(i64, Option<usize>), Vec<&Source>> = BTreeMap::new();
    for ((day, node), source) in &data.calls {
        let member = |group: &Vec<u16>| group.contains(node);
        let group = source.metadata.groups.iter().position(member);
        groups.entry((*day, group)).or_default().push(source);
    }
    progress.begin("calibrating", groups.len() as u64);
    let mut seen = Seen { first_ns: i64::MAX, last_ns: i64::MIN, ..Seen::default() };
    for ((day, _), sources) in groups {
        let mut callers = Vec::with_capacity(sources.len());
        for source in sources {
            callers.push(source.calls(&COLUMNS)?);
        }
        let mut watch = Watch::default();
        in_order(&callers, &mut |calls, from, to| listen(calls, from, to, &mut watch));
        let downtime = watch.finish();
        in_order(&callers, &mut |calls, from, to| {
            if let Some(round) = round(calls, from, to, day, &downtime, &mut seen) {
                show(&round);
            }
        });
        progress.step();
    }
    Ok(seen)
}

/// Visits the rounds of all callers by time: each is a range of rows of one caller.
fn in_order(callers: &[Calls], each: &mut dyn FnMut(&Calls, usize, usize)) {
    let start = |(at, calls): (usize, &Calls)| {
        calls.t_sched_ns.first().map(|first| Reverse((*first, at, 0)))
    };
    let mut next: BinaryHeap<Reverse<(i64, usize, usize)>> =
        callers.iter().enumerate().filter_map(start).collect();
    while let Some(Reverse((due_ns, at, from))) = next.pop() {
        let calls = &callers[at];
        let key = (calls.src[from], calls.round[from]);
        let mut to = from + 1;
        while calls.t_sched_ns.get(to) == Some(&due_ns) && (calls.src[to], calls.round[to]) == key {
            to += 1;
        }
        each(calls, from, to);
        if let Some(due_ns) = calls.t_sched_ns.get(to) {
            next.push(Reverse((*due_ns, at, to)));
        }
    }
}

fn status(calls: &Calls, at: usize) -> Option<Status> {
    u8::try_from(calls.status[at]).ok().and_then(Status::from_code)
}

fn listen(calls: &Calls, from: usize, to: usize, watch: &mut Watch) {
    for at in from..to {
        let (src, dst) = (calls.src[at] as u16, calls.dst[at] as u16);
        let life = match status(calls, at) {
            Some(status) if status.has_reply() => Some(calls.incarnation[at] as u8),
            Some(Status::NoReply | Status::Refused | Status::Down) => None,
            _ => continue,
        };
        if src != dst {
            watch.observe(src, dst, calls.t_sched_ns[at], life);
        }
    }
}

fn round(
    calls: &Calls,
    from: usize,
    to: usize,
    day: i64,
    downtime: &Downtime,
    seen: &mut Seen,
) -> Option<Round> {
    let at_ns = calls.t_sched_ns[from];
    let size = u8::try_from(calls.group_size[from]).ok()?;
    let mut round = Round {
        at_ns,
        group: Group { epoch: u32::try_from(day).unwrap_or(0), number: calls.group[from] as u16 },
        size,
        workload: calls.workload[from] as u8,
        from: calls.src[from] as u16,
        lag_ns: u64::from(calls.lag_ns[from].cast_unsigned()),
        edges: Vec::with_capacity(to - from),
        down: Vec::new(),
    };
    (seen.rows, seen.rounds) = (seen.rows + (to - from) as u64, seen.rounds + 1);
    (seen.first_ns, seen.last_ns) = (seen.first_ns.min(at_ns), seen.last_ns.max(at_ns));
    for at in from..to {
        let dst = calls.dst[at] as u16;
        let lag_ns = u64::from(calls.lag_ns[at].cast_unsigned());
        let status = status(calls, at)?;
        let down = matches!(status, Status::Down | Status::Absent)
            || !status.has_reply() && downtime.was_down(dst, at_ns);
        if status == Status::Skipped {
            seen.skipped_rounds += u64::from(at == from);
            round.lag_ns = LOST;
        } else if down {
            seen.down += 1;
            round.down.push(dst);
        } else {
            let rtt = calls.rtt_100ns[at];
            let answered = status.has_reply() && rtt != NONE;
            seen.unanswered += u64::from(!answered);
            let rtt_ns = if answered { u64::from(rtt) * 100 } else { LOST };
            let latency_ns = if answered { rtt_ns + lag_ns } else { LOST };
            round.edges.push(Edge { to: dst, latency_ns, rtt_ns });
        }
    }
    Some(round)
}
