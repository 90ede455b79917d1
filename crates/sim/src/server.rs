//! One server under virtual time: its workers with their gateways and replicas, and its disk.

use crate::disk::Disk;
use crate::plant::Plant;
use crate::random::Random;
use adt::{ArgBuf, Reply};
use engine::entry::{SnapshotCodec, SnapshotPart};
use engine::gateway::{self, Gateway, Opening, Output, PeerMessage, SessionId};
use engine::message::{Concurrency, GatewayId, Now, Request, Response, ShardId};
use engine::replica::{Replica, resolve_open};
use engine::replication::Persist;
use engine::shard;
use std::collections::{BTreeMap, VecDeque};
use wire::entry::EntryFormat;
use wire::snapshot::SnapshotFormat;

/// Sizes of a server.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Workers, each with a gateway.
    pub workers: u16,
    /// Shards; shard s is on worker s modulo workers.
    pub shards: u16,
    /// Which parts of the concurrency control are on.
    pub concurrency: Concurrency,
}

/// Something that arrives at a worker.
#[derive(Debug)]
pub enum Input {
    /// A client has connected.
    Open(u64),
    /// A client's command.
    Command(u64, Vec<String>),
    /// A client's connection is gone.
    Close(u64),
    /// For a shard on this worker.
    Request(ShardId, Request),
    /// For this worker's gateway.
    Response(Response),
    /// From another gateway.
    Peer(GatewayId, PeerMessage),
    /// A batch is durable.
    Persisted(ShardId, u64),
}

/// Something that a worker sends.
#[derive(Debug)]
pub enum Sent {
    /// To another worker.
    Worker(u16, Box<Input>),
    /// To a client.
    Client(u64, Reply),
    /// To the disk.
    Disk(Persist),
    /// A complete snapshot of a shard, up to a log index.
    Snapshot(ShardId, u64, Vec<u8>),
}

/// A snapshot on its way out of a shard.
#[derive(Debug)]
struct Snapshotting {
    shard: usize,
    index: u64,
    bytes: Vec<u8>,
}

/// One worker.
pub struct Worker {
    id: u16,
    workers: u16,
    gateway: Gateway,
    replicas: Vec<Replica<EntryFormat>>,
    sessions: BTreeMap<u64, SessionId>,
    clients: BTreeMap<SessionId, u64>,
    snapshotting: Option<Snapshotting>,
    plant: Option<Plant>,
    /// What has arrived and is not taken in yet.
    pub inbox: VecDeque<Input>,
}

/// Starts a server from what is on its disk. The disk takes part in the start (a new leader writes
/// its term), so it is synced by it.
pub fn start(
    shape: Shape,
    seed: u64,
    disk: &mut Disk,
    now: Now,
    plant: Option<Plant>,
) -> Result<Vec<Worker>, String> {
    let mut replicas = Vec::new();
    for id in (0..shape.shards).map(ShardId) {
        let (bytes, recovered) = disk.read(id);
        let parts = decode_snapshot(&bytes)?;
        let config = shard::Config { id, concurrency: shape.concurrency, seed };
        let replica = Replica::recover(config, EntryFormat, parts, recovered);
        replicas.push(replica.map_err(|e| e.to_string())?);
    }
    settle(&mut replicas, disk, now)?;
    if plant != Some(Plant::NoResolve) {
        resolve_open(&mut replicas, now);
        for replica in &mut replicas {
            replica.end_turn(now).map_err(|e| e.to_string())?;
        }
        settle(&mut replicas, disk, now)?;
    }
    let mut workers: Vec<Worker> = (0..shape.workers)
        .map(|id| {
            let gateway = Gateway::new(gateway_config(shape, id, seed), now);
            let (sessions, clients) = Default::default();
            let (replicas, inbox) = Default::default();
            let (snapshotting, workers) = (None, shape.workers);
            Worker { id, workers, gateway, replicas, sessions, clients, snapshotting, plant, inbox }
        })
        .collect();
    for replica in replicas {
        let worker = usize::from(replica.id().0 % shape.workers);
        workers[worker].replicas.push(replica);
    }
    Ok(workers)
}

fn settle(replicas: &mut [Replica<EntryFormat>], disk: &mut Disk, now: Now) -> Result<(), String> {
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

fn decode_snapshot(mut bytes: &[u8]) -> Result<Vec<SnapshotPart>, String> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (part, used) =
            SnapshotFormat.decode(bytes).map_err(|_| "a snapshot does not read back".to_owned())?;
        parts.push(part);
        bytes = &bytes[used..];
    }
    Ok(parts)
}

fn gateway_config(shape: Shape, id: u16, seed: u64) -> gateway::Config {
    gateway::Config {
        id: GatewayId(id),
        gateways: shape.workers,
        shards: shape.shards,
        concurrency: shape.concurrency,
        version: "simulated",
        users: vec![everything()],
        require_auth: false,
        settings: BTreeMap::new(),
        seed,
    }
}

/// The user that every simulated client is.
fn everything() -> gateway::UserConfig {
    let rules = ["on", "nopass", "~*", "&*", "+@all"].map(str::to_owned).to_vec();
    gateway::UserConfig { name: "default".to_owned(), rules, verifier: None }
}

