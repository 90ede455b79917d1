//! Table of the transactions that are under way: inputs find their transaction here, and transactions that
//! are over leave it.

use super::admission::{Admission, Admittance};
use super::lease::{EarlyAccess, LeaseOutcome, Leases};
use super::lockless::LocklessTransactions;
use super::options::{InteractiveTxn, Open, TxnOptions};
use super::transaction::context::{TxnContext, TxnEffect};
use super::transaction::intents::Intents;
use super::transaction::repeated::{home_of, home_of_steps};
use super::transaction::script;
use super::transaction::{Role, Stage, Txn};
use super::work::{Finish, Keep, Program, ProgramStep};
use crate::gateway::api::SessionId;
use crate::gateway::clients::sessions::Sessions;
use crate::gateway::core::Core;
use crate::gateway::errors::{Cause, forgotten};
use crate::gateway::mail::Target;
use crate::gateway::slab::Slab;
use crate::ids::{Age, KeyedOp, RequestId, ShardId, TxnId};
use crate::message::{Answer, Body, Guard, Refusal};
use adt::collections::Map;
use adt::{ErrorReply, Reply, Timestamp};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Transactions of a gateway.
#[derive(Default)]
pub(in crate::gateway) struct Transactions {
    open: Slab<Box<Txn>>,
    names: Map<TxnId, u64>,
    leases: Leases,
    intents: Intents,
    admission: Admission,
    lockless: LocklessTransactions,
    effects: VecDeque<TxnEffect>,
}

/// Transaction as it is described to clients that wait for its locks.
pub(super) struct TxnHolder {
    pub session: SessionId,
    /// Names under which shards know the locks.
    pub names: SmallVec<[TxnId; 2]>,
    /// Beginning of an interactive transaction, on the monotonic clock in microseconds.
    pub began_us: Option<u64>,
}

/// Name of a new transaction.
pub(super) fn new_name(core: &mut Core) -> TxnId {
    TxnId { age: core.new_age(), attempt: 0 }
}

/// Name of a transaction for which a key may be kept. It is older than all transactions that may wait for
/// the key: they do not keep it from what it needs besides.
fn taker_name(core: &mut Core) -> TxnId {
    // Two numbers of the clock, so that halves of them differ.
    core.new_age();
    let Age { began, gateway } = core.new_age();
    let age = Age { began: Timestamp(began.0 / 2), gateway };
    TxnId { age, attempt: TxnId::TAKER }
}

/// Beginnings of transactions.
impl Transactions {
    fn add(&mut self, txn: Txn) -> u64 {
        let id = txn.id;
        let job = self.open.insert(Box::new(txn));
        self.names.insert(id, job);
        job
    }

