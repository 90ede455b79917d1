//! Groups of consumers: deliveries that are pending, and the changes of them.

use super::entries::Stored;
use super::id::Id;
use super::{
    Bound, Claim, Delivered, Failure, References, Release, Value, bounded, load_id, no_group,
    reply_of,
};
use crate::{Blob, Corrupt, Ctx, Reply, ValueSink, ValueSource, load_count};
use std::collections::{BTreeMap, BTreeSet};

/// Highest number of deliveries.
pub(super) const DELIVERIES_MAX: u64 = i64::MAX as u64;

/// A delivery that is not acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The consumer; none if it has released the entry.
    pub consumer: Option<Blob>,
    /// When it was, in milliseconds since 1970; 0 if the entry is released.
    pub at_ms: u64,
    /// Number of deliveries.
    pub count: u64,
}

impl Delivery {
    /// Time since it, in milliseconds.
    pub fn idle_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.at_ms)
    }

    /// Whether it has been pending for long enough to be made to another consumer.
    pub fn is_due(&self, min_idle_ms: u64, now_ms: u64) -> bool {
        self.consumer.is_none() || self.idle_ms(now_ms) >= min_idle_ms
    }
}

/// Flag of a saved group of which entries are pending for no consumer: these follow.
const RELEASED: u64 = 2;

