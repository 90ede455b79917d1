//! Stories about deadlock cycles of clients that wait for each other's locks.

use super::turns::{call, operation, told};
use super::*;

fn wait(words: &str) -> Body {
    let ops = SmallVec::from_iter([operation(words)]);
    Body::Await { apply: Apply { ops, ..Apply::default() }, timeout_ms: 0 }
}

/// Lets a client with a name hold a lock; gives the token.
fn holds(story: &mut Story, name: &str, lock: &str) -> i64 {
    let words = format!("lock.try {lock} owner {name} lease 60000");
    story.ask(call(&words));
    story.sync();
    match told(story)[..] {
        [(_, Reply::Int(token))] => token,
        ref other => panic!("{other:?}"),
    }
}

fn detects(name: &str, lock: &str) -> Body {
    wait(&format!("lock.acquire {lock} owner {name} detect"))
}

/// The text of the only answer, to whom it is due.
fn refused(story: &mut Story, asked: u64) -> String {
    match &told(story)[..] {
        [(to, Reply::Error(error))] if *to == asked && error.code() == "DEADLOCK" => {
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_closes_a_circle_is_refused_at_once_and_the_others_wait_on() {
    let mut story = Story::new();
    holds(&mut story, "ann", "x");
    let ben = holds(&mut story, "ben", "y");
    let waits = story.ask(detects("ann", "y"));
    assert_eq!(told(&mut story), [], "to wait is not wrong by itself");
    let closes = story.ask(detects("ben", "x"));
    let text = refused(&mut story, closes);
    assert!(text.contains("ben waits for x behind ann, ann waits for y behind ben"), "{text}");
    assert!(story.end_turn().is_none(), "it costs nothing");
    story.ask(call(&format!("lock.release y {ben}")));
    story.sync();
    assert!(matches!(told(&mut story)[1], (to, Reply::Int(_)) if to == waits));
}

#[test]
fn who_waits_for_itself_and_who_stands_in_a_queue_are_in_circles_too() {
    let mut story = Story::new();
    holds(&mut story, "ann", "x");
    let itself = story.ask(detects("ann", "x"));
    assert!(refused(&mut story, itself).contains("ann waits for x behind ann"));
    // Ann has x, and waits for y behind ben. Ben waits for cem, and cem has y and waits for x.
    holds(&mut story, "cem", "y");
    let [ben, ann] = ["ben", "ann"].map(|name| story.ask(detects(name, "y")));
    holds(&mut story, "eva", "z");
    story.ask(detects("cem", "z"));
    let closes = story.ask(detects("eva", "x"));
    let text = refused(&mut story, closes);
    let circle =
        "eva waits for x behind ann, ann waits for y behind cem, cem waits for z behind eva";
    assert!(text.contains(circle), "{text}");
    assert!(ben < ann && story.shard.desk.waits.turns.has_waiting(&Blob::from("y")));
}

#[test]
fn a_section_can_close_a_circle_and_does_nothing_then() {
    let mut story = Story::new();
    // Sections need a clock that is set.
    story.now.wall_us = 1_770_000_000_000_000;
    holds(&mut story, "ann", "x");
    holds(&mut story, "ben", "y");
    story.ask(wait("lock.acquire y owner ann"));
    let ops = ["lock.pass x owner ben detect", "set z 1"].map(operation);
    let apply = Apply { ops: ops.into_iter().collect(), ..Apply::default() };
    let closes = story.ask(Body::Await { apply, timeout_ms: 0 });
    refused(&mut story, closes);
    story.sync();
    assert!(story.shard.state().get(b"z").is_none());
}

#[test]
fn who_does_not_ask_for_it_waits_and_so_does_who_is_in_no_circle() {
    let mut story = Story::new();
    holds(&mut story, "ann", "x");
    holds(&mut story, "ben", "y");
    story.ask(call("lock.try nameless"));
    story.sync();
    story.answers();
    story.ask(detects("ann", "y"));
    story.ask(detects("cem", "x"));
    story.ask(detects("dan", "nameless"));
    story.ask(wait("lock.acquire x owner ben"));
    assert_eq!(told(&mut story), []);
    // Many hold a lock of which each of two seats would do.
    story.ask(call("lock.try seats owner eva limit 2"));
    story.ask(call("lock.try seats owner ida limit 2"));
    story.sync();
    assert_eq!(told(&mut story).len(), 2);
    holds(&mut story, "uwe", "other");
    story.ask(wait("lock.acquire other owner eva"));
    story.ask(wait("lock.acquire seats owner uwe limit 2 detect"));
    assert_eq!(told(&mut story), [], "ida may give hers back");
}

#[test]
fn who_asks_again_over_another_connection_is_not_in_its_own_way() {
    let mut story = Story::new();
    let x = holds(&mut story, "ann", "x");
    for _ in 0..2 {
        story.ask(detects("ben", "x"));
    }
    assert_eq!(told(&mut story), []);
    // Nor does a client that has given up, of which the server does not know yet.
    holds(&mut story, "cem", "y");
    story.ask(detects("cem", "x"));
    story.ask(detects("ben", "y"));
    assert_eq!(told(&mut story), []);
    story.ask(call(&format!("lock.release x {x}")));
    story.sync();
    assert_eq!(told(&mut story).len(), 2);
}

/// Holders and waiters of locks, as simply as they can be kept.
#[derive(Default)]
struct Model {
    holders: BTreeMap<usize, (usize, i64)>,
    queues: BTreeMap<usize, Vec<(usize, u64)>>,
}

impl Model {
    fn waits_for(&self, owner: usize) -> Option<usize> {
        let waits = |(_, queue): &(&usize, &Vec<(usize, u64)>)| queue.iter().any(|w| w.0 == owner);
        self.queues.iter().find(waits).map(|(lock, _)| *lock)
    }

    /// Whether a client waits, by way of others, for another one.
    fn reaches(&self, from: usize, to: usize, seen: &mut BTreeSet<usize>) -> bool {
        let Some(lock) = self.waits_for(from).filter(|_| seen.insert(from)) else { return false };
        let ahead = self.queues[&lock].iter().map(|w| w.0).take_while(|owner| *owner != from);
        let holder = self.holders.get(&lock).map(|(owner, _)| *owner);
        ahead.chain(holder).any(|next| next == to || self.reaches(next, to, seen))
    }

    fn would_close(&self, owner: usize, lock: usize) -> bool {
        let queue = self.queues.get(&lock).into_iter().flatten().map(|w| w.0);
        let holder = self.holders.get(&lock).map(|(owner, _)| *owner);
        queue
            .chain(holder)
            .any(|next| next == owner || self.reaches(next, owner, &mut BTreeSet::new()))
    }
}

#[test]
fn everybody_who_would_close_a_circle_is_refused_and_nobody_else() {
    const OWNERS: usize = 5;
    let (mut circles, mut waits) = (0, 0);
    for seed in 0..40_u64 {
        let (mut story, mut model, mut random) = (Story::new(), Model::default(), seed);
        let mut draw = |below: usize| {
            random = mix(random);
            random as usize % below
        };
        for _ in 0..80 {
            let (owner, lock) = (draw(OWNERS), draw(4));
            if model.waits_for(owner).is_some() {
                continue;
            }
            if let Some((_, token)) = model.holders.get(&lock).filter(|h| h.0 == owner).copied() {
                story.ask(call(&format!("lock.release k{lock} {token}")));
                model.holders.remove(&lock);
                story.sync();
                story.sync();
                for (asked, reply) in told(&mut story).split_off(1) {
                    let Reply::Int(token) = reply else { panic!("{seed}: {reply:?}") };
                    let (next, waited) = model.queues.get_mut(&lock).unwrap().remove(0);
                    assert_eq!(asked, waited, "{seed}");
                    model.holders.insert(lock, (next, token));
                }
                let waiting = model.queues.get(&lock).is_some_and(|queue| !queue.is_empty());
                assert!(!waiting || model.holders.contains_key(&lock), "{seed}: it is free");
                continue;
            }
            let closes = model.would_close(owner, lock);
            let asked = story
                .ask(wait(&format!("lock.acquire k{lock} owner w{owner} lease 86400000 detect")));
            story.sync();
            match &told(&mut story)[..] {
                [(_, Reply::Int(token))] => {
                    assert!(!closes, "{seed}");
                    model.holders.insert(lock, (owner, *token));
                }
                [(_, Reply::Error(_))] => {
                    assert!(closes, "{seed}: {owner} was refused for nothing");
                    circles += 1;
                }
                [] => {
                    assert!(!closes, "{seed}: {owner} waits in a circle");
                    model.queues.entry(lock).or_default().push((owner, asked));
                    waits += 1;
                }
                other => panic!("{seed}: {other:?}"),
            }
            let stuck = (0..OWNERS).all(|owner| model.waits_for(owner).is_some());
            assert!(!stuck, "{seed}: nobody can go on");
        }
    }
    assert!(circles > 100 && waits > 200, "{circles} circles, {waits} waits");
}

#[test]
fn gateways_are_told_who_waits_for_whom_and_end_a_circle_that_they_have_found() {
    let mut story = Story::new();
    holds(&mut story, "ann", "x");
    let waits = story.ask(detects("ben", "x"));
    let behind = story.ask(wait("lock.acquire x owner cem"));
    story.ask(Body::Waits { names: vec![Blob::from("cem"), Blob::from("nobody")] });
    let answers = story.answers();
    let [(_, Answer::Reply(reply))] = &answers[..] else { panic!("{answers:?}") };
    let told_waits = crate::deadlock::decode(reply.clone()).unwrap();
    let seen = told_waits.iter().map(|wait| (&wait.who[..], wait.ahead.len(), &wait.holders[..]));
    let ann = [Blob::from("ann")];
    assert_eq!(seen.collect::<Vec<_>>(), [(&b"cem"[..], 1, &ann[..]), (b"ben", 0, &ann)]);
    let end = |token| {
        let body = Body::EndDeadlock { description: Blob::from("ben waits for x behind ann") };
        Request { gateway: G, token: Token(token), after: None, body }
    };
    story.shard.handle(story.now, end(waits));
    assert!(refused(&mut story, waits).contains("ben waits for x behind ann"));
    // Who does not wait any more is left alone.
    story.shard.handle(story.now, end(waits));
    assert_eq!(told(&mut story), []);
    assert!(story.shard.desk.waits.turns.has_waiting(&Blob::from("x")) && behind > waits);
}
