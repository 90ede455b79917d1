//! What every change has to survive: seeds without a failure, the same run from the same seed, and
//! planted bugs that are noticed.

use sim::{Plant, run};

#[test]
fn seeds_pass() {
    for seed in 1..=25 {
        let run = run(seed, None);
        assert_eq!(run.failure, None, "claret sim --seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 4, 5] {
        let (one, two) = (run(seed, None), run(seed, None));
        assert_eq!(one.outcome.trace_hash, two.outcome.trace_hash);
        assert_eq!(one.outcome.events, two.outcome.events);
    }
    assert_ne!(run(3, None).outcome.trace_hash, run(4, None).outcome.trace_hash);
}

#[test]
fn planted_bugs_are_noticed() {
    for plant in Plant::ALL {
        let found = (1..=200).find(|seed| run(*seed, Some(plant)).failure.is_some());
        assert!(found.is_some(), "{} stays unnoticed for 200 seeds", plant.name());
    }
}
