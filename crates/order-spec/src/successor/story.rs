//! What may happen.

use super::Action;
use std::fmt;

/// Who wants the lock, and how often something may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Story {
    /// How many clients want the lock.
    pub clients: u8,
    /// The first of them has it from the beginning.
    pub is_held: bool,
    /// Each writes once where the lock guards something, and that may be late.
    pub writes: bool,
    /// The next one is named behind a release that is not durable, and not when it is.
    pub names_at_once: bool,
    /// Two are named, and the second may be told before the release of the first is durable.
    pub chain: bool,
    /// How often the leader may change.
    pub changes: u8,
    /// How often the lease may end of somebody who is there.
    pub ends: u8,
    /// How often the lock may be deleted.
    pub breaks: u8,
    /// How many clients may leave.
    pub leaves: u8,
    /// How often the leader may lose the connection to a gateway.
    pub drops: u8,
    /// How often a client may lose its connection and ask over another one.
    pub copies: u8,
    /// How many renewals there may be.
    pub renewals: u8,
}

impl Story {
    /// So many clients, of which the first has the lock, and nothing goes wrong.
    pub const fn of(clients: u8) -> Self {
        Self {
            clients,
            is_held: true,
            writes: false,
            names_at_once: false,
            chain: false,
            changes: 0,
            ends: 0,
            breaks: 0,
            leaves: 0,
            drops: 0,
            copies: 0,
            renewals: 0,
        }
    }

    /// How many are named at most.
    pub(super) fn successors(&self) -> usize {
        if self.chain { 2 } else { 1 }
    }

    /// Something has happened.
    pub(super) fn spend(&mut self, action: Action) {
        let left = match action {
            Action::Depose(_) => &mut self.changes,
            Action::EndLease => &mut self.ends,
            Action::Break => &mut self.breaks,
            Action::GiveUp(_) => &mut self.leaves,
            Action::Drop(_) => &mut self.drops,
            Action::Reconnect(_) => &mut self.copies,
            Action::Renew(_) => &mut self.renewals,
            _ => return,
        };
        *left = left.saturating_sub(1);
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} clients", self.clients)?;
        let flags = [
            (!self.is_held, "the lock is free"),
            (self.writes, "writes"),
            (self.names_at_once, "named at once"),
            (self.chain, "two are named"),
        ];
        for (_, what) in flags.into_iter().filter(|(is, _)| *is) {
            write!(f, ", {what}")?;
        }
        let counts = [
            (self.changes, "changes of leaders"),
            (self.ends, "ends of leases"),
            (self.breaks, "deletions"),
            (self.leaves, "who leave"),
            (self.drops, "lost gateways"),
            (self.copies, "lost clients"),
            (self.renewals, "renewals"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {what}")?;
        }
        Ok(())
    }
}
