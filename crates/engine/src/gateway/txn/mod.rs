//! Transactions: what a gateway remembers about one, and how one ends.
//!
//! A transaction is a *program* (its steps are known when it begins: `EXEC`, a command on several
//! shards, a compound command) or *interactive* (its steps come one by one). Early accesses go out
//! as locks ([`calls`]); at the end everything deferred is prepared on all participants and
//! decided ([`commit`]). See `docs/internals/transactions.md`.

pub(in crate::gateway) mod admission;
pub(in crate::gateway) mod calls;
pub(in crate::gateway) mod commit;
pub(in crate::gateway) mod interactive;
pub(in crate::gateway) mod lease;
pub(in crate::gateway) mod multi;
pub(in crate::gateway) mod open;
pub(in crate::gateway) mod readonly;
pub(in crate::gateway) mod recover;
pub(in crate::gateway) mod repeated;
pub(in crate::gateway) mod work;

use super::api::SessionId;
use super::mail::{Mail, Target};
use super::slab::Slab;
use super::{Gateway, Job};
use crate::gateway::errors::Cause;
use crate::ids::{Age, KeyedOp, RequestId, ShardId, TxnId};
use crate::message::{Body, Guard};
use adt::{Blob, ErrorReply, Reply, Timestamp};
use calls::Call;
use open::Open;
use smallvec::SmallVec;
use work::{Finish, Form, Outcome, Program, Step, Work};

/// Refusals after which a program gives up (conditions without waiting only: where conflicting
/// requests wait, the age sees to it that everybody gets through). Those that only say "not now"
/// do not count: see [`Cause::passes`].
pub(super) const REFUSALS_MAX: u32 = 80;

/// Microseconds before the first repetition of a refused program; doubles up to 64 times as much.
pub(super) const BACKOFF_US: u64 = 100;

/// A transaction.
pub(super) struct Txn {
    pub id: TxnId,
    pub session: SessionId,
    pub role: Role,
    pub stage: Stage,
    /// What is to be done at the commit, and the replies that it gives.
    pub work: Work,
    pub form: Form,
    pub guards: Vec<Guard>,
    pub request: Option<RequestId>,
    /// Of the keys that a program names the one with the smallest slot: the outcome is remembered there.
    pub home: Option<Blob>,
    /// The replies of its operations on that shard are all that its reply is made of.
    pub whole_there: bool,
    /// How often it was asked what the request has answered that it repeats.
    pub asked_again: u32,
    /// How often the same request was found to be under way.
    pub under_way: u32,
    /// Nothing of it is to take effect any more: it asks what the request has answered that it repeats, and
    /// answers this if that did not take effect.
    pub asks: Option<Box<ErrorReply>>,
    /// Whether it had locks when it came to its commit: it has looked at something, and may do something
    /// else when it is repeated.
    pub looked: Option<bool>,
    pub calls: Slab<Call>,
    pub touched: SmallVec<[Touched; 4]>,
    /// Requests that are not answered yet.
    pub tokens: SmallVec<[u64; 8]>,
    /// The largest clock that a lock reported.
    pub clock: Timestamp,
    /// The largest bound that a participant voted.
    pub bound: Timestamp,
    /// Answers missing in this stage.
    pub left: usize,
    /// By operation, the shard that was asked to commit it.
    pub homes: Vec<crate::ids::ShardId>,
    /// Requests that wait for locks.
    pub blocked: u32,
    /// An older transaction waits for this one.
    pub wounded: bool,
    /// Its only participant was asked to give it up, if it is not too late.
    pub cancelling: bool,
    /// Attempts of a program that have failed for a reason that need not pass.
    pub refusals: u32,
    /// Replies of the participants.
    pub answers: SmallVec<[(ShardId, SmallVec<[Reply; 1]>); 4]>,
    /// Leases that it is a member of, and whether it is about to leave them.
    pub leases: SmallVec<[(u64, bool); 4]>,
    /// Keys that it has locked for reading alone, where others may share such locks.
    pub reading: SmallVec<[Blob; 4]>,
    /// Bytes of its commands.
    pub bytes: usize,
    /// When its participants were asked to vote (monotonic microseconds).
    pub asked_us: u64,
    /// It is committed, and some replies were lost with a machine.
    pub replies_lost: bool,
    /// What makes the reply out of those of its reads, for a snapshot that is read under locks.
    pub reread: Option<Finish>,
    /// What only transactions have whose client sends one command after the other.
    pub open: Option<Box<Open>>,
}

