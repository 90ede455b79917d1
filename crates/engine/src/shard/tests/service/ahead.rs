//! Stories about what sessions send ahead to several shards of a tree that is spread, at one of them.

use super::coordination::{H, children, create, read, set};
use super::*;
use crate::coordination::SpreadStep;
use crate::coordination::service::Command;
use crate::coordination::{Ask, Change, OfSession, SessionNotice, TreeSessionId, Write, Zxid};
use crate::ids::StreamId;
use crate::limits::UNITS_OWE_US;
use crate::pipeline::{Group, StreamMessage, Unit};
use std::sync::Arc;

const ANN: TreeSessionId = TreeSessionId(70);
const BEN: TreeSessionId = TreeSessionId(80);
const STREAM: StreamId = StreamId(Age { began: Timestamp(50), gateway: G });
const ELSEWHERE: ShardId = ShardId(0);

/// Shard 1 of a tree that is spread, which Ann and Ben have entered. `/a` and `/b` are there, and `/a/own`
/// is Ann's.
fn story() -> Story {
    let mut story = Story::of_both();
    for change in [create("/a", false), create("/b", false), create("/a/own", true)] {
        story.write(ANN, change);
    }
    story.then_told();
    story
}

fn change(session: TreeSessionId, change: Change) -> Ask {
    let command = Command::of(session, Write::Change(change));
    Ask::Write(command)
}

/// Units of a stream whose first one is at shard 0.
fn ahead(stream: StreamId, asks: Vec<Ask>) -> Body {
    let homes = std::iter::once(ELSEWHERE).chain(asks.iter().map(|_| ShardId(1))).collect();
    let unit = |(seq, ask): (u32, Ask)| {
        let ops = ask.footprint().tickets();
        Unit { seq, ops, ask: Some(Box::new(ask)) }
    };
    let units = (1..).zip(asks).map(unit).collect();
    Body::Pipeline(Arc::new(Group { stream, homes, units, ..Group::default() }))
}

impl Story {
    fn sends(&mut self, asks: Vec<Ask>) -> u64 {
        let token = self.ask(ahead(STREAM, asks));
        self.sync();
        token
    }

    /// Notes that the units at shard 0 have their proposal, and are closed.
    fn goes_on_elsewhere(&mut self) {
        let (stream, shard, units) = (STREAM, ELSEWHERE, (0, 0));
        let proposal = Timestamp(1);
        let proposed = StreamMessage::Proposed { stream, shard, units, proposal };
        self.shard.hear(self.now, std::iter::once(proposed));
        self.shard
            .hear(self.now, std::iter::once(StreamMessage::Closed { stream, shard, upto: 0 }));
        self.sync();
        self.sync();
    }

    /// Numbers of the units that were carried out, and tokens of other answers.
    fn carried(&mut self) -> (Vec<u32>, Vec<u64>) {
        let (mut carried, mut answered) = (Vec::new(), Vec::new());
        for (token, answer) in self.answers() {
            match answer {
                Answer::Notice(Notice::Session {
                    notice: SessionNotice::Carried { seq, .. },
                    ..
                }) => {
                    carried.push(seq);
                }
                Answer::Coordinated(_) | Answer::Units(_) => answered.push(token),
                _ => {}
            }
        }
        (carried, answered)
    }
}

#[test]
fn what_is_sent_ahead_is_done_when_all_before_it_is_closed_and_others_wait_for_it() {
    let mut story = story();
    let sent = story.sends(vec![change(ANN, set("/a", "x")), Ask::Of(ANN, read("/a", true))]);
    assert_eq!(story.carried(), (vec![], vec![]));
    // What is about the same branch waits, and what its session asks behind it; nothing else does.
    let other = story.of(BEN, read("/b", false));
    story.sync();
    assert_eq!(story.carried(), (vec![], vec![other]));
    let looks = story.of(BEN, read("/a", false));
    let behind = story.write(BEN, set("/b", "y"));
    story.sync();
    assert_eq!(story.carried(), (vec![], vec![]));
    story.goes_on_elsewhere();
    let (carried, mut answered) = story.carried();
    answered.sort_unstable();
    assert_eq!((carried, answered), (vec![1, 2], vec![sent, looks, behind]));
    // Ann watches what she has looked at.
    story.write(BEN, set("/a", "z"));
    story.sync();
    assert_eq!(story.heard()[0], "Data /a");
}

#[test]
fn what_comes_later_says_what_is_answered_and_is_done_behind_what_came_before() {
    let mut story = story();
    story.sends(vec![change(ANN, set("/a", "x"))]);
    let (stream, shard, units) = (STREAM, ELSEWHERE, (0, 0));
    let proposed = StreamMessage::Proposed { stream, shard, units, proposal: Timestamp(1) };
    story.shard.hear(story.now, std::iter::once(proposed));
    story.sync();
    assert_eq!(story.carried(), (vec![], vec![]), "it is not known that the first one is closed");
    let ask = change(ANN, set("/a", "y"));
    let unit = Unit { seq: 2, ops: ask.footprint().tickets(), ask: Some(Box::new(ask)) };
    let homes = vec![ShardId(1), ShardId(1)];
    let (base, fresh, units) = (1, 2, vec![unit]);
    let group = Group { stream, base, fresh, homes, units, ..Group::default() };
    story.ask(Body::Pipeline(Arc::new(group)));
    story.sync();
    story.sync();
    assert_eq!(story.carried().0, [1, 2]);
}

