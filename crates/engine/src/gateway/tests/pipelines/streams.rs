//! Pipelines: commands that are sent as they are, commands that become streams, and the outcomes of streams.

use super::*;
use crate::cluster::map::ShardMap;
use crate::limits::WINDOW_UNITS_MAX;
use crate::message::Body;
use crate::pipeline::{Group, UnitOutcome};

impl Story {
    fn all(&mut self, lines: &[&str]) -> Vec<Sent> {
        lines.iter().for_each(|line| self.says(line));
        self.sent()
    }

    /// Requests that the next one must not overtake.
    fn afters(&mut self) -> Vec<Option<u64>> {
        let mut afters = Vec::new();
        while let Some(output) = self.gateway.poll() {
            if let Output::Shard { request, .. } = output {
                afters.push(request.after.map(|token| token.0));
            }
        }
        afters
    }

    fn wait(&mut self, ms: u64) {
        self.now.mono_us += ms * 1000;
        self.gateway.tick(self.now);
    }
}

fn group(body: &Body) -> &Group {
    match body {
        Body::Pipeline(group) => group,
        other => panic!("no part of a stream: {other:?}"),
    }
}

fn placed(place: u64, reply: i64) -> UnitOutcome {
    Some((Timestamp(place), SmallVec::from_iter([Reply::Int(reply)])))
}

fn ends(sent: &[Sent]) -> usize {
    sent.iter().filter(|(_, _, body)| matches!(body, Body::EndStream { .. })).count()
}

#[test]
fn commands_for_several_shards_go_out_together_and_their_replies_come_in_order() {
    let mut story = Story::new();
    let sent = story.all(&["INCR a", "INCR b", "INCR e"]);
    assert_eq!(sent.len(), 2, "one message for each shard");
    let (first, second) = (group(&sent[0].2), group(&sent[1].2));
    assert_eq!((sent[0].0, sent[1].0), (ShardId(0), ShardId(1)));
    assert_eq!(first.homes, [ShardId(1), ShardId(0), ShardId(1)]);
    assert_eq!((first.stream, &first.homes), (second.stream, &second.homes));
    let numbers = |group: &Group| group.units.iter().map(|unit| unit.seq).collect::<Vec<_>>();
    assert_eq!((numbers(first), numbers(second)), (vec![1], vec![0, 2]));
    assert!(first.is_sound(ShardId(0)) && second.is_sound(ShardId(1)));
    story.answer(sent[0].1, Answer::Units(vec![placed(20, 1)]));
    assert!(story.replies().is_empty());
    story.answer(sent[1].1, Answer::Units(vec![placed(10, 2), placed(21, 3)]));
    let (rest, replies) = story.out();
    assert_eq!(replies, [2, 1, 3].map(Reply::Int));
    assert_eq!((ends(&rest), rest.len()), (2, 2), "both shards are told that it is over");
}

#[test]
fn what_comes_later_joins_a_stream_behind_what_is_open() {
    let mut story = Story::new();
    let sent = story.all(&["INCR a", "INCR b"]);
    story.answer(sent[1].1, Answer::Units(vec![placed(10, 1)]));
    assert_eq!(story.replies(), [Reply::Int(1)]);
    let later = story.all(&["INCR e"]);
    let group = group(&later[0].2);
    assert_eq!((group.base, group.fresh, group.first()), (1, 2, 2));
    assert_eq!((group.floor, &group.homes[..]), (Timestamp(10), &[ShardId(0), ShardId(1)][..]));
}

#[test]
fn what_goes_to_one_shard_goes_as_it_is_and_what_goes_elsewhere_waits_for_it() {
    let mut story = Story::new();
    let sent = story.all(&["INCR a", "INCR e", "GET a"]);
    assert!(matches!(&sent[0].2, Body::Apply(apply) if apply.ops.len() == 3));
    assert_eq!(sent.len(), 1);
    story.says("INCR a");
    assert_eq!(story.afters(), [Some(sent[0].1)], "it does not overtake the others");
    story.says("INCR b");
    assert!(story.sent().is_empty(), "nobody would know its place");
    story.answer(sent[0].1, done(&[1, 1, 1]));
    assert_eq!(story.replies(), [1, 1, 1].map(Reply::Int));
}

