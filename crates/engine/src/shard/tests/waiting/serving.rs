//! Requests that wait for something to take, and what others see meanwhile.

use super::kept::leaves;
use super::turns::{call, operation};
use super::*;
use crate::limits::KEPT_US_MAX;
use crate::message::{Early, Takes};
use adt::{ArgBuf, Attempt, Command, Handler};

fn key(name: &str) -> Blob {
    Blob::from(name)
}

/// A request that waits, of which the shard knows what it takes.
fn waits(words: &str) -> Body {
    let words = ArgBuf::of(words.split(' '));
    let spec = adt::record::command(words.args().get(0).expect("a name")).expect("a command");
    let Handler::Data(parse) = spec.handler else { panic!("a data command") };
    let Ok(Command::Blocking(blocking)) = parse(&words.args()) else { panic!("it waits") };
    let (keys, attempts): (Vec<Blob>, Vec<Attempt>) = blocking.attempts.into_iter().unzip();
    Body::Block { keys, takes: Some(Takes(attempts.into())) }
}

/// One that waits elsewhere as well.
fn told(name: &str) -> Body {
    Body::Block { keys: vec![key(name)], takes: None }
}

fn look(words: &str) -> Body {
    let (key, op) = operation(words);
    Body::Read { key, op, fenced: false }
}

fn taker(age: u64) -> TxnId {
    TxnId { attempt: TxnId::TAKER, ..txn(age) }
}

/// Request of a waiter that was notified.
fn take(age: u64, words: &str) -> Body {
    let apply = Apply { ops: SmallVec::from_iter([operation(words)]), ..Apply::default() };
    let participants = SmallVec::from_iter([ShardId(0)]);
    let prepare = Prepare { txn: taker(age), participants, apply };
    Body::Prepare { prepare, floor: Timestamp::ZERO }
}

fn story(first: &[Body]) -> Story {
    let mut story = Story::new();
    for body in first {
        story.ask(body.clone());
    }
    story.sync();
    story.answers();
    story
}

#[test]
fn what_is_pushed_is_taken_in_the_same_entry() {
    let mut story = story(&[waits("blpop l 0"), waits("brpop l 0")]);
    story.ask(call("rpush l a b c"));
    let entry = story.end_turn().expect("a push");
    assert_eq!(entry.records.len(), 3);
    story.shard.keep(entry, 0);
    story.sync();
    let taken = |element| Reply::Array(vec![Reply::bulk("l"), Reply::bulk(element)]);
    let seen =
        ["3 done 3".into(), format!("1 = {:?}", taken("a")), format!("2 = {:?}", taken("c"))];
    assert_eq!(story.seen(), seen);
    story.ask(look("llen l"));
    assert_eq!(story.seen(), ["4 = 1"]);
    assert!(story.shard.desk.waits.blocked.is_empty());
}

#[test]
fn several_pushes_of_one_entry_serve_one_after_the_other() {
    let mut story =
        story(&[waits("blmove l m left right 0"), waits("blpop l 0"), waits("blpop m 0")]);
    for words in ["rpush l a", "rpush l b", "rpush l c", "rpush m d"] {
        story.ask(call(words));
    }
    story.sync();
    let seen = story.seen();
    assert_eq!(seen.len(), 7, "{seen:?}");
    assert_eq!(seen[..2], ["4 done 1".to_owned(), format!("1 = {:?}", Reply::bulk("a"))]);
    assert!(seen[2].starts_with("3 = ") && seen[4].starts_with("2 = "), "{seen:?}");
    story.ask(look("llen l"));
    story.ask(look("llen m"));
    assert_eq!(story.seen(), ["8 = 1", "9 = 1"]);
}

#[test]
fn moves_that_wait_for_each_other_are_one_step() {
    let mut story = story(&[waits("blmove b c left right 0"), waits("blmove a b left right 0")]);
    story.ask(call("rpush a x"));
    story.sync();
    let x = format!("{:?}", Reply::bulk("x"));
    assert_eq!(story.seen(), ["3 done 1".into(), format!("2 = {x}"), format!("1 = {x}")]);
    for words in ["llen a", "llen b", "llen c"] {
        story.ask(look(words));
    }
    assert_eq!(story.seen(), ["4 = 0", "5 = 0", "6 = 1"]);
}

#[test]
fn a_move_to_what_is_no_list_fails_and_the_next_is_served() {
    let set = Body::Apply(apply(&[("k", put("v"))]));
    let mut story = story(&[set, waits("blmove l k left right 0"), waits("blpop l 0")]);
    story.ask(call("rpush l x"));
    story.sync();
    let seen = story.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen[1].starts_with("2 = ") && seen[1].contains("WRONGTYPE"), "{seen:?}");
    assert!(seen[2].starts_with("3 = "), "{seen:?}");
}

