//! [`Wide`]: unsigned integers of 384 bits, enough for exact sums of squares and for the variance.

/// Limbs of 64 bits, the lowest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::kinds::bag) struct Wide(pub [u64; Self::LIMBS]);

impl Wide {
    pub const LIMBS: usize = 6;

    /// The square of a number.
    pub fn square(number: u128) -> Self {
        let (low, high) = (Self::from_limb(number as u64), Self::from_limb((number >> 64) as u64));
        let number = low.plus(high.shifted());
        number.times(number.0[0]).plus(number.times(number.0[1]).shifted())
    }

    fn from_limb(limb: u64) -> Self {
        let mut limbs = [0; Self::LIMBS];
        limbs[0] = limb;
        Self(limbs)
    }

    /// 2^64 times the number. Overflow is lost.
    fn shifted(self) -> Self {
        let mut limbs = [0; Self::LIMBS];
        limbs[1..].copy_from_slice(&self.0[..Self::LIMBS - 1]);
        Self(limbs)
    }

    /// The sum, modulo 2^384.
    pub fn plus(self, other: Self) -> Self {
        let mut limbs = [0; Self::LIMBS];
        let mut carry = 0;
        for (limb, (a, b)) in limbs.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            let sum = u128::from(a) + u128::from(b) + carry;
            *limb = sum as u64;
            carry = sum >> 64;
        }
        Self(limbs)
    }

    /// The product, modulo 2^384.
    pub fn times(self, factor: u64) -> Self {
        let mut limbs = [0; Self::LIMBS];
        let mut carry = 0;
        for (limb, a) in limbs.iter_mut().zip(self.0) {
            let product = u128::from(a) * u128::from(factor) + carry;
            *limb = product as u64;
            carry = product >> 64;
        }
        Self(limbs)
    }

    /// The difference, 0 if `other` is larger.
    pub fn minus(self, other: Self) -> Self {
        let mut limbs = [0; Self::LIMBS];
        let mut borrow = false;
        for (limb, (a, b)) in limbs.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            let (difference, under) = a.overflowing_sub(b);
            let (difference, again) = difference.overflowing_sub(u64::from(borrow));
            *limb = difference;
            borrow = under || again;
        }
        if borrow { Self::default() } else { Self(limbs) }
    }

    /// The nearest floating-point number, up to rounding of each limb.
    pub fn to_f64(self) -> f64 {
        self.0.iter().rev().fold(0.0, |sum, limb| sum * 18_446_744_073_709_551_616.0 + *limb as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_128_bits_and_carries_beyond() {
        let wide = |n: u128| {
            let mut limbs = [0; Wide::LIMBS];
            (limbs[0], limbs[1]) = (n as u64, (n >> 64) as u64);
            Wide(limbs)
        };
        for n in [0, 1, 7, u128::from(u64::MAX)] {
            assert_eq!(Wide::square(n), wide(n * n));
        }
        // (2^128 - 1)^2 = 2^256 - 2^129 + 1
        assert_eq!(Wide::square(u128::MAX).0, [1, 0, u64::MAX - 1, u64::MAX, 0, 0]);
        assert_eq!(wide(u128::MAX).plus(wide(1)).0, [0, 0, 1, 0, 0, 0]);
        assert_eq!(Wide([0, 0, 1, 0, 0, 0]).minus(wide(1)), wide(u128::MAX));
        assert_eq!(wide(1).minus(wide(2)), Wide::default());
        assert_eq!(wide(u128::MAX).times(2).0, [u64::MAX - 1, u64::MAX, 1, 0, 0, 0]);
        assert_eq!(wide(1 << 100).to_f64(), (1u128 << 100) as f64);
    }
}
