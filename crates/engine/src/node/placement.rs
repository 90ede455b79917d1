//! Placement of shards on this machine: the shard map as far as this worker knows it, replicas that
//! it adds and removes, and leaders that change their groups accordingly.
//!
//! The map spreads from machine to machine: each forwards a newer one that it receives. A leader
//! takes one step after another towards the map. It also announces the members of its shard; a
//! machine that is not among them, and has no place in the map, removes its replica.

use super::{Event, Node, Parcel};
use crate::cluster::level::Level;
use crate::cluster::map::{MAP_KEY, ShardMap};
use crate::cluster::members::Members;
use crate::entry::EntryCodec;
use crate::ids::{GatewayId, MachineId, ShardId};
use crate::limits::TICK_US;
use crate::message::Concurrency;
use crate::now::Now;
use crate::replica::{Replica, ReplicaError, Setup};
use crate::replication::{Membership, Promises, Recovered};
use crate::script::Interpreter;
use crate::shard::ShardConfig;
use adt::Value;
use adt::kinds::string::Value as StringValue;
use adt::random::mix;
use std::collections::{BTreeMap, BTreeSet};

/// Interval at which the placement is checked while nothing else is to do, in microseconds.
const QUIET_PLACE_US: u64 = 1_000_000;

/// Parameters of a node in a cluster at its start.
#[derive(Clone, Debug)]
pub struct Placing<C> {
    /// Newest known shard map; none if this machine is about to join a cluster.
    pub map: Option<ShardMap>,
    /// Promises of removed replicas.
    pub left: BTreeMap<ShardId, Promises>,
    /// Codec of replicas that are created later.
    pub codec: C,
    /// Concurrency control of replicas that are created later.
    pub concurrency: Concurrency,
    /// Seed of replicas that are created later.
    pub seed: u64,
    /// Interval of reaping in replicas that are created later, in microseconds.
    pub reap_us: u64,
    /// Interpreter of scripts, for shards that are made.
    pub interpreter: Option<&'static dyn Interpreter>,
}

#[derive(Debug)]
pub(super) struct Placement<C> {
    placing: Placing<C>,
    /// Number of shards with which the cluster was founded.
    shards: u16,
    /// Text of the map in its group, so that it is not parsed again and again.
    text: Vec<u8>,
    /// Whether the driver has not taken the map yet.
    fresh: bool,
    /// Number of shards of a received map that does not fit this machine.
    misfit: Option<u16>,
    /// Time of the last check of the placement.
    placed_us: u64,
    /// Shards whose files are being removed.
    removing: BTreeSet<ShardId>,
    /// Members that leaders here have announced last.
    announced: Vec<Option<(u64, Members)>>,
}

impl<C> Placement<C> {
    pub fn new(placing: Placing<C>, shards: u16) -> Self {
        let announced = vec![None; usize::from(ShardId::MAP.0) + 1];
        Self {
            placing,
            shards,
            text: Vec::new(),
            fresh: false,
            misfit: None,
            placed_us: 0,
            removing: BTreeSet::new(),
            announced,
        }
    }

    pub fn map(&self) -> Option<&ShardMap> {
        self.placing.map.as_ref()
    }

    /// Format level that all machines support, as far as this machine knows.
    pub fn level(&self) -> Level {
        self.map().map_or(Level::NONE, |map| map.level)
    }

    /// Whether the newest known map is stored durably.
    pub fn is_kept(&self) -> bool {
        !self.fresh
    }

    /// Whether the files of a removed shard are still being removed.
    pub fn is_removing(&self, shard: ShardId) -> bool {
        self.removing.contains(&shard)
    }

    /// Time at which to look after the placement again, even if there are no replicas yet; `idle` says
    /// that no replica has work to do.
    pub fn due_us(&self, idle: bool) -> u64 {
        self.placed_us + if idle { QUIET_PLACE_US } else { TICK_US }
    }

    /// The map, if a machine that connects now may not know it: machines that founded the cluster together
    /// know its first map.
    pub fn news_for(&self, machine: MachineId) -> Option<&ShardMap> {
        let is_news = |map: &&ShardMap| map.epoch > 0 || !map.machines.contains_key(&machine);
        self.map().filter(is_news)
    }

