//! Life of a transaction: its steps, its attempts, and its end.

use super::context::{TxnContext, TxnEffect};
use super::repeated::of_this_try;
use super::script;
use super::{BACKOFF_US, Role, Stage, Then, Txn};
use crate::gateway::errors::Cause;
use crate::gateway::mail::Target;
use crate::gateway::timer::Timer;
use crate::gateway::txn::work::{Outcome, ProgramStep, Work};
use crate::message::Body;
use adt::{ErrorReply, Reply, Timestamp};

/// Number of refusals after which a program gives up (conditions without waiting only: where conflicting
/// requests wait, their ages let every transaction through in the end). Refusals that only say "not now"
/// do not count: see [`Cause::passes`].
pub(in crate::gateway) const REFUSALS_MAX: u32 = 80;

/// Error for the client of a transaction whose attempts have come to an end for this reason.
fn final_error(txn: &Txn, cause: Cause) -> ErrorReply {
    let error = cause.error();
    if txn.request.is_some() { of_this_try(&error) } else { error }
}

impl Txn {
    /// Carries out the steps of a program up to the next one that has to read something.
    pub(in crate::gateway::txn) fn advance(&mut self, cx: &mut TxnContext<'_>) {
        loop {
            let Role::Program { target, steps, next, reads } = &mut self.role else { return };
            let (target, step) = (*target, steps.get(*next).cloned());
            *next += 1;
            match step {
                None => return self.commit(cx),
                Some(ProgramStep::Fixed(reply)) => {
                    self.work.add_without_ops(Outcome::Fixed(reply));
                }
                Some(ProgramStep::Later(words)) => {
                    self.work.add_without_ops(Outcome::Later(words));
                }
                Some(ProgramStep::Ops(ops, merge)) if *reads => {
                    return self.call_observed(cx, (ops, false), None, Then::Merge(merge));
                }
                Some(ProgramStep::Ops(ops, merge)) => self.work.add(ops, merge),
                Some(ProgramStep::Compound(compound)) => {
                    let (reads, then) = Then::behind(compound);
                    return self.call_observed(cx, (reads, false), Some(target), then);
                }
                Some(ProgramStep::Attempts(blocking)) => {
                    return self.call_attempt(cx, blocking, 0, Some(target));
                }
                Some(ProgramStep::Script(call)) => {
                    return script::begin(self, cx, call, Some(target));
                }
            }
        }
    }

    /// Ends an attempt that cannot go on. A program is tried again, with its age; the client of an
    /// interactive transaction is asked to do so.
    pub(in crate::gateway::txn) fn abort(&mut self, cx: &mut TxnContext<'_>, cause: Cause) {
        if matches!(self.stage, Stage::Deciding | Stage::Over) {
            return;
        }
        if cause == Cause::Wounded && self.stage == Stage::Preparing {
            // A participant that has logged its part may make the transaction committed, if the
            // others have as well: only one that still waits can stop it for certain. If one does,
            // it refuses, and the attempt ends then.
            self.cancelling = true;
            for touched in self.touched.iter().filter(|t| t.prepared) {
                cx.core.mail.tell(touched.shard, Body::Cancel { txn: self.id });
            }
            return;
        }
        self.early_reads.end(cx.intents, cause.is_conflict());
        self.leave_leases(cx, Timestamp::ZERO);
        let Role::Program { target, .. } = self.role else {
            return self.abort_interactive(cx, cause);
        };
        self.refusals += u32::from(!cause.passes());
        let tries = self.id.tries() + 1;
        if cause.is_final() || self.refusals >= REFUSALS_MAX {
            self.withdraw(&mut cx.core.mail);
            cx.core.mail.stats.aborted += 1;
            self.end(cx);
            return cx.core.finish(target, final_error(self, cause).into());
        }
        // At once the first time; later only when there is reason to hope that the transaction
        // which needed what this one held has got it.
        let at_once = cause == Cause::Wounded && tries == 1;
        self.rest(cx, (!at_once).then_some(BACKOFF_US << tries.min(6)));
    }

