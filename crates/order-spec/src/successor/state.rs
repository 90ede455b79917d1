//! Clients, what they were told, and everybody at some moment.

use super::leader::Leader;
use super::lock::{ClientId, Token, Tokens};
use super::story::Story;
use std::collections::BTreeSet;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Somebody was told a token that is smaller than one of an earlier tenure.
    Disorder,
    /// Somebody who holds the lock was refused.
    Refused,
    /// Something was written behind what has a larger token.
    Overwritten,
}

/// An answer on its way to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Answer {
    /// Whose.
    pub client: ClientId,
    /// Which of its askings is answered.
    pub asking: u8,
    /// What it says.
    pub token: Token,
    /// It was told early, and the tenure was over in the log by then.
    pub is_late: bool,
}

/// What was said, and what ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Book {
    /// Answers that may still be taken.
    pub answers: BTreeSet<Answer>,
    /// All tokens that each client was told.
    pub told: [Tokens; 3],
    /// Tokens that were told early.
    pub early: Tokens,
    /// Tokens that were taken from their holders by something durable.
    pub ended: Tokens,
    /// Tokens of which a release is durable.
    pub released: Tokens,
    /// The largest token that somebody has begun with.
    pub largest: Option<Token>,
    /// The largest token that was seen at the place that is guarded.
    pub seen: Option<Token>,
    /// What is wrong.
    pub fault: Option<Fault>,
}

impl Book {
    /// A leader tells somebody.
    pub fn tell(&mut self, (client, asking): (ClientId, u8), token: Token, early: bool) {
        let is_late = early && self.ended & bit(token) != 0;
        self.answers.insert(Answer { client, asking, token, is_late });
        self.told[usize::from(client)] |= bit(token);
        if early {
            self.early |= bit(token);
        }
    }
}

/// A set of one.
pub(super) fn bit(token: Token) -> Tokens {
    1 << token
}

/// How far a client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It has not been answered.
    Waits,
    /// It was told a token.
    Holds(Token),
    /// It has sent its release.
    Releases(Token),
    /// It has left without an answer.
    Gone,
}

/// A client, and the gateways that ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// How far it has come.
    pub phase: Phase,
    /// The number of the last asking.
    pub asking: u8,
    /// The first asking over the connection that it has now.
    pub since: u8,
    /// The leader that was asked last.
    pub at: Option<u8>,
    /// A gateway to which the connection is lost still asks: its number, and whom it has asked.
    pub copy: Option<(u8, Option<u8>)>,
    /// It has written where the lock guards something.
    pub wrote: bool,
}

impl Client {
    pub(super) fn new(phase: Phase) -> Self {
        Self { phase, asking: 0, since: 0, at: None, copy: None, wrote: false }
    }

    /// The token with which the client comes.
    pub fn token(&self) -> Option<Token> {
        match self.phase {
            Phase::Holds(token) | Phase::Releases(token) => Some(token),
            Phase::Waits | Phase::Gone => None,
        }
    }
}

/// Everybody at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) clients: Vec<Client>,
    pub(super) leader: Leader,
    /// The one before, which does not know that it is deposed, and how much of its log the next one
    /// has as well.
    pub(super) deposed: Option<(Leader, Token)>,
    pub(super) book: Book,
    /// What may still go wrong.
    pub(super) left: Story,
}

impl State {
    /// Whether a client was told that it holds the lock, and may rely on that.
    pub fn is_in_tenure(&self, client: ClientId) -> bool {
        let phase = self.clients[usize::from(client)].phase;
        matches!(phase, Phase::Holds(token) if self.book.ended & bit(token) == 0)
    }

    /// Whether a client is done.
    pub fn is_done(&self, client: &Client) -> bool {
        match client.phase {
            Phase::Releases(token) => self.book.released & bit(token) != 0,
            Phase::Gone => true,
            Phase::Waits | Phase::Holds(_) => false,
        }
    }

    /// Whether at most one client is in its tenure.
    pub fn is_alone(&self) -> bool {
        let clients = 0..self.clients.len() as ClientId;
        clients.filter(|client| self.is_in_tenure(*client)).count() <= 1
    }

    /// Whether tokens grow, and no token is two clients'.
    pub fn tokens_grow(&self) -> bool {
        let [ann, ben, cem] = self.book.told;
        self.book.fault != Some(Fault::Disorder) && ann & ben | ann & cem | ben & cem == 0
    }
}
