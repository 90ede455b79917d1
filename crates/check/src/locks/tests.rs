//! Scenarios of locks that the checker has to distinguish.

use super::*;

/// Consecutive actions: each begins at the end of the one before it.
#[derive(Clone, Default)]
struct Story {
    history: History,
    now_us: u64,
}

/// Request for the lock `k`.
struct Asked {
    shared: bool,
    limit: usize,
    again: bool,
    tokens: u64,
    near: bool,
    next: bool,
    value: Option<String>,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            shared: false,
            limit: 0,
            again: false,
            tokens: 1,
            near: false,
            next: false,
            value: None,
        }
    }
}

fn acquire(Asked { shared, limit, again, tokens, near, next, value }: Asked) -> What {
    let (lock, lease_us, tries) = ("k".to_owned(), 1000, false);
    What::Acquire { lock, lease_us, shared, limit, again, tries, tokens, near, next, value }
}

impl Story {
    /// An action of `lasts_us` microseconds; without an answer it never ends, and other clients
    /// continue.
    fn act(mut self, who: u64, lasts_us: u64, what: What, outcome: Outcome) -> Self {
        let asked_us = self.now_us;
        self.now_us += lasts_us;
        let ended_us = if outcome == Outcome::Unknown { u64::MAX } else { self.now_us };
        self.history.acts.push(Act { who, asked_us, ended_us, what, outcome });
        self.now_us += 1;
        self
    }

    fn wait(mut self, us: u64) -> Self {
        self.now_us += us;
        self
    }

    fn grant(self, who: u64, token: Token) -> Self {
        self.grant_as(who, token, false, false)
    }

    fn grant_as(self, who: u64, token: Token, shared: bool, again: bool) -> Self {
        let what = acquire(Asked { shared, again, ..Asked::default() });
        self.act(who, 10, what, Outcome::Granted(token))
    }

    /// A grant that is shared with a limit.
    fn one_of(self, limit: usize, who: u64, token: Token) -> Self {
        let what = acquire(Asked { shared: true, limit, ..Asked::default() });
        self.act(who, 10, what, Outcome::Granted(token))
    }

    /// A grant with several tokens.
    fn block(self, who: u64, token: Token, tokens: u64) -> Self {
        let what = acquire(Asked { tokens, ..Asked::default() });
        self.act(who, 10, what, Outcome::Granted(token))
    }

    /// A grant by a server that keeps the lock.
    fn near(self, who: u64, token: Token) -> Self {
        let what = acquire(Asked { near: true, ..Asked::default() });
        self.act(who, 10, what, Outcome::Granted(token))
    }

    /// A section that writes a value, whose client receives the token, or only success.
    fn section(self, who: u64, value: &str, outcome: Outcome) -> Self {
        let what = What::Section {
            lock: "k".to_owned(),
            shared: false,
            limit: 0,
            again: false,
            place: "p".to_owned(),
            value: value.to_owned(),
            register: true,
            journal: true,
        };
        self.act(who, 10, what, outcome)
    }

    fn renew(self, who: u64, token: Token) -> Self {
        self.act(who, 10, What::Renew { lock: "k".into(), token }, Outcome::Done)
    }

    fn release(self, who: u64, token: Token, outcome: Outcome) -> Self {
        self.act(who, 10, What::Release { lock: "k".into(), token }, outcome)
    }

    fn write(self, token: Token, value: &str, outcome: Outcome) -> Self {
        let (place, lock, value) = ("p".to_owned(), "k".to_owned(), value.to_owned());
        let what = What::Write { place, lock, token, value, register: true, journal: true };
        self.act(token, 10, what, outcome)
    }

    fn read(self, journal: bool, values: &[&str]) -> Self {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let what = What::Read { place: "p".to_owned(), fence: None, journal };
        self.act(99, 10, what, Outcome::Read(values))
    }

    fn show(self, token: Token) -> Self {
        let fence = Some(("k".to_owned(), token));
        let what = What::Read { place: "p".to_owned(), fence, journal: true };
        self.act(token, 10, what, Outcome::Read(Vec::new()))
    }

    fn ends(mut self, journal: &[&str]) -> Verdict {
        let register = journal.last().map(|value| (*value).to_owned());
        let journal = journal.iter().map(|value| (*value).to_owned()).collect();
        let last = BTreeMap::from([("p".to_owned(), Place { register, journal })]);
        self.history.last = Some(last);
        check(&self.history)
    }

