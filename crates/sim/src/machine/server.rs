//! Workers of one machine in virtual time, with their gateways and replicas.

mod bundles;

use super::build::Build;
use super::disk::Disk;
use super::network::Frame;
use super::shape::Shape;
use super::visits::{Visit, Visits};
use crate::plant::Plant;
use crate::random::Random;
use adt::{ArgBuf, Reply};
use engine::cluster::level::Level;
use engine::cluster::map::ShardMap;
use engine::entry::{SnapshotCodec, SnapshotPart};
use engine::gateway::{
    self, ClusterChange, Gateway, NearWord, Opening, Order, Output, Said, ServerReply, SessionId,
};
use engine::ids::{BundlePart, GatewayId, MachineId, ShardId};
use engine::limits::REAP_US;
use engine::message::{Body, Request};
use engine::node::{Event, Node, Parcel, Placing, To, Transfer};
use engine::now::Now;
use engine::pipeline::bundles::BundleOrder;
use engine::replica::{Replica, Seed, Setup, resolve_open};
use engine::replication::Persist;
use engine::shard;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wire::peer::PeerFormat;
use wire::snapshot::SnapshotFormat;

/// Time for which requests wait for a leader; an election occasionally takes as long.
const LEADER_WAIT_US: u64 = 2_000_000;

/// Input of a worker.
#[derive(Debug)]
pub enum Input {
    /// A client has connected.
    Open(u64),
    /// Command of a client.
    Command(u64, Vec<String>),
    /// A client's connection is gone.
    Close(u64),
    /// Act of a client of the coordination service.
    Guest(u64, Visit),
    /// Message from another worker, of this machine or another one.
    Parcel(MachineId, Box<Parcel>),
    /// Message from the gateway of another worker of this machine, about locks that are kept for
    /// clients.
    Near(GatewayId, NearWord),
    /// Part of a bundle.
    Part(ShardId, Box<Request>, Option<BundlePart>),
    /// A batch is durable.
    Persisted(ShardId, u64),
    /// Piece of a snapshot that was read: shard, receiver and snapshot, offset, bytes and whether
    /// they are the last.
    SnapshotRead((ShardId, MachineId, u64), u64, Option<(Vec<u8>, bool)>),
    /// A piece of the numbered snapshot of another machine is written.
    SnapshotWritten((ShardId, u64)),
    /// Initial state of a new shard, from the worker of the shard that was split.
    Seed(Box<Seed>),
    /// Operator's command to hand the leadership of a shard over to a machine.
    HandOver(ShardId, MachineId),
    /// Operator's command to hand over all leaderships and accept none, or to end that.
    StandBack(bool),
    /// Length of a tick of replicated logs in microseconds.
    Tick(u64),
    /// Operator's command.
    Operate(Vec<String>),
    /// The files of a shard that has left this machine are removed.
    Removed(ShardId),
    /// Another machine is connected: generation of the connection, and level of its build.
    Connected(MachineId, u64, Level),
    /// The connection to another machine is lost.
    Lost(MachineId),
    /// Another machine has been silent for so many microseconds.
    Silent(MachineId, u64),
}

impl Input {
    /// Whether it is a part of a bundle, which is in all mailboxes at one moment.
    pub fn is_part(&self) -> bool {
        matches!(self, Self::Part(..))
    }
}

/// Output of a worker.
#[derive(Debug)]
pub enum Sent {
    /// To another worker of the machine.
    Worker(u16, Box<Input>),
    /// To another machine, on a generation of the connection.
    Machine(MachineId, u64, Frame),
    /// To a client.
    Client(u64, Reply),
    /// To a client of the coordination service.
    Guest(u64, Said),
    /// Write to the disk.
    Disk(Persist),
    /// Disk operation for another machine.
    Transfer(Transfer),
    /// Complete snapshot of a shard, up to a log index.
    Snapshot(ShardId, u64, Vec<u8>),
    /// Shard map to be stored, which is done at once.
    Map(Box<ShardMap>),
}

