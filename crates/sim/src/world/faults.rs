//! Faults of a world: crashes, pauses, cuts, snapshots at bad moments.

use super::clients::holders::HOLDERS;
use super::{Event, World};
use crate::machine::network::SILENCE_US;
use crate::machine::server::Input;
use crate::plant::Plant;
use crate::swarm::Fault;
use engine::ids::{MachineId, ShardId};
use engine::limits::{SILENT_US, TICK_US_MIN};
use std::collections::BTreeSet;

/// Day, by which wall clocks may leap.
const DAY_US: u64 = 86_400_000_000;

impl World {
    pub(super) fn inflict(&mut self, fault: Fault) {
        match fault {
            Fault::Crash => self.power_cut(&[50_000, 50_000, 3_000_000]),
            Fault::Outage => {
                self.fault("outages");
                self.power_cut(&[9_000_000]);
            }
            Fault::FailedSync => {
                let machine = self.any_machine();
                self.machines[usize::from(machine)].sync_fails = true;
            }
            Fault::FullDisk => {
                self.fault("full_disks");
                let machine = self.any_machine();
                let until = self.now_us + self.faults.between(10_000, 2_000_000);
                self.machines[usize::from(machine)].full_until_us = until;
            }
            Fault::LostDisk => self.lose_a_disk(),
            Fault::FlippedBit => self.flip_a_bit(),
            Fault::Snapshot => self.begin_snapshot(),
            Fault::ClockJump => self.clock_jump("clock_jumps", 1_000_000),
            Fault::ClockLeap => self.clock_jump("clock_leaps", DAY_US),
            Fault::Disconnect => {
                let client = self.any_client();
                self.disconnect(client);
            }
            Fault::Vanish => {
                let client = self.any_client();
                self.vanish(client);
            }
            Fault::Impatience => {
                let client = self.any_client();
                self.lose_patience(client);
            }
            Fault::Pause => self.pause(false),
            Fault::Move => self.pause(true),
            Fault::Cut => self.cut(),
            Fault::Isolation => self.isolate_leader(),
            Fault::Clog => self.clog(),
            Fault::Reset => {
                if let Some((one, other)) = self.two_machines()
                    && self.break_connection(one, other)
                {
                    self.fault("connections_reset");
                }
            }
            Fault::Garble => self.garble(),
            Fault::HandOver => self.hand_over(),
            Fault::StandBack => {
                let machine = self.any_machine();
                self.stand_back(machine, true);
            }
            Fault::Lie => self.lie(),
            Fault::Reshape => self.reshape(),
            Fault::Backup => self.begin_backup(),
            Fault::Lull => self.lull(),
        }
    }

    fn any_client(&mut self) -> u64 {
        let clients = self.clients.len() as u64;
        let any = self.faults.below(clients + self.holders.len() as u64);
        if any < clients { any } else { HOLDERS + any - clients }
    }

    /// Two machines that are not lost, if there are two.
    fn two_machines(&mut self) -> Option<(MachineId, MachineId)> {
        let mut present = self.present();
        if present.len() < 2 {
            return None;
        }
        let one = present.swap_remove(self.faults.below(present.len() as u64) as usize);
        let other = *self.faults.pick(&present);
        Some((MachineId(one + 1), MachineId(other + 1)))
    }

    /// Stops a machine for at most one of these times.
    fn power_cut(&mut self, longest_us: &[u64]) {
        let machine = self.any_machine();
        if !self.machines[usize::from(machine)].is_up() {
            return;
        }
        self.fault("crashes");
        let most = *self.faults.pick(longest_us);
        let most = if self.shape.is_cluster() { most } else { 50_000 };
        self.stop_for_a_while(machine, most);
    }

    pub(super) fn stop_for_a_while(&mut self, machine: u16, most_us: u64) {
        self.crash(machine);
        let time = self.now_us + self.faults.between(100, most_us);
        self.at(time, Event::Restart { machine });
    }

    fn clock_jump(&mut self, kind: &'static str, most_us: u64) {
        self.fault(kind);
        let machine = usize::from(self.any_machine());
        let worker = self.faults.below(u64::from(self.shape.workers)) as usize;
        let jump = self.faults.between(0, 2 * most_us) as i64 - most_us as i64;
        self.note_clocks();
        self.machines[machine].wall_offsets_us[worker] += jump;
        self.note_clocks();
    }

    fn begin_snapshot(&mut self) {
        let machine = self.any_machine();
        let worker = self.faults.below(u64::from(self.shape.workers)) as u16;
        let target = &mut self.machines[usize::from(machine)];
        let Some(found) = target.workers.get_mut(usize::from(worker)) else { return };
        found.begin_snapshot(&mut self.faults);
        self.fault("snapshots");
        self.wake_worker(machine, worker, self.now_us);
    }

