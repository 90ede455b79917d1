//! Pseudo-random numbers that follow from a seed and a position alone.
//!
//! Every node must compute the same groups, and every run the same synthetic data, without any
//! communication. So there is no state but a counter: the n-th number of a seed can be computed
//! directly.

/// Number `n` of a seed: the mixing function of `SplitMix64`.
pub const fn number(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Seed derived from several numbers; their order matters.
pub fn seed_of(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |seed, part| number(seed ^ part.rotate_left(32), *part))
}

/// Sequence of a seed's numbers.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    seed: u64,
    next: u64,
}

impl Numbers {
    /// Creates a sequence that begins with the first number of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed, next: 0 }
    }

    /// Returns the next number.
    pub const fn next_u64(&mut self) -> u64 {
        let found = number(self.seed, self.next);
        self.next += 1;
        found
    }

    /// Draws a number below `bound`, which is not 0. No number is likelier than another by more
    /// than `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// Draws a number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_seed_and_position() {
        let mut numbers = Numbers::new(7);
        let first: Vec<u64> = (0..100).map(|_| numbers.next_u64()).collect();
        assert_eq!(first, (0..100).map(|n| number(7, n)).collect::<Vec<_>>());
        assert_ne!(seed_of(&[1, 2]), seed_of(&[2, 1]));
        // The published first number of the generator for seed 0.
        assert_eq!(number(0, 0), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn numbers_below_a_bound_reach_all_and_are_alike() {
        let mut numbers = Numbers::new(1);
        let mut counts = [0_u32; 7];
        (0..70_000).for_each(|_| counts[usize::try_from(numbers.below(7)).unwrap()] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert!((0..1000).map(|_| numbers.unit()).all(|x| (0.0..1.0).contains(&x)));
    }
}
