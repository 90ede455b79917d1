//! Interactive transactions: `TXN BEGIN`, commands that are answered as they come, `TXN COMMIT`.
//!
//! Without `BLIND`, writers answer with their value, which an early lock keeps true until the
//! commit. With it they answer `QUEUED` and are deferred, so that they wait for nobody; their
//! replies come with the commit.

use super::open::{Open, Wish, holders};
use super::readonly::Intervals;
use super::work::Step;
use super::{Role, Txn};
use crate::gateway::api::SessionId;
use crate::gateway::clients::connection::request_id;
use crate::gateway::clients::effect::Handled;
use crate::gateway::clients::session::{Mode, Session};
use crate::gateway::errors::Cause;
use crate::gateway::mail::{Pending, Target, WHOLE};
use crate::gateway::routing::route::long_key;
use crate::gateway::{Gateway, Job};
use crate::ids::{KeyedOp, TxnId};
use crate::limits::{TRANSACTION_BYTES_MAX, TRANSACTION_COMMANDS_MAX};
use crate::message::Body;
use adt::{Args, CommandSpec, Compound, ErrorReply, Flags, Handler, Merge, Reply};

/// Commands of the session that an aborted transaction answers as those on keys.
const REFUSED: [&str; 5] = ["multi", "watch", "publish", "fence", "lock.section"];

fn in_transaction(name: &str) -> ErrorReply {
    ErrorReply::err(format!("'{name}' is not allowed inside a TXN transaction"))
}

impl Gateway {
    /// `TXN BEGIN [READONLY] [BLIND] [STRICT] [IDLE ms] [TIMEOUT ms]`, `TXN COMMIT`, `TXN ABORT`,
    /// `TXN HOLDERS key`, `TXN RESOLVE name number`.
    pub(in crate::gateway) fn txn_command(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let one_word = args.len() == 2;
        if args.is(1, "BEGIN") {
            return match Wish::parse(args, self.core.config.patience) {
                Ok(wish) => self.begin_interactive(id, wish),
                Err(error) => error.into(),
            };
        }
        if args.is(1, "HOLDERS") {
            let Some(session) = self.sessions.get(id.0) else { return Handled::Later };
            let effect = holders(&self.core, session, args);
            return self.carry_out(id, effect);
        }
        if args.is(1, "RESOLVE") {
            return self.resolve(id, args);
        }
        match () {
            () if args.is(1, "COMMIT") && one_word => self.commit_interactive(id),
            () if args.is(1, "ABORT") && one_word => self.give_up_interactive(id),
            () => {
                let text = "unknown subcommand or wrong number of words; try TXN BEGIN, TXN COMMIT, \
                            TXN ABORT, TXN HOLDERS key or TXN RESOLVE name number";
                ErrorReply::err(text).into()
            }
        }
    }

    /// `TXN RESOLVE name number`: 1 if the transaction that was begun under this request number
    /// took effect; otherwise 0, and it never will.
    fn resolve(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        if args.len() != 4 {
            return ErrorReply::err("TXN RESOLVE takes a name and a number").into();
        }
        let request = match request_id(args, 2) {
            Ok(request) => request,
            Err(error) => return error.into(),
        };
        if !self.is_idle(id) {
            return Handled::Hold;
        }
        let target = self.place(id, None);
        let shard = self.core.mail.shard_of(&request.client);
        let pending = Pending::Single { target, wrote: None, after: None };
        self.ask_loosely(target.session, shard, pending, Body::Resolve(request));
        Handled::Later
    }

    fn begin_interactive(&mut self, id: SessionId, wish: Wish) -> Handled {
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        if matches!(session.mode, Mode::Interactive(_)) {
            return ErrorReply::err("TXN calls can not be nested").into();
        }
        if !session.watched.is_empty() || session.watching > 0 {
            return ErrorReply::err("TXN BEGIN after WATCH: EXEC or UNWATCH first").into();
        }
        if !session.queue.is_empty() {
            return Handled::Hold;
        }
        let Wish { readonly, blind, .. } = wish;
        let lockless = readonly && self.core.config.concurrency.reads_without_locks();
        if !lockless {
            let now_us = self.core.now.mono_us;
            self.admission.discount_idle(now_us, &mut self.jobs, &self.sessions);
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        let limited = !lockless && self.core.config.concurrency.admits_a_few();
        if limited && !self.admission.admit(self.core.now.mono_us, id, session) {
            return Handled::Hold;
        }
        let retry = session.retry.take();
        let request = session.request.take();
        let txn = match retry {
            Some(old) => TxnId { attempt: old.attempt + 1, ..old },
            None => TxnId { age: self.core.new_age(), attempt: 0 },
        };
        let job = if lockless {
            self.jobs.insert(Job::Intervals(Box::new(Intervals::new(txn, id))))
        } else {
            let role = Role::Interactive { blind, readonly, commit: None };
            let mut open = Txn::new(txn, id, role);
            open.request = request;
            open.open = Some(Open::new(wish, self.core.now.mono_us));
            let job = self.add_txn(open);
            self.admission.begun(self.core.now.mono_us, job);
            job
        };
        self.core.mail.stats.interactive += 1;
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.mode = Mode::Interactive(job);
            session.refresh();
        }
        Reply::Ok.into()
    }

