//! Committed log records take effect: one path for the leader, its followers and recovery.
//!
//! [`State::apply`] alone applies a record, and says what came of it ([`Consequence`]). The leader acts
//! on that: it answers requests, releases locks, wakes what waits, and counts. Other replicas drop
//! it. What the leader has done before the record was committed is in the state's own marks and in
//! [`AheadOfLog`]; a record does no more at the leader than is left to do.

use super::ahead::AheadOfLog;
use super::coordination::joints;
use super::coordination::units::{self, AskCame, AskSettled};
use super::core::ShardCore;
use super::state::{ApplyOutcome, Executed, State};
use super::streams::ChainEffect;
use super::tail::{Batch, Recipient, RecipientKind};
use super::transfer::snapshot::Writers;
use crate::coordination::Ask;
use crate::coordination::JointId;
use crate::coordination::branch::Footprint;
use crate::coordination::service::{Command, Done};
use crate::entry::{Apply, Entry, LogRecord, Prepare};
use crate::ids::{RequestId, ShardId, StreamId, TxnId};
use crate::message::{Answer, Fate};
use crate::now::Now;
use crate::pipeline::{Group, UnitPlace};
use crate::shard::Desk;
use crate::shard::Shard;
use adt::random::mix;
use adt::{Ctx, Record, Reply, Timestamp};
use std::sync::Arc;

