//! [`Args`]: the words of one command, borrowed from wherever their bytes are.

use crate::{Blob, ErrorReply};

/// The words of one command, the command's name first. Never empty.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    buffer: &'a [u8],
    spans: &'a [(u32, u32)],
}

impl<'a> Args<'a> {
    /// Words given as `(start, end)` offsets into `buffer`.
    ///
    /// # Panics
    /// If there is no word. A span outside of the buffer panics when it is read.
    pub fn new(buffer: &'a [u8], spans: &'a [(u32, u32)]) -> Self {
        assert!(!spans.is_empty(), "a command has a name");
        Self { buffer, spans }
    }

    /// Number of words, the name included.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Word number `index`; 0 is the name.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|&(start, end)| &self.buffer[start as usize..end as usize])
    }

    /// Word number `index` as an owned byte string, or a syntax error where there is none.
    pub fn blob(&self, index: usize) -> Result<Blob, ErrorReply> {
        self.get(index).map(Blob::new).ok_or_else(ErrorReply::syntax)
    }

    /// Word number `index` as an integer.
    pub fn int(&self, index: usize) -> Result<i64, ErrorReply> {
        parse_int(self.get(index).ok_or_else(ErrorReply::syntax)?)
    }

    /// Word number `index` as an integer of at least `least`; every other word gives the same
    /// `error`.
    pub fn at_least(
        &self,
        index: usize,
        least: u64,
        error: &'static str,
    ) -> Result<u64, ErrorReply> {
        let word = self.get(index).ok_or_else(ErrorReply::syntax)?;
        let number = parse_int(word).ok().and_then(|number| u64::try_from(number).ok());
        number.filter(|number| *number >= least).ok_or_else(|| ErrorReply::err(error))
    }

    /// Word number `index` as a number of items to take.
    pub fn count(&self, index: usize) -> Result<u64, ErrorReply> {
        self.at_least(index, 0, "value is out of range, must be positive")
    }

    /// Word number `index` as a number that is not NaN (infinities are numbers here).
    pub fn float(&self, index: usize) -> Result<f64, ErrorReply> {
        parse_float(self.get(index).ok_or_else(ErrorReply::syntax)?)
    }

    /// Word number `index` as the timeout of a blocking command, given in seconds; in
    /// milliseconds, rounded up. 0 means for ever.
    pub fn timeout_ms(&self, index: usize) -> Result<u64, ErrorReply> {
        let seconds = self
            .float(index)
            .map_err(|_| ErrorReply::err("timeout is not a float or out of range"))?;
        if seconds < 0.0 {
            return Err(ErrorReply::err("timeout is negative"));
        }
        let millis = (seconds * 1000.0).ceil();
        if millis > i64::MAX as f64 {
            return Err(ErrorReply::err("timeout is out of range"));
        }
        Ok(millis as u64)
    }

    /// Whether word number `index` is `word`, in any case.
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|w| w.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// The words from number `from` on.
    pub fn iter_from(&self, from: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let buffer = self.buffer;
        let spans = self.spans.get(from..).unwrap_or(&[]);
        spans.iter().map(move |&(start, end)| &buffer[start as usize..end as usize])
    }

    /// The words from number `from` on, without the earlier ones. `None` if nothing is left.
    pub fn tail(&self, from: usize) -> Option<Args<'a>> {
        match self.spans.get(from..) {
            Some(spans) if !spans.is_empty() => Some(Args { buffer: self.buffer, spans }),
            _ => None,
        }
    }
}

/// A signed 64-bit integer in canonical decimal form, as Redis takes it: no spaces, no plus sign,
/// no leading zeros.
pub fn parse_int(word: &[u8]) -> Result<i64, ErrorReply> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let canonical = match digits {
        [b'0'] => word.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.len() < 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return Err(ErrorReply::not_integer());
    }
    let negative = digits.len() != word.len();
    let mut value: i64 = 0;
    for digit in digits {
        let digit = i64::from(digit - b'0');
        value = value
            .checked_mul(10)
            .and_then(|v| if negative { v.checked_sub(digit) } else { v.checked_add(digit) })
            .ok_or_else(ErrorReply::not_integer)?;
    }
    Ok(value)
}

