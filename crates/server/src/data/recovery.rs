//! Recovery: restores shards from the disk until they serve.

use super::datadir::{DataDir, random};
use super::identity::Identity;
use super::mapfile::MapFile;
use crate::config::{Durability, Options};
use crate::host::clock::Clock;
use crate::log::LogStore;
use crate::server::StartError;
use engine::entry::SnapshotPart;
use engine::ids::ShardId;
use engine::replica::{Replica, Setup, resolve_open};
use engine::replication::Recovered;
use engine::shard::ShardConfig;
use std::time::Instant;
use wire::entry::EntryFormat;

/// Restores all shards: the newest snapshot, the log after it, and the outcome of transactions that
/// a crash has left open. In a cluster the replicas begin to serve later, once they reach a
/// majority.
///
/// # Errors
/// If data are damaged or missing; nothing is served then.
pub fn recover(
    options: &Options,
    dir: &DataDir,
    mut store: Option<&mut LogStore>,
    clock: &Clock,
    identity: &Identity,
    kept: &MapFile,
) -> Result<Vec<Replica<EntryFormat>>, StartError> {
    let began = Instant::now();
    let (map, left) = (kept.map(), kept.left());
    let map = map.as_ref();
    let tags = identity.rules(map, dir)?.unwrap_or_default();
    let mut replicas = Vec::new();
    let (mut parts, mut entries) = (0, 0);
    let group = identity.is_clustered().then_some(ShardId::MAP);
    let shards = map.map_or(dir.manifest().shards, |map| map.shards.len() as u16);
    for shard in (0..shards).map(ShardId).chain(group) {
        let own = identity.gateway(0).machine;
        let placed = !identity.is_clustered() || map.is_some_and(|map| map.places(own, shard));
        let logged = store.as_ref().is_some_and(|store| store.holds(shard));
        if !placed && !logged && dir.snapshots_of(shard)?.is_empty() {
            continue;
        }
        let (reach, snapshot) = dir.load_snapshot(shard)?;
        let end = match snapshot.first() {
            Some(SnapshotPart::Header { index, term, .. }) => (*index, *term),
            _ => (0, 0),
        };
        let mut recovered = match &mut store {
            Some(store) => store.recover(shard, end, reach)?,
            None => Recovered { snapshot: end, ..Recovered::default() },
        };
        recovered.promises = left.get(&shard).copied();
        parts += snapshot.len();
        entries += recovered.entries.len();
        let config = ShardConfig {
            id: shard,
            concurrency: options.concurrency,
            seed: u64::from_le_bytes(random()),
            beside: identity.beside(shard),
            clustered: identity.is_clustered(),
            reap_us: options.zookeeper_container_check_us,
            broken: None,
            interpreter: Some(&script::Luau),
            tags: tags.clone(),
        };
        let membership = identity.membership(map, shard);
        let setup = Setup { shard: config, membership };
        let now = clock.now();
        replicas.push(Replica::recover(setup, EntryFormat, now, snapshot, recovered)?);
    }
    if identity.is_clustered() {
        replicas.iter().for_each(|replica| clock.raise(replica.shard().clock()));
        log_loaded(parts, entries, began);
        return Ok(replicas);
    }
    // Without durability nothing is written, whatever an earlier run has left behind.
    let mut store = store.filter(|_| options.durability != Durability::None);
    settle(&mut replicas, store.as_deref_mut(), clock)?;
    let (committed, aborted) = resolve_open(&mut replicas, clock.now());
    settle(&mut replicas, store, clock)?;
    replicas.iter().for_each(|replica| clock.raise(replica.shard().clock()));
    log_loaded(parts, entries, began);
    if committed + aborted > 0 {
        tracing::info!(
            "transactions that were open at the last stop: {committed} committed, {aborted} aborted"
        );
    }
    Ok(replicas)
}

fn log_loaded(parts: usize, entries: usize, began: Instant) {
    if parts + entries > 0 {
        tracing::info!(
            "loaded {parts} parts of snapshots and {entries} log entries in {:.1} s",
            began.elapsed().as_secs_f64()
        );
    }
}

/// Runs all shards until they serve and have nothing left to write.
fn settle(
    replicas: &mut [Replica<EntryFormat>],
    mut store: Option<&mut LogStore>,
    clock: &Clock,
) -> Result<(), StartError> {
    loop {
        let mut quiet = true;
        for replica in replicas.iter_mut() {
            replica.end_turn(clock.now())?;
            if let Some(persist) = replica.take_persist() {
                quiet = false;
                if let Some(store) = &mut store {
                    store.append(std::slice::from_ref(&persist), true)?;
                }
                replica.persisted(clock.now(), persist.number)?;
            }
        }
        if quiet {
            return Ok(());
        }
    }
}
