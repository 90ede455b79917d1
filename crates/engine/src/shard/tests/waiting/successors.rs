//! Stories about locks whose next holder is named: how many writes that costs, when it is told, what is told
//! when a client goes away, and what the next leader makes of it.

use super::kept::leaves;
use super::turns::{call, granted, operation, told};
use super::*;
use crate::ids::RequestId;
use crate::message::Fence;
use adt::{Ctx, record};

fn claim(ticket: &str) -> Body {
    claim_within(ticket, 0)
}

fn claim_within(ticket: &str, timeout_ms: u64) -> Body {
    let words = format!("lock.claim k {ticket} lease 1000 owner {ticket}");
    let ops = SmallVec::from_iter([operation(&words)]);
    Body::Await { apply: Apply { ops, ..Apply::default() }, timeout_ms }
}

impl Story {
    /// A request that comes while it is certain who leads.
    fn ask_only_leader(&mut self, body: Body) -> u64 {
        let request = self.request(body);
        let now = self.now;
        self.shard.as_only_leader(|shard| shard.handle(now, request));
        self.token
    }

    fn release(&mut self, token: i64) -> u64 {
        self.ask_only_leader(call(&format!("lock.release k {token}")))
    }

    /// One entry goes to the log, with so many records.
    fn logs(&mut self) -> usize {
        let Some(entry) = self.end_turn() else { return 0 };
        let count = entry.records.len();
        self.shard.keep(entry, 0);
        count
    }

    /// Token of the next holder.
    fn token_of_next(&self) -> i64 {
        let (key, _) = operation("lock.holders k");
        let mut scratch = self.shard.state().get(&key).cloned();
        let ctx = Ctx { now_ms: self.now.wall_ms(), ..Ctx::default() };
        for form in ["lock.unname k", "lock.claim k"] {
            let ticket = scratch.as_ref().and_then(|record| record.value.whose_turn()).unwrap();
            let (_, op) = operation(&format!("{form} {}", String::from_utf8_lossy(ticket)));
            if let Reply::Int(token @ 2..) = record::apply(&mut scratch, &op, &ctx) {
                return token;
            }
        }
        panic!("nobody is next")
    }

    /// Whether a client is named, or has the lock.
    fn is_named(&self, ticket: &str) -> bool {
        let (key, op) = operation(&format!("lock.unname k {ticket}"));
        let ctx = Ctx { now_ms: self.now.wall_ms(), ..Ctx::default() };
        record::apply(&mut self.shard.state().get(&key).cloned(), &op, &ctx) == Reply::Int(1)
    }
}

/// Ann holds the lock, Ben and then Cem are named: Ann's token, and what the others have asked.
fn two_are_named() -> (Story, i64, u64, u64) {
    let mut story = Story::new();
    story.ask(claim("ann"));
    story.sync();
    let (_, ann) = granted(&mut story);
    let ben = story.ask(claim("ben"));
    let cem = story.ask(claim("cem"));
    assert_eq!(story.logs(), 2, "their names");
    story.sync();
    assert!(told(&mut story).is_empty(), "nobody hears of it");
    assert!(story.is_named("ben") && story.is_named("cem"));
    (story, ann, ben, cem)
}

#[test]
fn a_lease_that_was_told_early_may_be_over_before_the_entry_has_its_time() {
    let (mut story, ann, ben, cem) = two_are_named();
    let release = story.release(ann);
    assert_eq!(granted(&mut story).0, ben);
    // Of the three leases of a second each, Cem's is the one that lasts.
    story.now.wall_us += 2_500_000;
    story.sync();
    let seen = told(&mut story);
    assert!(seen.contains(&(release, Reply::Int(0))), "Ann's lease was over: {seen:?}");
    assert!(seen.iter().all(|(to, _)| *to != ben), "{seen:?}");
    story.pass(200_000);
    story.sync();
    let cems = told(&mut story).into_iter().chain(seen).any(|(to, _)| to == cem);
    assert!(cems && story.is_named("cem"));
}

#[test]
fn whoever_is_named_hears_of_the_release_before_it_is_durable() {
    let (mut story, ann, ben, cem) = two_are_named();
    let release = story.release(ann);
    let (to, token) = granted(&mut story);
    assert!(to == ben && token > ann);
    assert_eq!(story.logs(), 2, "the release and the grant");
    assert!(told(&mut story).is_empty());
    story.sync();
    assert_eq!(told(&mut story), [(release, Reply::Int(1))], "Ben is not told twice");
    assert!(story.is_named("cem"));
    assert_eq!(story.shard.stats(0).locks.early, 1);
    story.release(token);
    let (to, last) = granted(&mut story);
    assert!(to == cem && last > token);
    assert_eq!(story.logs(), 2, "nobody else waits");
    story.sync();
    told(&mut story);
    story.release(last);
    story.sync();
    told(&mut story);
    assert!(story.shard.state().records().is_empty());
    assert!(story.shard.desk.waits.turns.is_empty() && story.shard.is_quiet());
}

