//! Comparison of the formulas with simulations.

use crate::calibrate::pauses::Pauses;
use crate::calibrate::protocols::raft::*;
use crate::calibrate::round::{Edge, Group, Round};

/// Simulation of the detector: heartbeat i is sent at i h and fresh from i h + d on.
fn simulated(h: f64, d: f64, loss: f64, mean: f64, beats: usize) -> (f64, f64) {
    let mut draws = Numbers::new(12);
    let arrivals: Vec<f64> = (0..beats + 40)
        .map(|i| {
            let delay = mean * -draws.unit().ln();
            if draws.unit() < loss { f64::INFINITY } else { i as f64 * h + delay }
        })
        .collect();
    let ahead = (d / h).ceil() as usize + 1;
    let fresh = |i: usize| arrivals[i..=i + ahead].iter().copied().fold(f64::INFINITY, f64::min);
    let (mut mistakes, mut suspected) = (0u32, 0.0);
    for i in 1..beats {
        let (from, to) = (i as f64 * h + d, (i as f64 + 1.0) * h + d);
        let trusted_at = fresh(i);
        if trusted_at > from {
            suspected += trusted_at.min(to) - from;
            mistakes += u32::from(fresh(i - 1) <= from);
        }
    }
    (beats as f64 * h / f64::from(mistakes), suspected / f64::from(mistakes))
}

#[test]
fn the_detector_makes_the_mistakes_that_the_formula_says() {
    for (h, d, loss, mean) in [(1.0, 0.3, 0.02, 0.05), (0.1, 0.25, 0.1, 0.08), (1.0, 1.0, 0.2, 0.3)]
    {
        let found = nfd_s(h, d, loss, |t| (-t / mean).exp());
        let (between, length) = simulated(h, d, loss, mean, 1_000_000);
        assert!((found.between_mistakes_s / between - 1.0).abs() < 0.03, "{found:?} {between}");
        assert!((found.mistake_s / length - 1.0).abs() < 0.04, "{found:?} {length}");
        assert!((found.detection_s - d - h).abs() < 1e-12);
    }
}

const WANTED: Wanted = Wanted {
    size: 3,
    false_suspicions_per_s: 1e-5,
    pre_vote: true,
    crashes_per_s: 1e-6,
    election_cost_s: 5.0,
    heartbeat_min_ms: 10.0,
    drift: 5e-4,
};

/// Measurements of a leader that pauses with exponential lengths of this mean, probed once a
/// second.
fn paused(seconds: u32, every_s: f64, mean_s: f64) -> Measured {
    let mut draws = Numbers::new(77);
    let mut pauses = Pauses::default();
    let (mut start, mut end) = (every_s * -draws.unit().ln(), 0.0);
    for second in 0..seconds {
        let at = f64::from(second) + draws.unit() * 0.999;
        while start <= at {
            end = start + mean_s * -draws.unit().ln();
            start = end + every_s * -draws.unit().ln();
        }
        let rtt_ns = 1_000_000 + ((end - at).max(0.0) * 1e9) as u64;
        pauses.observe(&Round {
            at_ns: (at * 1e9) as i64,
            group: Group { epoch: 0, number: 0 },
            size: 3,
            workload: 0,
            from: 0,
            lag_ns: 50_000,
            edges: vec![Edge { to: 1, latency_ns: rtt_ns + 50_000, rtt_ns }],
            down: Vec::new(),
        });
    }
    pauses.finish()
}

