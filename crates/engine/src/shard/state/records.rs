//! The records of a shard, with the times at which they expire.

use super::room::Room;
use super::tally::Tally;
use crate::entry::Apply;
use crate::ids::KeyedOp;
use crate::message::{Condition, Guard, Version};
use crate::script::keys::is_script;
use crate::shard::ahead::AheadOfLog;
use adt::collections::{Dense, hash};
use adt::command::database::database_of;
use adt::record;
use adt::record::events::Before;
use adt::{Blob, Ctx, ErrorReply, Op, Record, Reply, Timestamp};
use std::collections::BTreeSet;

/// Moments at which a record, and the first part of its value, expire, in milliseconds since 1970.
#[derive(Clone, Copy, Default, PartialEq)]
struct Moments {
    expiry: Option<u64>,
    part: Option<u64>,
}

impl Moments {
    #[inline]
    fn of(record: Option<&Record>) -> Self {
        record.map_or(Self::default(), |record| Self {
            expiry: record.expire_at_ms(),
            part: record.next_part_expiry_ms(None),
        })
    }
}

/// The records of a shard.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Never `None` at rest: the option lets an operation take the record away in place.
    map: Dense<Option<Record>>,
    expirations: BTreeSet<(u64, Blob)>,
    /// Keys of which parts of the value expire, by the moment of the first one.
    parting: BTreeSet<(u64, Blob)>,
    removed: Timestamp,
    tally: Tally,
}

