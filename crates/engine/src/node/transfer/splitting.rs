//! Splits of shards: leaders take their steps, new shards begin, and the map records the result.
//!
//! Every machine that executes a split writes the initial state of the new shard to its own disk,
//! as a snapshot, and begins the new shard's log with it. As soon as the new shard has a leader
//! that has committed an entry, a majority has done so, and the split is done. Until the map says
//! so, the shard that was split keeps its log: if a machine is started again, it splits the shard
//! once more.
//!
//! An empty replica of a new shard does not stand for election. So a machine that has missed the
//! split may have one too, and gets a snapshot from the leader like any other replica that lacks
//! much.

use super::Transfers;
use crate::entry::{EntryCodec, SnapshotCodec, SnapshotPart};
use crate::ids::ShardId;
use crate::limits::SNAPSHOT_PIECE_BYTES;
use crate::message::Concurrency;
use crate::node::{Event, Node, Transfer};
use crate::now::Now;
use crate::replica::{ReplicaError, Seed};
use crate::shard::transfer::snapshot::Header;
use crate::shard::{Shard, ShardConfig};
use adt::command::tags::TagRules;

/// Most parts of a seed that are written at once.
const PARTS: usize = 64;

/// Seed that is being written to the disk.
#[derive(Debug)]
pub(in crate::node) struct Sowing {
    number: u64,
    header: Header,
    /// Undriven shard that only holds the state, and from which the snapshot is taken.
    shard: Shard,
    leads: bool,
    first: bool,
    /// Whether everything was handed out, and is durable.
    last: bool,
    durable: bool,
}

impl Sowing {
    fn piece(&mut self, codec: &dyn SnapshotCodec) -> Transfer {
        let mut bytes = Vec::new();
        while bytes.len() < SNAPSHOT_PIECE_BYTES && !self.last {
            for part in self.shard.snapshot_parts(PARTS) {
                codec.encode(&part, &mut bytes);
                self.last = matches!(part, SnapshotPart::End { .. });
            }
        }
        let (shard, index, number) = (self.header.shard, self.header.index, self.number);
        let (first, last) = (std::mem::take(&mut self.first), self.last);
        Transfer::Begin { shard, index, number, bytes, first, last }
    }
}

impl Transfers {
    /// Notes that a piece of a seed is durable. Returns whether the number was that of a seed.
    pub fn seed_written(&mut self, shard: ShardId, number: u64, ok: bool) -> bool {
        let Some(sowing) = self.sowing.get_mut(&shard) else { return false };
        if sowing.number != number {
            return false;
        }
        if !ok {
            // Starts from the beginning.
            let Header { index, term, members, .. } = sowing.header.clone();
            sowing.shard.begin_snapshot(index, term, members);
            (sowing.first, sowing.last) = (true, false);
        } else if sowing.last {
            sowing.durable = true;
            return true;
        }
        let piece = sowing.piece(&*self.codec);
        self.tasks.push_back(piece);
        true
    }
}

impl<C: EntryCodec + Clone> Node<C> {
    /// Takes the next steps of splits of shards that are led here.
    pub(in crate::node) fn go_on_splitting(&mut self, now: Now) -> Result<(), ReplicaError> {
        let Some(map) = self.placement.as_ref().and_then(|placement| placement.map()) else {
            return Ok(());
        };
        let (mut done, mut roused) = (Vec::new(), Vec::new());
        for (local, replica) in self.replicas.iter_mut() {
            let shard = ShardId(local as u16);
            if let Some(child) = replica.unborn()
                && map.origin(child).is_some_and(|split| split.done)
            {
                replica.is_born(child);
            }
            if let Some((split, range)) = map.splitting(shard) {
                let first = map.ranges(|_| true)[local].map_or(0, |(first, _)| first);
                replica.split(now, split.child, map.splits_done(shard), (first, range))?;
                roused.push(local);
            }
            let open = map.origin(shard).is_some_and(|split| !split.done);
            done.extend((open && replica.leading().is_some()).then_some(shard));
        }
        roused.into_iter().for_each(|shard| self.replicas.rouse(shard));
        done.into_iter().for_each(|child| self.out.event(Event::SplitDone(child)));
        for seed in std::mem::take(&mut self.unknown) {
            self.sow(now, seed)?;
        }
        Ok(())
    }

