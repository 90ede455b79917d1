//! Clients that wait for locks, and commands that come with a fencing token.

use super::*;
use crate::cluster::map::ShardMap;
use crate::message::{Early, Fence};
use adt::Blob;
use smallvec::SmallVec;

/// Code of an error, or the text of another reply.
pub(super) fn code(reply: &Reply) -> String {
    match reply {
        Reply::Error(error) => error.code().to_owned(),
        other => format!("{other:?}"),
    }
}

pub(super) fn text(reply: &Reply) -> String {
    match reply {
        Reply::Error(error) => error.to_string(),
        other => panic!("{other:?} is no error"),
    }
}

impl Story {
    /// Gateway of a cluster in which machine 1 leads shard 1.
    fn with_locks() -> Self {
        let mut story = Self::clustered();
        let machines = [(MachineId(1), "a:1".to_owned()), (MachineId(2), "b:2".to_owned())];
        let map = ShardMap::founded(machines.into(), 2);
        story.gateway.cluster_changed(story.now, ClusterChange::Map(Box::new(map)));
        story.leads(1);
        story.out();
        story
    }

    /// Only request that is sent.
    fn asked(&mut self) -> (u64, Body) {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        let (_, token, body) = sent.remove(0);
        (token, body)
    }

    /// Only reply, which is there at once.
    pub(super) fn told(&mut self, line: &str) -> Reply {
        self.says(line);
        let mut replies = self.replies();
        assert_eq!(replies.len(), 1, "{line}: {replies:?}");
        replies.remove(0)
    }

    fn apply(&mut self, lines: &[&str]) -> Apply {
        for line in lines {
            self.says(line);
        }
        let (mut sent, _) = self.out();
        match sent.pop() {
            Some((ShardId(1), _, Body::Apply(apply))) if sent.is_empty() => apply,
            other => panic!("{other:?}, {sent:?}"),
        }
    }
}

#[test]
fn whoever_waits_for_a_lock_is_asked_nothing_more_until_it_is_answered() {
    let mut story = Story::new();
    story.says("LOCK.ACQUIRE a TIMEOUT 700 LEASE 5000 OWNER ann");
    story.says("INCR a");
    let (token, body) = story.asked();
    let Body::Await { apply, timeout_ms: 700 } = body else { panic!("{body:?}") };
    assert!(apply.ops[0].1.waits() && story.gateway.stats().blocked == 1);
    story.answer(token, done(&[9]));
    let (sent, replies) = story.out();
    assert_eq!((sent.len(), replies), (1, vec![Reply::Int(9)]));
    assert_eq!(story.gateway.stats().blocked, 0);
}

#[test]
fn whoever_leaves_waits_no_more_and_a_later_grant_is_nobodys() {
    let mut story = Story::new();
    story.says("LOCK.ACQUIRE a");
    let (token, _) = story.asked();
    story.gateway.close(story.now, story.client);
    let (under, body) = story.asked();
    assert!(matches!(body, Body::Unblock) && under == token, "the shard takes the grant back");
    story.answer(token, done(&[9]));
    assert!(story.replies().is_empty());
    assert_eq!(
        (story.gateway.jobs_under_way(), story.gateway.parts.core.mail.pending.len()),
        (0, 0)
    );
}

#[test]
fn a_wait_for_a_lock_is_ended_by_others() {
    for (how, reply) in [("", "Nil"), (" TIMEOUT", "Nil"), (" ERROR", "UNBLOCKED")] {
        let mut story = Story::new();
        let other = story.gateway.open(story.now, Opening::default());
        story.says("CLIENT ID");
        let Reply::Int(client) = story.replies()[0] else { panic!("a number") };
        story.says("LOCK.ACQUIRE a");
        let (token, _) = story.asked();
        assert!(story.gateway.parts.unblock(client as u64, how == " ERROR"), "{how}");
        story.gateway.settle();
        let (sent, replies) = story.out();
        assert!(matches!(&sent[..], [(ShardId(1), under, Body::EndTurn)] if *under == token));
        assert!(
            replies.is_empty(),
            "only the shard knows whether the lock was granted: {replies:?}"
        );
        story.answer(token, Answer::Replies([Reply::Nil].into_iter().collect()));
        assert_eq!(story.replies().iter().map(code).collect::<Vec<_>>(), [reply], "{how}");
        assert!(!story.gateway.parts.unblock(client as u64, false), "it waits for nothing");
        story.gateway.close(story.now, other);
    }
}

