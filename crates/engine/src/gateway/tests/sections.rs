//! Sections: the requests to shards, and the replies to clients.

use super::locks::{code, text};
use super::*;

fn passes(apply: &Apply) -> bool {
    apply.ops[0].1.opens_section()
}

/// Only request that is sent, which waits.
fn waiting(story: &mut Story) -> (u64, Apply, u64) {
    let mut sent = story.sent();
    match sent.pop() {
        Some((ShardId(1), token, Body::Await { apply, timeout_ms })) if sent.is_empty() => {
            (token, apply, timeout_ms)
        }
        other => panic!("{other:?}, {sent:?}"),
    }
}

#[test]
fn a_section_is_one_request_and_answers_what_its_command_does() {
    let mut story = Story::new();
    story.says("CLIENT REQUEST ann 3");
    story.says("LOCK.SECTION a TIMEOUT 700 OWNER ann SHARED MSET {a}1 x {a}2 y");
    story.says("INCR a");
    let (sent, _) = story.out();
    let [(ShardId(1), token, Body::Await { apply, timeout_ms: 700 })] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert!(passes(apply) && apply.ops.len() == 3 && story.gateway.stats().blocked == 1);
    assert_eq!(apply.request.as_ref().map(|request| request.number), Some(3));
    let replies = [Reply::Int(1 << 40), Reply::Ok, Reply::Ok].into_iter().collect();
    story.answer(*token, Answer::Replies(replies));
    let (sent, replies) = story.out();
    assert_eq!((sent.len(), replies), (1, vec![Reply::Ok]));
    assert_eq!(story.gateway.stats().blocked, 0);
}

#[test]
fn who_was_not_let_in_in_time_is_told_nil() {
    let mut story = Story::new();
    story.says("LOCK.SECTION a TIMEOUT 7 INCR {a}1");
    let (token, ..) = waiting(&mut story);
    story.answer(token, Answer::Replies([Reply::Nil].into_iter().collect()));
    assert_eq!(story.replies(), [Reply::Nil]);
    let lines = ["MULTI", "LOCK.SECTION a TIMEOUT 7", "INCR {a}1", "EXEC"];
    lines.iter().for_each(|line| story.says(line));
    let (sent, _) = story.out();
    story.answer(sent[0].1, Answer::Replies([Reply::Nil].into_iter().collect()));
    assert_eq!(story.replies(), [Reply::NilArray]);
}

#[test]
fn a_transaction_can_be_a_section_and_tells_its_token() {
    let mut story = Story::new();
    let lines = ["MULTI", "LOCK.SECTION a TIMEOUT 9 OWNER ann", "FENCE b 7", "INCR {a}1", "GET a"];
    lines.iter().for_each(|line| story.says(line));
    story.out();
    story.says("EXEC");
    let (token, apply, timeout_ms) = waiting(&mut story);
    assert!(passes(&apply) && timeout_ms == 9);
    assert_eq!((apply.ops.len(), apply.fences.len()), (3, 1));
    let replies = [Reply::Int(99), Reply::Int(1), Reply::Nil];
    story.answer(token, Answer::Replies(replies.clone().into_iter().collect()));
    let [token, one, nil] = replies;
    assert_eq!(story.replies(), [Reply::Array(vec![token, Reply::Ok, one, nil])]);
}

#[test]
fn what_cannot_be_a_section_is_refused_with_what_to_do() {
    let mut story = Story::new();
    for (line, part) in [
        ("LOCK.SECTION a", "behind MULTI"),
        ("LOCK.SECTION a TIMEOUT x GET a", "TIMEOUT is in milliseconds"),
        ("LOCK.SECTION a NOSUCH a", "unknown command"),
        ("LOCK.SECTION a PING", "takes a command on keys"),
        ("LOCK.SECTION a LOCK.TRY a", "does not take 'lock.try'"),
        ("LOCK.SECTION a LOCK.SECTION a GET a", "takes a command on keys"),
        ("LOCK.SECTION a RENAME {a}1 {a}2", "LOCK.HELD"),
        ("LOCK.PASS a", "unknown command"),
    ] {
        let reply = story.told(line);
        assert!(text(&reply).contains(part), "{line}: {reply:?}");
    }
    for line in ["LOCK.SECTION a GET b", "LOCK.SECTION a MSET a 1 b 2"] {
        assert_eq!(code(&story.told(line)), "CROSSSLOT", "{line}");
    }
    for (line, part) in [
        ("LOCK.SECTION a GET a", "no command between MULTI and EXEC"),
        ("LOCK.SECTION a LEASE 5", "syntax"),
    ] {
        story.told("MULTI");
        let reply = story.told(line);
        assert!(text(&reply).contains(part), "{line}: {reply:?}");
        assert_eq!(code(&story.told("EXEC")), "EXECABORT", "{line}");
    }
    for line in ["MULTI", "INCR a"] {
        story.told(line);
    }
    assert!(text(&story.told("LOCK.SECTION a")).contains("first command behind MULTI"));
    story.told("EXEC");
    for line in ["MULTI", "LOCK.SECTION a", "INCR b"] {
        story.told(line);
    }
    assert_eq!(code(&story.told("EXEC")), "CROSSSLOT");
    story.told("TXN BEGIN");
    assert!(text(&story.told("LOCK.SECTION a GET a")).contains("LOCK.HELD"));
}

#[test]
fn a_section_is_unblocked_unless_it_is_carried_out_already() {
    let mut story = Story::new();
    story.says("CLIENT ID");
    let Reply::Int(client) = story.replies()[0] else { panic!("a number") };
    story.says("LOCK.SECTION a GET a");
    let (token, ..) = waiting(&mut story);
    assert!(story.gateway.parts.unblock(client as u64, true));
    story.gateway.settle();
    assert!(matches!(&story.sent()[..], [(_, under, Body::EndTurn)] if *under == token));
    assert!(story.replies().is_empty());
    story.answer(token, Answer::Replies([Reply::Nil].into_iter().collect()));
    assert_eq!(story.replies().iter().map(code).collect::<Vec<_>>(), ["UNBLOCKED"]);
    story.says("LOCK.SECTION a GET a");
    let (token, ..) = waiting(&mut story);
    story.gateway.close(story.now, story.client);
    let sent = story.sent();
    assert!(matches!(&sent[..], [(_, under, Body::Unblock)] if *under == token));
    assert_eq!(
        (story.gateway.jobs_under_way(), story.gateway.parts.core.mail.pending.len()),
        (0, 0)
    );
}

#[test]
fn a_section_does_not_let_anybody_do_what_is_not_allowed() {
    let rules = "on nopass ~a ~lock{a} +set +lock.section";
    let mut story = Story::of_user(None, Order::Constant, rules);
    for line in [
        "LOCK.SECTION lock{a} SET {a}1 1",
        "LOCK.SECTION lock{a} DEL a",
        "LOCK.SECTION {a} SET a 1",
    ] {
        assert_eq!(code(&story.told(line)), "NOPERM", "{line}");
    }
    story.says("LOCK.SECTION lock{a} SET a 1");
    assert!(passes(&waiting(&mut story).1));
}
