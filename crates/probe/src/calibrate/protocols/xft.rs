//! Probability that a group is consistent and available under faults and slowness (XFT).
//!
//! XFT assumes that machine faults and a slow network do not coincide. Whether that is a good bet
//! depends on the figures. In every time slot the largest set of replicas that answer each other
//! within 2 Delta is called synchronous; t_p replicas are not. The measured distribution of t_p
//! determines the two probabilities, together with those that a replica has crashed (`crash`) or
//! behaves arbitrarily (`other`).
//!
//! For every slot the least 2 Delta with which t_p is at most j is kept, for each j, so the
//! distribution of t_p is exact for any Delta afterwards.

use crate::calibrate::numeric::choose;
use crate::calibrate::round::{Group, Round};
use crate::calibrate::tail::{LOST, Recorder, Tail};
use crate::calibrate::{Evidence, ms};
use serde::Serialize;
use std::collections::BTreeMap;

const KEEP: usize = 65_536;

/// Maximum number of periods without margin that are listed one by one.
const SPELLS_MAX: usize = 100;

/// Number of slots that are open: a slot is complete when rounds of the second slot after it
/// arrive.
const OPEN_SLOTS: usize = 2;

/// Sorts rounds, which arrive in the order of time, into slots.
#[derive(Clone, Debug)]
pub struct Slots {
    slot_ns: i64,
    /// Values of 2 Delta for which series are kept.
    deadlines_ns: Vec<u64>,
    open: BTreeMap<Group, BTreeMap<i64, Open>>,
    laws: BTreeMap<u8, Law>,
}

/// A slot of a group whose rounds are still arriving.
#[derive(Clone, Debug, Default)]
struct Open {
    size: u8,
    rtt_ns: BTreeMap<(u16, u16), u64>,
}

#[derive(Clone, Debug)]
struct Law {
    slots: u64,
    partial: u64,
    /// Least 2 Delta with which at most j replicas are not synchronous, by j.
    needed: Vec<Recorder>,
    series: Vec<Series>,
}

/// Remaining margin over time, for one 2 Delta.
#[derive(Clone, Debug, Default)]
struct Series {
    /// Number of slots by t_p.
    slow: Vec<u64>,
    spells: Vec<Spell>,
    current: BTreeMap<Group, Spell>,
}

/// A period in which a group could not tolerate one more crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spell {
    /// Number of the group in its epoch.
    pub group: u16,
    /// Beginning, in nanoseconds of wall-clock time.
    pub from_ns: i64,
    /// Number of consecutive slots.
    pub slots: u64,
    /// Maximum number of replicas that were not synchronous.
    pub slow: u8,
}

/// Least 2 Delta with which each size of clique exists: the entry k - 1 is for k replicas. `rtt_ns`
/// is the slower of the two directions of every pair.
pub fn cliques(rtt_ns: &[Vec<u64>]) -> Vec<u64> {
    let n = rtt_ns.len();
    let mut needed = vec![LOST; n];
    // The worst pair of a set is the worst of two sets that lack one member each, and of the pair
    // of these two.
    let mut worst = vec![0u64; 1 << n];
    for set in 1usize..1 << n {
        let first = set.trailing_zeros() as usize;
        let rest = set & (set - 1);
        if rest != 0 {
            let second = rest.trailing_zeros() as usize;
            worst[set] = worst[rest].max(worst[set & !(1 << second)]).max(rtt_ns[first][second]);
        }
        let size = set.count_ones() as usize;
        needed[size - 1] = needed[size - 1].min(worst[set]);
    }
    needed
}

impl Slots {
    /// Creates slots of this length, with series for these values of 2 Delta.
    pub fn new(slot_ns: i64, deadlines_ns: Vec<u64>) -> Self {
        let (open, laws) = (BTreeMap::new(), BTreeMap::new());
        Self { slot_ns: slot_ns.max(1), deadlines_ns, open, laws }
    }

