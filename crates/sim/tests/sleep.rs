//! Stories about groups that have nothing to do: who sleeps, and what wakes them.

use adt::{ArgBuf, record};
use engine::entry::Apply;
use engine::limits::{ELECTION_TICKS, QUIET_US, SILENT_US, TICK_US};
use engine::map::ShardMap;
use engine::message::{
    Answer, Body, Concurrency, GatewayId, MachineId, Now, Request, ShardId, Token,
};
use engine::node::{Event, Node, Parcel, Placing, To};
use engine::replica::{Replica, Setup};
use engine::replication::{Membership, Recovered};
use engine::shard;
use std::collections::BTreeMap;
use wire::entry::EntryFormat;
use wire::snapshot::SnapshotFormat;

const SHARDS: u16 = 3;
/// Heartbeats, and whatever else is said about a log.
const LOG_TALK: fn(&Parcel) -> bool =
    |parcel| matches!(parcel, Parcel::Raft { .. } | Parcel::Sleep { .. } | Parcel::Wake { .. });

/// Three machines that hold three shards and the map, with quick disks. A machine that is dead hears
/// nothing and does nothing.
struct Story {
    nodes: Vec<Node<EntryFormat>>,
    now: Now,
    dead: [bool; 3],
    asked: u64,
    answers: BTreeMap<u64, Answer>,
    log_talk: usize,
}

fn node(own: u16, now: Now) -> Node<EntryFormat> {
    let id = GatewayId { machine: MachineId(own), worker: 0, life: 1 };
    let concurrency = Concurrency::named("full").unwrap();
    let voters: Vec<_> = (1..=3).map(MachineId).collect();
    let machines = voters.iter().map(|machine| (*machine, format!("m{}:1", machine.0)));
    let map = ShardMap::founded(machines.collect(), SHARDS);
    let replica = |shard| {
        let seed = u64::from(own) << 32;
        let config = shard::Config { id: shard, concurrency, seed, home: Some(id) };
        let membership = Membership::clustered(id.machine, voters.clone());
        let setup = Setup { shard: config, membership };
        Replica::recover(setup, EntryFormat, now, Vec::new(), Recovered::default()).unwrap()
    };
    let replicas = map.all().map(replica).collect();
    let placing = Placing {
        map: Some(map),
        left: Default::default(),
        codec: EntryFormat,
        concurrency,
        seed: 1,
    };
    Node::new(id, 1, SHARDS, Some(placing), replicas, Box::new(SnapshotFormat))
}

impl Story {
    fn new() -> Self {
        let now = Now { wall_us: 1_000_000_000, mono_us: 1_000_000 };
        let nodes = (1..=3).map(|own| node(own, now)).collect();
        let (dead, asked, answers, log_talk) = Default::default();
        let mut story = Self { nodes, now, dead, asked, answers, log_talk };
        for (at, node) in (1..).zip(&mut story.nodes) {
            (1..=3)
                .filter(|other| *other != at)
                .for_each(|other| node.connect(now, MachineId(other)));
        }
        story.pass(10_000_000);
        story
    }

    /// Ends the turn of every machine and carries what they say, until nobody says anything.
    fn settle(&mut self) {
        loop {
            let mut said = Vec::new();
            for (at, node) in self.nodes.iter_mut().enumerate().filter(|(at, _)| !self.dead[*at]) {
                for shard in node.active().to_vec() {
                    node.end_turn(self.now, shard).unwrap();
                    while let Some(persist) = node.take_persist(shard) {
                        node.persisted(self.now, persist.group, persist.number).unwrap();
                    }
                }
                while let Some(event) = node.poll() {
                    if let Event::Response(response) = event {
                        self.answers.insert(response.token.0, response.answer);
                    }
                }
                while let Some((to, parcel)) = node.poll_parcel() {
                    said.push((at, to, parcel));
                }
            }
            if said.is_empty() {
                return;
            }
            for (from, to, parcel) in said {
                self.log_talk += usize::from(LOG_TALK(&parcel));
                let To::Machine(to) = to else { panic!("there is one worker") };
                let at = usize::from(to.0) - 1;
                if !self.dead[at] {
                    let from = MachineId(from as u16 + 1);
                    self.nodes[at].take(self.now, from, parcel).unwrap();
                }
            }
        }
    }

    fn pass(&mut self, us: u64) {
        let until = self.now.mono_us + us;
        while self.now.mono_us < until {
            self.now.mono_us += TICK_US;
            self.now.wall_us += TICK_US;
            for (node, dead) in self.nodes.iter_mut().zip(self.dead) {
                if !dead {
                    node.tick(self.now).unwrap();
                }
            }
            self.settle();
        }
    }

