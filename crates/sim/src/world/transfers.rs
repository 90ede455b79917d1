//! Disk operations with snapshots for other machines.

use super::{Event, World};
use crate::machine::server::{Input, decode_snapshot};
use crate::plant::Plant;
use engine::entry::SnapshotPart;
use engine::ids::{MachineId, ShardId};
use engine::node::Transfer;

impl World {
    pub(super) fn transfer(&mut self, machine: u16, worker: u16, transfer: Transfer) {
        let time = self.now_us + self.disks.tail(self.swarm.disk_us);
        let most = self.disks.between(1, 2_000) as usize;
        let target = &mut self.machines[usize::from(machine)];
        match transfer {
            Transfer::Read { shard, to, index, offset } => {
                let read = target.disk.read_snapshot(shard, index, offset, most);
                let input = Input::SnapshotRead((shard, to, index), offset, read);
                self.deliver_at(time, machine, worker, Box::new(input));
            }
            Transfer::Write { shard, from, index, number, bytes, first, last } => {
                let incoming = target.incoming.entry((shard, number)).or_default();
                if first {
                    incoming.clear();
                }
                incoming.extend(bytes);
                if last {
                    let epoch = target.epoch;
                    let which = (shard, number);
                    self.at(time, Event::SnapshotReceived { machine, epoch, which, from, index });
                } else {
                    let input = Input::SnapshotWritten((shard, number));
                    self.deliver_at(time, machine, worker, Box::new(input));
                }
            }
            Transfer::Begin { shard, index, number, bytes, first, last } => {
                let incoming = target.incoming.entry((shard, number)).or_default();
                if first {
                    incoming.clear();
                }
                incoming.extend(bytes);
                let epoch = target.epoch;
                let which = (shard, number);
                if last {
                    self.at(time, Event::SeedWritten { machine, epoch, which, index });
                } else {
                    let input = Input::SnapshotWritten(which);
                    self.deliver_at(time, machine, worker, Box::new(input));
                }
            }
            Transfer::GiveUp(shard) => target.incoming.retain(|(of, _), _| *of != shard),
            Transfer::Close(..) | Transfer::Make(_) => {}
            Transfer::Remove(shard, promises) => {
                target.disk.keep_promises(shard, promises);
                let epoch = target.epoch;
                self.at(time, Event::Remove { machine, epoch, shard });
            }
        }
    }

    /// Removes the files of a shard that has left the machine, after all earlier writes.
    pub(super) fn remove(&mut self, machine: u16, shard: ShardId) {
        let target = &mut self.machines[usize::from(machine)];
        if target.is_writing(shard) {
            let (epoch, time) = (target.epoch, self.now_us + 1_000);
            return self.at(time, Event::Remove { machine, epoch, shard });
        }
        target.disk.remove(shard);
        target.incoming.retain(|(of, _), _| *of != shard);
        self.fault("shards_removed");
        self.hand_in(machine, shard.0 % self.shape.workers, Input::Removed(shard));
    }

    /// Handles a new shard's initial state that is durable.
    pub(super) fn seed_written(&mut self, machine: u16, which: (ShardId, u64), index: u64) {
        let (shard, _) = which;
        let target = &mut self.machines[usize::from(machine)];
        let Some(bytes) = target.incoming.remove(&which) else { return };
        target.disk.receive_snapshot(shard, bytes, index, Vec::new());
        self.fault("seeds");
        self.hand_in(machine, shard.0 % self.shape.workers, Input::SnapshotWritten(which));
    }

    /// Handles the last piece, which is durable.
    pub(super) fn snapshot_received(
        &mut self,
        machine: u16,
        (shard, number): (ShardId, u64),
        from: MachineId,
        index: u64,
    ) {
        let history = self.machines[usize::from(from.0 - 1)].disk.history(shard, index);
        let target = &mut self.machines[usize::from(machine)];
        let Some(bytes) = target.incoming.remove(&(shard, number)) else { return };
        let parts = decode_snapshot(&bytes).unwrap_or_default();
        let has_prepared = parts.iter().any(|part| matches!(part, SnapshotPart::Prepared { .. }));
        if self.plant != Some(Plant::LostSnapshot) {
            target.disk.receive_snapshot(shard, bytes, index, history);
        }
        self.fault("snapshots_sent");
        if has_prepared {
            self.mark("prepared_in_snapshot");
        }
        let worker = shard.0 % self.shape.workers;
        self.hand_in(machine, worker, Input::SnapshotWritten((shard, number)));
    }
}
