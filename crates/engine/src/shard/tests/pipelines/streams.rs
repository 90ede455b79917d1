//! Stories about units of pipelines that go to several shards.

use super::*;
use crate::ids::StreamId;
use crate::limits::{ASK_UNITS_US, STREAM_KEPT_US, UNITS_LATE_US};
use crate::pipeline::{Group, StreamMessage, Unit};
use std::sync::Arc;

const STREAM: StreamId = StreamId(Age { began: Timestamp(50), gateway: G });

/// A shard that takes units of streams.
pub(in crate::shard::tests) fn ordered() -> Story {
    let mut story = Story::new();
    story.shard.lead(story.now, 1);
    story
}

/// One unit, whose stream goes to these shards up to there.
pub(in crate::shard::tests) fn unit(seq: u32, fresh: u32, homes: &[u16], op: (&str, Op)) -> Body {
    let ops = [(Blob::from(op.0), op.1)].into_iter().collect();
    let homes = homes.iter().map(|home| ShardId(*home)).collect();
    let units = vec![Unit { seq, ops, ..Unit::default() }];
    Body::Pipeline(Arc::new(Group { stream: STREAM, fresh, homes, units, ..Group::default() }))
}

/// The first unit of another stream, behind which nothing comes.
pub(in crate::shard::tests) fn other_unit(key: &str, op: Op) -> Body {
    let stream = StreamId(Age { began: Timestamp(60), gateway: G });
    let Body::Pipeline(group) = unit(0, 0, &[0], (key, op)) else {
        return Body::Count { database: 0 };
    };
    Body::Pipeline(Arc::new(Group { stream, ..(*group).clone() }))
}

/// Groups of one unit that have failed.
fn failed(answers: &[(u64, Answer)]) -> Vec<u64> {
    let failed = |answer: &Answer| matches!(answer, Answer::Units(units) if units[..] == [None]);
    answers.iter().filter(|(_, answer)| failed(answer)).map(|(token, _)| *token).collect()
}

impl Story {
    /// Shard 1 waits for a unit of this one.
    fn is_asked_for(&mut self, seq: u32) {
        let (shard, units) = (ShardId(1), vec![seq]);
        let word = StreamMessage::Asks { stream: STREAM, shard, hurries: false, units };
        self.shard.hear(self.now, std::iter::once(word));
    }

    /// Notes that the units of the stream at shard 1 are closed up to here.
    fn closes_elsewhere(&mut self, upto: u32) {
        let word = StreamMessage::Closed { stream: STREAM, shard: ShardId(1), upto };
        self.shard.hear(self.now, std::iter::once(word));
    }

    /// This replica loses the lead and gets it again: it knows what is in the log.
    pub(in crate::shard::tests) fn led_anew(mut self) -> Self {
        self.shard.step_down();
        self.answers();
        self.shard.lead(self.now, 2);
        self
    }

    fn words(&mut self) -> Vec<StreamMessage> {
        self.shard.streams_mut().take_stream_messages().into_iter().map(|(_, word)| word).collect()
    }

    /// Numbers up to which the shard has reported its units as closed.
    fn closed(&mut self) -> Vec<u32> {
        let closed = |word: StreamMessage| match word {
            StreamMessage::Closed { upto, .. } => Some(upto),
            _ => None,
        };
        self.words().into_iter().filter_map(closed).collect()
    }

    fn is_proposed_elsewhere(&mut self, seq: u32, proposal: u64) {
        let (units, proposal) = ((seq, seq), Timestamp(proposal));
        let word = StreamMessage::Proposed { stream: STREAM, shard: ShardId(1), units, proposal };
        self.shard.hear(self.now, std::iter::once(word));
    }
}

/// Whether a shard remembers anything about streams.
fn knows_streams(shard: &Shard) -> bool {
    !shard.streams().is_quiet() || !shard.state().streams().is_empty()
}

#[test]
fn a_transaction_that_a_unit_waits_for_is_to_give_way() {
    let mut story = ordered();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.ask(unit(0, 0, &[0, 1], ("s", card())));
    assert_eq!(story.seen(), ["1 prepared", "0 probe 1"]);
    story.ask(Body::ProbeAck { txn: txn(1) });
    story.sync();
    // It may wait for others of the stream at another shard, which does not know of this.
    assert_eq!(story.seen(), ["0 wound 1"]);
}

