//! Stories about sections: a lock, what is done under it, and its release, in one record of the log.

use super::kept::leaves;
use super::turns::{acquire, call, granted, operation, records, told};
use super::*;
use crate::message::Fence;
use adt::{Ctx, record};

pub(super) fn in_2026() -> Story {
    let mut story = Story::new();
    story.now.wall_us = 1_770_000_000_000_000;
    story
}

/// A section of lock `k`.
fn section(words: &str, commands: &[&str]) -> Apply {
    let pass = operation(&format!("lock.pass k {words}"));
    let ops = [pass].into_iter().chain(commands.iter().map(|words| operation(words))).collect();
    Apply { ops, ..Apply::default() }
}

fn enter(words: &str, commands: &[&str]) -> Body {
    Body::Await { apply: section(words, commands), timeout_ms: 0 }
}

fn value(story: &Story, key: &str) -> Reply {
    record::query(story.shard.state().get(key.as_bytes()), &operation("get x").1, &Ctx::default())
}

/// The token of the only answer, and the replies behind it.
fn done(answer: &Answer) -> (i64, Vec<Reply>) {
    let (Answer::Replies(replies) | Answer::Repeated(replies)) = answer else {
        panic!("{answer:?}")
    };
    let Reply::Int(token) = replies[0] else { panic!("{replies:?}") };
    (token, replies[1..].to_vec())
}