#[test]
fn a_lock_that_is_granted_while_its_wait_is_ended_is_the_reply() {
    let mut story = Story::with_locks();
    story.says("CLIENT ID");
    let Reply::Int(client) = story.replies()[0] else { panic!("a number") };
    story.says("LOCK.ACQUIRE a");
    let (token, _) = story.asked();
    assert!(story.gateway.parts.unblock(client as u64, true));
    story.gateway.settle();
    assert!(matches!(&story.sent()[..], [(_, _, Body::EndTurn)]));
    story.answer(token, done(&[7]));
    assert_eq!(story.replies(), [Reply::Int(7)]);

    // The leader may be lost with the message: the next one ends the wait.
    story.says("CLIENT REQUEST ann 1");
    story.says("LOCK.ACQUIRE a");
    story.out();
    assert!(story.gateway.parts.unblock(client as u64, true));
    story.gateway.settle();
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(1)));
    story.leads(2);
    let sent = story.sent();
    let again = sent.iter().rev().find(|(_, _, body)| matches!(body, Body::Await { .. }));
    let Some((_, token, Body::Await { timeout_ms: 1, .. })) = again else { panic!("{sent:?}") };
    story.answer(*token, Answer::Replies([Reply::Nil].into_iter().collect()));
    assert_eq!(story.replies().iter().map(code).collect::<Vec<_>>(), ["UNBLOCKED"]);
}

#[test]
fn an_acquisition_under_a_request_number_is_asked_again_with_the_time_that_is_left() {
    let mut story = Story::with_locks();
    for line in ["CLIENT REQUEST ann 1", "LOCK.ACQUIRE a TIMEOUT 900"] {
        story.says(line);
    }
    let (sent, _) = story.out();
    let [(_, first, Body::Await { apply, .. })] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(apply.request.as_ref().map(|request| request.number), Some(1));
    story.now.mono_us += 300_000;
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(1)));
    assert!(story.sent().is_empty());
    story.leads(2);
    let (again, body) = story.asked();
    assert!(matches!(body, Body::Await { timeout_ms: 600, .. }) && again != *first, "{body:?}");
    // A grant of the lost leader is not the answer of the next one.
    story.answer(*first, done(&[7]));
    assert!(story.replies().is_empty());
    story.gateway.close(story.now, story.client);
    let (under, body) = story.asked();
    assert!(matches!(body, Body::Unblock) && under == again, "as it was asked the last time");
}

#[test]
fn a_wait_that_another_leader_takes_over_is_no_longer_in_all() {
    for (timeout_ms, left_ms) in [(900, 600), (200, 1), (0, 0)] {
        let mut story = Story::with_locks();
        story.says(&format!("LOCK.ACQUIRE a TIMEOUT {timeout_ms}"));
        let (token, body) = story.asked();
        story.now.mono_us += 300_000;
        story.answer(token, Answer::NotTaken(Box::new(body)));
        assert!(story.sent().is_empty());
        story.leads(2);
        let (_, body) = story.asked();
        let Body::Await { timeout_ms: left, .. } = body else { panic!("{body:?}") };
        assert_eq!(left, left_ms);
    }
}

#[test]
fn without_a_request_number_nobody_knows_what_a_lost_leader_has_granted() {
    let mut story = Story::with_locks();
    story.says("LOCK.ACQUIRE a");
    story.asked();
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(1)));
    let replies = story.replies();
    assert_eq!(replies.iter().map(code).collect::<Vec<_>>(), ["INDEFINITE"]);
}

#[test]
fn a_wait_that_was_not_sent_yet_is_given_up_in_silence() {
    let mut story = Story::with_locks();
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(1)));
    story.says("LOCK.ACQUIRE a");
    assert!(story.sent().is_empty(), "nobody leads");
    story.gateway.close(story.now, story.client);
    story.leads(2);
    assert!(story.sent().is_empty());
}

