//! Transfer of snapshots to other machines, a piece at a time.
//!
//! A leader that has forgotten the entries which a follower lacks sends its newest durable
//! snapshot. The worker reads a piece of it from the disk and sends it; the receiving worker
//! decodes the parts in it, writes it to its own disk and acknowledges it; then the next piece
//! follows. So at most one piece of a snapshot is in flight, and the traffic of other shards passes
//! in between. When the last piece is durable, the snapshot replaces the follower's log.
//!
//! If the connection is lost, the snapshot is sent again from its beginning.

pub(in crate::node) mod piece;
pub(in crate::node) mod splitting;

use super::outgoing::Outgoing;
use super::replicas::Replicas;
use super::{Node, Parcel};
use crate::entry::{EntryCodec, SnapshotCodec};
use crate::ids::{MachineId, ShardId};
use crate::now::Now;
use crate::replica::ReplicaError;
use crate::replication::Promises;
use crate::shard::state::State;
use crate::shard::transfer::snapshot::{Header, Reader};
use adt::Corrupt;
use piece::{SnapshotPiece, Taken};
use raft::eraftpb::Message;
use splitting::Sowing;
use std::collections::{BTreeMap, VecDeque};

/// Disk operation for a snapshot.
#[derive(Debug)]
pub enum Transfer {
    /// Read from a shard's durable snapshot up to a log index; the result goes to
    /// [`Node::snapshot_read`].
    Read {
        /// The shard.
        shard: ShardId,
        /// Receiving machine.
        to: MachineId,
        /// Last log index of the snapshot.
        index: u64,
        /// Offset of the first byte.
        offset: u64,
    },
    /// Append to the snapshot that another machine sends, or begin it; the result goes to
    /// [`Node::snapshot_written`]. With the last piece it becomes the shard's durable snapshot.
    Write {
        /// The shard.
        shard: ShardId,
        /// Sending machine.
        from: MachineId,
        /// Last log index of the snapshot.
        index: u64,
        /// Number of the reception; each begun reception has its own.
        number: u64,
        /// Bytes to append.
        bytes: Vec<u8>,
        /// Whether this is the first piece.
        first: bool,
        /// Whether this is the last piece.
        last: bool,
    },
    /// Like [`Transfer::Write`], for the initial state of a new shard that a local shard's split
    /// has created.
    Begin {
        /// The new shard.
        shard: ShardId,
        /// Index with which its log begins.
        index: u64,
        /// Number of the reception; each begun reception has its own.
        number: u64,
        /// Bytes to append.
        bytes: Vec<u8>,
        /// Whether this is the first piece.
        first: bool,
        /// Whether this is the last piece.
        last: bool,
    },
    /// Abandon the snapshot that was received for this shard.
    GiveUp(ShardId),
    /// Stop reading this shard's snapshot for a machine.
    Close(ShardId, MachineId),
    /// Write a new snapshot of a local shard: the newest one is of no use to a machine that needs
    /// one. Repeated until there is a usable one.
    Make(ShardId),
    /// Remove a shard that is not held here any more: store its replica's promises, which a later
    /// start must return in [`super::Placing`] and [`crate::replication::Recovered`], then remove
    /// its log, then its snapshots, durably in this order; the result goes to [`Node::removed`].
    Remove(ShardId, Promises),
}

#[derive(Debug)]
struct Receiving {
    number: u64,
    from: MachineId,
    index: u64,
    offset: u64,
    reader: Reader,
    /// Bytes of an incomplete part.
    rest: Vec<u8>,
    /// Message of a snapshot whose last piece has arrived.
    complete: Option<Message>,
}

#[derive(Debug)]
pub(super) struct Installing {
    from: MachineId,
    message: Message,
    contents: (Header, State),
}

/// All snapshots in transfer to or from a worker.
#[derive(Debug)]
pub(super) struct Transfers {
    pub(super) codec: Box<dyn SnapshotCodec>,
    sending: BTreeMap<(ShardId, MachineId), Message>,
    receiving: BTreeMap<ShardId, Receiving>,
    /// Number of receptions begun.
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