/// Snapshot that a shard is producing.
#[derive(Debug)]
struct Snapshotting {
    shard: ShardId,
    index: u64,
    bytes: Vec<u8>,
}

/// Client number of the operator.
const OPERATOR: u64 = u64::MAX - 1;

/// Worker.
pub struct Worker {
    id: GatewayId,
    gateway: Gateway,
    node: Node<Build>,
    sessions: BTreeMap<u64, SessionId>,
    clients: BTreeMap<SessionId, u64>,
    /// Clients of the coordination service.
    visits: Visits,
    snapshotting: Option<Snapshotting>,
    /// Number of the worker, and number of all workers.
    index: u16,
    workers: u16,
    /// Connections that this worker knows.
    generations: BTreeMap<MachineId, u64>,
    plant: Option<Plant>,
    /// Number of inputs taken.
    taken: u64,
    /// Number of turns.
    turns: u64,
    /// Number of inputs after which commands are processed even if more are waiting.
    together: u64,
    build: Build,
    format: PeerFormat,
    /// Number of occurrences of rare events.
    marks: BTreeMap<&'static str, u64>,
    /// Number of clients that learned of a release before it was durable.
    told_early: u64,
    /// Replies of transactions that rested on what was not durable, as of the last turn.
    reads_ahead: u64,
    scripts_run: (u64, u64),
    /// Inputs that have arrived and are not processed yet.
    pub inbox: VecDeque<Input>,
    /// Messages of other workers of a machine that is alone, and of its disk. They are taken before all else.
    pub mailbox: VecDeque<Input>,
    /// Order of the bundles of all workers.
    order: Arc<BundleOrder>,
    /// Whether the server waits for no disk.
    volatile: bool,
}

