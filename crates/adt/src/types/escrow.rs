//! Escrow: accesses to a quantity that commute as long as what is outstanding leaves room for all of
//! them (O'Neil, *The Escrow Transactional Method*, 1986).
//!
//! A rule for pairs ([`crate::DataType::commutes`]) cannot let two decrements of a bounded quantity go side
//! by side, because a third might not fit. Sums can: whatever subset of the outstanding changes takes
//! effect, in whatever order, the value stays between itself minus all decrements and itself plus all
//! increments. If every bound and every test gives one verdict in that whole range, no order shows.

use std::collections::BTreeMap;

/// Use that an access makes of the quantity of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Changes the quantity by so much, unless the sum is out of bounds.
    Change(i64),
    /// Tells whether the quantity is at least so much.
    AtLeast(i64),
}

/// A quantity and its bounds, both included; `None` is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// The value.
    pub value: i128,
    /// Lowest value.
    pub min: Option<i128>,
    /// Highest value.
    pub max: Option<i128>,
}

/// A type whose values are quantities.
#[derive(Clone, Copy, Debug)]
pub struct Quantity<V, O> {
    /// Use that an operation makes of the quantity, if this is all that it does. Operations that are
    /// none of these and change the quantity commute with none that their change could matter to.
    pub share: fn(&O) -> Option<Share>,
    /// The quantity that a value is.
    pub amount: fn(&V) -> Amount,
}

/// Sums over accesses that are held, or on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// Sum of all decrements, as a positive number, and of all increments.
    takes: i128,
    brings: i128,
    /// Number of tests with each threshold.
    tests: BTreeMap<i64, u32>,
}

impl Outstanding {
    /// Sums over one access.
    pub fn of(share: Share) -> Self {
        let mut sums = Self::default();
        sums.add(share);
        sums
    }

    /// Adds an access.
    pub fn add(&mut self, share: Share) {
        match share {
            Share::Change(by) => {
                self.takes += i128::from(by).min(0).abs();
                self.brings += i128::from(by).max(0);
            }
            Share::AtLeast(threshold) => *self.tests.entry(threshold).or_default() += 1,
        }
    }

    /// Takes an access off that was added.
    pub fn remove(&mut self, share: Share) {
        match share {
            Share::Change(by) => {
                self.takes -= i128::from(by).min(0).abs();
                self.brings -= i128::from(by).max(0);
            }
            Share::AtLeast(threshold) => {
                let count = self.tests.entry(threshold).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.tests.remove(&threshold);
                }
            }
        }
    }

    /// Takes the changes of others off that were added.
    pub fn part(&mut self, others: &Self) {
        self.takes -= others.takes;
        self.brings -= others.brings;
    }

    /// Whether all accesses, and a few `more`, commute in every order and subset.
    pub fn leaves_room(&self, amount: Amount, more: &[Share]) -> bool {
        let Amount { value, min, max } = amount;
        let (mut low, mut high) = (value - self.takes, value + self.brings);
        let positive = |threshold: i64| i128::from(threshold) <= value;
        // The highest threshold that is reached, and the lowest one that is not.
        let is_reached =
            i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX });
        let mut reached = self.tests.range(..=is_reached).map(|(t, _)| *t).rfind(|t| positive(*t));
        let mut missed = self.tests.range(is_reached..).map(|(t, _)| *t).find(|t| !positive(*t));
        for share in more {
            match *share {
                Share::Change(by) => {
                    low += i128::from(by).min(0);
                    high += i128::from(by).max(0);
                }
                Share::AtLeast(t) if positive(t) => reached = reached.max(Some(t)),
                Share::AtLeast(t) => missed = Some(missed.map_or(t, |missed| missed.min(t))),
            }
        }
        let changes = low < value || high > value;
        let within = min.is_none_or(|min| low >= min) && max.is_none_or(|max| high <= max);
        (within || !changes)
            && reached.is_none_or(|t| low >= i128::from(t))
            && missed.is_none_or(|t| high < i128::from(t))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outstanding(shares: &[Share]) -> Outstanding {
        let mut sums = Outstanding::default();
        shares.iter().for_each(|share| sums.add(*share));
        sums
    }

    const STOCK: Amount = Amount { value: 3, min: Some(0), max: Some(5) };

    #[test]
    fn decrements_share_as_long_as_all_of_them_fit() {
        let take = Share::Change(-1);
        assert!(outstanding(&[take, take]).leaves_room(STOCK, &[take]));
        assert!(!outstanding(&[take, take, take]).leaves_room(STOCK, &[take]));
        assert!(!outstanding(&[Share::Change(2)]).leaves_room(STOCK, &[Share::Change(1)]));
        assert!(outstanding(&[Share::Change(2)]).leaves_room(STOCK, &[Share::Change(-3)]));
        let unbounded = Amount { min: None, max: None, ..STOCK };
        assert!(outstanding(&[take; 9]).leaves_room(unbounded, &[take]));
    }

    #[test]
    fn tests_share_with_changes_that_leave_their_verdicts() {
        let sums = outstanding(&[Share::AtLeast(1), Share::AtLeast(1), Share::Change(-1)]);
        assert!(sums.leaves_room(STOCK, &[Share::Change(-1)]));
        assert!(!sums.leaves_room(STOCK, &[Share::Change(-2)]));
        assert!(sums.leaves_room(STOCK, &[Share::AtLeast(2)]), "two are left whatever happens");
        assert!(!sums.leaves_room(STOCK, &[Share::AtLeast(3)]));
        let sums = outstanding(&[Share::AtLeast(5)]);
        assert!(sums.leaves_room(STOCK, &[Share::Change(1)]));
        assert!(!sums.leaves_room(STOCK, &[Share::Change(2)]), "five would be reached");
    }

    #[test]
    fn sums_shrink_to_nothing() {
        let shares =
            [Share::Change(i64::MIN), Share::Change(7), Share::AtLeast(1), Share::AtLeast(1)];
        let mut sums = outstanding(&shares);
        shares.iter().for_each(|share| sums.remove(*share));
        assert_eq!(sums, Outstanding::default());
    }
}