    fn commit_interactive(&mut self, id: SessionId) -> Handled {
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        let job = match &session.mode {
            Mode::Interactive(job) => *job,
            Mode::Aborted(error) => {
                let error = error.clone();
                session.mode = Mode::Single;
                session.refresh();
                return error.into();
            }
            _ => return ErrorReply::err("TXN COMMIT without TXN BEGIN").into(),
        };
        if !session.queue.is_empty() {
            return Handled::Hold;
        }
        if matches!(self.jobs.get(job), Some(Job::Intervals(_))) {
            self.end_intervals(job, true);
            return Reply::Array(Vec::new()).into();
        }
        let target = self.place(id, None);
        self.bar(target);
        self.commit_target(job, target);
        self.commit(job);
        Handled::Later
    }

    fn give_up_interactive(&mut self, id: SessionId) -> Handled {
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        match session.mode {
            Mode::Interactive(_) if !session.queue.is_empty() => return Handled::Hold,
            Mode::Interactive(job) => self.drop_interactive(job),
            Mode::Aborted(_) => {
                session.mode = Mode::Single;
                session.refresh();
            }
            _ => return ErrorReply::err("TXN ABORT without TXN BEGIN").into(),
        }
        Reply::Ok.into()
    }

    /// Ends an interactive transaction without effect, because its client wants so or is gone.
    pub(in crate::gateway) fn drop_interactive(&mut self, job: u64) {
        if matches!(self.jobs.get(job), Some(Job::Intervals(_))) {
            return self.end_intervals(job, false);
        }
        self.leave_leases(job, adt::Timestamp::ZERO);
        if let Some(mut txn) = self.drop_txn(job) {
            txn.withdraw(&mut self.core.mail);
            self.leave_transaction(&txn, true);
        }
    }

    /// A command between `TXN BEGIN` and `TXN COMMIT`.
    pub(in crate::gateway) fn run_in_transaction(
        &mut self,
        id: SessionId,
        job: u64,
        spec: &'static CommandSpec,
        args: &Args<'_>,
    ) -> bool {
        if let Some(Job::Txn(txn)) = self.jobs.get_mut(job)
            && txn.counts_again()
        {
            self.admission.begun(self.core.now.mono_us, job);
        }
        let Handler::Data(parse) = spec.handler else {
            if ["fence", "lock.section"].contains(&spec.name) {
                let name = spec.name.to_ascii_uppercase();
                let text = format!(
                    "{name} is not allowed inside a TXN transaction: read LOCK.HELD in it, which keeps \
                     its answer true until the commit"
                );
                self.refuse(id, ErrorReply::err(text));
                return true;
            }
            let ours = ["txn", "quit", "reset"].contains(&spec.name);
            let barred = spec.flags.has(Flags::NO_MULTI) || spec.flags.has(Flags::NO_TXN);
            if !ours && (barred || spec.name == "publish") {
                self.refuse(id, in_transaction(spec.name));
                return true;
            }
            return self.session_command(id, spec, args);
        };
        if spec.flags.has(Flags::NO_MULTI) {
            self.refuse(id, in_transaction(spec.name));
            return true;
        }
        let step = match parse(args) {
            Ok(command) => Step::from(command),
            Err(error) => {
                self.refuse(id, error);
                return true;
            }
        };
        let bytes = args.iter_from(0).map(<[u8]>::len).sum();
        if let Err(error) = self.check_step(job, spec, &step, bytes) {
            self.refuse(id, error);
            return true;
        }
        self.run_step(id, job, step);
        true
    }

    /// A command was refused. A blind transaction cannot go on without it: its client may have
    /// sent the commit already, without looking at the replies. A strict one does not.
    pub(in crate::gateway) fn discard_open(&mut self, job: u64) {
        match self.jobs.get(job) {
            Some(Job::Txn(txn)) if matches!(txn.role, Role::Interactive { blind: true, .. }) => {
                self.abort(job, Cause::Discarded);
            }
            _ => self.discard_strict(job),
        }
    }

