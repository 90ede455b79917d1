//! Stories about three replicas of one shard, message by message: the answers that a leader may
//! give, and when.

use adt::{ArgBuf, Reply, record};
use engine::entry::Apply;
use engine::ids::{GatewayId, KeyedOp, MachineId, ShardId, Token};
use engine::limits::{HANDOVER_US_MAX, TICK_US};
use engine::message::{Answer, Body, Concurrency, Request};
use engine::now::Now;
use engine::replica::{Replica, Setup};
use engine::replication::{Membership, Recovered};
use engine::shard;
use wire::entry::EntryFormat;

const SHARD: ShardId = ShardId(0);
const GATEWAY: GatewayId = GatewayId { machine: MachineId(1), worker: 0, life: 1 };

/// Three machines with fast disks. A frozen machine receives nothing and does nothing.
struct Story {
    replicas: Vec<Replica<EntryFormat>>,
    now: Now,
    frozen: [bool; 3],
    asked: u64,
}

impl Story {
    fn new() -> Self {
        let now = Now { wall_us: 1_000_000_000, mono_us: 1_000_000 };
        let voters: Vec<_> = (1..=3).map(MachineId).collect();
        let replica = |&own: &MachineId| {
            let concurrency = Concurrency::named("full").unwrap();
            let seed = u64::from(own.0);
            let setup = Setup {
                shard: shard::ShardConfig {
                    id: SHARD,
                    concurrency,
                    seed,
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
        let mut story = Self { replicas, now, frozen: [false; 3], asked: 0 };
        story.pass_until("a leader", |story| story.leader().is_some());
        story
    }

    fn leader(&self) -> Option<usize> {
        self.replicas.iter().position(Replica::is_serving)
    }

    /// Ends the turn of every machine and delivers messages, until all are idle.
    fn settle(&mut self) {
        loop {
            let mut said = Vec::new();
            for replica in &mut self.replicas {
                replica.end_turn(self.now).unwrap();
                while let Some(persist) = replica.take_persist() {
                    replica.persisted(self.now, persist.number).unwrap();
                }
                said.extend(replica.group_mut().take_messages());
            }
            if said.is_empty() {
                return;
            }
            for message in said {
                let (from, to) = (message.from as usize - 1, message.to as usize - 1);
                if !self.frozen[from] && !self.frozen[to] {
                    self.replicas[to].step(self.now, message).unwrap();
                }
            }
        }
    }

    fn pass(&mut self, us: u64) {
        let until = self.now.mono_us + us;
        while self.now.mono_us < until {
            self.now.mono_us += TICK_US;
            self.now.wall_us += TICK_US;
            let awake = self.replicas.iter_mut().zip(self.frozen).filter(|(_, frozen)| !frozen);
            for (replica, _) in awake {
                replica.tick(self.now).unwrap();
            }
            self.settle();
        }
    }

    fn pass_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        for _ in 0..1_000 {
            if done(self) {
                return;
            }
            self.pass(TICK_US);
        }
        panic!("no {what}");
    }

    /// Hands a request to a machine. Returns its number. Nothing else happens yet.
    fn ask(&mut self, machine: usize, body: Body) -> u64 {
        self.asked += 1;
        let request = Request { gateway: GATEWAY, token: Token(self.asked), after: None, body };
        self.replicas[machine].handle(self.now, request);
        self.asked
    }

    /// Requests that a machine has answered.
    fn answered(&mut self, machine: usize) -> Vec<u64> {
        std::iter::from_fn(|| self.replicas[machine].shard_mut().outbox_mut().poll())
            .map(|r| r.token.0)
            .collect()
    }
}

fn op(line: &str) -> KeyedOp {
    record::decode(&ArgBuf::of(line.split(' ')).args()).unwrap()
}

fn read(line: &str) -> Body {
    let (key, op) = op(line);
    Body::Read { key, op, fenced: false }
}

fn write(line: &str) -> Body {
    Body::Apply(Apply { ops: [op(line)].into_iter().collect(), ..Apply::default() })
}

#[test]
fn a_read_rests_on_the_lease_or_waits_for_a_round() {
    let mut story = Story::new();
    let leader = story.leader().unwrap();
    let first = story.ask(leader, read("get k"));
    assert!(story.answered(leader).is_empty(), "no follower has vouched for a new leader");
    story.settle();
    assert_eq!(story.answered(leader), [first]);
    // In use, the lease is renewed before it ends.
    for _ in 0..100 {
        story.pass(TICK_US);
        let next = story.ask(leader, read("get k"));
        assert_eq!(story.answered(leader), [next]);
    }
}

#[test]
fn what_comes_after_a_read_that_waits_does_not_overtake_it() {
    let mut story = Story::new();
    let leader = story.leader().unwrap();
    let looks = story.ask(leader, read("get k"));
    let writes = story.ask(leader, write("incr k"));
    let last = story.ask(leader, read("get other"));
    story.settle();
    assert_eq!(story.answered(leader), [looks, last, writes]);
}

#[test]
fn a_leader_that_was_frozen_says_nothing_about_what_it_holds() {
    let mut story = Story::new();
    let leader = story.leader().unwrap();
    story.ask(leader, write("sadd s a"));
    story.settle();
    story.answered(leader);
    story.frozen[leader] = true;
    let others: Vec<usize> = (0..3).filter(|machine| *machine != leader).collect();
    story.pass_until("new leader", |story| others.iter().any(|m| story.replicas[*m].is_serving()));
    story.ask(leader, read("scard s"));
    story.ask(leader, write("sadd s a"));
    story.replicas[leader].end_turn(story.now).unwrap();
    assert!(story.replicas[leader].is_serving(), "it does not know that another machine leads");
    assert!(story.answered(leader).is_empty());
}

#[test]
fn a_handover_leaves_no_client_in_doubt() {
    let mut story = Story::new();
    let leader = story.leader().unwrap();
    let to = (leader + 1) % 3;
    let before = story.ask(leader, write("incr k"));
    story.replicas[leader].end_turn(story.now).unwrap();
    let asks = story.ask(leader, Body::Transfer { to: MachineId(to as u16 + 1) });
    let during = story.ask(leader, write("incr k"));
    story.settle();
    story.pass_until("handover", |story| story.leader() == Some(to));
    let answers: Vec<(u64, String)> =
        std::iter::from_fn(|| story.replicas[leader].shard_mut().outbox_mut().poll())
            .map(|response| (response.token.0, format!("{:?}", response.answer)))
            .collect();
    let [(first, done), (second, write_goes_on), (third, transfer_goes_on)] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert!(*first == before && done.starts_with("Replies"), "{answers:?}");
    assert!(*second == asks && write_goes_on.starts_with("NotTaken(Transfer"), "{answers:?}");
    assert!(*third == during && transfer_goes_on.starts_with("NotTaken(Apply"), "{answers:?}");
    // The next leader is the chosen one.
    story.ask(to, Body::Transfer { to: MachineId(to as u16 + 1) });
    let answer = story.replicas[to].shard_mut().outbox_mut().poll().unwrap().answer;
    assert!(matches!(answer, Answer::Reply(Reply::Ok)), "{answer:?}");
}

#[test]
fn a_failed_handover_is_reported_and_the_leader_goes_on() {
    let mut story = Story::new();
    let leader = story.leader().unwrap();
    let to = (leader + 1) % 3;
    story.frozen[to] = true;
    let asks = story.ask(leader, Body::Transfer { to: MachineId(to as u16 + 1) });
    let writes = story.ask(leader, write("incr k"));
    story.settle();
    assert!(story.answered(leader).is_empty());
    story.pass(HANDOVER_US_MAX);
    assert_eq!(story.answered(leader), [asks, writes]);
    assert!(story.replicas[leader].is_serving());
}

#[test]
fn a_lead_that_may_be_handed_over_has_no_lease() {
    let mut story = Story::new();
    let leader = story.leader().unwrap();
    story.ask(leader, read("get k"));
    story.settle();
    let with_lease = story.ask(leader, read("get k"));
    assert_eq!(story.answered(leader).last(), Some(&with_lease));
    let to = (leader + 1) % 3;
    assert!(story.replicas[leader].hand_over(story.now, MachineId(to as u16 + 1)));
    story.replicas[leader].end_turn(story.now).unwrap();
    let word = story.replicas[leader]
        .group_mut()
        .take_messages()
        .into_iter()
        .find(|m| m.to == to as u64 + 1);
    story.replicas[to].step(story.now, word.unwrap()).unwrap();
    // The leader receives nothing; the other machine is elected at once, during the lease.
    story.frozen[leader] = true;
    story.settle();
    assert!(story.replicas[to].is_serving(), "no machine waits for the end of a lease");
    story.ask(to, write("incr k"));
    story.settle();
    story.answered(leader);
    story.ask(leader, read("get k"));
    assert!(story.answered(leader).is_empty(), "it may be out of date");
}
