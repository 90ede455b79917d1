//! Fencing: the largest token of each lock that was seen here; operations with a smaller one are refused.
//!
//! Follows Kleppmann, "How to do distributed locking" (2016). The table has a bound: when it is full
//! the smallest token is forgotten, and from then on no lock that is not in the table is let through
//! with a token up to that one. So nothing that was refused once is ever let through.

use crate::limits::FENCES_MAX;
use crate::message::Fence;
use adt::Blob;
use std::collections::{BTreeMap, BTreeSet};

/// The largest tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fences {
    seen: BTreeMap<Blob, u64>,
    by_token: BTreeSet<(u64, Blob)>,
    /// Largest token that may have been seen of a lock which is not in the table.
    floor: u64,
}

impl Fences {
    /// Whether operations with these tokens are let through.
    pub fn admit(&self, fences: &[Fence]) -> bool {
        fences.iter().all(|fence| match self.seen.get(&fence.lock) {
            Some(seen) => fence.token >= *seen,
            None => fence.token > self.floor,
        })
    }

    /// Notes the tokens of operations that were let through.
    pub fn raise(&mut self, fences: &[Fence]) {
        for Fence { lock, token } in fences {
            self.put(lock.clone(), *token);
            if self.seen.len() > FENCES_MAX
                && let Some((token, lock)) = self.by_token.pop_first()
            {
                self.seen.remove(&lock);
                self.floor = self.floor.max(token);
            }
        }
    }

    /// Puts a token of a snapshot in its place. A backup may have several of a lock.
    pub fn put(&mut self, lock: Blob, token: u64) {
        let token = self.seen.get(&lock).map_or(token, |seen| token.max(*seen));
        if let Some(before) = self.seen.insert(lock.clone(), token) {
            self.by_token.remove(&(before, lock.clone()));
        }
        self.by_token.insert((token, lock));
    }

    /// Takes over the floor of a snapshot.
    pub fn restore_floor(&mut self, floor: u64) {
        self.floor = self.floor.max(floor);
    }

    /// Token that a lock which is not in the table must be above.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// All locks with their tokens.
    pub fn iter(&self) -> impl Iterator<Item = (&Blob, u64)> {
        self.seen.iter().map(|(lock, token)| (lock, *token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(lock: impl AsRef<str>, token: u64) -> [Fence; 1] {
        [Fence { lock: Blob::from(lock.as_ref()), token }]
    }

    #[test]
    fn a_smaller_token_than_was_seen_is_refused_and_the_same_is_not() {
        let mut fences = Fences::default();
        assert!(fences.admit(&fence("a", 5)));
        fences.raise(&fence("a", 5));
        assert!(fences.admit(&fence("a", 5)) && !fences.admit(&fence("a", 4)));
        assert!(fences.admit(&fence("b", 1)), "another lock");
        let both = [fence("b", 9), fence("a", 4)].concat();
        assert!(!fences.admit(&both), "one of two");
    }

    #[test]
    fn what_is_forgotten_is_refused_for_ever() {
        let mut fences = Fences::default();
        for n in 0..=FENCES_MAX as u64 {
            fences.raise(&fence(format!("lock {n}"), 10 + n));
        }
        assert_eq!((fences.iter().count(), fences.floor()), (FENCES_MAX, 10));
        assert!(!fences.admit(&fence("lock 0", 9)) && !fences.admit(&fence("new", 10)));
        assert!(fences.admit(&fence("lock 0", 11)) && fences.admit(&fence("lock 1", 11)));
    }
}