    fn end_sending<C: EntryCodec + Clone>(
        &mut self,
        replicas: &mut Replicas<C>,
        shard: ShardId,
        to: MachineId,
        ok: bool,
    ) {
        if self.sending.remove(&(shard, to)).is_none() {
            return;
        }
        self.tasks.push_back(Transfer::Close(shard, to));
        if let Some(replica) = replicas.get_mut(shard) {
            replica.group_mut().snapshot_sent(to, ok);
        }
    }

    /// Takes another machine's result of a piece.
    pub fn piece_taken<C: EntryCodec + Clone>(
        &mut self,
        replicas: &mut Replicas<C>,
        shard: ShardId,
        to: MachineId,
        index: u64,
        taken: Taken,
    ) {
        let sending = self.sending.get(&(shard, to));
        if sending.is_none_or(|message| index_of(message) != index) {
            return;
        }
        match taken {
            Taken::Next(offset) => {
                self.tasks.push_back(Transfer::Read { shard, to, index, offset });
            }
            Taken::Complete => self.end_sending(replicas, shard, to, true),
            Taken::Refused => self.end_sending(replicas, shard, to, false),
        }
    }

    /// Abandons a reception that is in progress. Its sender, which leads the shard or did so, gets
    /// an answer.
    fn make_room(&mut self, out: &mut Outgoing, shard: ShardId, from: MachineId) {
        let Transfers { receiving, installing, .. } = self;
        let received = receiving.remove(&shard).map(|old| (old.from, old.index));
        let installed = installing.remove(&shard).map(|old| (old.from, index_of(&old.message)));
        for (other, index) in received.into_iter().chain(installed) {
            if other != from {
                answer_piece(out, shard, other, index, Taken::Refused);
            }
        }
    }

    pub fn refuse(&mut self, out: &mut Outgoing, shard: ShardId) {
        if let Some(Receiving { from, index, .. }) = self.receiving.remove(&shard) {
            self.tasks.push_back(Transfer::GiveUp(shard));
            answer_piece(out, shard, from, index, Taken::Refused);
        }
    }

    /// Forgets a shard that is not held here any more.
    pub fn forget_shard(&mut self, shard: ShardId, promises: Promises) {
        let Transfers { sending, receiving, installing, sowing, tasks, .. } = self;
        sowing.remove(&shard);
        sending.retain(|(of, to), _| {
            tasks.extend((*of == shard).then_some(Transfer::Close(*of, *to)));
            *of != shard
        });
        tasks.extend(receiving.remove(&shard).map(|_| Transfer::GiveUp(shard)));
        installing.remove(&shard);
        tasks.push_back(Transfer::Remove(shard, promises));
    }

    /// Ends all transfers to and from a lost machine.
    pub fn forget_machine<C: EntryCodec + Clone>(
        &mut self,
        replicas: &mut Replicas<C>,
        machine: MachineId,
    ) {
        let sending = self.sending.keys().filter(|(_, to)| *to == machine);
        for (shard, to) in sending.copied().collect::<Vec<_>>() {
            self.end_sending(replicas, shard, to, false);
        }
        let Transfers { receiving, tasks, .. } = self;
        receiving.retain(|shard, receiving| {
            let goes = receiving.from == machine;
            tasks.extend(goes.then_some(Transfer::GiveUp(*shard)));
            !goes
        });
    }
}

/// Answers what became of a piece.
fn answer_piece(out: &mut Outgoing, shard: ShardId, to: MachineId, index: u64, taken: Taken) {
    out.send_to_machine(to, Parcel::SnapshotTaken { shard, index, taken });
}

fn index_of(message: &Message) -> u64 {
    message.get_snapshot().get_metadata().index
}

