//! Rate of pauses of a node that are longer than x.
//!
//! If pauses of random length P start at a low rate, a probe at a random instant meets the rest of
//! one: P(latency > x) = rate E[(P - x)+]. So the rate of pauses longer than x is the density of
//! the latency at x, in events per second. A probe of one message a second thereby forecasts how
//! often an election time-out of any length would expire, without sending heartbeats. This holds
//! only for probing in an open loop. P(latency > x) itself is not a rate, and misleads.
//!
//! A time-out has no single length: timers run from E to its double, the first one counts, and
//! their start depends on the last heartbeat. If the length that a pause must have has the density
//! f, the rate of pauses that are long enough is the integral of f(x) times the rate of pauses
//! longer than x. With the above, that is the mean of f over all latencies: [`Timer`].
//!
//! The round trip includes pauses of the callee and of the network path to it, the caller's own lag
//! those of the caller; the latency from the moment at which a request was due includes both. Time
//! that every message takes delays no heartbeat more than the one before, so only the excess of a
//! round trip over the shortest one of that pair counts.

use super::Evidence;
use super::numeric::poisson_interval;
use super::pareto::Fitted;
use super::round::Round;
use super::tail::{LOST, Recorder, Tail};
use std::collections::BTreeMap;

const KEEP: usize = 262_144;
const KEEP_OF_CALLER: usize = 1_024;

/// Half of the window in which the density is taken, as a fraction of x.
const HALF_WINDOW: f64 = 0.1;

/// Points at which a fitted distribution is integrated.
const POINTS: u32 = 64;

/// Number of events below which a fitted distribution is better than counting.
const EVENTS_MIN: f64 = 5.0;

const SECOND_NS: i64 = 1_000_000_000;

/// Collects rounds in the order of time.
#[derive(Clone, Debug)]
pub struct Pauses {
    rtt: Recorder,
    beyond: Recorder,
    latency: Recorder,
    lag: Recorder,
    least_of: BTreeMap<(u16, u16), u64>,
    lag_of: BTreeMap<u16, Recorder>,
    /// Sum and count of round trips, by pair.
    mean_of: BTreeMap<(u16, u16), (f64, u64)>,
    /// Last second in which each node was probed, and the number of such seconds.
    seconds_of: BTreeMap<u16, (i64, u64)>,
    sizes: BTreeMap<u8, u64>,
}

/// Measurements over all pairs of different nodes.
#[derive(Debug)]
pub struct Measured {
    /// Time from sending to the reply.
    pub rtt: Tail,
    /// Excess of that time over the shortest round trip of the pair.
    pub beyond: Tail,
    /// Time from the moment at which a request was due to the reply.
    pub latency: Tail,
    /// Time from the moment at which a round was due to sending; [`LOST`] for skipped rounds.
    pub lag: Tail,
    /// Worst p99 of the lag of any caller.
    pub lag_p99_ns: u64,
    /// Largest mean round trip of any pair.
    pub mean_rtt_max_ns: f64,
    /// Seconds in which nodes were probed, summed over nodes.
    pub node_seconds: u64,
    /// Most frequent group size.
    pub size: u8,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            rtt: Recorder::new(KEEP),
            beyond: Recorder::new(KEEP),
            latency: Recorder::new(KEEP),
            lag: Recorder::new(KEEP),
            least_of: BTreeMap::new(),
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
            let least = self.least_of.entry((round.from, edge.to)).or_insert(LOST);
            *least = edge.rtt_ns.min(*least);
            self.beyond.record(if edge.rtt_ns == LOST { LOST } else { edge.rtt_ns - *least });
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

    /// Adds calls between two nodes of which only the number, latency and round trip are known;
    /// both may be [`LOST`].
    pub fn count(&mut self, pair: (u16, u16), latency_ns: u64, rtt_ns: u64, times: u64) {
        let least = self.least_of.entry(pair).or_insert(LOST);
        *least = rtt_ns.min(*least);
        let beyond_ns = if rtt_ns == LOST { LOST } else { rtt_ns - *least };
        for _ in 0..times {
            self.rtt.record(rtt_ns);
            self.beyond.record(beyond_ns);
            self.latency.record(latency_ns);
        }
    }

