//! Exact distributions of latencies, in memory that does not grow with their number.
//!
//! The value at a rank is found in two passes. The first counts latencies in bins that are a
//! four-thousandth wide. Then the bin of each required rank is known, and the second pass keeps
//! only the latencies of those bins, and all above the 99.9th percentile. Equal values are kept
//! once, with their number.

use probe::rank::rank;

/// Latency of a call without reply: longer than any other.
pub const NEVER: u64 = u64::MAX;

const PRECISION: u32 = 12;
/// Latency longer than any that the table can hold.
const LONGEST: u64 = 1 << 39;
/// Rank, in parts per million, above which every value is reported.
pub const TAIL_PPM: u32 = 999_000;

/// Bin of a latency: latencies below 2^13 have one each, and longer ones share one with those that
/// are equal in their first thirteen bits.
pub fn bin(latency_ns: u64) -> usize {
    let capped = latency_ns.min(LONGEST - 1);
    let shift = (63 - (capped | 1).leading_zeros()).saturating_sub(PRECISION);
    (u64::from(shift) << PRECISION) as usize + (capped >> shift) as usize
}

/// Points at which a distribution function is evaluated: 2,000 from a microsecond to 100 s, evenly
/// spread in their logarithm, and round values in between.
pub struct Points {
    /// Points in nanoseconds, ascending.
    pub ns: Vec<u64>,
    /// For each bin, the first point that is not below it.
    first: Vec<u16>,
    /// Bins that contain a point.
    split: Bits,
}

/// A flag for each bin.
#[derive(Clone, Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, bin: usize) {
        let word = bin / 64;
        self.0.resize(self.0.len().max(word + 1), 0);
        self.0[word] |= 1 << (bin % 64);
    }

    fn has(&self, bin: usize) -> bool {
        self.0.get(bin / 64).is_some_and(|word| word >> (bin % 64) & 1 == 1)
    }
}

impl Points {
    /// Creates the points.
    pub fn new() -> Self {
        let even =
            (0..2000).map(|step| (1000.0 * 10_f64.powf(f64::from(step) / 1999.0 * 8.0)).round());
        let mut ns: Vec<u64> = even.map(|point| point as u64).collect();
        ns.extend((3..=11).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power))));
        ns.retain(|point| *point <= 100_000_000_000);
        ns.sort_unstable();
        ns.dedup();
        let bins = bin(LONGEST - 1) + 1;
        let mut first = vec![0_u16; bins];
        let mut point = 0;
        for (at, first) in first.iter_mut().enumerate() {
            while point < ns.len() && bin(ns[point]) < at {
                point += 1;
            }
            *first = point as u16;
        }
        let mut split = Bits::default();
        ns.iter().for_each(|point| split.set(bin(*point)));
        Self { ns, first, split }
    }

    /// First point that a latency does not exceed; the number of points if it exceeds all.
    pub fn of(&self, latency_ns: u64, bin: usize) -> usize {
        let mut point = usize::from(self.first[bin]);
        while point < self.ns.len() && latency_ns > self.ns[point] {
            point += 1;
        }
        point
    }
}

/// Counts of the first pass.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    bins: Vec<u64>,
    points: Vec<u64>,
    /// Number of calls with a reply.
    pub replied: u64,
    /// Number of calls without a reply.
    pub never: u64,
    sum_ns: u128,
}

impl Counts {
    /// Counts a latency. For most bins the point is the same for all values, which is left to
    /// [`Self::settle`].
    pub fn add(&mut self, latency_ns: u64, points: &Points) {
        if latency_ns == NEVER {
            self.never += 1;
            return;
        }
        if self.bins.is_empty() {
            self.bins = vec![0; points.first.len()];
            self.points = vec![0; points.ns.len() + 1];
        }
        let bin = bin(latency_ns);
        self.bins[bin] += 1;
        if points.split.has(bin) {
            self.points[points.of(latency_ns, bin)] += 1;
        }
        self.replied += 1;
        self.sum_ns += u128::from(latency_ns);
    }

    /// Completes the counting, once.
    pub fn settle(&mut self, points: &Points) {
        for ((bin, count), first) in self.bins.iter().enumerate().zip(&points.first) {
            if !points.split.has(bin) {
                self.points[usize::from(*first)] += count;
            }
        }
    }

