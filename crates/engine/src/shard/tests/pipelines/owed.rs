//! Stories about requests that wait for ever new units of pipelines.

use super::*;
use crate::ids::StreamId;
use crate::limits::UNITS_OWE_US;
use crate::pipeline::{Group, StreamMessage, Unit};
use std::sync::Arc;

fn ordered() -> Story {
    let mut story = Story::new();
    story.shard.lead(story.now, 1);
    story
}

fn stream(number: u64) -> StreamId {
    StreamId(Age { began: Timestamp(50 + number), gateway: G })
}

/// The first unit of a stream, which reads `s`, and behind which there is another one at shard 1.
fn unit(number: u64) -> Body {
    let ops = [(Blob::from("s"), card())].into_iter().collect();
    let units = vec![Unit { seq: 1, ops, ..Unit::default() }];
    let homes = vec![ShardId(1), ShardId(0)];
    let stream = stream(number);
    Body::Pipeline(Arc::new(Group { stream, homes, units, ..Group::default() }))
}

/// The unit at the other shard has a place, and is closed.
fn closes_elsewhere(story: &mut Story, number: u64) {
    let (stream, shard) = (stream(number), ShardId(1));
    let proposed = StreamMessage::Proposed { stream, shard, units: (0, 0), proposal: Timestamp(1) };
    let closed = StreamMessage::Closed { stream, shard, upto: 0 };
    story.shard.hear(story.now, [proposed, closed].into_iter());
    story.sync();
}

/// Answers to requests that were no units.
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
    story.ask(unit(1));
    story.sync();
    story.pass(UNITS_OWE_US);
    let refused = story.ask(unit(2));
    story.sync();
    let answers = story.answers();
    assert!(
        matches!(answers[..], [(to, Answer::Units(ref units))] if to == refused && units[..] == [None])
    );
    closes_elsewhere(&mut story, 0);
    assert_eq!(
        answers_but_units(&mut story),
        Vec::<String>::new(),
        "one of those before it is left"
    );
    closes_elsewhere(&mut story, 1);
    story.sync();
    assert_eq!(answers_but_units(&mut story), [format!("{write} done 1")]);
    // It has gone ahead, and no request is owed anything.
    story.ask(unit(3));
    story.pass(UNITS_OWE_US);
    story.ask(unit(4));
    story.sync();
    assert!(story.answers().is_empty());
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
