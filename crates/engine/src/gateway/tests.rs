//! Stories about one gateway whose shards are played by the test: the messages that it sends, and the effects
//! of the answers.

mod ahead;
mod attempts;
mod coordination;
mod deadlocks;
mod joints;
mod lockless;
mod locks;
mod near;
mod pipelines;
mod sections;
mod spread;
mod tracking;
mod unled;
mod unread;

use super::*;
use crate::entry::Apply;
use crate::ids::{Age, GatewayId, MachineId, ShardId, Token, TxnId};
use crate::message::{
    Answer, Body, Concurrency, Early, Notice, Refusal, Request, Response, Version,
};
use adt::command::tags::TagRules;
use adt::{ArgBuf, Reply, Timestamp};
use smallvec::SmallVec;
use std::collections::BTreeMap;

struct Story {
    gateway: Gateway,
    now: Now,
    client: SessionId,
}

/// Request to a shard: shard, token and message.
type Sent = (ShardId, u64, Body);

impl Gateway {
    /// Number of transactions, reads and waits under way.
    fn jobs_under_way(&self) -> usize {
        let parts = &self.parts;
        let waits = parts.blocked.len() + parts.turns.len();
        waits + parts.snapshots.len() + parts.transactions.len()
    }
}

impl Story {
    fn new() -> Self {
        Self::of(None, Order::Constant)
    }

    fn ordered(order: Order) -> Self {
        Self::of(None, order)
    }

    /// Gateway of a cluster in which no leader is known.
    fn clustered() -> Self {
        Self::clustered_with(Order::None)
    }

    fn clustered_with(order: Order) -> Self {
        let machines = vec![MachineId(1), MachineId(2)];
        let members = ClusterConfig { name: "told".to_owned(), machines, map: None };
        Self::of(Some(members), order)
    }

    fn of(members: Option<ClusterConfig>, order: Order) -> Self {
        Self::of_user(members, order, "on nopass ~* &* +@all")
    }

    /// Gateway with rules for the only user.
    fn of_user(members: Option<ClusterConfig>, order: Order, rules: &str) -> Self {
        let words = |rules: &str| rules.split(' ').map(str::to_owned).collect();
        let user = UserConfig { name: "default".into(), rules: words(rules), verifier: None };
        let config = Config {
            id: GatewayId::alone(0),
            gateways: 1,
            members,
            leader_wait_us: 5_000_000,
            close_on_lost_leader: false,
            bundles: false,
            shards: 2,
            concurrency: Concurrency::FULL,
            order,
            patience: Patience::default(),
            version: "1.2.3",
            users: vec![user],
            require_auth: false,
            session_timeout_ms: crate::limits::SESSION_TIMEOUT_MS,
            tree_shards: 1,
            tags: Some(TagRules::NONE),
            settings: BTreeMap::new(),
            seed: 1,
        };
        let now = Now { wall_us: 1_000_000, mono_us: 5_000_000 };
        let mut gateway = Gateway::new(config, now);
        let client = gateway.open(now, Opening::default());
        assert_eq!(
            ["b", "a", "e"].map(|key| gateway.parts.core.mail.shard_of(key.as_bytes()).0),
            [0, 1, 1],
            "the keys are where the stories need them"
        );
        Self { gateway, now, client }
    }

    fn says(&mut self, line: &str) {
        let client = self.client;
        self.says_as(client, line);
    }

    fn says_as(&mut self, client: SessionId, line: &str) {
        let words = ArgBuf::of(line.split(' '));
        self.gateway.command(self.now, client, &words.args());
    }

    /// All outputs: requests and replies.
    fn out(&mut self) -> (Vec<Sent>, Vec<Reply>) {
        let (mut sent, mut replies) = (Vec::new(), Vec::new());
        while let Some(output) = self.gateway.poll() {
            match output {
                Output::Shard { shard, request: Request { token, body, .. } } => {
                    sent.push((shard, token.0, body));
                }
                Output::Reply { reply, .. } => replies.push(reply),
                other => panic!("not in these stories: {other:?}"),
            }
        }
        (sent, replies)
    }

    fn sent(&mut self) -> Vec<Sent> {
        let (sent, replies) = self.out();
        assert_eq!(replies, [], "no reply yet");
        sent
    }

