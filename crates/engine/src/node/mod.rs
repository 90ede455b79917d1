//! Part of a worker besides its gateway: replicas of shards, and the knowledge which machine leads
//! each shard of the cluster.
//!
//! Requests of the worker's gateway come in through [`Node::request`] and go to a replica here, to
//! another worker of the machine, or to another machine. [`Node::poll`] returns events for the
//! gateway, in order; [`Node::poll_parcel`] returns parcels for other workers and machines.
//!
//! A request names the term in which its sender believes the receiver to lead the shard. So a
//! leader that was deposed and elected again in the meantime refuses requests to its earlier lead,
//! and requests keep their order.

mod appends;
mod parcel;
mod placement;
mod readiness;
mod rest;
mod splitting;
mod stream_messages;
mod timing;
mod transfer;

pub use parcel::{Parcel, ParcelKind};
pub use placement::Placing;
pub use readiness::Readiness;
pub use timing::Timing;
pub use transfer::{SnapshotPiece, Taken, Transfer};

use crate::entry::{EntryCodec, SnapshotCodec};
use crate::gateway::{ClusterChange, Gateway, PeerMessage};
use crate::ids::{GatewayId, MachineId, ShardId, splits_of};
use crate::level::Level;
use crate::limits::TICK_US;
use crate::map::ShardMap;
use crate::members::Members;
use crate::message::{Request, Response};
use crate::now::Now;
use crate::replica::{Replica, ReplicaError, Seed};
use crate::replication::Persist;
use crate::shard::locking::watermark::{SettledUpTo, Watermarks};
use appends::Appends;
use placement::Placement;
use rest::Active;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use transfer::Transfers;

/// How long a machine that stands back tries to hand over its leads, in microseconds.
const STAND_BACK_US: u64 = 5_000_000;
/// Interval at which watermarks are sent, in microseconds.
const WATERMARKS_EVERY_US: u64 = 1_000_000;

/// Event for the gateway of this worker.
#[derive(Debug)]
pub enum Event {
    /// An answer.
    Response(Response),
    /// A message of another gateway.
    Message(GatewayId, PeerMessage),
    /// A machine now leads a shard, in the lead with this number (see [`splits_of`]), or the shard
    /// has no leader.
    Led(ShardId, Option<(MachineId, u64)>),
    /// The connection to a machine is lost.
    Lost(MachineId),
    /// A new shard map.
    Map(Box<ShardMap>),
    /// A majority of a new shard's machines has its initial state, and this machine leads it: the
    /// map must record that. Repeated until it does.
    SplitDone(ShardId),
    /// Members of a shard, as its leader reports them.
    Members(ShardId, Box<Members>),
}

impl Event {
    /// Passes the event to the gateway.
    #[inline]
    pub fn deliver(self, now: Now, gateway: &mut Gateway) {
        match self {
            Self::Response(response) => gateway.response(now, response),
            Self::Message(from, message) => gateway.peer(now, from, message),
            Self::Led(shard, leader) => {
                gateway.cluster_changed(now, ClusterChange::Led(shard, leader));
            }
            Self::Lost(machine) => gateway.cluster_changed(now, ClusterChange::Lost(machine)),
            Self::SplitDone(child) => {
                gateway.cluster_changed(now, ClusterChange::SplitDone(child));
            }
            Self::Map(map) => gateway.cluster_changed(now, ClusterChange::Map(map)),
            Self::Members(shard, members) => {
                gateway.cluster_changed(now, ClusterChange::Members(shard, members));
            }
        }
    }
}

/// Destination of a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// Another worker of this machine. `from` is the machine that the parcel comes from.
    Worker {
        /// The worker.
        worker: u16,
        /// Machine that the parcel comes from.
        from: MachineId,
    },
    /// Another machine.
    Machine(MachineId),
}

/// Leader of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KnownLeader {
    machine: MachineId,
    term: u64,
}

