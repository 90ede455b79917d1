//! Who waits for whom: pairs of lock modes, and the keys that are waited for most.
//!
//! The hot keys are found with the space-saving algorithm (Metwally, Agrawal, El Abbadi 2005): a
//! bounded table in which a newcomer takes the place, and the count, of the least waited-for key.

use crate::limits::HOT_KEYS_MAX;
use adt::Blob;
use std::collections::BTreeMap;

/// Most pairs of modes that are counted.
const PAIRS_MAX: usize = 1024;

/// Contention of one shard.
#[derive(Debug, Default)]
pub struct Contention {
    pairs: BTreeMap<(String, String), u64>,
    keys: BTreeMap<Blob, (u64, u64)>,
}

impl Contention {
    /// A request in mode `asked` has to wait for one in mode `held`.
    pub fn waits(&mut self, held: String, asked: String) {
        let pair = (held, asked);
        if self.pairs.len() < PAIRS_MAX || self.pairs.contains_key(&pair) {
            *self.pairs.entry(pair).or_default() += 1;
        }
    }

    /// A request has waited for `key`.
    pub fn waited(&mut self, key: &Blob, us: u64) {
        if !self.keys.contains_key(key) && self.keys.len() >= HOT_KEYS_MAX {
            let coldest = self.keys.iter().min_by_key(|(_, count)| **count);
            let (coldest, count) = coldest.map(|(k, c)| (k.clone(), *c)).unwrap_or_default();
            self.keys.remove(&coldest);
            self.keys.insert(key.clone(), count);
        }
        let count = self.keys.entry(key.clone()).or_default();
        count.0 += 1;
        count.1 += us;
    }

    /// How often a request in the second mode waited for one in the first.
    pub fn conflicts(&self) -> BTreeMap<(String, String), u64> {
        self.pairs.clone()
    }

    /// Keys with the number of waits and the microseconds waited, the worst first.
    pub fn hot_keys(&self) -> Vec<(Blob, u64, u64)> {
        let mut keys: Vec<_> = self.keys.iter().map(|(k, c)| (k.clone(), c.0, c.1)).collect();
        keys.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        keys
    }
}
