//! Random numbers from a seed. Each purpose has its own stream, so that an additional draw in one
//! place does not shift all others.

/// Stream of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Stream for `purpose` under `seed`.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut stream = Self(seed ^ 0xc1a2_e700_0000_0000);
        for byte in purpose.bytes() {
            stream.0 = stream.next() ^ u64::from(byte);
        }
        stream
    }

    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Number from `low` to `high`, inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Delay with a long tail: mostly near `low`, now and then up to a hundred times as long.
    pub fn tail(&mut self, low: u64) -> u64 {
        let spread = self.between(0, low);
        match self.below(100) {
            0 => low * 100 + spread,
            1..=9 => low * 10 + spread,
            _ => low + spread,
        }
    }

    /// Random item.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}
