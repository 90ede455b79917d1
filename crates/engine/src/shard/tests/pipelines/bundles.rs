//! Stories about parts of bundles, and about the shards to which bundles do not go.

use super::*;
use crate::ids::BundlePart;
use crate::pipeline::bundles::Disturbance;

fn part(story: &mut Story, body: Body, part: Option<BundlePart>) -> u64 {
    let request = story.request(body);
    story.shard.take_part(story.now, request, part);
    story.token
}

fn first_of_two() -> Option<BundlePart> {
    Some(BundlePart { bundle: 1, parts: 2, wave: 0 })
}

fn reads(key: &str, dated: bool) -> Body {
    let ops = vec![(Blob::from(key), card())];
    Body::Snapshot { ops, at: Timestamp::ZERO, fenced: false, dated, as_of: None }
}

fn is_calm(story: &Story) -> [bool; 2] {
    [Disturbance::Locks, Disturbance::Streams].map(|reason| story.shard.is_calm(reason))
}

#[test]
fn a_part_of_a_bundle_is_logged_even_if_it_changes_nothing() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    story.sync();
    story.seen();
    let asked = part(&mut story, one("s", add("a")), first_of_two());
    assert_eq!(story.end_turn(), None, "its wave may not be handed in");
    story.shard.tail_mut().permit_wave(0, Some(1));
    let entry = story.end_turn().expect("the part is in the log");
    assert_eq!(
        story.shard.tail_mut().take_bundles(),
        first_of_two().into_iter().collect::<Vec<_>>()
    );
    story.shard.keep(entry, 0);
    assert_eq!(story.seen(), Vec::<String>::new(), "the other parts may not be durable");
    story.shard.committed(story.now);
    assert_eq!(story.seen(), [format!("{asked} done 0")]);
}

#[test]
fn a_dated_read_waits_for_parts_of_bundles_and_another_read_does_not() {
    let mut story = Story::new();
    part(&mut story, one("s", add("a")), first_of_two());
    let dated = story.ask(reads("s", true));
    let other = story.ask(reads("s", false));
    assert_eq!(story.seen(), [format!("{other} done 0")]);
    story.shard.tail_mut().permit_wave(0, Some(1));
    story.sync();
    let seen = story.seen();
    assert!(seen[1].starts_with(&dated.to_string()), "{seen:?}");
}

#[test]
fn a_shard_is_disturbed_by_locks_until_the_last_transaction_has_ended() {
    let mut story = Story::new();
    assert_eq!(is_calm(&story), [true; 2]);
    part(&mut story, one("s", add("a")), first_of_two());
    assert_eq!(is_calm(&story), [true; 2], "operations in the log hold nothing up");
    story.shard.tail_mut().permit_wave(0, Some(1));
    story.sync();
    story.ask(lock(1, "s", card()));
    story.ask(prepare(2, &[("t", add("b"))]));
    story.sync();
    assert_eq!(is_calm(&story), [false; 2]);
    story.ask(Body::Release { txn: txn(1), after: Timestamp::ZERO });
    assert_eq!(is_calm(&story), [false; 2]);
    story.ask(decide(2, Some(2_000_000_000)));
    story.sync();
    assert_eq!(is_calm(&story), [true; 2]);
}

#[test]
fn a_shard_is_disturbed_while_a_dated_read_waits_for_the_log() {
    let mut story = Story::new();
    part(&mut story, one("s", add("a")), first_of_two());
    story.ask(reads("s", true));
    assert_eq!(is_calm(&story), [false, true], "a later bundle would come before it or behind");
    story.shard.tail_mut().permit_wave(0, Some(1));
    story.sync();
    assert_eq!(is_calm(&story), [true; 2]);
}

#[test]
fn a_read_of_a_bundle_does_not_wait_for_the_removal_of_an_expired_key() {
    let mut story = Story::new();
    story.ask(one("s", add("a")));
    let (at, only) = (adt::key::When::In(1), adt::key::ExpireIf::Always);
    story.ask(one("s", Op::Key(adt::key::KeyOp::Expire { at, only })));
    story.sync();
    story.seen();
    story.now.wall_us += 5_000;
    let asked = part(&mut story, reads("s", false), None);
    assert_eq!(story.seen(), [format!("{asked} done 0")]);
}

#[test]
fn a_read_of_a_bundle_does_not_see_an_expired_field() {
    let mut story = Story::new();
    for line in ["hset h a 1 b 1", "hpexpire h 1 fields 1 a"] {
        story.ask(one("h", waiting::turns::operation(line).1));
    }
    story.sync();
    story.seen();
    story.now.wall_us += 5_000;
    let ops = ["hlen h", "hexists h a", "hexists h b"].map(waiting::turns::operation).to_vec();
    let at = Timestamp::ZERO;
    let body = Body::Snapshot { ops, at, fenced: false, dated: false, as_of: None };
    let asked = part(&mut story, body, None);
    assert_eq!(story.seen(), [format!("{asked} done 1,0,1")]);
}
