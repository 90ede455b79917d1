//! Visigoth's parameters: number of replies missing at a time-out, and the replicas needed for
//! that.
//!
//! The model lies between synchrony and asynchrony: in all but a fraction eps of the rounds at most
//! s members are slower than T. A larger T gives a smaller s, and a smaller s needs fewer replicas:
//! with f crashes n = f + min(f, s) + 1.
//!
//! For every round the (s + 1)-th slowest reply is kept, for each s: the number of slow members is
//! above s exactly if that reply is later than T. So both s(T, eps) and its inverse T(s, eps) are
//! quantiles of the same distributions, exact in their tails.
//!
//! This is advice about how synchronous a cluster is. A quorum of this store stays a majority,
//! whatever the result.

use crate::calibrate::gamma::Windows;
use crate::calibrate::round::Round;
use crate::calibrate::suspicion::levels_ns;
use crate::calibrate::tail::{LOST, Recorder, Tail};
use crate::calibrate::{Evidence, Needs, ms};
use serde::Serialize;
use std::collections::BTreeMap;

/// Number of largest values of each distribution that are kept exactly.
const KEEP: usize = 65_536;

/// Factor in T below which the next step is worth its cost.
const WORTH: f64 = 1.5;

/// Collects rounds, by the size of the group.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    /// Distribution of the (s + 1)-th slowest reply, by size and s.
    slowest: BTreeMap<u8, Vec<Recorder>>,
}

/// Completed distributions of the (s + 1)-th slowest reply.
#[derive(Debug)]
pub struct Slowest {
    laws: BTreeMap<u8, Vec<Tail>>,
}

impl Replies {
    /// Adds a round.
    pub fn observe(&mut self, round: &Round) {
        if round.edges.is_empty() {
            return;
        }
        let laws = self
            .slowest
            .entry(round.size)
            .or_insert_with(|| (0..round.size).map(|_| Recorder::new(KEEP)).collect());
        let mut latencies: Vec<u64> = round.edges.iter().map(|edge| edge.latency_ns).collect();
        latencies.sort_unstable_by(|a, b| b.cmp(a));
        // Members that are down do not count as slow.
        latencies.resize(usize::from(round.size), 0);
        laws.iter_mut().zip(latencies).for_each(|(law, ns)| law.record(ns));
    }

    /// Returns the distributions of the added rounds.
    pub fn finish(self) -> Slowest {
        let finish = |(size, laws): (u8, Vec<Recorder>)| {
            (size, laws.into_iter().map(Recorder::finish).collect())
        };
        Slowest { laws: self.slowest.into_iter().map(finish).collect() }
    }
}

impl Slowest {
    /// Group sizes in the data.
    pub fn sizes(&self) -> Vec<u8> {
        self.laws.keys().copied().collect()
    }

    /// s(T, eps): the least s that is exceeded in at most a fraction `risk` of the rounds.
    pub fn slow(&self, size: u8, timeout_ns: u64, risk: f64) -> Option<u8> {
        let laws = self.laws.get(&size)?;
        let allowed = allowed(laws.first()?.count(), risk);
        let fits = |law: &Tail| law.above(timeout_ns) <= allowed;
        Some(laws.iter().position(fits).unwrap_or(laws.len()) as u8)
    }

    /// T(s, eps): the time-out with which at most `slow` members are slower in all but a fraction
    /// `risk` of the rounds. [`LOST`] if no time-out suffices.
    pub fn timeout_ns(&self, size: u8, slow: u8, risk: f64) -> Option<u64> {
        let laws = self.laws.get(&size)?;
        let Some(law) = laws.get(usize::from(slow)) else { return Some(0) };
        law.with_at_most_above(allowed(law.count(), risk)).map(|found| found.ns)
    }

    fn law(&self, size: u8, slow: u8) -> Option<&Tail> {
        self.laws.get(&size)?.get(usize::from(slow))
    }
}

/// Number of `count` values that may be beyond the (1 - risk)-quantile by nearest rank.
fn allowed(count: u64, risk: f64) -> u64 {
    (risk * count as f64 + 1e-9).floor() as u64
}

/// Faults to tolerate, and the accepted risk.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Wanted {
    /// Crashes; `None` for those of a minority.
    pub crashes: Option<u8>,
    /// Arbitrary faults, independent of each other.
    pub arbitrary: u8,
    /// Fraction of the rounds that may have more slow members.
    pub risk: f64,
    /// Time between two rounds of a caller.
    pub period_ns: u64,
}

