//! Stories about one shard: requests that wait, requests that go ahead, and their answers.

mod mortal;
mod pipelines;
mod records;
mod scripts;
mod service;
mod versions;
mod waiting;

use super::*;
use crate::entry::{Apply, Prepare, SnapshotPart};
use crate::ids::{Age, MachineId, RequestId, TxnId};
use crate::limits::{ENTRY_RECORDS_MAX, OUTCOMES_WAIT_US};
use crate::message::{Concurrency, Condition, Early, Guard, Notice, Version};
use crate::shard::tail::TRACKING_US;
use adt::command::tags::TagRules;
use adt::key::KeyOp;
use adt::kinds::set;
use adt::random::mix;
use adt::{Blob, Op, Reply};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

const G: GatewayId = GatewayId { machine: MachineId(1), worker: 0, life: 0 };

/// A shard with a clock and a log that is durable when the story says so.
pub(super) struct Story {
    pub(super) shard: Shard,
    pub(super) now: Now,
    token: u64,
}

impl Story {
    pub(super) fn new() -> Self {
        Self::with(Concurrency::FULL)
    }

    fn with(concurrency: Concurrency) -> Self {
        Self::leading(ShardConfig {
            id: ShardId(0),
            concurrency,
            seed: 7,
            beside: GatewayId::default(),
            clustered: false,
            reap_us: crate::limits::REAP_US,
            broken: None,
            interpreter: None,
            tags: TagRules::NONE,
        })
    }

    /// A shard that is led here.
    fn leading(config: ShardConfig) -> Self {
        let now = Now { wall_us: 1_000_000_000, mono_us: 5_000_000 };
        let mut shard = Shard::new(config);
        shard.lead(now, 1);
        Self { shard, now, token: 0 }
    }

    /// Version that a guard may ask of a record now.
    fn version(&self, key: &[u8]) -> Version {
        self.shard.desk.core.state.records().version(key, &self.shard.desk.core.ahead)
    }

    pub(super) fn ask(&mut self, body: Body) -> u64 {
        let request = self.request(body);
        self.shard.handle(self.now, request);
        self.token
    }

    /// Asks something that must not overtake an earlier request of its session.
    fn follow(&mut self, earlier: u64, body: Body) -> u64 {
        let request = self.request(body);
        self.shard.handle(self.now, Request { after: Some(Token(earlier)), ..request });
        self.token
    }

    /// The next request, a moment later.
    fn request(&mut self, body: Body) -> Request {
        self.token += 1;
        self.now.wall_us += 1;
        self.now.mono_us += 1;
        Request { gateway: G, token: Token(self.token), after: None, body }
    }

    pub(super) fn pass(&mut self, us: u64) {
        self.now.mono_us += us;
        self.shard.tick(self.now);
    }

    /// Ends the turn as a leader does that is certain to lead.
    fn end_turn(&mut self) -> Option<Entry> {
        self.shard.answer_idle(self.now);
        self.shard.end_turn(self.now)
    }

    /// Ends the turn: whatever is in the log becomes durable and is applied.
    pub(super) fn sync(&mut self) {
        while let Some(entry) = self.end_turn() {
            self.shard.keep(entry, 0);
        }
        while self.shard.desk.core.tail.oldest_proposed().is_some() {
            self.shard.committed(self.now);
        }
    }

    /// The state of a replica that begins with a snapshot of this one.
    pub(super) fn restored(&mut self) -> State {
        let mut reader = snapshot::Reader::new(self.now.mono_us);
        self.shard.begin_snapshot(9, 1, None);
        loop {
            let parts = self.shard.snapshot_parts(3);
            if parts.is_empty() {
                break;
            }
            parts.into_iter().for_each(|part| reader.take(part).expect("it was written"));
        }
        reader.finish().expect("it is whole").1
    }

    pub(super) fn answers(&mut self) -> Vec<(u64, Answer)> {
        std::iter::from_fn(|| self.shard.outbox_mut().poll())
            .map(|r| (r.token.0, r.answer))
            .collect()
    }

