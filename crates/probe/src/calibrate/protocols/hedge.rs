//! Hedged requests: the delay before a second replica is asked, and the best leader.
//!
//! A request that has taken longer than the p95 of its pair is sent to another replica as well: at
//! most one in twenty is then sent twice. The p95 is taken over ten minutes, because a pair is slow
//! for a while and not on average; the second replica is the one that most probably answers within
//! the budget. A leader commits with the first followers that make a majority with it, so the best
//! leader is the one for which the last of these answers soonest, with writes that are synced.

use crate::calibrate::round::{DISK, Group, Round};
use crate::calibrate::tail::{LOST, Recorder, Tail};
use crate::calibrate::{Evidence, ms};
use serde::Serialize;
use std::collections::BTreeMap;

/// Time span of the samples that determine a hedge delay, in nanoseconds.
const WINDOW_NS: i64 = 600_000_000_000;

const QUANTILE: f64 = 0.95;

/// Minimum number of samples for a window's p95.
const WINDOW_SAMPLES_MIN: u64 = 20;

/// Number of samples of a window of ten minutes, so that its quantiles are exact.
const KEEP: usize = 1_024;
const KEEP_OF_COMMITS: usize = 65_536;

/// Collects rounds in the order of time.
#[derive(Clone, Debug)]
pub struct Hedges {
    pairs: BTreeMap<(u16, u16), Pair>,
    leaders: BTreeMap<Group, BTreeMap<u16, Recorder>>,
    commits: Recorder,
}

#[derive(Clone, Debug)]
struct Pair {
    all: Recorder,
    window: i64,
    now: Recorder,
    /// Values of p95 of every window.
    delays: Recorder,
    last_ns: u64,
}

/// Collected measurements.
#[derive(Debug)]
pub struct Measured {
    pairs: BTreeMap<(u16, u16), (Tail, Tail, u64)>,
    leaders: BTreeMap<Group, BTreeMap<u16, Tail>>,
    /// Distribution of the time to commit a synced write with a majority, over all leaders.
    pub commits: Tail,
}

impl Default for Hedges {
    fn default() -> Self {
        let commits = Recorder::new(KEEP_OF_COMMITS);
        Self { pairs: BTreeMap::new(), leaders: BTreeMap::new(), commits }
    }
}

impl Pair {
    fn new(window: i64) -> Self {
        Self {
            all: Recorder::new(KEEP),
            window,
            now: Recorder::new(KEEP),
            delays: Recorder::new(KEEP),
            last_ns: LOST,
        }
    }

    fn close(&mut self) {
        let done = std::mem::replace(&mut self.now, Recorder::new(KEEP)).finish();
        if done.count() >= WINDOW_SAMPLES_MIN
            && let Some(delay) = done.quantile(QUANTILE)
        {
            self.delays.record(delay.ns);
            self.last_ns = delay.ns;
        }
    }
}

impl Hedges {
    /// Adds a round.
    pub fn observe(&mut self, round: &Round) {
        let window = round.at_ns.div_euclid(WINDOW_NS);
        for edge in round.others() {
            let pair = self.pairs.entry((round.from, edge.to)).or_insert_with(|| Pair::new(window));
            if pair.window != window {
                pair.close();
                pair.window = window;
            }
            pair.now.record(edge.latency_ns);
            pair.all.record(edge.latency_ns);
        }
        if round.workload == DISK && !round.edges.is_empty() {
            // The leader's own log is one of the majority.
            let followers = usize::from(round.size) / 2;
            let commit_ns = if followers == 0 { 0 } else { round.fastest_other_ns(followers) };
            self.commits.record(commit_ns);
            // Recommendations concern the current groups.
            self.leaders.retain(|group, _| group.epoch + 1 >= round.group.epoch);
            let leaders = self.leaders.entry(round.group).or_default();
            let mine = leaders.entry(round.from).or_insert_with(|| Recorder::new(KEEP));
            mine.record(commit_ns);
        }
    }

    /// Returns the measurements.
    pub fn finish(self) -> Measured {
        let last = self.leaders.keys().map(|group| group.epoch).max();
        let finish = |(pair, mut of): ((u16, u16), Pair)| {
            of.close();
            (pair, (of.all.finish(), of.delays.finish(), of.last_ns))
        };
        let tails = |of: BTreeMap<u16, Recorder>| {
            of.into_iter().map(|(node, law)| (node, law.finish())).collect()
        };
        let leaders = self.leaders.into_iter().filter(|(group, _)| Some(group.epoch) == last);
        Measured {
            pairs: self.pairs.into_iter().map(finish).collect(),
            leaders: leaders.map(|(group, of)| (group, tails(of))).collect(),
            commits: self.commits.finish(),
        }
    }
}

/// Advice for one pair.
#[derive(Clone, Debug, Serialize)]
pub struct Delay {
    /// The caller.
    pub from: u16,
    /// First callee.
    pub to: u16,
    /// Delay after which another replica is asked: the p95 of the last ten minutes with enough
    /// samples.
    pub hedge_after_ms: Option<f64>,
    /// Median of the delays over all windows of ten minutes.
    pub typical_ms: Option<f64>,
    /// Maximum of the delays.
    pub most_ms: Option<f64>,
    /// Second callee: of all that the caller has called, the likeliest to answer within the budget.
    pub second: Option<u16>,
    /// Probability of that.
    pub second_within_budget: Option<f64>,
    /// Samples of the pair.
    pub evidence: Evidence,
}