impl Worker {
    /// Takes in everything that has arrived, as one turn, and gives what is to be sent.
    pub fn turn(&mut self, now: Now) -> Result<Vec<Sent>, String> {
        let mut sent = Vec::new();
        while let Some(input) = self.inbox.pop_front() {
            self.take(now, input)?;
            self.pump(now, &mut sent);
        }
        self.gateway.tick(now);
        for replica in &mut self.replicas {
            replica.tick(now);
        }
        self.pump(now, &mut sent);
        loop {
            self.end_turn(now, &mut sent)?;
            if !self.replicas.iter().any(|replica| replica.shard().has_answers()) {
                break;
            }
            self.pump(now, &mut sent);
        }
        self.advance_snapshot(&mut sent);
        Ok(sent)
    }

    /// Closes the log entries of this turn. Some answers do not wait for the log.
    fn end_turn(&mut self, now: Now, sent: &mut Vec<Sent>) -> Result<(), String> {
        for replica in &mut self.replicas {
            replica.end_turn(now).map_err(|e| e.to_string())?;
            while let Some(persist) = replica.take_persist() {
                let number = persist.number;
                sent.push(Sent::Disk(persist));
                if self.plant == Some(Plant::EarlyReply) {
                    replica.persisted(now, number).map_err(|e| e.to_string())?;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, now: Now, input: Input) -> Result<(), String> {
        match input {
            Input::Open(client) => {
                let session = self.gateway.open(now, Opening::default());
                self.sessions.insert(client, session);
                self.clients.insert(session, client);
            }
            Input::Command(client, words) => {
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
            Input::Request(shard, request) => self.hand_to_replica(now, shard, request),
            Input::Response(response) => self.gateway.response(now, response),
            Input::Peer(from, message) => self.gateway.peer(now, from, message),
            Input::Persisted(shard, number) => {
                if self.plant != Some(Plant::EarlyReply)
                    && let Some(replica) = self.replicas.iter_mut().find(|r| r.id() == shard)
                {
                    replica.persisted(now, number).map_err(|e| e.to_string())?;
                }
            }
        }
        Ok(())
    }

    fn hand_to_replica(&mut self, now: Now, shard: ShardId, request: Request) {
        let requests = match self.plant {
            Some(plant) => plant.requests(request, shard.0),
            None => vec![request],
        };
        if let Some(replica) = self.replicas.iter_mut().find(|r| r.id() == shard) {
            for request in requests {
                replica.handle(now, request);
            }
        }
    }

    /// Lets gateway and shards of this worker talk until they have nothing more to say.
    fn pump(&mut self, now: Now, sent: &mut Vec<Sent>) {
        loop {
            let mut quiet = true;
            while let Some(output) = self.gateway.poll() {
                quiet = false;
                self.carry(now, output, sent);
            }
            for at in 0..self.replicas.len() {
                while let Some(response) = self.replicas[at].poll() {
                    quiet = false;
                    let response = match self.plant {
                        Some(plant) => plant.response(response),
                        None => Some(response),
                    };
                    match response {
                        Some(response) if response.gateway.0 == self.id => {
                            self.gateway.response(now, response);
                        }
                        Some(response) => {
                            let to = response.gateway.0;
                            sent.push(Sent::Worker(to, Box::new(Input::Response(response))));
                        }
                        None => {}
                    }
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn carry(&mut self, now: Now, output: Output, sent: &mut Vec<Sent>) {
        match output {
            Output::Reply { session, reply, .. } => {
                if let Some(client) = self.clients.get(&session) {
                    sent.push(Sent::Client(*client, reply));
                }
            }
            Output::Shard { shard, request } if shard.0 % self.workers == self.id => {
                self.hand_to_replica(now, shard, request);
            }
            Output::Shard { shard, request } => {
                let input = Box::new(Input::Request(shard, request));
                sent.push(Sent::Worker(shard.0 % self.workers, input));
            }
            Output::Peer { to, message } => {
                let input = Box::new(Input::Peer(GatewayId(self.id), message));
                sent.push(Sent::Worker(to.0, input));
            }
            Output::Close { session } => {
                if let Some(client) = self.clients.remove(&session) {
                    self.sessions.remove(&client);
                    self.gateway.close(now, session);
                }
            }
            Output::Verify { session, .. } => self.gateway.verified(now, session, false),
            Output::Admin { session, .. } => self.gateway.admin_done(now, session, Reply::Ok),
        }
    }

    /// Begins a snapshot of one of this worker's shards.
    pub fn begin_snapshot(&mut self, random: &mut Random) {
        if self.snapshotting.is_some() || self.replicas.is_empty() {
            return;
        }
        let shard = random.below(self.replicas.len() as u64) as usize;
        let (index, _) = self.replicas[shard].begin_snapshot();
        self.snapshotting = Some(Snapshotting { shard, index, bytes: Vec::new() });
    }

    fn advance_snapshot(&mut self, sent: &mut Vec<Sent>) {
        let Some(going) = &mut self.snapshotting else { return };
        let replica = &mut self.replicas[going.shard];
        let parts = replica.snapshot_parts(3);
        for part in &parts {
            SnapshotFormat.encode(part, &mut going.bytes);
        }
        if parts.is_empty() {
            let (shard, index) = (replica.id(), going.index);
            let bytes = std::mem::take(&mut going.bytes);
            self.snapshotting = None;
            sent.push(Sent::Snapshot(shard, index, bytes));
        }
    }

    /// The snapshot of `shard` up to `index` is on disk.
    pub fn compact(&mut self, shard: ShardId, index: u64) {
        if let Some(replica) = self.replicas.iter_mut().find(|r| r.id() == shard) {
            replica.compact(index);
        }
    }

    /// The replicas of this worker.
    pub fn replicas(&self) -> &[Replica<EntryFormat>] {
        &self.replicas
    }
}
