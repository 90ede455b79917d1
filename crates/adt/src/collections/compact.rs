//! A collection of keys, with values or without, that is small while it has few and short ones.

use super::Dense;
use super::packed::{Full, Packed};
use crate::Blob;
use std::fmt;

pub use super::packed::Part;

/// Distinct keys in order of insertion (and of the swaps of removals), each with a value: a byte string, or
/// `()` for a set.
///
/// While there are at most 128 entries of at most 64 bytes, they lie in one piece of memory, with two bytes
/// beside each key and one beside each value. After that the collection is a [`Dense`] map, and stays one.
/// The form shows in nothing but memory and speed. What an owner needs beside a large collection is `B`.
#[derive(Clone)]
pub struct Compact<V, B = ()>(Form<V, B>);

#[derive(Clone)]
enum Form<V, B> {
    Packed(Packed<V>),
    Large(Box<Large<V, B>>),
}

/// The large form.
#[derive(Clone, Default)]
pub struct Large<V, B> {
    /// The entries.
    pub entries: Dense<V>,
    /// Knowledge of the owner about them, no part of the contents.
    pub beside: B,
}

impl<V, B> Default for Compact<V, B> {
    fn default() -> Self {
        Self(Form::Packed(Packed::default()))
    }
}

impl<V: Part, B: Default> PartialEq for Compact<V, B> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.iter().all(|(key, value)| other.get(&key).is_some_and(|v| v == value))
    }
}

impl<V: Part, B: Default> fmt::Debug for Compact<V, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<V: Part, B: Default> FromIterator<(Blob, V)> for Compact<V, B> {
    fn from_iter<I: IntoIterator<Item = (Blob, V)>>(entries: I) -> Self {
        let mut all = Self::default();
        for (key, value) in entries {
            all.insert(&key, value);
        }
        all
    }
}

