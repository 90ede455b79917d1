//! Scenarios of locks, and the laws.

mod successors;

use crate::kinds::lock::*;
use crate::record::{apply, decode};
use crate::{Op as AnyOp, Record, Timestamp};

/// A lock and a clock.
#[derive(Default)]
struct Story {
    slot: Option<Record>,
    now_ms: u64,
    /// Counts operations and reserved numbers, so that no two timestamps are equal.
    commits: u64,
}

const IN_2026_MS: u64 = 1_770_000_000_000;

impl Story {
    fn begin() -> Self {
        Self { now_ms: IN_2026_MS, ..Self::default() }
    }

    fn after(&mut self, ms: u64) -> &mut Self {
        self.now_ms += ms;
        self
    }

    fn call(&mut self, words: &str) -> Reply {
        let (_, op) = decode(&ArgBuf::of(words.split(' ')).args()).unwrap();
        self.commits += u64::from(op.reserves().max(1));
        let ts = Timestamp::from_micros(self.now_ms * 1000 + self.commits);
        apply(&mut self.slot, &op, &Ctx { now_ms: self.now_ms, ts, seed: 0 })
    }

    fn token(&mut self, words: &str) -> i64 {
        let Reply::Int(token) = self.call(words) else { panic!("{words} was not granted") };
        token
    }
}

#[test]
fn laws_hold() {
    let grant = |wait, share| {
        let owner = Blob::from(if wait { "ann" } else { "" });
        let tokens = if wait { 3 } else { 1 };
        let (lease_ms, value, ticket) = (1500, None, None);
        let detect = wait;
        Grant { wait, lease_ms, share, owner, detect, value, tokens, ticket }
    };
    let named = |ticket: &str| Grant {
        tokens: 1,
        ticket: Some(Blob::from(ticket)),
        ..grant(true, Share::Alone)
    };
    let grant = |wait, share| Op::Acquire(Box::new(grant(wait, share)));
    let campaign = Op::Acquire(Box::new(Grant {
        wait: true,
        lease_ms: 1500,
        share: Share::Alone,
        owner: Blob::from("ann"),
        detect: false,
        value: Some(Blob::from("here")),
        tokens: 1,
        ticket: None,
    }));
    crate::laws::check_laws::<Value>(
        &[
            grant(true, Share::Alone),
            grant(false, Share::Shared),
            grant(true, Share::Limit(2)),
            Op::Pass(Box::new(Passage {
                share: Share::Alone,
                owner: Blob::from("ann"),
                detect: true,
            })),
            Op::Pass(Box::new(Passage {
                share: Share::Shared,
                owner: Blob::from(""),
                detect: false,
            })),
            Op::Acquire(Box::new(named("a"))),
            Op::Name(Box::new(named("b"))),
            Op::Unname(Blob::from("b")),
            Op::Forget(Blob::from("b")),
            Op::Release(1),
            Op::Renew(1, None),
            Op::Renew(1, Some(10)),
            Op::Held(1),
            Op::Wanted(1),
            Op::Holders,
            campaign,
            Op::Proclaim(1, Blob::from("there")),
            Op::Leader,
            Op::Observe(0),
        ],
        2,
    );
}

#[test]
fn a_lock_is_held_until_its_release_and_every_token_is_larger() {
    let mut story = Story::begin();
    let first = story.token("lock.try k owner ann");
    assert_eq!(story.call("lock.try k owner ben"), Reply::Nil);
    assert_eq!(story.call(&format!("lock.held k {first}")), Reply::Int(30_000));
    assert_eq!(story.call(&format!("lock.release k {}", first + 1)), Reply::Int(0));
    assert_eq!(story.call(&format!("lock.release k {first}")), Reply::Int(1));
    assert_eq!(story.slot, None, "a lock without holders takes no memory");
    assert_eq!(story.call(&format!("lock.release k {first}")), Reply::Int(0));
    let second = story.token("lock.try k");
    assert!(second > first, "the key was gone in between");
}

#[test]
fn a_lease_ends_by_itself_and_a_late_request_changes_nothing() {
    let mut story = Story::begin();
    let ann = story.token("lock.try k lease 1000");
    assert_eq!(story.after(999).call("lock.try k"), Reply::Nil);
    assert_eq!(story.call(&format!("lock.renew k {ann}")), Reply::Int(1));
    assert_eq!(story.after(999).call(&format!("lock.held k {ann}")), Reply::Int(1));
    let ben = story.after(1).token("lock.try k lease 500");
    assert!(ben > ann);
    for late in ["renew", "release", "held"] {
        assert_eq!(story.call(&format!("lock.{late} k {ann}")), Reply::Int(0), "{late}");
    }
    assert_eq!(story.call(&format!("lock.held k {ben}")), Reply::Int(500));
    let expiry = story.slot.as_ref().and_then(|record| record.expire_at_ms());
    assert_eq!(expiry, Some(story.now_ms + 500), "the key ceases to exist with the last lease");
}

