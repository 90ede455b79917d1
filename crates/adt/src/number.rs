//! Arithmetic on numbers that values hold as text.

use crate::{Blob, format_float};
use std::io::Write;

/// An integer in decimal.
pub(crate) fn int_blob(value: i64) -> Blob {
    let mut digits = [0; 20];
    let mut rest = &mut digits[..];
    write!(rest, "{value}").expect("20 bytes hold any 64-bit integer");
    let left = rest.len();
    Blob::new(&digits[..20 - left])
}

/// Whether adding `delta` commutes with other additions that pass this test, for any number of
/// holders: to reach the end of the 64-bit range from here would take 2^21 of them at once, more
/// than a lock table holds.
pub(crate) fn far_from_overflow(value: i64, delta: i64) -> bool {
    value.unsigned_abs() <= 1 << 62 && delta.unsigned_abs() <= 1 << 40
}

/// The sum of a number held as text and an increment, as text. `current` must parse as a float.
/// Decimal fractions are added exactly (0.1 + 0.2 is 0.3, as Redis' extended precision shows it)
/// as long as 17 digits after the point and an `i128` suffice; beyond, in binary. `None` if the
/// sum is infinite or no number.
pub(crate) fn add_float(current: &[u8], delta: f64) -> Option<String> {
    let value: f64 = std::str::from_utf8(current).ok()?.parse().ok()?;
    let sum = value + delta;
    if !sum.is_finite() {
        return None;
    }
    let exact = Decimal::parse(current)
        .or_else(|| Decimal::parse(format_float(value).as_bytes()))
        .zip(Decimal::parse(format_float(delta).as_bytes()))
        .and_then(|(a, b)| a.add(b));
    Some(exact.map_or_else(|| format_float(sum), Decimal::format))
}

/// Most digits after the point that are added exactly.
const SCALE_MAX: u32 = 17;

/// `digits` / 10^`scale`.
#[derive(Clone, Copy)]
struct Decimal {
    digits: i128,
    scale: u32,
}

impl Decimal {
    /// Reads `[-]digits[.digits]`; `None` for other forms and for too many digits.
    fn parse(text: &[u8]) -> Option<Self> {
        let negative = text.first() == Some(&b'-');
        let mut this = Self { digits: 0, scale: 0 };
        let mut point = false;
        for &byte in &text[usize::from(negative)..] {
            match byte {
                b'.' if !point => point = true,
                b'0'..=b'9' => {
                    let digit = i128::from(byte - b'0');
                    this.digits = this.digits.checked_mul(10)?.checked_add(digit)?;
                    this.scale += u32::from(point);
                }
                _ => return None,
            }
        }
        if negative {
            this.digits = -this.digits;
        }
        (this.scale <= SCALE_MAX).then_some(this)
    }

    fn add(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let align = |d: Self| d.digits.checked_mul(10_i128.pow(scale - d.scale));
        Some(Self { digits: align(self)?.checked_add(align(other)?)?, scale })
    }

    fn format(self) -> String {
        let unit = 10_u128.pow(self.scale);
        let (whole, fraction) =
            (self.digits.unsigned_abs() / unit, self.digits.unsigned_abs() % unit);
        let sign = if self.digits < 0 { "-" } else { "" };
        if fraction == 0 {
            return format!("{sign}{whole}");
        }
        let fraction = format!("{fraction:0width$}", width = self.scale as usize);
        format!("{sign}{whole}.{}", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_print_at_both_ends_of_the_range() {
        for value in [0, -1, i64::MAX, i64::MIN] {
            assert_eq!(&*int_blob(value), value.to_string().as_bytes());
        }
    }

    #[test]
    fn sums_of_decimal_fractions_are_exact() {
        for (current, delta, sum) in [
            ("0.1", 0.2, "0.3"),
            ("10.50", 0.1, "10.6"),
            ("5.0e3", 2.0e2, "5200"),
            ("-0.05", 0.05, "0"),
            ("-1.5", 1.25, "-0.25"),
            ("3", -5.0, "-2"),
            ("1e300", 1e300, &format_float(2e300)),
        ] {
            assert_eq!(add_float(current.as_bytes(), delta).as_deref(), Some(sum));
        }
        assert_eq!(add_float(b"1", f64::INFINITY), None);
        assert_eq!(add_float(b"inf", f64::NEG_INFINITY), None);
        assert_eq!(add_float(b"1.7e308", 1.7e308), None);
    }
}
