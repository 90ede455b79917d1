//! Calls: the early accesses of one command of a transaction, and what follows when all of them
//! are answered.

use super::lease::{EarlyAccess, LeaseOutcome, SharedRead};
use super::work::{Outcome, found_nothing};
use super::{Role, Txn};
use crate::entry::Apply;
use crate::gateway::errors::Cause;
use crate::gateway::mail::{Mail, Pending, Target};
use crate::gateway::{Gateway, Job};
use crate::ids::KeyedOp;
use crate::message::{Answer, Body, Concurrency, Refusal};
use adt::{Attempt, Blob, Blocking, Compound, Merge, Op, Plan, PlanFn, Reply, Timestamp};
use smallvec::smallvec;

/// Accesses that are under way for one command.
pub(in crate::gateway) struct Call {
    /// Where the command's reply goes; programs keep theirs to the end.
    pub target: Option<Target>,
    pub replies: Vec<Reply>,
    pub left: usize,
    pub then: Then,
}

/// What follows when a call is answered.
pub(in crate::gateway) enum Then {
    /// The replies, in one, are the command's.
    Merge(Option<Merge>),
    /// The command is deferred; only its locks were asked for.
    Queued,
    /// The writes depend on what was read.
    Plan(PlanFn),
    /// One attempt of a blocking command, which may find nothing.
    Attempt(Box<Blocking>, usize),
    /// Locks of its own for what the transaction shared: then it leaves the leases.
    Upgrade(Vec<(u64, Option<Reply>)>),
    /// Whether deferred writes are allowed: then the transaction commits.
    Checked,
}

/// Sends one early access of a transaction.
#[allow(clippy::too_many_arguments)]
fn access(
    mail: &mut Mail,
    cc: Concurrency,
    job: u64,
    txn: &mut Txn,
    call: u64,
    index: usize,
    (key, op): KeyedOp,
    observed: bool,
) {
    let shard = mail.shard_of(&key);
    let index = index as u32;
    let body = if cc.takes_locks() {
        txn.touch(shard);
        let own = txn.work.own(&key);
        Body::Lock { txn: txn.id, key, op, own, observed }
    } else if op.is_write() {
        Body::Apply(Apply { ops: smallvec![(key, op)], ..Apply::default() })
    } else {
        Body::Read { key, op, fenced: false }
    };
    let pending = Pending::Access { job, call, index, blocked: false };
    let token = mail.ask(shard, pending, body);
    txn.tokens.push(token);
}

