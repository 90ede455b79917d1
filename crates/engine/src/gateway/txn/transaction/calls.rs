//! Calls: the early accesses of one command of a transaction, and what follows when all of them
//! are answered.

use super::context::TxnContext;
use super::script;
use super::{Call, Role, Stage, Then, Txn};
use crate::entry::Apply;
use crate::gateway::errors::Cause;
use crate::gateway::mail::{Pending, Target, raise};
use crate::gateway::target::CALLED;
use crate::gateway::txn::lease::{EarlyAccess, SharedRead};
use crate::gateway::txn::work::{Outcome, found_nothing};
use crate::ids::KeyedOp;
use crate::message::{Answer, Body, Early, Refusal};
use adt::command::database::{is_under, under};
use adt::{Attempt, Blob, Blocking, Merge, Next, Op, Plan, Reply, Timestamp};
use smallvec::smallvec;

impl Txn {
    /// Makes room for the replies of a call. Returns its number.
    pub(super) fn new_call(&mut self, target: Option<Target>, len: usize, then: Then) -> u64 {
        let replies = vec![Reply::Nil; len];
        self.calls.insert(Call { target, replies, left: len, then })
    }

    /// Sends one early access.
    pub(super) fn access(
        &mut self,
        cx: &mut TxnContext<'_>,
        (call, index): (u64, u32),
        (key, op): KeyedOp,
        early: Early,
    ) {
        let shard = cx.core.mail.shard_of(&key);
        let body = if cx.core.config.concurrency.takes_locks() {
            self.touch(shard);
            let own = self.work.own(&key);
            Body::Lock { txn: self.id, key, op, own, early }
        } else if op.is_write() {
            Body::Apply(Apply { ops: smallvec![(key, op)], ..Apply::default() })
        } else {
            Body::Read { key, op, fenced: false }
        };
        let pending = Pending::Access { job: cx.job, call, index, blocked: false };
        let token = cx.core.mail.ask(shard, pending, body);
        self.tokens.push(token);
    }

    /// Reads under locks, for a command that may depend on the replies. Whether the transaction announces
    /// that it writes what it reads.
    pub(super) fn call_observed(
        &mut self,
        cx: &mut TxnContext<'_>,
        (ops, announced): (Vec<KeyedOp>, bool),
        target: Option<Target>,
        then: Then,
    ) {
        let nothing = ops.is_empty();
        let shares = cx.core.config.concurrency.shares_reads() && self.is_interactive();
        let call = self.new_call(target, ops.len(), then);
        for (index, op) in (0..).zip(ops) {
            if self.announces(cx, &op, announced) {
                // A lock that others share would let them read what only one of them can write.
                self.access(cx, (call, index), op, Early::Announced);
            } else if shares {
                self.read_shared(cx, (call, index), op);
            } else {
                self.access(cx, (call, index), op, Early::Observed);
            }
        }
        if nothing {
            self.conclude_call(cx, call);
        }
    }

    /// Whether a read announces a write: because its program does, or because one is likely.
    fn announces(&mut self, cx: &TxnContext<'_>, read: &KeyedOp, announced: bool) -> bool {
        if read.1.is_write() || !cx.core.config.concurrency.takes_locks() {
            return false;
        }
        let only_reads = matches!(self.role, Role::Program { reads: true, .. })
            || matches!(self.role, Role::Interactive { readonly: true, .. });
        let learns = cx.core.config.concurrency.learns_intents() && !only_reads;
        let likely = learns && self.early_reads.note(cx.intents, read);
        announced || self.announces || likely
    }

    /// Reads under a lock that is shared with other interactive transactions where that is possible.
    fn read_shared(&mut self, cx: &mut TxnContext<'_>, (call, index): (u64, u32), op: KeyedOp) {
        if self.stage == Stage::Over {
            return;
        }
        let access = EarlyAccess { job: cx.job, call, index };
        match cx.leases.read(cx.core, self, access, &op) {
            SharedRead::Alone => self.access(cx, (call, index), op, Early::Observed),
            SharedRead::Granted(reply, clock) => {
                self.access_done(cx, (call, index), reply, clock);
            }
            SharedRead::Waits { blocked: true } => self.now_blocked(cx),
            SharedRead::Waits { blocked: false } => {}
        }
    }

    /// Carries out writes whose replies the client of an interactive transaction gets at once. They are
    /// carried out again at the commit, with the same replies.
    pub(super) fn call_writes(
        &mut self,
        cx: &mut TxnContext<'_>,
        ops: Vec<KeyedOp>,
        merge: Option<Merge>,
        target: Option<Target>,
    ) {
        self.upgrade_for(cx, &ops);
        let nothing = ops.is_empty();
        let call = self.new_call(target, ops.len(), Then::Merge(merge));
        for (index, op) in (0..).zip(ops) {
            self.access(cx, (call, index), op.clone(), Early::Observed);
            if cx.core.config.concurrency.takes_locks() {
                self.work.add_silent(vec![op]);
            }
        }
        if nothing {
            self.conclude_call(cx, call);
        }
    }