#[test]
fn sharers_hold_together_and_a_limit_is_obeyed() {
    let mut story = Story::begin();
    let first = story.token("lock.try k shared");
    let second = story.token("lock.try k shared owner ben lease 60000");
    assert_eq!(story.call("lock.try k"), Reply::Nil);
    assert_eq!(story.call("lock.try k limit 3"), Reply::Nil, "limits do not mix with sharing");
    let Reply::Array(holders) = story.call("lock.holders k") else { panic!() };
    let Reply::Array(row) = &holders[1] else { panic!() };
    let told = [Reply::bulk("ben"), Reply::bulk("shared"), Reply::Int(60_000)];
    assert_eq!((holders.len(), &row[1..]), (2, &told[..]));
    story.call(&format!("lock.release k {first}"));
    assert_eq!(story.call("lock.try k"), Reply::Nil);
    story.call(&format!("lock.release k {second}"));
    let alone = story.token("lock.try k");
    assert_eq!(story.call("lock.try k shared"), Reply::Nil);
    story.call(&format!("lock.release k {alone}"));
    story.token("lock.try k limit 2 lease 100");
    story.token("lock.try k limit 2");
    assert_eq!(story.call("lock.try k limit 2"), Reply::Nil);
    story.after(100).token("lock.try k limit 2");
}

#[test]
fn a_passage_is_let_in_like_a_grant_and_holds_nothing() {
    let mut story = Story::begin();
    let first = story.token("lock.pass k owner ann");
    assert_eq!(story.slot, None, "a lock without holders takes no memory");
    let held = story.token("lock.try k shared");
    let second = story.token("lock.pass k shared");
    assert!(first < held && held < second);
    assert_eq!(story.call("lock.pass k"), Reply::Nil);
    assert_eq!(story.call("lock.pass k limit 5"), Reply::Nil);
    let Reply::Array(holders) = story.call("lock.holders k") else { panic!() };
    assert_eq!(holders.len(), 1);
    assert!(story.after(30_000).token("lock.pass k") > second, "the lease has ended");
}

#[test]
fn a_block_of_tokens_lies_between_all_earlier_and_all_later_tokens() {
    let mut story = Story::begin();
    let before = story.token("lock.pass k");
    let first = story.token("lock.acquire k tokens 1000 owner ann");
    assert!(before < first && first - before < 2000);
    assert_eq!(story.call(&format!("lock.held k {}", first + 1)), Reply::Int(0), "by the first");
    assert_eq!(story.call(&format!("lock.wanted k {first}")), Reply::Nil);
    assert_eq!(story.call(&format!("lock.wanted k {}", first + 999)), Reply::Int(0));
    story.call(&format!("lock.release k {first}"));
    assert_eq!(story.slot, None, "nothing of the block is left");
    let section = story.token("lock.pass k");
    let second = story.token(&format!("lock.acquire k shared tokens {TOKENS_MAX}"));
    let third = story.token("lock.acquire k tokens 2 shared");
    assert!(first + 999 < section && section < second, "no time has passed");
    assert!(second + i64::from(TOKENS_MAX) <= third);
    let mut unset = Story::default();
    assert_eq!(unset.token("lock.acquire k tokens 2"), 1, "a clock that was never set");
}

#[test]
fn tokens_of_a_century_from_now_are_exact_as_floats() {
    let mut story = Story { now_ms: IN_2026_MS + 100 * 31_557_600_000, ..Story::default() };
    for words in ["lock.acquire k", "lock.acquire k tokens 4096", "election.campaign k here"] {
        story.slot = None;
        let token = story.token(words);
        assert_eq!((token as f64) as i64, token);
        assert_ne!((token as f64) as i64, (token as f64 + 1.0) as i64);
    }
}