/// Replicas of one worker, and routes to all shards.
#[derive(Debug)]
pub struct Node<C> {
    id: GatewayId,
    workers: u16,
    /// In a cluster: placement of shards on this machine.
    placement: Option<Placement<C>>,
    /// All shards by number, those of other workers and machines absent.
    replicas: Vec<Option<Box<Replica<C>>>>,
    /// Shards that have a replica here.
    local: Vec<usize>,
    /// Local shards that may have work to do.
    active: Active,
    leads: Vec<Option<KnownLeader>>,
    /// By shard: number of its leads that the gateway has not been notified of yet.
    unnotified: Vec<u32>,
    /// Leads that began with a split that the local map does not record yet.
    early: BTreeMap<ShardId, KnownLeader>,
    /// Initial states of new shards for other workers.
    seeds: VecDeque<(u16, Box<Seed>)>,
    /// Initial states of new shards that the stored map does not record yet.
    unknown: Vec<Seed>,
    /// By local shard: the term in which this machine was announced as its leader.
    announced: Vec<Option<u64>>,
    connected: BTreeSet<MachineId>,
    /// Watermarks of all shards of the cluster.
    watermarks: Watermarks,
    settled: SettledUpTo,
    /// Time at which watermarks were sent last.
    watermarks_sent_us: u64,
    /// End of the time in which this machine hands over its leads.
    standing_back_until_us: u64,
    /// Length of the ticks of the replicated logs.
    tick_us: u64,
    /// Position among the active shards at which to look for answers next.
    polled: usize,
    events: VecDeque<Event>,
    parcels: VecDeque<(To, Parcel)>,
    stream_messages: stream_messages::Outbound,
    /// Shards that have received messages that may make them write, perhaps after the end of their
    /// turn.
    urgent: Vec<usize>,
    transfers: Transfers,
    appends: Appends,
}

impl<C: EntryCodec + Clone> Node<C> {
    /// Creates the node of worker `id` with its replicas, on a machine with so many workers in a
    /// cluster with so many shards. A machine without `placing` is stand-alone and leads all shards
    /// for ever.
    pub fn new(
        id: GatewayId,
        workers: u16,
        shards: u16,
        placing: Option<Placing<C>>,
        own: Vec<Replica<C>>,
        codec: Box<dyn SnapshotCodec>,
    ) -> Self {
        let clustered = placing.is_some();
        let last = if clustered { ShardId::MAP.0 } else { shards - 1 };
        let count = usize::from(last) + 1;
        let mut replicas = Vec::new();
        replicas.resize_with(count, || None);
        let local: Vec<usize> = own.iter().map(|r| usize::from(r.id().0)).collect();
        let mut active = Active::new(count);
        local.iter().for_each(|&shard| active.rouse(shard));
        for replica in own {
            let shard = usize::from(replica.id().0);
            replicas[shard] = Some(Box::new(replica));
        }
        let mut watermarks = Watermarks::new(shards);
        if let Some(map) = placing.as_ref().and_then(|placing| placing.map.as_ref()) {
            watermarks.know(map.shards.len() as u16);
        }
        let alone = (!clustered).then_some(KnownLeader { machine: id.machine, term: 0 });
        let mut node = Self {
            id,
            workers,
            placement: placing.map(|placing| Placement::new(placing, shards)),
            replicas,
            local,
            active,
            leads: vec![alone; count],
            unnotified: vec![0; count],
            early: BTreeMap::new(),
            seeds: VecDeque::new(),
            unknown: Vec::new(),
            announced: vec![None; count],
            connected: BTreeSet::new(),
            watermarks,
            settled: SettledUpTo::default(),
            watermarks_sent_us: 0,
            standing_back_until_us: 0,
            tick_us: TICK_US,
            polled: 0,
            events: VecDeque::new(),
            parcels: VecDeque::new(),
            stream_messages: BTreeMap::new(),
            urgent: Vec::new(),
            transfers: Transfers::new(codec),
            appends: Appends::default(),
        };
        let level = node.placement.as_ref().map_or(Level::NEWEST, Placement::level);
        node.use_level(level);
        node
    }

    /// Shards that have a replica here.
    pub fn local(&self) -> &[usize] {
        &self.local
    }

    /// The replica of a shard, if it is here.
    pub fn replica(&self, shard: ShardId) -> Option<&Replica<C>> {
        self.replicas.get(usize::from(shard.0))?.as_deref()
    }

