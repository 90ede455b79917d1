//! Stories about `WATCH` on keys that are absent: made and removed again is changed.

use super::*;

fn remove() -> Op {
    Op::Set(set::Op::Remove([Blob::from("x")].into_iter().collect()))
}

fn guarded(version: Version) -> Apply {
    let guards = vec![Guard { key: Blob::from("k"), condition: Condition::Unchanged(version) }];
    Apply { guards, ..apply(&[("t", add("x"))]) }
}

/// Looks at the absent key `k`; nothing is on its way.
fn look(story: &mut Story) -> Version {
    story.ask(Body::Version { key: Blob::from("k") });
    match &story.answers()[..] {
        [(_, Answer::Version(version))] => *version,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_that_was_never_there_is_unchanged() {
    let mut story = Story::new();
    let version = look(&mut story);
    story.ask(one("other", add("x")));
    story.ask(Body::Apply(guarded(version)));
    story.sync();
    assert_eq!(story.seen(), ["2 done 1", "3 done 1"]);
}

#[test]
fn a_key_that_was_made_and_removed_again_has_changed() {
    let mut story = Story::new();
    let version = look(&mut story);
    story.ask(one("k", add("x")));
    story.ask(one("k", remove()));
    story.sync();
    story.ask(Body::Apply(guarded(version)));
    story.sync();
    assert_eq!(story.seen(), ["2 done 1", "3 done 1", "4 guard failed"]);
    assert!(story.shard.state().get(b"t").is_none());
}

#[test]
fn what_is_on_its_way_is_awaited() {
    let mut story = Story::new();
    let version = look(&mut story);
    story.ask(one("k", add("x")));
    story.ask(one("k", remove()));
    let entry = story.end_turn().unwrap();
    story.shard.keep(entry, 0);
    story.ask(Body::Apply(guarded(version)));
    assert!(story.end_turn().is_none(), "it waits");
    story.sync();
    story.sync();
    assert_eq!(story.seen(), ["2 done 1", "3 done 1", "4 guard failed"]);
}

#[test]
fn a_part_of_a_larger_transaction_is_refused_as_well() {
    let mut story = Story::new();
    let version = look(&mut story);
    story.ask(one("k", add("x")));
    story.ask(one("k", remove()));
    let Body::Prepare { mut prepare, floor } = prepare(1, &[]) else { return };
    prepare.apply = guarded(version);
    story.ask(Body::Prepare { prepare: prepare.clone(), floor });
    story.sync();
    prepare.txn = txn(2);
    prepare.apply = guarded(look_again(&story));
    story.ask(Body::Prepare { prepare, floor });
    story.sync();
    let seen = story.seen();
    assert_eq!(seen, ["4 blocked", "2 done 1", "3 done 1", "4 guard failed", "5 prepared"]);
}

fn look_again(story: &Story) -> Version {
    story.version(b"k")
}

#[test]
fn a_flush_removes_everything() {
    let mut story = Story::new();
    let version = look(&mut story);
    story.ask(one("k", add("x")));
    story.ask(Body::Flush { database: None });
    story.sync();
    story.ask(Body::Apply(guarded(version)));
    story.sync();
    assert_eq!(story.seen().last().unwrap(), "4 guard failed");
}

#[test]
fn what_another_leader_has_counted_says_nothing() {
    let mut story = Story::new();
    let version = look(&mut story);
    story.shard.step_down();
    story.shard.lead(story.now, 9);
    story.ask(Body::Apply(guarded(version)));
    story.sync();
    assert_eq!(story.seen(), ["2 guard failed"]);
}

#[test]
fn a_retry_of_what_took_effect_is_told_so() {
    let mut story = Story::new();
    let version = look(&mut story);
    let request = Some(RequestId { client: Blob::from("c"), number: 1 });
    let body = Apply { request, ..guarded(version) };
    story.ask(Body::Apply(body.clone()));
    story.sync();
    story.ask(one("k", add("x")));
    story.ask(one("k", remove()));
    story.sync();
    story.ask(Body::Apply(body));
    story.sync();
    let answers = story.answers();
    assert!(matches!(answers.last(), Some((5, Answer::Repeated(_)))), "{answers:?}");
}