    /// Adds a round.
    pub fn observe(&mut self, round: &Round) {
        let slot = round.at_ns.div_euclid(self.slot_ns);
        let open = self.open.entry(round.group).or_default();
        let now = open.entry(slot).or_default();
        now.size = round.size;
        for edge in round.others() {
            now.rtt_ns.insert((round.from, edge.to), edge.rtt_ns);
        }
        while let Some((first, _)) = open.first_key_value()
            && (open.len() > OPEN_SLOTS || *first < slot - 1)
        {
            let Some((at, done)) = open.pop_first() else { break };
            close(&mut self.laws, &self.deadlines_ns, self.slot_ns, round.group, at, &done);
        }
        // Groups of a past epoch are complete.
        if self.open.len() > 1 && self.open.keys().any(|group| group.epoch + 1 < round.group.epoch)
        {
            self.close_all(|group| group.epoch + 1 < round.group.epoch);
        }
    }

    fn close_all(&mut self, which: impl Fn(&Group) -> bool) {
        let old: Vec<Group> = self.open.keys().filter(|group| which(group)).copied().collect();
        for group in old {
            for (at, done) in self.open.remove(&group).unwrap_or_default() {
                close(&mut self.laws, &self.deadlines_ns, self.slot_ns, group, at, &done);
            }
        }
    }

    /// Returns the distributions of the added rounds.
    pub fn finish(mut self) -> Synchrony {
        self.close_all(|_| true);
        let finish = |(size, law): (u8, Law)| {
            let series = law.series.into_iter().map(Series::finish).collect();
            let needed = law.needed.into_iter().map(Recorder::finish).collect();
            (size, Measured { slots: law.slots, partial: law.partial, needed, series })
        };
        let by_size = self.laws.into_iter().map(finish).collect();
        Synchrony { deadlines_ns: self.deadlines_ns, slot_ns: self.slot_ns, by_size }
    }
}

fn close(
    laws: &mut BTreeMap<u8, Law>,
    deadlines_ns: &[u64],
    slot_ns: i64,
    group: Group,
    slot: i64,
    done: &Open,
) {
    let law = laws.entry(done.size).or_insert_with(|| Law {
        slots: 0,
        partial: 0,
        needed: (0..done.size).map(|_| Recorder::new(KEEP)).collect(),
        series: vec![Series::default(); deadlines_ns.len()],
    });
    let mut members: Vec<u16> = done.rtt_ns.keys().flat_map(|(from, to)| [*from, *to]).collect();
    members.sort_unstable();
    members.dedup();
    let n = usize::from(done.size);
    // If a member was down or did not measure, the slot does not cover all members.
    if members.len() != n || done.rtt_ns.len() != n * (n - 1) {
        law.partial += 1;
        law.series.iter_mut().for_each(|series| series.interrupt(group));
        return;
    }
    let of = |from: &u16, to: &u16| done.rtt_ns.get(&(*from, *to)).copied().unwrap_or(LOST);
    let both = |a: &u16, b: &u16| if a == b { 0 } else { of(a, b).max(of(b, a)) };
    let rtt_ns: Vec<Vec<u64>> =
        members.iter().map(|a| members.iter().map(|b| both(a, b)).collect()).collect();
    let needed = cliques(&rtt_ns);
    law.slots += 1;
    law.needed.iter_mut().zip(needed.iter().rev()).for_each(|(law, ns)| law.record(*ns));
    for (series, deadline_ns) in law.series.iter_mut().zip(deadlines_ns) {
        let clique = needed.iter().rposition(|ns| ns <= deadline_ns).map_or(0, |at| at + 1);
        series.add(group, slot * slot_ns, done.size, done.size - clique as u8);
    }
}

impl Series {
    fn add(&mut self, group: Group, from_ns: i64, size: u8, slow: u8) {
        self.slow.resize(usize::from(size) + 1, 0);
        self.slow[usize::from(slow)] += 1;
        if slow < (size - 1) / 2 {
            self.interrupt(group);
            return;
        }
        let fresh = Spell { group: group.number, from_ns, slots: 0, slow };
        let spell = self.current.entry(group).or_insert(fresh);
        spell.slots += 1;
        spell.slow = spell.slow.max(slow);
    }