    /// The replica of a shard, if it is here.
    pub fn replica_mut(&mut self, shard: ShardId) -> Option<&mut Replica<C>> {
        let replica = self.replicas.get_mut(usize::from(shard.0))?.as_deref_mut()?;
        // The caller may give the replica work to do.
        self.active.rouse(usize::from(shard.0));
        Some(replica)
    }

    /// All replicas here.
    pub fn replicas(&self) -> impl Iterator<Item = &Replica<C>> {
        self.local.iter().filter_map(|&shard| self.replicas[shard].as_deref())
    }

    fn worker_of(&self, shard: ShardId) -> u16 {
        shard.0 % self.workers
    }

    /// Takes a request of this worker's gateway, and returns it if the shard has no known leader.
    ///
    /// The gateway must have been notified of the leader: it first waits for the answers of the
    /// former leader, and must notice when the machine that it has asked is lost. See
    /// [`Gateway::not_sent`].
    #[inline]
    #[must_use]
    pub fn request(&mut self, now: Now, shard: ShardId, request: Request) -> Option<Request> {
        let is_known = self.unnotified[usize::from(shard.0)] == 0;
        let Some(lead) = self.leads[usize::from(shard.0)].filter(|_| is_known) else {
            return Some(request);
        };
        if lead.machine == self.id.machine {
            if let Some(replica) = &mut self.replicas[usize::from(shard.0)] {
                self.active.rouse(usize::from(shard.0));
                replica.handle(now, request);
                return None;
            }
            let (worker, from) = (self.worker_of(shard), self.id.machine);
            let parcel = Parcel::Request { shard, term: lead.term, request };
            self.parcels.push_back((To::Worker { worker, from }, parcel));
        } else {
            let parcel = Parcel::Request { shard, term: lead.term, request };
            self.parcels.push_back((To::Machine(lead.machine), parcel));
        }
        None
    }

    /// Takes a message of this worker's gateway to another gateway.
    pub fn message(&mut self, to: GatewayId, message: PeerMessage) {
        if to == self.id {
            self.events.push_back(Event::Message(self.id, message));
            return;
        }
        let parcel = Parcel::Gateway { from: self.id, to, message };
        self.send(to, parcel);
    }

    fn turn_back(&mut self, request: Request) {
        let Request { gateway, token, body, .. } = request;
        if let Some(answer) = body.not_taken() {
            self.deliver(Response { gateway, token, answer });
        }
    }

    fn send(&mut self, to: GatewayId, parcel: Parcel) {
        let to = if to.machine == self.id.machine {
            To::Worker { worker: to.worker, from: self.id.machine }
        } else {
            To::Machine(to.machine)
        };
        self.parcels.push_back((to, parcel));
    }

    #[inline]
    fn deliver(&mut self, response: Response) {
        if response.gateway == self.id {
            self.events.push_back(Event::Response(response));
        } else {
            self.send(response.gateway, Parcel::Response(response));
        }
    }

