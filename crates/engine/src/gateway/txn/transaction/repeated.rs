//! Requests that are repeated under their number: their replies are given again.
//!
//! A shard remembers the replies of its operations with the request. If those make the reply, that is
//! all. Otherwise (several shards, replies that depend on reads, commands that the session carries out
//! behind its transaction) the gateway tells the shard that remembers the request, behind the reply, the
//! replies of its commands. A gateway that is asked the same in the meantime asks again for a while. If
//! the first gateway is lost before, the replies are, and the client is informed of that, and of when the
//! request took effect. Nothing is carried out twice, whatever it has an effect on.

use super::commit::{home_key, is_direct};
use super::context::TxnContext;
use super::{BACKOFF_US, Role, Stage, Txn};
use crate::cluster::slot::slot;
use crate::entry::Dropped;
use crate::gateway::core::Core;
use crate::gateway::errors::{Cause, forgotten, replies_lost, under_way};
use crate::gateway::mail::{Pending, Target};
use crate::gateway::txn::work::{Finish, Outcome, ProgramStep};
use crate::ids::{KeyedOp, RequestId};
use crate::limits::{REMEMBERED_BYTES_MAX, REPEATS_ASKED_MAX, UNDER_WAY_TRIED_MAX};
use crate::message::{Body, Refusal, Remembered};
use crate::repeats::{dropped_error, repeated, weight_of};
use adt::{Blob, ErrorReply, Reply, Timestamp};

/// Number of times that the rests between questions become twice as long: up to a tenth of a second.
const RESTS_DOUBLED_MAX: u32 = 10;

/// Error for a transaction whose commands have been answered anew.
fn answered_anew(ts: Timestamp) -> ErrorReply {
    let what = "what the commands of this transaction have answered is not what they answered then";
    repeated(ts, what)
}

/// Error for a command that was to be carried out behind a transaction by a machine that was lost.
fn later_lost(ts: Timestamp) -> ErrorReply {
    let what = "whether this command was carried out too, behind its transaction, is not known, because \
                a machine was lost";
    repeated(ts, what)
}

/// Error for one try of a request that has a number: another try may have gone further.
pub(in crate::gateway) fn of_this_try(error: &ErrorReply) -> ErrorReply {
    let text = "if it was sent before, only the same request number tells what became of that";
    match error.code() {
        "TXNABORT" | "CLUSTERDOWN" => {
            ErrorReply::new(error.code().to_owned(), format!("{}; {text}", error.text()))
        }
        _ => error.clone(),
    }
}

/// Of the keys of operations the one with the smallest slot.
pub(in crate::gateway) fn home_of(ops: &[KeyedOp]) -> Option<Blob> {
    ops.iter().map(|(key, _)| key).min_by_key(|key| slot(key)).cloned()
}

/// Of the keys that the commands of a program name the one with the smallest slot, as far as they are
/// known before anything is read: keys that depend on reads may differ when the program is repeated.
pub(in crate::gateway::txn) fn home_of_steps(core: &Core, steps: &[ProgramStep]) -> Option<Blob> {
    let mut keys: Vec<Blob> = Vec::new();
    for step in steps {
        match step {
            ProgramStep::Ops(ops, _) => {
                keys.extend(ops.iter().map(|(key, _)| key.clone()));
            }
            ProgramStep::Compound(compound) => {
                keys.extend(compound.reads.iter().map(|(key, _)| key.clone()));
            }
            ProgramStep::Attempts(blocking) => {
                keys.extend(blocking.attempts.iter().map(|(key, _)| key.clone()));
            }
            ProgramStep::Script(call) => {
                let naming = core.naming(call.database);
                keys.extend(call.inputs.keys.iter().map(|name| naming.key_of(name)));
            }
            ProgramStep::Fixed(_) | ProgramStep::Later(_) => {}
        }
    }
    keys.into_iter().min_by_key(|key| slot(key))
}

/// Tells the shard that remembers a request the replies of its commands.
pub(in crate::gateway) fn keep_replies(
    core: &mut Core,
    request: &RequestId,
    home: &Blob,
    mut replies: Vec<Reply>,
) {
    if weight_of(&replies) > REMEMBERED_BYTES_MAX {
        replies = vec![Dropped::TooLong.error(Timestamp::ZERO).into()];
    }
    let shard = core.mail.shard_of(home);
    let told = Box::new(Remembered { request: request.clone(), replies });
    core.mail.ask(shard, Pending::Remembered, Body::Remember(told));
}

