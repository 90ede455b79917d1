//! Pace of a group: the length of its ticks, and the number of ticks until each event.
//!
//! The library draws no random numbers: it stands for election after a time-out of one value, which
//! is twice as long as the one for its promises and its check of the quorum. The actual time at
//! which a replica stands is drawn here, from a seed, between the two.

use super::RaftGroup;
use crate::limits::{ELECTION_TICKS, HEARTBEAT_TICKS, TICK_US, TICK_US_MAX, TICK_US_MIN};
use raft::StateRole;

/// Pace of a replica. Replicas of a group may have ticks of different lengths; the worst result is
/// that those with short ticks take a leader with long ones for lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Microseconds between two ticks.
    pub tick_us: u64,
    /// Ticks between two heartbeats of a leader.
    pub heartbeat_ticks: usize,
    /// Ticks without a leader after which a follower stands for election (up to twice as many,
    /// drawn at random).
    pub election_ticks: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { tick_us: TICK_US, heartbeat_ticks: HEARTBEAT_TICKS, election_ticks: ELECTION_TICKS }
    }
}

impl Pace {
    /// Default pace with ticks of another length: the election time-out is at least this long, in
    /// microseconds, and longer by less than a microsecond for each tick.
    pub fn of_election(election_us: u64) -> Self {
        let usual = Self::default();
        Self { tick_us: election_us.div_ceil(usual.election_ticks as u64 - 1), ..usual }
    }

    /// Election time-out, in microseconds: the least time in which a follower that has heard a
    /// leader takes it for lost. It is one tick less than their number, because one may come right
    /// after the leader's message.
    pub fn election_us(self) -> u64 {
        (self.election_ticks as u64 - 1) * self.tick_us
    }

    /// Microseconds between two heartbeats of a leader.
    pub fn heartbeat_us(self) -> u64 {
        self.heartbeat_ticks as u64 * self.tick_us
    }

    /// Ticks after which a candidate without success stands again (up to twice as many, drawn at
    /// random): enough for votes from distant machines.
    fn retry_ticks(self) -> usize {
        (self.election_ticks / 2).max(1)
    }

    /// Additional ticks for which a replica that stands back waits before it stands for election.
    fn stand_back_ticks(self) -> usize {
        3 * self.election_ticks
    }
}

/// Time that a replica waits beyond the election time-out before it stands for election.
#[derive(Debug)]
pub(super) struct ElectionPatience {
    /// Ticks to wait beyond the election time-out before the next election.
    ticks: usize,
    /// Some of them have passed.
    is_impatient: bool,
    stands_back: bool,
    random: u64,
}

impl ElectionPatience {
    /// ElectionPatience for the first election, drawn from a seed.
    pub fn new(seed: u64, pace: Pace) -> Self {
        let mut new = Self { ticks: 0, is_impatient: false, stands_back: false, random: seed };
        new.draw(pace);
        new
    }

    fn draw(&mut self, pace: Pace) {
        self.random = adt::random::mix(self.random);
        let more = if self.stands_back { pace.stand_back_ticks() } else { 0 };
        self.is_impatient = false;
        self.ticks = more + (self.random % pace.election_ticks as u64) as usize;
    }
}

impl RaftGroup {
    /// Takes one tick; see [`Pace::tick_us`]. At least that much time must lie between two calls.
    pub fn tick(&mut self, mono_us: u64) {
        // While a snapshot is about to replace the log, the library can read neither the old
        // entries nor those after the snapshot, which an election would need.
        if self.is_asleep() || self.owes_entries() || self.restoring.is_some() {
            return;
        }
        let pace = self.pace;
        let before_us = self.ticked_us.replace(mono_us);
        let raft = &mut self.node.raft;
        let in_vain = matches!(raft.state, StateRole::Candidate | StateRole::PreCandidate);
        if in_vain && !self.patience.stands_back {
            // It has stood without success, most likely because another candidate did at the same
            // time. It has waited for a leader already, and has promised nothing, so it stands
            // again sooner than it stood at first.
            let (least, retry) = (pace.election_ticks - pace.retry_ticks(), pace.retry_ticks());
            raft.election_elapsed = raft.election_elapsed.max(least);
            self.patience.ticks %= retry;
        }
        let waits = self.node.raft.state != StateRole::Leader;
        let is_due = self.node.raft.election_elapsed + 1 >= pace.election_ticks;
        if waits && !is_due && self.patience.is_impatient {
            // A leader was heard in the meantime: the next wait has full length.
            self.patience.draw(self.pace);
        }
        let raft = &mut self.node.raft;
        if waits && is_due {
            if self.patience.ticks > 0 || !self.promise.lets_stand(mono_us) {
                self.patience.ticks = self.patience.ticks.saturating_sub(1);
                self.patience.is_impatient = true;
                // For the library the leader is lost now all the same: another replica may be less
                // patient and need this vote, unless it is promised for longer.
                raft.election_elapsed = pace.election_ticks;
                return;
            }
            // The library stands when its own, longer time-out is over.
            raft.election_elapsed = 2 * pace.election_ticks - 1;
            self.patience.draw(self.pace);
        }
        self.node.tick();
        let stood_still = before_us.is_some_and(|us| mono_us >= us + 2 * pace.tick_us);
        if stood_still && self.node.raft.heartbeat_elapsed() > 0 {
            // Missed ticks are not made up for, so the next heartbeat would be late by the ticks
            // that remained before the pause; other replicas may be about to stand by then. (Only a
            // leader sends anything here.)
            self.node.ping();
        }
    }

    /// Pace of this replica.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Sets the length of ticks, as near as limits allow. Promises in both directions keep their
    /// times.
    pub fn set_tick(&mut self, tick_us: u64) {
        self.pace.tick_us = tick_us.clamp(TICK_US_MIN, TICK_US_MAX);
        self.lease.set_pace(self.pace);
    }

    /// Lets other replicas come first when a leader is missing, or ends that.
    pub fn stand_back(&mut self, on: bool) {
        self.patience.stands_back = on;
        self.patience.draw(self.pace);
    }
}
