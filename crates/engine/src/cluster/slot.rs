//! Hash slots, which decide the shard of a key, exactly as in Redis Cluster.
//!
//! The slot is CRC-16/XMODEM of the key modulo 16,384; if the key contains `{...}` with at least
//! one character between the first brace and the next closing one, only that part is hashed, so
//! that users can keep keys together. See the Redis Cluster specification. The database of a key does not
//! count. A placement rule makes a prefix of the key the part that is hashed ([`adt::command::tags`]).

use super::map::{Range, ShardMap};
use crate::ids::ShardId;
use crate::limits::SLOTS;
use adt::command::database::hashed_part;
use std::collections::BTreeMap;

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// Slot of a key, below [`SLOTS`].
pub fn slot(key: &[u8]) -> u16 {
    let crc = hashed_part(key)
        .iter()
        .fold(0u16, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]);
    crc % SLOTS
}

/// Shard of a key when `shards` shards split the slots into equal ranges.
#[inline]
pub fn shard_of(key: &[u8], shards: u16) -> ShardId {
    if shards == 1 {
        return ShardId(0);
    }
    shard_of_slot(slot(key), shards)
}

/// Shard of a slot when `shards` shards split the slots into equal ranges.
pub fn shard_of_slot(slot: u16, shards: u16) -> ShardId {
    ShardId((u32::from(slot) * u32::from(shards) / u32::from(SLOTS)) as u16)
}

/// Slots of each of so many shards that share them evenly.
pub fn ranges(shards: u16) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for slot in 0..SLOTS {
        match ranges.get_mut(usize::from(shard_of_slot(slot, shards).0)) {
            Some(range) => range.1 = slot,
            None => ranges.push((slot, slot)),
        }
    }
    ranges
}

/// Assignment of slots to shards, as a gateway knows it.
#[derive(Debug)]
pub struct Routes {
    /// One more than the highest number of a shard with slots.
    shards: u16,
    /// Shard of every slot, once a split was executed; until then the slots are shared evenly.
    table: Option<Box<[ShardId]>>,
    /// Slots of each shard, once a split was executed.
    owned: Vec<Option<Range>>,
    /// Number of splits of each shard that are known to have been executed.
    splits: BTreeMap<ShardId, u16>,
}

impl Routes {
    /// Even assignment to so many shards.
    pub fn even(shards: u16) -> Self {
        Self { shards, table: None, owned: Vec::new(), splits: BTreeMap::new() }
    }

    /// Number of shards: every shard with slots has a smaller number.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// Shard of a key.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        match &self.table {
            Some(table) => table[usize::from(slot(key))],
            None => shard_of(key, self.shards),
        }
    }

    /// Shard of a slot.
    pub fn shard_of_slot(&self, slot: u16) -> ShardId {
        match &self.table {
            Some(table) => table[usize::from(slot)],
            None => shard_of_slot(slot, self.shards),
        }
    }

    /// Slots of a shard, first and last.
    pub fn slots_of(&self, shard: ShardId) -> Range {
        if let Some(range) = self.owned.get(usize::from(shard.0)).copied().flatten() {
            return range;
        }
        let first = |shard: u32| (shard * u32::from(SLOTS)).div_ceil(u32::from(self.shards)) as u16;
        (first(shard.0.into()), first(u32::from(shard.0) + 1) - 1)
    }

    /// Number of splits of a shard that are known to have been executed.
    pub fn splits(&self, shard: ShardId) -> u16 {
        self.splits.get(&shard).copied().unwrap_or(0)
    }

    /// Shard of every slot.
    pub fn all(&self) -> Vec<ShardId> {
        (0..SLOTS).map(|slot| self.shard_of_slot(slot)).collect()
    }

    /// Ranges of slots, first and last, with their shard, ascending.
    pub fn ranges(&self) -> Vec<(Range, ShardId)> {
        let mut ranges: Vec<(Range, ShardId)> = Vec::new();
        for slot in 0..SLOTS {
            let shard = self.shard_of_slot(slot);
            match ranges.last_mut() {
                Some((range, last)) if *last == shard => range.1 = slot,
                _ => ranges.push(((slot, slot), shard)),
            }
        }
        ranges
    }

    /// Adopts the number of executed splits that a shard's leader has reported; `map` says which
    /// splits they are.
    pub fn carried_out(&mut self, shard: ShardId, splits: u16, map: &ShardMap) {
        let known = self.splits.entry(shard).or_default();
        *known = splits.max(*known);
        self.follow(map);
    }

    /// Adopts a new map.
    pub fn follow(&mut self, map: &ShardMap) {
        for split in map.splits.iter().filter(|split| split.done) {
            let known = self.splits.entry(split.parent).or_default();
            *known = map.splits_done(split.parent).max(*known);
        }
        let mut left = self.splits.clone();
        let ranges = map.ranges(|split| {
            let left = left.entry(split.parent).or_default();
            let carried_out = *left > 0;
            *left = left.saturating_sub(1);
            carried_out
        });
        self.shards = ranges.iter().rposition(Option::is_some).map_or(1, |last| last as u16 + 1);
        if map.splits.is_empty() {
            return;
        }
        let mut table = vec![ShardId(0); usize::from(SLOTS)];
        for (range, shard) in ranges.iter().zip(0..) {
            let Some((first, last)) = *range else { continue };
            table[usize::from(first)..=usize::from(last)].fill(ShardId(shard));
        }
        self.table = Some(table.into());
        self.owned = ranges;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(slot(b"123456789"), 0x31c3 % SLOTS);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{}{bar}"), slot(b"foo{}{bar}"));
        assert_ne!(slot(b"foo{}{bar}"), slot(b"bar"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    }

    #[test]
    fn shards_split_the_slots_evenly() {
        for shards in [1, 2, 3, 7, 64] {
            let mut sizes = vec![0u32; usize::from(shards)];
            for slot in 0..SLOTS {
                sizes[usize::from(shard_of_slot(slot, shards).0)] += 1;
            }
            let (low, high) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(high - low <= 1);
            for ((first, last), shard) in ranges(shards).into_iter().zip(0..) {
                let size = u32::from(last - first) + 1;
                assert_eq!(size, sizes[usize::from(shard)]);
                assert_eq!(shard_of_slot(first, shards), ShardId(shard));
                assert_eq!(Routes::even(shards).slots_of(ShardId(shard)), (first, last));
            }
        }
    }

    #[test]
    fn slots_go_to_a_new_shard_when_its_parent_says_so() {
        let machines = [(crate::ids::MachineId(1), "10.0.0.1:7001".to_owned())];
        let map = ShardMap::founded(machines.into(), 2);
        let mut routes = Routes::even(2);
        let next = map.split(ShardId(0), Some(100)).unwrap();
        routes.follow(&next);
        assert_eq!((routes.shards(), routes.shard_of_slot(100)), (2, ShardId(0)));
        routes.carried_out(ShardId(0), 1, &next);
        assert_eq!(routes.shards(), 3);
        assert_eq!(routes.shard_of_slot(99), ShardId(0));
        assert_eq!(routes.shard_of_slot(100), ShardId(2));
        let rest = [((0, 99), ShardId(0)), ((100, 8191), ShardId(2)), ((8192, 16383), ShardId(1))];
        assert_eq!(routes.ranges(), rest);
        for (range, shard) in rest {
            assert_eq!(routes.slots_of(shard), range);
        }
        // A gateway that has missed the report learns of the split from the map.
        let mut late = Routes::even(2);
        late.follow(&next.split_done(ShardId(2)));
        assert_eq!((late.ranges(), late.splits(ShardId(0))), (rest.to_vec(), 1));
    }
}
