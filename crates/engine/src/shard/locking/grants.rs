//! Grants of locks: the reply to a lock request, and the vote of a prepare.

use super::claims::Claims;
use super::manager::LockManager;
use crate::entry::{Apply, LogRecord};
use crate::ids::TxnId;
use crate::message::{Answer, Body, Condition, Early, Guard, Refusal, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::state::requests::Known;
use crate::shard::tail::{Recipient, RecipientKind};
use adt::record;
use adt::{Ctx, Op, Record, Reply, Timestamp};
use std::mem::discriminant;

impl LockManager {
    /// Grants a lock, and replies to its request.
    pub fn grant_lock(&mut self, core: &mut ShardCore, now: Now, request: Request, claims: Claims) {
        let Body::Lock { txn, key, op, own, early } = request.body else { return };
        let foreseen =
            claims.iter().any(|(key, claim)| core.locks.foreseen_for(key, claim).is_some());
        for (key, claim) in claims {
            self.hold(core, txn, &key, claim);
        }
        if txn.is_lease() {
            // The oldest waiting request counts, though all are younger than the lease.
            for waiter in core.locks.queue(&key) {
                self.wound_for(core, waiter);
                if self.wounded.contains_key(&txn) {
                    break;
                }
            }
        }
        let ctx = core.ctx(now);
        let foreseen = core.locks.foreseen(&key).filter(|_| foreseen);
        let record = foreseen.map_or_else(|| core.state.get(&key), Option::as_ref);
        let reply = if op.is_write() && early == Early::Deferred {
            check_early(&ctx, record, own.iter().chain([&op]))
        } else {
            answer_early(&ctx, record, &op, &own)
        };
        let mut rests_at = None;
        if foreseen.is_some()
            && let Some(entry) = self.txns.get_mut(&txn)
        {
            entry.rests_on = core.tail.newest();
            self.reads_ahead += 1;
            rests_at = Some(core.config.id).filter(|_| !core.config.clustered);
        }
        let clock = core.clock.max(Timestamp::from_micros(now.wall_us));
        core.clock = clock;
        core.answer(request.gateway, request.token, Answer::Locked { reply, clock, rests_at });
    }

    /// Prepares a transaction, or answers why it is not prepared. If this shard is the only participant,
    /// gives its operations back, which are to be logged.
    pub fn grant_prepare(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        request: Request,
        claims: Claims,
    ) -> Option<(Apply, TxnId)> {
        let Request { gateway, token, body, .. } = request;
        let Body::Prepare { mut prepare, floor } = body else { return None };
        core.renew_guards(&mut prepare.apply.guards, false);
        let txn = prepare.txn;
        if core.state.fates().is_void(txn) || self.voiding.contains(&txn) {
            // It was given up already.
            core.answer(gateway, token, Answer::Refused(Refusal::LocksLost));
            self.end(core, txn);
            return None;
        }
        core.move_clock(floor);
        let open = prepare.apply.request.as_ref().and_then(|id| self.open_requests.get(id));
        if open.is_some_and(|open| *open != txn) {
            core.answer(gateway, token, Answer::Refused(Refusal::UnderWay));
            self.end(core, txn);
            return None;
        }
        if prepare.participants.len() == 1 {
            if let Some(entry) = self.txns.get_mut(&txn) {
                entry.committing = true;
            }
            return Some((prepare.apply, txn));
        }
        if let Some(id) = &prepare.apply.request {
            let answer = core.state.requests().get(id).map(|known| match known {
                Known::TookEffect(outcome) => {
                    let (replies, whole) = outcome.clone().told();
                    Answer::TookEffect { ts: outcome.ts, replies, whole }
                }
                Known::Void => Answer::Voided,
                Known::Forgotten => Answer::Forgotten,
            });
            if let Some(answer) = answer {
                core.stats.duplicates += 1;
                core.answer(gateway, token, answer);
                self.end(core, txn);
                return None;
            }
            self.open_requests.insert(id.clone(), txn);
            if let Some(entry) = self.txns.get_mut(&txn) {
                entry.request = Some(id.clone());
            }
        }
        if let Err(failure) = core.check_guards(now, &prepare.apply) {
            core.stats.guard_failures += 1;
            core.answer(gateway, token, Answer::GuardFailed(failure));
            self.end(core, txn);
            return None;
        }
        let probes = self.probe(core, txn, &claims);
        for (key, claim) in claims {
            self.hold(core, txn, &key, claim);
        }
        let target = Recipient { gateway, token, kind: RecipientKind::Vote(txn) };
        if let Some(entry) = self.txns.get_mut(&txn) {
            entry.touched_us = now.mono_us;
            entry.probes = probes;
            entry.unlogged = Some((prepare, target));
        }
        self.log_prepare_if_ready(core, txn);
        None
    }

    /// Logs a prepare once all transactions that are decided before it are known to be (the record's
    /// timestamp is taken from the clock then).
    pub(super) fn log_prepare_if_ready(&mut self, core: &mut ShardCore, txn: TxnId) {
        let Some(entry) = self.txns.get_mut(&txn) else { return };
        if entry.probes.is_empty()
            && let Some((mut prepare, target)) = entry.unlogged.take()
        {
            entry.prepared = true;
            let guards = &mut prepare.apply.guards;
            for key in &entry.keys {
                // What its program was told of a record must hold until the commit under the next leader
                // as well, which knows only of locks that follow from this record.
                let keeps = |guard: &Guard| {
                    guard.key == *key && matches!(guard.condition, Condition::Unchanged(_))
                };
                if core.locks.is_told(key, txn) && !guards.iter().any(keeps) {
                    let version = core.state.records().version(key, &core.ahead);
                    guards
                        .push(Guard { key: key.clone(), condition: Condition::Unchanged(version) });
                }
            }
            core.log(LogRecord::Prepare(prepare), target);
            self.doubt(core, txn);
        }
    }
}

/// Reply of `op` on a record with the transaction's own writes on top.
fn answer_early(ctx: &Ctx, record: Option<&Record>, op: &Op, own: &[Op]) -> Reply {
    if own.is_empty() {
        if !op.is_write() {
            return record::query(record, op, ctx);
        }
        // A copy of a large record takes long.
        if let Some(reply) = record::foretell(record, op, ctx) {
            return reply;
        }
    }
    let mut scratch = record.cloned();
    for earlier in own {
        record::apply(&mut scratch, earlier, ctx);
    }
    record::apply(&mut scratch, op, ctx)
}

/// `QUEUED` if writes are all possible on a record, or the first error.
fn check_early<'a>(
    ctx: &Ctx,
    record: Option<&Record>,
    writes: impl Iterator<Item = &'a Op> + Clone,
) -> Reply {
    let queued = Reply::status("QUEUED");
    // If they are for one type and always possible on it, none of them meets what another one has made.
    let kind = writes.clone().next().map(discriminant);
    let fits = |op: &Op| Some(discriminant(op)) == kind && record::is_always_possible(record, op);
    if writes.clone().all(fits) {
        return queued;
    }
    let mut scratch = record.cloned();
    let mut replies = writes.map(|op| record::apply(&mut scratch, op, ctx));
    replies.find(Reply::is_error).unwrap_or(queued)
}
