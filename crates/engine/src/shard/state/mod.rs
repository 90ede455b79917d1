//! The replicated state of a shard, and the only place where records change.
//!
//! Every replica goes through the same committed records in the same order ([`State::apply`] in
//! `shard/apply.rs`) and ends with the same state. Whatever an operation may know besides the state
//! (time, timestamp, random number) comes out of the log. What only the leader knows is in
//! [`AheadOfLog`].

pub mod fences;
pub(in crate::shard) mod order;
pub(in crate::shard) mod recent;
pub mod requests;
pub(in crate::shard) mod room;
pub(in crate::shard) mod whole;

use crate::coordination::Ask;
use crate::coordination::service::{Command, Coordination, Done};
use crate::entry::{Apply, Prepare, TookEffect};
use crate::ids::{GatewayId, StreamId, TxnId};
use crate::limits::{EXECUTED_REPLIES_MAX, VOID_US};
use crate::message::{Fence, Guard, Version};
use crate::shard::ahead::AheadOfLog;
use crate::shard::locking::watermark::SettledUpTo;
use crate::shard::streams::Streams;
use crate::shard::transfer::split::Slots;
use adt::collections::Map;
use adt::random::mix;
use adt::record;
use adt::{Blob, Ctx, Op, Record, Reply, Timestamp};
use fences::Fences;
use order::ExecutionOrder;
use requests::{Known, Requests};
use room::Room;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::BuildHasher;

/// Replies of the operations of one transaction on this shard, in their order.
pub type OpReplies = SmallVec<[Reply; 1]>;

/// What became of a set of operations.
#[derive(Debug, PartialEq)]
pub enum ApplyOutcome {
    /// They took effect.
    Done(OpReplies),
    /// A guard did not hold: nothing took effect.
    GuardFailed,
    /// A larger fencing token was seen: nothing took effect.
    Fenced,
    /// The same request took effect before; these were its replies.
    Repeated(TookEffect),
    /// It was settled before that the request takes no effect.
    Voided,
    /// Whether it took effect before is not remembered; it did not now.
    Forgotten,
}

/// A prepared transaction that is not executed yet.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedTxn {
    /// The part that this shard takes in it.
    pub prepare: Prepare,
    /// Its commit timestamp is at least this.
    pub bound: Timestamp,
    /// Commit timestamp, once decided.
    pub commit: Option<Timestamp>,
    /// The decision is committed in the log, and not only known to the leader.
    pub settled: bool,
    /// A unit of a stream that the leader has carried out at its place, and that others have to wait
    /// for until everything before it in its stream has its place for good.
    pub done: bool,
    /// A unit of which the log says that it may be carried out.
    pub free: bool,
}

impl PreparedTxn {
    /// Whether this is a unit of a stream, and no part of a transaction.
    pub fn is_unit(&self) -> bool {
        self.prepare.is_unit()
    }
}

/// A transaction whose operations were carried out by [`State::decide`].
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    /// The transaction.
    pub txn: TxnId,
    /// Its replies on this shard.
    pub replies: OpReplies,
}

/// How long an executed transaction's outcome is remembered at least, in microseconds. All
/// participants of a server that is alone log their outcomes in the same rounds of its one log, so a
/// participant that still lacks its own is at most a few rounds behind. In a cluster the other
/// shards' watermarks must have passed it as well.
pub const OUTCOME_US: u64 = 10_000_000;

