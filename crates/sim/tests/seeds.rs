//! Requirements on every change: seeds without a failure, the same run from the same seed, rare
//! events that still occur. Planted bugs are tested in a separate step.

use sim::{Focus, Report, run};

/// Seeds in which all faults and all rare events occur.
const SEEDS: u64 = 100;
/// Seeds about trees over several shards.
const TREES: u64 = 100;

/// Faults that occur in some of these seeds.
const FAULTS: &[&str] = &[
    "asked_twice",
    "clients_vanished",
    "clock_jumps",
    "clock_leaps",
    "connections_reset",
    "crashes",
    "cuts",
    "disconnects",
    "downgrades",
    "entries_left_out",
    "failed_syncs",
    "flipped_bits",
    "full_disks",
    "handovers",
    "leaders_isolated",
    "lies",
    "links_clogged",
    "lost_disks",
    "machines_replaced",
    "messages_garbled",
    "moves",
    "one_way_cuts",
    "outages",
    "pauses",
    "reshapings",
    "shards_removed",
    "snapshots",
    "snapshots_sent",
    "stand_backs",
    "torn_writes",
    "unsynced_writes_lost",
    "upgrades",
    "writes_to_a_full_disk",
];

/// Rare events that must occur all the same.
const MARKS: &[&str] = &[
    "backups",
    "cached_values_checked",
    "caches_dropped",
    "cuts_refused",
    "damage_noticed",
    "deposed_leaders_unaware",
    "draws",
    "entries_overwritten",
    "garbled_messages_noticed",
    "groups_of_pipelines",
    "guests_fell_silent",
    "guests_heard_nothing",
    "indefinite_told",
    "leads_changed",
    "levels_raised",
    "levels_raised_early",
    "locks_kept_over_pause",
    "locks_lost_over_pause",
    "machines_turned_away",
    "newer_levels_used",
    "no_leader_told",
    "prepared_when_lead_changed",
    "questions_about_fates",
    "reads_without_lease",
    "replicas_compared",
    "retries_answered",
    "retries_found_outcome",
    "sessions_begun",
    "sessions_expired",
    "sessions_resumed",
    "transactions_abandoned",
    "units_when_lead_changed",
    "watches_set_again",
    "watches_told",
];

/// Runs so many seeds, none of which may fail.
fn passes(seeds: u64, focus: Focus, flag: &str) -> Report {
    let mut report = Report::default();
    for seed in 1..=seeds {
        let run = run(seed, focus, None);
        assert_eq!(run.failure, None, "claret sim{flag} --seed {seed}");
        report.add(&run);
    }
    report
}

#[test]
fn seeds_pass_and_see_what_is_rare() {
    let report = passes(SEEDS, Focus::Everything, "");
    let unseen: Vec<_> = MARKS.iter().filter(|mark| !report.marks.contains_key(*mark)).collect();
    let unhurt: Vec<_> = FAULTS.iter().filter(|kind| !report.faults.contains_key(*kind)).collect();
    assert_eq!((unseen, unhurt), (vec![], vec![]), "not in {SEEDS} seeds");
}

#[test]
fn a_tree_that_is_spread_keeps_its_promises() {
    let report = passes(TREES, Focus::Trees, " --trees");
    let rare = [
        "requests_sent_ahead",
        "sessions_expired",
        "sessions_resumed",
        "trees_spread",
        "watches_set_again",
    ];
    let unseen: Vec<_> = rare.iter().filter(|mark| !report.marks.contains_key(*mark)).collect();
    assert_eq!(unseen, Vec::<&&str>::new(), "not in {TREES} seeds");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 4, 5] {
        let (one, two) = (run(seed, Focus::Everything, None), run(seed, Focus::Everything, None));
        assert_eq!(one.outcome.trace_hash, two.outcome.trace_hash);
        assert_eq!(one.outcome.events, two.outcome.events);
        assert_eq!(one.verdicts, two.verdicts);
        assert_eq!(one.outcome.marks, two.outcome.marks);
    }
    assert_ne!(
        run(3, Focus::Everything, None).outcome.trace_hash,
        run(4, Focus::Everything, None).outcome.trace_hash
    );
}
