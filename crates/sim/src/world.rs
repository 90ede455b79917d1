//! One simulated run: a server, its disk, its clients, and whatever the seed has in store for them.

use crate::client::{Client, Wish};
use crate::disk::Disk;
use crate::plant::Plant;
use crate::random::Random;
use crate::server::{Input, Sent, Shape, Worker, start};
use crate::workload::{ACCOUNTS, DEPOSIT, account};
use adt::Reply;
use engine::limits::IDLE_HOLDER_US_MAX;
use engine::message::{Concurrency, Now, ShardId};
use std::collections::BTreeMap;

/// How long faults go on, in microseconds of virtual time; after that the run only ends what is
/// open, on a healthy machine.
const FAULTS_US: u64 = 3_000_000;
/// How long the end may take. Anything still open then is stuck.
const PATIENCE_US: u64 = 60_000_000;
/// How long a reply may take. Less than what a shard grants to idle holders of locks: a lock that
/// somebody has forgotten must not be mended by that without being noticed.
const WAIT_US_MAX: u64 = IDLE_HOLDER_US_MAX / 5 * 4;
/// Wall clock at the beginning of a run: 2026-01-01.
const WALL_US: u64 = 1_767_225_600_000_000;

/// What happened in a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Hash over everything that happened, in order.
    pub trace_hash: u64,
    /// Virtual time, in microseconds.
    pub simulated_us: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Everything that the clients have seen.
    pub events: Vec<check::Event>,
    /// The disk at the end.
    pub disk: Disk,
    /// Why the run could not go on, if it could not.
    pub failure: Option<String>,
}

#[derive(Debug)]
enum Event {
    Turn { epoch: u64, worker: u16 },
    Deliver { epoch: u64, worker: u16, input: Box<Input> },
    Synced { epoch: u64 },
    SnapshotSaved { epoch: u64, shard: ShardId, index: u64, bytes: Vec<u8> },
    BeginSnapshot,
    Wake { client: u64 },
    ToClient { client: u64, connection: u64, reply: Reply },
    Disconnect { client: u64 },
    Crash,
    Restart,
    ClockJump,
}

struct Connection {
    number: u64,
    worker: u16,
    delay_us: u64,
    last_out_us: u64,
    last_in_us: u64,
}

/// The state of a run.
pub struct World {
    seed: u64,
    shape: Shape,
    plant: Option<Plant>,
    now_us: u64,
    /// When faults end and clients begin nothing new.
    faults_end_us: u64,
    wall_offsets_us: Vec<i64>,
    /// Later than every timestamp that the server has given.
    floor_us: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Event>,
    epoch: u64,
    workers: Vec<Worker>,
    disk: Disk,
    syncing: Vec<(ShardId, u64)>,
    waiting_for_disk: Vec<engine::replication::Persist>,
    sync_running: bool,
    disk_us: u64,
    channel_us: u64,
    channels: BTreeMap<(u16, u16), u64>,
    clients: Vec<Client>,
    connections: BTreeMap<u64, Connection>,
    connection_numbers: u64,
    turning: Vec<bool>,
    network: Random,
    disks: Random,
    faults: Random,
    outcome: Outcome,
}

