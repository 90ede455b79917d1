//! A few short entries in one piece of memory.

use super::hash;
use crate::number::int_blob;
use crate::{Blob, parse_int};
use std::marker::PhantomData;

/// Most entries: all tags are searched.
pub(super) const ENTRIES_MAX: usize = 128;
/// Longest key or value, in bytes.
pub(super) const ITEM_MAX: usize = 64;
/// Most bytes in all: a change moves them.
const BYTES_MAX: usize = 4096;

/// In the mark of an item: it is an integer. The other bits are its length.
const INT: u8 = 0x80;

/// Value that a collection keeps with a key: nothing, or a byte string.
pub trait Part: Clone + PartialEq + std::fmt::Debug {
    /// Items in an entry, with the key.
    const WIDTH: usize;
    /// The byte string.
    fn bytes(&self) -> Option<&[u8]>;
    /// Reads it.
    fn read(bytes: impl FnOnce() -> Blob) -> Self;
}

impl Part for () {
    const WIDTH: usize = 1;
    fn bytes(&self) -> Option<&[u8]> {
        None
    }
    fn read(_: impl FnOnce() -> Blob) -> Self {}
}

impl Part for Blob {
    const WIDTH: usize = 2;
    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
    fn read(bytes: impl FnOnce() -> Blob) -> Self {
        bytes()
    }
}

/// A byte string as an item: an integer in canonical decimal form takes as few bytes as its value needs.
struct Item<'a> {
    mark: u8,
    text: &'a [u8],
    int: [u8; 8],
}

impl<'a> Item<'a> {
    /// `None` if the byte string is too long.
    #[inline]
    fn of(text: &'a [u8]) -> Option<Self> {
        if text.len() > ITEM_MAX {
            return None;
        }
        let first = text.first().copied().unwrap_or_default();
        if (first.is_ascii_digit() || first == b'-')
            && let Ok(number) = parse_int(text)
        {
            let magnitude = if number < 0 { !number } else { number };
            let bits = 65 - magnitude.leading_zeros();
            return Some(Self {
                mark: INT | bits.div_ceil(8) as u8,
                text,
                int: number.to_le_bytes(),
            });
        }
        Some(Self { mark: text.len() as u8, text, int: [0; 8] })
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        if self.mark & INT == 0 { self.text } else { &self.int[..len(self.mark)] }
    }
}

/// Length of an item.
#[inline]
fn len(mark: u8) -> usize {
    usize::from(mark & !INT)
}

/// Length of items, one after another.
#[inline]
fn total(marks: &[u8]) -> usize {
    marks.iter().map(|mark| u32::from(mark & !INT)).sum::<u32>() as usize
}

/// The byte string of an item.
fn read(mark: u8, bytes: &[u8]) -> Blob {
    if mark & INT == 0 {
        return Blob::new(bytes);
    }
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut int = [if negative { 0xff } else { 0 }; 8];
    int[..bytes.len()].copy_from_slice(bytes);
    int_blob(i64::from_le_bytes(int))
}

/// Entries in order of insertion (and of the swaps of removals): their number; a byte of each key's hash,
/// by which keys are found; a mark for each item; the items. Without entries it has no memory.
#[derive(Clone)]
pub(super) struct Packed<V>(Box<[u8]>, PhantomData<V>);

/// An entry does not fit.
pub(super) struct Full;

impl<V> Default for Packed<V> {
    fn default() -> Self {
        Self(Box::default(), PhantomData)
    }
}

impl<V: Part> Packed<V> {
    #[inline]
    pub fn len(&self) -> usize {
        self.0.first().map_or(0, |count| usize::from(*count))
    }

    /// Where the marks begin, and where the items begin.
    #[inline]
    fn begins(&self) -> (usize, usize) {
        let (begin, count) = (usize::from(!self.0.is_empty()), self.len());
        (begin + count, begin + count + count * V::WIDTH)
    }

    #[inline]
    fn marks(&self) -> &[u8] {
        let (marks, items) = self.begins();
        &self.0[marks..items]
    }

    /// Where the items of an entry begin.
    #[inline]
    fn begin(&self, position: usize) -> usize {
        self.begins().1 + total(&self.marks()[..position * V::WIDTH])
    }

    #[inline]
    fn position_of(&self, key: &Item<'_>, tag: u8) -> Option<usize> {
        let (marks, _) = self.begins();
        let tags = self.0.get(1..marks)?;
        memchr::memchr_iter(tag, tags).find(|position| {
            self.marks()[position * V::WIDTH] == key.mark
                && self.0[self.begin(*position)..].starts_with(key.bytes())
        })
    }

    /// Position of a key.
    #[inline]
    pub fn position(&self, key: &[u8]) -> Option<usize> {
        let key = Item::of(key)?;
        self.position_of(&key, tag(&key))
    }

    /// The value at a position that is there.
    pub fn value(&self, position: usize) -> V {
        V::read(|| {
            let marks = &self.marks()[position * V::WIDTH..];
            let begin = self.begin(position) + len(marks[0]);
            read(marks[1], &self.0[begin..begin + len(marks[1])])
        })
    }

