//! `TXN`: interactive transactions, `TXN BEGIN`, commands that are answered as they come, `TXN COMMIT`.
//!
//! Without `BLIND`, writers answer with their value, which an early lock keeps true until the
//! commit. With it they answer `QUEUED` and are deferred, so that they wait for no lock; their
//! replies come with the commit.

use super::options::{InteractiveTxn, TxnOptions};
use super::table::new_name;
use super::transaction::context::TxnEffect;
use super::work::ProgramStep;
use crate::gateway::Gateway;
use crate::gateway::acl::KeyAccess;
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::api::{Question, SessionId};
use crate::gateway::clients::connection::request_id;
use crate::gateway::clients::effect::{CommandEffect, Handled};
use crate::gateway::clients::session::{Session, SessionMode};
use crate::gateway::core::Core;
use crate::gateway::mail::{Pending, Target, WHOLE};
use crate::gateway::parts::Parts;
use crate::gateway::routing::route::{key_too_long, long_key};
use crate::ids::TxnId;
use crate::message::Body;
use adt::{Args, CommandSpec, ErrorReply, Flags, Handler, Reply};

/// Commands of the session that an aborted transaction answers as those on keys.
const REFUSED: [&str; 5] = ["multi", "watch", "publish", "fence", "lock.section"];

/// Error for a command that a transaction does not take.
fn in_transaction(name: &str) -> ErrorReply {
    ErrorReply::err(format!("'{name}' is not allowed inside a TXN transaction"))
}

/// Error for a command of the session that is not allowed between `TXN BEGIN` and `TXN COMMIT`.
fn barred(spec: &CommandSpec) -> Option<ErrorReply> {
    if ["fence", "lock.section"].contains(&spec.name) {
        let name = spec.name.to_ascii_uppercase();
        return Some(ErrorReply::err(format!(
            "{name} is not allowed inside a TXN transaction: read LOCK.HELD in it, which keeps \
             its answer true until the commit"
        )));
    }
    let ours = ["txn", "quit", "reset"].contains(&spec.name);
    let barred = spec.flags.has(Flags::NO_MULTI) || spec.flags.has(Flags::NO_TXN);
    (!ours && (barred || spec.name == "publish")).then(|| in_transaction(spec.name))
}

/// Whether a `READONLY` transaction takes a command.
fn only_reads(spec: &CommandSpec, step: &ProgramStep) -> Result<(), ErrorReply> {
    match step {
        ProgramStep::Ops(ops, _) if ops.iter().all(|(_, op)| !op.is_write()) => Ok(()),
        _ => {
            let text = format!("'{}' can write, and this transaction is READONLY", spec.name);
            Err(ErrorReply::err(text))
        }
    }
}

/// `TXN HOLDERS key`: how many requests wait for the locks of transactions there, for how long, and which
/// transactions hold them.
fn holders(core: &Core, session: &Session, args: &Args<'_>) -> CommandEffect {
    let key = match args.blob(2) {
        Ok(key) if args.len() == 3 => key,
        _ => return ErrorReply::err("TXN HOLDERS takes a key").into(),
    };
    if let Some(error) = key_too_long(&key) {
        return error.into();
    }
    let read = KeyAccess { read: true, write: false };
    if !session.user.as_ref().is_some_and(|user| user.may_access(&key, read)) {
        let text = "No permissions to access a key";
        return ErrorReply::new("NOPERM", text).into();
    }
    let home = core.mail.shard_of(&key);
    let inquiry = Inquiry::of_shard(Combine::Holders, home, Body::Holders { key });
    inquiry.and_gateways(Question::Transactions).into()
}

impl Session {
    /// Ends what the session is in the middle of. Its next transaction is as old as `retry`.
    fn leave_transaction(&mut self, retry: Option<TxnId>) {
        self.mode = SessionMode::Single;
        self.retry = retry;
        self.refresh();
    }
}

impl Gateway {
    /// Carries out a command between `TXN BEGIN` and `TXN COMMIT`.
    pub(in crate::gateway) fn run_in_transaction(
        &mut self,
        id: SessionId,
        txn: InteractiveTxn,
        spec: &'static CommandSpec,
        args: &Args<'_>,
    ) -> bool {
        if let InteractiveTxn::Locking(job) = txn {
            self.parts.transactions.counts_again(self.parts.core.now.mono_us, job);
        }
        let Handler::Data(parse) = spec.handler else {
            match barred(spec) {
                Some(error) => self.parts.refuse(id, error),
                None => return self.session_command(id, spec, args),
            }
            return true;
        };
        let step = if spec.flags.has(Flags::NO_MULTI) {
            Err(in_transaction(spec.name))
        } else {
            parse(args).map(ProgramStep::from)
        };
        let step = step.and_then(|step| {
            if let Some(error) = long_key(std::slice::from_ref(&step)) {
                return Err(error);
            }
            let bytes = args.iter_from(0).map(<[u8]>::len).sum();
            let readonly = match txn {
                InteractiveTxn::Locking(job) => self.parts.transactions.make_room(job, bytes)?,
                InteractiveTxn::Lockless(job) => {
                    self.parts.lockless.make_room(job, bytes)?;
                    true
                }
            };
            if readonly {
                only_reads(spec, &step)?;
            }
            Ok(step)
        });
        match step {
            Ok(step) => self.parts.run_step(id, txn, step),
            Err(error) => self.parts.refuse(id, error),
        }
        true
    }

