//! Stream: entries with fields in order of their identifiers, and groups of consumers that share them out.
//!
//! An entry added with `*` takes its identifier from the commit timestamp: such adds commute, whatever
//! the order in which they are carried out, as those of a log do, and identifiers grow in commit order.
//! This holds unless the last identifier is an explicit one (`ahead`): it may be ahead of the time, and then
//! `*` counts on from that, as in Redis. Adds do not commute until one of them has found that time has caught
//! up. Acknowledgements of different entries commute with each other and with adds. Adds under names (`IDMP`)
//! do so as well if their producers are different ones that the stream knows. Everything else excludes each
//! other. See the Redis documentation of the stream commands for semantics, replies and errors.

mod encode;
mod entries;
mod group;
mod id;
mod info;
mod ops;
mod parse;
mod producers;
mod reads;
mod table;
#[cfg(test)]
mod tests;

pub use entries::Fields;
pub use id::Id;
pub use ops::{After, Bound, Claim, Delivered, Failure, NewId, References, Release, Task, Trim};
pub use producers::{NAMES_MAX, Once, PRODUCER_BYTES_MAX, PRODUCERS_MAX, REMEMBERED_S_MAX};

use crate::{
    Access, ArgBuf, Blob, CommandSpec, Compound, Corrupt, Ctx, DataType, ErrorReply, Forecast,
    Foresight, Meta, Op as AnyOp, Plan, Reply, ValueSink, ValueSource, bounded_count,
};
use entries::{BLOCK_ENTRIES, Entries, Stored};
use group::{ABSENT, Group, STAYS};
use producers::Producers;
use std::collections::BTreeMap;
pub(crate) use table::INTERNAL;

/// The state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    entries: Entries,
    /// Highest identifier ever assigned.
    last: Id,
    /// The last identifier if it is an explicit one, or counts on from one that is ahead of the time.
    ahead: Option<Id>,
    /// Number of entries ever added.
    added: u64,
    /// Highest identifier of an entry removed by `XDEL`.
    deleted: Id,
    groups: BTreeMap<Blob, Group>,
    /// Producers that add entries once, and for how long these are remembered; none if there never were any.
    producers: Option<Box<Producers>>,
    /// Whether it exists: an empty stream differs from an absent one.
    made: bool,
}

/// Number in a saved stream in the place of that of the groups: the producers follow, then the groups.
const WITH_PRODUCERS: u64 = u64::MAX;

/// Operations on a stream: large ones, so that those of other types stay small.
pub type Op = Box<Task>;

/// Reply for an entry: its identifier, and its fields with values.
fn reply_of(entry: Stored<'_>) -> Reply {
    let fields = entry.collect(|text| Reply::Bulk(Blob::new(text))).unwrap_or_default();
    Reply::Array(vec![Reply::Bulk(entry.id.blob()), Reply::Array(fields)])
}

fn bounded(count: Option<u64>) -> usize {
    count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX))
}

/// The name of an entry that takes its identifier from the time, if it has one; none if it does not, or if
/// something else follows.
fn named_by_time(op: &Task) -> Option<Option<&Once>> {
    match op {
        Task::Add { id: NewId::Auto, creates: true, trim: None, once, .. } => Some(once.as_ref()),
        _ => None,
    }
}

/// An add whose identifier is chosen in the first of two steps.
fn add_chosen_first(key: &Blob, op: &Op) -> Compound {
    let once = match &**op {
        Task::Add { once, .. } => once.clone(),
        _ => None,
    };
    let (target, op) = (key.clone(), op.clone());
    let plan = move |replies: &[Reply]| {
        let nothing = |reply: &Reply| Plan { writes: Vec::new(), reply: reply.clone() };
        let [next, Reply::Int(present), original @ ..] = replies else {
            return nothing(replies.first().unwrap_or(&Reply::Nil));
        };
        let mut task = (*op).clone();
        let Task::Add { id, creates, .. } = &mut task else { return nothing(&Reply::Nil) };
        if *present == 0 && !*creates {
            return nothing(&Reply::Nil);
        }
        let write = |task: Task| vec![(target.clone(), AnyOp::Stream(Box::new(task)))];
        match (original.first(), next) {
            (Some(original @ Reply::Bulk(_)), _) => {
                Plan { writes: write(Task::Repeated), reply: original.clone() }
            }
            (Some(error @ Reply::Error(_)), _) => nothing(error),
            (_, Reply::Bulk(text)) => {
                let Ok(exact) = Id::parse(text, 0) else { return nothing(next) };
                *id = NewId::Exact(exact);
                Plan { writes: write(task), reply: next.clone() }
            }
            _ => nothing(next),
        }
    };
    let exists = AnyOp::Key(crate::key::KeyOp::Exists);
    let mut reads = vec![(key.clone(), AnyOp::Stream(Box::new(Task::Next))), (key.clone(), exists)];
    let original = once.map(|once| AnyOp::Stream(Box::new(Task::Original(once))));
    reads.extend(original.map(|read| (key.clone(), read)));
    Compound::new(reads, plan)
}

