//! A distribution of latencies in bounded memory, exact where it matters: in its tail.
//!
//! The largest values are kept exactly, all others in a histogram whose buckets are less than half
//! a percent wide. So a quantile near the top, and the number of values above a time-out, are
//! exact; a data set that is smaller than the kept part is exact everywhere.

/// Latency of a reply that never arrived: later than any other.
pub const LOST: u64 = u64::MAX;

/// Number of buckets per power of two.
const STEPS: u64 = 256;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Collects latencies in nanoseconds.
#[derive(Clone, Debug)]
pub struct Recorder {
    keep: usize,
    top: Vec<u64>,
    body: Vec<u64>,
    count: u64,
    lost: u64,
    sum_ns: f64,
    squares_ns2: f64,
}

/// Latencies that a [`Recorder`] has collected.
#[derive(Clone, Debug)]
pub struct Tail {
    /// Largest latencies, ascending; without lost replies.
    top: Vec<u64>,
    body: Vec<u64>,
    in_body: u64,
    count: u64,
    lost: u64,
    mean_ns: f64,
    deviation_ns: f64,
}

/// A value, and whether it is exact or the upper end of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantile {
    /// Nanoseconds; [`LOST`] if the rank falls on a lost reply.
    pub ns: u64,
    /// Whether the value is not rounded up by half a percent.
    pub exact: bool,
}

/// First and last value of the bucket around a value, if every power of two has `2^step_bits`
/// buckets; the distribution of a [`Recorder`] has 2^8.
pub fn bucket_around(ns: u64, step_bits: u32) -> (u64, u64) {
    let shift = ns.checked_ilog2().unwrap_or(0).saturating_sub(step_bits);
    let within = (1 << shift) - 1;
    (ns & !within, ns | within)
}

fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEP_BITS;
    ((u64::from(shift) + 1) * STEPS + ((ns >> shift) - STEPS)) as usize
}

fn bucket_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (shift, step) = (bucket / STEPS - 1, bucket % STEPS);
    (((STEPS + step + 1) as u128) << shift).saturating_sub(1).min(u128::from(LOST - 1)) as u64
}

impl Recorder {
    /// Creates a recorder whose `keep` largest values are exact.
    pub const fn new(keep: usize) -> Self {
        Self {
            keep,
            top: Vec::new(),
            body: Vec::new(),
            count: 0,
            lost: 0,
            sum_ns: 0.0,
            squares_ns2: 0.0,
        }
    }

    /// Adds a latency, or [`LOST`].
    pub fn record(&mut self, ns: u64) {
        self.count += 1;
        if ns == LOST {
            self.lost += 1;
            return;
        }
        self.sum_ns += ns as f64;
        self.squares_ns2 += (ns as f64) * (ns as f64);
        self.top.push(ns);
        if self.top.len() >= 2 * self.keep.max(1) {
            self.make_room();
        }
    }

    /// Moves all but the largest values into the histogram.
    fn make_room(&mut self) {
        let small = self.top.len() - self.keep.max(1);
        self.top.select_nth_unstable(small);
        for ns in self.top.drain(..small) {
            let at = bucket(ns);
            if self.body.len() <= at {
                self.body.resize(at + 1, 0);
            }
            self.body[at] += 1;
        }
    }

    /// Whether nothing was recorded.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the distribution of the recorded latencies.
    pub fn finish(mut self) -> Tail {
        if self.top.len() > self.keep.max(1) && self.count - self.lost > self.top.len() as u64 {
            self.make_room();
        }
        self.top.sort_unstable();
        let completed = (self.count - self.lost) as f64;
        let mean_ns = if completed > 0.0 { self.sum_ns / completed } else { 0.0 };
        let variance = if completed > 1.0 {
            (self.squares_ns2 - completed * mean_ns * mean_ns).max(0.0) / (completed - 1.0)
        } else {
            0.0
        };
        Tail {
            in_body: self.body.iter().sum(),
            top: self.top,
            body: self.body,
            count: self.count,
            lost: self.lost,
            mean_ns,
            deviation_ns: variance.sqrt(),
        }
    }
}

impl FromIterator<u64> for Tail {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        let mut recorder = Recorder::new(usize::MAX / 4);
        values.into_iter().for_each(|ns| recorder.record(ns));
        recorder.finish()
    }
}

