//! Stories about requests and answers that another machine, or this one, could not decode.

use super::*;
use crate::gateway::errors::{answer_unread, request_unread};

/// Story in which another machine leads both shards.
fn elsewhere() -> Story {
    let mut story = Story::clustered();
    story.leads(2);
    story
        .gateway
        .cluster_changed(story.now, ClusterChange::Led(ShardId(0), Some((MachineId(2), 0))));
    story
}

fn error(error: adt::ErrorReply) -> Reply {
    Reply::Error(error)
}

const REFUSED: Answer = Answer::Refused(Refusal::Unread);

#[test]
fn what_cannot_be_read_fails_alone_and_is_not_asked_again() {
    let mut story = elsewhere();
    for line in ["GET a", "INCR a", "GET e"] {
        story.says(line);
    }
    let sent = story.sent();
    story.answer(sent[0].1, REFUSED);
    story.answer(sent[1].1, Answer::Unread);
    story.answer(sent[2].1, done(&[3]));
    let replies = [error(request_unread()), error(answer_unread()), Reply::Int(3)];
    assert_eq!(story.replies(), replies);
    // When the leader is lost with all its requests, none of them is sent again.
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(2)));
    story.leads(1);
    assert!(story.sent().is_empty());
}

#[test]
fn a_transaction_that_a_shard_cannot_read_ends_everywhere_and_is_not_tried_again() {
    let mut story = elsewhere();
    let sent = exec_over_two(&mut story);
    story.answer(sent[0].1, Answer::Prepared { bound: Timestamp(70) });
    story.answer(sent[1].1, REFUSED);
    let (ended, replies) = story.out();
    assert_eq!(replies, [error(request_unread()), Reply::status("PONG")]);
    let ends = |body: &Body| matches!(body, Body::Decide { commit: None, .. });
    assert_eq!(ended.iter().filter(|(_, _, body)| ends(body)).count(), 2, "{ended:?}");
    assert_eq!(story.gateway.parts.core.mail.pending.len(), 0);
}

#[test]
fn a_read_over_two_shards_fails_when_one_of_them_cannot_read_it() {
    let mut story = elsewhere();
    story.says("MGET a b");
    let sent = story.sent();
    story.answer(sent[0].1, REFUSED);
    assert_eq!(story.replies(), [error(request_unread())]);
    story.answer(sent[1].1, snapshot(1, 1, 9));
    assert!(story.replies().is_empty());
}

#[test]
fn a_lock_that_a_shard_cannot_read_ends_its_transaction_for_good() {
    let mut story = elsewhere();
    story.says("RENAME a e");
    let sent = story.sent();
    story.answer(sent[0].1, REFUSED);
    let (ended, replies) = story.out();
    assert_eq!(replies, [error(request_unread())]);
    assert!(ended.iter().all(|(_, _, body)| matches!(body, Body::Release { .. })), "{ended:?}");
}

#[test]
fn what_is_asked_of_all_shards_fails_when_one_of_them_cannot_be_read() {
    let mut story = elsewhere();
    story.says("DBSIZE");
    let sent = story.sent();
    story.answer(sent[0].1, Answer::Reply(Reply::Int(4)));
    story.answer(sent[1].1, Answer::Unread);
    assert_eq!(story.replies(), [error(answer_unread())]);
}

#[test]
fn nothing_is_concluded_from_a_fate_that_cannot_be_read() {
    let mut story = elsewhere();
    let txn = crate::ids::TxnId { age: Age::default(), attempt: 3 };
    let participants = [ShardId(0), ShardId(1)];
    let orphan = || Notice::Orphan { txn, participants: participants.into_iter().collect() };
    story.answer(0, Answer::Notice(orphan()));
    let asked = story.sent();
    assert_eq!(asked.len(), 2);
    story.answer(asked[0].1, Answer::Unread);
    let fate = crate::message::Fate::Prepared { bound: Timestamp(7) };
    story.answer(asked[1].1, Answer::Fate(fate));
    assert!(story.sent().is_empty(), "it may be committed");
    story.answer(0, Answer::Notice(orphan()));
    assert_eq!(story.sent().len(), 2, "the shard says so again");
}