impl World {
    /// The run of a seed.
    pub fn new(seed: u64, plant: Option<Plant>) -> Self {
        let mut shape_random = Random::new(seed, "shape");
        let shards = shape_random.between(1, 4) as u16;
        let workers = shape_random.between(1, u64::from(shards.min(3))) as u16;
        let conditions = ["full", "full", "full", "full", "boost+phase", "rw+phase", "boost"];
        let condition = *shape_random.pick(&conditions[..]);
        let concurrency = Concurrency::named(condition).unwrap_or(Concurrency::FULL);
        let shape = Shape { workers, shards, concurrency };
        let clients = shape_random.between(2, 10);
        let skew = *shape_random.pick(&[0, 50, 20_000]);
        let wall_offsets_us =
            (0..workers).map(|_| shape_random.between(0, 2 * skew) as i64 - skew as i64).collect();
        Self {
            seed,
            shape,
            plant,
            now_us: 0,
            faults_end_us: FAULTS_US,
            wall_offsets_us,
            floor_us: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            epoch: 0,
            workers: Vec::new(),
            disk: Disk::default(),
            syncing: Vec::new(),
            waiting_for_disk: Vec::new(),
            sync_running: false,
            disk_us: *shape_random.pick(&[50, 500, 3000]),
            channel_us: *shape_random.pick(&[2, 100, 2000]),
            channels: BTreeMap::new(),
            clients: (0..clients).map(|id| Client::new(seed, id)).collect(),
            connections: BTreeMap::new(),
            connection_numbers: 0,
            turning: Vec::new(),
            network: Random::new(seed, "network"),
            disks: Random::new(seed, "disk"),
            faults: Random::new(seed, "faults"),
            outcome: Outcome::default(),
        }
    }

    /// Runs to the end.
    pub fn run(mut self) -> Outcome {
        if let Err(failure) = self.live() {
            self.outcome.failure = Some(failure);
        }
        for client in &mut self.clients {
            client.stop(self.now_us);
            self.outcome.events.append(&mut client.events);
        }
        self.outcome.events.sort_by_key(|e| (e.time_us, e.kind != check::EventKind::Invoke));
        self.outcome.simulated_us = self.now_us;
        self.outcome.disk = self.disk;
        self.outcome
    }

    fn live(&mut self) -> Result<(), String> {
        self.boot()?;
        self.deposit()?;
        self.faults_end_us = self.now_us + FAULTS_US;
        self.draw_faults();
        for client in 0..self.clients.len() as u64 {
            let at = self.now_us + self.network.between(0, 1000);
            self.at(at, Event::Wake { client });
        }
        while let Some(((time, _), event)) = self.queue.pop_first() {
            self.now_us = self.now_us.max(time);
            self.note(&event);
            self.happen(event)?;
            let over = self.now_us > self.faults_end_us;
            if over && self.clients.iter().all(|c| !c.is_busy()) {
                // One last restart: what is on disk must be enough.
                return self.final_restart();
            }
            if self.now_us > self.faults_end_us + PATIENCE_US {
                let stuck = self.clients.iter().filter(|c| c.is_busy()).count();
                return Err(format!("{stuck} clients are still waiting long after the last fault"));
            }
        }
        Ok(())
    }

    fn final_restart(&mut self) -> Result<(), String> {
        self.crash();
        self.boot()?;
        for worker in &mut self.workers {
            for replica in worker.replicas() {
                let open = replica.shard().state().prepared().len();
                if open > 0 {
                    return Err(format!("{open} transactions are still open after a restart"));
                }
            }
        }
        Ok(())
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((time, self.sequence), event);
    }

    fn fault(&mut self, kind: &'static str) {
        *self.outcome.faults.entry(kind).or_default() += 1;
    }