    /// Takes a parcel of `from`. A parcel for another worker of this machine is forwarded.
    ///
    /// # Errors
    /// If a replica cannot go on.
    pub fn take(&mut self, now: Now, from: MachineId, parcel: Parcel) -> Result<(), ReplicaError> {
        let shard = match &parcel {
            Parcel::Request { shard, .. }
            | Parcel::Raft { shard, .. }
            | Parcel::Sleep { shard, .. }
            | Parcel::Wake { shard }
            | Parcel::LeadElsewhere { shard, .. }
            | Parcel::SnapshotTaken { shard, .. } => Some(*shard),
            Parcel::Snapshot(piece) => Some(piece.shard),
            Parcel::Response(_)
            | Parcel::Gateway { .. }
            | Parcel::StreamMessages(_)
            | Parcel::Leads { .. }
            | Parcel::Map(_)
            | Parcel::Members { .. }
            | Parcel::Watermarks(_)
            | Parcel::Resigned { .. }
            | Parcel::Timing(_) => None,
        };
        if let Some(shard) = shard {
            if usize::from(shard.0) >= self.replicas.len() {
                return Ok(());
            }
            if self.replicas[usize::from(shard.0)].is_none()
                && self.worker_of(shard) != self.id.worker
            {
                self.pass_on(self.worker_of(shard), from, parcel);
                return Ok(());
            }
        }
        match parcel {
            Parcel::Request { shard, term, request } => {
                self.take_request(now, shard, term, request)
            }
            Parcel::Raft { shard, message } => {
                self.appends.received(now.mono_us, shard, &message);
                if let Some(replica) = self.replica_mut(shard) {
                    replica.step(now, *message)?;
                    self.look_for_births(now, shard)?;
                    self.send_sleep(shard);
                    self.watch(shard);
                }
            }
            Parcel::Sleep { shard, term, index } => {
                self.receive_sleep(now, from, shard, (term, index));
            }
            Parcel::Wake { shard } => {
                if let Some(replica) = self.replica_mut(shard) {
                    replica.wake(now);
                }
            }
            Parcel::LeadElsewhere { shard, to } => self.hand_over_if_ready(now, shard, to),
            Parcel::Timing(_) => {}
            Parcel::Response(response) => self.take_response(from, response),
            Parcel::StreamMessages(messages) => self.take_stream_messages(now, from, messages),
            Parcel::Gateway { from: sender, to, message } => {
                if to == self.id {
                    self.events.push_back(Event::Message(sender, message));
                } else if to.machine == self.id.machine && to.life == self.id.life {
                    self.pass_on(to.worker, from, Parcel::Gateway { from: sender, to, message });
                }
            }
            Parcel::Snapshot(piece) => self.take_piece(now, from, piece)?,
            Parcel::SnapshotTaken { shard, index, taken } => {
                self.piece_taken(shard, from, index, taken);
            }
            Parcel::Leads { shard, term } => {
                self.spread(from, || Parcel::Leads { shard, term });
                self.learn(shard, KnownLeader { machine: from, term });
            }
            Parcel::Map(map) => self.receive_map(from, *map),
            Parcel::Members { shard, term, applied, members } => {
                let again = members.clone();
                self.spread(from, || {
                    let members = again.clone();
                    Parcel::Members { shard, term, applied, members }
                });
                self.receive_members(shard, applied, *members);
            }
            Parcel::Watermarks(watermarks) => {
                self.spread(from, || Parcel::Watermarks(watermarks.clone()));
                self.receive_watermarks(now, &watermarks);
            }
            Parcel::Resigned { shard, term } => {
                self.spread(from, || Parcel::Resigned { shard, term });
                self.unlearn(shard, KnownLeader { machine: from, term });
            }
        }
        Ok(())
    }

    fn take_request(&mut self, now: Now, shard: ShardId, term: u64, request: Request) {
        let alone = self.placement.is_none();
        let Some(replica) = self.replica_mut(shard) else {
            return self.turn_back(request);
        };
        if alone || replica.leading() == Some(term) {
            replica.handle(now, request);
        } else {
            self.turn_back(request);
        }
    }

    fn take_response(&mut self, from: MachineId, response: Response) {
        let to = response.gateway;
        if to == self.id {
            self.events.push_back(Event::Response(response));
        } else if to.machine == self.id.machine && to.life == self.id.life {
            self.pass_on(to.worker, from, Parcel::Response(response));
        }
    }

    fn pass_on(&mut self, worker: u16, from: MachineId, parcel: Parcel) {
        if worker < self.workers && worker != self.id.worker {
            self.parcels.push_back((To::Worker { worker, from }, parcel));
        }
    }

    /// Forwards a message of another machine to all workers, from the worker that receives it.
    fn spread(&mut self, from: MachineId, parcel: impl Fn() -> Parcel) {
        if from != self.id.machine && self.id.worker == self.listener(from) {
            for worker in 0..self.workers {
                self.pass_on(worker, from, parcel());
            }
        }
    }

    /// The worker that holds the connection to a machine.
    pub fn listener(&self, machine: MachineId) -> u16 {
        machine.0 % self.workers
    }

