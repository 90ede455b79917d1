//! O1 to O5: latencies of calls and group calls, by group size and workload; and, from the same
//! counts, the number of late members of a session (s and T).
//!
//! Counts are kept for the finest classes only; coarser ones are their sums.

use crate::analyze::passes::sessions::Session;
use crate::analyze::passes::spread::{Counts, Exact, Kept, NEVER, Points, Wanted};
use probe::Workload;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Quantiles that are reported for every class.
pub const QUANTILES_PPM: [u32; 9] =
    [10_000, 100_000, 250_000, 500_000, 750_000, 900_000, 990_000, 999_000, 999_900];
/// Fractions of sessions in which more members may be late.
pub const EPS_PPM: [u32; 7] = [100_000, 50_000, 10_000, 5_000, 1_000, 100, 10];
/// Maximum group size for the number of late members: no larger group is drawn.
const LATE_SIZE_MAX: u8 = 9;
/// Number of the largest values of a class that are listed.
const TAIL_LISTED: u64 = 100_000;

/// Class of counted values.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Class {
    /// Calls, by group size and workload.
    Call(u8, u8),
    /// Sessions by their slowest call, by group size and workload.
    Group(u8, u8),
    /// Sessions by the latency of the (s + 1)-th slowest call, by group size and s.
    Last(u8, u8),
}

impl Class {
    const PLACES: usize = 3 << 16;

    fn place(self) -> usize {
        let (kind, a, b) = match self {
            Self::Call(size, workload) => (0, size, workload),
            Self::Group(size, workload) => (1, size, workload),
            Self::Last(size, s) => (2, size, s),
        };
        (kind << 16) + (usize::from(a) << 8) + usize::from(b)
    }

    fn at(place: usize) -> Self {
        let (a, b) = ((place >> 8 & 255) as u8, (place & 255) as u8);
        match place >> 16 {
            0 => Self::Call(a, b),
            1 => Self::Group(a, b),
            _ => Self::Last(a, b),
        }
    }
}

/// Visits all classes and values of a session.
fn each(session: &Session<'_>, sorted: &mut Vec<u64>, mut visit: impl FnMut(Class, u64)) {
    let Session { size, workload, .. } = *session;
    for call in session.calls {
        visit(Class::Call(size, workload), call.latency_ns);
    }
    if !session.whole || session.calls.is_empty() {
        return;
    }
    sorted.clear();
    sorted.extend(session.calls.iter().map(|call| call.latency_ns));
    sorted.sort_unstable();
    let slowest = sorted.last().copied().unwrap_or(NEVER);
    visit(Class::Group(size, workload), slowest);
    if size <= LATE_SIZE_MAX && sorted.len() == usize::from(size) {
        for (s, latency_ns) in (0..).zip(sorted.iter().rev()) {
            visit(Class::Last(size, s), *latency_ns);
        }
    }
}

/// State of a thread in the first pass.
#[derive(Default)]
pub struct First {
    classes: Vec<Option<Box<Counts>>>,
    sorted: Vec<u64>,
}

impl First {
    /// Counts a session.
    pub fn add(&mut self, session: &Session<'_>, points: &Points) {
        if self.classes.is_empty() {
            self.classes.resize_with(Class::PLACES, || None);
        }
        let classes = &mut self.classes;
        each(session, &mut self.sorted, |class, latency_ns| {
            classes[class.place()].get_or_insert_default().add(latency_ns, points);
        });
    }
}

/// All counts of the first pass, and the values for the second pass to keep.
pub struct Counted {
    classes: BTreeMap<Class, Counts>,
    wanted: Vec<Option<Wanted>>,
}

/// State of a thread in the second pass.
#[derive(Default)]
pub struct Second {
    kept: Vec<Option<Box<Kept>>>,
    sorted: Vec<u64>,
}