/// Records and everything else that a snapshot of the shard contains.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Never `None` at rest: the option lets an operation take the record away in place.
    records: Map<Blob, Option<Record>>,
    expirations: BTreeSet<(u64, Blob)>,
    pub(in crate::shard) prepared: Map<TxnId, PreparedTxn>,
    pub(in crate::shard) order: ExecutionOrder,
    requests: Requests,
    /// Commit timestamps of transactions over several shards that were executed lately.
    outcomes: Map<TxnId, Timestamp>,
    /// The same, with when that was (monotonic microseconds of this replica), the oldest first.
    outcomes_by_time: VecDeque<(u64, Timestamp, TxnId)>,
    /// In a cluster: what other shards have settled.
    settled: Option<SettledUpTo>,
    /// More shards than this have not taken part in a transaction here.
    pub(in crate::shard) shards: u16,
    /// This replica's monotonic clock when it was told last.
    mono_us: u64,
    /// Transactions that were not prepared here and never will be.
    voids: BTreeSet<TxnId>,
    /// The same, with when this replica heard of them (monotonic microseconds), oldest first.
    voids_by_time: VecDeque<(u64, TxnId)>,
    /// What this replica, as the leader, has carried out or dropped ahead of the log: the outcome is
    /// not committed in it yet, so that other replicas still have the transaction prepared. It outlives
    /// the lead and is in snapshots, because the records show it already.
    unsettled: BTreeMap<TxnId, Option<Timestamp>>,
    /// Replies of transactions that were carried out lately, for a coordinator that has lost them.
    kept: Option<VecDeque<Executed>>,
    removed: Timestamp,
    fences: Fences,
    /// The coordination service, at the shard that has its tree.
    coordination: Coordination,
    /// What units ask of it that are in the log and not settled.
    asks: BTreeMap<TxnId, Box<Ask>>,
    pub(in crate::shard) slots: Slots,
    pub(in crate::shard) streams: Streams,
    /// By gateway: streams that are not older may be forgotten although they were not over.
    pub(in crate::shard) outlived: BTreeMap<GatewayId, Timestamp>,
    /// Streams whose order is handed on and that have units here without places, with the timestamp at
    /// which those came.
    pub(in crate::shard) contents: BTreeMap<StreamId, Timestamp>,
}

impl State {
    /// The record under a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&Record> {
        self.records.get(key)?.as_ref()
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The record at a position below [`State::len`]; history alone decides the positions.
    pub fn at(&self, position: usize) -> Option<(&Blob, &Record)> {
        let (key, slot) = self.records.get_index(position)?;
        Some((key, slot.as_ref()?))
    }

    /// All records, by position.
    pub fn iter(&self) -> impl Iterator<Item = (&Blob, &Record)> {
        self.records.iter().filter_map(|(key, slot)| Some((key, slot.as_ref()?)))
    }

    /// Timestamp of the last removal of a record.
    pub fn removed(&self) -> Timestamp {
        self.removed
    }