#[test]
fn who_observes_an_election_asks_the_next_leader_without_a_request_number() {
    let mut story = Story::with_locks();
    story.says("ELECTION.OBSERVE a AFTER 7 TIMEOUT 900");
    let (first, body) = story.asked();
    assert!(
        matches!(body, Body::Await { timeout_ms: 900, .. }) && body.depends_on_lead(),
        "{body:?}"
    );
    story.now.mono_us += 300_000;
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(1)));
    story.leads(2);
    let (again, body) = story.asked();
    assert!(matches!(body, Body::Await { timeout_ms: 600, .. }) && again != first, "{body:?}");
    let row = [Reply::Nil, Reply::Nil, Reply::Nil, Reply::Int(0), Reply::Int(0)];
    let row = Reply::Array(row.into());
    story.answer(again, Answer::Replies(SmallVec::from_iter([row.clone()])));
    assert_eq!(story.replies(), [row]);
}

#[test]
fn who_listens_is_asked_again_of_the_next_leader_for_the_time_that_is_left() {
    let mut story = Story::with_locks();
    story.says("LOCK.WANTED a 7 TIMEOUT 900");
    let (_, body) = story.asked();
    assert!(matches!(body, Body::Await { timeout_ms: 900, .. }));
    story.now.mono_us += 400_000;
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(1)));
    story.leads(2);
    let (token, body) = story.asked();
    assert!(matches!(body, Body::Await { timeout_ms: 500, .. }), "{body:?}");
    story.answer(token, done(&[1]));
    assert_eq!(story.replies(), [Reply::Int(1)]);
}

#[test]
fn a_command_that_is_refused_leaves_its_request_number_to_nobody() {
    for refused in ["LOCK.ACQUIRE a LEASE 0", "LOCK.SECTION a", "NOTHING", "SET a", "BLPOP a 0"] {
        let mut story = Story::new();
        story.says("CLIENT REQUEST ann 1");
        story.replies();
        text(&story.told(refused));
        let apply = story.apply(&["SET a 1"]);
        assert_eq!(apply.request, None, "{refused}");
    }
}

#[test]
fn a_fenced_command_takes_its_token_to_the_shard() {
    let mut story = Story::new();
    let fences = vec![Fence { lock: Blob::from("b"), token: 7 }];
    let apply = story.apply(&["FENCE b 7 SET a 1"]);
    assert_eq!((apply.ops.len(), apply.fences), (1, fences.clone()), "the lock may be elsewhere");
    let mut story = Story::new();
    let apply = story.apply(&["CLIENT REQUEST ann 3", "FENCE b 7 GET a"]);
    assert_eq!(apply.fences, fences, "a read is fenced as well");
    assert_eq!(apply.request.map(|request| request.number), Some(3));
    let mut story = Story::new();
    let apply = story.apply(&["MULTI", "FENCE b 7", "SET {a}1 1", "FENCE e 8 INCR a", "EXEC"]);
    assert_eq!(apply.ops.len(), 2);
    assert_eq!(apply.fences.iter().map(|fence| fence.token).collect::<Vec<_>>(), [7, 8]);
}

#[test]
fn a_refusal_by_a_fence_is_told_so_and_nothing_else_of_the_transaction() {
    let mut story = Story::new();
    story.says("FENCE b 7 SET a 1");
    let (token, _) = story.asked();
    story.answer(token, Answer::Fenced);
    assert_eq!(story.replies().iter().map(code).collect::<Vec<_>>(), ["FENCED"]);
    for line in ["MULTI", "FENCE b 7", "INCR a", "EXEC"] {
        story.says(line);
    }
    let (sent, replies) = story.out();
    let waiting = [Reply::Ok, Reply::status("QUEUED"), Reply::status("QUEUED")];
    assert_eq!(replies, waiting);
    story.answer(sent[0].1, Answer::Fenced);
    assert_eq!(story.replies().iter().map(code).collect::<Vec<_>>(), ["FENCED"]);
}

