//! Requests that wait for something to take get it before other requests see that it is there.
//!
//! Behind an operation that puts an element into the log comes the operation with which the first waiter
//! in line takes it, in the same entry: nothing is read in between. A move may serve waiters of its target,
//! and so on. That needs a shard that knows what a waiter takes and what will be in the records: nothing
//! else is on its way to them. Where it does not (a waiter of several shards, a move to another shard, a
//! transaction over several shards, a cluster), the waiter is notified when its key has something, and until
//! it has tried, the key is *kept* for it: all others wait. Outside of clusters, the key is kept from the
//! moment when the element goes into the log. A kept key is let go when its time is over, so that no request
//! waits for a waiter that does not come.

use crate::entry::{Apply, LogRecord};
use crate::ids::{Age, KeyedOp, TxnId};
use crate::limits::{KEPT_US_MAX, SERVED_MAX};
use crate::message::Answer;
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::locking::locks::{Claim, Class};
use crate::shard::tail::{Recipient, RecipientKind};
use crate::shard::waiting::blocked::{Blocked, Gets, KeptKey, Who};
use crate::shard::waiting::room::WaitingRoom;
use adt::key::KeyOp;
use adt::{Attempt, Blob, Compound, Ctx, Op, Plan, Record, Reply, record};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// Holder of kept keys.
const KEPT: TxnId = TxnId { age: Age::OLDEST, attempt: 2 };

/// Prediction of a record: its value when everything in the log is applied.
enum Scratch {
    /// This value.
    Known(Option<Record>),
    /// A value of the present type.
    Typed,
    /// The value depends on operations on their way.
    Unknown,
}

/// Serving waiters behind one record of the log.
pub(in crate::shard) struct Serving {
    ctx: Ctx,
    /// The transaction that brings the elements, whose locks end with it.
    txn: Option<TxnId>,
    /// Number of served waiters.
    served: usize,
    records: BTreeMap<Blob, Scratch>,
    /// Keys that have got elements.
    full: VecDeque<Blob>,
}

/// Result of an attempt for a waiter.
enum Tried {
    /// There is nothing for it.
    Nothing,
    /// The waiter's operation is in the log.
    Logged,
    /// The result cannot be predicted.
    Unknown,
}

fn is_nothing(reply: &Reply) -> bool {
    matches!(reply, Reply::Nil | Reply::NilArray)
}

