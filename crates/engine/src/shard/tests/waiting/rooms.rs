//! Stories about all places where requests wait: what becomes of every kind of request when the lead ends,
//! and when the machine of its gateway is gone.

use super::observers::{led, observe};
use super::sections::in_2026;
use super::turns::acquire;
use super::*;
use crate::message::{CutStep, Following};
use crate::shard::tests::pipelines::streams::{ordered, other_unit, unit};
use crate::shard::tests::service::{coordination, joints};
use adt::Whole;

/// Places where requests wait, in the order of [`Desk::each_room`].
const ROOMS: [&str; 11] = [
    "locks",
    "delayed",
    "whole",
    "turns",
    "observers",
    "followers",
    "blocked",
    "newcomers",
    "cuts",
    "units",
    "service",
];

/// Answer to a request that waits when the lead ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    /// Return to its gateway, which sends it to the next leader.
    NotTaken,
    /// Refusal: its transaction has lost what it held.
    Refused,
    /// Error for its client.
    Error,
    /// No answer: the gateway says at the next leader that it waits.
    Silent,
}

/// A request that waits.
struct Case {
    name: &'static str,
    room: Option<&'static str>,
    ends: Ends,
    /// A story at whose end the request waits, and its token.
    waits: fn() -> (Story, u64),
}

fn waits(name: &'static str, room: &'static str, waits: fn() -> (Story, u64)) -> Case {
    let ends = match name {
        "lock" | "prepare" => Ends::Refused,
        "block" | "follow" => Ends::Silent,
        _ => Ends::NotTaken,
    };
    Case { name, room: Some(room), ends, waits }
}

/// A request that comes behind others.
fn behind(before: Vec<Body>, body: Body) -> (Story, u64) {
    let mut story = Story::new();
    for body in before {
        story.ask(body);
        story.sync();
    }
    let token = story.ask(body);
    (story, token)
}

fn behind_a_lock(body: Body) -> (Story, u64) {
    behind(vec![lock(1, "s", card())], body)
}

fn behind_a_prepared_one(body: Body) -> (Story, u64) {
    behind(vec![prepare(1, &[("s", add("a"))])], body)
}

fn behind_a_flush(body: Body) -> (Story, u64) {
    let flush = Op::Key(KeyOp::Whole(Box::new(Whole::Flush(None))));
    behind(vec![prepare(1, &[("k", flush)])], body)
}

/// A request that comes while something is on its way to the log.
fn behind_the_log(before: Body, body: Body) -> (Story, u64) {
    let mut story = Story::new();
    story.ask(before);
    let token = story.ask(body);
    (story, token)
}

fn behind_units_of_an_earlier_leader(body: Body) -> (Story, u64) {
    let mut story = ordered();
    story.ask(unit(1, 1, &[1, 0], ("s", add("a"))));
    story.sync();
    let mut story = story.led_anew();
    let token = story.ask(body);
    (story, token)
}

fn while_it_stands_still(body: Body) -> (Story, u64) {
    behind(vec![Body::Cut { cut: 9, step: CutStep::Freeze }], body)
}

fn version() -> Body {
    Body::Version { key: Blob::from("s") }
}

fn fenced_read() -> Body {
    Body::Read { key: Blob::from("s"), op: card(), fenced: true }
}

fn snapshot(fenced: bool) -> Body {
    Body::Snapshot {
        ops: vec![(Blob::from("s"), card())],
        at: Timestamp::ZERO,
        fenced,
        dated: false,
        as_of: None,
    }
}

