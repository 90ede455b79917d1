//! What shards and gateways have counted.

use crate::bytes::{Reader, put_count, put_u64, put_word};
use adt::Corrupt;
use engine::gateway::GatewayStats;
use engine::stats::ShardStats;
use std::collections::BTreeMap;

pub(super) fn put_shard_stats(stats: &ShardStats, out: &mut Vec<u8>) {
    for number in [
        stats.keys,
        stats.keys_with_expiry,
        stats.requests,
        stats.operations,
        stats.log_appends,
        stats.log_records,
        stats.log_bytes,
        stats.granted,
        stats.waited,
        stats.waited_us,
        stats.refused,
        stats.phases,
        stats.wounds,
        stats.waiting,
        stats.prepared,
        stats.expired,
        stats.guard_failures,
        stats.duplicates,
    ] {
        put_u64(number, out);
    }
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
}

pub(super) fn read_shard_stats(reader: &mut Reader<'_>) -> Result<ShardStats, Corrupt> {
    // Every field is named, so that a new one is not forgotten.
    let mut stats = ShardStats {
        keys: reader.u64()?,
        keys_with_expiry: reader.u64()?,
        requests: reader.u64()?,
        operations: reader.u64()?,
        log_appends: reader.u64()?,
        log_records: reader.u64()?,
        log_bytes: reader.u64()?,
        granted: reader.u64()?,
        waited: reader.u64()?,
        waited_us: reader.u64()?,
        refused: reader.u64()?,
        phases: reader.u64()?,
        wounds: reader.u64()?,
        waiting: reader.u64()?,
        prepared: reader.u64()?,
        expired: reader.u64()?,
        guard_failures: reader.u64()?,
        duplicates: reader.u64()?,
        conflicts: BTreeMap::new(),
        hot_keys: Vec::new(),
    };
    for _ in 0..reader.count(16)? {
        let modes = (reader.text()?.to_owned(), reader.text()?.to_owned());
        stats.conflicts.insert(modes, reader.u64()?);
    }
    for _ in 0..reader.count(20)? {
        stats.hot_keys.push((reader.word()?.into(), reader.u64()?, reader.u64()?));
    }
    Ok(stats)
}

pub(super) fn put_gateway_stats(stats: &GatewayStats, out: &mut Vec<u8>) {
    for number in [
        stats.commands,
        stats.errors,
        stats.requests,
        stats.committed,
        stats.aborted,
        stats.retried,
        stats.guard_failures,
        stats.snapshot_rounds,
        stats.recoveries,
        stats.combined,
        stats.wounds,
        stats.published,
        stats.auth_failures,
        stats.denied,
        stats.sessions,
        stats.blocked,
        stats.subscribers,
        stats.interactive,
    ] {
        put_u64(number, out);
    }
}

pub(super) fn read_gateway_stats(reader: &mut Reader<'_>) -> Result<GatewayStats, Corrupt> {
    Ok(GatewayStats {
        commands: reader.u64()?,
        errors: reader.u64()?,
        requests: reader.u64()?,
        committed: reader.u64()?,
        aborted: reader.u64()?,
        retried: reader.u64()?,
        guard_failures: reader.u64()?,
        snapshot_rounds: reader.u64()?,
        recoveries: reader.u64()?,
        combined: reader.u64()?,
        wounds: reader.u64()?,
        published: reader.u64()?,
        auth_failures: reader.u64()?,
        denied: reader.u64()?,
        sessions: reader.u64()?,
        blocked: reader.u64()?,
        subscribers: reader.u64()?,
        interactive: reader.u64()?,
    })
}