    /// Answers in short form, for comparison.
    fn seen(&mut self) -> Vec<String> {
        self.answers()
            .into_iter()
            .map(|(token, answer)| format!("{token} {}", short(&answer)))
            .collect()
    }
}

fn short(answer: &Answer) -> String {
    match answer {
        Answer::Reply(Reply::Int(n)) => format!("= {n}"),
        Answer::Reply(reply) => format!("= {reply:?}"),
        Answer::Replies(replies) | Answer::Committed { replies, .. } => {
            let ints: Vec<String> = replies
                .iter()
                .map(|r| if let Reply::Int(n) = r { n.to_string() } else { format!("{r:?}") })
                .collect();
            format!("done {}", ints.join(","))
        }
        Answer::Locked { reply: Reply::Int(n), .. } => format!("locked {n}"),
        Answer::Locked { reply, .. } => format!("locked {reply:?}"),
        Answer::Prepared { .. } => "prepared".into(),
        Answer::GuardFailed(None) => "guard failed".into(),
        Answer::GuardFailed(Some(error)) => format!("guard failed: {}", error.text()),
        Answer::Refused(refusal) => format!("refused {refusal:?}"),
        Answer::Notice(Notice::Blocked { .. }) => "blocked".into(),
        Answer::Notice(Notice::Wound { txn, .. }) => format!("wound {}", txn.age.began.0),
        Answer::Notice(Notice::Wanted { txn }) => format!("wanted {}", txn.age.began.0),
        Answer::Notice(Notice::Probe { txn, .. }) => format!("probe {}", txn.age.began.0),
        Answer::Notice(Notice::Ready { .. }) => "ready".into(),
        other => format!("{other:?}"),
    }
}

pub(super) fn txn(age: u64) -> TxnId {
    TxnId { age: Age { began: Timestamp(age), gateway: G }, attempt: 0 }
}

fn add(member: &str) -> Op {
    Op::Set(set::Op::Add([Blob::from(member)].into_iter().collect()))
}

fn card() -> Op {
    Op::Set(set::Op::Card)
}

fn put(value: &str) -> Op {
    waiting::turns::operation(&format!("set k {value}")).1
}

fn apply(ops: &[(&str, Op)]) -> Apply {
    let ops = ops.iter().map(|(k, op)| (Blob::from(*k), op.clone())).collect();
    Apply { ops, ..Apply::default() }
}

fn one(key: &str, op: Op) -> Body {
    Body::Apply(apply(&[(key, op)]))
}

fn lock(id: u64, key: &str, op: Op) -> Body {
    Body::Lock { txn: txn(id), key: Blob::from(key), op, own: Vec::new(), early: Early::Observed }
}

fn read(key: &str, op: Op) -> Body {
    Body::Read { key: Blob::from(key), op, fenced: false }
}

fn prepare(id: u64, ops: &[(&str, Op)]) -> Body {
    let participants = [ShardId(0), ShardId(1)].into_iter().collect();
    let prepare = Prepare { txn: txn(id), participants, apply: apply(ops) };
    Body::Prepare { prepare, floor: Timestamp::ZERO }
}

fn decide(id: u64, commit: Option<u64>) -> Body {
    Body::Decide { txn: txn(id), commit: commit.map(Timestamp) }
}

#[test]
fn a_transaction_is_not_prepared_while_it_goes_into_the_log_that_it_never_will_be() {
    let mut story = Story::new();
    story.ask(Body::Inquire { txn: txn(1) });
    story.ask(prepare(1, &[("s", add("a"))]));
    assert_eq!(story.seen(), ["2 refused LocksLost"]);
    let entry = story.end_turn().unwrap();
    story.shard.keep(entry, 0);
    story.ask(prepare(1, &[("s", add("a"))]));
    assert_eq!(story.seen(), ["3 refused LocksLost"], "others may act on it already");
    story.sync();
    assert_eq!(story.seen(), ["1 Fate(Void)"]);
    story.ask(prepare(1, &[("s", add("a"))]));
    assert_eq!(story.seen(), ["4 refused LocksLost"]);
}

