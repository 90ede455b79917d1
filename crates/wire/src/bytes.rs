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
    Form::Wide.put_count(count, out);
}

pub(crate) fn put_word(word: &[u8], out: &mut Vec<u8>) {
    Form::Wide.put_word(word, out);
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

/// How counts, lengths and numbers that are small as a rule are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// With all the bytes of their type.
    #[default]
    Wide,
    /// Seven bits a byte, the lowest first, with the eighth bit on all bytes but the last (LEB128, as
    /// in DWARF 5, section 7.6), in as few bytes as possible.
    Short,
}

impl Form {
    pub(crate) fn put_u16(self, value: u16, out: &mut Vec<u8>) {
        match self {
            Self::Wide => put_u16(value, out),
            Self::Short => put_short(u32::from(value), out),
        }
    }

    pub(crate) fn put_u32(self, value: u32, out: &mut Vec<u8>) {
        match self {
            Self::Wide => put_u32(value, out),
            Self::Short => put_short(value, out),
        }
    }

    /// A number of things, or a length.
    ///
    /// # Panics
    /// Like [`put_count`].
    pub(crate) fn put_count(self, count: usize, out: &mut Vec<u8>) {
        self.put_u32(u32::try_from(count).expect("counts are below 2^32"), out);
    }

    pub(crate) fn put_word(self, word: &[u8], out: &mut Vec<u8>) {
        self.put_count(word.len(), out);
        out.extend_from_slice(word);
    }
}

fn put_short(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads from hostile bytes: whatever is not there is [`Corrupt`].
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    form: Form,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, form: Form::Wide }
    }

    /// Counts, lengths of words and [`Reader::small_u32`] are written like this from here on.
    pub(crate) fn set_form(&mut self, form: Form) {
        self.form = form;
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
    ///
    /// In the short form, which the bytes of an empty word may have, that is one byte each.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<usize, Corrupt> {
        let count = self.small_u32()? as usize;
        let bytes = if self.form == Form::Short { 1 } else { bytes };
        if count <= self.rest.len() / bytes { Ok(count) } else { Err(Corrupt) }
    }

    pub(crate) fn word(&mut self) -> Result<&'a [u8], Corrupt> {
        let len = self.small_u32()? as usize;
        self.take(len)
    }

    /// A number that [`Form::put_u32`] has written.
    pub(crate) fn small_u32(&mut self) -> Result<u32, Corrupt> {
        if self.form == Form::Wide {
            return self.u32();
        }
        let mut value = 0;
        for shift in (0..32).step_by(7) {
            let byte = self.u8()?;
            let bits = u32::from(byte & 0x7f);
            // Neither more bits than there are nor more bytes than it takes.
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                return Err(Corrupt);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Corrupt)
    }

    /// A number that [`Form::put_u16`] has written.
    pub(crate) fn small_u16(&mut self) -> Result<u16, Corrupt> {
        match self.form {
            Form::Wide => self.u16(),
            Form::Short => u16::try_from(self.small_u32()?).map_err(|_| Corrupt),
        }
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
