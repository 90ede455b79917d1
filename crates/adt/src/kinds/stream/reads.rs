//! Answers to reads.

use super::id::Id;
use super::{After, Task, Value, bounded, no_group, reply_of};
use crate::{Blob, Ctx, ErrorReply, Reply};

impl Value {
    /// Answers a read; an error is a reply like others.
    pub(super) fn answer(&self, op: &Task, ctx: &Ctx) -> Result<Reply, Reply> {
        Ok(match op {
            Task::Next => {
                let full =
                    "The stream has exhausted the last possible ID, unable to add more items";
                let id = self.auto_id(ctx).ok_or_else(|| Reply::Error(ErrorReply::err(full)))?;
                Reply::Bulk(id.blob())
            }
            Task::Original(once) => self.original(once, ctx),
            Task::Last => Reply::Bulk(self.last.blob()),
            Task::Len => Reply::Int(self.entries.len() as i64),
            Task::Range { count: Some(0), .. } if self.made => Reply::NilArray,
            Task::Range { from, to, .. } if from > to => Reply::Array(Vec::new()),
            Task::Range { from, to, count, back: false } => {
                let entries = self.entries.range(*from, *to).take(bounded(*count));
                Reply::Array(entries.map(reply_of).collect())
            }
            Task::Range { from, to, count, back: true } => {
                let entries = self.entries.range_back(*from, *to).take(bounded(*count));
                Reply::Array(entries.map(reply_of).collect())
            }
            Task::Read { after, count } => self.read(*after, *count),
            Task::PeekGroup { group, consumer, after, count } => {
                self.peek_group(group, consumer, *after, *count)?
            }
            Task::Due { group, min_idle_ms, count } => {
                self.due(group, *min_idle_ms, *count, ctx.now_ms)?.reply()
            }
            Task::Pending(group) => self.summarize(group)?,
            Task::ListPending { group, idle_ms, from, to, count, consumer } => {
                let pending = self.groups.get(group).ok_or_else(|| no_group(group))?.pending();
                let pending = pending.iter().skip_while(|(id, _)| *id < from);
                let found = pending.take_while(|(id, _)| *id <= to).filter(|(_, delivery)| {
                    consumer.as_ref().is_none_or(|name| Some(name) == delivery.consumer.as_ref())
                        && delivery.is_due(*idle_ms, ctx.now_ms)
                });
                let row = |(id, delivery): (&Id, &super::group::Delivery)| {
                    let idle = delivery.consumer.as_ref().map(|_| delivery.idle_ms(ctx.now_ms));
                    Reply::Array(vec![
                        Reply::Bulk(id.blob()),
                        Reply::Bulk(delivery.consumer.clone().unwrap_or_default()),
                        Reply::Int(idle.map_or(-1, |ms| ms as i64)),
                        Reply::Int(delivery.count as i64),
                    ])
                };
                Reply::Array(found.take(bounded(Some(*count))).map(row).collect())
            }
            Task::Info => self.info(ctx)?,
            Task::InfoFull(count) => self.info_full(*count, ctx)?,
            Task::InfoGroups => self.info_groups()?,
            Task::InfoConsumers(group) => self.info_consumers(group, ctx)?,
            _ => Reply::err("a write cannot be answered without being applied"),
        })
    }

    fn read(&self, after: After, count: Option<u64>) -> Reply {
        let from = match after {
            After::Id(id) => id.next(),
            After::End => None,
            After::Last => self.entries.last(),
        };
        let entries = from.into_iter().flat_map(|from| self.entries.range(from, Id::MAX));
        let entries: Vec<Reply> = entries.take(bounded(count)).map(reply_of).collect();
        if entries.is_empty() { Reply::Nil } else { Reply::Array(entries) }
    }

    /// Reply that a delivery would have: new entries, or nil; or those pending for the consumer.
    pub(super) fn peek_group(
        &self,
        group: &Blob,
        consumer: &Blob,
        after: Option<Id>,
        count: Option<u64>,
    ) -> Result<Reply, Reply> {
        let group = self.groups.get(group).ok_or_else(|| no_group(group))?;
        let Some(after) = after else { return Ok(self.read(After::Id(group.last), count)) };
        let pending = group.consumers().get(consumer).map(|consumer| &consumer.pending);
        let behind = after
            .next()
            .into_iter()
            .flat_map(|from| pending.into_iter().flat_map(move |pending| pending.range(from..)));
        let entry = |id: &Id| match self.entries.get(*id) {
            Some(entry) => reply_of(entry),
            None => Reply::Array(vec![Reply::Bulk(id.blob()), Reply::NilArray]),
        };
        Ok(Reply::Array(behind.take(bounded(count)).map(entry).collect()))
    }

    fn summarize(&self, group: &Blob) -> Result<Reply, Reply> {
        let group = self.groups.get(group).ok_or_else(|| no_group(group))?;
        let pending = group.pending();
        let id =
            |found: Option<(&Id, _)>| found.map_or(Reply::Nil, |(id, _)| Reply::Bulk(id.blob()));
        let consumers =
            group.consumers().iter().filter(|(_, consumer)| !consumer.pending.is_empty());
        let rows = consumers.map(|(name, consumer)| {
            let count = Reply::bulk(consumer.pending.len().to_string());
            Reply::Array(vec![Reply::Bulk(name.clone()), count])
        });
        let rows: Vec<Reply> = rows.collect();
        Ok(Reply::Array(vec![
            Reply::Int(pending.len() as i64),
            id(pending.first_key_value()),
            id(pending.last_key_value()),
            if rows.is_empty() { Reply::NilArray } else { Reply::Array(rows) },
        ]))
    }
}
