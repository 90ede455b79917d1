//! What goes wrong in a world: crashes, pauses, cuts, snapshots at bad moments.

use super::{Connection, Event, World};
use crate::network::SILENCE_US;
use crate::plant::Plant;
use crate::server::{Input, address};
use engine::limits::SILENT_US;
use engine::message::{MachineId, ShardId};
use std::collections::BTreeSet;

impl World {
    pub(super) fn draw_faults(&mut self) {
        if self.faults.percent(25) {
            return;
        }
        let cluster = self.shape.is_cluster();
        let mut draw = |below: u64, event: fn() -> Event| {
            for _ in 0..self.faults.below(below) {
                let time = self.faults.between(self.now_us, self.faults_end_us);
                self.sequence += 1;
                self.queue.insert((time, self.sequence), event());
            }
        };
        draw(4, || Event::Crash);
        // On several machines logs are kept from the snapshot before on: it takes two.
        draw(if cluster { 40 } else { 4 }, || Event::BeginSnapshot);
        draw(3, || Event::ClockJump);
        if cluster {
            draw(4, || Event::Pause { moves: false });
            draw(4, || Event::Pause { moves: true });
            draw(5, || Event::Cut);
            draw(8, || Event::HandOver);
            draw(3, || Event::StandBack);
            draw(6, || Event::Reshape);
            draw(3, || Event::Lull);
        }
        for _ in 0..self.faults.below(6) {
            let time = self.faults.between(self.now_us, self.faults_end_us);
            let client = self.faults.below(self.clients.len() as u64);
            self.at(time, Event::Disconnect { client });
        }
    }

    pub(super) fn begin_snapshot(&mut self) {
        let machine = self.faults.below(u64::from(self.shape.machines)) as u16;
        let worker = self.faults.below(u64::from(self.shape.workers)) as u16;
        let target = &mut self.machines[usize::from(machine)];
        let Some(found) = target.workers.get_mut(usize::from(worker)) else { return };
        found.begin_snapshot(&mut self.faults);
        self.fault("snapshots");
        self.wake_worker(machine, worker, self.now_us);
    }

    /// A machine does nothing for a while. If it moves to another host in the meantime, the others
    /// are still out of its reach when it goes on.
    pub(super) fn pause(&mut self, moves: bool) {
        self.fault(if moves { "moves" } else { "pauses" });
        let machine = self.faults.between(1, u64::from(self.shape.machines)) as u16;
        // Long enough for the others to choose another leader.
        let shortest = if moves { 1_500_000 } else { 10_000 };
        let length_us = self.faults.between(shortest, 4_000_000);
        let frozen = self.plant == Some(Plant::FrozenClock);
        self.machines[usize::from(machine - 1)].pause(self.now_us, length_us, frozen);
        if moves {
            let until = self.now_us + length_us + self.faults.between(0, 1_500_000);
            for other in (1..=self.shape.machines).filter(|other| *other != machine) {
                self.cut_way((MachineId(machine), MachineId(other)), until);
                self.cut_way((MachineId(other), MachineId(machine)), until);
            }
        }
    }

    /// Somebody hands the lead of a shard over to a machine, wherever it is led.
    pub(super) fn hand_over(&mut self) {
        let shard = ShardId(self.faults.below(u64::from(self.shape.shards)) as u16);
        let to = MachineId(self.faults.between(1, u64::from(self.shape.machines)) as u16);
        self.fault("handovers");
        for machine in 0..self.shape.machines {
            self.hand_in(machine, shard.0 % self.shape.workers, Input::HandOver(shard, to));
        }
    }

    /// An operator adds a machine, lets others hold a shard, or takes a machine out.
    pub(super) fn reshape(&mut self) {
        let map = self.newest_map();
        let machine = MachineId(self.faults.between(1, u64::from(self.shape.machines)) as u16);
        let shard = match self.faults.below(u64::from(self.shape.shards) + 1) as u16 {
            shard if shard < self.shape.shards => ShardId(shard),
            _ => ShardId::MAP,
        };
        let mut holders: Vec<MachineId> = map.machines.keys().copied().collect();
        let count = *self.faults.pick(&[3, 3, 3, 2, 1, 5]);
        while holders.len() > count {
            holders.swap_remove(self.faults.below(holders.len() as u64) as usize);
        }
        let next = match self.faults.below(6) {
            0 => map.vacated(machine),
            1 => map.balanced(count),
            _ if !map.machines.contains_key(&machine) => map.with(machine, &address(machine)),
            2 => map.without(machine),
            _ => map.placed(shard, &holders),
        };
        let Ok(next) = next else { return };
        self.fault("reshapings");
        let machine = self.faults.below(u64::from(self.shape.machines)) as u16;
        let words = vec!["shardmap".to_owned(), "set".to_owned(), next.to_string()];
        self.hand_in(machine, 0, Input::Operate(words));
    }