#[test]
fn what_has_failed_is_dispatched_once_more_behind_nothing() {
    let mut story = Story::new();
    let sent = story.all(&["INCR a", "INCR b", "INCR e"]);
    story.answer(sent[0].1, Answer::Units(vec![None]));
    story.says("GET b");
    story.answer(sent[1].1, Answer::Units(vec![placed(10, 1), None]));
    let (rest, replies) = story.out();
    assert_eq!((replies, ends(&rest), rest.len()), (vec![Reply::Int(1)], 2, 2));
    story.wait(100);
    let again = story.sent();
    let units: Vec<usize> = again.iter().map(|(_, _, body)| group(body).units.len()).collect();
    assert_eq!(units, [2, 1], "and what has come since");
    assert_ne!(group(&again[0].2).stream, group(&sent[0].2).stream);
    story.answer(again[0].1, Answer::Units(vec![placed(30, 2), placed(32, 2)]));
    story.answer(again[1].1, Answer::Units(vec![placed(31, 3)]));
    assert_eq!(story.out().1, [2, 3, 2].map(Reply::Int));
}

#[test]
fn a_client_may_do_without_the_order() {
    let mut story = Story::new();
    story.says("CLIENT ORDER OFF");
    assert_eq!(story.replies(), [Reply::Ok]);
    let sent = story.all(&["INCR a", "INCR b"]);
    let plain = |(_, _, body): &Sent| matches!(body, Body::Apply(_));
    assert!(sent.len() == 2 && sent.iter().all(plain));
}

#[test]
fn one_by_one_a_command_is_sent_when_the_one_before_is_answered() {
    let mut story = Story::ordered(Order::Single);
    let sent = story.all(&["INCR a", "INCR e"]);
    assert_eq!(sent.len(), 1);
    story.answer(sent[0].1, done(&[1]));
    let (next, replies) = story.out();
    assert_eq!((next.len(), replies), (1, vec![Reply::Int(1)]));
}

#[test]
fn of_a_long_pipeline_only_so_much_is_in_flight() {
    let mut story = Story::new();
    let lines: Vec<&str> = ["INCR a", "INCR b"].into_iter().cycle().take(1_600).collect();
    let units = |(_, _, body): &Sent| match body {
        Body::Pipeline(group) => group.units.len(),
        _ => 0,
    };
    let count = |sent: &[Sent]| sent.iter().map(units).sum();
    let sent = story.all(&lines);
    let in_flight: usize = count(&sent);
    assert_eq!(in_flight, WINDOW_UNITS_MAX);
    let placed = |sent: &Sent| -> Vec<UnitOutcome> {
        group(&sent.2).units.iter().map(|unit| placed(20, unit.seq.into())).collect()
    };
    let (first, second) = (&sent[0], &sent[1]);
    story.answer(first.1, Answer::Units(placed(first)));
    assert_eq!(story.out().0.len(), 0, "those before it are not answered");
    story.answer(second.1, Answer::Units(placed(second)));
    let (rest, replies) = story.out();
    let in_flight: usize = count(&rest);
    assert_eq!((in_flight, replies.len()), (600, WINDOW_UNITS_MAX));
}

/// Gateway of machine 1 of two, with the map; machine 2 leads.
fn led_by_machine_2() -> (Story, ShardMap) {
    let mut story = Story::clustered_with(Order::Constant);
    let machines = [1, 2].map(|n| (MachineId(n), format!("10.0.0.{n}:7001")));
    let map = ShardMap::founded(machines.into(), 2);
    story.gateway.cluster_changed(story.now, ClusterChange::Map(Box::new(map.clone())));
    story.leads(2);
    (story, map)
}