#[test]
fn a_lock_lists_the_holders_that_block_a_request() {
    let mut story = Story::begin();
    let mut in_the_way = |held: &str, words: &str| {
        story.slot = None;
        story.token(&format!("lock.try k owner ann {held}"));
        story.token(&format!("lock.try other {held}"));
        let (_, op) = decode(&ArgBuf::of(words.split(' ')).args()).unwrap();
        let now_ms = story.now_ms;
        let those = |after| crate::in_the_way(story.slot.as_ref(), &op, now_ms + after);
        assert!(those(30_000).is_empty(), "the leases have ended");
        those(0) == [Blob::from("ann")]
    };
    assert!(in_the_way("shared", "lock.acquire k") && in_the_way("shared", "lock.pass k limit 2"));
    assert!(!in_the_way("shared", "lock.acquire k shared"));
    assert!(in_the_way("limit 2", "lock.acquire k shared"));
    assert!(!in_the_way("limit 2", "lock.acquire k limit 2"), "any release suffices");
}

#[test]
fn a_section_is_its_options_and_a_command() {
    let parse = |words: &str| {
        let words = ArgBuf::of(words.split(' '));
        section(&words.args()).map(|(awaiting, words)| (awaiting.timeout_ms, words))
    };
    assert_eq!(parse("lock.section k set x 1"), Ok((0, 2)));
    assert_eq!(parse("lock.section k timeout 9 owner set limit 2 set x 1"), Ok((9, 8)));
    assert_eq!(parse("lock.section k SHARED"), Ok((0, 3)));
    assert_eq!(parse("lock.section k DETECT owner ann set x 1"), Ok((0, 5)));
    for wrong in ["lease 5 get x", "shared limit 2 get x", "timeout x", "limit 0", "owner"] {
        assert!(parse(&format!("lock.section k {wrong}")).is_err(), "{wrong}");
    }
}

#[test]
fn invalid_words_are_refused() {
    let longest = "x".repeat(OWNER_BYTES_MAX);
    for words in [
        "lock.try k timeout 5".to_owned(),
        "lock.try k lease 0".to_owned(),
        format!("lock.try k lease {}", LEASE_MS_MAX + 1),
        "lock.try k limit 0".to_owned(),
        format!("lock.try k limit {}", HOLDERS_MAX + 1),
        "lock.try k shared limit 2".to_owned(),
        "lock.try k shared shared".to_owned(),
        "lock.acquire k timeout -1".to_owned(),
        "lock.acquire k owner".to_owned(),
        "lock.acquire k detect".to_owned(),
        "lock.acquire k owner ann detect detect".to_owned(),
        "lock.try k owner ann detect".to_owned(),
        format!("lock.acquire k owner {longest}x"),
        "lock.release k -1".to_owned(),
        "lock.renew k 1 lease".to_owned(),
        "lock.pass k timeout x".to_owned(),
        "lock.pass k set".to_owned(),
        "election.campaign k v shared".to_owned(),
        "election.campaign k v limit 2".to_owned(),
        "election.campaign k v lease 0".to_owned(),
        format!("election.campaign k {}", "x".repeat(LEADER_VALUE_BYTES_MAX + 1)),
        format!("election.proclaim k 1 {}", "x".repeat(LEADER_VALUE_BYTES_MAX + 1)),
        "election.proclaim k -1 v".to_owned(),
        "election.observe k after".to_owned(),
        "election.observe k after -1".to_owned(),
        "election.observe k 5".to_owned(),
        "election.observe k timeout -1".to_owned(),
        "lock.acquire k tokens 0".to_owned(),
        format!("lock.acquire k tokens {}", TOKENS_MAX + 1),
        "lock.try k tokens 2".to_owned(),
        "lock.pass k tokens 2".to_owned(),
        "lock.acquire k next next".to_owned(),
        "lock.acquire k next shared".to_owned(),
        "lock.acquire k next limit 2".to_owned(),
        "lock.acquire k next near".to_owned(),
        "lock.acquire k next tokens 2".to_owned(),
        "lock.try k next".to_owned(),
        "lock.claim k".to_owned(),
        format!("lock.claim k {}", "x".repeat(TICKET_BYTES_MAX + 1)),
        "lock.wanted k".to_owned(),
        "lock.wanted k 1 timeout".to_owned(),
        "lock.wanted k 1 timeout -1".to_owned(),
    ] {
        assert!(decode(&ArgBuf::of(words.split(' ')).args()).is_err(), "{words}");
    }
    let words = format!("lock.acquire k timeout 9 lease {LEASE_MS_MAX} owner {longest} limit 2");
    let (_, op) = decode(&ArgBuf::of(words.split(' ')).args()).unwrap();
    assert!(op.waits() && matches!(op, AnyOp::Lock(Op::Acquire(_))));
}

