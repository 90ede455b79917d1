//! Leases: for how long a leader may answer reads without asking anybody.
//!
//! A round asks all replicas whether they still follow, and to vote for nobody else for a time that
//! it names. Whoever answers has promised that, on its own monotonic clock since it heard the
//! question ([`Promise`]); so the leader, when a majority has answered, counts that time from the
//! instant *before* it asked, on its own monotonic clock, less a part by which two clocks may differ
//! in speed. (The library's own lease counts ticks, which stand still when a machine is paused: a
//! stale read was measured.)
//!
//! The time is named in the question, so that nothing rests on how long anybody's election time-out
//! is: each replica may have another one, and it may change at any time.

use super::Pace;
use crate::limits::{CLOCK_DRIFT_PERCENT_MAX, PROMISE_US_MAX};
use raft::eraftpb::{Message, MessageType};
use std::collections::VecDeque;

/// How long a lease lasts that rests on promises for so long.
fn lease_us(promise_us: u64) -> u64 {
    promise_us * (100 - CLOCK_DRIFT_PERCENT_MAX) / 100
}

/// For how long others are asked to vote for nobody else: no longer than they wait for a leader, or
/// the next one would come late, and bounded, because a replica that was started again must keep
/// what it does not remember.
pub(super) fn asked_us(pace: Pace) -> u64 {
    pace.election_us().min(PROMISE_US_MAX)
}

/// Whether a message asks for a vote, or whether there would be one.
pub(super) fn asks_for_vote(message: &Message) -> bool {
    let kind = message.get_msg_type();
    matches!(kind, MessageType::MsgRequestVote | MessageType::MsgRequestPreVote)
}

/// Until when a replica votes for nobody but the leader that it follows, and does not stand itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    until_us: u64,
    /// It may have been given by an earlier process: whatever is asked, nobody gets a vote.
    forgotten_until_us: u64,
}

impl Promise {
    /// What an earlier process may have promised ends at this time.
    pub fn new(forgotten_until_us: u64) -> Self {
        Self { until_us: forgotten_until_us, forgotten_until_us }
    }

    /// A message of another replica has come, in this replica's term or a later one. A question whose
    /// time cannot be read asks for the longest.
    pub fn hear(&mut self, mono_us: u64, message: &Message) {
        if message.get_msg_type() != MessageType::MsgHeartbeat || message.context.is_empty() {
            return;
        }
        let asked = message.context.get(8..16).and_then(|rest| rest.try_into().ok());
        let asked_us = asked.map_or(PROMISE_US_MAX, u64::from_le_bytes).min(PROMISE_US_MAX);
        self.until_us = self.until_us.max(mono_us + asked_us);
    }

    /// Whether this message asks for a vote that was promised not to be given. Whoever a leader has
    /// handed its lead to may be voted for: that leader has renounced what it was promised.
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
    /// What is promised by those who answer.
    asked_us: u64,
    /// The members are those who were asked.
    holds: bool,
}

/// A leader's lease.
#[derive(Debug)]
pub(super) struct Lease {
    alone: bool,
    asked_us: u64,
    open: VecDeque<Round>,
    last: u64,
    confirmed: u64,
    /// Of the newest round that was confirmed, the term, and when the lease that it gives ends.
    held: Option<(u64, u64)>,
    /// In this term another replica may be elected in spite of the lease.
    renounced: u64,
}

impl Lease {
    /// `alone`: there is nobody who could vote.
    pub fn new(alone: bool, pace: Pace) -> Self {
        let (asked_us, open) = (asked_us(pace), VecDeque::new());
        Self { alone, asked_us, open, last: 0, confirmed: 0, held: None, renounced: 0 }
    }

    /// From now on others are asked for promises that go with this pace.
    pub fn set_pace(&mut self, pace: Pace) {
        self.asked_us = asked_us(pace);
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
        let (number, asked_us) = (self.last, self.asked_us);
        self.open.push_back(Round { number, term, began_us: mono_us, asked_us, holds: true });
        (number, [number, asked_us].map(u64::to_le_bytes).concat())
    }

    /// The members are others from now on: a majority of them may not have promised anything.
    pub fn members_changed(&mut self) {
        self.held = None;
        self.open.iter_mut().for_each(|round| round.holds = false);
    }

    /// A majority has confirmed a round, and with it those before.
    pub fn completed(&mut self, context: &[u8]) {
        let number = context.first_chunk().copied().map(u64::from_le_bytes);
        let Some(number) = number else { return };
        while self.open.front().is_some_and(|round| round.number <= number) {
            let Some(round) = self.open.pop_front() else { return };
            self.confirmed = round.number;
            let end_us = round.began_us + lease_us(round.asked_us);
            // One that was asked for less may end before one of earlier.
            let end_us = self.end_us(round.term).map_or(end_us, |earlier| earlier.max(end_us));
            self.held = Some((round.term, end_us)).filter(|_| round.holds);
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
        may_hold
            && self.open.is_empty()
            && self.left_us(term, mono_us) < lease_us(self.asked_us) / 2
    }

    /// How much of the lease is left.
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