    /// Pauses a machine. If it moves to another host meanwhile, it remains unreachable for some
    /// time after the pause.
    fn pause(&mut self, moves: bool) {
        let leaders = self.leaders();
        // A move matters most for a leader, which relies on promises of other machines.
        let index = match moves && !leaders.is_empty() {
            true => *self.faults.pick(&leaders),
            false => self.any_machine(),
        };
        if !self.machines[usize::from(index)].is_up() {
            return;
        }
        self.fault(if moves { "moves" } else { "pauses" });
        // Long enough for the others to elect another leader.
        let shortest = if moves { 1_500_000 } else { 10_000 };
        let length_us = self.faults.between(shortest, 4_000_000);
        let frozen = self.plant == Some(Plant::FrozenClock);
        self.machines[usize::from(index)].pause(self.now_us, length_us, frozen);
        if moves {
            let until = self.now_us + length_us + self.faults.between(0, 1_500_000);
            self.cut_off(MachineId(index + 1), until);
        }
    }

    fn cut_off(&mut self, machine: MachineId, until: u64) {
        for other in self.others(machine) {
            self.cut_way((machine, other), until);
            self.cut_way((other, machine), until);
        }
    }

    fn others(&self, machine: MachineId) -> Vec<MachineId> {
        let all = self.present().into_iter().map(|index| MachineId(index + 1));
        all.filter(|other| *other != machine).collect()
    }

    /// Machines that lead a shard, or believe to.
    fn leaders(&self) -> Vec<u16> {
        let leads = |index: &u16| {
            let workers = &self.machines[usize::from(*index)].workers;
            workers.iter().flat_map(|w| w.node().replicas()).any(|replica| replica.is_serving())
        };
        self.present().into_iter().filter(leads).collect()
    }

    /// Cuts a leader off from all machines, but not from its clients.
    fn isolate_leader(&mut self) {
        let leaders = self.leaders();
        if leaders.is_empty() {
            return;
        }
        self.fault("leaders_isolated");
        let leader = MachineId(*self.faults.pick(&leaders) + 1);
        let until = self.now_us + self.faults.between(100_000, 4_000_000);
        self.cut_off(leader, until);
    }

    /// Delays all messages over one link after the other, in one direction or both.
    fn clog(&mut self) {
        let Some((one, other)) = self.two_machines() else { return };
        self.fault("links_clogged");
        let until = self.now_us + self.faults.between(100_000, 4_000_000);
        let delay_us = *self.faults.pick(&[20_000, 100_000, 400_000]);
        self.links.clog((one, other), until, delay_us);
        if self.faults.percent(50) {
            self.links.clog((other, one), until, delay_us);
        }
    }

    /// Damages a message between two machines.
    fn garble(&mut self) {
        let on_their_way: Vec<(u64, u64)> = self
            .queue
            .iter()
            .filter(|(_, event)| matches!(event, Event::Frame { .. }))
            .map(|(place, _)| *place)
            .collect();
        if on_their_way.is_empty() {
            return;
        }
        let place = self.faults.pick(&on_their_way);
        let Some(Event::Frame { frame, .. }) = self.queue.get_mut(place) else { return };
        let byte = self.faults.below(frame.bytes.len() as u64) as usize;
        frame.bytes[byte] ^= 1 << self.faults.below(8);
        self.fault("messages_garbled");
    }

    /// Asks for the handover of a shard's leadership to a machine, wherever the leader is.
    fn hand_over(&mut self) {
        let shard = ShardId(self.faults.below(u64::from(self.shape.shards)) as u16);
        let to = MachineId(self.any_machine() + 1);
        self.fault("handovers");
        for machine in self.present() {
            self.hand_in(machine, shard.0 % self.shape.workers, Input::HandOver(shard, to));
        }
    }

    /// Makes a machine hand over its leaderships and accept none for a while, as before it is
    /// stopped.
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

    /// Sets time-outs from made-up measurements: one machine believes them, or each gets some of
    /// its own, or all but one leader hurry and may lose contact with that leader.
    fn lie(&mut self) {
        self.fault("lies");
        let (leaders, kind) = (self.leaders(), self.faults.below(10));
        let led = kind >= 7 && !leaders.is_empty();
        let one = if led { *self.faults.pick(&leaders) } else { self.any_machine() };
        let machines = if kind < 4 { vec![one] } else { self.present() };
        for machine in machines {
            let tick_us = match kind {
                0..7 => *self.faults.pick(&[0, 2 * TICK_US_MIN, u64::MAX]),
                _ if machine == one => u64::MAX,
                _ => 0,
            };
            self.believe(machine, tick_us);
            let until = self.now_us + self.faults.between(100_000, 8_000_000);
            let until = until.min(self.faults_end_us.max(self.now_us + 1));
            self.at(until, Event::Disbelieve { machine });
        }
        if led && self.faults.percent(50) {
            let until = self.now_us + self.faults.between(100_000, 4_000_000);
            self.cut_off(MachineId(one + 1), until);
        }
    }

