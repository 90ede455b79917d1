//! Comparison of the formulas with an enumeration of all states, and of slots with their planted
//! delays.

use crate::calibrate::protocols::xft::*;
use crate::calibrate::round::made::round;

const MS: u64 = 1_000_000;

/// Enumerates all states: every replica is correct and synchronous, correct and late, crashed, or
/// arbitrary.
fn enumerated(n: usize, faults: Faults, synchronous: f64) -> (f64, f64) {
    let tolerated = (n - 1) / 2;
    let weights = [
        faults.correct() * synchronous,
        faults.correct() * (1.0 - synchronous),
        faults.crash,
        faults.other,
    ];
    let (mut consistent, mut available) = (0.0, 0.0);
    for state in 0..4usize.pow(n as u32) {
        let of = |replica: usize| (state / 4usize.pow(replica as u32)) % 4;
        let p: f64 = (0..n).map(|replica| weights[of(replica)]).product();
        let count = |kind: usize| (0..n).filter(|replica| of(*replica) == kind).count();
        if count(3) == 0 || count(1) + count(2) + count(3) <= tolerated {
            consistent += p;
        }
        if count(0) >= n - tolerated {
            available += p;
        }
    }
    (consistent, available)
}

/// Formula for P(consistent) as printed.
fn printed(n: usize, faults: Faults, synchronous: f64) -> f64 {
    let t = (n - 1) / 2;
    let (pc, pcr, pnc) = (faults.correct(), faults.crash, faults.other);
    let mut sum = (pc + pcr).powi(n as i32);
    for i in 1..=t {
        let mut inner = 0.0;
        for j in 0..=t - i {
            let m = n - i - j;
            let late = |k: usize| {
                choose(m, k) * (1.0 - synchronous).powi(k as i32) * synchronous.powi((m - k) as i32)
            };
            let few: f64 = (0..=t - i - j).map(late).sum();
            inner += choose(n - i, j) * pcr.powi(j as i32) * pc.powi(m as i32) * few;
        }
        sum += choose(n, i) * pnc.powi(i as i32) * inner;
    }
    sum
}

#[test]
fn likelihoods_are_those_of_all_states() {
    for n in [3, 5, 7] {
        for (crash, other, synchronous) in [(0.1, 0.05, 0.9), (1e-3, 1e-4, 0.999), (0.3, 0.2, 0.5)]
        {
            let faults = Faults { crash, other };
            let found = independent(n, faults, synchronous);
            let (consistent, available) = enumerated(n, faults, synchronous);
            assert!((1.0 - found.inconsistent - consistent).abs() < 1e-13, "{n} {found:?}");
            assert!((1.0 - found.unavailable - available).abs() < 1e-13, "{n} {found:?}");
            assert!((printed(n, faults, synchronous) - consistent).abs() < 1e-13);
            // The measured distribution of independent replicas gives the same.
            let slow = 1.0 - synchronous;
            let law: Vec<f64> = (0..=n)
                .map(|j| {
                    let together = slow.powi(j as i32) * synchronous.powi((n - j) as i32);
                    choose(n, j) * together
                })
                .collect();
            let same = measured(n, faults, &law);
            assert!((same.inconsistent - found.inconsistent).abs() < 1e-13);
            assert!((same.unavailable - found.unavailable).abs() < 1e-13);
        }
    }
}

#[test]
fn nines_count_digits() {
    assert_eq!([0.2, 0.1, 0.001, 0.002, 1e-12].map(nines), [0, 1, 3, 2, 12]);
    assert_eq!(nines(0.0), 99);
    // Without faults only slowness reduces availability, and consistency is certain.
    let found = independent(3, Faults { crash: 0.0, other: 0.0 }, 0.99);
    assert_eq!(found.inconsistent, 0.0);
    assert!((found.unavailable - (3.0 * 0.01f64.powi(2) * 0.99 + 1e-6)).abs() < 1e-15);
}

#[test]
fn a_clique_is_the_largest_set_that_is_quick_both_ways() {
    // Replicas 0, 1 and 2 are near each other; 3 is near to 2 only.
    let near = vec![vec![0, 1, 2, 90], vec![1, 0, 3, 80], vec![2, 3, 0, 4], vec![90, 80, 4, 0]];
    assert_eq!(cliques(&near), [0, 1, 3, 90]);
}

#[test]
fn slots_without_margin_are_spells() {
    let mut slots = Slots::new(1_000_000_000, vec![10 * MS, 1_000 * MS]);
    for second in 0..100 {
        // For five seconds all answers of node 2 are late; in one it never answers node 0.
        let late = if (40..45).contains(&second) { 50 * MS } else { MS };
        for from in 0..3u16 {
            let mut latencies = [MS, MS, late];
            if from == 0 && second == 70 {
                latencies[2] = LOST;
            }
            if from == 2 {
                latencies = [late, late, MS];
            }
            // In one second node 1 does not measure.
            if from != 1 || second != 90 {
                slots.observe(&round(second, from, &latencies));
            }
        }
    }
    let found = report(&slots.finish(), Faults { crash: 1e-3, other: 1e-6 });
    let [strict, loose] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((strict.evidence.count, strict.partial_slots), (99, 1));
    assert!((strict.not_synchronous[1] - 6.0 / 99.0).abs() < 1e-12);
    assert!((strict.synchronous - (1.0 - 2.0 / 99.0)).abs() < 1e-12);
    assert!((strict.margin_at_most[0] - 6.0 / 99.0).abs() < 1e-12);
    assert!((strict.margin_at_most[1] - 1.0).abs() < 1e-12);
    assert_eq!(strict.longest_spell_s, 5.0);
    assert_eq!((strict.spells[0].from_ns, strict.spells[0].slots), (40_000_000_000, 5));
    assert!((loose.not_synchronous[1] - 1.0 / 99.0).abs() < 1e-12);
    assert!(loose.as_measured.unavailable < strict.as_measured.unavailable);
}