    /// Whether a command has room in a transaction and may be in it.
    fn check_step(
        &mut self,
        job: u64,
        spec: &CommandSpec,
        step: &Step,
        bytes: usize,
    ) -> Result<(), ErrorReply> {
        if let Some(error) = long_key(std::slice::from_ref(step)) {
            return Err(error);
        }
        let full = || {
            ErrorReply::err(format!(
                "a transaction has at most {TRANSACTION_COMMANDS_MAX} operations and \
                 {TRANSACTION_BYTES_MAX} bytes of commands"
            ))
        };
        let readonly = match self.jobs.get_mut(job) {
            Some(Job::Intervals(txn)) => {
                txn.bytes += bytes;
                if txn.reads >= TRANSACTION_COMMANDS_MAX || txn.bytes > TRANSACTION_BYTES_MAX {
                    return Err(full());
                }
                true
            }
            Some(Job::Txn(txn)) => {
                txn.bytes += bytes;
                let commands = txn.work.ops.len().max(txn.work.outcomes.len());
                if commands >= TRANSACTION_COMMANDS_MAX || txn.bytes > TRANSACTION_BYTES_MAX {
                    return Err(full());
                }
                matches!(txn.role, Role::Interactive { readonly: true, .. })
            }
            _ => false,
        };
        let only_reads = match step {
            Step::Ops(ops, _) => ops.iter().all(|(_, op)| !op.is_write()),
            _ => false,
        };
        if readonly && !only_reads {
            let text = format!("'{}' can write, and this transaction is READONLY", spec.name);
            return Err(ErrorReply::err(text));
        }
        Ok(())
    }

    fn run_step(&mut self, id: SessionId, job: u64, step: Step) {
        let seq = self.sessions.get_mut(id.0).map_or(0, Session::push);
        let target = Target { session: id, seq, item: WHOLE };
        if matches!(self.jobs.get(job), Some(Job::Intervals(_))) {
            if let Step::Ops(ops, merge) = step {
                self.read_in_interval(job, ops, merge, target);
            }
            return;
        }
        match step {
            Step::Ops(ops, merge) if ops.iter().all(|(_, op)| !op.is_write()) => {
                self.call_reads(job, ops, merge, Some(target));
            }
            Step::Ops(ops, merge) => self.write_in_transaction(job, ops, merge, target),
            Step::Compound(compound) => {
                self.bar(target);
                self.call_compound(job, compound, target);
            }
            Step::Attempts(blocking) => {
                self.bar(target);
                self.call_attempt(job, blocking, 0, target);
            }
            Step::Fixed(reply) => self.finish(target, reply),
            Step::Later(_) => {}
        }
    }

    fn write_in_transaction(
        &mut self,
        job: u64,
        ops: Vec<KeyedOp>,
        merge: Option<Merge>,
        target: Target,
    ) {
        let cc = self.core.config.concurrency;
        let Some(Job::Txn(txn)) = self.jobs.get(job) else { return };
        match txn.role {
            Role::Interactive { blind: true, .. } if cc.defers_writes() => {
                // The shared reads are asked again as they were: without these writes.
                self.upgrade_for(job, &ops);
                if let Some(Job::Txn(txn)) = self.jobs.get_mut(job) {
                    txn.work.add(ops, merge);
                }
                self.finish(target, Reply::Status("QUEUED"));
            }
            Role::Interactive { blind: true, .. } => {
                self.upgrade_for(job, &ops);
                self.call_locks(job, ops, merge, target);
            }
            _ => match chosen_first(&ops).filter(|_| cc.takes_locks()) {
                Some(compound) => {
                    self.bar(target);
                    self.call_compound(job, compound, target);
                }
                None => self.call_writes(job, ops, merge, target),
            },
        }
    }

    /// A command after the transaction was aborted and before the client has ended it.
    pub(in crate::gateway) fn run_in_aborted(
        &mut self,
        id: SessionId,
        error: ErrorReply,
        spec: &'static CommandSpec,
        args: &Args<'_>,
    ) -> bool {
        match spec.handler {
            Handler::Data(_) => {
                self.reply(id, error.into());
                true
            }
            Handler::Session if REFUSED.contains(&spec.name) => {
                self.reply(id, error.into());
                true
            }
            Handler::Session => self.session_command(id, spec, args),
        }
    }

    /// The transaction of a session was aborted: its commands answer so from now on.
    pub(in crate::gateway) fn enter_aborted(
        &mut self,
        id: SessionId,
        txn: TxnId,
        error: ErrorReply,
        over: bool,
    ) {
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.retry = Some(txn);
            session.mode = if over { Mode::Single } else { Mode::Aborted(error) };
            session.refresh();
        }
    }
}

/// A command that leaves the store a choice, which is not to be made again at the commit: its reply
/// is known before.
fn chosen_first(ops: &[KeyedOp]) -> Option<Compound> {
    match ops {
        [(key, op)] => op.chosen_first(key),
        _ => None,
    }
}