/// One row of the table over T.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// Time-out.
    pub timeout_ms: f64,
    /// Members that may be slower.
    pub slow: u8,
    /// Replicas for the required crashes: f + min(f, s) + 1.
    pub replicas: u8,
    /// Replicas if as many may be faulty, some of them arbitrarily: u + min(u, s) + o + 1.
    pub replicas_arbitrary: u8,
    /// Mean time that a round loses by waiting for all but s members.
    pub expected_stall_ms: f64,
    /// Maximum time until a crash is detected: the time until the next round, and the time-out.
    pub detection_ms: f64,
}

/// Findings on groups of one size.
#[derive(Clone, Debug, Serialize)]
pub struct OfSize {
    /// Number of members.
    pub size: u8,
    /// Crashes to tolerate.
    pub crashes: u8,
    /// T for each s, from 0 on, by rounds.
    pub timeouts: Vec<Inverse>,
    /// T for each s by whole windows: members that were slow in any round of the window.
    pub window_timeouts: Vec<Inverse>,
    /// Table over T, one row for every change of s.
    pub table: Vec<Choice>,
    /// Values of s over the grid of time-outs, by rounds and by windows.
    pub curve: Vec<Point>,
    /// Recommended time-out; `None` if replies were lost too often for any.
    pub recommended: Option<Choice>,
    /// Evidence, with the interval of the quantile by order statistics.
    pub evidence: Evidence,
    /// Number of rounds in which one failure would be visible.
    pub needs: Needs,
}

/// Time-out for a given s.
#[derive(Clone, Debug, Serialize)]
pub struct Inverse {
    /// Members that may be slower.
    pub slow: u8,
    /// Time-out; `None` if no time-out suffices.
    pub timeout_ms: Option<f64>,
}

/// Values of s at a time-out.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Time-out.
    pub timeout_ms: f64,
    /// Slow members by rounds.
    pub slow: u8,
    /// Slow members by windows.
    pub slow_in_window: u8,
}

/// Replicas needed for `crashes`, if at most `slow` members are late.
pub fn replicas(crashes: u8, slow: u8) -> u8 {
    crashes + crashes.min(slow) + 1
}

/// Computes the table for groups of each size. `windows` are of the same rounds.
pub fn choices(slowest: &Slowest, windows: &Windows, wanted: &Wanted) -> Vec<OfSize> {
    let sizes = slowest.sizes().into_iter();
    sizes.filter_map(|size| of_size(slowest, windows, wanted, size)).collect()
}

fn of_size(slowest: &Slowest, windows: &Windows, wanted: &Wanted, size: u8) -> Option<OfSize> {
    let crashes = wanted.crashes.unwrap_or((size - 1) / 2);
    let risk = wanted.risk;
    let timeouts_ns: Vec<u64> =
        (0..size).filter_map(|slow| slowest.timeout_ns(size, slow, risk)).collect();
    let by_window = window_laws(windows, size);
    let window_allowed = allowed(by_window.first().map_or(0, Tail::count), risk);
    let window_slow = |timeout_ns: u64| {
        let fits = |law: &Tail| law.above(timeout_ns) <= window_allowed;
        by_window.iter().position(fits).unwrap_or(by_window.len()) as u8
    };
    let mut table = Vec::new();
    for slow in (0..size).rev() {
        let timeout_ns = timeouts_ns[usize::from(slow)];
        let cheaper = slow > 0 && timeouts_ns[usize::from(slow) - 1] == timeout_ns;
        if timeout_ns != LOST && timeout_ns > 0 && !cheaper {
            table.push(choice(slowest, wanted, size, crashes, slow, timeout_ns)?);
        }
    }
    let curve = levels_ns().into_iter().filter_map(|timeout_ns| {
        Some(Point {
            timeout_ms: timeout_ns as f64 / 1e6,
            slow: slowest.slow(size, timeout_ns, risk)?,
            slow_in_window: window_slow(timeout_ns),
        })
    });
    let inverse = |(ns, slow)| Inverse { slow, timeout_ms: ms(ns) };
    let window_timeouts = by_window
        .iter()
        .map(|law| law.with_at_most_above(window_allowed).map_or(LOST, |found| found.ns));
    let recommended = recommended(&table, crashes).cloned();
    let law = recommended.as_ref().and_then(|found| slowest.law(size, found.slow));
    let rounds = law.map_or(0, Tail::count) as f64;
    Some(OfSize {
        size,
        crashes,
        needs: Needs::of(1.0 / risk, rounds, "rounds"),
        timeouts: timeouts_ns.into_iter().zip(0..).map(inverse).collect(),
        window_timeouts: window_timeouts.zip(0..).map(inverse).collect(),
        curve: curve.collect(),
        evidence: law.map_or(Evidence::counted(0), |law| evidence(law, risk)),
        table,
        recommended,
    })
}

