//! Stories about sessions that are at several shards of a tree that is spread: how they enter one, and how
//! they end at all of them.

use super::coordination::{H, children, create, read, set};
use super::*;
use crate::coordination::SpreadStep;
use crate::coordination::service::Command;
use crate::coordination::spread::Spread;
use crate::coordination::{Ask, OfSession, Reply as R, TreeSessionId, Write, Zxid};
use crate::message::CutStep;

const ANN: TreeSessionId = TreeSessionId(70);
const BEN: TreeSessionId = TreeSessionId(80);

impl Story {
    /// A shard of a tree that is spread.
    pub(super) fn of_shard(id: u16) -> Self {
        let config = ShardConfig { id: ShardId(id), ..Self::new().shard.desk.core.config };
        Self::leading(config)
    }

    /// A leader of one that both have entered.
    pub(super) fn of_both() -> Self {
        let mut story = Self::of_shard(1);
        story.shard.lead(story.now, 1);
        story.enter(G, ANN, 100);
        story.enter(G, BEN, 101);
        story
    }

    /// One that Ann has departed from, whose `/a` is hidden until her end is known, and that Ben has entered.
    fn without_ann() -> Self {
        let mut story = Self::of_shard(1);
        story.enter(G, ANN, 100);
        story.enter(G, BEN, 101);
        story.write(ANN, create("/a", true));
        story.then_told();
        story.spread_step(G, ANN, SpreadStep::Depart { ended: Zxid(300) });
        story.then_told();
        story
    }

    fn spread_step(&mut self, gateway: GatewayId, session: TreeSessionId, step: SpreadStep) -> u64 {
        self.coordinate(gateway, Ask::Write(Command::of(session, Write::Spread(step))))
    }

    /// A session enters this shard, with the number of its change at shard 0.
    pub(super) fn enter(&mut self, gateway: GatewayId, session: TreeSessionId, joined: i64) {
        let (timeout_ms, joined) = (6_000, Zxid(joined));
        self.spread_step(
            gateway,
            session,
            SpreadStep::Enter { timeout_ms, password: [7; 16], joined },
        );
        self.sync();
    }

    fn close(&mut self, session: TreeSessionId) -> u64 {
        let token = self.coordinate(G, Ask::Write(Command::of(session, Write::Close)));
        self.sync();
        token
    }

    /// Notices to gateways from now on.
    pub(super) fn then_told(&mut self) -> Vec<String> {
        self.sync();
        self.heard()
    }
}

#[test]
fn whoever_has_entered_last_is_the_one_who_is_served() {
    let mut story = Story::of_shard(1);
    let early = story.write(ANN, create("/a", false));
    assert_eq!(story.then_told(), [format!("{early} SessionExpired")]);
    story.enter(G, ANN, 100);
    story.heard();
    let created = story.write(ANN, create("/a", true));
    assert_eq!(story.then_told(), [format!("{created} created /a")]);
    // It comes back to another gateway. What the first one has sent, and has not arrived, is late.
    story.enter(H, ANN, 200);
    assert_eq!(story.heard()[0], "Moved");
    let late = story.write(ANN, set("/a", "x"));
    assert_eq!(story.then_told(), [format!("{late} SessionMoved")]);
    for number in [100, 200] {
        story.enter(G, ANN, number);
        assert!(story.heard()[0].ends_with("SessionMoved"), "{number} is not the last one");
    }
}

#[test]
fn nobody_enters_who_may_have_ended_since_he_joined() {
    let mut story = Story::of_shard(1);
    story.spread_step(G, ANN, SpreadStep::Depart { ended: Zxid(300) });
    story.then_told();
    for (session, joined, enters) in [(ANN, 100, false), (BEN, 299, false), (BEN, 301, true)] {
        story.enter(G, session, joined);
        assert_eq!(story.heard()[0].ends_with("Done"), enters, "{session:?} {joined}");
    }
}

