//! Cluster without faults and with exact delays: measures the cost of a protocol in message delays,
//! with the product's own gateways, shards and logs.
//!
//! Processors take no time here, so the measurement is of the protocol alone: the message delays
//! before a client has its answer, the traffic, and the writes.

use crate::machine::Machine;
use crate::machine::build::Build;
use crate::machine::network::Frame;
use crate::machine::server::{Input, Sent, Worker, start};
use crate::machine::shape::{Shape, address};
use adt::Reply;
use engine::cluster::level::Level;
use engine::cluster::map::{MapError, ShardMap};
pub use engine::gateway::Order;
use engine::ids::{MachineId, ShardId};
use engine::message::Concurrency;
pub use engine::node::ParcelKind;
use engine::node::Transfer;
use std::collections::BTreeMap;
use wire::peer::PeerFormat;

/// Interval at which a worker checks its timers.
const TICK_US: u64 = 10_000;
/// Time-out for a cluster to reach the planned state.
const PATIENCE_US: u64 = 120_000_000;
/// Interval of checks whether it has.
const LOOK_US: u64 = 100_000;

/// Layout of the lab.
#[derive(Clone, Debug)]
pub struct Plan {
    /// For each shard, the machines that hold it, counted from 1; the first one leads it. Machines
    /// that hold nothing have higher numbers than all that do.
    pub holders: Vec<Vec<u16>>,
    /// One-way delays in microseconds, from the machine of the row to that of the column.
    pub delays_us: Vec<Vec<u64>>,
    /// Duration of a disk write, in microseconds.
    pub disk_us: u64,
    /// Method that keeps the order of pipelines across shards.
    pub order: Order,
}

/// Messages and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages between machines that are caused by a client's request.
    pub messages: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Entries of all shards' logs.
    pub entries: u64,
}

#[derive(Debug)]
enum Event {
    Turn(usize),
    Tick(usize),
    Deliver(usize, Box<Input>),
    Frame { from: usize, to: usize, frame: Frame },
    Reply { client: usize, reply: Reply },
    Wake(usize),
}

/// Event at a client.
#[derive(Debug)]
pub enum Seen {
    /// Reply.
    Reply(Reply),
    /// Wake-up that the client requested.
    Woken,
}

/// Cluster with its clients.
pub struct Lab {
    plan: Plan,
    now_us: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Event>,
    machines: Vec<Machine>,
    /// Machine to which each client is connected.
    clients: Vec<usize>,
    format: PeerFormat,
    messages: u64,
    bytes: u64,
}

impl Lab {
    /// Starts the machines and waits until they hold and lead the shards of the plan.
    ///
    /// # Errors
    /// If the plan is invalid, or is not reached.
    pub fn new(plan: Plan) -> Result<Self, String> {
        let machines = plan.delays_us.len();
        let founders = plan.holders.iter().flatten().copied().max().unwrap_or(0);
        if usize::from(founders) > machines || plan.holders.iter().any(Vec::is_empty) {
            return Err("every shard is held by machines that there are".to_owned());
        }
        let shape = Shape {
            machines: machines as u16,
            founders,
            clustered: true,
            workers: 1,
            shards: plan.holders.len() as u16,
            volatile: false,
            concurrency: Concurrency::FULL,
            level: Level::NEWEST,
            order: plan.order,
            tree: 1,
            placed: false,
        };
        let machine = |number| Machine::new(MachineId(number), Build::default(), vec![0]);
        let mut lab = Self {
            machines: (1..=machines as u16).map(machine).collect(),
            plan,
            now_us: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            clients: Vec::new(),
            format: PeerFormat::default(),
            messages: 0,
            bytes: 0,
        };
        for (number, machine) in lab.machines.iter_mut().enumerate() {
            machine.epoch = 1;
            machine.life = 1;
            let (who, now) = ((machine.id, 1, machine.build), machine.now(0, 0));
            let mut workers = start(shape, who, number as u64, &mut machine.disk, now, None)?;
            workers.iter_mut().for_each(Worker::read_all_at_once);
            machine.start(workers);
        }
        for one in 0..machines {
            lab.wake(one);
            for other in (0..machines).filter(|other| *other != one) {
                let id = MachineId(other as u16 + 1);
                lab.hand_in(one, Input::Connected(id, 1, Level::NEWEST));
            }
        }
        lab.arrange(founders)?;
        Ok(lab)
    }

    /// Brings the cluster to the state of the plan.
    fn arrange(&mut self, founders: u16) -> Result<(), String> {
        self.wait_for("leaders", |lab| {
            (0..lab.plan.holders.len()).all(|shard| lab.leader(shard).is_some())
        })?;
        for number in usize::from(founders) + 1..=self.machines.len() {
            let machine = MachineId(number as u16);
            self.change(|map| map.with(machine, &address(machine)))?;
        }
        for shard in 0..self.plan.holders.len() {
            let mut holders: Vec<MachineId> =
                self.plan.holders[shard].iter().copied().map(MachineId).collect();
            let id = ShardId(shard as u16);
            // The leader must not lose its replica in the change.
            self.wait_for("a lead", |lab| lab.lead_as_planned(shard))?;
            holders.sort_unstable();
            self.change(|map| map.placed(id, &holders))?;
        }
        self.wait_for("leads", |lab| {
            (0..lab.plan.holders.len()).all(|shard| lab.lead_as_planned(shard))
        })
    }