impl Records {
    /// The record under a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&Record> {
        self.map.get(key)?.as_ref()
    }

    /// Prepares the lookups of the first of these operations, and returns how many they are
    /// ([`Dense::warm`]).
    pub fn warm<'o>(&self, ops: impl Iterator<Item = &'o KeyedOp>) -> usize {
        self.map.warm(ops.map(|(key, _)| key.as_slice()))
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Number of records of clients, in all databases.
    pub fn visible(&self) -> usize {
        self.map.len() - self.tally.own()
    }

    /// Number of records of a database.
    pub fn visible_in(&self, database: u8) -> usize {
        self.tally.keys_of(database, self.map.len())
    }

    /// Numbers of the databases other than 0 that have records, with those of the records and of those that
    /// expire.
    pub fn databases(&self) -> impl Iterator<Item = (u8, u64, u64)> {
        self.tally.databases()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// All records, by position.
    pub fn iter(&self) -> impl Iterator<Item = (&Blob, &Record)> {
        self.map.iter().filter_map(|(key, slot)| Some((key, slot.as_ref()?)))
    }

    /// The record at a position below [`Records::len`]; history alone decides the positions.
    pub fn at(&self, position: usize) -> Option<(&Blob, &Record)> {
        let (key, slot) = self.map.at(position)?;
        Some((key, slot.as_ref()?))
    }

    /// Timestamp of the last removal of a record.
    pub fn removed(&self) -> Timestamp {
        self.removed
    }

    /// Keys that are due to expire at `now_ms`, the longest overdue first.
    pub fn due(&self, now_ms: u64) -> impl Iterator<Item = (u64, &Blob)> {
        self.expirations.iter().map(|(at, key)| (*at, key)).take_while(move |(at, _)| *at <= now_ms)
    }

    /// Keys of which parts of the value are due to expire at `now_ms`, the longest overdue first.
    pub fn parting(&self, now_ms: u64) -> impl Iterator<Item = (u64, &Blob)> {
        self.parting.iter().map(|(at, key)| (*at, key)).take_while(move |(at, _)| *at <= now_ms)
    }

    /// When the next key, or part of a value, expires, in milliseconds since 1970.
    #[inline]
    pub fn next_expiry_ms(&self) -> Option<u64> {
        let first = self.expirations.first().map(|(at, _)| *at);
        match self.parting.first() {
            Some((at, _)) => Some(first.map_or(*at, |first| first.min(*at))),
            None => first,
        }
    }

    /// Number of keys with an expiry.
    pub fn expiring(&self) -> usize {
        self.expirations.len() - self.tally.own_expiring()
    }

    /// Fails if a guard does not hold, with an error where its read is impossible.
    pub fn check_guards(&self, apply: &Apply, ctx: &Ctx) -> Result<(), Option<ErrorReply>> {
        for guard in &apply.guards {
            let record = self.get(&guard.key);
            let holds = match (&guard.condition, record) {
                (Condition::Unchanged(Version::Changed(ts)), Some(r)) => r.modified == *ts,
                (Condition::Unchanged(Version::Changed(_)), None) => false,
                (Condition::Unchanged(Version::Absent { .. }), record) => record.is_none(),
                (Condition::Replies(expected), record) => {
                    expected.is_met(record::query(record, &expected.read, ctx))?
                }
            };
            if !holds {
                return Err(None);
            }
        }
        Ok(())
    }

    /// Version that a guard may ask of a record. At the leader, with nothing on its way that changes it.
    pub(in crate::shard) fn version(&self, key: &[u8], ahead: &AheadOfLog) -> Version {
        self.get(key).map_or_else(|| ahead.absent(), |r| Version::Changed(r.modified))
    }

    /// Whether a key that was absent at a look was certainly not removed since, as far as the
    /// leader knows. Nothing may be on its way that changes it.
    pub(in crate::shard) fn stayed_absent(&self, guard: &Guard, ahead: &AheadOfLog) -> bool {
        let Condition::Unchanged(version) = guard.condition else { return true };
        ahead.stayed_absent(|| hash(&guard.key), version)
    }

    /// A guard that names an earlier write names the last one, if nothing has changed in between. At
    /// the leader, before the guard goes into the log.
    pub(in crate::shard) fn renew_guard(&self, guard: &mut Guard, ahead: &AheadOfLog) {
        let Condition::Unchanged(Version::Changed(seen)) = guard.condition else { return };
        let Some(record) = self.get(&guard.key) else { return };
        if ahead.unchanged_since(&guard.key, seen, record.modified) {
            guard.condition = Condition::Unchanged(Version::Changed(record.modified));
        }
    }

    pub(super) fn operate(
        &mut self,
        key: &Blob,
        op: &Op,
        ctx: &Ctx,
        (room, ahead): (&mut Room, &mut AheadOfLog),
    ) -> Reply {
        if !op.is_write() {
            return room.query(self.get(key), op, ctx);
        }
        if let Some(whole) = op.whole() {
            return self.about_all(whole, ctx, ahead);
        }
        ahead.written(key);
        if ahead.keeps_versions() {
            ahead.before_write(key, self.get(key), op, ctx);
        }
        let tells = ahead.reports_events();
        let Some(position) = self.map.position(key) else {
            let mut slot = None;
            let before = tells.then(|| Before::of(None, op));
            let (reply, changed) = record::carry_out(&mut slot, op, ctx);
            if let Some(before) = before {
                ahead.happened(key, before.events(op, (&reply, changed), slot.as_ref(), ctx));
            }
            if let Some(record) = slot {
                self.moved(key, Moments::default(), Moments::of(Some(&record)));
                self.tally.came(key);
                self.map.push(key.clone(), Some(record));
            }
            return reply;
        };
        let slot = self.map.at_mut(position).expect("the position was found");
        let before = Moments::of(slot.as_ref());
        let written = slot.as_ref().map(|r| r.modified);
        let told = tells.then(|| Before::of(slot.as_ref(), op));
        let (reply, changed) = record::carry_out(slot, op, ctx);
        if let Some(told) = told {
            ahead.happened(key, told.events(op, (&reply, changed), slot.as_ref(), ctx));
        }
        let after = Moments::of(slot.as_ref());
        if let (false, Some(written), Some(record)) = (changed, written, slot.as_ref())
            && record.modified != written
        {
            ahead.left_unchanged(key, written, record.modified);
        }
        if slot.is_none() {
            self.map.swap_remove(position);
            self.tally.went(key);
            self.removed = self.removed.max(ctx.ts);
            ahead.removed(|| hash(key));
        }
        if before != after {
            self.moved(key, before, after);
        }
        reply
    }

    /// Notes that a record comes, goes or changes in the moments at which it, or a part of it, expires.
    fn moved(&mut self, key: &Blob, before: Moments, after: Moments) {
        if before.expiry != after.expiry {
            if let Some(at) = before.expiry {
                self.keep(at, key);
            }
            if let Some(at) = after.expiry {
                self.expire(at, key.clone());
            }
        }
        if before.part != after.part {
            if let Some(at) = before.part {
                self.parting.remove(&(at, key.clone()));
            }
            if let Some(at) = after.part {
                self.parting.insert((at, key.clone()));
            }
        }
    }

    fn expire(&mut self, at: u64, key: Blob) {
        self.tally.expires(&key);
        self.expirations.insert((at, key));
    }

    fn keep(&mut self, at: u64, key: &Blob) {
        self.tally.stays(key);
        self.expirations.remove(&(at, key.clone()));
    }

    /// Removes the records of clients, those of one database if it is named (`FLUSHDB`) and otherwise all
    /// (`FLUSHALL`).
    pub(in crate::shard) fn flush(
        &mut self,
        database: Option<u8>,
        ts: Timestamp,
        ahead: &mut AheadOfLog,
    ) {
        let goes = |key: &Blob| match (database_of(key), database) {
            (Some(of), Some(wanted)) => of == wanted,
            (of, _) => of.is_some(),
        };
        let count = database.map_or(self.visible(), |number| self.visible_in(number));
        let keys = self.map.iter().map(|(key, _)| key).filter(|key| goes(key));
        ahead.emptied(count, keys, |key| hash(key));
        // Few records that stay are put into a new map; few that go are taken out of the old one.
        if (self.map.len() - count) * 8 <= count {
            let old = std::mem::take(&mut self.map);
            (self.expirations, self.parting) = Default::default();
            self.tally = Tally::default();
            for (key, slot) in old.iter().filter(|(key, _)| !goes(key)) {
                self.moved(key, Moments::default(), Moments::of(slot.as_ref()));
                self.tally.came(key);
                self.map.push(key.clone(), slot.clone());
            }
        } else {
            let keys = self.map.iter().map(|(key, _)| key).filter(|key| goes(key));
            for key in keys.cloned().collect::<Vec<_>>() {
                self.take(&key);
            }
        }
        self.removed = self.removed.max(ts);
    }

    /// Removes the texts of scripts (`SCRIPT FLUSH`).
    pub(super) fn forget_scripts(&mut self, ts: Timestamp, ahead: &mut AheadOfLog) {
        let keys = self.map.iter().map(|(key, _)| key).filter(|key| is_script(key));
        for key in keys.cloned().collect::<Vec<_>>() {
            self.take(&key);
            ahead.written(&key);
            ahead.removed(|| hash(&key));
        }
        self.removed = self.removed.max(ts);
    }

    /// Takes a record out, to put it into another shard's state.
    pub(in crate::shard) fn take(&mut self, key: &Blob) -> Option<Record> {
        let record = self.map.remove(key)??;
        self.tally.went(key);
        self.moved(key, Moments::of(Some(&record)), Moments::default());
        Some(record)
    }

    /// Puts a record of a snapshot in its place.
    pub fn restore(&mut self, key: Blob, record: Record) {
        self.moved(&key, Moments::default(), Moments::of(Some(&record)));
        let of = key.clone();
        if self.map.insert(key, Some(record)).is_none() {
            self.tally.came(&of);
        }
    }

    /// Takes over the rest of a snapshot's header.
    pub fn restore_removed(&mut self, removed: Timestamp) {
        self.removed = removed;
    }
}
