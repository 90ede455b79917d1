//! Stories about units of pipelines whose order is handed from shard to shard.

use super::*;
use crate::entry::Entry;
use crate::ids::StreamId;
use crate::pipeline::{Group, Link, StreamMessage, Unit};
use std::sync::Arc;

const STREAM: StreamId = StreamId(Age { began: Timestamp(50), gateway: G });

/// A shard that takes units whose order is handed on.
fn chained() -> Story {
    let mut story = Story::new();
    story.shard.lead(story.now, 1);
    story
}

/// One unit of a stream that goes to these shards.
fn unit(seq: u32, homes: &[u16], op: (&str, Op)) -> Body {
    let ops = [(Blob::from(op.0), op.1)].into_iter().collect();
    let homes = homes.iter().map(|home| ShardId(*home)).collect();
    let units = vec![Unit { seq, ops, ..Unit::default() }];
    let group = Group { stream: STREAM, homes, units, chained: true, ..Group::default() };
    Body::Pipeline(Arc::new(group))
}

fn link(seq: u32, place: u64, term: u64) -> Link {
    Link { seq, place: Timestamp(place), term }
}

/// In the far future, so that no clock comes there by itself.
const LATER: u64 = 1 << 60;

impl Story {
    fn hears(&mut self, word: StreamMessage) {
        self.shard.hear(self.now, std::iter::once(word));
    }

    fn is_handed(&mut self, links: Vec<Link>) {
        self.hears(StreamMessage::HandedOn { stream: STREAM, links });
    }

    fn said(&mut self) -> Vec<(u16, StreamMessage)> {
        self.shard
            .streams_mut()
            .take_stream_messages()
            .into_iter()
            .map(|(to, word)| (to.0, word))
            .collect()
    }

    /// Messages that hand places on, with their receivers.
    fn handed(&mut self) -> Vec<(u16, Vec<(u32, u64)>)> {
        let handed = |(to, word): (u16, StreamMessage)| match word {
            StreamMessage::HandedOn { links, .. } => {
                Some((to, links.iter().map(|link| (link.seq, link.place.0)).collect()))
            }
            _ => None,
        };
        self.said().into_iter().filter_map(handed).collect()
    }

    /// Records that the next turn puts into the log, which is not durable yet.
    fn proposes(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        while let Some(entry) = self.shard.end_turn(self.now) {
            entries.push(entry.clone());
            self.shard.keep(entry, 0);
        }
        entries
    }

    /// Another replica, with these entries in its log, leads in this term.
    fn successor(entries: &[Entry], term: u64) -> Self {
        let mut story = Story::new();
        entries.iter().for_each(|entry| story.shard.replay(story.now, entry.clone()));
        story.shard.lead(story.now, term);
        story
    }
}

#[test]
fn the_first_unit_is_handed_on_when_it_is_durable() {
    let mut story = chained();
    story.ask(unit(0, &[0, 1], ("s", add("a"))));
    story.proposes();
    assert_eq!(story.handed(), [], "it might be lost");
    story.sync();
    let handed = story.handed();
    assert_eq!((handed.len(), handed[0].0, handed[0].1[0].0), (1, 1, 0));
    assert!(matches!(&story.answers()[..], [(1, Answer::Units(units))] if units[0].is_some()));
}

#[test]
fn a_later_unit_holds_nothing_until_the_places_before_it_are_known() {
    let mut story = chained();
    story.ask(unit(1, &[1, 0, 2], ("s", add("a"))));
    story.sync();
    story.ask(Body::Apply(apply(&[("s", add("b"))])));
    story.sync();
    assert_eq!(story.seen(), ["2 done 1"], "nobody waits for it");
    story.is_handed(vec![link(0, LATER, 1)]);
    story.proposes();
    let handed = story.handed();
    assert_eq!((handed.len(), handed[0].0), (1, 2), "at once: {handed:?}");
    assert!(handed[0].1[1].1 > LATER, "after all before it");
    assert!(story.answers().is_empty(), "its effect is not durable");
    story.sync();
    assert_eq!(story.answers().len(), 1);
}

