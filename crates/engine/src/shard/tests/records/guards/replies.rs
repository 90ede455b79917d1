//! Stories about guards that ask a record (`EXEC IFEQ`).

use super::*;
use crate::shard::tests::waiting::turns::operation;
use adt::command::condition::Expected;

/// Operations that take effect if a read, of words without a key, has a reply; or has another one.
fn guarded((read, equal, reply): (&str, bool, &str)) -> Apply {
    let read = operation(&format!("{read} k")).1;
    let expected = Expected { read, reply: Blob::from(reply), equal };
    let guards = vec![Guard { key: Blob::from("k"), condition: Condition::Replies(expected) }];
    Apply { guards, ..apply(&[("t", add("x"))]) }
}

fn prepared(id: u64, condition: (&str, bool, &str)) -> Body {
    let Body::Prepare { mut prepare, floor } = prepare(id, &[]) else { unreachable!() };
    prepare.apply = guarded(condition);
    Body::Prepare { prepare, floor }
}

/// A shard where `k` was written.
fn written(op: Op) -> Story {
    let mut story = Story::new();
    story.ask(one("k", op));
    story.sync();
    story.seen();
    story
}

const IS_2: (&str, bool, &str) = ("get", true, "2");
const IS_NOT_2: (&str, bool, &str) = ("get", false, "2");
const EXISTS: (&str, bool, &str) = ("exists", true, "1");
const IS_ABSENT: (&str, bool, &str) = ("exists", false, "1");

const DONE: &str = "done 1";
const FAILED: &str = "guard failed";
const IMPOSSIBLE: &str = "guard failed: Operation against a key holding the wrong kind of value";

#[test]
fn operations_take_effect_if_a_read_has_the_reply() {
    let values: [Option<Op>; 4] = [None, Some(put("1")), Some(put("2")), Some(add("2"))];
    for (condition, outcomes) in [
        (IS_2, [FAILED, FAILED, DONE, IMPOSSIBLE]),
        (IS_NOT_2, [DONE, DONE, FAILED, IMPOSSIBLE]),
        (EXISTS, [FAILED, DONE, DONE, DONE]),
        (IS_ABSENT, [DONE, FAILED, FAILED, FAILED]),
    ] {
        for (value, outcome) in values.iter().zip(outcomes) {
            // On one shard, and as one of two participants.
            for several in [false, true] {
                let mut story = value.clone().map_or_else(Story::new, written);
                let body =
                    if several { prepared(1, condition) } else { Body::Apply(guarded(condition)) };
                story.ask(body);
                story.sync();
                let seen = story.seen().remove(0);
                let expected = if several && outcome == DONE { "prepared" } else { outcome };
                assert_eq!(seen.split_once(' ').unwrap().1, expected, "{condition:?} {value:?}");
            }
        }
    }
}

#[test]
fn the_reply_is_that_at_its_place_in_the_log() {
    let mut story = Story::new();
    story.ask(one("k", put("2")));
    story.ask(Body::Apply(guarded(IS_2)));
    story.ask(one("k", put("3")));
    story.ask(Body::Apply(guarded(IS_2)));
    story.ask(one("k", put("2")));
    // It does not matter that the value was another one in between.
    story.ask(Body::Apply(guarded(IS_2)));
    story.sync();
    let outcomes: Vec<String> = story.seen();
    assert_eq!(outcomes[1], "2 done 1");
    assert_eq!(outcomes[3], "4 guard failed");
    assert_eq!(outcomes[5], "6 done 0", "the element was there");
}

#[test]
fn what_a_participant_has_asked_stays_so_until_the_decision() {
    for next_leader in [false, true] {
        let mut story = written(put("2"));
        story.ask(prepared(1, IS_2));
        story.sync();
        story.seen();
        if next_leader {
            story.shard.step_down();
            story.shard.lead(story.now, 9);
        }
        story.ask(one("k", put("3")));
        story.sync();
        assert!(!story.seen().iter().any(|line| line.contains("done")), "it waits");
        let ts = story.shard.clock().0 + 5;
        story.ask(decide(1, Some(ts)));
        story.sync();
        let seen = story.seen();
        assert!(seen.iter().any(|line| line.starts_with("3 done")), "{seen:?}");
    }
}

#[test]
fn writes_that_keep_a_key_do_not_wait_for_a_question_whether_it_exists() {
    let mut story = written(add("a"));
    story.ask(prepared(1, EXISTS));
    story.sync();
    story.seen();
    story.ask(one("k", add("b")));
    story.sync();
    assert_eq!(story.seen(), ["3 done 1"]);
}

#[test]
fn a_key_that_is_due_to_expire_does_not_exist() {
    for (condition, outcome) in [(EXISTS, "2 guard failed"), (IS_ABSENT, "2 done 1")] {
        let mut story = written(operation("set k 2 px 5").1);
        story.now.wall_us += 10_000;
        story.now.mono_us += 10_000;
        story.ask(Body::Apply(guarded(condition)));
        story.sync();
        assert_eq!(story.seen(), [outcome]);
    }
}

#[test]
fn a_watched_key_that_is_due_to_expire_has_changed() {
    let mut story = written(operation("set k 2 px 5").1);
    let condition = Condition::Unchanged(story.version(b"k"));
    story.now.wall_us += 10_000;
    story.now.mono_us += 10_000;
    let guards = vec![Guard { key: Blob::from("k"), condition }];
    story.ask(Body::Apply(Apply { guards, ..apply(&[("t", add("x"))]) }));
    story.sync();
    assert_eq!(story.seen(), ["2 guard failed"]);
}