impl Tail {
    /// Number of values, including lost replies.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Number of replies that never arrived.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Fraction that was lost; zero without any values.
    pub fn loss(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.lost as f64 / self.count as f64 }
    }

    /// Mean of the completed calls.
    pub const fn mean_ns(&self) -> f64 {
        self.mean_ns
    }

    /// Standard deviation of the completed calls.
    pub const fn deviation_ns(&self) -> f64 {
        self.deviation_ns
    }

    /// Number of values later than `ns`. Exact among the largest; below them a bucket counts as a
    /// whole.
    pub fn above(&self, ns: u64) -> u64 {
        let top = self.top.len() - self.top.partition_point(|value| *value <= ns);
        let from = bucket(ns);
        let within = u64::from(bucket_end(from) > ns);
        let body = self.body.iter().enumerate().skip(from);
        let body: u64 = body.filter(|(at, _)| *at > from || within == 1).map(|(_, n)| n).sum();
        self.lost + top as u64 + body
    }

    /// Visits every value that is later than `ns` and was not lost, with its count; below the
    /// largest, the upper end of its bucket.
    pub fn visit_above(&self, ns: u64, mut show: impl FnMut(u64, u64)) {
        let from = self.top.partition_point(|value| *value <= ns);
        if from == 0 {
            let body = self.body.iter().enumerate().skip(bucket(ns));
            let body = body.map(|(at, times)| (bucket_end(at), *times));
            body.filter(|(end, times)| *end > ns && *times > 0).for_each(|(end, n)| show(end, n));
        }
        self.top[from..].iter().for_each(|value| show(*value, 1));
    }

    /// Fraction that is later than `ns`.
    pub fn part_above(&self, ns: u64) -> f64 {
        if self.count == 0 { 0.0 } else { self.above(ns) as f64 / self.count as f64 }
    }

    /// Quantile by nearest rank, at rank ceil(p n) of the ascending list, with lost replies at its
    /// end. `None` without any values.
    pub fn quantile(&self, p: f64) -> Option<Quantile> {
        // The tolerance of half a part in 10^12 covers the rounding of p; it never skips a rank.
        let rank = (p * self.count as f64 - 5e-13 * self.count as f64).ceil();
        self.at_rank((rank as u64).clamp(1, self.count.max(1)))
    }

    /// Largest value that at most `count` values exceed.
    pub fn with_at_most_above(&self, count: u64) -> Option<Quantile> {
        self.at_rank(self.count.saturating_sub(count).max(1))
    }

    /// Value at a rank of the ascending list; the first has rank 1.
    pub fn at_rank(&self, rank: u64) -> Option<Quantile> {
        if self.count == 0 {
            return None;
        }
        if rank > self.count - self.lost {
            return Some(Quantile { ns: LOST, exact: true });
        }
        if rank > self.in_body {
            return Some(Quantile {
                ns: self.top[(rank - self.in_body - 1) as usize],
                exact: true,
            });
        }
        let mut before = 0;
        for (at, n) in self.body.iter().enumerate() {
            before += n;
            if before >= rank {
                return Some(Quantile { ns: bucket_end(at), exact: false });
            }
        }
        None
    }

    /// Mean with all values capped at `cap_ns`; lost replies count as the cap.
    pub fn mean_capped_ns(&self, cap_ns: u64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let top: f64 = self.top.iter().map(|ns| (*ns).min(cap_ns) as f64).sum();
        let body = self.body.iter().enumerate();
        let body: f64 = body.map(|(at, n)| *n as f64 * bucket_end(at).min(cap_ns) as f64).sum();
        (top + body + self.lost as f64 * cap_ns as f64) / self.count as f64
    }

    /// Values that are kept exactly, ascending, without lost replies.
    pub fn largest(&self) -> &[u64] {
        &self.top
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Numbers;

    fn values(n: usize) -> Vec<u64> {
        let mut draws = Numbers::new(7);
        (0..n).map(|_| (1e5 * (-draws.unit().ln()).powi(3)) as u64).collect()
    }

    #[test]
    fn buckets_end_where_the_next_begins() {
        for at in 0..10_000 {
            let end = bucket_end(at);
            assert_eq!((bucket(end), bucket(end + 1)), (at, at + 1));
            assert_eq!(bucket_around(end, STEP_BITS).1, end);
            assert_eq!(bucket_around(end + 1, STEP_BITS).0, end + 1);
        }
        assert!(bucket_end(bucket(LOST - 1)) >= LOST - 1);
    }

    #[test]
    fn the_tail_is_exact_and_the_rest_near() {
        let mut sorted = values(50_000);
        let mut recorder = Recorder::new(1_000);
        sorted.iter().for_each(|ns| recorder.record(*ns));
        (0..10).for_each(|_| recorder.record(LOST));
        let tail = recorder.finish();
        sorted.sort_unstable();
        assert_eq!((tail.count(), tail.lost()), (50_010, 10));
        assert_eq!(tail.quantile(1.0).unwrap().ns, LOST);
        for rank in [49_050u64, 49_500, 50_000] {
            let expected = Quantile { ns: sorted[rank as usize - 1], exact: true };
            assert_eq!(tail.at_rank(rank), Some(expected));
            assert_eq!(tail.above(expected.ns), 50_010 - rank);
        }
        for p in [0.01, 0.5, 0.9] {
            let found = tail.quantile(p).unwrap();
            let exact = sorted[(p * 50_010.0_f64).ceil() as usize - 1] as f64;
            assert!(!found.exact && (found.ns as f64 - exact).abs() <= 0.005 * exact + 1.0);
        }
        let mean = sorted.iter().map(|ns| *ns as f64).sum::<f64>() / 50_000.0;
        assert!((tail.mean_ns() / mean - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_small_set_is_exact_everywhere() {
        let tail: Tail = [5, 1, 4, LOST, 3].into_iter().collect();
        let ranks: Vec<u64> = (1..=5).map(|rank| tail.at_rank(rank).unwrap().ns).collect();
        assert_eq!(ranks, [1, 3, 4, 5, LOST]);
        assert_eq!((tail.above(0), tail.above(3), tail.above(5)), (5, 3, 1));
        assert_eq!(tail.quantile(0.8).unwrap().ns, 5);
        assert_eq!(tail.with_at_most_above(2).unwrap().ns, 4);
        assert!((tail.mean_capped_ns(4) - 3.2).abs() < 1e-12);
    }
}
