//! Operations that take several numbers, of which the last is that of their commit timestamp: grants of locks
//! with a block of tokens.
//!
//! The numbers lie between that one and those before, which the entry's timestamps are moved up for
//! ([`Batch::reserved`]). Within an entry they follow each other. So what could have been given another
//! number of the same record has to be in an entry before.

use crate::entry::Apply;
use crate::limits::LOOKED_BACK_MAX;
use crate::shard::Shard;

impl Shard {
    /// Makes sure that there are as many numbers below the timestamp of what is logged next as it takes.
    pub(in crate::shard) fn reserve(&mut self, apply: &Apply) {
        let [(key, op)] = &apply.ops[..] else { return };
        let numbers = op.reserves();
        if numbers <= 1 {
            return;
        }
        let records = &self.building.records;
        // A release gives nobody a number, and whoever is next comes right behind it.
        let mut others = records.iter().flat_map(|record| record.ops());
        if records.len() > LOOKED_BACK_MAX || others.any(|(of, op)| of == key && !op.lets_go()) {
            self.close_entry();
        }
        self.building.reserved = self.building.reserved.max(u64::from(numbers) - 1);
    }
}
