//! Stories about locks: the order of the grants, the number of writes to the log, and the answers when a
//! client goes away; and about fencing.

use super::kept::leaves;
use super::*;
use crate::message::Fence;
use adt::{ArgBuf, record};

pub(in crate::shard::tests) fn operation(words: &str) -> (Blob, Op) {
    record::decode(&ArgBuf::of(words.split_whitespace()).args()).unwrap()
}

fn apply_of(words: &str) -> Apply {
    Apply { ops: SmallVec::from_iter([operation(words)]), ..Apply::default() }
}

pub(super) fn call(words: &str) -> Body {
    Body::Apply(apply_of(words))
}

pub(super) fn acquire(words: &str) -> Body {
    acquire_within(words, 0)
}

fn acquire_within(words: &str, timeout_ms: u64) -> Body {
    Body::Await { apply: apply_of(&format!("lock.acquire k {words}")), timeout_ms }
}

/// A request for the lock under a number of its client.
fn numbered() -> Body {
    let request = Some(RequestId { client: Blob::from("ann"), number: 1 });
    let apply = Apply { request, ..apply_of("lock.acquire k") };
    Body::Await { apply, timeout_ms: 0 }
}

/// Answers with their requests, tokens as numbers in the order in which they were seen.
pub(super) fn told(story: &mut Story) -> Vec<(u64, Reply)> {
    let reply = |answer| match answer {
        Answer::Replies(mut replies) if replies.len() == 1 => replies.remove(0),
        other => panic!("{other:?}"),
    };
    story.answers().into_iter().map(|(asked, answer)| (asked, reply(answer))).collect()
}

/// The only answer that there is: to whom, and the token.
pub(super) fn granted(story: &mut Story) -> (u64, i64) {
    match told(story)[..] {
        [(asked, Reply::Int(token))] => (asked, token),
        ref other => panic!("{other:?}"),
    }
}

pub(super) fn records(story: &mut Story) -> usize {
    let entry = story.end_turn().unwrap();
    let count = entry.records.len();
    assert!(story.shard.end_turn(story.now).is_none(), "one entry");
    story.shard.keep(entry, 0);
    story.shard.committed(story.now);
    count
}

#[test]
fn a_release_and_the_next_grant_are_one_entry_in_the_order_of_arrival() {
    let mut story = Story::new();
    let first = story.ask(acquire("owner ann"));
    story.sync();
    let (to, ann) = granted(&mut story);
    assert_eq!(to, first);
    let second = story.ask(acquire("owner ben"));
    let third = story.ask(acquire("owner cem"));
    assert!(story.end_turn().is_none(), "to wait costs nothing");
    let release = story.ask(call(&format!("lock.release k {ann}")));
    assert_eq!(records(&mut story), 2);
    let told = told(&mut story);
    assert_eq!(told[0], (release, Reply::Int(1)));
    let (to, Reply::Int(ben)) = &told[1] else { panic!("{told:?}") };
    assert!(*to == second && *ben > ann && told.len() == 2);
    story.ask(call(&format!("lock.release k {ben}")));
    story.sync();
    let answers = self::told(&mut story);
    assert!(matches!(answers[1], (to, Reply::Int(token)) if to == third && token > *ben));
}

#[test]
fn a_release_with_an_old_token_lets_nobody_in() {
    let mut story = Story::new();
    story.ask(acquire(""));
    story.sync();
    let (_, token) = granted(&mut story);
    let waits = story.ask(acquire(""));
    let stale = story.ask(call(&format!("lock.release k {}", token - 1)));
    assert_eq!(records(&mut story), 1);
    assert_eq!(told(&mut story), [(stale, Reply::Int(0))]);
    story.ask(call(&format!("lock.release k {token}")));
    story.sync();
    assert!(matches!(told(&mut story)[1], (to, Reply::Int(_)) if to == waits));
}