/// Who says what the transaction does.
pub(super) enum Role {
    /// All steps are known. `next` is the first that is not carried out.
    Program { target: Target, steps: Vec<Step>, next: usize, reads: bool },
    /// The client sends them one by one; `commit` is where the reply of its `COMMIT` goes.
    Interactive { blind: bool, readonly: bool, commit: Option<Target> },
}

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It reads and collects.
    Running,
    /// It has to give up shared locks first, because it writes what they protect.
    Upgrading,
    /// The votes are being collected.
    Preparing,
    /// It is committed, and being carried out.
    Deciding,
    /// It waits before it is tried again.
    Resting,
}

/// A shard that knows of the transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touched {
    pub shard: ShardId,
    /// It was asked to prepare.
    pub prepared: bool,
}

impl Txn {
    pub fn new(id: TxnId, session: SessionId, role: Role) -> Self {
        Self {
            id,
            session,
            role,
            stage: Stage::Running,
            work: Work::default(),
            form: Form::Array,
            guards: Vec::new(),
            request: None,
            home: None,
            whole_there: false,
            asked_again: 0,
            under_way: 0,
            asks: None,
            looked: None,
            calls: Slab::default(),
            touched: SmallVec::new(),
            tokens: SmallVec::new(),
            clock: Timestamp::ZERO,
            bound: Timestamp::ZERO,
            left: 0,
            homes: Vec::new(),
            blocked: 0,
            wounded: false,
            cancelling: false,
            refusals: 0,
            answers: SmallVec::new(),
            leases: SmallVec::new(),
            reading: SmallVec::new(),
            bytes: 0,
            asked_us: 0,
            replies_lost: false,
            reread: None,
            open: None,
        }
    }

    /// A shard is about to learn of the transaction.
    pub fn touch(&mut self, shard: ShardId) -> &mut Touched {
        let at = match self.touched.iter().position(|t| t.shard == shard) {
            Some(at) => at,
            None => {
                self.touched.push(Touched { shard, prepared: false });
                self.touched.len() - 1
            }
        };
        &mut self.touched[at]
    }

    /// The error for the client when its attempts have come to an end for this reason.
    fn error(&self, cause: Cause) -> ErrorReply {
        let error = cause.error();
        if self.request.is_some() { repeated::of_this_try(&error) } else { error }
    }

    /// A request is answered.
    pub fn settled(&mut self, token: u64, blocked: bool) {
        if let Some(at) = self.tokens.iter().position(|t| *t == token) {
            self.tokens.swap_remove(at);
        }
        self.blocked -= u32::from(blocked);
    }

    /// Says nothing more to the shards: they find out by themselves what became of it.
    pub fn leave_undecided(&mut self, mail: &mut Mail) {
        self.touched.clear();
        for token in self.tokens.drain(..) {
            mail.forget(token);
        }
    }

    /// Lets go of everything at the shards: nothing of this attempt takes effect.
    pub fn withdraw(&mut self, mail: &mut Mail) {
        let txn = self.id;
        for touched in self.touched.drain(..) {
            let body = if touched.prepared {
                Body::Decide { txn, commit: None }
            } else {
                Body::Release { txn, after: Timestamp::ZERO }
            };
            mail.tell(touched.shard, body);
        }
        for token in self.tokens.drain(..) {
            mail.forget(token);
        }
        self.blocked = 0;
        self.wounded = false;
        self.cancelling = false;
        self.clock = Timestamp::ZERO;
        self.bound = Timestamp::ZERO;
        self.answers.clear();
        self.calls = Slab::default();
    }
}

impl Gateway {
    /// Makes a transaction known; gives its job.
    pub(super) fn add_txn(&mut self, txn: Txn) -> u64 {
        let id = txn.id;
        let job = self.jobs.insert(Job::Txn(Box::new(txn)));
        self.txns.insert(id, job);
        job
    }

    /// Forgets a transaction.
    pub(super) fn drop_txn(&mut self, job: u64) -> Option<Box<Txn>> {
        let Some(Job::Txn(txn)) = self.jobs.remove(job) else { return None };
        self.txns.swap_remove(&txn.id);
        if let Some(open) = &txn.open {
            self.core.mail.stats.interactive -= 1;
            self.admission.ended(open.counts);
        }
        Some(txn)
    }