#[test]
fn a_section_takes_its_turn_and_is_one_record_between_those_of_its_neighbours() {
    let mut story = in_2026();
    story.ask(acquire("owner ann"));
    story.sync();
    let (_, ann) = granted(&mut story);
    let ben = story.ask(enter("owner ben", &["set x ben", "incr n"]));
    let cem = story.ask(acquire("owner cem"));
    assert!(story.end_turn().is_none(), "to wait costs nothing");
    let key = Blob::from("k");
    let asked = story.ask(Body::Waiting { key });
    let answers = story.answers();
    let [(to, Answer::Reply(Reply::Array(rows)))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((*to, rows.len()), (asked, 2), "it waits like others");
    story.ask(call(&format!("lock.release k {ann}")));
    assert_eq!(records(&mut story), 3, "the release, the section and the next grant");
    let answers = story.answers();
    let (own, replies) = done(&answers[1].1);
    assert_eq!((answers[1].0, &replies[..]), (ben, &[Reply::Ok, Reply::Int(1)][..]));
    assert!(own > ann && answers[2].0 == cem);
    assert_eq!(value(&story, "x"), Reply::bulk("ben"));
}

#[test]
fn a_section_of_a_free_lock_leaves_nothing_of_it_and_later_tokens_are_larger() {
    let mut story = in_2026();
    story.ask(enter("", &["set x 1"]));
    assert_eq!(records(&mut story), 1);
    let (first, _) = done(&story.answers()[0].1);
    assert!(story.shard.state().get(b"k").is_none() && story.shard.desk.waits.turns.is_empty());
    story.ask(enter("", &["get x"]));
    story.sync();
    let (second, replies) = done(&story.answers()[0].1);
    assert!(second > first && replies == [Reply::bulk("1")]);
    story.ask(acquire(""));
    story.sync();
    assert!(granted(&mut story).1 > second);
}

#[test]
fn who_held_the_lock_before_a_section_is_refused_by_its_token() {
    let mut story = in_2026();
    story.ask(acquire("lease 500"));
    story.sync();
    let (_, old) = granted(&mut story);
    let next = story.ask(enter("", &["set x new"]));
    story.now.wall_us += 501_000;
    story.pass(200_000);
    story.sync();
    story.sync();
    let answers = story.answers();
    let (token, _) = done(&answers[0].1);
    assert_eq!(answers[0].0, next);
    let write = |token| {
        let fences = vec![Fence { lock: Blob::from("k"), token }];
        let ops = [operation("set x old")].into_iter().collect();
        Body::Apply(Apply { ops, fences, ..Apply::default() })
    };
    story.ask(write(old as u64));
    story.sync();
    assert!(matches!(story.answers()[..], [(_, Answer::Fenced)]));
    assert_eq!(value(&story, "x"), Reply::bulk("new"));
    // A larger one than any that was granted was seen: the section is late.
    story.ask(write(token as u64 + (1 << 40)));
    story.ask(enter("", &["set x late"]));
    story.sync();
    assert!(matches!(story.answers()[1], (_, Answer::Fenced)));
    assert_eq!(value(&story, "x"), Reply::bulk("old"));
}

#[test]
fn a_section_under_a_request_number_is_carried_out_once() {
    let mut story = in_2026();
    let request = Some(RequestId { client: Blob::from("ann"), number: 1 });
    let numbered = || {
        let apply = Apply { request: request.clone(), ..section("", &["incr n"]) };
        Body::Await { apply, timeout_ms: 0 }
    };
    story.ask(acquire(""));
    story.sync();
    let (_, token) = granted(&mut story);
    let (first, second) = (story.ask(numbered()), story.ask(numbered()));
    story.ask(call(&format!("lock.release k {token}")));
    story.sync();
    story.sync();
    story.answers().remove(0);
    let late = story.ask(numbered());
    story.sync();
    let answers = story.answers();
    let [(to, answer @ Answer::Repeated(_))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((*to, done(answer).1), (late, vec![Reply::Int(1)]));
    assert!(first < second && story.shard.desk.waits.turns.is_empty());
    assert_eq!(value(&story, "n"), Reply::bulk("1"));
}

#[test]
fn a_section_that_is_not_let_in_in_time_does_nothing() {
    let mut story = in_2026();
    story.ask(acquire(""));
    story.sync();
    let (_, token) = granted(&mut story);
    let apply = section("", &["set x 1"]);
    let short = story.ask(Body::Await { apply, timeout_ms: 300 });
    let gone = story.ask(enter("", &["set x 2"]));
    story.pass(301_000);
    assert_eq!(told(&mut story), [(short, Reply::Nil)]);
    leaves(&mut story, gone);
    story.ask(call(&format!("lock.release k {token}")));
    assert_eq!(records(&mut story), 1, "nobody waits any more");
    assert_eq!(value(&story, "x"), Reply::Nil);
}

#[test]
fn nobody_is_told_that_it_was_too_late_while_a_copy_of_the_request_is_on_its_way_to_the_log() {
    let mut story = in_2026();
    let request = Some(RequestId { client: Blob::from("ann"), number: 1 });
    let apply = Apply { request, ..section("", &["set x 1"]) };
    story.ask(Body::Await { apply: apply.clone(), timeout_ms: 10 });
    let entry = story.shard.end_turn(story.now).unwrap();
    story.shard.keep(entry, 0);
    // The connection between the machines breaks, and its gateway asks again.
    story.shard.machine_gone(story.now, G.machine);
    let again = story.ask(Body::Await { apply, timeout_ms: 10 });
    story.now.mono_us += 20_000;
    story.shard.tick(story.now);
    assert!(story.answers().is_empty(), "nobody knows yet");
    story.shard.committed(story.now);
    story.sync();
    let answers = story.answers();
    let (to, answer) = answers.last().unwrap();
    assert_eq!((*to, done(answer).1), (again, vec![Reply::Ok]));
    assert_eq!(value(&story, "x"), Reply::bulk("1"));
    assert!(story.shard.desk.waits.turns.is_empty());
}

#[test]
fn a_copy_whose_time_is_over_waits_no_more_when_the_one_on_its_way_was_not_let_in() {
    let mut story = in_2026();
    let request = Some(RequestId { client: Blob::from("ann"), number: 1 });
    let apply = Apply { request, ..section("", &["set x 1"]) };
    // A try, which is no turn, comes into the log before it.
    story.ask(call("lock.try k"));
    let first = story.ask(Body::Await { apply: apply.clone(), timeout_ms: 0 });
    let entry = story.shard.end_turn(story.now).unwrap();
    story.shard.keep(entry, 0);
    let again = story.ask(Body::Await { apply, timeout_ms: 10 });
    story.now.mono_us += 20_000;
    story.shard.tick(story.now);
    assert!(story.answers().is_empty(), "nobody knows yet");
    story.shard.committed(story.now);
    let answers = told(&mut story);
    let [(_, Reply::Int(token)), ended] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(*ended, (again, Reply::Nil));
    story.ask(call(&format!("lock.release k {token}")));
    story.sync();
    assert_eq!(story.answers()[1].0, first, "which waits as long as it takes");
}

#[test]
fn a_section_that_comes_to_the_log_too_late_does_nothing_and_waits_on() {
    let mut story = in_2026();
    // A try, which is no turn, is on its way into the log.
    story.ask(call("lock.try k"));
    let waits = story.ask(enter("", &["set x 1"]));
    assert_eq!(records(&mut story), 2);
    let (_, token) = granted(&mut story);
    assert_eq!(value(&story, "x"), Reply::Nil);
    story.ask(call(&format!("lock.release k {token}")));
    story.sync();
    assert_eq!(story.answers()[1].0, waits);
    assert_eq!(value(&story, "x"), Reply::bulk("1"));
}

#[test]
fn a_section_of_something_that_is_no_lock_does_nothing() {
    let mut story = in_2026();
    story.ask(call("set k string"));
    story.ask(enter("", &["set x 1"]));
    story.sync();
    let answers = story.answers();
    let Answer::Replies(replies) = &answers[1].1 else { panic!("{answers:?}") };
    assert!(matches!(&replies[..], [Reply::Error(_)]), "{replies:?}");
    assert_eq!(value(&story, "x"), Reply::Nil);
}

#[test]
fn nobody_overtakes_a_section_that_waits_for_the_records_that_it_is_about() {
    let mut story = in_2026();
    story.ask(acquire("shared"));
    story.sync();
    let (_, token) = granted(&mut story);
    story.ask(lock(1, "x", operation("get x").1));
    story.answers();
    let waits = story.ask(enter("shared", &["set x 1"]));
    let late = story.ask(acquire("shared"));
    let release = story.ask(call(&format!("lock.release k {token}")));
    story.sync();
    assert_eq!(told(&mut story), []);
    story.ask(Body::Release { txn: txn(1), after: Timestamp::ZERO });
    story.sync();
    story.sync();
    let to: Vec<u64> = story.answers().iter().map(|(to, _)| *to).collect();
    assert_eq!(to, [waits, release, late]);
}

#[test]
fn those_who_share_a_lock_let_sections_in_that_share_it() {
    let mut story = in_2026();
    story.ask(acquire("shared"));
    story.sync();
    let (_, token) = granted(&mut story);
    let together = story.ask(enter("shared", &["set x 1"]));
    let alone = story.ask(enter("", &["set x 2"]));
    story.sync();
    let answers = story.answers();
    assert!(matches!(answers[..], [(to, _)] if to == together), "{answers:?}");
    story.ask(call(&format!("lock.release k {token}")));
    assert_eq!(records(&mut story), 2);
    assert_eq!(story.answers()[1].0, alone);
}

#[test]
fn a_section_that_waits_goes_to_the_next_leader_with_all_that_it_is_about() {
    let mut story = in_2026();
    story.ask(acquire(""));
    story.sync();
    granted(&mut story);
    let waits = story.ask(enter("owner ben", &["set x 1"]));
    story.shard.step_down();
    let answers = story.answers();
    let [(to, Answer::NotTaken(body))] = &answers[..] else { panic!("{answers:?}") };
    let Body::Await { apply, .. } = &**body else { panic!("{body:?}") };
    assert_eq!((*to, apply), (waits, &section("owner ben", &["set x 1"])));
}