    fn replies(&mut self) -> Vec<Reply> {
        let (sent, replies) = self.out();
        assert!(sent.is_empty(), "nothing more to send: {sent:?}");
        replies
    }

    /// Lets a machine lead shard 1 from now on.
    fn leads(&mut self, machine: u16) {
        self.gateway.cluster_changed(
            self.now,
            ClusterChange::Led(ShardId(1), Some((MachineId(machine), 0))),
        );
    }

    fn answer(&mut self, token: u64, answer: Answer) {
        let response = Response { gateway: GatewayId::alone(0), token: Token(token), answer };
        self.gateway.response(self.now, response);
    }
}

fn done(replies: &[i64]) -> Answer {
    Answer::Replies(replies.iter().map(|n| Reply::Int(*n)).collect::<SmallVec<_>>())
}

fn snapshot(reply: i64, since: u64, until: u64) -> Answer {
    let replies = vec![Reply::Int(reply)];
    Answer::Snapshot { replies, since: Timestamp(since), until: Timestamp(until), held_us: 0 }
}

#[test]
fn replies_come_in_the_order_of_the_commands() {
    let mut story = Story::ordered(Order::None);
    story.says("GET a");
    story.says("INCR b");
    story.says("PING");
    let sent = story.sent();
    assert!(matches!(&sent[0], (ShardId(1), _, Body::Read { .. })));
    assert!(matches!(&sent[1], (ShardId(0), _, Body::Apply(_))));
    assert_eq!(story.gateway.session(story.client).in_progress, 3);
    story.answer(sent[1].1, done(&[1]));
    assert!(story.replies().is_empty());
    story.answer(sent[0].1, Answer::Reply(Reply::Nil));
    assert_eq!(story.replies(), [Reply::Nil, Reply::Int(1), Reply::status("PONG")]);
    assert_eq!(story.gateway.session(story.client).in_progress, 0);
    // An answer to no request.
    story.answer(sent[0].1, Answer::Reply(Reply::Ok));
    assert!(story.replies().is_empty());
}

#[test]
fn a_read_behind_a_write_of_the_session_goes_its_way() {
    let mut story = Story::ordered(Order::None);
    story.says("INCR a");
    story.says("GET e");
    story.says("GET b");
    let kinds: Vec<bool> =
        story.sent().iter().map(|(_, _, body)| matches!(body, Body::Apply(_))).collect();
    assert_eq!(kinds, [true, true, false]);
}

#[test]
fn what_was_not_sent_to_a_leader_of_before_goes_to_the_next_one_behind_what_was() {
    let mut story = Story::clustered();
    story.leads(1);
    story.says("INCR a");
    let sent = story.sent();
    story.says("INCR e");
    // The server has not taken the request yet.
    story.leads(2);
    assert!(story.sent().is_empty(), "the first one has no answer");
    story.answer(sent[0].1, done(&[1]));
    let (again, replies) = story.out();
    assert_eq!((again.len(), replies), (1, vec![Reply::Int(1)]));
    let request = Request {
        after: None,
        gateway: GatewayId::alone(0),
        token: Token(again[0].1),
        body: again.into_iter().next().unwrap().2,
    };
    // The request cannot be delivered: there is a third leader, which the gateway does not know yet.
    story.gateway.not_sent(request);
    assert!(story.sent().is_empty());
    story.leads(1);
    assert_eq!(story.sent().len(), 1);
}

#[test]
fn a_machine_that_is_lost_before_it_is_asked_is_not_asked() {
    let mut story = Story::clustered();
    story.leads(1);
    story.says("INCR a");
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(1)));
    assert!(story.sent().is_empty());
    story.leads(2);
    assert_eq!(story.sent().len(), 1, "it has had no effect, so nobody is told that it may have");
}

#[test]
fn what_a_lost_leader_says_later_is_not_the_answer_of_the_next_one() {
    let mut story = Story::clustered();
    story.leads(1);
    story.says("GET a");
    let first = story.sent().remove(0);
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(1)));
    story.leads(2);
    let again = story.sent().remove(0);
    // The machine refused the request before it was lost, or is connected again.
    story.answer(first.1, Answer::NotTaken(Box::new(first.2)));
    story.answer(first.1, Answer::Reply(Reply::Int(1)));
    assert!(story.replies().is_empty());
    story.says("GET e");
    let next = story.sent().remove(0);
    story.answer(again.1, Answer::Reply(Reply::Int(2)));
    story.answer(next.1, Answer::Reply(Reply::Int(3)));
    assert_eq!(story.replies(), [Reply::Int(2), Reply::Int(3)]);
}

