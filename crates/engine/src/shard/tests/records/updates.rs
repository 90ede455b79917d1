//! Stories about transactions that read a record and write it afterwards.

use super::*;

/// A read that announces a write of the record.
pub(in crate::shard::tests) fn announced(id: u64, key: &str, op: Op) -> Body {
    let early = Early::Announced;
    Body::Lock { txn: txn(id), key: Blob::from(key), op, own: Vec::new(), early }
}

pub(in crate::shard::tests) fn get() -> Op {
    waiting::turns::operation("get k").1
}

/// The only participant's part of a transaction, which commits it.
pub(in crate::shard::tests) fn commit(id: u64, ops: &[(&str, Op)]) -> Body {
    let participants = [ShardId(0)].into_iter().collect();
    let prepare = Prepare { txn: txn(id), participants, apply: apply(ops) };
    Body::Prepare { prepare, floor: Timestamp::ZERO }
}

/// Kinds of answers that a story has seen, each with its number.
fn kinds(story: &mut Story, kind: &str) -> usize {
    story.seen().iter().filter(|answer| answer.contains(kind)).count()
}

/// Lets transactions that stand in line do their work one after the other; the first holds the record.
fn work_off(story: &mut Story, order: &[u64]) {
    for (turn, id) in order.iter().enumerate() {
        story.ask(lock(*id, "k", put("x")));
        assert_eq!(kinds(story, " locked"), 1, "{id} writes what it holds");
        story.ask(commit(*id, &[("k", put("x"))]));
        story.sync();
        let seen = story.seen();
        let of_kind = |kind: &str| seen.iter().filter(|answer| answer.contains(kind)).count();
        assert_eq!(of_kind(" done"), 1, "{id} commits: {seen:?}");
        assert_eq!(of_kind(" blocked"), 0, "{id} waits for none: {seen:?}");
        assert_eq!(of_kind(" locked"), usize::from(turn + 1 < order.len()), "{seen:?}");
    }
}

#[test]
fn updaters_stand_in_line_and_each_writes_what_it_has_read() {
    let mut story = Story::new();
    let order: Vec<u64> = (1..=40).collect();
    for id in &order {
        story.ask(announced(*id, "k", get()));
    }
    assert_eq!(kinds(&mut story, " locked"), 1);
    work_off(&mut story, &order);
}

#[test]
fn an_updater_that_holds_a_record_goes_ahead_of_older_ones_in_line() {
    let mut story = Story::new();
    story.ask(announced(100, "k", get()));
    for id in 1..=40 {
        story.ask(announced(id, "k", get()));
    }
    assert_eq!(kinds(&mut story, " locked"), 1);
    let order: Vec<u64> = [100].into_iter().chain(1..=40).collect();
    work_off(&mut story, &order);
}

#[test]
fn a_writer_goes_ahead_of_older_readers_that_wait_for_it() {
    let mut story = Story::new();
    story.ask(lock(100, "k", put("x")));
    for id in 1..=40 {
        story.ask(lock(id, "k", get()));
    }
    story.seen();
    story.ask(commit(100, &[("k", put("x"))]));
    story.sync();
    let seen = story.seen();
    assert!(seen.iter().any(|answer| answer.ends_with("done Ok")), "{seen:?}");
    assert!(!seen.iter().any(|answer| answer.ends_with(" blocked")), "{seen:?}");
}

#[test]
fn readers_share_a_record_with_an_updater_until_it_writes() {
    let mut story = Story::new();
    story.ask(lock(1, "k", get()));
    story.ask(announced(2, "k", get()));
    story.ask(lock(3, "k", get()));
    story.ask(read("k", get()));
    assert_eq!(kinds(&mut story, " locked"), 3);
    story.ask(announced(4, "k", get()));
    assert_eq!(story.seen(), ["5 blocked"]);
    // The write waits for the readers, and new readers for the write.
    story.ask(lock(2, "k", put("x")));
    let seen = story.seen();
    assert!(seen[0].ends_with(" blocked"), "{seen:?}");
    story.ask(lock(5, "k", get()));
    assert_eq!(story.seen(), ["7 blocked"]);
    story.ask(read("k", get()));
    assert_eq!(story.seen(), ["8 = Nil"], "a read without locks waits for nothing undecided");
    for id in [1, 3] {
        story.ask(Body::Release { txn: txn(id), after: Timestamp::ZERO });
    }
    assert_eq!(story.seen(), ["6 locked Ok"]);
    story.ask(commit(2, &[("k", put("x"))]));
    story.sync();
    assert_eq!(kinds(&mut story, " locked"), 2, "the next updater and the reader");
}

#[test]
fn the_next_updater_comes_when_one_ends_without_a_write() {
    let mut story = Story::new();
    for id in 1..=3 {
        story.ask(announced(id, "k", get()));
    }
    story.seen();
    for id in 1..=2 {
        story.ask(Body::Release { txn: txn(id), after: Timestamp::ZERO });
        assert_eq!(kinds(&mut story, " locked"), 1);
    }
}
