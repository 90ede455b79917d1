//! Entries in order of their identifiers, in packed blocks.
//!
//! A block begins with the fields of its first entry; an entry with the same fields has only their values.
//! An identifier takes few bytes, as the difference in milliseconds from the block's, and the sequence
//! number, whose lower bits are usually zero (see [`Id::of`]).

use super::id::Id;
use crate::{Blob, Corrupt, ValueSink, ValueSource, load_count};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Most entries of a block, as in Redis.
pub const BLOCK_ENTRIES: usize = 100;
/// A block of so many bytes is full.
const BLOCK_BYTES: usize = 4096;

/// Fields and values, in turn.
pub type Fields = Vec<Blob>;

/// Fields for which room is made before they are read.
const FIELDS_EXPECTED: u64 = 16;

const SAME_FIELDS: u8 = 1;
const SHORT_SEQ: u8 = 2;
const SHORT_BITS: u32 = 20;

/// An entry in its block.
#[derive(Clone, Copy)]
pub struct Stored<'a> {
    /// Identifier.
    pub id: Id,
    block: &'a Block,
    begin: u32,
}

impl Stored<'_> {
    /// The entry by itself.
    pub fn entry(self) -> Option<Entry> {
        let fields = self.collect(Blob::new)?;
        Some(Entry { id: self.id, fields })
    }

    /// Fields and values, in turn.
    pub fn collect<T>(self, text: impl Fn(&[u8]) -> T) -> Option<Vec<T>> {
        let (_, flags, at) = self.block.id_at(self.begin as usize)?;
        let names = get(&self.block.bytes, &mut 0).unwrap_or(0);
        let mut texts = Vec::with_capacity(2 * names.min(FIELDS_EXPECTED) as usize);
        self.block.texts(flags, at, |bytes| texts.push(text(bytes)))?;
        Some(texts)
    }
}

/// An entry as it was added.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Identifier.
    pub id: Id,
    /// Fields and values, in turn.
    pub fields: Fields,
}

#[derive(Clone)]
struct Block {
    first: Id,
    last: Id,
    count: u32,
    /// Milliseconds of the identifier of the entry that the block was made for.
    base: u64,
    /// Where the entries begin, behind the names of fields and the base.
    begin: u32,
    bytes: Vec<u8>,
}

/// The entries. A copy shares its blocks until they are changed.
#[derive(Clone, Default)]
pub struct Entries {
    blocks: VecDeque<Arc<Block>>,
    len: usize,
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads what [`put`] wrote. Blocks are checked when they are loaded: later the numbers are there.
fn get(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A small number for a difference, whichever its sign.
fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text.len() as u64);
    out.extend_from_slice(text);
}

fn get_text<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let len = usize::try_from(get(bytes, at)?).ok()?;
    let end = at.checked_add(len)?;
    let text = bytes.get(*at..end)?;
    *at = end;
    Some(text)
}

impl Block {
    fn new(id: Id, fields: &[Blob]) -> Self {
        let mut bytes = Vec::new();
        put(&mut bytes, (fields.len() / 2) as u64);
        fields.iter().step_by(2).for_each(|field| put_text(&mut bytes, field));
        put(&mut bytes, id.ms);
        let begin = bytes.len() as u32;
        let mut block = Self { first: id, last: id, count: 1, base: id.ms, begin, bytes };
        let entry = block.packed(id, fields);
        block.bytes.extend_from_slice(&entry);
        block
    }

    fn is_full(&self) -> bool {
        self.count as usize >= BLOCK_ENTRIES || self.bytes.len() >= BLOCK_BYTES
    }

    /// The names of fields that the block begins with.
    fn names(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        let count = get(&self.bytes, &mut at).unwrap_or(0);
        (0..count).map_while(move |_| get_text(&self.bytes, &mut at))
    }

    /// An entry as bytes. Differences are from the block's names: they stay when entries go.
    fn packed(&self, id: Id, fields: &[Blob]) -> Vec<u8> {
        let same = self.names().eq(fields.iter().step_by(2).map(|field| &**field));
        let short = id.seq.trailing_zeros() >= SHORT_BITS;
        let mut out = Vec::new();
        out.push(if same { SAME_FIELDS } else { 0 } | if short { SHORT_SEQ } else { 0 });
        put(&mut out, zigzag(id.ms.wrapping_sub(self.base)));
        put(&mut out, if short { id.seq >> SHORT_BITS } else { id.seq });
        if !same {
            put(&mut out, (fields.len() / 2) as u64);
        }
        for pair in fields.chunks(2) {
            if !same {
                put_text(&mut out, &pair[0]);
            }
            put_text(&mut out, pair.get(1).map_or(&[][..], |value| value));
        }
        out
    }