/// Error for an absent group, of which the text is the name: see [`parse::about_group`].
fn no_group(name: &Blob) -> Reply {
    Reply::Error(ErrorReply::new("NOGROUP", String::from_utf8_lossy(name).into_owned()))
}

impl Value {
    /// Number of entries.
    pub(crate) fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// Number of consumers of a group.
    pub(crate) fn consumer_count(&self, group: &Blob) -> usize {
        self.groups.get(group).map_or(0, |group| group.consumers().len())
    }

    /// Identifier of an entry added with `*`, if there is one left.
    fn auto_id(&self, ctx: &Ctx) -> Option<Id> {
        let (first, last) = (Id::of(ctx.ts), Id::last_of(ctx.ts));
        if self.ahead.is_some_and(|ahead| ahead >= first) || self.last == Id::MAX {
            return self.last.next();
        }
        if self.last < first {
            return Some(first.max(Id { ms: 0, seq: 1 }));
        }
        // Entries of later transactions may be there, if this one is carried out late.
        let newest =
            if self.last <= last { Some(self.last) } else { self.entries.last_up_to(last) };
        newest.filter(|newest| *newest >= first).map_or(Some(first), Id::next)
    }

    fn new_id(&self, id: NewId, ctx: &Ctx) -> Result<Id, ErrorReply> {
        let small = "The ID specified in XADD is equal or smaller than the target stream top item";
        let full = "The stream has exhausted the last possible ID, unable to add more items";
        match id {
            NewId::Auto => self.auto_id(ctx).ok_or_else(|| ErrorReply::err(full)),
            _ if self.last == Id::MAX => Err(ErrorReply::err(full)),
            NewId::Milli(ms) if ms == self.last.ms => {
                let seq = self.last.seq.checked_add(1);
                seq.map(|seq| Id { ms, seq }).ok_or_else(|| ErrorReply::err(small))
            }
            NewId::Milli(ms) if ms > self.last.ms => Ok(Id { ms, seq: 0 }),
            NewId::Exact(id) if id > self.last => Ok(id),
            NewId::Milli(_) | NewId::Exact(_) => Err(ErrorReply::err(small)),
        }
    }

    /// Notes a new identifier. An explicit one is the highest, and has the same effect at any timestamp.
    fn reach(&mut self, asked: NewId, id: Id, ctx: &Ctx) {
        self.last = self.last.max(id);
        let is_ahead = match asked {
            NewId::Auto => self.ahead.is_some_and(|ahead| ahead > Id::last_of(ctx.ts)),
            NewId::Milli(_) | NewId::Exact(_) => true,
        };
        self.ahead = is_ahead.then_some(self.last);
    }

    fn add(
        &mut self,
        id: NewId,
        once: Option<&Once>,
        trim: Option<Trim>,
        fields: &Fields,
        ctx: &Ctx,
    ) -> Reply {
        // An identifier that was chosen before was chosen because there is no entry under the name.
        if let Some(once) = once.filter(|_| id == NewId::Auto) {
            let original = self.original(once, ctx);
            if original != Reply::Nil {
                if !original.is_error() {
                    self.repeat();
                }
                return original;
            }
        }
        let new = match self.new_id(id, ctx) {
            Ok(new) => new,
            Err(error) => return error.into(),
        };
        self.made = true;
        self.entries.insert(new, fields);
        self.added = self.added.saturating_add(1);
        self.reach(id, new, ctx);
        if let Some(once) = once {
            self.note_producer(once, new, ctx);
        }
        if let Some(trim) = trim {
            self.trim(trim);
        }
        Reply::Bulk(new.blob())
    }

