//! Leases: for how long a leader may answer reads without asking anybody.
//!
//! A round asks all replicas whether they still follow. When a majority has said so, none of them
//! votes for anybody else before an election time-out has passed on its own clock since it heard
//! the question; so the leader counts an election time-out from the instant *before* it asked, on
//! its own monotonic clock, less a part by which two clocks may differ in speed. (The library's own
//! lease counts ticks, which stand still when a machine is paused: a stale read was measured.)

use super::Pace;
use crate::limits::CLOCK_DRIFT_PERCENT_MAX;
use std::collections::VecDeque;

/// How long a lease lasts.
fn lease_us(pace: Pace) -> u64 {
    pace.promise_us() * (100 - CLOCK_DRIFT_PERCENT_MAX) / 100
}

#[derive(Debug)]
struct Round {
    number: u64,
    term: u64,
    began_us: u64,
    /// The members are those who were asked.
    holds: bool,
}

/// A leader's lease.
#[derive(Debug)]
pub(super) struct Lease {
    alone: bool,
    lease_us: u64,
    open: VecDeque<Round>,
    last: u64,
    confirmed: u64,
    /// Term and beginning of the newest round that was confirmed.
    held: Option<(u64, u64)>,
    /// In this term another replica may be elected in spite of the lease.
    renounced: u64,
}

impl Lease {
    /// `alone`: there is nobody who could vote.
    pub fn new(alone: bool, pace: Pace) -> Self {
        let (lease_us, open) = (lease_us(pace), VecDeque::new());
        Self { alone, lease_us, open, last: 0, confirmed: 0, held: None, renounced: 0 }
    }

    /// The lead may be handed over in this term, to a replica that is elected without regard to
    /// promises: from now on every read needs a round.
    pub fn renounce(&mut self, term: u64) {
        self.renounced = term;
    }

    /// A round begins; gives its number and what the library is to be asked with.
    pub fn begin(&mut self, term: u64, mono_us: u64) -> (u64, Vec<u8>) {
        self.last += 1;
        // Those of an earlier lead are never answered.
        self.open.retain(|round| round.term == term);
        self.open.push_back(Round { number: self.last, term, began_us: mono_us, holds: true });
        (self.last, self.last.to_le_bytes().to_vec())
    }

    /// The members are others from now on: a majority of them may not have promised anything.
    pub fn members_changed(&mut self) {
        self.held = None;
        self.open.iter_mut().for_each(|round| round.holds = false);
    }

    /// A majority has confirmed a round, and with it those before.
    pub fn completed(&mut self, context: &[u8]) {
        let Ok(number) = context.try_into().map(u64::from_le_bytes) else { return };
        while self.open.front().is_some_and(|round| round.number <= number) {
            let Some(round) = self.open.pop_front() else { return };
            self.confirmed = round.number;
            self.held = Some((round.term, round.began_us)).filter(|_| round.holds);
        }
    }

    /// Whether nobody waits for a round.
    pub fn is_quiet(&self) -> bool {
        self.open.is_empty()
    }

    /// The newest round that was confirmed.
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Whether more than half of the lease is over, and nobody was asked yet.
    pub fn should_renew(&self, term: u64, mono_us: u64) -> bool {
        let may_hold = self.renounced != term;
        may_hold && self.open.is_empty() && self.left_us(term, mono_us) < self.lease_us / 2
    }

    /// How much of the lease is left.
    pub fn left_us(&self, term: u64, mono_us: u64) -> u64 {
        if self.alone {
            return u64::MAX;
        }
        let held = self.held.filter(|(of, _)| *of == term && *of != self.renounced);
        held.map_or(0, |(_, began_us)| (began_us + self.lease_us).saturating_sub(mono_us))
    }
}