/// Result of a committed record.
pub(super) enum Consequence<'r> {
    /// None that the leader acts on.
    Nothing,
    /// Operations were carried out, or not.
    Applied(&'r Apply, ApplyOutcome),
    /// A part of a transaction is prepared, unless the transaction was aborted meanwhile.
    Prepared { open: bool },
    /// A transaction will never be prepared here.
    Voided(TxnId),
    /// All records are removed.
    Flushed,
    /// The coordination service was changed; `held` is what the session's `multi` held before.
    Coordinated { command: &'r Command, held: Option<(JointId, Footprint)>, done: Done },
    /// Slots were given away, with this state, to a new shard.
    Split { child: ShardId, state: Box<State> },
    /// Units of a stream are in the log.
    Proposed(&'r Arc<Group>),
    /// The fate of units of a stream is in the log: what was carried out by that, and what came of the
    /// questions to the coordination service, if there were any.
    Settled { stream: StreamId, executed: Vec<Executed>, asks: Option<Vec<AskSettled>> },
    /// Nothing more of a stream is let in.
    Refused(StreamId),
    /// A stream whose order is handed on has gone on.
    Chain(ChainEffect<'r>),
    /// The replies of a request are remembered.
    Remembered,
    /// Whether a request took effect, if that is known.
    Resolved(&'r RequestId, Option<bool>),
}

impl State {
    /// Prepares the lookups for the first of these records and for some behind it, unless those for the next
    /// `warm` operations are prepared. Returns for how many operations behind the first record they are then.
    fn warm_for(&self, records: &[LogRecord], warm: usize) -> usize {
        let ops = records.iter().flat_map(LogRecord::ops);
        let warm = if warm == 0 { self.records().warm(ops) } else { warm };
        warm.saturating_sub(records.first().map_or(0, |record| record.ops().len()))
    }

    /// Applies a committed record. `writers` are the snapshots in the making.
    pub(super) fn apply<'r>(
        &mut self,
        record: &'r LogRecord,
        ctx: &Ctx,
        ahead: &mut AheadOfLog,
        writers: &mut Writers,
    ) -> Consequence<'r> {
        match record {
            LogRecord::Apply(apply) => {
                writers.keep(self, &apply.ops);
                Consequence::Applied(apply, self.carry_out_alone(apply, ctx, ahead))
            }
            LogRecord::Prepare(prepare) => {
                // It may be carried out at any moment from now on.
                writers.keep(self, &prepare.apply.ops);
                Consequence::Prepared { open: self.prepare_logged(prepare, ctx.ts, ahead) }
            }
            LogRecord::Outcome { txn, commit } => {
                self.outcome_logged(*txn, *commit, ahead);
                Consequence::Nothing
            }
            LogRecord::Void(txn) => {
                self.void(*txn);
                Consequence::Voided(*txn)
            }
            LogRecord::Flush(database) => {
                writers.keep_all(self);
                self.flush(*database, ctx.ts, ahead);
                Consequence::Flushed
            }
            LogRecord::Coordinate(command) => {
                writers.keep_nodes(self, command);
                let held = match command.is_joint() {
                    true => joints::prepared_by(self.coordination(), command.session),
                    false => None,
                };
                let done = self.carry_out_command(command, ctx);
                Consequence::Coordinated { command, held, done }
            }
            LogRecord::Split { child, first, at, last } => {
                writers.keep_all(self);
                ahead.forget_versions();
                let state = Box::new(self.give(*first, (*at, *last)));
                Consequence::Split { child: *child, state }
            }
            LogRecord::Propose(group) => {
                group.units.iter().for_each(|unit| writers.keep(self, &unit.ops));
                self.prepare_units(group, ctx.ts, ahead);
                Consequence::Proposed(group)
            }
            LogRecord::Place { stream, units } => {
                self.place_units(*stream, units, ahead);
                Consequence::Nothing
            }
            LogRecord::Settle { stream, units } => {
                let executed = self.settle_units(*stream, units, ahead);
                let asks = self.settle_asks(*stream, units, ctx, ahead, writers);
                Consequence::Settled { stream: *stream, executed, asks }
            }
            LogRecord::Refuse(stream) => {
                self.streams.refuse(*stream);
                Consequence::Refused(*stream)
            }
            LogRecord::Forget(streams) => {
                streams.iter().for_each(|stream| self.streams.forget(*stream));
                Consequence::Nothing
            }
            LogRecord::Outlive(streams) => {
                self.streams.outlive(streams);
                Consequence::Nothing
            }
            LogRecord::Content(_) | LogRecord::Ordered { .. } | LogRecord::Promise { .. } => {
                Consequence::Chain(self.apply_chain(record, ctx, ahead, writers))
            }
            LogRecord::Answered(told) => {
                self.requests_mut().answered(&told.request, told.replies.clone());
                Consequence::Remembered
            }
            LogRecord::Resolve(request) => {
                let took_effect = self.requests_mut().resolve(request.clone(), ctx.ts);
                Consequence::Resolved(request, took_effect)
            }
        }
    }

    /// A prepare is committed. Tells whether its transaction is open.
    fn prepare_logged(
        &mut self,
        prepare: &Prepare,
        bound: Timestamp,
        ahead: &mut AheadOfLog,
    ) -> bool {
        // The leader has prepared it when it proposed the record, unless the transaction was aborted
        // before that; then the outcome is in the log behind it.
        if !ahead.confirm(prepare.txn) && !ahead.leads() {
            self.prepare(prepare.clone(), bound);
        }
        self.prepared().contains_key(&prepare.txn)
    }

    /// The outcome of a transaction is committed.
    fn outcome_logged(&mut self, txn: TxnId, commit: Option<Timestamp>, ahead: &mut AheadOfLog) {
        // The leader has acted on it when it was told. If the transaction is still there, it waits for
        // others.
        let waits = self.prepared.ahead_of_log(txn).is_some()
            && self.prepared().get(&txn).is_some_and(|p| p.commit.is_some() && !p.settled);
        if !waits {
            self.decide(txn, commit, ahead);
        }
        self.prepared.settle(txn);
    }

    /// The fate of units is committed: what they ask of the tree is done now, or never. The replies to
    /// reads are for the leader alone. Gives nothing if no unit at all asks something.
    fn settle_asks(
        &mut self,
        stream: StreamId,
        fates: &[(u32, UnitPlace)],
        ctx: &Ctx,
        ahead: &AheadOfLog,
        writers: &mut Writers,
    ) -> Option<Vec<AskSettled>> {
        if self.asks().is_empty() {
            return None;
        }
        let mut settled = Vec::new();
        for (seq, place) in fates {
            let Some(ask) = self.take_ask(stream.unit(*seq)) else { continue };
            let came = match &*ask {
                _ if place.is_none() => AskCame::ToNothing,
                Ask::Write(command) => {
                    writers.keep_nodes(self, command);
                    AskCame::Done(self.carry_out_command(command, ctx))
                }
                Ask::Of(session, of) if ahead.leads() => {
                    AskCame::Seen(units::see(self.coordination(), *session, of))
                }
                _ => AskCame::ToNothing,
            };
            let zxid = self.coordination().last();
            settled.push(AskSettled { seq: *seq, ask, came, zxid });
        }
        Some(settled)
    }
}

impl ShardCore {
    fn apply<'r>(&mut self, record: &'r LogRecord, ctx: &Ctx) -> Consequence<'r> {
        self.state.apply(record, ctx, &mut self.ahead, &mut self.writers)
    }

    /// Notes in the lock table that the operations of an entry are applied.
    fn land(&mut self, batch: &Batch) {
        for record in &batch.records {
            for (key, op) in record.ops() {
                if !op.is_write() {
                    continue;
                }
                if let Some(foreseen) = self.locks.land(key, batch.number) {
                    let comes = |record: &Record| (record.value.clone(), record.expire_at_ms());
                    let (foreseen, came) = (foreseen.as_ref(), self.state.get(key));
                    debug_assert_eq!(foreseen.map(comes), came.map(comes), "{key:?}");
                }
                debug_assert!(self.locks.is_as_kept(key, self.state.get(key)), "{key:?}");
            }
        }
    }
}