#[test]
fn what_a_program_was_told_before_its_transaction_was_prepared_holds_under_the_next_leader() {
    let mut story = ordered();
    story.ask(lock(1, "s", add("a")));
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    assert_eq!(story.seen(), ["1 locked 1", "2 prepared"]);
    // The locks were in the memory of the leader before.
    let mut story = story.led_anew();
    let unit = story.ask(other_unit("s", add("a")));
    let other = story.ask(prepare(2, &[("s", add("a"))]));
    // Its gateway is asked, and has not decided yet.
    story.ask(Body::ProbeAck { txn: txn(1) });
    story.sync();
    let later = Timestamp::from_micros(story.now.wall_us + 5).0;
    let decided = story.ask(decide(1, Some(later)));
    story.sync();
    story.sync();
    let seen = story.seen();
    let at = |token: u64, what: &str| {
        let wanted = format!("{token} {what}");
        seen.iter().position(|answer| answer.starts_with(&wanted)).expect(&wanted)
    };
    assert!(at(decided, "done 1") < at(other, "prepared"), "{seen:?}");
    assert!(seen[at(unit, "Units")].contains("Int(0)"), "{seen:?}");
}

#[test]
fn what_a_program_has_read_here_before_it_wrote_elsewhere_holds_under_the_next_leader() {
    let mut story = ordered();
    story.ask(lock(1, "s", card()));
    story.ask(prepare(1, &[]));
    story.sync();
    assert_eq!(story.seen(), ["1 locked 0", "2 prepared"]);
    let mut story = story.led_anew();
    let write = story.ask(one("s", add("a")));
    let other = story.ask(one("t", add("a")));
    story.sync();
    assert_eq!(story.seen(), [format!("{other} done 1")], "it would come before the commit");
    let later = Timestamp::from_micros(story.now.wall_us + 5).0;
    story.ask(decide(1, Some(later)));
    story.sync();
    assert!(story.seen().contains(&format!("{write} done 1")));
}

#[test]
fn a_decided_transaction_that_waits_for_a_unit_keeps_nobody_from_what_it_has_read() {
    let mut story = ordered();
    story.ask(unit(1, 0, &[1, 0], ("t", card())));
    story.sync();
    story.ask(lock(1, "s", card()));
    story.ask(prepare(1, &[("t", add("a"))]));
    story.sync();
    let later = Timestamp::from_micros(story.now.wall_us + 5).0;
    story.ask(decide(1, Some(later)));
    // The unit may be one that waits, at another shard, for what this one changes.
    story.ask(prepare(2, &[("s", add("b"))]));
    story.sync();
    assert_eq!(story.seen(), ["2 locked 0", "3 prepared", "5 prepared"]);
}

#[test]
fn a_prepare_passes_an_operation_that_waits_for_another_record() {
    let mut story = ordered();
    story.ask(unit(1, 0, &[1, 0], ("t", add("a"))));
    story.sync();
    story.ask(lock(1, "s", card()));
    let both = [("t", card()), ("s", add("b"))];
    story.ask(Body::Apply(apply(&both)));
    let later = Timestamp::from_micros(story.now.wall_us + 5).0;
    story.ask(prepare(later, &[("s", add("c"))]));
    assert_eq!(story.seen(), ["2 locked 0", "4 blocked"]);
    story.ask(Body::Release { txn: txn(1), after: Timestamp::ZERO });
    story.sync();
    assert_eq!(story.seen(), ["4 prepared"], "the operation waits for the unit");
}