    /// Setup of a replica that is created now.
    fn setup(&self, own: GatewayId, workers: u16, shard: ShardId) -> Option<Setup> {
        let map = self.placing.map.as_ref()?;
        // A shard that is not in the map yet is the result of a split.
        let founded = map.holders_of(shard).first().map(|_| map.founders_of(shard));
        let founders = founded.unwrap_or_default().to_vec();
        let beside = GatewayId { worker: shard.0 % workers, ..own };
        let seed = mix(self.placing.seed ^ u64::from(shard.0));
        let Placing { concurrency, reap_us, interpreter, .. } = self.placing;
        let (id, clustered, broken) = (shard, true, None);
        let tags = map.tags.clone();
        Some(Setup {
            shard: ShardConfig {
                id,
                concurrency,
                seed,
                beside,
                clustered,
                reap_us,
                broken,
                interpreter,
                tags,
            },
            membership: Membership::clustered(own.machine, founders),
        })
    }
}

impl<C: EntryCodec + Clone> Node<C> {
    /// Newest known shard map, in a cluster.
    pub fn map(&self) -> Option<&ShardMap> {
        self.placement.as_ref()?.placing.map.as_ref()
    }

    /// Takes a map that has arrived since the last call. It must be stored durably before any other
    /// use of this node, which acts on the map from the next tick on.
    pub fn take_new_map(&mut self) -> Option<ShardMap> {
        let placement = self.placement.as_mut()?;
        let map = std::mem::take(&mut placement.fresh).then(|| placement.placing.map.clone())??;
        self.use_level(map.level);
        Some(map)
    }

    /// Number of shards of a cluster whose map this machine cannot use, because it was created for
    /// another number. Reported once for every such map that arrives.
    pub fn take_misfit(&mut self) -> Option<u16> {
        self.placement.as_mut()?.misfit.take()
    }

    /// Receives the map from a machine.
    pub(super) fn receive_map(&mut self, from: MachineId, map: ShardMap) {
        let Some(placement) = &mut self.placement else { return };
        let known = placement.placing.map.as_ref();
        if map.founded_shards() != placement.shards {
            placement.misfit = Some(map.founded_shards());
            return;
        }
        if known.is_some_and(|known| known.epoch >= map.epoch) {
            return;
        }
        placement.placing.map = Some(map.clone());
        placement.fresh = true;
        placement.placed_us = 0;
        self.out.event(Event::Map(Box::new(map.clone())));
        self.watermarks.know(map.shards.len() as u16);
        self.settled = self.watermarks.settled();
        self.leaders.adopt(&map, &mut self.out);
        let own = self.id;
        self.out.send_to_workers(|| Parcel::Map(Box::new(map.clone())));
        // The worker that has received it from another machine, or holds the map's log, forwards it
        // to all others. A worker that has it from one of these may know of a connection that they
        // do not know of yet.
        let tells_all = from != own.machine || self.replica(ShardId::MAP).is_some();
        let tells = |to: &MachineId| *to != from && (tells_all || self.listener(*to) == own.worker);
        let told: Vec<MachineId> = self.out.connected.iter().copied().filter(tells).collect();
        for machine in told {
            let parcel = Parcel::Map(Box::new(map.clone()));
            self.out.send_to_machine(machine, parcel);
        }
    }

    /// Adopts a level that all machines of the cluster support.
    pub(super) fn use_level(&mut self, level: Level) {
        self.replicas.iter_mut().for_each(|(_, replica)| replica.use_level(level));
    }

    /// Reads the map that its group has agreed on.
    pub(super) fn look_at_map(&mut self) {
        let Some(placement) = &mut self.placement else { return };
        let index = usize::from(ShardId::MAP.0);
        let Some(replica) = &self.replicas[index] else { return };
        let Some(record) = replica.shard().state().get(MAP_KEY) else { return };
        let Value::String(StringValue::Bytes(text)) = &record.value else { return };
        if *placement.text == **text {
            return;
        }
        placement.text = text.to_vec();
        let text = String::from_utf8_lossy(&placement.text);
        if let Ok(map) = ShardMap::parse(&text) {
            self.receive_map(self.id.machine, map);
        }
    }

    /// Announces the members of the shards that are led here. Sleeping groups have no news, unless
    /// a machine has just connected.
    pub(super) fn announce_members(&mut self, all: bool) {
        let changed = self.map().is_some_and(|map| map.epoch > 0);
        if !changed {
            return;
        }
        for index in 0..self.replicas.local().len() {
            let shard = ShardId(self.replicas.local()[index] as u16);
            let Some(replica) = self.replica(shard).filter(|r| all || !r.rests()) else { continue };
            let Some(term) = replica.leading().filter(|_| replica.is_settled()) else { continue };
            let (applied, members) = (replica.group().applied(), replica.group().members().clone());
            self.out.event(Event::Members(shard, Box::new(members.clone())));
            self.out.send_to_all(|| {
                let members = Box::new(members.clone());
                Parcel::Members { shard, term, applied, members }
            });
        }
    }