#[test]
fn what_only_looks_keeps_nobody_from_looking() {
    let mut story = story();
    story.sends(vec![Ask::Of(ANN, read("/a", false))]);
    let looks = story.of(BEN, read("/a", false));
    let writes = story.write(BEN, set("/a", "x"));
    story.sync();
    assert_eq!(story.carried(), (vec![], vec![looks]));
    story.goes_on_elsewhere();
    assert_eq!(story.carried().1.last(), Some(&writes));
}

#[test]
fn who_looks_at_the_root_waits_for_what_changes_its_children() {
    let mut story = story();
    story.sends(vec![change(ANN, create("/c", false))]);
    let root = story.of(BEN, children("/", false));
    story.sync();
    assert_eq!(story.carried(), (vec![], vec![]));
    story.goes_on_elsewhere();
    assert!(story.heard().contains(&format!("{root} 4 children")));
}

#[test]
fn a_session_comes_to_another_gateway_behind_what_it_has_sent_ahead() {
    let mut story = story();
    story.sends(vec![change(ANN, set("/a", "x"))]);
    let enters = SpreadStep::Enter { timeout_ms: 6_000, password: [7; 16], joined: Zxid(400) };
    let enters = story.coordinate(H, Ask::Write(Command::of(ANN, Write::Spread(enters))));
    story.sync();
    assert_eq!(story.carried(), (vec![], vec![]));
    story.goes_on_elsewhere();
    let told = story.heard();
    assert!(told[0].starts_with("Carried") && told.contains(&format!("{enters} Done")), "{told:?}");
    // What comes from where it was is late.
    let stream = StreamId(Age { began: Timestamp(60), gateway: G });
    let late = story.ask(ahead(stream, vec![change(ANN, set("/a", "late"))]));
    story.sync();
    assert!(matches!(&story.answers()[..],
        [(token, Answer::Units(units))] if *token == late && units[..] == [None]));
}

#[test]
fn a_session_departs_when_nobody_is_about_to_see_its_nodes_and_then_nobody_is_let_in() {
    let mut story = story();
    story.sends(vec![Ask::Of(BEN, read("/a/own", false))]);
    let departs = Write::Spread(SpreadStep::Depart { ended: Zxid(300) });
    let departs = story.coordinate(G, Ask::Write(Command::of(ANN, departs)));
    story.sync();
    assert_eq!(story.carried(), (vec![], vec![]));
    story.goes_on_elsewhere();
    let (carried, answered) = story.carried();
    assert_eq!((carried, answered.contains(&departs)), (vec![1], true));
    for (began, looks, is_in) in [(60, "/a/own", false), (61, "/b", true)] {
        let stream = StreamId(Age { began: Timestamp(began), gateway: G });
        story.ask(ahead(stream, vec![Ask::Of(BEN, read(looks, false))]));
        story.sync();
        assert_eq!(story.answers().is_empty(), is_in, "{looks}");
    }
}

#[test]
fn who_has_waited_long_for_what_is_sent_ahead_is_owed_its_turn() {
    let mut story = story();
    story.sends(vec![change(ANN, set("/a", "x"))]);
    let waits = story.write(BEN, set("/a", "y"));
    let another = |began| {
        let stream = StreamId(Age { began: Timestamp(began), gateway: G });
        ahead(stream, vec![change(ANN, set("/a", "z"))])
    };
    story.ask(another(60));
    story.sync();
    assert!(story.answers().is_empty(), "it is let in");
    story.pass(UNITS_OWE_US);
    story.ask(another(61));
    story.sync();
    assert!(matches!(&story.answers()[..], [(_, Answer::Units(units))] if units[..] == [None]));
    story.goes_on_elsewhere();
    assert!(!story.carried().1.contains(&waits), "the second one that was let in comes first");
}

#[test]
fn the_next_leader_does_what_was_sent_ahead_and_other_replicas_do_the_same() {
    let mut story = story();
    story.sends(vec![change(ANN, set("/a", "x")), Ask::Of(ANN, read("/a", false))]);
    // Another replica begins with a snapshot.
    let state = story.restored();
    assert_eq!(state.asks(), story.shard.state().asks());
    assert_eq!(state.asks().len(), 2);
    story.shard.step_down();
    story.shard.lead(story.now, 2);
    story.answers();
    let waits = story.coordinate(G, Ask::Resume { session: BEN, password: [7; 16] });
    story.sync();
    let looks = story.of(BEN, read("/a", false));
    story.sync();
    assert_eq!(story.carried(), (vec![], vec![waits]), "nobody comes before it");
    story.goes_on_elsewhere();
    // The client gets no answer, and comes back.
    assert_eq!(story.heard(), [format!("{looks} data x")]);
    assert!(story.shard.state().asks().is_empty());
}

#[test]
fn nothing_is_sent_ahead_for_a_session_that_is_not_here_or_has_something_waiting() {
    let mut story = story();
    let session = TreeSessionId(90);
    let asks = [
        vec![change(session, set("/a", "x"))],
        vec![change(ANN, set("/a", "x")), change(BEN, set("/a", "x"))],
        vec![Ask::Of(ANN, OfSession::Ping)],
    ];
    for (began, asks) in (60..).zip(asks) {
        let stream = StreamId(Age { began: Timestamp(began), gateway: G });
        story.ask(ahead(stream, asks));
        story.sync();
        assert!(matches!(&story.answers()[..], [(_, Answer::Units(units))]
            if units.iter().all(Option::is_none)));
    }
    assert!(story.shard.state().asks().is_empty());
}
