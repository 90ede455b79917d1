//! Hash slots: which shard a key belongs to, exactly as Redis Cluster computes it.
//!
//! CRC-16/XMODEM of the key modulo 16,384; if the key contains `{...}` with something between the
//! first brace and the next closing one, only that part is hashed, so that users can keep keys
//! together. See the Redis Cluster specification.

use crate::limits::SLOTS;
use crate::message::ShardId;

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

/// The part of a key that decides its slot.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&b| b == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&b| b == b'}') {
        Some(length) if length > 0 => &rest[..length],
        _ => key,
    }
}

/// The slot of a key, below [`SLOTS`].
pub fn slot(key: &[u8]) -> u16 {
    let crc = tag(key)
        .iter()
        .fold(0u16, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]);
    crc % SLOTS
}

/// The shard of a key when `shards` shards split the slots into equal ranges.
#[inline]
pub fn shard_of(key: &[u8], shards: u16) -> ShardId {
    if shards == 1 {
        return ShardId(0);
    }
    shard_of_slot(slot(key), shards)
}

/// The shard of a slot when `shards` shards split the slots into equal ranges.
pub fn shard_of_slot(slot: u16, shards: u16) -> ShardId {
    ShardId((u32::from(slot) * u32::from(shards) / u32::from(SLOTS)) as u16)
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
        }
    }
}