#[test]
fn a_unit_that_came_into_the_log_before_an_earlier_one_does_not_close_it() {
    let mut story = ordered();
    // Not decided: the first unit may come before it or after it.
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.ask(unit(0, 0, &[0, 1], ("s", card())));
    assert_eq!(story.seen(), ["1 prepared", "0 probe 1"]);
    story.ask(unit(2, 2, &[0, 1, 0], ("t", add("a"))));
    story.sync();
    story.ask(Body::ProbeAck { txn: txn(1) });
    story.sync();
    let proposed = story.words();
    let is_of = |seq| {
        move |message: &StreamMessage| {
            let StreamMessage::Proposed { units, .. } = message else { return false };
            units.0 == seq
        }
    };
    assert!(proposed.iter().any(is_of(0)), "the other shard has a later unit: {proposed:?}");
    story.is_proposed_elsewhere(1, 1);
    story.sync();
    let none: Vec<u32> = Vec::new();
    assert_eq!(story.closed(), none, "the first unit waits for the transaction");
    story.ask(decide(1, None));
    story.sync();
    assert_eq!(story.closed(), [2], "both are closed at once");
}

#[test]
fn what_became_of_a_pipeline_that_was_forgotten_is_not_known_and_it_does_not_take_effect_twice() {
    let mut story = ordered();
    let first = unit(0, 0, &[0], ("s", add("a")));
    let Body::Pipeline(group) = &first else { panic!() };
    let again = Body::Pipeline(Arc::clone(group));
    story.ask(first);
    story.sync();
    story.sync();
    // No message says that it is over.
    story.pass(STREAM_KEPT_US);
    story.sync();
    assert_eq!(story.shard.state().streams().len(), 0);
    story.answers();
    story.ask(again);
    story.sync();
    assert_eq!(story.seen(), ["2 Unknown"]);
    // Younger streams of the same gateway are let in.
    let younger = StreamId(Age { began: Timestamp(51), gateway: G });
    let Body::Pipeline(group) = unit(0, 0, &[0], ("s", add("b"))) else { panic!() };
    story.ask(Body::Pipeline(Arc::new(Group { stream: younger, ..(*group).clone() })));
    story.sync();
    assert!(matches!(story.answers()[..], [(3, Answer::Units(ref units))] if units[0].is_some()));
}

#[test]
fn nothing_of_a_refused_pipeline_gets_into_the_log_behind_that() {
    let mut story = ordered();
    // Not decided: the first unit waits until it is known that it may come before this.
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    let first = story.ask(unit(1, 1, &[1, 0], ("s", card())));
    let later = story.ask(unit(3, 3, &[1, 0, 1, 0], ("t", add("a"))));
    story.sync();
    story.seen();
    story.is_asked_for(5);
    story.pass(UNITS_LATE_US);
    assert!(story.answers().is_empty(), "the log of another leader may have it");
    story.ask(Body::ProbeAck { txn: txn(1) });
    story.sync();
    assert_eq!(failed(&story.answers()), [first, later], "the second comes after what has failed");
    let refused = |word: StreamMessage| match word {
        StreamMessage::Refused { seq, .. } => Some(seq),
        _ => None,
    };
    let refused: Vec<u32> = story.words().into_iter().filter_map(refused).collect();
    assert!(!refused.is_empty() && refused.iter().all(|seq| *seq == 1), "{refused:?}");
    assert!(story.shard.state().streams().get(STREAM).unwrap().group(1).is_none());
}

#[test]
fn a_leader_that_was_deposed_refuses_nothing() {
    let mut story = ordered();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.seen();
    let waiting = story.ask(unit(1, 1, &[1, 0], ("s", card())));
    story.answers();
    story.is_asked_for(1);
    story.pass(UNITS_LATE_US);
    // The next leader's log may have had the unit all the time.
    story.shard.step_down();
    let answers = story.answers();
    assert!(
        matches!(&answers[..], [(token, Answer::NotTaken(_))] if *token == waiting),
        "{answers:?}"
    );
}

#[test]
fn a_unit_that_came_late_is_not_refused() {
    let mut story = ordered();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.ask(unit(1, 1, &[1, 0], ("s", card())));
    // It waits for the transaction and is not in the log.
    story.is_asked_for(1);
    story.ask(Body::ProbeAck { txn: txn(1) });
    story.sync();
    story.words();
    story.pass(UNITS_LATE_US);
    story.sync();
    let told = story.words();
    assert!(!told.iter().any(|word| matches!(word, StreamMessage::Refused { .. })), "{told:?}");
    assert!(!story.shard.state().streams().get(STREAM).unwrap().refused);
}

