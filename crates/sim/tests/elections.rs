//! Elections of a group without requests on virtual time: their number, and the time without a
//! leader.

use sim::elections::{Law, Pace, Pauses, Plan, Seen, run};

/// Three machines next to each other, with pauses of this mean length.
fn law(per_hour: f64, mean_ms: f64) -> Law {
    Law {
        pauses: Pauses { per_hour, mean_ms, max_ms: 4_000.0 },
        ways_us: vec![vec![110.0; 3]; 3],
        spread: 0.08,
        held: Pauses { per_hour: 0.0, mean_ms: 0.0, max_ms: 0.0 },
        sync_us: 2_000.0,
        lag_us: 60.0,
    }
}

fn seen(law: &Law, pace: Pace, hours: u64, kills: u32, skips: bool) -> Seen {
    run(&Plan { law: law.clone(), pace, seed: 5, hours, kills, skips }).unwrap()
}

#[test]
fn nothing_happens_in_the_time_that_is_skipped() {
    let law = law(20.0, 400.0);
    let [skipped, whole] = [true, false].map(|skips| seen(&law, Pace::default(), 12, 0, skips));
    assert!(whole.needless >= 5, "{whole:?}");
    assert_eq!((skipped.needless, skipped.quiet_us), (whole.needless, whole.quiet_us));
    assert_eq!(whole.skipped_us, 0);
    assert!(skipped.skipped_us > skipped.quiet_us / 2, "{skipped:?}");
    assert!(skipped.events * 2 < whole.events, "{skipped:?} {whole:?}");
}

#[test]
fn without_pauses_there_are_no_elections_and_runs_repeat() {
    let law = law(0.0, 0.0);
    let [one, two] = [(); 2].map(|()| seen(&law, Pace::default(), 100, 40, true));
    assert_eq!(one.needless, 0);
    assert_eq!((one.hash, &one.outages_us), (two.hash, &two.outages_us));
    // The first of two timers from 950 to 1950 ms, which began at a heartbeat: 1283 - 50 ms.
    let mean_us = one.outages_us.iter().sum::<u64>() as f64 / one.outages_us.len() as f64;
    assert!((1_100_000.0..1_400_000.0).contains(&mean_us), "{mean_us}");
    assert!(one.outages_us.iter().all(|us| (850_000..2_100_000).contains(us)), "{one:?}");
}