#[test]
fn what_cannot_be_fenced_is_refused_with_what_to_do() {
    let mut story = Story::new();
    for (line, part) in [
        ("FENCE b x SET a 1", "token that it was granted with"),
        ("FENCE b -1 SET a 1", "token that it was granted with"),
        ("FENCE b 7", "between MULTI and EXEC"),
        ("FENCE b 7 NOSUCH a", "unknown command"),
        ("FENCE b 7 SET a", "wrong number of arguments"),
        ("FENCE b 7 PING", "takes a command on keys"),
        ("FENCE b 7 FENCE b 7 SET a 1", "takes a command on keys"),
        ("FENCE b 7 LOCK.ACQUIRE a", "does not take 'lock.acquire'"),
        ("FENCE b 7 BLPOP a 0", "LOCK.HELD"),
        ("FENCE b 7 RENAME a {a}1", "LOCK.HELD"),
        ("FENCE b 7 MSET a 1 b 2", "one hash slot"),
        ("FENCE b 7 MSET a 1 e 2", "one hash slot"),
    ] {
        let reply = story.told(line);
        assert!(text(&reply).contains(part), "{line}: {reply:?}");
    }
    assert_eq!(code(&story.told("FENCE b 7 MSET a 1 b 2")), "CROSSSLOT");
}

#[test]
fn a_fenced_transaction_is_on_one_slot_and_without_waiting() {
    let mut story = Story::new();
    for line in ["MULTI", "FENCE b 7", "INCR a", "INCR b"] {
        story.says(line);
    }
    story.out();
    assert_eq!(code(&story.told("EXEC")), "CROSSSLOT");
    for (line, part) in [
        ("FENCE b 7 LOCK.TRY a", "does not take"),
        ("FENCE b nought", "token"),
        ("LOCK.ACQUIRE a", "not allowed inside a transaction"),
        ("LOCK.TRY a", "not allowed inside a transaction"),
    ] {
        story.told("MULTI");
        let reply = story.told(line);
        assert!(text(&reply).contains(part), "{line}: {reply:?}");
        assert_eq!(code(&story.told("EXEC")), "EXECABORT", "{line}");
    }
    story.told("MULTI");
    for number in 0..crate::limits::FENCES_PER_REQUEST_MAX {
        assert_eq!(story.told(&format!("FENCE lock{number} 1")), Reply::status("QUEUED"));
    }
    assert!(text(&story.told("FENCE one-more 1")).contains("at most 16"));
}

#[test]
fn a_transaction_looks_at_a_lock_and_neither_takes_nor_fences_it() {
    let mut story = Story::new();
    assert_eq!(story.told("TXN BEGIN"), Reply::Ok);
    for (line, part) in [
        ("FENCE b 7 SET a 1", "LOCK.HELD"),
        ("FENCE b 7", "LOCK.HELD"),
        ("LOCK.ACQUIRE a", "'lock.acquire' is not allowed inside a TXN"),
        ("LOCK.TRY a", "'lock.try' is not allowed inside a TXN"),
    ] {
        let reply = story.told(line);
        assert!(text(&reply).contains(part), "{line}: {reply:?}");
    }
    story.says("LOCK.HELD a 7");
    let (token, body) = story.asked();
    assert!(matches!(body, Body::Lock { early: Early::Observed, .. }), "{body:?}");
    story.answer(token, Answer::Refused(Refusal::Busy));
    story.out();
    assert_eq!(code(&story.told("FENCE b 7 SET a 1")), "BUSY", "it is aborted");
}

#[test]
fn a_fence_does_not_let_anybody_do_what_is_not_allowed() {
    let rules = "on nopass ~a ~lock +fence +set +@lock";
    let mut story = Story::of_user(None, Order::Constant, rules);
    for line in [
        "FENCE lock 7 SET e 1",
        "FENCE lock 7 DEL a",
        // A client that could raise any lock's token could shut its holders out.
        "FENCE other 7 SET a 1",
        "LOCK.ACQUIRE other",
        "LOCK.WAITERS other",
    ] {
        assert_eq!(code(&story.told(line)), "NOPERM", "{line}");
    }
    assert_eq!(story.apply(&["FENCE lock 7 SET a 1"]).fences.len(), 1);
}

#[test]
fn who_waits_is_asked_of_the_locks_shard() {
    let mut story = Story::new();
    story.says("LOCK.WAITERS a");
    let (token, body) = story.asked();
    assert!(matches!(body, Body::Waiting { key } if key == Blob::from("a")));
    let rows = Reply::Array(Vec::new());
    story.answer(token, Answer::Reply(rows.clone()));
    assert_eq!(story.replies(), [rows]);
}
