//! Stories about operations that change nothing.

use super::*;

fn remove(member: &str) -> Op {
    Op::Set(set::Op::Remove([Blob::from(member)].into_iter().collect()))
}

/// A shard whose set `s` holds `a`.
fn with_a_member() -> Story {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.sync();
    story.answers();
    story
}

/// Story with a member, and with the removal of `a` in a batch on its way; it has number 2.
fn with_a_removal_in_flight() -> Story {
    let mut story = with_a_member();
    story.ask(one("s", remove("a")));
    let entry = story.end_turn().unwrap();
    story.shard.keep(entry, 0);
    story
}

#[test]
fn what_changes_nothing_is_answered_without_the_log() {
    let mut story = with_a_member();
    let logged = story.shard.desk.core.stats.log_records;
    story.ask(one("s", add("a")));
    story.ask(one("s", remove("b")));
    story.ask(Body::Read { key: Blob::from("s"), op: card(), fenced: true });
    assert!(story.end_turn().is_none());
    assert_eq!(story.seen(), ["2 done 0", "3 done 0", "4 = 1"]);
    assert_eq!(story.shard.desk.core.stats.log_records, logged);
    assert!(!story.shard.desk.core.tail.has_unapplied());
}

#[test]
fn what_would_change_something_at_its_place_in_the_batch_is_logged() {
    let mut story = with_a_member();
    story.ask(one("s", remove("a")));
    story.ask(one("s", add("a")));
    story.ask(one("other", remove("a")));
    story.sync();
    assert_eq!(story.seen(), ["4 done 0", "2 done 1", "3 done 1"]);
    assert_eq!(story.shard.desk.core.stats.log_records, 3);
}

#[test]
fn nothing_is_idle_behind_a_batch_that_is_on_its_way() {
    let mut story = with_a_removal_in_flight();
    story.ask(one("s", add("a")));
    let entry = story.end_turn().unwrap();
    assert_eq!(entry.records.len(), 1);
    story.shard.keep(entry, 0);
    story.sync();
    assert_eq!(story.seen(), ["2 done 1", "3 done 1"]);
}

#[test]
fn an_idle_write_lets_go_of_those_who_waited_for_it() {
    let mut story = with_a_member();
    story.ask(lock(1, "other", card()));
    assert_eq!(story.seen(), ["2 locked 0"]);
    // Two adds in one batch: a reader waits, although neither changes anything.
    story.ask(one("s", add("a")));
    story.ask(one("s", add("a")));
    story.ask(lock(1, "s", card()));
    story.sync();
    assert_eq!(story.seen(), ["5 blocked", "3 done 0", "4 done 0", "5 locked 1"]);
}

#[test]
fn a_record_that_the_rest_of_the_batch_only_reads_is_let_go_of() {
    let mut story = with_a_member();
    story.ask(lock(1, "other", card()));
    story.ask(one("s", add("a")));
    story.ask(one("s", add("a")));
    story.ask(Body::Apply(apply(&[("s", card()), ("new", add("x"))])));
    story.ask(lock(1, "s", card()));
    story.sync();
    let seen = ["2 locked 0", "6 blocked", "3 done 0", "4 done 0", "6 locked 1", "5 done 1,1"];
    assert_eq!(story.seen(), seen);
}

#[test]
fn a_request_number_is_remembered_even_if_nothing_changes() {
    let mut story = with_a_member();
    let request = RequestId { client: Blob::from("me"), number: 1 };
    let again = Apply { request: Some(request), ..apply(&[("s", add("a"))]) };
    story.ask(Body::Apply(again));
    assert_eq!(story.end_turn().map(|entry| entry.records.len()), Some(1));
}

#[test]
fn what_is_in_flight_may_end_idleness() {
    let mut story = with_a_removal_in_flight();
    // In the present state both adds change nothing; behind the removal the first one does.
    story.ask(prepare(1, &[("s", add("a"))]));
    story.ask(one("s", add("a")));
    story.sync();
    let seen = story.seen();
    assert!(!seen.iter().any(|answer| answer.starts_with("4 ")), "{seen:?}");
    story.ask(decide(1, Some(u64::MAX / 2)));
    story.sync();
    let seen = story.seen();
    assert!(seen.contains(&"5 done 1".to_owned()), "{seen:?}");
    assert!(seen.contains(&"4 done 0".to_owned()), "{seen:?}");
}