#[test]
fn who_reads_a_transaction_reads_what_it_commutes_with_and_is_earlier() {
    let several = |dated| {
        let ops = vec![(Blob::from("s"), card())];
        Body::Snapshot { ops, at: Timestamp::ZERO, fenced: false, dated, as_of: None }
    };
    for (body, answer) in
        [(read("s", card()), "= 2"), (several(false), "done 2"), (several(true), "")]
    {
        let mut story = Story::new();
        story.ask(prepare(1, &[("s", add("a"))]));
        story.sync();
        let write = story.ask(one("s", add("b")));
        let entry = story.end_turn().unwrap();
        let ts = entry.ts.0;
        story.shard.keep(entry, 0);
        // The other shard's bound was later.
        story.ask(decide(1, Some(ts + 5)));
        story.answers();
        let read = story.ask(body);
        assert!(story.seen().is_empty(), "one would be seen, and the earlier one not");
        story.sync();
        let seen = story.seen();
        assert_eq!(seen[0], format!("{write} done 1"));
        assert!(seen[1].starts_with(&format!("{read} {answer}")), "{seen:?}");
    }
}

#[test]
fn a_write_is_answered_when_it_is_durable_and_a_read_at_once() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.ask(read("s", card()));
    assert_eq!(story.seen(), ["2 = 0"]);
    story.sync();
    assert_eq!(story.seen(), ["1 done 1"]);
    story.ask(read("s", card()));
    assert_eq!(story.seen(), ["3 = 1"]);
}

#[test]
fn a_fenced_read_sees_the_writes_before_it() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.ask(Body::Read { key: Blob::from("s"), op: card(), fenced: true });
    assert_eq!(story.seen(), Vec::<String>::new());
    story.sync();
    assert_eq!(story.seen(), ["1 done 1", "2 = 1"]);
}

#[test]
fn adds_share_and_readers_share_but_they_take_turns() {
    let mut story = Story::new();
    story.ask(lock(1, "s", card()));
    story.ask(lock(2, "s", card()));
    assert_eq!(story.seen(), ["1 locked 0", "2 locked 0"]);
    // Two adders wait for the readers, together.
    story.ask(one("s", add("a")));
    story.ask(one("s", add("b")));
    story.sync();
    assert_eq!(story.seen(), Vec::<String>::new());
    // The transactions are older than the waiting adds: none is wounded.
    story.ask(Body::Release { txn: txn(1), after: Timestamp::ZERO });
    story.sync();
    assert_eq!(story.seen(), Vec::<String>::new());
    story.ask(Body::Release { txn: txn(2), after: Timestamp::ZERO });
    story.sync();
    assert_eq!(story.seen(), ["3 done 1", "4 done 1"]);
}

#[test]
fn an_add_of_a_present_member_does_not_wait_for_a_reader() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.sync();
    story.ask(lock(1, "s", card()));
    story.ask(one("s", add("a")));
    story.sync();
    assert_eq!(story.seen(), ["1 done 1", "2 locked 1", "3 done 0"]);
}

#[test]
fn a_newcomer_waits_behind_an_older_conflicting_waiter() {
    let mut story = Story::new();
    story.ask(lock(1, "s", card()));
    story.ask(prepare(5, &[("s", add("a"))]));
    // A younger reader would be compatible with the holder, but the adder came first.
    story.ask(lock(9, "s", card()));
    assert_eq!(story.seen(), ["1 locked 0", "2 blocked", "3 blocked"]);
    story.ask(Body::Release { txn: txn(1), after: Timestamp::ZERO });
    story.sync();
    assert_eq!(story.seen(), ["2 prepared"]);
    story.ask(decide(5, Some(Timestamp::from_micros(2_000_000_000).0)));
    assert_eq!(story.seen(), ["5 done 1", "3 locked 1"]);
}