#[test]
fn what_could_show_a_node_whose_session_ends_waits_until_that_is_certain() {
    let mut story = Story::of_shard(1);
    story.enter(G, ANN, 100);
    story.enter(G, BEN, 101);
    story.write(ANN, create("/a", false));
    story.write(ANN, create("/a/own", true));
    story.write(BEN, create("/b", false));
    story.then_told();
    story.of(BEN, children("/a", true));
    story.then_told();
    let departed = story.spread_step(G, ANN, SpreadStep::Depart { ended: Zxid(300) });
    assert_eq!(story.then_told(), [format!("{departed} Done")]);
    let refused = story.write(ANN, set("/b", "x"));
    assert_eq!(story.then_told(), [format!("{refused} SessionMoved")]);
    // What is about something else goes on, until its session waits for what does not.
    let other = story.of(BEN, read("/b", false));
    assert_eq!(story.then_told(), [format!("{other} data ")]);
    let looked = story.of(BEN, read("/a/own", false));
    let listed = story.of(BEN, children("/a", false));
    let behind = story.write(BEN, set("/b", "y"));
    assert_eq!(story.then_told(), Vec::<String>::new());
    let gone = story.spread_step(G, ANN, SpreadStep::Gone);
    let expected = [
        "Children /a".to_owned(),
        format!("{looked} NoNode"),
        format!("{listed} 0 children"),
        format!("{gone} Done"),
        format!("{behind} version 1"),
    ];
    let mut told = story.then_told();
    told.extend(story.then_told());
    assert_eq!(told.remove(0), expected[0], "who watches is told first of all");
    told.sort();
    let mut rest = expected[1..].to_vec();
    rest.sort();
    assert_eq!(told, rest);
    // All of it may be said twice.
    story.spread_step(G, ANN, SpreadStep::Gone);
    story.spread_step(G, ANN, SpreadStep::Depart { ended: Zxid(300) });
    story.spread_step(G, ANN, SpreadStep::Gone);
    assert_eq!(story.then_told().len(), 3);
    assert!(story.shard.state().coordination().ending().is_empty());
}

#[test]
fn what_has_waited_is_not_done_for_a_session_that_has_come_back_or_left() {
    for comes_back in [true, false] {
        let mut story = Story::without_ann();
        let waits = story.of(BEN, read("/a", true));
        let behind = story.write(BEN, create("/b", false));
        assert_eq!(story.then_told(), Vec::<String>::new());
        // That its client is there waits for nothing.
        let there = story.of(BEN, OfSession::Ping);
        assert_eq!(story.then_told(), [format!("{there} Done")]);
        if comes_back {
            story.enter(G, BEN, 400);
        } else {
            story.coordinate(G, Ask::Leave(BEN));
        }
        let told = story.then_told();
        for token in [waits, behind] {
            assert!(told.contains(&format!("{token} SessionMoved")), "{told:?}");
        }
        story.spread_step(G, ANN, SpreadStep::Gone);
        assert_eq!(story.then_told().len(), 1);
        assert!(story.shard.state().coordination().tree().is_empty());
    }
}

#[test]
fn what_has_waited_is_not_done_behind_the_session_that_comes_back() {
    for same in [true, false] {
        let mut story = Story::without_ann();
        // One request of an earlier connection waits, another one comes when its session is about to enter.
        let waits = story.write(BEN, set("/a", "x"));
        let enter = SpreadStep::Enter { timeout_ms: 6_000, password: [7; 16], joined: Zxid(400) };
        let enters = story.spread_step(if same { G } else { H }, BEN, enter);
        let late = story.write(BEN, create("/b", false));
        story.spread_step(G, ANN, SpreadStep::Gone);
        let told = story.then_told();
        for (token, what) in [(waits, "SessionMoved"), (late, "SessionMoved"), (enters, "Done")] {
            assert!(told.contains(&format!("{token} {what}")), "{told:?}");
        }
        assert!(story.shard.state().coordination().tree().is_empty());
    }
}