/// Distribution of the (s + 1)-th slowest callee of every observer and window, for each s.
fn window_laws(windows: &Windows, size: u8) -> Vec<Tail> {
    let mut laws: Vec<Recorder> = (0..size).map(|_| Recorder::new(KEEP)).collect();
    for worst in windows.all().filter(|worst| worst.size == size) {
        for observer in worst.observers() {
            let mine = worst.by_pair.range((observer, 0)..=(observer, u16::MAX));
            let mut latencies: Vec<u64> = mine.map(|(_, ns)| *ns).collect();
            latencies.sort_unstable_by(|a, b| b.cmp(a));
            latencies.resize(usize::from(size), 0);
            laws.iter_mut().zip(latencies).for_each(|(law, ns)| law.record(ns));
        }
    }
    laws.into_iter().map(Recorder::finish).collect()
}

fn choice(
    slowest: &Slowest,
    wanted: &Wanted,
    size: u8,
    crashes: u8,
    slow: u8,
    timeout_ns: u64,
) -> Option<Choice> {
    let law = slowest.law(size, slow)?;
    let any_slow = slowest.law(size, 0)?.part_above(timeout_ns);
    let median_ns = law.quantile(0.5)?.ns.min(timeout_ns) as f64;
    let stall_ns = any_slow * (law.mean_capped_ns(timeout_ns) - median_ns);
    Some(Choice {
        timeout_ms: ms(timeout_ns)?,
        slow,
        replicas: replicas(crashes, slow),
        replicas_arbitrary: replicas(crashes, slow) + wanted.arbitrary,
        expected_stall_ms: stall_ns.max(0.0) / 1e6,
        detection_ms: (timeout_ns + wanted.period_ns) as f64 / 1e6,
    })
}

/// Smallest T at which n drops below that of a majority, or a later one while the next drop costs
/// little. Without any drop, the smallest T.
fn recommended(table: &[Choice], crashes: u8) -> Option<&Choice> {
    let most = replicas(crashes, crashes);
    let Some(first) = table.iter().position(|choice| choice.replicas < most) else {
        return table.iter().find(|choice| choice.slow <= crashes).or(table.last());
    };
    let mut at = first;
    while let Some(next) = table.get(at + 1) {
        let drops = next.replicas < table[at].replicas;
        if !drops || next.timeout_ms >= table[at].timeout_ms * WORTH {
            break;
        }
        at += 1;
    }
    table.get(at)
}

