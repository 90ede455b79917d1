//! Stories about idle groups: when they sleep, and what wakes them.

use crate::story::{SHARDS, Story, read, write};
use engine::ids::{MachineId, ShardId};
use engine::limits::{ELECTION_TICKS, QUIET_US, SILENT_US, TICK_US};
use engine::node::Node;

#[test]
fn groups_that_have_nothing_to_do_say_nothing_and_answer_when_asked() {
    let mut story = Story::new();
    assert!(story.all_sleep());
    story.log_talk = 0;
    story.pass(60_000_000);
    assert_eq!(story.log_talk, 0);
    for body in [write, read] {
        for machine in 0..3 {
            let asked = story.ask(machine, ShardId(1), body());
            assert!(story.answers.contains_key(&asked), "machine {machine} got no answer");
        }
        assert!(!story.all_sleep());
        story.pass(QUIET_US + 2_000_000);
        assert!(story.all_sleep());
    }
}

#[test]
fn everything_that_was_written_before_a_group_sleeps_is_everywhere() {
    let mut story = Story::new();
    story.ask(0, ShardId(0), write());
    story.pass(QUIET_US + 2_000_000);
    let applied =
        |node: &Node<_>| node.replica(ShardId(0)).map(|replica| replica.group().applied());
    let all: Vec<_> = story.nodes.iter().map(applied).collect();
    assert!(story.all_sleep() && all.iter().all(|one| *one == all[0]), "{all:?}");
}

#[test]
fn when_the_leaders_machine_falls_silent_others_lead_as_soon_as_if_they_had_been_awake() {
    let mut story = Story::new();
    let (leader, term) = story.lead(ShardId(2)).unwrap();
    story.dead[leader] = true;
    story.pass(SILENT_US);
    for at in (0..3).filter(|at| *at != leader) {
        let now = story.now;
        story.nodes[at].doubt(now, MachineId(leader as u16 + 1), SILENT_US);
    }
    // A follower waits for one to two election time-outs, and an election takes a tick or two.
    story.pass(2 * ELECTION_TICKS as u64 * TICK_US - SILENT_US + 2 * TICK_US);
    let (next, later) = story.lead(ShardId(2)).expect("a new leader");
    assert!(next != leader && later > term);
}

#[test]
fn a_machine_that_was_only_late_goes_on_to_lead() {
    let mut story = Story::new();
    let before: Vec<_> = (0..SHARDS).map(|shard| story.lead(ShardId(shard))).collect();
    let now = story.now;
    for (at, node) in story.nodes.iter_mut().enumerate() {
        (0..3).filter(|other| *other != at).for_each(|other| {
            node.doubt(now, MachineId(other as u16 + 1), SILENT_US);
        });
    }
    assert!(!story.all_sleep());
    story.pass(10_000_000);
    let after: Vec<_> = (0..SHARDS).map(|shard| story.lead(ShardId(shard))).collect();
    assert_eq!(before, after);
    assert!(story.all_sleep());
}

#[test]
fn a_group_is_awake_while_one_of_its_machines_is_away() {
    let mut story = Story::new();
    let (leader, _) = story.lead(ShardId(0)).unwrap();
    let away = (leader + 1) % 3;
    story.dead[away] = true;
    let now = story.now;
    story.nodes[leader].disconnect(now, MachineId(away as u16 + 1));
    story.pass(20_000_000);
    assert!(story.nodes[leader].active().contains(&0), "the leader must notice its return");
    let asked = story.ask(leader, ShardId(0), write());
    assert!(story.answers.contains_key(&asked));
}