    /// Whether the planned machine leads a shard; asks for the change if not.
    fn lead_as_planned(&mut self, shard: usize) -> bool {
        let wanted = usize::from(self.plan.holders[shard][0]) - 1;
        match self.leader(shard) {
            Some(leader) if leader == wanted => return true,
            Some(leader) => {
                let to = MachineId(wanted as u16 + 1);
                self.hand_in(leader, Input::HandOver(ShardId(shard as u16), to));
            }
            None => {}
        }
        false
    }

    /// Changes the cluster's map, and waits until its machines have the new one.
    fn change(
        &mut self,
        next: impl Fn(&ShardMap) -> Result<ShardMap, MapError>,
    ) -> Result<(), String> {
        let map = self.machines[0].workers[0].node().map().cloned();
        let map = map.ok_or("the first machine has no shard map")?;
        let next = next(&map).map_err(|error| error.to_string())?;
        let words = ["shardmap".to_owned(), "set".to_owned(), next.to_string()];
        self.hand_in(0, Input::Operate(words.to_vec()));
        self.wait_for("a shard map", |lab| {
            let epoch = |m: &Machine| m.workers[0].node().map().map(|map| map.epoch);
            lab.machines.iter().all(|machine| epoch(machine) == Some(next.epoch))
        })
    }

    fn wait_for(
        &mut self,
        what: &str,
        mut is_there: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), String> {
        let until_us = self.now_us + PATIENCE_US;
        while !is_there(self) {
            if self.now_us > until_us {
                return Err(format!("waited for {what} in vain"));
            }
            let look_us = self.now_us + LOOK_US;
            while self.next(look_us)?.is_some() {}
        }
        Ok(())
    }

    /// Machine that leads a shard.
    fn leader(&self, shard: usize) -> Option<usize> {
        let id = ShardId(shard as u16);
        self.machines.iter().position(|machine| {
            let replica = machine.workers[0].node().replica(id);
            replica.is_some_and(|replica| replica.leading().is_some() && replica.is_serving())
        })
    }

    /// Connects a client that is next to a machine, counted from 1. Returns its number.
    pub fn connect(&mut self, machine: u16) -> usize {
        let client = self.clients.len();
        self.clients.push(usize::from(machine) - 1);
        self.hand_in(usize::from(machine) - 1, Input::Open(client as u64));
        client
    }

    /// Sends commands of a client, all at once.
    pub fn send(&mut self, client: usize, commands: Vec<Vec<String>>) {
        let machine = self.clients[client];
        for command in commands {
            self.hand_in(machine, Input::Command(client as u64, command));
        }
    }

    /// Schedules a wake-up of a client.
    pub fn wake_at(&mut self, client: usize, at_us: u64) {
        self.at(at_us, Event::Wake(client));
    }

    /// Next event at a client, at the latest at `until_us`.
    ///
    /// # Errors
    /// If a machine fails.
    pub fn next(&mut self, until_us: u64) -> Result<Option<(usize, Seen)>, String> {
        while let Some(entry) = self.queue.first_entry() {
            let (at_us, _) = *entry.key();
            if at_us > until_us {
                break;
            }
            self.now_us = at_us;
            match entry.remove() {
                Event::Reply { client, reply } => return Ok(Some((client, Seen::Reply(reply)))),
                Event::Wake(client) => return Ok(Some((client, Seen::Woken))),
                Event::Turn(machine) => self.turn(machine)?,
                Event::Tick(machine) => {
                    self.machines[machine].ticking[0] = false;
                    self.wake(machine);
                }
                Event::Deliver(machine, input) => self.hand_in(machine, *input),
                Event::Frame { from, to, frame } => self.arrive(from, to, &frame)?,
            }
        }
        self.now_us = until_us;
        Ok(None)
    }

