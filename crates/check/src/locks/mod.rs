//! Checker of a lock service: locks with leases and fencing tokens, places that are written under
//! them, leaders with values, and barriers.
//!
//! No lock can promise that its holder still holds it when it writes: the holder may have been
//! paused for longer than its lease (Kleppmann, "How to do distributed locking", 2016). Promises
//! that are checked:
//!
//! | module | promise |
//! |---|---|
//! | [`grants`] | tokens of a lock grow with its grants, none is issued twice, those of a block included, and no other client is granted the lock, nor admitted to a section, before the lease can have ended or was released |
//! | [`places`] | no write is accepted under a token after one under a larger token, in any order: the order of effects, real time, reads, the final contents |
//! | [`leaders`] | a reported leader has been elected and has proclaimed the reported value, and no report is older than a version that was known before |
//! | [`meetings`] | no client passes a barrier before enough parties have arrived, no generation is too large, and generations have growing numbers |
//!
//! A [`History`] has the actions of clients with their times. Every value is written only once, so
//! that a read value identifies its writer and the token. Each place is a *journal*, to which
//! values are added, and a *register*, which has the last one; the final journal shows the order in
//! which writes took effect, and whether one whose answer was lost did.

mod grants;
mod leaders;
mod meetings;
mod places;
#[cfg(test)]
mod tests;

use crate::verdict::{Anomaly, Verdict};
use std::collections::BTreeMap;

/// The number of a grant.
pub type Token = u64;

/// Action of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Requests a lock and waits for it.
    Acquire {
        /// Name of the lock.
        lock: String,
        /// Lease, in microseconds.
        lease_us: u64,
        /// Whether other holders share it.
        shared: bool,
        /// Most holders in all, each of which sets the same limit; 0 is any number.
        limit: usize,
        /// Whether the request was repeated under one request number: its grant may have been
        /// revoked since, and counts from the next renewal on.
        again: bool,
        /// Whether it does not wait.
        tries: bool,
        /// Number of granted tokens, of which the client receives the first.
        tokens: u64,
        /// Whether a server was to keep the lock for its clients. It grants the lock by its own
        /// knowledge: a client that it admitted after the lock had been broken, or after clocks had
        /// leapt, may have an old token.
        near: bool,
        /// Whether a successor may learn of a release before it is durable, and remove the
        /// releasing holder with its token: a refused release was then a release nevertheless.
        next: bool,
        /// Value to proclaim upon election, unique to this request; `None` for a plain lock.
        value: Option<String>,
    },
    /// Proclaims a value as a leader.
    Proclaim {
        /// Lock of the election.
        lock: String,
        /// Token of the grant.
        token: Token,
        /// The value, unique to this request.
        value: String,
    },
    /// Waits for a leader or value other than the last seen.
    Observe {
        /// Lock of the election.
        lock: String,
        /// The version that was seen; 0 means no leader.
        seen: Token,
    },
    /// Waits at a barrier.
    Meet {
        /// Name of the barrier.
        barrier: String,
        /// Number of parties.
        parties: usize,
        /// Whether the request was repeated under one request number.
        again: bool,
    },
    /// Writes a value under a lock, which is acquired and released in the same request.
    Section {
        /// Name of the lock.
        lock: String,
        /// Whether other holders share it.
        shared: bool,
        /// Most holders in all, each of which sets the same limit; 0 is any number.
        limit: usize,
        /// Whether the request was repeated under one request number.
        again: bool,
        /// Name of the place.
        place: String,
        /// The value, unique to this request.
        value: String,
        /// Whether it is written into the register.
        register: bool,
        /// Whether it is appended to the journal.
        journal: bool,
    },
    /// Restarts the lease.
    Renew {
        /// Name of the lock.
        lock: String,
        /// Token of the grant.
        token: Token,
    },
    /// Waits until another client wants the lock. The answer promises nothing.
    Listen {
        /// Name of the lock.
        lock: String,
        /// Token of the grant.
        token: Token,
    },
    /// Releases a lock.
    Release {
        /// Name of the lock.
        lock: String,
        /// Token of the grant.
        token: Token,
    },
    /// Breaks a lock, whichever client holds it.
    Break {
        /// Name of the lock.
        lock: String,
    },
    /// Writes a value under a token, which the store compares with the largest that it has seen, or
    /// in a transaction that has found the lock held with that token.
    Write {
        /// Name of the place.
        place: String,
        /// The lock that guards the place.
        lock: String,
        /// The token.
        token: Token,
        /// The value, unique to this request.
        value: String,
        /// Whether it is written into the register.
        register: bool,
        /// Whether it is appended to the journal.
        journal: bool,
    },
    /// Reads a place.
    Read {
        /// Name of the place.
        place: String,
        /// A lock's token to read under, which then counts as seen.
        fence: Option<(String, Token)>,
        /// Whether it reads the journal or the register.
        journal: bool,
    },
}

/// Outcome of an action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Unknown: it may have taken effect, and still may.
    #[default]
    Unknown,
    /// No effect: the lock was unavailable or not held, or the server could do nothing.
    Refused,
    /// No effect, because the server has seen a larger token.
    Fenced,
    /// Success.
    Done,
    /// Number of a grant or of a completed section, version of a proclaimed value, or number of a
    /// barrier's generation.
    Granted(Token),
    /// The leader, if there is one.
    Led(Option<Led>),
    /// The values read: all of a journal, or the one value of a register, if there is one.
    Read(Vec<String>),
}

/// A leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Led {
    /// Token of its grant.
    pub token: Token,
    /// Value that it has proclaimed last.
    pub value: String,
    /// Version of the value.
    pub version: Token,
}

/// One action of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// The client.
    pub who: u64,
    /// Time of the request, in microseconds on the history's clock.
    pub asked_us: u64,
    /// Time of the answer; the largest number if there was none.
    pub ended_us: u64,
    /// The action.
    pub what: What,
    /// The outcome.
    pub outcome: Outcome,
}

/// Contents of a place at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The last value of the register.
    pub register: Option<String>,
    /// All values of the journal.
    pub journal: Vec<String>,
}

/// All actions on locks and on the places that they guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// All actions, in any order.
    pub acts: Vec<Act>,
    /// Contents of every place at the end, if known.
    pub last: Option<BTreeMap<String, Place>>,
    /// Error in the measurement of a lease, in microseconds: the largest difference between any two
    /// of the clocks that leases are counted on, or between two times of one clock.
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
    /// Whether it ended before the other one was requested.
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