    /// Reads the identifier of the entry that begins at `at`, and where its fields begin.
    fn id_at(&self, at: usize) -> Option<(Id, u8, usize)> {
        let mut at = at;
        let flags = *self.bytes.get(at)?;
        at += 1;
        let ms = self.base.wrapping_add(unzigzag(get(&self.bytes, &mut at)?));
        let seq = get(&self.bytes, &mut at)?;
        let seq = if flags & SHORT_SEQ == 0 { seq } else { seq.checked_mul(1 << SHORT_BITS)? };
        Some((Id { ms, seq }, flags, at))
    }

    /// Passes the texts of the entry whose fields begin at `at`; gives where it ends.
    fn texts<'a>(&'a self, flags: u8, at: usize, mut text: impl FnMut(&'a [u8])) -> Option<usize> {
        let mut at = at;
        if flags & SAME_FIELDS == 0 {
            let count = get(&self.bytes, &mut at)?.checked_mul(2)?;
            for _ in 0..count {
                text(get_text(&self.bytes, &mut at)?);
            }
        } else {
            for name in self.names() {
                text(name);
                text(get_text(&self.bytes, &mut at)?);
            }
        }
        Some(at)
    }

    /// Identifier, begin and end of each entry.
    fn places(&self) -> impl Iterator<Item = (Id, usize, usize)> {
        let mut at = self.begin as usize;
        std::iter::from_fn(move || {
            let (id, flags, fields) = self.id_at(at)?;
            let begin = at;
            at = self.texts(flags, fields, |_| ())?;
            Some((id, begin, at))
        })
    }

    /// The entries, in order.
    fn stored(&self) -> impl Iterator<Item = Stored<'_>> {
        self.places().map(|(id, begin, _)| Stored { id, block: self, begin: begin as u32 })
    }

    fn push(&mut self, id: Id, fields: &[Blob]) {
        let entry = self.packed(id, fields);
        self.bytes.extend_from_slice(&entry);
        self.last = id;
        self.count += 1;
    }

    /// Puts an entry among others; false if it is there.
    fn insert(&mut self, id: Id, fields: &[Blob]) -> bool {
        let next = self.places().find(|(other, ..)| *other >= id);
        let at = match next {
            Some((other, ..)) if other == id => return false,
            Some((_, begin, _)) => begin,
            None => self.bytes.len(),
        };
        let entry = self.packed(id, fields);
        self.bytes.splice(at..at, entry);
        self.first = self.first.min(id);
        self.last = self.last.max(id);
        self.count += 1;
        true
    }

    fn contains(&self, id: Id) -> bool {
        self.first <= id && self.places().any(|(other, ..)| other == id)
    }

    fn remove(&mut self, id: Id) -> bool {
        let Some((_, begin, end)) = self.places().find(|(other, ..)| *other == id) else {
            return false;
        };
        self.bytes.drain(begin..end);
        self.count -= 1;
        self.bounds();
        true
    }

    /// Removes the first entries.
    fn cut(&mut self, count: usize) {
        let end = self.places().nth(count - 1).map_or(self.bytes.len(), |(.., end)| end);
        self.bytes.drain(self.begin as usize..end);
        self.count -= count as u32;
        self.bounds();
    }

    fn bounds(&mut self) {
        let mut ids = self.places().map(|(id, ..)| id);
        if let Some(first) = ids.next() {
            let last = ids.last().unwrap_or(first);
            (self.first, self.last) = (first, last);
        }
    }

    /// Takes the second half out as a block of its own.
    fn split(&mut self) -> Option<Self> {
        let half = self.count as usize / 2;
        let (_, at, _) = self.places().nth(half).filter(|_| half > 0)?;
        let mut bytes = self.bytes[..self.begin as usize].to_vec();
        bytes.extend(self.bytes.drain(at..));
        let mut second = Self { bytes, count: self.count - half as u32, ..*self };
        self.count = half as u32;
        self.bounds();
        second.bounds();
        Some(second)
    }
}

impl Entries {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Cost of a copy, in blocks.
    pub fn copy_cost(&self) -> usize {
        self.blocks.len()
    }

    pub fn first(&self) -> Option<Id> {
        self.blocks.front().map(|block| block.first)
    }

