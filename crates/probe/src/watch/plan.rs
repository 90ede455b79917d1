//! Which leads should go elsewhere: away from machines that are slow, and not too many at once.
//!
//! One machine plans for all, so that no two plans meet: the smallest of those that are well. It asks
//! leaders to hand over; whether a machine is ready to take a lead is for the leader to know.

use super::verdict::Verdict;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// In so many microseconds no more than a third of all leads move.
const SPAN_US: u64 = 600_000_000;
/// Moves of one window.
const WINDOW_MOVES_MAX: usize = 4;

/// Who leads a shard, and who could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The shard.
    pub shard: u16,
    /// The machine that leads it.
    pub leader: u16,
    /// The machines that hold it.
    pub holders: Vec<u16>,
}

/// A lead that should go from one machine to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The shard.
    pub shard: u16,
    /// The machine that leads it.
    pub from: u16,
    /// The machine that should.
    pub to: u16,
}

/// What a machine that plans sees.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Now.
    pub now_us: u64,
    /// What was asked for is not asked for again sooner.
    pub repeat_us: u64,
    /// The machine.
    pub own: u16,
    /// Most machines are late, says the last window.
    pub load: bool,
    /// The machines that it is connected with.
    pub heard: &'a BTreeSet<u16>,
    /// What is so.
    pub verdicts: &'a [Verdict],
}

/// Remembers what it has asked for.
#[derive(Debug, Default)]
pub struct Planner {
    asked: VecDeque<(u64, Move)>,
}

impl Planner {
    /// The leads that this machine asks to be moved. Of the machines that are well and connected the one with
    /// the smallest number asks, and no other.
    pub fn plan(&mut self, scene: &Scene<'_>, leads: &[Lead]) -> Vec<Move> {
        let Scene { now_us, repeat_us, own, load, heard, verdicts } = *scene;
        while self.asked.front().is_some_and(|(at, _)| now_us.saturating_sub(*at) >= SPAN_US) {
            self.asked.pop_front();
        }
        if load {
            return Vec::new();
        }
        let left: BTreeSet<u16> =
            verdicts.iter().filter_map(|verdict| verdict.subject.to_be_left()).collect();
        let well: BTreeSet<u16> = heard.iter().copied().chain([own]).collect();
        let well: BTreeSet<u16> = well.difference(&left).copied().collect();
        if left.is_empty() || well.first() != Some(&own) {
            return Vec::new();
        }
        let mut load: BTreeMap<u16, usize> = BTreeMap::new();
        leads.iter().for_each(|lead| *load.entry(lead.leader).or_default() += 1);
        let most = leads.len().div_ceil(3).saturating_sub(self.asked.len()).min(WINDOW_MOVES_MAX);
        let mut moves = Vec::new();
        for lead in leads.iter().filter(|lead| left.contains(&lead.leader)) {
            let recent = |(at, old): &(u64, Move)| {
                old.shard == lead.shard && now_us.saturating_sub(*at) < repeat_us
            };
            if moves.len() == most || self.asked.iter().any(recent) {
                continue;
            }
            let fit = lead.holders.iter().filter(|machine| well.contains(machine));
            let least =
                fit.min_by_key(|machine| (load.get(machine).copied().unwrap_or(0), **machine));
            let Some(to) = least.copied() else { continue };
            *load.entry(to).or_default() += 1;
            let planned = Move { shard: lead.shard, from: lead.leader, to };
            self.asked.push_back((now_us, planned));
            moves.push(planned);
        }
        moves
    }
}