#[test]
fn slots_are_not_given_away_while_a_unit_is_on_its_way_to_the_log() {
    let mut story = ordered();
    let all = (0, crate::limits::SLOTS - 1);
    assert!(story.shard.begin_giving(all));
    let mut story = ordered();
    story.ask(unit(0, 0, &[0, 1], ("s", add("a"))));
    assert!(!story.shard.begin_giving(all), "nothing of it is in the log");
    story.sync();
    assert!(!story.shard.begin_giving(all), "it is not settled");
}

#[test]
fn a_transaction_that_is_held_back_and_never_will_be_prepared_is_told_so() {
    let mut story = ordered();
    story.ask(unit(1, 1, &[1, 0], ("s", add("a"))));
    story.sync();
    // The next leader does not know which place the unit had.
    let mut story = story.led_anew();
    let held = story.ask(prepare(1, &[("s", card())]));
    assert!(story.seen().is_empty());
    let asked = story.ask(Body::Inquire { txn: txn(1) });
    story.sync();
    assert_eq!(story.seen(), [format!("{held} refused LocksLost"), format!("{asked} Fate(Void)")]);
}

#[test]
fn a_new_leader_asks_for_what_the_places_of_units_hang_on_and_keeps_the_rest_waiting() {
    let mut story = ordered();
    story.ask(unit(1, 1, &[1, 0], ("s", card())));
    story.sync();
    let mut story = story.led_anew();
    story.pass(1);
    let hurries = |message: &StreamMessage| {
        let StreamMessage::Asks { hurries: true, units, .. } = message else { return false };
        units[..] == [0]
    };
    let words = story.words();
    assert!(words.iter().any(hurries), "{words:?}");
    let newcomer = story.ask(other_unit("s", add("a")));
    story.sync();
    assert!(story.answers().is_empty(), "an earlier leader may have given the first one any place");
    story.is_proposed_elsewhere(0, 1);
    story.closes_elsewhere(0);
    story.sync();
    story.sync();
    let answered: Vec<u64> = story.answers().into_iter().map(|(token, _)| token).collect();
    assert_eq!(answered, [newcomer], "the gateway has not asked the new leader for the first");
}

#[test]
fn a_proposal_that_got_lost_is_asked_for_again_and_again() {
    let mut story = ordered();
    story.ask(unit(1, 0, &[1, 0], ("s", add("a"))));
    story.sync();
    let asks = |word: &StreamMessage| matches!(word, StreamMessage::Asks { units, .. } if units[..] == [0]);
    for times in 0..3_u32 {
        story.words();
        story.pass(ASK_UNITS_US << (times + 1));
        let words = story.words();
        assert!(words.iter().any(asks), "time {times}: {words:?}");
    }
    story.is_proposed_elsewhere(0, 1);
    story.sync();
    assert_eq!(story.answers().len(), 1);
    assert_eq!(story.words().iter().filter(|word| asks(word)).count(), 0);
}

#[test]
fn words_that_come_twice_or_late_change_nothing() {
    let mut story = ordered();
    story.is_proposed_elsewhere(0, 1);
    story.closes_elsewhere(0);
    story.ask(unit(1, 0, &[1, 0], ("s", add("a"))));
    story.sync();
    assert_eq!(story.answers().len(), 1, "what has come before the unit counts");
    for _ in 0..2 {
        story.is_proposed_elsewhere(0, 1);
        story.closes_elsewhere(0);
        story.sync();
    }
    assert!(story.answers().is_empty());
    let read = story.ask(read("s", card()));
    assert_eq!(story.seen(), [format!("{read} = 1")]);
}