#[test]
fn commands_whose_shard_was_split_between_them_are_dispatched_anew() {
    let (mut story, map) = led_by_machine_2();
    let first = story.all(&["INCR a"]);
    let second = story.all(&["INCR e", "INCR e"]);
    assert!(matches!((&first[..], &second[..]), ([_], [(ShardId(1), _, Body::Apply(_))])));
    // The leader has given away the slot of `a` before the requests came, and sends them back.
    let split = map.split(ShardId(1), Some(15_400)).unwrap();
    story.gateway.cluster_changed(story.now, ClusterChange::Map(Box::new(split)));
    for (_, token, body) in first.into_iter().chain(second) {
        story.answer(token, body.not_taken().unwrap());
    }
    story
        .gateway
        .cluster_changed(story.now, ClusterChange::Led(ShardId(1), Some((MachineId(2), 1 << 48))));
    story
        .gateway
        .cluster_changed(story.now, ClusterChange::Led(ShardId(2), Some((MachineId(2), 0))));
    let sent = story.sent();
    let numbers = |(shard, _, body): &Sent| {
        (*shard, group(body).units.iter().map(|unit| unit.seq).collect::<Vec<_>>())
    };
    let sent: Vec<_> = sent.iter().map(numbers).collect();
    assert_eq!(sent, [(ShardId(1), vec![1, 2]), (ShardId(2), vec![0])], "as a stream");
}

#[test]
fn units_whose_shard_was_split_are_asked_for_where_they_may_have_taken_effect() {
    let (mut story, map) = led_by_machine_2();
    let sent = story.all(&["INCR a", "INCR b"]);
    let numbers = |sent: &[Sent]| {
        let of_one = |(shard, _, body): &Sent| (*shard, group(body).stream, group(body).first());
        sent.iter().map(of_one).collect::<Vec<_>>()
    };
    let before = numbers(&sent);
    // The leader has carried out the unit, has given away the slot of `a` and does not lead any more.
    let split = map.split(ShardId(1), Some(15_400)).unwrap();
    story.gateway.cluster_changed(story.now, ClusterChange::Map(Box::new(split)));
    for (_, token, body) in sent {
        story.answer(token, body.not_taken().unwrap());
    }
    story
        .gateway
        .cluster_changed(story.now, ClusterChange::Led(ShardId(0), Some((MachineId(2), 0))));
    story
        .gateway
        .cluster_changed(story.now, ClusterChange::Led(ShardId(1), Some((MachineId(2), 1 << 48))));
    story
        .gateway
        .cluster_changed(story.now, ClusterChange::Led(ShardId(2), Some((MachineId(2), 0))));
    let again = numbers(&story.sent());
    assert!(again.contains(&before[0]), "as another stream it could take effect again: {again:?}");
}

#[test]
fn two_timers_of_one_microsecond_both_go_off() {
    let mut story = Story::new();
    let waiting = story.gateway.open(story.now, Opening::default());
    let over_us = story.now.mono_us + 100_000;
    story.says_as(waiting, "BLPOP a 0.1");
    let (_, attempt, _) = story.sent().remove(0);
    story.answer(attempt, Answer::Replies(SmallVec::from_elem(Reply::Nil, 1)));
    let (_, wait, body) = story.sent().remove(0);
    assert!(matches!(body, Body::Block { .. }));
    // The waiting request and the first session have the same handle, each in a table of its own.
    let sent = story.all(&["INCR a", "INCR b"]);
    story.now.mono_us = over_us - 1_000;
    for (_, token, body) in &sent {
        story.answer(*token, Answer::Units(vec![None; group(body).units.len()]));
    }
    story.now.mono_us = over_us;
    assert_eq!(story.gateway.next_timeout(), Some(over_us));
    assert!(story.sent().iter().all(|(_, _, body)| matches!(body, Body::EndStream { .. })));
    story.gateway.tick(story.now);
    let again = story.sent();
    assert!(again.iter().any(|(_, _, body)| matches!(body, Body::Unblock)), "{again:?}");
    story.answer(wait, Answer::Replies(SmallVec::new()));
    assert_eq!(story.replies(), [Reply::NilArray], "the wait is over");
    let units = again.iter().filter(|(_, _, body)| matches!(body, Body::Pipeline(_)));
    assert_eq!(units.count(), 2, "and what has failed is sent again: {again:?}");
}