#[test]
fn exec_on_one_shard_is_one_message() {
    let mut story = Story::new();
    for line in ["MULTI", "INCR a", "INCR e", "EXEC"] {
        story.says(line);
    }
    let (sent, _) = story.out();
    let [(ShardId(1), token, Body::Apply(Apply { ops, .. }))] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(ops.len(), 2);
    story.answer(*token, done(&[1, 2]));
    assert_eq!(story.replies(), [Reply::Array(vec![Reply::Int(1), Reply::Int(2)])]);
}

/// Sends a transaction over both shards and returns the prepares.
fn exec_over_two(story: &mut Story) -> Vec<Sent> {
    for line in ["MULTI", "INCR a", "INCR b", "INCR e", "EXEC", "PING"] {
        story.says(line);
    }
    let (sent, replies) = story.out();
    assert_eq!(replies.len(), 4, "the PING waits for the EXEC");
    assert_eq!(sent.len(), 2);
    sent
}

#[test]
fn exec_over_two_shards_prepares_and_decides() {
    let mut story = Story::new();
    let sent = exec_over_two(&mut story);
    for (shard, _, body) in &sent {
        let Body::Prepare { prepare, .. } = body else { panic!("{body:?}") };
        assert_eq!(prepare.participants[..], [ShardId(0), ShardId(1)]);
        assert_eq!(prepare.apply.ops.len(), if *shard == ShardId(1) { 2 } else { 1 });
    }
    story.answer(sent[0].1, Answer::Prepared { bound: Timestamp(70) });
    assert!(story.sent().is_empty());
    story.answer(sent[1].1, Answer::Prepared { bound: Timestamp(90) });
    let decided = story.sent();
    for (_, _, body) in &decided {
        assert!(matches!(body, Body::Decide { commit: Some(Timestamp(90)), .. }), "{body:?}");
    }
    let token = |shard| decided.iter().find(|d| d.0 == ShardId(shard)).map(|d| d.1).unwrap();
    story.answer(token(1), done(&[1, 3]));
    story.answer(token(0), done(&[2]));
    let array = Reply::Array((1..=3).map(Reply::Int).collect());
    assert_eq!(story.replies(), [array, Reply::status("PONG")]);
    assert_eq!(story.gateway.stats().committed, 1);
    assert_eq!(story.gateway.parts.core.mail.pending.len(), 0);
}

#[test]
fn a_guard_that_does_not_hold_aborts_everywhere() {
    let mut story = Story::new();
    story.says("WATCH a");
    let sent = story.sent();
    story.answer(sent[0].1, Answer::Version(Version::Changed(Timestamp(7))));
    assert_eq!(story.replies(), [Reply::Ok]);
    let sent = exec_over_two(&mut story);
    let guards = |body: &Body| match body {
        Body::Prepare { prepare, .. } => prepare.apply.guards.len(),
        _ => 0,
    };
    assert_eq!(sent.iter().map(|(_, _, body)| guards(body)).sum::<usize>(), 1);
    story.answer(sent[0].1, Answer::Prepared { bound: Timestamp(70) });
    story.answer(sent[1].1, Answer::GuardFailed(None));
    let (sent, replies) = story.out();
    assert_eq!(replies, [Reply::NilArray, Reply::status("PONG")]);
    assert_eq!(sent.len(), 2);
    for (_, _, body) in &sent {
        assert!(matches!(body, Body::Decide { commit: None, .. }), "{body:?}");
    }
}

