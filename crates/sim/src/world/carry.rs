//! Delivery of the workers' outputs.

use super::{Event, World};
use crate::machine::network::{Frame, Sending, Way};
use crate::machine::server::{Input, Sent};
use engine::ids::MachineId;
use std::collections::BTreeMap;
use wire::peer::Fault;

/// Messages of a worker for others of its machine, by worker.
pub(super) type Batches = BTreeMap<u16, Vec<Input>>;

/// Percentage of mailboxes after which a worker's thread is held up.
const HELD_UP_PERCENT: u64 = 50;

impl World {
    pub(super) fn hand_in(&mut self, machine: u16, worker: u16, input: Input) {
        let target = &mut self.machines[usize::from(machine)];
        let Some(found) = target.workers.get_mut(usize::from(worker)) else { return };
        found.inbox.push_back(input);
        self.wake_worker(machine, worker, self.now_us);
    }

    /// Puts a message into the mailbox of a worker of a machine that is alone, which looks there soon.
    fn push_mail(&mut self, machine: u16, worker: u16, input: Input) {
        let delay = self.network.tail(self.swarm.channel_us);
        let target = &mut self.machines[usize::from(machine)];
        let Some(found) = target.workers.get_mut(usize::from(worker)) else { return };
        found.mailbox.push_back(input);
        let epoch = target.epoch;
        self.at(self.now_us + delay, Event::HasMail { machine, epoch, worker });
    }

    /// Puts the messages of a turn into the mailboxes of other workers of a machine that is alone, one
    /// mailbox after the other. The worker's thread may be held up in between.
    pub(super) fn post(&mut self, machine: u16, worker: u16, mut left: Batches) {
        let target = &self.machines[usize::from(machine)];
        let (epoch, paused_until_us) = (target.epoch, target.paused_until_us);
        let mut is_held_up = paused_until_us > self.now_us;
        while !is_held_up && let Some((to, inputs)) = left.pop_first() {
            inputs.into_iter().for_each(|input| self.push_mail(machine, to, input));
            is_held_up = !left.is_empty() && self.network.percent(HELD_UP_PERCENT);
        }
        let held_up = &mut self.machines[usize::from(machine)].held_up[usize::from(worker)];
        let was_held_up = std::mem::replace(held_up, !left.is_empty());
        if !left.is_empty() {
            let delay = self.network.tail(self.swarm.channel_us);
            let time = (self.now_us + delay).max(paused_until_us);
            self.at(time, Event::Post { machine, epoch, worker, left });
        } else if was_held_up {
            self.wake_worker(machine, worker, self.now_us);
        }
    }

    pub(super) fn deliver_at(&mut self, time: u64, machine: u16, worker: u16, input: Box<Input>) {
        let epoch = self.machines[usize::from(machine)].epoch;
        self.at(time, Event::Deliver { machine, epoch, worker, input });
    }

    pub(super) fn wake_worker(&mut self, machine: u16, worker: u16, time: u64) {
        let target = &mut self.machines[usize::from(machine)];
        if let Some(turning) = target.turning.get_mut(usize::from(worker))
            && !*turning
        {
            *turning = true;
            let epoch = target.epoch;
            let time = time.max(target.paused_until_us) + self.network.between(0, 5);
            self.at(time, Event::Turn { machine, epoch, worker });
        }
    }

    pub(super) fn turn(&mut self, machine: u16, worker: u16) -> Result<(), String> {
        let target = &mut self.machines[usize::from(machine)];
        if target.paused_until_us > self.now_us {
            let (epoch, time) = (target.epoch, target.paused_until_us);
            self.at(time, Event::Turn { machine, epoch, worker });
            return Ok(());
        }
        if target.held_up[usize::from(worker)] {
            target.turning[usize::from(worker)] = false;
            return Ok(());
        }
        let sent = target.turn(self.now_us, worker)?;
        for (mark, count) in target.workers[usize::from(worker)].take_marks() {
            *self.outcome.marks.entry(mark).or_default() += count;
        }
        self.look_at(machine, worker)?;
        let mut left = Batches::new();
        for item in sent {
            match item {
                Sent::Worker(to, input) if !self.shape.is_cluster() && !input.is_part() => {
                    left.entry(to).or_default().push(*input);
                }
                item => self.carry(machine, worker, item)?,
            }
        }
        self.post(machine, worker, left);
        // Time-outs and long snapshots need a turn now and then.
        let busy = self.ending || self.now_us < self.faults_end_us || self.is_busy();
        let target = &mut self.machines[usize::from(machine)];
        if busy && !std::mem::replace(&mut target.ticking[usize::from(worker)], true) {
            let pause_us = if self.shape.is_cluster() { 10_000 } else { 2_000 };
            let (epoch, time) = (target.epoch, self.now_us + pause_us);
            self.at(time, Event::Tick { machine, epoch, worker });
        }
        Ok(())
    }

