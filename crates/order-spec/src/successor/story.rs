//! Stories: clients and possible failures.

use super::Action;
use std::fmt;

/// Clients of the lock, and numbers of possible failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Story {
    /// Number of clients that want the lock.
    pub clients: u8,
    /// Whether the first of them holds it from the beginning.
    pub is_held: bool,
    /// Whether each writes once to the protected resource, possibly late.
    pub writes: bool,
    /// Whether the next successor is named behind a release that is not durable, not after it is.
    pub names_at_once: bool,
    /// Whether there are two successors, of which the second may be notified before the release of
    /// the first is durable.
    pub chain: bool,
    /// Most changes of leaders.
    pub changes: u8,
    /// Most ends of a lease whose client is present.
    pub ends: u8,
    /// Most deletions of the lock.
    pub breaks: u8,
    /// Most clients that leave.
    pub leaves: u8,
    /// Most losses of the leader's connection to a gateway.
    pub drops: u8,
    /// Most losses of a client's connection after which it asks over another one.
    pub copies: u8,
    /// Most renewals.
    pub renewals: u8,
}

impl Story {
    /// This many clients, of which the first holds the lock, without failures.
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

    /// Most successors at a time.
    pub(super) fn successors(&self) -> usize {
        if self.chain { 2 } else { 1 }
    }

    /// Counts a failure that has happened.
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
            (self.leaves, "clients that leave"),
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
