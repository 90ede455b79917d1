//! Leases: times in which a leader may answer reads without asking other replicas.
//!
//! A round asks all replicas whether they still follow, and to vote for no other candidate for a
//! time that the question names. A replica that answers has promised that, on its own monotonic
//! clock from the moment at which it received the question ([`Promise`]). When a majority has
//! answered, the leader counts that time from the instant *before* it asked, on its own monotonic
//! clock, less a part by which two clocks may differ in speed. (The library's own lease counts
//! ticks, which stand still while a machine is paused: a stale read was measured.)
//!
//! The question names the time, so that no lease depends on an election time-out: each replica may
//! have another one, and may change it at any time.

use super::Pace;
use crate::limits::{CLOCK_DRIFT_PERCENT_MAX, PROMISE_US_MAX};
use raft::eraftpb::{Message, MessageType};
use std::collections::VecDeque;

/// Duration of a lease that rests on promises of this duration.
fn lease_us(promise_us: u64) -> u64 {
    promise_us * (100 - CLOCK_DRIFT_PERCENT_MAX) / 100
}

/// Duration of the promises that a leader asks for: no longer than replicas wait for a leader, or
/// the next one would be late, and bounded, because a restarted replica must keep promises that it
/// does not remember.
pub(super) fn asked_us(pace: Pace) -> u64 {
    pace.election_us().min(PROMISE_US_MAX)
}

/// Whether a message asks for a vote or a pre-vote.
pub(super) fn asks_for_vote(message: &Message) -> bool {
    let kind = message.get_msg_type();
    matches!(kind, MessageType::MsgRequestVote | MessageType::MsgRequestPreVote)
}

/// Promise of a replica to vote for no candidate but the leader that it follows, and not to stand
/// itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    until_us: u64,
    /// End of the time in which an earlier process may have given a promise: until then no
    /// candidate gets a vote.
    forgotten_until_us: u64,
}

impl Promise {
    /// Creates a promise for a start; promises of an earlier process end at this time.
    pub fn new(forgotten_until_us: u64) -> Self {
        Self { until_us: forgotten_until_us, forgotten_until_us }
    }

    /// Takes a message of another replica in this replica's term or a later one. A question whose
    /// duration cannot be read asks for the longest.
    pub fn hear(&mut self, mono_us: u64, message: &Message) {
        if message.get_msg_type() != MessageType::MsgHeartbeat || message.context.is_empty() {
            return;
        }
        let asked = message.context.get(8..16).and_then(|rest| rest.try_into().ok());
        let asked_us = asked.map_or(PROMISE_US_MAX, u64::from_le_bytes).min(PROMISE_US_MAX);
        self.until_us = self.until_us.max(mono_us + asked_us);
    }

    /// Whether this message asks for a vote against a promise. A vote for a candidate to which the
    /// leader hands its lead is allowed: that leader has renounced its promises.
    pub fn forbids(&self, mono_us: u64, message: &Message) -> bool {
        let handed_over = message.context == raft::CAMPAIGN_TRANSFER;
        let until_us = if handed_over { self.forgotten_until_us } else { self.until_us };
        asks_for_vote(message) && mono_us < until_us
    }

    /// Whether this replica may stand for election.
    pub fn lets_stand(&self, mono_us: u64) -> bool {
        mono_us >= self.until_us
    }
}

#[derive(Debug)]
struct Round {
    number: u64,
    term: u64,
    began_us: u64,
    /// Duration of the promises in the answers.
    asked_us: u64,
    /// Whether the members are still those that were asked.
    holds: bool,
}

/// Lease of a leader.
#[derive(Debug)]
pub(super) struct Lease {
    alone: bool,
    asked_us: u64,
    open: VecDeque<Round>,
    last: u64,
    confirmed: u64,
    /// Term of the newest confirmed round, and the end of its lease.
    held: Option<(u64, u64)>,
    /// Term in which another replica may be elected in spite of the lease.
    renounced: u64,
}

impl Lease {
    /// Creates the lease of a leader. `alone`: no other replica can vote.
    pub fn new(alone: bool, pace: Pace) -> Self {
        let (asked_us, open) = (asked_us(pace), VecDeque::new());
        Self { alone, asked_us, open, last: 0, confirmed: 0, held: None, renounced: 0 }
    }

    /// Asks for promises of this pace from now on.
    pub fn set_pace(&mut self, pace: Pace) {
        self.asked_us = asked_us(pace);
    }

    /// Renounces the lease in this term, in which the lead may be handed over to a replica that is
    /// elected regardless of promises: from now on every read needs a round.
    pub fn renounce(&mut self, term: u64) {
        self.renounced = term;
    }

    /// Begins a round; returns its number and the context for the library's question.
    pub fn begin(&mut self, term: u64, mono_us: u64) -> (u64, Vec<u8>) {
        self.last += 1;
        // Rounds of an earlier lead are never answered.
        self.open.retain(|round| round.term == term);
        let (number, asked_us) = (self.last, self.asked_us);
        self.open.push_back(Round { number, term, began_us: mono_us, asked_us, holds: true });
        (number, [number, asked_us].map(u64::to_le_bytes).concat())
    }

    /// Invalidates open rounds and the lease, because the members have changed: a majority of the
    /// new ones may not have promised anything.
    pub fn members_changed(&mut self) {
        self.held = None;
        self.open.iter_mut().for_each(|round| round.holds = false);
    }

    /// Notes that a majority has confirmed a round, and with it those before.
    pub fn completed(&mut self, context: &[u8]) {
        let number = context.first_chunk().copied().map(u64::from_le_bytes);
        let Some(number) = number else { return };
        while self.open.front().is_some_and(|round| round.number <= number) {
            let Some(round) = self.open.pop_front() else { return };
            self.confirmed = round.number;
            let end_us = round.began_us + lease_us(round.asked_us);
            // A round with a shorter promise may end before an earlier one.
            let end_us = self.end_us(round.term).map_or(end_us, |earlier| earlier.max(end_us));
            self.held = Some((round.term, end_us)).filter(|_| round.holds);
        }
    }

    /// Whether no request waits for a round.
    pub fn is_quiet(&self) -> bool {
        self.open.is_empty()
    }

    /// Newest confirmed round.
    pub fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Whether more than half of the lease is over, and no further round has begun.
    pub fn should_renew(&self, term: u64, mono_us: u64) -> bool {
        let may_hold = self.renounced != term;
        may_hold
            && self.open.is_empty()
            && self.left_us(term, mono_us) < lease_us(self.asked_us) / 2
    }

    /// Remaining time of the lease, in microseconds.
    pub fn left_us(&self, term: u64, mono_us: u64) -> u64 {
        if self.alone {
            return u64::MAX;
        }
        let end_us = self.end_us(term).filter(|_| term != self.renounced);
        end_us.map_or(0, |end_us| end_us.saturating_sub(mono_us))
    }

    fn end_us(&self, term: u64) -> Option<u64> {
        self.held.filter(|(of, _)| *of == term).map(|(_, end_us)| end_us)
    }
}
