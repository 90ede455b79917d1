//! What a gateway knows of the whole server or cluster, for people who look at it.

use crate::gateway::Gateway;
use crate::level::Level;
use crate::message::{MachineId, ShardId};

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
    /// Its number.
    pub number: MachineId,
    /// Where clients reach it; an empty host if it was never connected.
    pub host: String,
    /// The port there.
    pub port: u16,
    /// It is connected, or the one that sees it.
    pub connected: bool,
    /// What its build understands, if it is connected.
    pub level: Option<Level>,
}

/// A shard as a machine sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSeen {
    /// The shard.
    pub shard: ShardId,
    /// Its slots: first and last of each range.
    pub slots: Vec<(u16, u16)>,
    /// The machine that leads it, as far as that is known.
    pub leader: Option<MachineId>,
    /// In which term, or the last one that is known; 0 if none is.
    pub term: u64,
    /// Since when that is so, in microseconds since 1970, as far as it is known here.
    pub since_us: u64,
    /// The machines that hold it.
    pub holders: Vec<MachineId>,
}

impl Gateway {
    /// The server, or the cluster, as this machine sees it.
    pub fn overview(&self) -> Overview {
        let own = self.core.config.id.machine;
        let level = |machine: MachineId| match machine == own {
            true => Some(Level::NEWEST),
            false => self.core.topology.level(machine),
        };
        let seen = self.core.topology.machines(own, &self.core.facts).into_iter().map(|machine| {
            let (number, connected) = (machine.number, machine.linked);
            let (host, port) = (machine.host, machine.port);
            MachineSeen { number, host, port, connected, level: level(number) }
        });
        let machines: Vec<MachineSeen> = seen.collect();
        let mut shards: Vec<ShardSeen> = Vec::new();
        let mut ranges = self.core.mail.routes.ranges();
        ranges.sort_by_key(|(range, shard)| (*shard, *range));
        for (range, shard) in ranges {
            match shards.last_mut().filter(|last| last.shard == shard) {
                Some(last) => last.slots.push(range),
                None => shards.push(self.shard_seen(shard, range, &machines)),
            }
        }
        let map = self.core.topology.map().map(|map| (map.epoch, map.level));
        let cluster = self.core.topology.name().to_owned();
        Overview { own, cluster, map, machines, shards }
    }

    fn shard_seen(&self, shard: ShardId, range: (u16, u16), machines: &[MachineSeen]) -> ShardSeen {
        let holds = |machine: &MachineSeen| {
            machines.len() == 1 || self.core.topology.holds(machine.number, shard)
        };
        let holders = machines.iter().filter(|machine| holds(machine));
        let mut holders: Vec<MachineId> = holders.map(|machine| machine.number).collect();
        holders.sort_unstable();
        let (leader, (term, since_us)) = (self.leader(shard), self.lead(shard));
        ShardSeen { shard, slots: vec![range], leader, term, since_us, holders }
    }
}