/// Starts the `life`-th life of a machine with this build, from its disk. A single machine settles
/// its open transactions at once, which writes to its disk and syncs it.
pub fn start(
    shape: Shape,
    (machine, life, build): (MachineId, u32, Build),
    seed: u64,
    disk: &mut Disk,
    now: Now,
    plant: Option<Plant>,
) -> Result<Vec<Worker>, String> {
    let mut replicas = Vec::new();
    let id_of = |worker| GatewayId { machine, worker, life };
    // Machines that stand for election at the same time must not do so for ever.
    let own_seed = seed ^ (u64::from(machine.0) << 32);
    let map = disk.map().cloned().or_else(|| shape.first_map(machine));
    let placed = |id| map.as_ref().is_some_and(|map| map.places(machine, id));
    let shards = map.as_ref().map_or(shape.shards, |map| map.shards.len() as u16);
    let group = shape.is_cluster().then_some(ShardId::MAP);
    for id in (0..shards).map(ShardId).chain(group) {
        if shape.is_cluster() && !placed(id) && !disk.holds(id) {
            continue;
        }
        let (bytes, recovered) = disk.read(id);
        let mut parts = decode_snapshot(&bytes)?;
        if let Some(plant) = plant {
            plant.snapshot(&mut parts);
        }
        let beside = id_of(id.0 % shape.workers);
        let clustered = shape.is_cluster();
        let broken = plant.and_then(Plant::rule);
        let concurrency = shape.concurrency;
        let (seed, reap_us) = (own_seed, REAP_US);
        let config = shard::ShardConfig {
            id,
            concurrency,
            seed,
            beside,
            clustered,
            reap_us,
            broken,
            interpreter: Some(&script::Luau),
            tags: shape.rules(),
        };
        let membership = shape.membership(machine, map.as_ref(), id);
        let setup = Setup { shard: config, membership };
        let replica = Replica::recover(setup, build, now, parts, recovered);
        replicas.push(replica.map_err(|e| e.to_string())?);
    }
    if !shape.is_cluster() {
        settle(&mut replicas, disk, now)?;
        if plant != Some(Plant::NoResolve) {
            resolve_open(&mut replicas, now);
            for replica in &mut replicas {
                replica.end_turn(now).map_err(|e| e.to_string())?;
            }
            settle(&mut replicas, disk, now)?;
        }
    }
    let mut own: BTreeMap<u16, Vec<Replica<Build>>> = BTreeMap::new();
    for replica in replicas {
        own.entry(replica.id().0 % shape.workers).or_default().push(replica);
    }
    let left = disk.left().clone();
    let order_of_bundles = Arc::new(BundleOrder::new(shape.shards, shape.workers));
    let worker = |index| {
        let id = id_of(index);
        let order = if plant == Some(Plant::LooseOrder) { Order::None } else { shape.order };
        let shape = Shape { order, ..shape };
        let mut gateway = Gateway::new(gateway_config(shape, id, seed, map.as_ref()), now);
        gateway.set_interpreter(&script::Luau);
        let own = own.remove(&index).unwrap_or_default();
        let codec = Box::new(SnapshotFormat);
        let concurrency = shape.concurrency;
        let (map, left) = (map.clone(), left.clone());
        let placing = Placing {
            map,
            left,
            codec: build,
            concurrency,
            seed: own_seed,
            reap_us: REAP_US,
            interpreter: Some(&script::Luau),
        };
        let placing = shape.is_cluster().then_some(placing);
        let mut node = Node::new(id, shape.workers, shape.shards, placing, own, codec);
        let order = order_of_bundles.clone();
        if !shape.is_cluster() {
            node.bundles().share_order(order.clone());
        }
        let (sessions, clients, generations, inbox, marks) = Default::default();
        let (mailbox, visits) = (VecDeque::new(), Visits::default());
        let (workers, snapshotting, format) = (shape.workers, None, PeerFormat::default());
        Worker {
            id,
            gateway,
            node,
            sessions,
            clients,
            visits,
            snapshotting,
            index,
            workers,
            generations,
            plant,
            taken: 0,
            turns: 0,
            together: 5,
            build,
            format,
            marks,
            told_early: 0,
            reads_ahead: 0,
            scripts_run: (0, 0),
            inbox,
            mailbox,
            order,
            volatile: shape.volatile,
        }
    };
    Ok((0..shape.workers).map(worker).collect())
}

fn settle(replicas: &mut [Replica<Build>], disk: &mut Disk, now: Now) -> Result<(), String> {
    for replica in replicas {
        while let Some(persist) = replica.take_persist() {
            let number = persist.number;
            disk.write(persist);
            disk.sync();
            replica.persisted(now, number).map_err(|e| e.to_string())?;
        }
        if !replica.is_serving() {
            return Err(format!("shard {} does not begin to serve", replica.id().0));
        }
    }
    Ok(())
}

/// Decodes the parts of a snapshot.
pub fn decode_snapshot(mut bytes: &[u8]) -> Result<Vec<SnapshotPart>, String> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (part, used) =
            SnapshotFormat.decode(bytes).map_err(|_| "a snapshot does not read back".to_owned())?;
        parts.push(part);
        bytes = &bytes[used..];
    }
    Ok(parts)
}

fn gateway_config(
    shape: Shape,
    id: GatewayId,
    seed: u64,
    map: Option<&ShardMap>,
) -> gateway::Config {
    gateway::Config {
        id,
        gateways: shape.workers,
        shards: shape.shards,
        members: shape.members(id.machine, map),
        leader_wait_us: LEADER_WAIT_US,
        close_on_lost_leader: false,
        bundles: shape.order == Order::Constant && !shape.is_cluster(),
        concurrency: shape.concurrency,
        order: shape.order,
        patience: gateway::Patience::default(),
        version: "simulated",
        users: vec![everything()],
        require_auth: false,
        session_timeout_ms: engine::limits::SESSION_TIMEOUT_MS,
        tree_shards: shape.tree,
        tags: match shape.is_cluster() {
            true => map.map(|map| map.tags.clone()),
            false => Some(shape.rules()),
        },
        settings: BTreeMap::new(),
        seed,
    }
}