#[test]
fn a_unit_waits_for_its_records_like_a_single_command() {
    let mut story = chained();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.ask(unit(1, &[1, 0], ("s", card())));
    story.sync();
    story.is_handed(vec![link(0, 1, 1)]);
    story.sync();
    assert_eq!(story.seen(), ["1 prepared", "0 wound 1"]);
    story.ask(decide(1, None));
    story.sync();
    assert_eq!(story.answers().len(), 1, "the unit has gone ahead");
}

#[test]
fn a_read_does_not_miss_what_is_handed_on_and_not_durable() {
    let mut story = chained();
    story.ask(unit(1, &[1, 0, 2], ("s", add("a"))));
    story.sync();
    story.is_handed(vec![link(0, 10, 1)]);
    story.proposes();
    // The shard that asks may have seen the end of the pipeline.
    story.ask(Body::Read { key: Blob::from("s"), op: card(), fenced: false });
    let ops = vec![(Blob::from("s"), card())];
    story.ask(Body::Snapshot { ops, at: Timestamp::ZERO, fenced: false, dated: true, as_of: None });
    story.ask(Body::Read { key: Blob::from("t"), op: card(), fenced: false });
    assert_eq!(story.seen(), ["4 = 0"]);
    story.sync();
    let seen = story.seen();
    assert!(seen.contains(&"2 = 1".to_owned()) && seen.len() == 3, "{seen:?}");
}

#[test]
fn what_is_refused_takes_all_with_it_that_comes_after() {
    let mut story = chained();
    story.ask(unit(1, &[1, 0], ("s", add("a"))));
    story.sync();
    story.hears(StreamMessage::Refused { stream: STREAM, seq: 0 });
    story.sync();
    assert!(matches!(&story.answers()[..], [(1, Answer::Units(units))] if units[0].is_none()));
    assert!(story.shard.state().get(b"s").is_none());
}

#[test]
fn whoever_has_promised_takes_no_places_of_earlier_leaders() {
    let mut story = chained();
    story.ask(unit(1, &[1, 0], ("s", add("a"))));
    story.sync();
    story.hears(StreamMessage::AsksPlaces { stream: STREAM, shard: ShardId(1), term: 2 });
    assert_eq!(story.said(), [], "a promise that might be lost");
    story.sync();
    let knows =
        StreamMessage::Knows { stream: STREAM, shard: ShardId(0), term: 2, links: Vec::new() };
    assert_eq!(story.said(), [(1, knows)]);
    story.is_handed(vec![link(0, 10, 1)]);
    story.sync();
    assert!(story.answers().is_empty(), "an earlier leader has said so");
    story.is_handed(vec![link(0, 20, 2)]);
    story.sync();
    assert_eq!(story.answers().len(), 1);
}

#[test]
fn what_an_earlier_leader_has_said_before_a_promise_does_not_count_after_it() {
    let mut story = chained();
    story.ask(unit(1, &[1, 0], ("s", add("a"))));
    story.is_handed(vec![link(0, 10, 1)]);
    story.hears(StreamMessage::AsksPlaces { stream: STREAM, shard: ShardId(1), term: 2 });
    story.sync();
    story.sync();
    assert!(story.answers().is_empty(), "nothing rests on it");
    assert!(story.shard.state().get(b"s").is_none());
}

