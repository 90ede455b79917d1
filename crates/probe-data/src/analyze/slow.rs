//! O7 to O10: slow nodes, the observers that see them, and the observers' agreement.
//!
//! A callee is slow to an observer on a day if its p90 is at least twice the least p90 that the
//! same observer saw in the same group on that day. Four variants differ in the compared values.

use super::latency::latency;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Quantiles of O10; the second is that of O7.
pub const QUANTILES_PPM: [u32; 3] = [500_000, 900_000, 990_000];
const P90: usize = 1;
/// Factors of O10; the second is that of O7.
pub const FACTORS: [f64; 4] = [1.5, 2.0, 3.0, 4.0];
const TWICE: f64 = 2.0;

/// Observations of one callee by one observer on one day.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The callee.
    pub dst: u16,
    /// Number of calls that count.
    pub calls: u64,
    /// Quantiles of latency, in the order of [`QUANTILES_PPM`]; a call without reply is `u64::MAX`.
    pub latency_ns: [u64; 3],
    /// Quantiles of the callee's own delay over calls with a reply; `None` without any.
    pub service_ns: Option<[u64; 3]>,
}

/// Observations of a group by one observer on one day.
#[derive(Clone, Debug)]
pub struct ObserverDay {
    /// Day, counted since 1970.
    pub day: i64,
    /// The group.
    pub group: u16,
    /// Number of members of the group.
    pub size: u8,
    /// The observer.
    pub observer: u16,
    /// Observations by callee.
    pub seen: Vec<Seen>,
}

/// Variant of the compared values.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Variant {
    /// Definition of the paper: the observer itself is included in the comparison.
    Seed,
    /// Remote nodes only, without the observer itself.
    Remote,
    /// Remote nodes only, with the callee's own delay instead of latency.
    Service,
    /// Remote nodes only, and slower by a margin: the default for acting on the result.
    Action,
}

impl Variant {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::Seed, Self::Remote, Self::Service, Self::Action];

    /// Name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Remote => "remote",
            Self::Service => "service",
            Self::Action => "action",
        }
    }
}

/// Criterion of slow nodes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Variant of the compared values.
    pub variant: Variant,
    /// Quantile, by its index in [`QUANTILES_PPM`].
    pub quantile: usize,
    /// Factor above the least value.
    pub factor: f64,
    /// Margin of [`Variant::Action`].
    pub floor_ns: u64,
}

impl Rule {
    /// Criterion of O7.
    pub const fn plain(variant: Variant, floor_ns: u64) -> Self {
        Self { variant, quantile: P90, factor: TWICE, floor_ns }
    }

    /// Callees that are slow to an observer, ascending.
    pub fn slow(&self, observed: &ObserverDay) -> Vec<u16> {
        let own = observed.observer;
        let compared =
            observed.seen.iter().filter(|seen| self.variant == Variant::Seed || seen.dst != own);
        let value = |seen: &Seen| match self.variant {
            Variant::Service => seen.service_ns.map(|found| found[self.quantile]),
            _ => Some(seen.latency_ns[self.quantile]),
        };
        let values: Vec<(u16, u64)> =
            compared.filter_map(|seen| Some((seen.dst, value(seen)?))).collect();
        let Some(least) = values.iter().map(|(_, value)| *value).min() else { return Vec::new() };
        let slow = values.iter().filter(|(_, value)| {
            is_slow(*value, least, self.factor)
                && (self.variant != Variant::Action || value - least >= self.floor_ns)
        });
        slow.map(|(dst, _)| *dst).collect()
    }
}

/// Whether a value is at least the factor times the least. Calls without reply are longer than any
/// with one, and not longer than each other.
pub fn is_slow(value: u64, least: u64, factor: f64) -> bool {
    if value == u64::MAX || least == u64::MAX {
        return value > least;
    }
    // Factors are multiples of one half: whole numbers avoid rounding.
    u128::from(value) * 2 >= u128::from(least) * ((factor * 2.0) as u128)
}

/// Slow sets of all observers, by day, group and observer.
type Sets = BTreeMap<(i64, u16, u16), (u8, Vec<u16>)>;

fn sets(days: &[ObserverDay], rule: &Rule) -> Sets {
    let sets =
        days.iter().map(|day| ((day.day, day.group, day.observer), (day.size, rule.slow(day))));
    sets.collect()
}

