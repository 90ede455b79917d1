//! The records of a shard, with the times at which they expire.

use super::room::Room;
use crate::entry::Apply;
use crate::message::{Guard, Version};
use crate::script::keys::{is_reserved, is_script};
use crate::shard::ahead::AheadOfLog;
use adt::collections::{Dense, hash};
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
    /// Number of records of the store's own, which clients do not see.
    reserved: usize,
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

    /// Number of records that clients see.
    pub fn visible(&self) -> usize {
        self.map.len() - self.reserved
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
                    self.expirations.insert((at, key.clone()));
                }
                self.reserved += usize::from(is_reserved(key));
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
            self.reserved -= usize::from(is_reserved(key));
            self.removed = self.removed.max(ctx.ts);
            ahead.removed(|| hash(key));
        }
        if before != after {
            if let Some(at) = before {
                self.expirations.remove(&(at, key.clone()));
            }
            if let Some(at) = after {
                self.expirations.insert((at, key.clone()));
            }
        }
        reply
    }

    /// Removes all records of clients (`FLUSHALL`).
    pub(in crate::shard) fn flush(&mut self, ts: Timestamp, ahead: &mut AheadOfLog) {
        let keys = self.map.iter().map(|(key, _)| key).filter(|key| !is_reserved(key));
        ahead.emptied(self.visible(), keys, |key| hash(key));
        let old = std::mem::take(&mut self.map);
        self.expirations.retain(|(_, key)| is_reserved(key));
        if self.reserved > 0 {
            for (key, slot) in old.iter().filter(|(key, _)| is_reserved(key)) {
                self.map.push(key.clone(), slot.clone());
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
        self.reserved -= usize::from(is_reserved(key));
        if let Some(at) = record.expire_at_ms() {
            self.expirations.remove(&(at, key.clone()));
        }
        Some(record)
    }

    /// Puts a record of a snapshot in its place.
    pub fn restore(&mut self, key: Blob, record: Record) {
        if let Some(at) = record.expire_at_ms() {
            self.expirations.insert((at, key.clone()));
        }
        let own = usize::from(is_reserved(&key));
        if self.map.insert(key, Some(record)).is_none() {
            self.reserved += own;
        }
    }

    /// Takes over the rest of a snapshot's header.
    pub fn restore_removed(&mut self, removed: Timestamp) {
        self.removed = removed;
    }
}