    /// Sets the length of a machine's ticks.
    pub(super) fn believe(&mut self, machine: u16, tick_us: u64) {
        for worker in 0..self.shape.workers {
            self.hand_in(machine, worker, Input::Tick(tick_us));
        }
    }

    fn cut_way(&mut self, way: (MachineId, MachineId), until: u64) {
        self.links.cut(self.now_us, way);
        let until = until.min(self.faults_end_us.max(self.now_us + 1));
        self.at(until, Event::Mend { from: way.0, to: way.1 });
    }

    /// Cuts off one machine or one pair of machines in one or both directions for a while.
    fn cut(&mut self) {
        let Some((one, other)) = self.two_machines() else { return };
        let (to, from, all) =
            (self.faults.percent(70), self.faults.percent(70), self.faults.percent(50));
        self.fault(if to && from { "cuts" } else { "one_way_cuts" });
        let until = self.now_us + self.faults.tail(500_000);
        let others = if all { self.others(one) } else { vec![other] };
        for other in others {
            for (way, cut) in [((one, other), to || !from), ((other, one), from)] {
                if cut {
                    self.cut_way(way, until);
                }
            }
        }
    }

    pub(super) fn mend(&mut self, from: MachineId, to: MachineId) {
        let (generation, waiting) = self.links.mend((from, to));
        for frame in waiting {
            self.send_frame((from, to), generation, frame);
        }
    }

    /// Detects broken connections, and reconnects where that is possible.
    pub(super) fn look_after_connections(&mut self) {
        for (a, b) in self.links.silent(self.now_us, SILENCE_US) {
            self.break_connection(a, b);
        }
        self.notice_silence();
        let mut up = self.present();
        up.retain(|machine| self.machines[usize::from(*machine)].is_up());
        for (place, a) in up.iter().enumerate() {
            for b in &up[place + 1..] {
                let (a, b) = (a + 1, b + 1);
                self.connect_machines(MachineId(a), MachineId(b));
            }
        }
        let time = self.now_us + 20_000;
        self.at(time, Event::Connections);
    }

    fn connect_machines(&mut self, a: MachineId, b: MachineId) {
        if !self.understand(a, b) {
            return self.mark("machines_turned_away");
        }
        if let Some(generation) = self.links.connect(a, b) {
            for (one, other) in [(a, b), (b, a)] {
                let level = self.level_of(other);
                self.hand_in_about(one.0, other.0, Input::Connected(other, generation, level));
            }
        }
    }

    /// Reports machines as silent, once: those from which nothing arrives, and those that are
    /// paused.
    fn notice_silence(&mut self) {
        let mut silent: BTreeSet<_> =
            self.links.silent(self.now_us, SILENT_US).into_iter().collect();
        for index in self.present() {
            let machine = &self.machines[usize::from(index)];
            if machine.is_up() && machine.paused_for_us(self.now_us) >= SILENT_US {
                let from = machine.id;
                silent.extend(self.others(from).into_iter().map(|to| (from, to)));
            }
        }
        for (from, to) in &silent {
            if !self.silent.contains(&(*from, *to)) {
                self.hand_in_about(to.0, from.0, Input::Silent(*from, SILENT_US));
            }
        }
        self.silent = silent;
    }

    /// Stops the clients' requests for a while, so that groups fall asleep.
    pub(super) fn lull(&mut self) {
        self.fault("lulls");
        let length_us = self.faults.between(1_000_000, 6_000_000);
        self.lull_until_us = self.lull_until_us.max(self.now_us + length_us);
    }

    /// Delivers an input about `other` to the worker of `machine` that holds the connection with
    /// it.
    fn hand_in_about(&mut self, machine: u16, other: u16, input: Input) {
        self.hand_in(machine - 1, other % self.shape.workers, input);
    }

    pub(super) fn break_connection(&mut self, a: MachineId, b: MachineId) -> bool {
        let broken = self.links.disconnect(a, b);
        if broken {
            self.hand_in_about(a.0, b.0, Input::Lost(b));
            self.hand_in_about(b.0, a.0, Input::Lost(a));
        }
        broken
    }

    pub(super) fn crash(&mut self, index: u16) {
        let joint = |w: &crate::machine::server::Worker| {
            w.node().replicas().any(|r| r.group().members().is_joint())
        };
        if self.machines[usize::from(index)].workers.iter().any(joint) {
            self.mark("crashes_between_members");
        }
        let machine = &mut self.machines[usize::from(index)];
        if self.plant == Some(Plant::LostEntry) {
            machine.disk.lose_last_entry(ShardId(0));
        }
        let lost = machine.stop(&mut self.disks);
        let id = machine.id;
        if lost.batches > 0 {
            self.fault("unsynced_writes_lost");
        }
        if lost.torn {
            self.fault("torn_writes");
        }
        for other in (1..=self.machines.len() as u16).map(MachineId).filter(|other| *other != id) {
            self.break_connection(id, other);
        }
        self.disconnect_all(index);
    }
}