#[test]
fn the_number_of_holders_is_bounded() {
    let mut story = Story::begin();
    for _ in 0..HOLDERS_MAX {
        story.token("lock.try k shared");
    }
    assert_eq!(story.call("lock.try k shared"), Reply::Nil);
}

/// Value and version in a reply about a leader.
fn led(reply: Reply) -> (String, i64) {
    let Reply::Array(row) = reply else { panic!("{reply:?}") };
    let (Reply::Bulk(value), Reply::Int(version)) = (&row[2], &row[4]) else { panic!("{row:?}") };
    (String::from_utf8_lossy(value).into_owned(), *version)
}

#[test]
fn a_leader_has_a_value_and_every_version_is_larger() {
    let mut story = Story::begin();
    assert_eq!(story.call("election.leader k"), Reply::Nil);
    assert_eq!(story.call("election.observe k"), Reply::Nil, "no leader is version 0");
    let ann = story.token("election.campaign k here owner ann");
    assert_eq!(story.call("election.campaign k there owner ben"), Reply::Nil);
    assert_eq!(led(story.call("election.leader k")), ("here".to_owned(), ann));
    assert_eq!(story.call(&format!("election.observe k after {ann}")), Reply::Nil);
    assert_eq!(story.call(&format!("election.proclaim k {} x", ann + 1)), Reply::Int(0));
    let moved = story.token(&format!("election.proclaim k {ann} elsewhere"));
    assert!(moved > ann, "a value that comes later has a larger version");
    let seen = story.call(&format!("election.observe k after {ann}"));
    assert_eq!(led(seen), ("elsewhere".to_owned(), moved));
    let Reply::Array(holders) = story.call("lock.holders k") else { panic!() };
    assert_eq!(holders.len(), 1, "the leader holds the lock");
    assert_eq!(story.call(&format!("lock.renew k {ann}")), Reply::Int(1));
    assert_eq!(led(story.call("election.leader k")), ("elsewhere".to_owned(), moved));
    assert_eq!(story.call(&format!("election.resign k {ann}")), Reply::Int(1));
    assert_eq!(story.slot, None, "an election without a leader takes no memory");
    let vacant = story.call(&format!("election.observe k after {moved}"));
    let row = [Reply::Nil, Reply::Nil, Reply::Nil, Reply::Int(0), Reply::Int(0)];
    assert_eq!(vacant, Reply::Array(row.into()));
    let ben = story.token("election.campaign k there");
    assert!(ben > moved, "a later leader's version is above all versions of earlier ones");
}

#[test]
fn a_lead_ends_with_its_lease_and_a_lock_has_no_leader() {
    let mut story = Story::begin();
    let ann = story.token("election.campaign k here lease 1000");
    assert_eq!(story.after(1000).call("election.leader k"), Reply::Nil);
    assert_eq!(story.call(&format!("election.proclaim k {ann} late")), Reply::Int(0));
    let ben = story.token("lock.try k");
    assert_eq!(story.call("election.leader k"), Reply::Nil);
    assert_eq!(story.call(&format!("election.proclaim k {ben} x")), Reply::Int(0));
    assert_eq!(story.call("election.campaign k here"), Reply::Nil, "it is the same lock");
}

/// A lock from the parts that a snapshot has of it.
fn saved(parts: &str) -> Result<Record, crate::ErrorReply> {
    let words = format!("record.put k copy_to lock -1 {parts}");
    match decode(&ArgBuf::of(words.split(' ')).args())?.1 {
        AnyOp::Key(crate::key::KeyOp::Put(record, _)) => Ok(*record),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lock_that_was_saved_before_there_were_elections_reads_back() {
    let old = "1 7 2000 500 0 ann";
    let mut words = ArgBuf::new();
    AnyOp::Key(crate::key::KeyOp::Put(Box::new(saved(old).unwrap()), crate::key::Cause::Copy))
        .encode(b"k", &mut words);
    let words: Vec<_> = words.args().iter_from(0).map(String::from_utf8_lossy).collect();
    assert!(words.join(" ").ends_with(&format!(" {old}")), "{words:?}, and is saved as it was");
    let mut story = Story { slot: saved(&format!("{old} 1 7 9 here")).ok(), ..Story::default() };
    assert_eq!(led(story.call("election.leader k")), ("here".to_owned(), 9));
    for wrong in ["2 7 9 here", "1 8 9 here", "1 7 6 here", "1 7 9", "1 7 9 a 1 7 9 b"] {
        assert!(saved(&format!("{old} {wrong}")).is_err(), "{wrong}");
    }
}
