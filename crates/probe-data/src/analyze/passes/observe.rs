//! Data that the first pass keeps of a caller's day: quantiles of each callee for the whole day and
//! for each window of ten minutes, and the number of round trips as long as a pause.

use super::sessions::{CallerDay, Session};
use crate::analyze::slow::{ObserverDay, QUANTILES_PPM, Rule, Seen, Variant};
use crate::tables::calls::NONE;
use probe::rank::of_unsorted;
use std::collections::BTreeMap;

/// Length of a window.
pub const WINDOW_NS: i64 = 600_000_000_000;
/// Minimum number of an observer's calls to a node in a window.
const WINDOW_CALLS_MIN: usize = 10;
/// Lengths for which the rate of pauses is estimated.
pub const PAUSES_MS: [u64; 4] = [200, 500, 1000, 2000];

/// Number of observers that saw a node as slow, and of all its observers, by window.
pub type Windows = BTreeMap<(i64, u16), BTreeMap<u32, (u32, u32)>>;

/// Counts of long round trips to other nodes.
#[derive(Clone, Debug, Default)]
pub struct Pauses {
    /// Calls to other nodes that count.
    pub calls: u64,
    /// Number of round trips above nine, ten and eleven tenths of each length.
    pub longer: [[u64; 3]; 4],
}

impl Pauses {
    fn add(&mut self, rtt_100ns: u32) {
        self.calls += 1;
        let rtt_100ns = u64::from(rtt_100ns);
        // Nearly all are far below the shortest length.
        if rtt_100ns == u64::from(NONE) || rtt_100ns <= PAUSES_MS[0] * 9_000 {
            return;
        }
        for (counts, ms) in self.longer.iter_mut().zip(PAUSES_MS) {
            for (count, tenths) in counts.iter_mut().zip([9, 10, 11]) {
                *count += u64::from(rtt_100ns > ms * tenths * 1_000);
            }
        }
    }

    /// Adds another thread's counts.
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        for (to, from) in self.longer.iter_mut().zip(other.longer) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        }
    }
}

/// Observations of one group by a caller on one day, while its sessions are read.
struct View {
    size: u8,
    callees: Vec<Callee>,
}

#[derive(Default)]
struct Callee {
    dst: u16,
    latency_ns: Vec<u64>,
    service_ns: Vec<u64>,
    window_begin: usize,
}

/// Observer of the sessions of one caller and day.
pub struct Observer<'a> {
    day: &'a CallerDay<'a>,
    views: BTreeMap<u16, View>,
    window: u32,
    windows: BTreeMap<(u16, u32), (u32, u32)>,
    floor_ns: u64,
}

impl<'a> Observer<'a> {
    /// Begins a day.
    pub fn new(day: &'a CallerDay<'a>, floor_ns: u64) -> Self {
        Self { day, views: BTreeMap::new(), window: 0, windows: BTreeMap::new(), floor_ns }
    }

    /// Adds a session.
    pub fn add(&mut self, session: &Session<'_>, pauses: &mut Pauses) {
        let window = (session.t_sched_ns - self.day.start_ns).div_euclid(WINDOW_NS);
        let window = u32::try_from(window).unwrap_or_default();
        if window != self.window {
            self.end_window();
            self.window = window;
        }
        let view = self.views.entry(session.group);
        let view = view.or_insert_with(|| View { size: session.size, callees: Vec::new() });
        for (at, call) in session.calls.iter().enumerate() {
            // Members are usually in the same order in every session.
            let place = match view.callees.get(at) {
                Some(callee) if callee.dst == call.dst => at,
                _ => view.callees.iter().position(|callee| callee.dst == call.dst).unwrap_or_else(
                    || {
                        view.callees.push(Callee { dst: call.dst, ..Callee::default() });
                        view.callees.len() - 1
                    },
                ),
            };
            let callee = &mut view.callees[place];
            callee.latency_ns.push(call.latency_ns);
            let calls = &self.day.calls;
            let service_100ns = calls.svc_100ns[call.row];
            if call.status.has_reply() && service_100ns != NONE {
                callee.service_ns.push(u64::from(service_100ns) * 100);
            }
            if call.dst != self.day.metadata.node {
                let replied = call.status.has_reply();
                pauses.add(if replied { calls.rtt_100ns[call.row] } else { NONE });
            }
        }
    }

    fn end_window(&mut self) {
        let own = self.day.metadata.node;
        let mut scratch = Vec::new();
        for (group, view) in &mut self.views {
            let mut seen = Vec::new();
            for callee in &mut view.callees {
                scratch.clear();
                scratch.extend_from_slice(&callee.latency_ns[callee.window_begin..]);
                callee.window_begin = callee.latency_ns.len();
                if scratch.len() >= WINDOW_CALLS_MIN {
                    let p90_ns = of_unsorted(&mut scratch, QUANTILES_PPM[1]).unwrap_or_default();
                    let latency_ns = [p90_ns; 3];
                    seen.push(Seen { dst: callee.dst, calls: 0, latency_ns, service_ns: None });
                }
            }
            let day = ObserverDay {
                day: self.day.day,
                group: *group,
                size: view.size,
                observer: own,
                seen,
            };
            let slow = Rule::plain(Variant::Action, self.floor_ns).slow(&day);
            for seen in day.seen.iter().filter(|seen| seen.dst != own) {
                let counts = self.windows.entry((seen.dst, self.window)).or_default();
                counts.0 += u32::from(slow.contains(&seen.dst));
                counts.1 += 1;
            }
        }
    }

    /// Completes the day.
    pub fn finish(mut self, days: &mut Vec<ObserverDay>, windows: &mut Windows) {
        self.end_window();
        for ((dst, window), (slow, observers)) in &self.windows {
            let node = windows.entry((self.day.day, *dst)).or_default();
            let counts = node.entry(*window).or_default();
            *counts = (counts.0 + slow, counts.1 + observers);
        }
        for (group, view) in self.views {
            let mut seen: Vec<Seen> = view.callees.into_iter().map(quantiles).collect();
            seen.sort_by_key(|seen| seen.dst);
            let observer = self.day.metadata.node;
            days.push(ObserverDay { day: self.day.day, group, size: view.size, observer, seen });
        }
    }
}

fn quantiles(mut callee: Callee) -> Seen {
    let calls = callee.latency_ns.len() as u64;
    let of = |values: &mut Vec<u64>| {
        QUANTILES_PPM.map(|ppm| of_unsorted(values, ppm).unwrap_or(u64::MAX))
    };
    let latency_ns = of(&mut callee.latency_ns);
    let service_ns = (!callee.service_ns.is_empty()).then(|| of(&mut callee.service_ns));
    Seen { dst: callee.dst, calls, latency_ns, service_ns }
}
