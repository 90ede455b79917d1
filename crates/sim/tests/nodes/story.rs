//! Three machines for stories about their messages.

use adt::{ArgBuf, record};
use engine::cluster::map::ShardMap;
use engine::entry::Apply;
use engine::ids::{GatewayId, MachineId, ShardId, Token};
use engine::limits::TICK_US;
use engine::message::{Answer, Body, Concurrency, Request};
use engine::node::{Event, Node, Parcel, Placing, To};
use engine::now::Now;
use engine::replica::{Replica, Setup};
use engine::replication::{Membership, Recovered};
use engine::shard;
use std::collections::BTreeMap;
use wire::entry::EntryFormat;
use wire::snapshot::SnapshotFormat;

/// Number of shards.
pub const SHARDS: u16 = 3;
/// Heartbeats and other messages about a log.
const LOG_TALK: fn(&Parcel) -> bool =
    |parcel| matches!(parcel, Parcel::Raft { .. } | Parcel::Sleep { .. } | Parcel::Wake { .. });

/// Three machines that hold three shards and the map, with fast disks. A dead machine receives
/// nothing and does nothing.
pub struct Story {
    pub nodes: Vec<Node<EntryFormat>>,
    pub now: Now,
    pub dead: [bool; 3],
    pub asked: u64,
    pub answers: BTreeMap<u64, Answer>,
    pub log_talk: usize,
}

fn node(own: u16, now: Now) -> Node<EntryFormat> {
    let id = GatewayId { machine: MachineId(own), worker: 0, life: 1 };
    let concurrency = Concurrency::named("full").unwrap();
    let voters: Vec<_> = (1..=3).map(MachineId).collect();
    let machines = voters.iter().map(|machine| (*machine, format!("m{}:1", machine.0)));
    let map = ShardMap::founded(machines.collect(), SHARDS);
    let replica = |shard| {
        let seed = u64::from(own) << 32;
        let config = shard::ShardConfig {
            id: shard,
            concurrency,
            seed,
            beside: id,
            clustered: true,
            reap_us: engine::limits::REAP_US,
            broken: None,
            interpreter: None,
            tags: adt::command::tags::TagRules::NONE,
        };
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
        reap_us: engine::limits::REAP_US,
        interpreter: None,
    };
    Node::new(id, 1, SHARDS, Some(placing), replicas, Box::new(SnapshotFormat))
}

impl Story {
    pub fn new() -> Self {
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

    /// Ends the turn of every machine and delivers messages, until all are idle.
    pub fn settle(&mut self) {
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

    pub fn pass(&mut self, us: u64) {
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

    /// Leader of a shard, and its term.
    pub fn lead(&self, shard: ShardId) -> Option<(usize, u64)> {
        let living = self.nodes.iter().enumerate().filter(|(at, _)| !self.dead[*at]);
        let lead = |(at, node): (usize, &Node<_>)| Some((at, node.replica(shard)?.leading()?));
        living.filter_map(lead).max_by_key(|(_, term)| *term)
    }

    pub fn all_sleep(&self) -> bool {
        let living = self.nodes.iter().zip(self.dead).filter(|(_, dead)| !dead);
        living.into_iter().all(|(node, _)| node.active().is_empty())
    }

    /// Sends a request through a machine. Returns the number of the request.
    pub fn ask(&mut self, machine: usize, shard: ShardId, body: Body) -> u64 {
        self.asked += 1;
        let gateway = GatewayId { machine: MachineId(machine as u16 + 1), worker: 0, life: 1 };
        let request = Request { gateway, token: Token(self.asked), after: None, body };
        assert!(self.nodes[machine].request(self.now, shard, request).is_none(), "a machine leads");
        self.settle();
        self.asked
    }
}

pub fn write() -> Body {
    let op = record::decode(&ArgBuf::of("incr k".split(' ')).args()).unwrap();
    Body::Apply(Apply { ops: [op].into_iter().collect(), ..Apply::default() })
}

pub fn read() -> Body {
    let (key, op) = record::decode(&ArgBuf::of("get k".split(' ')).args()).unwrap();
    Body::Read { key, op, fenced: false }
}
