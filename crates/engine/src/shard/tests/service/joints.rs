//! Stories about a `multi` over several shards, at one of them: which requests wait for what it has prepared,
//! and for how long.

use super::coordination::{H, create, read, set};
use super::*;
use crate::coordination::JointId;
use crate::coordination::SpreadStep;
use crate::coordination::service::Command;
use crate::coordination::{Ask, Change, TreeSessionId, Write, Zxid};
use crate::ids::StreamId;
use crate::limits::ENDS_AGAIN_US;
use crate::pipeline::{Group, Unit};
use std::sync::Arc;

pub(in crate::shard::tests) const ANN: TreeSessionId = TreeSessionId(70);
pub(in crate::shard::tests) const BEN: TreeSessionId = TreeSessionId(80);
const ID: JointId = JointId { joined: Zxid(100), number: 1 };

/// A leader of shard 1 that both have entered; `/a` and `/b` are there, and `/b/own` is Ben's.
pub(in crate::shard::tests) fn story() -> Story {
    let mut story = Story::of_both();
    story.write(ANN, create("/a", false));
    story.write(ANN, create("/b", false));
    story.write(BEN, create("/b/own", true));
    story.then_told();
    story
}

impl Story {
    fn says_step(&mut self, session: TreeSessionId, step: SpreadStep) -> u64 {
        let token = self.coordinate(G, Ask::Write(Command::of(session, Write::Spread(step))));
        self.sync();
        token
    }

    pub(in crate::shard::tests) fn prepares(
        &mut self,
        session: TreeSessionId,
        changes: Vec<Change>,
    ) -> u64 {
        let shards = vec![ShardId(0), ShardId(1)];
        self.says_step(session, SpreadStep::Prepare { id: ID, shards, changes })
    }

    fn decides(&mut self, session: TreeSessionId, commit: bool) -> u64 {
        self.says_step(session, SpreadStep::Decide { id: ID, commit })
    }

    /// The tokens of what is answered.
    fn answers_to(&mut self) -> Vec<u64> {
        let answers = self.answers().into_iter();
        answers.filter(|(token, _)| *token > 0).map(|(token, _)| token).collect()
    }

    /// A unit that a session sends ahead.
    fn sends_ahead(&mut self, session: TreeSessionId, began: u64, change: Change) -> u64 {
        let ask = Ask::Write(Command::of(session, Write::Change(change)));
        let stream = StreamId(Age { began: Timestamp(began), gateway: G });
        let ops = ask.footprint().tickets();
        let units = vec![Unit { seq: 1, ops, ask: Some(Box::new(ask)) }];
        let homes = vec![ShardId(0), ShardId(1)];
        self.ask(Body::Pipeline(Arc::new(Group { stream, homes, units, ..Group::default() })))
    }
}

#[test]
fn others_wait_for_what_is_prepared_where_it_is_about_the_same_branch() {
    let mut story = story();
    let prepared = story.prepares(ANN, vec![set("/a", "x")]);
    assert_eq!(story.answers_to(), [prepared]);
    let elsewhere = story.of(BEN, read("/b", false));
    assert_eq!(story.answers_to(), [elsewhere]);
    let looks = story.of(BEN, read("/a", false));
    story.sync();
    assert!(story.answers_to().is_empty());
    let decided = story.decides(ANN, true);
    assert_eq!(
        story.heard(),
        [format!("{decided} Multi([Ok(Stat({:?}))])", stat(&story)), format!("{looks} data x")]
    );
    // What is given up has no effect, and lets others go on as well.
    let mut story = self::story();
    story.prepares(ANN, vec![set("/a", "x")]);
    let writes = story.write(BEN, set("/a", "y"));
    let (given_up, _) = (story.decides(ANN, false), story.sync());
    assert_eq!(story.answers_to().last(), Some(&writes));
    assert!(given_up > 0 && stat(&story).version == 1);
}

fn stat(story: &Story) -> crate::coordination::Stat {
    story.shard.state().coordination().tree().get(b"/a").unwrap().stat()
}

#[test]
fn two_that_are_about_the_same_are_prepared_one_after_the_other() {
    let mut story = story();
    story.prepares(ANN, vec![set("/a", "x"), set("/b", "x")]);
    story.answers();
    let second = story.prepares(BEN, vec![set("/b", "y")]);
    assert!(story.answers_to().is_empty());
    let decided = story.decides(ANN, true);
    assert_eq!(story.answers_to(), [decided]);
    story.sync();
    assert_eq!(story.answers_to(), [second]);
    let waits = story.of(ANN, read("/b", false));
    assert!(story.answers_to().is_empty());
    story.decides(BEN, true);
    assert_eq!(story.answers_to().last(), Some(&waits));
}

