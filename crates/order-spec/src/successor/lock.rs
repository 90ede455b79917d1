//! State of the lock in the log.

use super::{Mutant, Spec};

/// Number of a client, which is also the ticket of its request.
pub type ClientId = u8;

/// A place in the log.
pub type Token = u8;

/// Several tokens, a bit each.
pub type Tokens = u16;

/// A token with its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// Owner of the token.
    pub client: ClientId,
    /// Place of the record that granted it.
    pub token: Token,
    /// Term of the leader that wrote the record.
    pub term: u8,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// Names a client as the next successor.
    Name(ClientId),
    /// Releases the lock and grants it to the next client, in one entry.
    Release {
        /// Token that is released.
        token: Token,
        /// Client that is granted the lock, if there is a waiter.
        next: Option<ClientId>,
    },
    /// Requests the lock for a client.
    Claim(ClientId),
    /// Renews a lease, or asks whether the token holds the lock.
    Renew(Token),
    /// Removes a client that left without having been notified.
    Unname(ClientId),
    /// Ends the lease of the holder.
    EndLease,
    /// Deletes the lock.
    Break,
}

/// An entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Term of the leader that wrote it.
    pub term: u8,
    /// The record.
    pub record: Record,
    /// Tokens that had been delivered early when it was written, for the judge: only these clients
    /// may rely on a lease that ends with this entry.
    pub knew: Tokens,
}

/// The lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lock {
    /// The holder.
    pub holder: Option<Held>,
    /// The successors in order.
    pub next: [Option<Held>; 2],
}

impl Lock {
    /// The holder and the successors.
    pub fn holders(&self) -> impl Iterator<Item = Held> {
        self.holder.into_iter().chain(self.next.into_iter().flatten())
    }

    /// Grant of a client, if it has one.
    pub fn of(&self, client: ClientId) -> Option<Held> {
        self.holders().find(|held| held.client == client)
    }

    /// Number of successors.
    pub fn named(&self) -> usize {
        self.next.iter().flatten().count()
    }

    /// Removes and returns the first successor.
    fn shift(&mut self) -> Option<Held> {
        let [first, second] = self.next;
        self.next = [second, None];
        first
    }

    /// Makes the first successor the holder.
    fn pass(&mut self) {
        self.holder = self.shift();
    }

    /// Whether the lock is held with this token. The token of a successor proves that it is.
    fn prove(&mut self, spec: &Spec, token: Token) -> bool {
        let is = |held: Option<Held>| held.is_some_and(|held| held.token == token);
        let at = self.next.into_iter().position(is).filter(|_| !spec.is(Mutant::NoProof));
        if let Some(at) = at.filter(|at| *at == 0 || !spec.is(Mutant::ProveFirst)) {
            (0..=at).for_each(|_| self.pass());
        }
        is(self.holder)
    }

    fn name(&mut self, spec: &Spec, held: Held) -> bool {
        let is_new = self.of(held.client).is_none();
        let can = is_new && self.holder.is_some() && self.named() < spec.story.successors();
        if can {
            self.next[self.named()] = Some(held);
        }
        can
    }

    fn unname(&mut self, client: ClientId) {
        let is = |held: Option<Held>| held.is_some_and(|held| held.client == client);
        match self.next.map(is) {
            [true, _] => drop(self.shift()),
            [_, true] => self.next[1] = None,
            _ if is(self.holder) => self.pass(),
            _ => {}
        }
    }

    fn claim(&mut self, client: ClientId, token: Token, term: u8) -> bool {
        let held = *self.holder.get_or_insert(Held { client, token, term });
        held.client == client
    }

    /// Carries out an entry at a leader; returns whether it has its intended effect.
    pub fn apply(&mut self, spec: &Spec, leader: u8, at: Token, entry: Entry) -> bool {
        let term = entry.term;
        match entry.record {
            Record::Name(client) => {
                let forgets = spec.is(Mutant::ForgetNamed) && term != leader;
                !forgets && self.name(spec, Held { client, token: at, term })
            }
            Record::Release { token, next } => {
                let holds = self.prove(spec, token);
                if holds {
                    self.pass();
                }
                if let Some(next) = next {
                    self.claim(next, at, term);
                }
                holds
            }
            Record::Claim(client) => self.claim(client, at, term),
            Record::Renew(token) => self.prove(spec, token),
            Record::Unname(client) => {
                self.unname(client);
                true
            }
            Record::EndLease => {
                self.pass();
                if spec.is(Mutant::EndForgets) {
                    *self = Self::default();
                }
                true
            }
            Record::Break => {
                *self = Self::default();
                true
            }
        }
    }
}