    /// Virtual time, in microseconds.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Messages and writes so far.
    pub fn traffic(&self) -> Traffic {
        let ids = (0..self.plan.holders.len() as u16).map(ShardId);
        let length = |id| {
            let replicas = self.machines.iter().filter_map(|m| m.workers[0].node().replica(id));
            replicas.map(|replica| replica.group().applied().0).max().unwrap_or(0)
        };
        Traffic { messages: self.messages, bytes: self.bytes, entries: ids.map(length).sum() }
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at_us, self.sequence), event);
    }

    fn hand_in(&mut self, machine: usize, input: Input) {
        self.machines[machine].workers[0].inbox.push_back(input);
        self.wake(machine);
    }

    fn wake(&mut self, machine: usize) {
        if !std::mem::replace(&mut self.machines[machine].turning[0], true) {
            self.at(self.now_us, Event::Turn(machine));
        }
    }

    fn turn(&mut self, machine: usize) -> Result<(), String> {
        for sent in self.machines[machine].turn(self.now_us, 0)? {
            self.carry(machine, sent)?;
        }
        if !std::mem::replace(&mut self.machines[machine].ticking[0], true) {
            self.at(self.now_us + TICK_US, Event::Tick(machine));
        }
        Ok(())
    }

    fn carry(&mut self, machine: usize, sent: Sent) -> Result<(), String> {
        match sent {
            Sent::Machine(to, _, frame) => {
                let (from, to) = (machine, usize::from(to.0) - 1);
                let at_us = self.now_us + self.plan.delays_us[from][to];
                self.at(at_us, Event::Frame { from, to, frame });
            }
            Sent::Client(client, reply) => {
                let client = client as usize;
                if client < self.clients.len() {
                    self.at(self.now_us, Event::Reply { client, reply });
                }
            }
            Sent::Disk(persist) => {
                let input = Box::new(Input::Persisted(persist.group, persist.number));
                self.machines[machine].disk.write(persist);
                self.machines[machine].disk.sync();
                self.at(self.now_us + self.plan.disk_us, Event::Deliver(machine, input));
            }
            Sent::Map(map) => self.machines[machine].disk.keep_map(*map),
            Sent::Transfer(Transfer::Remove(shard, promises)) => {
                let disk = &mut self.machines[machine].disk;
                disk.keep_promises(shard, promises);
                disk.remove(shard);
                self.hand_in(machine, Input::Removed(shard));
            }
            // There are no clients of the coordination service here.
            Sent::Guest(..) | Sent::Transfer(Transfer::GiveUp(_) | Transfer::Close(..)) => {}
            Sent::Worker(..) | Sent::Transfer(_) | Sent::Snapshot(..) => {
                return Err("a lab has one worker per machine, and no snapshots".to_owned());
            }
        }
        Ok(())
    }

    fn arrive(&mut self, from: usize, to: usize, frame: &Frame) -> Result<(), String> {
        let decoded = self.format.decode(&frame.bytes).ok().flatten();
        let (parcel, _) = decoded.ok_or("a frame is no message")?;
        if parcel.kind().is_work() {
            self.messages += 1;
            self.bytes += frame.bytes.len() as u64;
        }
        self.hand_in(to, Input::Parcel(MachineId(from as u16 + 1), Box::new(parcel)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T_US: u64 = 1_000;

    /// Three machines that hold three shards, and a fourth one that holds nothing, with a client.
    fn lab(order: Order) -> Lab {
        let holders = vec![vec![1, 2, 3], vec![2, 1, 3], vec![3, 1, 2]];
        let delays_us = vec![vec![T_US; 4]; 4];
        let mut lab = Lab::new(Plan { holders, delays_us, disk_us: 0, order }).unwrap();
        lab.connect(4);
        lab
    }

    /// Duration of a pipeline that sets these keys, in message delays.
    fn delays(lab: &mut Lab, keys: &[&str]) -> f64 {
        let set = |key: &&str| ["set", key, "x"].map(str::to_owned).to_vec();
        let began_us = lab.now_us();
        lab.send(0, keys.iter().map(set).collect());
        for _ in keys {
            match lab.next(began_us + 1_000_000).unwrap() {
                Some((0, Seen::Reply(Reply::Ok))) => {}
                other => panic!("{other:?}"),
            }
        }
        (lab.now_us() - began_us) as f64 / T_US as f64
    }

    // Slots 15495, 3300 and 7365: a shard each.
    const KEYS: [&str; 3] = ["a", "b", "c"];

    #[test]
    fn a_pipeline_over_shards_takes_five_delays_whatever_its_length() {
        let mut lab = lab(Order::Constant);
        assert_eq!(delays(&mut lab, &KEYS[..1]), 4.0);
        assert_eq!(delays(&mut lab, &KEYS[..2]), 5.0);
        let long: Vec<&str> = KEYS.into_iter().cycle().take(32).collect();
        assert_eq!(delays(&mut lab, &long), 5.0);
    }

    #[test]
    fn handed_on_it_takes_six_and_one_for_each_that_comes_after_the_first() {
        let mut lab = lab(Order::Chain);
        assert_eq!(delays(&mut lab, &KEYS[..1]), 4.0);
        assert_eq!(delays(&mut lab, &KEYS[..2]), 7.0);
        let long: Vec<&str> = KEYS.into_iter().cycle().take(32).collect();
        assert_eq!(delays(&mut lab, &long), 37.0);
        // Consecutive commands on one shard are handed on together.
        assert_eq!(delays(&mut lab, &["a", "b", "b", "b", "c"]), 8.0);
    }

    #[test]
    fn without_dispatch_it_takes_four_for_each() {
        let mut lab = lab(Order::Single);
        assert_eq!(delays(&mut lab, &KEYS), 12.0);
        let mut lab = super::tests::lab(Order::None);
        assert_eq!(delays(&mut lab, &KEYS), 4.0);
    }
}
