//! Overview of the whole server or cluster, for operators.

use crate::cluster::level::Level;
use crate::gateway::core::Core;
use crate::ids::{MachineId, ShardId};

/// The server, or the cluster, as one machine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The machine that sees it.
    pub own: MachineId,
    /// Name of the cluster; empty if the machine is alone.
    pub cluster: String,
    /// Epoch of the shard map, and the level that it names; none if there is no map, or none is
    /// known yet.
    pub map: Option<(u64, Level)>,
    /// All machines, the one that sees them first.
    pub machines: Vec<MachineSeen>,
    /// All shards that have slots.
    pub shards: Vec<ShardSeen>,
}

/// A machine as another one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSeen {
    /// Number of the machine.
    pub number: MachineId,
    /// Host for clients; empty if the machine was never connected.
    pub host: String,
    /// The port there.
    pub port: u16,
    /// Whether it is connected, or the one that sees it.
    pub connected: bool,
    /// Level that its build understands, if it is connected.
    pub level: Option<Level>,
}

/// A shard as a machine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSeen {
    /// The shard.
    pub shard: ShardId,
    /// Slots of the shard: first and last of each range.
    pub slots: Vec<(u16, u16)>,
    /// The machine that leads it, as far as that is known.
    pub leader: Option<MachineId>,
    /// Term of that lead, or the last one that is known; 0 if none is.
    pub term: u64,
    /// Beginning of that lead, or of the time without a leader, in microseconds since 1970, as far as
    /// it is known here.
    pub since_us: u64,
    /// The machines that hold it.
    pub holders: Vec<MachineId>,
}

impl Overview {
    /// The server, or the cluster, as this machine sees it.
    pub(in crate::gateway) fn of(core: &Core) -> Self {
        let seen = core.machines().into_iter().map(|machine| {
            let (number, connected) = (machine.number, machine.linked);
            let (host, port) = (machine.host, machine.port);
            MachineSeen { number, host, port, connected, level: core.level_of(number) }
        });
        let machines: Vec<MachineSeen> = seen.collect();
        let mut shards: Vec<ShardSeen> = Vec::new();
        let mut ranges = core.mail.routes.ranges();
        ranges.sort_by_key(|(range, shard)| (*shard, *range));
        for (range, shard) in ranges {
            match shards.last_mut().filter(|last| last.shard == shard) {
                Some(last) => last.slots.push(range),
                None => shards.push(ShardSeen::of(core, shard, range, &machines)),
            }
        }
        let map = core.topology.map().map(|map| (map.epoch, map.level));
        let cluster = core.topology.name().to_owned();
        Self { own: core.config.id.machine, cluster, map, machines, shards }
    }
}

impl ShardSeen {
    fn of(core: &Core, shard: ShardId, range: (u16, u16), machines: &[MachineSeen]) -> Self {
        let holds = |machine: &MachineSeen| {
            machines.len() == 1 || core.topology.holds(machine.number, shard)
        };
        let holders = machines.iter().filter(|machine| holds(machine));
        let mut holders: Vec<MachineId> = holders.map(|machine| machine.number).collect();
        holders.sort_unstable();
        let (leader, (term, since_us)) = (core.leader(shard), core.lead(shard));
        Self { shard, slots: vec![range], leader, term, since_us, holders }
    }
}
