//! Beginning of a run: draws the parameters, starts machines and fills the accounts.

use super::clients::cachers::CACHERS;
use super::clients::holders::HOLDERS;
use super::{CLUSTER_FAULTS_US, Event, FAULTS_US, Outcome, PATIENCE_US, Steps, World};
use crate::clients::cacher::Cacher;
use crate::clients::client::Client;
use crate::clients::guest::Guest;
use crate::clients::holder::Holder;
use crate::clients::workload::{ACCOUNTS, CELL, DEPOSIT, account, is_lost, seen, typed};
use crate::machine::Machine;
use crate::machine::network::Network;
use crate::plant::Plant;
use crate::random::Random;
use crate::swarm::{Focus, Swarm};
use crate::traces::trace::Trace;
use adt::Reply;
use engine::coordination::spread::Spread;
use engine::ids::MachineId;
use std::collections::{BTreeMap, BTreeSet};
use wire::peer::PeerFormat;

/// Pause before another attempt to fill the accounts.
const DEPOSIT_AGAIN_US: u64 = 100_000;

impl World {
    /// Creates the run of a seed.
    pub fn new(seed: u64, focus: Focus, plant: Option<Plant>) -> Self {
        let swarm = Swarm::new(seed, focus, plant);
        let shape = swarm.shape;
        let client = |id| {
            let client = Client::new(seed, id, swarm.mix.clone(), swarm.manners);
            if shape.order.is_kept() { client.keep_order() } else { client }
        };
        let spread = Spread::over(shape.tree);
        let mut world = Self {
            seed,
            shape,
            plant,
            now_us: 0,
            faults_end_us: u64::MAX,
            sent_maps: Vec::new(),
            ending: false,
            sequence: 0,
            queue: BTreeMap::new(),
            machines: Vec::new(),
            links: Network::new(seed, swarm.link_us, swarm.uneven_links),
            silent: BTreeSet::new(),
            lull_until_us: 0,
            format: PeerFormat::default(),
            clients: (0..swarm.clients).map(client).collect(),
            connections: BTreeMap::new(),
            connection_numbers: 0,
            guests: (0..swarm.guests)
                .map(|id| Guest::new(seed, id, swarm.habits, spread))
                .collect(),
            lines: BTreeMap::new(),
            holders: (0..swarm.holders).map(|id| Holder::new(seed, id, swarm.holding)).collect(),
            cachers: (0..swarm.cachers).map(|id| Cacher::new(seed, id)).collect(),
            deviations_us: None,
            visits: Random::new(seed, "visits"),
            network: Random::new(seed, "network"),
            disks: Random::new(seed, "disk"),
            faults: Random::new(seed, "faults"),
            builds: Random::new(seed, "builds"),
            raises: false,
            trace: Trace::default(),
            steps: Steps::default(),
            keeping: None,
            outcome: Outcome::default(),
            swarm,
        };
        for _ in 0..shape.machines {
            world.add_machine();
        }
        world
    }

    /// Adds a machine that was never started. Returns its index.
    pub(super) fn add_machine(&mut self) -> u16 {
        let number = self.machines.len() as u16 + 1;
        let mut random = Random::new(self.seed, &format!("machine {number}"));
        let (skew, drift) = (self.swarm.skew_us, self.swarm.drift_ppm);
        let offset = || random.between(0, 2 * skew) as i64 - skew as i64;
        let workers = usize::from(self.shape.workers);
        let offsets = std::iter::repeat_with(offset).take(workers).collect();
        let build = self.first_build(number - 1);
        let mut machine = Machine::new(MachineId(number), build, offsets);
        machine.drift_ppm = random.between(0, 2 * drift) as i64 - drift as i64;
        if self.plant == Some(Plant::SlowClock) && number == 1 {
            machine.drift_ppm = -700_000;
        }
        self.machines.push(machine);
        self.note_clocks();
        number - 1
    }