    /// Begins a program step by step; with `reread`, all its reads are carried out under locks, and
    /// `reread` makes the reply out of theirs then.
    pub(super) fn begin_txn(&mut self, program: Program, reread: Option<Finish>) {
        let id = TxnId { age: self.core.new_age(), attempt: 0 };
        self.begin_program(id, program, reread);
    }

    /// Begins a program that takes something for a session that has waited for it.
    pub(super) fn begin_taking(&mut self, program: Program) {
        let id = self.new_taker();
        self.begin_program(id, program, None);
    }

    /// The same, with operations that are all known.
    pub(super) fn begin_taker(&mut self, target: Target, ops: Vec<KeyedOp>, finish: Finish) {
        let id = self.new_taker();
        self.begin_operations(id, (target, ops, finish), Vec::new(), None);
    }

    /// A transaction for which a key may be kept is older than all that may wait for it there: whatever it
    /// needs besides, they do not keep it from that.
    fn new_taker(&mut self) -> TxnId {
        // Two numbers of the clock, so that halves of them differ.
        self.core.new_age();
        let Age { began, gateway } = self.core.new_age();
        let age = Age { began: Timestamp(began.0 / 2), gateway };
        TxnId { age, attempt: TxnId::TAKER }
    }

    fn begin_program(&mut self, id: TxnId, program: Program, reread: Option<Finish>) {
        let Program { target, steps, form, guards, request, .. } = program;
        let home = request.as_ref().and_then(|_| repeated::home_of_steps(&steps));
        let role = Role::Program { target, steps, next: 0, reads: reread.is_some() };
        let mut txn = Txn::new(id, target.session, role);
        txn.reread = reread;
        txn.form = form;
        txn.guards = guards;
        txn.request = request;
        txn.home = home;
        let job = self.add_txn(txn);
        self.advance(job);
    }

    /// Begins a program whose operations are all known.
    pub(super) fn begin_direct(
        &mut self,
        target: Target,
        ops: Vec<KeyedOp>,
        finish: Finish,
        guards: Vec<Guard>,
        request: Option<RequestId>,
    ) {
        let id = TxnId { age: self.core.new_age(), attempt: 0 };
        self.begin_operations(id, (target, ops, finish), guards, request);
    }

    fn begin_operations(
        &mut self,
        id: TxnId,
        (target, ops, finish): (Target, Vec<KeyedOp>, Finish),
        guards: Vec<Guard>,
        request: Option<RequestId>,
    ) {
        let role = Role::Program { target, steps: Vec::new(), next: 0, reads: false };
        let mut txn = Txn::new(id, target.session, role);
        txn.form = finish.form;
        txn.work.ops = ops;
        txn.work.outcomes = finish.outcomes;
        txn.guards = guards;
        txn.home = request.as_ref().and_then(|_| repeated::home_of(&txn.work.ops));
        txn.request = request;
        let job = self.add_txn(txn);
        self.commit(job);
    }

    /// Carries out the steps of a program up to the next one that has to look at something.
    pub(super) fn advance(&mut self, job: u64) {
        loop {
            let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
            let Role::Program { target, steps, next, reads } = &mut txn.role else { return };
            let (target, step) = (*target, steps.get(*next).cloned());
            *next += 1;
            match step {
                None => return self.commit(job),
                Some(Step::Fixed(reply)) => {
                    txn.work.add_without_ops(Outcome::Fixed(reply));
                }
                Some(Step::Later(words)) => txn.work.add_without_ops(Outcome::Later(words)),
                Some(Step::Ops(ops, merge)) if *reads => {
                    return self.call_reads(job, ops, merge, None);
                }
                Some(Step::Ops(ops, merge)) => txn.work.add(ops, merge),
                Some(Step::Compound(compound)) => return self.call_compound(job, compound, target),
                Some(Step::Attempts(blocking)) => {
                    return self.call_attempt(job, blocking, 0, target);
                }
            }
        }
    }

