//! Snapshots on their way to another machine, a piece at a time.
//!
//! A leader that has forgotten what a follower's log lacks sends its newest durable snapshot. The
//! worker reads a piece of it from the disk and sends it; the receiving worker reads the parts in
//! it, writes it to its own disk and says so; then comes the next piece. So there is never more
//! than one piece of a snapshot on its way, and the traffic of other shards passes in between. When
//! the last piece is durable, the snapshot stands in the place of the follower's log.
//!
//! If the connection is lost, the snapshot is sent again from its beginning.

use super::splitting::Sowing;
use super::{Node, Parcel, To};
use crate::entry::{EntryCodec, SnapshotCodec};
use crate::ids::{MachineId, ShardId};
use crate::now::Now;
use crate::replica::ReplicaError;
use crate::replication::Promises;
use crate::shard::state::State;
use crate::shard::transfer::snapshot::{Header, Reader};
use adt::Corrupt;
use raft::eraftpb::Message;
use std::collections::{BTreeMap, VecDeque};

/// A piece of a snapshot. Between two machines at most one of a shard is on its way.
#[derive(Debug)]
pub struct SnapshotPiece {
    /// The shard.
    pub shard: ShardId,
    /// Where in the snapshot the piece begins, in bytes.
    pub offset: u64,
    /// The piece, of encoded parts without regard to where they end.
    pub bytes: Vec<u8>,
    /// Whether nothing follows.
    pub last: bool,
    /// What the leader's log says about the snapshot.
    pub message: Box<Message>,
}

/// What became of a piece of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The next piece is to begin at this offset.
    Next(u64),
    /// The snapshot is complete, or nothing in it was missing.
    Complete,
    /// It could not be read or written.
    Refused,
}

/// Something to be done with the disk.
#[derive(Debug)]
pub enum Transfer {
    /// Read from a shard's durable snapshot up to a log index; [`Node::snapshot_read`] is told.
    Read {
        /// The shard.
        shard: ShardId,
        /// For which machine.
        to: MachineId,
        /// Which snapshot.
        index: u64,
        /// From which byte on.
        offset: u64,
    },
    /// Append to the snapshot that another machine sends, or begin it; [`Node::snapshot_written`]
    /// is told. With the last piece it becomes the shard's durable snapshot.
    Write {
        /// The shard.
        shard: ShardId,
        /// Who sends it.
        from: MachineId,
        /// Which snapshot.
        index: u64,
        /// Which of all that were ever begun to be received.
        number: u64,
        /// What to append.
        bytes: Vec<u8>,
        /// Whether it is the first piece.
        first: bool,
        /// Whether it is the last one.
        last: bool,
    },
    /// Like [`Transfer::Write`], of what a new shard begins with, and that comes out of a shard
    /// here.
    Begin {
        /// The new shard.
        shard: ShardId,
        /// The index that its log begins with.
        index: u64,
        /// Which of all that were ever begun.
        number: u64,
        /// What to append.
        bytes: Vec<u8>,
        /// Whether it is the first piece.
        first: bool,
        /// Whether it is the last one.
        last: bool,
    },
    /// Nothing more comes of the snapshot that was sent for this shard.
    GiveUp(ShardId),
    /// Nothing more is read of this shard's snapshot for a machine.
    Close(ShardId, MachineId),
    /// Write a new snapshot of a shard here: the newest one is of no use to a machine that needs
    /// one. Asked for again until there is one that is.
    Make(ShardId),
    /// A shard is not held here any more: keep what its replica has promised, for a start to give
    /// back in [`super::Placing`] and [`crate::replication::Recovered`], remove its log, then its
    /// snapshots, durably in this order; [`Node::removed`] is told.
    Remove(ShardId, Promises),
}

#[derive(Debug)]
struct Receiving {
    number: u64,
    from: MachineId,
    index: u64,
    offset: u64,
    reader: Reader,
    /// Bytes of a part that is not complete.
    rest: Vec<u8>,
    /// The last piece is there.
    complete: Option<Message>,
}

#[derive(Debug)]
pub(super) struct Installing {
    from: MachineId,
    message: Message,
    contents: (Header, State),
}

/// All snapshots on their way to or from a worker.
#[derive(Debug)]
pub(super) struct Transfers {
    pub(super) codec: Box<dyn SnapshotCodec>,
    sending: BTreeMap<(ShardId, MachineId), Message>,
    receiving: BTreeMap<ShardId, Receiving>,
    /// How many were begun to be received.
    pub(super) received: u64,
    pub(super) installing: BTreeMap<ShardId, Installing>,
    /// New shards whose seeds are being written.
    pub(super) sowing: BTreeMap<ShardId, Sowing>,
    pub(super) tasks: VecDeque<Transfer>,
}

impl Transfers {
    pub fn new(codec: Box<dyn SnapshotCodec>) -> Self {
        let (sending, receiving, installing, sowing) = Default::default();
        let tasks = VecDeque::new();
        Self { codec, sending, receiving, received: 0, installing, sowing, tasks }
    }
}