    /// Carries out a command after the transaction was aborted and before the client has ended it.
    pub(in crate::gateway) fn run_in_aborted(
        &mut self,
        id: SessionId,
        error: ErrorReply,
        spec: &'static CommandSpec,
        args: &Args<'_>,
    ) -> bool {
        if matches!(spec.handler, Handler::Session) && !REFUSED.contains(&spec.name) {
            return self.session_command(id, spec, args);
        }
        self.parts.sessions.reply(&mut self.parts.core, id, error.into());
        true
    }
}

impl Parts {
    /// `TXN BEGIN [READONLY] [BLIND] [STRICT] [IDLE ms] [TIMEOUT ms]`, `TXN COMMIT`, `TXN ABORT`,
    /// `TXN HOLDERS key`, `TXN RESOLVE name number`.
    pub(in crate::gateway) fn txn_command(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let one_word = args.len() == 2;
        match () {
            () if args.is(1, "BEGIN") => match TxnOptions::parse(args, self.core.config.patience) {
                Ok(options) => self.begin_interactive(id, options),
                Err(error) => error.into(),
            },
            () if args.is(1, "HOLDERS") => {
                let Some(session) = self.sessions.get(id.0) else { return Handled::Later };
                let effect = holders(&self.core, session, args);
                self.carry_out(id, effect)
            }
            () if args.is(1, "RESOLVE") => self.resolve(id, args),
            () if args.is(1, "COMMIT") && one_word => self.commit_interactive(id),
            () if args.is(1, "ABORT") && one_word => self.abort_interactive(id),
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
        if !self.sessions.is_idle(id) {
            return Handled::Hold;
        }
        let target = self.sessions.place(id, None);
        let shard = self.core.mail.shard_of(&request.client);
        let pending = Pending::Single { target, wrote: None, after: None };
        self.sessions.ask(&mut self.core, target.session, shard, pending, Body::Resolve(request));
        Handled::Later
    }

    fn begin_interactive(&mut self, id: SessionId, options: TxnOptions) -> Handled {
        let Some(session) = self.sessions.get(id.0) else { return Handled::Later };
        if matches!(session.mode, SessionMode::Interactive(_)) {
            return ErrorReply::err("TXN calls can not be nested").into();
        }
        if !session.watched.is_empty() || session.watching > 0 {
            return ErrorReply::err("TXN BEGIN after WATCH: EXEC or UNWATCH first").into();
        }
        if !session.queue.is_empty() {
            return Handled::Hold;
        }
        let cc = self.core.config.concurrency;
        let lockless = options.readonly && cc.reads_without_locks();
        if !lockless {
            self.discount_idle();
        }
        let now_us = self.core.now.mono_us;
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        let again = session.retry.is_some();
        let standing = (id, &mut session.standing);
        if !lockless && cc.admits_a_few() && !self.transactions.admit(now_us, standing, again) {
            return Handled::Hold;
        }
        let (retry, request) = (session.retry.take(), session.request.take());
        let txn = match retry {
            Some(old) => TxnId { attempt: old.attempt + 1, ..old },
            None => new_name(&mut self.core),
        };
        let core = &mut self.core;
        session.mode = SessionMode::Interactive(if lockless {
            InteractiveTxn::Lockless(self.lockless.begin(core, id, txn))
        } else {
            let job = self.transactions.begin_interactive(core, id, txn, options, request);
            InteractiveTxn::Locking(job)
        });
        session.refresh();
        Reply::Ok.into()
    }

    fn commit_interactive(&mut self, id: SessionId) -> Handled {
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        let txn = match &session.mode {
            SessionMode::Interactive(txn) => *txn,
            SessionMode::Aborted(error) => {
                let error = error.clone();
                session.mode = SessionMode::Single;
                session.refresh();
                return error.into();
            }
            _ => return ErrorReply::err("TXN COMMIT without TXN BEGIN").into(),
        };
        if !session.queue.is_empty() {
            return Handled::Hold;
        }
        match txn {
            InteractiveTxn::Lockless(job) => {
                let effect = self.lockless.end(&mut self.core, job, true);
                self.transaction_ended(effect);
                Reply::Array(Vec::new()).into()
            }
            InteractiveTxn::Locking(job) => {
                let target = self.sessions.place(id, None);
                self.sessions.bar(target);
                self.transactions.commit(&mut self.core, job, target);
                self.settle_transactions();
                Handled::Later
            }
        }
    }

    fn abort_interactive(&mut self, id: SessionId) -> Handled {
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        match session.mode {
            SessionMode::Interactive(_) if !session.queue.is_empty() => return Handled::Hold,
            SessionMode::Interactive(txn) => self.drop_interactive(txn),
            SessionMode::Aborted(_) => {
                session.mode = SessionMode::Single;
                session.refresh();
            }
            _ => return ErrorReply::err("TXN ABORT without TXN BEGIN").into(),
        }
        Reply::Ok.into()
    }

    fn drop_interactive(&mut self, txn: InteractiveTxn) {
        match txn {
            InteractiveTxn::Lockless(job) => {
                let effect = self.lockless.end(&mut self.core, job, false);
                self.transaction_ended(effect);
            }
            InteractiveTxn::Locking(job) => {
                self.transactions.give_up(&mut self.core, job);
                self.settle_transactions();
            }
        }
    }

    /// Ends the interactive transaction of a session, unless it is being committed.
    pub(in crate::gateway) fn end_interactive(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(id.0) else { return };
        let SessionMode::Interactive(txn) = session.mode else { return };
        let committing = match txn {
            InteractiveTxn::Locking(job) => self.transactions.is_committing(job),
            InteractiveTxn::Lockless(_) => false,
        };
        if !committing {
            self.drop_interactive(txn);
        }
    }

    fn run_step(&mut self, id: SessionId, txn: InteractiveTxn, step: ProgramStep) {
        let seq = self.sessions.get_mut(id.0).map_or(0, Session::push);
        let target = Target { session: id, seq, item: WHOLE };
        match txn {
            InteractiveTxn::Locking(job) => {
                if self.transactions.run(&mut self.core, job, step, target) {
                    self.sessions.bar(target);
                }
                self.settle_transactions();
            }
            InteractiveTxn::Lockless(job) => {
                if let ProgramStep::Ops(ops, merge) = step {
                    let effect = self.lockless.read(&mut self.core, job, ops, merge, target);
                    self.transaction_ended(effect);
                }
            }
        }
    }

    /// Notes that a command for an interactive transaction was refused.
    pub(in crate::gateway) fn discard_open(&mut self, txn: InteractiveTxn) {
        if let InteractiveTxn::Locking(job) = txn {
            self.transactions.discard(&mut self.core, job);
            self.settle_transactions();
        }
    }

    /// Carries out the effects of transactions on their sessions.
    #[inline]
    pub(in crate::gateway) fn settle_transactions(&mut self) {
        while let Some(effect) = self.transactions.next_effect() {
            self.transaction_ended(Some(effect));
        }
    }

    /// Lets a session go on without its transaction, if one has ended.
    pub(in crate::gateway) fn transaction_ended(&mut self, effect: Option<TxnEffect>) {
        match effect {
            None => {}
            Some(TxnEffect::Left(id)) => {
                if let Some(session) = self.sessions.get_mut(id.0) {
                    session.leave_transaction(None);
                }
            }
            Some(TxnEffect::Aborted { session, txn, error, over }) => {
                let Some(session) = self.sessions.get_mut(session.0) else { return };
                session.leave_transaction(Some(txn));
                if !over {
                    session.mode = SessionMode::Aborted(error);
                    session.refresh();
                }
            }
        }
    }

    /// Ends transactions for whose locks other clients have waited for too long.
    pub(in crate::gateway) fn wanted(&mut self, id: TxnId) {
        for (job, session) in self.transactions.holders_of(id) {
            let now_us = self.core.now.mono_us;
            let active_us = self.sessions.get(session.0).map_or(now_us, |s| s.active_us);
            self.transactions.wanted(&mut self.core, job, active_us);
        }
    }

    /// Ceases to count transactions that are silent, and that no other client waits for.
    fn discount_idle(&mut self) {
        let now_us = self.core.now.mono_us;
        while let Some((job, session)) = self.transactions.next_to_look_at(now_us) {
            let active_us = self.sessions.get(session.0).map_or(0, |s| s.active_us);
            self.transactions.looked_at(now_us, job, active_us);
        }
    }

    /// Lets the next session that is held back begin its transaction, if there is one and room for it.
    pub(in crate::gateway) fn admit_next(&mut self) -> bool {
        if !self.transactions.holds_back() {
            return false;
        }
        self.discount_idle();
        let Some(id) = self.transactions.next_admitted(self.core.now.mono_us) else { return false };
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.standing.let_in();
            self.sessions.resume(id);
        }
        true
    }
}
