//! Stories about keyspace events: what the gateway asks of shards, and what subscribers are told.

use super::*;
use crate::message::{Following, KeyEvent};
use adt::Blob;
use adt::record::events::{Classes, Event};
use std::borrow::Cow;

const SETTING: &str = "notify-keyspace-events";

/// Contents of the requests to shards, with their tokens.
fn wants(sent: &[Sent]) -> Vec<(u64, Following)> {
    let wants = |(_, token, body): &Sent| match body {
        Body::Follow(wants) => (*token, *wants),
        other => panic!("not in these stories: {other:?}"),
    };
    sent.iter().map(wants).collect()
}

fn following() -> Answer {
    Answer::Reply(Reply::Array(vec![Reply::Int(7), Reply::Int(0)]))
}

fn happened(key: &str, class: Classes, name: &'static str) -> Answer {
    let event = Event { class, name: Cow::Borrowed(name) };
    Answer::Notice(Notice::Happened([KeyEvent { key: Blob::from(key), event }].into()))
}

#[test]
fn shards_are_followed_for_subscribers_of_events_that_are_switched_on() {
    let mut story = Story::new();
    story.says("PSUBSCRIBE __key*");
    let (sent, replies) = story.out();
    assert!(sent.is_empty() && replies.len() == 1, "it is switched off");
    story.gateway.configure(SETTING, "xE");
    let expired = Following { keys: false, events: Classes::EXPIRED };
    let sent = story.sent();
    assert_eq!(wants(&sent).iter().map(|(_, wants)| *wants).collect::<Vec<_>>(), [expired; 2]);
    for (token, _) in wants(&sent) {
        story.answer(token, following());
    }
    assert!(story.replies().is_empty());
    story.answer(0, happened("k", Classes::EXPIRED, "expired"));
    story.answer(0, happened("k", Classes::GENERIC, "del"));
    let [Reply::Push(message)] = &story.replies()[..] else { panic!("one message") };
    assert_eq!(message[1..], ["__key*", "__keyevent@0__:expired", "k"].map(Reply::bulk));
    story.says("PUNSUBSCRIBE");
    let (sent, replies) = story.out();
    assert_eq!(
        (wants(&sent)[0].1, wants(&sent).len(), replies.len()),
        (Following::default(), 2, 1)
    );
    for (token, _) in wants(&sent) {
        story.answer(token, following());
    }
    story.answer(0, happened("k", Classes::EXPIRED, "expired"));
    story.now.mono_us += 10 * crate::limits::FOLLOW_US;
    story.gateway.tick(story.now);
    assert!(story.replies().is_empty(), "nothing is followed any more");
}

#[test]
fn a_subscription_to_events_waits_until_all_shards_tell_them() {
    let mut story = Story::new();
    story.gateway.configure(SETTING, "KA");
    story.says("SUBSCRIBE news");
    assert_eq!(story.replies().len(), 1, "it is about no key");
    story.says("SUBSCRIBE __keyspace@0__:k");
    story.says("SUBSCRIBE more");
    let asked = wants(&story.sent());
    story.answer(asked[0].0, following());
    assert!(story.replies().is_empty());
    story.answer(asked[1].0, following());
    assert_eq!(story.replies().len(), 2);
    let other = story.gateway.open(story.now, Opening::default());
    story.says_as(other, "SUBSCRIBE __keyevent@0__:set");
    assert_eq!(story.replies().len(), 1, "all shards tell them already");
    story.gateway.close(story.now, other);
    story.says("UNSUBSCRIBE __keyspace@0__:k");
    let (sent, replies) = story.out();
    assert_eq!((wants(&sent)[1].1, replies.len()), (Following::default(), 1));
}

#[test]
fn a_subscription_to_events_does_not_wait_long_for_a_shard() {
    let mut story = Story::new();
    story.gateway.configure(SETTING, "KA");
    story.says("SUBSCRIBE __keyspace@0__:k");
    let asked = wants(&story.sent());
    story.answer(asked[0].0, following());
    for replies in [0, 1] {
        story.now.mono_us += crate::limits::FOLLOW_US;
        story.gateway.tick(story.now);
        let (sent, told) = story.out();
        assert_eq!(
            (sent.len(), told.len()),
            (1, replies),
            "the shard that has answered is asked again"
        );
        story.answer(wants(&sent)[0].0, following());
    }
}