/// A floating-point number as Redis takes it: decimal or exponent form, `inf`, `+inf`, `-inf`.
pub fn parse_float(word: &[u8]) -> Result<f64, ErrorReply> {
    let text = std::str::from_utf8(word).map_err(|_| ErrorReply::not_float())?;
    match text.parse::<f64>() {
        Ok(value) if !value.is_nan() => Ok(value),
        _ => hexadecimal(text).ok_or_else(ErrorReply::not_float),
    }
}

/// A hexadecimal integer of at most 52 bits with `0x` in front, as the C library reads it.
fn hexadecimal(text: &str) -> Option<f64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"))?;
    let plain = digits.len() <= 13 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let value = u64::from_str_radix(digits, 16).ok().filter(|_| plain)? as f64;
    Some(if negative { -value } else { value })
}

/// A floating-point number in the shortest form that reads back as the same number.
pub fn format_float(value: f64) -> String {
    if value == f64::INFINITY {
        "inf".to_owned()
    } else if value == f64::NEG_INFINITY {
        "-inf".to_owned()
    } else if value == value.trunc() && value.abs() < 1e17 {
        format!("{value:.0}")
    } else {
        format!("{value}")
    }
}

/// Collects the words of a command: how operations are written into the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgBuf {
    buffer: Vec<u8>,
    spans: Vec<(u32, u32)>,
}

impl ArgBuf {
    /// No words yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// No words yet, with room for so many bytes and words.
    pub fn with_room(bytes: usize, words: usize) -> Self {
        Self { buffer: Vec::with_capacity(bytes), spans: Vec::with_capacity(words) }
    }

    /// Forgets all words and keeps the memory.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.spans.clear();
    }

    /// Adds a word.
    pub fn push(&mut self, word: impl AsRef<[u8]>) -> &mut Self {
        let start = self.buffer.len() as u32;
        self.buffer.extend_from_slice(word.as_ref());
        self.spans.push((start, self.buffer.len() as u32));
        self
    }

    /// Adds an integer in decimal.
    pub fn push_int(&mut self, value: i64) -> &mut Self {
        use std::io::Write;
        let start = self.buffer.len() as u32;
        write!(self.buffer, "{value}").expect("writing to memory");
        self.spans.push((start, self.buffer.len() as u32));
        self
    }

    /// Adds a floating-point number that reads back as the same number.
    pub fn push_float(&mut self, value: f64) -> &mut Self {
        self.push(format_float(value))
    }

    /// Builds the words from a list; used in tests.
    pub fn of<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Self {
        let mut buf = Self::new();
        for word in words {
            buf.push(word);
        }
        buf
    }

    /// The words.
    ///
    /// # Panics
    /// If there are none.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.buffer, &self.spans)
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no word yet.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_canonical() {
        for (word, value) in [
            ("0", 0),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_int(word.as_bytes()), Ok(value));
        }
        for word in ["", "-", "-0", "+1", "01", " 1", "1 ", "9223372036854775808", "1.0", "1e3"] {
            assert!(parse_int(word.as_bytes()).is_err(), "{word}");
        }
    }

    #[test]
    fn floats_read_back() {
        for value in [0.0, -0.5, 1e300, 3.0, 1.0 / 3.0, f64::INFINITY, f64::NEG_INFINITY, 1e17] {
            assert_eq!(parse_float(format_float(value).as_bytes()), Ok(value));
        }
        assert_eq!(parse_float(b"-0x1F"), Ok(-31.0));
        assert!(parse_float(b"0x").is_err() && parse_float(b"0x+1").is_err());
        assert!(parse_float(b"nan").is_err());
        assert!(parse_float(b"").is_err());
    }
}