impl Gateway {
    /// Makes room for the replies of a call.
    fn new_call(
        &mut self,
        job: u64,
        target: Option<Target>,
        len: usize,
        then: Then,
    ) -> Option<(u64, &mut Txn, &mut Mail)> {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return None };
        let replies = vec![Reply::Nil; len];
        let call = txn.calls.insert(Call { target, replies, left: len, then });
        Some((call, txn, &mut self.core.mail))
    }

    /// Reads under locks.
    pub(in crate::gateway) fn call_reads(
        &mut self,
        job: u64,
        ops: Vec<KeyedOp>,
        merge: Option<Merge>,
        target: Option<Target>,
    ) {
        self.call_observed(job, ops, target, Then::Merge(merge));
    }

    /// The reads of a compound command.
    pub(in crate::gateway) fn call_compound(
        &mut self,
        job: u64,
        compound: Compound,
        target: Target,
    ) {
        let Compound { reads, plan } = compound;
        self.call_observed(job, reads, Some(target), Then::Plan(plan));
    }

    fn call_observed(&mut self, job: u64, ops: Vec<KeyedOp>, target: Option<Target>, then: Then) {
        let cc = self.core.config.concurrency;
        let nothing = ops.is_empty();
        let combine = cc.shares_reads();
        let Some((call, txn, mail)) = self.new_call(job, target, ops.len(), then) else { return };
        let interactive = matches!(txn.role, Role::Interactive { .. });
        if combine && interactive {
            for (index, op) in ops.into_iter().enumerate() {
                self.read_combined(job, call, index as u32, op);
            }
        } else {
            for (index, op) in ops.into_iter().enumerate() {
                access(mail, cc, job, txn, call, index, op, true);
            }
        }
        if nothing {
            self.conclude_call(job, call);
        }
    }

    /// A read of an interactive transaction, shared with others where that is possible.
    fn read_combined(&mut self, job: u64, call: u64, index: u32, op: KeyedOp) {
        let cc = self.core.config.concurrency;
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        match self.leases.read(&mut self.core, txn, EarlyAccess { job, call, index }, &op) {
            SharedRead::Alone => {
                access(&mut self.core.mail, cc, job, txn, call, index as usize, op, true);
            }
            SharedRead::Granted(reply, clock) => self.access_done(job, call, index, reply, clock),
            SharedRead::Waits { blocked: true } => self.now_blocked(job),
            SharedRead::Waits { blocked: false } => {}
        }
    }

    /// The request of a lease is answered, or given up: so are the accesses that waited for it.
    pub(in crate::gateway) fn lease_settled(&mut self, outcome: LeaseOutcome) {
        let LeaseOutcome { waiting, was_blocked, granted } = outcome;
        for EarlyAccess { job, call, index } in waiting {
            if let Some(Job::Txn(txn)) = self.jobs.get_mut(job) {
                txn.blocked -= u32::from(was_blocked);
                match &granted {
                    Ok((reply, clock)) => self.access_done(job, call, index, reply.clone(), *clock),
                    Err(cause) => self.abort(job, *cause),
                }
            }
        }
    }

    /// Writes of an interactive transaction whose replies the client gets at once. They are
    /// carried out again at the commit, with the same replies.
    pub(in crate::gateway) fn call_writes(
        &mut self,
        job: u64,
        ops: Vec<KeyedOp>,
        merge: Option<Merge>,
        target: Target,
    ) {
        self.upgrade_for(job, &ops);
        let cc = self.core.config.concurrency;
        let then = Then::Merge(merge);
        let nothing = ops.is_empty();
        let Some((call, txn, mail)) = self.new_call(job, Some(target), ops.len(), then) else {
            return;
        };
        for (index, op) in ops.into_iter().enumerate() {
            access(mail, cc, job, txn, call, index, op.clone(), true);
            if cc.takes_locks() {
                txn.work.add_silent(vec![op]);
            }
        }
        if nothing {
            self.conclude_call(job, call);
        }
    }

    /// Locks for writes whose replies come at the commit (conditions that do not defer locks).
    pub(in crate::gateway) fn call_locks(
        &mut self,
        job: u64,
        ops: Vec<KeyedOp>,
        merge: Option<Merge>,
        target: Target,
    ) {
        let cc = self.core.config.concurrency;
        let locks: Vec<KeyedOp> = ops.iter().filter(|(_, op)| op.is_write()).cloned().collect();
        let Some((call, txn, mail)) = self.new_call(job, Some(target), locks.len(), Then::Queued)
        else {
            return;
        };
        for (index, op) in locks.into_iter().enumerate() {
            access(mail, cc, job, txn, call, index, op, false);
        }
        txn.work.add(ops, merge);
    }

    /// One attempt of a blocking command in a transaction, where it does not wait.
    pub(in crate::gateway) fn call_attempt(
        &mut self,
        job: u64,
        blocking: Blocking,
        index: usize,
        target: Target,
    ) {
        let then = |blocking| Then::Attempt(Box::new(blocking), index);
        match blocking.attempts.get(index).cloned() {
            None => self.conclude_step(job, Some(target), blocking.on_nothing, Vec::new()),
            Some((_, Attempt::Move(compound))) => {
                self.call_observed(job, compound.reads, Some(target), then(blocking));
            }
            Some((key, Attempt::Take { op, .. })) => {
                let cc = self.core.config.concurrency;
                self.upgrade_for(job, &[(key.clone(), op.clone())]);
                let Some((call, txn, mail)) = self.new_call(job, Some(target), 1, then(blocking))
                else {
                    return;
                };
                access(mail, cc, job, txn, call, 0, (key, op), true);
            }
        }
    }

    /// Before a transaction writes keys whose locks it shares, it locks them for itself.
    pub(in crate::gateway) fn upgrade_for(&mut self, job: u64, writes: &[KeyedOp]) {
        let cc = self.core.config.concurrency;
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        let shared = self.leases.upgrades(txn, writes);
        if shared.is_empty() {
            return;
        }
        let then = Then::Upgrade(shared.iter().map(|(lease, _, r)| (*lease, r.clone())).collect());
        let Some((call, txn, mail)) = self.new_call(job, None, shared.len(), then) else { return };
        for (index, (_, op, _)) in shared.into_iter().enumerate() {
            access(mail, cc, job, txn, call, index, op, true);
        }
    }

    /// Locks for deferred writes, with the answer whether their keys' values allow them.
    pub(in crate::gateway) fn call_checks(&mut self, job: u64, writes: Vec<(Blob, Vec<Op>)>) {
        let Some((call, txn, mail)) = self.new_call(job, None, writes.len(), Then::Checked) else {
            return;
        };
        for (index, (key, mut own)) in (0..).zip(writes) {
            let Some(op) = own.pop() else { continue };
            let shard = mail.shard_of(&key);
            txn.touch(shard);
            let body = Body::Lock { txn: txn.id, key, op, own, observed: false };
            let pending = Pending::Access { job, call, index, blocked: false };
            let token = mail.ask(shard, pending, body);
            txn.tokens.push(token);
        }
    }

    /// An early access is answered.
    pub(in crate::gateway) fn accessed(
        &mut self,
        token: u64,
        (job, call, index, blocked): (u64, u64, u32, bool),
        answer: Answer,
    ) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        txn.settled(token, blocked);
        let (reply, clock) = match answer {
            Answer::Locked { reply, clock } => (reply, clock),
            Answer::Reply(reply) => (reply, Timestamp::ZERO),
            Answer::Replies(mut replies) if replies.len() == 1 => {
                (replies.remove(0), Timestamp::ZERO)
            }
            Answer::Refused(refusal) => return self.abort(job, Cause::Refused(refusal)),
            // No access is answered so: without its reply the transaction cannot go on.
            Answer::Committed { .. }
            | Answer::Repeated(_)
            | Answer::TookEffect { .. }
            | Answer::Voided
            | Answer::Forgotten
            | Answer::GuardFailed
            | Answer::Fenced
            | Answer::Snapshot { .. }
            | Answer::Units(_)
            | Answer::Prepared { .. }
            | Answer::Version(_)
            | Answer::Stats(_)
            | Answer::Coordinated(_)
            | Answer::Fate(_)
            | Answer::CarriedOut
            | Answer::NotTaken(_)
            | Answer::Unknown
            | Answer::Unread
            | Answer::Notice(_)
            | Answer::Replies(_) => {
                return self.abort(job, Cause::Refused(Refusal::LocksLost));
            }
        };
        self.access_done(job, call, index, reply, clock);
    }

    /// One reply of a call is known.
    pub(in crate::gateway) fn access_done(
        &mut self,
        job: u64,
        call: u64,
        index: u32,
        reply: Reply,
        clock: Timestamp,
    ) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        crate::gateway::mail::raise(&mut txn.clock, clock);
        let Some(open) = txn.calls.get_mut(call) else { return };
        open.replies[index as usize] = reply;
        open.left -= 1;
        if open.left == 0 {
            self.conclude_call(job, call);
        }
    }

    fn conclude_call(&mut self, job: u64, call: u64) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        let Some(Call { target, mut replies, then, .. }) = txn.calls.remove(call) else { return };
        match then {
            Then::Merge(Some(merge)) => {
                self.conclude_step(job, target, merge.apply(replies), Vec::new());
            }
            Then::Merge(None) => {
                let reply = replies.pop().unwrap_or(Reply::Nil);
                self.conclude_step(job, target, reply, Vec::new());
            }
            Then::Queued => {
                if let Some(target) = target {
                    self.finish(target, Reply::Status("QUEUED"));
                }
            }
            Then::Plan(plan) => {
                let Plan { writes, reply } = plan(&replies);
                self.conclude_step(job, target, reply, writes);
            }
            Then::Attempt(blocking, index) => {
                self.conclude_attempt(job, target, replies, *blocking, index);
            }
            Then::Upgrade(shared) => {
                for ((lease, old), new) in shared.into_iter().zip(&replies) {
                    let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
                    let core = &mut self.core;
                    match self.leases.upgraded(core, (job, txn), lease, old, new) {
                        None => return self.abort(job, Cause::Changed),
                        Some(waited) => {
                            for EarlyAccess { call, index, .. } in waited {
                                self.access_done(job, call, index, new.clone(), Timestamp::ZERO);
                            }
                        }
                    }
                }
                self.upgraded(job);
            }
            Then::Checked => self.checked(job, replies),
        }
    }

    fn conclude_attempt(
        &mut self,
        job: u64,
        target: Option<Target>,
        replies: Vec<Reply>,
        blocking: Blocking,
        index: usize,
    ) {
        let (reply, writes) = match &blocking.attempts[index] {
            (key, Attempt::Take { op, wrap }) => {
                let reply = replies.into_iter().next().unwrap_or(Reply::Nil);
                if reply.is_error() {
                    (reply, Vec::new())
                } else if found_nothing(&reply) {
                    (Reply::Nil, Vec::new())
                } else {
                    let writes = if op.is_write() && self.core.config.concurrency.takes_locks() {
                        vec![(key.clone(), op.clone())]
                    } else {
                        Vec::new()
                    };
                    (wrap(key, reply), writes)
                }
            }
            (_, Attempt::Move(compound)) => {
                let Plan { writes, reply } = (compound.plan)(&replies);
                (reply, writes)
            }
        };
        match target {
            Some(target) if found_nothing(&reply) => {
                self.call_attempt(job, blocking, index + 1, target);
            }
            _ => self.conclude_step(job, target, reply, writes),
        }
    }

    /// A command that had to look at something has its reply, and the writes that follow from it.
    fn conclude_step(
        &mut self,
        job: u64,
        target: Option<Target>,
        reply: Reply,
        writes: Vec<(Blob, Op)>,
    ) {
        if !writes.is_empty() {
            self.upgrade_for(job, &writes);
        }
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        let wrote = !writes.is_empty();
        txn.work.add_silent(writes);
        match txn.role {
            Role::Program { .. } => {
                txn.work.add_without_ops(Outcome::Fixed(reply));
                self.advance(job);
            }
            Role::Interactive { blind, .. } => {
                let reply = if blind && wrote {
                    txn.work.add_without_ops(Outcome::Fixed(reply));
                    Reply::Status("QUEUED")
                } else {
                    reply
                };
                let refused = reply.is_error();
                if let Some(target) = target {
                    self.finish(target, reply);
                }
                if refused {
                    self.discard_strict(job);
                }
            }
        }
    }
}
