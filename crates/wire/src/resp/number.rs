//! Numbers on the wire: lengths and counts on their own line, and the decimal form of doubles.

use memchr::memchr;
use std::io::Write;

/// Content of a line that should hold an integer.
pub(super) enum NumberLine {
    /// The integer, and the offset after CR LF.
    Number(i64, usize),
    /// The line has not ended yet.
    Partial,
    /// Anything but a canonical integer followed by CR LF.
    Invalid,
    /// The line does not end within the bound.
    TooLong,
}

/// Reads a canonical integer line of one to nine digits, as nearly all are, if one begins at `at`.
#[inline]
pub(super) fn short_number(buffer: &[u8], at: usize) -> Option<(i64, usize)> {
    let line = buffer.get(at..)?;
    if let [ones @ b'0'..=b'9', b'\r', b'\n', ..] = line {
        return Some((i64::from(*ones - b'0'), at + 3));
    }
    if let [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] = line {
        return Some((i64::from(*tens - b'0') * 10 + i64::from(*ones - b'0'), at + 4));
    }
    let mut value: u32 = 0;
    for (i, byte) in line.iter().enumerate().take(10) {
        match byte {
            b'0'..=b'9' if i < 9 => value = value * 10 + u32::from(byte - b'0'),
            b'\r' if i > 0 && line[0] != b'0' && line.get(i + 1) == Some(&b'\n') => {
                return Some((i64::from(value), at + i + 2));
            }
            _ => break,
        }
    }
    None
}

/// Reads the integer line that begins at `at`. `scanned` remembers how far an unfinished line was
/// searched, so that a long line is not searched again from its beginning.
#[inline]
pub(super) fn number_line(
    buffer: &[u8],
    at: usize,
    scanned: &mut usize,
    line_max: usize,
) -> NumberLine {
    if let Some((value, next)) = short_number(buffer, at) {
        return NumberLine::Number(value, next);
    }
    any_number_line(buffer, at, scanned, line_max)
}

#[inline(never)]
fn any_number_line(buffer: &[u8], at: usize, scanned: &mut usize, line_max: usize) -> NumberLine {
    match line_end(buffer, at, scanned, line_max) {
        LineEnd::At(end) => match adt::parse_int(&buffer[at..end]) {
            Ok(value) => NumberLine::Number(value, end + 2),
            Err(_) => NumberLine::Invalid,
        },
        LineEnd::Partial => NumberLine::Partial,
        LineEnd::Invalid => NumberLine::Invalid,
        LineEnd::TooLong => NumberLine::TooLong,
    }
}

/// End of a line.
pub(super) enum LineEnd {
    /// Offset of the CR LF.
    At(usize),
    /// Not received yet.
    Partial,
    /// CR without LF.
    Invalid,
    /// Beyond the bound.
    TooLong,
}

/// Looks for the CR LF of the line that begins at `at`; `scanned` as in [`number_line`].
pub(super) fn line_end(buffer: &[u8], at: usize, scanned: &mut usize, line_max: usize) -> LineEnd {
    let from = at.max(*scanned);
    let found = memchr(b'\r', &buffer[from..]).map(|i| from + i);
    let end = found.unwrap_or(buffer.len());
    if end - at > line_max {
        return LineEnd::TooLong;
    }
    *scanned = end;
    match (found, buffer.get(end + 1)) {
        (Some(_), Some(b'\n')) => LineEnd::At(end),
        (Some(_), Some(_)) => LineEnd::Invalid,
        _ => LineEnd::Partial,
    }
}

/// Appends an integer in decimal.
#[inline]
pub(super) fn push_int(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a double as Redis writes it: integers up to 2^52 in full, everything else by the
/// shortest digits that read back as the same number, with an exponent where the plain form would
/// be long; `inf`, `-inf`, `nan`.
pub fn push_double(value: f64, out: &mut Vec<u8>) {
    const EXACT: f64 = (1u64 << 52) as f64;
    if value.is_nan() {
        out.extend_from_slice(b"nan");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"inf" } else { b"-inf" });
    } else if value == 0.0 {
        out.extend_from_slice(if value.is_sign_negative() { b"-0" } else { b"0" });
    } else if value.abs() <= EXACT && value == value.trunc() {
        push_int(value as i64, out);
    } else {
        push_shortest(value, out);
    }
}

/// The shortest digits of a finite number other than zero: plain when the point is among the
/// digits or up to six zeros away from them, with an exponent otherwise (the rule of fpconv, which
/// Redis uses).
fn push_shortest(value: f64, out: &mut Vec<u8>) {
    let mut form = [0; 32];
    let mut rest = &mut form[..];
    write!(rest, "{:e}", value.abs()).expect("at most 17 digits and an exponent");
    let unused = rest.len();
    let form = &mut form[..32 - unused];
    let e = form.iter().position(|b| *b == b'e').expect("exponent form");
    let exponent = adt::parse_int(&form[e + 1..]).expect("a decimal exponent") as i32;
    // Move the first digit over the point.
    let digits = if e > 1 {
        form[1] = form[0];
        &form[1..e]
    } else {
        &form[..1]
    };
    let count = digits.len() as i32;
    // value = 0.digits * 10^(exponent + 1) = digits * 10^scale
    let scale = exponent - count + 1;
    if value < 0.0 {
        out.push(b'-');
    }
    if scale >= 0 && exponent < count + 7 {
        out.extend_from_slice(digits);
        out.resize(out.len() + scale as usize, b'0');
    } else if scale < 0 && (scale > -7 || exponent.abs() < 4) {
        if exponent >= 0 {
            let (whole, fraction) = digits.split_at(exponent as usize + 1);
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(fraction);
        } else {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent - 1) as usize, b'0');
            out.extend_from_slice(digits);
        }
    } else {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        push_int(exponent.abs(), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: f64) -> String {
        let mut out = Vec::new();
        push_double(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_look_as_redis_writes_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (1.5, "1.5"),
            (-2.25, "-2.25"),
            (0.1, "0.1"),
            (0.001, "0.001"),
            (1e8, "100000000"),
            (1e15, "1000000000000000"),
            (1e21, "1e+21"),
            (1e300, "1e+300"),
            (1.5e-10, "1.5e-10"),
            (1e-7, "1e-7"),
            (1e-6, "0.000001"),
            (1.0 / 3.0, "0.3333333333333333"),
            (3.3e22, "3.3e+22"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    proptest! {
        #[test]
        fn doubles_read_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            prop_assert_eq!(text(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }
}
