//! Sizes and settings of a simulated cluster.

use adt::command::tags::TagRules;
use engine::cluster::level::Level;
use engine::cluster::map::ShardMap;
use engine::gateway::{ClusterConfig, Order};
use engine::ids::{MachineId, ShardId};
use engine::message::Concurrency;
use engine::replication::Membership;

/// Sizes of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Machines at the beginning. The founders hold a replica of every shard then.
    pub machines: u16,
    /// Number of founders, which are the first machines.
    pub founders: u16,
    /// Whether it is a cluster, be it of one founder, and not a permanently single server.
    pub clustered: bool,
    /// Workers of each machine, each with a gateway.
    pub workers: u16,
    /// Shards; shard s is on worker s modulo workers.
    pub shards: u16,
    /// Whether the server waits for no disk, as with `--durability none`.
    pub volatile: bool,
    /// Enabled parts of the concurrency control.
    pub concurrency: Concurrency,
    /// Level of the build that founded the cluster.
    pub level: Level,
    /// Method that keeps the order of pipelines across shards.
    pub order: Order,
    /// Number of shards over which the tree of the coordination service is spread.
    pub tree: u16,
    /// Whether there are placement rules, which concern some keys of clients.
    pub placed: bool,
}

impl Shape {
    /// Whether there is more than one machine, or may be later.
    pub fn is_cluster(&self) -> bool {
        self.clustered
    }

    pub(super) fn members(&self, own: MachineId, map: Option<&ShardMap>) -> Option<ClusterConfig> {
        self.is_cluster().then(|| {
            let name = "simulated".to_owned();
            let machines = (1..=self.machines.max(own.0)).map(MachineId).collect();
            ClusterConfig { name, machines, map: map.cloned() }
        })
    }

    /// Map that the cluster is founded with.
    pub fn founded(&self) -> ShardMap {
        let machines = (1..=self.founders).map(MachineId);
        let machines = machines.map(|machine| (machine, address(machine)));
        let map = ShardMap::founded(machines.collect(), self.shards).with_rules(self.rules());
        ShardMap { level: self.level, ..map }
    }

    /// Placement rules: names of some kinds of records share a slot.
    pub(super) fn rules(&self) -> TagRules {
        let rules: &[&str] = if self.placed { &["n", "p", "l1"] } else { &[] };
        TagRules::parse(rules).unwrap_or_default()
    }

    /// Map of a machine at its first start.
    pub(super) fn first_map(&self, own: MachineId) -> Option<ShardMap> {
        (self.is_cluster() && own.0 <= self.founders).then(|| self.founded())
    }

    pub(super) fn membership(
        &self,
        own: MachineId,
        map: Option<&ShardMap>,
        shard: ShardId,
    ) -> Membership {
        let founders = map.map(|map| map.founders_of(shard).to_vec());
        match self.is_cluster() {
            true => Membership::clustered(own, founders.unwrap_or_default()),
            false => Membership::alone(),
        }
    }
}

/// Address of a machine in the map.
pub fn address(machine: MachineId) -> String {
    format!("10.0.0.{}:7001", machine.0)
}
