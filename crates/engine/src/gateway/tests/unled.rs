//! Shards without a leader: requests wait for a bounded time, and then get a true answer.

use super::*;
use crate::cluster::map::ShardMap;

const WAIT_US: u64 = 5_000_000;

impl Story {
    fn shard_leads(&mut self, shard: u16, machine: u16, lead: u64) {
        self.gateway.cluster_changed(
            self.now,
            ClusterChange::Led(ShardId(shard), Some((MachineId(machine), lead))),
        );
    }

    /// Lets time pass, with a tick at each time-out of the gateway.
    fn passes(&mut self, us: u64) {
        self.now.mono_us += us;
        self.now.wall_us += us;
        if self.gateway.next_timeout().is_some_and(|at| at <= self.now.mono_us) {
            self.gateway.tick(self.now);
        }
    }
}

fn codes(replies: &[Reply]) -> Vec<&str> {
    let code = |reply: &Reply| match reply {
        Reply::Error(error) => error.code().to_owned(),
        _ => "-".to_owned(),
    };
    let known = ["CLUSTERDOWN", "INDEFINITE", "REPEATED", "-"];
    replies.iter().map(|r| *known.iter().find(|k| **k == code(r)).expect("a known code")).collect()
}

#[test]
fn a_request_waits_for_a_leader_and_is_told_what_is_missing() {
    let mut story = Story::clustered();
    story.says("INCR a");
    story.passes(WAIT_US - 1);
    assert!(story.replies().is_empty());
    story.passes(1);
    let [Reply::Error(error)] = &story.replies()[..] else { panic!("no error") };
    let text = "CLUSTERDOWN shard 1 has no leader: of the 2 machines that hold it, 2 is not \
                connected with machine 1; this had no effect";
    assert_eq!(error.to_string(), text);
    assert_eq!(story.gateway.take_unled().len(), 1);
    assert!(story.gateway.take_unled().is_empty(), "said once");
    // From then on no request waits.
    for line in ["SET a 1", "GET a", "MGET a e"] {
        story.says(line);
    }
    story.passes(0);
    assert_eq!(codes(&story.replies()), ["CLUSTERDOWN"; 3]);
    assert_eq!(story.gateway.next_timeout(), None, "there is nothing to wait for");
    // Refused requests are not sent later.
    story.leads(1);
    assert!(story.sent().is_empty());
    story.says("INCR a");
    assert_eq!(story.sent().len(), 1);
}

#[test]
fn a_leader_that_comes_in_time_gets_what_has_waited() {
    let mut story = Story::clustered();
    story.says("INCR a");
    story.passes(WAIT_US - 1);
    story.leads(1);
    assert_eq!(story.sent().len(), 1);
    story.passes(10 * WAIT_US);
    assert!(story.replies().is_empty(), "its leader has it");
}

#[test]
fn what_a_lost_leader_had_is_in_doubt_and_reads_are_not() {
    let mut story = Story::clustered();
    story.leads(2);
    for line in ["CLIENT REQUEST me 1", "SET a 1"] {
        story.says(line);
    }
    let reader = story.gateway.open(story.now, Opening::default());
    story.says_as(reader, "GET a");
    assert_eq!(story.out().0.len(), 2);
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(2)));
    story.passes(WAIT_US);
    let mut replies = story.replies();
    replies.sort_by_key(|reply| format!("{reply:?}"));
    assert_eq!(codes(&replies), ["CLUSTERDOWN", "INDEFINITE"]);
}

/// Outputs of a gateway that closes connections instead of answering with such an error: replies as their
/// session and text, and closed sessions.
fn closing(story: &mut Story) -> Vec<String> {
    let mut outputs = Vec::new();
    while let Some(output) = story.gateway.poll() {
        match output {
            Output::Reply { session, reply, .. } => {
                outputs.push(format!("{} {reply:?}", session.0))
            }
            Output::Close { session } => outputs.push(format!("{} closed", session.0)),
            Output::Shard { .. } => {}
            other => panic!("not in these stories: {other:?}"),
        }
    }
    outputs
}

#[test]
fn a_connection_is_closed_instead_if_that_is_configured() {
    let mut story = Story::clustered();
    story.gateway.parts.core.config.close_on_lost_leader = true;
    story.leads(2);
    let [writer, reader] = [story.client, story.gateway.open(story.now, Opening::default())];
    story.says("PING");
    story.says("SET a 1");
    story.says("ECHO later");
    story.says_as(reader, "ECHO before");
    story.says_as(reader, "GET a");
    let before = [
        format!("{} {:?}", writer.0, Reply::status("PONG")),
        format!("{} {:?}", reader.0, Reply::bulk("before")),
    ];
    assert_eq!(closing(&mut story), before, "replies to earlier commands are sent");
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(2)));
    story.passes(WAIT_US);
    let mut outputs = closing(&mut story);
    outputs.sort();
    let mut expected = [format!("{} closed", reader.0), format!("{} closed", writer.0)];
    expected.sort();
    assert_eq!(outputs, expected, "one for each, and no reply");
    assert_eq!(story.gateway.parts.core.mail.stats.closed_on_lost_leader, 2);
    // What else is sent is not carried out.
    story.says("SET a 2");
    assert_eq!(closing(&mut story), [""; 0]);
}