    /// Remembered outcomes.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Prepared transactions that are not executed.
    pub fn prepared(&self) -> &Map<TxnId, PreparedTxn> {
        &self.prepared
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

    /// Carries out operations that are committed on this shard alone.
    pub(in crate::shard) fn carry_out_alone(
        &mut self,
        apply: &Apply,
        ctx: &Ctx,
        ahead: &mut AheadOfLog,
    ) -> ApplyOutcome {
        match apply.request.as_ref().and_then(|request| self.requests.get(request)) {
            Some(Known::TookEffect(outcome)) => return ApplyOutcome::Repeated(outcome.clone()),
            Some(Known::Void) => return ApplyOutcome::Voided,
            Some(Known::Forgotten) => return ApplyOutcome::Forgotten,
            None => {}
        }
        if !self.guards_hold(apply) {
            return ApplyOutcome::GuardFailed;
        }
        let mut fences: SmallVec<[Fence; 1]> = apply.fences.iter().cloned().collect();
        match self.enter(apply, ctx) {
            Some(Ok(own)) => fences.push(own),
            Some(Err(reply)) => return ApplyOutcome::Done(self.keep_out(apply, ctx, reply)),
            None => {}
        }
        if !fences.is_empty() {
            if !self.fences.admit(&fences) {
                return ApplyOutcome::Fenced;
            }
            self.fences.raise(&fences);
        }
        let replies = self.run(apply, ctx, ahead);
        ApplyOutcome::Done(replies)
    }

    /// If operations are a section: the token that they are carried out under, or the reply that keeps them
    /// out. Nothing changes yet.
    fn enter(&self, apply: &Apply, ctx: &Ctx) -> Option<Result<Fence, Reply>> {
        let (lock, op) = apply.ops.first().filter(|(_, op)| op.opens_section())?;
        Some(match record::apply(&mut self.get(lock).cloned(), op, ctx) {
            Reply::Int(token) => Ok(Fence { lock: lock.clone(), token: token.unsigned_abs() }),
            reply => Err(reply),
        })
    }

    /// A section has not been let in. Whoever still waits has no outcome that would have to be remembered.
    fn keep_out(&mut self, apply: &Apply, ctx: &Ctx, reply: Reply) -> OpReplies {
        if let (Some(request), true) = (&apply.request, reply != Reply::Nil) {
            self.requests.remember(request.clone(), ctx.ts, vec![reply.clone()]);
        }
        OpReplies::from_iter([reply])
    }

    /// Whether nothing that the guards name has changed.
    pub fn guards_hold(&self, apply: &Apply) -> bool {
        apply.guards.iter().all(|guard| match (self.get(&guard.key), guard.version) {
            (Some(record), Version::Changed(ts)) => record.modified == ts,
            (record, Version::Absent { .. }) => record.is_none(),
            (None, Version::Changed(_)) => false,
        })
    }

    /// What a guard may ask of a record. At the leader, with nothing on its way that changes it.
    pub(in crate::shard) fn version(&self, key: &[u8], ahead: &AheadOfLog) -> Version {
        self.get(key).map_or_else(|| ahead.absent(), |r| Version::Changed(r.modified))
    }

    /// Whether a key that was absent at a look was certainly not removed since, as far as the
    /// leader knows. Nothing may be on its way that changes it.
    pub(in crate::shard) fn stayed_absent(&self, guard: &Guard, ahead: &AheadOfLog) -> bool {
        ahead.stayed_absent(|| self.records.hasher().hash_one(&guard.key), guard.version)
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

    /// The fencing tokens that were seen.
    pub fn fences(&self) -> &Fences {
        &self.fences
    }

    /// The same, to be read back.
    pub(in crate::shard) fn fences_mut(&mut self) -> &mut Fences {
        &mut self.fences
    }

    /// The coordination service; that of a shard that does not have its tree is empty.
    pub fn coordination(&self) -> &Coordination {
        &self.coordination
    }

    /// The same, to be read back.
    pub(in crate::shard) fn coordination_mut(&mut self) -> &mut Coordination {
        &mut self.coordination
    }

    /// What units ask of it that are in the log and not settled.
    pub fn asks(&self) -> &BTreeMap<TxnId, Box<Ask>> {
        &self.asks
    }

    /// A unit that asks something of it is in the log.
    pub(in crate::shard) fn keep_ask(&mut self, unit: TxnId, ask: Box<Ask>) {
        self.asks.insert(unit, ask);
    }

    /// A unit is settled: what it asks is done now, or never.
    pub(in crate::shard) fn take_ask(&mut self, unit: TxnId) -> Option<Box<Ask>> {
        self.asks.remove(&unit)
    }

    /// Carries out a committed change of the coordination service.
    pub(in crate::shard) fn carry_out_command(&mut self, command: &Command, ctx: &Ctx) -> Done {
        self.coordination.apply(command, ctx.ts, ctx.now_ms)
    }

    pub(in crate::shard) fn run(
        &mut self,
        apply: &Apply,
        ctx: &Ctx,
        ahead: &mut AheadOfLog,
    ) -> OpReplies {
        let mut seed = ctx.seed;
        let mut replies = OpReplies::with_capacity(apply.ops.len());
        let mut room = Room::default();
        for (key, op) in &apply.ops {
            seed = mix(seed);
            replies.push(self.operate(key, op, &Ctx { seed, ..*ctx }, (&mut room, &mut *ahead)));
        }
        // Whoever still waits has no outcome that would have to be remembered.
        let waits =
            || matches!((&apply.ops[..], &replies[..]), ([(_, op)], [Reply::Nil]) if op.waits());
        if let Some(request) = apply.request.as_ref().filter(|_| !waits()) {
            self.requests.remember(request.clone(), ctx.ts, replies.to_vec());
        }
        replies
    }

    fn operate(
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
        let Some(position) = self.records.get_index_of(key) else {
            let mut slot = None;
            let reply = record::apply(&mut slot, op, ctx);
            if let Some(record) = slot {
                if let Some(at) = record.expire_at_ms {
                    self.expirations.insert((at, key.clone()));
                }
                self.records.insert(key.clone(), Some(record));
            }
            return reply;
        };
        let (_, slot) = self.records.get_index_mut(position).expect("the position was found");
        let before = slot.as_ref().and_then(|r| r.expire_at_ms);
        let written = slot.as_ref().map(|r| r.modified);
        let (reply, changed) = record::carry_out(slot, op, ctx);
        let after = slot.as_ref().and_then(|r| r.expire_at_ms);
        if let (false, Some(written), Some(record)) = (changed, written, slot.as_ref())
            && record.modified != written
        {
            ahead.left_unchanged(key, written, record.modified);
        }
        if slot.is_none() {
            self.records.swap_remove_index(position);
            self.removed = self.removed.max(ctx.ts);
            ahead.removed(|| self.records.hasher().hash_one(key));
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

    /// Removes all records (`FLUSHALL`).
    pub(in crate::shard) fn flush(&mut self, ts: Timestamp, ahead: &mut AheadOfLog) {
        ahead.emptied(self.records.keys(), |key| self.records.hasher().hash_one(key));
        self.records.clear();
        self.expirations.clear();
        self.removed = self.removed.max(ts);
    }

    /// The leader has proposed a prepare record: transactions that are decided before it comes
    /// back from the log must wait for this one already if it may come before them. A snapshot
    /// does not contain it yet.
    pub(in crate::shard) fn announce(
        &mut self,
        prepare: Prepare,
        bound: Timestamp,
        ahead: &mut AheadOfLog,
    ) {
        ahead.announce(prepare.txn);
        self.prepare(prepare, bound);
    }

    /// Prepared transactions whose prepare records are committed.
    pub(in crate::shard) fn confirmed(
        &self,
        ahead: &AheadOfLog,
    ) -> impl Iterator<Item = &PreparedTxn> {
        self.prepared.iter().filter(|(txn, _)| !ahead.is_announced(**txn)).map(|(_, p)| p)
    }

    /// Commit timestamp of a transaction that was executed here lately. Another participant may
    /// have lost its outcome record in a crash and asks.
    pub fn outcome(&self, txn: TxnId) -> Option<Timestamp> {
        self.outcomes.get(&txn).copied()
    }

    /// Outcomes that a snapshot has to contain.
    pub fn outcomes(&self) -> impl Iterator<Item = (TxnId, Timestamp)> {
        self.outcomes.iter().map(|(txn, ts)| (*txn, *ts))
    }

    /// Remembers an outcome until no participant can need it any more.
    pub fn remember_outcome(&mut self, txn: TxnId, ts: Timestamp) {
        self.outcomes.insert(txn, ts);
        self.outcomes_by_time.push_back((self.mono_us, ts, txn));
        while let Some((since_us, ts, txn)) = self.outcomes_by_time.front().copied() {
            let needed = self.settled.is_some_and(|all| !all.passed(self.shards, since_us, ts));
            if since_us + OUTCOME_US > self.mono_us || needed {
                break;
            }
            self.outcomes_by_time.pop_front();
            self.outcomes.swap_remove(&txn);
        }
    }

    /// Tells the time of this replica's monotonic clock.
    #[inline]
    pub fn tell_time(&mut self, mono_us: u64) {
        self.mono_us = mono_us;
    }

    /// What it was told last.
    pub fn mono_us(&self) -> u64 {
        self.mono_us
    }

    /// From now on, outcomes are kept until all shards have settled them.
    pub fn keep_outcomes(&mut self) {
        self.settled = Some(SettledUpTo::default());
    }

    /// How far all shards have settled their transactions.
    pub fn hear_settled(&mut self, all: SettledUpTo) {
        if let Some(settled) = &mut self.settled {
            *settled = all;
        }
    }

    /// Whether all shards have settled what was committed at `ts` and carried out at `since_us`.
    pub(in crate::shard) fn all_passed(&self, since_us: u64, ts: Timestamp) -> bool {
        self.settled.is_none_or(|all| all.passed(self.shards, since_us, ts))
    }

    /// Everything here that commits before this is settled for good: its outcome is in the log.
    /// `clock` is the shard's clock.
    pub fn watermark(&self, clock: Timestamp) -> Timestamp {
        let open = self.prepared.values().map(|p| p.bound);
        let ahead = self.unsettled.values().flatten().copied();
        let contents = self.contents.values().copied();
        open.chain(ahead).chain(contents).min().unwrap_or(clock)
    }

    /// From now on, keeps the replies of transactions over several shards for a while.
    pub fn keep_replies(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Replies of a transaction that was carried out lately, if they are kept.
    pub fn replies_of(&self, txn: TxnId) -> Option<&OpReplies> {
        self.kept.iter().flatten().find(|executed| executed.txn == txn).map(|e| &e.replies)
    }

    pub(in crate::shard) fn keep_replies_of(&mut self, executed: &Executed) {
        if let Some(kept) = &mut self.kept {
            if kept.len() >= EXECUTED_REPLIES_MAX {
                kept.pop_front();
            }
            kept.push_back(Executed { txn: executed.txn, replies: executed.replies.clone() });
        }
    }

    /// A transaction that was not prepared here never will be. Forgotten after [`VOID_US`] of this
    /// replica's monotonic time: what was sent before it was known arrives within that or not at
    /// all (see "When a coordinator is gone" in `docs/internals/transactions.md`).
    pub fn void(&mut self, txn: TxnId) {
        if self.voids.insert(txn) {
            self.voids_by_time.push_back((self.mono_us, txn));
        }
        while let Some((heard_us, txn)) = self.voids_by_time.front().copied() {
            if heard_us + VOID_US > self.mono_us {
                break;
            }
            self.voids_by_time.pop_front();
            self.voids.remove(&txn);
        }
    }

    /// Whether a transaction must not be prepared here.
    pub fn is_void(&self, txn: TxnId) -> bool {
        self.voids.contains(&txn)
    }

    /// Transactions that must not be prepared here.
    pub fn voids(&self) -> impl Iterator<Item = TxnId> {
        self.voids.iter().copied()
    }

    /// Takes a record out, to put it into another shard's state.
    pub(in crate::shard) fn take_record(&mut self, key: &Blob) -> Option<Record> {
        let record = self.records.swap_remove(key)??;
        if let Some(at) = record.expire_at_ms {
            self.expirations.remove(&(at, key.clone()));
        }
        Some(record)
    }

    /// Puts a record of a snapshot in its place.
    pub fn restore_record(&mut self, key: Blob, record: Record) {
        if let Some(at) = record.expire_at_ms {
            self.expirations.insert((at, key.clone()));
        }
        self.records.insert(key, Some(record));
    }

    /// The leader has decided about a transaction and acts on it before the log has the outcome.
    pub(in crate::shard) fn act_ahead(&mut self, txn: TxnId, commit: Option<Timestamp>) {
        self.unsettled.insert(txn, commit);
    }

    /// The outcome of a transaction is committed in the log.
    pub(in crate::shard) fn settle(&mut self, txn: TxnId) {
        self.unsettled.remove(&txn);
        if let Some(prepared) = self.prepared.get_mut(&txn) {
            prepared.settled = true;
        }
    }

    /// What the leader has done with a transaction ahead of the log, if it has.
    pub(in crate::shard) fn ahead_of_log(&self, txn: TxnId) -> Option<Option<Timestamp>> {
        self.unsettled.get(&txn).copied()
    }

    /// What the leader has acted on ahead of the log.
    pub fn unsettled(&self) -> impl Iterator<Item = (TxnId, Option<Timestamp>)> {
        self.unsettled.iter().map(|(txn, commit)| (*txn, *commit))
    }

    /// This replica does not lead any more: what it knew beyond the log, and has not carried out
    /// yet, is forgotten.
    pub(in crate::shard) fn renounce(&mut self, ahead: AheadOfLog) {
        for txn in ahead.into_announced() {
            self.renounce_prepared(txn);
        }
        let ahead = |(txn, p): (&TxnId, &PreparedTxn)| {
            (p.commit.is_some() && !p.settled && !p.done).then_some(*txn)
        };
        let ahead: Vec<TxnId> = self.prepared.iter().filter_map(ahead).collect();
        for txn in ahead {
            self.unsettled.remove(&txn);
            self.renounce_decision(txn);
        }
    }

    /// Puts a prepared transaction of a snapshot in its place.
    pub fn restore_prepared(&mut self, prepared: PreparedTxn) {
        let (txn, commit) = (prepared.prepare.txn, prepared.commit);
        self.prepare(prepared.prepare, prepared.bound);
        if let Some(ts) = commit {
            self.put_in_place(txn, ts);
            self.settle(txn);
        }
    }

    /// Takes over the rest of a snapshot's header.
    pub fn restore_removed(&mut self, removed: Timestamp) {
        self.removed = removed;
    }

    /// Remembered outcomes, to restore them from a snapshot.
    pub fn requests_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }
}