/// Builds document O7.
pub fn slow_nodes(days: &[ObserverDay], floor_ns: u64, names: &[String]) -> Value {
    let mut variants = serde_json::Map::new();
    for variant in Variant::ALL {
        let sets = sets(days, &Rule::plain(variant, floor_ns));
        let mut nodes: BTreeMap<u16, u64> = BTreeMap::new();
        sets.values()
            .flat_map(|(_, slow)| slow)
            .for_each(|node| *nodes.entry(*node).or_default() += 1);
        let mut asked: BTreeMap<u16, u64> = BTreeMap::new();
        for day in days {
            for seen in &day.seen {
                if variant == Variant::Seed || seen.dst != day.observer {
                    *asked.entry(seen.dst).or_default() += 1;
                }
            }
        }
        let told = |(node, slow): (&u16, &u64)| {
            json!({
                "node": node,
                "name": names.get(usize::from(*node)),
                "slow_observations": slow,
                "observations": asked.get(node).copied().unwrap_or_default(),
            })
        };
        let nodes: Vec<Value> = nodes.iter().map(told).collect();
        let found = sets.iter().filter(|(_, (_, slow))| !slow.is_empty());
        let found: Vec<Value> = found.map(|((day, group, observer), (_, slow))| {
            json!({"day": day, "group": group, "observer": observer, "slow": slow})
        }).collect();
        let observations: usize = sets.values().map(|(_, slow)| slow.len()).sum();
        variants.insert(
            variant.name().into(),
            json!({
                "observer_days": sets.len(),
                "slow_observations": observations,
                "nodes": nodes,
                "sets": found,
            }),
        );
    }
    variants.into()
}

/// Observations of every callee by every observer on every day.
pub fn observations(days: &[ObserverDay]) -> Value {
    let mut rows = Vec::new();
    for day in days {
        for seen in &day.seen {
            let [p50_ns, p90_ns, p99_ns] = seen.latency_ns.map(|ns| latency(Some(ns)));
            rows.push(json!([
                day.day,
                day.group,
                day.observer,
                seen.dst,
                seen.calls,
                p50_ns,
                p90_ns,
                p99_ns,
                seen.service_ns.map(|found| found[P90]),
            ]));
        }
    }
    let columns = [
        "day",
        "group",
        "observer",
        "callee",
        "calls",
        "p50_ns",
        "p90_ns",
        "p99_ns",
        "service_p90_ns",
    ];
    json!({"columns": columns, "rows": rows})
}

/// Number of slow callees per observer and day, in groups of one size.
fn histogram(sets: &Sets, size: u8) -> Value {
    let mut counts = vec![0_u64; usize::from(size) + 1];
    for (_, slow) in sets.values().filter(|(found, _)| *found == size) {
        counts[slow.len().min(usize::from(size))] += 1;
    }
    let all: u64 = counts.iter().sum();
    let share: Vec<f64> = counts.iter().map(|count| *count as f64 / all.max(1) as f64).collect();
    json!({"group_size": size, "observer_days": all, "counts": counts, "share": share})
}

/// Number of common members and of all members of two ascending sets that are not both empty.
pub fn jaccard(a: &[u16], b: &[u16]) -> (u64, u64) {
    let common = a.iter().filter(|node| b.contains(node)).count();
    (common as u64, (a.len() + b.len() - common) as u64)
}

/// Observers, and the callees that each sees as slow.
type Observed<'a> = Vec<(u16, &'a [u16])>;

/// Similarity of the sets of two observers of a group.
fn agreement(sets: &Sets, variant: Variant) -> Value {
    let mut groups: BTreeMap<(i64, u16), Observed<'_>> = BTreeMap::new();
    for ((day, group, observer), (_, slow)) in sets {
        groups.entry((*day, *group)).or_default().push((*observer, slow));
    }
    let mut bins = [0_u64; 10];
    let (mut pairs, mut same, mut sum) = (0_u64, 0_u64, 0.0);
    for observers in groups.values() {
        for (at, (a, set_a)) in observers.iter().enumerate() {
            for (b, set_b) in &observers[at + 1..] {
                let without = |set: &[u16], other: u16| -> Vec<u16> {
                    let kept =
                        set.iter().filter(|node| variant == Variant::Seed || **node != other);
                    kept.copied().collect()
                };
                let (set_a, set_b) = (without(set_a, *b), without(set_b, *a));
                if set_a.is_empty() || set_b.is_empty() {
                    continue;
                }
                let (common, all) = jaccard(&set_a, &set_b);
                pairs += 1;
                same += u64::from(common == all);
                bins[(common * 10 / all).min(9) as usize] += 1;
                sum += common as f64 / all as f64;
            }
        }
    }
    let share =
        |count: u64| if pairs == 0 { Value::Null } else { json!(count as f64 / pairs as f64) };
    json!({
        "pairs": pairs,
        "histogram": bins,
        "identical": same,
        "identical_share": share(same),
        "mean": if pairs == 0 { Value::Null } else { json!(sum / pairs as f64) },
    })
}

/// Builds document O8.
pub fn slow_histogram(days: &[ObserverDay], floor_ns: u64, size: u8) -> Value {
    per_variant(|variant| histogram(&sets(days, &Rule::plain(variant, floor_ns)), size))
}

