//! Fate of transactions and of requests: decisions, replies of executed transactions, inquiries.
//!
//! For transactions over several shards whose coordinator is silent see "When a coordinator is gone" in
//! `docs/internals/replication/transactions.md`.

use super::claims::claims_of;
use super::manager::{LockManager, OpenTxn};
use crate::entry::LogRecord;
use crate::ids::{Age, GatewayId, RequestId, Token, TxnId};
use crate::message::{Answer, Body, Fate, Refusal, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::state::{OpReplies, PreparedTxn};
use crate::shard::tail::{Recipient, RecipientKind};
use adt::{Blob, Timestamp};
use std::collections::BTreeSet;

/// Answer to an inquiry about a transaction.
pub(in crate::shard) enum FateAnswer {
    /// The fate is known.
    Known(Fate),
    /// The prepare is on its way to the log: the inquiry waits for it.
    Later,
    /// The transaction is not prepared here, and never will be.
    Void,
}

impl LockManager {
    /// Decides a transaction that was asked to prepare here; `from` gets the replies when it is carried out.
    /// Tells whether the decision is new and logged: the state is to carry it out then.
    pub fn decide(
        &mut self,
        core: &mut ShardCore,
        (from, token): (GatewayId, Token),
        txn: TxnId,
        commit: Option<Timestamp>,
    ) -> bool {
        let Some(entry) = self.txns.get_mut(&txn) else {
            if commit.is_some() {
                // The decision came before, from another sender.
                let replies = core.state.fates().replies_of(txn).cloned();
                let answer = replies.map_or(Answer::CarriedOut, Answer::Replies);
                core.answer(from, token, answer);
            }
            return false;
        };
        if entry.decided.is_some() {
            entry.askers.push((from, token));
            return false;
        }
        if entry.committing {
            // It is in the log as the only participant's: too late to give it up.
            return false;
        }
        if !entry.prepared {
            // Its prepare never got as far as the log.
            self.end(core, txn);
            return false;
        }
        entry.decided = Some((from, token));
        self.doubtful.remove(&txn);
        let target = Recipient { gateway: from, token, kind: RecipientKind::Silent };
        core.log(LogRecord::Outcome { txn, commit }, target);
        core.state.prepared.act_ahead(txn, commit);
        if let Some(ts) = commit {
            core.move_clock(ts);
        } else {
            self.end(core, txn);
        }
        self.probe_answered(core, txn);
        true
    }

    /// Releases what a decided transaction has locked before it was prepared. Later transactions get later
    /// timestamps: what it has read stays true for it, though it may have to wait for others before it is
    /// carried out.
    pub fn release_early(&mut self, core: &mut ShardCore, txn: TxnId) {
        let Some(entry) = self.txns.get(&txn) else { return };
        for key in &entry.keys {
            core.locks.release_early(key, txn);
        }
    }

    /// Answers the senders of a transaction's decision: it was carried out. Then it ends.
    pub fn executed(&mut self, core: &mut ShardCore, now: Now, txn: TxnId, replies: OpReplies) {
        if let (Some(recent), Some(entry)) = (&mut core.recent, self.txns.get(&txn)) {
            entry.keys.iter().for_each(|key| recent.note(key, now.mono_us));
            if self.whole.is(txn) {
                recent.note_all(now.mono_us);
            }
        }
        if let Some(entry) = self.txns.get_mut(&txn) {
            let (gateway, token) = entry.decided.unwrap_or_default();
            for (gateway, token) in std::mem::take(&mut entry.askers) {
                core.answer(gateway, token, Answer::Replies(replies.clone()));
            }
            core.answer(gateway, token, Answer::Replies(replies));
        }
        self.end(core, txn);
    }

    /// Holds the locks of a transaction again that an earlier leader has prepared.
    pub fn inherit(&mut self, core: &mut ShardCore, now: Now, inherited: PreparedTxn) {
        let (txn, prepare) = (inherited.prepare.txn, inherited.prepare);
        let request = prepare.apply.request.clone();
        let entry = OpenTxn {
            gateway: txn.age.gateway,
            touched_us: now.mono_us,
            prepared: true,
            decided: inherited.commit.map(|_| Default::default()),
            request: request.clone(),
            inherited: true,
            ..OpenTxn::default()
        };
        self.txns.insert(txn, entry);
        self.youngest = self.youngest.max(txn.age);
        self.doubt(core, txn);
        if let Some(id) = request {
            self.open_requests.insert(id, txn);
        }
        self.whole.inherit(&prepare);
        let body = Body::Prepare { prepare, floor: Timestamp::ZERO };
        let claims = claims_of(&body, &core.config.tags);
        for (key, claim) in claims {
            self.hold(core, txn, &key, claim);
        }
        if inherited.commit.is_some() {
            self.release_early(core, txn);
        }
    }

    /// Passes on to undecided transactions that decided ones have begun to wait for them: older requests
    /// that wait for the decided ones wait for these as well. Units of pipelines, if any hold records, cannot
    /// give way.
    pub fn pass_blame_on(&mut self, core: &mut ShardCore, units: bool) {
        let moved = core.ahead.take_moved();
        if moved.is_empty() {
            return;
        }
        let oldest = self.ages.first().map(|(age, _)| *age);
        if oldest.is_none() && !units {
            return;
        }
        let mut seen = BTreeSet::new();
        let awaited = moved.iter().filter_map(|t| core.state.prepared.awaited_by(*t, &mut seen));
        let mut awaited: Vec<TxnId> = awaited.collect();
        awaited.sort_unstable();
        awaited.dedup();
        for txn in awaited {
            if self.wounded.contains_key(&txn) {
                continue;
            }
            let behind = core.state.prepared.decided_behind(txn);
            if behind.iter().any(|decided| core.state.prepared.is_unit(*decided)) {
                // At other shards, others of its stream may hold up what the transaction waits for there.
                self.wound(core, txn, Age::OLDEST);
                continue;
            }
            if oldest.is_none_or(|oldest| txn.age <= oldest) {
                continue;
            }
            let ages = behind.into_iter().filter_map(|decided| self.oldest_behind(core, decided));
            if let Some(age) = ages.min().filter(|age| *age < txn.age) {
                self.wound(core, txn, age);
            }
        }
    }

    /// Age of the oldest request that waits for locks of `txn`.
    fn oldest_behind(&self, core: &ShardCore, txn: TxnId) -> Option<Age> {
        let behind = |key: &Blob| core.locks.oldest_behind(key, txn, core.state.get(key));
        match self.txns.get(&txn) {
            Some(entry) => entry.keys.iter().filter_map(behind).min(),
            None => {
                let ops = &core.state.prepared().get(&txn)?.prepare.apply.ops;
                ops.iter().filter_map(|(key, _)| behind(key)).min()
            }
        }
    }

    /// Whether a request number belongs to a transaction over several shards that is not decided.
    pub fn is_under_way(&self, request: Option<&RequestId>) -> bool {
        let open = request.and_then(|id| self.open_requests.get(id));
        open.is_some_and(|txn| *txn != TxnId::default())
    }

    /// Settles whether a request took effect, as soon as no transaction under its number is open.
    pub fn resolve_request(&mut self, core: &mut ShardCore, request: Request) {
        let Body::Resolve(ref id) = request.body else { return };
        if self.open_requests.contains_key(id) {
            self.resolving.entry(id.clone()).or_default().push(request);
            return;
        }
        let (id, kind) = (id.clone(), RecipientKind::Resolved);
        // No transaction may prepare under this number while the record is on its way.
        self.open_requests.insert(id.clone(), TxnId::default());
        let target = Recipient { gateway: request.gateway, token: request.token, kind };
        core.log(LogRecord::Resolve(id), target);
    }

    /// Notes that nothing under this request number is open any more.
    pub fn close_request(&mut self, core: &mut ShardCore, id: &RequestId) {
        self.open_requests.remove(id);
        for request in self.resolving.remove(id).into_iter().flatten() {
            self.resolve_request(core, request);
        }
    }

    /// Refuses a prepare that still waits; one that is in the log goes on.
    pub fn cancel(&mut self, core: &mut ShardCore, txn: TxnId, why: Refusal) {
        let waiting = self.txns.get(&txn).map_or(&[][..], |entry| &entry.waiters);
        let prepare = waiting.iter().copied().find(|id| {
            let waiter = self.waiters.get(id);
            waiter.is_some_and(|w| matches!(w.request.body, Body::Prepare { .. }))
        });
        if let Some(id) = prepare {
            self.refuse_waiter(core, id, why);
        } else if let Some(request) = core.delayed.take_prepare(txn) {
            core.answer(request.gateway, request.token, Answer::Refused(why));
        }
    }

    /// Fate of a transaction, for a gateway that asks for it. If it is not prepared here, it never will be:
    /// [`LockManager::void`] logs that, before it is answered.
    pub fn inquire(&self, core: &ShardCore, txn: TxnId) -> FateAnswer {
        if let Some(prepared) = core.state.prepared().get(&txn) {
            return match prepared.commit {
                Some(commit) => FateAnswer::Known(Fate::Committed(commit)),
                // Not durable yet.
                None if core.ahead.is_announced(txn) => FateAnswer::Later,
                None => FateAnswer::Known(Fate::Prepared { bound: prepared.bound }),
            };
        }
        if let Some(commit) = core.state.fates().outcome(txn) {
            return FateAnswer::Known(Fate::Committed(commit));
        }
        // In the entry of this turn.
        if self.is_prepared(txn) { FateAnswer::Later } else { FateAnswer::Void }
    }

    /// Refuses whatever a transaction that is not prepared here waits for, and logs that it never will be
    /// prepared.
    pub fn void(&mut self, core: &mut ShardCore, from: (GatewayId, Token), txn: TxnId) {
        if let Some(entry) = self.txns.get_mut(&txn) {
            let unlogged = entry.unlogged.take();
            let waiters = std::mem::take(&mut entry.waiters);
            let refused = || Answer::Refused(Refusal::LocksLost);
            if let Some((_, target)) = unlogged {
                core.answer(target.gateway, target.token, refused());
            }
            for id in waiters {
                if let Some(waiter) = self.take_waiter(core, id) {
                    core.answer(waiter.request.gateway, waiter.request.token, refused());
                }
            }
            self.end(core, txn);
        }
        self.voiding.insert(txn);
        let target = Recipient { gateway: from.0, token: from.1, kind: RecipientKind::Voided };
        core.log(LogRecord::Void(txn), target);
    }

    /// Notes that the log says that a transaction never will be prepared here.
    pub fn voided(&mut self, txn: TxnId) {
        self.voiding.remove(&txn);
    }
}