#[test]
fn what_is_sent_ahead_is_refused_where_something_is_prepared_and_comes_first_where_it_was_before() {
    let mut story = story();
    story.prepares(ANN, vec![set("/a", "x")]);
    story.answers();
    for (began, path, is_in) in [(50, "/a", false), (51, "/b", true)] {
        story.sends_ahead(BEN, began, set(path, "y"));
        story.sync();
        assert_eq!(story.answers().is_empty(), is_in, "{path}");
    }
    story.decides(ANN, true);
    story.answers();
    let waits = story.says_step(ANN, SpreadStep::Inquire { id: ID });
    assert_eq!(story.answers_to(), [waits]);
    let id = JointId { number: 2, ..ID };
    let shards = vec![ShardId(0), ShardId(1)];
    story.says_step(ANN, SpreadStep::Prepare { id, shards, changes: vec![set("/b", "x")] });
    assert!(story.answers_to().is_empty(), "the unit on that branch is not settled");
}

#[test]
fn a_session_comes_to_another_gateway_and_ends_behind_what_it_has_prepared() {
    for ends in [false, true] {
        let mut story = story();
        story.prepares(ANN, vec![create("/a/own", true)]);
        story.answers();
        let step = match ends {
            true => SpreadStep::Depart { ended: Zxid(300) },
            false => SpreadStep::Enter { timeout_ms: 6_000, password: [7; 16], joined: Zxid(400) },
        };
        let asks = Ask::Write(Command::of(ANN, Write::Spread(step)));
        let waits = story.coordinate(H, asks);
        story.sync();
        assert!(story.answers_to().is_empty());
        story.decides(ANN, true);
        story.sync();
        assert!(story.answers_to().contains(&waits));
        let kept = story.shard.state().coordination().kept(ANN).unwrap();
        assert_eq!(kept.ephemerals.len(), 1);
    }
}

#[test]
fn nothing_is_prepared_about_nodes_that_are_hidden() {
    let mut story = story();
    story.says_step(BEN, SpreadStep::Depart { ended: Zxid(300) });
    story.answers();
    let refused = story.prepares(ANN, vec![set("/b/own", "x")]);
    assert_eq!(story.heard(), [format!("{refused} Done")]);
    assert!(story.shard.state().coordination().prepared().next().is_none());
}

#[test]
fn a_session_departs_behind_what_is_prepared_about_its_nodes() {
    let mut story = story();
    story.prepares(ANN, vec![set("/b/own", "x")]);
    story.answers();
    let departs = Write::Spread(SpreadStep::Depart { ended: Zxid(300) });
    let departs = story.coordinate(G, Ask::Write(Command::of(BEN, departs)));
    story.sync();
    assert!(story.answers_to().is_empty());
    story.decides(ANN, true);
    story.sync();
    assert_eq!(story.answers_to().last(), Some(&departs));
}

#[test]
fn the_next_leader_holds_what_is_prepared_and_asks_what_becomes_of_it() {
    let mut story = story();
    story.prepares(ANN, vec![set("/a", "x")]);
    story.answers();
    story.pass(ENDS_AGAIN_US);
    let shards = vec![ShardId(0), ShardId(1)];
    let asks = |answer: &Answer| {
        matches!(answer, Answer::Notice(Notice::Undecided { session: ANN, id: ID, shards: of })
            if *of == shards)
    };
    let told = story.answers();
    assert!(matches!(&told[..], [(0, answer)] if asks(answer)), "{told:?}");
    // Another replica begins with a snapshot.
    let state = story.restored();
    assert_eq!(state.coordination(), story.shard.state().coordination());
    story.shard.step_down();
    story.shard.lead(story.now, 2);
    story.pass(1);
    let told = story.answers();
    assert!(told.iter().any(|(_, answer)| asks(answer)), "{told:?}");
    story.coordinate(G, Ask::Resume { session: BEN, password: [7; 16] });
    story.sync();
    story.answers();
    let looks = story.of(BEN, read("/a", false));
    story.sync();
    assert!(story.answers_to().is_empty());
    let decided = story.decides(ANN, true);
    let answers = story.answers();
    // Ann has not come back, and may have missed what this leader would have told her.
    assert!(answers.iter().any(|(token, answer)| *token == decided
        && matches!(answer, Answer::Coordinated(answered) if answered.notices == u64::MAX)));
    assert!(answers.iter().any(|(token, _)| *token == looks));
    story.pass(2 * ENDS_AGAIN_US);
    assert_eq!(story.heard(), Vec::<String>::new(), "it is decided");
}
