//! What happens when log entries come back durable, and when the fate of a transaction is known.

use crate::entry::{Entry, LogRecord, Prepare};
use crate::message::{
    Age, Answer, Body, Fate, GatewayId, Now, Refusal, Request, RequestId, Token, TxnId,
};
use crate::shard::state::{Executed, Outcome, State, mix};
use crate::shard::{Batch, Shard, Target, TargetKind};
use adt::{Blob, Ctx, Reply, Timestamp};
use std::collections::BTreeSet;

impl Shard {
    /// The oldest entry that was closed and not yet committed is durable on a majority: its
    /// records take effect.
    pub fn committed(&mut self, now: Now) {
        let Some(batch) = self.in_flight.pop_front() else { return };
        self.state.tell_time(now.mono_us);
        self.applied = batch.number;
        // What comes behind in this entry is not on its way any more, and is not carried out.
        let certain = std::mem::take(&mut self.lead_is_certain);
        for (index, record) in batch.records.iter().enumerate() {
            let ctx = ctx_of(&batch, index);
            self.commit_record(now, record, batch.targets[index], &ctx);
        }
        if batch.tracked {
            self.land(&batch);
        }
        self.lead_is_certain = certain;
        self.tell_named(now);
        self.wake_blocked(now);
        self.end_coming(now);
        self.resume_after(now);
        self.settle(now);
    }

    fn commit_record(&mut self, now: Now, record: &LogRecord, target: Target, ctx: &Ctx) {
        match record {
            LogRecord::Apply(apply) => {
                self.before_change(&apply.ops);
                self.stats.operations += apply.ops.len() as u64;
                let recent = self.recent.iter_mut();
                recent.for_each(|recent| recent.note_written(&apply.ops, now.mono_us));
                let outcome = self.state.apply(apply, ctx);
                if target.kind == TargetKind::Named {
                    self.turns.is_named(target);
                }
                if target.kind != TargetKind::Nobody {
                    self.count_locks(apply, &outcome, ctx);
                }
                self.tell(now, target, outcome, ctx.ts);
                if target.kind == TargetKind::Nobody
                    && let Some((key, _)) = apply.ops.first()
                    && self.reaping.remove(key)
                {
                    self.stats.expired += 1;
                }
            }
            LogRecord::Prepare(_) => {
                let TargetKind::Vote(txn) = target.kind else { return };
                // If it was aborted in the meantime, the outcome is in the log behind it.
                let open = self.state.confirm(txn);
                let Some(entry) = self.txns.get(&txn).filter(|_| open) else { return };
                let prepared = Answer::Prepared { bound: ctx.ts };
                self.answer(entry.gateway, target.token, prepared);
            }
            // The leader acted when it was told the outcome; the record is for the others.
            LogRecord::Outcome { txn, .. } => self.state.settle(*txn),
            LogRecord::Void(txn) => {
                self.voiding.remove(txn);
                self.state.void(*txn);
                self.answer(target.gateway, target.token, Answer::Fate(Fate::Void));
            }
            LogRecord::Flush => {
                self.keep_all_for_snapshot();
                self.state.flush(ctx.ts);
                self.recent.iter_mut().for_each(|recent| recent.note_all(now.mono_us));
                self.answer(target.gateway, target.token, Answer::Reply(Reply::Ok));
            }
            LogRecord::Coordinate(command) => self.command_committed(now, command, target, ctx),
            LogRecord::Split { child, first, at, last } => self.split(*child, *first, (*at, *last)),
            LogRecord::Propose(group) => self.proposed(group, ctx.ts),
            LogRecord::Place { stream, units } => self.state.place_units(*stream, units),
            LogRecord::Settle { stream, units } => {
                let executed = self.state.settle_units(*stream, units);
                self.finish(now, executed);
                self.asks_settled(now, *stream, units, ctx);
                self.units_settled(*stream);
            }
            LogRecord::Refuse(stream) => self.stream_refused(*stream),
            LogRecord::Content(_) | LogRecord::Ordered { .. } | LogRecord::Promise { .. } => {
                self.commit_chain(now, record, ctx);
            }
            LogRecord::Outlive(streams) => self.state.outlive_streams(streams),
            LogRecord::Forget(streams) => {
                streams.iter().for_each(|stream| self.state.forget_stream(*stream));
            }
            LogRecord::Answered(told) => {
                self.state.requests_mut().answered(&told.request, told.replies.clone());
                self.answer(target.gateway, target.token, Answer::Reply(Reply::Ok));
            }
            LogRecord::Resolve(request) => {
                let took_effect = self.state.requests_mut().resolve(request.clone(), ctx.ts);
                let answer = took_effect.map_or(Answer::Forgotten, |took_effect| {
                    Answer::Reply(Reply::Int(took_effect.into()))
                });
                self.answer(target.gateway, target.token, answer);
                self.close_request(request);
            }
        }
    }

