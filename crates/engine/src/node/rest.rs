//! Active replicas of a worker. A turn looks at those alone, so that a thousand sleeping groups
//! cost as much as one: see [`crate::replication`] for when groups sleep.

use super::{Node, Parcel, To};
use crate::entry::EntryCodec;
use crate::ids::{MachineId, ShardId};
use crate::now::Now;
use adt::Timestamp;
use std::collections::BTreeSet;

/// Set of active replicas.
#[derive(Debug, Default)]
pub(super) struct Active {
    /// Shards whose replicas are active.
    list: Vec<usize>,
    /// By shard: whether it is in the list.
    is_in: Vec<bool>,
    /// Times at which resting replicas must be looked at (monotonic microseconds).
    due: BTreeSet<(u64, usize)>,
    /// Upper bound of the clocks of resting replicas.
    clock: Timestamp,
}

impl Active {
    pub fn new(shards: usize) -> Self {
        Self { is_in: vec![false; shards], ..Self::default() }
    }

    /// Makes a replica active.
    #[inline]
    pub fn rouse(&mut self, shard: usize) {
        if !std::mem::replace(&mut self.is_in[shard], true) {
            self.list.push(shard);
        }
    }

    pub fn list(&self) -> &[usize] {
        &self.list
    }

    /// Forgets a removed replica.
    pub fn forget(&mut self, shard: usize) {
        self.is_in[shard] = false;
        self.list.retain(|active| *active != shard);
    }

    /// Time at which the first resting replica must be looked at.
    pub fn due_us(&self) -> Option<u64> {
        self.due.first().map(|(at_us, _)| *at_us)
    }

    fn rouse_due(&mut self, now_us: u64) {
        while let Some((at_us, shard)) = self.due.first().copied()
            && at_us <= now_us
        {
            self.due.pop_first();
            self.rouse(shard);
        }
    }
}

impl<C: EntryCodec + Clone> Node<C> {
    /// Shards with a replica here that may have work to do.
    pub fn active(&self) -> &[usize] {
        self.active.list()
    }

    /// Latest clock of all shards here.
    pub fn clock(&self) -> Timestamp {
        let active = self.active.list().iter().filter_map(|&shard| self.replicas[shard].as_ref());
        active.map(|replica| replica.shard().clock()).fold(self.active.clock, Timestamp::max)
    }

    pub(super) fn rouse_all(&mut self) {
        for &shard in &self.local {
            self.active.rouse(shard);
        }
    }

    pub(super) fn rouse_due(&mut self, now: Now) {
        self.active.rouse_due(now.mono_us);
    }

    /// Puts replicas without work to rest.
    pub(super) fn let_rest(&mut self, now: Now) {
        self.polled = 0;
        let Active { list, is_in, due, clock } = &mut self.active;
        list.retain(|&shard| {
            let Some(replica) = &self.replicas[shard] else {
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
    pub(super) fn send_sleep(&mut self, shard: ShardId) {
        let Some(replica) = &mut self.replicas[usize::from(shard.0)] else { return };
        let (machines, term, index) = replica.take_lull();
        for machine in machines {
            self.parcels.push_back((To::Machine(machine), Parcel::Sleep { shard, term, index }));
        }
        if let Some(leader) = replica.take_nudge() {
            self.parcels.push_back((To::Machine(leader), Parcel::Wake { shard }));
        }
    }

    /// Receives from the leader of a shard that its group sleeps.
    pub(super) fn receive_sleep(
        &mut self,
        now: Now,
        from: MachineId,
        shard: ShardId,
        (term, index): (u64, u64),
    ) {
        let Some(replica) = self.replica_mut(shard) else { return };
        if !replica.fall_asleep(now, from, term, index) {
            self.parcels.push_back((To::Machine(from), Parcel::Wake { shard }));
        }
    }

    /// Notes that a machine was silent for `silent_us`: sleeping replicas do not rely on it any
    /// more.
    pub fn doubt(&mut self, now: Now, machine: MachineId, silent_us: u64) {
        for index in 0..self.local.len() {
            let shard = self.local[index];
            let Some(replica) = &mut self.replicas[shard] else { continue };
            replica.doubt(now, machine, silent_us);
            if !replica.rests() {
                self.active.rouse(shard);
                self.send_sleep(ShardId(shard as u16));
            }
        }
    }

    /// Receives the watermarks of shards.
    pub(super) fn receive_watermarks(&mut self, now: Now, watermarks: &[(ShardId, Timestamp)]) {
        self.watermarks.hear(watermarks, now.mono_us);
        self.settled = self.watermarks.settled();
    }

    /// Sends the watermarks of the shards that are led here to all machines.
    pub(super) fn send_watermarks(&mut self, now: Now) {
        let mut watermarks = Vec::new();
        for &index in self.local.iter().filter(|index| **index != usize::from(ShardId::MAP.0)) {
            let Some(replica) = &mut self.replicas[index] else { continue };
            if let Some(ts) = replica.watermark(now) {
                watermarks.push((replica.id(), ts));
            }
            self.active.clock = replica.shard().clock().max(self.active.clock);
        }
        if !watermarks.is_empty() {
            self.receive_watermarks(now, &watermarks);
            self.send_to_all(|| Parcel::Watermarks(watermarks.clone()));
        }
    }
}
