//! Number of network crossings of a command, and time of a shard without a leader, counted exactly:
//! three replicas of one shard and a client, with equal delays between all of them, and disks with
//! a fixed delay.

use adt::{ArgBuf, record};
use engine::entry::Apply;
use engine::ids::{GatewayId, KeyedOp, MachineId, ShardId, Token};
use engine::limits::{ELECTION_TICKS, SILENT_US, TICK_US};
use engine::message::{Body, Concurrency, Request};
use engine::now::Now;
use engine::replica::{Replica, Setup};
use engine::replication::{Membership, Recovered};
use engine::shard;
use raft::eraftpb::Message;
use std::collections::BTreeMap;
use wire::entry::EntryFormat;

const GATEWAY: GatewayId = GatewayId { machine: MachineId(1), worker: 0, life: 1 };
const MACHINES: usize = 3;
/// Number of elections.
const SEEDS: u64 = 2_000;
/// Longer than any election.
const CALM_US: u64 = 10_000_000;

/// Event on its way to a machine.
enum Coming {
    Request(Box<Body>),
    Message(Box<Message>),
    Durable(u64),
    Tick,
    /// The leader announces that its group sleeps: leader, term, and last entry.
    Lull(MachineId, u64, u64),
    /// Another replica does not sleep.
    Wake,
    /// A machine has fallen silent.
    Silent(MachineId),
}

/// Machines and scheduled events. Local events take no time.
struct World {
    replicas: Vec<Replica<EntryFormat>>,
    now: Now,
    way_us: u64,
    disk_us: u64,
    /// By time and order of sending.
    coming: BTreeMap<(u64, u64), (usize, Coming)>,
    sent: u64,
    /// Time of the last answer.
    answered_us: Option<u64>,
    /// Machine that has stopped.
    dead: Option<usize>,
}

impl World {
    fn new(way_us: u64, disk_us: u64) -> Self {
        Self::of_seed(way_us, disk_us, 0)
    }

    fn of_seed(way_us: u64, disk_us: u64, seed: u64) -> Self {
        let now = Now { wall_us: 1_000_000_000, mono_us: 1_000_000 };
        let voters: Vec<_> = (1..=MACHINES as u16).map(MachineId).collect();
        let replica = |&own: &MachineId| {
            let setup = Setup {
                shard: shard::ShardConfig {
                    id: ShardId(0),
                    concurrency: Concurrency::named("full").unwrap(),
                    seed: seed * 10 + u64::from(own.0),
                    beside: GatewayId { machine: own, ..GATEWAY },
                    clustered: true,
                    reap_us: engine::limits::REAP_US,
                    broken: None,
                    interpreter: None,
                    tags: adt::command::tags::TagRules::NONE,
                },
                membership: Membership::clustered(own, voters.clone()),
            };
            Replica::recover(setup, EntryFormat, now, Vec::new(), Recovered::default()).unwrap()
        };
        let replicas = voters.iter().map(replica).collect();
        let (coming, sent, answered_us, dead) = (BTreeMap::new(), 0, None, None);
        let mut world = Self { replicas, now, way_us, disk_us, coming, sent, answered_us, dead };
        for machine in 0..MACHINES {
            // The ticks of different machines are not in step.
            let phase_us = seed * (7_919 + 104_729 * machine as u64) % TICK_US;
            world.send(machine, TICK_US + phase_us, Coming::Tick);
        }
        world.pass(CALM_US);
        world
    }

    fn leader(&self) -> usize {
        self.replicas.iter().position(Replica::is_serving).expect("a leader")
    }

    fn send(&mut self, to: usize, after_us: u64, what: Coming) {
        self.sent += 1;
        self.coming.insert((self.now.mono_us + after_us, self.sent), (to, what));
    }

    /// Processes all events of this period.
    fn pass(&mut self, us: u64) {
        let until = self.now.mono_us + us;
        while let Some((&(at, order), _)) = self.coming.range(..=(until, u64::MAX)).next() {
            let Some((machine, what)) = self.coming.remove(&(at, order)) else { return };
            self.now.wall_us += at - self.now.mono_us;
            self.now.mono_us = at;
            if self.dead == Some(machine) {
                continue;
            }
            self.happen(machine, what);
            self.end_turn(machine);
        }
        self.now.wall_us += until - self.now.mono_us;
        self.now.mono_us = until;
    }

    fn happen(&mut self, machine: usize, what: Coming) {
        let (replica, now) = (&mut self.replicas[machine], self.now);
        match what {
            Coming::Request(body) => {
                let body = *body;
                replica
                    .handle(now, Request { gateway: GATEWAY, token: Token(1), after: None, body });
            }
            Coming::Message(message) => replica.step(now, *message).unwrap(),
            Coming::Durable(number) => replica.persisted(now, number).unwrap(),
            Coming::Lull(from, term, index) => {
                if !replica.group_mut().fall_asleep(now.mono_us, from, term, index) {
                    self.send(usize::from(from.0) - 1, self.way_us, Coming::Wake);
                }
            }
            Coming::Wake => replica.wake(now),
            Coming::Silent(lost) => replica.doubt(now, lost, SILENT_US),
            Coming::Tick => {
                replica.tick(now).unwrap();
                self.send(machine, TICK_US, Coming::Tick);
            }
        }
    }

