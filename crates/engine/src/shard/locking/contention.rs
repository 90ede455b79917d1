//! Contention: pairs of lock modes of which one waits for the other, and the keys that requests wait for
//! most.
//!
//! The hot keys are found with the space-saving algorithm (Metwally, Agrawal, El Abbadi 2005): a
//! bounded table in which a newcomer takes the place, and the count, of the least waited-for key.

use super::claims::{Claims, txn_of};
use crate::limits::{HOT_KEYS_MAX, LOOKS_MAX};
use crate::message::Request;
use crate::shard::core::ShardCore;
use adt::Blob;
use adt::collections::Map;
use std::cell::Cell;
use std::collections::BTreeMap;

/// A data type and a lock mode.
pub type ModeName = (&'static str, &'static str);

/// Contention of one shard.
#[derive(Debug, Default)]
pub struct Contention {
    /// Bounded by the number of lock modes.
    pairs: Map<(ModeName, ModeName), u64>,
    keys: Map<Blob, (u64, u64)>,
}

impl Contention {
    /// Counts for which pair of lock modes a request waits.
    pub fn count(&mut self, core: &ShardCore, request: &Request, claims: &Claims) {
        let own = txn_of(&request.body);
        for (key, claim) in claims {
            let record = core.state.get(key);
            // The first of few that are looked at stands for all.
            let looks = Cell::new(0);
            let looked_at = |_| looks.replace(looks.get() + 1) < LOOKS_MAX;
            let held = core.locks.holders_against(key, claim, own, record, looked_at).next();
            if let Some((_, held)) = held {
                let names = (held.mode_name(), claim.mode_name());
                self.waits(names.0, names.1);
                return;
            }
        }
    }

    /// A request in mode `asked` has to wait for one in mode `held`.
    pub fn waits(&mut self, held: ModeName, asked: ModeName) {
        *self.pairs.entry((held, asked)).or_default() += 1;
    }

    /// A request has waited for `key`.
    pub fn waited(&mut self, key: &Blob, us: u64) {
        let full = self.keys.len() >= HOT_KEYS_MAX;
        let count = match self.keys.get_mut(key) {
            Some(count) => count,
            None => {
                let coldest = || (0..self.keys.len()).min_by_key(|index| self.keys[*index]);
                let coldest = if full { coldest() } else { None };
                let replaced = coldest.and_then(|index| self.keys.swap_remove_index(index));
                self.keys.entry(key.clone()).or_insert(replaced.unwrap_or_default().1)
            }
        };
        count.0 += 1;
        count.1 += us;
    }

    /// How often a request in the second mode waited for one in the first.
    pub fn conflicts(&self) -> BTreeMap<(String, String), u64> {
        let text = |name: &ModeName| format!("{} {}", name.0, name.1);
        self.pairs.iter().map(|((held, asked), n)| ((text(held), text(asked)), *n)).collect()
    }

    /// Keys with the number of waits and the microseconds waited, the worst first.
    pub fn hot_keys(&self) -> Vec<(Blob, u64, u64)> {
        let mut keys: Vec<_> = self.keys.iter().map(|(k, c)| (k.clone(), c.0, c.1)).collect();
        keys.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        keys
    }
}