    /// Removes entries from the front. Roughly means whole hundreds, as many as Redis keeps in a node.
    fn trim(&mut self, trim: Trim) -> usize {
        let len = self.entries.len();
        let mut surplus = match trim.to {
            Bound::Len(keep) => len.saturating_sub(bounded(Some(keep))),
            Bound::From(id) => self.entries.before(id),
        };
        if trim.limit > 0 {
            surplus = surplus.min(bounded(Some(trim.limit)));
        }
        if trim.roughly {
            // What is left is shorter than a hundred, if all is to go.
            surplus = if surplus == len { len } else { surplus / BLOCK_ENTRIES * BLOCK_ENTRIES };
        }
        match trim.references {
            _ if self.groups.is_empty() => {}
            References::Keep => {}
            References::Delete => self.settle_first(surplus),
            References::Acknowledged => return self.cut_acknowledged(trim.to, surplus),
        }
        self.entries.cut(surplus);
        surplus
    }

    fn delete(&mut self, ids: &[Id]) -> usize {
        let mut count = 0;
        for id in ids {
            if self.entries.remove(*id) {
                self.deleted = self.deleted.max(*id);
                count += 1;
            }
        }
        count
    }

    fn set_id(&mut self, id: Id, added: Option<u64>, deleted: Option<Id>) -> Reply {
        if deleted.is_some_and(|deleted| deleted > id) {
            return Reply::err(
                "The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
            );
        }
        if self.entries.last().is_some_and(|top| id < top) {
            return Reply::err(
                "The ID specified in XSETID is smaller than the target stream top item",
            );
        }
        if added.is_some_and(|added| added < self.entries.len() as u64) {
            return Reply::err(
                "The entries_added specified in XSETID is smaller than the target stream length",
            );
        }
        self.last = id;
        self.ahead = Some(id);
        self.added = added.unwrap_or(self.added);
        self.deleted = deleted.filter(|deleted| *deleted != Id::MIN).unwrap_or(self.deleted);
        Reply::Ok
    }

    fn exists(meta: &Meta) -> Result<(), Reply> {
        if meta.present {
            return Ok(());
        }
        Err(Reply::err(
            "The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
             the MKSTREAM option to create an empty stream automatically.",
        ))
    }

    /// Carries out a write; an error is a reply like others.
    fn carry_out(&mut self, op: &Task, ctx: &Ctx, meta: &mut Meta) -> Result<Reply, Reply> {
        Ok(match op {
            Task::Add { creates: false, .. } if !meta.present => Reply::Nil,
            Task::Add { id, trim, once, fields, .. } => {
                self.add(*id, once.as_ref(), *trim, fields, ctx)
            }
            Task::Repeated => {
                meta.untouched = !self.repeat();
                Reply::Ok
            }
            Task::Configure { .. } if !meta.present => Reply::err("no such key"),
            Task::Configure { remembered_s, most } => {
                meta.untouched = !self.configure(*remembered_s, *most);
                Reply::Ok
            }
            Task::Delete(ids) => {
                let count = self.delete(ids);
                meta.untouched = count == 0;
                Reply::Int(count as i64)
            }
            Task::Forget { group, references, ids } => {
                let states = self.forget(group.as_ref(), *references, ids);
                meta.untouched = states.iter().all(|state| match *state {
                    STAYS => group.is_none(),
                    state => state == ABSENT,
                });
                Reply::Array(states.into_iter().map(Reply::Int).collect())
            }
            Task::Trim(trim) => {
                let count = self.trim(*trim);
                meta.untouched = count == 0;
                Reply::Int(count as i64)
            }
            Task::SetId { id, added, deleted } => {
                let reply = self.set_id(*id, *added, *deleted);
                if !meta.present && !reply.is_error() { Reply::err("no such key") } else { reply }
            }
            Task::CreateGroup { group, id, creates, read } => {
                if !creates {
                    Self::exists(meta)?;
                }
                self.create_group(group, *id, *read)
            }
            Task::MoveGroup { group, id, read } => {
                Self::exists(meta)?;
                let id = id.unwrap_or(self.last);
                let group = self.groups.get_mut(group).ok_or_else(|| no_group(group))?;
                (group.last, group.read) = (id, *read);
                Reply::Ok
            }
            Task::DestroyGroup(group) => {
                Self::exists(meta)?;
                let removed = self.groups.remove(group).is_some();
                meta.untouched = !removed;
                Reply::Int(i64::from(removed))
            }
            Task::CreateConsumer(group, consumer) => {
                Self::exists(meta)?;
                let group = self.groups.get_mut(group).ok_or_else(|| no_group(group))?;
                let made = group.make_consumer(consumer, ctx.now_ms);
                meta.untouched = !made;
                Reply::Int(i64::from(made))
            }
            Task::DeleteConsumer(group, consumer) => {
                Self::exists(meta)?;
                let group = self.groups.get_mut(group).ok_or_else(|| no_group(group))?;
                let before = group.consumers().len();
                let pending = group.remove_consumer(consumer);
                meta.untouched = group.consumers().len() == before;
                Reply::Int(pending as i64)
            }
            Task::ReadGroup { group, claim_ms: Some(ms), .. }
                if self.has_none_for(group, *ms, ctx.now_ms) =>
            {
                meta.untouched = true;
                Reply::Nil
            }
            Task::ReadGroup { group, consumer, count, no_ack, claim_ms: Some(ms), .. } => {
                self.read_due(group, consumer, *ms, (*count, *no_ack), ctx)?
            }
            Task::ReadGroup { group, consumer, after, count, no_ack, .. } => {
                self.read_group(group, consumer, *after, (*count, *no_ack), ctx)?
            }
            Task::HandOut { group, consumer, pending, new, no_ack } => {
                self.hand_out(group, consumer, (pending, new), *no_ack, ctx)?;
                Reply::Ok
            }
            Task::Release { group, ids, how } => {
                let count = self.release(group, ids, how)?;
                meta.untouched = count == 0;
                Reply::Int(count as i64)
            }
            Task::Ack(group, ids) => {
                let count = self.groups.get_mut(group).map_or(0, |group| group.acknowledge(ids));
                meta.untouched = count == 0;
                Reply::Int(count as i64)
            }
            Task::Claim { group, consumer, ids, how } => {
                self.claim(group, consumer, ids, how, ctx)?
            }
            Task::AutoClaim { group, consumer, min_idle_ms, from, count, just_id } => {
                let what = (*min_idle_ms, *from, *count, *just_id);
                self.auto_claim(group, consumer, what, ctx)?
            }
            read => self.answer(read, ctx)?,
        })
    }

