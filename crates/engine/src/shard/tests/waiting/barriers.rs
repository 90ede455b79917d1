//! Stories about barriers: which parties go on together, with how many writes to the log, and the answers
//! when a party goes away.

use super::kept::leaves;
use super::sections::in_2026;
use super::turns::{call, operation, records, told};
use super::*;

fn party(words: &str, number: Option<u64>, timeout_ms: u64) -> Body {
    let ops = SmallVec::from_iter([operation(&format!("barrier.wait k {words}"))]);
    let request = number.map(|number| RequestId { client: Blob::from("c"), number });
    Body::Await { apply: Apply { ops, request, ..Apply::default() }, timeout_ms }
}

fn wait(words: &str) -> Body {
    party(words, None, 0)
}

/// All who were told the same generation, in their order.
fn generation(story: &mut Story) -> (Vec<u64>, i64) {
    let answers = story.answers();
    let mut numbers = answers.iter().map(|(_, answer)| match answer {
        Answer::Replies(replies) | Answer::Repeated(replies) => match replies[..] {
            [Reply::Int(number)] => number,
            ref other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    });
    let number = numbers.next().expect("somebody goes on");
    assert!(numbers.all(|other| other == number), "{answers:?}");
    (answers.iter().map(|(to, _)| *to).collect(), number)
}

#[test]
fn they_go_on_together_as_soon_as_all_have_come_by_one_entry() {
    let mut story = in_2026();
    let mut came = vec![story.ask(wait("3 owner ann")), story.ask(wait("3 owner ben"))];
    story.pass(10_000_000);
    assert!(story.end_turn().is_none() && told(&mut story).is_empty(), "to wait costs nothing");
    let key = Blob::from("k");
    story.ask(Body::Waiting { key });
    let [(_, Answer::Reply(Reply::Array(rows)))] = &story.answers()[..] else { panic!() };
    let row = [Reply::bulk("ann"), Reply::Int(3), Reply::Int(10_000)];
    assert_eq!((rows.len(), &rows[0]), (2, &Reply::Array(row.into())));
    came.push(story.ask(wait("3")));
    assert_eq!(records(&mut story), 3);
    let (to, first) = generation(&mut story);
    assert_eq!(to, came);
    assert!(
        story.shard.desk.waits.turns.is_empty() && story.shard.state().records().is_empty(),
        "nothing is left"
    );
    // It is usable again at once, by as many as one likes.
    story.ask(wait("1"));
    story.sync();
    assert!(generation(&mut story).1 > first);
}

#[test]
fn those_who_come_early_wait_for_the_next_generation() {
    let mut story = in_2026();
    let came: Vec<u64> = (0..5).map(|_| story.ask(wait("2"))).collect();
    story.sync();
    story.sync();
    let answers = told(&mut story);
    let numbers: Vec<_> = answers.iter().map(|(_, reply)| reply.clone()).collect();
    assert_eq!(answers.iter().map(|(to, _)| *to).collect::<Vec<_>>(), came[..4]);
    assert!(numbers[0] == numbers[1] && numbers[2] == numbers[3] && numbers[0] != numbers[2]);
    let last = story.ask(wait("2"));
    story.sync();
    assert_eq!(generation(&mut story).0, [came[4], last]);
}

#[test]
fn who_leaves_or_has_waited_long_enough_has_not_come() {
    let mut story = in_2026();
    let gone = story.ask(wait("3"));
    let short = story.ask(party("3", None, 300));
    leaves(&mut story, gone);
    story.pass(301_000);
    assert_eq!(told(&mut story), [(short, Reply::Nil)]);
    assert!(story.shard.desk.waits.turns.is_empty());
    story.ask(wait("3"));
    story.ask(wait("3"));
    story.shard.machine_gone(story.now, G.machine);
    assert!(story.shard.desk.waits.turns.is_empty() && story.end_turn().is_none());
    // What is in the log already stays there: the others go on.
    let came = [story.ask(wait("2")), story.ask(wait("2"))];
    let entry = story.end_turn().unwrap();
    story.shard.keep(entry, 0);
    leaves(&mut story, came[0]);
    story.shard.committed(story.now);
    assert_eq!(generation(&mut story).0, came);
}

#[test]
fn strangers_are_told_so_and_change_nothing() {
    let mut story = in_2026();
    let first = story.ask(wait("2"));
    let other = story.ask(wait("3"));
    let lock = SmallVec::from_iter([operation("lock.acquire k")]);
    let locks = Body::Await { apply: Apply { ops: lock, ..Apply::default() }, timeout_ms: 0 };
    let holder = story.ask(locks);
    let answers = told(&mut story);
    assert!(answers.iter().all(|(_, reply)| reply.is_error()), "{answers:?}");
    assert_eq!(answers.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [other, holder]);
    let second = story.ask(wait("2"));
    story.sync();
    assert_eq!(generation(&mut story).0, [first, second]);
    story.ask(call("sadd k x"));
    story.sync();
    told(&mut story);
    story.ask(wait("5"));
    story.sync();
    assert!(told(&mut story)[0].1.is_error(), "something else is stored there");
}

#[test]
fn who_asks_twice_under_one_number_has_come_once_and_is_told_the_same_again() {
    let mut story = in_2026();
    let mut to = vec![story.ask(party("2", Some(1), 0)), story.ask(party("2", Some(1), 0))];
    assert!(story.end_turn().is_none(), "one has come, over two connections");
    to.insert(1, story.ask(party("2", Some(2), 0)));
    let entry = story.end_turn().unwrap();
    story.shard.keep(entry, 0);
    // While it is on its way it is asked once more, and another party is early.
    to.push(story.ask(party("2", Some(1), 0)));
    let early = story.ask(party("2", Some(3), 0));
    assert!(story.end_turn().is_none(), "whoever is on the way is not another one");
    story.shard.committed(story.now);
    story.sync();
    let (told_to, first) = generation(&mut story);
    assert_eq!(told_to, to);
    to.push(story.ask(party("2", Some(2), 0)));
    story.sync();
    assert_eq!(generation(&mut story), (vec![to[4]], first), "long after as well");
    // The same with the words of other barriers, for it is over.
    story.ask(party("7", Some(2), 0));
    story.sync();
    assert_eq!(generation(&mut story).1, first);
    let last = story.ask(party("2", Some(4), 0));
    story.sync();
    let (told_to, second) = generation(&mut story);
    assert!(told_to == [early, last] && second > first);
}

#[test]
fn a_transaction_on_the_key_holds_all_of_them_up_and_not_some() {
    let mut story = in_2026();
    story.ask(lock(1, "k", card()));
    story.sync();
    story.answers();
    let came = [story.ask(wait("2")), story.ask(wait("2"))];
    assert!(story.end_turn().is_none());
    story.ask(Body::Release { txn: txn(1), after: Timestamp::ZERO });
    story.pass(100_000);
    assert_eq!(records(&mut story), 2);
    assert_eq!(generation(&mut story).0, came);
}

#[test]
fn the_next_leader_is_asked_for_the_same_by_all_or_none() {
    let mut story = in_2026();
    let came: Vec<u64> = (0..3).map(|_| story.ask(wait("2"))).collect();
    // Nothing was proposed yet.
    story.shard.step_down();
    let mut again = Vec::new();
    for (to, answer) in story.answers() {
        let Answer::NotTaken(body) = answer else { panic!("{answer:?}") };
        let Body::Await { apply, .. } = *body else { panic!() };
        assert_eq!(apply.ops[0].1, operation("barrier.wait k 2").1, "and not how it was to go on");
        again.push(to);
    }
    again.sort_unstable();
    assert_eq!(again, came);
    let mut story = in_2026();
    (0..2).for_each(|_| assert!(story.ask(wait("2")) > 0));
    let entry = story.end_turn().unwrap();
    assert_eq!(entry.records.len(), 2);
    story.shard.keep(entry, 0);
    story.shard.step_down();
    assert!(story.answers().iter().all(|(_, answer)| matches!(answer, Answer::Unknown)));
}

#[test]
fn a_generation_is_in_one_entry_however_full_that_is() {
    let mut story = in_2026();
    for number in 0..ENTRY_RECORDS_MAX - 1 {
        story.ask(call(&format!("set x {number}")));
    }
    story.ask(wait("2"));
    story.ask(wait("2"));
    let first = story.end_turn().unwrap();
    story.shard.keep(first, 0);
    let second = story.shard.end_turn(story.now).unwrap();
    assert_eq!(second.records.len(), 2);
    story.shard.keep(second, 0);
}