#[test]
fn a_wounded_program_is_run_again_with_its_age() {
    let mut story = Story::new();
    let sent = exec_over_two(&mut story);
    let id = |body: &Body| match body {
        Body::Prepare { prepare, .. } => prepare.txn,
        _ => panic!("{body:?}"),
    };
    let first = id(&sent[0].2);
    let wound = Notice::Wound { txn: first, idle_us: 0, by: Age::default() };
    story.answer(0, Answer::Notice(wound));
    assert!(story.sent().is_empty(), "it is spared while it runs");
    story.answer(sent[1].1, Answer::Notice(Notice::Blocked { txn: first }));
    let cancelled = story.sent();
    assert_eq!(cancelled.len(), 2, "whoever has logged its part cannot stop it");
    assert!(cancelled.iter().all(|(_, _, body)| matches!(body, Body::Cancel { .. })));
    story.answer(sent[0].1, Answer::Prepared { bound: Timestamp(70) });
    assert!(story.sent().is_empty());
    story.answer(sent[1].1, Answer::Refused(Refusal::Conflict));
    let again = story.sent();
    assert!(matches!(again[0].2, Body::Decide { commit: None, .. }));
    assert!(matches!(again[1].2, Body::Decide { commit: None, .. }));
    let second = id(&again[2].2);
    assert_eq!((second.age, second.attempt), (first.age, 1));
    // An answer to the first attempt counts no more.
    story.answer(sent[0].1, Answer::Prepared { bound: Timestamp(70) });
    story.answer(again[2].1, Answer::Prepared { bound: Timestamp(80) });
    assert!(story.sent().is_empty());
    story.answer(again[3].1, Answer::Prepared { bound: Timestamp(80) });
    assert_eq!(story.sent().len(), 2);
    assert_eq!(story.gateway.stats().retried, 1);
}

#[test]
fn a_committed_transaction_is_not_wounded_and_a_probe_is_answered_until_then() {
    let mut story = Story::new();
    let sent = exec_over_two(&mut story);
    let Body::Prepare { prepare, .. } = &sent[0].2 else { panic!("a prepare") };
    let txn = prepare.txn;
    let probe = || Answer::Notice(Notice::Probe { txn, shard: ShardId(1) });
    story.answer(0, probe());
    let acks = story.sent();
    assert!(matches!(acks[..], [(ShardId(1), _, Body::ProbeAck { .. })]), "{acks:?}");
    for (_, token, _) in &sent {
        story.answer(*token, Answer::Prepared { bound: Timestamp(80) });
    }
    assert_eq!(story.sent().len(), 2);
    story.answer(0, probe());
    story.answer(0, Answer::Notice(Notice::Wound { txn, idle_us: 0, by: Age::default() }));
    assert!(story.sent().is_empty(), "the decision is on its way and settles both");
}

#[test]
fn a_snapshot_reads_again_what_ended_too_early() {
    let mut story = Story::new();
    story.says("MGET b a");
    let sent = story.sent();
    assert!(sent.iter().all(|(_, _, body)| matches!(body, Body::Snapshot { .. })));
    story.answer(sent[0].1, snapshot(1, 10, 20));
    story.answer(sent[1].1, snapshot(2, 30, 40));
    let again = story.sent();
    let [(shard, token, Body::Snapshot { at, .. })] = &again[..] else { panic!("{again:?}") };
    assert_eq!(*shard, sent[0].0);
    assert!(*at > Timestamp(30));
    story.answer(*token, snapshot(3, 25, 35));
    assert_eq!(story.replies(), [Reply::Array(vec![Reply::Int(3), Reply::Int(2)])]);
}

#[test]
fn a_snapshot_that_never_fits_is_read_under_locks() {
    let mut story = Story::new();
    story.says("MGET b a");
    let mut sent = story.sent();
    let mut ts = 0;
    while matches!(sent[0].2, Body::Snapshot { .. }) {
        assert!(ts < 10_000, "it ends");
        for (_, token, _) in sent {
            ts += 100;
            story.answer(token, snapshot(1, ts, ts + 1));
        }
        sent = story.sent();
    }
    let clock = Timestamp(5);
    for (index, (_, token, body)) in sent.iter().enumerate() {
        assert!(matches!(body, Body::Lock { early: Early::Observed, .. }));
        story.answer(
            *token,
            Answer::Locked { reply: Reply::Int(index as i64), clock, rests_at: None },
        );
    }
    let (released, replies) = story.out();
    assert_eq!(replies, [Reply::Array(vec![Reply::Int(0), Reply::Int(1)])]);
    assert_eq!(released.len(), 2);
    for (_, _, body) in &released {
        assert!(matches!(body, Body::Release { after: Timestamp(6), .. }), "{body:?}");
    }
}