#[test]
fn a_new_leader_gives_the_places_again_that_others_rest_on() {
    let mut story = chained();
    story.ask(unit(1, &[1, 0, 2], ("s", add("a"))));
    let arrived = story.proposes();
    story.sync();
    story.is_handed(vec![link(0, LATER, 1)]);
    story.proposes();
    let handed = story.handed().remove(0).1;
    // What has given the place is lost.
    let mut story = Story::successor(&arrived, 2);
    let asks = StreamMessage::AsksPlaces { stream: STREAM, shard: ShardId(0), term: 2 };
    assert_eq!(story.said(), [(2, asks)]);
    let read = Body::Read { key: Blob::from("s"), op: card(), fenced: false };
    let other = Body::Read { key: Blob::from("t"), op: card(), fenced: false };
    story.ask(read);
    story.ask(other);
    story.sync();
    assert_eq!(story.seen(), ["2 = 0"], "nobody may miss what others may have seen the end of");
    let links = handed.iter().map(|(seq, place)| link(*seq, *place, 1)).collect();
    story.hears(StreamMessage::Knows { stream: STREAM, shard: ShardId(2), term: 2, links });
    story.sync();
    assert_eq!(story.seen(), ["1 = 1"]);
    assert_eq!(story.handed(), [(2, handed)], "the same places as before");
}

#[test]
fn a_place_that_nobody_has_heard_of_is_given_anew() {
    let mut story = chained();
    story.ask(unit(1, &[1, 0, 2], ("s", add("a"))));
    let arrived = story.proposes();
    let mut story = Story::successor(&arrived, 2);
    let knows =
        |term| StreamMessage::Knows { stream: STREAM, shard: ShardId(2), term, links: Vec::new() };
    story.hears(knows(1));
    story.is_handed(vec![link(0, 10, 1)]);
    story.sync();
    assert_eq!(story.handed(), [], "that was an answer to somebody else");
    story.hears(knows(2));
    story.sync();
    assert_eq!(story.handed().len(), 1);
    assert!(story.shard.state().get(b"s").is_some());
}

#[test]
fn a_read_waits_for_what_a_unit_that_was_handed_on_has_read() {
    let mut story = chained();
    let write = story.ask(one("s", add("a")));
    story.ask(unit(1, &[1, 0, 2], ("s", card())));
    story.sync();
    story.answers();
    let lost = story.ask(one("s", add("b")));
    story.is_handed(vec![link(0, LATER, 1)]);
    story.proposes();
    assert_eq!(story.handed().len(), 1, "shard 2 knows of a unit that has read `b`");
    let read = story.ask(read("s", card()));
    assert!(story.seen().is_empty(), "{write} and {lost}: the second may still be lost");
    story.sync();
    assert!(story.seen().contains(&format!("{read} = 2")));
}

#[test]
fn a_read_of_another_record_waits_for_what_the_log_has_before_a_unit_that_was_handed_on() {
    let mut story = chained();
    story.ask(unit(1, &[1, 0, 2], ("s", add("b"))));
    story.sync();
    // Commands that one session has sent together: the unit comes after the read, and so after `t`.
    let both = story.ask(Body::Apply(apply(&[("t", add("a")), ("s", card())])));
    story.is_handed(vec![link(0, LATER, 1)]);
    story.proposes();
    assert_eq!(story.handed().len(), 1, "shard 2 knows of the unit");
    let behind = story.ask(read("t", card()));
    let other = story.ask(read("u", card()));
    assert_eq!(story.seen(), [format!("{other} = 0")], "whoever asks may have seen the end");
    story.sync();
    let seen = story.seen();
    assert!(seen.contains(&format!("{behind} = 1")), "{seen:?} ({both})");
}

#[test]
fn a_place_counts_when_the_new_leader_of_its_shard_has_told_it_itself() {
    let mut story = chained();
    story.ask(unit(2, &[1, 2, 0], ("s", add("a"))));
    story.sync();
    // Shard 1 has a new leader: what an earlier one has said is not rested on.
    story.hears(StreamMessage::AsksPlaces { stream: STREAM, shard: ShardId(1), term: 3 });
    story.sync();
    story.is_handed(vec![link(0, LATER, 1), link(1, LATER + 1, 1)]);
    story.sync();
    assert!(story.answers().is_empty());
    // Shard 2 hands on what it has heard before that; shard 1 itself knows better.
    story.is_handed(vec![link(0, LATER, 3)]);
    story.is_handed(vec![link(0, LATER, 1), link(1, LATER + 1, 1)]);
    story.sync();
    assert_eq!(story.answers().len(), 1);
}
