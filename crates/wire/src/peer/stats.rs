//! Counters of shards and gateways.

use crate::bytes::{Reader, put_count, put_u64, put_word};
use adt::Corrupt;
use adt::command::database::DATABASES;
use engine::stats::ShardStats;

pub(super) fn put_shard_stats(stats: &ShardStats, out: &mut Vec<u8>) {
    stats.numbers().into_iter().for_each(|number| put_u64(number, out));
    put_count(stats.conflicts.len(), out);
    for ((first, second), waits) in &stats.conflicts {
        put_word(first.as_bytes(), out);
        put_word(second.as_bytes(), out);
        put_u64(*waits, out);
    }
    put_count(stats.hot_keys.len(), out);
    for (key, waits, waited_us) in &stats.hot_keys {
        put_word(key, out);
        put_u64(*waits, out);
        put_u64(*waited_us, out);
    }
    // The kind of the answer says whether there are any.
    if !stats.databases.is_empty() {
        put_count(stats.databases.len(), out);
    }
    for (number, keys, expiring) in &stats.databases {
        out.push(*number);
        put_u64(*keys, out);
        put_u64(*expiring, out);
    }
}

pub(super) fn read_shard_stats(reader: &mut Reader<'_>) -> Result<ShardStats, Corrupt> {
    let mut stats = ShardStats::default();
    for number in stats.numbers_mut() {
        *number = reader.u64()?;
    }
    for _ in 0..reader.count(16)? {
        let modes = (reader.text()?.to_owned(), reader.text()?.to_owned());
        stats.conflicts.insert(modes, reader.u64()?);
    }
    for _ in 0..reader.count(20)? {
        stats.hot_keys.push((reader.word()?.into(), reader.u64()?, reader.u64()?));
    }
    Ok(stats)
}

/// Reads the numbers of the databases, of which there is one at least.
pub(super) fn read_databases(
    stats: &mut ShardStats,
    reader: &mut Reader<'_>,
) -> Result<(), Corrupt> {
    for _ in 0..reader.count(17)? {
        let number = reader.u8()?;
        if !(1..DATABASES).contains(&number) {
            return Err(Corrupt);
        }
        stats.databases.push((number, reader.u64()?, reader.u64()?));
    }
    if stats.databases.is_empty() { Err(Corrupt) } else { Ok(()) }
}
