//! `TXN`: interactive transactions, `TXN BEGIN`, commands that are answered as they come, `TXN COMMIT`.
//!
//! Without `BLIND`, writers answer with their value, which an early lock keeps true until the
//! commit. With it they answer `QUEUED` and are deferred, so that they wait for no lock; their
//! replies come with the commit.

use super::options::{InteractiveTxn, TxnOptions};
use super::table::{Transactions, new_name};
use super::transaction::context::TxnEffect;
use super::work::ProgramStep;
use crate::gateway::Gateway;
use crate::gateway::acl::KeyAccess;
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::api::{Question, SessionId};
use crate::gateway::clients::connection::request_id;
use crate::gateway::clients::effect::CommandEffect;
use crate::gateway::clients::session::{Session, SessionMode};
use crate::gateway::clients::session_commands::publishes;
use crate::gateway::clients::session_commands::runs_script;
use crate::gateway::clients::sessions::Sessions;
use crate::gateway::core::Core;
use crate::gateway::parts::Parts;
use crate::gateway::routing::databases::Reach;
use crate::gateway::routing::route::{unusable_key, unusable_key_of};
use crate::ids::TxnId;
use crate::message::Body;
use adt::{Args, CommandSpec, ErrorReply, Flags, Handler, Reply};

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
    (!ours && (barred || publishes(spec.name))).then(|| in_transaction(spec.name))
}

/// Whether a `READONLY` transaction takes a command.
fn only_reads(spec: &CommandSpec, step: &ProgramStep) -> Result<(), ErrorReply> {
    match step {
        ProgramStep::Ops(ops, _) if ops.iter().all(|(_, op)| !op.is_write()) => Ok(()),
        ProgramStep::Script(_) => {
            let text = "scripts and programs of types cannot run in a READONLY transaction";
            Err(ErrorReply::err(text))
        }
        _ => {
            let text = format!("'{}' can write, and this transaction is READONLY", spec.name);
            Err(ErrorReply::err(text))
        }
    }
}

/// Error for a command behind `TXN FORUPDATE` that reads nothing.
fn announces_nothing() -> ErrorReply {
    ErrorReply::err("TXN FORUPDATE takes a command that reads keys")
}

/// Whether a command reads keys before the commit.
fn reads_keys(step: &ProgramStep) -> bool {
    match step {
        ProgramStep::Ops(ops, _) => ops.iter().all(|(_, op)| !op.is_write()),
        ProgramStep::Compound(_) | ProgramStep::Script(_) => true,
        ProgramStep::Attempts(_) | ProgramStep::Fixed(_) | ProgramStep::Later(_) => false,
    }
}

/// `TXN HOLDERS key`: how many requests wait for the locks of transactions there, for how long, and which
/// transactions hold them.
fn holders(core: &Core, session: &Session, args: &Args<'_>) -> CommandEffect {
    let name = match args.blob(2) {
        Ok(name) if args.len() == 3 => name,
        _ => return ErrorReply::err("TXN HOLDERS takes a key").into(),
    };
    let key = match core.naming(session.database).named(&name) {
        Ok(key) => key,
        Err(error) => return error.into(),
    };
    if let Some(error) = unusable_key(session.reach, &key) {
        return error.into();
    }
    let read = KeyAccess { read: true, write: false };
    if !session.user.as_ref().is_some_and(|user| user.may_access(&name, read)) {
        let text = "No permissions to access a key";
        return ErrorReply::new("NOPERM", text).into();
    }
    let home = core.mail.shard_of(&key);
    let inquiry = Inquiry::of_shard(Combine::Holders, home, Body::Holders { key });
    inquiry.and_gateways(Question::Transactions).into()
}

/// `TXN RESOLVE name number`: 1 if what was sent under this request number took effect; otherwise 0, and it
/// never will. Which shard remembers it depends on the request, so all are asked, and none carries it out
/// later.
fn resolve(core: &Core, sessions: &Sessions, id: SessionId, args: &Args<'_>) -> CommandEffect {
    if args.len() != 4 {
        return ErrorReply::err("TXN RESOLVE takes a name and a number").into();
    }
    let request = match request_id(args, 2) {
        Ok(request) => request,
        Err(error) => return error.into(),
    };
    if !sessions.is_idle(id) {
        return CommandEffect::Hold;
    }
    let body = || Body::Resolve(request.clone());
    Inquiry::of_all_shards(core, Combine::Resolved, body).into()
}

