//! Requests that wait for something to take get it before others see that it is there.
//!
//! Behind an operation that puts something into the log comes what the first in line takes of it, in the
//! same entry: nothing is read in between. A move may serve waiters of its target, and so on. That
//! needs a shard that knows what a waiter takes, and what will be in the records: nothing else is on its way
//! to them. Where it does not (a waiter of several shards, a move to another shard, a transaction over
//! several shards, a cluster), the waiter is told when its key has something, and until it has tried, the
//! key is *kept* for it: all others wait. Outside of clusters, that is so from the moment on when what it is
//! told of goes into the log. What is kept is let go when its time is over, so that no request waits for
//! a waiter that does not come.

use crate::entry::{Apply, LogRecord};
use crate::ids::{Age, GatewayId, KeyedOp, Token, TxnId};
use crate::limits::{KEPT_US_MAX, SERVED_MAX};
use crate::message::{Answer, Notice, Refusal, Takes};
use crate::now::Now;
use crate::shard::locking::locks::{Claim, Class};
use crate::shard::waiting::blocked::{Gets, Kept, Left, Who};
use crate::shard::{Recipient, RecipientKind, Shard};
use adt::collections::Map;
use adt::key::KeyOp;
use adt::{Attempt, Blob, Compound, Ctx, Op, Plan, Record, Reply, record};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// Holds what is kept.
const KEPT: TxnId = TxnId { age: Age::OLDEST, attempt: 2 };

/// What a record will be when everything in the log is applied.
enum Scratch {
    /// This.
    Known(Option<Record>),
    /// Of the type that it has now.
    Typed,
    /// It depends on what is on its way.
    Unknown,
}

/// Records that will be so when everything in the log is applied, with the entry up to which they are known.
pub(in crate::shard) type Foreseen = Map<Blob, (u64, Option<Record>)>;

/// Serving waiters behind one record of the log.
pub(in crate::shard) struct Serving {
    ctx: Ctx,
    /// The transaction that brings it, whose locks end with it.
    txn: Option<TxnId>,
    /// How many were served.
    served: usize,
    records: BTreeMap<Blob, Scratch>,
    /// Keys that have got something.
    full: VecDeque<Blob>,
}

/// What is tried for a waiter.
enum Tried {
    /// Nothing is there for it.
    Nothing,
    /// It is in the log.
    Logged,
    /// What it would get is not known.
    Unknown,
}

fn is_nothing(reply: &Reply) -> bool {
    matches!(reply, Reply::Nil | Reply::NilArray)
}

impl Shard {
    /// A request waits for something to take.
    pub(in crate::shard) fn block(
        &mut self,
        now: Now,
        (gateway, token): Who,
        keys: &[Blob],
        takes: Option<Takes>,
    ) {
        if !self.blocked.knows(gateway, token) {
            if !self.blocked.has_room() {
                self.core.stats.refused += 1;
                return self.core.answer(gateway, token, Answer::Refused(Refusal::Busy));
            }
            self.core.notice(gateway, token, Notice::Blocked { txn: TxnId::default() });
        }
        if takes.is_some() {
            // What waiters take rests on what is on its way.
            self.core.track(now);
        }
        let ready = self.blocked.block(gateway, token, (keys, takes), &self.core.state);
        self.report_changes();
        self.notify_ready(ready);
        keys.iter().for_each(|key| self.keep_for_told(now, key, true));
    }

    /// A request does not wait any more.
    pub(in crate::shard) fn unblock(&mut self, now: Now, (gateway, token): Who) {
        match self.blocked.leave((gateway, token)) {
            Left::Later => return,
            Left::Answered => self.core.answer(gateway, token, Answer::Replies(SmallVec::new())),
            Left::Now => {}
        }
        let freed = self.blocked.unblock(gateway, token);
        self.freed(now, freed);
        self.report_changes();
    }

    /// Waits for these keys have ended: others may have a turn.
    pub(in crate::shard) fn freed(&mut self, now: Now, keys: Vec<Blob>) {
        for key in keys {
            let ready = self.blocked.ready(&key, &self.core.state);
            self.notify_ready(ready);
            self.keep_for_told(now, &key, false);
        }
    }

    /// A key has changed that others may wait for.
    pub(in crate::shard) fn tell_blocked(&mut self, now: Now, key: &Blob) {
        let ready = self.blocked.changed(key, &self.core.state);
        self.notify_ready(ready);
        self.keep_for_told(now, key, false);
    }

