//! Round trips by themselves: their distribution (E0), and the time to wait for several of them
//! (E1). Threads of this process echo data over lines.

use crate::coordination::points::plan::{Measure, Point};
use crate::load::random::Rng;
use crate::report::{fields, rounded};
use crate::servers::links::{Delays, Lines, Links};
use model::Law;
use model::order::Fastest;
use serde_json::{Map, Value};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// Bars of a density.
const BARS: usize = 60;
/// Tail that is added to a line: a Pareto distribution of this index, from a tenth of the round
/// trip on.
const TAIL_INDEX: f64 = 2.0;

/// Echoing far ends, with lines to them. Their threads end with the connections.
struct Echoes {
    lines: Arc<Lines>,
    near: Vec<TcpStream>,
    _links: Links,
}

impl Echoes {
    fn start(count: usize) -> io::Result<Self> {
        let (mut relayed, mut reached) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let far = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let relay = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            reached.push(relay.local_addr()?);
            relayed.push((relay, far.local_addr()?));
            std::thread::spawn(move || echo(&far));
        }
        let lines = Lines::new(count);
        let links = Links::start(relayed, Delays::Lines(lines.clone()))?;
        let mut near = Vec::new();
        for address in reached {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            near.push(stream);
        }
        Ok(Self { lines, near, _links: links })
    }

    /// Sends a message to all far ends, waits for all answers, and returns the nanoseconds that
    /// each took. The delays of the lines must differ for the order to be observed, so each answer
    /// is read by a thread of its own.
    fn ask_all(&mut self, delays_ns: &[u64]) -> io::Result<Vec<u64>> {
        for (line, delay_ns) in delays_ns.iter().enumerate() {
            self.lines.set_round_trip(line, *delay_ns);
        }
        let begin = Instant::now();
        for stream in &mut self.near {
            stream.write_all(b"x")?;
        }
        let wait = |stream: &mut TcpStream| -> io::Result<u64> {
            stream.read_exact(&mut [0])?;
            Ok(begin.elapsed().as_nanos() as u64)
        };
        if let [one] = self.near.as_mut_slice() {
            return Ok(vec![wait(one)?]);
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                self.near.iter_mut().map(|stream| scope.spawn(|| wait(stream))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it only reads")).collect()
        })
    }
}

fn echo(listener: &TcpListener) {
    let Ok((mut stream, _)) = listener.accept() else { return };
    let _ = stream.set_nodelay(true);
    let mut byte = [0];
    while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
}

/// Draws the next delay of a line: the requested round trip and, if that is not zero, a heavy tail.
fn next_ns(rng: &mut Rng, round_trip_ms: f64) -> u64 {
    let least_ms = round_trip_ms / 10.0;
    let tail_ms = least_ms * ((1.0 - rng.unit()).powf(-1.0 / TAIL_INDEX) - 1.0);
    ((round_trip_ms + tail_ms.min(round_trip_ms)) * 1e6) as u64
}

/// Largest distance between the empirical distribution of sorted samples and a distribution
/// function.
fn distance(sorted: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
    let count = sorted.len() as f64;
    let off = |(rank, value): (usize, &f64)| {
        let expected = cdf(*value);
        (expected - rank as f64 / count).abs().max((rank as f64 + 1.0) / count - expected)
    };
    sorted.iter().enumerate().map(off).fold(0.0, f64::max)
}

/// Kolmogorov-Smirnov distances of samples from textbook distributions, each fitted by its moments,
/// and of every second sample from the others.
fn distances(samples_ms: &[f64]) -> Map<String, Value> {
    let mut sorted = samples_ms.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / count;
    let deviation = (sorted.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / count).sqrt();
    let half = deviation * 3f64.sqrt();
    let of = |law: Result<Law, model::Invalid>| {
        law.map_or(f64::NAN, |law| distance(&sorted, |ms| law.cdf(ms)))
    };
    let others: Vec<f64> = samples_ms.iter().skip(1).step_by(2).copied().collect();
    let mut halves: Vec<f64> = samples_ms.iter().step_by(2).copied().collect();
    halves.sort_by(f64::total_cmp);
    let own = Law::samples(&others).map_or(f64::NAN, |law| distance(&halves, |ms| law.cdf(ms)));
    fields([
        ("ks_uniform", rounded(of(Law::uniform((mean - half).max(0.0), mean + half)))),
        ("ks_normal", rounded(of(Law::normal(mean, deviation)))),
        ("ks_exponential", rounded(of(Law::exponential(mean)))),
        ("ks_measured", rounded(own)),
    ])
}

/// Density of the samples, without the longest hundredth.
fn density(sorted_ms: &[f64]) -> Value {
    let last = sorted_ms[(sorted_ms.len() * 99 / 100).min(sorted_ms.len() - 1)];
    let first = sorted_ms[0];
    let step = ((last - first) / BARS as f64).max(1e-6);
    let mut bars = vec![0u32; BARS];
    for ms in sorted_ms {
        let bar = ((ms - first) / step) as usize;
        if bar < BARS {
            bars[bar] += 1;
        }
    }
    let at = |bar: usize| first + step * bar as f64;
    let share = |count: u32| f64::from(count) / sorted_ms.len() as f64;
    let pairs = bars
        .iter()
        .enumerate()
        .map(|(bar, count)| Value::from(vec![rounded(at(bar)), rounded(share(*count))]));
    pairs.collect()
}