    /// A machine hands over what it leads and stands back for a while, as before it is stopped.
    pub(super) fn stand_back(&mut self, machine: u16, on: bool) {
        for worker in 0..self.shape.workers {
            self.hand_in(machine, worker, Input::StandBack(on));
        }
        if on {
            self.fault("stand_backs");
            let time = self.now_us + self.faults.tail(1_000_000);
            self.at(time, Event::ComeBack { machine });
        }
    }

    pub(super) fn cut_way(&mut self, way: (MachineId, MachineId), until: u64) {
        self.links.cut(self.now_us, way);
        let until = until.min(self.faults_end_us.max(self.now_us + 1));
        self.at(until, Event::Mend { from: way.0, to: way.1 });
    }

    /// One machine or one pair of machines does not hear the other side for a while.
    pub(super) fn cut(&mut self) {
        self.fault("cuts");
        let machines = u64::from(self.shape.machines);
        let one = MachineId(self.faults.between(1, machines) as u16);
        let other = MachineId(self.faults.between(1, machines) as u16);
        let (to, from, all) =
            (self.faults.percent(70), self.faults.percent(70), self.faults.percent(50));
        let until = self.now_us + self.faults.tail(500_000);
        let others = (1..=self.shape.machines).map(MachineId).filter(|m| *m != one);
        let others: Vec<MachineId> = others.filter(|m| all || *m == other).collect();
        for other in others {
            for (way, cut) in [((one, other), to), ((other, one), from)] {
                if cut {
                    self.cut_way(way, until);
                }
            }
        }
    }

    pub(super) fn mend(&mut self, from: MachineId, to: MachineId) {
        let (generation, waiting) = self.links.mend((from, to));
        for parcel in waiting {
            self.send_parcel((from, to), generation, parcel);
        }
    }

    /// Broken connections are noticed, and made again where that is possible.
    pub(super) fn look_after_connections(&mut self) {
        for (a, b) in self.links.silent(self.now_us, SILENCE_US) {
            self.break_connection(a, b);
        }
        self.notice_silence();
        for a in 1..=self.shape.machines {
            for b in a + 1..=self.shape.machines {
                let up = |m: u16| self.machines[usize::from(m - 1)].is_up();
                if up(a)
                    && up(b)
                    && let Some(generation) = self.links.connect(MachineId(a), MachineId(b))
                {
                    self.hand_in_about(a, b, Input::Connected(MachineId(b), generation));
                    self.hand_in_about(b, a, Input::Connected(MachineId(a), generation));
                }
            }
        }
        let time = self.now_us + 20_000;
        self.at(time, Event::Connections);
    }

    /// Machines that were not heard of for a while are said to be silent, once: those that nothing
    /// arrives from, and those that do nothing.
    fn notice_silence(&mut self) {
        let mut silent: BTreeSet<_> =
            self.links.silent(self.now_us, SILENT_US).into_iter().collect();
        for from in 1..=self.shape.machines {
            let machine = &self.machines[usize::from(from - 1)];
            if machine.is_up() && machine.paused_for_us(self.now_us) >= SILENT_US {
                let others = (1..=self.shape.machines).filter(|to| *to != from);
                silent.extend(others.map(|to| (MachineId(from), MachineId(to))));
            }
        }
        for (from, to) in &silent {
            if !self.silent.contains(&(*from, *to)) {
                self.hand_in_about(to.0, from.0, Input::Silent(*from, SILENT_US));
            }
        }
        self.silent = silent;
    }

    /// Clients have nothing to ask for a while, so that groups fall asleep.
    pub(super) fn lull(&mut self) {
        self.fault("lulls");
        let length_us = self.faults.between(1_000_000, 6_000_000);
        self.lull_until_us = self.lull_until_us.max(self.now_us + length_us);
    }

    /// The worker of `machine` that holds the connection with `other` hears about it.
    pub(super) fn hand_in_about(&mut self, machine: u16, other: u16, input: Input) {
        self.hand_in(machine - 1, other % self.shape.workers, input);
    }

    pub(super) fn break_connection(&mut self, a: MachineId, b: MachineId) {
        if self.links.disconnect(a, b) {
            self.hand_in_about(a.0, b.0, Input::Lost(b));
            self.hand_in_about(b.0, a.0, Input::Lost(a));
        }
    }

    pub(super) fn crash(&mut self, index: u16) {
        let machine = &mut self.machines[usize::from(index)];
        if self.plant == Some(Plant::LostEntry) {
            machine.disk.lose_last_entry(ShardId(0));
        }
        machine.stop(&mut self.disks);
        let id = machine.id;
        for other in (1..=self.shape.machines).map(MachineId).filter(|other| *other != id) {
            self.break_connection(id, other);
        }
        let here = |c: &&Connection| c.machine == index;
        let connected: Vec<u64> =
            self.connections.iter().filter(|(_, c)| here(c)).map(|(client, _)| *client).collect();
        for client in connected {
            self.connections.remove(&client);
            if let Some(c) = self.clients.get_mut(client as usize) {
                c.disconnected(self.now_us);
                let time = self.now_us + self.network.between(1000, 20_000);
                self.at(time, Event::Wake { client });
            }
        }
    }
}
