//! One simulated run: machines, their disks, their clients, and whatever the seed has in store.

mod agreement;
mod faults;
mod transfers;

use crate::client::{Client, Wish};
use crate::disk::Disk;
use crate::machine::Machine;
use crate::network::Network;
use crate::plant::Plant;
use crate::random::Random;
use crate::server::{Input, Sent, Shape, start};
use crate::workload::{ACCOUNTS, DEPOSIT, account};
use adt::Reply;
use engine::limits::IDLE_HOLDER_US_MAX;
use engine::message::{Concurrency, MachineId, ShardId};
use engine::node::Parcel;
use std::collections::{BTreeMap, BTreeSet};

/// How long faults go on, in microseconds of virtual time, on one machine and on several; after
/// that the run only ends what is open, on healthy machines.
const FAULTS_US: u64 = 3_000_000;
const CLUSTER_FAULTS_US: u64 = 12_000_000;
/// How long the end may take. Anything still open then is stuck.
const PATIENCE_US: u64 = 60_000_000;
/// Events after which a run is given up: something goes round in circles.
const EVENTS_MAX: u64 = 2_000_000;
/// How long machines have to agree after the last client is done.
const AGREE_US: u64 = 10_000_000;
/// How many times as long if shards have to move first.
const RESHAPED_ROUNDS: u32 = 4;
/// How long a reply may take. Less than what a shard grants to idle holders of locks: a lock that
/// somebody has forgotten must not be mended by that without being noticed.
const WAIT_US_MAX: u64 = IDLE_HOLDER_US_MAX / 5 * 4;

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
    /// What the disks hold at the end.
    pub disk: Disk,
    /// Why the run could not go on, if it could not.
    pub failure: Option<String>,
}

#[derive(Debug)]
enum Event {
    Turn {
        machine: u16,
        epoch: u64,
        worker: u16,
    },
    Tick {
        machine: u16,
        epoch: u64,
        worker: u16,
    },
    Deliver {
        machine: u16,
        epoch: u64,
        worker: u16,
        input: Box<Input>,
    },
    Parcel {
        from: MachineId,
        to: MachineId,
        generation: u64,
        parcel: Box<Parcel>,
    },
    Synced {
        machine: u16,
        epoch: u64,
    },
    SnapshotSaved {
        machine: u16,
        epoch: u64,
        shard: ShardId,
        index: u64,
        bytes: Vec<u8>,
    },
    SnapshotReceived {
        machine: u16,
        epoch: u64,
        which: (ShardId, u64),
        from: MachineId,
        index: u64,
    },
    BeginSnapshot,
    Wake {
        client: u64,
    },
    ToClient {
        client: u64,
        connection: u64,
        reply: Reply,
    },
    Disconnect {
        client: u64,
    },
    Crash,
    Restart {
        machine: u16,
    },
    ClockJump,
    HandOver,
    Reshape,
    Lull,
    Remove {
        machine: u16,
        epoch: u64,
        shard: ShardId,
    },
    StandBack,
    ComeBack {
        machine: u16,
    },
    Pause {
        moves: bool,
    },
    Cut,
    Mend {
        from: MachineId,
        to: MachineId,
    },
    /// Machines look after their connections.
    Connections,
}

struct Connection {
    number: u64,
    machine: u16,
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
    /// The clients are done, and the machines agree.
    ending: bool,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Event>,
    machines: Vec<Machine>,
    links: Network,
    /// Who is silent to whom, and was said to be.
    silent: BTreeSet<(MachineId, MachineId)>,
    /// Clients have nothing to ask before this time.
    lull_until_us: u64,
    disk_us: u64,
    channel_us: u64,
    clients: Vec<Client>,
    connections: BTreeMap<u64, Connection>,
    connection_numbers: u64,
    network: Random,
    disks: Random,
    faults: Random,
    outcome: Outcome,
}