#[test]
fn a_transaction_that_lacks_a_shard_is_aborted_at_the_others() {
    let mut story = Story::clustered();
    story.shard_leads(0, 1, 1);
    let sent = {
        for line in ["MULTI", "INCR a", "INCR b", "EXEC"] {
            story.says(line);
        }
        story.out().0
    };
    let [(ShardId(0), token, Body::Prepare { .. })] = &sent[..] else { panic!("{sent:?}") };
    story.answer(*token, Answer::Prepared { bound: Timestamp(70) });
    story.passes(WAIT_US);
    let (sent, replies) = story.out();
    assert_eq!(codes(&replies), ["CLUSTERDOWN"]);
    let [(ShardId(0), _, Body::Decide { commit: None, .. })] = &sent[..] else {
        panic!("{sent:?}")
    };
    story.leads(1);
    assert!(story.sent().is_empty());
}

#[test]
fn a_vote_that_is_in_doubt_decides_nothing() {
    let mut story = Story::clustered();
    story.shard_leads(0, 1, 1);
    story.leads(2);
    let sent = exec_over_two(&mut story);
    story.answer(sent[0].1, Answer::Prepared { bound: Timestamp(70) });
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(2)));
    story.passes(WAIT_US);
    let (sent, replies) = story.out();
    assert!(sent.is_empty(), "nobody is told that it was aborted: {sent:?}");
    assert_eq!(codes(&replies), ["INDEFINITE", "-"]);
}

#[test]
fn what_all_have_voted_for_took_effect_whoever_is_lost() {
    let mut story = Story::clustered();
    story.shard_leads(0, 1, 1);
    story.leads(2);
    let sent = exec_over_two(&mut story);
    for (_, token, _) in &sent {
        story.answer(*token, Answer::Prepared { bound: Timestamp(70) });
    }
    let decided = story.sent();
    let own = decided.iter().find(|(shard, ..)| *shard == ShardId(0)).unwrap();
    story.answer(own.1, done(&[1]));
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(2)));
    story.passes(WAIT_US);
    let replies = story.replies();
    let [Reply::Array(items), pong] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((codes(items), pong), (vec!["REPEATED"; 3], &Reply::status("PONG")));
}

#[test]
fn an_interactive_transaction_ends_with_the_reason() {
    let mut story = Story::clustered();
    for line in ["TXN BEGIN", "GET a"] {
        story.says(line);
    }
    story.passes(WAIT_US);
    let (_, replies) = story.out();
    assert_eq!(codes(&replies), ["-", "CLUSTERDOWN"]);
    story.says("TXN ABORT");
    story.says("PING");
    let (_, replies) = story.out();
    assert_eq!(replies.last(), Some(&Reply::status("PONG")));
}

#[test]
fn pipelines_and_counts_are_refused_and_info_goes_without() {
    let mut story = Story::clustered_with(Order::Constant);
    story.shard_leads(0, 1, 1);
    for line in ["INCR a", "INCR e"] {
        story.says(line);
    }
    assert!(story.sent().is_empty());
    story.passes(WAIT_US);
    let (_, replies) = story.out();
    assert_eq!(codes(&replies), ["CLUSTERDOWN"; 2]);
    for (line, code) in [("DBSIZE", "CLUSTERDOWN"), ("INFO stats", "-")] {
        story.says(line);
        let (sent, _) = story.out();
        let [(ShardId(0), token, body)] = &sent[..] else { panic!("{sent:?}") };
        let answer = match body {
            Body::Stats => Answer::Stats(Box::default()),
            _ => Answer::Reply(Reply::Int(3)),
        };
        story.answer(*token, answer);
        story.passes(0);
        assert_eq!(codes(&story.replies()), [code], "{line}");
    }
}