    fn abort_interactive(&mut self, cx: &mut TxnContext<'_>, cause: Cause) {
        let Role::Interactive { commit, .. } = self.role else { return };
        self.end(cx);
        cx.core.mail.stats.aborted += 1;
        cx.admission.aborted();
        let error = final_error(self, cause);
        let waiting = self.calls.iter().filter_map(|(_, call)| call.target).chain(commit);
        let waiting = waiting.chain(script::place(self));
        for target in waiting {
            cx.core.finish(target, error.clone().into());
        }
        self.withdraw(&mut cx.core.mail);
        let (session, txn, over) = (self.session, self.id, commit.is_some());
        cx.effects.push_back(TxnEffect::Aborted { session, txn, error, over });
    }

    /// Gives up what an attempt has at the shards, and begins the next one after about so many
    /// microseconds, or at once.
    pub(super) fn rest(&mut self, cx: &mut TxnContext<'_>, about_us: Option<u64>) {
        self.early_reads.end(cx.intents, false);
        self.leave_leases(cx, Timestamp::ZERO);
        self.withdraw(&mut cx.core.mail);
        if let Role::Program { steps, next, .. } = &mut self.role
            && self.asks.is_none()
            && !steps.is_empty()
        {
            *next = 0;
            self.work = Work::default();
        }
        if let Some(open) = &mut self.open {
            open.checked = false;
        }
        cx.core.mail.stats.retried += 1;
        cx.names.swap_remove(&self.id);
        self.id.attempt += 1;
        cx.names.insert(self.id, cx.job);
        self.stage = Stage::Resting;
        match about_us {
            None => self.try_again(cx),
            Some(us) => {
                let wait = us / 2 + cx.core.random() % us;
                cx.core.set_timer(wait, Timer::Again { job: cx.job });
            }
        }
    }

    /// Begins the next attempt.
    pub(in crate::gateway::txn) fn try_again(&mut self, cx: &mut TxnContext<'_>) {
        if self.stage != Stage::Resting {
            return;
        }
        self.stage = Stage::Running;
        match &self.role {
            Role::Program { steps, .. } if !steps.is_empty() && self.asks.is_none() => {
                self.advance(cx);
            }
            Role::Program { .. } | Role::Interactive { .. } => self.commit(cx),
        }
    }

    /// Gives way to an older transaction: at once if this one waits, otherwise when it has to.
    pub(in crate::gateway::txn) fn give_way(&mut self, cx: &mut TxnContext<'_>) {
        self.wounded = true;
        if self.blocked > 0 {
            self.abort(cx, Cause::Wounded);
        }
    }

    /// Notes that a request waits for locks.
    pub(in crate::gateway::txn) fn now_blocked(&mut self, cx: &mut TxnContext<'_>) {
        self.blocked += 1;
        if self.is_interactive() {
            cx.admission.waits();
        }
        if self.wounded {
            self.abort(cx, Cause::Wounded);
        }
    }

    /// Leaves all leases at the end: at `commit`, or without effect (at zero).
    pub(super) fn leave_leases(&mut self, cx: &mut TxnContext<'_>, commit: Timestamp) {
        cx.leases.leave_all(cx.core, (cx.job, self), commit);
    }

    /// Ends the transaction: from now on it is not known by its name.
    pub(super) fn end(&mut self, cx: &mut TxnContext<'_>) {
        self.stage = Stage::Over;
        self.early_reads.end(cx.intents, false);
        cx.names.swap_remove(&self.id);
        if let Some(open) = &self.open {
            cx.core.mail.stats.interactive -= 1;
            cx.admission.ended(open.counts);
        }
    }

    /// Ends the transaction without effect and without another attempt.
    pub(in crate::gateway::txn) fn end_without_effect(
        &mut self,
        cx: &mut TxnContext<'_>,
        reply: Reply,
    ) {
        if let Some(target) = self.give_up(cx) {
            cx.core.finish(target, reply);
        }
    }

    /// Ends the transaction without effect. Returns the place for its reply, if a client waits for one.
    pub(in crate::gateway::txn) fn give_up(&mut self, cx: &mut TxnContext<'_>) -> Option<Target> {
        self.leave_leases(cx, Timestamp::ZERO);
        self.end(cx);
        self.withdraw(&mut cx.core.mail);
        self.leave_session(cx)
    }

    /// Lets the session of an interactive transaction go on without it. Returns the place for the
    /// transaction's reply, if a client waits for one.
    pub(super) fn leave_session(&self, cx: &mut TxnContext<'_>) -> Option<Target> {
        match self.role {
            Role::Program { target, .. } => Some(target),
            Role::Interactive { commit, .. } => {
                cx.effects.push_back(TxnEffect::Left(self.session));
                commit
            }
        }
    }
}