    /// Lets a transaction handle an input, and drops it if it is over then.
    fn with(&mut self, core: &mut Core, job: u64, f: impl FnOnce(&mut Txn, &mut TxnContext<'_>)) {
        let Some(txn) = self.open.get_mut(job) else { return };
        let Self { names, leases, intents, admission, effects, .. } = self;
        f(txn, &mut TxnContext { core, job, names, leases, intents, admission, effects });
        if txn.stage == Stage::Over {
            self.open.remove(job);
        }
    }

    /// Begins a program step by step. With `reread`, all its reads are carried out under locks, and
    /// `reread` makes the reply out of theirs then.
    pub fn begin(&mut self, core: &mut Core, program: Program, reread: Option<Finish>) {
        let id = new_name(core);
        self.begin_program(core, id, program, reread);
    }

    /// Begins a program that takes something for a session that has waited for it.
    pub fn begin_taking(&mut self, core: &mut Core, program: Program) {
        let id = taker_name(core);
        self.begin_program(core, id, program, None);
    }

    fn begin_program(
        &mut self,
        core: &mut Core,
        id: TxnId,
        program: Program,
        reread: Option<Finish>,
    ) {
        let Program { target, steps, form, guards, request, .. } = program;
        let home = request.as_ref().and_then(|_| home_of_steps(core, &steps));
        let role = Role::Program { target, steps, next: 0, reads: reread.is_some() };
        let mut txn = Txn::new(id, target.session, role);
        txn.reread = reread;
        txn.form = form;
        txn.guards = guards;
        txn.request = request;
        txn.home = home;
        let job = self.add(txn);
        self.with(core, job, Txn::advance);
    }

    /// Begins a program whose operations are all known.
    pub fn begin_direct(
        &mut self,
        core: &mut Core,
        target: Target,
        ops: Vec<KeyedOp>,
        finish: Finish,
        (guards, request): (Vec<Guard>, Option<RequestId>),
    ) {
        let id = new_name(core);
        self.begin_operations(core, id, (target, ops, finish), (guards, request));
    }

    /// Begins operations that take something for a session that has waited for it.
    pub fn begin_taker(
        &mut self,
        core: &mut Core,
        target: Target,
        ops: Vec<KeyedOp>,
        finish: Finish,
    ) {
        let id = taker_name(core);
        self.begin_operations(core, id, (target, ops, finish), (Vec::new(), None));
    }

    fn begin_operations(
        &mut self,
        core: &mut Core,
        id: TxnId,
        (target, ops, finish): (Target, Vec<KeyedOp>, Finish),
        (guards, request): (Vec<Guard>, Option<RequestId>),
    ) {
        let role = Role::Program { target, steps: Vec::new(), next: 0, reads: false };
        let mut txn = Txn::new(id, target.session, role);
        txn.form = finish.form;
        txn.work.ops = ops;
        txn.work.outcomes = finish.outcomes;
        txn.guards = guards;
        txn.home = request.as_ref().and_then(|_| home_of(&txn.work.ops));
        txn.request = request;
        let job = self.add(txn);
        self.with(core, job, Txn::commit);
    }

    /// Gives the replies of operations that a shard has carried out before under their request number. If
    /// the session has carried out commands behind them, asks for the replies of those.
    pub fn repeated_there(
        &mut self,
        core: &mut Core,
        target: Target,
        finish: Finish,
        replies: Vec<Reply>,
    ) {
        let Finish { outcomes, form, keep } = finish;
        let Some(keep) = keep else {
            let finish = Finish { outcomes, form, keep };
            let items = finish.items(replies.into_iter());
            return core.complete(target, finish, items);
        };
        let Keep { request, home, .. } = *keep;
        let role = Role::Program { target, steps: Vec::new(), next: 0, reads: false };
        let mut txn = Txn::new(new_name(core), target.session, role);
        (txn.form, txn.work.outcomes) = (form, outcomes);
        (txn.request, txn.home) = (Some(request), Some(home));
        (txn.asks, txn.whole_there) = (Some(Box::new(forgotten().into())), true);
        let job = self.add(txn);
        self.with(core, job, Txn::commit);
    }

    /// Begins an interactive transaction. Returns its number.
    pub(super) fn begin_interactive(
        &mut self,
        core: &mut Core,
        session: SessionId,
        id: TxnId,
        options: TxnOptions,
        request: Option<RequestId>,
    ) -> InteractiveTxn {
        core.mail.stats.interactive += 1;
        if options.is_lockless(core.config.concurrency) {
            return InteractiveTxn::Lockless(self.lockless.begin(session, id));
        }
        let TxnOptions { readonly, blind, announces, .. } = options;
        let role = Role::Interactive { blind, readonly, commit: None };
        let mut txn = Txn::new(id, session, role);
        txn.request = request;
        txn.announces = announces;
        txn.open = Some(Open::new(options, core.now.mono_us));
        let job = self.add(txn);
        self.admission.begun(core.now.mono_us, job);
        InteractiveTxn::Locking(job)
    }
}

/// Commands of interactive transactions.
impl Transactions {
    /// Makes room for a command with so many bytes. Tells whether the transaction is `READONLY`.
    pub(super) fn make_room(
        &mut self,
        txn: InteractiveTxn,
        bytes: usize,
    ) -> Result<bool, ErrorReply> {
        match txn {
            InteractiveTxn::Lockless(job) => self.lockless.make_room(job, bytes).map(|()| true),
            InteractiveTxn::Locking(job) => {
                self.open.get_mut(job).map_or(Ok(false), |txn| txn.make_room(bytes))
            }
        }
    }

