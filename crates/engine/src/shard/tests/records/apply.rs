//! Stories about records that the leader has acted on before they were committed: another replica comes to
//! the same from the log.

use super::*;

/// A leader, with the log that it writes.
struct Logged {
    story: Story,
    log: Vec<Entry>,
}

impl Logged {
    fn new() -> Self {
        Self { story: Story::new(), log: Vec::new() }
    }

    /// Makes durable what is to be proposed.
    fn sync(&mut self) {
        while let Some(entry) = self.story.end_turn() {
            self.log.push(entry.clone());
            self.story.shard.keep(entry, 0);
        }
        self.story.sync();
    }

    /// A follower with this log.
    fn follower(&self) -> Shard {
        let mut follower = Shard::new(self.story.shard.desk.core.config.clone());
        self.log.iter().for_each(|entry| follower.replay(self.story.now, entry.clone()));
        follower
    }

    /// Checks that a follower with this log has the leader's state.
    fn agrees(&self) {
        let all = |shard: &Shard| {
            let state = shard.state();
            let records: Vec<_> =
                state.records().iter().map(|(k, r)| (k.clone(), r.clone())).collect();
            let prepared: Vec<_> = state.prepared().values().cloned().collect();
            let open: Vec<_> = state.prepared.unsettled().collect();
            (records, prepared, open, state.fates().outcomes().collect::<Vec<_>>())
        };
        assert_eq!(all(&self.follower()), all(&self.story.shard));
    }
}

#[test]
fn a_prepare_that_was_aborted_in_its_turn_leaves_nothing_anywhere() {
    let mut logged = Logged::new();
    logged.story.ask(prepare(1, &[("s", add("a"))]));
    logged.story.ask(decide(1, None));
    logged.sync();
    assert_eq!(logged.log.len(), 1);
    assert!(logged.story.shard.state().prepared().is_empty());
    logged.agrees();
}

#[test]
fn an_outcome_that_waits_at_the_leader_is_carried_out_once() {
    let mut logged = Logged::new();
    logged.story.ask(prepare(1, &[("s", add("a"))]));
    logged.sync();
    logged.story.ask(prepare(2, &[("s", card())]));
    logged.story.ask(Body::ProbeAck { txn: txn(1) });
    logged.sync();
    logged.agrees();
    logged.story.seen();
    let late = logged.story.shard.clock().0;
    logged.story.ask(decide(2, Some(late + 100)));
    logged.sync();
    // Both have it decided, and waiting for the first.
    logged.agrees();
    let mut follower = logged.follower();
    assert!(follower.desk.core.ahead.take_moved().is_empty(), "a follower notes nothing");
    assert_eq!(logged.story.seen(), Vec::<String>::new());
    let decided = logged.story.ask(decide(1, Some(late + 200)));
    logged.sync();
    assert_eq!(logged.story.seen(), ["4 done 0".to_owned(), format!("{decided} done 1")]);
    assert!(logged.story.shard.state().prepared().is_empty());
    logged.agrees();
}

#[test]
fn a_new_leader_knows_of_no_removal_before_its_lead() {
    let mut logged = Logged::new();
    logged.story.ask(one("s", add("a")));
    logged.story.ask(Body::Flush { database: None });
    logged.sync();
    let mut follower = logged.follower();
    let before = follower.desk.core.state.records().version(b"s", &follower.desk.core.ahead);
    follower.lead(logged.story.now, 2);
    let Version::Absent { term: 2, removals: 0 } =
        follower.desk.core.state.records().version(b"s", &follower.desk.core.ahead)
    else {
        panic!("{before:?}")
    };
    assert_eq!(before, Version::Absent { term: 0, removals: 0 }, "a follower counts none");
}