#[test]
fn a_lock_changes_hands_as_often_as_there_are_names_while_nothing_is_durable() {
    let (mut story, ann, ben, cem) = two_are_named();
    let first = story.release(ann);
    let (to, token) = granted(&mut story);
    assert_eq!(to, ben);
    story.logs();
    let second = story.release(token);
    let (to, last) = granted(&mut story);
    assert!(to == cem && last > token);
    let dan = story.ask(claim("dan"));
    let third = story.release(last);
    assert!(told(&mut story).is_empty(), "Dan's name is not durable");
    story.logs();
    story.sync();
    let answers = told(&mut story);
    let [(a, Reply::Int(1)), (b, Reply::Int(1)), (c, Reply::Int(1)), (d, Reply::Int(token))] =
        answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!([a, b, c, d], [first, second, third, dan]);
    assert!(token > last);
}

#[test]
fn who_comes_to_a_long_queue_is_named_by_the_next_hand_over() {
    let (mut story, ann, _, _) = two_are_named();
    for ticket in ["dan", "eve", "fay", "gus"] {
        story.ask(claim(ticket));
    }
    assert_eq!(story.logs(), 0, "Ben and Cem are before them");
    story.release(ann);
    granted(&mut story);
    assert_eq!(story.logs(), 6, "the release, the grant, and four names");
    story.sync();
    assert!(story.is_named("dan") && story.is_named("gus"));
}

#[test]
fn who_is_on_its_way_is_told_as_soon_as_its_name_is_durable() {
    let mut story = Story::new();
    story.ask(claim("ann"));
    story.sync();
    let (_, ann) = granted(&mut story);
    let ben = story.ask(claim("ben"));
    story.logs();
    let release = story.release(ann);
    assert!(told(&mut story).is_empty());
    assert_eq!(story.logs(), 2);
    let now = story.now;
    story.shard.as_only_leader(|shard| shard.committed(now));
    let (to, token) = granted(&mut story);
    assert!(to == ben && token > ann);
    story.sync();
    assert_eq!(told(&mut story), [(release, Reply::Int(1))]);
}

#[test]
fn nobody_is_told_early_while_another_machine_may_lead_or_something_else_is_on_its_way() {
    let (mut story, ann, ben, _) = two_are_named();
    let release = story.ask(call(&format!("lock.release k {ann}")));
    assert!(told(&mut story).is_empty(), "nobody has said that this is the only leader");
    story.sync();
    let answers = told(&mut story);
    assert!(matches!(answers[..], [(a, Reply::Int(1)), (b, Reply::Int(_))]
        if a == release && b == ben));
    for other in ["lock.renew k 1", "del k", "set k x"] {
        let (mut story, ann, ..) = two_are_named();
        story.ask(call(other));
        story.release(ann);
        assert!(told(&mut story).is_empty(), "{other}");
    }
    // A release that may come to nothing.
    for doubt in 0..3 {
        let (mut story, ann, ..) = two_are_named();
        let Body::Apply(mut apply) = call(&format!("lock.release k {ann}")) else { unreachable!() };
        let key = Blob::from("other");
        match doubt {
            0 => apply.fences.push(Fence { lock: key, token: 1 }),
            1 => apply.guards.push(Guard { key, condition: Condition::Unchanged(Version::NONE) }),
            _ => apply.ops.insert(0, operation("lock.pass other")),
        }
        story.ask_only_leader(Body::Apply(apply));
        assert!(told(&mut story).is_empty(), "{doubt}");
        story.sync();
        story.sync();
        assert!(!story.answers().is_empty(), "{doubt}");
    }
    let (mut story, ann, ..) = two_are_named();
    story.ask(Body::Flush { database: None });
    story.release(ann);
    assert!(told(&mut story).is_empty());
    let (mut story, ann, ..) = two_are_named();
    story.release(ann - 1);
    assert!(told(&mut story).is_empty(), "Ann has not released it");
    story.sync();
    assert_eq!(told(&mut story).len(), 1);
}