impl Second {
    /// Keeps the required values of a session.
    pub fn add(&mut self, session: &Session<'_>, counted: &Counted) {
        if self.kept.is_empty() {
            self.kept.resize_with(Class::PLACES, || None);
        }
        let kept = &mut self.kept;
        each(session, &mut self.sorted, |class, latency_ns| {
            let place = class.place();
            let wanted = counted.wanted[place].as_ref();
            if wanted.is_some_and(|wanted| wanted.wants(latency_ns)) {
                kept[place].get_or_insert_default().push(latency_ns);
            }
        });
    }
}

/// A coarser class: its name in the document, and the finest classes that belong to it.
type Sum<'a> = (&'a str, Box<dyn Fn(Class) -> bool + 'a>);

impl Counted {
    /// Merges the counts of all threads.
    pub fn new(threads: Vec<First>, points: &Points) -> Self {
        let mut classes: BTreeMap<Class, Counts> = BTreeMap::new();
        for first in threads {
            for (place, counts) in first.classes.into_iter().enumerate() {
                if let Some(mut counts) = counts {
                    counts.settle(points);
                    classes.entry(Class::at(place)).or_default().merge(&counts);
                }
            }
        }
        let mut counted = Self { classes, wanted: Vec::new() };
        counted.wanted.resize_with(Class::PLACES, || None);
        let mut quantiles = QUANTILES_PPM.to_vec();
        quantiles.extend(EPS_PPM.map(|ppm| 1_000_000 - ppm));
        for (_, members) in counted.sums() {
            let counts = counted.sum(&members);
            for class in counted.classes.keys().filter(|class| members(**class)) {
                let wanted = counted.wanted[class.place()].get_or_insert_with(Wanted::nothing);
                wanted.add(&counts, &quantiles);
            }
        }
        counted
    }

    fn sizes(&self) -> BTreeSet<u8> {
        let sizes = self.classes.keys().map(|class| match class {
            Class::Call(size, _) | Class::Group(size, _) | Class::Last(size, _) => *size,
        });
        sizes.collect()
    }

    /// All reported classes.
    fn sums(&self) -> Vec<Sum<'static>> {
        let mut sums: Vec<Sum<'static>> = vec![
            ("all calls", Box::new(|class| matches!(class, Class::Call(..)))),
            ("all groups", Box::new(|class| matches!(class, Class::Group(..)))),
        ];
        for workload in 0..5 {
            sums.push(("", Box::new(move |c| matches!(c, Class::Call(_, w) if w == workload))));
            sums.push(("", Box::new(move |c| matches!(c, Class::Group(_, w) if w == workload))));
        }
        for size in self.sizes() {
            sums.push(("", Box::new(move |c| matches!(c, Class::Call(s, _) if s == size))));
            sums.push(("", Box::new(move |c| matches!(c, Class::Group(s, _) if s == size))));
        }
        for class in self.classes.keys().copied() {
            sums.push(("", Box::new(move |c| c == class)));
        }
        sums
    }

    fn sum(&self, members: &dyn Fn(Class) -> bool) -> Counts {
        let mut sum = Counts::default();
        let members = self.classes.iter().filter(|(class, _)| members(**class));
        members.for_each(|(_, counts)| sum.merge(counts));
        sum
    }

    /// Counts of all calls of a workload.
    pub fn sum_of_workload(&self, workload: u8) -> Counts {
        self.sum(&|class| matches!(class, Class::Call(_, w) if w == workload))
    }

    /// Number of counted calls, with and without reply.
    pub fn calls(&self) -> (u64, u64) {
        let all = self.sum(&|class| matches!(class, Class::Call(..)));
        (all.replied, all.never)
    }
}

/// Results of both passes.
pub struct Latencies {
    counted: Counted,
    kept: BTreeMap<Class, Kept>,
    points: Points,
}

impl Latencies {
    /// Adds the values that all threads kept to the counts.
    pub fn new(counted: Counted, threads: Vec<Second>, points: Points) -> Self {
        let mut kept: BTreeMap<Class, Kept> = BTreeMap::new();
        for second in threads {
            for (place, kept_there) in second.kept.into_iter().enumerate() {
                if let Some(mut kept_there) = kept_there {
                    kept.entry(Class::at(place)).or_default().merge(&mut kept_there);
                }
            }
        }
        kept.values_mut().for_each(|kept| {
            kept.sorted();
        });
        Self { counted, kept, points }
    }

