//! Answers to requests that were carried out, and the fate of transactions.

use crate::entry::LogRecord;
use crate::ids::{Age, GatewayId, RequestId, Token, TxnId};
use crate::message::{Answer, Body, Refusal, Request};
use crate::now::Now;
use crate::shard::state::{ApplyOutcome, Executed};
use crate::shard::{Recipient, RecipientKind, Shard};
use adt::{Blob, Timestamp};
use std::collections::BTreeSet;

impl Shard {
    pub(in crate::shard) fn tell(
        &mut self,
        now: Now,
        target: Recipient,
        outcome: ApplyOutcome,
        ts: Timestamp,
    ) {
        let answer = match outcome {
            ApplyOutcome::Done(replies) if matches!(target.kind, RecipientKind::Commit(_)) => {
                Answer::Committed { replies, ts }
            }
            ApplyOutcome::Done(replies) => Answer::Replies(replies),
            ApplyOutcome::GuardFailed => {
                self.core.stats.guard_failures += 1;
                Answer::GuardFailed
            }
            ApplyOutcome::Fenced => {
                self.core.stats.guard_failures += 1;
                Answer::Fenced
            }
            ApplyOutcome::Repeated(outcome) => {
                self.core.stats.duplicates += 1;
                let (ts, dropped) = (outcome.ts, outcome.dropped.is_some());
                let (replies, whole) = outcome.told();
                if whole || dropped || matches!(target.kind, RecipientKind::Commit(_)) {
                    Answer::TookEffect { ts, replies, whole }
                } else {
                    Answer::Repeated(replies.into())
                }
            }
            ApplyOutcome::Voided => Answer::Voided,
            ApplyOutcome::Forgotten => Answer::Forgotten,
        };
        match target.kind {
            RecipientKind::Silent | RecipientKind::Named => return,
            RecipientKind::Turn => return self.turn_taken(now, target, answer),
            RecipientKind::Taken => {
                return self.taken(now, (target.gateway, target.token), &answer);
            }
            RecipientKind::Commit(txn) => self.end_txn(txn),
            RecipientKind::Replies
            | RecipientKind::Vote(_)
            | RecipientKind::Flushed
            | RecipientKind::Resolved
            | RecipientKind::Remembered
            | RecipientKind::Coordinated
            | RecipientKind::Voided => {}
        }
        self.core.answer(target.gateway, target.token, answer);
    }

    pub(in crate::shard) fn resume_after(&mut self, now: Now) {
        while self.after.front().is_some_and(|(number, _)| *number <= self.core.tail.applied()) {
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
                let replies = self.core.state.replies_of(txn).cloned();
                let answer = replies.map_or(Answer::CarriedOut, Answer::Replies);
                self.core.answer(from, token, answer);
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
        let target = Recipient { gateway: from, token, kind: RecipientKind::Silent };
        self.core.log(LogRecord::Outcome { txn, commit }, target);
        self.core.state.act_ahead(txn, commit);
        if let Some(ts) = commit {
            self.core.move_clock(ts);
        } else {
            self.end_txn(txn);
        }
        self.probe_answered(txn);
        let executed = self.core.state.decide(txn, commit, &mut self.core.ahead);
        self.finish(now, executed);
        self.release_early(txn);
        self.carried_out(now);
    }

    /// Whoever comes after the decision gets a later timestamp: what a transaction has read stays true for
    /// it, though it may have to wait for others before it is carried out.
    pub(in crate::shard) fn release_early(&mut self, txn: TxnId) {
        let Some(entry) = self.txns.get(&txn) else { return };
        for key in &entry.keys {
            self.core.locks.release_early(key, txn);
        }
    }

    /// What had to wait was carried out, or has moved: others hear of it.
    pub(in crate::shard) fn carried_out(&mut self, now: Now) {
        self.wake_blocked(now);
        self.pass_blame_on();
    }

    pub(in crate::shard) fn wake_blocked(&mut self, now: Now) {
        for key in self.core.ahead.take_changed() {
            self.turn_may_come(&key);
            self.show(now, &key);
            self.tell_blocked(now, &key);
        }
        self.look_at_turns(now);
    }

    /// Who waits for a committed transaction that must wait for others waits for these as well.
    fn pass_blame_on(&mut self) {
        let moved = self.core.ahead.take_moved();
        if moved.is_empty() {
            return;
        }
        let oldest = self.waiters.values().map(|waiter| waiter.age).min();
        if oldest.is_none() && !self.streams.hold_records() {
            return;
        }
        let awaited =
            moved.iter().filter_map(|t| self.core.state.awaited_by(*t, &mut BTreeSet::new()));
        let mut awaited: Vec<TxnId> = awaited.collect();
        awaited.sort_unstable();
        awaited.dedup();
        for txn in awaited {
            if self.wounded.contains_key(&txn) {
                continue;
            }
            let behind = self.core.state.decided_behind(txn);
            if behind.iter().any(|decided| self.core.state.is_unit(*decided)) {
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
        let behind = |key: &Blob| self.core.locks.oldest_behind(key, txn, self.core.state.get(key));
        match self.txns.get(&txn) {
            Some(entry) => entry.keys.iter().filter_map(behind).min(),
            None => {
                let ops = &self.core.state.prepared().get(&txn)?.prepare.apply.ops;
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
        let (id, kind) = (id.clone(), RecipientKind::Resolved);
        // Nobody may prepare under this number while the record is on its way.
        self.open_requests.insert(id.clone(), TxnId::default());
        let target = Recipient { gateway: request.gateway, token: request.token, kind };
        self.core.log(LogRecord::Resolve(id), target);
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
        self.core.answer(waiter.request.gateway, waiter.request.token, refused);
    }

    pub(in crate::shard) fn finish(&mut self, now: Now, executed: Vec<Executed>) {
        for Executed { txn, replies } in executed {
            self.core.stats.operations += replies.len() as u64;
            if self.unit_executed(now, txn, &replies) {
                continue;
            }
            if let (Some(recent), Some(entry)) = (&mut self.core.recent, self.txns.get(&txn)) {
                entry.keys.iter().for_each(|key| recent.note(key, now.mono_us));
                if self.whole == Some(txn) {
                    recent.note_all(now.mono_us);
                }
            }
            if let Some(entry) = self.txns.get_mut(&txn) {
                let (gateway, token) = entry.decided.unwrap_or_default();
                for (gateway, token) in std::mem::take(&mut entry.askers) {
                    self.core.answer(gateway, token, Answer::Replies(replies.clone()));
                }
                self.core.answer(gateway, token, Answer::Replies(replies));
            }
            self.end_txn(txn);
        }
    }

    /// Settles a transaction that a start has found open, before there are any requests.
    pub fn resolve(&mut self, now: Now, txn: TxnId, commit: Option<Timestamp>) {
        self.decide(now, Default::default(), txn, commit);
        // There is nobody yet to whom anything could be said.
        self.core.outbox.clear();
    }
}

/// The read does not have to wait for the session's writes any more.
fn unfenced(mut request: crate::message::Request) -> crate::message::Request {
    if let Body::Read { fenced, .. } | Body::Snapshot { fenced, .. } = &mut request.body {
        *fenced = false;
    }
    request
}