#[test]
fn a_compound_command_locks_plans_and_commits() {
    let mut story = Story::new();
    story.says("RENAME a b");
    let locks = story.sent();
    assert_eq!(locks.len(), 2);
    let value = adt::Record::new(adt::Value::Set(Default::default()));
    for (shard, token, body) in &locks {
        let Body::Lock { key, .. } = body else { panic!("{body:?}") };
        let found = Reply::Record(Box::new(value.clone()));
        let reply = if key.as_slice() == b"a" { found } else { Reply::Nil };
        let clock = Timestamp(100 + u64::from(shard.0));
        story.answer(*token, Answer::Locked { reply, clock, rests_at: None });
    }
    let prepares = story.sent();
    for (_, token, body) in &prepares {
        assert!(matches!(body, Body::Prepare { floor: Timestamp(101), .. }), "{body:?}");
        story.answer(*token, Answer::Prepared { bound: Timestamp(102) });
    }
    for (_, token, _) in story.sent() {
        story.answer(token, done(&[1]));
    }
    assert_eq!(story.replies(), [Reply::Ok]);
}

#[test]
fn an_interactive_commit_on_one_shard_tells_the_others_its_timestamp() {
    let mut story = Story::new();
    for line in ["TXN BEGIN BLIND", "GET a", "INCR b"] {
        story.says(line);
    }
    let (sent, _) = story.out();
    let [(ShardId(1), token, Body::Lock { .. })] = &sent[..] else { panic!("{sent:?}") };
    story
        .answer(*token, Answer::Locked { reply: Reply::Nil, clock: Timestamp(50), rests_at: None });
    assert_eq!(story.replies(), [Reply::Nil, Reply::status("QUEUED")]);
    story.says("TXN COMMIT");
    let sent = story.sent();
    let [(ShardId(0), token, Body::Prepare { prepare, floor: Timestamp(50) })] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(prepare.participants[..], [ShardId(0)]);
    let replies = SmallVec::from_iter([Reply::Int(1)]);
    story.answer(*token, Answer::Committed { replies, ts: Timestamp(60) });
    let (sent, replies) = story.out();
    assert_eq!(replies, [Reply::Array(vec![Reply::Int(1)])]);
    let [(ShardId(1), _, Body::Release { after: Timestamp(60), .. })] = &sent[..] else {
        panic!("{sent:?}")
    };
}

#[test]
fn a_refused_interactive_transaction_says_so_until_it_is_ended() {
    let mut story = Story::new();
    story.says("TXN BEGIN");
    story.says("GET a");
    let (sent, _) = story.out();
    story.answer(sent[0].1, Answer::Refused(Refusal::Busy));
    let (released, replies) = story.out();
    assert!(matches!(released[..], [(_, _, Body::Release { .. })]), "{released:?}");
    assert!(matches!(&replies[..], [Reply::Error(error)] if error.code() == "BUSY"));
    story.says("GET a");
    assert!(matches!(&story.replies()[..], [Reply::Error(error)] if error.code() == "BUSY"));
    story.says("TXN ABORT");
    assert_eq!(story.replies(), [Reply::Ok]);
}

