//! Random choices of one operation, from the seed that the log carries: every replica chooses
//! alike.

/// A stream of random numbers (SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014).
pub(crate) struct Random(pub u64);

impl Random {
    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        ((u128::from(number) * bound as u128) >> 64) as usize
    }
}

/// Step from one state of the generator to the next.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads a number over 64 bits: the number that SplitMix64 gives for it as a state.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Positions chosen out of `len`: up to `count` distinct ones, or, for a negative count, that many
/// with repetitions (the rule of `SRANDMEMBER`, `HRANDFIELD` and `ZRANDMEMBER`).
pub(crate) fn choose(len: usize, count: i64, seed: u64) -> Vec<usize> {
    let mut random = Random(seed);
    if len == 0 {
        return Vec::new();
    }
    if count < 0 {
        return (0..count.unsigned_abs()).map(|_| random.below(len)).collect();
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(len);
    let mut order: Vec<usize> = (0..len).collect();
    for i in 0..count {
        order.swap(i, i + random.below(len - i));
    }
    order.truncate(count);
    order
}

/// Most entries that one command answers with repetitions: a reply stays bounded.
pub(crate) const REPEATED_MAX: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_positive_count_chooses_distinct_positions_and_a_negative_one_repeats() {
        for seed in 0..50 {
            let mut chosen = choose(10, 7, seed);
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len(), 7);
            assert!(chosen.iter().all(|&i| i < 10));
            assert_eq!(choose(3, 100, seed).len(), 3);
            assert_eq!(choose(3, -100, seed).len(), 100);
        }
        assert!(choose(0, -5, 1).is_empty());
    }
}
