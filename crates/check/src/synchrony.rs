//! Statistics of the synchrony probe's measurements, computed as plainly as possible.
//!
//! This is the second opinion on the probe's analyses: everything is in memory, every quantile is
//! taken from a sorted list, every pair of a call and a row of resources is found by scanning all
//! rows. It is for small data. The results have the names that the analyses give them, so that two
//! documents can be compared value by value.
//!
//! One rule decides ranks: the quantile p of n values is the one at rank ceil(p n), the first being
//! at rank 1, and a call without reply is longer than any other.

mod resources;
mod slow;

pub use resources::{HostRow, Pair, correlations, episodes, pairing, pairs};
pub use slow::{
    Watch, jaccard, node_or_link, sensitivity, slow_histogram, slow_sets, slow_timeline,
};

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A row of the table `rpc`: a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Row {
    /// The day since 1970.
    pub day: i64,
    /// The group of the day.
    pub group: u16,
    /// Members of the group.
    pub size: u8,
    /// The workload's code.
    pub workload: u8,
    /// The caller.
    pub src: u16,
    /// The callee.
    pub dst: u16,
    /// The round.
    pub round: u32,
    /// Due time, in nanoseconds since 1970.
    pub t_sched_ns: i64,
    /// The caller's own delay.
    pub lag_ns: u32,
    /// The round trip in units of 100 ns.
    pub rtt_100ns: Option<u32>,
    /// The callee's own delay in units of 100 ns.
    pub svc_100ns: Option<u32>,
    /// Time of arrival at the callee minus due time, in microseconds.
    pub rx_off_us: Option<i32>,
    /// The status's code.
    pub status: u8,
}

/// A latency: that of a call without reply is the largest.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Latency {
    /// Nanoseconds.
    Ns(u64),
    /// No reply.
    Never,
}

impl Latency {
    /// Value in documents.
    pub fn told(self) -> Value {
        match self {
            Self::Ns(ns) => ns.into(),
            Self::Never => Value::Null,
        }
    }
}

impl Row {
    /// Whether the call counts: the callee was neither down nor gone, and the caller sent.
    pub fn counts(&self) -> bool {
        ![4, 5, 7].contains(&self.status)
    }

    /// Time from the due time of the call to the reply.
    pub fn latency(&self) -> Latency {
        match (self.status, self.rtt_100ns) {
            (0 | 3 | 6, Some(rtt)) => Latency::Ns(u64::from(self.lag_ns) + 100 * u64::from(rtt)),
            _ => Latency::Never,
        }
    }
}

/// The value at a rank: `permillion` parts of the list, in whole numbers.
pub fn quantile<T: Clone + Ord>(values: &[T], permillion: u64) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort();
    let mut rank = 0;
    // The least rank of at least p n.
    while rank * 1_000_000 < permillion * sorted.len() as u64 {
        rank += 1;
    }
    sorted.get((rank.max(1) - 1) as usize).cloned()
}

const QUANTILES: [(&str, u64); 9] = [
    ("p1", 10_000),
    ("p10", 100_000),
    ("p25", 250_000),
    ("p50", 500_000),
    ("p75", 750_000),
    ("p90", 900_000),
    ("p99", 990_000),
    ("p99_9", 999_000),
    ("p99_99", 999_900),
];

/// Summary of a list of latencies.
pub fn distribution(all: &[Latency]) -> Value {
    let replied: Vec<Latency> = all.iter().copied().filter(|one| *one != Latency::Never).collect();
    let quantiles = |values: &[Latency]| -> Map<String, Value> {
        let told = |p| quantile(values, p).map_or(Value::Null, Latency::told);
        QUANTILES.iter().map(|(name, p)| ((*name).into(), told(*p))).collect()
    };
    json!({
        "calls": all.len(),
        "replied": replied.len(),
        "no_reply": all.len() - replied.len(),
        "completed_ns": quantiles(&replied),
        "all_ns": quantiles(all),
    })
}

/// Number of latencies of at most a point.
pub fn at_most(all: &[Latency], point_ns: u64) -> u64 {
    all.iter().filter(|one| **one <= Latency::Ns(point_ns)).count() as u64
}

/// Calls by the sending round: day, group, caller and round.
pub type Sessions<'a> = BTreeMap<(i64, u16, u16, u32), Vec<&'a Row>>;

