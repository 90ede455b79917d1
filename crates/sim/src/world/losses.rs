//! Loss of machines with their disks, and their replacement under new numbers.
//!
//! A machine that has forgotten its promises must not return under its number, as
//! docs/operating/disks.md demands. That page also says what a cluster cannot survive, so a disk is
//! lost only if every group that the machine may belong to can do without it.

use super::{Event, World};
use crate::machine::build::Build;
use crate::machine::server::Input;
use crate::machine::shape::address;
use crate::plant::Plant;
use engine::cluster::map::ShardMap;
use engine::ids::{MachineId, ShardId};
use engine::replica::Replica;
use std::collections::BTreeSet;

/// Interval at which an operator repairs the loss of a machine.
const REPAIR_US: u64 = 300_000;

impl World {
    /// Destroys a machine with its disk.
    pub(super) fn lose_a_disk(&mut self) {
        let Some(machine) = self.dispensable() else { return };
        if self.machines[usize::from(machine)].is_up() {
            self.crash(machine);
        }
        self.fault("lost_disks");
        if self.plant == Some(Plant::ReusedNumber) {
            self.machines[usize::from(machine)].disk.destroy();
            let time = self.now_us + self.faults.between(100, 1_000_000);
            return self.at(time, Event::Restart { machine });
        }
        self.lose(machine);
    }

    /// Flips a bit on the disk of a machine before its next start.
    pub(super) fn flip_a_bit(&mut self) {
        let Some(machine) = self.dispensable() else { return };
        if self.machines[usize::from(machine)].is_up() {
            self.crash(machine);
        }
        let time = self.now_us + self.faults.between(100, 1_000_000);
        self.at(time, Event::Restart { machine });
        let target = &mut self.machines[usize::from(machine)];
        if target.disk.flip_bit(&mut self.disks) {
            target.is_damaged = true;
            self.fault("flipped_bits");
        }
    }

    /// Gives up a machine; another one is started in its place.
    pub(super) fn lose(&mut self, machine: u16) {
        self.machines[usize::from(machine)].retire();
        let time = self.now_us + self.faults.between(1_000, 1_000_000);
        self.at(time, Event::Replace);
        self.at(time + REPAIR_US, Event::Repair);
    }

    pub(super) fn replace(&mut self) -> Result<(), String> {
        self.fault("machines_replaced");
        let machine = self.add_machine();
        if self.now_us > self.faults_end_us {
            // The operator may have considered the upgrade complete.
            self.begin_upgrading();
        }
        self.boot(machine)
    }

    /// Machine that is dispensable: every set of machines that may have to agree on something, in
    /// any machine's view, has a majority without it and the machines that are lost or about to be.
    fn dispensable(&mut self) -> Option<u16> {
        if !self.shape.is_cluster() {
            return None;
        }
        let present = self.present();
        let machine = *self.faults.pick(&present);
        let mut lost = self.lost();
        let own = MachineId(machine + 1);
        lost.insert(own);
        let enough = |holders: &[MachineId]| {
            let missing = holders.iter().filter(|holder| lost.contains(holder)).count();
            let concerned = holders.contains(&own);
            !concerned || 2 * (holders.len() - missing) > holders.len()
        };
        let maps = self.maps();
        let by_maps = maps.iter().all(|map| map.all().all(|s| enough(map.holders_of(s))));
        let mut members = self.replicas().map(|replica| replica.group().members());
        let by_groups = members.all(|m| enough(&m.voters) && enough(&m.outgoing));
        let placed = maps.iter().flat_map(|map| map.all().filter(|s| map.places(own, *s)));
        let held = self.replicas().filter(|r| r.group().members().contains(own)).map(|r| r.id());
        let quiet = placed.chain(held).all(|shard| self.is_quiet(shard));
        (by_maps && by_groups && quiet).then_some(machine)
    }

    /// Maps that are in use on some machine, or may soon be.
    fn maps(&self) -> Vec<ShardMap> {
        let workers = self.machines.iter().flat_map(|machine| &machine.workers);
        let known = workers.filter_map(|worker| worker.node().map());
        let kept = self.machines.iter().filter_map(|machine| machine.disk.map());
        // Maps that an operator has sent and that no machine uses yet.
        let epoch = self.newest_map().epoch;
        let sent = self.sent_maps.iter().filter(|map| map.epoch > epoch);
        known.chain(kept).chain(sent).cloned().chain([self.shape.founded()]).collect()
    }

    fn replicas(&self) -> impl Iterator<Item = &Replica<Build>> {
        let workers = self.machines.iter().flat_map(|machine| &machine.workers);
        workers.flat_map(|worker| worker.node().replicas())
    }

    /// Whether no machine is about to join or leave the group of a shard: a change that an earlier
    /// map asked for may be in the log when the map is already another one.
    fn is_quiet(&self, shard: ShardId) -> bool {
        let replicas = self.replicas().filter(|replica| replica.id() == shard);
        let leader = replicas.filter(|r| r.is_serving()).max_by_key(|replica| replica.leading());
        leader.is_some_and(|replica| !replica.group().is_changing_members())
    }

    /// Machines that will not return.
    pub(super) fn lost(&self) -> BTreeSet<MachineId> {
        let gone = |machine: &&crate::machine::Machine| machine.is_retired || machine.is_damaged;
        self.machines.iter().filter(gone).map(|machine| machine.id).collect()
    }

    /// Lost machines that the map still lists.
    pub(super) fn missed(&self, map: &ShardMap) -> Vec<MachineId> {
        let lost = self.lost();
        map.machines.keys().copied().filter(|machine| lost.contains(machine)).collect()
    }

    /// Operator's repair: takes a lost machine out of the map and lets its replacement in.
    pub(super) fn repair(&mut self) {
        let map = self.newest_map();
        let lost: BTreeSet<MachineId> = self.missed(&map).into_iter().collect();
        let up = |m: &&crate::machine::Machine| m.is_up() && !map.gone.contains(&m.id);
        let newcomer = self.machines.iter().rfind(up).map(|machine| machine.id);
        let newcomer = newcomer.filter(|machine| !map.machines.contains_key(machine));
        // A map that lists a machine which is lost by now may still be on its way.
        let on_its_way = self.sent_maps.iter().any(|sent| sent.epoch > map.epoch);
        let over = self.now_us > self.faults_end_us + 10 * REPAIR_US && !on_its_way;
        let next = match (lost.first(), newcomer) {
            (None, _) if over => return,
            (None, _) => return self.at(self.now_us + REPAIR_US, Event::Repair),
            (Some(_), Some(newcomer)) => map.with(newcomer, &address(newcomer)),
            (Some(machine), None) if map.load(*machine) > 0 || map.holders.contains(machine) => {
                map.vacated(*machine)
            }
            (Some(machine), None) => map.without(*machine),
        };
        self.at(self.now_us + REPAIR_US, Event::Repair);
        if let Ok(next) = next {
            self.operate(&next);
        }
    }

    /// Sends a new map to any machine.
    pub(super) fn operate(&mut self, map: &ShardMap) {
        let machine = self.any_machine();
        self.sent_maps.push(map.clone());
        let words = vec!["shardmap".to_owned(), "set".to_owned(), map.to_string()];
        self.hand_in(machine, 0, Input::Operate(words));
    }
}