impl<C: EntryCodec + Clone> Node<C> {
    /// Next disk operation for snapshots of other machines.
    pub fn poll_transfer(&mut self) -> Option<Transfer> {
        self.transfers.tasks.pop_front()
    }

    /// Begins to send the snapshots that a shard's followers need.
    pub(super) fn begin_transfers(&mut self, shard: usize) {
        let Some(replica) = &mut self.replicas[shard] else { return };
        if replica.group().take_wants_snapshot() {
            self.transfers.tasks.push_back(Transfer::Make(replica.id()));
        }
        for message in replica.group_mut().take_snapshots() {
            let Ok(to) = u16::try_from(message.to).map(MachineId) else { continue };
            if !self.out.connected.contains(&to) {
                replica.group_mut().snapshot_sent(to, false);
                continue;
            }
            let (shard, index) = (replica.id(), index_of(&message));
            self.transfers.sending.insert((shard, to), message);
            self.transfers.tasks.push_back(Transfer::Read { shard, to, index, offset: 0 });
        }
    }

    /// Takes the result of [`Transfer::Read`]: the bytes, and whether the snapshot ends there;
    /// `None` if that snapshot is gone.
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
                self.out.send_to_machine(to, Parcel::Snapshot(piece));
            }
            None => self.transfers.end_sending(&mut self.replicas, shard, to, false),
        }
    }

    /// Takes a piece of a snapshot that another machine sends.
    pub(super) fn take_piece(
        &mut self,
        now: Now,
        from: MachineId,
        piece: SnapshotPiece,
    ) -> Result<(), ReplicaError> {
        let SnapshotPiece { shard, offset, bytes, last, message } = piece;
        let index = index_of(&message);
        if self.transfers.sowing.contains_key(&shard) {
            // A seed is about to become the state of this replica.
            answer_piece(&mut self.out, shard, from, index, Taken::Refused);
            return Ok(());
        }
        let Some(replica) = self.replica_mut(shard) else { return Ok(()) };
        if replica.group().applied().0 >= index {
            // The log reports that, and the sender goes on from there.
            replica.group_mut().restore(*message);
            answer_piece(&mut self.out, shard, from, index, Taken::Complete);
            self.post(now, usize::from(shard.0));
            return Ok(());
        }
        let first = offset == 0;
        if first {
            self.transfers.make_room(&mut self.out, shard, from);
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
            self.transfers.refuse(&mut self.out, shard);
            return Ok(());
        }
        let number = receiving.number;
        let write = Transfer::Write { shard, from, index, number, bytes, first, last };
        self.transfers.tasks.push_back(write);
        Ok(())
    }

    /// Takes the result of [`Transfer::Write`]: the bytes are written, and durable if they were the
    /// last piece; or that has failed. Bytes of an abandoned reception are ignored, even if the
    /// same snapshot is being received again.
    ///
    /// # Errors
    /// If the replica cannot go on.
    pub fn snapshot_written(
        &mut self,
        now: Now,
        (shard, number): (ShardId, u64),
        ok: bool,
    ) -> Result<(), ReplicaError> {
        if self.transfers.seed_written(shard, number, ok) {
            return self.begin_sown(now);
        }
        let receiving = self.transfers.receiving.get(&shard);
        let Some(receiving) = receiving.filter(|receiving| receiving.number == number) else {
            return Ok(());
        };
        let index = receiving.index;
        if !ok {
            self.transfers.refuse(&mut self.out, shard);
        } else if receiving.complete.is_none() {
            let (from, next) = (receiving.from, Taken::Next(receiving.offset));
            answer_piece(&mut self.out, shard, from, index, next);
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
                Err(Corrupt) => answer_piece(&mut self.out, shard, from, index, Taken::Refused),
            }
        }
        Ok(())
    }

    /// Replaces logs by complete snapshots where no log writes are in flight.
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
            answer_piece(&mut self.out, shard, from, index, Taken::Complete);
            self.post(now, usize::from(shard.0));
        }
        Ok(())
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
