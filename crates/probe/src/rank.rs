//! Common definition of a quantile in the probe: the value at a rank.
//!
//! The quantile p of n values is the value at rank ceil(p n) of the ascending list, the first being
//! at rank 1. No two values are interpolated, so that all programs that follow this rule agree in
//! every bit. Probabilities are whole parts per million, because 0.07 * 100 is above 7 in binary.

/// A probability of one.
pub const MILLION: u32 = 1_000_000;

/// Rank of a quantile among `n` values: from 1 to `n`, or 0 if there are no values.
pub fn rank(ppm: u32, n: u64) -> u64 {
    let million = u128::from(MILLION);
    let rank = (u128::from(ppm) * u128::from(n)).div_ceil(million);
    u64::try_from(rank).unwrap_or(n).clamp(n.min(1), n)
}

/// Quantile of ascending values.
pub fn of_sorted<T: Copy>(sorted: &[T], ppm: u32) -> Option<T> {
    let at = rank(ppm, sorted.len() as u64).checked_sub(1)?;
    sorted.get(usize::try_from(at).ok()?).copied()
}

/// Quantile of values in any order, which are reordered.
pub fn of_unsorted<T: Copy + Ord>(values: &mut [T], ppm: u32) -> Option<T> {
    let at = usize::try_from(rank(ppm, values.len() as u64)).ok()?.checked_sub(1)?;
    (at < values.len()).then(|| *values.select_nth_unstable(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_of_the_list() {
        let values: Vec<u32> = (1..=100).collect();
        for (ppm, value) in [(0, 1), (70_000, 7), (500_000, 50), (900_000, 90), (MILLION, 100)] {
            assert_eq!(of_sorted(&values, ppm), Some(value), "{ppm}");
            let mut backwards: Vec<u32> = values.iter().rev().copied().collect();
            assert_eq!(of_unsorted(&mut backwards, ppm), Some(value), "{ppm}");
        }
        assert_eq!(of_sorted(&[1, 2, 3], 500_000), Some(2));
        assert_eq!(of_sorted(&[1, 2], 500_000), Some(1));
        assert_eq!(of_sorted::<u8>(&[], 500_000), None);
        assert_eq!(of_unsorted::<u8>(&mut [], 500_000), None);
    }
}
