//! What the log says of the lock.

use super::{Mutant, Spec};

/// A client, which is the ticket of its request as well.
pub type ClientId = u8;

/// A place in the log.
pub type Token = u8;

/// Several tokens, a bit each.
pub type Tokens = u16;

/// A token, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// Whose.
    pub client: ClientId,
    /// The place of the record that gave it.
    pub token: Token,
    /// The leader that has written that record.
    pub term: u8,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// A client is next.
    Name(ClientId),
    /// Somebody lets go, and the next one is let in, in one entry.
    Release {
        /// Whose token.
        token: Token,
        /// Who is let in, if somebody waits.
        next: Option<ClientId>,
    },
    /// A client wants the lock.
    Claim(ClientId),
    /// Somebody renews its lease, or asks whether it holds the lock.
    Renew(Token),
    /// A client that was told nothing is gone.
    Unname(ClientId),
    /// The lease of the holder has ended.
    EndLease,
    /// The lock is deleted.
    Break,
}

/// An entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The leader that has written it.
    pub term: u8,
    /// What it says.
    pub record: Record,
    /// Tokens that had been told early when it was written, for the judge: only these may rely on a
    /// lease that has ended with this entry.
    pub knew: Tokens,
}

/// The lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lock {
    /// Who holds it.
    pub holder: Option<Held>,
    /// Who is next, whatever happens, and who comes after.
    pub next: [Option<Held>; 2],
}

impl Lock {
    /// The holder and those who are next.
    pub fn holders(&self) -> impl Iterator<Item = Held> {
        self.holder.into_iter().chain(self.next.into_iter().flatten())
    }

    /// What a client has, if anything.
    pub fn of(&self, client: ClientId) -> Option<Held> {
        self.holders().find(|held| held.client == client)
    }

    /// How many are next.
    pub fn named(&self) -> usize {
        self.next.iter().flatten().count()
    }

    /// The first of those who are next is that no more.
    fn shift(&mut self) -> Option<Held> {
        let [first, second] = self.next;
        self.next = [second, None];
        first
    }

    /// The holder is out, and the next one is in.
    fn pass(&mut self) {
        self.holder = self.shift();
    }

    /// Whether somebody holds the lock with this token, which one who is next proves by having it.
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

    /// An entry takes effect at a leader; whether it does what it was written for.
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