    fn interrupt(&mut self, group: Group) {
        let Some(spell) = self.current.remove(&group) else { return };
        self.spells.push(spell);
        if self.spells.len() > 2 * SPELLS_MAX {
            self.keep_longest();
        }
    }

    fn keep_longest(&mut self) {
        self.spells.sort_by_key(|spell| (std::cmp::Reverse(spell.slots), spell.from_ns));
        self.spells.truncate(SPELLS_MAX);
    }

    fn finish(mut self) -> Self {
        let groups: Vec<Group> = self.current.keys().copied().collect();
        groups.into_iter().for_each(|group| self.interrupt(group));
        self.keep_longest();
        self
    }
}

/// Measurements of all groups.
#[derive(Debug)]
pub struct Synchrony {
    deadlines_ns: Vec<u64>,
    slot_ns: i64,
    by_size: BTreeMap<u8, Measured>,
}

#[derive(Debug)]
struct Measured {
    slots: u64,
    partial: u64,
    needed: Vec<Tail>,
    series: Vec<Series>,
}

impl Measured {
    /// P(t_p = j) for every j from 0 to n - 1, with this 2 Delta.
    fn law(&self, deadline_ns: u64) -> Vec<f64> {
        let within: Vec<f64> =
            self.needed.iter().map(|law| 1.0 - law.part_above(deadline_ns)).collect();
        let mut before = 0.0;
        within.iter().map(|now| now - std::mem::replace(&mut before, *now)).collect()
    }
}

/// Fault probabilities of one replica at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Faults {
    /// Probability that it has crashed.
    pub crash: f64,
    /// Probability that it behaves arbitrarily.
    pub other: f64,
}

impl Faults {
    const fn correct(self) -> f64 {
        1.0 - self.crash - self.other
    }
}

/// Probabilities that a group is not consistent and not available. These are complements, so that
/// one in 10^15 keeps its digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Likelihoods {
    /// 1 - P(consistent).
    pub inconsistent: f64,
    /// 1 - P(available).
    pub unavailable: f64,
    /// Nines of consistency.
    pub nines_of_consistency: u32,
    /// Nines of availability.
    pub nines_of_availability: u32,
}

/// Number of nines: floor(-log10 p), at most 99.
pub fn nines(complement: f64) -> u32 {
    // A rounding error below a power of ten must not cost a nine.
    if complement <= 1e-99 { 99 } else { (-complement.log10() + 1e-9).floor().max(0.0) as u32 }
}

/// Probability that a given number of the correct replicas is not synchronous, for each number of
/// correct ones.
type Slow<'a> = &'a dyn Fn(usize, usize) -> f64;

fn likelihoods(n: usize, faults: Faults, slow: Slow) -> Likelihoods {
    let tolerated = (n - 1) / 2;
    let (mut inconsistent, mut unavailable) = (0.0, 0.0);
    for other in 0..=n {
        for crashed in 0..=n - other {
            let correct = n - other - crashed;
            let faulty = choose(n, other) * choose(n - other, crashed);
            let p = faulty
                * faults.other.powi(other as i32)
                * faults.crash.powi(crashed as i32)
                * faults.correct().powi(correct as i32);
            for late in 0..=correct {
                let p = p * slow(correct, late);
                if other > 0 && other + crashed + late > tolerated {
                    inconsistent += p;
                }
                if correct - late < n - tolerated {
                    unavailable += p;
                }
            }
        }
    }
    Likelihoods {
        inconsistent,
        unavailable,
        nines_of_consistency: nines(inconsistent),
        nines_of_availability: nines(unavailable),
    }
}

