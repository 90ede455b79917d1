//! Unanswered requests of a client of locks.

use adt::Reply;
use check::locks::{Led, Outcome, What};
use std::collections::VecDeque;

/// Unanswered request.
#[derive(Debug)]
pub(in crate::clients::holder) struct Open {
    pub(in crate::clients::holder) act: usize,
    /// Number of outstanding replies; the last one counts.
    pub(in crate::clients::holder) left: usize,
    /// Rest of a transaction, whose commands are sent one by one, each after the reply to the one
    /// before; the first checks whether the lock is held.
    pub(in crate::clients::holder) unsent: VecDeque<Vec<String>>,
    pub(in crate::clients::holder) asks: Asks,
}

/// Check of a transaction's lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::clients::holder) enum Asks {
    /// No check.
    Nothing,
    /// The transaction begins; the check is the next command.
    Next,
    /// The next reply is the result of the check.
    Now,
    /// The lock is held, as far as is known.
    Held,
    /// The lock is lost: the transaction must be aborted.
    Lost,
}

impl Open {
    /// Handles a reply. Returns the next command of the transaction, if any.
    pub(in crate::clients::holder) fn next(&mut self, reply: &Reply) -> Option<Vec<String>> {
        self.left -= 1;
        if self.asks == Asks::Nothing {
            return None;
        }
        let ends = |code| ["TXNABORT", "INDEFINITE", "CLUSTERDOWN"].contains(&code);
        if matches!(reply, Reply::Error(error) if ends(error.code())) {
            self.left = 0;
            return None;
        }
        self.asks = match (self.asks, reply) {
            (Asks::Next, _) => Asks::Now,
            (Asks::Now, Reply::Int(1..)) => Asks::Held,
            (Asks::Now, _) => Asks::Lost,
            (asks, _) => asks,
        };
        if self.asks == Asks::Lost && self.left > 1 {
            (self.left, self.unsent) = (1, VecDeque::new());
            return Some(words("txn abort"));
        }
        self.unsent.pop_front()
    }
}

pub(in crate::clients::holder) fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// Outcome of an act according to a reply.
pub(in crate::clients::holder) fn outcome(what: &What, reply: &Reply) -> Outcome {
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    match (what, reply) {
        (_, Reply::Error(error)) => match error.code() {
            "FENCED" => Outcome::Fenced,
            // The request took effect, and its reply is lost; or it had no effect this time, and an
            // earlier copy may have had.
            "INDEFINITE" | "REPEATED" | "CLUSTERDOWN" => Outcome::Unknown,
            _ => Outcome::Refused,
        },
        // A transaction begins with the token; a section of one command returns only its reply.
        (What::Section { .. }, Reply::Array(items)) => match items.first() {
            Some(Reply::Int(token)) => Outcome::Granted(token.unsigned_abs()),
            _ => Outcome::Refused,
        },
        (What::Section { .. }, Reply::Nil | Reply::NilArray) => Outcome::Refused,
        (What::Proclaim { .. }, Reply::Int(0)) => Outcome::Refused,
        (What::Acquire { .. } | What::Meet { .. } | What::Proclaim { .. }, Reply::Int(token)) => {
            Outcome::Granted(token.unsigned_abs())
        }
        (What::Acquire { .. } | What::Meet { .. } | What::Observe { .. }, Reply::Nil) => {
            Outcome::Refused
        }
        (What::Observe { .. }, Reply::Array(row)) => Outcome::Led(led(row)),
        (
            What::Renew { .. } | What::Release { .. } | What::Listen { .. },
            Reply::Int(0) | Reply::Nil,
        ) => Outcome::Refused,
        (What::Read { .. }, Reply::Array(items)) => {
            Outcome::Read(items.iter().filter_map(text).collect())
        }
        (What::Read { .. }, reply) => Outcome::Read(text(reply).into_iter().collect()),
        _ => Outcome::Done,
    }
}

/// Leader according to an answer.
fn led(row: &[Reply]) -> Option<Led> {
    let [Reply::Int(token), _, Reply::Bulk(value), _, Reply::Int(version)] = row else {
        return None;
    };
    let (token, version) = (token.unsigned_abs(), version.unsigned_abs());
    Some(Led { token, value: String::from_utf8_lossy(value).into_owned(), version })
}