    /// Calls a function with the counts and kept values of one class.
    fn with<T>(
        &mut self,
        members: &dyn Fn(Class) -> bool,
        tell: impl FnOnce(&Counts, &Exact<'_>) -> T,
    ) -> T {
        let counts = self.counted.sum(members);
        let mut kept = Kept::default();
        for (class, found) in &mut self.kept {
            if members(*class) {
                kept.merge(&mut found.clone());
            }
        }
        let exact = Exact::new(&counts, kept.sorted());
        tell(&counts, &exact)
    }

    /// Exact 99th percentile of the calls of a workload.
    pub fn p99_of_workload(&mut self, workload: u8) -> Option<u64> {
        let members = move |class| matches!(class, Class::Call(_, w) if w == workload);
        self.with(&members, |_, exact| exact.all(990_000))
    }

    fn tell(&mut self, members: &dyn Fn(Class) -> bool, with_tail: bool) -> Value {
        let points = std::mem::take(&mut self.points.ns);
        let told = self.with(members, |counts, exact| {
            let quantiles = |of: &dyn Fn(u32) -> Option<u64>| {
                let pairs = QUANTILES_PPM.map(|ppm| (quantile_name(ppm), latency(of(ppm))));
                pairs.into_iter().collect::<Map<String, Value>>()
            };
            // Points before the first call and after the last are redundant.
            let at_most = counts.at_most();
            let begin = at_most.partition_point(|count| *count == 0).saturating_sub(1);
            let end = at_most.partition_point(|count| *count < counts.replied);
            let shown = begin..at_most.len().min(end + 1);
            let mut told = json!({
                "calls": counts.all(),
                "replied": counts.replied,
                "no_reply": counts.never,
                "mean_completed_ns": counts.mean_ns(),
                "completed_ns": quantiles(&|ppm| exact.completed(ppm)),
                "all_ns": quantiles(&|ppm| exact.all(ppm)),
                "cdf": {
                    "at_most_ns": points.get(shown.clone()),
                    "calls": at_most.get(shown),
                },
            });
            if with_tail {
                let (ranks, tail) = exact.tail();
                told["tail"] = tail_document(ranks, &tail);
            }
            told
        });
        self.points.ns = points;
        told
    }

    /// Builds documents O1 and O2.
    pub fn overall(&mut self) -> (Value, Value) {
        let calls = self.tell(&|class| matches!(class, Class::Call(..)), true);
        let groups = self.tell(&|class| matches!(class, Class::Group(..)), true);
        (calls, groups)
    }

    /// Builds document O3: by group size.
    pub fn by_size(&mut self) -> Value {
        let mut rows = Vec::new();
        for size in self.counted.sizes() {
            let calls = self.tell(&|c| matches!(c, Class::Call(s, _) if s == size), false);
            let groups = self.tell(&|c| matches!(c, Class::Group(s, _) if s == size), false);
            rows.push(json!({"group_size": size, "individual": calls, "group": groups}));
        }
        rows.into()
    }

    /// Builds document O4: by workload.
    pub fn by_workload(&mut self) -> Value {
        let mut rows = Vec::new();
        for workload in Workload::ALL {
            let code = workload.code();
            let calls = self.tell(&|c| matches!(c, Class::Call(_, w) if w == code), false);
            if calls["calls"] == 0 {
                continue;
            }
            let groups = self.tell(&|c| matches!(c, Class::Group(_, w) if w == code), false);
            rows.push(json!({"workload": workload.name(), "individual": calls, "group": groups}));
        }
        rows.into()
    }

    /// Builds document O5: by group size and workload.
    pub fn by_size_and_workload(&mut self) -> Value {
        let mut rows = Vec::new();
        for size in self.counted.sizes() {
            for workload in Workload::ALL {
                let code = workload.code();
                let calls = self.tell(&|class| class == Class::Call(size, code), false);
                if calls["calls"] == 0 {
                    continue;
                }
                let groups = self.tell(&|class| class == Class::Group(size, code), false);
                rows.push(json!({
                    "group_size": size,
                    "workload": workload.name(),
                    "individual": calls,
                    "group": groups,
                }));
            }
        }
        rows.into()
    }

    /// For each group size: the T at which more than s members are later than T in a fraction eps
    /// of the sessions at most; and s, given T.
    pub fn s_and_t(&mut self) -> Value {
        let mut rows = Vec::new();
        let points = self.points.ns.clone();
        for size in self.counted.sizes().into_iter().filter(|size| *size <= LATE_SIZE_MAX) {
            let mut t_of_s = Vec::new();
            let mut late: Vec<(u64, Vec<u64>)> = Vec::new();
            for s in 0..size {
                let found = self.with(&|class| class == Class::Last(size, s), |counts, exact| {
                    let t_ns = EPS_PPM.map(|eps| exact.all(1_000_000 - eps));
                    (counts.all(), counts.at_most(), t_ns)
                });
                let (sessions, mut at_most, t_ns) = found;
                at_most.resize(points.len(), 0);
                late.push((sessions, at_most));
                for (eps, t_ns) in EPS_PPM.iter().zip(t_ns) {
                    t_of_s.push(json!({"s": s, "eps_ppm": eps, "t_ns": latency(t_ns)}));
                }
            }
            let Some((sessions, _)) = late.first().filter(|(sessions, _)| *sessions > 0) else {
                continue;
            };
            let s_of_t: Vec<Value> =
                EPS_PPM.iter().map(|eps| steps(*eps, &points, &late)).collect();
            rows.push(json!({
                "group_size": size,
                "sessions": sessions,
                "t_of_s": t_of_s,
                "s_of_t": s_of_t,
            }));
        }
        rows.into()
    }
}

/// Least s at each point, as steps: each T at which s changes.
fn steps(eps_ppm: u32, points: &[u64], late: &[(u64, Vec<u64>)]) -> Value {
    let least = |point: usize| {
        // More than s members are late if the (s + 1)-th slowest is.
        let few = late.iter().position(|(sessions, at_most)| {
            let later = u128::from(sessions - at_most[point]);
            later * 1_000_000 <= u128::from(eps_ppm) * u128::from(*sessions)
        });
        few.unwrap_or(late.len())
    };
    let mut found: Vec<Value> = Vec::new();
    let mut last = None;
    for (point, t_ns) in points.iter().enumerate() {
        let s = least(point);
        if last != Some(s) {
            found.push(json!({"from_t_ns": t_ns, "s": s}));
            last = Some(s);
        }
    }
    json!({"eps_ppm": eps_ppm, "steps": found})
}

/// Latency in a document: `null` is a call without reply, or the absence of calls.
pub fn latency(latency_ns: Option<u64>) -> Value {
    latency_ns.filter(|latency_ns| *latency_ns != NEVER).map_or(Value::Null, Value::from)
}

/// Name of a quantile: `p50`, `p99`, `p99_9`.
pub fn quantile_name(ppm: u32) -> String {
    let (percent, rest) = (ppm / 10_000, ppm % 10_000);
    if rest == 0 {
        return format!("p{percent}");
    }
    format!("p{percent}_{}", format!("{rest:04}").trim_end_matches('0'))
}

fn tail_document(ranks: u64, tail: &[(u64, u64)]) -> Value {
    let mut listed = 0;
    let longest = tail.iter().rev().take_while(|(_, count)| {
        listed += count;
        listed <= TAIL_LISTED
    });
    let mut values: Vec<(u64, u64)> = longest.copied().collect();
    values.reverse();
    let listed: u64 = values.iter().map(|(_, count)| count).sum();
    json!({
        "ranks": ranks,
        "listed": listed,
        "ns": values.iter().map(|(value, _)| value).collect::<Vec<_>>(),
        "times": values.iter().map(|(_, times)| times).collect::<Vec<_>>(),
    })
}