/// Likelihoods if each replica is independently synchronous with probability `synchronous`.
pub fn independent(n: usize, faults: Faults, synchronous: f64) -> Likelihoods {
    likelihoods(n, faults, &|correct, late| {
        let slow = (1.0 - synchronous).powi(late as i32);
        choose(correct, late) * slow * synchronous.powi((correct - late) as i32)
    })
}

/// Likelihoods with the measured distribution of t_p: the replicas that are not synchronous are a
/// random choice of the n, so the correct ones among them have a hypergeometric distribution.
pub fn measured(n: usize, faults: Faults, law: &[f64]) -> Likelihoods {
    likelihoods(n, faults, &|correct, late| {
        let among = |(slow, p): (usize, &f64)| {
            let elsewhere = slow.checked_sub(late).map_or(0.0, |rest| choose(n - correct, rest));
            p * choose(correct, late) * elsewhere / choose(n, slow)
        };
        law.iter().enumerate().map(among).sum()
    })
}

/// Findings for one size and one 2 Delta.
#[derive(Clone, Debug, Serialize)]
pub struct OfDeadline {
    /// Number of members.
    pub size: u8,
    /// Time within which both directions of a pair must answer: 2 Delta.
    pub two_delta_ms: f64,
    /// P(t_p = j), from j = 0 on.
    pub not_synchronous: Vec<f64>,
    /// p_s = 1 - E[t_p] / n.
    pub synchronous: f64,
    /// Likelihoods with independent replicas of that p_s.
    pub if_independent: Likelihoods,
    /// Likelihoods with the measured distribution.
    pub as_measured: Likelihoods,
    /// P(A <= a) for a = 0 and on: crashes that could have been tolerated at a moment.
    pub margin_at_most: Vec<f64>,
    /// Longest period without any margin.
    pub longest_spell_s: f64,
    /// Longest such periods, with their beginnings.
    pub spells: Vec<Spell>,
    /// Slots, with the interval of P(t_p = 0).
    pub evidence: Evidence,
    /// Slots in which a replica was down or did not measure: they are left out.
    pub partial_slots: u64,
}

/// Computes the likelihoods for every size and every 2 Delta.
pub fn report(synchrony: &Synchrony, faults: Faults) -> Vec<OfDeadline> {
    let mut found = Vec::new();
    for (size, of) in &synchrony.by_size {
        for (deadline_ns, series) in synchrony.deadlines_ns.iter().zip(&of.series) {
            if of.slots > 0 {
                found.push(of_deadline(*size, of, *deadline_ns, series, faults, synchrony.slot_ns));
            }
        }
    }
    found
}

fn of_deadline(
    size: u8,
    of: &Measured,
    deadline_ns: u64,
    series: &Series,
    faults: Faults,
    slot_ns: i64,
) -> OfDeadline {
    let n = usize::from(size);
    let law = of.law(deadline_ns);
    let expected: f64 = law.iter().enumerate().map(|(slow, p)| slow as f64 * p).sum();
    let synchronous = 1.0 - expected / n as f64;
    let tolerated = (n - 1) / 2;
    let margin = |a: usize| law.iter().skip(tolerated.saturating_sub(a)).sum();
    let longest = series.spells.iter().map(|spell| spell.slots).max().unwrap_or(0);
    let all_synchronous = of.slots as f64 * law[0];
    let (low, high) = crate::calibrate::numeric::clopper_pearson(all_synchronous, of.slots as f64);
    OfDeadline {
        size,
        two_delta_ms: ms(deadline_ns).unwrap_or(f64::INFINITY),
        synchronous,
        if_independent: independent(n, faults, synchronous),
        as_measured: measured(n, faults, &law),
        margin_at_most: (0..=tolerated).map(margin).collect(),
        not_synchronous: law,
        longest_spell_s: longest as f64 * slot_ns as f64 / 1e9,
        spells: series.spells.clone(),
        evidence: Evidence { low: Some(low), high: Some(high), ..Evidence::counted(of.slots) },
        partial_slots: of.partial,
    }
}

#[cfg(test)]
mod tests;