fn index_of(message: &Message) -> u64 {
    message.get_snapshot().get_metadata().index
}

impl<C: EntryCodec + Clone> Node<C> {
    /// The next thing to be done with the disk for snapshots of other machines.
    pub fn poll_transfer(&mut self) -> Option<Transfer> {
        self.transfers.tasks.pop_front()
    }

    /// Begins to send the snapshots that a shard's followers need.
    pub(super) fn begin_transfers(&mut self, shard: usize) {
        let Some(replica) = &mut self.replicas[shard] else { return };
        if replica.take_wants_snapshot() {
            self.transfers.tasks.push_back(Transfer::Make(replica.id()));
        }
        for message in replica.take_snapshots() {
            let Ok(to) = u16::try_from(message.to).map(MachineId) else { continue };
            if !self.connected.contains(&to) {
                replica.snapshot_sent(to, false);
                continue;
            }
            let (shard, index) = (replica.id(), index_of(&message));
            self.transfers.sending.insert((shard, to), message);
            self.transfers.tasks.push_back(Transfer::Read { shard, to, index, offset: 0 });
        }
    }

    fn end_sending(&mut self, shard: ShardId, to: MachineId, ok: bool) {
        if self.transfers.sending.remove(&(shard, to)).is_none() {
            return;
        }
        self.transfers.tasks.push_back(Transfer::Close(shard, to));
        if let Some(replica) = self.replica_mut(shard) {
            replica.snapshot_sent(to, ok);
        }
    }

    /// What was read for [`Transfer::Read`], and whether it is the end of the snapshot; nothing if
    /// that snapshot is not there any more.
    pub fn snapshot_read(
        &mut self,
        (shard, to, index): (ShardId, MachineId, u64),
        offset: u64,
        read: Option<(Vec<u8>, bool)>,
    ) {
        let sending = self.transfers.sending.get(&(shard, to));
        let Some(message) = sending.filter(|message| index_of(message) == index) else { return };
        match read {
            Some((bytes, last)) => {
                let message = Box::new(message.clone());
                let piece = SnapshotPiece { shard, offset, bytes, last, message };
                self.parcels.push_back((To::Machine(to), Parcel::Snapshot(piece)));
            }
            None => self.end_sending(shard, to, false),
        }
    }

    /// Another machine tells what became of a piece.
    pub(super) fn piece_taken(&mut self, shard: ShardId, to: MachineId, index: u64, taken: Taken) {
        let sending = self.transfers.sending.get(&(shard, to));
        if sending.is_none_or(|message| index_of(message) != index) {
            return;
        }
        match taken {
            Taken::Next(offset) => {
                self.transfers.tasks.push_back(Transfer::Read { shard, to, index, offset });
            }
            Taken::Complete => self.end_sending(shard, to, true),
            Taken::Refused => self.end_sending(shard, to, false),
        }
    }

    fn answer_piece(&mut self, shard: ShardId, to: MachineId, index: u64, taken: Taken) {
        let parcel = Parcel::SnapshotTaken { shard, index, taken };
        self.parcels.push_back((To::Machine(to), parcel));
    }

    /// A piece of a snapshot that another machine sends.
    pub(super) fn take_piece(
        &mut self,
        now: Now,
        from: MachineId,
        piece: SnapshotPiece,
    ) -> Result<(), ReplicaError> {
        let SnapshotPiece { shard, offset, bytes, last, message } = piece;
        let index = index_of(&message);
        if self.transfers.sowing.contains_key(&shard) {
            // It is about to have something by itself.
            self.answer_piece(shard, from, index, Taken::Refused);
            return Ok(());
        }
        let Some(replica) = self.replica_mut(shard) else { return Ok(()) };
        if !replica.lacks(index) {
            // The log says so, and the sender goes on from there.
            replica.decline(*message);
            self.answer_piece(shard, from, index, Taken::Complete);
            self.post(now, usize::from(shard.0));
            return Ok(());
        }
        let first = offset == 0;
        if first {
            self.make_room(shard, from);
            let (reader, rest) = (Reader::new(now.mono_us), Vec::new());
            self.transfers.received += 1;
            let number = self.transfers.received;
            let new = Receiving { number, from, index, offset, reader, rest, complete: None };
            self.transfers.receiving.insert(shard, new);
        }
        let Some(receiving) = self.transfers.receiving.get_mut(&shard) else { return Ok(()) };
        if (receiving.from, receiving.index, receiving.offset) != (from, index, offset) {
            return Ok(());
        }
        receiving.offset += bytes.len() as u64;
        receiving.complete = last.then_some(*message);
        if receiving.read(&*self.transfers.codec, &bytes).is_err() {
            self.refuse(shard);
            return Ok(());
        }
        let number = receiving.number;
        let write = Transfer::Write { shard, from, index, number, bytes, first, last };
        self.transfers.tasks.push_back(write);
        Ok(())
    }

