//! Disk for the logs and snapshots of one server: synced data stay, unsynced data may be lost.
//!
//! Log batches of all shards go into one sequence, as in the server. A crash keeps every synced
//! batch and a random prefix of the unsynced ones. The real log recognises a torn batch by its
//! checksum; here a torn batch is simply gone. Snapshots are the real bytes, so that readers have
//! to notice a flipped bit.

use crate::random::Random;
use engine::cluster::map::ShardMap;
use engine::ids::ShardId;
use engine::replication::{Persist, Promises, Recovered};
use raft::eraftpb::{Entry, HardState};
use std::collections::BTreeMap;

/// Part of one shard on the disk.
#[derive(Clone, Debug, Default)]
struct Log {
    hard_state: HardState,
    entries: Vec<Entry>,
}

impl Log {
    fn write(&mut self, persist: &Persist) {
        if let Some(state) = &persist.hard_state {
            self.hard_state = state.clone();
        }
        if persist.restored.is_some() {
            self.entries.clear();
        }
        if let Some(first) = persist.entries.first() {
            let kept = self.entries.partition_point(|e| e.index < first.index);
            self.entries.truncate(kept);
            self.entries.extend(persist.entries.iter().cloned());
        }
    }
}

/// Losses of a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Unsynced batches that were lost.
    pub batches: usize,
    /// Whether a part of the first lost batch remains.
    pub torn: bool,
}

/// Disk of one server.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    logs: BTreeMap<ShardId, Log>,
    /// Writes, in units of which a crash keeps all or nothing.
    unsynced: Vec<Vec<Persist>>,
    /// Log index and bytes of each shard's snapshot.
    snapshots: BTreeMap<ShardId, (u64, Vec<u8>)>,
    /// Every entry that was ever durable: the log as it would be without snapshots.
    archive: BTreeMap<(ShardId, u64), Entry>,
    /// Newest shard map.
    map: Option<ShardMap>,
    /// Promises of replicas that were here and are removed.
    left: BTreeMap<ShardId, Promises>,
    /// Number of times that the end of a log was replaced by that of another leader.
    pub overwritten: usize,
    /// Logs of the machines from which snapshots were received.
    histories: BTreeMap<ShardId, Vec<Entry>>,
}

impl Disk {
    /// Hands a batch to the disk; it is not durable yet.
    pub fn write(&mut self, persist: Persist) {
        self.unsynced.push(vec![persist]);
    }

    /// Hands batches to the disk, as one write if there are parts of bundles among them.
    pub fn write_all(&mut self, persists: Vec<Persist>) {
        if persists.iter().any(|persist| !persist.bundles.is_empty()) {
            self.unsynced.push(persists);
        } else {
            persists.into_iter().for_each(|persist| self.write(persist));
        }
    }

    /// Makes a batch durable at once.
    pub fn keep(&mut self, persist: Persist) {
        self.settle(&persist);
    }

    /// Makes everything durable that was written so far.
    pub fn sync(&mut self) {
        for persist in std::mem::take(&mut self.unsynced).into_iter().flatten() {
            self.settle(&persist);
        }
    }

    fn settle(&mut self, persist: &Persist) {
        self.logs.entry(persist.group).or_default().write(persist);
        if persist.restored.is_some() {
            self.forget_from(persist.group, 0);
            let history = self.histories.remove(&persist.group).unwrap_or_default();
            self.adopt(persist.group, history);
        }
        if let Some(first) = persist.entries.first() {
            self.overwritten +=
                usize::from(self.archive.contains_key(&(persist.group, first.index)));
            self.forget_from(persist.group, first.index);
        }
        for entry in &persist.entries {
            self.archive.insert((persist.group, entry.index), entry.clone());
        }
    }