/// A number of deliveries and one more.
fn one_more(count: u64) -> u64 {
    count.saturating_add(1).min(DELIVERIES_MAX)
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
    /// Times and entries of the deliveries, the oldest first.
    by_time: BTreeSet<(u64, Id)>,
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
        for id in &consumer.pending {
            if let Some(delivery) = self.pending.remove(id) {
                self.by_time.remove(&(delivery.at_ms, *id));
            }
        }
        consumer.pending.len()
    }

    /// Ends deliveries; gives the number of those that were pending.
    pub fn acknowledge(&mut self, ids: &[Id]) -> usize {
        ids.iter().filter(|id| self.settle(**id)).count()
    }

    fn settle(&mut self, id: Id) -> bool {
        let Some(delivery) = self.pending.remove(&id) else { return false };
        self.by_time.remove(&(delivery.at_ms, id));
        if let Some(consumer) = delivery.consumer.and_then(|name| self.consumers.get_mut(&name)) {
            consumer.pending.remove(&id);
        }
        true
    }

    /// Makes an entry pending for a consumer, and no longer for another one.
    fn deliver(&mut self, id: Id, consumer: &Blob, at_ms: u64, count: u64) {
        self.settle(id);
        self.insert(id, Delivery { consumer: Some(consumer.clone()), at_ms, count });
        self.consumers.entry(consumer.clone()).or_default().pending.insert(id);
    }

    /// Makes an entry pending for no consumer.
    fn release(&mut self, id: Id, count: u64) {
        self.settle(id);
        self.insert(id, Delivery { consumer: None, at_ms: 0, count });
    }

    fn insert(&mut self, id: Id, delivery: Delivery) {
        self.by_time.insert((delivery.at_ms, id));
        self.pending.insert(id, delivery);
    }

    /// Number of entries that are pending for no consumer.
    pub fn released(&self) -> usize {
        let oldest = self.by_time.range(..=(0, Id::MAX));
        oldest.filter(|(_, id)| self.pending[id].consumer.is_none()).count()
    }

    /// Whether there are such entries, or deliveries of entries that are gone.
    pub fn has_due(&self, min_idle_ms: u64, now_ms: u64) -> bool {
        self.due(min_idle_ms, now_ms).next().is_some()
    }

    /// Entries whose deliveries are due to be made to another consumer, the oldest first.
    fn due(&self, min_idle_ms: u64, now_ms: u64) -> impl Iterator<Item = (Id, &Delivery)> {
        let until_ms = now_ms.saturating_sub(min_idle_ms);
        let old =
            self.by_time.range(..=(until_ms, Id::MAX)).map(|(_, id)| (*id, &self.pending[id]));
        old.filter(move |(_, delivery)| delivery.is_due(min_idle_ms, now_ms))
    }

    pub fn save(&self, sink: &mut dyn ValueSink) {
        sink.number(self.last.ms);
        sink.number(self.last.seq);
        let released = self.released();
        sink.number(u64::from(self.read.is_some()) | if released > 0 { RELEASED } else { 0 });
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
        if released > 0 {
            sink.number(released as u64);
            let all = self.pending.iter().filter(|(_, delivery)| delivery.consumer.is_none());
            for (id, delivery) in all {
                sink.number(id.ms);
                sink.number(id.seq);
                sink.number(delivery.count);
            }
        }
    }

    pub fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let last = load_id(source)?;
        let flags = source.number()?;
        let read = match (flags & !RELEASED, source.number()?) {
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
                if group.pending.contains_key(&id) {
                    return Err(Corrupt);
                }
                group.insert(id, Delivery { consumer: Some(name.clone()), at_ms, count });
                consumer.pending.insert(id);
            }
            if group.consumers.insert(name, consumer).is_some() {
                return Err(Corrupt);
            }
        }
        if flags & RELEASED != 0 {
            for _ in 0..load_count(source, 3)? {
                let id = load_id(source)?;
                if group.pending.contains_key(&id) {
                    return Err(Corrupt);
                }
                group.release(id, source.number()?);
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

    /// Whether a group has nothing new for its consumers, and nothing that is due.
    pub(super) fn has_none_for(&self, group: &Blob, min_idle_ms: u64, now_ms: u64) -> bool {
        self.groups.get(group).is_some_and(|group| {
            self.entries.last().is_none_or(|last| last <= group.last)
                && !group.has_due(min_idle_ms, now_ms)
        })
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
        if after.is_none() {
            if ids.is_empty() {
                return Ok(Reply::Nil);
            }
            self.hand_out(name, consumer, (&[], &ids), no_ack, ctx)?;
            return Ok(reply);
        }
        let present: Vec<bool> = ids.iter().map(|id| self.entries.contains(*id)).collect();
        let group = self.groups.get_mut(name).ok_or_else(|| no_group(name))?;
        group.see(consumer, ctx.now_ms);
        for id in ids.into_iter().zip(present).filter(|(_, present)| *present).map(|(id, _)| id) {
            if let Some(delivery) = group.pending.get(&id) {
                group.deliver(id, consumer, ctx.now_ms, one_more(delivery.count));
            }
        }
        Ok(reply)
    }

    /// Delivers entries that are due, then new ones, to a consumer.
    pub(super) fn read_due(
        &mut self,
        name: &Blob,
        consumer: &Blob,
        min_idle_ms: u64,
        (count, no_ack): (Option<u64>, bool),
        ctx: &Ctx,
    ) -> Result<Reply, Reply> {
        let due = self.due(name, min_idle_ms, count, ctx.now_ms)?;
        let (reply, gone) = (due.reply(), &due.gone);
        let Some(given) = Given::in_reply(&reply) else {
            if !gone.is_empty() {
                self.hand_out(name, consumer, (gone, &[]), no_ack, ctx)?;
            }
            return Ok(Reply::Nil);
        };
        self.hand_out(name, consumer, (&given.pending, &given.new), no_ack, ctx)?;
        Ok(given.rows)
    }

    /// Entries that are due to be delivered to another consumer, and new ones.
    pub(super) fn due(
        &self,
        name: &Blob,
        min_idle_ms: u64,
        count: Option<u64>,
        now_ms: u64,
    ) -> Result<Due, Reply> {
        let group = self.groups.get(name).ok_or_else(|| no_group(name))?;
        let row = |entry: Stored<'_>, idle_ms: u64, count: u64| match reply_of(entry) {
            Reply::Array(mut parts) => {
                parts.extend([Reply::Int(idle_ms as i64), Reply::Int(count as i64)]);
                Reply::Array(parts)
            }
            other => other,
        };
        let most = bounded(count);
        let mut due = Due::default();
        for (id, delivery) in group.due(min_idle_ms, now_ms) {
            if due.pending.len() == most {
                break;
            }
            match self.entries.get(id) {
                Some(entry) => {
                    due.pending.push(row(entry, delivery.idle_ms(now_ms), delivery.count));
                }
                None => due.gone.push(id),
            }
        }
        let new = group.last.next().into_iter().flat_map(|from| self.entries.range(from, Id::MAX));
        due.new.extend(new.take(most - due.pending.len()).map(|entry| row(entry, 0, 0)));
        Ok(due)
    }

    /// Delivers entries that are pending, and new ones, to a consumer. A delivery of an entry that is gone
    /// ends.
    pub(super) fn hand_out(
        &mut self,
        name: &Blob,
        consumer: &Blob,
        (pending, new): (&[Id], &[Id]),
        no_ack: bool,
        ctx: &Ctx,
    ) -> Result<(), Reply> {
        let group = self.groups.get(name).ok_or_else(|| no_group(name))?;
        let (mut read, mut last) = (group.read, group.last);
        for id in new.iter().filter(|id| **id > group.last) {
            read = match read {
                Some(read) if !self.has_gap_behind(*id) => Some(read.saturating_add(1)),
                _ => self.position(*id),
            };
            last = *id;
        }
        let Self { entries, groups, .. } = self;
        let group = groups.get_mut(name).ok_or_else(|| no_group(name))?;
        (group.read, group.last) = (read, last);
        group.see(consumer, ctx.now_ms);
        for id in pending {
            if !entries.contains(*id) {
                group.settle(*id);
            } else if let Some(delivery) = group.pending.get(id) {
                group.deliver(*id, consumer, ctx.now_ms, one_more(delivery.count));
            }
        }
        if !no_ack {
            new.iter().for_each(|id| group.deliver(*id, consumer, ctx.now_ms, 1));
        }
        Ok(())
    }

    /// Makes entries pending for no consumer; gives their number.
    pub(super) fn release(
        &mut self,
        name: &Blob,
        ids: &[Id],
        how: &Release,
    ) -> Result<usize, Reply> {
        let Self { entries, groups, .. } = self;
        let group = groups.get_mut(name).ok_or_else(|| no_group(name))?;
        let mut number = 0;
        for id in ids {
            let before = match group.pending.get(id) {
                Some(delivery) => delivery.count,
                None if how.force && entries.contains(*id) => 0,
                None => continue,
            };
            let count = match how.failure {
                Failure::Silent => before.saturating_sub(1),
                Failure::Fail => before,
                Failure::Fatal => DELIVERIES_MAX,
            };
            group.release(*id, how.count.unwrap_or(count));
            number += 1;
        }
        Ok(number)
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
                Some(delivery) if !delivery.is_due(how.min_idle_ms, now) => continue,
                Some(delivery) => delivery.count,
                None if how.force => 1,
                None => continue,
            };
            let is_new = !group.pending.contains_key(id);
            let counts = !how.just_id && !is_new;
            let count = how.count.unwrap_or(if counts { one_more(count) } else { count });
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
            if !delivery.is_due(min_idle_ms, ctx.now_ms) {
                continue;
            }
            let deliveries = if just_id { delivery.count } else { one_more(delivery.count) };
            group.see(consumer, ctx.now_ms);
            group.deliver(id, consumer, ctx.now_ms, deliveries);
            replies.push(if just_id { Reply::Bulk(id.blob()) } else { reply_of(entry) });
        }
        let next = Reply::Bulk(next.unwrap_or(Id::MIN).blob());
        Ok(Reply::Array(vec![next, Reply::Array(replies), Reply::Array(gone)]))
    }
}

