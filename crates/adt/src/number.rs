//! Arithmetic on numbers that values hold as text.

use crate::{Blob, format_float, parse_float};

/// An integer in decimal.
pub(crate) fn int_blob(value: i64) -> Blob {
    Blob::new(itoa::Buffer::new().format(value).as_bytes())
}

/// Whether adding `delta` commutes with other additions that pass this test, for any number of
/// holders: reaching the end of the 64-bit range from here would take 2^21 of them at once, more
/// than a lock table holds.
pub(crate) fn far_from_overflow(value: i64, delta: i64) -> bool {
    value.unsigned_abs() <= 1 << 62 && delta.unsigned_abs() <= 1 << 40
}

/// The sum of two numbers held as text, as text. Both must parse as floats. Decimal numbers are
/// added exactly (0.1 + 0.2 is 0.3, as Redis' extended precision shows it) as long as 17 digits
/// after the point and an `i128` suffice; beyond, in binary, and rounded to 17 digits after the
/// point as Redis does. `None` if the sum is infinite or no number.
pub(crate) fn add_float(current: &[u8], delta: &[u8]) -> Option<String> {
    let binary = |text| parse_float(text).ok();
    let (value, by) = (binary(current)?, binary(delta)?);
    let sum = value + by;
    if !sum.is_finite() {
        return None;
    }
    let decimal = |text, value| {
        Decimal::parse(text).or_else(|| Decimal::parse(format_float(value).as_bytes()))
    };
    let exact = decimal(current, value).zip(decimal(delta, by)).and_then(|(a, b)| a.add(b));
    Some(exact.map_or_else(|| rounded(sum), Decimal::format))
}

/// A number with at most 17 digits after the point.
fn rounded(value: f64) -> String {
    if value.abs() >= 1e17 {
        return format_float(value);
    }
    let text = format!("{value:.17}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0".to_owned(),
        short => short.to_owned(),
    }
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
    /// Reads `[+-]digits[.digits]`; `None` for other forms and for too many digits.
    fn parse(text: &[u8]) -> Option<Self> {
        let negative = text.first() == Some(&b'-');
        let signed = negative || text.first() == Some(&b'+');
        let mut this = Self { digits: 0, scale: 0 };
        let mut point = false;
        for &byte in &text[usize::from(signed)..] {
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
            ("0.1", "0.2", "0.3"),
            ("10.50", "+0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("-0.05", "0.05", "0"),
            ("-1.5", "1.25", "-0.25"),
            ("3", "-5", "-2"),
            ("1e300", "1e300", &format_float(2e300)),
            ("1", "9007199254740993", "9007199254740994"),
            ("0.5", "9223372036854775807", "9223372036854775807.5"),
            ("0", "1e-18", "0"),
            ("0", "-1e-18", "0"),
        ] {
            assert_eq!(add_float(current.as_bytes(), delta.as_bytes()).as_deref(), Some(sum));
        }
        assert_eq!(add_float(b"1", b"inf"), None);
        assert_eq!(add_float(b"inf", b"-inf"), None);
        assert_eq!(add_float(b"1.7e308", b"1.7e308"), None);
    }
}