    fn verdict(self) -> Verdict {
        check(&self.history)
    }
}

fn kinds(verdict: &Verdict) -> Vec<&str> {
    verdict.anomalies.iter().map(|anomaly| anomaly.kind.as_str()).collect()
}

use Outcome::{Done, Fenced, Refused, Unknown};

#[test]
fn exclusive_grants_one_after_the_other_are_valid() {
    let story = Story::default().grant(1, 5).write(5, "a", Done).release(1, 5, Done);
    let story = story.grant(2, 7).write(5, "late", Refused).write(7, "b", Done);
    let story = story.write(5, "later", Fenced).read(true, &["a", "b"]).read(false, &["b"]);
    let verdict = story.ends(&["a", "b"]);
    assert_eq!(kinds(&verdict), Vec::<&str>::new());
    assert_eq!((verdict.counts["grants"], verdict.counts["fenced"]), (2, 1));
}

#[test]
fn tokens_grow_and_are_issued_once() {
    let twice = Story::default().grant(1, 5).release(1, 5, Done).grant(2, 5).verdict();
    assert_eq!(kinds(&twice), ["token-twice"]);
    let falls = Story::default().grant(1, 5).wait(5000).grant(2, 4).verdict();
    assert_eq!(kinds(&falls), ["token-falls"]);
}

#[test]
fn grants_by_a_server_obey_the_same_rules_unless_the_lock_was_broken() {
    assert_eq!(kinds(&Story::default().near(1, 5).near(2, 6).verdict()), ["two-holders"]);
    assert_eq!(
        kinds(&Story::default().near(1, 5).wait(500).grant(2, 7).verdict()),
        ["two-holders"]
    );
    let fell = Story::default().grant(2, 7).release(2, 7, Done).near(1, 5).verdict();
    assert_eq!(kinds(&fell), ["token-falls"]);
    let broken = What::Break { lock: "k".into() };
    let taken = Story::default().near(3, 4).act(9, 10, broken, Done).grant(2, 7).near(1, 5);
    assert!(taken.release(1, 5, Done).verdict().valid, "the server may not know it yet");
    // A server whose clock has leapt may grant it too, and renew it meanwhile, whichever client has
    // the lock by then.
    let late = Story::default().near(1, 5).section(2, "a", Done).renew(1, 5);
    let mut story = late.wait(10);
    assert_eq!(kinds(&story.clone().ends(&["a"])), ["two-holders"]);
    story.history.clocks_us = 5_000;
    assert!(story.ends(&["a"]).valid);
    // Accepted writes under the old token are checked nevertheless.
    let broken = What::Break { lock: "k".into() };
    let taken = Story::default().act(9, 10, broken, Done).grant(2, 7).write(7, "b", Done);
    let late = taken.near(1, 5).write(5, "a", Done).ends(&["b", "a"]);
    assert!(!late.valid);
}

#[test]
fn a_lease_begins_when_the_holder_before_has_left() {
    // Ben requested it when Ann had it, and received it when she released it: his lease is a whole
    // one from then.
    let mut story = Story::default().grant(1, 5).wait(700);
    let ben = story.history.acts[0].clone();
    story = story.release(1, 5, Done).wait(900);
    story = story.grant(3, 9);
    let (asked_us, ended_us) = (ben.asked_us + 1, ben.asked_us + 800);
    let outcome = Outcome::Granted(7);
    story.history.acts.push(Act { who: 2, asked_us, ended_us, outcome, ..ben });
    assert_eq!(kinds(&story.verdict()), ["two-holders"]);
}

#[test]
fn no_client_is_granted_before_the_lease_can_have_ended() {
    let held = Story::default().grant(1, 5).wait(500);
    assert_eq!(kinds(&held.grant(2, 7).verdict()), ["two-holders"]);
    assert!(Story::default().grant(1, 5).wait(1000).grant(2, 7).verdict().valid);
    let renewed = Story::default().grant(1, 5).wait(800).renew(1, 5).wait(800);
    assert_eq!(kinds(&renewed.grant(2, 7).verdict()), ["two-holders"]);
    // Clocks may differ by this much.
    let mut story = Story::default().grant(1, 5).wait(500).grant(2, 7);
    story.history.clocks_us = 500;
    assert!(story.verdict().valid);
}

