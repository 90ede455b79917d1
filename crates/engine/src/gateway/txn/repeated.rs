//! Requests that are repeated under their number: what they have answered is answered again.
//!
//! A shard remembers the replies of its operations with the request. If those make the reply, that is
//! all. Otherwise (several shards, what depends on what was read, what the session carries out behind its
//! transaction) the gateway tells the shard that remembers the request, behind the reply, what its
//! commands have answered. A gateway that is asked the same in the meantime asks again for a while. If
//! the first one is lost before, the replies are, and the client is told so, and when the request took
//! effect. Nothing is carried out twice, whatever it has an effect on.

use super::commit::{home_key, is_direct};
use super::work::{Finish, Keep, Outcome, Step};
use super::{BACKOFF_US, Role, Stage, Txn};
use crate::entry::Dropped;
use crate::gateway::errors::{Cause, forgotten, replies_lost, under_way};
use crate::gateway::mail::{Pending, Target};
use crate::gateway::{Gateway, Job};
use crate::ids::{KeyedOp, RequestId, TxnId};
use crate::limits::{REMEMBERED_BYTES_MAX, REPEATS_ASKED_MAX, UNDER_WAY_TRIED_MAX};
use crate::message::{Body, Refusal, Remembered};
use crate::repeats::{repeated, told_dropped, weight_of};
use crate::slot::slot;
use adt::{Blob, ErrorReply, Reply, Timestamp};

/// How often the rests between questions become twice as long: up to a tenth of a second.
const RESTS_DOUBLED_MAX: u32 = 10;

/// The error for a transaction whose commands have been answered anew.
fn answered_anew(ts: Timestamp) -> ErrorReply {
    let what = "what the commands of this transaction have answered is not what they answered then";
    repeated(ts, what)
}

/// The error for a command that was to be carried out behind a transaction by a machine that was lost.
fn later_lost(ts: Timestamp) -> ErrorReply {
    let what = "whether this command was carried out too, behind its transaction, is not known, because \
                a machine was lost";
    repeated(ts, what)
}

/// What is said of one try of a request that has a number: another one may have gone further.
pub(in crate::gateway) fn of_this_try(error: &ErrorReply) -> ErrorReply {
    let text = "if it was sent before, only the same request number tells what became of that";
    match error.code() {
        "TXNABORT" | "CLUSTERDOWN" => {
            ErrorReply::new(error.code(), format!("{}; {text}", error.text()))
        }
        _ => error.clone(),
    }
}

/// Of the keys of operations the one with the smallest slot.
pub(in crate::gateway) fn home_of(ops: &[KeyedOp]) -> Option<Blob> {
    first(ops.iter().map(|(key, _)| key))
}

/// Of the keys that the commands of a program name the one with the smallest slot, as far as they are
/// known before anything is read: those that depend on that may differ when it is repeated.
pub(in crate::gateway) fn home_of_steps(steps: &[Step]) -> Option<Blob> {
    let mut keys = Vec::new();
    for step in steps {
        match step {
            Step::Ops(ops, _) => keys.extend(ops.iter().map(|(key, _)| key)),
            Step::Compound(compound) => keys.extend(compound.reads.iter().map(|(key, _)| key)),
            Step::Attempts(blocking) => keys.extend(blocking.attempts.iter().map(|(key, _)| key)),
            Step::Fixed(_) | Step::Later(_) => {}
        }
    }
    first(keys.into_iter())
}

fn first<'k>(keys: impl Iterator<Item = &'k Blob>) -> Option<Blob> {
    keys.min_by_key(|key| slot(key)).cloned()
}

impl Gateway {
    /// A transaction under a request number is over: what its commands have answered is kept in case it is
    /// repeated, if it is not what its operations have answered at the shard that remembers it.
    pub(in crate::gateway) fn remember(&mut self, txn: &Txn, items: &[Option<Reply>]) {
        let Some(request) = &txn.request else { return };
        let values = matches!(txn.role, Role::Interactive { blind: false, .. });
        if values || txn.whole_there || txn.replies_lost {
            return;
        }
        let replies = items.iter().map(|item| item.clone().unwrap_or(Reply::Nil)).collect();
        self.keep_replies(request, home_key(txn, request), replies);
    }

    /// Tells the shard that remembers a request what its commands have answered.
    pub(in crate::gateway) fn keep_replies(
        &mut self,
        request: &RequestId,
        home: &Blob,
        mut replies: Vec<Reply>,
    ) {
        if weight_of(&replies) > REMEMBERED_BYTES_MAX {
            replies = vec![Dropped::TooLong.error(Timestamp::ZERO).into()];
        }
        let shard = self.core.mail.shard_of(home);
        let told = Box::new(Remembered { request: request.clone(), replies });
        self.core.mail.ask(shard, Pending::Remembered, Body::Remember(told));
    }

