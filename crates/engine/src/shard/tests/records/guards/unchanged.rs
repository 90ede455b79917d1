//! Stories about `WATCH` and writes that change nothing.

use super::*;
use adt::key::KeyOp;

fn persist() -> Op {
    Op::Key(KeyOp::Persist)
}

fn guarded(version: Version) -> Body {
    let guards = vec![Guard { key: Blob::from("s"), condition: Condition::Unchanged(version) }];
    Body::Apply(Apply { guards, ..apply(&[("t", add("x"))]) })
}

/// A write of `op` behind another one that is on its way, so that it is logged; both are done then.
fn logged(story: &mut Story, op: Op) {
    story.ask(one(&format!("other {}", story.token), add("x")));
    let entry = story.end_turn().unwrap();
    story.shard.keep(entry, 0);
    story.ask(one("s", op));
    story.sync();
    story.sync();
    story.seen();
}

#[test]
fn a_guard_holds_although_something_was_written_that_changed_nothing() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.sync();
    let version = story.version(b"s");
    logged(&mut story, persist());
    logged(&mut story, add("a"));
    assert_ne!(story.version(b"s"), version, "the writes were logged");
    story.ask(guarded(version));
    story.sync();
    assert_eq!(story.seen(), ["6 done 1"]);
}

#[test]
fn a_guard_fails_if_one_of_several_writes_has_changed_something() {
    for writes in [[add("a"), add("b")], [add("b"), add("b")]] {
        let mut story = Story::new();
        story.ask(one("s", add("a")));
        story.sync();
        let version = story.version(b"s");
        writes.into_iter().for_each(|op| logged(&mut story, op));
        story.ask(guarded(version));
        story.sync();
        assert_eq!(story.seen(), ["6 guard failed"]);
    }
}

#[test]
fn what_an_earlier_lead_has_seen_counts_as_a_change() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.sync();
    let version = story.version(b"s");
    logged(&mut story, persist());
    story.shard.step_down();
    story.shard.lead(story.now, 9);
    story.ask(guarded(version));
    story.sync();
    assert_eq!(story.seen(), ["4 guard failed"]);
}

#[test]
fn a_part_of_a_larger_transaction_holds_as_well() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.sync();
    let version = story.version(b"s");
    logged(&mut story, persist());
    let Body::Prepare { mut prepare, floor } = prepare(1, &[("t", add("x"))]) else { return };
    prepare.apply.guards =
        vec![Guard { key: Blob::from("s"), condition: Condition::Unchanged(version) }];
    story.ask(Body::Prepare { prepare, floor });
    story.sync();
    assert_eq!(story.seen(), ["4 prepared"]);
}

#[test]
fn a_flush_leaves_a_key_alone_that_is_absent() {
    let mut story = Story::new();
    story.ask(Body::Version { key: Blob::from("s") });
    let Some((_, Answer::Version(version))) = story.answers().pop() else { panic!("no version") };
    story.ask(Body::Flush { database: None });
    story.sync();
    story.seen();
    story.ask(guarded(version));
    story.sync();
    assert_eq!(story.seen(), ["3 done 1"]);
}