    /// The attempt cannot go on. A program is tried again, with its age; the client of an
    /// interactive transaction is told to do so.
    pub(super) fn abort(&mut self, job: u64, cause: Cause) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        if txn.stage == Stage::Deciding {
            return;
        }
        if cause == Cause::Wounded && txn.stage == Stage::Preparing {
            // A participant that has logged its part may make the transaction committed, if the
            // others have as well: only one that still waits can stop it for certain. If one does,
            // it refuses, and the attempt ends then.
            txn.cancelling = true;
            let id = txn.id;
            for touched in txn.touched.iter().filter(|t| t.prepared) {
                self.core.mail.tell(touched.shard, Body::Cancel { txn: id });
            }
            return;
        }
        self.leave_leases(job, Timestamp::ZERO);
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        match &mut txn.role {
            Role::Program { target, .. } => {
                let target = *target;
                txn.refusals += u32::from(!cause.passes());
                let tries = txn.id.tries() + 1;
                if cause.is_final() || txn.refusals >= REFUSALS_MAX {
                    txn.withdraw(&mut self.core.mail);
                    let error = txn.error(cause);
                    self.core.mail.stats.aborted += 1;
                    self.drop_txn(job);
                    return self.finish(target, error.into());
                }
                // At once the first time; later only when there is reason to hope that the transaction
                // which needed what this one held has got it.
                let at_once = cause == Cause::Wounded && tries == 1;
                self.rest(job, (!at_once).then_some(BACKOFF_US << tries.min(6)));
            }
            Role::Interactive { .. } => self.abort_interactive(job, cause),
        }
    }

    /// Lets go of what an attempt has at the shards, and begins the next one after about so many
    /// microseconds, or at once.
    pub(super) fn rest(&mut self, job: u64, about_us: Option<u64>) {
        self.leave_leases(job, Timestamp::ZERO);
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        txn.withdraw(&mut self.core.mail);
        if let Role::Program { steps, next, .. } = &mut txn.role
            && txn.asks.is_none()
            && !steps.is_empty()
        {
            *next = 0;
            txn.work = Work::default();
        }
        if let Some(open) = &mut txn.open {
            open.checked = false;
        }
        self.core.mail.stats.retried += 1;
        self.txns.swap_remove(&txn.id);
        txn.id.attempt += 1;
        self.txns.insert(txn.id, job);
        txn.stage = Stage::Resting;
        match about_us {
            None => self.again(job),
            Some(us) => {
                let wait = us / 2 + self.core.random() % us;
                self.core.set_timer(wait, super::Timer::Again { job });
            }
        }
    }

    /// Tries a transaction once more.
    pub(super) fn again(&mut self, job: u64) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        if txn.stage != Stage::Resting {
            return;
        }
        txn.stage = Stage::Running;
        match &txn.role {
            Role::Program { steps, .. } if !steps.is_empty() && txn.asks.is_none() => {
                self.advance(job);
            }
            Role::Program { .. } | Role::Interactive { .. } => self.commit(job),
        }
    }

    fn abort_interactive(&mut self, job: u64, cause: Cause) {
        let Some(mut txn) = self.drop_txn(job) else { return };
        self.core.mail.stats.aborted += 1;
        self.admission.aborted();
        let error = txn.error(cause);
        let waiting: Vec<Target> = txn.calls.iter().filter_map(|(_, call)| call.target).collect();
        let Role::Interactive { commit, .. } = txn.role else { return };
        txn.withdraw(&mut self.core.mail);
        self.enter_aborted(txn.session, txn.id, error.clone(), commit.is_some());
        for target in waiting.into_iter().chain(commit) {
            self.finish(target, error.clone().into());
        }
    }

    /// An older transaction waits for what `id` holds.
    pub(super) fn wound(&mut self, id: TxnId, by: Age) {
        self.core.mail.stats.wounds += 1;
        if let Some(&job) = self.txns.get(&id) {
            return self.give_way(job);
        }
        for job in self.leases.wanted(id) {
            if let Some(Job::Txn(txn)) = self.jobs.get(job)
                && txn.id.age > by
            {
                self.give_way(job);
            }
        }
    }

    /// Lets a transaction give way to an older one: at once if it waits, otherwise when it has to.
    fn give_way(&mut self, job: u64) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        txn.wounded = true;
        if txn.blocked > 0 {
            self.abort(job, Cause::Wounded);
        }
    }

    /// Lets a transaction that ends leave its leases: at `commit`, or without effect (at zero).
    pub(super) fn leave_leases(&mut self, job: u64, commit: Timestamp) {
        if let Some(Job::Txn(txn)) = self.jobs.get_mut(job) {
            self.leases.leave_all(&mut self.core, (job, txn), commit);
        }
    }

    /// A request of a transaction waits for locks.
    pub(super) fn now_blocked(&mut self, job: u64) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        txn.blocked += 1;
        if matches!(txn.role, Role::Interactive { .. }) {
            self.admission.waits();
        }
        if txn.wounded {
            self.abort(job, Cause::Wounded);
        }
    }
}