#[test]
fn the_survivor_does_not_claim_to_lead_what_nobody_leads() {
    let mut story = Story::clustered();
    story.shard_leads(0, 1, 3);
    story.leads(2);
    let nodes = |story: &mut Story| {
        story.says("CLUSTER NODES");
        let replies = story.replies();
        let [Reply::Text(text)] = &replies[..] else { panic!("{replies:?}") };
        text.clone()
    };
    assert_eq!(nodes(&mut story).matches("8192-16383").count(), 1);
    story.passes(7);
    story.gateway.cluster_changed(story.now, ClusterChange::Lost(MachineId(2)));
    let text = nodes(&mut story);
    assert!(text.contains("0-8191") && !text.contains("8192"), "{text}");
    let seen = story.gateway.overview().shards;
    assert_eq!((seen[0].leader, seen[0].term), (Some(MachineId(1)), 3));
    assert_eq!((seen[1].leader, seen[1].since_us), (None, story.now.wall_us));
}

fn watched(story: &Story) -> usize {
    story.gateway.parts.sessions.iter().map(|(_, session)| session.watched.len()).sum()
}

/// Tokens of the versions that a `WATCH` has asked for.
fn versions(story: &mut Story) -> Vec<u64> {
    let sent = story.sent().into_iter();
    sent.map(|(_, token, body)| match body {
        Body::Version { .. } => token,
        other => panic!("{other:?}"),
    })
    .collect()
}

const UNCHANGED: Answer = Answer::Version(Version::Changed(Timestamp(7)));

/// A session whose `WATCH` was refused for want of one shard, while another shard has not answered.
fn refused_watch() -> (Story, u64) {
    let mut story = Story::clustered();
    story.shard_leads(0, 1, 1);
    story.says("WATCH a b");
    let [late] = versions(&mut story)[..] else { panic!("one shard has a leader") };
    story.passes(WAIT_US);
    assert_eq!(codes(&story.replies()), ["CLUSTERDOWN"]);
    story.leads(1);
    (story, late)
}

#[test]
fn a_late_version_for_a_refused_watch_is_not_one_of_the_next() {
    let (mut story, late) = refused_watch();
    story.says("WATCH a b");
    let next = versions(&mut story);
    assert_eq!(next.len(), 2);
    story.answer(late, UNCHANGED);
    story.answer(next[0], UNCHANGED);
    assert!(story.replies().is_empty(), "one key is not known yet");
    story.answer(next[1], UNCHANGED);
    assert_eq!(story.replies(), [Reply::Ok]);
}

#[test]
fn a_late_error_for_a_refused_watch_does_not_end_the_next() {
    let (mut story, late) = refused_watch();
    story.says("WATCH a b");
    let next = versions(&mut story);
    story.answer(late, Answer::Refused(Refusal::Moved));
    next.into_iter().for_each(|token| story.answer(token, UNCHANGED));
    assert_eq!(story.replies(), [Reply::Ok]);
}

#[test]
fn keys_are_not_watched_after_what_forgets_them_while_versions_are_asked() {
    for forgets in [&["MULTI", "DISCARD"][..], &["UNWATCH"], &["RESET"]] {
        let mut story = Story::clustered();
        story.leads(1);
        story.says("WATCH a");
        forgets.iter().for_each(|line| story.says(line));
        let asked = versions(&mut story);
        asked.into_iter().for_each(|token| story.answer(token, UNCHANGED));
        assert_eq!(story.replies().len(), 1 + forgets.len(), "{forgets:?}");
        assert_eq!(watched(&story), 0, "{forgets:?}");
    }
}

#[test]
fn a_refused_watch_leaves_the_keys_of_an_earlier_one_watched() {
    let mut story = Story::clustered();
    story.leads(1);
    story.says("WATCH a");
    let asked = versions(&mut story)[0];
    story.answer(asked, UNCHANGED);
    assert_eq!(story.replies(), [Reply::Ok]);
    story.says("WATCH e b");
    let asked = versions(&mut story)[0];
    story.answer(asked, UNCHANGED);
    story.passes(WAIT_US);
    assert_eq!(codes(&story.replies()), ["CLUSTERDOWN"]);
    assert_eq!(watched(&story), 1);
}

#[test]
fn requests_wait_for_the_first_leader_of_a_new_shard_from_its_split_on() {
    let mut story = Story::clustered();
    let machines = [(MachineId(1), "10.0.0.1:7001".to_owned())];
    let map = ShardMap::founded(machines.into(), 2);
    let next = map.split(ShardId(1), Some(15_400)).unwrap();
    for map in [map, next] {
        story.gateway.cluster_changed(story.now, ClusterChange::Map(Box::new(map)));
    }
    story.leads(2);
    // The gateway has run for longer than any request waits, without a shard of that number.
    story.passes(2 * WAIT_US);
    story.shard_leads(1, 2, 1 << 48);
    story.says("INCR a");
    story.passes(WAIT_US - 1);
    assert!(story.replies().is_empty());
    story.shard_leads(2, 2, 1);
    let to: Vec<_> = story.sent().into_iter().map(|(shard, ..)| shard).collect();
    assert_eq!(to, [ShardId(2)]);
}
