//! How often does a node stand still for longer than x?
//!
//! If pauses of random length P come at a low rate, a probe at a random instant meets what is left of
//! one: P(latency > x) = rate E[(P - x)+]. So the rate of pauses longer than x is the density of the
//! latency at x, in events per second. A probe of one message a second thereby forecasts how often an
//! election time-out of any length would expire, without sending heartbeats. It holds only for
//! probing in an open loop. P(latency > x) itself is not a rate, and misleads.
//!
//! The round trip sees pauses of the callee and of the way to it, the caller's own lag those of the
//! caller; the latency from the moment at which a request was due has both in it.

use super::Evidence;
use super::numeric::poisson_interval;
use super::pareto::Fitted;
use super::round::Round;
use super::tail::{LOST, Recorder, Tail};
use std::collections::BTreeMap;

const KEEP: usize = 262_144;
const KEEP_OF_CALLER: usize = 1_024;

/// Half of the window in which the density is taken, as a part of x.
const HALF_WINDOW: f64 = 0.1;

/// With fewer events in the window a fitted law knows better.
const EVENTS_MIN: f64 = 5.0;

const SECOND_NS: i64 = 1_000_000_000;

/// Collects rounds, which come in the order of time.
#[derive(Clone, Debug)]
pub struct Pauses {
    rtt: Recorder,
    latency: Recorder,
    lag: Recorder,
    lag_of: BTreeMap<u16, Recorder>,
    /// Sum and count of round trips.
    mean_of: BTreeMap<(u16, u16), (f64, u64)>,
    /// The last second in which a node was probed, and in how many it was.
    seconds_of: BTreeMap<u16, (i64, u64)>,
    sizes: BTreeMap<u8, u64>,
}

/// What was measured, over all pairs of different nodes.
#[derive(Debug)]
pub struct Measured {
    /// From sending to the reply.
    pub rtt: Tail,
    /// From the moment at which a request was due to the reply.
    pub latency: Tail,
    /// From the moment at which a round was due to sending; [`LOST`] for rounds that were skipped.
    pub lag: Tail,
    /// The worst p99 of the lag of any caller.
    pub lag_p99_ns: u64,
    /// The largest mean round trip of any pair.
    pub mean_rtt_max_ns: f64,
    /// Seconds in which nodes were probed, summed over nodes.
    pub node_seconds: u64,
    /// The size of most groups.
    pub size: u8,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            rtt: Recorder::new(KEEP),
            latency: Recorder::new(KEEP),
            lag: Recorder::new(KEEP),
            lag_of: BTreeMap::new(),
            mean_of: BTreeMap::new(),
            seconds_of: BTreeMap::new(),
            sizes: BTreeMap::new(),
        }
    }
}

impl Pauses {
    /// Adds a round.
    pub fn observe(&mut self, round: &Round) {
        self.lag.record(round.lag_ns);
        let mine = self.lag_of.entry(round.from);
        mine.or_insert_with(|| Recorder::new(KEEP_OF_CALLER)).record(round.lag_ns);
        *self.sizes.entry(round.size).or_default() += 1;
        let second = round.at_ns.div_euclid(SECOND_NS);
        for edge in round.others() {
            self.rtt.record(edge.rtt_ns);
            self.latency.record(edge.latency_ns);
            let (last, seconds) = self.seconds_of.entry(edge.to).or_insert((i64::MIN, 0));
            if second > *last {
                (*last, *seconds) = (second, *seconds + 1);
            }
            if edge.rtt_ns != LOST {
                let (sum, count) = self.mean_of.entry((round.from, edge.to)).or_default();
                (*sum, *count) = (*sum + edge.rtt_ns as f64, *count + 1);
            }
        }
    }

    /// What was added.
    pub fn finish(self) -> Measured {
        let lags = self.lag_of.into_values().filter_map(|one| one.finish().quantile(0.99));
        let means = self.mean_of.values().map(|(sum, count)| sum / *count as f64);
        let most = self.sizes.iter().max_by_key(|(size, rounds)| (**rounds, **size));
        Measured {
            size: most.map_or(3, |(size, _)| *size),
            rtt: self.rtt.finish(),
            latency: self.latency.finish(),
            lag: self.lag.finish(),
            lag_p99_ns: lags.map(|found| found.ns).filter(|ns| *ns != LOST).max().unwrap_or(0),
            mean_rtt_max_ns: means.fold(0.0, f64::max),
            node_seconds: self.seconds_of.values().map(|(_, seconds)| seconds).sum(),
        }
    }
}

/// A rate of pauses.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Pauses per second and node.
    pub per_s: f64,
    /// What that rests on.
    pub evidence: Evidence,
}

/// The density of a law at x, per second: the rate of pauses longer than x.
pub fn density_per_s(law: &Tail, x_ns: f64) -> f64 {
    if law.count() == 0 {
        return 0.0;
    }
    let half_s = HALF_WINDOW * x_ns / 1e9;
    window(law, x_ns) as f64 / (law.count() as f64 * 2.0 * half_s)
}