    /// A participant says that the request took effect before, and which replies it remembers: those of
    /// the commands if they are `whole`, and otherwise those of its own operations.
    pub(in crate::gateway) fn repeats(
        &mut self,
        job: u64,
        ts: Timestamp,
        replies: Vec<Reply>,
        whole: bool,
    ) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        if matches!(txn.role, Role::Interactive { blind: false, .. }) {
            return self.end_without_effect(job, answered_anew(ts).into());
        }
        if let Some(error) = told_dropped(&replies) {
            return self.end_without_effect(job, error.clone().into());
        }
        // As many as there are operations now: it was carried out by one shard, which had all of them. Those
        // of a question that has no operations have come from there before.
        let all = replies.len() == txn.work.ops.len() || txn.asks.is_some() && txn.whole_there;
        let direct = all && is_direct(txn, &txn.work.outcomes);
        let later = txn.work.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Later(_)));
        if whole || direct && !later {
            return self.repeat_answered(job, ts, replies, whole);
        }
        txn.asks.get_or_insert_with(|| Box::new(forgotten()));
        txn.asked_again += 1;
        let asked = txn.asked_again;
        if asked <= REPEATS_ASKED_MAX {
            return self.rest(job, Some(BACKOFF_US << asked.min(RESTS_DOUBLED_MAX)));
        }
        if direct {
            return self.repeat_answered(job, ts, replies, whole);
        }
        self.end_without_effect(job, replies_lost(ts).into());
    }

    /// A shard has carried operations out before under their request number. If the session has carried out
    /// something behind them, what that has answered is asked for.
    pub(in crate::gateway) fn repeats_there(
        &mut self,
        target: Target,
        finish: Finish,
        replies: Vec<Reply>,
    ) {
        let Finish { outcomes, form, keep } = finish;
        let Some(keep) = keep else {
            let finish = Finish { outcomes, form, keep };
            return self.complete(target, &finish, replies.into_iter());
        };
        let Keep { request, home, .. } = *keep;
        let id = TxnId { age: self.core.new_age(), attempt: 0 };
        let role = Role::Program { target, steps: Vec::new(), next: 0, reads: false };
        let mut txn = Txn::new(id, target.session, role);
        (txn.form, txn.work.outcomes) = (form, outcomes);
        (txn.request, txn.home) = (Some(request), Some(home));
        (txn.asks, txn.whole_there) = (Some(Box::new(forgotten())), true);
        let job = self.add_txn(txn);
        self.commit(job);
    }

    /// A participant says that a transaction under the same request number is prepared, and not decided.
    pub(in crate::gateway) fn under_way(&mut self, job: u64) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        txn.stage = Stage::Running;
        let again =
            matches!(txn.role, Role::Program { .. } | Role::Interactive { blind: true, .. });
        if !again || matches!(txn.role, Role::Interactive { .. }) && txn.looked == Some(true) {
            // What it rests on is let go of with this attempt.
            let aborted = || of_this_try(&Cause::Refused(Refusal::Conflict).error());
            txn.asks.get_or_insert_with(|| Box::new(aborted()));
        }
        txn.under_way += 1;
        let tried = txn.under_way;
        if tried <= UNDER_WAY_TRIED_MAX {
            return self.rest(job, Some(BACKOFF_US << tried.min(RESTS_DOUBLED_MAX)));
        }
        self.end_without_effect(job, under_way().into());
    }

    /// A strict transaction cannot take effect with what its keys hold now. If it has a request number, it
    /// may have taken effect before they did.
    pub(in crate::gateway) fn ends_undone(&mut self, job: u64, error: ErrorReply) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        if txn.request.is_none() {
            return self.end_without_effect(job, error.into());
        }
        txn.asks = Some(Box::new(error));
        self.rest(job, None);
    }

    /// The replies of its commands are known, or those of its operations.
    fn repeat_answered(&mut self, job: u64, ts: Timestamp, replies: Vec<Reply>, whole: bool) {
        self.leave_leases(job, Timestamp::ZERO);
        let Some(mut txn) = self.drop_txn(job) else { return };
        txn.withdraw(&mut self.core.mail);
        let outcomes = std::mem::take(&mut txn.work.outcomes);
        let finish = Finish::new(outcomes, txn.form, None, None);
        let target = match txn.role {
            Role::Program { target, .. } => Some(target),
            Role::Interactive { commit, .. } => {
                self.leave_transaction(&txn, true);
                commit
            }
        };
        let Some(target) = target else { return };
        if whole {
            return self.answer_again(target, &finish, ts, replies);
        }
        let later = || Some(later_lost(ts).into());
        let items = finish.items(replies.into_iter()).into_iter();
        self.complete_with(target, &finish, items.map(|item| item.or_else(later)).collect());
    }

    /// Answers what the commands of a request have answered.
    pub(in crate::gateway) fn answer_again(
        &mut self,
        target: Target,
        finish: &Finish,
        ts: Timestamp,
        replies: Vec<Reply>,
    ) {
        if replies.len() != finish.outcomes.len() {
            // Some of them looked at what has changed since, and were answered at once.
            return self.finish(target, answered_anew(ts).into());
        }
        self.complete_with(target, finish, replies.into_iter().map(Some).collect());
    }
}