#[test]
fn who_leaves_is_named_no_more_and_the_next_one_is() {
    let (mut story, ann, ben, cem) = two_are_named();
    leaves(&mut story, ben);
    story.sync();
    assert!(!story.is_named("ben"));
    story.release(ann);
    assert_eq!(granted(&mut story).0, cem);

    // Its time is over while the naming is on its way.
    let mut story = Story::new();
    story.ask(claim("ann"));
    story.sync();
    let (_, ann) = granted(&mut story);
    let ben = story.ask(claim_within("ben", 5));
    story.logs();
    story.pass(6_000);
    assert_eq!(told(&mut story), [(ben, Reply::Nil)]);
    story.sync();
    assert!(!story.is_named("ben"));
    story.release(ann);
    story.sync();
    assert!(story.shard.state().records().is_empty(), "the lock is free at once");
}

#[test]
fn what_was_told_to_somebody_who_is_gone_is_taken_back_unless_it_may_be_there() {
    for lost in [false, true] {
        let (mut story, ann, ben, cem) = two_are_named();
        story.release(ann);
        granted(&mut story);
        if lost {
            story.shard.machine_gone(story.now, G.machine);
        } else {
            leaves(&mut story, ben);
        }
        story.sync();
        story.sync();
        let got = told(&mut story).into_iter().any(|(to, reply)| to == cem && reply != Reply::Nil);
        assert_eq!(got, !lost, "the client of a machine that is lost may have been told");
    }
}

