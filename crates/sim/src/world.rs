//! World of a simulated run: machines, disks, clients, and the faults that the seed brings.

mod agreement;
mod backups;
mod begin;
mod carry;
pub(crate) mod clients;
mod faults;
mod losses;
mod operator;
mod steps;
mod transfers;
mod upgrade;

use crate::clients::cacher::Cacher;
use crate::clients::client::Client;
use crate::clients::guest::Guest;
use crate::clients::holder::Holder;
use crate::machine::Machine;
use crate::machine::disk::Disk;
use crate::machine::network::{Frame, Network};
use crate::machine::server::{Input, start};
use crate::machine::shape::Shape;
use crate::plant::Plant;
use crate::random::Random;
use crate::swarm::{Fault, Swarm};
use crate::traces::trace::Trace;
use adt::Reply;
use carry::Batches;
use clients::Connection;
use engine::cluster::map::ShardMap;
use engine::coordination::spread::Spread;
use engine::gateway::Said;
use engine::ids::{MachineId, ShardId};
use engine::limits::{IDLE_HOLDER_US_MAX, STREAM_KEPT_US, TICK_US};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use steps::Steps;
use wire::peer::PeerFormat;

/// Duration of the faults, in microseconds of virtual time, on one machine and on several; after
/// that the run only completes open work, on healthy machines.
const FAULTS_US: u64 = 3_000_000;
const CLUSTER_FAULTS_US: u64 = 12_000_000;
/// Time-out for the end of a run. Anything still open then is stuck.
const PATIENCE_US: u64 = 60_000_000;
/// Limit on the events of a run, against endless loops.
const EVENTS_MAX: u64 = 6_000_000;
/// Time for the machines to agree after the last client has finished.
const AGREE_US: u64 = 10_000_000;
/// Factor on that time if shards have to move first.
const RESHAPED_ROUNDS: u32 = 4;
/// Time-out for a reply. Shorter than the time that a shard grants idle holders of locks, so that
/// the idle limit cannot hide a forgotten lock.
const WAIT_US_MAX: u64 = IDLE_HOLDER_US_MAX / 5 * 4;

/// Outcome of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Hash over all events, in order.
    pub trace_hash: u64,
    /// Virtual time, in microseconds.
    pub simulated_us: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Number of occurrences of rare events, by name.
    pub marks: BTreeMap<&'static str, u64>,
    /// Observations of the clients.
    pub events: Vec<check::Event>,
    /// Observations of clients of the coordination service, if there were any.
    pub sessions: Option<check::coordination::History>,
    /// Shards of their tree.
    pub tree: Spread,
    /// Acts of clients of locks, if there were any.
    pub locks: Option<check::locks::History>,
    /// Contents of the disks at the end.
    pub disk: Disk,
    /// Values in the records at the end.
    pub held: BTreeSet<Vec<u8>>,
    /// Reason why the run failed, if it did.
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
    HasMail {
        machine: u16,
        epoch: u64,
        worker: u16,
    },
    Post {
        machine: u16,
        epoch: u64,
        worker: u16,
        left: Batches,
    },
    Deliver {
        machine: u16,
        epoch: u64,
        worker: u16,
        input: Box<Input>,
    },
    Frame {
        from: MachineId,
        to: MachineId,
        generation: u64,
        frame: Frame,
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
    SeedWritten {
        machine: u16,
        epoch: u64,
        which: (ShardId, u64),
        index: u64,
    },
    SnapshotReceived {
        machine: u16,
        epoch: u64,
        which: (ShardId, u64),
        from: MachineId,
        index: u64,
    },
    Wake {
        client: u64,
    },
    ToClient {
        client: u64,
        connection: u64,
        reply: Reply,
    },
    WakeGuest {
        guest: u64,
    },
    ToGuest {
        guest: u64,
        connection: u64,
        said: Said,
    },
    Fault(Fault),
    Restart {
        machine: u16,
    },
    /// A machine replaces a lost one, under its own number.
    Replace,
    /// An operator repairs the cluster after the loss of machines.
    Repair,
    /// An operator upgrades or downgrades machines.
    Upgrade,
    Remove {
        machine: u16,
        epoch: u64,
        shard: ShardId,
    },
    ComeBack {
        machine: u16,
    },
    Disbelieve {
        machine: u16,
    },
    Mend {
        from: MachineId,
        to: MachineId,
    },
    /// Machines check their connections.
    Connections,
    /// Replicas that have applied the same entries are compared.
    Compare,
}

