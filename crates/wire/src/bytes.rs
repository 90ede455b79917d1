//! Building blocks of the binary formats: little-endian numbers and length-prefixed byte strings
//! (*words*).

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

/// Writes a count or a length.
///
/// # Panics
/// If it has more than 32 bits: the limits of the product are far below.
pub(crate) fn put_count(count: usize, out: &mut Vec<u8>) {
    Form::Wide.put_count(count, out);
}

pub(crate) fn put_word(word: &[u8], out: &mut Vec<u8>) {
    Form::Wide.put_word(word, out);
}

/// Writes a flag byte for the presence of a number, then the number.
pub(crate) fn put_option(value: Option<u64>, out: &mut Vec<u8>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put_u64(value, out);
    }
}

/// Writes a flag byte for the presence of a word, then the word.
pub(crate) fn put_optional_word(word: Option<&[u8]>, out: &mut Vec<u8>) {
    out.push(u8::from(word.is_some()));
    if let Some(word) = word {
        put_word(word, out);
    }
}

/// Encoding of counts, lengths and numbers that are usually small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Every byte of the type.
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

    /// Writes a count or a length.
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

/// Reader of hostile bytes: a read past their end is [`Corrupt`].
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    form: Form,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, form: Form::Wide }
    }

    /// Sets the form in which counts, lengths of words and [`Reader::small_u32`] are read from here
    /// on.
    pub(crate) fn set_form(&mut self, form: Form) {
        self.form = form;
    }

    /// Bytes not read yet.
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

    /// Reads a number of items that take at least `bytes` bytes each: never more than can follow.
    ///
    /// In the short form an item takes at least one byte, because an empty word takes one.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<usize, Corrupt> {
        let count = self.small_u32()? as usize;
        let bytes = if self.form == Form::Short { 1 } else { bytes };
        if count <= self.rest.len() / bytes { Ok(count) } else { Err(Corrupt) }
    }

    pub(crate) fn word(&mut self) -> Result<&'a [u8], Corrupt> {
        let len = self.small_u32()? as usize;
        self.take(len)
    }

    /// Reads a number written by [`Form::put_u32`].
    pub(crate) fn small_u32(&mut self) -> Result<u32, Corrupt> {
        if self.form == Form::Wide {
            return self.u32();
        }
        let mut value = 0;
        for shift in (0..32).step_by(7) {
            let byte = self.u8()?;
            let bits = u32::from(byte & 0x7f);
            // Neither more bits than the type has nor more bytes than necessary.
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

    /// Reads a number written by [`Form::put_u16`].
    pub(crate) fn small_u16(&mut self) -> Result<u16, Corrupt> {
        match self.form {
            Form::Wide => self.u16(),
            Form::Short => u16::try_from(self.small_u32()?).map_err(|_| Corrupt),
        }
    }

    pub(crate) fn optional_word(&mut self) -> Result<Option<&'a [u8]>, Corrupt> {
        if self.flag()? { self.word().map(Some) } else { Ok(None) }
    }

    /// Reads a word that must be UTF-8.
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

    /// Fails unless everything was read.
    pub(crate) fn finish(self) -> Result<(), Corrupt> {
        if self.rest.is_empty() { Ok(()) } else { Err(Corrupt) }
    }
}