    pub(in crate::shard) fn tell(
        &mut self,
        now: Now,
        target: Target,
        outcome: Outcome,
        ts: Timestamp,
    ) {
        let answer = match outcome {
            Outcome::Done(replies) if matches!(target.kind, TargetKind::Commit(_)) => {
                Answer::Committed { replies, ts }
            }
            Outcome::Done(replies) => Answer::Replies(replies),
            Outcome::GuardFailed => {
                self.stats.guard_failures += 1;
                Answer::GuardFailed
            }
            Outcome::Fenced => {
                self.stats.guard_failures += 1;
                Answer::Fenced
            }
            Outcome::Repeated(outcome) => {
                self.stats.duplicates += 1;
                let (ts, dropped) = (outcome.ts, outcome.dropped.is_some());
                let (replies, whole) = outcome.told();
                if whole || dropped || matches!(target.kind, TargetKind::Commit(_)) {
                    Answer::TookEffect { ts, replies, whole }
                } else {
                    Answer::Repeated(replies.into())
                }
            }
            Outcome::Voided => Answer::Voided,
            Outcome::Forgotten => Answer::Forgotten,
        };
        match target.kind {
            TargetKind::Nobody | TargetKind::Named => return,
            TargetKind::Turn => return self.turn_taken(now, target, answer),
            TargetKind::Taken => {
                return self.taken(now, (target.gateway, target.token), &answer);
            }
            TargetKind::Commit(txn) => self.end_txn(txn),
            TargetKind::Replies
            | TargetKind::Vote(_)
            | TargetKind::Flushed
            | TargetKind::Resolved
            | TargetKind::Remembered
            | TargetKind::Coordinated
            | TargetKind::Voided => {}
        }
        self.answer(target.gateway, target.token, answer);
    }

    fn land(&mut self, batch: &Batch) {
        for record in &batch.records {
            for (key, op) in record.ops() {
                if op.is_write() && self.locks.land(key, batch.number) {
                    self.dirty.push(key.clone());
                }
            }
        }
    }

    pub(in crate::shard) fn resume_after(&mut self, now: Now) {
        while self.after.front().is_some_and(|(number, _)| *number <= self.applied) {
            let Some((_, request)) = self.after.pop_front() else { return };
            match request.body {
                crate::message::Body::Read { .. } => self.read(now, unfenced(request)),
                crate::message::Body::Snapshot { .. } => self.snapshot_read(now, unfenced(request)),
                Body::Inquire { txn } => self.inquire(request.gateway, request.token, txn),
                Body::Coordinate(_) => self.coordinate_later(now, request),
                _ => self.look(now, request),
            }
        }
    }

    /// The fate of a transaction that was asked to prepare here. `from` is told when it is carried
    /// out.
    pub(in crate::shard) fn decide(
        &mut self,
        now: Now,
        (from, token): (GatewayId, Token),
        txn: TxnId,
        commit: Option<Timestamp>,
    ) {
        let Some(entry) = self.txns.get_mut(&txn) else {
            if commit.is_some() {
                // Somebody else has told before.
                let replies = self.state.replies_of(txn).cloned();
                let answer = replies.map_or(Answer::CarriedOut, Answer::Replies);
                self.answer(from, token, answer);
            }
            return;
        };
        if entry.decided.is_some() {
            entry.askers.push((from, token));
            return;
        }
        if entry.committing {
            // It is in the log as the only participant's: too late to give it up.
            return;
        }
        if !entry.prepared {
            // Its prepare never got as far as the log.
            return self.end_txn(txn);
        }
        entry.decided = Some((from, token));
        let target = Target { gateway: from, token, kind: TargetKind::Nobody };
        self.log(LogRecord::Outcome { txn, commit }, target);
        self.state.act_ahead(txn, commit);
        if let Some(ts) = commit {
            self.move_clock(ts);
        } else {
            self.end_txn(txn);
        }
        self.probe_answered(txn);
        let executed = self.state.decide(txn, commit);
        self.finish(now, executed);
        self.release_early(txn);
        self.carried_out(now);
    }

    /// Whoever comes after the decision gets a later timestamp: what a transaction has read stays true for
    /// it, though it may have to wait for others before it is carried out.
    pub(in crate::shard) fn release_early(&mut self, txn: TxnId) {
        let Some(entry) = self.txns.get(&txn) else { return };
        for key in &entry.keys {
            if self.locks.release_early(key, txn) {
                self.dirty.push(key.clone());
            }
        }
    }