impl Desk {
    /// Applies a record at the leader that has proposed it, and acts on what came of it.
    fn commit(&mut self, now: Now, record: &LogRecord, target: Recipient, ctx: &Ctx) {
        match self.core.apply(record, ctx) {
            Consequence::Nothing => {}
            Consequence::Applied(apply, outcome) => {
                self.act_on_apply(now, apply, outcome, target, ctx)
            }
            Consequence::Prepared { open } => {
                let RecipientKind::Vote(txn) = target.kind else { return };
                if let Some(gateway) = self.locking.gateway_of(txn).filter(|_| open) {
                    let prepared = Answer::Prepared { bound: ctx.ts };
                    self.core.answer(gateway, target.token, prepared);
                }
            }
            Consequence::Voided(txn) => {
                self.locking.voided(txn);
                self.core.answer(target.gateway, target.token, Answer::Fate(Fate::Void));
            }
            Consequence::Flushed => {
                self.core.recent.iter_mut().for_each(|recent| recent.note_all(now.mono_us));
                self.core.answer(target.gateway, target.token, Answer::Reply(Reply::Ok));
            }
            Consequence::Coordinated { command, held, done } => {
                self.service.committed(&mut self.core, now, command, target, (held, done));
            }
            Consequence::Split { child, state } => {
                self.splitting.split(child, *state, self.core.clock);
            }
            Consequence::Proposed(group) => self.streams.proposed(&self.core, group, ctx.ts),
            Consequence::Settled { stream, executed, asks } => {
                self.finish(now, executed);
                if let Some(asks) = asks {
                    self.service.units_settled(&mut self.core, now, stream, asks);
                }
                self.streams.units_settled(&mut self.core, stream);
            }
            Consequence::Refused(stream) => self.streams.refused(&mut self.core, stream),
            Consequence::Chain(effect) => self.streams.act_on_chain(&mut self.core, now, effect),
            Consequence::Remembered => {
                self.core.answer(target.gateway, target.token, Answer::Reply(Reply::Ok));
            }
            Consequence::Resolved(request, took_effect) => {
                let answer = took_effect.map_or(Answer::Forgotten, |took_effect| {
                    Answer::Reply(Reply::Int(took_effect.into()))
                });
                self.core.answer(target.gateway, target.token, answer);
                self.locking.close_request(&mut self.core, request);
            }
        }
    }

    /// Operations were carried out, or not: their requester is told.
    fn act_on_apply(
        &mut self,
        now: Now,
        apply: &Apply,
        outcome: ApplyOutcome,
        target: Recipient,
        ctx: &Ctx,
    ) {
        self.core.stats.operations += apply.ops.len() as u64;
        self.core.recent.iter_mut().for_each(|recent| recent.note_written(&apply.ops, now.mono_us));
        if target.kind == RecipientKind::Named {
            self.waits.turns.is_named(target);
        }
        if target.kind != RecipientKind::Silent {
            self.core.stats.locks.count_outcome(apply, &outcome, ctx);
        }
        self.tell(now, target, outcome, ctx.ts);
        if target.kind == RecipientKind::Silent {
            self.expiry.applied(&mut self.core, apply);
        }
    }
}

impl Shard {
    /// Applies an entry of another leader, or one that was read back at a start.
    pub fn replay(&mut self, now: Now, entry: Entry) {
        self.desk.core.state.tell_time(now.mono_us);
        self.desk.core.move_clock(entry.spacing().ts_of(entry.ts, entry.records.len()));
        let mut warm = 0;
        for (index, (ts, record)) in entry.timed().enumerate() {
            warm = self.desk.core.state.warm_for(&entry.records[index..], warm);
            let ctx = ctx_at(entry.now_ms, entry.seed, ts);
            if let Consequence::Split { child, state } = self.desk.core.apply(record, &ctx) {
                self.desk.splitting.split(child, *state, self.desk.core.clock);
            }
        }
    }

    /// Applies the oldest entry that was closed and not yet committed, which is durable on a majority now,
    /// and acts on what came of it.
    pub fn committed(&mut self, now: Now) {
        let Some(batch) = self.desk.core.tail.commit_next() else { return };
        self.desk.core.state.tell_time(now.mono_us);
        // What comes behind in this entry is not on its way any more, and is not carried out.
        let certain = std::mem::take(&mut self.desk.lead_is_certain);
        let mut warm = 0;
        for (index, record) in batch.records.iter().enumerate() {
            warm = self.desk.core.state.warm_for(&batch.records[index..], warm);
            let ctx = ctx_at(batch.now_ms, batch.seed, batch.ts_of(index));
            self.desk.commit(now, record, batch.targets[index], &ctx);
        }
        if batch.tracked {
            self.desk.core.land(&batch);
        }
        self.desk.lead_is_certain = certain;
        let certain = self.desk.may_tell_early();
        self.desk.waits.turns.tell_named(&mut self.desk.core, now, certain);
        self.desk.wake_blocked(now);
        self.desk.waits.blocked.end_coming(&mut self.desk.core, now);
        self.desk.resume_delayed(now);
        self.desk.settle(now);
    }
}

/// Knowledge of the operations of a record: the entry's time and random numbers, the record's timestamp.
fn ctx_at(now_ms: u64, seed: u64, ts: Timestamp) -> Ctx {
    Ctx { now_ms, ts, seed: mix(seed ^ ts.0) }
}