    fn learn(&mut self, shard: ShardId, lead: KnownLeader) {
        let splits = splits_of(lead.term);
        let (most, least) = self.map().map_or((0, 0), |map| {
            let all = map.splits.iter().filter(|split| split.parent == shard).count();
            (all as u16, map.splits_done(shard))
        });
        if splits > most && self.early.get(&shard).is_none_or(|known| known.term < lead.term) {
            self.early.insert(shard, lead);
        }
        let Some(known) = self.leads.get_mut(usize::from(shard.0)) else { return };
        let is_new = known.is_none_or(|known| known.term < lead.term);
        if !is_new || !(least..=most).contains(&splits) {
            return;
        }
        *known = Some(lead);
        self.unnotified[usize::from(shard.0)] += 1;
        self.events.push_back(Event::Led(shard, Some((lead.machine, lead.term))));
    }

    /// Adopts a new map: forgets the leads that it reports to have ended, and takes up those that
    /// it had not recorded before.
    fn learn_anew(&mut self, map: &ShardMap) {
        for shard in map.all() {
            let known = self.leads.get(usize::from(shard.0)).copied().flatten();
            if let Some(lead) = known.filter(|lead| splits_of(lead.term) < map.splits_done(shard)) {
                self.unlearn(shard, lead);
            }
        }
        for (shard, lead) in std::mem::take(&mut self.early) {
            self.learn(shard, lead);
        }
    }

    fn unlearn(&mut self, shard: ShardId, lead: KnownLeader) {
        let Some(known) = self.leads.get_mut(usize::from(shard.0)) else { return };
        if *known == Some(lead) {
            *known = None;
            self.events.push_back(Event::Led(shard, None));
        }
    }

    /// Announces to a newly connected machine which shards are led here.
    pub fn connect(&mut self, now: Now, machine: MachineId) {
        self.connected.insert(machine);
        self.doubt(now, machine, 0);
        // A machine that learns the leader of a shard must know the cluster's map by then.
        self.send_map_to(machine);
        for shard in self.local.clone() {
            if let Some(term) = self.announced[shard] {
                let shard = ShardId(shard as u16);
                self.parcels.push_back((To::Machine(machine), Parcel::Leads { shard, term }));
            }
        }
        self.announce_members(true);
    }

    /// Notes that the connection to another machine is lost, with everything in flight.
    pub fn disconnect(&mut self, now: Now, machine: MachineId) {
        self.connected.remove(&machine);
        self.doubt(now, machine, 0);
        for &shard in &self.local {
            if let Some(replica) = &mut self.replicas[shard] {
                replica.machine_gone(now, machine);
                self.active.rouse(shard);
            }
        }
        self.end_transfers(machine);
        self.appends.forget(machine);
        for lead in &mut self.leads {
            *lead = lead.filter(|lead| lead.machine != machine);
        }
        self.events.push_back(Event::Lost(machine));
    }

    /// Checks whether this machine has begun or ceased to lead a shard; if so, announces it to all
    /// machines, after the answers to all earlier requests.
    fn watch(&mut self, shard: ShardId) {
        let index = usize::from(shard.0);
        let Some(replica) = &mut self.replicas[index] else { return };
        let leading = replica.leading();
        if shard == ShardId::MAP {
            self.look_at_map();
        }
        let Some(replica) = &mut self.replicas[index] else { return };
        if self.placement.is_none() || leading == self.announced[index] {
            return;
        }
        let mut answers = Vec::new();
        while let Some(answer) = replica.poll() {
            answers.push(answer);
        }
        for answer in answers {
            self.deliver(answer);
        }
        let machine = self.id.machine;
        if let Some(term) = self.announced[index] {
            self.unlearn(shard, KnownLeader { machine, term });
            self.send_to_all(|| Parcel::Resigned { shard, term });
        }
        if let Some(term) = leading {
            self.learn(shard, KnownLeader { machine, term });
            self.send_to_all(|| Parcel::Leads { shard, term });
        }
        self.announced[index] = leading;
    }