    pub fn last(&self) -> Option<Id> {
        self.blocks.back().map(|block| block.last)
    }

    /// Number of the block that has `id`, or of the first one behind it.
    fn block_of(&self, id: Id) -> usize {
        match self.blocks.back() {
            Some(newest) if newest.last >= id => self.blocks.partition_point(|b| b.last < id),
            _ => self.blocks.len(),
        }
    }

    /// Adds an entry at its place; nothing happens if one with this identifier is there.
    pub fn insert(&mut self, id: Id, fields: &[Blob]) {
        let at = self.block_of(id);
        if at == self.blocks.len() {
            match self.blocks.back_mut() {
                Some(block) if !block.is_full() => Arc::make_mut(block).push(id, fields),
                full => {
                    // A copy of the block is as long as it must be.
                    if let Some(full) = full.and_then(Arc::get_mut) {
                        full.bytes.shrink_to_fit();
                    }
                    self.blocks.push_back(Arc::new(Block::new(id, fields)));
                }
            }
            self.len += 1;
            return;
        }
        let block = Arc::make_mut(&mut self.blocks[at]);
        self.len += usize::from(block.insert(id, fields));
        let long =
            block.count as usize >= 2 * BLOCK_ENTRIES || block.bytes.len() >= 2 * BLOCK_BYTES;
        if let Some(second) = if long { block.split() } else { None } {
            self.blocks.insert(at + 1, Arc::new(second));
        }
    }

    pub fn remove(&mut self, id: Id) -> bool {
        let at = self.block_of(id);
        let block = self.blocks.get_mut(at).filter(|block| block.contains(id));
        let removed = block.is_some_and(|block| Arc::make_mut(block).remove(id));
        if removed {
            self.len -= 1;
            if self.blocks[at].count == 0 {
                self.blocks.remove(at);
            }
        }
        removed
    }

    /// Removes the first entries.
    pub fn cut(&mut self, count: usize) {
        let mut left = count.min(self.len);
        self.len -= left;
        while left > 0 {
            let Some(block) = self.blocks.front_mut() else { return };
            let whole = block.count as usize;
            if whole <= left {
                left -= whole;
                self.blocks.pop_front();
            } else {
                Arc::make_mut(block).cut(left);
                left = 0;
            }
        }
    }

    /// Number of entries before `id`.
    pub fn before(&self, id: Id) -> usize {
        let at = self.block_of(id);
        let whole: usize = self.blocks.range(..at).map(|block| block.count as usize).sum();
        let part = self.blocks.get(at).filter(|block| block.first < id);
        whole + part.map_or(0, |block| block.places().take_while(|(i, ..)| *i < id).count())
    }

    pub fn get(&self, id: Id) -> Option<Stored<'_>> {
        self.range(id, id).next()
    }

    pub fn contains(&self, id: Id) -> bool {
        self.blocks.get(self.block_of(id)).is_some_and(|block| block.contains(id))
    }

    /// Entries from one identifier to another, both included.
    pub fn range(&self, from: Id, to: Id) -> impl Iterator<Item = Stored<'_>> {
        let blocks = self.blocks.range(self.block_of(from)..);
        blocks
            .flat_map(|block| block.stored())
            .skip_while(move |stored| stored.id < from)
            .take_while(move |stored| stored.id <= to)
    }

    /// Entries as [`Self::range`] gives them, the last one first.
    pub fn range_back(&self, from: Id, to: Id) -> impl Iterator<Item = Stored<'_>> {
        let end = (self.block_of(to) + 1).min(self.blocks.len());
        let blocks = self.blocks.range(..end).rev().take_while(move |block| block.last >= from);
        blocks
            .flat_map(|block| {
                let mut all = Vec::with_capacity(block.count as usize);
                all.extend(block.stored());
                all.into_iter().rev()
            })
            .skip_while(move |stored| stored.id > to)
            .take_while(move |stored| stored.id >= from)
    }

    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        self.range(Id::MIN, Id::MAX).filter_map(Stored::entry)
    }

    /// The highest identifier up to `id`.
    pub fn last_up_to(&self, id: Id) -> Option<Id> {
        self.range_back(Id::MIN, id).next().map(|entry| entry.id)
    }

    /// Writes the blocks that adding the entries in order makes: the same for the same entries.
    pub fn save(&self, sink: &mut dyn ValueSink) {
        let mut ordered = Self::default();
        self.iter().for_each(|entry| ordered.insert(entry.id, &entry.fields));
        sink.number(ordered.blocks.len() as u64);
        for block in &ordered.blocks {
            sink.number(u64::from(block.count));
            sink.bytes(&block.bytes);
        }
    }

    pub fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let mut entries = Self::default();
        for _ in 0..load_count(source, 2)? {
            let count = source.number()?;
            let bytes = source.bytes()?.to_vec();
            let mut begin = 0;
            let names = get(&bytes, &mut begin).ok_or(Corrupt)?;
            for _ in 0..names {
                get_text(&bytes, &mut begin).ok_or(Corrupt)?;
            }
            let base = get(&bytes, &mut begin).ok_or(Corrupt)?;
            let mut end = begin;
            let begin = u32::try_from(begin).map_err(|_| Corrupt)?;
            let (first, last) = (Id::MIN, Id::MIN);
            let mut block = Block { first, last, count: 0, base, begin, bytes };
            let mut found = 0u64;
            let mut newest = entries.last();
            for (id, _, after) in block.places() {
                if newest.is_some_and(|newest| newest >= id) {
                    return Err(Corrupt);
                }
                (newest, end) = (Some(id), after);
                found += 1;
            }
            block.count = u32::try_from(found).map_err(|_| Corrupt)?;
            if found != count || count == 0 || end != block.bytes.len() {
                return Err(Corrupt);
            }
            block.bounds();
            entries.len += block.count as usize;
            entries.blocks.push_back(Arc::new(block));
        }
        Ok(entries)
    }
}

