//! Behaviour of a leader.

use super::lock::{ClientId, Entry, Held, Lock, Record, Token, Tokens};
use super::state::{Book, bit};
use super::{Mutant, Spec};

/// A leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Leader {
    /// Term of the leader.
    pub term: u8,
    /// Number of entries that it knows to be durable.
    pub durable: Token,
    /// State of the lock after the durable entries.
    pub lock: Lock,
    /// Entries that are not durable.
    pub tail: Vec<Entry>,
    /// Waiters with the number of their request, in the order of arrival.
    pub turns: Vec<(ClientId, u8)>,
    /// Tokens that this leader has delivered.
    told: Tokens,
    /// Clients, a bit each, that have left here and may have records in the log.
    left: u8,
}

impl Leader {
    /// Makes client 0 the holder from the beginning.
    pub fn begin_held(&mut self) {
        self.lock.holder = Some(Held { client: 0, token: 0, term: 0 });
        self.durable = 1;
        self.told = bit(0);
    }

    /// The next leader, which has this many of the entries that are not durable.
    pub fn next(&self, spec: &Spec, kept: usize) -> Self {
        let mut lock = self.lock;
        if spec.is(Mutant::ForgetNamed) {
            lock.next = [None; 2];
        }
        let tail = self.tail[..kept].to_vec();
        Self { term: self.term + 1, durable: self.durable, lock, tail, ..Self::default() }
    }

    /// The length of the log.
    pub fn end(&self) -> Token {
        self.durable + self.tail.len() as Token
    }

    /// State of the lock after the whole log.
    pub fn lock_in_log(&self, spec: &Spec) -> Lock {
        let mut lock = self.lock;
        for (at, entry) in (self.durable..).zip(&self.tail) {
            lock.apply(spec, self.term, at, *entry);
        }
        lock
    }

    /// Whether a client waits with this request number.
    pub fn has(&self, turn: (ClientId, u8)) -> bool {
        self.turns.contains(&turn)
    }

    fn waits(&self, client: ClientId) -> bool {
        self.turns.iter().any(|turn| turn.0 == client)
    }

    /// Adds a waiter.
    pub fn queue(&mut self, turn: (ClientId, u8)) {
        self.turns.push(turn);
        self.left &= !(1 << turn.0);
    }

    /// Removes a waiter; returns whether there was one.
    pub fn leave(&mut self, turn: (ClientId, u8)) -> bool {
        let was_here = self.has(turn);
        self.turns.retain(|other| *other != turn);
        self.left |= u8::from(was_here) << turn.0;
        was_here
    }

    /// Whether a release of this leader is in flight.
    pub fn has_release(&self, token: Token) -> bool {
        self.tail.iter().any(|entry| {
            let is = matches!(entry.record, Record::Release { token: of, .. } if of == token);
            is && entry.term == self.term
        })
    }

    /// Puts a record into the log.
    pub fn write(&mut self, record: Record, book: &Book) {
        let knew = match record {
            Record::EndLease | Record::Break => book.early,
            _ => 0,
        };
        self.tail.push(Entry { term: self.term, record, knew });
    }

    /// Whether every record in flight passes the lock to a client whose naming is durable, or names
    /// a successor.
    fn only_passes(&self, spec: &Spec) -> bool {
        let mut lock = self.lock;
        (self.durable..).zip(&self.tail).all(|(at, entry)| {
            let holder = lock.holder.map(|held| held.token);
            lock.apply(spec, self.term, at, *entry);
            match entry.record {
                Record::Name(_) => true,
                Record::Release { token, .. } => {
                    holder == Some(token) && lock.holder.is_some_and(|held| self.has_named(held))
                }
                _ => false,
            }
        })
    }

    fn has_named(&self, held: Held) -> bool {
        self.lock.next.contains(&Some(held))
    }

    /// The client that may be notified at once if this token is released.
    pub fn early(&self, spec: &Spec, token: Token, has_lease: bool) -> Option<Held> {
        let is_name = |entry: &Entry| matches!(entry.record, Record::Name(_));
        let mut lock = self.lock;
        let is_free = if spec.is(Mutant::TellBeforeNamed) {
            lock = self.lock_in_log(spec);
            self.tail.iter().all(is_name)
        } else if spec.is(Mutant::TellBehindOthers) {
            true
        } else if spec.story.chain {
            lock = self.lock_in_log(spec);
            self.only_passes(spec) && lock.next[0].is_some_and(|held| self.has_named(held))
        } else {
            self.tail.is_empty()
        };
        let leads = has_lease || spec.is(Mutant::TellWithoutLease);
        let is_holders = lock.holder.is_some_and(|held| held.token == token);
        let next = lock.next[0].filter(|held| self.waits(held.client));
        next.filter(|_| leads && is_free && is_holders)
    }

