//! Groups of consumers: deliveries that are pending, and the changes of them.

use super::id::Id;
use super::{Bound, Claim, Delivered, References, Value, load_id, no_group, reply_of};
use crate::{Blob, Corrupt, Ctx, Reply, ValueSink, ValueSource, load_count};
use std::collections::{BTreeMap, BTreeSet};

/// A delivery that is not acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The consumer.
    pub consumer: Blob,
    /// When it was, in milliseconds since 1970.
    pub at_ms: u64,
    /// Number of deliveries.
    pub count: u64,
}

/// A consumer of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consumer {
    /// When it last asked for something, in milliseconds since 1970.
    pub seen_ms: u64,
    /// Entries that are pending for it.
    pub pending: BTreeSet<Id>,
}

/// A group of consumers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Last delivered identifier.
    pub last: Id,
    /// Number of entries that count as read, if it is known.
    pub read: Option<u64>,
    pending: BTreeMap<Id, Delivery>,
    consumers: BTreeMap<Blob, Consumer>,
}

impl Group {
    pub fn pending(&self) -> &BTreeMap<Id, Delivery> {
        &self.pending
    }

    pub fn consumers(&self) -> &BTreeMap<Blob, Consumer> {
        &self.consumers
    }

    /// Creates a consumer; false if it is there.
    pub fn make_consumer(&mut self, name: &Blob, now_ms: u64) -> bool {
        let absent = !self.consumers.contains_key(name);
        if absent {
            self.see(name, now_ms);
        }
        absent
    }

    /// Notes that a consumer has asked for something.
    fn see(&mut self, name: &Blob, now_ms: u64) {
        match self.consumers.get_mut(name) {
            Some(consumer) => consumer.seen_ms = now_ms,
            None => {
                let consumer = Consumer { seen_ms: now_ms, pending: BTreeSet::new() };
                self.consumers.insert(name.clone(), consumer);
            }
        }
    }

    /// Removes a consumer; gives the number of entries that were pending for it.
    pub fn remove_consumer(&mut self, name: &Blob) -> usize {
        let Some(consumer) = self.consumers.remove(name) else { return 0 };
        consumer.pending.iter().for_each(|id| drop(self.pending.remove(id)));
        consumer.pending.len()
    }

    /// Ends deliveries; gives the number of those that were pending.
    pub fn acknowledge(&mut self, ids: &[Id]) -> usize {
        ids.iter().filter(|id| self.settle(**id)).count()
    }

    fn settle(&mut self, id: Id) -> bool {
        let Some(delivery) = self.pending.remove(&id) else { return false };
        if let Some(consumer) = self.consumers.get_mut(&delivery.consumer) {
            consumer.pending.remove(&id);
        }
        true
    }

    /// Makes an entry pending for a consumer, and no longer for another one.
    fn deliver(&mut self, id: Id, consumer: &Blob, at_ms: u64, count: u64) {
        self.settle(id);
        let delivery = Delivery { consumer: consumer.clone(), at_ms, count };
        self.pending.insert(id, delivery);
        self.consumers.entry(consumer.clone()).or_default().pending.insert(id);
    }

    pub fn save(&self, sink: &mut dyn ValueSink) {
        sink.number(self.last.ms);
        sink.number(self.last.seq);
        sink.number(u64::from(self.read.is_some()));
        sink.number(self.read.unwrap_or(0));
        sink.number(self.consumers.len() as u64);
        for (name, consumer) in &self.consumers {
            sink.bytes(name);
            sink.number(consumer.seen_ms);
            sink.number(consumer.pending.len() as u64);
            for id in &consumer.pending {
                let delivery = &self.pending[id];
                sink.number(id.ms);
                sink.number(id.seq);
                sink.number(delivery.at_ms);
                sink.number(delivery.count);
            }
        }
    }

    pub fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let last = load_id(source)?;
        let read = match (source.number()?, source.number()?) {
            (0, 0) => None,
            (1, read) => Some(read),
            _ => return Err(Corrupt),
        };
        let mut group = Self { last, read, ..Self::default() };
        for _ in 0..load_count(source, 3)? {
            let name = Blob::new(source.bytes()?);
            let mut consumer = Consumer { seen_ms: source.number()?, pending: BTreeSet::new() };
            for _ in 0..load_count(source, 4)? {
                let id = load_id(source)?;
                let (at_ms, count) = (source.number()?, source.number()?);
                let delivery = Delivery { consumer: name.clone(), at_ms, count };
                if group.pending.insert(id, delivery).is_some() {
                    return Err(Corrupt);
                }
                consumer.pending.insert(id);
            }
            if group.consumers.insert(name, consumer).is_some() {
                return Err(Corrupt);
            }
        }
        Ok(group)
    }
}