impl PartialEq for Entries {
    /// Whether the entries are the same, however they are divided into blocks.
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|entry| (entry.id, entry.fields))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn fields(words: &str) -> Fields {
        words.split(' ').map(Blob::from).collect()
    }

    fn shown(entries: impl Iterator<Item = Entry>) -> Vec<(Id, Fields)> {
        entries.map(|entry| (entry.id, entry.fields)).collect()
    }

    #[test]
    fn entries_are_those_of_an_ordered_map_under_random_changes() {
        let mut seed = 7u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        let mut model: BTreeMap<Id, Fields> = BTreeMap::new();
        let mut entries = Entries::default();
        for step in 0..6000 {
            let id = Id { ms: 1000 + random(60), seq: random(60) << [0, 20][random(2) as usize] };
            match random(10) {
                0..=6 => {
                    let long = "x".repeat([1, 1, 1, 300][random(4) as usize]);
                    let fields = fields(
                        ["a 1 b 2", "a 1", "c 3 a 1", &format!("a {long}")][random(4) as usize],
                    );
                    entries.insert(id, &fields);
                    model.entry(id).or_insert(fields);
                }
                7..=8 => assert_eq!(entries.remove(id), model.remove(&id).is_some()),
                _ => {
                    let count = random(3) as usize;
                    entries.cut(count);
                    (0..count).for_each(|_| drop(model.pop_first()));
                }
            }
            assert_eq!(entries.len(), model.len());
            assert_eq!(entries.before(id), model.range(..id).count());
            assert_eq!(entries.contains(id), model.contains_key(&id));
            if step % 40 == 0 {
                let (from, to) =
                    (Id { ms: 1000 + random(60), seq: 9 }, Id { ms: 1000 + random(60), seq: 1 });
                let expected = model.iter().filter(|(id, _)| (from..=to).contains(id));
                let mut expected: Vec<_> = expected.map(|(id, f)| (*id, f.clone())).collect();
                assert_eq!(shown(entries.range(from, to).filter_map(Stored::entry)), expected);
                expected.reverse();
                let back = entries.range_back(from, to).filter_map(Stored::entry);
                assert_eq!(shown(back), expected);
                assert_eq!(entries.first(), model.first_key_value().map(|(id, _)| *id));
                assert_eq!(entries.last(), model.last_key_value().map(|(id, _)| *id));
            }
        }
        assert!(entries.blocks.len() > 10);
    }

    #[test]
    fn small_entries_take_few_bytes() {
        let mut entries = Entries::default();
        for i in 0..10_000 {
            let id = Id { ms: 1_700_000_000_000 + i / 3, seq: (i * 2048) << SHORT_BITS };
            entries.insert(id, &fields("name value-of-16-byte other 12345678"));
        }
        let bytes: usize = entries.blocks.iter().map(|block| block.bytes.capacity()).sum();
        assert!(bytes / 10_000 < 45, "{} bytes an entry", bytes / 10_000);
    }
}