impl World {
    /// The run of a seed.
    pub fn new(seed: u64, plant: Option<Plant>) -> Self {
        let mut shape_random = Random::new(seed, "shape");
        let machines = *shape_random.pick(&[1, 1, 3, 3, 3, 5]);
        let machines = match plant {
            Some(plant) if plant.needs_cluster() => machines.max(3),
            Some(_) => 1,
            None => machines,
        };
        let shards = shape_random.between(1, 4) as u16;
        let workers = shape_random.between(1, u64::from(shards.min(3))) as u16;
        let conditions = ["full", "full", "full", "full", "boost+phase", "rw+phase", "boost"];
        let condition = *shape_random.pick(&conditions[..]);
        let concurrency = Concurrency::named(condition).unwrap_or(Concurrency::FULL);
        let founders = machines;
        let spare = if plant.is_none() && founders == 3 { shape_random.below(3) } else { 0 };
        let machines = founders + spare as u16;
        let shape = Shape { machines, founders, workers, shards, concurrency };
        let clients = shape_random.between(2, 10);
        let skew = *shape_random.pick(&[0, 50, 20_000]);
        let machines = (1..=machines).map(|number| {
            let offset = || shape_random.between(0, 2 * skew) as i64 - skew as i64;
            let wall_offsets_us = std::iter::repeat_with(offset).take(usize::from(workers));
            Machine::new(MachineId(number), wall_offsets_us.collect())
        });
        let machines: Vec<Machine> = machines.collect();
        let disk_us = *shape_random.pick(&[50, 500, 3000]);
        let channel_us = *shape_random.pick(&[2, 100, 2000]);
        let link_us = *shape_random.pick(&[20, 200, 5000]);
        Self {
            seed,
            shape,
            plant,
            now_us: 0,
            faults_end_us: u64::MAX,
            ending: false,
            sequence: 0,
            queue: BTreeMap::new(),
            machines,
            links: Network::new(seed, link_us),
            silent: BTreeSet::new(),
            lull_until_us: 0,
            disk_us,
            channel_us,
            clients: (0..clients).map(|id| Client::new(seed, id, shape.is_cluster())).collect(),
            connections: BTreeMap::new(),
            connection_numbers: 0,
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
        self.outcome.disk = Disk::longest(self.machines.iter().map(|machine| &machine.disk));
        self.outcome
    }

    fn live(&mut self) -> Result<(), String> {
        for machine in 0..self.shape.machines {
            self.boot(machine)?;
        }
        if self.shape.is_cluster() {
            self.look_after_connections();
        }
        self.deposit()?;
        let cluster = self.shape.is_cluster();
        self.faults_end_us = self.now_us + if cluster { CLUSTER_FAULTS_US } else { FAULTS_US };
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
                return self.end();
            }
            if self.sequence > EVENTS_MAX {
                return Err(format!("more than {EVENTS_MAX} events: the run does not end"));
            }
            if self.now_us > self.faults_end_us + PATIENCE_US {
                let stuck = self.clients.iter().filter(|c| c.is_busy()).count();
                return Err(format!("{stuck} clients are still waiting long after the last fault"));
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        if !self.shape.is_cluster() {
            return self.final_restart();
        }
        self.agree()?;
        // What is on each disk must be enough as well.
        for machine in 0..self.shape.machines {
            self.crash(machine);
        }
        for machine in 0..self.shape.machines {
            self.boot(machine)?;
        }
        self.agree()
    }

    /// One last restart: what is on disk must be enough.
    fn final_restart(&mut self) -> Result<(), String> {
        self.crash(0);
        self.boot(0)?;
        for worker in &self.machines[0].workers {
            for replica in worker.node().replicas() {
                let open = replica.shard().state().prepared().len();
                if open > 0 {
                    return Err(format!("{open} transactions are still open after a restart"));
                }
            }
        }
        Ok(())
    }

    /// After a while without faults, all machines must hold the same.
    fn agree(&mut self) -> Result<(), String> {
        self.ending = true;
        for machine in 0..self.shape.machines {
            for worker in 0..self.shape.workers {
                self.wake_worker(machine, worker, self.now_us);
            }
        }
        let reshaped = self.outcome.faults.contains_key("reshapings");
        let rounds = if reshaped { RESHAPED_ROUNDS } else { 1 };
        for _ in 1..rounds {
            self.go_on_for(AGREE_US)?;
            if self.check_agreement().is_ok() {
                return Ok(());
            }
        }
        self.go_on_for(AGREE_US)?;
        self.check_agreement()
    }

    fn go_on_for(&mut self, length_us: u64) -> Result<(), String> {
        let until = self.now_us + length_us;
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > until {
                break;
            }
            let ((time, _), event) = entry.remove_entry();
            self.now_us = self.now_us.max(time);
            self.note(&event);
            self.happen(event)?;
        }
        self.now_us = until;
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

    fn boot(&mut self, index: u16) -> Result<(), String> {
        let (shape, plant) = (self.shape, self.plant);
        let machine = &mut self.machines[usize::from(index)];
        machine.epoch += 1;
        machine.life += 1;
        let now = machine.now(self.now_us, 0);
        let seed = self.seed ^ machine.epoch;
        let who = (machine.id, machine.life);
        let workers = start(shape, who, seed, &mut machine.disk, now, plant)?;
        machine.start(workers);
        for worker in 0..shape.workers {
            self.wake_worker(index, worker, self.now_us);
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
            if self.now_us > PATIENCE_US {
                return Err("no leader is found at the beginning".to_owned());
            }
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

    fn is_current(&self, machine: u16, epoch: u64) -> bool {
        let machine = &self.machines[usize::from(machine)];
        machine.epoch == epoch && machine.is_up()
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Turn { machine, epoch, worker } if self.is_current(machine, epoch) => {
                self.turn(machine, worker)?;
            }
            Event::Tick { machine, epoch, worker } if self.is_current(machine, epoch) => {
                self.machines[usize::from(machine)].ticking[usize::from(worker)] = false;
                self.wake_worker(machine, worker, self.now_us);
            }
            Event::Deliver { machine, epoch, worker, input } if self.is_current(machine, epoch) => {
                self.hand_in(machine, worker, *input);
            }
            Event::Parcel { from, to, generation, parcel }
                if self.links.is_current((from, to), generation) =>
            {
                let worker = from.0 % self.shape.workers;
                self.hand_in(to.0 - 1, worker, Input::Parcel(from, parcel));
            }
            Event::Synced { machine, epoch } if self.is_current(machine, epoch) => {
                self.synced(machine);
            }
            Event::SnapshotSaved { machine, epoch, shard, index, bytes }
                if self.is_current(machine, epoch) =>
            {
                let machine = &mut self.machines[usize::from(machine)];
                machine.disk.save_snapshot(shard, bytes, index);
                let worker = usize::from(shard.0 % self.shape.workers);
                machine.workers[worker].compact(shard, index);
            }
            Event::SnapshotReceived { machine, epoch, which, from, index }
                if self.is_current(machine, epoch) =>
            {
                self.snapshot_received(machine, which, from, index);
            }
            Event::BeginSnapshot => self.begin_snapshot(),
            Event::Wake { client } => self.wake_client(client),
            Event::ToClient { client, connection, reply }
                if self.connections.get(&client).is_some_and(|c| c.number == connection) =>
            {
                let waited_us = self.clients[client as usize].waits_us(self.now_us);
                if waited_us > WAIT_US_MAX && !self.shape.is_cluster() {
                    return Err(format!("client {client} waited for a reply for {waited_us} us"));
                }
                let wishes = self.clients[client as usize].reply(self.now_us, reply);
                self.grant(client, wishes);
            }
            Event::Disconnect { client } => self.disconnect(client),
            Event::Crash => {
                let machine = self.faults.below(u64::from(self.shape.machines)) as u16;
                if self.machines[usize::from(machine)].is_up() {
                    self.fault("crashes");
                    self.crash(machine);
                    let most = *self.faults.pick(&[50_000, 50_000, 3_000_000]);
                    let most = if self.shape.is_cluster() { most } else { 50_000 };
                    let time = self.now_us + self.faults.between(100, most);
                    self.at(time, Event::Restart { machine });
                }
            }
            Event::Restart { machine } if !self.machines[usize::from(machine)].is_up() => {
                self.boot(machine)?;
            }
            Event::ClockJump => {
                self.fault("clock_jumps");
                let machine = self.faults.below(u64::from(self.shape.machines)) as usize;
                let worker = self.faults.below(u64::from(self.shape.workers)) as usize;
                let jump = self.faults.between(0, 2_000_000) as i64 - 1_000_000;
                self.machines[machine].wall_offsets_us[worker] += jump;
            }
            Event::Pause { moves } => self.pause(moves),
            Event::HandOver => self.hand_over(),
            Event::Reshape => self.reshape(),
            Event::Lull => self.lull(),
            Event::Remove { machine, epoch, shard } if self.is_current(machine, epoch) => {
                self.remove(machine, shard);
            }
            Event::StandBack => {
                let machine = self.faults.below(u64::from(self.shape.machines)) as u16;
                self.stand_back(machine, true);
            }
            Event::ComeBack { machine } => self.stand_back(machine, false),
            Event::Cut => self.cut(),
            Event::Mend { from, to } => self.mend(from, to),
            Event::Connections => self.look_after_connections(),
            _ => {}
        }
        Ok(())
    }

    fn hand_in(&mut self, machine: u16, worker: u16, input: Input) {
        let target = &mut self.machines[usize::from(machine)];
        let Some(found) = target.workers.get_mut(usize::from(worker)) else { return };
        found.inbox.push_back(input);
        self.wake_worker(machine, worker, self.now_us);
    }

    fn disconnect(&mut self, client: u64) {
        let Some(connection) = self.connections.remove(&client) else { return };
        self.fault("disconnects");
        let delay = connection.delay_us;
        let time = (self.now_us + delay).max(connection.last_out_us + 1);
        let input = Box::new(Input::Close(connection.number));
        self.deliver_at(time, connection.machine, connection.worker, input);
        self.clients[client as usize].disconnected(self.now_us);
        let time = self.now_us + self.network.between(100, 5_000);
        self.at(time, Event::Wake { client });
    }

    fn deliver_at(&mut self, time: u64, machine: u16, worker: u16, input: Box<Input>) {
        let epoch = self.machines[usize::from(machine)].epoch;
        self.at(time, Event::Deliver { machine, epoch, worker, input });
    }

    fn wake_client(&mut self, client: u64) {
        let over = self.ending || self.now_us > self.faults_end_us;
        if over && !self.clients[client as usize].is_busy() {
            return;
        }
        if !self.machines.iter().any(Machine::is_up) {
            let time = self.now_us + 5_000;
            return self.at(time, Event::Wake { client });
        }
        let lull = self.now_us < self.lull_until_us.min(self.faults_end_us);
        if lull && !self.clients[client as usize].is_busy() {
            let time = self.lull_until_us.min(self.faults_end_us) + self.network.between(0, 5_000);
            return self.at(time, Event::Wake { client });
        }
        if !self.connections.contains_key(&client) {
            self.connect(client);
        } else if self.clients[client as usize].is_waiting() {
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
        let up: Vec<u16> =
            (0..self.shape.machines).filter(|m| self.machines[usize::from(*m)].is_up()).collect();
        let machine = *self.network.pick(&up);
        let worker = self.network.below(u64::from(self.shape.workers)) as u16;
        let delay_us = self.network.tail(20);
        let last_out_us = self.now_us;
        let connection =
            Connection { number, machine, worker, delay_us, last_out_us, last_in_us: 0 };
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
        let (machine, worker) = (connection.machine, connection.worker);
        self.deliver_at(time, machine, worker, Box::new(input));
    }

    fn wake_worker(&mut self, machine: u16, worker: u16, time: u64) {
        let target = &mut self.machines[usize::from(machine)];
        if let Some(turning) = target.turning.get_mut(usize::from(worker))
            && !*turning
        {
            *turning = true;
            let epoch = target.epoch;
            let time = time.max(target.paused_until_us) + self.network.between(0, 5);
            self.at(time, Event::Turn { machine, epoch, worker });
        }
    }

    fn turn(&mut self, machine: u16, worker: u16) -> Result<(), String> {
        let target = &mut self.machines[usize::from(machine)];
        if target.paused_until_us > self.now_us {
            let (epoch, time) = (target.epoch, target.paused_until_us);
            self.at(time, Event::Turn { machine, epoch, worker });
            return Ok(());
        }
        let sent = target.turn(self.now_us, worker)?;
        for item in sent {
            self.carry(machine, worker, item);
        }
        // Time-outs and long snapshots need a turn now and then.
        let busy = self.ending
            || self.now_us < self.faults_end_us
            || self.clients.iter().any(Client::is_busy);
        let target = &mut self.machines[usize::from(machine)];
        if busy && !std::mem::replace(&mut target.ticking[usize::from(worker)], true) {
            let pause_us = if self.shape.is_cluster() { 10_000 } else { 2_000 };
            let (epoch, time) = (target.epoch, self.now_us + pause_us);
            self.at(time, Event::Tick { machine, epoch, worker });
        }
        Ok(())
    }

    fn carry(&mut self, machine: u16, from: u16, item: Sent) {
        match item {
            Sent::Worker(to, input) => {
                let channels = &mut self.machines[usize::from(machine)].channels;
                let last = channels.get(&(from, to)).copied().unwrap_or(0);
                let time = (self.now_us + self.network.tail(self.channel_us)).max(last + 1);
                channels.insert((from, to), time);
                self.deliver_at(time, machine, to, input);
            }
            Sent::Machine(to, generation, parcel) => {
                self.send_parcel((MachineId(machine + 1), to), generation, parcel);
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
                self.machines[usize::from(machine)].write(persist);
                self.start_sync(machine);
            }
            Sent::Transfer(transfer) => self.transfer(machine, from, transfer),
            Sent::Map(map) => self.machines[usize::from(machine)].disk.keep_map(*map),
            Sent::Snapshot(shard, index, bytes) => {
                let epoch = self.machines[usize::from(machine)].epoch;
                let time = self.now_us + self.disks.tail(self.disk_us);
                self.at(time, Event::SnapshotSaved { machine, epoch, shard, index, bytes });
            }
        }
    }

    fn send_parcel(&mut self, way: (MachineId, MachineId), generation: u64, parcel: Box<Parcel>) {
        if matches!(*parcel, Parcel::Sleep { .. }) {
            self.fault("sleeps");
        }
        if let Some((time, parcel)) = self.links.send(self.now_us, way, generation, parcel) {
            self.at(time, Event::Parcel { from: way.0, to: way.1, generation, parcel });
        }
    }

    fn start_sync(&mut self, machine: u16) {
        let target = &mut self.machines[usize::from(machine)];
        if target.start_sync() {
            let epoch = target.epoch;
            let time = self.now_us + self.disks.tail(self.disk_us);
            self.at(time, Event::Synced { machine, epoch });
        }
    }

    fn synced(&mut self, machine: u16) {
        for (shard, number) in self.machines[usize::from(machine)].synced() {
            let worker = shard.0 % self.shape.workers;
            let input = Box::new(Input::Persisted(shard, number));
            self.deliver_at(self.now_us + 1, machine, worker, input);
        }
        self.start_sync(machine);
    }
}