#[test]
fn an_older_request_wounds_a_younger_holder() {
    let mut story = Story::new();
    story.ask(lock(7, "s", card()));
    story.ask(prepare(3, &[("s", add("a"))]));
    assert_eq!(story.seen(), ["1 locked 0", "2 blocked", "0 wound 7"]);
    story.ask(Body::Release { txn: txn(7), after: Timestamp::ZERO });
    story.sync();
    assert_eq!(story.seen(), ["2 prepared"]);
}

#[test]
fn a_holder_is_told_as_long_as_others_wait_and_they_can_ask_who_it_is() {
    let mut story = Story::new();
    story.ask(lock(1, "s", card()));
    story.seen();
    story.ask(one("s", add("a")));
    story.pass(60_000);
    assert_eq!(story.seen(), Vec::<String>::new(), "it is younger, and has not waited for long");
    for _ in 0..2 {
        story.pass(50_000);
        assert_eq!(story.seen(), ["0 wanted 1"]);
    }
    story.ask(Body::Holders { key: Blob::from("s") });
    let answers = story.answers();
    let [(_, Answer::Reply(Reply::Array(told)))] = &answers[..] else { panic!("{answers:?}") };
    let names = Reply::Array(vec![Reply::bulk(txn(1).to_string())]);
    assert_eq!(told[..], [Reply::Int(1), Reply::Int(160), names]);
    story.ask(Body::Release { txn: txn(1), after: Timestamp::ZERO });
    story.sync();
    assert_eq!(story.seen(), ["2 done 1"]);
    story.pass(200_000);
    assert_eq!(story.seen(), Vec::<String>::new());
}