    /// Receives the members of a shard from its leader.
    pub(super) fn receive_members(
        &mut self,
        shard: ShardId,
        applied: (u64, u64),
        members: Members,
    ) {
        let own = self.id.machine;
        let wanted = self.map().is_none_or(|map| map.places(own, shard));
        // Only once the map is stored: a machine that starts without it may take itself for a
        // founder.
        let kept = self.placement.as_ref().is_some_and(|placement| !placement.fresh);
        let is_out = kept && !wanted && !members.contains(own) && !members.is_joint();
        self.out.event(Event::Members(shard, Box::new(members)));
        let dismissed = self.replica(shard).is_some_and(|r| r.is_dismissed(applied));
        if is_out && dismissed {
            self.drop_replica(shard);
        }
    }

    fn drop_replica(&mut self, shard: ShardId) {
        let index = usize::from(shard.0);
        let Some(replica) = &mut self.replicas[index] else { return };
        if replica.leading().is_some() {
            // Not for long: another machine leads in a later term.
            return;
        }
        let promises = replica.group().promises();
        let mut answers = Vec::new();
        while let Some(answer) = replica.shard_mut().outbox_mut().poll() {
            answers.push(answer);
        }
        for answer in answers {
            self.out.deliver(answer);
        }
        self.replicas.remove(shard);
        self.stream_messages.end_turn(index);
        self.transfers.forget_shard(shard, promises);
        if let Some(placement) = &mut self.placement {
            placement.placing.left.insert(shard, promises);
            placement.removing.insert(shard);
        }
    }

    /// Notes that the files of a removed shard are gone.
    pub fn removed(&mut self, shard: ShardId) {
        if let Some(placement) = &mut self.placement {
            placement.removing.remove(&shard);
        }
    }

    /// Creates replicas that the map places here, and takes the next steps of those that lead.
    pub(super) fn place(&mut self, now: Now) -> Result<(), ReplicaError> {
        if let Some(placement) = &mut self.placement {
            placement.placed_us = now.mono_us;
        }
        let Some(placement) = &self.placement else { return Ok(()) };
        let Some(map) = placement.placing.map.as_ref().filter(|map| map.epoch > 0) else {
            return Ok(());
        };
        if placement.fresh {
            return Ok(());
        }
        let missing: Vec<ShardId> = map
            .all()
            .filter(|shard| map.places(self.id.machine, *shard))
            .filter(|shard| self.out.worker_of(*shard) == self.id.worker)
            .filter(|shard| self.replicas[usize::from(shard.0)].is_none())
            .filter(|shard| !placement.removing.contains(shard))
            .collect();
        for shard in missing {
            self.make_replica(now, shard)?;
        }
        for index in 0..self.replicas.local().len() {
            let shard = self.replicas.local()[index];
            let (Some(placement), Some(replica)) = (&self.placement, &mut self.replicas[shard])
            else {
                continue;
            };
            let Some(map) = &placement.placing.map else { continue };
            let wanted = map.holders_of(ShardId(shard as u16));
            replica.go_towards(now, wanted)?;
            if !replica.rests() {
                self.replicas.rouse(shard);
            }
        }
        self.go_on_splitting(now)?;
        self.announce_changed_members();
        Ok(())
    }

    pub(super) fn make_replica(&mut self, now: Now, shard: ShardId) -> Result<(), ReplicaError> {
        let Some(placement) = &self.placement else { return Ok(()) };
        let Some(setup) = placement.setup(self.id, self.workers, shard) else { return Ok(()) };
        let codec = placement.placing.codec.clone();
        let promises = placement.placing.left.get(&shard).copied();
        let (parts, recovered) = (Vec::new(), Recovered { promises, ..Recovered::default() });
        let level = placement.level();
        let mut replica = Replica::recover(setup, codec, now, parts, recovered)?;
        replica.use_level(level);
        replica.group_mut().set_tick(self.tick_us);
        let index = usize::from(shard.0);
        self.replicas.add(shard, replica);
        self.announced[index] = None;
        Ok(())
    }

    /// Announces changed members of a shard at once.
    fn announce_changed_members(&mut self) {
        let mut changed = false;
        for index in 0..self.replicas.local().len() {
            let shard = self.replicas.local()[index];
            let (Some(placement), Some(replica)) = (&mut self.placement, &self.replicas[shard])
            else {
                continue;
            };
            let leading = replica.leading().filter(|_| replica.is_settled());
            let new = leading.map(|term| (term, replica.group().members()));
            let old = placement.announced[shard].as_ref().map(|(term, members)| (*term, members));
            if new != old {
                changed |= new.is_some();
                placement.announced[shard] = new.map(|(term, members)| (term, members.clone()));
            }
        }
        if changed {
            self.announce_members(true);
        }
    }
}
