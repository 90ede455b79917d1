//! The form of `FUNCTION DUMP` and `FUNCTION RESTORE`, which Redis 7 and Valkey share: one part of a dump
//! file for each library, then a version and a checksum. So libraries move between the servers, both ways.
//!
//! Source: the RDB format of Redis 7.0 (`rdb.h`, `rdb.c`). Strings are written as they are, and read
//! compressed (LZF) as well, as Redis writes long ones.

use super::kept::too_many;
use crate::limits::{LIBRARIES_BYTES_MAX, LIBRARIES_MAX, SCRIPT_BYTES_MAX};
use adt::{Blob, ErrorReply};
use crc::{CRC_64_REDIS, Crc};

const CHECKSUM: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);
/// Begins the part of a library.
const LIBRARY: u8 = 245;
/// Version of the dump format that is written: that of Redis 7.0. Later versions have the same parts.
const VERSION: u16 = 10;
/// Bytes of version and checksum.
const FOOTER_BYTES: usize = 10;
/// First byte of a length of four bytes, of one of eight bytes, and of a compressed string.
const LONG: u8 = 0x80;
const LONGER: u8 = 0x81;
const COMPRESSED: u8 = 0xc3;

/// Dump of the texts of libraries.
pub(super) fn dump<'t>(texts: impl Iterator<Item = &'t Blob>) -> Blob {
    let mut out = Vec::new();
    for text in texts {
        out.push(LIBRARY);
        put_length(text.len(), &mut out);
        out.extend_from_slice(text);
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&CHECKSUM.checksum(&out).to_le_bytes());
    Blob::from(out)
}

/// Texts of the libraries in a dump.
///
/// # Errors
/// If it is not a dump of libraries, in the words of Redis where that has them, or if there are more than the
/// store may have: a short dump may be that of long texts.
pub(super) fn texts(dump: &[u8]) -> Result<Vec<Blob>, ErrorReply> {
    let wrong = || ErrorReply::err("DUMP payload version or checksum are wrong");
    let parts = dump.len().checked_sub(FOOTER_BYTES).ok_or_else(wrong)?;
    let (covered, checksum) = dump.split_at(dump.len() - 8);
    if CHECKSUM.checksum(covered).to_le_bytes() != checksum {
        return Err(wrong());
    }
    let mut reader = Bytes(&dump[..parts]);
    let (mut texts, mut bytes) = (Vec::new(), 0);
    while !reader.0.is_empty() {
        if reader.byte() != Some(LIBRARY) {
            return Err(ErrorReply::err("given type is not a function"));
        }
        let failed = || ErrorReply::err("Failed loading library payload");
        let text = reader.string(SCRIPT_BYTES_MAX).ok_or_else(failed)?;
        bytes += text.len();
        texts.push(text);
        if bytes > LIBRARIES_BYTES_MAX || texts.len() > LIBRARIES_MAX {
            return Err(too_many());
        }
    }
    Ok(texts)
}

fn put_length(length: usize, out: &mut Vec<u8>) {
    match length {
        0..64 => out.push(length as u8),
        64..16_384 => out.extend_from_slice(&(0x4000 | length as u16).to_be_bytes()),
        _ => {
            out.push(LONG);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

/// The bytes of a dump that are not read yet.
struct Bytes<'d>(&'d [u8]);

impl<'d> Bytes<'d> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, count: usize) -> Option<&'d [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    fn length(&mut self) -> Option<usize> {
        let first = self.byte()?;
        match first {
            LONG => usize::try_from(u32::from_be_bytes(self.array()?)).ok(),
            LONGER => usize::try_from(u64::from_be_bytes(self.array()?)).ok(),
            0x00..0x40 => Some(first.into()),
            0x40..0x80 => Some(usize::from(first & 0x3f) << 8 | usize::from(self.byte()?)),
            _ => None,
        }
    }

    /// A string, which must not be longer than `bytes_max`.
    fn string(&mut self, bytes_max: usize) -> Option<Blob> {
        if self.0.first() != Some(&COMPRESSED) {
            let length = self.length()?;
            return self.take(length).filter(|text| text.len() <= bytes_max).map(Blob::new);
        }
        self.byte()?;
        let (packed, length) = (self.length()?, self.length()?);
        if length > bytes_max {
            return None;
        }
        unpacked(self.take(packed)?, length).map(Blob::from)
    }
}