#[test]
fn unseen_writes_are_locked_with_the_answer_whether_they_are_possible() {
    let mut story = Story::new();
    story.ask(one("text", put("words")));
    story.sync();
    story.seen();
    let check = |id: u64, key: &str, own: Vec<Op>, op: Op| {
        let key = Blob::from(key);
        Body::Lock { txn: txn(id), key, op, own, early: Early::Deferred }
    };
    story.ask(check(1, "s", vec![add("a")], add("b")));
    story.ask(check(2, "s", vec![add("a")], add("c")));
    story.ask(check(3, "text", Vec::new(), add("a")));
    story.ask(check(4, "new", vec![put("words")], add("a")));
    let replies: Vec<bool> = story
        .answers()
        .into_iter()
        .map(|(_, answer)| match answer {
            Answer::Locked { reply, .. } => reply.is_error(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(replies, [false, false, true, true], "additions do not wait for each other");
    story.ask(one("s", put("x")));
    assert_eq!(story.seen(), Vec::<String>::new(), "what would change the answer waits");
}

#[test]
fn without_phases_a_conflict_is_refused() {
    let rw = Concurrency::named("rw").unwrap();
    let mut story = Story::with(rw);
    story.ask(lock(1, "s", card()));
    story.ask(Body::Lock {
        txn: txn(2),
        key: Blob::from("s"),
        op: add("a"),
        own: Vec::new(),
        early: Early::Deferred,
    });
    let refused = format!("2 refused {:?}", Refusal::Conflict);
    assert_eq!(story.seen(), ["1 locked 0".to_owned(), refused]);
}

#[test]
fn a_locked_read_waits_for_what_is_in_the_log() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.ask(lock(1, "s", card()));
    assert_eq!(story.seen(), ["2 blocked"]);
    story.sync();
    assert_eq!(story.seen(), ["1 done 1", "2 locked 1"]);
}

#[test]
fn prepared_transactions_are_carried_out_in_timestamp_order() {
    let mut story = Story::new();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.ask(prepare(2, &[("s", card())]));
    // The second asks whether the first is decided, and is logged once the answer is there.
    assert_eq!(story.seen(), ["1 prepared", "0 probe 1"]);
    story.ask(Body::ProbeAck { txn: txn(1) });
    story.sync();
    assert_eq!(story.seen(), ["2 prepared"]);
    let late = story.shard.clock().0;
    // The second gets the smaller timestamp: it waits until the first is known to come later.
    story.ask(decide(2, Some(late + 100)));
    assert_eq!(story.seen(), Vec::<String>::new());
    story.ask(decide(1, Some(late + 200)));
    assert_eq!(story.seen(), ["4 done 0", "5 done 1"]);
}

#[test]
fn whoever_waits_behind_a_chain_wounds_whatever_comes_to_stand_at_its_end() {
    let mut story = Story::new();
    story.ask(prepare(20, &[("s", add("x"))]));
    story.ask(prepare(21, &[("s", add("y"))]));
    story.sync();
    story.ask(prepare(22, &[("s", card())]));
    for undecided in [20, 21] {
        story.ask(Body::ProbeAck { txn: txn(undecided) });
    }
    story.sync();
    story.ask(prepare(23, &[("s", add("z")), ("t", add("q"))]));
    story.ask(Body::ProbeAck { txn: txn(22) });
    story.sync();
    story.seen();
    // 23 must wait for 22, which waits for 21 and could have to wait for 20 as well.
    let clock = story.shard.clock().0;
    story.ask(decide(22, Some(clock + 100)));
    story.ask(decide(23, Some(clock + 200)));
    assert_eq!(story.seen(), Vec::<String>::new());
    let waiting = story.ask(lock(1, "t", card()));
    let told = ["0 wound 23", "0 wound 21"].map(str::to_owned);
    assert_eq!(story.seen(), [&[format!("{waiting} blocked")], &told[..]].concat());
    let decided = story.ask(decide(21, Some(clock + 50)));
    assert_eq!(story.seen(), [format!("{decided} done 1"), "0 wound 20".to_owned()]);
}

#[test]
fn a_plain_read_waits_for_a_transaction_that_may_have_been_answered() {
    let mut story = Story::new();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.ask(read("s", card()));
    assert_eq!(story.seen(), ["1 prepared"]);
    let ts = story.shard.clock().0 + 5;
    story.ask(decide(1, Some(ts)));
    assert_eq!(story.seen(), ["3 done 1", "2 = 1"]);
}

#[test]
fn an_abort_before_the_prepare_is_durable_leaves_nothing() {
    let mut story = Story::new();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.ask(decide(1, None));
    story.sync();
    story.ask(read("s", card()));
    assert_eq!(story.seen(), ["3 = 0"]);
    assert!(story.shard.state().prepared().is_empty());
    assert!(!story.shard.desk.core.locks.in_use());
}

#[test]
fn a_guard_fails_if_the_record_has_changed() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.sync();
    let version = story.version(b"s");
    story.ask(one("s", add("b")));
    story.sync();
    story.seen();
    let guards = vec![Guard { key: Blob::from("s"), condition: Condition::Unchanged(version) }];
    story.ask(Body::Apply(Apply { guards, ..apply(&[("t", add("x"))]) }));
    story.sync();
    assert_eq!(story.seen(), ["3 guard failed"]);
    assert!(story.shard.state().get(b"t").is_none());
}

#[test]
fn a_retry_with_the_same_request_number_takes_effect_once() {
    let mut story = Story::new();
    let request = Some(RequestId { client: Blob::from("c"), number: 1 });
    let body = || Body::Apply(Apply { request: request.clone(), ..apply(&[("s", add("a"))]) });
    story.ask(body());
    story.ask(body());
    story.sync();
    let answers = story.answers();
    assert!(matches!(&answers[0].1, Answer::Replies(r) if r[..] == [Reply::Int(1)]));
    assert!(matches!(&answers[1].1, Answer::Repeated(r) if r[..] == [Reply::Int(1)]));
}

#[test]
fn a_request_is_settled_once_and_for_all() {
    let mut story = Story::new();
    let id = |number| RequestId { client: Blob::from("c"), number };
    let numbered = |number, body| match body {
        Body::Prepare { mut prepare, floor } => {
            prepare.apply.request = Some(id(number));
            Body::Prepare { prepare, floor }
        }
        body => body,
    };
    // The question waits for the decision of what is prepared under the number.
    story.ask(numbered(1, prepare(1, &[("s", add("a"))])));
    story.sync();
    story.ask(Body::Resolve(id(1)));
    story.sync();
    assert_eq!(story.seen(), ["1 prepared"]);
    let ts = story.shard.clock().0 + 5;
    story.ask(decide(1, Some(ts)));
    story.sync();
    assert_eq!(story.seen(), ["3 done 1", "2 = 1"]);
    // While the question is on its way nothing is prepared under the number, nor ever after.
    story.ask(Body::Resolve(id(2)));
    story.ask(numbered(2, prepare(2, &[("s", add("b"))])));
    story.sync();
    let refused = format!("5 refused {:?}", Refusal::UnderWay);
    assert_eq!(story.seen(), [refused, "4 = 0".to_owned()]);
    story.ask(numbered(2, prepare(3, &[("s", add("b"))])));
    let apply = Apply { request: Some(id(2)), ..apply(&[("s", add("b"))]) };
    story.ask(Body::Apply(apply));
    story.ask(Body::Resolve(id(2)));
    story.sync();
    assert_eq!(story.seen(), ["6 Voided", "7 Voided", "8 = 0"]);
    assert!(
        story.shard.desk.locking.open_requests.is_empty()
            && story.shard.desk.locking.resolving.is_empty()
    );
}

#[test]
fn a_request_whose_guard_fails_is_open_no_more() {
    let mut story = Story::new();
    let id = RequestId { client: Blob::from("c"), number: 1 };
    let Body::Prepare { mut prepare, floor } = prepare(1, &[("s", add("a"))]) else { return };
    prepare.apply.request = Some(id.clone());
    prepare.apply.guards = vec![Guard {
        key: Blob::from("s"),
        condition: Condition::Unchanged(Version::Changed(Timestamp(1))),
    }];
    story.ask(Body::Prepare { prepare, floor });
    story.ask(Body::Resolve(id));
    story.sync();
    assert_eq!(story.seen(), ["1 guard failed", "2 = 0"]);
}

#[test]
fn a_snapshot_read_reports_its_interval() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.sync();
    story.seen();
    story.ask(Body::Snapshot {
        ops: vec![(Blob::from("s"), card())],
        at: Timestamp::ZERO,
        fenced: false,
        dated: true,
        as_of: None,
    });
    let (_, Answer::Snapshot { replies, since, until, .. }) = story.answers().remove(0) else {
        panic!("a snapshot answers with values and their interval");
    };
    assert_eq!(replies, [Reply::Int(1)]);
    assert!(since <= until);
    // A write on its way ends the interval.
    story.ask(one("s", add("b")));
    let entry = story.end_turn().unwrap();
    let ts = entry.ts;
    story.shard.keep(entry, 0);
    story.ask(Body::Snapshot {
        ops: vec![(Blob::from("s"), card())],
        at: Timestamp::ZERO,
        fenced: false,
        dated: true,
        as_of: None,
    });
    let (_, Answer::Snapshot { replies, until, .. }) = story.answers().remove(0) else {
        panic!("a snapshot does not wait for writes that nobody was told of");
    };
    assert_eq!(replies, [Reply::Int(1)]);
    assert!(until < ts);
}

