//! Stories about many requests for one record: the work of a release does not grow with their number.

use super::*;
use crate::limits::LOOKS_MAX;

const CROWD: u64 = 1_000;

impl Story {
    /// How often waiting requests are looked at because of a request.
    fn looks_of(&mut self, body: Body) -> u64 {
        let before = self.shard.desk.locking.looks;
        self.ask(body);
        self.shard.desk.locking.looks - before
    }

    fn granted(&mut self) -> usize {
        self.seen().iter().filter(|answer| answer.contains(" locked")).count()
    }
}

fn release(id: u64) -> Body {
    Body::Release { txn: txn(id), after: Timestamp::ZERO }
}

#[test]
fn the_release_of_an_exclusive_lock_looks_at_a_few_of_those_in_line() {
    let mut story = Story::new();
    for id in 1..=CROWD {
        story.ask(lock(id, "s", Op::Set(set::Op::Pop(None))));
    }
    assert_eq!(story.granted(), 1);
    for id in 1..CROWD {
        let looks = story.looks_of(release(id));
        assert!(looks <= 2 + 2 * LOOKS_MAX as u64, "{looks} looks");
        assert_eq!(story.granted(), 1, "the next in line");
    }
}

#[test]
fn a_release_lets_all_in_that_share() {
    let mut story = Story::new();
    story.ask(lock(1, "s", add("a")));
    for id in 2..=CROWD {
        story.ask(lock(id, "s", card()));
    }
    story.seen();
    let looks = story.looks_of(release(1));
    assert_eq!(story.granted(), CROWD as usize - 1);
    assert!(looks <= 2 * CROWD, "{looks} looks");
    for id in 2..=CROWD {
        assert_eq!(story.looks_of(release(id)), 0, "nothing waits");
    }
}

#[test]
fn operations_behind_prepared_ones_are_looked_at_when_theirs_is_gone() {
    let mut story = Story::new();
    for id in 1..=CROWD {
        story.ask(prepare(id, &[("s", put("x"))]));
    }
    story.sync();
    for _ in 0..CROWD {
        story.ask(one("s", card()));
    }
    story.seen();
    let mut looks = 0;
    for id in 1..=CROWD {
        looks += story.looks_of(decide(id, None));
    }
    story.sync();
    let done = story.seen().iter().filter(|answer| answer.contains("done")).count();
    assert_eq!(done, CROWD as usize);
    assert!(looks <= 8 * CROWD, "{looks} looks");
}

#[test]
fn a_request_that_waits_is_told_about_once() {
    let mut story = Story::new();
    for id in 2..=CROWD {
        story.ask(lock(id, "s", card()));
    }
    story.seen();
    story.ask(lock(1, "s", add("x")));
    let wounds = |story: &mut Story| {
        story.seen().iter().filter(|answer| answer.contains("wound")).count() as u64
    };
    assert_eq!(wounds(&mut story), CROWD - 1, "every holder is younger");
    for id in 2..CROWD {
        story.ask(release(id));
    }
    assert_eq!(wounds(&mut story), 0);
    story.ask(release(CROWD));
    assert_eq!(story.granted(), 1);
}