impl Transactions {
    /// `TXN BEGIN [READONLY] [BLIND] [STRICT] [FORUPDATE] [IDLE ms] [TIMEOUT ms]`, `TXN COMMIT`, `TXN ABORT`,
    /// `TXN HOLDERS key`, `TXN RESOLVE name number`; `TXN FORUPDATE command` outside of a transaction.
    pub fn command(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        args: &Args<'_>,
    ) -> CommandEffect {
        let one_word = args.len() == 2;
        match () {
            () if args.is(1, "BEGIN") => match TxnOptions::parse(args, core.config.patience) {
                Ok(options) => self.begin_by_client(core, sessions, id, options),
                Err(error) => error.into(),
            },
            () if args.is(1, "HOLDERS") => {
                let Some(session) = sessions.get(id.0) else { return CommandEffect::Silent };
                holders(core, session, args)
            }
            () if args.is(1, "RESOLVE") => resolve(core, sessions, id, args),
            () if args.is(1, "FORUPDATE") => {
                ErrorReply::err("TXN FORUPDATE without TXN BEGIN").into()
            }
            () if args.is(1, "COMMIT") && one_word => self.end_by_client(core, sessions, id, true),
            () if args.is(1, "ABORT") && one_word => self.end_by_client(core, sessions, id, false),
            () => {
                let text = "unknown subcommand or wrong number of words; try TXN BEGIN, TXN COMMIT, \
                            TXN ABORT, TXN FORUPDATE command, TXN HOLDERS key or \
                            TXN RESOLVE name number";
                ErrorReply::err(text).into()
            }
        }
    }

    fn begin_by_client(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        options: TxnOptions,
    ) -> CommandEffect {
        let Some(session) = sessions.get(id.0) else { return CommandEffect::Silent };
        if matches!(session.mode, SessionMode::Interactive(_)) {
            return ErrorReply::err("TXN calls can not be nested").into();
        }
        if session.watches() {
            return ErrorReply::err("TXN BEGIN after WATCH: EXEC or UNWATCH first").into();
        }
        if !session.queue.is_empty() {
            return CommandEffect::Hold;
        }
        let (cc, now_us) = (core.config.concurrency, core.now.mono_us);
        let lockless = options.is_lockless(cc);
        if !lockless {
            self.discount_idle(now_us, sessions);
        }
        let Some(session) = sessions.get_mut(id.0) else { return CommandEffect::Silent };
        let again = session.retry.is_some();
        let applicant = (id, &mut session.admittance);
        if !lockless && cc.admits_a_few() && !self.admit(now_us, applicant, again) {
            return CommandEffect::Hold;
        }
        let (retry, request) = (session.retry.take(), session.request.take());
        let name = match retry {
            Some(old) => TxnId { attempt: old.attempt + 1, ..old },
            None => new_name(core),
        };
        let txn = self.begin_interactive(core, id, name, options, request);
        session.set_mode(SessionMode::Interactive(txn));
        Reply::Ok.into()
    }

    /// `TXN COMMIT` or `TXN ABORT`.
    fn end_by_client(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        commits: bool,
    ) -> CommandEffect {
        let Some(session) = sessions.get_mut(id.0) else { return CommandEffect::Silent };
        let txn = match &session.mode {
            SessionMode::Interactive(_) if !session.queue.is_empty() => return CommandEffect::Hold,
            SessionMode::Interactive(txn) => *txn,
            SessionMode::Aborted(error) => {
                let reply = if commits { error.clone().into() } else { Reply::Ok };
                session.set_mode(SessionMode::Single);
                return reply.into();
            }
            SessionMode::Single | SessionMode::Multi(_) => {
                let name = if commits { "COMMIT" } else { "ABORT" };
                return ErrorReply::err(format!("TXN {name} without TXN BEGIN")).into();
            }
        };
        if !commits {
            self.give_up(core, txn);
            self.settle(sessions);
            return Reply::Ok.into();
        }
        let target = sessions.place(id, None);
        sessions.bar(target);
        self.commit(core, txn, target);
        self.settle(sessions);
        CommandEffect::Silent
    }