    /// Reply of a write that is not carried out.
    fn foretell(&self, op: &Op, ctx: &Ctx) -> Option<Reply> {
        let Task::Add { id, once, .. } = &**op else { return None };
        if once.is_some() && *id == NewId::Auto {
            return None;
        }
        Some(self.new_id(*id, ctx).map_or_else(Reply::from, |id| Reply::Bulk(id.blob())))
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "stream";
    const FORECAST: Option<Forecast<Self, Op>> = Some(Forecast {
        reply: Self::foretell,
        is_always_possible: |op| matches!(**op, Task::Ack(..) | Task::Delete(_) | Task::Trim(_)),
    });
    const COMMANDS: &'static [CommandSpec] = table::COMMANDS;
    const KEPT_FOR_WAITERS: bool = false;
    const MODES: &'static [&'static str] = &["read", "add", "acknowledge", "other", "add once"];
    const SHARED: [u8; 8] = [0b1, 0b100, 0b1_0010, 0, 0b100, 0, 0, 0];
    const FORESIGHT: Option<Foresight<Self, Op>> = Some(Foresight {
        // Reads of groups note the time.
        follows: |_| false,
        follows_in_time: |op| !matches!(**op, Task::Add { id: NewId::Auto, .. }),
        cost: |value| {
            let parts = |group: &Group| 1 + group.pending().len() + group.consumers().len();
            let producers = value.producers.as_ref().map_or(0, |producers| producers.copy_cost());
            value.entries.copy_cost() + value.groups.values().map(parts).sum::<usize>() + producers
        },
    });

