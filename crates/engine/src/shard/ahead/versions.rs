//! Earlier versions of small records that read-only transactions have read lately.
//!
//! A `READONLY` transaction reads one key after the other, as of the instant of its first read. Where a
//! record is written all the time, its present value is younger than that by the time it is read. So
//! the leader keeps, for a short while, what such a record was before each write, with the timestamps
//! from when to when. Records that no such transaction reads have no versions and cost nothing.
//!
//! Operations that commute may be carried out in another order than that of their timestamps: one that
//! comes late is carried out on the versions that should have had it as well.

use crate::limits::{
    VERSION_BYTES_MAX, VERSION_US_MAX, VERSIONED_KEYS_MAX, VERSIONED_US, VERSIONS_AMENDED_MAX,
    VERSIONS_BYTES_MAX,
};
use adt::collections::Map;
use adt::{Blob, Ctx, Op, Record, Timestamp, record};
use std::collections::VecDeque;

/// A value that a record had from `since` to `until`, both included.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierVersion {
    /// Timestamp of the write that made it.
    pub since: Timestamp,
    /// Timestamp before that of the next write.
    pub until: Timestamp,
    /// The record, if there was one.
    pub record: Option<Record>,
    bytes: usize,
}

impl EarlierVersion {
    fn new((since, until): (Timestamp, Timestamp), record: Option<&Record>) -> Self {
        let bytes = size_of::<Self>() + record.map_or(0, Record::heap_bytes);
        Self { since, until, record: record.cloned(), bytes }
    }
}

/// A record whose versions are kept.
#[derive(Clone, Debug)]
struct Versioned {
    /// Until when they are kept without another read.
    wanted: Timestamp,
    /// Timestamp of the last write.
    since: Timestamp,
    /// Versions before that, in order; some may be missing.
    earlier: VecDeque<EarlierVersion>,
}

impl Versioned {
    /// Takes into account that an operation comes later than others with later timestamps, with which it
    /// commutes. Returns how many bytes were let go, and how many were added.
    fn amend(&mut self, op: &Op, ctx: &Ctx) -> (usize, usize) {
        let first = self.earlier.partition_point(|version| version.until < ctx.ts);
        let (mut gone, mut more) = (0, 0);
        if self.earlier.len() - first > VERSIONS_AMENDED_MAX {
            gone += self.earlier.drain(first..).map(|version| version.bytes).sum::<usize>();
            return (gone, more);
        }
        if let Some(version) = self.earlier.get_mut(first).filter(|v| v.since < ctx.ts) {
            let before = (version.since, Timestamp(ctx.ts.0 - 1));
            version.since = ctx.ts;
            let before = EarlierVersion::new(before, version.record.as_ref());
            more += before.bytes;
            self.earlier.insert(first, before);
        }
        let ts = ctx.ts;
        for version in self.earlier.iter_mut().filter(|version| version.since >= ts) {
            gone += version.bytes;
            let mut record = version.record.take();
            record::apply(&mut record, op, ctx);
            *version = EarlierVersion::new((version.since, version.until), record.as_ref());
            more += version.bytes;
        }
        (gone, more)
    }
}

/// Earlier versions of records.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions {
    keys: Map<Blob, Versioned>,
    bytes: usize,
}