fn at(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Measures the rows of a point that is about round trips, in the experiment's milliseconds.
///
/// # Errors
/// The system refuses a resource, or Ctrl-C was pressed.
pub fn measure(point: &Point) -> io::Result<Vec<Map<String, Value>>> {
    match point.measure {
        Measure::Replies => replies(point),
        _ => round_trips(point),
    }
}

fn round_trips(point: &Point) -> io::Result<Vec<Map<String, Value>>> {
    let mut echoes = Echoes::start(1)?;
    let mut rng = Rng::new(point.seed);
    let mut samples_ms = Vec::new();
    for _ in 0..point.requests {
        crate::stop::check()?;
        let delay_ns = next_ns(&mut rng, point.client_rtt_ms / point.scale);
        let took_ns = echoes.ask_all(&[delay_ns])?[0];
        samples_ms.push(took_ns as f64 / 1e6 * point.scale);
    }
    let mut sorted = samples_ms.clone();
    sorted.sort_by(f64::total_cmp);
    let mut row = fields([
        ("mean_ms", rounded(sorted.iter().sum::<f64>() / sorted.len() as f64)),
        ("p50_ms", rounded(at(&sorted, 0.5))),
        ("p99_ms", rounded(at(&sorted, 0.99))),
        ("max_ms", rounded(at(&sorted, 1.0))),
        ("density", density(&sorted)),
    ]);
    row.append(&mut distances(&samples_ms));
    Ok(vec![row])
}

/// Measures for 2, 4 and 6 followers the time to one reply, to those of a majority, and to all. The
/// prediction follows from the measured replies of the single followers.
fn replies(point: &Point) -> io::Result<Vec<Map<String, Value>>> {
    let mut rows = Vec::new();
    for followers in [2usize, 4, 6] {
        let mut echoes = Echoes::start(followers)?;
        let mut rng = Rng::new(point.seed);
        // By follower, and by number of replies.
        let mut single = vec![Vec::new(); followers];
        let mut fastest = vec![Vec::new(); followers];
        for _ in 0..point.requests {
            crate::stop::check()?;
            let mean_ms = point.client_rtt_ms / point.scale;
            let delay = |rng: &mut Rng| (mean_ms * (0.5 + rng.unit()) * 1e6) as u64;
            let delays_ns: Vec<u64> = (0..followers).map(|_| delay(&mut rng)).collect();
            let took = echoes.ask_all(&delays_ns)?;
            let mut took: Vec<f64> = took.iter().map(|ns| *ns as f64 / 1e6 * point.scale).collect();
            single.iter_mut().zip(&took).for_each(|(all, ms)| all.push(*ms));
            took.sort_by(f64::total_cmp);
            fastest.iter_mut().zip(&took).for_each(|(all, ms)| all.push(*ms));
        }
        for (what, needed) in [("one", 1), ("majority", followers / 2), ("all", followers)] {
            let laws: Result<Vec<Law>, model::Invalid> =
                single.iter().map(|samples| Law::samples(samples)).collect();
            let predicted = laws
                .and_then(|laws| Fastest::new(laws, needed))
                .map_err(|error| io::Error::other(error.to_string()))?;
            let sorted = &mut fastest[needed - 1];
            sorted.sort_by(f64::total_cmp);
            let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
            rows.push(fields([
                ("followers", followers.into()),
                ("wait_for", what.into()),
                ("replies", needed.into()),
                ("mean_ms", rounded(mean)),
                ("predicted_ms", rounded(predicted.mean_ms())),
                ("error", rounded(mean / predicted.mean_ms() - 1.0)),
                ("p50_ms", rounded(at(sorted, 0.5))),
                ("p99_ms", rounded(at(sorted, 0.99))),
                ("predicted_p99_ms", rounded(predicted.quantile(0.99))),
            ]));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_near_the_law_that_they_come_from() {
        let mut rng = Rng::new(3);
        let uniform: Vec<f64> = (0..4_000).map(|_| 1.0 + rng.unit()).collect();
        let found = distances(&uniform);
        let of = |name: &str| found[name].as_f64().unwrap();
        assert!(of("ks_uniform") < 0.03, "{found:?}");
        assert!(of("ks_measured") < 0.06, "{found:?}");
        assert!(of("ks_exponential") > 0.3 && of("ks_normal") > 0.04, "{found:?}");
    }

    #[test]
    fn a_density_has_all_but_the_longest() {
        let sorted: Vec<f64> = (0..1_000).map(f64::from).collect();
        let Value::Array(bars) = density(&sorted) else { panic!("a list") };
        let sum: f64 = bars.iter().map(|bar| bar[1].as_f64().unwrap()).sum();
        assert!((0.98..=1.0).contains(&sum), "{sum}");
    }
}
