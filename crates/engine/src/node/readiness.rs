//! Readiness of a machine: whether it holds the shards that the map places on it, and is up to date
//! with the others.

use super::Node;
use crate::entry::EntryCodec;
use crate::ids::MachineId;
use crate::replica::Replica;
use crate::replication::ReplicaState;

/// Obstacles to the readiness of a worker's machine; all are zero or false if it is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// The shard map is still unknown.
    pub without_map: bool,
    /// The machine is connected to no other machine of the cluster, and holds nothing itself.
    pub cut_off: bool,
    /// Shards that the map places here and that have no replica yet.
    pub missing: u64,
    /// Replicas without a known leader.
    pub leaderless: u64,
    /// Replicas that do not have all committed entries yet.
    pub behind: u64,
}

impl Readiness {
    /// Whether there is no obstacle.
    pub fn is_ready(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the obstacles that another worker of the machine has found.
    pub fn add(&mut self, other: &Self) {
        self.without_map |= other.without_map;
        self.cut_off |= other.cut_off;
        self.missing += other.missing;
        self.leaderless += other.leaderless;
        self.behind += other.behind;
    }
}

impl<C: EntryCodec + Clone> Node<C> {
    /// Finds the obstacles of this worker's machine. Considers only the machine itself: if a shard
    /// on other machines is without a leader, clients may still be directed here.
    pub fn readiness(&self) -> Readiness {
        let mut found = Readiness::default();
        let mut wanted = 0;
        if self.placement.is_some() {
            let Some(map) = self.map() else {
                return Readiness { without_map: true, ..found };
            };
            let placed = map.all().filter(|shard| map.places(self.id.machine, *shard));
            for shard in placed {
                wanted += 1;
                let ours = self.out.worker_of(shard) == self.id.worker;
                let done = map.origin(shard).is_none_or(|split| split.done);
                found.missing += u64::from(ours && done && self.replica(shard).is_none());
            }
            let alone = map.machines.keys().all(|machine| *machine == self.id.machine);
            found.cut_off = wanted == 0 && !alone && self.out.connected.is_empty();
        }
        // Other machines rely on a replica, but not while it is a learner, nor while its shard is still
        // the result of an unfinished split.
        let matters = |replica: &&Replica<C>| {
            let split = self.map().and_then(|map| map.origin(replica.id()));
            let votes =
                self.placement.is_none() || replica.group().members().votes(self.id.machine);
            votes && split.is_none_or(|split| split.done)
        };
        for replica in self.replicas().filter(matters) {
            let own = self.id.machine;
            let reaches = |leader: MachineId| leader == own || self.out.connected.contains(&leader);
            match replica.group().standing() {
                ReplicaState::Current if !replica.group().leader().is_some_and(reaches) => {
                    found.leaderless += 1
                }
                ReplicaState::Current => {}
                ReplicaState::Behind => found.behind += 1,
                ReplicaState::Leaderless => found.leaderless += 1,
            }
        }
        found
    }
}