    /// Ends the interactive transaction of a session, unless it is being committed.
    pub fn leave(&mut self, core: &mut Core, sessions: &mut Sessions, id: SessionId) {
        let Some(session) = sessions.get(id.0) else { return };
        if let SessionMode::Interactive(txn) = session.mode
            && !self.is_committing(txn)
        {
            self.give_up(core, txn);
            self.settle(sessions);
        }
    }

    /// Carries out the effects of transactions on their sessions.
    #[inline]
    pub fn settle(&mut self, sessions: &mut Sessions) {
        while let Some(effect) = self.next_effect() {
            let (id, retry, mode) = match effect {
                TxnEffect::Left(id) => (id, None, SessionMode::Single),
                TxnEffect::Aborted { session, txn, over: true, .. } => {
                    (session, Some(txn), SessionMode::Single)
                }
                TxnEffect::Aborted { session, txn, error, over: false } => {
                    (session, Some(txn), SessionMode::Aborted(error))
                }
            };
            if let Some(session) = sessions.get_mut(id.0) {
                session.retry = retry;
                session.set_mode(mode);
                sessions.has_left(id);
            }
        }
    }

    /// Lets the next session that is held back begin its transaction, if there is one and room for it.
    pub fn admit_next(&mut self, core: &Core, sessions: &mut Sessions) -> bool {
        if !self.holds_back() {
            return false;
        }
        self.discount_idle(core.now.mono_us, sessions);
        let Some(id) = self.next_admitted(core.now.mono_us) else { return false };
        if let Some(session) = sessions.get_mut(id.0) {
            session.admittance.let_in();
            sessions.resume(id);
        }
        true
    }
}

impl Gateway {
    /// Carries out a command between `TXN BEGIN` and `TXN COMMIT`, behind `TXN FORUPDATE` if it is
    /// `announced`.
    pub(in crate::gateway) fn run_in_transaction(
        &mut self,
        id: SessionId,
        txn: InteractiveTxn,
        (spec, announced): (&'static CommandSpec, bool),
        args: &Args<'_>,
    ) -> bool {
        self.parts.transactions.counts_again(self.parts.core.now.mono_us, txn);
        let runs_program =
            self.parts.sessions.get(id.0).is_some_and(|session| session.runs_program);
        let step = match spec.handler {
            _ if runs_script(spec) || runs_program => self.parts.script_step(id, spec, args),
            Handler::Session => {
                match barred(spec).or_else(|| announced.then(announces_nothing)) {
                    Some(error) => self.parts.refuse(id, error),
                    None => return self.session_command(id, spec, args),
                }
                return true;
            }
            Handler::Data(_) if spec.flags.has(Flags::NO_MULTI) => Err(in_transaction(spec.name)),
            Handler::Data(parse) => parse(args).map(ProgramStep::from),
        };
        let reach = self.parts.sessions.get(id.0).map_or(Reach::In(0), |session| session.reach);
        let step = step.and_then(|step| {
            if let Some(error) = unusable_key_of(reach, std::slice::from_ref(&step)) {
                return Err(error);
            }
            let bytes = args.iter_from(0).map(<[u8]>::len).sum();
            if announced && !reads_keys(&step) {
                return Err(announces_nothing());
            }
            if self.parts.transactions.make_room(txn, bytes)? {
                only_reads(spec, &step)?;
                if announced {
                    return Err(ErrorReply::err("TXN FORUPDATE in a READONLY transaction"));
                }
            }
            Ok(step)
        });
        match step {
            Ok(step) => {
                let Parts { core, sessions, transactions, .. } = &mut self.parts;
                let target = sessions.place(id, None);
                if transactions.run(core, txn, (step, announced), target) {
                    sessions.bar(target);
                }
                transactions.settle(sessions);
            }
            Err(error) => self.parts.refuse(id, error),
        }
        true
    }
}
