//! The replicated state of a shard, and the only place where records change.
//!
//! Every replica goes through the same committed records in the same order ([`State::apply`] in
//! `shard/apply.rs`) and ends with the same state. Whatever an operation may know besides the state
//! (time, timestamp, random number) comes out of the log. What only the leader knows is in
//! [`AheadOfLog`].

pub mod fates;
pub mod fences;
pub(in crate::shard) mod order;
pub(in crate::shard) mod recent;
pub mod records;
pub mod requests;
pub(in crate::shard) mod room;
pub mod slots;
mod tally;
pub(in crate::shard) mod whole;

use crate::coordination::Ask;
use crate::coordination::service::{Command, Coordination, Done};
use crate::entry::{Apply, Prepare, TookEffect};
use crate::ids::TxnId;
use crate::message::Fence;
use crate::shard::ahead::AheadOfLog;
use crate::shard::streams::KeptStreams;
use adt::random::mix;
use adt::record;
use adt::{Ctx, ErrorReply, Record, Reply, Timestamp};
use fates::Fates;
use fences::Fences;
use order::PreparedTxns;
use records::Records;
use requests::{Known, Requests};
use room::Room;
use slots::Slots;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Replies of the operations of one transaction on this shard, in their order.
pub type OpReplies = SmallVec<[Reply; 1]>;

/// Outcome of a set of operations.
#[derive(Debug, PartialEq)]
pub enum ApplyOutcome {
    /// The operations took effect.
    Done(OpReplies),
    /// A guard did not hold: nothing took effect.
    GuardFailed(Option<ErrorReply>),
    /// A larger fencing token was seen: nothing took effect.
    Fenced,
    /// An earlier copy of the request took effect; these were its replies.
    Repeated(TookEffect),
    /// The request was settled before: it takes no effect.
    Voided,
    /// Whether it took effect before is not remembered; it did not now.
    Forgotten,
}

/// A prepared transaction that is not executed yet.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedTxn {
    /// The part that this shard takes in it.
    pub prepare: Prepare,
    /// Lower bound of the commit timestamp.
    pub bound: Timestamp,
    /// Commit timestamp, once decided.
    pub commit: Option<Timestamp>,
    /// The decision is committed in the log, and not only known to the leader.
    pub settled: bool,
    /// A unit of a stream that the leader has carried out at its place, and that others have to wait
    /// for until everything before it in its stream has its place for good.
    pub done: bool,
    /// A unit that may be carried out, as the log says.
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
    /// Replies on this shard.
    pub replies: OpReplies,
}

/// Records and everything else that a snapshot of the shard contains.
#[derive(Clone, Debug, Default)]
pub struct State {
    records: Records,
    pub(in crate::shard) prepared: PreparedTxns,
    requests: Requests,
    fates: Fates,
    /// This replica's monotonic clock when it was told last.
    mono_us: u64,
    fences: Fences,
    /// The coordination service, at the shard that has its tree.
    coordination: Coordination,
    /// Requests of units to the service, of those that are in the log and not settled.
    asks: BTreeMap<TxnId, Box<Ask>>,
    pub(in crate::shard) slots: Slots,
    pub(in crate::shard) streams: KeptStreams,
}

