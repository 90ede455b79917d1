//! Stories about bounded quantities: guarded decrements go side by side as long as all of them fit.

use super::*;

fn op(words: &str) -> Op {
    waiting::turns::operation(words).1
}

fn test_of(threshold: i64) -> Op {
    op(&format!("counter.atleast k {threshold}"))
}

fn change(by: i64) -> Op {
    op(&format!("counter.try k {by}"))
}

/// A shard with a counter of so many items.
fn stocked(items: i64) -> Story {
    let mut story = Story::new();
    story.ask(one("k", op(&format!("counter.set k {items} min 0"))));
    story.sync();
    story.seen();
    story
}

fn commit(id: u64, ops: &[(&str, Op)]) -> Body {
    let participants = [ShardId(0)].into_iter().collect();
    let prepare = Prepare { txn: txn(id), participants, apply: apply(ops) };
    Body::Prepare { prepare, floor: Timestamp::ZERO }
}

fn release(id: u64) -> Body {
    Body::Release { txn: txn(id), after: Timestamp::ZERO }
}

impl Story {
    fn answer_of(&mut self, body: Body) -> String {
        self.ask(body);
        let seen = self.seen();
        let answers = seen.iter().map(|answer| answer.split_once(' ').map_or("", |(_, a)| a));
        answers.collect::<Vec<_>>().join("; ")
    }
}

#[test]
fn guarded_decrements_go_side_by_side_and_none_waits() {
    let mut story = stocked(1_000);
    for id in 1..=500 {
        assert_eq!(story.answer_of(lock(id, "k", test_of(1))), "locked 1");
        assert_eq!(story.answer_of(lock(id, "k", change(-1))), "locked 1");
    }
    for id in (1..=500).rev() {
        assert_eq!(story.answer_of(commit(id, &[("k", change(-1))])), "");
    }
    story.sync();
    let done = story.seen();
    assert_eq!(done.iter().filter(|answer| answer.ends_with(" done 1")).count(), 500, "{done:?}");
    assert_eq!(story.answer_of(read("k", op("counter.get k"))), "= 500");
}

#[test]
fn a_decrement_that_might_not_fit_waits_until_there_is_room() {
    let mut story = stocked(3);
    for id in 1..=3 {
        assert_eq!(story.answer_of(lock(id, "k", change(-1))), "locked 1");
    }
    assert_eq!(story.answer_of(lock(4, "k", change(-1))), "blocked");
    assert_eq!(
        story.answer_of(lock(5, "k", test_of(1))),
        "blocked",
        "it would show who came first"
    );
    // One of them gives its item back, and not the one that came last.
    assert_eq!(story.answer_of(release(1)), "locked 1", "the oldest one that waits");
    assert_eq!(story.answer_of(release(2)), "locked 1", "one is left whatever happens");
    for id in [3, 4] {
        story.ask(commit(id, &[("k", change(-1))]));
    }
    story.sync();
    let seen = story.seen();
    assert_eq!(seen.iter().filter(|answer| answer.ends_with(" done 1")).count(), 2, "{seen:?}");
}

#[test]
fn what_is_in_the_log_counts_until_it_is_carried_out() {
    let mut story = stocked(3);
    for _ in 0..2 {
        story.ask(one("k", change(-1)));
    }
    assert_eq!(story.answer_of(lock(1, "k", test_of(1))), "locked 1", "one is left for certain");
    assert_eq!(story.answer_of(lock(2, "k", test_of(2))), "blocked");
    story.ask(one("k", change(-1)));
    story.sync();
    let seen = story.seen();
    assert!(seen.iter().any(|answer| answer.ends_with("locked 0")), "{seen:?}");
    assert!(
        !seen.iter().any(|answer| answer.starts_with("6 done")),
        "the test still holds: {seen:?}"
    );
    story.ask(release(1));
    story.sync();
    assert!(story.seen().iter().any(|answer| answer.ends_with("done 1")));
}

#[test]
fn a_large_decrement_is_not_overtaken_for_ever() {
    let mut story = stocked(10);
    assert_eq!(story.answer_of(lock(1, "k", change(-4))), "locked 1");
    assert_eq!(story.answer_of(lock(2, "k", change(-7))), "blocked");
    assert_eq!(story.answer_of(lock(3, "k", change(-1))), "blocked", "the other one is older");
    assert_eq!(story.answer_of(release(1)), "locked 1; locked 1");
}

#[test]
fn prepared_decrements_count_as_long_as_they_may_take_effect() {
    let mut story = stocked(3);
    for id in 1..=3 {
        story.ask(prepare(id, &[("k", change(-1))]));
    }
    story.sync();
    story.seen();
    assert_eq!(story.answer_of(lock(4, "k", test_of(1))), "blocked");
    story.ask(decide(1, None));
    story.sync();
    assert!(story.seen().iter().any(|answer| answer.ends_with("locked 1")));
    story.ask(decide(2, Some(story.now.wall_us << 11)));
    story.ask(decide(3, None));
    story.sync();
    story.seen();
    assert_eq!(story.answer_of(lock(4, "k", test_of(2))), "locked 1");
}

#[test]
fn other_writes_and_records_that_expire_know_no_escrow() {
    let mut story = stocked(10);
    assert_eq!(story.answer_of(lock(1, "k", test_of(1))), "locked 1");
    assert_eq!(story.answer_of(lock(2, "k", op("counter.incr k -1"))), "blocked");
    story.ask(release(2));
    story.ask(release(1));
    story.ask(one("k", op("counter.set k 10")));
    story.ask(lock(1, "k", test_of(1)));
    story.sync();
    assert!(story.seen().iter().any(|answer| answer.ends_with("locked 1")));
}
