//! Stories about units of pipelines that go to several shards.

use super::*;
use crate::level::Level;
use crate::limits::STREAM_KEPT_US;
use crate::pipeline::{Group, StreamId, Unit, Word};
use std::sync::Arc;

const STREAM: StreamId = StreamId(Age { began: Timestamp(50), gateway: G });

/// A shard that takes units of streams.
fn ordered() -> Story {
    let mut story = Story::new();
    story.shard.use_level(Level::ORDERED);
    story.shard.lead(story.now, 1);
    story
}

/// One unit, whose stream goes to these shards up to there.
fn unit(seq: u32, fresh: u32, homes: &[u16], op: (&str, Op)) -> Body {
    let ops = [(Blob::from(op.0), op.1)].into_iter().collect();
    let homes = homes.iter().map(|home| ShardId(*home)).collect();
    let units = vec![Unit { seq, ops }];
    Body::Pipeline(Arc::new(Group { stream: STREAM, fresh, homes, units, ..Group::default() }))
}

impl Story {
    fn words(&mut self) -> Vec<Word> {
        self.shard.take_words().into_iter().map(|(_, word)| word).collect()
    }

    /// What the shard has said about up to where its units are closed.
    fn closed(&mut self) -> Vec<u32> {
        let closed = |word: Word| match word {
            Word::Closed { upto, .. } => Some(upto),
            _ => None,
        };
        self.words().into_iter().filter_map(closed).collect()
    }

    fn is_proposed_elsewhere(&mut self, seq: u32, proposal: u64) {
        let (units, proposal) = ((seq, seq), Timestamp(proposal));
        let word = Word::Proposed { stream: STREAM, shard: ShardId(1), units, proposal };
        self.shard.hear(self.now, std::iter::once(word));
    }
}

#[test]
fn a_transaction_that_a_unit_waits_for_is_to_give_way() {
    let mut story = ordered();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.ask(unit(0, 0, &[0, 1], ("s", card())));
    assert_eq!(story.seen(), ["1 prepared", "0 probe 1"]);
    story.ask(Body::ProbeAck { txn: txn(1) });
    story.sync();
    // It may wait for others of the stream at another shard, where nobody knows of this.
    assert_eq!(story.seen(), ["0 wound 1"]);
}

#[test]
fn a_decided_transaction_that_waits_for_a_unit_keeps_nobody_from_what_it_has_read() {
    let mut story = ordered();
    story.ask(unit(1, 0, &[1, 0], ("t", card())));
    story.sync();
    story.ask(lock(1, "s", card()));
    story.ask(prepare(1, &[("t", add("a"))]));
    story.sync();
    let later = Timestamp::from_micros(story.now.wall_us + 5).0;
    story.ask(decide(1, Some(later)));
    // The unit may be one that waits, at another shard, for what this one changes.
    story.ask(prepare(2, &[("s", add("b"))]));
    story.sync();
    assert_eq!(story.seen(), ["2 locked 0", "3 prepared", "5 prepared"]);
}

#[test]
fn a_prepare_passes_an_operation_that_waits_for_another_record() {
    let mut story = ordered();
    story.ask(unit(1, 0, &[1, 0], ("t", add("a"))));
    story.sync();
    story.ask(lock(1, "s", card()));
    let both = [("t", card()), ("s", add("b"))];
    story.ask(Body::Apply(apply(&both)));
    let later = Timestamp::from_micros(story.now.wall_us + 5).0;
    story.ask(prepare(later, &[("s", add("c"))]));
    assert_eq!(story.seen(), ["2 locked 0", "4 blocked"]);
    story.ask(Body::Release { txn: txn(1), after: Timestamp::ZERO });
    story.sync();
    assert_eq!(story.seen(), ["4 prepared"], "the operation waits for the unit");
}

#[test]
fn a_unit_that_came_into_the_log_before_an_earlier_one_does_not_close_it() {
    let mut story = ordered();
    // Not decided: the first unit may come before it or after it.
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.ask(unit(0, 0, &[0, 1], ("s", card())));
    assert_eq!(story.seen(), ["1 prepared", "0 probe 1"]);
    story.ask(unit(2, 2, &[0, 1, 0], ("t", add("a"))));
    story.sync();
    story.ask(Body::ProbeAck { txn: txn(1) });
    story.sync();
    let proposed = story.words();
    let is_of = |seq| move |w: &Word| matches!(w, Word::Proposed { units, .. } if units.0 == seq);
    assert!(proposed.iter().any(is_of(0)), "the other shard has a later unit: {proposed:?}");
    story.is_proposed_elsewhere(1, 1);
    story.sync();
    let none: Vec<u32> = Vec::new();
    assert_eq!(story.closed(), none, "the first unit waits for the transaction");
    story.ask(decide(1, None));
    story.sync();
    assert_eq!(story.closed(), [2], "both are closed at once");
}

#[test]
fn what_became_of_a_pipeline_that_was_forgotten_is_not_known_and_it_does_not_take_effect_twice() {
    let mut story = ordered();
    story.shard.use_level(Level::COORDINATED);
    let first = unit(0, 0, &[0], ("s", add("a")));
    let Body::Pipeline(group) = &first else { panic!() };
    let again = Body::Pipeline(Arc::clone(group));
    story.ask(first);
    story.sync();
    story.sync();
    // Nobody says that it is over.
    story.pass(STREAM_KEPT_US);
    story.sync();
    assert_eq!(story.shard.state().streams().len(), 0);
    story.answers();
    story.ask(again);
    story.sync();
    assert_eq!(story.seen(), ["2 Unknown"]);
    // Younger streams of the same gateway are let in.
    let younger = StreamId(Age { began: Timestamp(51), gateway: G });
    let Body::Pipeline(group) = unit(0, 0, &[0], ("s", add("b"))) else { panic!() };
    story.ask(Body::Pipeline(Arc::new(Group { stream: younger, ..(*group).clone() })));
    story.sync();
    assert!(matches!(story.answers()[..], [(3, Answer::Units(ref units))] if units[0].is_some()));
}