    /// A key is kept for the waiter that was told of it, and not at all if none was. If the one before it
    /// has found nothing, it is so `again`, for no longer than it was for that one.
    fn keep_for_told(&mut self, now: Now, key: &Blob, again: bool) {
        if !self.core.config.concurrency.takes_locks() {
            return;
        }
        let kept = self.blocked.kept.get(key).copied();
        let Some(who) = self.blocked.told(key) else {
            let coming = kept.is_some_and(|kept| kept.entry > self.core.tail.applied());
            if !coming && self.blocked.kept.remove(key).is_some() {
                self.keep_no_more(key);
            }
            return;
        };
        if kept.is_some_and(|kept| kept.who == Some(who)) {
            return;
        }
        let until_us = match kept {
            Some(kept) if again => kept.until_us,
            _ => Some(now.mono_us + KEPT_US_MAX),
        };
        self.hold_kept(key, Kept { who: Some(who), entry: 0, until_us });
    }

    fn hold_kept(&mut self, key: &Blob, kept: Kept) {
        let before = self.blocked.kept.insert(key.clone(), kept);
        let held = before.is_some_and(|kept| kept.until_us.is_some());
        if kept.until_us.is_some() && !held {
            let claim = Claim::new(Op::Key(KeyOp::Fetch), Class::Kept);
            self.core.locks.hold(key, KEPT, claim);
        }
    }

    /// Keys are kept for waiters that will be told of what has gone into the log.
    fn keep_coming(&mut self, now: Now, keys: &[Blob], serving: Option<&Serving>) {
        if !self.core.config.concurrency.takes_locks() {
            return;
        }
        for key in keys {
            let record = serving.and_then(|serving| serving.records.get(key));
            let emptied = matches!(record, Some(Scratch::Known(None)));
            let kept = self.blocked.kept.get(key);
            if emptied || !self.blocked.has_free(key) || kept.is_some_and(|k| k.who.is_some()) {
                continue;
            }
            let until_us = Some(now.mono_us + KEPT_US_MAX);
            self.hold_kept(key, Kept { who: None, entry: self.core.tail.newest(), until_us });
        }
    }

    /// What keys were kept for has come, or will not.
    pub(in crate::shard) fn end_coming(&mut self, now: Now) {
        self.core.foreseen.retain(|_, (entry, _)| *entry > self.core.tail.applied());
        let over = |kept: &Kept| kept.who.is_none() && kept.entry <= self.core.tail.applied();
        let over = self.blocked.kept.iter().filter(|(_, kept)| over(kept));
        let over: Vec<Blob> = over.map(|(key, _)| key.clone()).collect();
        over.iter().for_each(|key| self.keep_for_told(now, key, false));
    }

    fn keep_no_more(&mut self, key: &Blob) {
        self.core.locks.release(key, KEPT);
    }

    /// When the first key is let go that is kept for a waiter.
    pub(in crate::shard) fn kept_until_us(&self) -> Option<u64> {
        self.blocked.kept.values().filter_map(|kept| kept.until_us).min()
    }

    /// Lets go what was kept for too long.
    pub(in crate::shard) fn tick_kept(&mut self, now: Now) {
        let mut late = Vec::new();
        for (key, kept) in &mut self.blocked.kept {
            if kept.until_us.is_some_and(|until_us| until_us <= now.mono_us) {
                kept.until_us = None;
                late.push(key.clone());
            }
        }
        late.iter().for_each(|key| self.keep_no_more(key));
    }

    /// Keys that operations which are about to be logged write and that others wait for.
    pub(in crate::shard) fn awaited_keys(&self, apply: &Apply) -> SmallVec<[Blob; 1]> {
        if self.blocked.is_empty() || self.core.config.clustered {
            return SmallVec::new();
        }
        let awaited = |(key, op): &&KeyedOp| op.is_write() && self.blocked.waits_for(key);
        apply.ops.iter().filter(awaited).map(|(key, _)| key.clone()).collect()
    }

