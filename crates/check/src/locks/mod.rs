//! Has a lock service kept its promises? Locks with leases and fencing tokens, places that are
//! written to under them, leaders with values, and barriers.
//!
//! No lock can promise that its holder still holds it when it writes: it may have stood still for longer
//! than its lease (Kleppmann, "How to do distributed locking", 2016). What can be promised is judged here:
//!
//! | module | holds |
//! |---|---|
//! | [`grants`] | tokens of a lock grow with its grants, none is given twice, those of a block included, and nobody else is let in before a lease can have ended or was given back, for a section either |
//! | [`places`] | nothing is accepted under a token after something under a larger one was, in whatever order one looks: the order in which it took effect, real time, reads, what is there at the end |
//! | [`leaders`] | who is said to lead has been elected and has said that, and nobody is told of something older than was known before |
//! | [`meetings`] | nobody goes on from a barrier before so many have come, not more than so many go on together, and generations have growing numbers |
//!
//! A [`History`] has what clients did, each act with its time. Every value is written once only, so that
//! whoever sees one knows by whom it was written, and under which token. Each place is a *journal*, to
//! which values are added, and a *register*, which has the last one; the journal at the end shows in which
//! order writes took effect, and whether one whose answer was lost did.

mod grants;
mod leaders;
mod meetings;
mod places;
#[cfg(test)]
mod tests;

use crate::verdict::{Anomaly, Verdict};
use std::collections::BTreeMap;

/// The number that comes with a grant.
pub type Token = u64;

/// What somebody does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Asks for a lock and waits for it.
    Acquire {
        /// Which one.
        lock: String,
        /// For how long, in microseconds.
        lease_us: u64,
        /// With others who share it.
        shared: bool,
        /// With so many in all at most, who all say so; nought is any number.
        limit: usize,
        /// It was asked more than once, under one request number: what was granted may have been taken
        /// back since, and counts from the next renewal on.
        again: bool,
        /// It does not wait.
        tries: bool,
        /// How many tokens are granted, of which the first one is told.
        tokens: u64,
        /// A server was to keep the lock for its clients, and lets them in by what it knows: who was let in
        /// after the lock had been taken away, or when clocks had leapt, may have a token that is old.
        near: bool,
        /// Who is next may hear of the release before that is durable, and put out with its token whoever has
        /// released the lock: a release that is refused was one nevertheless.
        next: bool,
        /// What it says as soon as it is elected, if that is what it wants; said by nobody else.
        value: Option<String>,
    },
    /// Says something as a leader.
    Proclaim {
        /// Which lock it leads by.
        lock: String,
        /// The grant.
        token: Token,
        /// What, said by nobody else.
        value: String,
    },
    /// Waits to hear who leads, if that is something else than it has seen.
    Observe {
        /// By which lock.
        lock: String,
        /// The version that it has seen; nought is that nobody leads.
        seen: Token,
    },
    /// Comes to a barrier.
    Meet {
        /// Which one.
        barrier: String,
        /// How many go on together.
        parties: usize,
        /// It was asked more than once, under one request number.
        again: bool,
    },
    /// Writes a value while it has the lock, which it asks for, waits for and gives back with it in one.
    Section {
        /// Which lock.
        lock: String,
        /// With others who share it.
        shared: bool,
        /// With so many in all at most, who all say so; nought is any number.
        limit: usize,
        /// It was asked more than once, under one request number.
        again: bool,
        /// Where.
        place: String,
        /// What, written by nobody else.
        value: String,
        /// Into the register.
        register: bool,
        /// At the end of the journal.
        journal: bool,
    },
    /// Begins the lease anew.
    Renew {
        /// Of which lock.
        lock: String,
        /// The grant.
        token: Token,
    },
    /// Waits until somebody else wants the lock. What is answered promises nothing.
    Listen {
        /// Which one.
        lock: String,
        /// The grant.
        token: Token,
    },
    /// Gives a lock back.
    Release {
        /// Which one.
        lock: String,
        /// The grant.
        token: Token,
    },
    /// Takes a lock away from whoever holds it.
    Break {
        /// Which one.
        lock: String,
    },
    /// Writes a value under a token, which the store compares with the largest that it has seen, or in a
    /// transaction that has found the lock to be held with it.
    Write {
        /// Where.
        place: String,
        /// The lock that guards the place.
        lock: String,
        /// The token.
        token: Token,
        /// What, written by nobody else.
        value: String,
        /// Into the register.
        register: bool,
        /// At the end of the journal.
        journal: bool,
    },
    /// Looks.
    Read {
        /// Where.
        place: String,
        /// Under a token of a lock, which counts as seen then.
        fence: Option<(String, Token)>,
        /// At the journal, else at the register.
        journal: bool,
    },
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody knows: it may have taken effect, and may still.
    #[default]
    Unknown,
    /// It had no effect: the lock was not to be had or not held, or the server could do nothing.
    Refused,
    /// It had no effect, for the server has seen a larger token.
    Fenced,
    /// It was done.
    Done,
    /// The lock was granted; or a section was carried out under this token; or what was said as a leader has
    /// this version; or this generation has gone on from a barrier.
    Granted(Token),
    /// Who leads, if anybody does.
    Led(Option<Led>),
    /// What was read: all of a journal, or the one value of a register, if there is one.
    Read(Vec<String>),
}

/// Somebody leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Led {
    /// The grant.
    pub token: Token,
    /// What it has said last.
    pub value: String,
    /// The version of that.
    pub version: Token,
}

/// One act of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// Who.
    pub who: u64,
    /// When it was asked, in microseconds on the history's clock.
    pub asked_us: u64,
    /// When the answer was there; the largest number if there was none.
    pub ended_us: u64,
    /// What.
    pub what: What,
    /// What came of it.
    pub outcome: Outcome,
}

/// What is there at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The last value of the register.
    pub register: Option<String>,
    /// All values of the journal.
    pub journal: Vec<String>,
}

/// Everything that was done with locks and with what they guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// All acts, in whichever order.
    pub acts: Vec<Act>,
    /// Every place at the end, if that is known.
    pub last: Option<BTreeMap<String, Place>>,
    /// By how much a lease may seem too short: the clocks that leases are counted on were no further from
    /// each other, nor from themselves at another time, in microseconds.
    pub clocks_us: u64,
}

/// The verdict about a history of locks.
pub fn check(history: &History) -> Verdict {
    let mut verdict = Verdict::new("locks");
    grants::check(history, &mut verdict);
    places::check(history, &mut verdict);
    leaders::check(history, &mut verdict);
    meetings::check(history, &mut verdict);
    verdict
}

fn report(verdict: &mut Verdict, kind: &'static str, text: String) {
    verdict.report(Anomaly::new(kind, text, Vec::new()));
}

impl Act {
    /// Whether it was over before another one was asked.
    fn precedes(&self, other: &Self) -> bool {
        self.ended_us < other.asked_us
    }

    /// Whether it is known to have taken effect.
    fn done(&self) -> bool {
        matches!(self.outcome, Outcome::Done | Outcome::Granted(_))
    }

    /// Whether it is known to have had no effect.
    fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Refused | Outcome::Fenced)
    }
}
