//! Inputs of a gateway about its cluster: machines that connect, shard maps, and holders of shards.

use super::Gateway;
use super::admin::overview::Overview;
use super::admin::shardmap;
use crate::ids::{MachineId, ShardId};
use crate::level::Level;
use crate::map::ShardMap;
use crate::members::Members;
use crate::now::Now;

impl Gateway {
    /// Notes that another machine is connected, where clients reach it and which level its build
    /// understands.
    pub fn machine_linked(
        &mut self,
        now: Now,
        machine: MachineId,
        address: (&str, u16),
        level: Level,
    ) {
        self.core.now = now;
        self.core.topology.linked(machine, address, level);
    }

    /// Follows a new shard map.
    pub fn map_changed(&mut self, now: Now, map: ShardMap) {
        self.core.now = now;
        let before = (!map.splits.is_empty()).then(|| self.core.mail.routes.all());
        self.core.mail.routes.follow(&map);
        self.core.topology.set_map(self.core.config.id.machine, map);
        if let Some(before) = before {
            self.routes_changed(&before);
            self.settle();
        }
    }

    /// Writes into the map that a split is done: a majority has what the new shard began with.
    pub fn split_done(&mut self, now: Now, child: ShardId) {
        self.core.now = now;
        shardmap::split_done(&mut self.core, child);
        self.settle();
    }

    /// Notes which machines hold a shard, as its leader says.
    pub fn members_told(&mut self, now: Now, shard: ShardId, members: Members) {
        self.core.now = now;
        self.core.topology.set_members(shard, members);
    }

    /// The server, or the cluster, as this machine sees it.
    pub fn overview(&self) -> Overview {
        Overview::of(&self.core)
    }
}