    /// Adds another thread's counts.
    pub fn merge(&mut self, other: &Self) {
        self.bins.resize(self.bins.len().max(other.bins.len()), 0);
        self.points.resize(self.points.len().max(other.points.len()), 0);
        self.bins.iter_mut().zip(&other.bins).for_each(|(to, from)| *to += from);
        self.points.iter_mut().zip(&other.points).for_each(|(to, from)| *to += from);
        self.replied += other.replied;
        self.never += other.never;
        self.sum_ns += other.sum_ns;
    }

    /// Number of calls, with and without reply.
    pub const fn all(&self) -> u64 {
        self.replied + self.never
    }

    /// Mean of the calls with a reply.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.replied.max(1) as f64
    }

    /// Number of values up to each point.
    pub fn at_most(&self) -> Vec<u64> {
        let mut sum = 0;
        let points = self.points.iter().take(self.points.len().saturating_sub(1));
        points.map(|count| (sum += count, sum).1).collect()
    }

    /// Bin of a quantile of all calls; `None` if that is a call without reply.
    pub fn bin_of_quantile(&self, ppm: u32) -> Option<usize> {
        self.bin_of(rank(ppm, self.all())).map(|(bin, _)| bin)
    }

    /// Bin of a rank, and the number of values in the bins before it.
    fn bin_of(&self, wanted: u64) -> Option<(usize, u64)> {
        let mut before = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            if before + count >= wanted && wanted > 0 {
                return Some((bin, before));
            }
            before += count;
        }
        None
    }
}

/// Values that the second pass must keep.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    bins: Bits,
    from: usize,
}

impl Wanted {
    /// Creates an empty set.
    pub fn nothing() -> Self {
        Self { bins: Bits::default(), from: usize::MAX }
    }

    /// Adds the values for the quantiles of these counts, and for their tail.
    pub fn add(&mut self, counts: &Counts, quantiles_ppm: &[u32]) {
        for ppm in quantiles_ppm {
            for n in [counts.replied, counts.all()] {
                if let Some((bin, _)) = counts.bin_of(rank(*ppm, n)) {
                    self.bins.set(bin);
                }
            }
        }
        // The tail begins at the rank after that of the quantile, whose bin is kept, too.
        if let Some((bin, _)) = counts.bin_of(rank(TAIL_PPM, counts.all())) {
            self.from = self.from.min(bin);
        }
    }

    /// Whether a latency must be kept.
    pub fn wants(&self, latency_ns: u64) -> bool {
        if latency_ns == NEVER {
            return false;
        }
        let bin = bin(latency_ns);
        bin >= self.from || self.bins.has(bin)
    }
}

/// Values with their counts.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    counted: Vec<(u64, u64)>,
    new: Vec<u64>,
}

impl Kept {
    /// Keeps a value.
    pub fn push(&mut self, value: u64) {
        self.new.push(value);
        if self.new.len() >= 1 << 18 {
            self.settle();
        }
    }

    /// Merges new values into the counted ones.
    fn settle(&mut self) {
        if self.new.is_empty() {
            return;
        }
        self.new.sort_unstable();
        let mut new: Vec<(u64, u64)> = Vec::new();
        for value in self.new.drain(..) {
            match new.last_mut() {
                Some(last) if last.0 == value => last.1 += 1,
                _ => new.push((value, 1)),
            }
        }
        self.join(&new);
    }

    /// Merges values with their counts, ascending, into the counted ones.
    fn join(&mut self, other: &[(u64, u64)]) {
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(self.counted.len() + other.len());
        let mut other = other.iter().copied().peekable();
        for (value, mut count) in self.counted.drain(..) {
            while let Some(before) = other.next_if(|(found, _)| *found < value) {
                joined.push(before);
            }
            if let Some((_, more)) = other.next_if(|(found, _)| *found == value) {
                count += more;
            }
            joined.push((value, count));
        }
        joined.extend(other);
        self.counted = joined;
    }

    /// Adds another thread's values.
    pub fn merge(&mut self, other: &mut Self) {
        self.settle();
        other.settle();
        self.join(&other.counted);
    }

    /// Values, ascending, with their counts.
    pub fn sorted(&mut self) -> &[(u64, u64)] {
        self.settle();
        &self.counted
    }
}

/// Values at ranks, from both passes.
pub struct Exact<'a> {
    counts: &'a Counts,
    kept: &'a [(u64, u64)],
}

