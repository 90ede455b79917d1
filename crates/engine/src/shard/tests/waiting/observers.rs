//! Stories about elections: what observers are shown, and when, and what that costs.

use super::sections::in_2026;
use super::turns::{call, granted, operation, told};
use super::*;
use adt::key::KeyOp;

pub(super) fn observe(words: &str, timeout_ms: u64) -> Body {
    let ops = SmallVec::from_iter([operation(&format!("election.observe k {words}"))]);
    Body::Await { apply: Apply { ops, ..Apply::default() }, timeout_ms }
}

fn campaign(value: &str) -> Body {
    let ops = SmallVec::from_iter([operation(&format!("election.campaign k {value}"))]);
    Body::Await { apply: Apply { ops, ..Apply::default() }, timeout_ms: 0 }
}

/// Value and version of the record that was shown; an election without a leader has none.
fn shown(reply: &Reply) -> (Option<String>, i64) {
    let Reply::Array(row) = reply else { panic!("{reply:?}") };
    let value = match &row[2] {
        Reply::Bulk(value) => Some(String::from_utf8_lossy(value).into_owned()),
        _ => None,
    };
    let Reply::Int(version) = row[4] else { panic!("{row:?}") };
    (value, version)
}

/// Makes a client the leader with this value; gives the token.
pub(super) fn led(value: &str) -> (Story, i64) {
    let mut story = in_2026();
    story.ask(campaign(value));
    story.sync();
    let (_, token) = granted(&mut story);
    (story, token)
}

#[test]
fn who_observes_is_shown_what_is_new_and_costs_nothing_until_then() {
    let (mut story, ann) = led("here");
    let newcomer = story.ask(observe("", 0));
    let [(to, reply)] = &told(&mut story)[..] else { panic!() };
    assert_eq!((*to, shown(reply)), (newcomer, (Some("here".to_owned()), ann)));
    let watchers = [0, 1].map(|_| story.ask(observe(&format!("after {ann}"), 0)));
    story.ask(call(&format!("lock.renew k {ann}")));
    story.sync();
    assert_eq!(told(&mut story).len(), 1, "a renewal is nothing to be shown");
    story.pass(10_000_000);
    assert!(told(&mut story).is_empty() && story.end_turn().is_none());
    story.ask(call(&format!("election.proclaim k {ann} there")));
    story.sync();
    let answers = told(&mut story);
    let Reply::Int(version) = answers[0].1 else { panic!("{answers:?}") };
    for (answer, watcher) in answers[1..].iter().zip(watchers) {
        assert_eq!((answer.0, shown(&answer.1)), (watcher, (Some("there".to_owned()), version)));
    }
    assert!(answers.len() == 3 && version > ann);
    assert!(story.shard.is_quiet() && story.shard.desk.waits.observers.is_empty());
}

#[test]
fn of_a_resignation_with_a_next_leader_right_behind_only_the_latter_is_seen() {
    let (mut story, ann) = led("here");
    let ben = story.ask(campaign("there"));
    let watcher = story.ask(observe(&format!("after {ann}"), 0));
    story.ask(call(&format!("election.resign k {ann}")));
    story.sync();
    let answers = told(&mut story);
    let (to, Reply::Int(token)) = answers[1] else { panic!("{answers:?}") };
    assert_eq!(to, ben);
    assert_eq!(answers[2], (watcher, answers[2].1.clone()));
    assert_eq!(shown(&answers[2].1), (Some("there".to_owned()), token));
}

#[test]
fn that_nobody_leads_any_more_is_shown_as_well_also_when_a_lease_has_ended() {
    let (mut story, ann) = led("here");
    let watcher = story.ask(observe(&format!("after {ann}"), 0));
    story.ask(call(&format!("election.resign k {ann}")));
    story.sync();
    let answers = told(&mut story);
    assert_eq!((answers[1].0, shown(&answers[1].1)), (watcher, (None, 0)));
    let (mut story, ann) = led("here lease 500");
    let watcher = story.ask(observe(&format!("after {ann}"), 0));
    story.now.wall_us += 600_000;
    story.pass(600_000);
    story.sync();
    let answers = told(&mut story);
    assert_eq!((answers[0].0, shown(&answers[0].1)), (watcher, (None, 0)));
    story.ask(observe("", 0));
    story.sync();
    assert!(told(&mut story).is_empty(), "nobody was seen already");
}

#[test]
fn an_observation_ends_with_its_time_with_its_client_and_with_the_lead() {
    let (mut story, ann) = led("here lease 60000");
    let words = format!("after {ann}");
    let short = story.ask(observe(&words, 300));
    let leaves = story.ask(observe(&words, 0));
    let lasts = story.ask(observe(&words, 0));
    assert_eq!(
        story.shard.next_timeout(story.now).map(|at| at <= story.now.mono_us + 300_000),
        Some(true)
    );
    story.pass(301_000);
    assert_eq!(told(&mut story), [(short, Reply::Nil)]);
    super::kept::leaves(&mut story, leaves);
    story.shard.step_down();
    let answers = story.answers();
    let [(to, Answer::NotTaken(body))] = &answers[..] else { panic!("{answers:?}") };
    assert!(*to == lasts && matches!(&**body, Body::Await { timeout_ms: 0, .. }));
}

#[test]
fn the_observers_of_a_machine_that_is_gone_are_forgotten() {
    let (mut story, ann) = led("here");
    story.ask(observe(&format!("after {ann}"), 900));
    story.shard.machine_gone(story.now, G.machine);
    assert!(story.shard.desk.waits.observers.is_empty());
    story.pass(1_000_000);
    assert!(told(&mut story).is_empty());
}

#[test]
fn who_looks_while_a_transaction_may_have_been_answered_is_shown_what_it_leaves() {
    let (mut story, ann) = led("here");
    let proclaim = operation(&format!("election.proclaim k {ann} there"));
    story.ask(prepare(1, &[("k", proclaim.1)]));
    story.sync();
    story.answers();
    let watcher = story.ask(observe("", 0));
    assert!(story.answers().is_empty(), "the transaction may be committed elsewhere");
    let at = Timestamp(story.shard.clock().0 + 1);
    story.ask(Body::Decide { txn: txn(1), commit: Some(at) });
    story.sync();
    story.pass(100_000);
    let answers = story.answers();
    let shown_to = answers.iter().find(|(to, _)| *to == watcher);
    let Some((_, Answer::Replies(replies))) = shown_to else { panic!("{answers:?}") };
    assert_eq!(shown(&replies[0]).0, Some("there".to_owned()));
    // One that comes to nothing does not keep an observer waiting either.
    story.ask(prepare(2, &[("k", Op::Key(KeyOp::Del))]));
    story.sync();
    let watcher = story.ask(observe("", 0));
    story.ask(Body::Decide { txn: txn(2), commit: None });
    story.sync();
    story.pass(100_000);
    assert!(story.answers().iter().any(|(to, _)| *to == watcher));
}
