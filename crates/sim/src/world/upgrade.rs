//! Operator that upgrades the machines one after the other while clients continue, and raises the
//! cluster's level once all run the newer build.

use super::{Event, World};
use crate::machine::build::Build;
use crate::machine::server::Input;
use crate::plant::Plant;
use engine::cluster::level::Level;
use engine::cluster::map::ShardMap;
use engine::ids::MachineId;

/// Usual interval between two steps of the operator.
const STEP_US: u64 = 600_000;

impl World {
    /// Build of a machine at its first start. A cluster of an older build may have met the newer
    /// one already; a machine that replaces a lost one usually brings it. Sometimes an operator
    /// starts the older one by mistake, in a cluster that may use features that only the newer one
    /// knows.
    pub(super) fn first_build(&mut self, machine: u16) -> Build {
        let of_the_beginning = machine < self.shape.machines;
        let likely = if of_the_beginning { 70 } else { 40 };
        let is_old = machine == 0 || self.builds.percent(likely);
        let level = if is_old { self.shape.level } else { Level::NEWEST };
        Build { level, hastens: self.plant == Some(Plant::EarlyLevel) }
    }

    /// Starts the upgrade, if there is anything to upgrade.
    pub(super) fn begin_upgrading(&mut self) {
        if self.shape.level < Level::NEWEST {
            self.at(self.now_us + STEP_US, Event::Upgrade);
        }
    }

    /// Next step of the operator: a newer build for a machine, back to the older one, or the
    /// attempt to raise the level.
    pub(super) fn go_on_upgrading(&mut self) {
        let time = self.now_us + self.builds.between(1, 2 * STEP_US);
        let older = self.older();
        let over = self.now_us > self.faults_end_us;
        // A raised level must be followed by the upgrade of all machines. Otherwise the older build
        // may remain.
        let is_raised = self.raises && self.newest_map().level >= Level::NEWEST;
        if !over || (is_raised && !older.is_empty()) {
            self.at(time, Event::Upgrade);
        }
        let newer: Vec<u16> = self.present().into_iter().filter(|m| !older.contains(m)).collect();
        match self.builds.below(10) {
            // After asking for the newer level, the operator does not return to the older build.
            0 if !self.raises && !newer.is_empty() => {
                let machine = *self.builds.pick(&newer);
                self.install(machine, self.shape.level, "downgrades");
            }
            1 => self.raise(&newer),
            _ if !older.is_empty() => {
                let machine = *self.builds.pick(&older);
                self.install(machine, Level::NEWEST, "upgrades");
            }
            _ => self.raise(&newer),
        }
    }

    /// Machines that run the older build.
    fn older(&self) -> Vec<u16> {
        let older = |m: &u16| self.machines[usize::from(*m)].build.level < Level::NEWEST;
        self.present().into_iter().filter(older).collect()
    }

    fn install(&mut self, machine: u16, level: Level, what: &'static str) {
        self.fault(what);
        let target = &mut self.machines[usize::from(machine)];
        target.build.level = level;
        if target.is_up() {
            self.stop_for_a_while(machine, 1_000_000);
        }
    }

    /// Asks a machine whose build knows the newest level to raise the cluster's level. Now and then
    /// that is too early, and must be refused.
    fn raise(&mut self, newer: &[u16]) {
        let map = self.newest_map();
        if newer.is_empty() || map.level >= Level::NEWEST {
            return;
        }
        let Ok(next) = map.raised(Level::NEWEST) else { return };
        let older = self.older();
        let early = map.machines.keys().any(|machine| older.contains(&(machine.0 - 1)));
        self.raises = true;
        self.mark(if early { "levels_raised_early" } else { "levels_raised" });
        let machine = *self.builds.pick(newer);
        self.sent_maps.push(next.clone());
        let words = vec!["shardmap".to_owned(), "set".to_owned(), next.to_string()];
        self.hand_in(machine, 0, Input::Operate(words));
    }

    /// Whether two machines understand the level that the cluster uses, as far as either knows it.
    pub(super) fn understand(&self, a: MachineId, b: MachineId) -> bool {
        [(a, b), (b, a)].into_iter().all(|(one, other)| {
            let used = self.used_by(one).map_or(Level::NONE, |map| map.level);
            self.level_of(other).suffices_for(used)
        })
    }

    pub(super) fn level_of(&self, machine: MachineId) -> Level {
        self.machines[usize::from(machine.0 - 1)].build.level
    }

    fn used_by(&self, machine: MachineId) -> Option<&ShardMap> {
        self.machines[usize::from(machine.0 - 1)].workers.first()?.node().map()
    }

    /// Handles a machine's new map: closes its connections with machines that do not understand the
    /// map's level.
    pub(super) fn demand(&mut self, own: MachineId, level: Level) {
        if level > self.shape.level {
            self.mark("newer_levels_used");
        }
        for other in (1..=self.machines.len() as u16).map(MachineId) {
            if other != own && !self.level_of(other).suffices_for(level) {
                self.break_connection(own, other);
            }
        }
    }
}