#[test]
fn readers_of_one_key_share_a_lease_and_the_last_one_ends_it() {
    let mut story = Story::new();
    let clients: Vec<SessionId> =
        (0..4).map(|_| story.gateway.open(story.now, Opening::default())).collect();
    for &client in &clients {
        story.says_as(client, "TXN BEGIN");
    }
    story.out();
    for &client in &clients {
        story.says_as(client, "GET a");
    }
    let sent = story.sent();
    let [(_, alone, Body::Lock { txn: first, .. }), (_, shared, Body::Lock { txn: lease, .. })] =
        &sent[..]
    else {
        panic!("the first reads alone, the others together: {sent:?}")
    };
    assert!(!first.is_lease() && lease.is_lease());
    let locked = || Answer::Locked { reply: Reply::Int(5), clock: Timestamp(50), rests_at: None };
    story.answer(*alone, locked());
    story.answer(*shared, locked());
    assert_eq!(story.replies(), vec![Reply::Int(5); 4]);
    assert_eq!(story.gateway.stats().combined, 2);

    // An older transaction waits: members that run are spared, and no transaction joins any more.
    let wound = Notice::Wound { txn: *lease, idle_us: 0, by: Age::default() };
    story.answer(0, Answer::Notice(wound));
    story.says_as(clients[0], "TXN COMMIT");
    story.says_as(clients[1], "TXN COMMIT");
    let (sent, replies) = story.out();
    assert_eq!(replies.len(), 2);
    assert!(matches!(&sent[..], [(_, _, Body::Release { txn, .. })] if txn == first));
    story.says_as(clients[2], "TXN COMMIT");
    story.gateway.close(story.now, clients[3]);
    let (sent, _) = story.out();
    assert!(matches!(&sent[..], [(_, _, Body::Release { txn, .. })] if txn == lease), "{sent:?}");
    assert!(story.gateway.parts.transactions.reads_nothing());
}

#[test]
fn a_read_that_announces_a_write_is_shared_with_none() {
    let mut story = Story::new();
    let clients: Vec<SessionId> =
        (0..4).map(|_| story.gateway.open(story.now, Opening::default())).collect();
    for (client, line) in clients.iter().zip(["", "", " FORUPDATE", ""]) {
        story.says_as(*client, &format!("TXN BEGIN{line}"));
    }
    story.out();
    for (client, announced) in clients.iter().zip(["", "", "", "TXN FORUPDATE "]) {
        story.says_as(*client, &format!("{announced}GET a"));
    }
    let sent = story.sent().into_iter().map(|(_, _, body)| match body {
        Body::Lock { txn, early, .. } => (txn.is_lease(), early),
        body => panic!("{body:?}"),
    });
    let (observed, announced) = (Early::Observed, Early::Announced);
    let locks = [(false, observed), (true, observed), (false, announced), (false, announced)];
    assert_eq!(sent.collect::<Vec<_>>(), locks);
}

#[test]
fn a_read_announces_a_write_after_one_like_it_has_failed() {
    let mut story = Story::new();
    let early = |story: &mut Story| {
        let (sent, _) = story.out();
        let [(_, token, Body::Lock { txn, early, .. })] = &sent[..] else { panic!("{sent:?}") };
        (*token, *txn, *early)
    };
    story.says("TXN BEGIN");
    story.says("GET a");
    let (token, _, first) = early(&mut story);
    story.answer(
        token,
        Answer::Locked { reply: Reply::Int(5), clock: Timestamp(50), rests_at: None },
    );
    story.says("SET a 6");
    let (token, txn, _) = early(&mut story);
    story.answer(token, Answer::Notice(Notice::Blocked { txn }));
    story.answer(0, Answer::Notice(Notice::Wound { txn, idle_us: 0, by: Age::default() }));
    story.says("TXN ABORT");
    story.out();
    story.says("TXN BEGIN");
    story.says("GET a");
    let (_, _, second) = early(&mut story);
    assert_eq!((first, second), (Early::Observed, Early::Announced));
}

#[test]
fn a_transaction_leaves_its_leases_with_the_decision() {
    let mut story = Story::new();
    let clients: Vec<SessionId> =
        (0..2).map(|_| story.gateway.open(story.now, Opening::default())).collect();
    for &client in &clients {
        story.says_as(client, "TXN BEGIN BLIND");
        story.says_as(client, "GET a");
    }
    let (locks, _) = story.out();
    for (_, token, _) in &locks {
        let locked = Answer::Locked { reply: Reply::Int(5), clock: Timestamp(50), rests_at: None };
        story.answer(*token, locked);
    }
    story.out();
    for line in ["INCR b", "INCR e", "TXN COMMIT"] {
        story.says_as(clients[1], line);
    }
    let (prepares, _) = story.out();
    for (_, token, _) in &prepares {
        story.answer(*token, Answer::Prepared { bound: Timestamp(70) });
    }
    // Before it is carried out: it may have to wait for a transaction that waits for the lease.
    let sent = story.sent();
    let released = sent.iter().any(|(_, _, body)| {
        matches!(body, Body::Release { txn, after: Timestamp(70) } if txn.is_lease())
    });
    assert!(released, "{sent:?}");
}

