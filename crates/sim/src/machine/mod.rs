//! Simulated machine: its workers while it is up, its disk, its clocks.

pub(crate) mod build;
pub(crate) mod disk;
pub(crate) mod network;
pub(crate) mod server;
pub(crate) mod shape;
pub(crate) mod visits;

use crate::random::Random;
use build::Build;
use disk::{Disk, Lost};
use engine::ids::{MachineId, ShardId};
use engine::now::Now;
use engine::pipeline::bundles::BundleWrites;
use engine::replication::Persist;
use server::{Sent, Worker};
use std::collections::BTreeMap;

/// Wall clock at the beginning of a run: 2026-01-01.
const WALL_US: u64 = 1_767_225_600_000_000;

/// Machine.
#[derive(Default)]
pub struct Machine {
    /// Number.
    pub id: MachineId,
    /// Grows with every start and stop: messages for an earlier life do not arrive.
    pub epoch: u64,
    /// Build that it runs.
    pub build: Build,
    /// Number of starts.
    pub life: u32,
    /// Workers; none while the machine is down.
    pub workers: Vec<Worker>,
    /// Disk.
    pub disk: Disk,
    /// Time before which it does nothing.
    pub paused_until_us: u64,
    /// Beginning of that pause.
    paused_from_us: u64,
    /// Whether a turn is due, by worker.
    pub turning: Vec<bool>,
    /// Whether its thread is held up before all messages of its last turn are sent, by worker.
    pub held_up: Vec<bool>,
    /// Whether a timer is due, by worker.
    pub ticking: Vec<bool>,
    /// Arrival of the last message between two workers.
    pub channels: BTreeMap<(u16, u16), u64>,
    /// Offset of the wall clock of each worker.
    pub wall_offsets_us: Vec<i64>,
    /// Drift of the clocks, in millionths.
    pub drift_ppm: i64,
    /// Whether the machine is gone for good; its number is not reused.
    pub is_retired: bool,
    /// Whether a bit on its disk is flipped.
    pub is_damaged: bool,
    /// Whether parts of a bundle are written one by one, as a planted bug.
    pub tears_bundles: bool,
    /// Whether the next fsync fails.
    pub sync_fails: bool,
    /// Time before which the disk is full.
    pub full_until_us: u64,
    /// Time for which the monotonic clock has stood still.
    frozen_us: u64,
    /// Later than every timestamp that the machine has issued.
    floor_us: u64,
    /// Snapshots that other machines are sending, as far as they have arrived.
    pub incoming: BTreeMap<(ShardId, u64), Vec<u8>>,
    waiting_for_disk: Vec<Persist>,
    bundle_writes: BundleWrites,
    syncing: Vec<(ShardId, u64)>,
    sync_running: bool,
}

impl Machine {
    /// Creates a machine that was never started.
    pub fn new(id: MachineId, build: Build, wall_offsets_us: Vec<i64>) -> Self {
        Self { id, build, wall_offsets_us, ..Self::default() }
    }