    fn carry(&mut self, machine: u16, from: u16, item: Sent) -> Result<(), String> {
        match item {
            Sent::Worker(to, input) if !self.shape.is_cluster() => {
                self.push_mail(machine, to, *input);
            }
            Sent::Worker(to, input) => {
                let channels = &mut self.machines[usize::from(machine)].channels;
                let last = channels.get(&(from, to)).copied().unwrap_or(0);
                let delay = self.network.tail(self.swarm.channel_us);
                let time = (self.now_us + delay).max(last + 1);
                channels.insert((from, to), time);
                self.deliver_at(time, machine, to, input);
            }
            Sent::Machine(to, generation, frame) => {
                self.send_frame((MachineId(machine + 1), to), generation, frame);
            }
            Sent::Client(number, reply) => {
                let found = self.connections.iter_mut().find(|(_, c)| c.number == number);
                let Some((client, connection)) = found else { return Ok(()) };
                let delay = self.network.tail(connection.delay_us);
                let time = (self.now_us + delay).max(connection.last_in_us + 1);
                connection.last_in_us = time;
                let client = *client;
                self.at(time, Event::ToClient { client, connection: number, reply });
            }
            Sent::Guest(number, said) => self.send_to_guest(number, said),
            Sent::Disk(persist) => {
                self.check_log(machine, &persist)?;
                if self.shape.volatile {
                    // The disk stands for what the checkers must know of the log.
                    self.machines[usize::from(machine)].disk.keep(persist);
                    return Ok(());
                }
                self.machines[usize::from(machine)].write(persist);
                self.start_sync(machine);
            }
            Sent::Transfer(transfer) => self.transfer(machine, from, transfer),
            Sent::Map(map) => {
                self.demand(MachineId(machine + 1), map.level);
                self.machines[usize::from(machine)].disk.keep_map(*map);
            }
            Sent::Snapshot(shard, index, bytes) => {
                let epoch = self.machines[usize::from(machine)].epoch;
                let time = self.now_us + self.disks.tail(self.swarm.disk_us);
                self.at(time, Event::SnapshotSaved { machine, epoch, shard, index, bytes });
            }
        }
        Ok(())
    }

    pub(super) fn send_frame(&mut self, way: Way, generation: u64, frame: Frame) {
        match self.links.send(self.now_us, way, generation, frame) {
            Sending::Arrives(time, frame) => {
                self.at(time, Event::Frame { from: way.0, to: way.1, generation, frame });
            }
            Sending::LeftOut => self.fault("entries_left_out"),
            Sending::Waits | Sending::Lost => {}
        }
    }

    /// Delivers a frame. If it cannot be decoded, the connection breaks, as in the product.
    pub(super) fn arrive(&mut self, from: MachineId, to: MachineId, frame: &Frame) {
        match self.format.decode(&frame.bytes) {
            Ok(Some((parcel, _))) => {
                let worker = from.0 % self.shape.workers;
                self.hand_in(to.0 - 1, worker, Input::Parcel(from, Box::new(parcel)));
            }
            Err(Fault::Unread { instead, .. }) => panic!("written and not read: {instead:?}"),
            // A wrong length makes the rest of the stream meaningless.
            Ok(None) | Err(Fault::Corrupt) => {
                self.mark("garbled_messages_noticed");
                self.break_connection(from, to);
            }
        }
    }

    pub(super) fn start_sync(&mut self, machine: u16) {
        let target = &mut self.machines[usize::from(machine)];
        if target.start_sync() {
            let epoch = target.epoch;
            let time = self.now_us + self.disks.tail(self.swarm.disk_us);
            self.at(time, Event::Synced { machine, epoch });
        }
    }

    pub(super) fn synced(&mut self, machine: u16) {
        let target = &mut self.machines[usize::from(machine)];
        if std::mem::take(&mut target.sync_fails) {
            self.fault("failed_syncs");
            return self.stop_for_a_while(machine, 1_000_000);
        }
        if target.full_until_us > self.now_us {
            self.fault("writes_to_a_full_disk");
            return self.stop_for_a_while(machine, 500_000);
        }
        for (shard, number) in target.synced() {
            let worker = shard.0 % self.shape.workers;
            let input = Box::new(Input::Persisted(shard, number));
            if !self.shape.is_cluster() {
                self.push_mail(machine, worker, *input);
                continue;
            }
            self.deliver_at(self.now_us + 1, machine, worker, input);
        }
        self.start_sync(machine);
    }
}
