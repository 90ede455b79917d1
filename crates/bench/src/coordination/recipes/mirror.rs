//! A session's copy of a queue of nodes. While a request of the session waits, a persistent
//! recursive watch (`addWatch`, since ZooKeeper 3.6) keeps it up to date, so the session sees when
//! its node becomes the first without sending a request.
//!
//! The watch is set before the node is created, and the queue is listed after the create, all
//! without waiting. Notifications before the list are contained in it. From then on all creations
//! and deletions are notified in the order of changes. A late copy does no harm: a deleted number
//! does not come back, and later numbers are larger. When no request of the session waits any more,
//! the watch is removed, so that only sessions with waiters are notified.

use std::collections::{BTreeMap, BTreeSet};

/// The queue as one session knows it, by the numbers of its nodes.
#[derive(Debug)]
pub struct Mirror {
    /// Request whose list the copy begins with.
    lister: usize,
    is_listed: bool,
    there: BTreeSet<u64>,
    /// Requests of the session by the numbers of their nodes.
    own: BTreeMap<u64, usize>,
    /// Number of waiting requests of the session.
    waiting: usize,
}

impl Mirror {
    /// Creates a copy that begins with the list that this request asks for.
    pub fn new(lister: usize) -> Self {
        let (is_listed, waiting) = (false, 0);
        Self { lister, is_listed, there: BTreeSet::new(), own: BTreeMap::new(), waiting }
    }

    /// Counts one more waiting request.
    pub fn waits(&mut self) {
        self.waiting += 1;
    }

    /// Counts one waiting request less. Returns whether it was the last one.
    pub fn waits_no_more(&mut self) -> bool {
        self.waiting = self.waiting.saturating_sub(1);
        self.waiting == 0
    }

    /// Stores the nodes that a request has listed.
    pub fn listed(&mut self, lister: usize, numbers: impl Iterator<Item = u64>) {
        if self.lister == lister {
            self.is_listed = true;
            self.there = numbers.collect();
        }
    }

    /// Adds a created node.
    pub fn created(&mut self, number: u64) {
        self.there.insert(number);
    }

    /// Removes a deleted node.
    pub fn deleted(&mut self, number: u64) {
        self.there.remove(&number);
        self.own.remove(&number);
    }

    /// Adds the node of a request.
    pub fn joins(&mut self, number: u64, request: usize) {
        self.there.insert(number);
        self.own.insert(number, request);
    }

    /// Request that is first in the queue, if it belongs to the session.
    pub fn first(&self) -> Option<usize> {
        let first = self.there.first().filter(|_| self.is_listed)?;
        self.own.get(first).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_waiter_sees_its_turn_in_the_notifications() {
        let mut mirror = Mirror::new(70);
        // Notified between the watch and the list, so the list contains it.
        mirror.created(4);
        mirror.joins(7, 70);
        mirror.listed(60, [7].into_iter());
        assert_eq!(mirror.first(), None, "the list was requested before the watch was set");
        mirror.listed(70, [3, 4, 7].into_iter());
        assert_eq!(mirror.first(), None);
        // A waiter in the middle dies: the holder is still there.
        mirror.deleted(4);
        assert_eq!(mirror.first(), None);
        mirror.created(8);
        mirror.deleted(3);
        assert_eq!(mirror.first(), Some(70));
        mirror.deleted(7);
        assert_eq!(mirror.first(), None, "the first one is another client's");
    }

    #[test]
    fn the_last_waiter_removes_the_watch() {
        let mut mirror = Mirror::new(1);
        mirror.waits();
        mirror.waits();
        assert!(!mirror.waits_no_more());
        assert!(mirror.waits_no_more());
    }
}
