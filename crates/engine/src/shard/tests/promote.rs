//! Stories about those who wait for ever new units of pipelines.

use super::*;
use crate::level::Level;
use crate::limits::{UNITS_OWE_US, UNITS_YIELD_US};
use crate::pipeline::{Group, StreamId, Unit, Word};
use adt::record;
use std::sync::Arc;

fn ordered() -> Story {
    let mut story = Story::new();
    story.shard.use_level(Level::ORDERED);
    story.shard.lead(story.now, 1);
    story
}

fn stream(number: u64) -> StreamId {
    StreamId(Age { began: Timestamp(50 + number), gateway: G })
}

/// The first unit of a stream, which reads `s`, and behind which there is another one at shard 1.
fn unit(number: u64) -> Body {
    let ops = [(Blob::from("s"), card())].into_iter().collect();
    let units = vec![Unit { seq: 1, ops }];
    let homes = vec![ShardId(1), ShardId(0)];
    let stream = stream(number);
    Body::Pipeline(Arc::new(Group { stream, homes, units, ..Group::default() }))
}

/// The unit at the other shard has a place, and is closed.
fn closes_elsewhere(story: &mut Story, number: u64) {
    let (stream, shard) = (stream(number), ShardId(1));
    let proposed = Word::Proposed { stream, shard, units: (0, 0), proposal: Timestamp(1) };
    let closed = Word::Closed { stream, shard, upto: 0 };
    story.shard.hear(story.now, [proposed, closed].into_iter());
    story.sync();
}

/// What was answered to requests that were no units.
fn answers_but_units(story: &mut Story) -> Vec<String> {
    let answers = story.answers().into_iter();
    let others = answers.filter(|(_, answer)| !matches!(answer, Answer::Units(_)));
    others.map(|(token, answer)| format!("{token} {}", short(&answer))).collect()
}

#[test]
fn an_operation_gets_its_turn_among_ever_new_units() {
    let mut story = ordered();
    story.ask(unit(0));
    story.sync();
    let write = story.ask(one("s", add("a")));
    for number in 1..5 {
        story.ask(unit(number));
        story.pass(UNITS_YIELD_US / 2);
        story.sync();
        closes_elsewhere(&mut story, number - 1);
    }
    // Those that came before it are over, those that came later are not.
    assert_eq!(answers_but_units(&mut story), [format!("{write} done 1")]);
    assert!(story.shard.streams.hold_records());
}

#[test]
fn what_is_promoted_comes_after_units_that_were_there_and_before_those_that_come() {
    let mut story = ordered();
    let earlier = story.ask(unit(0));
    story.sync();
    let write = story.ask(one("s", add("a")));
    story.pass(UNITS_YIELD_US);
    story.sync();
    let later = story.ask(unit(1));
    story.sync();
    closes_elsewhere(&mut story, 1);
    assert_eq!(answers_but_units(&mut story), Vec::<String>::new(), "the first unit has no place");
    closes_elsewhere(&mut story, 0);
    let answers = story.answers();
    let replies = |asked: u64| {
        let (_, answer) = answers.iter().find(|(token, _)| *token == asked)?;
        match answer {
            Answer::Replies(replies) => Some(replies.to_vec()),
            Answer::Units(units) => units[0].clone().map(|(_, replies)| replies.to_vec()),
            _ => None,
        }
    };
    let members = [earlier, write, later].map(replies);
    assert_eq!(members, [0, 1, 1].map(|members| Some(vec![Reply::Int(members)])), "{answers:?}");
}

#[test]
fn the_next_leader_carries_out_what_was_promoted_and_is_in_the_log() {
    let mut story = ordered();
    story.ask(unit(0));
    story.sync();
    story.ask(one("s", add("a")));
    story.pass(UNITS_YIELD_US);
    story.sync();
    story.shard.step_down();
    story.answers();
    story.shard.lead(story.now, 2);
    story.sync();
    closes_elsewhere(&mut story, 0);
    let open = story.shard.state().prepared().values().filter(|p| !p.is_unit()).count();
    assert_eq!(open, 0);
    let members = record::query(story.shard.state().get(b"s"), &card(), &adt::Ctx::default());
    assert_eq!(members, Reply::Int(1));
}

#[test]
fn who_sends_what_is_promoted_and_not_in_the_log_may_send_it_to_the_next_leader() {
    let mut story = ordered();
    // The probe is not answered: the unit hangs on it, and so does whoever comes to stand behind.
    story.ask(prepare(1, &[("s", card())]));
    story.ask(unit(0));
    story.sync();
    let write = story.ask(one("s", add("a")));
    story.pass(UNITS_YIELD_US);
    story.answers();
    story.shard.step_down();
    let turned = story.answers().into_iter().find(|(token, _)| *token == write);
    let Some((_, Answer::NotTaken(body))) = turned else { panic!("{turned:?}") };
    assert!(matches!(*body, Body::Apply(_)));
}

#[test]
fn an_early_lock_is_held_before_more_units_come() {
    let mut story = ordered();
    story.ask(unit(0));
    story.sync();
    let late = Timestamp::from_micros(story.now.wall_us).0;
    let waits = story.ask(lock(late, "s", add("a")));
    story.pass(UNITS_OWE_US / 2);
    story.ask(unit(1));
    story.sync();
    story.pass(UNITS_OWE_US);
    let refused = story.ask(unit(2));
    story.sync();
    let answers = story.answers();
    let is_refused = |(token, answer): &(u64, Answer)| {
        *token == refused && matches!(answer, Answer::Units(units) if units[..] == [None])
    };
    assert!(answers.iter().any(is_refused), "{answers:?}");
    closes_elsewhere(&mut story, 0);
    closes_elsewhere(&mut story, 1);
    assert_eq!(answers_but_units(&mut story), [format!("{waits} locked 1")]);
    story.ask(Body::Release { txn: txn(late), after: Timestamp::ZERO });
    story.pass(1);
    let admitted = story.ask(unit(3));
    story.sync();
    let failed = story.answers().iter().any(|(token, _)| *token == admitted);
    assert!(!failed, "it waits for its predecessor like any other");
}
