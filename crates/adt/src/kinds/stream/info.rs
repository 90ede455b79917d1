//! Facts about a stream, its groups and consumers: `XINFO`.

use super::entries::BLOCK_ENTRIES;
use super::group::Group;
use super::id::Id;
use super::{Value, bounded, no_group, reply_of};
use crate::{Blob, Ctx, Reply};

fn map(pairs: Vec<(&str, Reply)>) -> Reply {
    Reply::Map(pairs.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}

fn int(number: impl TryInto<i64>) -> Reply {
    Reply::Int(number.try_into().unwrap_or(i64::MAX))
}

fn id(id: Id) -> Reply {
    Reply::Bulk(id.blob())
}

fn known(number: Option<u64>) -> Reply {
    number.map_or(Reply::Nil, int)
}

impl Value {
    /// An error if the value stands for an absent one.
    fn absent(&self) -> Result<(), Reply> {
        if self.made { Ok(()) } else { Err(Reply::err("no such key")) }
    }

    fn general(&self, ctx: &Ctx) -> Vec<(&'static str, Reply)> {
        let blocks = self.entries.len().div_ceil(BLOCK_ENTRIES);
        let mut facts = vec![
            ("length", int(self.entries.len())),
            ("radix-tree-keys", int(blocks)),
            ("radix-tree-nodes", int(blocks + 1)),
            ("last-generated-id", id(self.last)),
            ("max-deleted-entry-id", id(self.deleted)),
            ("entries-added", int(self.added)),
            ("recorded-first-entry-id", id(self.entries.first().unwrap_or(Id::MIN))),
        ];
        let producers = self.producers.iter().flat_map(|producers| producers.facts(ctx.now_ms));
        facts.extend(producers.map(|(name, number)| (name, int(number))));
        facts
    }

    pub(super) fn info(&self, ctx: &Ctx) -> Result<Reply, Reply> {
        self.absent()?;
        let entry =
            |at: Option<Id>| at.and_then(|id| self.entries.get(id)).map_or(Reply::Nil, reply_of);
        let mut facts = self.general(ctx);
        facts.extend([
            ("groups", int(self.groups.len())),
            ("first-entry", entry(self.entries.first())),
            ("last-entry", entry(self.entries.last())),
        ]);
        Ok(map(facts))
    }

    pub(super) fn info_full(&self, count: u64, ctx: &Ctx) -> Result<Reply, Reply> {
        self.absent()?;
        let count = bounded(Some(count).filter(|count| *count > 0));
        let mut facts = self.general(ctx);
        let entries = self.entries.range(Id::MIN, Id::MAX).take(count);
        let entries = entries.map(reply_of).collect();
        let groups = self.groups.iter().map(|(name, group)| self.whole_group(name, group, count));
        facts.push(("entries", Reply::Array(entries)));
        facts.push(("groups", Reply::Array(groups.collect())));
        Ok(map(facts))
    }

    fn whole_group(&self, name: &Blob, group: &Group, count: usize) -> Reply {
        let pending = group.pending().iter().take(count).map(|(at, delivery)| {
            Reply::Array(vec![
                id(*at),
                Reply::Bulk(delivery.consumer.clone().unwrap_or_default()),
                int(delivery.at_ms),
                int(delivery.count),
            ])
        });
        let consumers = group.consumers().iter().map(|(name, consumer)| {
            let pending = consumer.pending.iter().take(count).map(|at| {
                let delivery = &group.pending()[at];
                Reply::Array(vec![id(*at), int(delivery.at_ms), int(delivery.count)])
            });
            map(vec![
                ("name", Reply::Bulk(name.clone())),
                ("seen-time", int(consumer.seen_ms)),
                ("pel-count", int(consumer.pending.len())),
                ("pending", Reply::Array(pending.collect())),
            ])
        });
        let mut facts = vec![
            ("name", Reply::Bulk(name.clone())),
            ("last-delivered-id", id(group.last)),
            ("entries-read", known(group.read)),
            ("lag", known(self.lag(group))),
            ("pel-count", int(group.pending().len())),
            ("pending", Reply::Array(pending.collect())),
            ("consumers", Reply::Array(consumers.collect())),
        ];
        let released = Some(group.released()).filter(|count| *count > 0);
        facts.extend(released.map(|count| ("nacked-count", int(count))));
        map(facts)
    }

    /// Number of entries that a group has not got yet, if it is known.
    fn lag(&self, group: &Group) -> Option<u64> {
        if self.added == 0 {
            return Some(0);
        }
        let read = match group.read {
            Some(read) if !self.has_gap_behind(group.last) => read,
            _ => self.position(group.last)?,
        };
        Some(self.added.saturating_sub(read))
    }

    pub(super) fn info_groups(&self) -> Result<Reply, Reply> {
        self.absent()?;
        let facts = self.groups.iter().map(|(name, group)| {
            map(vec![
                ("name", Reply::Bulk(name.clone())),
                ("consumers", int(group.consumers().len())),
                ("pending", int(group.pending().len())),
                ("last-delivered-id", id(group.last)),
                ("entries-read", known(group.read)),
                ("lag", known(self.lag(group))),
            ])
        });
        Ok(Reply::Array(facts.collect()))
    }

    pub(super) fn info_consumers(&self, group: &Blob, ctx: &Ctx) -> Result<Reply, Reply> {
        self.absent()?;
        let group = self.groups.get(group).ok_or_else(|| no_group(group))?;
        let facts = group.consumers().iter().map(|(name, consumer)| {
            map(vec![
                ("name", Reply::Bulk(name.clone())),
                ("pending", int(consumer.pending.len())),
                ("idle", int(ctx.now_ms.saturating_sub(consumer.seen_ms))),
            ])
        });
        Ok(Reply::Array(facts.collect()))
    }
}