/// State of a run.
pub struct World {
    seed: u64,
    shape: Shape,
    swarm: Swarm,
    plant: Option<Plant>,
    now_us: u64,
    /// Time at which faults end, and from which clients begin nothing new.
    faults_end_us: u64,
    /// Maps that operators have sent to machines.
    sent_maps: Vec<ShardMap>,
    /// Whether the clients have finished and the machines are agreeing.
    ending: bool,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Event>,
    machines: Vec<Machine>,
    links: Network,
    format: PeerFormat,
    /// Pairs of machines of which one has been reported to the other as silent.
    silent: BTreeSet<(MachineId, MachineId)>,
    /// Time before which clients send nothing.
    lull_until_us: u64,
    clients: Vec<Client>,
    connections: BTreeMap<u64, Connection>,
    connection_numbers: u64,
    /// Clients of the coordination service, and their connections.
    guests: Vec<Guest>,
    lines: BTreeMap<u64, Connection>,
    visits: Random,
    /// Clients of locks; their connections are among those of the other clients.
    holders: Vec<Holder>,
    /// Clients with caches; their connections are there, too.
    cachers: Vec<Cacher>,
    /// Smallest and largest deviation of wall clocks from true time.
    deviations_us: Option<(i64, i64)>,
    network: Random,
    disks: Random,
    faults: Random,
    /// Random numbers for the operator of an upgrade.
    builds: Random,
    /// Whether the operator has asked for the newest level.
    raises: bool,
    trace: Trace,
    steps: Steps,
    /// Backup in progress.
    keeping: Option<backups::Keeping>,
    outcome: Outcome,
}

impl World {
    /// Runs to the end.
    pub fn run(mut self) -> Outcome {
        if let Err(failure) = self.live() {
            self.outcome.failure = Some(failure);
        }
        for client in &mut self.clients {
            client.stop(self.now_us);
            self.outcome.events.append(&mut client.events);
            for (mark, count) in &client.marks {
                *self.outcome.marks.entry(mark).or_default() += count;
            }
        }
        self.note_guests();
        self.note_holders();
        self.note_cachers();
        let overwritten = self.machines.iter().map(|machine| machine.disk.overwritten as u64).sum();
        if overwritten > 0 {
            self.outcome.marks.insert("entries_overwritten", overwritten);
        }
        self.outcome.events.sort_by_key(|e| (e.time_us, e.kind != check::EventKind::Invoke));
        self.outcome.simulated_us = self.now_us;
        self.outcome.trace_hash = self.trace.hash();
        let present = self.machines.iter().filter(|machine| !machine.is_retired);
        self.outcome.held = self.held_values();
        self.outcome.disk = Disk::longest(present.map(|machine| &machine.disk));
        self.outcome
    }

    fn live(&mut self) -> Result<(), String> {
        self.begin()?;
        while let Some(((time, _), event)) = self.queue.pop_first() {
            self.now_us = self.now_us.max(time);
            self.note(&event);
            self.happen(event)?;
            let over = self.now_us > self.faults_end_us;
            if over {
                self.links.set_calm(true);
            }
            if over && !self.is_busy() {
                return self.end();
            }
            if self.sequence > EVENTS_MAX {
                return Err(format!("more than {EVENTS_MAX} events: the run does not end"));
            }
            if self.now_us > self.faults_end_us + PATIENCE_US {
                let stuck = self.stuck();
                return Err(format!(
                    "{} clients are still waiting long after the last fault:\n{}",
                    stuck.len(),
                    stuck.join("\n")
                ));
            }
        }
        Ok(())
    }

    /// Whether some client waits.
    fn is_busy(&self) -> bool {
        let holds = self.holders.iter().any(Holder::is_busy);
        holds || self.clients.iter().any(Client::is_busy) || self.guests.iter().any(Guest::is_busy)
    }