/// Reply of `XDELEX` and `XACKDEL` for an entry that is not there, or not pending.
pub(super) const ABSENT: i64 = -1;
/// Reply for an entry that is removed.
const REMOVED: i64 = 1;
/// Reply for an entry that stays, because a group has not acknowledged it.
pub(super) const STAYS: i64 = 2;

impl Value {
    /// Removes entries, after `acknowledging` them in a group.
    pub(super) fn forget(
        &mut self,
        acknowledging: Option<&Blob>,
        references: References,
        ids: &[Id],
    ) -> Vec<i64> {
        let forget = |id: &Id| {
            let known = match acknowledging {
                Some(group) => self.groups.get_mut(group).is_some_and(|group| group.settle(*id)),
                None => self.entries.contains(*id),
            };
            if !known {
                return ABSENT;
            }
            let waits = |group: &Group| group.last < *id || group.pending.contains_key(id);
            if references == References::Acknowledged && self.groups.values().any(waits) {
                return STAYS;
            }
            self.delete(&[*id]);
            if references == References::Delete {
                self.groups.values_mut().for_each(|group| _ = group.settle(*id));
            }
            REMOVED
        };
        ids.iter().map(forget).collect()
    }

    /// Ends the deliveries of the first entries, in all groups.
    pub(super) fn settle_first(&mut self, count: usize) {
        let first = self.entries.range(Id::MIN, Id::MAX).take(count);
        let Some(last) = first.last().map(|entry| entry.id) else { return };
        for group in self.groups.values_mut() {
            let pending = group.pending.range(..=last).map(|(id, _)| *id);
            let pending: Vec<Id> = pending.filter(|id| self.entries.contains(*id)).collect();
            group.acknowledge(&pending);
        }
    }

    /// Removes the oldest entries within a bound that all groups have got and acknowledged, at most `most` of
    /// them; gives their number.
    pub(super) fn cut_acknowledged(&mut self, bound: Bound, most: usize) -> usize {
        // Behind this there is a group that has not got the entries.
        let got = self.groups.values().map(|group| group.last).min().unwrap_or(Id::MAX);
        let end = match bound {
            Bound::Len(_) => got,
            Bound::From(id) => id.previous().map_or(Id::MIN, |before| before.min(got)),
        };
        let pending = |id: &Id| self.groups.values().any(|group| group.pending.contains_key(id));
        let ids = self.entries.range(Id::MIN, end).map(|entry| entry.id);
        let ids: Vec<Id> = ids.filter(|id| !pending(id)).take(most).collect();
        let Some(last) = ids.last() else { return 0 };
        if self.entries.before(*last) + 1 == ids.len() {
            self.entries.cut(ids.len());
            return ids.len();
        }
        self.delete(&ids)
    }

    pub(super) fn create_group(&mut self, name: &Blob, id: Option<Id>, read: Option<u64>) -> Reply {
        if self.groups.contains_key(name) {
            return Reply::Error(crate::ErrorReply::new(
                "BUSYGROUP",
                "Consumer Group name already exists",
            ));
        }
        let group = Group { last: id.unwrap_or(self.last), read, ..Group::default() };
        self.groups.insert(name.clone(), group);
        self.made = true;
        Reply::Ok
    }

    /// Whether an entry behind `id` may have been removed from among others.
    pub(super) fn has_gap_behind(&self, id: Id) -> bool {
        self.entries.len() > 0 && self.deleted != Id::MIN && id <= self.deleted
    }

    /// How many entries had been added when the one with this identifier had, if that is known.
    pub(super) fn position(&self, id: Id) -> Option<u64> {
        let (len, added) = (self.entries.len() as u64, self.added);
        let Some(first) = self.entries.first() else {
            return if added == 0 {
                Some(0)
            } else if id <= self.last {
                Some(added)
            } else {
                None
            };
        };
        if added == 0 {
            return Some(0);
        }
        match id.cmp(&self.last) {
            std::cmp::Ordering::Equal => return Some(added),
            std::cmp::Ordering::Greater => return None,
            std::cmp::Ordering::Less => {}
        }
        let whole = self.deleted == Id::MIN || self.deleted < first;
        match id.cmp(&first) {
            std::cmp::Ordering::Less if whole => Some(added.saturating_sub(len)),
            std::cmp::Ordering::Equal if whole => Some(added.saturating_sub(len) + 1),
            _ => None,
        }
    }