#[test]
fn a_blocking_pop_tries_waits_and_tries_again() {
    let mut story = Story::new();
    story.says("BLPOP a b 2");
    let taken =
        |reply| Answer::Committed { replies: SmallVec::from_iter([reply]), ts: Timestamp(9) };
    for _ in 0..2 {
        let sent = story.sent();
        assert!(matches!(sent[..], [(_, _, Body::Apply(_))]));
        story.answer(sent[0].1, Answer::Replies(SmallVec::from_iter([Reply::Nil])));
    }
    let waits = story.sent();
    assert!(waits.iter().all(|(_, _, body)| matches!(body, Body::Block { .. })));
    assert_eq!((waits.len(), story.gateway.stats().blocked), (2, 0));
    for (_, token, _) in &waits {
        assert_eq!(story.gateway.stats().blocked, 0, "it does not stand in all queues");
        let txn = TxnId::default();
        story.answer(*token, Answer::Notice(Notice::Blocked { txn }));
    }
    assert_eq!(story.gateway.stats().blocked, 1);
    let (_, at_b, _) = waits[0];
    story.answer(at_b, Answer::Notice(Notice::Ready { key: "b".into() }));
    let sent = story.sent();
    // The kept key lets it pass, and it is older than all transactions that may wait for the key.
    let first = |body: &Body| match body {
        Body::Prepare { prepare, .. } => prepare.txn,
        other => panic!("a transaction of its own: {other:?}"),
    };
    let txn = first(&sent[0].2);
    assert!(txn.is_taker() && txn.age.began < story.gateway.parts.core.new_age().began);
    story.answer(sent[0].1, taken(Reply::Nil));
    let waits = story.sent();
    assert_eq!(waits.len(), 2, "somebody else was faster: it waits again");
    story.answer(at_b, Answer::Notice(Notice::Ready { key: "b".into() }));
    let sent = story.sent();
    assert!(first(&sent[0].2).age > txn.age, "no two are the same");
    story.answer(sent[0].1, taken(Reply::bulk("x")));
    let (sent, replies) = story.out();
    assert_eq!(replies, [Reply::Array(vec![Reply::bulk("b"), Reply::bulk("x")])]);
    assert!(sent.iter().all(|(_, _, body)| matches!(body, Body::Unblock)));
    assert_eq!((sent.len(), story.gateway.next_timeout()), (2, None));
}

#[test]
fn a_wait_ends_with_its_time_or_its_connection() {
    let mut story = Story::new();
    story.says("BLPOP a 2");
    let sent = story.sent();
    story.answer(sent[0].1, Answer::Replies(SmallVec::from_iter([Reply::Nil])));
    let (_, wait, _) = story.sent().remove(0);
    assert_eq!(story.gateway.next_timeout(), Some(7_000_000));
    story.now.mono_us = 7_000_000;
    story.gateway.tick(story.now);
    // The shard may have a log entry for it.
    let sent = story.sent();
    assert!(matches!(sent[..], [(_, token, Body::Unblock)] if token == wait));
    story.answer(wait, Answer::Replies(SmallVec::new()));
    let (sent, replies) = story.out();
    assert_eq!((sent.len(), &replies[..]), (0, &[Reply::NilArray][..]));
    assert_eq!((story.gateway.jobs_under_way(), story.gateway.next_timeout()), (0, None));
    story.says("BLPOP a 0");
    let sent = story.sent();
    story.answer(sent[0].1, Answer::Replies(SmallVec::from_iter([Reply::Nil])));
    story.sent();
    story.gateway.close(story.now, story.client);
    let sent = story.sent();
    assert!(matches!(sent[..], [(_, _, Body::Unblock)]));
    assert_eq!(
        (story.gateway.jobs_under_way(), story.gateway.parts.core.mail.pending.len()),
        (0, 0)
    );
}