    /// Adds rounds of which only the caller's own delay is known, which is [`LOST`] for skipped
    /// rounds.
    pub fn count_rounds(&mut self, lag_ns: u64, times: u64) {
        (0..times).for_each(|_| self.lag.record(lag_ns));
    }

    /// Adds seconds in which a node was called.
    pub fn count_seconds(&mut self, node: u16, seconds: u64) {
        self.seconds_of.entry(node).or_insert((i64::MIN, 0)).1 += seconds;
    }

    /// Returns the measurements.
    pub fn finish(self) -> Measured {
        let lags = self.lag_of.into_values().filter_map(|one| one.finish().quantile(0.99));
        let means = self.mean_of.values().map(|(sum, count)| sum / *count as f64);
        let most = self.sizes.iter().max_by_key(|(size, rounds)| (**rounds, **size));
        Measured {
            size: most.map_or(3, |(size, _)| *size),
            rtt: self.rtt.finish(),
            beyond: self.beyond.finish(),
            latency: self.latency.finish(),
            lag: self.lag.finish(),
            lag_p99_ns: lags.map(|found| found.ns).filter(|ns| *ns != LOST).max().unwrap_or(0),
            mean_rtt_max_ns: means.fold(0.0, f64::max),
            node_seconds: self.seconds_of.values().map(|(_, seconds)| seconds).sum(),
        }
    }
}

/// Length of a leader's pause until a follower stands for election.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// Lower edge E: timers run from here to its double.
    pub least_ns: f64,
    /// Heartbeat interval: a pause begins at any time between two heartbeats, and timers at the
    /// last one.
    pub heartbeat_ns: f64,
    /// Number of timers, of which the first to expire counts.
    pub timers: u32,
}

impl Timer {
    /// Probability that the first timer expires after x.
    fn over(&self, x_ns: f64) -> f64 {
        let beyond = (x_ns / self.least_ns - 1.0).clamp(0.0, 1.0);
        1.0 - (1.0 - beyond).powi(self.timers as i32)
    }

    /// Density of the length that a pause must have, per second.
    fn density_per_s(&self, x_ns: f64) -> f64 {
        (self.over(x_ns + self.heartbeat_ns) - self.over(x_ns)) / (self.heartbeat_ns / 1e9)
    }

    /// Shortest pause that may be long enough.
    fn begin_ns(&self) -> f64 {
        (self.least_ns - self.heartbeat_ns).max(0.0)
    }
}

/// A rate of pauses.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Pauses per second and node.
    pub per_s: f64,
    /// Evidence for the rate.
    pub evidence: Evidence,
}

/// Density of a distribution at x, per second: the rate of pauses longer than x.
pub fn density_per_s(law: &Tail, x_ns: f64) -> f64 {
    if law.count() == 0 {
        return 0.0;
    }
    let half_s = HALF_WINDOW * x_ns / 1e9;
    window(law, x_ns) as f64 / (law.count() as f64 * 2.0 * half_s)
}

/// Number of values in the window around x.
fn window(law: &Tail, x_ns: f64) -> u64 {
    let at = |factor: f64| law.above((x_ns * factor) as u64);
    at(1.0 - HALF_WINDOW).saturating_sub(at(1.0 + HALF_WINDOW))
}