/// A member of a group as its leader.
#[derive(Clone, Debug, Serialize)]
pub struct Leader {
    /// Number of the group in the last epoch.
    pub group: u16,
    /// Member of the group.
    pub node: u16,
    /// Median of the time until a majority has a synced write.
    pub commit_p50_ms: Option<f64>,
    /// 99th percentile of that time.
    pub commit_p99_ms: Option<f64>,
    /// Whether it has the smallest p99 of its group.
    pub preferred: bool,
    /// Rounds with synced writes.
    pub evidence: Evidence,
}

/// Findings on hedging and leaders.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Time after which a reply is too late.
    pub budget_ms: f64,
    /// Delays by pair.
    pub delays: Vec<Delay>,
    /// Leaders by group of the last epoch.
    pub leaders: Vec<Leader>,
}

/// Computes delays for all pairs, and the best leaders. The budget is in nanoseconds; by default it
/// is the median of the p95 of all pairs.
pub fn report(measured: &Measured, budget_ns: Option<u64>) -> Report {
    let budget_ns = budget_ns.unwrap_or_else(|| {
        let of_pairs = measured.pairs.values().filter_map(|(all, ..)| all.quantile(QUANTILE));
        let law: Tail = of_pairs.map(|found| found.ns).collect();
        law.quantile(0.5).map_or(0, |found| found.ns)
    });
    let delays = measured.pairs.iter().map(|((from, to), (all, delays, last_ns))| {
        let second = second(measured, *from, *to, budget_ns);
        let of = |p: f64| delays.quantile(p).and_then(|found| ms(found.ns));
        Delay {
            from: *from,
            to: *to,
            hedge_after_ms: ms(*last_ns),
            typical_ms: of(0.5),
            most_ms: of(1.0),
            second: second.map(|(node, _)| node),
            second_within_budget: second.map(|(_, p)| p),
            evidence: Evidence::counted(all.count()),
        }
    });
    let leaders = measured.leaders.iter().flat_map(|(group, of)| leaders(group.number, of));
    Report {
        budget_ms: ms(budget_ns).unwrap_or(f64::MAX),
        delays: delays.collect(),
        leaders: leaders.collect(),
    }
}

/// Callee among the others that is likeliest to answer the same caller in time; of equals the
/// first.
fn second(measured: &Measured, from: u16, first: u16, budget_ns: u64) -> Option<(u16, f64)> {
    let others = measured.pairs.range((from, 0)..=(from, u16::MAX));
    let others = others.filter(|((_, to), _)| *to != first);
    let each = others.map(|((_, to), (all, ..))| (*to, 1.0 - all.part_above(budget_ns)));
    each.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

fn leaders(group: u16, of: &BTreeMap<u16, Tail>) -> Vec<Leader> {
    let p99 = |law: &Tail| law.quantile(0.99).map_or(LOST, |found| found.ns);
    let best = of.iter().min_by_key(|(node, law)| (p99(law), **node)).map(|(node, _)| *node);
    let leader = |(node, law): (&u16, &Tail)| Leader {
        group,
        node: *node,
        commit_p50_ms: law.quantile(0.5).and_then(|found| ms(found.ns)),
        commit_p99_ms: ms(p99(law)),
        preferred: Some(*node) == best,
        evidence: Evidence::counted(law.count()),
    };
    of.iter().map(leader).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::round::made::round;

    const MS: u64 = 1_000_000;

    /// Node 2 is far from all others; node 1 has ten bad minutes in which one reply in ten is slow.
    fn three() -> Measured {
        let mut hedges = Hedges::default();
        for second in 0..3_000 {
            let bad = (600..1_200).contains(&second) && second % 10 == 3;
            let one = if bad { 200 * MS } else { 2 * MS };
            hedges.observe(&round(second, 0, &[MS, one, 30 * MS]));
            hedges.observe(&round(second, 1, &[2 * MS, MS, 40 * MS]));
            hedges.observe(&round(second, 2, &[30 * MS, 40 * MS, MS]));
        }
        hedges.finish()
    }

    #[test]
    fn a_pair_is_hedged_by_its_last_ten_minutes() {
        let found = report(&three(), Some(31 * MS));
        let pair = found.delays.iter().find(|one| (one.from, one.to) == (0, 1)).unwrap();
        assert_eq!(pair.hedge_after_ms, Some(2.0));
        assert_eq!((pair.typical_ms, pair.most_ms), (Some(2.0), Some(200.0)));
        // The other replica answers within the budget of 30 ms, too.
        assert_eq!((pair.second, pair.second_within_budget), (Some(2), Some(1.0)));
        assert_eq!(report(&three(), None).budget_ms, 30.0);
        let hasty = report(&three(), Some(5 * MS));
        assert_eq!(hasty.delays[0].second_within_budget, Some(0.0));
        assert_eq!(hasty.delays[0].evidence.count, 3_000);
    }

    #[test]
    fn the_leader_is_the_member_that_reaches_a_majority_soonest() {
        let measured = three();
        assert_eq!(measured.commits.count(), 1_800);
        let leaders = report(&measured, None).leaders;
        let p50: Vec<f64> = leaders.iter().map(|one| one.commit_p50_ms.unwrap()).collect();
        // Two of three logs are enough: the leader's own and the nearer follower's.
        assert_eq!(p50, [2.0, 2.0, 30.0]);
        assert_eq!(leaders.iter().filter(|one| one.preferred).count(), 1);
        assert!(!leaders[2].preferred);
    }
}