    /// What had to wait was carried out, or has moved: others hear of it.
    pub(in crate::shard) fn carried_out(&mut self, now: Now) {
        self.wake_blocked(now);
        self.pass_blame_on();
    }

    fn wake_blocked(&mut self, now: Now) {
        for key in self.state.take_changed() {
            self.turn_may_come(&key);
            self.show(now, &key);
            self.tell_blocked(now, &key);
        }
        self.look_at_turns(now);
    }

    /// Who waits for a committed transaction that must wait for others waits for these as well.
    fn pass_blame_on(&mut self) {
        let moved = self.state.take_moved();
        if moved.is_empty() {
            return;
        }
        let oldest = self.waiters.values().map(|waiter| waiter.age).min();
        if oldest.is_none() && !self.streams.hold_records() {
            return;
        }
        let awaited = moved.iter().filter_map(|t| self.state.awaited_by(*t, &mut BTreeSet::new()));
        let mut awaited: Vec<TxnId> = awaited.collect();
        awaited.sort_unstable();
        awaited.dedup();
        for txn in awaited {
            if self.wounded.contains_key(&txn) {
                continue;
            }
            let behind = self.state.decided_behind(txn);
            if behind.iter().any(|decided| self.state.is_unit(*decided)) {
                // At other shards, others of its stream may hold up what the transaction waits for there.
                self.wound(txn, Age::OLDEST);
                continue;
            }
            if oldest.is_none_or(|oldest| txn.age <= oldest) {
                continue;
            }
            let ages = behind.into_iter().filter_map(|decided| self.oldest_behind(decided));
            if let Some(age) = ages.min().filter(|age| *age < txn.age) {
                self.wound(txn, age);
            }
        }
    }

    /// Age of the oldest request that waits for locks of `txn`.
    fn oldest_behind(&self, txn: TxnId) -> Option<Age> {
        let behind = |key: &Blob| self.locks.oldest_behind(key, txn, self.state.get(key));
        match self.txns.get(&txn) {
            Some(entry) => entry.keys.iter().filter_map(behind).min(),
            None => {
                let ops = &self.state.prepared().get(&txn)?.prepare.apply.ops;
                ops.iter().filter_map(|(key, _)| behind(key)).min()
            }
        }
    }

    /// Settles whether a request took effect, as soon as no transaction under its number is open.
    pub(in crate::shard) fn resolve_request(&mut self, request: Request) {
        let Body::Resolve(ref id) = request.body else { return };
        if self.open_requests.contains_key(id) {
            self.resolving.entry(id.clone()).or_default().push(request);
            return;
        }
        let (id, kind) = (id.clone(), TargetKind::Resolved);
        // Nobody may prepare under this number while the record is on its way.
        self.open_requests.insert(id.clone(), TxnId::default());
        let target = Target { gateway: request.gateway, token: request.token, kind };
        self.log(LogRecord::Resolve(id), target);
    }

    /// Nothing under this number is open any more.
    pub(in crate::shard) fn close_request(&mut self, id: &RequestId) {
        self.open_requests.remove(id);
        for request in self.resolving.remove(id).into_iter().flatten() {
            self.resolve_request(request);
        }
    }

    /// A prepare that still waits is refused; one that is in the log goes on.
    pub(in crate::shard) fn cancel(&mut self, txn: TxnId, why: Refusal) {
        let waiting = self.txns.get(&txn).map_or(&[][..], |entry| &entry.waiters);
        let prepare = waiting.iter().copied().find(|id| {
            let waiter = self.waiters.get(id);
            waiter.is_some_and(|w| matches!(w.request.body, Body::Prepare { .. }))
        });
        self.refuse_newcomer(txn, why);
        let Some(id) = prepare else { return };
        let Some(waiter) = self.waiters.remove(&id) else { return };
        self.leave_queues(id, &waiter);
        if let Some(entry) = self.txns.get_mut(&txn) {
            entry.waiters.retain(|waiter| *waiter != id);
        }
        let refused = Answer::Refused(why);
        self.answer(waiter.request.gateway, waiter.request.token, refused);
    }

    pub(in crate::shard) fn finish(&mut self, now: Now, executed: Vec<Executed>) {
        for Executed { txn, replies } in executed {
            self.stats.operations += replies.len() as u64;
            if self.unit_executed(now, txn, &replies) {
                continue;
            }
            if let (Some(recent), Some(entry)) = (&mut self.recent, self.txns.get(&txn)) {
                entry.keys.iter().for_each(|key| recent.note(key, now.mono_us));
                if self.whole == Some(txn) {
                    recent.note_all(now.mono_us);
                }
            }
            if let Some(entry) = self.txns.get_mut(&txn) {
                let (gateway, token) = entry.decided.unwrap_or_default();
                for (gateway, token) in std::mem::take(&mut entry.askers) {
                    self.answer(gateway, token, Answer::Replies(replies.clone()));
                }
                self.answer(gateway, token, Answer::Replies(replies));
            }
            self.end_txn(txn);
        }
    }

