//! Clients, the answers to them, and the whole state.

use super::leader::Leader;
use super::lock::{ClientId, Token, Tokens};
use super::story::Story;
use std::collections::BTreeSet;

/// Violation of a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A client received a token that is smaller than one of an earlier tenure.
    Disorder,
    /// A holder of the lock was refused.
    Refused,
    /// A write was accepted behind one with a larger token.
    Overwritten,
}

/// An answer on its way to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Answer {
    /// Receiver of the answer.
    pub client: ClientId,
    /// Number of the answered request.
    pub asking: u8,
    /// Token that it grants.
    pub token: Token,
    /// Whether it was sent early, when the tenure had already ended in the log.
    pub is_late: bool,
}

/// Answers that were sent, and tenures that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Book {
    /// Answers that can still be delivered.
    pub answers: BTreeSet<Answer>,
    /// All tokens that were sent to each client.
    pub told: [Tokens; 3],
    /// Tokens that were sent early.
    pub early: Tokens,
    /// Tokens that a durable record took from their holders.
    pub ended: Tokens,
    /// Tokens with a durable release.
    pub released: Tokens,
    /// The largest token with which a tenure has begun.
    pub largest: Option<Token>,
    /// The largest token that the protected resource has seen.
    pub seen: Option<Token>,
    /// The violation, if any.
    pub fault: Option<Fault>,
}

impl Book {
    /// Sends an answer of a leader.
    pub fn tell(&mut self, (client, asking): (ClientId, u8), token: Token, early: bool) {
        let is_late = early && self.ended & bit(token) != 0;
        self.answers.insert(Answer { client, asking, token, is_late });
        self.told[usize::from(client)] |= bit(token);
        if early {
            self.early |= bit(token);
        }
    }
}

/// A set of one token.
pub(super) fn bit(token: Token) -> Tokens {
    1 << token
}

/// Progress of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Without an answer.
    Waits,
    /// Has received a token.
    Holds(Token),
    /// Has sent its release.
    Releases(Token),
    /// Has left without an answer.
    Gone,
}

/// A client, and the gateways that ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// Progress of the client.
    pub phase: Phase,
    /// Number of its last request.
    pub asking: u8,
    /// Number of the first request over its present connection.
    pub since: u8,
    /// Term of the leader that it asked last.
    pub at: Option<u8>,
    /// Gateway of a lost connection that still asks: request number, and term of the leader that it
    /// asked.
    pub copy: Option<(u8, Option<u8>)>,
    /// Whether it has written to the protected resource.
    pub wrote: bool,
}

impl Client {
    pub(super) fn new(phase: Phase) -> Self {
        Self { phase, asking: 0, since: 0, at: None, copy: None, wrote: false }
    }

    /// Token that the client presents.
    pub fn token(&self) -> Option<Token> {
        match self.phase {
            Phase::Holds(token) | Phase::Releases(token) => Some(token),
            Phase::Waits | Phase::Gone => None,
        }
    }
}

/// State of all parts at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) clients: Vec<Client>,
    pub(super) leader: Leader,
    /// The previous leader, which does not know that it is deposed, and the length of its log that
    /// the new one has as well.
    pub(super) deposed: Option<(Leader, Token)>,
    pub(super) book: Book,
    /// Failures that are still possible.
    pub(super) left: Story,
}

impl State {
    /// Whether a client has learned that it holds the lock, and may rely on that.
    pub fn is_in_tenure(&self, client: ClientId) -> bool {
        let phase = self.clients[usize::from(client)].phase;
        matches!(phase, Phase::Holds(token) if self.book.ended & bit(token) == 0)
    }

    /// Whether a client has finished.
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

    /// Whether tokens grow, and no token belongs to two clients.
    pub fn tokens_grow(&self) -> bool {
        let [ann, ben, cem] = self.book.told;
        self.book.fault != Some(Fault::Disorder) && ann & ben | ann & cem | ben & cem == 0
    }
}
