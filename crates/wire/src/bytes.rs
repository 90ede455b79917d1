//! The small change of the binary formats: little-endian numbers and length-prefixed words.

use adt::Corrupt;

pub(crate) fn put_u16(value: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u32(value: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// A number of things, or a length.
///
/// # Panics
/// If it has more than 32 bits: the limits of the product are far below.
pub(crate) fn put_count(count: usize, out: &mut Vec<u8>) {
    put_u32(u32::try_from(count).expect("counts are below 2^32"), out);
}

pub(crate) fn put_word(word: &[u8], out: &mut Vec<u8>) {
    put_count(word.len(), out);
    out.extend_from_slice(word);
}

/// A byte that tells whether there is a number, then the number.
pub(crate) fn put_option(value: Option<u64>, out: &mut Vec<u8>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put_u64(value, out);
    }
}

/// A byte that tells whether there is a word, then the word.
pub(crate) fn put_optional_word(word: Option<&[u8]>, out: &mut Vec<u8>) {
    out.push(u8::from(word.is_some()));
    if let Some(word) = word {
        put_word(word, out);
    }
}

/// Reads from hostile bytes: whatever is not there is [`Corrupt`].
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Corrupt)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Corrupt)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Corrupt> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Corrupt> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Corrupt> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Corrupt> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of things that take at least `bytes` bytes each: never more than can follow.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<usize, Corrupt> {
        let count = self.u32()? as usize;
        if count <= self.rest.len() / bytes { Ok(count) } else { Err(Corrupt) }
    }

    pub(crate) fn word(&mut self) -> Result<&'a [u8], Corrupt> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    pub(crate) fn optional_word(&mut self) -> Result<Option<&'a [u8]>, Corrupt> {
        if self.flag()? { self.word().map(Some) } else { Ok(None) }
    }

    /// A word that is text.
    pub(crate) fn text(&mut self) -> Result<&'a str, Corrupt> {
        std::str::from_utf8(self.word()?).map_err(|_| Corrupt)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Corrupt> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Corrupt),
        }
    }

    pub(crate) fn option(&mut self) -> Result<Option<u64>, Corrupt> {
        if self.flag()? { self.u64().map(Some) } else { Ok(None) }
    }

    /// Everything must have been read.
    pub(crate) fn finish(self) -> Result<(), Corrupt> {
        if self.rest.is_empty() { Ok(()) } else { Err(Corrupt) }
    }
}