#[test]
fn a_push_that_may_have_no_effect_serves_when_it_has_had_it() {
    let mut story = story(&[waits("blpop l 0")]);
    let (l, push) = operation("rpush l x");
    let guard = Guard { key: key("g"), condition: Condition::Unchanged(Version::NONE) };
    let ops = SmallVec::from_iter([(l, push)]);
    story.ask(Body::Apply(Apply { ops, guards: vec![guard], ..Apply::default() }));
    story.sync();
    assert_eq!(story.seen(), ["2 guard failed"]);
    story.ask(look("llen l"));
    assert_eq!(story.seen(), ["3 = 0"]);
}

#[test]
fn the_end_of_a_wait_says_what_it_has_got_by_then() {
    let mut story = story(&[waits("blpop l 0"), waits("blpop l 0")]);
    story.ask(call("rpush l x"));
    for token in [1, 2] {
        leaves(&mut story, token);
    }
    assert_eq!(story.seen(), ["2 done "]);
    story.sync();
    let seen = story.seen();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[1].starts_with("1 = "), "{seen:?}");
    assert!(story.shard.desk.waits.blocked.is_empty());
}

#[test]
fn a_key_is_kept_for_the_waiter_that_is_told_until_it_has_taken() {
    let mut story = story(&[told("l"), told("l")]);
    story.ask(call("rpush l x"));
    // The element is for the first one, as soon as it is in the log.
    story.ask(call("lpop l"));
    story.ask(look("llen l"));
    story.sync();
    assert_eq!(story.seen(), ["3 done 1", "1 ready"]);
    story.ask(take(1, "lpop l"));
    story.sync();
    assert_eq!(story.seen(), [format!("6 done {:?}", Reply::bulk("x"))]);
    leaves(&mut story, 1);
    story.sync();
    let seen = story.seen();
    assert_eq!(seen, ["5 = 0".to_owned(), format!("4 done {:?}", Reply::Nil)]);
}

#[test]
fn what_is_kept_for_a_waiter_that_does_not_come_is_let_go() {
    let mut story = story(&[told("l")]);
    story.ask(call("rpush l x"));
    story.sync();
    story.ask(look("llen l"));
    assert_eq!(story.seen(), ["2 done 1", "1 ready"]);
    assert!(story.shard.next_timeout(story.now).is_some());
    story.pass(KEPT_US_MAX + 1);
    assert_eq!(story.seen(), ["3 = 1"]);
    // What is told again and again without taking anything is not kept for longer.
    story.ask(call("rpush l y"));
    story.sync();
    story.ask(look("llen l"));
    assert_eq!(story.seen(), ["4 done 2", "5 = 2"]);
}

#[test]
fn a_write_that_brings_nothing_keeps_nothing() {
    let mut story = story(&[told("l")]);
    story.ask(call("lpop l"));
    story.ask(look("llen l"));
    story.sync();
    story.ask(look("llen l"));
    story.sync();
    assert_eq!(story.seen().len(), 3);
    let blocked = &story.shard.desk.waits.blocked;
    assert!(blocked.next_us(&story.shard.desk.core, story.now).is_none());
}

#[test]
fn a_transaction_that_was_here_before_goes_on_and_others_give_way() {
    let mut story = story(&[told("l")]);
    let (l, llen) = operation("llen m");
    let lock = |id, key: &Blob, op: &Op| Body::Lock {
        txn: txn(id),
        key: key.clone(),
        op: op.clone(),
        own: Vec::new(),
        early: Early::Observed,
    };
    // It holds what the waiter needs, and wants what is kept for the waiter.
    story.ask(lock(50, &l, &llen));
    story.ask(call("rpush l x"));
    story.sync();
    story.answers();
    story.ask(lock(50, &key("l"), &llen));
    let (m, push) = operation("rpush m x");
    story.ask(Body::Lock {
        txn: taker(1),
        key: m,
        op: push,
        own: Vec::new(),
        early: Early::Observed,
    });
    assert_eq!(story.seen(), ["4 blocked", "5 blocked", "0 wound 50"]);
}

#[test]
fn a_wait_that_follows_another_request_sees_a_change_of_the_same_call() {
    let mut story = Story::new();
    story.ask(prepare(2, &[("l", operation("rpush l a").1)]));
    story.ask(lock(1, "x", put("1")));
    story.sync();
    story.answers();
    let first = story.ask(call("set x 2"));
    let wait = story.follow(first, waits("blpop l 0"));
    story.follow(first, decide(2, Some(1_000_000_500)));
    assert!(story.seen().is_empty(), "all wait for the lock");
    story.ask(Body::Release { txn: txn(1), after: Timestamp::ZERO });
    let seen = story.seen();
    assert!(seen.contains(&format!("{wait} ready")), "{seen:?}");
}
