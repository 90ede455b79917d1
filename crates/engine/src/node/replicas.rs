//! Replicas of a worker, and which of them may have work to do.

pub(super) mod disturbed;

use super::outgoing::Outgoing;
use super::parcel::Parcel;
use super::rest::Active;
use crate::entry::EntryCodec;
use crate::ids::{MachineId, ShardId};
use crate::now::Now;
use crate::replica::Replica;
use adt::Timestamp;
use std::ops::{Index, IndexMut};

/// Replicas of a worker.
#[derive(Debug)]
pub(super) struct Replicas<C> {
    /// All shards by number, those of other workers and machines absent.
    all: Vec<Option<Box<Replica<C>>>>,
    /// Shards that have a replica here.
    local: Vec<usize>,
    /// Local shards that may have work to do.
    active: Active,
    /// Position among the active shards at which to look for answers next.
    pub polled: usize,
}

impl<C> Index<usize> for Replicas<C> {
    type Output = Option<Box<Replica<C>>>;

    fn index(&self, shard: usize) -> &Self::Output {
        &self.all[shard]
    }
}

impl<C> IndexMut<usize> for Replicas<C> {
    fn index_mut(&mut self, shard: usize) -> &mut Self::Output {
        &mut self.all[shard]
    }
}

impl<C: EntryCodec + Clone> Replicas<C> {
    /// Table of `count` shards with these replicas.
    pub fn new(count: usize, own: Vec<Replica<C>>) -> Self {
        let mut all = Vec::new();
        all.resize_with(count, || None);
        let mut new = Self { all, local: Vec::new(), active: Active::new(count), polled: 0 };
        for replica in own {
            let shard = usize::from(replica.id().0);
            new.all[shard] = Some(Box::new(replica));
            new.local.push(shard);
            new.active.rouse(shard);
        }
        new
    }

    /// Number of shards, with or without a replica here.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Shards that have a replica here.
    pub fn local(&self) -> &[usize] {
        &self.local
    }

    /// Shards with a replica here that may have work to do.
    pub fn active(&self) -> &[usize] {
        self.active.list()
    }

    /// Whether a shard has a replica here.
    pub fn has(&self, shard: ShardId) -> bool {
        self.get(shard).is_some()
    }

    /// The replica of a shard.
    pub fn get(&self, shard: ShardId) -> Option<&Replica<C>> {
        self.all.get(usize::from(shard.0))?.as_deref()
    }

    /// The replica of a shard, which may get work to do.
    #[inline]
    pub fn get_mut(&mut self, shard: ShardId) -> Option<&mut Replica<C>> {
        let replica = self.all.get_mut(usize::from(shard.0))?.as_deref_mut()?;
        self.active.rouse(usize::from(shard.0));
        Some(replica)
    }

    /// All replicas.
    pub fn iter(&self) -> impl Iterator<Item = &Replica<C>> {
        self.local.iter().filter_map(|&shard| self.all[shard].as_deref())
    }

    /// All replicas, with the numbers of their shards.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Replica<C>)> {
        let all = self.all.iter_mut().enumerate();
        all.filter_map(|(shard, replica)| Some((shard, replica.as_deref_mut()?)))
    }

    /// Replicas that may have work to do.
    pub fn working(&self) -> impl Iterator<Item = &Replica<C>> {
        self.active.list().iter().filter_map(|&shard| self.all[shard].as_deref())
    }

    /// Adds the replica of a shard.
    pub fn add(&mut self, shard: ShardId, replica: Replica<C>) {
        let index = usize::from(shard.0);
        self.all[index] = Some(Box::new(replica));
        self.local.push(index);
        self.local.sort_unstable();
        self.active.rouse(index);
        self.polled = 0;
    }

    /// Removes the replica of a shard.
    pub fn remove(&mut self, shard: ShardId) {
        let index = usize::from(shard.0);
        self.all[index] = None;
        self.local.retain(|local| *local != index);
        self.active.forget(index);
        self.polled = 0;
    }

    /// Notes that a replica may have work to do.
    #[inline]
    pub fn rouse(&mut self, shard: usize) {
        self.active.rouse(shard);
    }

    /// Notes that all replicas may have work to do.
    pub fn rouse_all(&mut self) {
        self.local.iter().for_each(|&shard| self.active.rouse(shard));
    }

    /// Notes that the replicas may have work to do that are due by time.
    pub fn rouse_due(&mut self, now: Now) {
        self.active.rouse_due(now.mono_us);
    }

    /// Time at which a resting replica is due.
    pub fn due_us(&self) -> Option<u64> {
        self.active.due_us()
    }

    /// Latest clock of all shards here.
    pub fn clock(&self) -> Timestamp {
        let clocks = self.working().map(|replica| replica.shard().clock());
        clocks.fold(self.active.clock, Timestamp::max)
    }

    /// Puts replicas without work to rest.
    pub fn let_rest(&mut self, now: Now) {
        self.polled = 0;
        let Active { list, is_in, due, clock } = &mut self.active;
        list.retain(|&shard| {
            let Some(replica) = &self.all[shard] else {
                is_in[shard] = false;
                return false;
            };
            if !replica.rests() {
                return true;
            }
            is_in[shard] = false;
            due.extend(replica.next_timeout(now).map(|at_us| (at_us, shard)));
            *clock = replica.shard().clock().max(*clock);
            false
        });
    }

    /// Informs the followers of a group that has fallen asleep, or the leader of one that must not.
    pub fn send_sleep(&mut self, out: &mut Outgoing, shard: ShardId) {
        let Some(replica) = &mut self.all[usize::from(shard.0)] else { return };
        let (machines, term, index) = replica.take_lull();
        for machine in machines {
            out.send_to_machine(machine, Parcel::Sleep { shard, term, index });
        }
        if let Some(leader) = replica.group_mut().take_nudge() {
            out.send_to_machine(leader, Parcel::Wake { shard });
        }
    }

    /// Notes that a machine was silent for `silent_us`: sleeping replicas do not rely on it any
    /// more.
    pub fn doubt(&mut self, out: &mut Outgoing, now: Now, machine: MachineId, silent_us: u64) {
        for index in 0..self.local.len() {
            let shard = self.local[index];
            let Some(replica) = &mut self.all[shard] else { continue };
            replica.doubt(now, machine, silent_us);
            if !replica.rests() {
                self.active.rouse(shard);
                self.send_sleep(out, ShardId(shard as u16));
            }
        }
    }

    /// Watermarks of the shards that are led here.
    pub fn watermarks(&mut self, now: Now) -> Vec<(ShardId, Timestamp)> {
        let mut found = Vec::new();
        for &index in self.local.iter().filter(|index| **index != usize::from(ShardId::MAP.0)) {
            let Some(replica) = &mut self.all[index] else { continue };
            if let Some(ts) = replica.watermark(now) {
                found.push((replica.id(), ts));
            }
            self.active.clock = replica.shard().clock().max(self.active.clock);
        }
        found
    }
}