/// Gives the replies that the commands of a request have had before.
pub(in crate::gateway) fn answer_again(
    core: &mut Core,
    target: Target,
    finish: Finish,
    ts: Timestamp,
    replies: Vec<Reply>,
) {
    if replies.len() != finish.outcomes.len() {
        // Some commands read what has changed since, and were answered at once.
        return core.finish(target, answered_anew(ts).into());
    }
    core.complete(target, finish, replies.into_iter().map(Some).collect());
}

/// Whether the client of a transaction was answered before the commit, by values that need not be those of
/// another execution: what it wrote after that may differ as well.
pub(super) fn has_answered(txn: &Txn) -> bool {
    match txn.role {
        Role::Program { .. } => false,
        Role::Interactive { blind, .. } => !blind || txn.looked == Some(true),
    }
}

/// Keeps the replies of the commands of a transaction that is over, if it has a request number and they
/// differ from the replies of its operations at the shard that remembers it.
pub(super) fn remember(txn: &Txn, core: &mut Core, items: &[Option<Reply>]) {
    let Some(request) = &txn.request else { return };
    if has_answered(txn) || txn.whole_there || txn.replies_lost {
        return;
    }
    let replies = items.iter().map(|item| item.clone().unwrap_or(Reply::Nil)).collect();
    let home = home_key(txn, request, core);
    keep_replies(core, request, &home, replies);
}

impl Txn {
    /// Takes a participant's answer that the request took effect before, with the replies that it
    /// remembers: those of the commands if they are `whole`, and otherwise those of its own operations.
    pub(super) fn repeats(
        &mut self,
        cx: &mut TxnContext<'_>,
        ts: Timestamp,
        replies: Vec<Reply>,
        whole: bool,
    ) {
        if has_answered(self) {
            return self.end_without_effect(cx, answered_anew(ts).into());
        }
        if let Some(error) = dropped_error(&replies) {
            return self.end_without_effect(cx, error.clone().into());
        }
        // As many as there are operations now: it was carried out by one shard, which had all of them. Those
        // of a question that has no operations have come from there before.
        let all = replies.len() == self.work.ops.len() || self.asks.is_some() && self.whole_there;
        let direct = all && is_direct(self, &self.work.outcomes);
        let later = self.work.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Later(_)));
        if whole || direct && !later {
            return self.repeat_answered(cx, ts, replies, whole);
        }
        self.asks.get_or_insert_with(|| Box::new(forgotten().into()));
        self.asked_again += 1;
        let asked = self.asked_again;
        if asked <= REPEATS_ASKED_MAX {
            return self.rest(cx, Some(BACKOFF_US << asked.min(RESTS_DOUBLED_MAX)));
        }
        if direct {
            return self.repeat_answered(cx, ts, replies, whole);
        }
        self.end_without_effect(cx, replies_lost(ts).into());
    }

    /// Takes a participant's answer that a transaction under the same request number is prepared, and not
    /// decided.
    pub(super) fn found_under_way(&mut self, cx: &mut TxnContext<'_>) {
        self.stage = Stage::Running;
        if has_answered(self) {
            // The locks that it rests on end with this attempt.
            let aborted = || of_this_try(&Cause::Refused(Refusal::Conflict).error());
            self.asks.get_or_insert_with(|| Box::new(aborted().into()));
        }
        self.under_way += 1;
        let tried = self.under_way;
        if tried <= UNDER_WAY_TRIED_MAX {
            return self.rest(cx, Some(BACKOFF_US << tried.min(RESTS_DOUBLED_MAX)));
        }
        self.end_without_effect(cx, under_way().into());
    }

    /// Ends a transaction that cannot take effect with the present values of its keys. If it has a request
    /// number, it may have taken effect before they had these values: that is asked first.
    pub(super) fn end_undone(&mut self, cx: &mut TxnContext<'_>, reply: Reply) {
        if self.request.is_none() {
            return self.end_without_effect(cx, reply);
        }
        self.asks = Some(Box::new(reply));
        self.rest(cx, None);
    }

    /// Gives the replies that are remembered: of the commands if they are `whole`, otherwise of the
    /// operations.
    fn repeat_answered(
        &mut self,
        cx: &mut TxnContext<'_>,
        ts: Timestamp,
        replies: Vec<Reply>,
        whole: bool,
    ) {
        let Some(target) = self.give_up(cx) else { return };
        let outcomes = std::mem::take(&mut self.work.outcomes);
        let finish = Finish::new(outcomes, self.form, None);
        if whole {
            return answer_again(cx.core, target, finish, ts, replies);
        }
        let later = || Some(later_lost(ts).into());
        let items = finish.items(replies.into_iter()).into_iter();
        let items = items.map(|item| item.or_else(later)).collect();
        cx.core.complete(target, finish, items);
    }
}
