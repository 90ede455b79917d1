//! Requests that are repeated under their number: what they have answered is answered again.
//!
//! A shard remembers the replies of its operations with the request. If those make the reply, that is
//! all. Otherwise (several shards, what depends on what was read) the gateway tells the shard that
//! remembers the request, behind the reply, what its commands have answered. A gateway that is asked the
//! same in the meantime asks again for a while. If the first one is lost before, the replies are, and
//! the client is told so, and when the request took effect.

use super::commit::{home_key, is_direct};
use super::work::{Finish, Outcome, Step};
use super::{Cause, Role, Stage, Txn};
use crate::gateway::mail::{Pending, Target};
use crate::gateway::{Gateway, Job};
use crate::limits::{REMEMBERED_BYTES_MAX, REPEATS_ASKED_MAX};
use crate::message::{Body, KeyedOp, Remembered};
use crate::slot::slot;
use adt::{Blob, ErrorReply, Reply, Timestamp};

/// Since when, in words.
fn at(ts: Timestamp) -> String {
    format!("{} ms after the beginning of 1970", ts.micros() / 1000)
}

/// The error for a request whose replies are not kept.
pub(in crate::gateway) fn lost(ts: Timestamp) -> ErrorReply {
    let text = format!(
        "this request number took effect before, at {}; its replies were lost with a machine, or are \
         too long to be kept; nothing was done now",
        at(ts)
    );
    ErrorReply::new("REPEATED", text)
}

/// The error for a transaction whose commands have been answered anew.
fn answered_anew(ts: Timestamp) -> ErrorReply {
    let text = format!(
        "this request number took effect before, at {}: what the commands of this transaction have \
         answered is not what they answered then, and nothing was done now",
        at(ts)
    );
    ErrorReply::new("REPEATED", text)
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

/// About how many bytes a reply takes.
fn weight(reply: &Reply) -> usize {
    size_of::<Reply>()
        + match reply {
            Reply::Bulk(bytes) => bytes.len(),
            Reply::Text(text) => text.len(),
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
                items.iter().map(weight).sum()
            }
            Reply::Map(pairs) => pairs.iter().map(|(key, value)| weight(key) + weight(value)).sum(),
            Reply::Scored(members) => members.iter().map(|(member, _)| member.len() + 32).sum(),
            Reply::Pairs(pairs) => {
                pairs.iter().map(|(key, value)| key.len() + value.len() + 48).sum()
            }
            Reply::Record(record) => record.heap_bytes(),
            Reply::Error(error) => error.text().len(),
            Reply::Ok
            | Reply::Status(_)
            | Reply::Nil
            | Reply::NilArray
            | Reply::Int(_)
            | Reply::Double(_)
            | Reply::Bool(_) => 0,
        }
}

impl Gateway {
    /// A transaction under a request number is over: what its commands have answered is kept in case it is
    /// repeated, if it is not what its operations have answered at the shard that remembers it.
    pub(in crate::gateway) fn remember(&mut self, txn: &Txn, items: &[Option<Reply>]) {
        let Some(request) = &txn.request else { return };
        let values = matches!(txn.role, Role::Interactive { blind: false, .. });
        let bytes = || items.iter().flatten().map(weight).sum::<usize>();
        let known = !txn.replies_lost && !txn.repeats;
        if values || txn.whole_there || !known || bytes() > REMEMBERED_BYTES_MAX {
            return;
        }
        let replies = items.iter().map(|item| item.clone().unwrap_or(Reply::Nil)).collect();
        let shard = self.core.mail.shard_of(home_key(txn, request));
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
        txn.repeats = true;
        let is_program = matches!(txn.role, Role::Program { .. });
        if matches!(txn.role, Role::Interactive { blind: false, .. }) {
            return self.end_without_effect(job, answered_anew(ts).into());
        }
        // As many as there are operations now: it was carried out by one shard, which had all of them.
        let direct = is_direct(txn, &txn.work.outcomes) && replies.len() == txn.work.ops.len();
        if whole || direct {
            return self.repeat_answered(job, ts, replies, whole);
        }
        txn.asked_again += 1;
        if is_program && txn.asked_again <= REPEATS_ASKED_MAX {
            txn.stage = Stage::Running;
            return self.abort(job, Cause::Repeats);
        }
        self.end_without_effect(job, lost(ts).into());
    }

    /// The replies of its commands are known, or those of its operations.
    fn repeat_answered(&mut self, job: u64, ts: Timestamp, replies: Vec<Reply>, whole: bool) {
        self.leave_leases(job, Timestamp::ZERO);
        let Some(mut txn) = self.drop_txn(job) else { return };
        txn.withdraw(&mut self.core.mail);
        let outcomes = std::mem::take(&mut txn.work.outcomes);
        let finish = Finish { outcomes, form: txn.form };
        let target = match txn.role {
            Role::Program { target, .. } => Some(target),
            Role::Interactive { commit, .. } => {
                self.leave_transaction(&txn, true);
                commit
            }
        };
        match target {
            Some(target) if whole => self.answer_again(target, &finish, ts, replies),
            Some(target) => self.complete(target, &finish, replies.into_iter()),
            None => {}
        }
    }

    /// Answers what the commands of a request have answered; those that are carried out afterwards are
    /// carried out again.
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
        let items = finish.outcomes.iter().zip(replies);
        let item = |(outcome, reply): (&Outcome, Reply)| match outcome {
            Outcome::Later(_) => None,
            Outcome::Fixed(_) | Outcome::Op(_) | Outcome::Merged { .. } => Some(reply),
        };
        let items = items.map(item).collect();
        self.complete_with(target, finish, items);
    }
}
