//! Stories about locks that their holders keep: notices that another client wants them, and blocks of tokens
//! that nothing else comes between.

use super::turns::{acquire, call, granted, operation, records, told};
use super::*;

fn wanted(token: i64, timeout_ms: u64) -> Body {
    let ops = SmallVec::from_iter([operation(&format!("lock.wanted k {token}"))]);
    Body::Await { apply: Apply { ops, ..Apply::default() }, timeout_ms }
}

fn in_2026() -> Story {
    let mut story = Story::new();
    story.now.wall_us = 1_770_000_000_000_000;
    story
}

pub(super) fn leaves(story: &mut Story, asked: u64) {
    let unblock = Request { gateway: G, token: Token(asked), after: None, body: Body::Unblock };
    story.shard.handle(story.now, unblock);
}

/// The tokens that were told, in the order of the answers.
fn tokens(story: &mut Story) -> Vec<i64> {
    let token = |(_, reply)| match reply {
        Reply::Int(token) if token > 1 => Some(token),
        _ => None,
    };
    told(story).into_iter().filter_map(token).collect()
}

#[test]
fn a_holder_hears_of_whoever_waits_and_of_its_loss_and_nothing_is_logged_for_it() {
    let mut story = Story::new();
    story.ask(acquire("owner ann"));
    story.sync();
    let (_, ann) = granted(&mut story);
    let listens = story.ask(wanted(ann, 0));
    assert!(story.end_turn().is_none() && told(&mut story).is_empty());
    let first = story.ask(acquire("owner ben"));
    assert_eq!(told(&mut story), [(listens, Reply::Int(1))]);
    story.ask(acquire("owner cem"));
    let again = story.ask(wanted(ann, 0));
    assert_eq!(told(&mut story), [(again, Reply::Int(2))], "at once");
    assert!(story.end_turn().is_none(), "nothing of it is in the log");
    story.ask(call(&format!("lock.release k {ann}")));
    story.sync();
    let answers = told(&mut story);
    let (to, Reply::Int(ben)) = answers[1] else { panic!("{answers:?}") };
    assert_eq!(to, first);
    let late = story.ask(wanted(ann, 0));
    assert_eq!(told(&mut story), [(late, Reply::Int(0))], "it is not held with this token");
    let next = story.ask(wanted(ben, 0));
    assert_eq!(told(&mut story), [(next, Reply::Int(1))], "cem waits");
}

#[test]
fn who_listens_is_told_when_the_lock_is_gone_waits_as_long_as_it_said_and_may_leave() {
    let mut story = Story::new();
    story.ask(acquire(""));
    story.sync();
    let (_, token) = granted(&mut story);
    let short = story.ask(wanted(token, 300));
    let long = story.ask(wanted(token, 0));
    let gone = story.ask(wanted(token, 0));
    leaves(&mut story, gone);
    story.pass(301_000);
    assert_eq!(told(&mut story), [(short, Reply::Nil)]);
    story.ask(call(&format!("lock.renew k {token}")));
    story.sync();
    assert_eq!(told(&mut story).len(), 1, "the renewal alone");
    story.ask(call("del k"));
    story.sync();
    assert!(told(&mut story).contains(&(long, Reply::Int(0))));
    assert!(story.shard.desk.waits.turns.is_empty());
    story.ask(call("set k x"));
    story.sync();
    told(&mut story);
    story.ask(wanted(token, 0));
    assert!(matches!(&told(&mut story)[..], [(_, Reply::Error(_))]), "it is no lock any more");
}

#[test]
fn who_listens_is_in_nobodys_way_and_goes_to_the_next_leader() {
    let mut story = Story::new();
    story.ask(acquire("shared"));
    story.sync();
    let (_, token) = granted(&mut story);
    let listens = story.ask(wanted(token, 900));
    story.ask(acquire("shared"));
    assert_eq!(records(&mut story), 1, "it shares");
    granted(&mut story);
    let key = Blob::from("k");
    story.ask(Body::Waiting { key });
    let answers = story.answers();
    assert!(matches!(&answers[..], [(_, Answer::Reply(Reply::Array(rows)))] if rows.is_empty()));
    story.shard.step_down();
    let answers = story.answers();
    let [(to, Answer::NotTaken(body))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(*to, listens);
    assert!(matches!(**body, Body::Await { timeout_ms: 900, .. }));
}

#[test]
fn blocks_of_tokens_do_not_meet_others_in_the_same_moment() {
    let mut story = in_2026();
    // In one turn, of a lock that is gone after every grant: all is tried on a state that knows of none.
    for words in ["", "tokens 4000", "tokens 70"] {
        story.ask(call("lock.try k"));
        story.ask(call("del k"));
        story.ask(acquire(words));
        story.ask(call("lock.try other"));
        story.ask(call("del k"));
        story.ask(call("lock.try k"));
        story.ask(call("del k"));
        story.sync();
    }
    let given: Vec<i64> = tokens(&mut story);
    assert_eq!(given.len(), 9 + 1, "{given:?}");
    let mut given = given.into_iter();
    let mut last = 0;
    for size in [1, 4000, 70] {
        let [before, block] = [given.next().unwrap(), given.next().unwrap()];
        let after = given.next().unwrap();
        assert!(last < before && before < block && block + size - 1 < after, "{size}");
        last = after;
        given.by_ref().take(usize::from(size == 1)).for_each(drop);
    }
    // A clock that goes back, by more than any block.
    story.now.wall_us -= 10_000_000;
    for size in [100, 1, 4096, 100] {
        story.ask(acquire(&format!("tokens {size}")));
        story.sync();
        let (_, block) = granted(&mut story);
        assert!(last < block);
        last = block + size - 1;
        story.ask(call(&format!("lock.release k {block}")));
        story.sync();
        told(&mut story);
    }
}

#[test]
fn a_release_and_the_next_grant_of_a_block_are_one_entry() {
    let mut story = in_2026();
    story.ask(acquire("tokens 100"));
    story.sync();
    let (_, first) = granted(&mut story);
    story.ask(acquire("tokens 100"));
    story.ask(call(&format!("lock.release k {first}")));
    assert_eq!(records(&mut story), 2);
    assert!(tokens(&mut story)[0] >= first + 100);
}
