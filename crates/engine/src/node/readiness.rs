//! Whether a machine does its part: it holds what the map says, and is where the others are.

use super::Node;
use crate::entry::EntryCodec;
use crate::ids::MachineId;
use crate::replica::Replica;
use crate::replication::Standing;

/// What keeps a worker's machine from doing its part; nothing if all of it is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// It does not know the shard map yet.
    pub without_map: bool,
    /// It is connected to no other machine of the cluster, and holds nothing itself.
    pub cut_off: bool,
    /// Shards that the map places here and that have no replica yet.
    pub missing: u64,
    /// Replicas that know of no leader.
    pub leaderless: u64,
    /// Replicas that do not have everything yet that is committed.
    pub behind: u64,
}

impl Readiness {
    /// Whether nothing is in the way.
    pub fn is_ready(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what another worker of the machine has found.
    pub fn add(&mut self, other: &Self) {
        self.without_map |= other.without_map;
        self.cut_off |= other.cut_off;
        self.missing += other.missing;
        self.leaderless += other.leaderless;
        self.behind += other.behind;
    }
}

impl<C: EntryCodec + Clone> Node<C> {
    /// What keeps this worker's machine from doing its part. Looks only at what concerns the machine
    /// itself: a shard of others that is without a leader is no reason to send nobody here.
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
                let ours = self.worker_of(shard) == self.id.worker;
                let done = map.origin(shard).is_none_or(|split| split.done);
                found.missing += u64::from(ours && done && self.replica(shard).is_none());
            }
            let alone = map.machines.keys().all(|machine| *machine == self.id.machine);
            found.cut_off = wanted == 0 && !alone && self.connected.is_empty();
        }
        for replica in self.replicas().filter(|replica| self.matters(replica)) {
            let own = self.id.machine;
            let reaches = |leader: MachineId| leader == own || self.connected.contains(&leader);
            match replica.standing() {
                Standing::Current if !replica.leader().is_some_and(reaches) => {
                    found.leaderless += 1
                }
                Standing::Current => {}
                Standing::Behind => found.behind += 1,
                Standing::Leaderless => found.leaderless += 1,
            }
        }
        found
    }

    /// Whether others rely on a replica: not if it only learns yet, nor if its shard is still coming
    /// out of a split.
    fn matters(&self, replica: &Replica<C>) -> bool {
        let split = self.map().and_then(|map| map.origin(replica.id()));
        let votes = self.placement.is_none() || replica.members().votes(self.id.machine);
        votes && split.is_none_or(|split| split.done)
    }
}