impl<V: Part, B: Default> Compact<V, B> {
    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Packed(packed) => packed.len(),
            Form::Large(large) => large.entries.len(),
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a key is there.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        match &self.0 {
            Form::Packed(packed) => packed.position(key).is_some(),
            Form::Large(large) => large.entries.position(key).is_some(),
        }
    }

    /// The value under a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<V> {
        match &self.0 {
            Form::Packed(packed) => packed.position(key).map(|position| packed.value(position)),
            Form::Large(large) => large.entries.get(key).cloned(),
        }
    }

    /// The entry at a position below [`Compact::len`].
    pub fn at(&self, position: usize) -> Option<(Blob, V)> {
        match &self.0 {
            Form::Packed(packed) => packed.at(position),
            Form::Large(large) => {
                large.entries.at(position).map(|(key, value)| (key.clone(), value.clone()))
            }
        }
    }

    /// All entries, by position.
    pub fn iter(&self) -> impl Iterator<Item = (Blob, V)> {
        let (packed, large) = match &self.0 {
            Form::Packed(packed) => (Some(packed.iter()), None),
            Form::Large(large) => (None, Some(large.entries.iter())),
        };
        let large = large.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
        let mut entries = packed.into_iter().flatten().chain(large);
        // A collector of the entries learns how many there are.
        (0..self.len()).map(move |_| entries.next().expect("there are as many as the length says"))
    }

    /// Sets the value under a key; a new key comes last. Returns whether it is new.
    pub fn insert(&mut self, key: &Blob, value: V) -> bool {
        match &mut self.0 {
            Form::Packed(packed) => match packed.insert(key, &value) {
                Ok(is_new) => is_new,
                Err(Full) => self.make_large().entries.insert(key.clone(), value).is_none(),
            },
            Form::Large(large) => large.entries.insert(key.clone(), value).is_none(),
        }
    }

    /// Removes a key; the last entry takes its place. Returns whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        match &mut self.0 {
            Form::Packed(packed) => {
                let position = packed.position(key);
                position.into_iter().for_each(|position| packed.swap_remove(position));
                position.is_some()
            }
            Form::Large(large) => large.entries.remove(key).is_some(),
        }
    }

    /// Knowledge of the owner, if the collection has the large form.
    #[inline]
    pub fn beside(&self) -> Option<&B> {
        match &self.0 {
            Form::Packed(_) => None,
            Form::Large(large) => Some(&large.beside),
        }
    }

    /// The large form, if the collection has it.
    #[inline]
    pub fn as_large(&mut self) -> Option<&mut Large<V, B>> {
        match &mut self.0 {
            Form::Packed(_) => None,
            Form::Large(large) => Some(large),
        }
    }

    /// Gives the collection the large form.
    pub fn make_large(&mut self) -> &mut Large<V, B> {
        if let Form::Packed(packed) = &self.0 {
            let mut entries = Dense::default();
            for (key, value) in packed.iter() {
                entries.push(key, value);
            }
            self.0 = Form::Large(Box::new(Large { entries, beside: B::default() }));
        }
        match &mut self.0 {
            Form::Packed(_) => unreachable!("it was made large"),
            Form::Large(large) => large,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Map;
    use super::super::packed::{ENTRIES_MAX, ITEM_MAX};
    use super::*;
    use crate::random::Random;

    fn check<V: Part>(compact: &Compact<V>, model: &Map<Blob, V>) {
        assert_eq!((compact.len(), compact.is_empty()), (model.len(), model.is_empty()));
        let owned = model.iter().map(|(key, value)| (key.clone(), value.clone()));
        assert!(compact.iter().eq(owned), "{compact:?} is {model:?}, in the same order");
        for (position, (key, value)) in model.iter().enumerate() {
            assert_eq!(compact.get(key).as_ref(), Some(value));
            assert_eq!(compact.at(position), Some((key.clone(), value.clone())));
            assert!(compact.contains(key));
        }
        assert_eq!((compact.at(model.len()), compact.get(b"absent")), (None, None));
        assert!(compact == &model.iter().rev().map(|(k, v)| (k.clone(), v.clone())).collect());
    }

    /// Byte strings that look like numbers, numbers of all sizes, and others of all lengths.
    fn some(random: &mut Random, longest: usize) -> Blob {
        let near = [0, 1, -1, 127, 128, -128, -129, 255, 256, 65_535, i64::MAX, i64::MIN];
        match random.below(8) {
            0 => Blob::from(near[random.below(near.len())].to_string()),
            1 => Blob::from((1i64 << random.below(63)).wrapping_neg().to_string()),
            2 => Blob::from(["", "-", "-0", "007", "+1", "9223372036854775808"][random.below(6)]),
            3 => Blob::from(random.below(1_000).to_string()),
            _ => Blob::from(vec![b'a' + random.below(8) as u8; random.below(longest + 1)]),
        }
    }

    fn walk<V: Part>(longest: usize, most: usize, value: fn(Blob) -> V) {
        for seed in 0..60 {
            let (mut compact, mut model, mut random) =
                (Compact::<V>::default(), Map::default(), Random(seed));
            for _ in 0..300 {
                let key = some(&mut random, longest);
                if random.below(10) < 7 && model.len() < most {
                    let value = value(some(&mut random, longest));
                    let is_new = model.insert(key.clone(), value.clone()).is_none();
                    assert_eq!(compact.insert(&key, value), is_new, "{key:?}");
                } else {
                    assert_eq!(compact.remove(&key), model.swap_remove(&key).is_some(), "{key:?}");
                }
            }
            check(&compact, &model);
            while let Some((key, _)) = model.get_index(model.len() / 2) {
                let key = key.clone();
                model.swap_remove(&key);
                assert!(compact.remove(&key));
                check(&compact, &model);
            }
        }
    }

    #[test]
    fn a_compact_collection_is_an_index_map() {
        walk(8, 40, |_| ());
        walk(8, 40, |value| value);
        // Those become large at some time.
        walk(ITEM_MAX + 1, 200, |_| ());
        walk(ITEM_MAX + 1, 200, |value| value);
    }

    #[test]
    fn a_collection_is_packed_until_an_entry_does_not_fit() {
        let number = |n: usize| Blob::from(format!("member:{n:06}"));
        let mut set = Compact::<()>::default();
        for n in 0..ENTRIES_MAX {
            assert!(set.insert(&number(n), ()));
        }
        assert!(set.as_large().is_none() && !set.insert(&number(1), ()));
        assert!(set.as_large().is_none(), "a key that is there needs no room");
        let mut more = set.clone();
        assert!(more.insert(&number(ENTRIES_MAX), ()) && more.as_large().is_some());
        assert!(set.remove(&number(0)) && set.insert(&Blob::from(vec![b'x'; ITEM_MAX]), ()));
        assert!(set.remove(&number(1)) && set.as_large().is_none());
        assert!(set.insert(&Blob::from(vec![b'x'; ITEM_MAX + 1]), ()) && set.as_large().is_some());
        // And a value that grows.
        let mut hash = Compact::<Blob>::default();
        for n in 0..60 {
            hash.insert(&number(n), Blob::from("short"));
        }
        assert!(hash.as_large().is_none());
        for n in 0..60 {
            assert!(!hash.insert(&number(n), Blob::from(vec![b'y'; ITEM_MAX])));
        }
        assert!(hash.as_large().is_some(), "more than 4096 bytes in all");
        assert_eq!(hash.get(&number(7)), Some(Blob::from(vec![b'y'; ITEM_MAX])));
    }

    #[test]
    fn a_collection_takes_two_words_in_its_record() {
        assert_eq!(size_of::<Compact<()>>(), 16);
        assert_eq!(size_of::<Compact<Blob, Option<Vec<u8>>>>(), 16);
    }
}