#[test]
fn a_holder_that_may_have_lost_the_lock_blocks_no_other() {
    for outcome in [Done, Unknown] {
        assert!(Story::default().grant(1, 5).release(1, 5, outcome).grant(2, 7).verdict().valid);
    }
    let not_held = Story::default().grant(1, 5).release(1, 5, Refused).grant(2, 7).verdict();
    assert_eq!(kinds(&not_held), ["two-holders"]);
    let broken = What::Break { lock: "k".into() };
    assert!(Story::default().grant(1, 5).act(3, 10, broken, Unknown).grant(2, 7).verdict().valid);
    assert!(
        Story::default().grant_as(1, 5, true, false).grant_as(2, 7, true, false).verdict().valid
    );
    // The request was repeated, and the grant believed before its renewal.
    assert!(Story::default().grant_as(1, 5, false, true).grant(2, 7).verdict().valid);
    let renewed = Story::default().grant_as(1, 5, false, true).renew(1, 5).grant(2, 7).verdict();
    assert_eq!(kinds(&renewed), ["two-holders"]);
}

#[test]
fn an_old_token_is_refused_as_soon_as_a_larger_one_was_let_through() {
    let after_write = Story::default().write(7, "b", Done).write(5, "a", Done);
    assert_eq!(
        kinds(&after_write.ends(&["b", "a"])),
        ["old-token", "token-goes-back", "register-goes-back"]
    );
    let after_read = Story::default().show(7).write(5, "a", Done);
    assert_eq!(kinds(&after_read.ends(&["a"])), ["old-token"]);
    // The outcome is unknown, except to a client that has read the value.
    let unknown = || Story::default().write(7, "b", Done).write(5, "a", Unknown);
    assert!(unknown().ends(&["b"]).valid);
    assert!(kinds(&unknown().ends(&["b", "a"])).contains(&"old-token"));
}

#[test]
fn writes_at_the_same_time_are_in_the_order_of_their_tokens() {
    let both = || Story::default().write(7, "b", Unknown).write(5, "a", Unknown);
    assert!(both().ends(&["a", "b"]).valid);
    assert_eq!(kinds(&both().ends(&["b", "a"])), ["token-goes-back"]);
}

#[test]
fn acknowledged_writes_are_visible_and_refused_ones_are_not() {
    let lost = Story::default().write(5, "a", Done).write(5, "b", Done).ends(&["b"]);
    assert_eq!(kinds(&lost), ["lost-write"]);
    let unseen = Story::default().write(5, "a", Done).read(true, &[]).ends(&["a"]);
    assert_eq!(kinds(&unseen), ["lost-write"]);
    let back = Story::default()
        .write(8, "a", Done)
        .write(7, "b", Fenced)
        .write(8, "c", Done)
        .ends(&["a", "b", "c"]);
    assert!(kinds(&back).contains(&"seen-from-nowhere"));
    let unwritten = Story::default().read(false, &["x"]).verdict();
    assert_eq!(kinds(&unwritten), ["seen-from-nowhere"]);
    let moved = Story::default().write(5, "a", Done).write(5, "b", Done).ends(&["b", "a"]);
    assert_eq!(kinds(&moved), ["out-of-order"]);
    let twice = Story::default().write(5, "a", Done).ends(&["a", "a"]);
    assert_eq!(kinds(&twice), ["written-twice"]);
}

#[test]
fn a_register_does_not_go_back_for_later_reads() {
    let story = Story::default().write(5, "a", Unknown).write(7, "b", Unknown);
    let story = story.read(false, &["b"]).read(false, &["a"]);
    assert_eq!(kinds(&story.ends(&["a", "b"])), ["register-goes-back"]);
    let story = Story::default().write(5, "a", Done).read(false, &[]);
    assert_eq!(kinds(&story.ends(&["a"])), ["register-goes-back"]);
}

#[test]
fn no_write_is_refused_without_reason() {
    let alone = Story::default().write(5, "a", Fenced).ends(&[]);
    assert_eq!(kinds(&alone), ["fenced-for-nothing"]);
    assert!(Story::default().write(7, "b", Unknown).write(5, "a", Fenced).ends(&[]).valid);
}

