//! What a client of locks has asked and is not answered yet.

use adt::Reply;
use check::locks::{Led, Outcome, What};
use std::collections::VecDeque;

/// Something that is not answered.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) act: usize,
    /// How many replies are missing; the last one counts.
    pub(super) left: usize,
    /// The rest of a transaction, of which each command is sent when the one before it is answered; the
    /// first asks whether the lock is held.
    pub(super) unsent: VecDeque<Vec<String>>,
    pub(super) asks: Asks,
}

/// Whether the lock of a transaction is held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Asks {
    /// Nobody asks.
    Nothing,
    /// It begins, and is to ask next.
    Next,
    /// The next reply tells.
    Now,
    /// It is, as far as it is known.
    Held,
    /// It is not: the transaction is to be ended.
    Lost,
}

impl Open {
    /// A reply has come; the command that is sent then, if it is a transaction that goes on.
    pub(super) fn next(&mut self, reply: &Reply) -> Option<Vec<String>> {
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

pub(super) fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// What a reply says of an act.
pub(super) fn outcome(what: &What, reply: &Reply) -> Outcome {
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    match (what, reply) {
        (_, Reply::Error(error)) => match error.code() {
            "FENCED" => Outcome::Fenced,
            // It took effect, and what it has answered is lost; or it had no effect this time, and an
            // earlier copy may have had.
            "INDEFINITE" | "REPEATED" | "CLUSTERDOWN" => Outcome::Unknown,
            _ => Outcome::Refused,
        },
        // A transaction begins with the token; one command is all that is answered.
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

/// Who leads, from what is told of it.
fn led(row: &[Reply]) -> Option<Led> {
    let [Reply::Int(token), _, Reply::Bulk(value), _, Reply::Int(version)] = row else {
        return None;
    };
    let (token, version) = (token.unsigned_abs(), version.unsigned_abs());
    Some(Led { token, value: String::from_utf8_lossy(value).into_owned(), version })
}