#[test]
fn those_who_share_go_together_and_nobody_overtakes_who_wants_it_alone() {
    let mut story = Story::new();
    story.ask(acquire(""));
    story.sync();
    let (_, token) = granted(&mut story);
    let readers = [story.ask(acquire("shared")), story.ask(acquire("shared"))];
    let writer = story.ask(acquire(""));
    let late = story.ask(acquire("shared"));
    story.ask(call(&format!("lock.release k {token}")));
    assert_eq!(records(&mut story), 3, "the release and two who share");
    let answers = told(&mut story);
    let mut tokens = Vec::new();
    for (answer, reader) in answers[1..].iter().zip(readers) {
        let (to, Reply::Int(token)) = answer else { panic!("{answer:?}") };
        assert_eq!(*to, reader);
        tokens.push(*token);
    }
    story.sync();
    assert_eq!(answers.len(), 3);
    for token in tokens {
        story.ask(call(&format!("lock.release k {token}")));
    }
    story.sync();
    story.sync();
    let answers = told(&mut story);
    let (to, Reply::Int(token)) = &answers[2] else { panic!("{answers:?}") };
    assert_eq!((*to, answers.len()), (writer, 3), "after both, and before who came later");
    story.ask(call(&format!("lock.release k {token}")));
    story.sync();
    assert_eq!(told(&mut story)[1].0, late);
}

#[test]
fn a_wait_ends_with_its_time_and_a_lease_ends_by_itself() {
    let mut story = Story::new();
    story.ask(acquire("lease 500"));
    story.sync();
    granted(&mut story);
    let short = story.ask(acquire_within("", 300));
    let long = story.ask(acquire_within("", 3000));
    story.pass(299_000);
    assert_eq!(told(&mut story), []);
    story.pass(2_000);
    story.sync();
    assert_eq!(told(&mut story), [(short, Reply::Nil)]);
    story.now.wall_us += 501_000;
    story.pass(200_000);
    story.sync();
    story.sync();
    let (to, _) = granted(&mut story);
    assert_eq!(to, long);
}

#[test]
fn what_is_granted_to_somebody_who_is_gone_is_taken_back() {
    let mut story = Story::new();
    story.ask(acquire(""));
    story.sync();
    let (_, token) = granted(&mut story);
    let gone = story.ask(acquire(""));
    let next = story.ask(acquire(""));
    story.ask(call(&format!("lock.release k {token}")));
    // It is in the log when its client goes.
    leaves(&mut story, gone);
    story.sync();
    story.sync();
    let answers = told(&mut story);
    let last = answers.last().unwrap();
    assert!(matches!(last, (to, Reply::Int(_)) if *to == next), "{answers:?}");
    let waits = story.ask(acquire(""));
    leaves(&mut story, waits);
    let (_, Reply::Int(token)) = last else { panic!() };
    story.ask(call(&format!("lock.release k {token}")));
    assert_eq!(records(&mut story), 1, "nobody waits any more");
    assert!(story.shard.desk.waits.turns.is_empty() && story.shard.state().get(b"k").is_none());
}

