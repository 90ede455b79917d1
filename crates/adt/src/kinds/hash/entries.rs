//! Fields with their values, some of which expire.
//!
//! Most hashes have no field that expires, and their fields take no memory for it: the moments at which
//! fields expire lie beside the large form of the collection, in order of the fields and in order of time. A
//! field that is due stays until the shard has it removed, so what is there follows from the log alone. A
//! read that cannot wait for that looks at the fields through [`Seen`], as they are at its time.

use crate::Blob;
use crate::collections::{Compact, Dense};
use std::collections::BTreeSet;
use std::fmt;

/// Latest moment at which a field can expire, in milliseconds since 1970: that of Redis.
pub const DEADLINE_MS_MAX: u64 = (1 << 46) - 1;

/// Moments at which fields expire, in milliseconds since 1970.
#[derive(Clone, Default)]
struct Deadlines {
    of: Dense<u64>,
    in_order: BTreeSet<(u64, Blob)>,
}

/// Fields with values, in order of insertion (and of the swaps of removals).
#[derive(Clone, Default)]
pub struct Entries {
    all: Compact<Blob, Option<Box<Deadlines>>>,
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)?;
        match self.deadlines() {
            Some(deadlines) => write!(f, " until {:?}", deadlines.in_order),
            None => Ok(()),
        }
    }
}

impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all && self.expiring().eq(other.expiring())
    }
}

impl Entries {
    #[inline]
    fn deadlines(&self) -> Option<&Deadlines> {
        self.all.beside()?.as_deref()
    }

    /// Number of fields.
    #[inline]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a field is there.
    pub fn contains(&self, field: &[u8]) -> bool {
        self.all.contains(field)
    }

    /// The value of a field.
    pub fn get(&self, field: &[u8]) -> Option<Blob> {
        self.all.get(field)
    }

    /// Fields of a choice that are there, with their values and when they expire.
    pub fn part<'a>(&self, fields: impl Iterator<Item = &'a Blob>) -> Self {
        let mut part = Self::default();
        for field in fields {
            let Some(value) = self.get(field) else { continue };
            part.change(field, value);
            if let Some(at) = self.deadline(field) {
                part.set_deadline(field, Some(at));
            }
        }
        part
    }

    /// All fields with their values, by position.
    pub fn iter(&self) -> impl Iterator<Item = (Blob, Blob)> {
        self.all.iter()
    }

    /// When a field expires, if it is there and does.
    #[inline]
    pub fn deadline(&self, field: &[u8]) -> Option<u64> {
        self.deadlines()?.of.get(field).copied()
    }

    /// The fields that expire, the first to expire first.
    pub fn expiring(&self) -> impl Iterator<Item = (u64, &Blob)> {
        let in_order = self.deadlines().map(|deadlines| &deadlines.in_order);
        in_order.into_iter().flatten().map(|(at, field)| (*at, field))
    }

    /// The first moment at which a field expires, of those after `after_ms` if that is given.
    #[inline]
    pub fn next_deadline(&self, after_ms: Option<u64>) -> Option<u64> {
        let in_order = &self.deadlines()?.in_order;
        match after_ms {
            None => in_order.first(),
            Some(after) => in_order.range((after.checked_add(1)?, Blob::default())..).next(),
        }
        .map(|(at, _)| *at)
    }

    /// Whether some field is left at a moment.
    pub fn outlives(&self, now_ms: u64) -> bool {
        let Some(deadlines) = self.deadlines() else { return true };
        deadlines.in_order.len() < self.len()
            || deadlines.in_order.last().is_none_or(|(at, _)| *at > now_ms)
    }

    /// Sets the value of a field, which expires when it did before. Returns whether it is new.
    pub fn change(&mut self, field: &Blob, value: Blob) -> bool {
        self.all.insert(field, value)
    }

    /// Sets the value of a field, which does not expire any more. Returns whether it is new.
    pub fn set(&mut self, field: &Blob, value: Blob) -> bool {
        self.set_deadline(field, None);
        self.all.insert(field, value)
    }

    /// Removes a field; the last one takes its place. Returns whether it was there.
    pub fn remove(&mut self, field: &Blob) -> bool {
        self.set_deadline(field, None);
        self.all.remove(field)
    }

    /// Sets when a field that is there expires, in milliseconds since 1970. Returns whether it has expired
    /// at any time before.
    pub fn set_deadline(&mut self, field: &Blob, at_ms: Option<u64>) -> bool {
        match at_ms {
            Some(at) => {
                let beside = &mut self.all.make_large().beside;
                let deadlines = beside.get_or_insert_default();
                let old = deadlines.of.insert(field.clone(), at);
                if let Some(old) = old {
                    deadlines.in_order.remove(&(old, field.clone()));
                }
                deadlines.in_order.insert((at, field.clone()));
                old.is_some()
            }
            None => {
                let Some(large) = self.all.as_large() else { return false };
                let Some(deadlines) = &mut large.beside else { return false };
                let Some(old) = deadlines.of.remove(field) else { return false };
                deadlines.in_order.remove(&(old, field.clone()));
                if deadlines.in_order.is_empty() {
                    large.beside = None;
                }
                true
            }
        }
    }

    /// Removes up to `most` of the fields that have expired at a moment, the longest overdue first. Returns
    /// how many.
    pub fn expire(&mut self, now_ms: u64, most: usize) -> usize {
        let mut removed = 0;
        while removed < most {
            let first = self.deadlines().and_then(|deadlines| deadlines.in_order.first());
            let Some((_, field)) = first.filter(|(at, _)| *at <= now_ms) else { break };
            let field = field.clone();
            self.remove(&field);
            removed += 1;
        }
        removed
    }
}