    /// Whether all workers know the shard map.
    pub fn knows_map(&self) -> bool {
        self.workers.iter().all(|worker| worker.node().map().is_some())
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Clocks of a worker.
    pub fn now(&self, now_us: u64, worker: u16) -> Now {
        let offset = self.wall_offsets_us.get(usize::from(worker)).copied().unwrap_or(0);
        let wall_us = (WALL_US + self.passed_us(now_us)).saturating_add_signed(offset);
        // The origin of a monotonic clock is arbitrary, and each start is a new one.
        let begin_us = u64::from(self.id.0) * 7_000_000 + u64::from(self.life) * 1_000_000;
        let mono_us = begin_us + self.passed_us(now_us + 1 - self.frozen_us);
        Now { wall_us: wall_us.max(self.floor_us), mono_us }
    }

    /// Passed time by the machine's own clocks.
    fn passed_us(&self, us: u64) -> u64 {
        us.saturating_add_signed(us as i64 * self.drift_ppm / 1_000_000)
    }

    /// Deviation of each worker's wall clock from true time.
    pub fn deviations_us(&self, now_us: u64) -> impl Iterator<Item = i64> {
        let drifted_us = self.passed_us(now_us) as i64 - now_us as i64;
        self.wall_offsets_us.iter().map(move |offset_us| offset_us + drifted_us)
    }

    /// Pauses the machine. `frozen` (a planted bug): its monotonic clock stops as well.
    pub fn pause(&mut self, now_us: u64, length_us: u64, frozen: bool) {
        if frozen {
            let end_us = (now_us + length_us).max(self.paused_until_us);
            self.frozen_us += end_us - self.paused_until_us.max(now_us);
        }
        if now_us >= self.paused_until_us {
            self.paused_from_us = now_us;
        }
        self.paused_until_us = self.paused_until_us.max(now_us + length_us);
    }

    /// Time for which it has been paused.
    pub fn paused_for_us(&self, now_us: u64) -> u64 {
        let paused = now_us < self.paused_until_us;
        if paused { now_us - self.paused_from_us } else { 0 }
    }

    /// Step before replies go out: later events get later timestamps.
    pub fn publish_clocks(&mut self, worker: u16) {
        let latest = self.workers[usize::from(worker)].clock();
        self.floor_us = self.floor_us.max(latest.after_us());
    }

    /// Starts its workers.
    pub fn start(&mut self, workers: Vec<Worker>) {
        self.turning = vec![false; workers.len()];
        self.held_up = vec![false; workers.len()];
        self.ticking = vec![false; workers.len()];
        self.workers = workers;
        self.floor_us = 0;
        self.channels.clear();
        (0..self.workers.len() as u16).for_each(|worker| self.publish_clocks(worker));
    }

    /// Simulates a power failure.
    pub fn stop(&mut self, random: &mut Random) -> Lost {
        self.epoch += 1;
        self.sync_fails = false;
        self.workers.clear();
        self.syncing.clear();
        self.incoming.clear();
        self.waiting_for_disk.clear();
        self.bundle_writes = BundleWrites::default();
        self.sync_running = false;
        self.paused_until_us = 0;
        self.frozen_us = 0;
        self.disk.crash(random)
    }

    /// Removes the machine with its disk.
    pub fn retire(&mut self) {
        self.is_retired = true;
        self.is_damaged = false;
        self.disk.destroy();
    }

    /// One turn of a worker.
    pub fn turn(&mut self, now_us: u64, worker: u16) -> Result<Vec<Sent>, String> {
        let now = self.now(now_us, worker);
        self.turning[usize::from(worker)] = false;
        let sent = self.workers[usize::from(worker)].turn(now)?;
        self.publish_clocks(worker);
        self.workers[usize::from(worker)].calm();
        Ok(sent)
    }

    /// Hands a write to the disk.
    pub fn write(&mut self, persist: Persist) {
        if self.tears_bundles {
            return self.waiting_for_disk.push(persist);
        }
        self.bundle_writes.add(persist);
        self.waiting_for_disk.extend(self.bundle_writes.take_ready());
    }

    /// Whether a write of a shard is on its way to the disk.
    pub fn is_writing(&self, shard: ShardId) -> bool {
        let mut waiting = self.waiting_for_disk.iter().chain(self.bundle_writes.held());
        waiting.any(|persist| persist.group == shard)
            || self.syncing.iter().any(|(of, _)| *of == shard)
    }

    /// Begins one write and one sync of everything that all shards have produced so far. Returns
    /// whether it did.
    pub fn start_sync(&mut self) -> bool {
        if self.sync_running || self.waiting_for_disk.is_empty() {
            return false;
        }
        self.sync_running = true;
        let persists = std::mem::take(&mut self.waiting_for_disk);
        self.syncing.extend(persists.iter().map(|persist| (persist.group, persist.number)));
        self.disk.write_all(persists);
        true
    }

    /// Completes the sync. Returns the writes that are durable now.
    pub fn synced(&mut self) -> Vec<(ShardId, u64)> {
        self.disk.sync();
        self.sync_running = false;
        std::mem::take(&mut self.syncing)
    }
}
