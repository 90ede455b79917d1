//! One simulated machine: its workers while it is up, its disk, its clocks.

use crate::build::Build;
use crate::disk::{Disk, Lost};
use crate::random::Random;
use crate::server::{Sent, Worker};
use engine::ids::{MachineId, ShardId};
use engine::now::Now;
use engine::replication::Persist;
use std::collections::BTreeMap;

/// Wall clock at the beginning of a run: 2026-01-01.
const WALL_US: u64 = 1_767_225_600_000_000;

/// A machine.
#[derive(Default)]
pub struct Machine {
    /// Its number.
    pub id: MachineId,
    /// Grows with every start and stop: what was meant for an earlier life does not arrive.
    pub epoch: u64,
    /// What it runs.
    pub build: Build,
    /// How often it was started.
    pub life: u32,
    /// Nobody while it is down.
    pub workers: Vec<Worker>,
    /// Its disk.
    pub disk: Disk,
    /// It does nothing before this time.
    pub paused_until_us: u64,
    /// Since when.
    paused_from_us: u64,
    /// A turn is due, by worker.
    pub turning: Vec<bool>,
    /// A reminder is due, by worker.
    pub ticking: Vec<bool>,
    /// When the last message between two workers arrives.
    pub channels: BTreeMap<(u16, u16), u64>,
    /// How far the wall clock of each worker is off.
    pub wall_offsets_us: Vec<i64>,
    /// By how many millionths its clocks are fast, or slow.
    pub drift_ppm: i64,
    /// The machine is not there any more; its number is not given again.
    pub is_retired: bool,
    /// A bit on its disk is not what was written.
    pub is_damaged: bool,
    /// The next fsync fails.
    pub sync_fails: bool,
    /// Nothing can be written before this time.
    pub full_until_us: u64,
    /// For how long its monotonic clock has stood still.
    frozen_us: u64,
    /// Later than every timestamp that the machine has given.
    floor_us: u64,
    /// Snapshots that other machines send, as far as they have come.
    pub incoming: BTreeMap<(ShardId, u64), Vec<u8>>,
    waiting_for_disk: Vec<Persist>,
    syncing: Vec<(ShardId, u64)>,
    sync_running: bool,
}

impl Machine {
    /// A machine that was never started.
    pub fn new(id: MachineId, build: Build, wall_offsets_us: Vec<i64>) -> Self {
        Self { id, build, wall_offsets_us, ..Self::default() }
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        !self.workers.is_empty()
    }

    /// The clocks of a worker.
    pub fn now(&self, now_us: u64, worker: u16) -> Now {
        let offset = self.wall_offsets_us.get(usize::from(worker)).copied().unwrap_or(0);
        let wall_us = (WALL_US + self.passed_us(now_us)).saturating_add_signed(offset);
        // Where a monotonic clock begins says nothing, and each start is a new beginning.
        let begin_us = u64::from(self.id.0) * 7_000_000 + u64::from(self.life) * 1_000_000;
        let mono_us = begin_us + self.passed_us(now_us + 1 - self.frozen_us);
        Now { wall_us: wall_us.max(self.floor_us), mono_us }
    }

    /// How much time has passed by the machine's own clocks.
    fn passed_us(&self, us: u64) -> u64 {
        us.saturating_add_signed(us as i64 * self.drift_ppm / 1_000_000)
    }

    /// How far the wall clock of each worker is from true time.
    pub fn deviations_us(&self, now_us: u64) -> impl Iterator<Item = i64> {
        let drifted_us = self.passed_us(now_us) as i64 - now_us as i64;
        self.wall_offsets_us.iter().map(move |offset_us| offset_us + drifted_us)
    }

    /// It does nothing for a while. `frozen` (a planted bug): its monotonic clock stops as well.
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

    /// For how long it has done nothing.
    pub fn paused_for_us(&self, now_us: u64) -> u64 {
        let paused = now_us < self.paused_until_us;
        if paused { now_us - self.paused_from_us } else { 0 }
    }

    /// What the machine does before replies go out: later timestamps are given to what comes after.
    pub fn publish_clocks(&mut self, worker: u16) {
        let latest = self.workers[usize::from(worker)].node().clock();
        self.floor_us = self.floor_us.max(latest.after_us());
    }

    /// Its workers begin to work.
    pub fn start(&mut self, workers: Vec<Worker>) {
        self.turning = vec![false; workers.len()];
        self.ticking = vec![false; workers.len()];
        self.workers = workers;
        self.floor_us = 0;
        self.channels.clear();
        (0..self.workers.len() as u16).for_each(|worker| self.publish_clocks(worker));
    }

    /// The power fails.
    pub fn stop(&mut self, random: &mut Random) -> Lost {
        self.epoch += 1;
        self.sync_fails = false;
        self.workers.clear();
        self.syncing.clear();
        self.incoming.clear();
        self.waiting_for_disk.clear();
        self.sync_running = false;
        self.paused_until_us = 0;
        self.frozen_us = 0;
        self.disk.crash(random)
    }

    /// The machine is gone with its disk.
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
        Ok(sent)
    }

    /// Hands something to the disk.
    pub fn write(&mut self, persist: Persist) {
        self.waiting_for_disk.push(persist);
    }

    /// Whether something of a shard is on its way to the disk.
    pub fn is_writing(&self, shard: ShardId) -> bool {
        let waits = self.waiting_for_disk.iter().any(|persist| persist.group == shard);
        waits || self.syncing.iter().any(|(of, _)| *of == shard)
    }

    /// Begins one write and one sync for whatever all shards have by now; tells whether it did.
    pub fn start_sync(&mut self) -> bool {
        if self.sync_running || self.waiting_for_disk.is_empty() {
            return false;
        }
        self.sync_running = true;
        for persist in std::mem::take(&mut self.waiting_for_disk) {
            self.syncing.push((persist.group, persist.number));
            self.disk.write(persist);
        }
        true
    }

    /// The sync is done; gives what is durable by it.
    pub fn synced(&mut self) -> Vec<(ShardId, u64)> {
        self.disk.sync();
        self.sync_running = false;
        std::mem::take(&mut self.syncing)
    }
}