/// Content of a string that LZF has compressed, of `length` bytes.
///
/// A control byte below 32 announces so many literal bytes and one more. Any other refers to bytes that were
/// unpacked before: its upper three bits are their number less 2 (with 7, another byte is added to it), and
/// its lower five bits with the byte that follows are the distance less 1.
fn unpacked(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut reader = Bytes(packed);
    let mut out = Vec::with_capacity(length);
    while let Some(control) = reader.byte() {
        if control < 32 {
            out.extend_from_slice(reader.take(usize::from(control) + 1)?);
        } else {
            let mut count = usize::from(control >> 5) + 2;
            if count == 9 {
                count += usize::from(reader.byte()?);
            }
            let distance = (usize::from(control & 31) << 8 | usize::from(reader.byte()?)) + 1;
            let from = out.len().checked_sub(distance)?;
            // What is copied may reach into the copy.
            for at in from..from + count {
                out.push(out[at]);
            }
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(length: usize) -> Blob {
        Blob::from(vec![b'x'; length])
    }

    #[test]
    fn what_is_dumped_is_read_back() {
        for lengths in [&[][..], &[0], &[63, 64], &[16_383, 16_384], &[300_000, 1]] {
            let all: Vec<Blob> = lengths.iter().map(|length| text(*length)).collect();
            let dumped = dump(all.iter());
            assert_eq!(texts(&dumped).unwrap(), all);
        }
        let too_long = [text(SCRIPT_BYTES_MAX + 1)];
        assert!(texts(&dump(too_long.iter())).is_err());
    }

    #[test]
    fn a_dump_of_too_much_is_refused_before_it_is_unpacked() {
        let long = text(SCRIPT_BYTES_MAX);
        let most = LIBRARIES_BYTES_MAX / SCRIPT_BYTES_MAX;
        assert_eq!(texts(&dump(vec![long.clone(); most].iter())).unwrap().len(), most);
        let (many, error) = (vec![text(1); LIBRARIES_MAX + 1], too_many());
        for all in [vec![long; most + 1], many] {
            assert_eq!(texts(&dump(all.iter())).unwrap_err(), error);
        }
    }

    #[test]
    fn no_changed_or_shortened_dump_is_read() {
        let dumped = dump([text(70)].iter());
        let wrong = "ERR DUMP payload version or checksum are wrong";
        for at in 0..dumped.len() {
            let mut changed = dumped.to_vec();
            changed[at] ^= 1;
            assert_eq!(texts(&changed).unwrap_err().to_string(), wrong);
            assert_eq!(texts(&dumped[..at]).unwrap_err().to_string(), wrong);
        }
    }

    #[test]
    fn compressed_strings_are_unpacked() {
        // Three literal bytes, then nine bytes from a distance of three, then 12 from a distance of one.
        let packed = [2, b'a', b'b', b'c', 0xe0, 0, 2, 0xe0, 3, 0];
        assert_eq!(unpacked(&packed, 24).unwrap(), b"abcabcabcabccccccccccccc"[..24]);
        assert_eq!(unpacked(&packed, 23), None);
        assert_eq!(unpacked(&packed, 25), None);
        assert_eq!(unpacked(&[0x20, 0], 3), None, "nothing was unpacked before");
        assert_eq!(unpacked(&[5, b'a'], 6), None);
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), length in 0_usize..400) {
            if let Some(out) = unpacked(&bytes, length) {
                prop_assert_eq!(out.len(), length);
            }
            let mut whole = bytes;
            whole.extend_from_slice(&VERSION.to_le_bytes());
            whole.extend_from_slice(&CHECKSUM.checksum(&whole).to_le_bytes());
            if let Ok(found) = texts(&whole) {
                let again = dump(found.iter());
                prop_assert_eq!(texts(&again).unwrap(), found);
            }
        }
    }
}