    fn end(&mut self) -> Result<(), String> {
        if !self.shape.is_cluster() {
            self.check_caches()?;
            return self.final_restart();
        }
        self.agree()?;
        self.check_caches()?;
        self.forget_pipelines()?;
        if self.check_sessions().is_err() {
            // A leader may have been elected a moment ago; it grants every session its whole
            // time-out.
            self.go_on_for(AGREE_US)?;
            self.check_sessions()?;
        }
        // The contents of each disk must suffice as well.
        for machine in self.present() {
            self.crash(machine);
        }
        for machine in self.present() {
            self.boot(machine)?;
        }
        self.agree()
    }

    /// Restarts once more: the contents of the disk must suffice.
    fn final_restart(&mut self) -> Result<(), String> {
        self.crash(0);
        self.boot(0)?;
        // Shards ask each other for the outcomes of pipelines.
        self.ending = true;
        self.go_on_for(AGREE_US)?;
        for worker in &self.machines[0].workers {
            for replica in worker.node().replicas() {
                let open = replica.shard().state().prepared().len();
                if open > 0 {
                    return Err(format!("{open} transactions are still open after a restart"));
                }
            }
        }
        self.forget_pipelines()?;
        self.check_sessions()
    }

    /// Checks that the state of pipelines is dropped when it can no longer be asked for. After a
    /// leap of a clock that may be a day later: then all pipelines must be settled at least.
    fn forget_pipelines(&mut self) -> Result<(), String> {
        let leapt = self.outcome.faults.contains_key("clock_leaps");
        // A new leader counts the time anew.
        let until = self.now_us + 2 * STREAM_KEPT_US + AGREE_US;
        loop {
            let mut found = String::new();
            for machine in self.machines.iter().filter(|machine| machine.is_up()) {
                for replica in machine.workers.iter().flat_map(|worker| worker.node().replicas()) {
                    let shard = replica.shard();
                    let streams = shard.state().streams();
                    let open = streams.iter().find(|(_, kept)| !kept.is_settled());
                    let known = !shard.streams().is_quiet() || !streams.is_empty();
                    if known && (!leapt || open.is_some()) {
                        let (id, shard, term) = (machine.id.0, replica.id().0, replica.leading());
                        let what = open.or_else(|| streams.iter().next());
                        let _ = writeln!(
                            found,
                            "machine {id}, shard {shard}, leads {term:?}: {what:?}"
                        );
                    }
                }
            }
            if found.is_empty() {
                return Ok(());
            }
            if self.now_us > until {
                return Err(format!("pipelines are still known at the end:\n{found}"));
            }
            self.go_on_for(AGREE_US / 10)?;
        }
    }

