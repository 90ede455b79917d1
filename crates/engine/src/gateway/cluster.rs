//! Changes of a cluster as inputs of a gateway: machines, shard maps, leaders and members of shards.

use super::Gateway;
use super::admin::overview::Overview;
use super::admin::shardmap;
use crate::cluster::level::Level;
use crate::cluster::map::ShardMap;
use crate::cluster::members::Members;
use crate::ids::{MachineId, ShardId, splits_of};
use crate::now::Now;

/// Change of a cluster.
#[derive(Clone, Debug)]
pub enum ClusterChange {
    /// Another machine is connected: its host and port for clients, and the level that its build understands.
    Linked(MachineId, (String, u16), Level),
    /// The connection to a machine is lost, and with it all answers to requests that it has.
    Lost(MachineId),
    /// A machine leads a shard from now on, in the lead with this number (another one than before if it
    /// is the same machine; see [`splits_of`]), or the shard has no leader. Requests of an earlier leader
    /// are answered by that one, unless its machine is lost.
    Led(ShardId, Option<(MachineId, u64)>),
    /// There is a new shard map.
    Map(Box<ShardMap>),
    /// A majority of a new shard's machines has its initial state: the map must record that the split is
    /// done.
    SplitDone(ShardId),
    /// Members of a shard, as its leader reports them.
    Members(ShardId, Box<Members>),
}

impl Gateway {
    /// Follows a change of the cluster.
    pub fn cluster_changed(&mut self, now: Now, change: ClusterChange) {
        self.parts.core.now = now;
        match change {
            ClusterChange::Linked(machine, (host, port), level) => {
                self.parts.core.topology.linked(machine, (&host, port), level);
            }
            ClusterChange::Lost(machine) => {
                self.parts.core.topology.lost(machine);
                for shard in self.parts.core.mail.machine_lost(now, machine) {
                    let lost = self.parts.core.mail.lose(now, shard);
                    self.parts.lead_ended(shard, lost);
                }
            }
            ClusterChange::Led(shard, leader) if self.parts.core.mail.is_clustered() => {
                self.parts.core.mail.lead_changed(now, shard, leader);
                let splits = leader.map(|(_, lead)| splits_of(lead));
                if let (Some(splits), Some(map)) = (splits, self.parts.core.topology.map())
                    && splits > self.parts.core.mail.routes.splits(shard)
                {
                    let before = self.parts.core.mail.routes.all();
                    self.parts.core.mail.routes.carried_out(shard, splits, map);
                    self.parts.routes_changed(&before);
                }
                self.parts.lead_ended(shard, Vec::new());
                self.parts.tracking.follow_now(&mut self.parts.core);
            }
            ClusterChange::Led(..) => {}
            ClusterChange::Map(map) => {
                let before = (!map.splits.is_empty()).then(|| self.parts.core.mail.routes.all());
                self.parts.core.mail.routes.follow(&map);
                let config = &mut self.parts.core.config;
                config.settings.insert("placement".to_owned(), map.tags.texts().join(","));
                config.tags = Some(map.tags.clone());
                self.parts.core.topology.set_map(self.parts.core.config.id.machine, *map);
                if let Some(before) = before {
                    self.parts.routes_changed(&before);
                }
            }
            ClusterChange::SplitDone(child) => shardmap::split_done(&mut self.parts.core, child),
            ClusterChange::Members(shard, members) => {
                self.parts.core.topology.set_members(shard, *members);
            }
        }
        self.settle();
    }

    /// The server, or the cluster, as this machine sees it.
    pub fn overview(&self) -> Overview {
        Overview::of(&self.parts.core)
    }
}