    /// Nothing becomes of what was received so far. If another machine has sent it, which leads or did so, it
    /// waits for an answer.
    fn make_room(&mut self, shard: ShardId, from: MachineId) {
        let Transfers { receiving, installing, .. } = &mut self.transfers;
        let received = receiving.remove(&shard).map(|old| (old.from, old.index));
        let installed = installing.remove(&shard).map(|old| (old.from, index_of(&old.message)));
        for (other, index) in received.into_iter().chain(installed) {
            if other != from {
                self.answer_piece(shard, other, index, Taken::Refused);
            }
        }
    }

    pub(super) fn refuse(&mut self, shard: ShardId) {
        if let Some(Receiving { from, index, .. }) = self.transfers.receiving.remove(&shard) {
            self.transfers.tasks.push_back(Transfer::GiveUp(shard));
            self.answer_piece(shard, from, index, Taken::Refused);
        }
    }

    /// What was to be written for [`Transfer::Write`] is written, and durable if it was the last
    /// piece; or that has failed. What was written for a snapshot that was given up counts for
    /// nothing, even if the same one is being received again.
    ///
    /// # Errors
    /// If the replica cannot go on.
    pub fn snapshot_written(
        &mut self,
        now: Now,
        (shard, number): (ShardId, u64),
        ok: bool,
    ) -> Result<(), ReplicaError> {
        if self.seed_written(shard, number, ok) {
            return self.begin_sown(now);
        }
        let receiving = self.transfers.receiving.get(&shard);
        let Some(receiving) = receiving.filter(|receiving| receiving.number == number) else {
            return Ok(());
        };
        let index = receiving.index;
        if !ok {
            self.refuse(shard);
        } else if receiving.complete.is_none() {
            let (from, next) = (receiving.from, Taken::Next(receiving.offset));
            self.answer_piece(shard, from, index, next);
        } else if let Some(receiving) = self.transfers.receiving.remove(&shard)
            && let Some(message) = receiving.complete
        {
            let from = receiving.from;
            match receiving.reader.finish() {
                Ok(contents) => {
                    let installing = Installing { from, message, contents };
                    self.transfers.installing.insert(shard, installing);
                    self.install(now)?;
                }
                Err(Corrupt) => self.answer_piece(shard, from, index, Taken::Refused),
            }
        }
        Ok(())
    }

    /// Puts complete snapshots in the place of logs that have nothing on their way to the disk.
    pub(super) fn install(&mut self, now: Now) -> Result<(), ReplicaError> {
        self.begin_sown(now)?;
        let ready = |shard: &ShardId| self.replica(*shard).is_some_and(|r| r.may_restore());
        let shards: Vec<ShardId> =
            self.transfers.installing.keys().copied().filter(ready).collect();
        for shard in shards {
            let Some(found) = self.transfers.installing.remove(&shard) else { continue };
            let Installing { from, message, contents } = found;
            let index = index_of(&message);
            if let Some(replica) = self.replica_mut(shard) {
                replica.restore(now, message, contents)?;
            }
            self.answer_piece(shard, from, index, Taken::Complete);
            self.post(now, usize::from(shard.0));
        }
        Ok(())
    }

    /// A shard is not held here any more.
    pub(super) fn forget_shard(&mut self, shard: ShardId, promises: Promises) {
        let Transfers { sending, receiving, installing, sowing, tasks, .. } = &mut self.transfers;
        sowing.remove(&shard);
        sending.retain(|(of, to), _| {
            tasks.extend((*of == shard).then_some(Transfer::Close(*of, *to)));
            *of != shard
        });
        tasks.extend(receiving.remove(&shard).map(|_| Transfer::GiveUp(shard)));
        installing.remove(&shard);
        tasks.push_back(Transfer::Remove(shard, promises));
    }

    /// Nothing more comes from a machine, or reaches it.
    pub(super) fn end_transfers(&mut self, machine: MachineId) {
        let sending = self.transfers.sending.keys().filter(|(_, to)| *to == machine);
        for (shard, to) in sending.copied().collect::<Vec<_>>() {
            self.end_sending(shard, to, false);
        }
        let Transfers { receiving, tasks, .. } = &mut self.transfers;
        receiving.retain(|shard, receiving| {
            let goes = receiving.from == machine;
            tasks.extend(goes.then_some(Transfer::GiveUp(*shard)));
            !goes
        });
    }
}

impl Receiving {
    fn read(&mut self, codec: &dyn SnapshotCodec, bytes: &[u8]) -> Result<(), Corrupt> {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((part, len)) = codec.next(&self.rest[at..])? {
            self.reader.take(part)?;
            at += len;
        }
        self.rest.drain(..at);
        if self.complete.is_some() && !self.rest.is_empty() {
            return Err(Corrupt);
        }
        Ok(())
    }
}