#[test]
fn a_section_is_between_grants_and_its_token_counts() {
    let begun = || Story::default().grant(1, 5);
    let verdict = begun()
        .write(5, "a", Outcome::Done)
        .release(1, 5, Outcome::Done)
        .section(2, "b", Outcome::Granted(7))
        .section(3, "c", Outcome::Done)
        .write(5, "late", Outcome::Fenced)
        .section(4, "d", Outcome::Refused)
        .section(5, "e", Outcome::Unknown)
        .grant(6, 9)
        .ends(&["a", "b", "c", "e"]);
    assert_eq!(kinds(&verdict), Vec::<&str>::new());
    assert_eq!(verdict.counts["sections"], 2);
    for outcome in [Outcome::Granted(7), Outcome::Done] {
        let inside = begun().section(2, "b", outcome.clone()).ends(&["b"]);
        assert_eq!(kinds(&inside), ["two-holders"], "{outcome:?}");
        let after = begun().wait(1000).section(2, "b", outcome).ends(&["b"]);
        assert_eq!(kinds(&after), Vec::<&str>::new(), "the lease has ended");
    }
    let twice = begun().wait(1000).section(2, "b", Outcome::Granted(5)).ends(&["b"]);
    assert_eq!(kinds(&twice), ["token-twice"]);
    let old = begun().wait(1000).section(2, "b", Outcome::Granted(7));
    let old = old.write(5, "old", Outcome::Done).ends(&["b", "old"]);
    assert!(old.has("old-token") && old.has("token-goes-back"), "{:?}", kinds(&old));
    let lost = begun().wait(1000).section(2, "b", Outcome::Done).ends(&[]);
    assert!(lost.has("lost-write"), "{:?}", kinds(&lost));
    let nowhere = begun().section(2, "b", Outcome::Refused).ends(&["b"]);
    assert!(nowhere.has("seen-from-nowhere"), "{:?}", kinds(&nowhere));
    let nothing = begun().write(5, "a", Outcome::Fenced).verdict();
    assert_eq!(kinds(&nothing), ["fenced-for-nothing"]);
}

impl Story {
    fn campaign(self, who: u64, value: &str, outcome: Outcome) -> Self {
        let what = acquire(Asked { value: Some(value.to_owned()), ..Asked::default() });
        self.act(who, 10, what, outcome)
    }

    fn proclaim(self, token: Token, value: &str, outcome: Outcome) -> Self {
        let what = What::Proclaim { lock: "k".to_owned(), token, value: value.to_owned() };
        self.act(token, 10, what, outcome)
    }

    fn told(self, seen: Token, led: Option<(Token, &str, Token)>) -> Self {
        let led =
            led.map(|(token, value, version)| Led { token, value: value.to_owned(), version });
        let what = What::Observe { lock: "k".to_owned(), seen };
        self.act(99, 10, what, Outcome::Led(led))
    }

    fn meet(self, who: u64, lasts_us: u64, outcome: Outcome) -> Self {
        let what = What::Meet { barrier: "b".to_owned(), parties: 2, again: false };
        let before_us = self.now_us;
        let mut story = self.act(who, lasts_us, what, outcome);
        story.now_us = before_us + 1;
        story
    }

    fn kinds(self) -> Vec<String> {
        check(&self.history).anomalies.into_iter().map(|anomaly| anomaly.kind).collect()
    }
}