impl State {
    /// The record under a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&Record> {
        self.records.get(key)
    }

    /// The records.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// The records, to read them back or to give some to another shard.
    pub(in crate::shard) fn records_mut(&mut self) -> &mut Records {
        &mut self.records
    }

    /// Fates of transactions that are over.
    pub fn fates(&self) -> &Fates {
        &self.fates
    }

    /// Fates of transactions that are over, to keep more of them or to note how far others are.
    pub fn fates_mut(&mut self) -> &mut Fates {
        &mut self.fates
    }

    /// Notes the outcome of a transaction over several shards.
    pub(in crate::shard) fn remember_outcome(&mut self, txn: TxnId, ts: Timestamp) {
        self.fates.remember(txn, ts, self.mono_us);
    }

    /// Notes that a transaction that was not prepared here never will be.
    pub(in crate::shard) fn void(&mut self, txn: TxnId) {
        self.fates.void(txn, self.mono_us);
    }

    /// Removes all records (`FLUSHALL`), or those of one database (`FLUSHDB`).
    pub(in crate::shard) fn flush(
        &mut self,
        database: Option<u8>,
        ts: Timestamp,
        ahead: &mut AheadOfLog,
    ) {
        self.records.flush(database, ts, ahead);
    }

    /// Memory of pipelines over several shards.
    pub fn streams(&self) -> &KeptStreams {
        &self.streams
    }

    /// Remembered outcomes.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Prepared transactions that are not executed.
    pub fn prepared(&self) -> &PreparedTxns {
        &self.prepared
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
        if let Err(failure) = self.records.check_guards(apply, ctx) {
            return ApplyOutcome::GuardFailed(failure);
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

    /// Gives the reply of a section that was not let in. A request that still waits has no outcome that would
    /// have to be remembered.
    fn keep_out(&mut self, apply: &Apply, ctx: &Ctx, reply: Reply) -> OpReplies {
        if let (Some(request), true) = (&apply.request, reply != Reply::Nil) {
            self.requests.remember(request.clone(), ctx.ts, vec![reply.clone()]);
        }
        OpReplies::from_iter([reply])
    }

    /// Fencing tokens that were seen.
    pub fn fences(&self) -> &Fences {
        &self.fences
    }

    /// Fencing tokens, to read them back.
    pub(in crate::shard) fn fences_mut(&mut self) -> &mut Fences {
        &mut self.fences
    }

    /// The coordination service; that of a shard that does not have its tree is empty.
    pub fn coordination(&self) -> &Coordination {
        &self.coordination
    }

    /// The coordination service, to read it back.
    pub(in crate::shard) fn coordination_mut(&mut self) -> &mut Coordination {
        &mut self.coordination
    }

    /// Requests of units to the service, of those that are in the log and not settled.
    pub fn asks(&self) -> &BTreeMap<TxnId, Box<Ask>> {
        &self.asks
    }

    /// Notes what a unit asks of the service, which is in the log.
    pub(in crate::shard) fn keep_ask(&mut self, unit: TxnId, ask: Box<Ask>) {
        self.asks.insert(unit, ask);
    }

    /// Takes what a unit asks of the service: the unit is settled, so it is done now, or never.
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
            replies.push(self.records.operate(
                key,
                op,
                &Ctx { seed, ..*ctx },
                (&mut room, &mut *ahead),
            ));
        }
        // A request that still waits, or is to be called again, has no outcome that would have to be
        // remembered.
        let waits =
            || matches!((&apply.ops[..], &replies[..]), ([(_, op)], [Reply::Nil]) if op.waits());
        let again = || !replies.is_empty() && replies.iter().all(Reply::asks_again);
        if let Some(request) = apply.request.as_ref().filter(|_| !waits() && !again()) {
            self.requests.remember(request.clone(), ctx.ts, replies.to_vec());
        }
        replies
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

    /// Tells the time of this replica's monotonic clock.
    #[inline]
    pub fn tell_time(&mut self, mono_us: u64) {
        self.mono_us = mono_us;
    }

    /// Time of this replica's monotonic clock at the last [`State::tell_time`].
    pub fn mono_us(&self) -> u64 {
        self.mono_us
    }

    /// Everything here that commits before this is settled for good: its outcome is in the log.
    /// `clock` is the shard's clock.
    pub fn watermark(&self, clock: Timestamp) -> Timestamp {
        let open = self.prepared.values().map(|p| p.bound);
        let ahead = self.prepared.unsettled().filter_map(|(_, ts)| ts);
        let contents = self.streams.oldest_unplaced();
        open.chain(ahead).chain(contents).min().unwrap_or(clock)
    }

    /// This replica does not lead any more: what it knew beyond the log, and has not carried out
    /// yet, is forgotten.
    pub(in crate::shard) fn renounce(&mut self, ahead: AheadOfLog) {
        for txn in ahead.into_announced() {
            self.prepared.renounce_prepared(txn);
        }
        self.prepared.renounce_decisions();
    }

    /// Puts a prepared transaction of a snapshot in its place.
    pub fn restore_prepared(&mut self, prepared: PreparedTxn) {
        let (txn, commit) = (prepared.prepare.txn, prepared.commit);
        self.prepare(prepared.prepare, prepared.bound);
        if let Some(ts) = commit {
            self.prepared.put_in_place(txn, ts);
            self.prepared.settle(txn);
        }
    }

    /// Remembered outcomes, to restore them from a snapshot.
    pub fn requests_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }
}