/// User of all simulated clients.
fn everything() -> gateway::UserConfig {
    let rules = ["on", "nopass", "~*", "&*", "+@all"].map(str::to_owned).to_vec();
    gateway::UserConfig { name: "default".to_owned(), rules, verifier: None }
}

impl Worker {
    /// Processes waiting commands together from now on.
    pub fn read_all_at_once(&mut self) {
        self.together = u64::MAX;
    }

    /// Processes all inputs as one turn. Returns the outputs.
    pub fn turn(&mut self, now: Now) -> Result<Vec<Sent>, String> {
        let mut sent = Vec::new();
        self.turns += 1;
        let overtakes = self.overtakes();
        if !overtakes {
            self.drain(now, &mut sent)?;
        }
        while let Some(input) = self.inbox.pop_front() {
            self.take(now, input, &mut sent)?;
            self.taken += 1;
            // Commands that arrive together are usually processed together.
            let more = matches!(self.inbox.front(), Some(Input::Command(..)));
            if more && !self.taken.is_multiple_of(self.together) {
                continue;
            }
            self.pump(now, &mut sent)?;
            self.keep_map(&mut sent);
        }
        if !overtakes {
            self.drain(now, &mut sent)?;
        }
        self.gateway.tick(now);
        self.node.tick(now).map_err(|e| e.to_string())?;
        self.pump(now, &mut sent)?;
        loop {
            self.end_turn(now, &mut sent)?;
            if !self.node.has_answers() {
                break;
            }
            self.pump(now, &mut sent)?;
        }
        self.post(&mut sent);
        self.advance_snapshot(&mut sent);
        let waiting = self.node.replicas().filter(|replica| replica.awaits_round()).count();
        self.mark("reads_without_lease", waiting);
        let early: u64 = self.node.replicas().map(|replica| replica.shard().told_early()).sum();
        let before = std::mem::replace(&mut self.told_early, early);
        self.mark("told_early", early.saturating_sub(before) as usize);
        let ahead: u64 = self.node.replicas().map(|replica| replica.shard().reads_ahead()).sum();
        let before = std::mem::replace(&mut self.reads_ahead, ahead);
        self.mark("reads_ahead", ahead.saturating_sub(before) as usize);
        let runs = self.node.replicas().map(|replica| replica.shard().scripts_run());
        let runs = runs.fold((0, 0), |sum, runs| (sum.0 + runs.0, sum.1 + runs.1));
        let before = std::mem::replace(&mut self.scripts_run, runs);
        self.mark("scripts_at_shards", runs.0.saturating_sub(before.0) as usize);
        self.mark("scripts_ahead", runs.1.saturating_sub(before.1) as usize);
        Ok(sent)
    }

    /// Whether a planted bug lets commands overtake messages of other workers, at some of the workers.
    fn overtakes(&self) -> bool {
        let planted = self.plant == Some(Plant::OvertakenBundle);
        planted && self.index > 0 && !self.turns.is_multiple_of(8)
    }

    fn mark(&mut self, kind: &'static str, count: usize) {
        if count > 0 {
            *self.marks.entry(kind).or_default() += count as u64;
        }
    }