#[test]
fn a_wait_under_a_request_number_has_no_outcome_before_it_ends() {
    let mut story = Story::new();
    story.ask(acquire(""));
    story.sync();
    let (_, token) = granted(&mut story);
    let waits = story.ask(numbered());
    story.ask(call(&format!("lock.release k {token}")));
    story.sync();
    let answers = told(&mut story);
    let (to, Reply::Int(own)) = &answers[1] else { panic!("{answers:?}") };
    assert_eq!(*to, waits);
    let again = story.ask(numbered());
    story.sync();
    let answers = story.answers();
    let [(to, Answer::Repeated(replies))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((*to, &replies[..]), (again, &[Reply::Int(*own)][..]));
}

#[test]
fn what_was_asked_again_over_another_connection_is_granted_once_and_told_to_both() {
    for gone in [false, true] {
        let mut story = Story::new();
        story.ask(acquire(""));
        story.sync();
        let (_, token) = granted(&mut story);
        let first = story.ask(numbered());
        let second = story.ask(numbered());
        story.ask(call(&format!("lock.release k {token}")));
        if gone {
            // It is in the log already when its connection is known to be gone.
            leaves(&mut story, first);
        }
        story.sync();
        story.sync();
        let answers = story.answers();
        let [_, (to, Answer::Replies(own)), (other, Answer::Repeated(again))] = &answers[..] else {
            panic!("{gone}: {answers:?}")
        };
        assert_eq!((*to, *other, own), (first, second, again));
        let Reply::Int(token) = own[0] else { panic!("{own:?}") };
        let held = story.ask(call(&format!("lock.renew k {token}")));
        story.sync();
        assert_eq!(told(&mut story), [(held, Reply::Int(1))], "nobody has taken it back");
        assert!(story.shard.desk.waits.turns.is_empty());
    }
}

#[test]
fn a_copy_that_comes_late_and_whose_client_is_gone_takes_nothing_back() {
    let mut story = Story::new();
    story.ask(numbered());
    story.sync();
    let (_, token) = granted(&mut story);
    let renewed = story.ask(call(&format!("lock.renew k {token}")));
    story.sync();
    assert_eq!(told(&mut story), [(renewed, Reply::Int(1))]);
    // The first request, over a connection that has broken, has stood still in the network, and so has the
    // message that no client waits for it.
    let late = story.ask(numbered());
    leaves(&mut story, late);
    story.sync();
    story.sync();
    story.answers();
    let held = story.ask(call(&format!("lock.renew k {token}")));
    story.sync();
    assert_eq!(told(&mut story), [(held, Reply::Int(1))], "its lease has just begun");
}

#[test]
fn what_a_gateway_asks_again_by_itself_was_not_taken_back() {
    for number in [None, Some(1)] {
        let mut story = Story::new();
        let request = number.map(|number| RequestId { client: Blob::from("ann"), number });
        let asked = || {
            let apply = Apply { request: request.clone(), ..apply_of("lock.acquire k") };
            Body::Await { apply, timeout_ms: 0 }
        };
        story.ask(asked());
        // The connection between the machines breaks while the grant is on its way into the log.
        story.shard.machine_gone(story.now, G.machine);
        story.sync();
        story.sync();
        story.answers();
        let again = story.ask(asked());
        story.sync();
        let answers = story.answers();
        let [(to, Answer::Replies(replies) | Answer::Repeated(replies))] = &answers[..] else {
            panic!("{answers:?}")
        };
        let Reply::Int(token) = replies[0] else { panic!("{replies:?}") };
        assert_eq!(*to, again);
        let held = story.ask(call(&format!("lock.renew k {token}")));
        story.sync();
        assert_eq!(told(&mut story), [(held, Reply::Int(1))], "{number:?}");
    }
}

#[test]
fn who_is_refused_on_the_way_does_not_stand_in_the_way_of_others() {
    let mut story = Story::new();
    story.ask(acquire(""));
    story.sync();
    let (_, token) = granted(&mut story);
    let refused = story.ask(acquire(""));
    let next = story.ask(acquire(""));
    let target = Recipient { gateway: G, token: Token(refused), kind: RecipientKind::Turn };
    let set_out = story.shard.desk.waits.turns.set_out(1).map(|request| request.token);
    assert_eq!(set_out, Some(Token(refused)));
    story.shard.desk.turn_taken(story.now, target, Answer::Refused(Refusal::Busy));
    story.answers();
    story.ask(call(&format!("lock.release k {token}")));
    story.sync();
    story.sync();
    assert!(matches!(told(&mut story)[1], (to, Reply::Int(_)) if to == next));
}

#[test]
fn so_many_wait_for_their_turns_and_not_one_more() {
    let mut story = Story::new();
    story.ask(acquire(""));
    story.sync();
    granted(&mut story);
    for _ in 0..crate::limits::TURNS_MAX {
        story.ask(acquire(""));
    }
    assert!(story.answers().is_empty());
    let one_more = story.ask(acquire(""));
    let answers = story.answers();
    let [(to, Answer::Refused(Refusal::Busy))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(*to, one_more);
}

#[test]
fn nobody_goes_on_while_a_backup_stands_still() {
    let mut story = Story::new();
    story.ask(acquire("lease 500"));
    story.sync();
    granted(&mut story);
    let next = story.ask(acquire(""));
    let freeze = Body::Cut { cut: 1, step: crate::message::CutStep::Freeze };
    story.ask(freeze);
    story.now.wall_us += 600_000;
    story.pass(200_000);
    story.sync();
    story.sync();
    // Time goes on, and the lease has ended.
    assert!(story.shard.state().get(b"k").is_none());
    let told_next = |story: &mut Story| story.answers().iter().any(|(to, _)| *to == next);
    assert!(!told_next(&mut story) && story.shard.desk.waits.turns.has_waiting(&Blob::from("k")));
    story.ask(Body::Cut { cut: 1, step: crate::message::CutStep::Release });
    story.pass(200_000);
    story.sync();
    story.sync();
    assert!(told_next(&mut story) && story.shard.state().get(b"k").is_some());
}

#[test]
fn who_waits_goes_to_the_next_leader_and_what_is_in_the_log_is_not_known() {
    let mut story = Story::new();
    let first = story.ask(acquire(""));
    story.now.mono_us += 10_000;
    let second = story.ask(acquire_within("owner ben", 500));
    let entry = story.end_turn().unwrap();
    story.shard.keep(entry, 0);
    story.now.mono_us += 100_000;
    story.shard.tick(story.now);
    story.shard.desk.core.state.tell_time(story.now.mono_us);
    story.shard.step_down();
    let answers = story.answers();
    assert!(matches!(answers[0], (to, Answer::Unknown) if to == first));
    let (to, Answer::NotTaken(body)) = &answers[1] else { panic!("{answers:?}") };
    let Body::Await { timeout_ms, .. } = **body else { panic!("{body:?}") };
    // Its gateway knows how long it has waited.
    assert_eq!((*to, timeout_ms, answers.len()), (second, 500, 2));
}

#[test]
fn a_lock_says_who_waits_for_it() {
    let mut story = Story::new();
    story.ask(acquire(""));
    story.sync();
    granted(&mut story);
    story.ask(acquire("owner ben shared"));
    story.now.mono_us += 7_000;
    story.ask(acquire("owner cem limit 2"));
    let key = Blob::from("k");
    let asked = story.ask(Body::Waiting { key });
    let row = |owner, share, ms| {
        Reply::Array(vec![Reply::bulk(owner), Reply::bulk(share), Reply::Int(ms)])
    };
    let expected = Reply::Array(vec![row("ben", "shared", 7), row("cem", "limit 2", 0)]);
    let answers = story.answers();
    let [(to, Answer::Reply(reply))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((*to, reply), (asked, &expected));
}

#[test]
fn a_write_under_an_old_token_is_refused_by_the_log_and_changes_nothing() {
    let mut story = Story::new();
    let write = |token, value: &str| {
        let fences = vec![Fence { lock: Blob::from("k"), token }];
        Body::Apply(Apply { fences, ..apply_of(&format!("set x {value}")) })
    };
    let new = story.ask(write(8, "new"));
    let old = story.ask(write(7, "old"));
    let same = story.ask(write(8, "same"));
    story.sync();
    let answers = story.answers();
    let kinds: Vec<(u64, bool)> =
        answers.iter().map(|(to, answer)| (*to, matches!(answer, Answer::Fenced))).collect();
    assert_eq!(kinds, [(new, false), (old, true), (same, false)]);
    // A snapshot remembers.
    story.shard.begin_snapshot(1, 1, None);
    let mut reader = snapshot::Reader::new(0);
    loop {
        let parts = story.shard.snapshot_parts(10);
        if parts.is_empty() {
            break;
        }
        parts.into_iter().for_each(|part| reader.take(part).unwrap());
    }
    let (_, state) = reader.finish().unwrap();
    assert_eq!(state.fences(), story.shard.state().fences());
    assert!(!state.fences().admit(&[Fence { lock: Blob::from("k"), token: 7 }]));
}