impl<'a> Exact<'a> {
    /// Combines counts with kept values that include all required ones.
    pub const fn new(counts: &'a Counts, kept: &'a [(u64, u64)]) -> Self {
        Self { counts, kept }
    }

    /// Value at a rank among the calls with a reply.
    fn at(&self, wanted: u64) -> Option<u64> {
        let (wanted_bin, mut before) = self.counts.bin_of(wanted)?;
        let begin = self.kept.partition_point(|(value, _)| bin(*value) < wanted_bin);
        for (value, count) in &self.kept[begin..] {
            before += count;
            if before >= wanted {
                return Some(*value);
            }
        }
        None
    }

    /// Quantile of the calls with a reply.
    pub fn completed(&self, ppm: u32) -> Option<u64> {
        self.at(rank(ppm, self.counts.replied))
    }

    /// Quantile of all calls: [`NEVER`] where it is a call without reply, `None` without calls.
    pub fn all(&self, ppm: u32) -> Option<u64> {
        let wanted = rank(ppm, self.counts.all());
        if wanted > self.counts.replied { Some(NEVER) } else { self.at(wanted) }
    }

    /// Tail of the distribution: the number of ranks above [`TAIL_PPM`] of all calls, and the
    /// values of those that had a reply, ascending, with their counts.
    pub fn tail(&self) -> (u64, Vec<(u64, u64)>) {
        let from = rank(TAIL_PPM, self.counts.all());
        let ranks = self.counts.all() - from;
        let mut left = self.counts.replied.saturating_sub(from);
        let mut tail = Vec::new();
        for (value, count) in self.kept.iter().rev() {
            let taken = (*count).min(left);
            if taken == 0 {
                break;
            }
            tail.push((*value, taken));
            left -= taken;
        }
        tail.reverse();
        (ranks, tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probe::random::Numbers;

    #[test]
    fn bins_grow_with_latency_and_are_narrow() {
        let mut last = 0;
        let coarse = (2..26).flat_map(|power| {
            let low = 8192_u64 << power;
            (0..200).map(move |step| low + step * (low / 200))
        });
        for latency in (0..32_768).chain(coarse) {
            let found = bin(latency);
            assert!(found >= last, "{latency}");
            last = found;
        }
        assert_eq!((bin(8191), bin(8192), bin(8193), bin(8194)), (8191, 8192, 8192, 8193));
        assert!(bin(LONGEST - 1) > bin(LONGEST / 2));
    }

    #[test]
    fn two_passes_find_what_sorting_finds() {
        let points = Points::new();
        let mut numbers = Numbers::new(3);
        let mut values: Vec<u64> = (0..50_000)
            .map(|n| match n % 1000 {
                7 => NEVER,
                8 => 2_000_000_000 + numbers.below(9) * 1_000_000_000,
                _ => 100_000 + numbers.below(200_000) / 100 * 100,
            })
            .collect();
        let mut counts = Counts::default();
        values.iter().for_each(|value| counts.add(*value, &points));
        counts.settle(&points);
        let quantiles = [1, 100_000, 500_000, 900_000, 990_000, 999_000, 999_900];
        let mut wanted = Wanted::nothing();
        wanted.add(&counts, &quantiles);
        let mut kept = Kept::default();
        values.iter().filter(|value| wanted.wants(**value)).for_each(|value| kept.push(*value));
        let sorted = kept.sorted().to_vec();
        let exact = Exact::new(&counts, &sorted);
        values.sort_unstable();
        let replied = &values[..values.len() - 50];
        for ppm in quantiles {
            assert_eq!(exact.all(ppm), probe::rank::of_sorted(&values, ppm), "{ppm}");
            assert_eq!(exact.completed(ppm), probe::rank::of_sorted(replied, ppm), "{ppm}");
        }
        let at_most = counts.at_most();
        for (point, count) in points.ns.iter().zip(&at_most) {
            assert_eq!(values.partition_point(|value| value <= point) as u64, *count, "{point}");
        }
        let (ranks, tail) = exact.tail();
        let listed: Vec<u64> =
            tail.iter().flat_map(|(value, count)| vec![*value; *count as usize]).collect();
        assert_eq!((ranks, listed.as_slice()), (50, &replied[49_950..]));
    }
}