    /// Whether waiters can be served behind operations that are about to be logged.
    pub(in crate::shard) fn will_serve(
        &mut self,
        now: Now,
        apply: &Apply,
        kind: RecipientKind,
    ) -> Option<Serving> {
        // It may be that nothing of it takes effect.
        let certain = apply.guards.is_empty() && apply.fences.is_empty() && apply.request.is_none();
        let simple = |(_, op): &KeyedOp| op.whole().is_none() && !op.opens_section();
        if !certain || !apply.ops.iter().all(simple) || self.streams.hold_records() {
            return None;
        }
        // What they take is in the entry that brings it.
        self.core.tail.make_room(SERVED_MAX + 1);
        let txn = if let RecipientKind::Commit(txn) = kind { Some(txn) } else { None };
        let (records, full) = Default::default();
        let mut serving = Serving { ctx: self.core.ctx(now), txn, served: 0, records, full };
        for (key, op) in apply.ops.iter().filter(|(_, op)| op.is_write()) {
            if !serving.records.contains_key(key) {
                let scratch = match self.foreseen(now, key, txn) {
                    // What it is behind the operation is not known.
                    Scratch::Typed => Scratch::Unknown,
                    scratch => scratch,
                };
                serving.records.insert(key.clone(), scratch);
            }
            self.write_ahead(&mut serving, key, op);
        }
        Some(serving)
    }

    /// What a record will be, if that can be said.
    fn foreseen(&mut self, now: Now, key: &Blob, txn: Option<TxnId>) -> Scratch {
        // It is kept again when this is done.
        if let Some((_, record)) = self.core.foreseen.swap_remove(key) {
            return Scratch::Known(record);
        }
        let record = self.core.state.get(key);
        let expired = |at_ms: u64| at_ms <= now.wall_ms();
        if record.is_some_and(|r| r.expire_at_ms.is_some_and(expired)) {
            return Scratch::Unknown;
        }
        // Nothing is on its way that changes it.
        let claim = Claim::new(Op::Key(KeyOp::Fetch), Class::Early { observed: true });
        match record {
            _ if self.core.locks.barrier(key, &claim, txn, None, record).is_some() => {
                Scratch::Unknown
            }
            None => Scratch::Known(None),
            Some(_) => Scratch::Typed,
        }
    }

    /// An operation is in the log, or about to be.
    fn write_ahead(&self, serving: &mut Serving, key: &Blob, op: &Op) {
        if let Some(Scratch::Known(record)) = serving.records.get_mut(key) {
            record::apply(record, op, &serving.ctx);
            if record.is_some() && self.blocked.waits_for(key) && !serving.full.contains(key) {
                serving.full.push_back(key.clone());
            }
        }
    }

    /// The operations are in the log: waiters for what they bring take it right behind.
    pub(in crate::shard) fn serve_behind(
        &mut self,
        now: Now,
        keys: &[Blob],
        serving: Option<Serving>,
    ) {
        let serving = serving.map(|serving| self.serve(now, serving));
        self.keep_coming(now, keys, serving.as_ref());
        let entry = self.core.tail.newest();
        for (key, scratch) in serving.into_iter().flat_map(|serving| serving.records) {
            if let Scratch::Known(record) = scratch {
                self.core.foreseen.insert(key, (entry, record));
            }
        }
    }

    fn serve(&mut self, now: Now, mut serving: Serving) -> Serving {
        while let Some(key) = serving.full.pop_front() {
            let mut place = 0;
            while let Some(Scratch::Known(Some(_))) = serving.records.get(&key)
                && let Some((who, attempt)) = self.blocked.in_line(&key, place)
            {
                let tried = match attempt.cloned() {
                    // It has to be told.
                    None if !self.blocked.has_got(who) => Tried::Unknown,
                    None => Tried::Nothing,
                    Some(Attempt::Take { op, wrap }) => {
                        self.take_for(&mut serving, (who, &key), op, wrap)
                    }
                    Some(Attempt::Move(compound)) => {
                        self.move_for(now, &mut serving, who, compound)
                    }
                };
                match tried {
                    Tried::Unknown => break,
                    Tried::Nothing | Tried::Logged => place += 1,
                }
            }
        }
        serving
    }

