//! A session's copy of a queue of nodes, kept by what a recursive watch tells that lasts (`addWatch`, since
//! ZooKeeper 3.6) while a request of the session waits: so it knows when its node is the first, and asks
//! nobody.
//!
//! The watch is set before the node is created, and the queue is listed behind that, all without waiting.
//! What is told before the list is in it. From then on everything that comes and goes is told in the order
//! of changes. That the copy is late does no harm: a number that is gone does not come back, and later
//! ones are larger. When nobody of the session waits any more the watch is removed, so that only those are
//! told who want to know.

use std::collections::{BTreeMap, BTreeSet};

/// The queue as one session knows it, by the numbers of its nodes.
#[derive(Debug)]
pub struct Mirror {
    /// Whose list it begins with.
    lister: usize,
    is_listed: bool,
    there: BTreeSet<u64>,
    /// Whose nodes are the session's own, by request.
    own: BTreeMap<u64, usize>,
    /// Requests of the session that wait.
    waiting: usize,
}

impl Mirror {
    /// A copy that begins with the list that this request asks for.
    pub fn new(lister: usize) -> Self {
        let (is_listed, waiting) = (false, 0);
        Self { lister, is_listed, there: BTreeSet::new(), own: BTreeMap::new(), waiting }
    }

    /// One more request waits.
    pub fn waits(&mut self) {
        self.waiting += 1;
    }

    /// One waits no more. Tells whether it was the last one.
    pub fn waits_no_more(&mut self) -> bool {
        self.waiting = self.waiting.saturating_sub(1);
        self.waiting == 0
    }

    /// What there was, as a request has listed it.
    pub fn listed(&mut self, lister: usize, numbers: impl Iterator<Item = u64>) {
        if self.lister == lister {
            self.is_listed = true;
            self.there = numbers.collect();
        }
    }

    /// A node has come.
    pub fn created(&mut self, number: u64) {
        self.there.insert(number);
    }

    /// A node is gone.
    pub fn deleted(&mut self, number: u64) {
        self.there.remove(&number);
        self.own.remove(&number);
    }

    /// The node of a request has come.
    pub fn joins(&mut self, number: u64, request: usize) {
        self.there.insert(number);
        self.own.insert(number, request);
    }

    /// The request whose turn it is, if it is one of the session's own.
    pub fn first(&self) -> Option<usize> {
        let first = self.there.first().filter(|_| self.is_listed)?;
        self.own.get(first).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_first_knows_it_from_what_is_told() {
        let mut mirror = Mirror::new(70);
        // Told between the watch and the list, so it is in the list.
        mirror.created(4);
        mirror.joins(7, 70);
        mirror.listed(60, [7].into_iter());
        assert_eq!(mirror.first(), None, "that was asked before the watch was set");
        mirror.listed(70, [3, 4, 7].into_iter());
        assert_eq!(mirror.first(), None);
        // Somebody in the middle dies: the holder is there still.
        mirror.deleted(4);
        assert_eq!(mirror.first(), None);
        mirror.created(8);
        mirror.deleted(3);
        assert_eq!(mirror.first(), Some(70));
        mirror.deleted(7);
        assert_eq!(mirror.first(), None, "the first one is another client's");
    }

    #[test]
    fn the_last_one_who_waits_ends_the_watch() {
        let mut mirror = Mirror::new(1);
        mirror.waits();
        mirror.waits();
        assert!(!mirror.waits_no_more());
        assert!(mirror.waits_no_more());
    }
}