#[test]
fn a_group_that_is_sent_again_is_answered_as_it_was_and_takes_effect_once() {
    let mut story = ordered();
    let group = unit(0, 0, &[0, 1], ("s", add("a")));
    let Body::Pipeline(again) = &group else { panic!() };
    let again = Arc::clone(again);
    story.ask(group);
    story.sync();
    let first = story.seen();
    // To the same leader, and to the next one, which has only the log.
    story.ask(Body::Pipeline(Arc::clone(&again)));
    story.sync();
    assert_eq!(story.seen()[0].replace("2 ", "1 "), first[0]);
    let mut story = story.led_anew();
    story.ask(Body::Pipeline(again));
    story.sync();
    story.sync();
    let answers = story.answers();
    assert!(
        matches!(&answers[..], [(_, Answer::Units(units))] if units[0].is_some()),
        "{answers:?}"
    );
    let read = story.ask(read("s", card()));
    assert_eq!(story.seen(), [format!("{read} = 1")]);
}

#[test]
fn a_stream_is_forgotten_when_its_gateway_and_all_its_shards_have_said_so() {
    let mut story = ordered();
    story.ask(unit(0, 0, &[0, 1], ("s", add("a"))));
    story.sync();
    story.sync();
    let shards = vec![ShardId(0), ShardId(1)];
    story.ask(Body::EndStream { stream: STREAM, shards });
    story.sync();
    let settled =
        |word: &StreamMessage| matches!(word, StreamMessage::Settled { shard: ShardId(0), .. });
    assert!(story.words().iter().any(settled));
    assert!(knows_streams(&story.shard), "a new leader of the other shard may ask");
    story.shard.hear(
        story.now,
        [StreamMessage::Settled { stream: STREAM, shard: ShardId(1) }].into_iter(),
    );
    story.pass(1);
    story.sync();
    assert!(!knows_streams(&story.shard));
}

#[test]
fn what_joins_a_stream_asks_each_shard_once_for_what_was_sent_before() {
    let mut story = ordered();
    let asked = |story: &mut Story, body| {
        story.ask(body);
        story.sync();
        let words = story.shard.streams_mut().take_stream_messages().into_iter();
        let asked = words.filter_map(|(to, word)| match word {
            StreamMessage::Asks { units, .. } => Some((to.0, units)),
            _ => None,
        });
        asked.collect::<Vec<_>>()
    };
    assert_eq!(asked(&mut story, unit(0, 0, &[0, 1], ("a", add("x")))), []);
    let next = unit(3, 3, &[0, 1, 1, 0], ("b", add("x")));
    assert_eq!(asked(&mut story, next), [(1, vec![1, 2])], "it was not in what they were told");
    // The shard that was asked sends the rest.
    let last = unit(5, 5, &[0, 1, 1, 0, 1, 0], ("c", add("x")));
    assert_eq!(asked(&mut story, last), []);
}

#[test]
fn whoever_asks_is_told_of_everything_since() {
    let mut story = ordered();
    for (seq, key) in [(0, "a"), (1, "b"), (2, "c")] {
        story.ask(unit(seq, seq, &[0, 0, 0, 1][..=seq as usize], (key, add("x"))));
        story.sync();
    }
    story.shard.streams_mut().take_stream_messages();
    story.is_asked_for(1);
    let told =
        story.shard.streams_mut().take_stream_messages().into_iter().filter_map(|(_, word)| {
            match word {
                StreamMessage::Proposed { units, .. } => Some(units.0),
                _ => None,
            }
        });
    assert_eq!(told.collect::<Vec<_>>(), [1, 2], "it may not know yet that there is a third one");
}

#[test]
fn a_wait_that_begins_in_the_turn_in_which_a_unit_takes_effect_hears_of_it() {
    let mut story = ordered();
    let unit = story.ask(other_unit("s", add("a")));
    // The wait begins when the read before it has seen the unit's record in the log.
    let fenced = story.ask(Body::Read { key: Blob::from("t"), op: card(), fenced: true });
    let wait = Body::Block { keys: vec![Blob::from("s")], takes: None };
    let wait = Request { after: Some(Token(fenced)), ..story.request(wait) };
    let token = wait.token.0;
    story.shard.handle(story.now, wait);
    story.sync();
    let seen = story.seen();
    assert_eq!(
        seen[..3],
        [format!("{fenced} = 0"), format!("{token} blocked"), format!("{token} ready")]
    );
    assert!(seen[3].starts_with(&format!("{unit} Units")), "{seen:?}");
}
