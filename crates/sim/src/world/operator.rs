//! Operator that changes the machines of the cluster and the placement of shards.

use super::World;
use crate::machine::shape::address;
use engine::cluster::map::{MapError, ShardMap};
use engine::ids::{MachineId, ShardId};
use engine::limits::REPLICAS_MAX;

impl World {
    /// Newest shard map that any machine knows.
    pub(super) fn newest_map(&self) -> ShardMap {
        let workers = self.machines.iter().flat_map(|machine| &machine.workers);
        let newest = workers.filter_map(|w| w.node().map()).max_by_key(|map| map.epoch);
        newest.cloned().unwrap_or_else(|| self.shape.founded())
    }

    /// Adds a machine, moves a shard, splits one, or takes a machine out.
    pub(super) fn reshape(&mut self) {
        let map = self.newest_map();
        let machine = MachineId(self.any_machine() + 1);
        let Ok(next) = self.next_map(&map, machine) else { return };
        self.fault("reshapings");
        self.operate(&next);
    }

    fn next_map(&mut self, map: &ShardMap, machine: MachineId) -> Result<ShardMap, MapError> {
        let shards = map.shards.len() as u64;
        let shard = match self.faults.below(shards + 1) {
            shard if shard < shards => ShardId(shard as u16),
            _ => ShardId::MAP,
        };
        let mut holders: Vec<MachineId> = map.machines.keys().copied().collect();
        let missed = self.missed(map);
        holders.retain(|holder| !missed.contains(holder));
        let count = *self.faults.pick(&[3, 3, 3, 2, 1, REPLICAS_MAX]);
        while holders.len() > count {
            holders.swap_remove(self.faults.below(holders.len() as u64) as usize);
        }
        match self.faults.below(9) {
            7 | 8 => map.split(shard, None),
            // Lost machines must not be given any shard to hold.
            0 if missed.is_empty() => map.vacated(machine),
            1 | 2 if missed.is_empty() => map.balanced(count),
            _ if !map.machines.contains_key(&machine) => map.with(machine, &address(machine)),
            3 => map.without(machine),
            _ => map.placed(shard, &holders),
        }
    }
}