    /// Locks the keys of writes whose replies come at the commit (conditions that do not defer locks).
    pub(super) fn call_locks(
        &mut self,
        cx: &mut TxnContext<'_>,
        ops: Vec<KeyedOp>,
        merge: Option<Merge>,
        target: Target,
    ) {
        let locks: Vec<KeyedOp> = ops.iter().filter(|(_, op)| op.is_write()).cloned().collect();
        let call = self.new_call(Some(target), locks.len(), Then::Queued);
        for (index, op) in (0..).zip(locks) {
            self.access(cx, (call, index), op, Early::Deferred);
        }
        self.work.add(ops, merge);
    }

    /// Makes one attempt of a blocking command, which does not wait in a transaction.
    pub(super) fn call_attempt(
        &mut self,
        cx: &mut TxnContext<'_>,
        mut blocking: Blocking,
        number: usize,
        target: Option<Target>,
    ) {
        // What is chosen before the write may depend on the time. It is announced, and not read again.
        let mut announced = false;
        if cx.core.config.concurrency.takes_locks()
            && let Some((key, attempt)) = blocking.attempts.get_mut(number)
            && let Attempt::Take { op, wrap } = attempt
            && let Some(compound) = op.chosen_first(key)
        {
            announced = true;
            let (key, wrap) = (key.clone(), *wrap);
            *attempt = Attempt::Move(compound.wrapped(move |reply| wrap(&key, reply)));
        }
        let then = |blocking| Then::Attempt(Box::new(blocking), number);
        match blocking.attempts.get(number).cloned() {
            None => self.conclude_step(cx, target, blocking.on_nothing, Vec::new()),
            Some((_, Attempt::Move(compound))) => {
                let reads = (compound.reads, announced);
                self.call_observed(cx, reads, target, then(blocking));
            }
            Some((key, Attempt::Take { op, .. })) => {
                self.upgrade_for(cx, &[(key.clone(), op.clone())]);
                let call = self.new_call(target, 1, then(blocking));
                self.access(cx, (call, 0), (key, op), Early::Observed);
            }
        }
    }

    /// Asks for locks of the transaction's own for what it shares and is about to write.
    pub(super) fn upgrade_for(&mut self, cx: &mut TxnContext<'_>, writes: &[KeyedOp]) {
        self.early_reads.wrote(writes);
        let shared = cx.leases.upgrades(self, writes);
        if shared.is_empty() {
            return;
        }
        let then = Then::Upgrade(shared.iter().map(|(lease, _, r)| (*lease, r.clone())).collect());
        let call = self.new_call(None, shared.len(), then);
        for (index, (_, op, _)) in (0..).zip(shared) {
            self.access(cx, (call, index), op, Early::Observed);
        }
    }

    /// Locks the keys of deferred writes, and asks whether their values allow them.
    pub(super) fn call_checks(
        &mut self,
        cx: &mut TxnContext<'_>,
        writes: Vec<(Blob, Vec<Op>)>,
        then: Then,
    ) {
        let call = self.new_call(None, writes.len(), then);
        for (index, (key, mut own)) in (0..).zip(writes) {
            let Some(op) = own.pop() else { continue };
            let shard = cx.core.mail.shard_of(&key);
            self.touch(shard);
            let body = Body::Lock { txn: self.id, key, op, own, early: Early::Deferred };
            let pending = Pending::Access { job: cx.job, call, index, blocked: false };
            let token = cx.core.mail.ask(shard, pending, body);
            self.tokens.push(token);
        }
    }

    /// Takes the answer to an early access.
    pub(in crate::gateway::txn) fn accessed(
        &mut self,
        cx: &mut TxnContext<'_>,
        place: (u64, u32),
        answer: Answer,
    ) {
        let (reply, clock) = match answer {
            Answer::Locked { reply, clock, rests_at } => {
                self.rests_at.extend(rests_at.filter(|shard| !self.rests_at.contains(shard)));
                (reply, clock)
            }
            Answer::Reply(reply) => (reply, Timestamp::ZERO),
            Answer::Replies(mut replies) if replies.len() == 1 => {
                (replies.remove(0), Timestamp::ZERO)
            }
            Answer::Refused(refusal) => return self.abort(cx, Cause::Refused(refusal)),
            // No access is answered so: without its reply the transaction cannot go on.
            Answer::Committed { .. }
            | Answer::Repeated(_)
            | Answer::TookEffect { .. }
            | Answer::Voided
            | Answer::Forgotten
            | Answer::GuardFailed(_)
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
            | Answer::Ran(_)
            | Answer::Replies(_) => return self.abort(cx, Cause::Refused(Refusal::LocksLost)),
        };
        self.access_done(cx, place, reply, clock);
    }

    /// Takes one reply of a call.
    pub(in crate::gateway::txn) fn access_done(
        &mut self,
        cx: &mut TxnContext<'_>,
        (call, index): (u64, u32),
        reply: Reply,
        clock: Timestamp,
    ) {
        raise(&mut self.clock, clock);
        let Some(open) = self.calls.get_mut(call) else { return };
        open.replies[index as usize] = reply;
        open.left -= 1;
        if open.left == 0 {
            self.conclude_call(cx, call);
        }
    }