    /// Removes a shard's entries from an index on from the archive. Usually there are none.
    fn forget_from(&mut self, shard: ShardId, index: u64) {
        let places = self.archive.range((shard, index)..=(shard, u64::MAX));
        for place in places.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.archive.remove(&place);
        }
    }

    fn adopt(&mut self, shard: ShardId, history: Vec<Entry>) {
        self.archive.extend(history.into_iter().map(|entry| ((shard, entry.index), entry)));
    }

    /// Simulates a power failure: keeps a random prefix of the unsynced data.
    pub fn crash(&mut self, random: &mut Random) -> Lost {
        let unsynced = std::mem::take(&mut self.unsynced);
        let kept = random.below(unsynced.len() as u64 + 1) as usize;
        for persist in unsynced[..kept].iter().flatten() {
            self.settle(persist);
        }
        // A start continues from a received snapshot even if the log does not know of it.
        for (shard, history) in std::mem::take(&mut self.histories) {
            self.adopt(shard, history);
        }
        let batches = unsynced[kept..].iter().flatten().count();
        Lost { batches, torn: batches > 0 && random.percent(50) }
    }

    /// Destroys all data. The logs are remembered for machines that received them from here.
    pub fn destroy(&mut self) {
        let (archive, overwritten) = (std::mem::take(&mut self.archive), self.overwritten);
        *self = Self { archive, overwritten, ..Self::default() };
    }

    /// Flips a bit of a snapshot. Returns whether there is any snapshot.
    pub fn flip_bit(&mut self, random: &mut Random) -> bool {
        let shards: Vec<ShardId> = self.snapshots.keys().copied().collect();
        if shards.is_empty() {
            return false;
        }
        let Some((_, bytes)) = self.snapshots.get_mut(random.pick(&shards)) else { return false };
        let place = random.below(bytes.len() as u64) as usize;
        bytes[place] ^= 1 << random.below(8);
        true
    }

    /// Drops the newest shard map: one of the planted bugs.
    pub fn forget_map(&mut self) {
        self.map = None;
    }

    /// Newest shard map that was stored.
    pub fn map(&self) -> Option<&ShardMap> {
        self.map.as_ref()
    }

    /// Stores a shard map durably, unless there is a newer one.
    pub fn keep_map(&mut self, map: ShardMap) {
        if self.map.as_ref().is_none_or(|kept| kept.epoch < map.epoch) {
            self.map = Some(map);
        }
    }

    /// Whether the disk holds anything of a shard.
    pub fn holds(&self, shard: ShardId) -> bool {
        self.logs.contains_key(&shard) || self.snapshots.contains_key(&shard)
    }

    /// Whether the disk has unsynced data of a shard.
    pub fn is_writing(&self, shard: ShardId) -> bool {
        self.unsynced.iter().flatten().any(|persist| persist.group == shard)
    }

    /// Promises of replicas that were here and are removed.
    pub fn left(&self) -> &BTreeMap<ShardId, Promises> {
        &self.left
    }

    /// Stores the promises of a replica that is about to be removed, durably.
    pub fn keep_promises(&mut self, shard: ShardId, promises: Promises) {
        self.left.insert(shard, promises);
    }

    /// Removes all data of a shard, durably.
    pub fn remove(&mut self, shard: ShardId) {
        self.logs.remove(&shard);
        self.snapshots.remove(&shard);
        self.histories.remove(&shard);
        self.forget_from(shard, 0);
    }

    /// Drops the last batch of a shard although it was synced. No correct disk does this: it is one
    /// of the planted bugs.
    pub fn lose_last_entry(&mut self, shard: ShardId) {
        if let Some(log) = self.logs.get_mut(&shard)
            && let Some(entry) = log.entries.pop()
        {
            self.archive.remove(&(shard, entry.index));
        }
    }

    /// Replaces the snapshot by a complete one, unless the stored one is newer.
    pub fn save_snapshot(&mut self, shard: ShardId, bytes: Vec<u8>, index: u64) {
        if self.snapshots.get(&shard).is_some_and(|(newest, _)| *newest > index) {
            return;
        }
        self.snapshots.insert(shard, (index, bytes));
        if let Some(log) = self.logs.get_mut(&shard) {
            log.entries.retain(|e| e.index > index);
        }
    }

    /// Log of a shard up to an index, whether it is durable already or not.
    pub fn history(&self, shard: ShardId, index: u64) -> Vec<Entry> {
        let safe = self.archive.range((shard, 0)..=(shard, index)).map(|(_, entry)| entry);
        let mut history: BTreeMap<u64, Entry> = safe.map(|e| (e.index, e.clone())).collect();
        for persist in self.unsynced.iter().flatten().filter(|persist| persist.group == shard) {
            let entries = persist.entries.iter().filter(|e| e.index <= index);
            history.extend(entries.map(|e| (e.index, e.clone())));
        }
        history.into_values().collect()
    }

    /// Stores a complete snapshot from another machine, whose log was `history`.
    pub fn receive_snapshot(
        &mut self,
        shard: ShardId,
        bytes: Vec<u8>,
        index: u64,
        history: Vec<Entry>,
    ) {
        self.save_snapshot(shard, bytes, index);
        self.histories.insert(shard, history);
    }

    /// Piece of the snapshot up to an index, and whether it is the last one.
    pub fn read_snapshot(
        &self,
        shard: ShardId,
        index: u64,
        offset: u64,
        most: usize,
    ) -> Option<(Vec<u8>, bool)> {
        let (_, bytes) = self.snapshots.get(&shard).filter(|(newest, _)| *newest == index)?;
        let rest = bytes.get(offset as usize..)?;
        let piece = &rest[..rest.len().min(most)];
        Some((piece.to_vec(), piece.len() == rest.len()))
    }

    /// Data that a start reads.
    pub fn read(&self, shard: ShardId) -> (Vec<u8>, Recovered) {
        let log = self.logs.get(&shard).cloned().unwrap_or_default();
        let Log { hard_state, entries } = log;
        let promises = self.left.get(&shard).copied();
        let recovered =
            Recovered { snapshot: (0, 0), hard_state, entries, members: None, promises };
        let snapshot = self.snapshots.get(&shard).map(|(_, bytes)| bytes.clone());
        (snapshot.unwrap_or_default(), recovered)
    }

    /// For each shard, the data of the disk whose log reaches furthest. Meaningful when all
    /// machines have agreed.
    pub fn longest<'a>(disks: impl Iterator<Item = &'a Self>) -> Self {
        let mut longest: BTreeMap<ShardId, (u64, u64, &Self)> = BTreeMap::new();
        for disk in disks {
            for ((shard, index), entry) in &disk.archive {
                let reach = longest.entry(*shard).or_insert((0, 0, disk));
                if (entry.term, *index) > (reach.0, reach.1) {
                    *reach = (entry.term, *index, disk);
                }
            }
        }
        let mut all = Self::default();
        for (shard, (_, _, disk)) in longest {
            let own = disk.archive.range((shard, 0)..=(shard, u64::MAX));
            all.archive.extend(own.map(|(place, entry)| (*place, entry.clone())));
        }
        all
    }

    /// All durable entries of all shards, in log order.
    pub fn archive(&self) -> impl Iterator<Item = (ShardId, &Entry)> {
        self.archive.iter().map(|((shard, _), entry)| (*shard, entry))
    }
}
