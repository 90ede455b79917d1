//! What a gateway knows of the machines of its cluster: where clients reach them, whether they are
//! connected, and which of them leads a shard.

use crate::gateway::Gateway;
use crate::gateway::api::Facts;
use crate::gateway::routing::data::Route;
use crate::level::Level;
use crate::map::ShardMap;
use crate::message::{MachineId, Now, ShardId};
use crate::replica::term_of;
use crate::replication::Members as Replicated;
use crate::shard::state::mix;
use adt::ErrorReply;
use std::collections::BTreeMap;

/// The machines of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// Name of the cluster.
    pub name: String,
    /// All machines, this one included.
    pub machines: Vec<MachineId>,
    /// The shard map, if it is known.
    pub map: Option<ShardMap>,
}

/// Another machine.
#[derive(Clone, Debug, Default)]
struct Other {
    /// Where clients reach it; empty before it was ever connected.
    host: String,
    port: u16,
    linked: bool,
    /// What its build understands; none before it was ever connected.
    level: Option<Level>,
}

/// A machine as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Machine {
    pub number: MachineId,
    /// 40 hexadecimal digits.
    pub id: String,
    pub host: String,
    pub port: u16,
    /// It is this one, or connected with it.
    pub linked: bool,
    pub myself: bool,
}

/// The other machines; there are none if this one is alone.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Topology {
    name: String,
    others: BTreeMap<MachineId, Other>,
    map: Option<ShardMap>,
    /// Who holds a shard, as its leader has told last.
    members: BTreeMap<ShardId, Replicated>,
}

impl Topology {
    pub fn new(members: Option<&Members>, own: MachineId) -> Self {
        let Some(Members { name, machines, map }) = members else { return Self::default() };
        let others = machines.iter().filter(|machine| **machine != own);
        let others = others.map(|machine| (*machine, Other::default())).collect();
        let (name, map) = (name.clone(), map.clone());
        Self { name, others, map, members: BTreeMap::new() }
    }

    /// Name of the cluster; empty if this machine is alone.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shard map, if it is known.
    pub fn map(&self) -> Option<&ShardMap> {
        self.map.as_ref()
    }

    /// There is a new shard map.
    pub fn set_map(&mut self, own: MachineId, map: ShardMap) {
        let others = map.machines.keys().copied().filter(|machine| *machine != own);
        let others: BTreeMap<MachineId, Other> = others
            .map(|machine| (machine, self.others.get(&machine).cloned().unwrap_or_default()))
            .collect();
        self.others = others;
        self.map = Some(map);
    }

    /// The machines that hold a shard, as its leader has told last.
    pub fn members(&self, shard: ShardId) -> Option<&Replicated> {
        self.members.get(&shard)
    }

    pub fn set_members(&mut self, shard: ShardId, members: Replicated) {
        self.members.insert(shard, members);
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
    pub fn machines(&self, own: MachineId, facts: &Facts) -> Vec<Machine> {
        let myself = Machine {
            number: own,
            id: if self.is_alone() { facts.run_id.clone() } else { self.id_of(own) },
            host: facts.address.clone(),
            port: facts.port,
            linked: true,
            myself: true,
        };
        let others = self.others.iter().map(|(number, other)| Machine {
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

    /// Where clients reach another machine that is connected.
    fn address(&self, machine: MachineId) -> Option<String> {
        let other = self.others.get(&machine).filter(|other| other.linked)?;
        Some(format!("{}:{}", other.host, other.port))
    }

    fn linked(&mut self, machine: MachineId, (host, port): (&str, u16), level: Level) {
        // The news of a machine may come before the map with it.
        let other = Other { host: host.to_owned(), port, linked: true, level: Some(level) };
        self.others.insert(machine, other);
    }

    /// What the build of a machine understands; none if it is not connected.
    pub fn level(&self, machine: MachineId) -> Option<Level> {
        self.others.get(&machine).filter(|other| other.linked)?.level
    }

    pub fn lost(&mut self, machine: MachineId) {
        self.others.get_mut(&machine).into_iter().for_each(|other| other.linked = false);
    }
}

impl Gateway {
    /// Another machine is connected, whose build understands this level; clients reach it at this
    /// address.
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

    /// The machine that leads a shard, as far as it is known.
    pub(in crate::gateway) fn leader(&self, shard: ShardId) -> Option<MachineId> {
        match &self.core.mail.ways {
            None => Some(self.core.config.id.machine),
            Some(ways) => ways.leader(shard),
        }
    }

    /// The term of the lead of a shard, or of the last one if nobody leads it, and since when (wall clock,
    /// microseconds) that is so.
    pub(in crate::gateway) fn lead(&self, shard: ShardId) -> (u64, u64) {
        let (lead, since_us) = self.core.mail.ways.as_ref().map_or((0, 0), |ways| ways.lead(shard));
        (term_of(lead), since_us)
    }

    /// Where a client that wants to know should go with a command, if not to this machine.
    pub(in crate::gateway) fn moved(&self, route: Route, slot: u16) -> Option<ErrorReply> {
        let Route::One(shard) = route else { return None };
        let machine = self.leader(shard)?;
        let address = self.core.topology.address(machine)?;
        Some(ErrorReply::new("MOVED", format!("{slot} {address}")))
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
            let members = Members { name, machines, map: None };
            let mut ids: Vec<String> = Topology::new(Some(&members), MachineId(own))
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