    fn note(&mut self, event: &Event) {
        let line = format!("{} {event:?}", self.now_us);
        for byte in line.bytes() {
            let mixed = (self.outcome.trace_hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            self.outcome.trace_hash = mixed.rotate_left(5);
        }
    }

    fn wall(&self, worker: u16) -> Now {
        let offset = self.wall_offsets_us.get(usize::from(worker)).copied().unwrap_or(0);
        let wall_us = (WALL_US + self.now_us).saturating_add_signed(offset);
        Now { wall_us: wall_us.max(self.floor_us), mono_us: self.now_us + 1 }
    }

    fn boot(&mut self) -> Result<(), String> {
        self.epoch += 1;
        let now = self.wall(0);
        let seed = self.seed ^ self.epoch;
        self.workers = start(self.shape, seed, &mut self.disk, now, self.plant)?;
        self.turning = vec![false; self.workers.len()];
        self.floor_us = 0;
        (0..self.shape.workers).for_each(|worker| self.publish_clocks(worker));
        self.channels.clear();
        for worker in 0..self.shape.workers {
            self.wake_worker(worker, self.now_us);
        }
        Ok(())
    }

    /// Fills the accounts before anybody looks.
    fn deposit(&mut self) -> Result<(), String> {
        let client = u64::MAX;
        let mut commands = vec![vec!["multi".to_owned()]];
        for number in 0..ACCOUNTS {
            commands.push(vec!["incrby".into(), account(number), DEPOSIT.to_string()]);
        }
        commands.push(vec!["rpush".into(), "l0".into(), "deposit".into()]);
        commands.push(vec!["exec".to_owned()]);
        let mut invoke = check::Event::new(client, check::EventKind::Invoke, self.now_us);
        let ops = &commands[1..commands.len() - 1];
        let bytes = |op: &Vec<String>| op.iter().map(|w| w.clone().into_bytes()).collect();
        invoke.txn = ops.iter().map(bytes).collect();
        self.outcome.events.push(invoke);
        self.connect(client);
        for command in commands {
            self.send(client, command);
        }
        let mut replies = Vec::new();
        while let Some(((time, _), event)) = self.queue.pop_first() {
            self.now_us = self.now_us.max(time);
            if let Event::ToClient { reply, .. } = &event {
                if let Reply::Array(items) = reply {
                    replies = items.iter().map(|r| Some(crate::workload::value_of(r))).collect();
                    break;
                }
                continue;
            }
            self.happen(event)?;
        }
        self.now_us += 1;
        let mut done = check::Event::new(client, check::EventKind::Ok, self.now_us);
        done.replies = replies;
        self.outcome.events.push(done);
        self.connections.remove(&client);
        self.now_us += 1;
        Ok(())
    }

    fn draw_faults(&mut self) {
        if self.faults.percent(25) {
            return;
        }
        for _ in 0..self.faults.below(4) {
            let time = self.faults.between(self.now_us, self.faults_end_us);
            self.at(time, Event::Crash);
        }
        for _ in 0..self.faults.below(4) {
            let time = self.faults.between(self.now_us, self.faults_end_us);
            self.at(time, Event::BeginSnapshot);
        }
        for _ in 0..self.faults.below(6) {
            let time = self.faults.between(self.now_us, self.faults_end_us);
            let client = self.faults.below(self.clients.len() as u64);
            self.at(time, Event::Disconnect { client });
        }
        for _ in 0..self.faults.below(3) {
            let time = self.faults.between(self.now_us, self.faults_end_us);
            self.at(time, Event::ClockJump);
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Turn { epoch, worker } if epoch == self.epoch => self.turn(worker)?,
            Event::Deliver { epoch, worker, input } if epoch == self.epoch => {
                self.workers[usize::from(worker)].inbox.push_back(*input);
                self.wake_worker(worker, self.now_us);
            }
            Event::Synced { epoch } if epoch == self.epoch => self.synced(),
            Event::SnapshotSaved { epoch, shard, index, bytes } if epoch == self.epoch => {
                self.disk.save_snapshot(shard, bytes, index);
                let worker = usize::from(shard.0 % self.shape.workers);
                self.workers[worker].compact(shard, index);
            }
            Event::BeginSnapshot if !self.workers.is_empty() => {
                self.fault("snapshots");
                let worker = self.faults.below(self.workers.len() as u64) as usize;
                self.workers[worker].begin_snapshot(&mut self.faults);
                self.wake_worker(worker as u16, self.now_us);
            }
            Event::Wake { client } => self.wake_client(client),
            Event::ToClient { client, connection, reply }
                if self.connections.get(&client).is_some_and(|c| c.number == connection) =>
            {
                let waited_us = self.clients[client as usize].waits_us(self.now_us);
                if waited_us > WAIT_US_MAX {
                    return Err(format!("client {client} waited for a reply for {waited_us} us"));
                }
                let wishes = self.clients[client as usize].reply(self.now_us, reply);
                self.grant(client, wishes);
            }
            Event::Disconnect { client } => self.disconnect(client),
            Event::Crash if !self.workers.is_empty() => {
                self.fault("crashes");
                self.crash();
                let time = self.now_us + self.faults.between(100, 50_000);
                self.at(time, Event::Restart);
            }
            Event::Restart if self.workers.is_empty() => self.boot()?,
            Event::ClockJump => {
                self.fault("clock_jumps");
                let worker = self.faults.below(u64::from(self.shape.workers)) as usize;
                let jump = self.faults.between(0, 2_000_000) as i64 - 1_000_000;
                self.wall_offsets_us[worker] += jump;
            }
            _ => {}
        }
        Ok(())
    }

    fn crash(&mut self) {
        if self.plant == Some(Plant::LostEntry) {
            self.disk.lose_last_entry(ShardId(0));
        }
        self.disk.crash(&mut self.disks);
        self.epoch += 1;
        self.workers.clear();
        self.syncing.clear();
        self.waiting_for_disk.clear();
        self.sync_running = false;
        let connected: Vec<u64> = self.connections.keys().copied().collect();
        for client in connected {
            self.connections.remove(&client);
            if let Some(c) = self.clients.get_mut(client as usize) {
                c.disconnected(self.now_us);
                let time = self.now_us + self.network.between(1000, 20_000);
                self.at(time, Event::Wake { client });
            }
        }
    }

    fn disconnect(&mut self, client: u64) {
        let Some(connection) = self.connections.remove(&client) else { return };
        self.fault("disconnects");
        let delay = connection.delay_us;
        let time = (self.now_us + delay).max(connection.last_out_us + 1);
        let (epoch, worker) = (self.epoch, connection.worker);
        let input = Input::Close(connection.number);
        self.at(time, Event::Deliver { epoch, worker, input: Box::new(input) });
        self.clients[client as usize].disconnected(self.now_us);
        let time = self.now_us + self.network.between(100, 5_000);
        self.at(time, Event::Wake { client });
    }

    fn wake_client(&mut self, client: u64) {
        let over = self.now_us > self.faults_end_us;
        if over && !self.clients[client as usize].is_busy() {
            return;
        }
        if self.workers.is_empty() {
            let time = self.now_us + 5_000;
            return self.at(time, Event::Wake { client });
        }
        if !self.connections.contains_key(&client) {
            self.connect(client);
        } else if self.clients[client as usize].is_busy() {
            return;
        }
        let wishes = self.clients[client as usize].begin(self.now_us);
        self.grant(client, wishes);
    }

    fn grant(&mut self, client: u64, wishes: Vec<Wish>) {
        for wish in wishes {
            match wish {
                Wish::Send(words) => self.send(client, words),
                Wish::Sleep(us) => {
                    let time = self.now_us + us;
                    self.at(time, Event::Wake { client });
                }
            }
        }
    }

    fn connect(&mut self, client: u64) {
        self.connection_numbers += 1;
        let number = self.connection_numbers;
        let worker = self.network.below(u64::from(self.shape.workers)) as u16;
        let delay_us = self.network.tail(20);
        let connection =
            Connection { number, worker, delay_us, last_out_us: self.now_us, last_in_us: 0 };
        self.connections.insert(client, connection);
        self.send_to_server(client, Input::Open(number));
    }

    fn send(&mut self, client: u64, words: Vec<String>) {
        let Some(connection) = self.connections.get(&client) else { return };
        let number = connection.number;
        self.send_to_server(client, Input::Command(number, words));
    }

    /// In order, with a delay of its own each time.
    fn send_to_server(&mut self, client: u64, input: Input) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        let time =
            (self.now_us + self.network.tail(connection.delay_us)).max(connection.last_out_us + 1);
        connection.last_out_us = time;
        let (epoch, worker) = (self.epoch, connection.worker);
        self.at(time, Event::Deliver { epoch, worker, input: Box::new(input) });
    }