/// All kinds of requests that can wait, at every place where they can.
fn cases() -> Vec<Case> {
    let not_counted = |name, ends, waits| Case { name, room: None, ends, waits };
    vec![
        waits("write", "locks", || behind_a_lock(one("s", add("a")))),
        waits("lock", "locks", || behind_a_lock(lock(2, "s", add("a")))),
        waits("prepare", "locks", || behind_a_lock(prepare(2, &[("s", add("a"))]))),
        waits("unit", "locks", || behind_a_lock(unit(0, 0, &[0], ("s", add("a"))))),
        waits("read", "locks", || behind_a_prepared_one(read("s", card()))),
        waits("snapshot", "locks", || behind_a_prepared_one(snapshot(false))),
        waits("version", "locks", || behind_a_prepared_one(version())),
        waits("resolve", "locks", || {
            let id = RequestId { client: Blob::from("c"), number: 1 };
            let Body::Prepare { mut prepare, floor } = prepare(1, &[("s", add("a"))]) else {
                panic!();
            };
            prepare.apply.request = Some(id.clone());
            behind(vec![Body::Prepare { prepare, floor }], Body::Resolve(id))
        }),
        not_counted("prepare with a probe", Ends::Refused, || {
            behind_a_prepared_one(prepare(2, &[("s", card())]))
        }),
        not_counted("decision", Ends::NotTaken, || {
            let (mut story, _) = behind_a_prepared_one(prepare(2, &[("s", card())]));
            story.ask(Body::ProbeAck { txn: txn(1) });
            story.sync();
            let late = story.shard.clock().0 + 100;
            let token = story.ask(decide(2, Some(late)));
            (story, token)
        }),
        waits("read", "delayed", || behind_the_log(one("s", add("a")), fenced_read())),
        waits("snapshot", "delayed", || behind_the_log(one("s", add("a")), snapshot(true))),
        waits("version", "delayed", || behind_the_log(one("s", add("a")), version())),
        waits("inquiry", "delayed", || {
            let prepare = prepare(1, &[("s", add("a"))]);
            behind_the_log(prepare, Body::Inquire { txn: txn(1) })
        }),
        waits("write of the same session", "delayed", || {
            let (mut story, earlier) = behind_a_lock(one("s", add("a")));
            let token = story.follow(earlier, one("t", add("a")));
            (story, token)
        }),
        waits("read of the tree", "delayed", || {
            let mut story = joints::story();
            story.write(joints::ANN, coordination::set("/a", "x"));
            let token = story.of(joints::ANN, coordination::read("/a", false));
            (story, token)
        }),
        waits("write", "whole", || behind_a_flush(one("s", add("a")))),
        waits("read", "whole", || behind_a_flush(read("s", card()))),
        waits("snapshot", "whole", || behind_a_flush(snapshot(false))),
        waits("version", "whole", || behind_a_flush(version())),
        waits("lock", "whole", || behind_a_flush(lock(2, "s", card()))),
        waits("prepare", "whole", || behind_a_flush(prepare(2, &[("s", card())]))),
        waits("unit", "whole", || behind_a_flush(unit(0, 0, &[0], ("s", add("a"))))),
        waits("flush", "whole", || behind_a_flush(Body::Flush { database: None })),
        waits("count", "whole", || behind_a_flush(Body::Count { database: 0 })),
        waits("turn", "whole", || behind_a_flush(acquire(""))),
        waits("turn", "turns", || {
            let mut story = in_2026();
            story.ask(acquire(""));
            story.sync();
            let token = story.ask(acquire(""));
            (story, token)
        }),
        waits("observer", "observers", || {
            let (mut story, ann) = led("here");
            let token = story.ask(observe(&format!("after {ann}"), 0));
            (story, token)
        }),
        waits("block", "blocked", || {
            behind(Vec::new(), Body::Block { keys: vec![Blob::from("s")], takes: None })
        }),
        waits("prepare", "newcomers", || {
            behind_units_of_an_earlier_leader(prepare(1, &[("s", card())]))
        }),
        waits("unit", "newcomers", || behind_units_of_an_earlier_leader(other_unit("s", card()))),
        waits("write", "cuts", || while_it_stands_still(one("s", add("a")))),
        waits("version", "cuts", || while_it_stands_still(version())),
        waits("turn", "cuts", || while_it_stands_still(acquire(""))),
        waits("flush", "cuts", || while_it_stands_still(Body::Flush { database: None })),
        not_counted("freeze", Ends::Error, || {
            behind_a_prepared_one(Body::Cut { cut: 9, step: CutStep::Freeze })
        }),
        waits("follow", "followers", || {
            let mut story = Story::new();
            let token = story.ask(Body::Follow(Following { keys: true, ..Following::default() }));
            story.sync();
            // It is answered at once, and told of changes from then on.
            assert_eq!(answers_to(&mut story, token).len(), 1);
            (story, token)
        }),
        waits("unit", "units", || {
            let mut story = ordered();
            let token = story.ask(unit(1, 0, &[1, 0], ("s", add("a"))));
            story.sync();
            (story, token)
        }),
        waits("read of the tree", "service", || {
            let mut story = joints::story();
            story.prepares(joints::ANN, vec![coordination::set("/a", "x")]);
            let token = story.of(joints::BEN, coordination::read("/a", false));
            story.sync();
            (story, token)
        }),
        waits("change of the tree", "service", || {
            let mut story = joints::story();
            story.prepares(joints::ANN, vec![coordination::set("/a", "x")]);
            let change = coordination::set("/a", "y");
            let token = story.write(joints::BEN, change);
            story.sync();
            (story, token)
        }),
    ]
}

