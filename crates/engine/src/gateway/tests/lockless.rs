//! Stories about read-only transactions.

use super::*;

/// Timestamp that a question names as the last one that fits.
fn as_of(body: &Body) -> Timestamp {
    let Body::Snapshot { as_of: Some(as_of), .. } = body else { panic!("{body:?}") };
    *as_of
}

#[test]
fn later_reads_ask_for_values_that_fit_to_the_first() {
    let mut story = Story::new();
    story.says("TXN BEGIN READONLY");
    assert_eq!(story.replies(), [Reply::Ok]);
    story.says("GET a");
    let (_, token, body) = story.sent().remove(0);
    assert_eq!(as_of(&body), Timestamp(u64::MAX));
    story.answer(token, snapshot(1, 10, 50));
    assert_eq!(story.replies(), [Reply::Int(1)]);
    story.says("GET b");
    let (_, token, body) = story.sent().remove(0);
    assert_eq!(as_of(&body), Timestamp(50));
    story.answer(token, snapshot(2, 30, 60));
    assert_eq!(story.replies(), [Reply::Int(2)]);
    story.says("GET e");
    let (_, token, body) = story.sent().remove(0);
    assert_eq!(as_of(&body), Timestamp(50), "the earliest end");
    // The shard has no such version: it is tried to extend what was read.
    story.answer(token, snapshot(3, 70, 80));
    let again = story.sent();
    assert_eq!(again.len(), 2, "both shards' values end too early");
    assert_eq!(as_of(&again[0].2), Timestamp(u64::MAX));
    let of_b = again.iter().find(|(shard, ..)| *shard == ShardId(0)).unwrap().1;
    story.answer(of_b, snapshot(9, 65, 90));
    let replies = story.replies();
    assert!(matches!(&replies[0], Reply::Error(error) if error.code() == "TXNABORT"));
}

#[test]
fn of_several_shards_those_that_are_too_young_are_asked_for_earlier_values() {
    let mut story = Story::new();
    story.says("TXN BEGIN READONLY");
    story.replies();
    story.says("MGET b a");
    let sent = story.sent();
    story.answer(sent[0].1, snapshot(1, 10, 20));
    story.answer(sent[1].1, snapshot(2, 30, 40));
    let again = story.sent();
    let [(shard, token, body)] = &again[..] else { panic!("{again:?}") };
    assert_eq!((*shard, as_of(body)), (sent[1].0, Timestamp(20)));
    story.answer(*token, snapshot(3, 15, 29));
    assert_eq!(story.replies(), [Reply::Array(vec![Reply::Int(1), Reply::Int(3)])]);
}

#[test]
fn between_machines_no_earlier_values_are_asked_for() {
    let mut story = Story::clustered();
    story.leads(1);
    story.says("TXN BEGIN READONLY");
    story.replies();
    story.says("GET a");
    let sent = story.sent();
    assert!(matches!(sent[0].2, Body::Snapshot { as_of: None, dated: true, .. }), "{sent:?}");
}
