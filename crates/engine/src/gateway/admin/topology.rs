//! Machines of a cluster as a gateway knows them: where clients reach them, whether they are connected,
//! and which shards they hold.

use crate::cluster::level::Level;
use crate::cluster::map::ShardMap;
use crate::cluster::members::Members;
use crate::gateway::api::{ClusterConfig, Facts};
use crate::ids::{MachineId, ShardId};
use adt::random::mix;
use std::collections::BTreeMap;

/// Another machine.
#[derive(Clone, Debug, Default)]
struct Other {
    /// Address for clients; empty before the machine was ever connected.
    host: String,
    port: u16,
    linked: bool,
    /// Level that its build understands; none before the machine was ever connected.
    level: Option<Level>,
}

/// A machine of the cluster as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct ClusterNode {
    pub number: MachineId,
    /// 40 hexadecimal digits.
    pub id: String,
    pub host: String,
    pub port: u16,
    /// Whether the machine is this one, or connected with it.
    pub linked: bool,
    pub myself: bool,
}

/// The other machines; there are none if this one is alone.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Topology {
    name: String,
    others: BTreeMap<MachineId, Other>,
    map: Option<ShardMap>,
    /// Holders of each shard, as its leader has told last.
    members: BTreeMap<ShardId, Members>,
    /// Whether a request to write into the map that a split is done is under way.
    telling_split: bool,
}

impl Topology {
    pub fn new(cluster: Option<&ClusterConfig>, own: MachineId) -> Self {
        let Some(ClusterConfig { name, machines, map }) = cluster else { return Self::default() };
        let others = machines.iter().filter(|machine| **machine != own);
        let others = others.map(|machine| (*machine, Other::default())).collect();
        let (name, map) = (name.clone(), map.clone());
        Self { name, others, map, ..Self::default() }
    }

    /// Name of the cluster; empty if this machine is alone.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shard map, if it is known.
    pub fn map(&self) -> Option<&ShardMap> {
        self.map.as_ref()
    }

    /// Follows a new shard map.
    pub fn set_map(&mut self, own: MachineId, map: ShardMap) {
        let others = map.machines.keys().copied().filter(|machine| *machine != own);
        let others: BTreeMap<MachineId, Other> = others
            .map(|machine| (machine, self.others.get(&machine).cloned().unwrap_or_default()))
            .collect();
        self.others = others;
        self.map = Some(map);
    }

    /// The machines that hold a shard, as its leader has told last.
    pub fn members(&self, shard: ShardId) -> Option<&Members> {
        self.members.get(&shard)
    }

    pub fn set_members(&mut self, shard: ShardId, members: Members) {
        self.members.insert(shard, members);
    }

    /// Number of machines beside the leader's that hold every answered write, at any of the shards: a
    /// majority of those that hold the shard have it.
    pub fn replicas(&self, shards: u16) -> usize {
        // As long as no change was reported, the founders hold a shard.
        let founders = self.map.as_ref().map(|map| Members::of(map.founders.clone()));
        let members = |shard| self.members(ShardId(shard)).or(founders.as_ref());
        (0..shards).map(|shard| members(shard).map_or(0, Members::replicas)).min().unwrap_or(0)
    }

    /// Whether a machine holds a shard, as far as that is known here.
    pub fn holds(&self, machine: MachineId, shard: ShardId) -> bool {
        match (self.members.get(&shard), &self.map) {
            (Some(members), _) => members.votes(machine),
            (None, Some(map)) => map.places(machine, shard),
            (None, None) => true,
        }
    }

    pub fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// All machines, this one first.
    pub fn machines(&self, own: MachineId, facts: &Facts) -> Vec<ClusterNode> {
        let myself = ClusterNode {
            number: own,
            id: if self.is_alone() { facts.run_id.clone() } else { self.id_of(own) },
            host: facts.address.clone(),
            port: facts.port,
            linked: true,
            myself: true,
        };
        let others = self.others.iter().map(|(number, other)| ClusterNode {
            number: *number,
            id: self.id_of(*number),
            host: other.host.clone(),
            port: other.port,
            linked: other.linked,
            myself: false,
        });
        std::iter::once(myself).chain(others).collect()
    }

    /// The name of a machine: the same on all machines, whenever they are asked.
    fn id_of(&self, machine: MachineId) -> String {
        let start = self.name.bytes().fold(mix(u64::from(machine.0)), |h, b| mix(h ^ u64::from(b)));
        let digits: String = (1..=3).map(|n| format!("{:016x}", mix(start ^ n))).collect();
        digits[..40].to_owned()
    }

    /// Address for clients of another machine, if that is connected.
    pub fn address(&self, machine: MachineId) -> Option<String> {
        let other = self.others.get(&machine).filter(|other| other.linked)?;
        Some(format!("{}:{}", other.host, other.port))
    }

    /// Notes that another machine is connected, where clients reach it and which level its build
    /// understands.
    pub fn linked(&mut self, machine: MachineId, (host, port): (&str, u16), level: Level) {
        // A machine may connect before the map that has it arrives.
        let other = Other { host: host.to_owned(), port, linked: true, level: Some(level) };
        self.others.insert(machine, other);
    }

    /// Level that the build of another machine understands; none if it is not connected.
    pub fn level(&self, machine: MachineId) -> Option<Level> {
        self.others.get(&machine).filter(|other| other.linked)?.level
    }

    /// The map to write when the split that made a shard is done, unless it says so already or one is
    /// being written. [`Topology::split_told`] follows.
    pub fn tell_split(&mut self, child: ShardId) -> Option<ShardMap> {
        let map = self.map.as_ref()?;
        let open = map.origin(child).is_some_and(|split| !split.done);
        if !open || std::mem::replace(&mut self.telling_split, true) {
            return None;
        }
        Some(map.split_done(child))
    }

    /// Ends what [`Topology::tell_split`] began: the map is written, or was not.
    pub fn split_told(&mut self) {
        self.telling_split = false;
    }

    pub fn lost(&mut self, machine: MachineId) {
        self.others.get_mut(&machine).into_iter().for_each(|other| other.linked = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_have_names_of_their_own() {
        let machines: Vec<MachineId> = (1..=5).map(MachineId).collect();
        let topology = |name: &str, own| {
            let (name, machines) = (name.to_owned(), machines.clone());
            let cluster = ClusterConfig { name, machines, map: None };
            let mut ids: Vec<String> = Topology::new(Some(&cluster), MachineId(own))
                .machines(MachineId(own), &Facts::default())
                .into_iter()
                .map(|machine| machine.id)
                .collect();
            ids.sort_unstable();
            ids
        };
        let ids = topology("shop", 1);
        assert_eq!(ids, topology("shop", 4));
        assert!(ids.iter().all(|id| id.len() == 40));
        let all = ids.into_iter().chain(topology("other", 1));
        assert_eq!(all.collect::<std::collections::BTreeSet<_>>().len(), 10);
    }
}