/// Rate of pauses that outlast a timer. With too few observations, by the fitted distribution; if
/// no pause was that long in a time that certifies the rate, there is no need to extrapolate.
pub fn rate(
    law: &Tail,
    fitted: Option<&Fitted>,
    node_seconds: u64,
    timer: &Timer,
    certified_per_s: f64,
) -> Rate {
    let count = law.count();
    let together = (count as f64 / node_seconds.max(1) as f64).max(1.0);
    let effective_count = count as f64 / together;
    let bound_per_s = 3.0 / node_seconds.max(1) as f64;
    let of = |per_s: f64, low: f64, high: f64, extrapolated: bool| {
        let (low, high) = (Some(low), Some(high));
        Rate { per_s, evidence: Evidence { count, effective_count, low, high, extrapolated } }
    };
    let (mut sum, mut squares) = (0.0, 0.0);
    law.visit_above(timer.begin_ns() as u64, |ns, times| {
        let density = timer.density_per_s(ns as f64);
        sum += density * times as f64;
        squares += density * density * times as f64;
    });
    // As uncertain as this number of events of equal weight.
    let events = if squares > 0.0 { sum * sum / squares / together } else { 0.0 };
    let nothing_later = law.above(timer.begin_ns() as u64) == law.lost();
    if events < EVENTS_MIN {
        if nothing_later && bound_per_s <= certified_per_s {
            return of(0.0, 0.0, bound_per_s, false);
        }
        if let Some(fitted) = fitted.filter(|fitted| timer.begin_ns() > fitted.law.threshold_ns) {
            let step_ns = (2.0 * timer.least_ns - timer.begin_ns()) / f64::from(POINTS);
            let (low, per_s, high) = fitted.interval(|law| {
                let points = (0..POINTS).map(|i| timer.begin_ns() + (f64::from(i) + 0.5) * step_ns);
                let rates = points.map(|x| timer.density_per_s(x) * law.density_per_s(x));
                rates.sum::<f64>() * step_ns / 1e9
            });
            return of(per_s, low, high, true);
        }
        if nothing_later {
            return of(0.0, 0.0, bound_per_s, true);
        }
    }
    let per_s = sum / count.max(1) as f64;
    let (low, high) = poisson_interval(events);
    let scale = if events > 0.0 { per_s / events } else { bound_per_s / 3.0 };
    of(per_s, low * scale, high * scale, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Numbers;

    /// Probes once a second from several observers of a node that pauses: exponential lengths with
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
            let found = density_per_s(&law, x_s * 1e9);
            assert!((found / truth - 1.0).abs() < 0.2, "{x_s} {found} {truth}");
            // The fraction of probes that are later than x is no rate.
            assert!((law.part_above((x_s * 1e9) as u64) / truth - 1.0).abs() > 0.3);
        }
    }

    #[test]
    fn the_mean_density_of_a_timer_is_the_rate_of_pauses_that_outlast_it() {
        let (seconds, every_s, mean_s) = (4_000_000, 200.0, 0.5);
        let law = probed(seconds, every_s, mean_s, 9);
        for (least_s, heartbeat_s, timers) in [(0.3, 0.1, 1), (0.6, 0.1, 2), (0.9, 0.3, 4)] {
            let timer = Timer { least_ns: least_s * 1e9, heartbeat_ns: heartbeat_s * 1e9, timers };
            let found = rate(&law, None, seconds as u64, &timer, 1e-7);
            // Timers that expire during a leader's pause, drawn one by one.
            let mut draws = Numbers::new(3);
            let draw = |draws: &mut Numbers| {
                let first = (0..timers).map(|_| draws.unit()).fold(1.0, f64::min);
                least_s * (1.0 + first) - heartbeat_s * draws.unit()
            };
            let rates = (0..100_000).map(|_| (-draw(&mut draws) / mean_s).exp() / every_s);
            let truth = rates.sum::<f64>() / 1e5;
            assert!((found.per_s / truth - 1.0).abs() < 0.1, "{} {truth}", found.per_s);
            let evidence = found.evidence;
            assert!(evidence.low.unwrap() < truth && truth < evidence.high.unwrap());
            assert!(!evidence.extrapolated);
        }
    }

    #[test]
    fn beyond_what_was_seen_a_fitted_law_speaks_and_says_so() {
        let law = probed(400_000, 100.0, 0.2, 4);
        let fitted = super::super::pareto::fit(&law, 0.999, &mut Numbers::new(2)).unwrap();
        let timer = |s: f64| Timer { least_ns: s * 1e9, heartbeat_ns: s * 1e8, timers: 2 };
        let found = rate(&law, Some(&fitted), 400_000, &timer(2.5), 1e-7);
        assert!(found.evidence.extrapolated);
        // A pause that is long enough for the shortest timer.
        let most = (-2.25f64 / 0.2).exp() / 100.0;
        assert!(found.per_s > 0.0 && found.evidence.low.unwrap() <= most, "{found:?} {most}");
        // A time that certifies the required rate needs no fitted distribution.
        let certified = rate(&law, Some(&fitted), 400_000, &timer(30.0), 1e-5);
        assert_eq!((certified.per_s, certified.evidence.extrapolated), (0.0, false));
        assert_eq!(certified.evidence.high, Some(3.0 / 400_000.0));
    }
}