/// Builds document O9.
pub fn agreements(days: &[ObserverDay], floor_ns: u64) -> Value {
    per_variant(|variant| agreement(&sets(days, &Rule::plain(variant, floor_ns)), variant))
}

/// Builds document O10.
pub fn sensitivity(days: &[ObserverDay], floor_ns: u64, size: u8) -> Value {
    let mut rows = Vec::new();
    for variant in Variant::ALL {
        for factor in FACTORS {
            for (quantile, ppm) in QUANTILES_PPM.iter().enumerate() {
                let sets = sets(days, &Rule { variant, quantile, factor, floor_ns });
                let observations: usize = sets.values().map(|(_, slow)| slow.len()).sum();
                rows.push(json!({
                    "variant": variant.name(),
                    "factor": factor,
                    "quantile_ppm": ppm,
                    "slow_observations": observations,
                    "slow_histogram": histogram(&sets, size),
                    "jaccard": agreement(&sets, variant),
                }));
            }
        }
    }
    rows.into()
}

fn per_variant(tell: impl Fn(Variant) -> Value) -> Value {
    let pairs = Variant::ALL.map(|variant| (variant.name().to_owned(), tell(variant)));
    Value::Object(pairs.into_iter().collect())
}

/// Accuracy of a criterion for nodes that are known to be slow.
pub fn compare(days: &[ObserverDay], rule: &Rule, slow: &[u16]) -> Value {
    let (mut hits, mut missed, mut wrong) = (0_u64, 0_u64, 0_u64);
    for day in days {
        let found = rule.slow(day);
        let others = day.seen.iter().filter(|seen| seen.dst != day.observer);
        // Without a fast node in comparison, no node can be identified as slow.
        let base = others.clone().any(|seen| !slow.contains(&seen.dst));
        for seen in others {
            let truly = slow.contains(&seen.dst) && base;
            match (truly, found.contains(&seen.dst)) {
                (true, true) => hits += 1,
                (true, false) => missed += 1,
                (false, true) => wrong += 1,
                (false, false) => {}
            }
        }
    }
    let part = |of: u64, all: u64| if all == 0 { 1.0 } else { of as f64 / all as f64 };
    json!({
        "recall": part(hits, hits + missed),
        "precision": part(hits, hits + wrong),
        "hits": hits,
        "missed": missed,
        "false": wrong,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn day(observer: u16, latencies_ms: &[u64]) -> ObserverDay {
        let seen = (0..).zip(latencies_ms).map(|(dst, ms)| Seen {
            dst,
            calls: 10,
            latency_ns: [*ms * 1_000_000; 3],
            service_ns: Some([*ms * 500_000; 3]),
        });
        ObserverDay {
            day: 1,
            group: 0,
            size: latencies_ms.len() as u8,
            observer,
            seen: seen.collect(),
        }
    }

    #[test]
    fn a_cheap_call_to_oneself_makes_all_nodes_slow_in_the_seed_variant() {
        let seen = day(0, &[1, 4, 5, 12]);
        let slow = |variant| Rule::plain(variant, 1_000_000).slow(&seen);
        assert_eq!(slow(Variant::Seed), [1, 2, 3]);
        assert_eq!(slow(Variant::Remote), [3]);
        assert_eq!(slow(Variant::Service), [3]);
        let seen = day(0, &[1, 4, 8, 9]);
        assert_eq!(Rule::plain(Variant::Action, 4_500_000).slow(&seen), [3]);
        assert_eq!(Rule::plain(Variant::Remote, 4_500_000).slow(&seen), [2, 3]);
    }

    #[test]
    fn silence_is_slow_beside_an_answer_only() {
        assert!(is_slow(u64::MAX, 5, 2.0));
        assert!(!is_slow(u64::MAX, u64::MAX, 2.0));
        assert!(is_slow(3, 2, 1.5) && !is_slow(2, 2, 1.5));
    }

    proptest! {
        #[test]
        fn jaccard_is_symmetric(a: std::collections::BTreeSet<u16>, b: std::collections::BTreeSet<u16>) {
            let (a, b): (Vec<u16>, Vec<u16>) = (a.into_iter().collect(), b.into_iter().collect());
            prop_assume!(!a.is_empty() && !b.is_empty());
            prop_assert_eq!(jaccard(&a, &b), jaccard(&b, &a));
            prop_assert_eq!(jaccard(&a, &a).0, a.len() as u64);
        }

        #[test]
        fn a_larger_factor_finds_fewer(latencies in proptest::collection::vec(1_u64..100, 3..9)) {
            let seen = day(0, &latencies);
            let rule = |factor| {
                Rule { variant: Variant::Remote, quantile: 1, factor, floor_ns: 0 }
            };
            let found = FACTORS.map(|factor| rule(factor).slow(&seen).len());
            prop_assert!(found.is_sorted_by(|a, b| a >= b), "{:?}", found);
        }
    }
}