    /// Handles a release.
    pub fn release(&mut self, spec: &Spec, book: &mut Book, token: Token, has_lease: bool) {
        let early = self.early(spec, token, has_lease);
        // Result of the release alone.
        self.write(Record::Release { token, next: None }, book);
        let holder = self.lock_in_log(spec).holder;
        let first = self.turns.first().map(|turn| turn.0);
        let next = holder.map_or(first, |held| self.waits(held.client).then_some(held.client));
        if let Some(entry) = self.tail.last_mut() {
            entry.record = Record::Release { token, next };
        }
        if let Some(held) = early {
            self.tell(book, held, true);
        }
    }

    fn tell(&mut self, book: &mut Book, held: Held, early: bool) {
        let turns = std::mem::take(&mut self.turns);
        let (his, others): (Vec<_>, Vec<_>) =
            turns.into_iter().partition(|turn| turn.0 == held.client);
        self.turns = others;
        for turn in his {
            self.told |= bit(held.token);
            book.tell(turn, held.token, early);
        }
    }

    /// Whether no record in the log revokes this grant.
    fn keeps(&self, spec: &Spec, held: Held) -> bool {
        self.lock_in_log(spec).of(held.client) == Some(held)
    }

    /// Makes the next entry durable at this leader; returns it, and whether it took effect.
    pub fn advance(&mut self, spec: &Spec, book: &mut Book) -> (Entry, bool) {
        let entry = self.tail.remove(0);
        let is_done = self.lock.apply(spec, self.term, self.durable, entry);
        self.durable += 1;
        if let Record::Claim(client) | Record::Release { next: Some(client), .. } = entry.record
            && let Some(held) = self.lock.holder.filter(|held| held.client == client)
            && (self.keeps(spec, held) || spec.is(Mutant::TellTakenBack))
        {
            self.tell(book, held, false);
        }
        (entry, is_done)
    }

    /// Whether a grant may be revoked because no client can have learned of it.
    fn takes_back(&self, spec: &Spec, held: Held) -> bool {
        let is_own = held.term == self.term || spec.is(Mutant::TakeBackInherited);
        let was_told = self.told & bit(held.token) != 0 && !spec.is(Mutant::TakeBackTold);
        is_own && !was_told
    }

    /// Revokes grants of clients that have left.
    fn take_back(&mut self, spec: &Spec, book: &Book) {
        for client in 0..3 {
            if self.left & 1 << client == 0 || self.waits(client) {
                continue;
            }
            let held = self.lock_in_log(spec).of(client);
            if held.is_some_and(|held| self.takes_back(spec, held)) {
                // A grant in flight is revoked once it is durable.
                if held.map(|held| held.token) != self.lock.of(client).map(|held| held.token) {
                    continue;
                }
                self.write(Record::Unname(client), book);
            }
            self.left &= !(1 << client);
        }
    }

    /// Lets the leader do all possible work.
    pub fn work(&mut self, spec: &Spec, book: &Book) {
        self.take_back(spec, book);
        let Some(first) = self.turns.first().map(|turn| turn.0) else { return };
        let lock = self.lock_in_log(spec);
        let Some(holder) = lock.holder.map(|held| held.client) else {
            return self.write(Record::Claim(first), book);
        };
        let is_on_its_way = |entry: &Entry| match entry.record {
            Record::Claim(client) | Record::Release { next: Some(client), .. } => client == holder,
            _ => false,
        };
        if self.waits(holder) && !self.tail.iter().any(is_on_its_way) {
            self.write(Record::Claim(holder), book);
        }
        self.name(spec, book, holder);
    }

    /// Names waiters as successors, as far as there is room.
    fn name(&mut self, spec: &Spec, book: &Book, holder: ClientId) {
        let is_name = |entry: &Entry| matches!(entry.record, Record::Name(_));
        let is_full = |lock: Lock| lock.named() >= spec.story.successors();
        let waits_for_log = !spec.story.chain && !spec.story.names_at_once;
        if self.tail.iter().any(is_name) || waits_for_log && is_full(self.lock) {
            return;
        }
        for (client, _) in self.turns.clone() {
            let lock = self.lock_in_log(spec);
            if client != holder && lock.of(client).is_none() && !is_full(lock) {
                self.write(Record::Name(client), book);
            }
        }
    }
}