    /// Settles a transaction that a start has found open, before there are any requests.
    pub fn resolve(&mut self, now: Now, txn: TxnId, commit: Option<Timestamp>) {
        self.decide(now, Default::default(), txn, commit);
        // There is nobody yet to whom anything could be said.
        self.outputs.clear();
    }

    /// Applies an entry read back from the log: a follower's way, and a start's.
    pub fn replay(&mut self, now: Now, entry: Entry) {
        self.state.tell_time(now.mono_us);
        for record in &entry.records {
            match record {
                LogRecord::Apply(apply) | LogRecord::Prepare(Prepare { apply, .. }) => {
                    self.before_change(&apply.ops);
                }
                // Units of the latter kind may take effect in the same entry.
                LogRecord::Propose(group) | LogRecord::Content(group) => self.before_units(group),
                LogRecord::Ordered { stream, link, .. } => self.before_ordered(*stream, link.seq),
                LogRecord::Flush => self.keep_all_for_snapshot(),
                LogRecord::Coordinate(command) => self.before_command(command),
                LogRecord::Settle { stream, units } => self.before_asks(*stream, units),
                // They change no record that a snapshot or a lock is about.
                LogRecord::Outcome { .. }
                | LogRecord::Void(_)
                | LogRecord::Resolve(_)
                | LogRecord::Answered(_)
                | LogRecord::Place { .. }
                | LogRecord::Refuse(_)
                | LogRecord::Forget(_)
                | LogRecord::Outlive(_)
                | LogRecord::Promise { .. }
                | LogRecord::Split { .. } => {}
            }
        }
        replay_into(&mut self.state, &entry);
        let last = entry.spacing().ts_of(entry.ts, entry.records.len());
        self.move_clock(last);
        for record in &entry.records {
            if let LogRecord::Split { child, first, at, last } = record {
                self.split(*child, *first, (*at, *last));
            }
        }
    }
}

/// The read does not have to wait for the session's writes any more.
fn unfenced(mut request: crate::message::Request) -> crate::message::Request {
    if let Body::Read { fenced, .. } | Body::Snapshot { fenced, .. } = &mut request.body {
        *fenced = false;
    }
    request
}

fn ctx_of(batch: &Batch, index: usize) -> Ctx {
    let ts = batch.ts_of(index);
    Ctx { now_ms: batch.now_ms, ts, seed: mix(batch.seed ^ ts.0) }
}

fn replay_into(state: &mut State, entry: &Entry) {
    for (ts, record) in entry.timed() {
        let ctx = Ctx { now_ms: entry.now_ms, ts, seed: mix(entry.seed ^ ts.0) };
        match record {
            LogRecord::Apply(apply) => {
                state.apply(apply, &ctx);
            }
            LogRecord::Prepare(prepare) => state.prepare(prepare.clone(), ts),
            LogRecord::Outcome { txn, commit } => {
                state.decide(*txn, *commit);
                state.settle(*txn);
                state.take_moved();
            }
            LogRecord::Void(txn) => state.void(*txn),
            LogRecord::Flush => state.flush(ts),
            LogRecord::Coordinate(command) => {
                state.carry_out_command(command, &ctx);
            }
            // Comes alone, and makes a new state: see its caller.
            LogRecord::Split { .. } => {}
            LogRecord::Propose(group) => {
                state.prepare_units(group, ts);
                state.keep_group(group, ts);
            }
            LogRecord::Place { stream, units } => {
                state.place_units(*stream, units);
                state.take_moved();
            }
            LogRecord::Settle { stream, units } => {
                state.settle_units(*stream, units);
                state.settle_asks(*stream, units, &ctx);
                state.take_moved();
            }
            LogRecord::Refuse(stream) => state.refuse_stream(*stream),
            LogRecord::Content(_) | LogRecord::Ordered { .. } | LogRecord::Promise { .. } => {
                state.replay_chain(record, ts, &ctx);
            }
            LogRecord::Outlive(streams) => state.outlive_streams(streams),
            LogRecord::Forget(streams) => streams.iter().for_each(|s| state.forget_stream(*s)),
            LogRecord::Answered(told) => {
                state.requests_mut().answered(&told.request, told.replies.clone());
            }
            LogRecord::Resolve(request) => {
                state.requests_mut().resolve(request.clone(), ts);
            }
        }
    }
}
