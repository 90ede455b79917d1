//! Hash over all events: two runs with the same hash did the same.

use std::fmt::{self, Write};

/// Hash that grows with the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trace(u64);

impl Trace {
    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    /// Adds bytes, and their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.number(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.number(u64::from_le_bytes(last));
        self.number(bytes.len() as u64);
    }

    /// Adds a text without building it: a run has some hundred thousand events, and allocation
    /// would dominate its time.
    pub fn note(&mut self, text: fmt::Arguments<'_>) {
        // This sink never fails.
        let _ = self.write_fmt(text);
    }

    /// Hash of everything that was added.
    pub fn hash(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }
}

impl fmt::Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_order_count() {
        let of = |parts: &[&[u8]]| {
            let mut trace = Trace::default();
            parts.iter().for_each(|part| trace.bytes(part));
            trace.hash()
        };
        let hashes = [
            of(&[b"a"]),
            of(&[b"b"]),
            of(&[b"a\0"]),
            of(&[b"a", b"b"]),
            of(&[b"b", b"a"]),
            of(&[b"ab"]),
            of(&[b"12345678"]),
            of(&[b"123456789"]),
        ];
        for (place, hash) in hashes.iter().enumerate() {
            assert!(!hashes[..place].contains(hash), "{place}");
        }
    }

    #[test]
    fn a_value_is_noted_as_it_is_shown() {
        let of = |value: &dyn fmt::Debug| {
            let mut trace = Trace::default();
            trace.note(format_args!("{value:?}"));
            trace.hash()
        };
        assert_eq!(of(&Some(7)), of(&Some(7)));
        assert_ne!(of(&Some(7)), of(&Some(8)));
    }
}
