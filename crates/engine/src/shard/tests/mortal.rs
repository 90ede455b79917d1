//! Stories about values of which parts expire.

use super::*;
use crate::limits::REAP_PARTS_PER_TURN_MAX;
use adt::{Ctx, record};

fn op(line: &str) -> Op {
    waiting::turns::operation(line).1
}

/// A hash `h` with fields `a`, `b` and `c`, the first of which is due.
fn story() -> Story {
    let mut story = Story::new();
    story.ask(one("h", op("hset h a 1 b 1 c 1")));
    story.ask(one("h", op("hpexpire h 10 fields 1 a")));
    story.ask(one("h", op("hpexpire h 20 fields 1 b")));
    story.sync();
    story.seen();
    story.now.wall_us += 11_000;
    story
}

/// A hash `h` with one due field more than are removed in a turn, whose names begin with `f`, and with
/// others that stay.
fn many(others: &str) -> Story {
    let mut story = Story::new();
    let count = REAP_PARTS_PER_TURN_MAX + 1;
    let fields = |value: &str| -> String { (0..count).map(|n| format!(" f{n}{value}")).collect() };
    story.ask(one("h", op(&format!("hset h{others}{}", fields(" 1")))));
    story.ask(one("h", op(&format!("hpexpire h 10 fields {count}{}", fields("")))));
    story.sync();
    story.answers();
    story
}

fn ops(entry: &Entry) -> usize {
    entry.records.iter().map(|record| record.ops().len()).sum()
}

#[test]
fn an_expired_field_is_removed_through_the_log_before_it_is_read() {
    let mut story = story();
    story.ask(read("h", op("hlen h")));
    story.ask(read("h", op("hlen h")));
    assert_eq!(story.seen(), Vec::<String>::new());
    let entry = story.end_turn().expect("the removal");
    assert_eq!(ops(&entry), 1, "one for both");
    story.shard.keep(entry, 0);
    story.sync();
    assert_eq!(story.seen(), ["4 = 2", "5 = 2"]);
    story.ask(read("h", op("hlen h")));
    assert_eq!(story.seen(), ["6 = 2"], "nothing else is due");
}

#[test]
fn a_read_is_answered_although_fields_go_on_expiring() {
    let mut story = Story::new();
    let fields: String = (0..100).map(|n| format!(" f{n} 1")).collect();
    story.ask(one("h", op(&format!("hset h{fields}"))));
    for n in 0..100 {
        story.ask(one("h", op(&format!("hpexpire h {} fields 1 f{n}", 10 + n))));
    }
    story.sync();
    story.answers();
    story.now.wall_us += 10_000;
    let ops = vec![waiting::turns::operation("hlen h")];
    let at = Timestamp::ZERO;
    let several =
        |dated| Body::Snapshot { ops: ops.clone(), at, fenced: false, dated, as_of: None };
    let asked = [
        story.ask(read("h", op("hlen h"))),
        story.ask(several(false)),
        story.ask(several(true)),
        story.ask(Body::Version { key: Blob::from("h") }),
    ];
    let entry = story.end_turn().expect("the removal");
    story.shard.keep(entry, 0);
    // More are due when it is durable.
    story.now.wall_us += 20_000;
    story.shard.committed(story.now);
    let mut answered: Vec<u64> = story.answers().into_iter().map(|(token, _)| token).collect();
    answered.sort_unstable();
    assert_eq!(answered, asked);
}

#[test]
fn a_write_finds_no_field_that_expires_while_a_removal_is_on_its_way() {
    let mut story = story();
    story.ask(one("h", op("hincrby h a 5")));
    let entry = story.end_turn().expect("a removal and a write");
    assert_eq!(ops(&entry), 2);
    story.shard.keep(entry, 0);
    // The next field is due before the first removal is durable.
    story.now.wall_us += 10_000;
    story.ask(one("h", op("hincrby h b 7")));
    story.ask(one("h", op("hdel h b")));
    story.sync();
    assert_eq!(story.seen(), ["4 done 5", "5 done 7", "6 done 1"]);
}

#[test]
fn a_field_that_is_due_stays_while_a_transaction_holds_its_hash() {
    let mut story = Story::new();
    story.ask(one("h", op("hset h a 1")));
    story.ask(one("h", op("hpexpire h 10 fields 1 a")));
    story.sync();
    story.ask(lock(1, "h", op("hget h a")));
    story.seen();
    story.now.wall_us += 11_000;
    story.ask(lock(1, "h", op("hlen h")));
    story.pass(1_000);
    story.sync();
    assert_eq!(story.seen(), ["4 locked 1"], "it sees one state");
    story.ask(Body::Release { txn: txn(1), after: Timestamp::ZERO });
    story.ask(read("h", op("hlen h")));
    story.sync();
    assert_eq!(story.seen(), ["6 = 0"]);
    assert!(story.shard.state().records().is_empty());
}

#[test]
fn fields_that_nobody_asks_for_are_removed_a_bounded_number_at_a_time() {
    let mut story = many("");
    assert!(story.shard.next_timeout(story.now).is_some_and(|at| at <= story.now.mono_us + 10_000));
    story.now.wall_us += 11_000;
    for left in [1, 0] {
        story.pass(1_000);
        story.sync();
        assert_eq!(story.shard.state().records().len(), left);
        let fields = story
            .shard
            .state()
            .get(b"h")
            .map(|h| record::query(Some(h), &op("hlen h"), &Ctx::default()));
        assert_eq!(fields, (left > 0).then_some(Reply::Int(left as i64)));
    }
    assert_eq!(story.shard.next_timeout(story.now), None, "nothing is left to expire");
}

#[test]
fn a_request_has_all_due_fields_removed_although_some_are_on_their_way() {
    let mut story = many(" last 1");
    story.now.wall_us += 11_000;
    story.pass(1_000);
    story.ask(one("h", op("hsetnx h f0 x")));
    story.sync();
    assert_eq!(story.seen(), ["3 done 1"]);
    story.ask(read("h", op("hlen h")));
    assert_eq!(story.seen(), ["4 = 2"]);
}

#[test]
fn replicas_and_snapshots_keep_when_fields_expire() {
    let mut story = story();
    story.ask(read("h", op("hlen h")));
    story.sync();
    let state = story.restored();
    let records = |state: &State| {
        state.records().iter().map(|(k, r)| (k.clone(), r.clone())).collect::<Vec<_>>()
    };
    assert_eq!(records(&state), records(story.shard.state()));
    assert_eq!(state.records().next_expiry_ms(), story.shard.state().records().next_expiry_ms());
    assert!(state.records().next_expiry_ms().is_some());
}

#[test]
fn a_record_that_moves_takes_along_when_its_fields_expire() {
    let mut story = story();
    let key = Blob::from("h");
    let records = story.shard.desk.core.state.records_mut();
    let before = records.next_expiry_ms();
    let record = records.take(&key).expect("it is there");
    assert_eq!((records.next_expiry_ms(), records.parting(u64::MAX).count()), (None, 0));
    records.restore(key, record);
    assert!(before.is_some() && records.next_expiry_ms() == before);
}

#[test]
fn a_flush_forgets_when_fields_expire() {
    let mut story = story();
    story.ask(Body::Flush { database: None });
    story.sync();
    assert_eq!(story.shard.state().records().next_expiry_ms(), None);
    story.ask(one("h", op("hset h a 1")));
    story.ask(one("h", op("hpexpire h 10 fields 1 a")));
    story.ask(one("h", Op::Key(KeyOp::Del)));
    story.sync();
    assert_eq!(story.shard.state().records().next_expiry_ms(), None);
}
