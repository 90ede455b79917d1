//! Stories about outcomes of transactions on their way into the log, which no request waits for.

use super::*;

impl Story {
    /// One replica among several.
    fn replicated() -> Self {
        Self::leading(ShardConfig {
            beside: G,
            clustered: true,
            ..Self::new().shard.desk.core.config
        })
    }

    /// Kinds of the records that are proposed now.
    fn proposed(&mut self) -> Vec<&'static str> {
        if self.shard.tail().is_patient(self.now) {
            return Vec::new();
        }
        let Some(entry) = self.end_turn() else { return Vec::new() };
        let kinds = entry.records.iter().map(|record| match record {
            LogRecord::Apply(_) => "apply",
            LogRecord::Outcome { .. } => "outcome",
            _ => "another",
        });
        let kinds = kinds.collect();
        self.shard.keep(entry, 0);
        kinds
    }
}

#[test]
fn an_outcome_goes_with_what_somebody_waits_for() {
    for mut story in [Story::replicated(), Story::new()] {
        story.ask(prepare(1, &[("s", add("a"))]));
        story.sync();
        let clock = story.shard.clock().0;
        story.ask(decide(1, Some(clock)));
        assert_eq!(story.seen(), ["1 prepared", "2 done 1"], "nothing of that waits");
        assert_eq!(story.proposed(), [""; 0]);
        story.ask(one("t", add("b")));
        assert_eq!(story.proposed(), ["outcome", "apply"]);
    }
}

#[test]
fn an_outcome_that_nothing_follows_goes_alone_soon() {
    let mut story = Story::replicated();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    story.ask(decide(1, None));
    story.pass(OUTCOMES_WAIT_US - 2);
    assert_eq!(story.proposed(), [""; 0]);
    assert!(!story.shard.is_quiet(), "a group must not sleep over it");
    let due_us = story.shard.tail().outcomes_due_us().unwrap();
    assert_eq!(due_us, story.now.mono_us + 2);
    story.pass(2);
    assert_eq!(story.proposed(), ["outcome"]);
}

#[test]
fn who_waits_for_writes_of_the_session_does_not_wait_for_outcomes() {
    let mut story = Story::replicated();
    story.ask(prepare(1, &[("s", add("a"))]));
    story.sync();
    let clock = story.shard.clock().0;
    story.ask(decide(1, Some(clock)));
    story.ask(Body::Read { key: Blob::from("s"), op: card(), fenced: true });
    assert_eq!(story.seen(), ["1 prepared", "2 done 1", "3 = 1"]);
}