/// Answers to a request since the last call. That it waits is none.
fn answers_to(story: &mut Story, token: u64) -> Vec<Answer> {
    let of_it = |(to, answer): (u64, Answer)| {
        (to == token && !matches!(answer, Answer::Notice(_))).then_some(answer)
    };
    story.answers().into_iter().filter_map(of_it).collect()
}

/// The places where a request waits.
fn in_use(story: &Story) -> Vec<&'static str> {
    let rooms = story.shard.desk.rooms().into_iter().zip(ROOMS);
    rooms.filter(|(room, _)| !room.is_empty()).map(|(_, name)| name).collect()
}

impl Case {
    /// A story at whose end the request waits, and its token.
    fn begin(&self) -> (Story, u64) {
        let (mut story, token) = (self.waits)();
        assert!(answers_to(&mut story, token).is_empty(), "{self}");
        let used = in_use(&story);
        assert!(self.room.is_none_or(|room| used.contains(&room)), "{self}: {used:?}");
        (story, token)
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in {:?}", self.name, self.room)
    }
}

#[test]
fn there_is_a_case_for_every_room_and_all_rooms_are_visited() {
    let mut story = Story::new();
    let mut visited = 0;
    story.shard.desk.each_room(|_, _| visited += 1);
    assert_eq!((visited, story.shard.desk.rooms().len()), (ROOMS.len(), ROOMS.len()));
    let cases = cases();
    let without: Vec<_> =
        ROOMS.iter().filter(|name| cases.iter().all(|case| case.room != Some(**name))).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn every_request_that_waits_is_answered_once_when_the_lead_ends() {
    for case in cases() {
        let (mut story, token) = case.begin();
        story.shard.step_down();
        let ends: Vec<Ends> = answers_to(&mut story, token)
            .into_iter()
            .map(|answer| match answer {
                Answer::NotTaken(_) => Ends::NotTaken,
                Answer::Refused(Refusal::LocksLost) => Ends::Refused,
                Answer::Reply(Reply::Error(_)) => Ends::Error,
                other => panic!("{case}: {other:?}"),
            })
            .collect();
        match case.ends {
            Ends::Silent => assert!(ends.is_empty(), "{case}: {ends:?}"),
            _ => assert_eq!(ends, [case.ends], "{case}"),
        }
        assert!(in_use(&story).is_empty(), "{case}");
    }
}

#[test]
fn no_request_of_a_machine_that_is_gone_waits_on_but_units_that_stand_in_the_order() {
    for case in cases() {
        let (mut story, token) = case.begin();
        let Some(room) = case.room.filter(|room| *room != "units") else { continue };
        story.shard.machine_gone(story.now, G.machine);
        let used = in_use(&story);
        assert!(!used.contains(&room), "{case}: {used:?}");
        story.sync();
        story.pass(1_000_000);
        story.sync();
        let told = answers_to(&mut story, token);
        assert!(told.is_empty(), "{case}: {told:?}");
    }
}
