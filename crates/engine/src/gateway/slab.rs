//! [`Slab`]: values that are found in O(1) by a handle, which is invalid once the value is removed.

use crate::ids::Token;

/// Number of bits of handles.
pub(super) const HANDLE_BITS: u32 = Token::HANDLE_BITS;
/// Number of generations of a place before one comes again.
const GENERATIONS: u32 = 1 << (HANDLE_BITS - 32);

/// Table whose places are used again under new handles.
#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<Cell<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Cell<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

fn split(handle: u64) -> (usize, u32) {
    (handle as u32 as usize, (handle >> 32) as u32)
}

impl<T> Slab<T> {
    /// Inserts a value; returns its handle, which is never 0 and never returned twice within 2^24 uses of one
    /// place.
    #[inline]
    pub fn insert(&mut self, value: T) -> u64 {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.entries.push(Cell { generation: 0, value: None });
                (self.entries.len() - 1) as u32
            }
        };
        let entry = &mut self.entries[index as usize];
        entry.generation = ((entry.generation + 1) % GENERATIONS).max(1);
        entry.value = Some(value);
        u64::from(index) | u64::from(entry.generation) << 32
    }

    /// Value of a handle.
    #[inline]
    pub fn get(&self, handle: u64) -> Option<&T> {
        let (index, generation) = split(handle);
        let entry = self.entries.get(index)?;
        if entry.generation == generation { entry.value.as_ref() } else { None }
    }

    /// Value of a handle.
    #[inline]
    pub fn get_mut(&mut self, handle: u64) -> Option<&mut T> {
        let (index, generation) = split(handle);
        let entry = self.entries.get_mut(index)?;
        if entry.generation == generation { entry.value.as_mut() } else { None }
    }

    /// Removes a value; its handle is invalid from now on.
    #[inline]
    pub fn remove(&mut self, handle: u64) -> Option<T> {
        let (index, generation) = split(handle);
        let entry = self.entries.get_mut(index)?;
        if entry.generation != generation {
            return None;
        }
        let value = entry.value.take()?;
        self.free.push(index as u32);
        Some(value)
    }

    /// All values with their handles.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let handle = index as u64 | u64::from(entry.generation) << 32;
            Some((handle, entry.value.as_ref()?))
        })
    }

    /// All values with their handles, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.entries.iter_mut().enumerate().filter_map(|(index, entry)| {
            let handle = index as u64 | u64::from(entry.generation) << 32;
            Some((handle, entry.value.as_mut()?))
        })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_ends_with_its_thing() {
        let mut slab = Slab::default();
        let first = slab.insert('a');
        let second = slab.insert('b');
        assert_eq!((slab.get(first), slab.get(second)), (Some(&'a'), Some(&'b')));
        assert_eq!(slab.remove(first), Some('a'));
        assert_eq!(slab.remove(first), None);
        let third = slab.insert('c');
        assert_ne!(third, first);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get_mut(third), Some(&mut 'c'));
        assert_eq!(slab.iter().map(|(_, c)| *c).collect::<String>(), "cb");
        assert_eq!(slab.len(), 2);
        assert_eq!(slab.get(0), None);
    }
}