    fn wake_worker(&mut self, worker: u16, time: u64) {
        if let Some(turning) = self.turning.get_mut(usize::from(worker))
            && !*turning
        {
            *turning = true;
            let epoch = self.epoch;
            let time = time + self.network.between(0, 5);
            self.at(time, Event::Turn { epoch, worker });
        }
    }

    /// What the server does before replies go out: later timestamps are given to what comes after.
    fn publish_clocks(&mut self, worker: u16) {
        let replicas = self.workers[usize::from(worker)].replicas().iter();
        if let Some(latest) = replicas.map(|replica| replica.shard().clock()).max() {
            self.floor_us = self.floor_us.max(latest.after_us());
        }
    }

    fn turn(&mut self, worker: u16) -> Result<(), String> {
        let now = self.wall(worker);
        self.turning[usize::from(worker)] = false;
        let sent = self.workers[usize::from(worker)].turn(now)?;
        self.publish_clocks(worker);
        for item in sent {
            self.carry(worker, item);
        }
        // Time-outs and long snapshots need a turn now and then.
        let epoch = self.epoch;
        let busy = self.now_us < self.faults_end_us || self.clients.iter().any(Client::is_busy);
        if busy && !self.turning[usize::from(worker)] {
            self.turning[usize::from(worker)] = true;
            let time = self.now_us + 2_000;
            self.at(time, Event::Turn { epoch, worker });
        }
        Ok(())
    }