#[test]
fn the_time_out_has_the_wanted_rate() {
    // Rate of pauses of at least E (1 + v) - u h, where v is the smaller of two and h = E / 3.
    let per_s = |e_s: f64| {
        let grid = || (0..200).map(|i| (f64::from(i) + 0.5) / 200.0);
        let of = |v: f64, u: f64| 2.0 * (1.0 - v) * (-(e_s * (1.0 + v - u / 3.0)) / 0.2).exp();
        grid().flat_map(|v| grid().map(move |u| of(v, u))).sum::<f64>() / 4e4 / 100.0
    };
    let measured = paused(1_000_000, 100.0, 0.2);
    let found = report(&measured, None, &WANTED, &mut Numbers::new(1));
    let truth_ms = 1e3 * crate::calibrate::numeric::bisect(0.1, 5.0, |e_s| per_s(e_s) <= 1e-5);
    let e_ms = found.election_timeout_ms.unwrap();
    assert!((e_ms / truth_ms - 1.0).abs() < 0.25, "{e_ms} {truth_ms}");
    assert!(found.evidence.low.unwrap() <= truth_ms && truth_ms <= found.evidence.high.unwrap());
    let timers = found.timers.unwrap();
    assert!((timers.heartbeat_ms - e_ms / 3.0).abs() < 1e-6);
    assert!((timers.lease_ms.unwrap() - (e_ms * 0.999_5 - 0.05)).abs() < 1e-6);
    assert!((timers.detection_mean_ms - (e_ms * 4.0 / 3.0 - e_ms / 6.0 + 0.5)).abs() < 0.1);
    assert!((timers.detection_max_ms - (2.0 * e_ms + 0.5)).abs() < 0.1);
    assert!(timers.false_suspicions_per_day <= 0.864);
    assert!((found.observed_node_days - 11.574).abs() < 0.01);
    assert!((found.needed_node_days - 3.472).abs() < 0.001);
}

#[test]
fn what_was_not_observed_is_marked() {
    let measured = paused(200_000, 100.0, 0.2);
    let strict = Wanted { false_suspicions_per_s: 1.0 / 2_592_000.0, ..WANTED };
    let found = report(&measured, None, &strict, &mut Numbers::new(1));
    assert!(found.evidence.extrapolated);
    assert!(found.needed_node_days > found.observed_node_days);
    // The result is less than this, which would be enough if timers ran for E.
    let truth_ms = 1e3 * 0.2 * 25_920f64.ln() * 1.2;
    assert!(found.evidence.low.unwrap() <= truth_ms, "{found:?}");
    let loose = Wanted { false_suspicions_per_s: 1e-3, ..WANTED };
    let found = report(&measured, None, &loose, &mut Numbers::new(1));
    assert!(!found.evidence.extrapolated);
}

#[test]
fn a_stricter_rate_never_shortens_the_time_out() {
    let measured = paused(200_000, 50.0, 0.3);
    let mut last = 0.0;
    for wanted in [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7] {
        let wanted = Wanted { false_suspicions_per_s: wanted, ..WANTED };
        let found = report(&measured, None, &wanted, &mut Numbers::new(1));
        let e_ms = found.election_timeout_ms.unwrap_or(f64::INFINITY);
        assert!(e_ms >= last, "{e_ms} {last}");
        last = e_ms;
    }
}

#[test]
fn without_pre_vote_followers_count_too() {
    let mut measured = paused(200_000, 50.0, 0.3);
    // Every node sees itself as its callers see it.
    measured.lag = measured.rtt.clone();
    let with = report(&measured, None, &WANTED, &mut Numbers::new(1));
    let without = Wanted { pre_vote: false, ..WANTED };
    let without = report(&measured, None, &without, &mut Numbers::new(1));
    assert!(
        without.election_timeout_ms.unwrap_or(f64::INFINITY) > with.election_timeout_ms.unwrap()
    );
    let rates = with.curve.iter().zip(&without.curve);
    let observed = |one: &Point| one.pauses_per_day > 0.0 && !one.evidence.extrapolated;
    for (with, without) in rates.filter(|(with, _)| observed(with)) {
        let ratio = without.false_suspicions_per_day / with.false_suspicions_per_day;
        // Each of two followers also disturbs by itself, by a timer that is longer than the first.
        assert!(ratio > 1.0 && ratio < 3.2, "{ratio}");
    }
}