    /// Looks for a new shard that a shard's log may have created.
    pub(in crate::node) fn look_for_births(
        &mut self,
        now: Now,
        shard: ShardId,
    ) -> Result<(), ReplicaError> {
        let Some(seed) = self.replica_mut(shard).and_then(|replica| replica.take_born()) else {
            return Ok(());
        };
        let worker = self.out.worker_of(seed.header.shard);
        if worker == self.id.worker {
            return self.sow(now, seed);
        }
        self.seeds.push_back((worker, Box::new(seed)));
        Ok(())
    }

    /// Initial state of a new shard for another worker of this machine, which must receive it
    /// through [`Node::sow`].
    pub fn poll_seed(&mut self) -> Option<(u16, Box<Seed>)> {
        self.seeds.pop_front()
    }

    /// Begins a new shard here, unless it has begun already.
    ///
    /// # Errors
    /// If the replica cannot be created.
    pub fn sow(&mut self, now: Now, seed: Seed) -> Result<(), ReplicaError> {
        let Seed { header, state, leads } = seed;
        let child = header.shard;
        let Some(placement) = &self.placement else { return Ok(()) };
        let known = placement.map().and_then(|map| map.origin(child));
        if known.is_none() || !placement.is_kept() {
            // After a restart the stored map must have every shard whose files are on the disk.
            self.unknown.push(Seed { header, state, leads });
            return Ok(());
        }
        // The shard may have begun and left this machine since: the log of its parent is out of
        // date about it.
        if known.is_some_and(|split| split.done) || placement.is_removing(child) {
            return Ok(());
        }
        if self.replica(child).is_none() {
            self.make_replica(now, child)?;
        }
        if self.replica(child).is_none_or(|replica| replica.group().applied().0 >= header.index)
            || self.transfers.installing.contains_key(&child)
            || self.transfers.sowing.contains_key(&child)
        {
            return Ok(());
        }
        self.transfers.refuse(&mut self.out, child);
        let (id, concurrency) = (child, Concurrency::FULL);
        let config = ShardConfig {
            id,
            concurrency,
            seed: 0,
            beside: crate::ids::GatewayId::default(),
            clustered: false,
            reap_us: crate::limits::REAP_US,
            broken: None,
            interpreter: None,
            tags: TagRules::NONE,
        };
        let mut shard = Shard::restored(config, state, header.clock);
        shard.begin_snapshot(header.index, header.term, header.members.clone());
        self.transfers.received += 1;
        let number = self.transfers.received;
        let (first, last, durable) = (true, false, false);
        let mut sowing = Sowing { number, header, shard, leads, first, last, durable };
        let piece = sowing.piece(&*self.transfers.codec);
        self.transfers.sowing.insert(child, sowing);
        self.transfers.tasks.push_back(piece);
        Ok(())
    }

    /// Begins new shards whose seeds are durable.
    pub(in crate::node) fn begin_sown(&mut self, now: Now) -> Result<(), ReplicaError> {
        let ready = |shard: &ShardId| self.replica(*shard).is_some_and(|r| r.may_restore());
        let durable = self.transfers.sowing.iter().filter(|(_, sowing)| sowing.durable);
        let shards: Vec<ShardId> = durable.map(|(shard, _)| *shard).filter(ready).collect();
        for shard in shards {
            let Some(sowing) = self.transfers.sowing.remove(&shard) else { continue };
            let Sowing { header, shard: of, leads, .. } = sowing;
            if let Some(replica) = self.replica_mut(shard) {
                replica.begin(now, Seed { header, state: of.into_state(), leads })?;
            }
            self.post(now, usize::from(shard.0));
        }
        Ok(())
    }
}