    pub(super) fn read_group(
        &mut self,
        name: &Blob,
        consumer: &Blob,
        after: Option<Id>,
        (count, no_ack): (Option<u64>, bool),
        ctx: &Ctx,
    ) -> Result<Reply, Reply> {
        let reply = self.peek_group(name, consumer, after, count)?;
        let ids = ids_of(&reply);
        if after.is_none() && ids.is_empty() {
            return Ok(Reply::Nil);
        }
        let group = self.groups.get(name).ok_or_else(|| no_group(name))?;
        let (mut read, mut last) = (group.read, group.last);
        if after.is_none() {
            for id in ids.iter().filter(|id| **id > group.last) {
                read = match read {
                    Some(read) if !self.has_gap_behind(*id) => Some(read.saturating_add(1)),
                    _ => self.position(*id),
                };
                last = *id;
            }
        }
        let present: Vec<bool> = ids.iter().map(|id| self.entries.contains(*id)).collect();
        let group = self.groups.get_mut(name).ok_or_else(|| no_group(name))?;
        (group.read, group.last) = (read, last);
        group.see(consumer, ctx.now_ms);
        for (id, present) in ids.into_iter().zip(present) {
            match after {
                None if no_ack => {}
                None => group.deliver(id, consumer, ctx.now_ms, 1),
                Some(_) => {
                    if let Some(delivery) = group.pending.get_mut(&id).filter(|_| present) {
                        delivery.at_ms = ctx.now_ms;
                        delivery.count = delivery.count.saturating_add(1);
                    }
                }
            }
        }
        Ok(reply)
    }

    pub(super) fn claim(
        &mut self,
        name: &Blob,
        consumer: &Blob,
        ids: &[Id],
        how: &Claim,
        ctx: &Ctx,
    ) -> Result<Reply, Reply> {
        let Self { entries, groups, .. } = self;
        let group = groups.get_mut(name).ok_or_else(|| no_group(name))?;
        group.last = group.last.max(how.last.unwrap_or(Id::MIN));
        let now = ctx.now_ms;
        let at_ms = match how.at {
            Delivered::Now => now,
            Delivered::Ago(ms) => now.saturating_sub(ms),
            Delivered::At(ms) => ms.min(now),
        };
        let mut replies = Vec::new();
        for id in ids {
            let Some(entry) = entries.get(*id) else {
                group.settle(*id);
                continue;
            };
            let count = match group.pending.get(id) {
                Some(delivery) if now.saturating_sub(delivery.at_ms) < how.min_idle_ms => continue,
                Some(delivery) => delivery.count,
                None if how.force => 1,
                None => continue,
            };
            let is_new = !group.pending.contains_key(id);
            let more = u64::from(!how.just_id && !is_new);
            let count = how.count.unwrap_or(count.saturating_add(more));
            group.see(consumer, now);
            group.deliver(*id, consumer, at_ms, count);
            replies.push(if how.just_id { Reply::Bulk(id.blob()) } else { reply_of(entry) });
        }
        Ok(Reply::Array(replies))
    }

    pub(super) fn auto_claim(
        &mut self,
        name: &Blob,
        consumer: &Blob,
        (min_idle_ms, from, count, just_id): (u64, Id, u64, bool),
        ctx: &Ctx,
    ) -> Result<Reply, Reply> {
        let Self { entries, groups, .. } = self;
        let group = groups.get_mut(name).ok_or_else(|| no_group(name))?;
        let (mut replies, mut gone) = (Vec::new(), Vec::new());
        let mut attempts = count.saturating_mul(10);
        let mut next = group.pending.range(from..).next().map(|(id, _)| *id);
        while let Some(id) = next {
            if attempts == 0 || (replies.len() + gone.len()) as u64 >= count {
                break;
            }
            attempts -= 1;
            next = group.pending.range(id..).nth(1).map(|(id, _)| *id);
            let Some(entry) = entries.get(id) else {
                group.settle(id);
                gone.push(Reply::Bulk(id.blob()));
                continue;
            };
            let delivery = &group.pending[&id];
            if ctx.now_ms.saturating_sub(delivery.at_ms) < min_idle_ms {
                continue;
            }
            let deliveries = delivery.count.saturating_add(u64::from(!just_id));
            group.see(consumer, ctx.now_ms);
            group.deliver(id, consumer, ctx.now_ms, deliveries);
            replies.push(if just_id { Reply::Bulk(id.blob()) } else { reply_of(entry) });
        }
        let next = Reply::Bulk(next.unwrap_or(Id::MIN).blob());
        Ok(Reply::Array(vec![next, Reply::Array(replies), Reply::Array(gone)]))
    }
}

/// The identifiers of entries in a reply.
fn ids_of(reply: &Reply) -> Vec<Id> {
    let Reply::Array(entries) = reply else { return Vec::new() };
    let id = |entry: &Reply| match entry {
        Reply::Array(parts) => match parts.first() {
            Some(Reply::Bulk(id)) => Id::parse(id, 0).ok(),
            _ => None,
        },
        _ => None,
    };
    entries.iter().filter_map(id).collect()
}