/// Interval of a quantile: the ranks 1.96 standard deviations around its own.
fn evidence(law: &Tail, risk: f64) -> Evidence {
    let count = law.count();
    let beyond = risk * count as f64;
    let spread = 1.96 * (beyond * (1.0 - risk)).sqrt();
    let at = |above: f64| law.with_at_most_above(above.max(0.0) as u64).and_then(|q| ms(q.ns));
    Evidence {
        low: at(beyond + spread),
        high: at(beyond - spread),
        extrapolated: beyond < 1.0,
        ..Evidence::counted(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::round::made::round;
    use crate::random::Numbers;

    const MS: u64 = 1_000_000;
    const DAY_NS: i64 = 86_400_000_000_000;

    fn wanted(risk: f64) -> Wanted {
        Wanted { crashes: None, arbitrary: 1, risk, period_ns: 1_000 * MS }
    }

    /// Five members answer in 1 ms; one of them takes 80 ms in every tenth round, two take a second
    /// in every hundredth, and in every thousandth one never answers.
    fn five(rounds: i64) -> (Slowest, Windows) {
        let (mut replies, mut windows) = (Replies::default(), Windows::new(DAY_NS));
        for second in 0..rounds {
            let latencies = match second {
                s if s % 1_000 == 0 => [MS, LOST, MS, MS, MS],
                s if s % 100 == 0 => [MS, 1_000 * MS, 1_000 * MS, MS, MS],
                s if s % 10 == 0 => [MS, MS, MS, 80 * MS, MS],
                _ => [MS; 5],
            };
            let round = round(second, 0, &latencies);
            replies.observe(&round);
            windows.observe(&round);
        }
        (replies.finish(), windows)
    }

    #[test]
    fn s_and_t_are_exact() {
        let (slowest, _) = five(10_000);
        // Of 10,000 rounds 10 lose one reply, 90 have two replies of a second, 900 have one of 80
        // ms.
        let s = |timeout_ms: u64, risk: f64| slowest.slow(5, timeout_ms * MS, risk).unwrap();
        assert_eq!((s(0, 0.5), s(1, 0.1), s(1, 0.099)), (5, 0, 1));
        assert_eq!((s(79, 0.01), s(80, 0.01), s(80, 0.009)), (1, 0, 1));
        assert_eq!((s(999, 0.0089), s(1_000, 0.001), s(1_000, 0.000_9)), (2, 0, 1));
        let t = |slow: u8, risk: f64| slowest.timeout_ns(5, slow, risk).unwrap();
        assert_eq!((t(0, 0.1), t(0, 0.05)), (MS, 80 * MS));
        assert_eq!((t(0, 0.009), t(0, 0.000_5)), (1_000 * MS, LOST));
        assert_eq!((t(1, 0.01), t(1, 0.005), t(2, 0.0)), (MS, 1_000 * MS, MS));
    }

    #[test]
    fn fewer_slow_members_take_fewer_replicas() {
        assert_eq!([0, 1, 2, 3].map(|slow| replicas(2, slow)), [3, 4, 5, 5]);
        let (slowest, windows) = five(10_000);
        let found = &choices(&slowest, &windows, &wanted(0.01))[0];
        let table: Vec<(f64, u8, u8)> =
            found.table.iter().map(|row| (row.timeout_ms, row.slow, row.replicas)).collect();
        assert_eq!(table, [(1.0, 1, 4), (80.0, 0, 3)]);
        let recommended = found.recommended.as_ref().unwrap();
        assert_eq!((recommended.timeout_ms, recommended.replicas), (1.0, 4));
        assert_eq!(recommended.replicas_arbitrary, 5);
        assert_eq!(recommended.detection_ms, 1_001.0);
        // In the only window every slow member was slow at least once.
        assert_eq!(found.window_timeouts[0].timeout_ms, None);
        assert_eq!(found.window_timeouts[1].timeout_ms, Some(1_000.0));
        assert_eq!(found.window_timeouts[2].timeout_ms, Some(80.0));
    }

    #[test]
    fn a_second_drop_that_is_cheap_is_taken() {
        let mut replies = Replies::default();
        for second in 0..100 {
            let slow = if second < 50 { [1, 1, 1, 20, 25] } else { [1, 1, 1, 1, 1] };
            replies.observe(&round(second, 0, &slow.map(|ms| ms * MS)));
        }
        let found = &choices(&replies.finish(), &Windows::new(1), &wanted(0.01))[0];
        assert_eq!(found.recommended.as_ref().unwrap().timeout_ms, 25.0);
    }

    #[test]
    fn s_never_rises_with_the_time_out_and_is_the_inverse_of_t() {
        let (mut draws, mut replies) = (Numbers::new(11), Replies::default());
        for second in 0..3_000 {
            let mut latency = || {
                if draws.below(500) == 0 { LOST } else { (1e6 / draws.unit()) as u64 }
            };
            let latencies: Vec<u64> = (0..7).map(|_| latency()).collect();
            replies.observe(&round(second, 0, &latencies));
        }
        let slowest = replies.finish();
        for risk in [0.5, 0.1, 0.01, 0.001] {
            let of = |timeout_ns| slowest.slow(7, timeout_ns, risk).unwrap();
            assert!(levels_ns().windows(2).all(|two| of(two[0]) >= of(two[1])));
            for slow in 0..7 {
                let timeout_ns = slowest.timeout_ns(7, slow, risk).unwrap();
                if timeout_ns != LOST {
                    assert!(of(timeout_ns) <= slow && of(timeout_ns - 1) > slow, "{risk} {slow}");
                }
            }
        }
    }
}
