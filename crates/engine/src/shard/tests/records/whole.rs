//! Stories about transactions that are about all keys.

use super::*;
use adt::Whole;
use adt::command::database::moved_to;
use adt::key::KeyOp;
use adt::kinds::set;

fn whole(whole: Whole) -> Op {
    Op::Key(KeyOp::Whole(Box::new(whole)))
}

fn remove(member: &str) -> Op {
    Op::Set(set::Op::Remove([Blob::from(member)].into_iter().collect()))
}

/// A shard with two keys, and a transaction prepared that counts them, removes all and makes one.
fn with_a_flush() -> Story {
    let mut story = Story::new();
    story.ask(one("a", add("x")));
    story.ask(one("b", add("x")));
    story.sync();
    let ops = [
        ("k", whole(Whole::Count(0))),
        ("k", whole(Whole::Flush(None))),
        ("c", add("x")),
        ("k", whole(Whole::Count(0))),
    ];
    story.ask(prepare(1, &ops));
    story.sync();
    assert_eq!(story.seen(), ["1 done 1", "2 done 1", "3 prepared"]);
    story
}

#[test]
fn all_that_comes_meanwhile_waits_for_it() {
    let mut story = with_a_flush();
    story.ask(read("a", card()));
    story.ask(one("b", remove("x")));
    story.ask(prepare(2, &[("c", add("y"))]));
    story.ask(lock(3, "a", card()));
    story.ask(Body::Count { database: 0 });
    story.sync();
    assert!(story.seen().is_empty(), "nobody gets between");
    let ts = story.shard.clock().0 + 5;
    story.ask(decide(1, Some(ts)));
    story.sync();
    let seen = story.seen();
    assert!(seen.contains(&"9 done 2,Ok,1,1".to_owned()), "{seen:?}");
    assert!(seen.contains(&"4 = 0".to_owned()), "{seen:?}");
    assert!(seen.contains(&"5 done 0".to_owned()), "{seen:?}");
    assert!(seen.contains(&"6 prepared".to_owned()), "{seen:?}");
    assert!(seen.contains(&"7 locked 0".to_owned()), "{seen:?}");
    assert!(seen.contains(&"8 = 1".to_owned()), "{seen:?}");
    assert_eq!(story.shard.state().records().len(), 1);
}

#[test]
fn it_is_refused_while_anything_else_is_open() {
    let refused = format!("3 refused {:?}", Refusal::Frozen);
    let prepared = prepare(1, &[("a", add("y"))]);
    let cases = [(prepared, vec![]), (lock(1, "a", card()), vec!["0 wanted 1".to_owned()])];
    for (first, told) in cases {
        let mut story = Story::new();
        story.ask(one("a", add("x")));
        story.sync();
        story.ask(first);
        story.sync();
        story.seen();
        story.ask(prepare(2, &[("k", whole(Whole::Flush(None)))]));
        story.sync();
        assert_eq!(story.seen(), [told, vec![refused.clone()]].concat());
        assert_eq!(story.shard.state().records().len(), 1);
    }
}

#[test]
fn the_younger_in_its_way_give_way_and_gateways_hear_of_all() {
    let mut story = Story::new();
    story.ask(lock(1, "a", card()));
    story.ask(lock(3, "a", card()));
    story.seen();
    story.ask(prepare(2, &[("k", whole(Whole::Flush(None)))]));
    let refused = format!("3 refused {:?}", Refusal::Frozen);
    assert_eq!(story.seen(), ["0 wanted 1", "0 wound 3", "0 wanted 3", &refused]);
}

#[test]
fn two_transactions_about_all_keys_do_not_wait_for_each_other() {
    let mut story = with_a_flush();
    story.ask(prepare(2, &[("k", whole(Whole::Count(0)))]));
    assert_eq!(story.seen(), [format!("4 refused {:?}", Refusal::Frozen)]);
    story.ask(decide(1, None));
    story.ask(prepare(3, &[("k", whole(Whole::Count(0)))]));
    story.sync();
    assert_eq!(story.seen(), ["6 prepared"]);
    assert_eq!(story.shard.state().records().len(), 2, "the first was given up");
}

#[test]
fn whoever_waits_is_sent_away_with_the_lead_and_the_next_one_goes_on() {
    let mut story = with_a_flush();
    story.ask(one("b", remove("x")));
    story.shard.step_down();
    let seen = story.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    story.shard.lead(story.now, 9);
    story.ask(read("a", card()));
    assert!(story.seen().is_empty(), "the next leader keeps the transaction");
    let ts = story.shard.clock().0 + 5;
    story.ask(decide(1, Some(ts)));
    story.sync();
    let seen = story.seen();
    assert!(seen.contains(&"5 = 0".to_owned()), "{seen:?}");
}

#[test]
fn a_snapshot_has_what_was_there_before_everything_is_removed() {
    let mut story = with_a_flush();
    story.shard.begin_snapshot(9, 1, None);
    let ts = story.shard.clock().0 + 5;
    story.ask(decide(1, Some(ts)));
    story.sync();
    let mut records = 0;
    loop {
        let parts = story.shard.snapshot_parts(3);
        if parts.is_empty() {
            break;
        }
        records += parts.iter().filter(|p| matches!(p, SnapshotPart::Record(..))).count();
    }
    assert_eq!(records, 2);
}

/// A shard with so many keys in database 0 and in database 5.
fn with_databases(first: usize, fifth: usize) -> Story {
    let mut story = Story::new();
    let numbers = (0..first).map(|n| (0, n)).chain((0..fifth).map(|n| (5, n)));
    for (database, number) in numbers {
        let key = moved_to(database, number.to_string().as_bytes());
        story.ask(Body::Apply(Apply {
            ops: [(key, add("x"))].into_iter().collect(),
            ..Apply::default()
        }));
    }
    story.sync();
    story.seen();
    story
}

#[test]
fn a_database_is_flushed_whether_it_has_few_of_the_keys_or_most() {
    for (first, fifth) in [(1, 40), (40, 1), (3, 3), (0, 4), (4, 0), (0, 0)] {
        for database in [None, Some(0), Some(5), Some(7)] {
            let mut story = with_databases(first, fifth);
            story.ask(Body::Flush { database });
            story.sync();
            let left =
                |of: u8, keys: usize| if database.is_none_or(|d| d == of) { 0 } else { keys };
            let (first, fifth) = (left(0, first), left(5, fifth));
            let records = story.shard.state().records();
            let counts = [records.len(), records.visible_in(0), records.visible_in(5)];
            assert_eq!(counts, [first + fifth, first, fifth], "{database:?}");
            let named = (fifth > 0).then_some((5, fifth as u64, 0));
            assert_eq!(records.databases().collect::<Vec<_>>(), Vec::from_iter(named));
            let names = |of| match records.names(of, b"*", 0) {
                Reply::Array(names) => names.len(),
                other => panic!("{other:?}"),
            };
            assert_eq!((names(0), names(5), names(7)), (first, fifth, 0));
        }
    }
}