    pub(super) fn begin(&mut self) -> Result<(), String> {
        for machine in 0..self.shape.machines {
            self.boot(machine)?;
        }
        let cluster = self.shape.is_cluster();
        if cluster {
            self.look_after_connections();
        }
        self.deposit()?;
        self.faults_end_us = self.now_us + if cluster { CLUSTER_FAULTS_US } else { FAULTS_US };
        self.draw_faults();
        if cluster {
            self.at(self.now_us, Event::Compare);
            self.begin_upgrading();
        }
        for guest in 0..self.guests.len() as u64 {
            self.at(self.now_us + guest, Event::WakeGuest { guest });
        }
        for holder in 0..self.holders.len() as u64 {
            let client = HOLDERS + holder;
            self.at(self.now_us + holder, Event::Wake { client });
            // A client that waits for a lock then stops waiting.
            self.at(self.faults_end_us + 1, Event::Wake { client });
        }
        for cacher in 0..self.cachers.len() as u64 {
            self.at(self.now_us + cacher, Event::Wake { client: CACHERS + cacher });
        }
        for client in 0..self.clients.len() as u64 {
            let at = self.now_us + self.network.between(0, 1000);
            self.at(at, Event::Wake { client });
        }
        Ok(())
    }

    fn draw_faults(&mut self) {
        for (fault, count) in self.swarm.faults.clone() {
            for _ in 0..count {
                let time = self.faults.between(self.now_us, self.faults_end_us);
                self.at(time, Event::Fault(fault));
            }
        }
    }

    /// Fills the accounts before any client reads them.
    fn deposit(&mut self) -> Result<(), String> {
        let client = u64::MAX;
        // The machine that leads a shard may be lost before it answers.
        let number = ["client", "request", "deposit", "1"].map(str::to_owned).to_vec();
        let mut commands = vec![number, vec!["multi".to_owned()]];
        for number in 0..ACCOUNTS {
            commands.push(vec!["incrby".into(), account(number), DEPOSIT.to_string()]);
        }
        let first = ["rpush", "l0", "deposit"].map(str::to_owned).to_vec();
        let typed_first =
            if self.swarm.mix.is_typed() { typed(&first, false) } else { first.clone() };
        commands.push(typed_first);
        commands.push(vec!["exec".to_owned()]);
        let mut invoke = check::Event::new(client, check::EventKind::Invoke, self.now_us);
        let mut ops = commands[2..commands.len() - 1].to_vec();
        ops[ACCOUNTS as usize] = first;
        let bytes = |op: &Vec<String>| op.iter().map(|w| w.clone().into_bytes()).collect();
        invoke.txn = ops.iter().map(bytes).collect();
        let invoked = invoke.txn.len();
        self.outcome.events.push(invoke);
        if self.swarm.mix.is_typed() {
            let define = ["type.define", CELL[0], CELL[1]].map(str::to_owned).to_vec();
            commands.insert(0, define);
        }
        self.connect(client);
        for command in &commands {
            self.send(client, command.clone());
        }
        let mut replies = Vec::new();
        let mut again_us = None;
        while let Some(((time, _), event)) = self.queue.pop_first() {
            self.now_us = self.now_us.max(time);
            if again_us.take_if(|at_us| *at_us <= self.now_us).is_some() {
                for command in &commands {
                    self.send(client, command.clone());
                }
            }
            // Where messages are often as late as time-outs allow, elections fail for ever.
            self.links.set_calm(self.now_us > PATIENCE_US / 2);
            if self.now_us > PATIENCE_US {
                return Err("no leader is found at the beginning".to_owned());
            }
            if let Event::ToClient { reply, .. } = &event {
                if let Reply::Array(items) = reply {
                    // Replies may be lost with the machine that had them.
                    replies = items.iter().map(seen).collect();
                    break;
                }
                if let Reply::Error(error) = reply {
                    if is_lost(reply) {
                        replies = vec![None; invoked];
                        break;
                    }
                    let codes = ["CLUSTERDOWN", "INDEFINITE", "EXECABORT"];
                    // The type may not have been defined.
                    let unknown = error.text().starts_with("unknown command");
                    if unknown || codes.contains(&error.code()) {
                        // The election of the first leaders takes as long; an attempt that had an
                        // effect is answered again.
                        again_us = Some(self.now_us + DEPOSIT_AGAIN_US);
                        continue;
                    }
                    return Err(format!("the accounts are not filled: {error}"));
                }
                continue;
            }
            self.happen(event)?;
        }
        self.links.set_calm(false);
        self.now_us += 1;
        let mut done = check::Event::new(client, check::EventKind::Ok, self.now_us);
        done.replies = replies;
        self.outcome.events.push(done);
        self.connections.remove(&client);
        self.now_us += 1;
        Ok(())
    }
}