    fn carry(&mut self, from: u16, item: Sent) {
        match item {
            Sent::Worker(to, input) => {
                let last = self.channels.get(&(from, to)).copied().unwrap_or(0);
                let time = (self.now_us + self.network.tail(self.channel_us)).max(last + 1);
                self.channels.insert((from, to), time);
                let epoch = self.epoch;
                self.at(time, Event::Deliver { epoch, worker: to, input });
            }
            Sent::Client(number, reply) => {
                let found = self.connections.iter_mut().find(|(_, c)| c.number == number);
                let Some((client, connection)) = found else { return };
                let delay = self.network.tail(connection.delay_us);
                let time = (self.now_us + delay).max(connection.last_in_us + 1);
                connection.last_in_us = time;
                let client = *client;
                self.at(time, Event::ToClient { client, connection: number, reply });
            }
            Sent::Disk(persist) => {
                self.waiting_for_disk.push(persist);
                self.start_sync();
            }
            Sent::Snapshot(shard, index, bytes) => {
                let epoch = self.epoch;
                let time = self.now_us + self.disks.tail(self.disk_us);
                self.at(time, Event::SnapshotSaved { epoch, shard, index, bytes });
            }
        }
    }

    /// One write and one sync for whatever all shards have by now.
    fn start_sync(&mut self) {
        if self.sync_running || self.waiting_for_disk.is_empty() {
            return;
        }
        self.sync_running = true;
        for persist in std::mem::take(&mut self.waiting_for_disk) {
            self.syncing.push((persist.group, persist.number));
            self.disk.write(persist);
        }
        let time = self.now_us + self.disks.tail(self.disk_us);
        let epoch = self.epoch;
        self.at(time, Event::Synced { epoch });
    }

    fn synced(&mut self) {
        self.disk.sync();
        self.sync_running = false;
        for (shard, number) in std::mem::take(&mut self.syncing) {
            let (epoch, worker) = (self.epoch, shard.0 % self.shape.workers);
            let time = self.now_us + 1;
            let input = Box::new(Input::Persisted(shard, number));
            self.at(time, Event::Deliver { epoch, worker, input });
        }
        self.start_sync();
    }
}