/// The sessions of some rows.
pub fn sessions(rows: &[Row]) -> Sessions<'_> {
    let mut sessions = Sessions::new();
    for row in rows {
        sessions.entry((row.day, row.group, row.src, row.round)).or_default().push(row);
    }
    sessions
}

/// Latencies of single calls that `choose` selects.
pub fn calls(rows: &[Row], choose: impl Fn(&Row) -> bool) -> Vec<Latency> {
    rows.iter().filter(|row| row.counts() && choose(row)).map(Row::latency).collect()
}

/// Whether a session has a row for every member, none of which the caller skipped.
fn whole(session: &[&Row]) -> bool {
    let members: BTreeSet<u16> = session.iter().map(|row| row.dst).collect();
    members.len() == usize::from(session[0].size) && session.iter().all(|row| row.status != 5)
}

/// Latencies of the slowest members of whole sessions.
pub fn groups(sessions: &Sessions<'_>, choose: impl Fn(&Row) -> bool) -> Vec<Latency> {
    let whole = sessions.values().filter(|session| whole(session) && choose(session[0]));
    whole
        .filter_map(|session| {
            session.iter().filter(|row| row.counts()).map(|row| row.latency()).max()
        })
        .collect()
}

/// For each whole session of groups of one size in which every call counts, its latencies.
fn full(sessions: &Sessions<'_>, size: u8) -> Vec<Vec<Latency>> {
    let full = sessions.values().filter(|session| {
        session[0].size == size && whole(session) && session.iter().all(|row| row.counts())
    });
    full.map(|session| session.iter().map(|row| row.latency()).collect()).collect()
}

/// T for a number s of late members and a part of the sessions, in parts per million.
pub fn t_of_s(sessions: &Sessions<'_>, size: u8, s: usize, eps: u64) -> Option<Latency> {
    let last: Vec<Latency> = full(sessions, size)
        .into_iter()
        .map(|mut latencies| {
            latencies.sort();
            latencies[latencies.len() - 1 - s]
        })
        .collect();
    quantile(&last, 1_000_000 - eps)
}

/// The least s such that more members are later than T in at most a part of the sessions.
pub fn s_of_t(sessions: &Sessions<'_>, size: u8, t_ns: u64, eps: u64) -> usize {
    let full = full(sessions, size);
    let late = |latencies: &Vec<Latency>| {
        latencies.iter().filter(|latency| **latency > Latency::Ns(t_ns)).count()
    };
    (0..usize::from(size))
        .find(|s| {
            let more = full.iter().filter(|latencies| late(latencies) > *s).count() as u64;
            more * 1_000_000 <= eps * full.len() as u64
        })
        .unwrap_or(usize::from(size))
}

/// One group on one day: durations of a caller's calls, or of the calls to a callee.
pub fn day_view(rows: &[Row], of: impl Fn(&Row) -> u16, cuts_ns: [u64; 2]) -> Value {
    let mut nodes: BTreeMap<u16, Vec<Latency>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.counts()) {
        nodes.entry(of(row)).or_default().push(row.latency());
    }
    let told = nodes.into_iter().map(|(node, latencies)| {
        let share = |count: usize| count as f64 / latencies.len() as f64;
        let under = latencies.iter().filter(|one| **one < Latency::Ns(cuts_ns[0])).count();
        let over = latencies.iter().filter(|one| **one > Latency::Ns(cuts_ns[1])).count();
        json!({
            "node": node,
            "calls": latencies.len(),
            "all_ns": distribution(&latencies)["all_ns"],
            "share_under_low_cut": share(under),
            "share_over_high_cut": share(over),
        })
    });
    told.collect()
}

/// Number of round trips to other members between two numbers of tenths of a time.
pub fn near_pause(rows: &[Row], ms: u64, tenths: (u64, u64)) -> u64 {
    let others = rows.iter().filter(|row| row.counts() && row.src != row.dst);
    let rtts = others.filter(|row| row.latency() != Latency::Never).filter_map(|row| row.rtt_100ns);
    let between = |rtt: u64| rtt > ms * tenths.0 * 1_000 && rtt <= ms * tenths.1 * 1_000;
    rtts.filter(|rtt| between(u64::from(*rtt))).count() as u64
}