    fn send_to_all(&mut self, parcel: impl Fn() -> Parcel) {
        let (own, from) = (self.id.worker, self.id.machine);
        for worker in (0..self.workers).filter(|worker| *worker != own) {
            self.parcels.push_back((To::Worker { worker, from }, parcel()));
        }
        for machine in &self.connected {
            self.parcels.push_back((To::Machine(*machine), parcel()));
        }
    }

    /// Hands the leads of all shards here over to other machines, and lets others come first in
    /// elections; or ends that.
    pub fn stand_back(&mut self, now: Now, on: bool) {
        self.standing_back_until_us = if on { now.mono_us + STAND_BACK_US } else { 0 };
        for &shard in &self.local {
            if let Some(replica) = &mut self.replicas[shard] {
                replica.stand_back(on);
            }
        }
        self.rouse_all();
        self.hand_over_all(now);
    }

    /// Sets the length of ticks of all replicas here, as near as limits allow: heartbeats and
    /// election time-outs follow. No guarantee depends on it.
    pub fn set_tick(&mut self, tick_us: u64) {
        if tick_us == self.tick_us {
            return;
        }
        self.tick_us = tick_us;
        for &shard in &self.local {
            if let Some(replica) = &mut self.replicas[shard] {
                replica.set_tick(tick_us);
            }
        }
        self.rouse_all();
    }

    /// Continues to hand over the leads here, each shard to one of the machines that are ready for
    /// it.
    fn hand_over_all(&mut self, now: Now) {
        if now.mono_us >= self.standing_back_until_us {
            return;
        }
        for &shard in &self.local {
            let Some(replica) = &mut self.replicas[shard] else { continue };
            let mut ready = replica.successors();
            ready.retain(|machine| self.connected.contains(machine));
            if let Some(to) = ready.get(shard % ready.len().max(1)) {
                replica.hand_over(now, *to);
            }
        }
        self.rouse_all();
    }

    /// Whether a shard is led here that another machine could lead.
    pub fn may_hand_over(&self) -> bool {
        self.placement.is_some()
            && !self.connected.is_empty()
            && self.replicas().any(Replica::is_serving)
    }

    /// Hands the lead of a shard over to a machine, if possible.
    pub fn hand_over(&mut self, now: Now, shard: ShardId, to: MachineId) {
        if let Some(replica) = self.replica_mut(shard) {
            replica.hand_over(now, to);
        }
    }

    /// Hands the lead of a shard over to a machine that could take it at once.
    fn hand_over_if_ready(&mut self, now: Now, shard: ShardId, to: MachineId) {
        let connected = self.connected.contains(&to);
        if let Some(replica) = self.replica_mut(shard)
            && connected
            && replica.successors().contains(&to)
        {
            replica.hand_over(now, to);
        }
    }

    /// Executes everything that is due.
    ///
    /// # Errors
    /// If a replica cannot go on.
    pub fn tick(&mut self, now: Now) -> Result<(), ReplicaError> {
        self.rouse_due(now);
        if self.placement.is_some() && now.mono_us >= self.watermarks_sent_us + WATERMARKS_EVERY_US
        {
            self.watermarks_sent_us = now.mono_us;
            self.send_watermarks(now);
            self.announce_members(false);
        }
        self.hand_over_all(now);
        for index in 0..self.active.list().len() {
            let shard = self.active.list()[index];
            if let Some(replica) = &mut self.replicas[shard] {
                replica.hear_settled(self.settled);
                replica.tick(now)?;
                self.look_for_births(now, ShardId(shard as u16))?;
                self.send_sleep(ShardId(shard as u16));
                self.watch(ShardId(shard as u16));
            }
        }
        self.place(now)?;
        self.let_rest(now);
        Ok(())
    }

    /// Latest time of the next call of [`Node::tick`], in monotonic microseconds, if one is
    /// necessary.
    pub fn next_timeout(&self, now: Now) -> Option<u64> {
        let active = self.active.list().iter().filter_map(|&shard| self.replicas[shard].as_ref());
        let replicas = active.filter_map(|replica| replica.next_timeout(now));
        let watermarks =
            self.placement.as_ref().map(|_| self.watermarks_sent_us + WATERMARKS_EVERY_US);
        replicas.chain(self.place_at_us()).chain(watermarks).chain(self.active.due_us()).min()
    }