    fn take_for(
        &mut self,
        serving: &mut Serving,
        (who, key): (Who, &Blob),
        op: Op,
        wrap: fn(&Blob, Reply) -> Reply,
    ) -> Tried {
        let ops: SmallVec<[KeyedOp; 1]> = SmallVec::from_iter([(key.clone(), op)]);
        if !self.may_go_behind(serving, &ops) {
            return Tried::Unknown;
        }
        let Some(Scratch::Known(record)) = serving.records.get_mut(key) else {
            return Tried::Unknown;
        };
        let reply = record::apply(record, &ops[0].1, &serving.ctx);
        if is_nothing(&reply) || reply.is_error() {
            return Tried::Nothing;
        }
        self.log_for(serving, who, ops, Gets::Taken(key.clone(), wrap))
    }

    fn move_for(
        &mut self,
        now: Now,
        serving: &mut Serving,
        who: Who,
        Compound { reads, plan }: Compound,
    ) -> Tried {
        let mut replies = Vec::new();
        for (key, op) in &reads {
            if !serving.records.contains_key(key) {
                let scratch = self.foreseen(now, key, serving.txn);
                serving.records.insert(key.clone(), scratch);
            }
            let record = match serving.records.get(key) {
                Some(Scratch::Known(record)) => record.as_ref(),
                Some(Scratch::Typed) => self.core.state.get(key),
                Some(Scratch::Unknown) | None => return Tried::Unknown,
            };
            replies.push(record::query(record, op, &serving.ctx));
        }
        let plan = plan(&replies);
        let (ops, gets) = match plan {
            Plan { writes, .. } if !writes.is_empty() => (writes, Gets::Moved),
            Plan { reply, .. }
                if reply.is_error() && !replies.first().is_none_or(Reply::is_error) =>
            {
                (reads, Gets::Refused)
            }
            _ => return Tried::Nothing,
        };
        let ops: SmallVec<[KeyedOp; 1]> = ops.into();
        if !self.may_go_behind(serving, &ops) {
            return Tried::Unknown;
        }
        for (key, op) in ops.iter().filter(|(_, op)| op.is_write()) {
            self.write_ahead(serving, key, op);
        }
        self.log_for(serving, who, ops, gets)
    }

    /// Whether nothing keeps operations from going into the log now.
    fn may_go_behind(&self, serving: &Serving, ops: &[KeyedOp]) -> bool {
        let barred = |(key, op): &KeyedOp| {
            let (claim, record) = (Claim::new(op.clone(), Class::Apply), self.core.state.get(key));
            self.core.locks.barrier(key, &claim, serving.txn, None, record).is_some()
        };
        serving.served < SERVED_MAX && !ops.iter().any(barred)
    }

    fn log_for(
        &mut self,
        serving: &mut Serving,
        (gateway, token): Who,
        ops: SmallVec<[KeyedOp; 1]>,
        gets: Gets,
    ) -> Tried {
        serving.served += 1;
        self.blocked.gets((gateway, token), gets);
        let target = Recipient { gateway, token, kind: RecipientKind::Taken };
        self.core.log(LogRecord::Apply(Apply { ops, ..Apply::default() }), target);
        Tried::Logged
    }

    /// What was in the log for a waiter is carried out, with this answer.
    pub(in crate::shard) fn taken(&mut self, now: Now, who: Who, answer: &Answer) {
        let Some((gets, leaves)) = self.blocked.got(who) else { return };
        let last = match answer {
            Answer::Replies(replies) => replies.last().cloned(),
            _ => None,
        };
        let reply = match (gets, last) {
            (Gets::Taken(key, wrap), Some(reply)) if !is_nothing(&reply) && !reply.is_error() => {
                Some(wrap(&key, reply))
            }
            (Gets::Moved, Some(reply @ Reply::Bulk(_))) => Some(reply),
            (Gets::Moved, other) => panic!("nothing was there to be moved: {other:?}"),
            (Gets::Refused, Some(reply)) if reply.is_error() => Some(reply),
            _ => None,
        };
        let (gateway, token) = who;
        let answer = match reply {
            Some(reply) => Answer::Reply(reply),
            None if leaves => Answer::Replies(SmallVec::new()),
            // It goes on waiting in its place.
            None => return,
        };
        self.core.answer(gateway, token, answer);
        let freed = self.blocked.unblock(gateway, token);
        self.freed(now, freed);
        self.report_changes();
    }

    /// Waiters are told of what a key holds.
    fn notify_ready(&mut self, ready: impl IntoIterator<Item = (GatewayId, Token, Blob)>) {
        for (gateway, token, key) in ready {
            self.core.notice(gateway, token, Notice::Ready { key });
        }
    }
}
