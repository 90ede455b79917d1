//! A sliding distribution of latencies: of the last minute, the last ten minutes, the last day.
//!
//! Latencies are counted in buckets that are less than a fifteenth wide. A distribution slides in
//! six steps, so it covers its whole span, or a sixth less at the least.

use crate::rank::rank;

/// Latency of a reply that never arrived: later than any other.
pub const LOST_US: u32 = u32::MAX;

/// Number of buckets in each power of two.
const STEPS: u32 = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Number of buckets for all latencies up to half an hour; larger ones are in the last bucket.
const BUCKETS: usize = ((32 - STEP_BITS) * STEPS) as usize;
/// Number of steps in which a distribution slides.
const SLOTS: u64 = 6;

fn bucket(us: u32) -> usize {
    let us = us.min(LOST_US / 2 - 1);
    if us < STEPS {
        return us as usize;
    }
    let shift = us.ilog2() - STEP_BITS;
    (((shift + 1) * STEPS + ((us >> shift) - STEPS)) as usize).min(BUCKETS - 1)
}

/// Largest latency of a bucket.
fn bucket_end(bucket: usize) -> u32 {
    let bucket = bucket as u32;
    if bucket < STEPS {
        return bucket;
    }
    let (shift, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((STEPS + step + 1) << shift) - 1
}

/// Counts of latencies.
#[derive(Clone, Debug)]
pub struct Law {
    counts: Vec<u16>,
    count: u32,
    lost: u32,
    least_us: u32,
}

impl Default for Law {
    fn default() -> Self {
        Self { counts: Vec::new(), count: 0, lost: 0, least_us: LOST_US }
    }
}

impl Law {
    /// Adds a latency, or [`LOST_US`].
    fn record(&mut self, us: u32) {
        self.count += 1;
        if us == LOST_US {
            self.lost += 1;
            return;
        }
        self.least_us = self.least_us.min(us);
        let at = bucket(us);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(1);
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.lost += other.lost;
        self.least_us = self.least_us.min(other.least_us);
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (own, more) in self.counts.iter_mut().zip(&other.counts) {
            *own = own.saturating_add(*more);
        }
    }

    /// Number of latencies, including lost ones.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Number of lost ones.
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// Shortest latency; [`LOST_US`] if there is none.
    pub fn least_us(&self) -> u32 {
        self.least_us
    }

    /// Upper end of the bucket with the latency at a rank; [`LOST_US`] if that many were lost, or
    /// nothing was added.
    pub fn quantile_us(&self, ppm: u32) -> u32 {
        let rank = rank(ppm, self.count.into());
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if rank > 0 && seen >= rank {
                return bucket_end(at).max(self.least_us);
            }
        }
        LOST_US
    }
}

/// Distribution over the last span of time.
#[derive(Clone, Debug)]
pub struct Sliding {
    step_us: u64,
    /// Step of the last record.
    newest: u64,
    slots: [Law; SLOTS as usize],
}

impl Sliding {
    /// Creates a distribution over the last `span_us`.
    pub fn new(span_us: u64) -> Self {
        Self { step_us: span_us / SLOTS, newest: 0, slots: Default::default() }
    }

    /// Drops latencies that are too old by now.
    fn slide(&mut self, now_us: u64) {
        let step = now_us / self.step_us;
        let passed = step.saturating_sub(self.newest).min(SLOTS);
        for gone in 0..passed {
            self.slots[((step - gone) % SLOTS) as usize] = Law::default();
        }
        self.newest = self.newest.max(step);
    }

    /// Adds a latency, or [`LOST_US`].
    pub fn record(&mut self, now_us: u64, us: u32) {
        self.slide(now_us);
        self.slots[(self.newest % SLOTS) as usize].record(us);
    }

    /// Distribution over the span that ends now.
    pub fn law(&mut self, now_us: u64) -> Law {
        self.slide(now_us);
        let mut sum = Law::default();
        self.slots.iter().for_each(|slot| sum.add(slot));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn every_latency_is_in_a_bucket_that_is_hardly_wider() {
        for us in (0..2_000).chain((11..31).flat_map(|n| [(1 << n) - 1, 1 << n, (1 << n) + 7])) {
            let end = bucket_end(bucket(us));
            assert!(end >= us && u64::from(end) <= u64::from(us) * 17 / 16 + 1, "{us}: {end}");
        }
        assert_eq!(bucket(LOST_US - 1), BUCKETS - 1);
    }

    #[test]
    fn a_minute_is_forgotten_step_by_step() {
        let mut minute = Sliding::new(60 * SECOND);
        for second in 0..120 {
            let us = if second < 60 { 100 } else { 900 };
            minute.record(second * SECOND, us);
        }
        let law = minute.law(119 * SECOND);
        assert_eq!((law.count(), law.lost(), law.least_us()), (60, 0, 900));
        assert_eq!(minute.law(150 * SECOND).count(), 20);
        let gone = minute.law(1_000 * SECOND);
        assert_eq!((gone.count(), gone.quantile_us(900_000)), (0, LOST_US));
    }

    #[test]
    fn what_was_lost_is_later_than_everything() {
        let mut minute = Sliding::new(60 * SECOND);
        for second in 0..50 {
            minute.record(second * SECOND, if second % 5 == 0 { LOST_US } else { 200 });
        }
        let law = minute.law(50 * SECOND);
        assert_eq!((law.count(), law.lost()), (50, 10));
        assert!((200..214).contains(&law.quantile_us(500_000)));
        assert_eq!(law.quantile_us(900_000), LOST_US);
    }
}
