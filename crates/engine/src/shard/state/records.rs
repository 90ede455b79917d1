//! The records of a shard, with the times at which they expire.

use super::room::Room;
use super::tally::Tally;
use crate::entry::Apply;
use crate::message::{Guard, Version};
use crate::script::keys::is_script;
use crate::shard::ahead::AheadOfLog;
use adt::collections::{Dense, hash};
use adt::command::database::database_of;
use adt::record;
use adt::{Blob, Ctx, Op, Record, Reply, Timestamp};
use std::collections::BTreeSet;

/// The records of a shard.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// Never `None` at rest: the option lets an operation take the record away in place.
    map: Dense<Option<Record>>,
    expirations: BTreeSet<(u64, Blob)>,
    removed: Timestamp,
    tally: Tally,
}

impl Records {
    /// The record under a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&Record> {
        self.map.get(key)?.as_ref()
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

    /// When the next key expires, in milliseconds since 1970.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.expirations.first().map(|(at, _)| *at)
    }

    /// Number of keys with an expiry.
    pub fn expiring(&self) -> usize {
        self.expirations.len()
    }

    /// Whether nothing that the guards name has changed.
    pub fn guards_hold(&self, apply: &Apply) -> bool {
        apply.guards.iter().all(|guard| match (self.get(&guard.key), guard.version) {
            (Some(record), Version::Changed(ts)) => record.modified == ts,
            (record, Version::Absent { .. }) => record.is_none(),
            (None, Version::Changed(_)) => false,
        })
    }

    /// Version that a guard may ask of a record. At the leader, with nothing on its way that changes it.
    pub(in crate::shard) fn version(&self, key: &[u8], ahead: &AheadOfLog) -> Version {
        self.get(key).map_or_else(|| ahead.absent(), |r| Version::Changed(r.modified))
    }

    /// Whether a key that was absent at a look was certainly not removed since, as far as the
    /// leader knows. Nothing may be on its way that changes it.
    pub(in crate::shard) fn stayed_absent(&self, guard: &Guard, ahead: &AheadOfLog) -> bool {
        ahead.stayed_absent(|| hash(&guard.key), guard.version)
    }

    /// A guard that names an earlier write names the last one, if nothing has changed in between. At
    /// the leader, before the guard goes into the log.
    pub(in crate::shard) fn renew_guard(&self, guard: &mut Guard, ahead: &AheadOfLog) {
        let (Version::Changed(seen), Some(record)) = (guard.version, self.get(&guard.key)) else {
            return;
        };
        if ahead.unchanged_since(&guard.key, seen, record.modified) {
            guard.version = Version::Changed(record.modified);
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
        let Some(position) = self.map.position(key) else {
            let mut slot = None;
            let reply = record::apply(&mut slot, op, ctx);
            if let Some(record) = slot {
                if let Some(at) = record.expire_at_ms() {
                    self.expire(at, key.clone());
                }
                self.tally.came(key);
                self.map.push(key.clone(), Some(record));
            }
            return reply;
        };
        let slot = self.map.at_mut(position).expect("the position was found");
        let before = slot.as_ref().and_then(Record::expire_at_ms);
        let written = slot.as_ref().map(|r| r.modified);
        let (reply, changed) = record::carry_out(slot, op, ctx);
        let after = slot.as_ref().and_then(Record::expire_at_ms);
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
            if let Some(at) = before {
                self.keep(at, key);
            }
            if let Some(at) = after {
                self.expire(at, key.clone());
            }
        }
        reply
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
            let (old, expirations) =
                (std::mem::take(&mut self.map), std::mem::take(&mut self.expirations));
            self.tally = Tally::default();
            for (key, slot) in old.iter().filter(|(key, _)| !goes(key)) {
                self.tally.came(key);
                self.map.push(key.clone(), slot.clone());
            }
            for (at, key) in expirations.into_iter().filter(|(_, key)| !goes(key)) {
                self.expire(at, key);
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
        if let Some(at) = record.expire_at_ms() {
            self.keep(at, key);
        }
        Some(record)
    }

    /// Puts a record of a snapshot in its place.
    pub fn restore(&mut self, key: Blob, record: Record) {
        if let Some(at) = record.expire_at_ms() {
            self.expire(at, key.clone());
        }
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