#[test]
fn a_snapshot_shows_the_state_at_its_beginning() {
    let mut story = Story::new();
    for key in ["a", "b", "c"] {
        story.ask(one(key, add("1")));
    }
    story.sync();
    story.shard.begin_snapshot(3, 1, None);
    let mut parts = story.shard.snapshot_parts(2);
    story.ask(one("a", add("2")));
    story.ask(one("new", add("1")));
    story.sync();
    loop {
        let more = story.shard.snapshot_parts(2);
        if more.is_empty() {
            break;
        }
        parts.extend(more);
    }
    let mut reader = snapshot::Reader::default();
    for part in parts {
        reader.take(part).unwrap();
    }
    let (header, state) = reader.finish().unwrap();
    assert_eq!((header.index, header.term), (3, 1));
    assert_eq!(state.records().len(), 3);
    let card = adt::record::query(state.get(b"a"), &card(), &adt::Ctx::default());
    assert_eq!(card, Reply::Int(1));
}

fn snapshot_of(shard: &mut Shard) -> Vec<SnapshotPart> {
    shard.begin_snapshot(3, 1, None);
    let mut parts = Vec::new();
    loop {
        let more = shard.snapshot_parts(2);
        if more.is_empty() {
            return parts;
        }
        parts.extend(more);
    }
}

