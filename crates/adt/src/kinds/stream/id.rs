//! Identifiers of entries.

use crate::{Blob, ErrorReply, Timestamp};
use std::fmt;

/// Bits below the timestamp in a sequence number: the index among the entries of one transaction.
const INDEX_BITS: u32 = 20;
/// Timestamps in a millisecond.
const PER_MILLI: u64 = 1000 * Timestamp::PER_MICROSECOND;

/// Identifier of an entry: milliseconds since 1970, and a sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Milliseconds since 1970.
    pub ms: u64,
    /// Sequence number.
    pub seq: u64,
}

impl Id {
    /// Before all entries.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The last possible one.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The first of the identifiers that belong to a commit timestamp: they grow with timestamps.
    pub fn of(ts: Timestamp) -> Self {
        Self { ms: ts.0 / PER_MILLI, seq: (ts.0 % PER_MILLI) << INDEX_BITS }
    }

    /// The last of the identifiers that belong to a commit timestamp.
    pub fn last_of(ts: Timestamp) -> Self {
        let Self { ms, seq } = Self::of(ts);
        Self { ms, seq: seq | ((1 << INDEX_BITS) - 1) }
    }

    /// The next one, if there is one.
    pub fn next(self) -> Option<Self> {
        match (self.ms.checked_add(1), self.seq.checked_add(1)) {
            (_, Some(seq)) => Some(Self { seq, ..self }),
            (Some(ms), None) => Some(Self { ms, seq: 0 }),
            (None, None) => None,
        }
    }

    /// The one before, if there is one.
    pub fn previous(self) -> Option<Self> {
        match (self.ms.checked_sub(1), self.seq.checked_sub(1)) {
            (_, Some(seq)) => Some(Self { seq, ..self }),
            (Some(ms), None) => Some(Self { ms, seq: u64::MAX }),
            (None, None) => None,
        }
    }

    /// Reads `ms-seq` or `ms`, of which the sequence number is then `seq`.
    pub fn parse(word: &[u8], seq: u64) -> Result<Self, ErrorReply> {
        let at = word.iter().position(|byte| *byte == b'-');
        let (ms, rest) = match at {
            Some(at) => (&word[..at], Some(&word[at + 1..])),
            None => (word, None),
        };
        let seq = rest.map_or(Some(seq), number);
        match (number(ms), seq) {
            (Some(ms), Some(seq)) => Ok(Self { ms, seq }),
            _ => Err(Self::invalid()),
        }
    }

    /// Error for a word that is no identifier.
    pub fn invalid() -> ErrorReply {
        ErrorReply::err("Invalid stream ID specified as stream command argument")
    }

    /// The identifier as clients read it.
    pub fn blob(self) -> Blob {
        let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
        let parts = [ms.format(self.ms).as_bytes(), b"-", seq.format(self.seq).as_bytes()];
        let mut text = [0; 2 * DIGITS_MAX + 1];
        let mut len = 0;
        for part in parts {
            text[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        Blob::new(&text[..len])
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// Most digits of a number of 64 bits.
const DIGITS_MAX: usize = 20;

/// A number of 64 bits without sign, in canonical decimal form.
pub fn number(word: &[u8]) -> Option<u64> {
    let canonical = match word {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.len() < DIGITS_MAX && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let digits = std::str::from_utf8(word).ok().filter(|_| canonical)?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_grow_with_timestamps_and_begin_with_their_millisecond() {
        let at = |us: u64, counter: u64| Timestamp(Timestamp::from_micros(us).0 + counter);
        let times = [at(0, 0), at(0, 1), at(999, 2047), at(1000, 0), at(1_700_000_000_123_456, 7)];
        for pair in times.windows(2) {
            assert!(Id::last_of(pair[0]) < Id::of(pair[1]), "{pair:?}");
        }
        assert_eq!(Id::of(times[4]).ms, 1_700_000_000_123);
        assert!(Id::last_of(at(999, 2047)).seq < 1 << 41);
    }

    #[test]
    fn words_are_read_as_redis_reads_them() {
        assert_eq!(Id::parse(b"5-7", 0), Ok(Id { ms: 5, seq: 7 }));
        assert_eq!(Id::parse(b"5", 9), Ok(Id { ms: 5, seq: 9 }));
        assert_eq!(Id::parse(b"18446744073709551615", u64::MAX), Ok(Id::MAX));
        for wrong in
            ["", "-", "5-", "-5", "a", "5-a", "1-2-3", "18446744073709551616", "+1", "-1-1"]
        {
            assert!(Id::parse(wrong.as_bytes(), 0).is_err(), "{wrong}");
        }
        assert_eq!(Id::MAX.next(), None);
        assert_eq!(Id::MIN.previous(), None);
        let turn = Id { ms: 4, seq: u64::MAX };
        assert_eq!(turn.next(), Some(Id { ms: 5, seq: 0 }));
        assert_eq!(Id { ms: 5, seq: 0 }.previous(), Some(turn));
    }
}
