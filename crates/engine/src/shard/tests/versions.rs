//! Stories about read-only transactions, which read earlier versions of records.

use super::*;
use crate::limits::{VERSION_US_MAX, VERSIONED_US};

/// Reads of a transaction that has read something as of `as_of`.
fn reads(keys: &[&str], as_of: u64) -> Body {
    let ops = keys.iter().map(|key| (Blob::from(*key), card())).collect();
    let as_of = Some(Timestamp(as_of));
    Body::Snapshot { ops, at: Timestamp::ZERO, fenced: false, dated: true, as_of }
}

/// The answer to a read: the number of members, and from when to when there were so many.
fn answered(story: &mut Story) -> (i64, u64, u64) {
    match story.answers().as_slice() {
        [(_, Answer::Snapshot { replies, since, until, .. })] => match replies.as_slice() {
            [Reply::Int(n)] => (*n, since.0, until.0),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Reads as of a timestamp.
fn seen_at(story: &mut Story, as_of: u64) -> (i64, u64, u64) {
    story.ask(reads(&["s"], as_of));
    answered(story)
}

/// Writes, and returns the timestamp.
fn write(story: &mut Story, op: Op) -> u64 {
    story.ask(one("s", op));
    story.sync();
    story.answers();
    story.shard.desk.core.state.get(b"s").map_or(0, |record| record.modified.0)
}

/// A set whose versions are kept, with the timestamps of the reads after each of three writes.
fn with_versions() -> (Story, [u64; 3]) {
    let mut story = Story::new();
    write(&mut story, add("1"));
    let first = seen_at(&mut story, u64::MAX).2;
    let later = ["2", "3"].map(|member| {
        write(&mut story, add(member));
        seen_at(&mut story, u64::MAX).2
    });
    (story, [first, later[0], later[1]])
}

#[test]
fn a_later_read_of_a_transaction_shows_a_record_as_it_was() {
    let (mut story, times) = with_versions();
    let mut last = 0;
    for (at, count) in times.into_iter().zip(1..) {
        let (seen, since, until) = seen_at(&mut story, at);
        assert_eq!(seen, count);
        assert!(last < since && since <= at && at <= until, "{last} {since} {at} {until}");
        last = until;
    }
}

#[test]
fn the_versions_end_where_the_next_write_begins() {
    let (mut story, [_, second, third]) = with_versions();
    let written = seen_at(&mut story, third).1;
    assert_eq!(seen_at(&mut story, written).0, 3);
    assert_eq!(seen_at(&mut story, written - 1), (2, seen_at(&mut story, second).1, written - 1));
}

#[test]
fn what_is_not_kept_is_read_as_it_is_now() {
    let (mut story, [first, ..]) = with_versions();
    assert_eq!(seen_at(&mut story, 5).0, 3, "that was before the first version");
    // One of two is not kept: the values would not fit together.
    story.ask(one("t", add("x")));
    story.sync();
    story.answers();
    story.ask(reads(&["s", "t"], first));
    let answers = story.answers();
    let [(_, Answer::Snapshot { replies, .. })] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(replies[..], [Reply::Int(3), Reply::Int(1)]);
}

#[test]
fn a_late_operation_is_in_the_versions_that_should_have_it() {
    let mut story = Story::new();
    write(&mut story, add("1"));
    let before = seen_at(&mut story, u64::MAX).2;
    for (id, member) in [(1, "late"), (2, "early")] {
        story.ask(prepare(id, &[("s", add(member))]));
    }
    story.sync();
    let clock = story.shard.clock().0;
    story.ask(decide(2, Some(clock + 20)));
    story.sync();
    let last = clock + 30;
    story.ask(prepare(3, &[("s", add("last"))]));
    story.sync();
    story.ask(decide(3, Some(story.shard.clock().0 + 10)));
    story.sync();
    story.answers();
    story.ask(reads(&["s"], last));
    assert!(story.seen().is_empty(), "one of them may still come before that");
    story.ask(decide(1, Some(clock + 10)));
    story.sync();
    story.answers();
    let counts = [before, clock + 9, clock + 10, clock + 19, clock + 20];
    assert_eq!(counts.map(|at| seen_at(&mut story, at).0), [1, 1, 2, 2, 3]);
    assert_eq!(seen_at(&mut story, u64::MAX).0, 4);
}

#[test]
fn an_entry_that_may_come_before_the_instant_is_waited_for() {
    let (mut story, _) = with_versions();
    story.ask(one("s", add("4")));
    let entry = story.end_turn().unwrap();
    let ts = entry.ts.0;
    story.shard.keep(entry, 0);
    assert_eq!(seen_at(&mut story, ts - 1).0, 3);
    assert!(seen_at(&mut story, ts).2 < ts, "the value is not reported for that instant");
}

#[test]
fn a_removed_record_is_absent_from_then_on() {
    let (mut story, [_, _, third]) = with_versions();
    write(&mut story, Op::Key(KeyOp::Del));
    assert_eq!(seen_at(&mut story, third).0, 3);
    let (count, removed, _) = seen_at(&mut story, u64::MAX);
    assert_eq!((count, seen_at(&mut story, removed - 1).0), (0, 3));
    // Removals of other records do not make it younger.
    story.ask(one("t", add("x")));
    story.ask(one("t", Op::Key(KeyOp::Del)));
    story.sync();
    story.answers();
    assert_eq!(seen_at(&mut story, u64::MAX).1, removed);
    write(&mut story, add("again"));
    assert_eq!(seen_at(&mut story, removed).0, 0);
}

#[test]
fn a_record_that_expires_has_no_versions() {
    let mut story = Story::new();
    write(&mut story, add("1"));
    let expire = waiting::turns::operation("pexpireat s 1000900").1;
    story.ask(one("s", expire));
    story.sync();
    story.answers();
    let first = seen_at(&mut story, u64::MAX).2;
    write(&mut story, add("2"));
    assert_eq!(seen_at(&mut story, first).0, 2);
}

#[test]
fn records_that_no_such_transaction_reads_have_no_versions() {
    let mut story = Story::new();
    write(&mut story, add("1"));
    let first = story.shard.clock().0;
    write(&mut story, add("2"));
    assert_eq!(seen_at(&mut story, first).0, 2);
    assert!(!Story::new().shard.desk.core.ahead.keeps_versions());
}

#[test]
fn versions_are_kept_for_a_short_while_after_such_a_read() {
    let (mut story, [first, _, third]) = with_versions();
    story.now.wall_us += VERSION_US_MAX + 1_000;
    write(&mut story, add("4"));
    assert_eq!(seen_at(&mut story, first).0, 4, "that was more than a second ago");
    assert_eq!(seen_at(&mut story, third).0, 3);
    story.now.wall_us += VERSIONED_US + 1_000;
    write(&mut story, add("5"));
    assert!(!story.shard.desk.core.ahead.keeps_versions());
}

#[test]
fn versions_are_forgotten_when_all_is_removed_and_by_the_next_lead() {
    let (mut story, [first, ..]) = with_versions();
    story.ask(Body::Flush { database: None });
    story.sync();
    story.answers();
    assert_eq!(seen_at(&mut story, first).0, 0);
    let (mut story, [first, ..]) = with_versions();
    story.shard.step_down();
    story.shard.lead(story.now, 2);
    assert_eq!(seen_at(&mut story, first).0, 3);
}
