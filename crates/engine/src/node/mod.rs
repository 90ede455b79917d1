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
mod event;
mod leaders;
mod outgoing;
mod parcel;
mod placement;
mod readiness;
mod replicas;
mod rest;
mod stream_messages;
mod timing;
pub(crate) mod transfer;

pub use event::Event;
pub use outgoing::To;
pub use parcel::{Parcel, ParcelKind};
pub use placement::Placing;
pub use readiness::Readiness;
pub use replicas::disturbed::Bundles;
pub use timing::Timing;
pub use transfer::Transfer;
pub use transfer::piece::{SnapshotPiece, Taken};

use crate::cluster::level::Level;
use crate::entry::{EntryCodec, SnapshotCodec};
use crate::gateway::{Broadcast, PeerMessage};
use crate::ids::{GatewayId, MachineId, ShardId};
use crate::limits::TICK_US;
use crate::message::Request;
use crate::now::Now;
use crate::replica::{Replica, ReplicaError, Seed};
use crate::replication::Persist;
use crate::shard::locking::watermark::{SettledUpTo, Watermarks};
use adt::Timestamp;
use appends::Appends;
use leaders::{KnownLeader, KnownLeaders};
use outgoing::Outgoing;
use placement::Placement;
use replicas::Replicas;
use replicas::disturbed::Disturbed;
use std::collections::VecDeque;
use stream_messages::StreamMessages;
use transfer::Transfers;

/// How long a machine that stands back tries to hand over its leads, in microseconds.
const STAND_BACK_US: u64 = 5_000_000;
/// Interval at which watermarks are sent, in microseconds.
const WATERMARKS_EVERY_US: u64 = 1_000_000;

