//! Numbers in arguments.

use super::{Reply, error};

/// An integer as Redis reads it: decimal, no sign except `-`, no leading zeros.
pub(super) fn int(word: &[u8]) -> Result<i64, Reply> {
    parse(word).ok_or_else(|| error("ERR value is not an integer or out of range"))
}

/// As [`int`], without an error text.
pub(super) fn parse(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// A float; infinities are numbers, NaN is not.
pub(super) fn float(word: &[u8]) -> Result<f64, Reply> {
    let bad = || error("ERR value is not a valid float");
    let number: f64 =
        std::str::from_utf8(word).ok().and_then(|t| t.parse().ok()).ok_or_else(bad)?;
    if number.is_nan() { Err(bad()) } else { Ok(number) }
}

/// A sum, or an error on overflow.
pub(super) fn sum(a: i64, b: i64) -> Result<i64, Reply> {
    a.checked_add(b).ok_or_else(|| error("ERR increment or decrement would overflow"))
}