#[test]
fn a_wait_for_what_becomes_due_looks_again_until_it_ends() {
    let mut story = Story::new();
    story.says("XREADGROUP GROUP g ann BLOCK 500 CLAIM 200 STREAMS a >");
    let sent = story.sent();
    story.answer(sent[0].1, Answer::Replies(SmallVec::from_iter([Reply::Nil])));
    assert!(matches!(story.sent()[..], [(_, _, Body::Block { .. })]));
    let mut entries = [Reply::Nil, Reply::Array(Vec::new())].into_iter();
    for at_us in [5_200_000, 5_400_000] {
        assert_eq!(story.gateway.next_timeout(), Some(at_us));
        story.now.mono_us = at_us;
        story.gateway.tick(story.now);
        // In front of it stands that the look before has found nothing.
        let (_, token, body) = story.sent().pop().expect("a look");
        assert!(matches!(body, Body::Prepare { .. }), "{body:?}");
        let replies = SmallVec::from_iter(entries.next());
        story.answer(token, Answer::Committed { replies, ts: Timestamp(9) });
    }
    let (sent, replies) = story.out();
    assert!(matches!(&replies[..], [Reply::Named(streams)] if streams.len() == 1));
    assert!(sent.iter().any(|(_, _, body)| matches!(body, Body::Unblock)));
    assert_eq!((story.gateway.jobs_under_way(), story.gateway.next_timeout()), (0, None));
}

#[test]
fn a_shard_that_serves_a_wait_or_has_no_room_for_it_ends_it() {
    let mut story = Story::new();
    let busy = |reply: &Reply| matches!(reply, Reply::Error(e) if e.code() == "BUSY");
    let begin = |story: &mut Story| {
        story.says("BLPOP a 0");
        let sent = story.sent();
        story.answer(sent[0].1, Answer::Replies(SmallVec::from_iter([Reply::Nil])));
        let sent = story.sent();
        assert!(matches!(sent[..], [(_, _, Body::Block { takes: Some(_), .. })]));
        sent[0].1
    };
    let wait = begin(&mut story);
    story.answer(wait, Answer::Reply(Reply::Int(7)));
    assert_eq!(story.replies(), [Reply::Int(7)]);
    let wait = begin(&mut story);
    story.answer(wait, Answer::Refused(Refusal::Busy));
    assert!(matches!(&story.replies()[..], [reply] if busy(reply)));
    assert_eq!(
        (story.gateway.jobs_under_way(), story.gateway.parts.core.mail.pending.len()),
        (0, 0)
    );
}

#[test]
fn a_broken_protocol_is_told_in_turn_and_ends_the_connection() {
    let mut story = Story::new();
    story.says("GET a");
    let sent = story.sent();
    let error = adt::ErrorReply::err("Protocol error: invalid bulk length");
    story.gateway.protocol_error(story.now, story.client, error.clone());
    story.says("GET b");
    assert!(story.sent().is_empty(), "nothing is read after it");
    story.answer(sent[0].1, Answer::Reply(Reply::Nil));
    let mut outputs = Vec::new();
    while let Some(output) = story.gateway.poll() {
        outputs.push(output);
    }
    let [Output::Reply { .. }, Output::Reply { reply, .. }, Output::Close { .. }] = &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!(*reply, Reply::Error(error));
}

#[test]
fn a_command_that_is_not_read_is_refused_in_turn_and_the_next_one_goes_on() {
    let mut story = Story::new();
    let error = adt::ErrorReply::err("too large");
    story.says("GET a");
    story.gateway.unread(story.now, story.client, error.clone());
    story.says("GET a");
    let sent = story.sent();
    let token = sent[0].1;
    let replies = [Reply::bulk("x"), Reply::bulk("y")];
    match &sent[..] {
        [(_, _, Body::Snapshot { ops, .. })] if ops.len() == 2 => {
            let (since, until, held_us) = Default::default();
            let replies = replies.to_vec();
            story.answer(token, Answer::Snapshot { replies, since, until, held_us });
        }
        other => panic!("{other:?}"),
    }
    let [first, second] = replies;
    assert_eq!(story.replies(), [first, Reply::Error(error.clone()), second]);
    story.says("MULTI");
    story.gateway.unread(story.now, story.client, error.clone());
    story.says("EXEC");
    let replies = story.replies();
    assert_eq!(replies[..2], [Reply::Ok, Reply::Error(error)]);
    let Reply::Error(aborted) = &replies[2] else { panic!("{replies:?}") };
    assert_eq!(aborted.code(), "EXECABORT");
}