    /// Carries out a command, whose reads announce a write or not. Tells whether later ones must wait for
    /// its reply.
    pub(super) fn run(
        &mut self,
        core: &mut Core,
        txn: InteractiveTxn,
        (step, announced): (ProgramStep, bool),
        target: Target,
    ) -> bool {
        let mut bars = false;
        match (txn, step) {
            (InteractiveTxn::Locking(job), step) => {
                self.with(core, job, |txn, cx| bars = txn.run(cx, (step, announced), target));
            }
            (InteractiveTxn::Lockless(job), ProgramStep::Ops(ops, merge)) => {
                self.effects.extend(self.lockless.read(core, job, ops, merge, target));
            }
            // Only reads are allowed there.
            (InteractiveTxn::Lockless(_), _) => {}
        }
        bars
    }

    /// Begins the commit, whose reply goes to `target`.
    pub(super) fn commit(&mut self, core: &mut Core, txn: InteractiveTxn, target: Target) {
        match txn {
            InteractiveTxn::Locking(job) => {
                self.with(core, job, |txn, cx| txn.commit_for(cx, target));
            }
            InteractiveTxn::Lockless(job) => {
                self.effects.extend(self.lockless.end(core, job, true));
                core.finish(target, Reply::Array(Vec::new()));
            }
        }
    }

    /// Ends a transaction without effect, because its client wants that or is gone.
    pub(super) fn give_up(&mut self, core: &mut Core, txn: InteractiveTxn) {
        match txn {
            InteractiveTxn::Locking(job) => self.with(core, job, |txn, cx| {
                txn.give_up(cx);
            }),
            InteractiveTxn::Lockless(job) => {
                self.effects.extend(self.lockless.end(core, job, false));
            }
        }
    }

    /// Whether the client has asked for the commit.
    pub(super) fn is_committing(&self, txn: InteractiveTxn) -> bool {
        match txn {
            InteractiveTxn::Locking(job) => {
                let role = self.open.get(job).map(|txn| &txn.role);
                matches!(role, Some(Role::Interactive { commit: Some(_), .. }))
            }
            InteractiveTxn::Lockless(_) => false,
        }
    }

    /// Notes that a command was refused.
    pub fn discard(&mut self, core: &mut Core, txn: InteractiveTxn) {
        if let InteractiveTxn::Locking(job) = txn {
            self.with(core, job, Txn::discard);
        }
    }
}

/// Answers of shards.
impl Transactions {
    /// Lets a script go on that has paused.
    pub fn script_goes_on(&mut self, core: &mut Core, job: u64) {
        self.with(core, job, script::go_on);
    }

    /// Takes the answer to an early access.
    pub fn accessed(
        &mut self,
        core: &mut Core,
        (token, blocked): (u64, bool),
        (job, call, index): (u64, u64, u32),
        answer: Answer,
    ) {
        self.with(core, job, |txn, cx| {
            txn.settled(token, blocked);
            txn.accessed(cx, (call, index), answer);
        });
    }

    /// Ends an attempt of which an early access has no leader.
    pub fn access_given_up(
        &mut self,
        core: &mut Core,
        (token, blocked): (u64, bool),
        job: u64,
        cause: Cause,
    ) {
        self.with(core, job, |txn, cx| {
            txn.settled(token, blocked);
            txn.abort(cx, cause);
        });
    }

    /// Takes the vote of a participant.
    pub fn voted(
        &mut self,
        core: &mut Core,
        (token, blocked): (u64, bool),
        (job, shard): (u64, ShardId),
        answer: Answer,
    ) {
        self.with(core, job, |txn, cx| {
            txn.settled(token, blocked);
            txn.voted(cx, shard, answer);
        });
    }

    /// Gives up the vote of a participant that has no leader: `certain` if it will never vote.
    pub fn vote_given_up(
        &mut self,
        core: &mut Core,
        (token, blocked): (u64, bool),
        job: u64,
        (certain, cause): (bool, Cause),
    ) {
        self.with(core, job, |txn, cx| {
            txn.settled(token, blocked);
            txn.vote_given_up(cx, certain, cause);
        });
    }

