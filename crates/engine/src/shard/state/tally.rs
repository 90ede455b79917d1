//! Numbers of records by database.

use adt::command::database::{DATABASES, database_of};

/// Numbers of the records that are not of database 0: the first are of those of the store's own, the others
/// of those of the databases with these numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    keys: [usize; DATABASES as usize],
    expiring: [usize; DATABASES as usize],
}

/// Place of the numbers for a key, if there is one.
#[inline]
fn place(key: &[u8]) -> Option<usize> {
    match database_of(key) {
        Some(0) => None,
        other => Some(usize::from(other.unwrap_or(0))),
    }
}

impl Tally {
    /// Counts a record that came.
    #[inline]
    pub fn came(&mut self, key: &[u8]) {
        if let Some(place) = place(key) {
            self.keys[place] += 1;
        }
    }

    /// Counts a record that went.
    #[inline]
    pub fn went(&mut self, key: &[u8]) {
        if let Some(place) = place(key) {
            self.keys[place] -= 1;
        }
    }

    /// Counts a record with an expiry.
    #[inline]
    pub fn expires(&mut self, key: &[u8]) {
        if let Some(place) = place(key) {
            self.expiring[place] += 1;
        }
    }

    /// Counts a record whose expiry, or which, is no longer there.
    #[inline]
    pub fn stays(&mut self, key: &[u8]) {
        if let Some(place) = place(key) {
            self.expiring[place] -= 1;
        }
    }

    /// Number of records of a database, of so many in all.
    pub fn keys_of(&self, database: u8, all: usize) -> usize {
        match database {
            0 => all - self.keys.iter().sum::<usize>(),
            other => self.keys[usize::from(other)],
        }
    }

    /// Number of records of the store's own.
    pub fn own(&self) -> usize {
        self.keys[0]
    }

    /// Number of records of the store's own that expire, such as the texts of scripts.
    pub fn own_expiring(&self) -> usize {
        self.expiring[0]
    }

    /// Numbers of the databases other than 0 that have records, with those of the records and of those that
    /// expire.
    pub fn databases(&self) -> impl Iterator<Item = (u8, u64, u64)> {
        let numbers = (1..DATABASES).map(|number| {
            let at = usize::from(number);
            (number, self.keys[at] as u64, self.expiring[at] as u64)
        });
        numbers.filter(|(_, keys, _)| *keys > 0)
    }
}