    fn is_write(op: &Op) -> bool {
        match **op {
            Task::Add { .. }
            | Task::Repeated
            | Task::Configure { .. }
            | Task::Delete(_)
            | Task::Forget { .. }
            | Task::Trim(_)
            | Task::SetId { .. }
            | Task::CreateGroup { .. }
            | Task::MoveGroup { .. }
            | Task::DestroyGroup(_)
            | Task::CreateConsumer(..)
            | Task::DeleteConsumer(..)
            | Task::ReadGroup { .. }
            | Task::HandOut { .. }
            | Task::Release { .. }
            | Task::Ack(..)
            | Task::Claim { .. }
            | Task::AutoClaim { .. } => true,
            Task::Original(_)
            | Task::Next
            | Task::Last
            | Task::Len
            | Task::Range { .. }
            | Task::Read { .. }
            | Task::PeekGroup { .. }
            | Task::Due { .. }
            | Task::Pending(_)
            | Task::ListPending { .. }
            | Task::Info
            | Task::InfoFull(_)
            | Task::InfoGroups
            | Task::InfoConsumers(_) => false,
        }
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn creates(op: &Op) -> bool {
        matches!(**op, Task::Add { creates: true, .. } | Task::CreateGroup { creates: true, .. })
    }

    fn preserves_key(op: &Op) -> bool {
        Self::is_write(op)
    }

    fn query(&self, op: &Op, ctx: &Ctx) -> Reply {
        self.answer(op, ctx).unwrap_or_else(|error| error)
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        let reply = self.carry_out(op, ctx, meta).unwrap_or_else(|error| error);
        if reply.is_error() || (!meta.present && !Self::creates(op)) {
            meta.untouched = true;
        }
        reply
    }

    fn may_be_idle(op: &Op) -> bool {
        matches!(**op, Task::ReadGroup { claim_ms: Some(_), .. })
    }

    fn idle(&self, op: &Op, now_ms: u64) -> Option<Reply> {
        // Others take their turns in the log, so that consumers get entries in the order of arrival.
        let Task::ReadGroup { group: name, claim_ms: Some(ms), .. } = &**op else { return None };
        self.has_none_for(name, *ms, now_ms).then_some(Reply::Nil)
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        if !Self::is_write(a.op) && !Self::is_write(b.op) {
            return true;
        }
        match (&**a.op, &**b.op) {
            (Task::Ack(one, ids), Task::Ack(other, others)) => {
                one != other || ids.iter().all(|id| !others.contains(id))
            }
            (Task::Ack(..), add) | (add, Task::Ack(..)) => named_by_time(add).is_some(),
            (a, b) => match (named_by_time(a), named_by_time(b)) {
                (Some(Some(one)), Some(Some(other))) => {
                    // A producer that is new may be one too many, or let others be forgotten.
                    let known = |once: &Once| {
                        self.producers.as_ref().is_some_and(|of| of.knows(&once.producer))
                    };
                    one.producer != other.producer
                        && known(one)
                        && known(other)
                        && self.ahead.is_none()
                }
                (Some(_), Some(_)) => self.ahead.is_none(),
                _ => false,
            },
        }
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        match &**access.op {
            Task::Ack(..) => 2,
            op => match named_by_time(op) {
                Some(None) => 1,
                Some(Some(_)) => 4,
                None if Self::is_write(access.op) => 3,
                None => 0,
            },
        }
    }

    fn chosen_first(key: &Blob, op: &Op) -> Option<Compound> {
        match &**op {
            Task::Add { id: NewId::Auto, .. } => Some(add_chosen_first(key, op)),
            delivery => parse::reading::due_first(key, delivery),
        }
    }

    fn combine(_earlier: &Op, _next: &Op) -> Option<Op> {
        // Entries of different transactions have different timestamps.
        None
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        encode::encode(op, key, out);
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        for id in [self.last, self.ahead.unwrap_or(Id::MIN), self.deleted] {
            sink.number(id.ms);
            sink.number(id.seq);
        }
        sink.number(self.added);
        self.entries.save(sink);
        if let Some(producers) = &self.producers {
            sink.number(WITH_PRODUCERS);
            producers.save(sink);
        }
        sink.number(self.groups.len() as u64);
        for (name, group) in &self.groups {
            sink.bytes(name);
            group.save(sink);
        }
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let [last, ahead, deleted] = [load_id(source)?, load_id(source)?, load_id(source)?];
        let added = source.number()?;
        let entries = Entries::load(source)?;
        if entries.last().is_some_and(|top| top > last) {
            return Err(Corrupt);
        }
        let ahead = (ahead != Id::MIN).then_some(ahead);
        let mut producers = None;
        let mut count = source.number()?;
        if count == WITH_PRODUCERS {
            producers = Some(Box::new(Producers::load(source)?));
            count = source.number()?;
        }
        let mut groups = BTreeMap::new();
        for _ in 0..bounded_count(source, count, 5)? {
            let name = Blob::new(source.bytes()?);
            if groups.insert(name, Group::load(source)?).is_some() {
                return Err(Corrupt);
            }
        }
        Ok(Self { entries, last, ahead, added, deleted, groups, producers, made: true })
    }
}

fn load_id(source: &mut dyn ValueSource) -> Result<Id, Corrupt> {
    Ok(Id { ms: source.number()?, seq: source.number()? })
}