    /// Takes the answer of a participant that has carried out its part.
    pub fn executed(&mut self, core: &mut Core, job: u64, shard: ShardId, answer: Answer) {
        self.with(core, job, |txn, cx| txn.executed(cx, shard, answer));
    }

    /// Takes the answer to one operation without transactions.
    pub fn loosely_answered(&mut self, core: &mut Core, job: u64, index: u32, answer: Answer) {
        self.with(core, job, |txn, cx| txn.loosely_answered(cx, index, answer));
    }

    /// Takes a shard's answer to a read without locks, or to reads that were asked again (without a query).
    pub fn interval_answered(
        &mut self,
        core: &mut Core,
        (job, query, part): (u64, Option<u64>, u32),
        answer: Answer,
    ) {
        self.effects.extend(self.lockless.answered(core, job, (query, part), answer));
    }

    /// Ends a transaction without locks of which a read has no leader.
    pub fn interval_given_up(&mut self, core: &mut Core, job: u64, cause: Cause) {
        self.effects.extend(self.lockless.abort(core, job, cause));
    }

    /// Takes the shard's answer to the request of a lease.
    pub fn lease_answered(&mut self, core: &mut Core, lease: u64, answer: Answer) {
        let outcome = self.leases.answered(lease, answer);
        self.lease_settled(core, outcome);
    }

    /// Gives up a lease whose lock cannot be asked for.
    pub fn lease_refused(&mut self, core: &mut Core, lease: u64, cause: Cause) {
        let outcome = self.leases.refused(lease, cause);
        self.lease_settled(core, outcome);
    }

    /// Answers the accesses that have waited for a lease.
    fn lease_settled(&mut self, core: &mut Core, outcome: LeaseOutcome) {
        let LeaseOutcome { waiting, was_blocked, granted } = outcome;
        for EarlyAccess { job, call, index } in waiting {
            self.with(core, job, |txn, cx| {
                txn.blocked -= u32::from(was_blocked);
                match &granted {
                    Ok((reply, clock)) => {
                        txn.access_done(cx, (call, index), reply.clone(), *clock);
                    }
                    Err(cause) => txn.abort(cx, *cause),
                }
            });
        }
    }
}

/// Notices of shards, and time.
impl Transactions {
    /// Begins the next attempt of a transaction whose time has come.
    pub fn try_again(&mut self, core: &mut Core, job: u64) {
        self.with(core, job, Txn::try_again);
    }

    /// Notes that a request of a transaction waits for locks.
    pub fn now_blocked(&mut self, core: &mut Core, job: u64) {
        self.with(core, job, Txn::now_blocked);
    }

    /// Notes that the request of a lease waits for locks.
    pub fn lease_blocked(&mut self, core: &mut Core, lease: u64) {
        for job in self.leases.blocked(lease) {
            self.now_blocked(core, job);
        }
    }

    /// Lets a transaction give way to an older one that waits for its locks.
    pub fn wound(&mut self, core: &mut Core, id: TxnId, by: Age) {
        core.mail.stats.wounds += 1;
        if let Some(&job) = self.names.get(&id) {
            return self.with(core, job, Txn::give_way);
        }
        for job in self.leases.wanted(id) {
            if self.open.get(job).is_some_and(|txn| txn.id.age > by) {
                self.with(core, job, Txn::give_way);
            }
        }
    }

    /// Answers a shard that asks whether a transaction is decided, because another one depends on it.
    pub fn probed(&mut self, core: &mut Core, txn: TxnId, shard: ShardId) {
        let job = self.names.get(&txn);
        let open = job.and_then(|&job| self.open.get(job));
        if open.is_some_and(|open| open.stage != Stage::Deciding) {
            core.mail.tell(shard, Body::ProbeAck { txn });
        }
    }

    /// Whether this gateway coordinates a transaction.
    pub fn knows(&self, txn: TxnId) -> bool {
        self.names.contains_key(&txn)
    }