impl Versions {
    /// Whether versions of any record are kept.
    #[inline]
    pub fn any(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Keeps versions of a record from now on, which was last written to at `since`.
    pub fn want(&mut self, key: &Blob, since: Timestamp, now: Timestamp) {
        let wanted = now.later_by_us(VERSIONED_US);
        if let Some(versioned) = self.keys.get_mut(key) {
            versioned.wanted = versioned.wanted.max(wanted);
            return;
        }
        if self.keys.len() >= VERSIONED_KEYS_MAX {
            self.sweep(now);
        }
        if self.keys.len() < VERSIONED_KEYS_MAX {
            let earlier = VecDeque::new();
            self.keys.insert(key.clone(), Versioned { wanted, since, earlier });
        }
    }

    /// Notes that an operation is about to be carried out on a record.
    pub fn keep(&mut self, key: &Blob, before: Option<&Record>, op: &Op, ctx: &Ctx) {
        let Some(versioned) = self.keys.get_mut(key) else { return };
        if versioned.wanted < ctx.ts {
            self.forget(key);
            return;
        }
        if ctx.ts < versioned.since {
            let (gone, more) = versioned.amend(op, ctx);
            self.bytes = self.bytes + more - gone;
            return;
        }
        if ctx.ts == versioned.since {
            // Another operation of the same transaction: nothing is read in between.
            return;
        }
        let since = std::mem::replace(&mut versioned.since, ctx.ts);
        let oldest = ctx.ts.micros().saturating_sub(VERSION_US_MAX);
        let is_old = |version: &EarlierVersion| version.until.micros() < oldest;
        while versioned.earlier.front().is_some_and(is_old) {
            self.bytes -= versioned.earlier.pop_front().map_or(0, |old| old.bytes);
        }
        if before.is_some_and(|record| !record::is_small(record)) {
            return;
        }
        let version = EarlierVersion::new((since, Timestamp(ctx.ts.0 - 1)), before);
        let bytes = version.bytes;
        if bytes > VERSION_BYTES_MAX {
            return;
        }
        while self.bytes + bytes > VERSIONS_BYTES_MAX
            && let Some(old) = versioned.earlier.pop_front()
        {
            self.bytes -= old.bytes;
        }
        if self.bytes + bytes > VERSIONS_BYTES_MAX {
            self.sweep(ctx.ts);
            return;
        }
        self.bytes += bytes;
        versioned.earlier.push_back(version);
    }

    /// The version of a record at a timestamp, if it is kept.
    pub fn at(&self, key: &[u8], ts: Timestamp) -> Option<&EarlierVersion> {
        let earlier = &self.keys.get(key)?.earlier;
        let version = earlier.get(earlier.partition_point(|version| version.until < ts))?;
        (version.since <= ts).then_some(version)
    }

    /// Timestamp of the last write to a record, if its versions are kept.
    pub fn written(&self, key: &[u8]) -> Option<Timestamp> {
        self.keys.get(key).map(|versioned| versioned.since)
    }

    /// Forgets all versions: records change in another way than by single writes.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets the versions of records that are not read any more.
    fn sweep(&mut self, now: Timestamp) {
        let gone = |versioned: &Versioned| versioned.wanted < now;
        let keys = self.keys.iter().filter(|(_, versioned)| gone(versioned));
        for key in keys.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &Blob) {
        let Some(gone) = self.keys.swap_remove(key) else { return };
        self.bytes -= gone.earlier.iter().map(|version| version.bytes).sum::<usize>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::kinds::set;

    fn add(member: &str) -> Op {
        Op::Set(set::Op::Add([Blob::from(member)].into_iter().collect()))
    }

    fn key(number: usize) -> Blob {
        Blob::from(format!("k{number}"))
    }

    /// Writes to a record, and notes that.
    fn write(versions: &mut Versions, key: &Blob, record: &mut Option<Record>, us: u64) {
        let ctx = Ctx { ts: Timestamp::from_micros(us), ..Ctx::default() };
        let op = add(&format!("{:0>1000}", us % 10));
        versions.keep(key, record.as_ref(), &op, &ctx);
        record::apply(record, &op, &ctx);
    }

    fn bytes(versions: &Versions) -> usize {
        versions.keys.values().flat_map(|key| &key.earlier).map(|version| version.bytes).sum()
    }

    #[test]
    fn there_is_a_limit_on_the_records_and_those_not_read_any_more_make_room() {
        let mut versions = Versions::default();
        for number in 0..VERSIONED_KEYS_MAX + 10 {
            versions.want(&key(number), Timestamp::ZERO, Timestamp::ZERO);
        }
        assert_eq!(versions.keys.len(), VERSIONED_KEYS_MAX);
        versions.want(&key(0), Timestamp::ZERO, Timestamp::from_micros(5));
        let later = Timestamp::from_micros(VERSIONED_US + 1);
        versions.want(&Blob::from("new"), Timestamp::ZERO, later);
        assert_eq!(versions.keys.len(), 2);
    }

    #[test]
    fn there_is_a_limit_on_the_memory_and_the_oldest_versions_go_first() {
        let mut versions = Versions::default();
        let mut records = [None, None];
        let mut us = 1_000_000;
        for _ in 0..2 * VERSIONS_BYTES_MAX / 10_000 {
            for (number, record) in records.iter_mut().enumerate() {
                versions.want(&key(number), Timestamp::ZERO, Timestamp::from_micros(us));
                us += 1;
                write(&mut versions, &key(number), record, us);
            }
            assert_eq!(bytes(&versions), versions.bytes);
            assert!(versions.bytes <= VERSIONS_BYTES_MAX);
        }
        assert!(versions.bytes > VERSIONS_BYTES_MAX / 2);
        for number in 0..2 {
            assert!(versions.at(&key(number), Timestamp::from_micros(us - 5)).is_some());
            assert!(versions.at(&key(number), Timestamp::from_micros(1_000_010)).is_none());
        }
    }

    #[test]
    fn operations_that_come_late_are_counted_and_not_carried_out_on_many_versions() {
        let (mut versions, mut record) = (Versions::default(), None);
        versions.want(&key(0), Timestamp::ZERO, Timestamp::ZERO);
        for nth in 1..=VERSIONS_AMENDED_MAX as u64 + 1 {
            write(&mut versions, &key(0), &mut record, 10 * nth);
        }
        let count = versions.keys[&key(0)].earlier.len();
        write(&mut versions, &key(0), &mut record, 25);
        assert_eq!(
            (bytes(&versions), versions.keys[&key(0)].earlier.len()),
            (versions.bytes, count + 1)
        );
        write(&mut versions, &key(0), &mut record, 5);
        assert_eq!((bytes(&versions), versions.bytes), (0, 0), "they all lack it");
    }
}
