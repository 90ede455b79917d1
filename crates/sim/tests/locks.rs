//! Locks under faults: with fencing no write under an old token is accepted; without it, in the
//! same runs, some are.

use sim::{Focus, Plant, Run, run};
use std::collections::BTreeMap;

/// Seeds in which everything happens that the checker judges.
const SEEDS: u64 = 100;

/// Events that the checker must have seen in these seeds, with their least number.
const LOOKED_AT: [(&str, u64); 11] = [
    ("grants", 500),
    ("leases counted", 200),
    ("sections", 50),
    ("writes", 1_000),
    ("unknown writes", 10),
    ("reads", 500),
    ("fenced", 50),
    ("leaders told", 50),
    ("proclamations", 50),
    ("generations", 50),
    ("grants with a limit", 20),
];

/// Rare events that must occur.
const MARKS: &[&str] = &[
    "barriers_not_passed",
    "barriers_passed",
    "fenced_writes",
    "holders_left",
    "holders_told_indefinite",
    "leaders_told",
    "leads_changed",
    "leases_found_ended",
    "locks_asked_again",
    "locks_found_lost",
    "locks_granted",
    "locks_granted_at_once",
    "locks_not_granted",
    "locks_taken_away",
    "old_tokens_refused",
    "proclamations",
    "releases_too_late",
    "sections",
    "sections_not_let_in",
    "told_early",
    "writes_with_lock_held",
];

fn of_locks(seed: u64) -> Run {
    run(seed, Focus::Locks, None)
}

#[test]
fn nothing_is_accepted_under_an_old_token() {
    let (mut counts, mut marks) = (BTreeMap::new(), BTreeMap::new());
    for seed in 1..=SEEDS {
        let run = of_locks(seed);
        assert_eq!(run.failure, None, "claret sim --locks --seed {seed}");
        let verdict = run.verdicts.iter().find(|verdict| verdict.checker == "locks").unwrap();
        for (what, count) in &verdict.counts {
            *counts.entry(*what).or_insert(0) += count;
        }
        marks.extend(run.outcome.marks);
    }
    for (what, least) in LOOKED_AT {
        assert!(counts.get(what).is_some_and(|count| *count >= least), "{what}: {counts:?}");
    }
    let unseen: Vec<_> = MARKS.iter().filter(|mark| !marks.contains_key(*mark)).collect();
    assert_eq!(unseen, Vec::<&&str>::new(), "not in {SEEDS} seeds");
}

#[test]
fn without_fences_many_of_these_runs_go_wrong() {
    let fails = |seed: &u64| {
        let run = run(*seed, Focus::Locks, Some(Plant::UnfencedWrites));
        let verdict = run.verdicts.iter().find(|verdict| verdict.checker == "locks");
        verdict.is_some_and(|verdict| verdict.has("old-token") || verdict.has("token-goes-back"))
    };
    let failed = (1..=SEEDS).filter(fails).count() as u64;
    assert!(failed > SEEDS / 3, "{failed} of {SEEDS}");
}

#[test]
fn the_same_seed_gives_the_same_locks() {
    for seed in [2, 3] {
        let (one, two) = (of_locks(seed), of_locks(seed));
        assert_eq!(one.outcome.trace_hash, two.outcome.trace_hash);
        assert_eq!(one.outcome.locks, two.outcome.locks);
        assert_ne!(one.outcome.locks, None);
    }
}
