//! Stories about transactions that are told what others have written before it is durable.

use super::updates::{announced, commit, get};
use super::*;
use crate::ids::RequestId;

/// A record that one transaction has changed, with that commit in the log and not durable, and another
/// transaction that was told the new value.
fn one_after_another() -> Story {
    let mut story = Story::new();
    story.ask(announced(1, "k", get()));
    story.ask(announced(2, "k", get()));
    assert_eq!(story.seen(), ["1 locked Nil", "2 blocked"]);
    story.ask(commit(1, &[("k", put("x"))]));
    story
}

#[test]
fn commits_of_a_line_of_updaters_share_one_write() {
    let mut story = Story::new();
    for id in 1..=20 {
        story.ask(announced(id, "k", get()));
    }
    story.seen();
    for id in 1..=20 {
        let value = id.to_string();
        story.ask(commit(id, &[("k", put(&value))]));
        let seen = story.seen();
        let told = format!("{} locked Bulk({value})", id + 1);
        assert!(id == 20 || seen.len() == 1 && seen[0].replace('"', "") == told, "{seen:?}");
    }
    let entry = story.end_turn().expect("they are in the log");
    assert_eq!(entry.records.len(), 20);
    assert_eq!(story.seen(), Vec::<String>::new(), "no commit is answered before it is durable");
    story.shard.keep(entry, 0);
    story.sync();
    assert_eq!(story.seen().len(), 20);
}

#[test]
fn the_shard_of_a_value_that_is_not_durable_has_to_vote() {
    let mut story = one_after_another();
    let rests_at = |(_, answer): (u64, Answer)| match answer {
        Answer::Locked { rests_at, .. } => rests_at,
        other => panic!("{other:?}"),
    };
    let told: Vec<_> = story.answers().into_iter().map(rests_at).collect();
    assert_eq!(told, [Some(ShardId(0))]);
}

#[test]
fn a_vote_waits_for_what_the_transaction_was_told() {
    let mut story = one_after_another();
    story.ask(prepare(2, &[]));
    story.seen();
    story.sync();
    assert_eq!(story.seen(), ["3 done Ok"]);
    story.sync();
    assert_eq!(story.seen(), ["4 prepared"]);
}

#[test]
fn a_vote_waits_for_an_entry_that_was_proposed_before_the_read() {
    let mut story = one_after_another();
    story.ask(announced(3, "k", get()));
    let entry = story.end_turn().expect("the first commit");
    story.shard.keep(entry, 0);
    story.ask(Body::Release { txn: txn(2), after: Timestamp::ZERO });
    assert!(story.seen().last().is_some_and(|answer| answer.starts_with("4 locked")));
    story.ask(prepare(3, &[]));
    story.sync();
    story.sync();
    assert_eq!(story.seen().last().map(String::as_str), Some("6 prepared"), "nothing else comes");
}

#[test]
fn a_commit_without_writes_waits_for_what_the_transaction_was_told() {
    let mut story = one_after_another();
    story.ask(commit(2, &[]));
    story.seen();
    assert!(story.end_turn().is_some_and(|entry| entry.records.len() == 2));
    assert_eq!(story.seen(), Vec::<String>::new());
}

#[test]
fn nothing_is_told_of_a_commit_that_may_have_no_effect() {
    let mut story = Story::new();
    story.ask(announced(1, "k", get()));
    story.ask(announced(2, "k", get()));
    story.seen();
    let Body::Prepare { mut prepare, floor } = commit(1, &[("k", put("x"))]) else {
        panic!("a commit is a prepare of one participant")
    };
    prepare.apply.request = Some(RequestId { client: Blob::from("c"), number: 1 });
    story.ask(Body::Prepare { prepare, floor });
    assert_eq!(story.seen(), Vec::<String>::new(), "it may be a repetition");
    story.sync();
    assert_eq!(story.seen().len(), 2);
}

#[test]
fn nothing_is_told_of_a_commit_that_draws_at_random() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.sync();
    story.ask(announced(1, "s", card()));
    story.ask(announced(2, "s", card()));
    story.seen();
    story.ask(commit(1, &[("s", Op::Set(set::Op::Pop(None)))]));
    assert_eq!(story.seen(), Vec::<String>::new());
    story.sync();
    assert_eq!(story.seen().last().map(String::as_str), Some("3 locked 0"));
}

/// Writes of one commit to a set for which another transaction waits.
fn commit_to_set(filled: usize, writes: &[Op]) -> Story {
    let mut story = Story::new();
    for member in 0..filled {
        story.ask(one("s", add(&member.to_string())));
    }
    story.sync();
    story.seen();
    story.ask(announced(1, "s", card()));
    story.ask(announced(2, "s", card()));
    story.seen();
    let writes: Vec<_> = writes.iter().map(|op| ("s", op.clone())).collect();
    story.ask(commit(1, &writes));
    story
}

#[test]
fn writes_behind_one_that_cannot_be_foreseen_are_not_foreseen_either() {
    let mut story = commit_to_set(1, &[add("a"), Op::Set(set::Op::Pop(None)), add("b"), add("c")]);
    assert_eq!(story.seen(), Vec::<String>::new());
    story.sync();
    assert!(story.seen().last().is_some_and(|told| told.ends_with("locked 3")));
}

#[test]
fn a_copy_that_grows_too_large_within_a_commit_is_not_begun_anew() {
    for filled in 60..70 {
        let mut story = commit_to_set(filled, &[add("a"), add("b"), add("c")]);
        story.sync();
        let (told, comes) = (story.seen(), format!("locked {}", filled + 3));
        assert!(told.iter().any(|told| told.ends_with(&comes)), "{told:?}");
    }
}

#[test]
fn what_a_transaction_has_taken_itself_is_gone_for_its_next_access() {
    let mut story = Story::new();
    let (push, pop) = (list("rpush k b"), list("lpop k"));
    story.ask(one("k", list("rpush k a")));
    story.sync();
    story.seen();
    story.ask(lock(1, "k", pop.clone()));
    story.ask(Body::Lock {
        txn: txn(1),
        key: Blob::from("k"),
        op: pop.clone(),
        own: vec![pop.clone()],
        early: Early::Observed,
    });
    let seen: Vec<_> = story.seen().iter().map(|answer| answer.replace('"', "")).collect();
    assert_eq!(seen, ["2 locked Bulk(a)", "3 locked Nil"]);
    story.ask(prepare(2, &[("k", push)]));
    assert_eq!(story.seen(), ["4 blocked"], "it would give the second access an element");
    story.ask(commit(1, &[("k", pop.clone()), ("k", pop)]));
    story.sync();
    let seen: Vec<_> = story.seen().iter().map(|answer| answer.replace('"', "")).collect();
    assert!(seen.contains(&"4 prepared".to_owned()), "{seen:?}");
}

fn list(line: &str) -> Op {
    waiting::turns::operation(line).1
}