    fn end_turn(&mut self, machine: usize) {
        let (way_us, disk_us) = (self.way_us, self.disk_us);
        self.replicas[machine].end_turn(self.now).unwrap();
        while let Some(persist) = self.replicas[machine].take_persist() {
            self.send(machine, disk_us, Coming::Durable(persist.number));
        }
        let own = MachineId(machine as u16 + 1);
        let (machines, term, index) = self.replicas[machine].take_lull();
        for other in machines {
            self.send(usize::from(other.0) - 1, way_us, Coming::Lull(own, term, index));
        }
        if let Some(leader) = self.replicas[machine].group_mut().take_nudge() {
            self.send(usize::from(leader.0) - 1, way_us, Coming::Wake);
        }
        for message in self.replicas[machine].group_mut().take_messages() {
            self.send(message.to as usize - 1, way_us, Coming::Message(Box::new(message)));
        }
        while self.replicas[machine].shard_mut().outbox_mut().poll().is_some() {
            self.answered_us = Some(self.now.mono_us);
        }
    }

    /// Waiting time of a client that asks a machine now.
    fn takes_us(&mut self, machine: usize, body: Body) -> u64 {
        let began_us = self.now.mono_us;
        self.answered_us = None;
        self.send(machine, self.way_us, Coming::Request(Box::new(body)));
        self.pass(CALM_US / 10);
        self.answered_us.expect("an answer") + self.way_us - began_us
    }
}

fn op(line: &str) -> KeyedOp {
    record::decode(&ArgBuf::of(line.split(' ')).args()).unwrap()
}

fn read() -> Body {
    let (key, op) = op("get k");
    Body::Read { key, op, fenced: false }
}

fn write() -> Body {
    Body::Apply(Apply { ops: [op("incr k")].into_iter().collect(), ..Apply::default() })
}

#[test]
fn a_write_goes_to_the_leader_on_to_a_follower_and_back() {
    for way_us in [1_000, 5_000, 20_000, 50_000] {
        let mut world = World::new(way_us, 0);
        for _ in 0..10 {
            let leader = world.leader();
            assert_eq!(world.takes_us(leader, write()), 4 * way_us);
        }
    }
}

#[test]
fn the_leaders_disk_works_while_the_entry_is_on_its_way() {
    for (way_us, disk_us) in [(5_000, 1_000), (5_000, 10_000), (20_000, 4_000)] {
        let mut world = World::new(way_us, disk_us);
        let leader = world.leader();
        assert_eq!(world.takes_us(leader, write()), 4 * way_us + disk_us);
    }
}

#[test]
fn a_read_under_a_lease_goes_to_the_leader_and_back() {
    for way_us in [1_000, 5_000, 20_000, 50_000] {
        let mut world = World::new(way_us, 0);
        let leader = world.leader();
        // There was no read for long, so a majority is asked once.
        assert_eq!(world.takes_us(leader, read()), 4 * way_us);
        for _ in 0..10 {
            assert_eq!(world.takes_us(leader, read()), 2 * way_us);
        }
    }
}

/// Times without a leader after the loss of one, by seed, sorted.
fn gaps_us(way_us: u64, disk_us: u64) -> Vec<u64> {
    let gap_us = |seed| {
        let mut world = World::of_seed(way_us, disk_us, seed);
        let lost = world.leader();
        world.dead = Some(lost);
        for other in (0..MACHINES).filter(|other| *other != lost) {
            world.send(other, SILENT_US, Coming::Silent(MachineId(lost as u16 + 1)));
        }
        let began_us = world.now.mono_us;
        let serves =
            |world: &World, machine: usize| machine != lost && world.replicas[machine].is_serving();
        while !(0..MACHINES).any(|machine| serves(&world, machine)) {
            world.pass(1_000);
        }
        world.now.mono_us - began_us
    };
    let mut gaps: Vec<u64> = (1..=SEEDS).map(gap_us).collect();
    gaps.sort_unstable();
    gaps
}

#[test]
fn a_lost_leader_is_replaced_within_two_election_time_outs_and_a_second() {
    const BOUND_US: u64 = 2 * ELECTION_TICKS as u64 * TICK_US + 1_000_000;
    for (way_us, disk_us) in [(500, 5_000), (20_000, 20_000)] {
        let gaps = gaps_us(way_us, disk_us);
        let late = gaps.iter().filter(|gap| **gap > BOUND_US).count();
        let [median, p99, p999] = [500, 990, 999].map(|part| gaps[gaps.len() * part / 1000]);
        // Two machines may stand for election at once and both fail, repeatedly.
        assert!(p99 <= BOUND_US, "{way_us}, {disk_us}: {median}, {p99}, {p999}, {late} late");
    }
}
