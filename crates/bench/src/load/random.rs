//! Random numbers for workloads: fast, seeded, the same on every machine.

/// The xoshiro256++ generator of Blackman and Vigna, seeded through splitmix64.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// Creates a generator whose numbers follow from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Draws a number below `bound`, which must not be 0. The bias is below bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws a number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with probability `share`.
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Draws an index with the given weights.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        for (index, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return index;
            }
        }
        weights.iter().rposition(|w| *w > 0.0).unwrap_or(0)
    }
}

/// Ranks drawn with probability proportional to `(rank + 1)^-exponent`, in constant time (Vose's
/// alias method).
#[derive(Clone, Debug)]
pub struct Zipf {
    keep: Vec<f64>,
    alias: Vec<u32>,
}

impl Zipf {
    /// Creates a distribution over `count` ranks, the first being the most probable. `exponent` 0
    /// is uniform.
    pub fn new(count: usize, exponent: f64) -> Self {
        let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
        let mean = weights.iter().sum::<f64>() / count as f64;
        let mut keep: Vec<f64> = weights.iter().map(|w| w / mean).collect();
        let mut alias: Vec<u32> = (0..count as u32).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..count).partition(|&i| keep[i] < 1.0);
        while let (Some(less), Some(&more)) = (small.pop(), large.last()) {
            alias[less] = more as u32;
            keep[more] -= 1.0 - keep[less];
            if keep[more] < 1.0 {
                large.pop();
                small.push(more);
            }
        }
        for rest in small.into_iter().chain(large) {
            keep[rest] = 1.0;
        }
        Self { keep, alias }
    }

    /// Draws a rank.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        let rank = rng.below(self.keep.len() as u64) as usize;
        if rng.unit() < self.keep[rank] { rank } else { self.alias[rank] as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_of_a_thousand_keys_gets_its_published_share() {
        // Shares of the hottest key by exponent, as the study's distribution gives them.
        for (exponent, share) in [(0.2, 0.003), (0.6, 0.0265), (1.0, 0.134), (1.4, 0.339)] {
            let zipf = Zipf::new(1000, exponent);
            let mut rng = Rng::new(1);
            let draws = 400_000;
            let hits = (0..draws).filter(|_| zipf.draw(&mut rng) == 0).count();
            let seen = hits as f64 / f64::from(draws);
            assert!((seen - share).abs() < 0.003, "{exponent}: {seen}");
        }
    }

    #[test]
    fn bounds_and_weights_are_kept() {
        let mut rng = Rng::new(7);
        assert!((0..1000).all(|_| rng.below(3) < 3));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&rng.unit())));
        let mut counts = [0; 3];
        (0..10_000).for_each(|_| counts[rng.weighted(&[1.0, 0.0, 3.0])] += 1);
        assert_eq!(counts[1], 0);
        assert!((2300..2700).contains(&counts[0]), "{counts:?}");
    }
}