    fn conclude_call(&mut self, cx: &mut TxnContext<'_>, call: u64) {
        let Some(Call { target, mut replies, then, .. }) = self.calls.remove(call) else { return };
        match then {
            Then::Merge(Some(merge)) => {
                self.conclude_step(cx, target, merge.apply(replies), Vec::new());
            }
            Then::Merge(None) => {
                let reply = replies.pop().unwrap_or(Reply::Nil);
                self.conclude_step(cx, target, reply, Vec::new());
            }
            Then::Queued => {
                if let Some(target) = target {
                    cx.core.finish(target, Reply::status("QUEUED"));
                }
            }
            Then::Next(next) => match next(&replies) {
                Next::Plan(Plan { writes, reply }) => {
                    self.conclude_step(cx, target, reply, writes);
                }
                Next::Reads(compound) => {
                    let (mut reads, then) = Then::behind(compound);
                    let tags = cx.core.naming(0).tags;
                    let misplaced = reads.iter_mut().filter(|(key, _)| !is_under(tags, key));
                    misplaced.for_each(|(key, _)| *key = under(tags, key));
                    self.call_observed(cx, (reads, false), target, then);
                }
            },
            Then::Attempt(blocking, number) => {
                self.conclude_attempt(cx, target, replies, *blocking, number);
            }
            Then::Upgrade(shared) => {
                for ((lease, old), new) in shared.into_iter().zip(&replies) {
                    match cx.leases.upgraded(cx.core, (cx.job, self), lease, old, new) {
                        None => return self.abort(cx, Cause::Changed),
                        Some(waited) => {
                            for EarlyAccess { call, index, .. } in waited {
                                let (place, clock) = ((call, index), Timestamp::ZERO);
                                self.access_done(cx, place, new.clone(), clock);
                            }
                        }
                    }
                }
                if self.stage == Stage::Upgrading {
                    self.commit(cx);
                }
            }
            Then::Checked => self.checked(cx, replies),
            Then::Allowed => script::checked(self, cx, replies.pop().unwrap_or(Reply::Nil)),
            Then::Source(sought) => {
                script::found(self, cx, &replies.pop().unwrap_or(Reply::Nil), &sought);
            }
        }
    }

    fn conclude_attempt(
        &mut self,
        cx: &mut TxnContext<'_>,
        target: Option<Target>,
        replies: Vec<Reply>,
        blocking: Blocking,
        number: usize,
    ) {
        let (reply, writes) = match &blocking.attempts[number] {
            (key, Attempt::Take { op, wrap }) => {
                let reply = replies.into_iter().next().unwrap_or(Reply::Nil);
                if reply.is_error() {
                    (wrap(key, reply), Vec::new())
                } else if found_nothing(&reply) {
                    (Reply::Nil, Vec::new())
                } else {
                    let writes = if op.is_write() && cx.core.config.concurrency.takes_locks() {
                        vec![(key.clone(), op.clone())]
                    } else {
                        Vec::new()
                    };
                    (wrap(key, reply), writes)
                }
            }
            // A move reads once.
            (_, Attempt::Move(compound)) => match compound.plan(&replies) {
                Some(Plan { writes, reply }) => (reply, writes),
                None => (Reply::Nil, Vec::new()),
            },
        };
        if found_nothing(&reply) {
            self.call_attempt(cx, blocking, number + 1, target);
        } else {
            self.conclude_step(cx, target, reply, writes);
        }
    }

    /// Takes the reply of a command that had to read something, and the writes that follow from it.
    fn conclude_step(
        &mut self,
        cx: &mut TxnContext<'_>,
        target: Option<Target>,
        reply: Reply,
        writes: Vec<(Blob, Op)>,
    ) {
        let wrote = !writes.is_empty();
        if wrote {
            self.upgrade_for(cx, &writes);
        }
        self.work.add_silent(writes);
        if target.is_some_and(|target| target.item == CALLED) {
            return script::answered(self, cx, reply);
        }
        self.answer_step(cx, target, reply, wrote);
    }

    /// Gives the reply of a command that had to read something, and may have written then.
    pub(super) fn answer_step(
        &mut self,
        cx: &mut TxnContext<'_>,
        target: Option<Target>,
        reply: Reply,
        wrote: bool,
    ) {
        match self.role {
            Role::Program { .. } => {
                self.work.add_without_ops(Outcome::Fixed(reply));
                self.advance(cx);
            }
            Role::Interactive { blind, .. } => {
                let reply = if blind && wrote {
                    self.work.add_without_ops(Outcome::Fixed(reply));
                    Reply::status("QUEUED")
                } else {
                    reply
                };
                let refused = reply.is_error();
                if let Some(target) = target {
                    cx.core.finish(target, reply);
                }
                if refused {
                    self.discard_strict(cx);
                }
            }
        }
    }
}