#[test]
fn nobody_is_told_by_half_an_entry() {
    let (mut story, ann, ben, cem) = two_are_named();
    story.release(ann);
    granted(&mut story);
    // Ben has left in the meantime, and behind his grant another client deletes the lock.
    leaves(&mut story, ben);
    story.ask(call("del k"));
    story.logs();
    let now = story.now;
    story.shard.as_only_leader(|shard| shard.committed(now));
    let early = told(&mut story).into_iter().find(|(to, _)| *to == cem);
    assert_eq!(early, None);
    story.sync();
    let answers = told(&mut story);
    let [(to, Reply::Int(token))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(*to, cem);
    story.release(*token);
    story.sync();
    assert_eq!(told(&mut story).pop().map(|(_, reply)| reply), Some(Reply::Int(1)));
}

/// The next leader, which has what was durable.
fn next_leader(story: &Story) -> Story {
    let mut next = Story::new();
    next.now = Now { wall_us: story.now.wall_us + 1, mono_us: story.now.mono_us + 1 };
    let (config, state) = (story.shard.desk.core.config.clone(), story.shard.state().clone());
    next.shard = Shard::restored(config, state, story.shard.clock());
    next.token = 1000;
    next.shard.lead(next.now, 2);
    next
}

#[test]
fn the_next_leader_lets_nobody_in_before_who_was_told() {
    let (mut story, ann, _, _) = two_are_named();
    story.release(ann);
    let (_, ben) = granted(&mut story);
    // The entry is lost with the leader. Cem comes to the next one before all others.
    let mut next = next_leader(&story);
    let cem = next.ask(claim("cem"));
    next.sync();
    assert!(told(&mut next).is_empty());
    let released = next.release(ben);
    let (to, token) = granted(&mut next);
    assert!(to == cem && token > ben, "Ben's token says that Ann has released it");
    next.sync();
    assert_eq!(told(&mut next), [(released, Reply::Int(1))]);
    // And if Ann's lease ends instead, Ben has one of its own.
    let mut next = next_leader(&story);
    let cem = next.ask(claim("cem"));
    next.now.wall_us += 1_000_000;
    next.pass(200_000);
    next.sync();
    assert!(told(&mut next).is_empty());
    let renewed = next.ask(call(&format!("lock.renew k {ben}")));
    next.sync();
    assert_eq!(told(&mut next), [(renewed, Reply::Int(1))]);
    next.now.wall_us += 1_000_000;
    next.pass(200_000);
    next.sync();
    next.sync();
    assert_eq!(granted(&mut next).0, cem);
}

#[test]
fn whoever_was_named_and_not_told_asks_the_next_leader_and_goes_first() {
    let (story, ann, _, _) = two_are_named();
    let mut next = next_leader(&story);
    next.ask(claim("cem"));
    let ben = next.ask(claim("ben"));
    next.sync();
    next.release(ann);
    assert_eq!(granted(&mut next).0, ben, "it is told early there as well");
    next.sync();
    assert!(next.is_named("cem"));
}

#[test]
fn who_leaves_does_not_take_back_what_an_earlier_leader_has_promised() {
    let (mut story, ann, _, _) = two_are_named();
    story.release(ann);
    granted(&mut story);
    // The release is kept, and Ben's gateway has not heard that he was told over another connection.
    let mut next = next_leader(&story);
    let ben = next.ask(claim("ben"));
    next.ask(call(&format!("lock.release k {ann}")));
    leaves(&mut next, ben);
    let cem = next.ask(claim("cem"));
    for _ in 0..3 {
        next.sync();
    }
    assert!(told(&mut next).iter().all(|(to, _)| *to != cem), "Ben may be at work");
    assert!(next.is_named("ben"));
    // So it is for a client that waits on when the holder leaves.
    let mut next = next_leader(&story);
    let ben = next.ask(claim("ben"));
    leaves(&mut next, ben);
    next.sync();
    assert!(next.is_named("ben"));
}

#[test]
fn names_of_those_who_do_not_come_to_the_next_leader_are_over_when_one_lease_is() {
    let (story, _, _, _) = two_are_named();
    let mut next = next_leader(&story);
    let eve = next.ask(claim("eve"));
    let fay = next.ask(claim("fay"));
    for _ in 0..10 {
        next.now.wall_us += 100_000;
        next.pass(100_000);
        next.sync();
    }
    assert!(told(&mut next).is_empty(), "somebody may have it");
    assert!(["ben", "cem", "eve", "fay"].iter().all(|ticket| next.is_named(ticket)));
    for _ in 0..3 {
        next.now.wall_us += 100_000;
        next.pass(100_000);
        next.sync();
    }
    let (to, token) = granted(&mut next);
    assert_eq!(to, eve, "Ben has not shown that he is");
    next.release(token);
    next.sync();
    assert!(told(&mut next).iter().any(|(to, _)| *to == fay));
}

#[test]
fn who_comes_late_and_is_heard_of_is_not_forgotten() {
    let (story, ..) = two_are_named();
    let mut next = next_leader(&story);
    next.ask(claim("eve"));
    next.sync();
    // Ben was told by the earlier leader, and renews when the first lease is long over.
    next.now.wall_us += 1_050_000;
    next.now.mono_us += 1_050_000;
    let ben = story.token_of_next();
    let renewed = next.ask(call(&format!("lock.renew k {ben}")));
    next.now.mono_us += 100_000;
    next.pass(0);
    next.sync();
    assert_eq!(told(&mut next), [(renewed, Reply::Int(1))]);
    next.pass(100_000);
    next.sync();
    assert!(next.is_named("ben") && !next.is_named("cem"));
    assert!(told(&mut next).is_empty(), "Ben has a lease");
}

#[test]
fn who_was_on_its_way_when_the_lead_ended_asks_the_next_leader() {
    let (mut story, ann, _, _) = two_are_named();
    let release = story.ask(call(&format!("lock.release k {ann}")));
    story.logs();
    story.shard.step_down();
    let answers = story.answers();
    let unknown =
        |(to, answer): &(u64, Answer)| *to == release && matches!(answer, Answer::Unknown);
    assert!(answers.iter().any(unknown), "{answers:?}");
    let again = answers.iter().filter(|(_, answer)| matches!(answer, Answer::NotTaken(_)));
    assert_eq!(again.count(), 2, "Ben, whose grant may be in the log, and Cem");
}

#[test]
fn copies_of_a_request_are_one_and_wait_for_what_is_durable() {
    let mut story = Story::new();
    story.ask(claim("ann"));
    story.sync();
    let (_, ann) = granted(&mut story);
    let numbered = || {
        let Body::Await { apply, timeout_ms } = claim("ben") else { unreachable!() };
        let request = Some(RequestId { client: Blob::from("ben"), number: 1 });
        Body::Await { apply: Apply { request, ..apply }, timeout_ms }
    };
    let copies = [story.ask(numbered()), story.ask(numbered())];
    story.sync();
    assert!(story.is_named("ben"));
    // One of them is given up: the other one may be told still.
    leaves(&mut story, copies[0]);
    let again = story.ask(numbered());
    story.sync();
    assert!(story.is_named("ben"), "it is asked for still");
    story.release(ann);
    assert!(told(&mut story).is_empty(), "there are two");
    story.sync();
    story.sync();
    let mut tokens: Vec<_> = story
        .answers()
        .into_iter()
        .filter_map(|(to, answer)| match answer {
            Answer::Replies(replies) | Answer::Repeated(replies) => Some((to, replies)),
            _ => None,
        })
        .filter(|(to, _)| [copies[1], again].contains(to))
        .map(|(_, replies)| replies)
        .collect();
    assert_eq!(tokens.len(), 2);
    tokens.dedup();
    assert_eq!(tokens.len(), 1, "both are told the same");
}