    /// Ends the attempts whose locks at a shard are lost.
    pub fn locks_lost(&mut self, core: &mut Core, shard: ShardId) {
        let leases = self.leases.at(shard);
        let concerned = |txn: &Txn| {
            matches!(txn.stage, Stage::Running | Stage::Upgrading)
                && (txn.touched.iter().any(|touched| touched.shard == shard)
                    || txn.leases.iter().any(|(lease, _)| leases.contains(lease)))
        };
        let jobs = self.open.iter().filter(|(_, txn)| concerned(txn)).map(|(job, _)| job);
        for job in jobs.collect::<Vec<u64>>() {
            let cause = Cause::Refused(Refusal::LocksLost);
            self.with(core, job, |txn, cx| txn.abort(cx, cause));
        }
        for lease in leases {
            self.leases.recall(lease);
        }
    }

    /// Ends the transactions without locks that have read at a shard that was split.
    pub fn shard_split(&mut self, core: &mut Core, shard: ShardId) {
        self.effects.extend(self.lockless.shard_split(core, shard));
    }

    /// Ends transactions for whose locks other clients have waited for a while, if they have kept them
    /// waiting for too long.
    pub fn wanted(&mut self, core: &mut Core, sessions: &Sessions, id: TxnId) {
        let alone = self.names.get(&id);
        let jobs = alone.into_iter().chain(self.leases.members(id)).copied();
        for job in jobs.collect::<SmallVec<[u64; 4]>>() {
            self.with(core, job, |txn, cx| {
                let now_us = cx.core.now.mono_us;
                let active_us = sessions.get(txn.session.0).map_or(now_us, |s| s.active_us);
                txn.wanted(cx, active_us);
            });
        }
    }
}

/// Admission of interactive transactions, and their description.
impl Transactions {
    /// Whether a session may begin a transaction now; `again` if its last one was aborted. If it may not,
    /// [`Transactions::next_admitted`] gives it in its turn.
    pub(super) fn admit(
        &mut self,
        now_us: u64,
        session: (SessionId, &mut Admittance),
        again: bool,
    ) -> bool {
        self.admission.admit(now_us, session, again)
    }

    /// Lets a transaction count as load again, because its client has sent something.
    pub(super) fn counts_again(&mut self, now_us: u64, txn: InteractiveTxn) {
        let InteractiveTxn::Locking(job) = txn else { return };
        let open = self.open.get_mut(job).and_then(|txn| txn.open.as_mut());
        if open.is_some_and(|open| open.counts_again()) {
            self.admission.begun(now_us, job);
        }
    }

    /// Ceases to count transactions that are silent, and for which no other client waits.
    pub(super) fn discount_idle(&mut self, now_us: u64, sessions: &Sessions) {
        while let Some(job) = self.admission.oldest(now_us) {
            let Some(txn) = self.open.get_mut(job) else { continue };
            let active_us = sessions.get(txn.session.0).map_or(0, |s| s.active_us);
            match txn.is_load(now_us, active_us) {
                Some(true) => self.admission.stays(now_us, job),
                Some(false) => self.admission.discounted(),
                None => {}
            }
        }
    }

    /// Whether sessions are held back.
    pub(super) fn holds_back(&self) -> bool {
        self.admission.parked() > 0
    }

    /// The session that may begin its transaction next, if there is one.
    pub(super) fn next_admitted(&mut self, now_us: u64) -> Option<SessionId> {
        self.admission.next(now_us)
    }

    /// Time at which a session has been held back long enough, in microseconds.
    pub fn next_timeout(&self) -> Option<u64> {
        self.admission.next_timeout()
    }

    /// The next effect of a transaction on its session.
    #[inline]
    pub(super) fn next_effect(&mut self) -> Option<TxnEffect> {
        self.effects.pop_front()
    }

    /// Whether effects wait to be carried out.
    #[inline]
    pub fn have_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// All transactions, as they are described to clients that wait for their locks.
    pub(super) fn holders(&self) -> impl Iterator<Item = TxnHolder> {
        self.open.iter().map(|(_, txn)| TxnHolder {
            session: txn.session,
            names: std::iter::once(txn.id).chain(self.leases.names(txn)).collect(),
            began_us: txn.open.as_ref().map(|open| open.began_us),
        })
    }

    /// Number of transactions.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.open.len() + self.lockless.len()
    }

    /// Whether no key is read under a lock that is known here.
    #[cfg(test)]
    pub fn reads_nothing(&self) -> bool {
        self.leases.is_empty()
    }
}