    /// Rare events since the last call.
    pub fn take_marks(&mut self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.marks)
    }

    /// Closes the log entries of this turn. Some answers do not wait for the log.
    fn end_turn(&mut self, now: Now, sent: &mut Vec<Sent>) -> Result<(), String> {
        let mut index = 0;
        while let Some(&shard) = self.node.active().get(index) {
            index += 1;
            self.node.end_turn(now, shard).map_err(|e| e.to_string())?;
            while let Some(persist) = self.node.take_persist(shard) {
                let (id, number) = (persist.group, persist.number);
                sent.push(Sent::Disk(persist));
                if self.acts_early() {
                    self.node.persisted(now, id, number).map_err(|e| e.to_string())?;
                }
            }
        }
        Ok(())
    }

    /// Whether this build does not understand a parcel.
    fn is_beyond(&self, parcel: &Parcel) -> bool {
        matches!(parcel, Parcel::Map(map) if !self.build.level.suffices_for(map.level))
    }

    /// Whether writes on their way to the disk are treated as durable, by intent or by a planted bug.
    fn acts_early(&self) -> bool {
        self.volatile || self.plant == Some(Plant::EarlyReply)
    }

    fn take(&mut self, now: Now, input: Input, sent: &mut Vec<Sent>) -> Result<(), String> {
        match input {
            Input::Open(client) => {
                let session = self.gateway.open(now, Opening::default());
                self.sessions.insert(client, session);
                self.clients.insert(session, client);
            }
            Input::Command(client, mut words) => {
                if let Some(plant) = self.plant {
                    plant.command(&mut words);
                }
                if let Some(session) = self.sessions.get(&client) {
                    let words = ArgBuf::of(words);
                    self.gateway.command(now, *session, &words.args());
                }
            }
            Input::Close(client) => {
                if let Some(session) = self.sessions.remove(&client) {
                    self.clients.remove(&session);
                    self.gateway.close(now, session);
                }
            }
            Input::Guest(number, visit) => {
                self.visits.take(&mut self.gateway, now, number, visit);
            }
            Input::Parcel(_, parcel) if self.is_beyond(&parcel) => {
                self.mark("maps_not_understood", 1);
            }
            Input::Parcel(from, mut parcel) => {
                if let (Some(Plant::MovedSession), Parcel::Request { request, .. }) =
                    (self.plant, &mut *parcel)
                {
                    self.visits.misplace(request);
                }
                if matches!(&*parcel, Parcel::Request { .. }) {
                    self.apply_parts(now, sent)?;
                }
                self.node.take(now, from, *parcel).map_err(|e| e.to_string())?;
            }
            Input::Near(from, word) => self.gateway.near_told(now, from, word),
            Input::Part(shard, request, part) => {
                if request.body.is_read_only() {
                    self.apply_parts(now, sent)?;
                }
                self.node.bundles().take_part(now, shard, *request, part);
            }
            Input::Persisted(shard, number) => {
                if !self.acts_early() {
                    self.node.persisted(now, shard, number).map_err(|e| e.to_string())?;
                }
            }
            Input::SnapshotRead(which, offset, read) => {
                self.node.snapshot_read(which, offset, read);
            }
            Input::SnapshotWritten(which) => {
                let written = self.node.snapshot_written(now, which, true);
                written.map_err(|e| e.to_string())?;
            }
            Input::Seed(seed) => self.node.sow(now, *seed).map_err(|e| e.to_string())?,
            Input::HandOver(shard, to) => {
                let _ = self.node.replica_mut(shard).map(|led| led.hand_over(now, to));
            }
            Input::StandBack(on) => self.node.stand_back(now, on),
            Input::Tick(tick_us) => self.node.set_tick(tick_us),
            Input::Operate(words) => {
                let session = *self
                    .sessions
                    .entry(OPERATOR)
                    .or_insert_with(|| self.gateway.open(now, Opening::default()));
                let words = ArgBuf::of(words);
                self.gateway.command(now, session, &words.args());
            }
            Input::Removed(shard) => self.node.removed(shard),
            Input::Connected(machine, generation, level) => {
                self.pass_on(machine, sent, || Input::Connected(machine, generation, level));
                self.generations.insert(machine, generation);
                let linked = ClusterChange::Linked(machine, ("10.0.0.1".into(), 6379), level);
                self.gateway.cluster_changed(now, linked);
                self.node.connect(now, machine);
            }
            Input::Silent(machine, silent_us) => {
                self.pass_on(machine, sent, || Input::Silent(machine, silent_us));
                self.node.doubt(now, machine, silent_us);
            }
            Input::Lost(machine) => {
                self.pass_on(machine, sent, || Input::Lost(machine));
                self.generations.remove(&machine);
                self.node.disconnect(now, machine);
            }
        }
        Ok(())
    }

    /// Passes the state of a connection from the worker that holds it to the others, after its
    /// messages.
    fn pass_on(&mut self, machine: MachineId, sent: &mut Vec<Sent>, input: impl Fn() -> Input) {
        let own = self.index;
        if own == self.node.listener(machine) {
            self.post(sent);
            let others = (0..self.workers).filter(|worker| *worker != own);
            sent.extend(others.map(|worker| Sent::Worker(worker, Box::new(input()))));
        }
    }

    fn request(&mut self, now: Now, shard: ShardId, request: Request) {
        self.mark("questions_about_fates", matches!(request.body, Body::Inquire { .. }).into());
        if let Body::Pipeline(group) = &request.body {
            self.mark("groups_of_pipelines", 1);
            self.mark("requests_sent_ahead", group.asks().count());
        }
        let requests = match self.plant {
            Some(plant) => plant.requests(request, shard.0),
            None => vec![request],
        };
        for request in requests {
            if let Some(request) = self.node.request(now, shard, request) {
                self.gateway.not_sent(request);
            }
        }
    }

    /// Passes messages between gateway and shards of this worker until both are idle.
    fn pump(&mut self, now: Now, sent: &mut Vec<Sent>) -> Result<(), String> {
        loop {
            let mut quiet = self.overtakes() || !self.drain(now, sent)?;
            while let Some(output) = self.gateway.poll() {
                quiet = false;
                self.carry(now, output, sent)?;
            }
            while let Some(event) = self.node.poll() {
                quiet = false;
                let event = match (event, self.plant) {
                    (Event::Response(response), Some(plant)) => {
                        plant.response(response).map(Event::Response)
                    }
                    (event, _) => Some(event),
                };
                if let Some(event) = event {
                    event.deliver(now, &mut self.gateway);
                }
            }
            if quiet {
                return Ok(());
            }
        }
    }

    fn keep_map(&mut self, sent: &mut Vec<Sent>) {
        if let Some(map) = self.node.take_new_map() {
            sent.push(Sent::Map(Box::new(map)));
        }
    }

    fn post(&mut self, sent: &mut Vec<Sent>) {
        while let Some(transfer) = self.node.poll_transfer() {
            match transfer {
                Transfer::Make(shard) => self.begin_snapshot_of(shard),
                transfer => sent.push(Sent::Transfer(transfer)),
            }
        }
        while let Some((worker, seed)) = self.node.poll_seed() {
            sent.push(Sent::Worker(worker, Box::new(Input::Seed(seed))));
        }
        while let Some((to, parcel)) = self.node.poll_parcel() {
            sent.push(match to {
                To::Worker { worker, from } => {
                    let parcel = Box::new(parcel);
                    Sent::Worker(worker, Box::new(Input::Parcel(from, parcel)))
                }
                To::Machine(machine) => {
                    let Some(generation) = self.generations.get(&machine).copied() else {
                        continue;
                    };
                    let Some(frame) = self.frame(parcel) else { continue };
                    Sent::Machine(machine, generation, frame)
                }
            });
        }
    }

    /// Encodes a parcel.
    fn frame(&mut self, mut parcel: Parcel) -> Option<Frame> {
        if let Some(plant) = self.plant {
            plant.parcel(&mut parcel, &self.node)?;
        }
        let has_entries =
            matches!(&parcel, Parcel::Raft { message, .. } if !message.entries.is_empty());
        let mut bytes = Vec::new();
        let encoded = self.format.encode(&parcel, &mut bytes);
        assert_eq!(encoded, Ok(()), "nothing in a run is that long");
        Some(Frame { bytes, has_entries })
    }

    fn carry(&mut self, now: Now, output: Output, sent: &mut Vec<Sent>) -> Result<(), String> {
        match output {
            Output::Reply { session, reply, .. } => {
                if let Some(client) = self.clients.get(&session) {
                    sent.push(Sent::Client(*client, reply));
                }
            }
            Output::Bundle { writes, requests } => self.send_bundle(now, writes, requests, sent),
            Output::Shard { shard, request } => {
                self.apply_parts(now, sent)?;
                self.request(now, shard, request);
            }
            Output::Peer { to, message } => self.node.message(to, message),
            Output::Broadcast(broadcast) => self.node.broadcast(&broadcast),
            Output::Near { to, word } => {
                let input = Input::Near(self.id, word);
                sent.push(Sent::Worker(to.worker, Box::new(input)));
            }
            Output::Close { session } => {
                if let Some(client) = self.clients.remove(&session) {
                    self.sessions.remove(&client);
                    self.gateway.close(now, session);
                }
            }
            Output::Foreign { .. } | Output::ScriptLog { .. } => {}
            Output::Verify { session, .. } => {
                self.gateway.server_replied(now, session, ServerReply::Verified(false))
            }
            Output::Admin { session, .. } => {
                self.gateway.server_replied(now, session, ServerReply::Admin(Reply::Ok))
            }
            Output::Coordination { client, said } => {
                let told = self.visits.say(&mut self.gateway, now, (client, said), self.plant);
                let (number, said) = told.unwrap_or_default();
                sent.extend(said.into_iter().map(|said| Sent::Guest(number, said)));
            }
        }
        Ok(())
    }

    /// Begins a snapshot of one of this worker's shards.
    pub fn begin_snapshot(&mut self, random: &mut Random) {
        let local = self.node.local();
        if self.snapshotting.is_some() || local.is_empty() {
            return;
        }
        let shard = ShardId(*random.pick(local) as u16);
        self.begin_snapshot_of(shard);
    }

    fn begin_snapshot_of(&mut self, shard: ShardId) {
        if self.snapshotting.is_some() {
            return;
        }
        let Some(replica) = self.node.replica_mut(shard).filter(|r| r.may_snapshot()) else {
            return;
        };
        let (index, _) = replica.begin_snapshot();
        self.snapshotting = Some(Snapshotting { shard, index, bytes: Vec::new() });
    }

    fn advance_snapshot(&mut self, sent: &mut Vec<Sent>) {
        let Some(going) = &mut self.snapshotting else { return };
        let Some(replica) = self.node.replica_mut(going.shard) else {
            self.snapshotting = None;
            return;
        };
        if !replica.shard().is_taking_snapshot() {
            // The shard was replaced by another machine's snapshot.
            self.snapshotting = None;
            return;
        }
        let parts = replica.snapshot_parts(3);
        for part in &parts {
            SnapshotFormat.encode(part, &mut going.bytes);
        }
        if parts.is_empty() {
            let (shard, index) = (going.shard, going.index);
            let bytes = std::mem::take(&mut going.bytes);
            self.snapshotting = None;
            sent.push(Sent::Snapshot(shard, index, bytes));
        }
    }

    /// Handles the completed snapshot of `shard` up to `index`. `is_short`: memory is short there.
    pub fn compact(&mut self, shard: ShardId, index: u64, is_short: bool) {
        if let Some(replica) = self.node.replica_mut(shard) {
            replica.compact(index, is_short);
        }
    }

    /// Latest timestamp that has been issued here.
    pub fn clock(&self) -> adt::Timestamp {
        self.node.clock().max(self.gateway.decided())
    }

    /// Shards of this worker, and routes to all others.
    pub fn node(&self) -> &Node<Build> {
        &self.node
    }
}