impl Blocked {
    /// Keeps a key for its notified waiter, and not at all if there is none. If the waiter before has found
    /// nothing, the key is kept `again`, for no longer than it was for that one.
    pub(super) fn keep_for_told(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        key: &Blob,
        again: bool,
    ) {
        if !core.config.concurrency.takes_locks() {
            return;
        }
        let kept = self.kept.get(key).copied();
        let Some(who) = self.told(key).filter(|_| is_kept(core, key)) else {
            let coming = kept.is_some_and(|kept| kept.entry > core.tail.applied());
            if !coming && self.kept.remove(key).is_some() {
                release(core, key);
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
        self.hold_kept(core, key, KeptKey { who: Some(who), entry: 0, until_us });
    }

    fn hold_kept(&mut self, core: &mut ShardCore, key: &Blob, kept: KeptKey) {
        let before = self.kept.insert(key.clone(), kept);
        let held = before.is_some_and(|kept| kept.until_us.is_some());
        if kept.until_us.is_some() && !held {
            let claim = Claim::new(Op::Key(KeyOp::Fetch), Class::Kept);
            core.locks.hold(key, KEPT, claim);
        }
    }

    /// Keeps keys for waiters that will be notified of elements which are in the log.
    fn keep_coming(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        keys: &[Blob],
        serving: Option<&Serving>,
    ) {
        if !core.config.concurrency.takes_locks() {
            return;
        }
        for key in keys {
            let record = serving.and_then(|serving| serving.records.get(key));
            let emptied = matches!(record, Some(Scratch::Known(None)));
            let kept = self.kept.get(key);
            if !is_kept(core, key)
                || emptied
                || !self.has_free(key)
                || kept.is_some_and(|k| k.who.is_some())
            {
                continue;
            }
            let until_us = Some(now.mono_us + KEPT_US_MAX);
            self.hold_kept(core, key, KeptKey { who: None, entry: core.tail.newest(), until_us });
        }
    }

    /// Ends the keeping of keys whose elements have come or will not, and drops predictions for applied
    /// entries.
    pub fn end_coming(&mut self, core: &mut ShardCore, now: Now) {
        core.foreseen.retain(|_, (entry, _)| *entry > core.tail.applied());
        let over = |kept: &KeptKey| kept.who.is_none() && kept.entry <= core.tail.applied();
        let over = self.kept.iter().filter(|(_, kept)| over(kept));
        let over: Vec<Blob> = over.map(|(key, _)| key.clone()).collect();
        over.iter().for_each(|key| self.keep_for_told(core, now, key, false));
    }

    /// Lets go of keys that were kept for too long.
    pub fn tick(&mut self, core: &mut ShardCore, now: Now) {
        let mut late = Vec::new();
        for (key, kept) in &mut self.kept {
            if kept.until_us.is_some_and(|until_us| until_us <= now.mono_us) {
                kept.until_us = None;
                late.push(key.clone());
            }
        }
        late.iter().for_each(|key| release(core, key));
    }

    /// Awaited keys among those that operations which are about to be logged write.
    pub fn awaited_keys(&self, core: &ShardCore, apply: &Apply) -> SmallVec<[Blob; 1]> {
        if self.is_empty() || core.config.clustered {
            return SmallVec::new();
        }
        let awaited = |(key, op): &&KeyedOp| op.is_write() && self.waits_for(key);
        apply.ops.iter().filter(awaited).map(|(key, _)| key.clone()).collect()
    }

    /// Prepares to serve waiters behind operations that are about to be logged, if that is possible: not
    /// while `units` of pipelines hold records.
    pub fn will_serve(
        &self,
        core: &mut ShardCore,
        now: Now,
        (apply, kind): (&Apply, RecipientKind),
        units: bool,
    ) -> Option<Serving> {
        let of_all_keys = apply.ops.iter().any(|(_, op)| op.whole().is_some());
        if !apply.is_certain() || of_all_keys || units {
            return None;
        }
        // The operations of the waiters belong into the entry that brings the elements.
        core.tail.make_room(SERVED_MAX + 1);
        let txn = if let RecipientKind::Commit(txn) = kind { Some(txn) } else { None };
        let (records, full) = Default::default();
        let mut serving = Serving { ctx: core.ctx(now), txn, served: 0, records, full };
        for (key, op) in apply.ops.iter().filter(|(_, op)| op.is_write()) {
            if !serving.records.contains_key(key) {
                let scratch = match foresee(core, now, key, txn) {
                    // The value behind the operation cannot be predicted.
                    Scratch::Typed => Scratch::Unknown,
                    scratch => scratch,
                };
                serving.records.insert(key.clone(), scratch);
            }
            self.write_ahead(&mut serving, key, op);
        }
        Some(serving)
    }

    /// Applies an operation that is in the log, or about to be, to the predictions.
    fn write_ahead(&self, serving: &mut Serving, key: &Blob, op: &Op) {
        if let Some(Scratch::Known(record)) = serving.records.get_mut(key) {
            record::apply(record, op, &serving.ctx);
            if record.is_some() && self.waits_for(key) && !serving.full.contains(key) {
                serving.full.push_back(key.clone());
            }
        }
    }

    /// Logs the operations of waiters for the elements right behind the operations that bring these.
    pub fn serve_behind(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        keys: &[Blob],
        serving: Option<Serving>,
    ) {
        let serving = serving.map(|serving| self.serve(core, now, serving));
        self.keep_coming(core, now, keys, serving.as_ref());
        let entry = core.tail.newest();
        for (key, scratch) in serving.into_iter().flat_map(|serving| serving.records) {
            if let Scratch::Known(record) = scratch {
                core.foreseen.insert(key, (entry, record));
            }
        }
    }

    fn serve(&mut self, core: &mut ShardCore, now: Now, mut serving: Serving) -> Serving {
        while let Some(key) = serving.full.pop_front() {
            let mut place = 0;
            while let Some(Scratch::Known(Some(_))) = serving.records.get(&key)
                && let Some((who, attempt)) = self.in_line(&key, place)
            {
                let tried = match attempt.cloned() {
                    // It has to be notified.
                    None if !self.has_got(who) => Tried::Unknown,
                    None => Tried::Nothing,
                    Some(Attempt::Take { op, wrap }) => {
                        self.take_for(core, &mut serving, (who, &key), (op, wrap))
                    }
                    Some(Attempt::Move(compound)) => {
                        self.move_for(core, now, &mut serving, (who, compound))
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

    /// Takes an element for a waiter.
    fn take_for(
        &mut self,
        core: &mut ShardCore,
        serving: &mut Serving,
        (who, key): (Who, &Blob),
        (op, wrap): (Op, fn(&Blob, Reply) -> Reply),
    ) -> Tried {
        let ops: SmallVec<[KeyedOp; 1]> = SmallVec::from_iter([(key.clone(), op)]);
        if !may_go_behind(core, serving, &ops) {
            return Tried::Unknown;
        }
        let Some(Scratch::Known(record)) = serving.records.get_mut(key) else {
            return Tried::Unknown;
        };
        let reply = record::apply(record, &ops[0].1, &serving.ctx);
        if is_nothing(&reply) || reply.is_error() {
            return Tried::Nothing;
        }
        self.log_for(core, serving, who, ops, Gets::Taken(key.clone(), wrap))
    }

    /// Moves an element for a waiter.
    fn move_for(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        serving: &mut Serving,
        (who, compound): (Who, Compound),
    ) -> Tried {
        let mut replies = Vec::new();
        for (key, op) in &compound.reads {
            if !serving.records.contains_key(key) {
                let scratch = foresee(core, now, key, serving.txn);
                serving.records.insert(key.clone(), scratch);
            }
            let record = match serving.records.get(key) {
                Some(Scratch::Known(record)) => record.as_ref(),
                Some(Scratch::Typed) => core.state.get(key),
                Some(Scratch::Unknown) | None => return Tried::Unknown,
            };
            replies.push(record::query(record, op, &serving.ctx));
        }
        let Some(plan) = compound.plan(&replies) else { return Tried::Unknown };
        let (ops, gets) = match plan {
            Plan { writes, .. } if !writes.is_empty() => (writes, Gets::Moved),
            Plan { reply, .. }
                if reply.is_error() && !replies.first().is_none_or(Reply::is_error) =>
            {
                (compound.reads, Gets::Refused)
            }
            _ => return Tried::Nothing,
        };
        let ops: SmallVec<[KeyedOp; 1]> = ops.into();
        if !may_go_behind(core, serving, &ops) {
            return Tried::Unknown;
        }
        for (key, op) in ops.iter().filter(|(_, op)| op.is_write()) {
            self.write_ahead(serving, key, op);
        }
        self.log_for(core, serving, who, ops, gets)
    }

    /// Logs operations for a waiter.
    fn log_for(
        &mut self,
        core: &mut ShardCore,
        serving: &mut Serving,
        (gateway, token): Who,
        ops: SmallVec<[KeyedOp; 1]>,
        gets: Gets,
    ) -> Tried {
        serving.served += 1;
        self.gets((gateway, token), gets);
        let target = Recipient { gateway, token, kind: RecipientKind::Taken };
        core.log(LogRecord::Apply(Apply { ops, ..Apply::default() }), target);
        Tried::Logged
    }

    /// Answers a waiter whose operation is carried out, with this answer.
    pub fn taken(&mut self, core: &mut ShardCore, now: Now, who: Who, answer: &Answer) {
        let Some((gets, leaves)) = self.got(who) else { return };
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
            // It stays in its place.
            None => return,
        };
        core.answer(gateway, token, answer);
        self.end(core, now, who);
    }
}

/// Whether a key is kept for waiters that are notified of what it holds.
fn is_kept(core: &ShardCore, key: &Blob) -> bool {
    core.state.get(key).is_none_or(|record| record.value.is_kept_for_waiters())
}

/// Lets go of a kept key.
fn release(core: &mut ShardCore, key: &Blob) {
    core.locks.release(key, KEPT);
}

/// Predicts a record.
fn foresee(core: &mut ShardCore, now: Now, key: &Blob, txn: Option<TxnId>) -> Scratch {
    // The prediction is noted again in the end.
    if let Some((_, record)) = core.foreseen.swap_remove(key) {
        return Scratch::Known(record);
    }
    let record = core.state.get(key);
    let expired = |at_ms: u64| at_ms <= now.wall_ms();
    if record.is_some_and(|r| r.expire_at_ms().is_some_and(expired)) {
        return Scratch::Unknown;
    }
    // No operation on its way changes it.
    let claim = Claim::new(Op::Key(KeyOp::Fetch), Class::Early { observed: true });
    match record {
        _ if core.locks.barrier(key, &claim, txn, record).is_some() => Scratch::Unknown,
        None => Scratch::Known(None),
        Some(_) => Scratch::Typed,
    }
}

/// Whether operations can go into the log right now.
fn may_go_behind(core: &ShardCore, serving: &Serving, ops: &[KeyedOp]) -> bool {
    let barred = |(key, op): &KeyedOp| {
        let (claim, record) = (Claim::new(op.clone(), Class::Apply), core.state.get(key));
        core.locks.barrier(key, &claim, serving.txn, record).is_some()
    };
    serving.served < SERVED_MAX && !ops.iter().any(barred)
}