/// Entries that a consumer gets with `CLAIM`.
#[derive(Default)]
pub(super) struct Due {
    /// Rows of entries that are pending.
    pub pending: Vec<Reply>,
    /// Rows of entries that are new.
    pub new: Vec<Reply>,
    /// Entries that are pending, and gone.
    pub gone: Vec<Id>,
}

impl Due {
    /// As a reply, from which the write follows that delivers the entries; nil if there are none.
    pub fn reply(&self) -> Reply {
        if self.pending.is_empty() && self.new.is_empty() {
            return Reply::Nil;
        }
        let gone = self.gone.iter().map(|id| Reply::Array(vec![Reply::Bulk(id.blob())])).collect();
        let (pending, new) = (self.pending.clone(), self.new.clone());
        Reply::Array([pending, new, gone].map(Reply::Array).to_vec())
    }
}

/// Entries to deliver, as [`Due::reply`] names them.
pub(super) struct Given {
    /// Reply to the consumer.
    pub rows: Reply,
    /// Entries that are pending, some of them gone.
    pub pending: Vec<Id>,
    /// New entries.
    pub new: Vec<Id>,
}

impl Given {
    pub fn in_reply(reply: &Reply) -> Option<Self> {
        let Reply::Array(parts) = reply else { return None };
        let [Reply::Array(pending), Reply::Array(new), gone] = &parts[..] else { return None };
        let rows = Reply::Array(pending.iter().chain(new).cloned().collect());
        let [pending, new, gone] = [&parts[0], &parts[1], gone].map(ids_of);
        Some(Self { rows, pending: [pending, gone].concat(), new })
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