#[test]
fn leaders_are_reported_in_order_and_with_their_values() {
    let granted = Outcome::Granted;
    let led = || {
        let story = Story::default().campaign(1, "a", granted(5));
        story.told(0, Some((5, "a", 5))).proclaim(5, "b", granted(7))
    };
    let good = led().told(5, Some((5, "b", 7))).told(7, None).wait(2000);
    let good = good.campaign(2, "c", granted(9));
    let good = good.told(0, Some((9, "c", 9))).proclaim(9, "d", Outcome::Unknown);
    assert!(good.told(9, Some((9, "d", 12))).kinds().is_empty());
    // A request without an answer may have been elected.
    let unknown = Story::default().campaign(1, "a", Outcome::Unknown);
    assert!(unknown.told(0, Some((5, "a", 5))).kinds().is_empty());
    assert_eq!(led().told(0, Some((5, "a", 5))).kinds(), ["leader-goes-back"]);
    assert_eq!(led().told(7, Some((5, "b", 7))).kinds(), ["leader-told-again"]);
    assert_eq!(led().told(0, None).kinds(), ["leader-told-again"], "no leader was seen before");
    for wrong in [(5, "x", 9), (6, "b", 7), (5, "b", 8), (5, "a", 9)] {
        assert_eq!(led().told(0, Some(wrong)).kinds(), ["leader-from-nowhere"], "{wrong:?}");
    }
    let refused = led().proclaim(5, "c", Outcome::Refused).told(0, Some((5, "c", 9)));
    assert_eq!(refused.kinds(), ["leader-from-nowhere"]);
    let early = Story::default().told(0, Some((5, "a", 5))).campaign(1, "a", granted(5));
    assert_eq!(early.kinds(), ["leader-from-nowhere"]);
    let late = led().wait(2000).grant(2, 9).proclaim(5, "c", granted(12));
    assert_eq!(late.kinds(), ["late-proclamation"]);
}

#[test]
fn no_client_passes_a_barrier_alone() {
    let granted = Outcome::Granted;
    let pair = || Story::default().meet(1, 50, granted(5)).meet(2, 40, granted(5));
    assert!(pair().kinds().is_empty());
    let next = pair().wait(100).meet(1, 50, granted(9)).meet(2, 40, granted(9));
    assert!(next.kinds().is_empty());
    // A client with an unknown outcome may have been the other party.
    let unknown = Story::default().meet(1, 0, Outcome::Unknown).meet(2, 50, granted(5));
    assert!(unknown.kinds().is_empty());
    assert_eq!(Story::default().meet(1, 50, granted(5)).kinds(), ["gone-on-early"]);
    let refused = Story::default().meet(1, 10, Outcome::Refused).meet(2, 50, granted(5));
    assert_eq!(refused.kinds(), ["gone-on-early"], "the time-out was reported");
    let early = Story::default().meet(1, 5, granted(5)).wait(100).meet(2, 5, granted(5));
    assert_eq!(early.kinds(), ["gone-on-early"]);
    assert_eq!(pair().meet(3, 30, granted(5)).kinds(), ["too-many-met"]);
    let falls = pair().wait(100).meet(1, 50, granted(4)).meet(2, 40, granted(4));
    assert_eq!(falls.kinds(), ["generation-falls"]);
}

#[test]
fn a_block_of_tokens_is_between_those_of_other_grants() {
    let begun = || Story::default().block(1, 5, 4).write(6, "a", Done).write(8, "b", Done);
    let good = begun().write(7, "late", Fenced).release(1, 5, Done).grant(2, 9);
    let verdict = good.write(9, "c", Done).ends(&["a", "b", "c"]);
    assert_eq!(kinds(&verdict), Vec::<&str>::new());
    assert_eq!((verdict.counts["blocks"], verdict.counts["grants"]), (1, 2));
    for token in [6, 8] {
        let inside = begun().release(1, 5, Done).grant(2, token).verdict();
        assert_eq!(kinds(&inside), ["token-twice"], "{token}");
    }
    let section = begun().release(1, 5, Done).section(2, "s", Outcome::Granted(7));
    assert!(section.ends(&["a", "b", "s"]).has("token-twice"));
    let old = begun().write(7, "late", Done).ends(&["a", "b", "late"]);
    assert_eq!(kinds(&old), ["old-token", "token-goes-back", "register-goes-back"]);
}

#[test]
fn no_more_clients_hold_a_lock_at_a_time_than_its_limit() {
    let two = || Story::default().one_of(2, 1, 10).one_of(2, 2, 11);
    assert!(two().ends(&[]).valid);
    let three = two().one_of(2, 3, 12).ends(&[]);
    assert!(three.anomalies.iter().any(|anomaly| anomaly.kind == "too-many-holders"), "{three:?}");
    let one_is_out = two().release(1, 10, Outcome::Done).one_of(2, 3, 12);
    assert!(one_is_out.ends(&[]).valid);
    let leases_ended = two().wait(2_000).one_of(2, 3, 12);
    assert!(leases_ended.ends(&[]).valid);
}