    /// Who leads a shard, and in which term.
    fn lead(&self, shard: ShardId) -> Option<(usize, u64)> {
        let living = self.nodes.iter().enumerate().filter(|(at, _)| !self.dead[*at]);
        let lead = |(at, node): (usize, &Node<_>)| Some((at, node.replica(shard)?.leading()?));
        living.filter_map(lead).max_by_key(|(_, term)| *term)
    }

    fn all_sleep(&self) -> bool {
        let living = self.nodes.iter().zip(self.dead).filter(|(_, dead)| !dead);
        living.into_iter().all(|(node, _)| node.active().is_empty())
    }

    /// Asks through a machine, and gives the number of the request.
    fn ask(&mut self, machine: usize, shard: ShardId, body: Body) -> u64 {
        self.asked += 1;
        let gateway = GatewayId { machine: MachineId(machine as u16 + 1), worker: 0, life: 1 };
        let request = Request { gateway, token: Token(self.asked), body };
        self.nodes[machine].request(self.now, shard, request);
        self.settle();
        self.asked
    }
}

fn write() -> Body {
    let op = record::decode(&ArgBuf::of("incr k".split(' ')).args()).unwrap();
    Body::Apply(Apply { ops: [op].into_iter().collect(), ..Apply::default() })
}

fn read() -> Body {
    let (key, op) = record::decode(&ArgBuf::of("get k".split(' ')).args()).unwrap();
    Body::Read { key, op, fenced: false }
}

#[test]
fn groups_that_have_nothing_to_do_say_nothing_and_answer_when_asked() {
    let mut story = Story::new();
    assert!(story.all_sleep());
    story.log_talk = 0;
    story.pass(60_000_000);
    assert_eq!(story.log_talk, 0);
    for body in [write, read] {
        for machine in 0..3 {
            let asked = story.ask(machine, ShardId(1), body());
            assert!(story.answers.contains_key(&asked), "machine {machine} got no answer");
        }
        assert!(!story.all_sleep());
        story.pass(QUIET_US + 2_000_000);
        assert!(story.all_sleep());
    }
}

#[test]
fn everything_that_was_written_before_a_group_sleeps_is_everywhere() {
    let mut story = Story::new();
    story.ask(0, ShardId(0), write());
    story.pass(QUIET_US + 2_000_000);
    let applied = |node: &Node<_>| node.replica(ShardId(0)).map(|replica| replica.applied());
    let all: Vec<_> = story.nodes.iter().map(applied).collect();
    assert!(story.all_sleep() && all.iter().all(|one| *one == all[0]), "{all:?}");
}

#[test]
fn when_the_leaders_machine_falls_silent_others_lead_as_soon_as_if_they_had_been_awake() {
    let mut story = Story::new();
    let (leader, term) = story.lead(ShardId(2)).unwrap();
    story.dead[leader] = true;
    story.pass(SILENT_US);
    for at in (0..3).filter(|at| *at != leader) {
        let now = story.now;
        story.nodes[at].doubt(now, MachineId(leader as u16 + 1), SILENT_US);
    }
    // A follower waits for one to two election time-outs, and an election takes a tick or two.
    story.pass(2 * ELECTION_TICKS as u64 * TICK_US - SILENT_US + 2 * TICK_US);
    let (next, later) = story.lead(ShardId(2)).expect("a new leader");
    assert!(next != leader && later > term);
}

#[test]
fn a_machine_that_was_only_late_goes_on_to_lead() {
    let mut story = Story::new();
    let before: Vec<_> = (0..SHARDS).map(|shard| story.lead(ShardId(shard))).collect();
    let now = story.now;
    for (at, node) in story.nodes.iter_mut().enumerate() {
        (0..3).filter(|other| *other != at).for_each(|other| {
            node.doubt(now, MachineId(other as u16 + 1), SILENT_US);
        });
    }
    assert!(!story.all_sleep());
    story.pass(10_000_000);
    let after: Vec<_> = (0..SHARDS).map(|shard| story.lead(ShardId(shard))).collect();
    assert_eq!(before, after);
    assert!(story.all_sleep());
}

#[test]
fn a_group_is_awake_while_one_of_its_machines_is_away() {
    let mut story = Story::new();
    let (leader, _) = story.lead(ShardId(0)).unwrap();
    let away = (leader + 1) % 3;
    story.dead[away] = true;
    let now = story.now;
    story.nodes[leader].disconnect(now, MachineId(away as u16 + 1));
    story.pass(20_000_000);
    assert!(story.nodes[leader].active().contains(&0), "somebody must see that it comes back");
    let asked = story.ask(leader, ShardId(0), write());
    assert!(story.answers.contains_key(&asked));
}