    /// Latest end of a turn in which outcomes of transactions wait to be proposed, in monotonic
    /// microseconds, if any do. If they are due and cannot be proposed, they wait for a longer
    /// operation.
    pub fn outcomes_due_us(&self, now: Now) -> Option<u64> {
        let active = self.active.list().iter().filter_map(|&shard| self.replicas[shard].as_ref());
        let due_us = active.filter_map(|replica| replica.outcomes_due_us()).min();
        due_us.map(|due_us| due_us.max(now.mono_us + 1_000))
    }

    /// Proposes the writes of a shard in this turn.
    ///
    /// # Errors
    /// If the replica cannot go on.
    pub fn end_turn(&mut self, now: Now, shard: usize) -> Result<(), ReplicaError> {
        self.route_stream_messages(now, shard);
        self.urgent.retain(|urgent| *urgent != shard);
        let Some(replica) = &mut self.replicas[shard] else { return Ok(()) };
        replica.end_turn(now)?;
        // New places are handed on at once.
        self.route_stream_messages(now, shard);
        if self.placement.is_some() {
            self.install(now)?;
            self.post(now, shard);
        }
        Ok(())
    }

    /// Sends a replica's messages to other replicas.
    fn post(&mut self, now: Now, shard: usize) {
        let Some(replica) = &mut self.replicas[shard] else { return };
        for message in replica.take_messages() {
            let Ok(machine) = u16::try_from(message.to) else { continue };
            self.appends.sent(now.mono_us, ShardId(shard as u16), &message);
            let to = To::Machine(MachineId(machine));
            let message = Box::new(message);
            self.parcels.push_back((to, Parcel::Raft { shard: ShardId(shard as u16), message }));
        }
        self.begin_transfers(shard);
    }

    /// Next data of a shard to make durable.
    pub fn take_persist(&mut self, shard: usize) -> Option<Persist> {
        self.replicas[shard].as_mut()?.take_persist()
    }

    /// Notes that the data with this number are durable.
    ///
    /// # Errors
    /// If the replica cannot go on.
    pub fn persisted(&mut self, now: Now, shard: ShardId, number: u64) -> Result<(), ReplicaError> {
        let Some(replica) = self.replica_mut(shard) else { return Ok(()) };
        replica.persisted(now, number)?;
        self.look_for_births(now, shard)?;
        self.install(now)?;
        self.watch(shard);
        self.route_stream_messages(now, usize::from(shard.0));
        if self.placement.is_some() {
            self.post(now, usize::from(shard.0));
        }
        Ok(())
    }

    /// Takes the measured times until appends were durable on other machines, since the last call:
    /// microseconds, or [`probe::watch::LOST_US`]. At most one a second for each machine.
    pub fn take_appended(&mut self) -> impl Iterator<Item = (MachineId, u32)> {
        self.appends.take()
    }

    /// Next event for this worker's gateway.
    #[inline]
    pub fn poll(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            if let Event::Led(shard, Some(_)) = event {
                self.unnotified[usize::from(shard.0)] -= 1;
            }
            return Some(event);
        }
        while let Some(&shard) = self.active.list().get(self.polled) {
            while let Some(response) = self.replicas[shard].as_mut().and_then(|r| r.poll()) {
                if response.gateway == self.id {
                    return Some(Event::Response(response));
                }
                self.send(response.gateway, Parcel::Response(response));
            }
            self.polled += 1;
        }
        self.polled = 0;
        None
    }

    /// Next parcel for other workers and machines.
    #[inline]
    pub fn poll_parcel(&mut self) -> Option<(To, Parcel)> {
        self.parcels.pop_front().or_else(|| self.poll_stream_messages())
    }

    /// Whether a shard here has answers that were not polled, or its turn must be ended once more.
    pub fn has_answers(&self) -> bool {
        let mut active = self.active.list().iter().filter_map(|&s| self.replicas[s].as_ref());
        let more = !self.events.is_empty() || !self.urgent.is_empty();
        more || active.any(|replica| !replica.shard().outbox().is_empty())
    }
}