#[test]
fn a_session_keeps_its_order_if_a_backup_begins_while_something_of_it_waits() {
    let mut story = Story::of_shard(1);
    story.enter(G, ANN, 100);
    story.enter(G, BEN, 101);
    story.write(ANN, create("/a", true));
    story.write(BEN, create("/b", false));
    story.spread_step(G, ANN, SpreadStep::Depart { ended: Zxid(300) });
    story.then_told();
    let looks = story.of(BEN, children("/", false));
    story.spread_step(G, ANN, SpreadStep::Gone);
    let cut = |step| Body::Cut { cut: 1, step };
    story.ask(cut(CutStep::Freeze));
    let writes = story.write(BEN, set("/b", "x"));
    story.then_told();
    story.ask(cut(CutStep::Release));
    let told = story.then_told();
    let place = |start: String| told.iter().position(|told| told.starts_with(&start));
    let (first, second) =
        (place(format!("{looks} 2 children")), place(format!("{writes} version 1")));
    assert!(first.is_some() && first < second, "{told:?}");
}

#[test]
fn a_session_ends_when_it_has_departed_from_everywhere_and_then_says_so() {
    let mut story = Story::of_shard(0);
    story.shard.lead(story.now, 1);
    story.spread_step(G, TreeSessionId(0), SpreadStep::Over(Spread::over(2)));
    let ann = story.open();
    story.spread_step(G, ann, SpreadStep::Join(vec![ShardId(1)]));
    story.write(ann, create("/b", true));
    story.of(ann, read("/b", true));
    story.write(ann, set("/b", "x"));
    story.then_told();
    let closed = story.close(ann);
    let told = story.heard();
    assert!(matches!(&told[..], [one] if one.starts_with("Notice(Ending")), "{told:?}");
    story.pass(1);
    assert_eq!(story.heard(), Vec::<String>::new(), "once is enough");
    // The gateway that carries the message may be lost.
    story.pass(crate::limits::ENDS_AGAIN_US);
    let told = story.heard();
    assert!(matches!(&told[..], [one] if one.starts_with("Notice(Ending")), "{told:?}");
    let finished = story.spread_step(G, ann, SpreadStep::Finish);
    story.sync();
    let answers: Vec<(u64, Answer)> = story.answers();
    let [(first, Answer::Coordinated(answered)), (second, _)] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!((*first, *second), (closed, finished));
    assert_eq!((&answered.reply, answered.notices), (&Ok(R::Done), 1), "it was told of a change");
    assert!(story.shard.state().coordination().tree().is_empty());
    story.spread_step(G, ann, SpreadStep::Forget);
    story.then_told();
    assert!(story.shard.state().coordination().ending().is_empty());
    story.pass(2 * crate::limits::ENDS_AGAIN_US);
    assert_eq!(story.heard(), Vec::<String>::new());
}

#[test]
fn the_first_to_say_over_how_many_shards_the_tree_is_decides() {
    let mut story = Story::of_shard(0);
    for over in [4, 2] {
        let said = story.spread_step(G, TreeSessionId(0), SpreadStep::Over(Spread::over(over)));
        assert_eq!(story.then_told(), [format!("{said} Number(4)")]);
    }
    let mut used = Story::of_shard(0);
    used.open();
    let said = used.spread_step(G, TreeSessionId(0), SpreadStep::Over(Spread::over(4)));
    assert_eq!(used.then_told(), [format!("{said} Number(1)")]);
}

#[test]
fn whoever_does_not_know_that_the_tree_is_spread_is_sent_away() {
    let mut story = Story::of_shard(0);
    story.spread_step(G, TreeSessionId(0), SpreadStep::Over(Spread::over(2)));
    let ann = story.open();
    let (here, there) =
        (story.write(ann, create("/b", false)), story.write(ann, create("/a", false)));
    let mut told = story.then_told();
    told.sort();
    assert_eq!(told, [format!("{here} created /b"), format!("{there} SessionMoved")]);
}
