//! Plan of moving leads away from slow machines, and not too many at once.
//!
//! One machine plans for all, so that no two plans collide: the smallest healthy one. It asks
//! leaders to hand over; the leader decides whether a machine is ready to take a lead.

use super::verdict::Verdict;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Time span in which no more than a third of all leads move, in microseconds.
const SPAN_US: u64 = 600_000_000;
/// Maximum number of moves in one window.
const WINDOW_MOVES_MAX: usize = 4;

/// Leader of a shard, and the candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The shard.
    pub shard: u16,
    /// The machine that leads it.
    pub leader: u16,
    /// The machines that hold it.
    pub holders: Vec<u16>,
}

/// Move of a lead from one machine to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The shard.
    pub shard: u16,
    /// The machine that leads it.
    pub from: u16,
    /// Machine that should lead it.
    pub to: u16,
}

/// Circumstances of a machine that plans.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Current time.
    pub now_us: u64,
    /// Time in which a request is not repeated.
    pub repeat_us: u64,
    /// Number of the machine.
    pub own: u16,
    /// Whether most machines are late by the last window.
    pub load: bool,
    /// Machines that it is connected with.
    pub heard: &'a BTreeSet<u16>,
    /// Current verdicts.
    pub verdicts: &'a [Verdict],
}

/// Planner with its past requests.
#[derive(Debug, Default)]
pub struct Planner {
    asked: VecDeque<(u64, Move)>,
}

impl Planner {
    /// Leads that this machine asks to be moved. Only the healthy, connected machine with the
    /// smallest number asks.
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