#[test]
fn a_snapshot_of_what_a_snapshot_has_brought_says_the_same() {
    let prepared = |id: u64, op: Op| {
        let participants = [ShardId(0), ShardId(1)].into_iter().collect();
        LogRecord::Prepare(Prepare { txn: txn(id), participants, apply: apply(&[("s", op)]) })
    };
    let decided = LogRecord::Outcome { txn: txn(2), commit: Some(Timestamp(500)) };
    let mut shard = Shard::new(Story::new().shard.desk.core.config.clone());
    // The second one is decided, and waits because the first one may come before it.
    let records = vec![prepared(1, add("a")), prepared(2, card()), decided];
    let entry = Entry { now_ms: 1, ts: Timestamp(100), seed: 0, records };
    shard.replay(Story::new().now, entry);
    let parts = snapshot_of(&mut shard);
    let waits =
        |part: &&SnapshotPart| matches!(part, SnapshotPart::Prepared { commit: Some(_), .. });
    assert_eq!(parts.iter().filter(waits).count(), 1);
    let mut reader = snapshot::Reader::default();
    for part in parts.clone() {
        reader.take(part).unwrap();
    }
    let (header, state) = reader.finish().unwrap();
    let mut restored = Shard::restored(shard.desk.core.config.clone(), state, header.clock);
    assert_eq!(snapshot_of(&mut restored), parts);
}

#[test]
fn a_lock_waits_for_what_was_logged_while_nobody_held_locks() {
    let mut story = Story::new();
    story.ask(lock(1, "s", card()));
    story.ask(Body::Release { txn: txn(1), after: Timestamp::ZERO });
    story.now.mono_us += 2 * TRACKING_US;
    story.shard.tick(story.now);
    story.seen();
    story.ask(one("s", add("a")));
    let entry = story.end_turn().unwrap();
    story.shard.keep(entry, 0);
    story.ask(lock(2, "s", card()));
    assert_eq!(story.seen(), ["4 blocked"], "the write is on its way");
    story.shard.committed(story.now);
    assert_eq!(story.seen(), ["3 done 1", "4 locked 1"]);
}

#[test]
fn an_expired_key_is_removed_through_the_log_before_it_is_read() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    let at = adt::key::When::In(1);
    let only = adt::key::ExpireIf::Always;
    story.ask(one("s", Op::Key(KeyOp::Expire { at, only })));
    story.sync();
    story.seen();
    story.now.wall_us += 5_000;
    story.ask(read("s", card()));
    assert_eq!(story.seen(), Vec::<String>::new());
    story.sync();
    assert_eq!(story.seen(), ["3 = 0"]);
    assert_eq!(story.shard.stats(0).expired, 1);
}

#[test]
fn replaying_the_log_gives_the_same_state() {
    let mut story = Story::new();
    let mut log = Vec::new();
    let mut keep = |story: &mut Story| {
        while let Some(entry) = story.end_turn() {
            log.push(entry.clone());
            story.shard.keep(entry, 0);
        }
        story.sync();
    };
    story.ask(one("s", add("a")));
    story.ask(prepare(1, &[("s", add("b")), ("t", add("x"))]));
    keep(&mut story);
    let ts = story.shard.clock().0 + 7;
    story.ask(decide(1, Some(ts)));
    story.ask(one("s", Op::Set(set::Op::Pop(None))));
    keep(&mut story);
    let mut follower = Shard::new(story.shard.desk.core.config.clone());
    for entry in log {
        follower.replay(story.now, entry);
    }
    let all = |shard: &Shard| {
        shard.state().records().iter().map(|(k, r)| (k.clone(), r.clone())).collect::<Vec<_>>()
    };
    assert_eq!(all(&follower), all(&story.shard));
}