/// How many values lie in the window around x.
fn window(law: &Tail, x_ns: f64) -> u64 {
    let at = |factor: f64| law.above((x_ns * factor) as u64);
    at(1.0 - HALF_WINDOW).saturating_sub(at(1.0 + HALF_WINDOW))
}

/// The rate of pauses longer than x, by what was observed where there is enough of it, by a fitted
/// law beyond. `probes_per_second` is how many probes a node gets in a second: they meet the same
/// pauses, so they count as one. `certified_per_s` is a rate that matters to nobody when it is
/// smaller: if nothing came so late in a time that certifies it, there is no need to extrapolate.
pub fn rate(
    law: &Tail,
    fitted: Option<&Fitted>,
    node_seconds: u64,
    x_ns: f64,
    certified_per_s: f64,
) -> Rate {
    let count = law.count();
    let together = (count as f64 / node_seconds.max(1) as f64).max(1.0);
    let effective_count = count as f64 / together;
    let events = window(law, x_ns) as f64 / together;
    let bound_per_s = 3.0 / node_seconds.max(1) as f64;
    let of = |per_s: f64, low: f64, high: f64, extrapolated: bool| {
        let (low, high) = (Some(low), Some(high));
        Rate { per_s, evidence: Evidence { count, effective_count, low, high, extrapolated } }
    };
    let nothing_later = law.above((x_ns * (1.0 - HALF_WINDOW)) as u64) == law.lost();
    if events < EVENTS_MIN {
        if nothing_later && bound_per_s <= certified_per_s {
            return of(0.0, 0.0, bound_per_s, false);
        }
        if let Some(fitted) = fitted.filter(|fitted| x_ns > fitted.law.threshold_ns) {
            let (low, per_s, high) = fitted.interval(|law| law.density_per_s(x_ns));
            return of(per_s, low, high, true);
        }
        if nothing_later {
            return of(0.0, 0.0, bound_per_s, true);
        }
    }
    let per_s = density_per_s(law, x_ns);
    let (low, high) = poisson_interval(events);
    let scale = if events > 0.0 {
        per_s / events
    } else {
        1.0 / (effective_count * 2.0 * HALF_WINDOW * x_ns / 1e9)
    };
    of(per_s, low * scale, high * scale, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Numbers;

    /// Probes once a second from several observers at a node that pauses: exponential lengths with
    /// this mean, one pause in `every_s` seconds.
    fn probed(seconds: usize, every_s: f64, mean_s: f64, seed: u64) -> Tail {
        let mut draws = Numbers::new(seed);
        let mut recorder = Recorder::new(KEEP);
        let (mut start, mut end) = (every_s * -draws.unit().ln(), 0.0);
        for second in 0..seconds {
            let at = second as f64 + draws.unit() * 0.999;
            while start <= at {
                end = start + mean_s * -draws.unit().ln();
                start = end + every_s * -draws.unit().ln();
            }
            recorder.record(1_000_000 + ((end - at).max(0.0) * 1e9) as u64);
        }
        recorder.finish()
    }

    #[test]
    fn the_density_of_latency_is_the_rate_of_pauses() {
        let (seconds, every_s, mean_s) = (4_000_000, 200.0, 0.5);
        let law = probed(seconds, every_s, mean_s, 9);
        for x_s in [0.2, 0.5, 1.0, 2.0] {
            let truth = (-x_s / mean_s).exp() / every_s;
            let found = rate(&law, None, seconds as u64, x_s * 1e9, 1e-7);
            assert!((found.per_s / truth - 1.0).abs() < 0.2, "{x_s} {} {truth}", found.per_s);
            let evidence = found.evidence;
            assert!(evidence.low.unwrap() < truth && truth < evidence.high.unwrap());
            assert!(!evidence.extrapolated);
            // The part of probes that come later than x is no rate.
            assert!((law.part_above((x_s * 1e9) as u64) / truth - 1.0).abs() > 0.3);
        }
    }

    #[test]
    fn beyond_what_was_seen_a_fitted_law_speaks_and_says_so() {
        let law = probed(400_000, 100.0, 0.2, 4);
        let fitted = super::super::pareto::fit(&law, 0.999, &mut Numbers::new(2)).unwrap();
        let x_ns = 3e9;
        let found = rate(&law, Some(&fitted), 400_000, x_ns, 1e-7);
        assert!(found.evidence.extrapolated);
        let truth = (-3.0f64 / 0.2).exp() / 100.0;
        assert!(found.evidence.high.unwrap() >= truth, "{found:?} {truth}");
        // A time that certifies the rate that matters needs no fitted law.
        let certified = rate(&law, Some(&fitted), 400_000, 30e9, 1e-5);
        assert_eq!((certified.per_s, certified.evidence.extrapolated), (0.0, false));
        assert_eq!(certified.evidence.high, Some(3.0 / 400_000.0));
    }
}
