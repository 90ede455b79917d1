//! Bundles: commands on several shards of one process, sent at one moment.

use super::*;
use crate::message::Body;
use crate::pipeline::bundles::Disturbance;

/// Requests of a bundle, and whether it must become durable as a whole.
type Bundle = (bool, Vec<(ShardId, Request)>);

impl Story {
    fn bundling() -> Self {
        let mut story = Self::new();
        story.gateway.parts.core.config.bundles = true;
        story
    }

    /// Bundles that go out, which is all that does.
    fn bundles(&mut self) -> Vec<Bundle> {
        let mut bundles = Vec::new();
        while let Some(output) = self.gateway.poll() {
            match output {
                Output::Bundle { writes, requests } => bundles.push((writes, requests)),
                other => panic!("no bundle: {other:?}"),
            }
        }
        bundles
    }

    fn bundle(&mut self, lines: &[&str]) -> Bundle {
        lines.iter().for_each(|line| self.says(line));
        let mut bundles = self.bundles();
        assert_eq!(bundles.len(), 1);
        bundles.remove(0)
    }

    /// Takes all that goes out, and says of each reply whether it may wait for the next one.
    fn lingering(&mut self) -> Vec<bool> {
        let outputs = std::iter::from_fn(|| self.gateway.poll());
        let lingers = |output| match output {
            Output::Reply { lingers, .. } => Some(lingers),
            _ => None,
        };
        outputs.filter_map(lingers).collect()
    }

    fn gives_back(&mut self, bundle: Bundle, reason: Disturbance) {
        self.gateway.not_bundled(self.now, bundle.1, reason);
    }
}

fn shards(bundle: &Bundle) -> Vec<u16> {
    bundle.1.iter().map(|(shard, _)| shard.0).collect()
}

fn count(body: &Body) -> usize {
    match body {
        Body::Apply(apply) => apply.ops.len(),
        Body::Snapshot { ops, dated: false, .. } => ops.len(),
        other => panic!("no part of a bundle: {other:?}"),
    }
}

#[test]
fn commands_for_several_shards_are_one_bundle_with_replies_in_order() {
    let mut story = Story::bundling();
    let bundle = story.bundle(&["INCR a", "INCR b", "INCR e"]);
    assert!(bundle.0, "it writes");
    assert_eq!(shards(&bundle), [1, 0]);
    let [(_, first), (_, second)] = &bundle.1[..] else { panic!("{bundle:?}") };
    assert_eq!((count(&first.body), count(&second.body)), (2, 1));
    story.answer(second.token.0, done(&[20]));
    assert!(story.replies().is_empty(), "the first command comes first");
    story.answer(first.token.0, done(&[10, 30]));
    assert_eq!(story.replies(), [10, 20, 30].map(Reply::Int));
}

#[test]
fn replies_of_a_bundle_wait_for_each_other_and_for_nothing_behind_it() {
    let mut story = Story::bundling();
    let bundle = story.bundle(&["INCR a", "INCR b", "INCR e"]);
    story.says("BLPOP none 0");
    while story.gateway.poll().is_some() {}
    let mut told = |token: u64, values: &[i64]| {
        story.answer(token, done(values));
        story.lingering()
    };
    let [(_, first), (_, second)] = &bundle.1[..] else { panic!("{bundle:?}") };
    assert_eq!(told(first.token.0, &[10, 30]), [true], "the second one comes soon");
    assert_eq!(told(second.token.0, &[20]), [true, false], "nothing else is to come soon");
}

#[test]
fn replies_do_not_wait_for_a_bundle_behind_their_own() {
    let mut story = Story::bundling();
    let first = story.bundle(&["INCR a", "INCR b"]);
    let second = story.bundle(&["INCR a", "INCR b"]);
    let third = story.bundle(&["INCR a"]);
    let mut told = |bundle: &Bundle, part: usize| {
        story.answer(bundle.1[part].1.token.0, done(&[1]));
        (story.lingering(), story.gateway.session(story.client).replies_soon)
    };
    assert_eq!(told(&first, 0), (vec![true], true));
    assert_eq!(told(&first, 1), (vec![false], false), "the others are another matter");
    assert_eq!(told(&second, 1), (vec![], false));
    assert_eq!(told(&second, 0), (vec![true, false], false));
    assert_eq!(told(&third, 0), (vec![false], false));
}

