//! Calls of one caller and day as sessions: all calls of one tick to the members of a group.

use super::spread::NEVER;
use crate::error::{Error, Exclusions};
use crate::tables::calls::Calls;
use crate::tables::dataset::Source;
use crate::tables::meta::Metadata;
use probe::Status;
use probe::schedule::epoch_start_ns;

/// One call of a session.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Row in the columns.
    pub row: usize,
    /// The callee.
    pub dst: u16,
    /// Result of the call.
    pub status: Status,
    /// Latency, or [`NEVER`]. Meaningless if the call does not count.
    pub latency_ns: u64,
}

/// Calls of one tick.
#[derive(Debug)]
pub struct Session<'a> {
    /// The group.
    pub group: u16,
    /// Number of members of the group.
    pub size: u8,
    /// Code of the workload.
    pub workload: u8,
    /// Due time.
    pub t_sched_ns: i64,
    /// Calls that measure a live callee, one per callee.
    pub calls: &'a [Call],
    /// Whether there was a row for every member.
    pub whole: bool,
}

/// Calls of one caller and day.
pub struct CallerDay<'a> {
    /// Metadata of the file.
    pub metadata: &'a Metadata,
    /// Day, counted since 1970.
    pub day: i64,
    /// Start of the day.
    pub start_ns: i64,
    /// The columns.
    pub calls: Calls,
    order: Option<Vec<u32>>,
}

/// Position in the sessions of a day.
#[derive(Debug, Default)]
pub struct Place {
    at: usize,
    last_round: Option<u32>,
    found: Vec<Call>,
    seen: Vec<u16>,
}

/// Columns that the first pass reads.
pub const FIRST: [&str; 9] =
    ["group", "gsize", "wl", "dst", "seq", "t_sched", "lag", "rtt", "status"];

impl<'a> CallerDay<'a> {
    /// Reads the day, and more columns than [`FIRST`].
    ///
    /// # Errors
    /// The file cannot be read to its end.
    pub fn read(source: &'a Source, more: &[&str]) -> Result<Self, Error> {
        let names: Vec<&str> = FIRST.iter().chain(more).copied().collect();
        let calls = source.calls(&names)?;
        let ascending = calls.t_sched_ns.is_sorted();
        let order = (!ascending).then(|| {
            let mut order: Vec<u32> = (0..calls.len() as u32).collect();
            order.sort_by_key(|row| (calls.t_sched_ns[*row as usize], calls.round[*row as usize]));
            order
        });
        let day = source.day();
        Ok(Self { metadata: &source.metadata, day, start_ns: epoch_start_ns(day), calls, order })
    }

    fn row(&self, at: usize) -> usize {
        self.order.as_ref().map_or(at, |order| order[at] as usize)
    }

    /// Due time of the next session; `None` if all have been visited.
    pub fn next_ns(&self, place: &Place) -> Option<i64> {
        (place.at < self.calls.len()).then(|| self.calls.t_sched_ns[self.row(place.at)])
    }

    /// Visits all sessions in the order of time, and counts excluded rows.
    pub fn sessions(&self, exclusions: &mut Exclusions, visit: impl FnMut(&Session<'_>)) {
        self.sessions_until(i64::MAX, &mut Place::default(), exclusions, visit);
    }

    /// Visits the sessions that are due up to a time, from the last position on.
    pub fn sessions_until(
        &self,
        last_ns: i64,
        place: &mut Place,
        exclusions: &mut Exclusions,
        mut visit: impl FnMut(&Session<'_>),
    ) {
        let calls = &self.calls;
        let Place { at, last_round, found, seen } = place;
        if *at == 0 && self.order.is_some() {
            exclusions.rows("not_in_order_but_used", calls.len() as u64);
        }
        let nodes = self.metadata.nodes.len();
        while *at < calls.len() && calls.t_sched_ns[self.row(*at)] <= last_ns {
            let first = self.row(*at);
            let (group, round) = (calls.group[first], calls.round[first]);
            let t_sched_ns = calls.t_sched_ns[first];
            found.clear();
            seen.clear();
            let mut skipped = false;
            while *at < calls.len() {
                let row = self.row(*at);
                if (calls.group[row], calls.round[row], calls.t_sched_ns[row])
                    != (group, round, t_sched_ns)
                {
                    break;
                }
                *at += 1;
                match self.call(row, nodes, seen) {
                    Ok(call) => {
                        seen.push(call.dst);
                        skipped |= call.status == Status::Skipped;
                        if call.status.counts() {
                            found.push(call);
                        } else {
                            exclusions.rows(call.status.name(), 1);
                        }
                    }
                    Err(reason) => exclusions.rows(reason, 1),
                }
            }
            if let Some(last) = *last_round
                && round.cast_unsigned() > last + 1
            {
                exclusions.rows("missing_rounds", u64::from(round.cast_unsigned() - last - 1));
            }
            *last_round = Some(round.cast_unsigned());
            let size = calls.group_size[first].clamp(0, 255) as u8;
            let apart = self.metadata.config.apart;
            let whole = seen.len() == usize::from(size) && !skipped && !apart;
            if !whole && !apart {
                exclusions.rows("incomplete_sessions", 1);
            }
            let workload = calls.workload[first].clamp(0, 4) as u8;
            let group = group.clamp(0, i32::from(u16::MAX)) as u16;
            visit(&Session { group, size, workload, t_sched_ns, calls: found, whole });
        }
    }

    fn call(&self, row: usize, nodes: usize, seen: &[u16]) -> Result<Call, &'static str> {
        let calls = &self.calls;
        let status = u8::try_from(calls.status[row]).ok().and_then(Status::from_code);
        let status = status.ok_or("unknown_status")?;
        if !(0..=4).contains(&calls.workload[row]) {
            return Err("unknown_workload");
        }
        let dst = u16::try_from(calls.dst[row]).map_err(|_| "unknown_callee")?;
        if usize::from(dst) >= nodes {
            return Err("unknown_callee");
        }
        if seen.contains(&dst) {
            return Err("duplicate_callee");
        }
        let latency_ns = match calls.latency_ns(row) {
            Some(latency_ns) => latency_ns,
            None if status.has_reply() => return Err("reply_without_round_trip"),
            None => NEVER,
        };
        Ok(Call { row, dst, status, latency_ns })
    }
}
