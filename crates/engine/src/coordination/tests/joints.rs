//! A `multi` over several shards, at one of them: prepare and decision.

use super::super::request::JointId;
use super::super::request::SpreadStep;
use super::*;
use crate::ids::ShardId;

/// Identity of a session's `multi`.
fn id(number: u32) -> JointId {
    JointId { joined: Zxid(1), number }
}

impl World {
    fn prepares(&mut self, session: TreeSessionId, number: u32, changes: Vec<Change>) -> Reply {
        let shards = vec![ShardId(0), ShardId(1)];
        let step = SpreadStep::Prepare { id: id(number), shards, changes };
        self.write(session, Write::Spread(step)).unwrap()
    }

    fn decides(&mut self, session: TreeSessionId, number: u32, commit: bool) -> Reply {
        self.write(session, Write::Spread(SpreadStep::Decide { id: id(number), commit })).unwrap()
    }

    fn inquires(&mut self, session: TreeSessionId, number: u32) -> Reply {
        self.write(session, Write::Spread(SpreadStep::Inquire { id: id(number) })).unwrap()
    }
}

#[test]
fn prepared_changes_are_tried_and_take_effect_at_the_decision() {
    let (mut world, ann) = world();
    world.create(ann, Change::Create(create("/a"))).unwrap();
    let before = world.service.tree().clone();
    let changes = vec![sequential("/a/n-"), set("/a", "y", 0), ephemeral("/b")];
    let vote = world.prepares(ann, 1, changes);
    let Reply::Multi(tried) = &vote else { panic!("{vote:?}") };
    assert!(tried.iter().all(Result::is_ok) && tried.len() == 3);
    assert!(*world.service.tree() == before && world.events.is_empty(), "it has no visible effect");
    assert_eq!(world.inquires(ann, 1), Reply::Number(1));
    let Reply::Multi(done) = world.decides(ann, 1, true) else {
        panic!("the decision has no results")
    };
    assert_eq!(done[0], tried[0], "the same name");
    assert_eq!(world.children("/a"), ["n-0000000000"]);
    assert_eq!(world.stat("/b").unwrap().ephemeral_owner, ann.0);
    assert_eq!(world.stat("/a").unwrap().mzxid, world.service.last());
    assert_eq!(world.events.len(), 3, "{:?}", world.events);
    // The decision may be repeated, and the opposite one has no effect.
    for again in [true, false] {
        assert_eq!(world.decides(ann, 1, again), Reply::Done);
        assert_eq!((world.inquires(ann, 1), world.events.len()), (Reply::Number(2), 0));
    }
    world.write(ann, Write::Close).unwrap();
    assert_eq!(world.stat("/b"), Err(Code::NoNode));
}

#[test]
fn an_impossible_change_is_a_vote_against_the_multi() {
    let (mut world, ann) = world();
    let vote = world.prepares(ann, 1, vec![ephemeral("/a"), delete("/b", -1)]);
    assert_eq!(vote, Reply::Multi(vec![Err(Code::Ok), Err(Code::NoNode)]));
    assert_eq!(world.inquires(ann, 1), Reply::Number(0));
    assert_eq!(world.decides(ann, 1, false), Reply::Multi(vec![]));
    assert_eq!((world.stat("/a"), world.inquires(ann, 1)), (Err(Code::NoNode), Reply::Number(0)));
}

#[test]
fn a_shard_prepares_no_multi_after_denying_it_at_an_inquiry() {
    let (mut world, ann) = world();
    assert_eq!(world.inquires(ann, 3), Reply::Number(0));
    for number in [2, 3] {
        assert_eq!(world.prepares(ann, number, vec![ephemeral("/a")]), Reply::Done);
    }
    let vote = world.prepares(ann, 4, vec![ephemeral("/a")]);
    assert!(matches!(vote, Reply::Multi(replies) if replies[0].is_ok()));
    assert_eq!(world.prepares(ann, 5, vec![ephemeral("/c")]), Reply::Done, "one at a time");
    assert_eq!(world.inquires(TreeSessionId(99), 1), Reply::Number(0), "it has no such session");
}

#[test]
fn the_leader_does_not_reap_nodes_of_a_prepared_branch() {
    let (mut world, ann) = world();
    world.create(ann, lasting("/a", Lasts::Ttl(1))).unwrap();
    world.create(ann, lasting("/b", Lasts::Ttl(1))).unwrap();
    world.prepares(ann, 1, vec![set("/a", "y", -1)]);
    world.changes += 1_000;
    world.write(TreeSessionId(0), Write::Reap).unwrap();
    assert!(world.stat("/a").is_ok() && world.stat("/b").is_err());
    let done = world.decides(ann, 1, true);
    assert!(matches!(done, Reply::Multi(replies) if replies[0].is_ok()));
    world.changes += 1_000;
    world.write(TreeSessionId(0), Write::Reap).unwrap();
    assert_eq!(world.stat("/a"), Err(Code::NoNode));
}

#[test]
fn nothing_is_prepared_about_nodes_of_a_session_that_ends() {
    let (mut world, ann) = world();
    let ben = world.open();
    world.create(ben, ephemeral("/a")).unwrap();
    world.write(ben, Write::Spread(SpreadStep::Join(vec![ShardId(1)]))).unwrap();
    world.write(ben, Write::Close).unwrap();
    assert_eq!(world.prepares(ann, 1, vec![set("/a", "y", -1)]), Reply::Done);
    world.write(ben, Write::Spread(SpreadStep::Finish)).unwrap();
    let vote = world.prepares(ann, 1, vec![set("/a", "y", -1)]);
    assert_eq!(vote, Reply::Multi(vec![Err(Code::NoNode)]));
}