/// Replicas of one worker, and routes to all shards.
#[derive(Debug)]
pub struct Node<C> {
    id: GatewayId,
    workers: u16,
    /// In a cluster: placement of shards on this machine.
    placement: Option<Placement<C>>,
    replicas: Replicas<C>,
    leaders: KnownLeaders,
    /// Initial states of new shards for other workers.
    seeds: VecDeque<(u16, Box<Seed>)>,
    /// Initial states of new shards that the stored map does not record yet.
    unknown: Vec<Seed>,
    /// By local shard: the term in which this machine was announced as its leader.
    announced: Vec<Option<u64>>,
    /// Watermarks of all shards of the cluster.
    watermarks: Watermarks,
    settled: SettledUpTo,
    /// Time at which watermarks were sent last.
    watermarks_sent_us: u64,
    /// End of the time in which this machine hands over its leads.
    standing_back_until_us: u64,
    /// Length of the ticks of the replicated logs.
    tick_us: u64,
    out: Outgoing,
    stream_messages: StreamMessages,
    transfers: Transfers,
    appends: Appends,
    disturbed: Disturbed,
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
        let mut watermarks = Watermarks::new(shards);
        if let Some(map) = placing.as_ref().and_then(|placing| placing.map.as_ref()) {
            watermarks.know(map.shards.len() as u16);
        }
        let alone = (!clustered).then_some(KnownLeader { machine: id.machine, term: 0 });
        let mut node = Self {
            id,
            workers,
            placement: placing.map(|placing| Placement::new(placing, shards)),
            replicas: Replicas::new(count, own),
            leaders: KnownLeaders::new(count, alone),
            seeds: VecDeque::new(),
            unknown: Vec::new(),
            announced: vec![None; count],
            watermarks,
            settled: SettledUpTo::default(),
            watermarks_sent_us: 0,
            standing_back_until_us: 0,
            tick_us: TICK_US,
            out: Outgoing::new(id, workers),
            stream_messages: StreamMessages::default(),
            transfers: Transfers::new(codec),
            appends: Appends::default(),
            disturbed: Disturbed::default(),
        };
        let level = node.placement.as_ref().map_or(Level::NEWEST, Placement::level);
        node.use_level(level);
        node
    }

    /// Shards that have a replica here.
    pub fn local(&self) -> &[usize] {
        self.replicas.local()
    }

    /// The replica of a shard, if it is here.
    pub fn replica(&self, shard: ShardId) -> Option<&Replica<C>> {
        self.replicas.get(shard)
    }

    /// The replica of a shard, if it is here.
    pub fn replica_mut(&mut self, shard: ShardId) -> Option<&mut Replica<C>> {
        self.replicas.get_mut(shard)
    }

    /// All replicas here.
    pub fn replicas(&self) -> impl Iterator<Item = &Replica<C>> {
        self.replicas.iter()
    }

    /// Takes a request of this worker's gateway, and returns it if the shard has no known leader.
    ///
    /// The gateway must have been notified of the leader: it first waits for the answers of the
    /// former leader, and must notice when the machine that it has asked is lost. See
    /// [`Gateway::not_sent`].
    #[inline]
    #[must_use]
    pub fn request(&mut self, now: Now, shard: ShardId, request: Request) -> Option<Request> {
        let Some(lead) = self.leaders.announced(shard) else { return Some(request) };
        let is_here = lead.machine == self.id.machine;
        if is_here && let Some(replica) = self.replicas.get_mut(shard) {
            if let Some(request) = self.disturbed.hold(shard, request) {
                replica.handle(now, request);
            }
            return None;
        }
        let parcel = Parcel::Request { shard, term: lead.term, request };
        match is_here {
            true => self.out.send_to_holder(shard, parcel),
            false => self.out.send_to_machine(lead.machine, parcel),
        }
        None
    }

    /// Bundles at the shards of this worker.
    #[inline]
    pub fn bundles(&mut self) -> Bundles<'_, C> {
        Bundles { disturbed: &mut self.disturbed, replicas: &mut self.replicas }
    }

    /// Takes a message of this worker's gateway to another gateway.
    pub fn message(&mut self, to: GatewayId, message: PeerMessage) {
        self.out.message(to, message);
    }

    /// Lets the gateways of all connected machines carry something out.
    pub fn broadcast(&mut self, broadcast: &Broadcast) {
        self.out.send_to_machines(|| Parcel::Broadcast(broadcast.clone()));
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
            | Parcel::Broadcast(_)
            | Parcel::BroadcastsTaken(_)
            | Parcel::StreamMessages(_)
            | Parcel::Leads { .. }
            | Parcel::Map(_)
            | Parcel::Members { .. }
            | Parcel::Watermarks(_)
            | Parcel::Resigned { .. }
            | Parcel::Timing(_) => None,
        };
        if let Some(shard) = shard {
            if usize::from(shard.0) >= self.replicas.count() {
                return Ok(());
            }
            if !self.replicas.has(shard) && !self.out.is_ours(shard) {
                self.out.pass_on(self.out.worker_of(shard), from, parcel);
                return Ok(());
            }
        }
        match parcel {
            Parcel::Request { shard, term, request } => {
                let alone = self.placement.is_none();
                match self.replicas.get_mut(shard) {
                    Some(replica) if alone || replica.leading() == Some(term) => {
                        if let Some(request) = self.disturbed.hold(shard, request) {
                            replica.handle(now, request);
                        }
                    }
                    _ => self.out.turn_back(request),
                }
            }
            Parcel::Raft { shard, message } => {
                self.appends.received(now.mono_us, shard, &message);
                if let Some(replica) = self.replica_mut(shard) {
                    replica.step(now, *message)?;
                    self.look_for_births(now, shard)?;
                    self.replicas.send_sleep(&mut self.out, shard);
                    self.watch(shard);
                }
            }
            Parcel::Sleep { shard, term, index } => {
                let replica = self.replicas.get_mut(shard);
                if replica.is_some_and(|replica| {
                    !replica.group_mut().fall_asleep(now.mono_us, from, term, index)
                }) {
                    self.out.send_to_machine(from, Parcel::Wake { shard });
                }
            }
            Parcel::Wake { shard } => {
                if let Some(replica) = self.replica_mut(shard) {
                    replica.wake(now);
                }
            }
            Parcel::LeadElsewhere { shard, to } => self.hand_over_if_ready(now, shard, to),
            Parcel::Timing(_) | Parcel::BroadcastsTaken(_) => {}
            Parcel::Response(response) => {
                let (to, parcel) = (response.gateway, Parcel::Response(response));
                if let Some(Parcel::Response(own)) = self.out.forward(to, from, parcel) {
                    self.out.event(Event::Response(own));
                }
            }
            Parcel::StreamMessages(messages) => {
                let routes = (&self.out, &self.leaders);
                self.stream_messages.take(now, routes, &mut self.replicas, (from, messages));
            }
            parcel @ Parcel::Gateway { to, .. } => {
                let own = self.out.forward(to, from, parcel);
                if let Some(Parcel::Gateway { from: sender, message, .. }) = own {
                    self.out.event(Event::Message(sender, message));
                }
            }
            Parcel::Broadcast(broadcast) => {
                self.out.spread(from, || Parcel::Broadcast(broadcast.clone()));
                self.out.event(Event::Broadcast(broadcast));
            }
            Parcel::Snapshot(piece) => self.take_piece(now, from, piece)?,
            Parcel::SnapshotTaken { shard, index, taken } => {
                self.transfers.piece_taken(&mut self.replicas, shard, from, index, taken);
            }
            Parcel::Leads { shard, term } => {
                self.out.spread(from, || Parcel::Leads { shard, term });
                self.learn(shard, KnownLeader { machine: from, term });
            }
            Parcel::Map(map) => self.receive_map(from, *map),
            Parcel::Members { shard, term, applied, members } => {
                let again = members.clone();
                self.out.spread(from, || {
                    let members = again.clone();
                    Parcel::Members { shard, term, applied, members }
                });
                self.receive_members(shard, applied, *members);
            }
            Parcel::Watermarks(told) => {
                self.out.spread(from, || Parcel::Watermarks(told.clone()));
                self.watermarks.hear(&told, now.mono_us);
                self.settled = self.watermarks.settled();
            }
            Parcel::Resigned { shard, term } => {
                self.out.spread(from, || Parcel::Resigned { shard, term });
                self.leaders.unlearn(&mut self.out, shard, KnownLeader { machine: from, term });
            }
        }
        Ok(())
    }

    /// The worker that holds the connection to a machine.
    pub fn listener(&self, machine: MachineId) -> u16 {
        self.out.listener(machine)
    }

    /// Learns of a lead.
    fn learn(&mut self, shard: ShardId, lead: KnownLeader) {
        let map = self.placement.as_ref().and_then(Placement::map);
        self.leaders.learn(map, &mut self.out, shard, lead);
    }

    /// Announces to a newly connected machine which shards are led here.
    pub fn connect(&mut self, now: Now, machine: MachineId) {
        self.out.connected.insert(machine);
        self.doubt(now, machine, 0);
        // A machine that learns the leader of a shard must know the cluster's map by then.
        let map = self.placement.as_ref().and_then(|placement| placement.news_for(machine));
        if let Some(map) = map.filter(|_| self.id.worker == self.out.listener(machine)) {
            self.out.send_to_machine(machine, Parcel::Map(Box::new(map.clone())));
        }
        for &shard in self.replicas.local() {
            if let Some(term) = self.announced[shard] {
                let shard = ShardId(shard as u16);
                self.out.send_to_machine(machine, Parcel::Leads { shard, term });
            }
        }
        self.announce_members(true);
    }

    /// Notes that the connection to another machine is lost, with everything in flight.
    pub fn disconnect(&mut self, now: Now, machine: MachineId) {
        self.out.connected.remove(&machine);
        self.doubt(now, machine, 0);
        self.replicas.rouse_all();
        for (_, replica) in self.replicas.iter_mut() {
            replica.machine_gone(now, machine);
        }
        self.transfers.forget_machine(&mut self.replicas, machine);
        self.appends.forget(machine);
        self.leaders.forget(machine);
        self.out.event(Event::Lost(machine));
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
        while let Some(answer) = replica.shard_mut().outbox_mut().poll() {
            answers.push(answer);
        }
        for answer in answers {
            self.out.deliver(answer);
        }
        let machine = self.id.machine;
        if let Some(term) = self.announced[index] {
            self.leaders.unlearn(&mut self.out, shard, KnownLeader { machine, term });
            self.out.send_to_all(|| Parcel::Resigned { shard, term });
        }
        if let Some(term) = leading {
            self.learn(shard, KnownLeader { machine, term });
            self.out.send_to_all(|| Parcel::Leads { shard, term });
        }
        self.announced[index] = leading;
    }

    /// Hands the leads of all shards here over to other machines, and lets others come first in
    /// elections; or ends that.
    pub fn stand_back(&mut self, now: Now, on: bool) {
        self.standing_back_until_us = if on { now.mono_us + STAND_BACK_US } else { 0 };
        self.replicas.iter_mut().for_each(|(_, replica)| replica.group_mut().stand_back(on));
        self.replicas.rouse_all();
        self.hand_over_all(now);
    }

    /// Sets the length of ticks of all replicas here, as near as limits allow: heartbeats and
    /// election time-outs follow. No guarantee depends on it.
    pub fn set_tick(&mut self, tick_us: u64) {
        if tick_us == self.tick_us {
            return;
        }
        self.tick_us = tick_us;
        self.replicas.iter_mut().for_each(|(_, replica)| replica.group_mut().set_tick(tick_us));
        self.replicas.rouse_all();
    }

    /// Continues to hand over the leads here, each shard to one of the machines that are ready for
    /// it.
    fn hand_over_all(&mut self, now: Now) {
        if now.mono_us >= self.standing_back_until_us {
            return;
        }
        for (shard, replica) in self.replicas.iter_mut() {
            let mut ready = replica.group().peers().successors();
            ready.retain(|machine| self.out.connected.contains(machine));
            if let Some(to) = ready.get(shard % ready.len().max(1)) {
                replica.hand_over(now, *to);
            }
        }
        self.replicas.rouse_all();
    }

    /// Whether a shard is led here that another machine could lead.
    pub fn may_hand_over(&self) -> bool {
        self.placement.is_some()
            && !self.out.connected.is_empty()
            && self.replicas().any(Replica::is_serving)
    }

    /// Hands the lead of a shard over to a machine that could take it at once.
    fn hand_over_if_ready(&mut self, now: Now, shard: ShardId, to: MachineId) {
        let connected = self.out.connected.contains(&to);
        if let Some(replica) = self.replica_mut(shard)
            && connected
            && replica.group().peers().successors().contains(&to)
        {
            replica.hand_over(now, to);
        }
    }

    /// Executes everything that is due.
    ///
    /// # Errors
    /// If a replica cannot go on.
    pub fn tick(&mut self, now: Now) -> Result<(), ReplicaError> {
        self.replicas.rouse_due(now);
        if self.placement.is_some() && now.mono_us >= self.watermarks_sent_us + WATERMARKS_EVERY_US
        {
            self.watermarks_sent_us = now.mono_us;
            self.send_watermarks(now);
            self.announce_members(false);
        }
        self.hand_over_all(now);
        for index in 0..self.replicas.active().len() {
            let shard = self.replicas.active()[index];
            if let Some(replica) = &mut self.replicas[shard] {
                replica.shard_mut().hear_settled(self.settled);
                replica.tick(now)?;
                self.look_for_births(now, ShardId(shard as u16))?;
                self.replicas.send_sleep(&mut self.out, ShardId(shard as u16));
                self.watch(ShardId(shard as u16));
            }
        }
        self.place(now)?;
        self.replicas.let_rest(now);
        Ok(())
    }

    /// Latest time of the next call of [`Node::tick`], in monotonic microseconds, if one is
    /// necessary.
    pub fn next_timeout(&self, now: Now) -> Option<u64> {
        let replicas = self.replicas.working().filter_map(|replica| replica.next_timeout(now));
        let idle = self.replicas.active().is_empty();
        let place_at_us = self.placement.as_ref().map(|placement| placement.due_us(idle));
        let told = self.placement.as_ref().map(|_| self.watermarks_sent_us + WATERMARKS_EVERY_US);
        replicas.chain(place_at_us).chain(told).chain(self.replicas.due_us()).min()
    }

    /// Latest end of a turn in which outcomes of transactions wait to be proposed, in monotonic
    /// microseconds, if any do. If they are due and cannot be proposed, they wait for a longer
    /// operation.
    pub fn outcomes_due_us(&self, now: Now) -> Option<u64> {
        let due_us = self
            .replicas
            .working()
            .filter_map(|replica| replica.shard().tail().outcomes_due_us())
            .min();
        due_us.map(|due_us| due_us.max(now.mono_us + 1_000))
    }

    /// Proposes the writes of a shard in this turn.
    ///
    /// # Errors
    /// If the replica cannot go on.
    pub fn end_turn(&mut self, now: Now, shard: usize) -> Result<(), ReplicaError> {
        self.stream_messages.pass(now, (&self.out, &self.leaders), &mut self.replicas, shard);
        self.stream_messages.end_turn(shard);
        let Some(replica) = &mut self.replicas[shard] else { return Ok(()) };
        self.disturbed.end_turn(self.id.worker, replica);
        replica.end_turn(now)?;
        // New places are handed on at once.
        self.stream_messages.pass(now, (&self.out, &self.leaders), &mut self.replicas, shard);
        if self.placement.is_some() {
            self.install(now)?;
            self.post(now, shard);
        }
        Ok(())
    }

    /// Sends a replica's messages to other replicas.
    fn post(&mut self, now: Now, shard: usize) {
        let Some(replica) = &mut self.replicas[shard] else { return };
        for message in replica.group_mut().take_messages() {
            let Ok(machine) = u16::try_from(message.to) else { continue };
            self.appends.sent(now.mono_us, ShardId(shard as u16), &message);
            let message = Box::new(message);
            self.out.send_to_machine(
                MachineId(machine),
                Parcel::Raft { shard: ShardId(shard as u16), message },
            );
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
        self.stream_messages.pass(
            now,
            (&self.out, &self.leaders),
            &mut self.replicas,
            usize::from(shard.0),
        );
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
        if let Some(event) = self.out.next_event() {
            if let Event::Led(shard, Some(_)) = event {
                self.leaders.notified(shard);
            }
            return Some(event);
        }
        while let Some(&shard) = self.replicas.active().get(self.replicas.polled) {
            while let Some(response) =
                self.replicas[shard].as_mut().and_then(|r| r.shard_mut().outbox_mut().poll())
            {
                if response.gateway == self.id {
                    return Some(Event::Response(response));
                }
                self.out.deliver(response);
            }
            self.replicas.polled += 1;
        }
        self.replicas.polled = 0;
        None
    }

    /// Next parcel for other workers and machines.
    #[inline]
    pub fn poll_parcel(&mut self) -> Option<(To, Parcel)> {
        self.out.next_parcel().or_else(|| self.stream_messages.next())
    }

    /// Whether a shard here has answers that were not polled, or its turn must be ended once more.
    pub fn has_answers(&self) -> bool {
        let more = self.out.has_events() || self.stream_messages.have_effect();
        more || self.replicas.working().any(|replica| !replica.shard().outbox().is_empty())
    }

    /// Shards with a replica here that may have work to do.
    pub fn active(&self) -> &[usize] {
        self.replicas.active()
    }

    /// Latest clock of all shards here.
    pub fn clock(&self) -> Timestamp {
        self.replicas.clock()
    }

    /// Notes that a machine was silent for `silent_us`: sleeping replicas do not rely on it any
    /// more.
    pub fn doubt(&mut self, now: Now, machine: MachineId, silent_us: u64) {
        self.replicas.doubt(&mut self.out, now, machine, silent_us);
    }

    /// Sends the watermarks of the shards that are led here to all machines.
    fn send_watermarks(&mut self, now: Now) {
        let told = self.replicas.watermarks(now);
        if !told.is_empty() {
            self.watermarks.hear(&told, now.mono_us);
            self.settled = self.watermarks.settled();
            self.out.send_to_all(|| Parcel::Watermarks(told.clone()));
        }
    }
}