#[test]
fn a_bundle_that_is_given_back_keeps_no_reply_back() {
    let mut story = Story::bundling();
    let bundle = story.bundle(&["INCR a", "INCR b"]);
    story.gives_back(bundle, Disturbance::Locks);
    assert!(!story.gateway.session(story.client).replies_soon);
    let session = story.gateway.parts.sessions.get(story.client.0).expect("it is there");
    assert!((0..9).all(|reply| !session.pipeline.comes_soon(reply)));
}

#[test]
fn a_bundle_whose_last_reply_is_not_sent_keeps_no_reply_back() {
    let mut story = Story::bundling();
    ["INCR a", "CLIENT REPLY SKIP", "INCR b"].iter().for_each(|line| story.says(line));
    let bundle = story.bundles().remove(0);
    story.says("BLPOP none 0");
    let [(_, first), (_, second)] = &bundle.1[..] else { panic!("{bundle:?}") };
    story.answer(first.token.0, done(&[10]));
    assert!(story.gateway.session(story.client).replies_soon);
    story.answer(second.token.0, done(&[20]));
    assert_eq!(story.lingering().len(), 1, "the second reply is not sent");
    let status = story.gateway.session(story.client);
    assert!(!status.replies_soon && status.in_progress > 0, "the last command waits");
}

#[test]
fn a_bundle_of_reads_is_not_logged_unless_it_follows_a_write() {
    let mut story = Story::bundling();
    let reads = story.bundle(&["GET a", "GET b"]);
    assert!(!reads.0 && matches!(reads.1[0].1.body, Body::Snapshot { dated: false, .. }));
    let writes = story.bundle(&["SET a 1", "GET b"]);
    assert!(writes.0 && writes.1.iter().all(|(_, r)| matches!(r.body, Body::Apply(_))));
    let behind = story.bundle(&["GET a", "GET b"]);
    assert!(behind.0, "it must not be answered before the write is durable");
}

#[test]
fn what_follows_an_open_bundle_is_a_bundle_even_at_one_shard() {
    let mut story = Story::bundling();
    let first = story.bundle(&["INCR a", "INCR b"]);
    let second = story.bundle(&["INCR e"]);
    assert_eq!(shards(&second), [1]);
    for (_, request) in first.1.iter().chain(&second.1) {
        story.answer(request.token.0, done(&[1]));
    }
    assert_eq!(story.replies().len(), 3);
    let (sent, _) = {
        story.says("INCR e");
        story.out()
    };
    assert!(matches!(&sent[..], [(ShardId(1), _, Body::Apply(_))]), "alone it pays nothing");
}

#[test]
fn a_bundle_that_meets_locks_becomes_a_stream_before_later_commands() {
    let mut story = Story::bundling();
    let bundle = story.bundle(&["INCR a", "INCR b"]);
    story.says("INCR e");
    story.gives_back(bundle, Disturbance::Locks);
    let sent = story.sent();
    let units: Vec<_> = sent.iter().map(|(shard, _, body)| (shard.0, units(body))).collect();
    assert_eq!(units, [(0, vec![1]), (1, vec![0, 2])]);
}

/// Numbers of the units of a part of a stream.
fn units(body: &Body) -> Vec<u32> {
    let Body::Pipeline(group) = body else { panic!("no part of a stream: {body:?}") };
    group.units.iter().map(|unit| unit.seq).collect()
}

#[test]
fn a_bundle_that_meets_streams_is_tried_again_when_they_may_be_over() {
    let mut story = Story::bundling();
    let bundle = story.bundle(&["INCR a", "INCR b"]);
    story.gives_back(bundle, Disturbance::Streams);
    story.says("INCR e");
    assert_eq!(story.bundles().len(), 0);
    story.now.mono_us += 1_000;
    story.gateway.tick(story.now);
    let bundles = story.bundles();
    let [again] = &bundles[..] else { panic!("{bundles:?}") };
    assert_eq!(again.1.iter().map(|(_, r)| count(&r.body)).sum::<usize>(), 3);
}

#[test]
fn a_bundle_waits_for_others_of_its_session_before_it_becomes_a_stream() {
    let mut story = Story::bundling();
    let open = story.bundle(&["INCR a", "INCR b"]);
    let back = story.bundle(&["INCR b", "INCR a"]);
    story.gives_back(back, Disturbance::Locks);
    assert_eq!(story.bundles().len(), 0);
    for (_, request) in &open.1 {
        story.answer(request.token.0, done(&[1]));
    }
    let (sent, replies) = story.out();
    assert_eq!(replies.len(), 2);
    assert!(sent.len() == 2 && sent.iter().all(|(.., body)| !units(body).is_empty()));
}