    /// The entry at a position.
    pub fn at(&self, position: usize) -> Option<(Blob, V)> {
        (position < self.len()).then(|| {
            let mark = self.marks()[position * V::WIDTH];
            let begin = self.begin(position);
            (read(mark, &self.0[begin..begin + len(mark)]), self.value(position))
        })
    }

    /// All entries, by position.
    pub fn iter(&self) -> impl Iterator<Item = (Blob, V)> {
        let mut items = &self.0[self.begins().1..];
        let mut next = move |mark: u8| {
            let (item, rest) = items.split_at(len(mark));
            items = rest;
            (mark, item)
        };
        self.marks().chunks_exact(V::WIDTH).map(move |marks| {
            let (mark, key) = next(marks[0]);
            let value = marks.get(1).map(|mark| next(*mark));
            let value =
                V::read(|| value.map_or_else(Blob::default, |(mark, item)| read(mark, item)));
            (read(mark, key), value)
        })
    }

    /// Sets the value under a key; a new key comes last. Returns whether it is new.
    pub fn insert(&mut self, key: &[u8], value: &V) -> Result<bool, Full> {
        let key = Item::of(key).ok_or(Full)?;
        let value = value.bytes().map(|bytes| Item::of(bytes).ok_or(Full)).transpose()?;
        let tag = tag(&key);
        match (self.position_of(&key, tag), value) {
            (Some(position), Some(value)) => self.replace(position, &value).map(|()| false),
            (Some(_), None) => Ok(false),
            (None, value) => self.push(tag, &key, value.as_ref()).map(|()| true),
        }
    }

    fn push(&mut self, tag: u8, key: &Item<'_>, value: Option<&Item<'_>>) -> Result<(), Full> {
        let (count, old_len) = (self.len(), self.0.len());
        let (old_marks, old_items) = self.begins();
        let items = 1 + (count + 1) * (1 + V::WIDTH);
        let end = items + (old_len - old_items);
        let new_len = end + len(key.mark) + value.map_or(0, |value| len(value.mark));
        if count == ENTRIES_MAX || new_len > BYTES_MAX {
            return Err(Full);
        }
        let mut bytes = std::mem::take(&mut self.0).into_vec();
        bytes.reserve_exact(new_len - old_len);
        bytes.resize(new_len, 0);
        bytes.copy_within(old_items..old_len, items);
        bytes.copy_within(old_marks..old_items, count + 2);
        bytes[0] = count as u8 + 1;
        bytes[1 + count] = tag;
        let (mut mark, mut begin) = (items - V::WIDTH, end);
        for item in [Some(key), value].into_iter().flatten() {
            bytes[mark] = item.mark;
            bytes[begin..begin + len(item.mark)].copy_from_slice(item.bytes());
            (mark, begin) = (mark + 1, begin + len(item.mark));
        }
        self.0 = bytes.into_boxed_slice();
        Ok(())
    }

    fn replace(&mut self, position: usize, value: &Item<'_>) -> Result<(), Full> {
        let mark = self.begins().0 + position * V::WIDTH + 1;
        let old_len = len(self.0[mark]);
        let begin = self.begin(position) + len(self.0[mark - 1]);
        if self.0.len() - old_len + len(value.mark) > BYTES_MAX {
            return Err(Full);
        }
        self.0[mark] = value.mark;
        if old_len == len(value.mark) {
            self.0[begin..begin + old_len].copy_from_slice(value.bytes());
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.0).into_vec();
        bytes.splice(begin..begin + old_len, value.bytes().iter().copied());
        self.0 = bytes.into_boxed_slice();
        Ok(())
    }

    /// Removes the entry at a position that is there; the last entry takes its place.
    pub fn swap_remove(&mut self, position: usize) {
        let last = self.len() - 1;
        if last == 0 {
            self.0 = Box::default();
            return;
        }
        let (marks, items) = self.begins();
        let mark = |position: usize| marks + position * V::WIDTH;
        let (entry, next) = (self.begin(position), self.begin(position + 1));
        let final_entry = self.begin(last);
        let mut left = Vec::with_capacity(self.0.len() - (1 + V::WIDTH) - (next - entry));
        left.push(last as u8);
        // Of the tags, of the marks and of the items, each from a beginning to an end: where the entry is,
        // where the next one begins, and where the last one is.
        for (begin, end, entry, next, final_entry) in [
            (1, marks, 1 + position, 2 + position, 1 + last),
            (marks, items, mark(position), mark(position + 1), mark(last)),
            (items, self.0.len(), entry, next, final_entry),
        ] {
            left.extend_from_slice(&self.0[begin..entry]);
            if position != last {
                left.extend_from_slice(&self.0[final_entry..end]);
                left.extend_from_slice(&self.0[next..final_entry]);
            }
        }
        self.0 = left.into_boxed_slice();
    }
}

/// A byte of a key's hash.
#[inline]
fn tag(key: &Item<'_>) -> u8 {
    hash(key.bytes()) as u8
}