/// The fields as they are at a moment, by which some may have expired that were not removed yet.
#[derive(Clone, Copy)]
pub struct Seen<'e> {
    entries: &'e Entries,
    /// The moment, if fields have expired by then.
    now_ms: Option<u64>,
}

impl<'e> Seen<'e> {
    /// All that is there.
    pub fn all(entries: &'e Entries) -> Self {
        Self { entries, now_ms: None }
    }

    /// The fields that are left at a moment.
    pub fn at(entries: &'e Entries, now_ms: u64) -> Self {
        let has_expired = entries.next_deadline(None).is_some_and(|at| at <= now_ms);
        Self { entries, now_ms: has_expired.then_some(now_ms) }
    }

    fn shows(&self, field: &[u8]) -> bool {
        self.now_ms.is_none_or(|now| self.entries.deadline(field).is_none_or(|at| at > now))
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        let expired = self
            .now_ms
            .map_or(0, |now| self.entries.expiring().take_while(|(at, _)| *at <= now).count());
        self.entries.len() - expired
    }

    /// The value of a field.
    pub fn get(&self, field: &[u8]) -> Option<Blob> {
        self.entries.get(field).filter(|_| self.shows(field))
    }

    /// Whether a field is there.
    pub fn contains(&self, field: &[u8]) -> bool {
        self.entries.contains(field) && self.shows(field)
    }

    /// When a field expires, if it is there and does.
    pub fn deadline(&self, field: &[u8]) -> Option<u64> {
        self.entries.deadline(field)
    }

    /// Makes something of each field with its value, by position.
    pub fn each<T>(&self, make: impl FnMut((Blob, Blob)) -> T) -> Vec<T> {
        match self.now_ms {
            None => self.entries.iter().map(make).collect(),
            Some(_) => self.entries.iter().filter(|(f, _)| self.shows(f)).map(make).collect(),
        }
    }

    /// Number of positions, of which some may have no field.
    pub fn positions(&self) -> usize {
        self.entries.len()
    }

    /// The field at a position, with its value.
    pub fn at_position(&self, position: usize) -> Option<(Blob, Blob)> {
        self.entries.all.at(position).filter(|(field, _)| self.shows(field))
    }

    /// Positions that have a field, if not all of them do.
    pub fn taken(&self) -> Option<Vec<usize>> {
        self.now_ms?;
        let entries = self.entries.iter().enumerate();
        let shown = entries.filter(|(_, (field, _))| self.shows(field));
        Some(shown.map(|(position, _)| position).collect())
    }
}