    /// Checks that all machines hold the same after some time without faults.
    fn agree(&mut self) -> Result<(), String> {
        self.ending = true;
        for machine in self.present() {
            for worker in 0..self.shape.workers {
                self.wake_worker(machine, worker, self.now_us);
            }
        }
        // A machine that is down for long may be the only one with some data.
        let down = |machine: &Machine| !machine.is_retired && !machine.is_up();
        while self.machines.iter().any(down) && self.now_us < self.faults_end_us + PATIENCE_US {
            self.go_on_for(AGREE_US / 10)?;
        }
        // An operator has more to repair then.
        let reshaped = self.outcome.faults.contains_key("reshapings") || !self.lost().is_empty();
        let rounds = if reshaped { RESHAPED_ROUNDS } else { 1 };
        for _ in 1..rounds {
            self.go_on_for(AGREE_US)?;
            if self.check_agreement().is_ok() {
                return Ok(());
            }
        }
        self.go_on_for(AGREE_US)?;
        if self.check_agreement().is_ok() {
            return Ok(());
        }
        // A lease that has just ended is on its way into the log.
        self.go_on_for(AGREE_US / 10)?;
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

    fn mark(&mut self, kind: &'static str) {
        *self.outcome.marks.entry(kind).or_default() += 1;
    }

    fn note(&mut self, event: &Event) {
        self.trace.number(self.now_us);
        match event {
            Event::Frame { from, to, generation, frame } => {
                let way = u64::from(from.0) << 16 | u64::from(to.0);
                self.trace.number(way ^ generation << 32);
                self.trace.bytes(&frame.bytes);
            }
            Event::Turn { machine, epoch, worker } | Event::Tick { machine, epoch, worker } => {
                self.trace.number(u64::from(*machine) << 16 | u64::from(*worker) | epoch << 32);
            }
            event => self.trace.note(format_args!("{event:?}")),
        }
    }

    /// Machines that are not lost, up or down.
    fn present(&self) -> Vec<u16> {
        let all = (0..).zip(&self.machines);
        all.filter(|(_, machine)| !machine.is_retired).map(|(index, _)| index).collect()
    }

    /// Random machine among those.
    fn any_machine(&mut self) -> u16 {
        let present = self.present();
        *self.faults.pick(&present)
    }

    fn boot(&mut self, index: u16) -> Result<(), String> {
        let (shape, plant, build) =
            (self.shape, self.plant, self.machines[usize::from(index)].build);
        let machine = &mut self.machines[usize::from(index)];
        machine.epoch += 1;
        machine.life += 1;
        if plant == Some(Plant::ForgottenMap) {
            machine.disk.forget_map();
        }
        let now = machine.now(self.now_us, 0);
        let seed = self.seed ^ machine.epoch;
        let who = (machine.id, machine.life, build);
        let workers = match start(shape, who, seed, &mut machine.disk, now, plant) {
            Ok(_) if machine.is_damaged => {
                return Err(format!("machine {} has started with a damaged disk", machine.id.0));
            }
            Err(_) if machine.is_damaged => {
                self.mark("damage_noticed");
                self.lose(index);
                return Ok(());
            }
            started => started?,
        };
        machine.tears_bundles = plant == Some(Plant::TornBundle);
        machine.start(workers);
        for worker in 0..shape.workers {
            self.wake_worker(index, worker, self.now_us);
        }
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
            Event::HasMail { machine, epoch, worker } if self.is_current(machine, epoch) => {
                self.wake_worker(machine, worker, self.now_us);
            }
            Event::Post { machine, epoch, worker, left } if self.is_current(machine, epoch) => {
                self.post(machine, worker, left);
            }
            Event::Deliver { machine, epoch, worker, input } if self.is_current(machine, epoch) => {
                self.hand_in(machine, worker, *input);
            }
            Event::Frame { from, to, generation, frame }
                if self.links.is_current((from, to), generation) =>
            {
                self.arrive(from, to, &frame);
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
                // Now and then memory is short.
                machine.workers[worker].compact(shard, index, index % 4 == 0);
            }
            Event::SeedWritten { machine, epoch, which, index }
                if self.is_current(machine, epoch) =>
            {
                self.seed_written(machine, which, index);
            }
            Event::SnapshotReceived { machine, epoch, which, from, index }
                if self.is_current(machine, epoch) =>
            {
                self.snapshot_received(machine, which, from, index);
            }
            Event::Wake { client } => self.wake_client(client),
            Event::ToClient { client, connection, reply }
                if self.connections.get(&client).is_some_and(|c| c.number == connection) =>
            {
                self.deliver_reply(client, reply)?;
            }
            Event::WakeGuest { guest } => self.wake_guest(guest),
            Event::ToGuest { guest, connection, said }
                if self.lines.get(&guest).is_some_and(|line| line.number == connection) =>
            {
                self.tell_guest(guest, said);
            }
            Event::Fault(fault) => self.inflict(fault),
            Event::Restart { machine } => self.restart(machine)?,
            Event::Replace => self.replace()?,
            Event::Repair => self.repair(),
            Event::Upgrade => self.go_on_upgrading(),
            Event::Remove { machine, epoch, shard } if self.is_current(machine, epoch) => {
                self.remove(machine, shard);
            }
            Event::ComeBack { machine } => self.stand_back(machine, false),
            Event::Disbelieve { machine } => self.believe(machine, TICK_US),
            Event::Mend { from, to } => self.mend(from, to),
            Event::Connections => self.look_after_connections(),
            Event::Compare => self.compare()?,
            _ => {}
        }
        Ok(())
    }

    fn restart(&mut self, machine: u16) -> Result<(), String> {
        let found = &self.machines[usize::from(machine)];
        if found.is_up() || found.is_retired { Ok(()) } else { self.boot(machine) }
    }
}
