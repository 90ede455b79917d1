//! Scenarios of locks whose next holder is known before the release.

use crate::kinds::lock::tests::*;

impl Story {
    /// Tokens of the successors.
    fn successors(&self) -> Vec<u64> {
        match self.slot.as_ref().map(|record| &record.value) {
            Some(crate::record::Value::Lock(lock)) => {
                lock.successors.iter().map(|successor| successor.token).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn holders(story: &mut Story) -> Vec<i64> {
    let Reply::Array(rows) = story.call("lock.holders k") else { panic!() };
    let token = |row: &Reply| match row {
        Reply::Array(row) => match row[0] {
            Reply::Int(token) => token,
            ref other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    rows.iter().map(token).collect()
}

/// Makes Ann the holder and Ben her successor; returns their tokens.
fn ben_is_next(story: &mut Story) -> (i64, u64) {
    let ann = story.token("lock.claim k a lease 1000 owner ann");
    assert_eq!(story.call("lock.name k b lease 500 owner ben"), Reply::Int(1));
    let ben = story.successors()[0];
    assert!(ben > ann.unsigned_abs());
    (ann, ben)
}

#[test]
fn the_successor_holds_after_the_release_and_gets_its_token_on_retry() {
    let mut story = Story::begin();
    let (ann, ben) = ben_is_next(&mut story);
    assert_eq!(story.call("lock.claim k b lease 500"), Reply::Nil, "it is not released");
    assert_eq!(holders(&mut story), [ann], "the token is not shown before");
    assert_eq!(story.call(&format!("lock.release k {ann}")), Reply::Int(1));
    assert_eq!(story.call("lock.try k"), Reply::Nil, "Ben is the holder and has not retried yet");
    assert_eq!(story.token("lock.claim k b lease 500").unsigned_abs(), ben);
    assert_eq!(story.after(499).call("lock.try k"), Reply::Nil, "the lease began with the retry");
    assert_eq!(story.call(&format!("lock.release k {ben}")), Reply::Int(1));
    assert_eq!(story.slot, None);
    assert!(story.token("lock.try k").unsigned_abs() > ben);
}

#[test]
fn the_successor_holds_when_the_lease_ends_for_a_lease_of_its_own() {
    let mut story = Story::begin();
    let (ann, ben) = ben_is_next(&mut story);
    let expiry = story.slot.as_ref().and_then(|record| record.expire_at_ms());
    assert_eq!(expiry, Some(story.now_ms + 1500), "the lock is there until both are over");
    assert_eq!(story.after(1000).call("lock.try k"), Reply::Nil);
    assert_eq!(story.call(&format!("lock.renew k {ann}")), Reply::Int(0));
    assert_eq!(story.after(499).call("lock.try k"), Reply::Nil);
    assert_eq!(story.token("lock.claim k b lease 500").unsigned_abs(), ben);
    let cem = story.after(500).token("lock.try k");
    assert!(cem.unsigned_abs() > ben);
    assert_eq!(story.call("lock.claim k b lease 500"), Reply::Nil, "its time is over");
}

#[test]
fn the_successors_token_proves_the_release() {
    let mut story = Story::begin();
    let (ann, ben) = ben_is_next(&mut story);
    assert_eq!(story.call(&format!("lock.renew k {ben} lease 2000")), Reply::Int(1));
    assert_eq!(holders(&mut story), [ben as i64], "it removes the holder before it");
    assert_eq!(story.call(&format!("lock.release k {ann}")), Reply::Int(0));
    assert_eq!(story.after(1999).call("lock.try k"), Reply::Nil);
    assert_eq!(story.call(&format!("lock.release k {ben}")), Reply::Int(1));
    let (_, ben) = ben_is_next(&mut story);
    assert_eq!(story.call(&format!("lock.release k {ben}")), Reply::Int(1));
    assert_eq!(story.slot, None, "both are out");
}

#[test]
fn several_successors_follow_and_a_later_token_proves_all_releases() {
    let mut story = Story::begin();
    let (ann, ben) = ben_is_next(&mut story);
    for ticket in ["c", "d", "e"] {
        assert_eq!(story.call(&format!("lock.name k {ticket} lease 100")), Reply::Int(1));
    }
    let named = story.successors();
    assert!(named.windows(2).all(|two| two[0] < two[1]) && named[0] == ben);
    assert_eq!(story.call(&format!("lock.renew k {}", named[1])), Reply::Int(1));
    assert_eq!(story.successors(), named[2..]);
    for late in [ann as u64, ben] {
        assert_eq!(story.call(&format!("lock.release k {late}")), Reply::Int(0));
    }
    assert_eq!(story.call("lock.unname k d"), Reply::Int(1));
    assert_eq!(story.call(&format!("lock.release k {}", named[1])), Reply::Int(1));
    assert_eq!(holders(&mut story), [named[3] as i64], "d has left");
    // Leases end one after the other without any operation.
    for ticket in ["f", "g"] {
        assert_eq!(story.call(&format!("lock.name k {ticket} lease 100")), Reply::Int(1));
    }
    let named = story.successors();
    assert_eq!(holders(story.after(250)), [named[1] as i64]);
    assert_eq!(story.call(&format!("lock.renew k {}", named[0])), Reply::Int(0));
    let full = format!("lock.release k {}", named[1]);
    for number in 0..SUCCESSORS_MAX {
        assert_eq!(story.call(&format!("lock.name k x{number}")), Reply::Int(1));
    }
    assert_eq!(story.call("lock.name k y"), Reply::Int(0));
    assert_eq!(story.call(&full), Reply::Int(1));
    assert_eq!(story.call("lock.name k y"), Reply::Int(1));
}

#[test]
fn a_successor_that_leaves_before_its_turn_is_removed() {
    let mut story = Story::begin();
    let (ann, _) = ben_is_next(&mut story);
    assert_eq!(story.call("lock.unname k c"), Reply::Int(0));
    assert_eq!(story.call("lock.unname k b"), Reply::Int(1));
    assert_eq!(story.call("lock.name k c lease 500"), Reply::Int(1));
    assert_eq!(story.call(&format!("lock.release k {ann}")), Reply::Int(1));
    assert_eq!(story.call("lock.unname k c"), Reply::Int(1), "the release was faster");
    assert_eq!(story.slot, None);
}

#[test]
fn a_stale_successor_is_forgotten_unless_its_token_was_shown() {
    let mut story = Story::begin();
    let (_, ben) = ben_is_next(&mut story);
    assert_eq!(story.call("lock.name k c lease 500"), Reply::Int(1));
    assert_eq!(story.after(1100).call("lock.forget k b"), Reply::Int(1));
    let cem = holders(&mut story)[0].unsigned_abs();
    assert!(cem > ben);
    assert_eq!(story.call(&format!("lock.renew k {cem}")), Reply::Int(1));
    assert_eq!(story.call("lock.forget k c"), Reply::Int(0), "Cem has the lock");
    assert_eq!(holders(&mut story), [cem as i64]);
}

#[test]
fn only_exclusive_requests_with_next_are_named_behind_their_kind() {
    let mut story = Story::begin();
    assert_eq!(story.call("lock.name k b"), Reply::Int(0), "the lock has no holder");
    assert_eq!(story.slot, None);
    for held in ["lock.try k", "lock.try k shared", "election.campaign k here"] {
        let token = story.token(held);
        assert_eq!(story.call("lock.name k b"), Reply::Int(0), "{held}");
        assert_eq!(story.call(&format!("lock.release k {token}")), Reply::Int(1));
    }
    let ann = story.token("lock.claim k a");
    assert_eq!(story.call("lock.name k a"), Reply::Int(0), "it is the holder");
    assert_eq!(story.call("lock.name k b"), Reply::Int(1));
    assert_eq!(story.call("lock.name k b"), Reply::Int(0), "it is named");
    for asks in ["lock.try k shared", "lock.pass k", "lock.claim k c"] {
        assert_eq!(story.call(asks), Reply::Nil, "{asks}");
    }
    let held = story.call(&format!("lock.held k {ann}"));
    assert!(matches!(held, Reply::Error(_)), "it may be passed on already: {held:?}");
}

#[test]
fn successors_are_saved_with_the_lock() {
    let mut story = Story::begin();
    ben_is_next(&mut story);
    let (_, op) = decode(&ArgBuf::of(["lock.acquire", "k", "next"]).args()).unwrap();
    assert_eq!(op.ticket(), Some(&Blob::default()), "a client has none");
    assert_eq!(
        saved("1 5 100 50 0 ann 2 5 a 3 6 50 ben b")
            .map(|r| r.value.is_named(&Blob::from("b"), &Reply::Int(6))),
        Ok(true)
    );
    for wrong in [
        "3 6 50 ben b",
        "1 5 100 50 0 ann 3 5 50 ben b",
        "1 5 100 50 0 ann 2 4 a",
        "1 5 100 50 0 ann 2 5 a 2 5 a",
        "1 5 100 50 0 ann 3 6 50 ben b 3 6 50 cem c",
        "1 5 100 50 0 ann 4 5 a",
    ] {
        let parts = if wrong.starts_with('3') { format!("0 {wrong}") } else { wrong.to_owned() };
        assert!(saved(&parts).is_err(), "{wrong}");
    }
}
