//! Dispatch: from the words of a command to the part that carries it out, by the table of commands, the
//! number of words, access control, memory and the mode of the session.

use super::foreign::is_http;
use super::session::{Held, Replies, Session, SessionMode};
use super::session_commands;
use crate::gateway::Gateway;
use crate::gateway::api::{Output, SessionId};
use crate::gateway::command_docs::find::{checked, is_heavy, is_heavy_spec};
use crate::gateway::operators::words::NOT_KEPT;
use crate::gateway::parts::Parts;
use crate::gateway::routing::databases::{Reach, stored};
use crate::gateway::txn::multi;
use crate::gateway::txn::options::is_allowed_in_aborted;
use crate::gateway::types::known::{Resolved, is_call, spec_at};
use crate::now::Now;
use adt::command::tags::TagRules;
use adt::{ArgBuf, Args, Command, CommandSpec, ErrorReply, Flags, Handler};

/// The command in `TXN FORUPDATE command`.
fn announced<'a>(args: &Args<'a>) -> Option<Args<'a>> {
    if args.len() > 2 && args.is(0, "TXN") && args.is(1, "FORUPDATE") { args.tail(2) } else { None }
}

impl Gateway {
    /// Takes a command of a client. Returns whether its reply may be large, as [`is_heavy`] does.
    pub fn command(&mut self, now: Now, id: SessionId, args: &Args<'_>) -> bool {
        self.parts.core.now = now;
        self.parts.core.mail.stats.commands += 1;
        let Some(session) = self.parts.sessions.get_mut(id.0) else { return false };
        if session.closing {
            return false;
        }
        session.active_us = now.mono_us;
        let wait = session.is_barred(args) || !session.held.is_empty();
        let ran = !wait && self.run(id, args);
        let session = self.parts.sessions.get(id.0);
        let mut heavy = if ran {
            session.is_some_and(|session| session.heavy)
        } else {
            is_heavy(announced(args).as_ref().unwrap_or(args))
        };
        if !ran {
            self.parts.sessions.hold(id, args);
            let bytes = args.iter_from(0).map(<[u8]>::len).sum();
            heavy &= !self.parts.held_back(bytes, heavy);
        }
        self.settle();
        heavy
    }

    /// Refuses a command that was not read, because it is too large or there is no room for it. The
    /// client gets the error in turn, and may go on.
    pub fn unread(&mut self, now: Now, id: SessionId, error: ErrorReply) {
        self.parts.core.now = now;
        self.parts.core.mail.stats.commands += 1;
        let Some(session) = self.parts.sessions.get_mut(id.0) else { return };
        if session.closing {
            return;
        }
        session.active_us = now.mono_us;
        if session.barrier.is_some() || !session.held.is_empty() {
            session.held.push_back(Held::Refused(error));
        } else {
            self.parts.refuse_unread(id, error);
        }
        self.settle();
    }

    /// Ends the connection of a client that broke the protocol: the error is its last reply.
    pub fn protocol_error(&mut self, now: Now, id: SessionId, error: ErrorReply) {
        self.parts.core.now = now;
        let Some(session) = self.parts.sessions.get_mut(id.0) else { return };
        if session.closing {
            return;
        }
        if session.barrier.is_some() || !session.held.is_empty() {
            session.held.push_back(Held::Fault(error));
            session.closing = true;
        } else {
            self.parts.sessions.end(&mut self.parts.core, id, error);
            self.settle();
        }
    }

    /// Carries out a command. False if it must wait for the replies before it.
    pub(in crate::gateway) fn run(&mut self, id: SessionId, args: &Args<'_>) -> bool {
        let session = self.parts.sessions.get(id.0);
        let open = |session: &Session| {
            matches!(session.mode, SessionMode::Interactive(_) | SessionMode::Aborted(_))
        };
        match session.filter(|session| open(session)).and_then(|_| announced(args)) {
            Some(command) => self.run_command(id, &command, true),
            None => self.run_command(id, args, false),
        }
    }

    /// Carries out a command, which announces that what it reads is written later, or does not.
    fn run_command(&mut self, id: SessionId, args: &Args<'_>, announced: bool) -> bool {
        let position = session_commands::position(args.get(0).unwrap_or_default());
        let call = match position {
            Some(position) if !is_call(spec_at(position)) => None,
            _ if self.parts.sessions.get(id.0).is_none_or(|session| session.user.is_none()) => None,
            _ => self.parts.resolve(args),
        };
        let runs_program = matches!(call, Some(Resolved::Program(..)));
        let may_be_call = call.is_some() || position.is_none();
        if may_be_call
            && !runs_program
            && self.parts.sessions.get(id.0).is_some_and(|session| session.barrier.is_some())
        {
            // Only scripts may stand behind scripts whose replies are not there yet.
            return false;
        }
        let mut resolved = None;
        let found = match call {
            None => checked(position, args),
            Some(Resolved::Read) => return false,
            Some(Resolved::Error(error)) => Err(error),
            Some(Resolved::Call(position, words) | Resolved::Program(position, words)) => {
                resolved = Some(words);
                Ok((position, spec_at(position)))
            }
        };
        let (position, spec) = match found {
            Ok(found) => found,
            Err(error) => {
                if let Some(session) = self.parts.sessions.get_mut(id.0) {
                    session.counted = position.and_then(|position| u16::try_from(position).ok());
                }
                if is_http(args) {
                    let text =
                        "Protocol error: this is no HTTP server, and the connection is closed";
                    self.parts.core.mail.outputs.push_back(Output::Foreign { session: id });
                    self.parts.sessions.end(&mut self.parts.core, id, ErrorReply::err(text));
                } else {
                    self.parts.refuse(id, error);
                }
                return true;
            }
        };
        let Some(session) = self.parts.sessions.get_mut(id.0) else { return true };
        session.command = spec.name;
        session.heavy = is_heavy_spec(spec);
        session.runs_program = runs_program;
        session.counted = u16::try_from(position).ok();
        session.begun_us = self.parts.core.now.mono_us;
        session.words = NOT_KEPT;
        if self.parts.core.slow.needs_words() {
            session.words = session.kept.add(spec, args);
        }
        let words = session.words;
        let before = self.parts.queued(id);
        let run = resolved.as_ref().map(ArgBuf::args);
        let ran = self.run_found(id, (spec, announced), run.as_ref().unwrap_or(args));
        // A command that waits is counted when it goes ahead; a refused command is not counted.
        if ran && self.parts.sessions.get(id.0).is_none_or(|session| session.counted.is_some()) {
            self.parts.core.mail.stats.of_command(position).calls += 1;
        }
        if !ran && let Some(session) = self.parts.sessions.get_mut(id.0) {
            session.kept.take_back(words);
        }
        if ran && self.parts.core.monitors.watch() {
            self.parts.show(id, (spec, args), before);
        }
        ran
    }

    /// Carries out a command that exists, in the mode of its session. False if it must wait.
    fn run_found(
        &mut self,
        id: SessionId,
        (spec, announced): (&'static CommandSpec, bool),
        args: &Args<'_>,
    ) -> bool {
        let Some(session) = self.parts.sessions.get_mut(id.0) else { return true };
        let is_limited = spec.flags.has(Flags::COORDINATION)
            || (self.parts.core.facts.over_memory_limit && spec.flags.has(Flags::GROWS))
            || (self.parts.core.facts.over_log_limit && spec.flags.has(Flags::WRITE));
        let plain = session.plain && !is_limited;
        if !plain && let Err(error) = session.permit(&mut self.parts.core, spec, args) {
            self.parts.refuse(id, error);
            return true;
        }
        if self.parts.core.pause.is_some() && self.parts.is_paused(id, spec, args) {
            return false;
        }
        let Some(session) = self.parts.sessions.get_mut(id.0) else { return true };
        session.reach = Reach::of(spec, session.database);
        let tags = self.parts.core.config.tags.as_ref();
        if session.reach == Reach::In(0) && tags.is_some_and(TagRules::is_empty) {
            return self.run_permitted(id, (spec, announced, plain), args);
        }
        match stored(spec, (&self.parts.core, session.database), args) {
            Ok(Some(words)) => self.run_permitted(id, (spec, announced, plain), &words.args()),
            Ok(None) => self.run_permitted(id, (spec, announced, plain), args),
            Err(error) => {
                self.parts.refuse(id, error);
                true
            }
        }
    }

    /// Carries out a command that its session may call, whose words have stored keys in them. False if it
    /// must wait.
    fn run_permitted(
        &mut self,
        id: SessionId,
        (spec, announced, plain): (&'static CommandSpec, bool, bool),
        args: &Args<'_>,
    ) -> bool {
        let Some(session) = self.parts.sessions.get_mut(id.0) else { return true };
        let skip = session.replies == Replies::SkipNext;
        let tracks = !plain && session.about.tracker.is_some();
        if tracks {
            let Parts { core, sessions, tracking, .. } = &mut self.parts;
            tracking.before(core, sessions, id, (spec, args));
        }
        let Some(session) = self.parts.sessions.get_mut(id.0) else { return true };
        let done = match &session.mode {
            SessionMode::Single if session.runs_program => self.session_command(id, spec, args),
            SessionMode::Single => match spec.handler {
                Handler::Session => self.session_command(id, spec, args),
                Handler::Data(parse) => match parse(args) {
                    Ok(Command::Single(key, op))
                        if plain && !self.parts.near_locks.may_answer(&op) =>
                    {
                        self.parts.sessions.single(&mut self.parts.core, id, key, op);
                        return true;
                    }
                    Ok(command) => self.parts.data(id, command),
                    Err(error) => {
                        self.parts.sessions.reply(&mut self.parts.core, id, error.into());
                        true
                    }
                },
            },
            SessionMode::Multi(_) => self.run_in_multi(id, spec, args),
            SessionMode::Interactive(txn) => {
                let txn = *txn;
                self.run_in_transaction(id, txn, (spec, announced), args)
            }
            SessionMode::Aborted(error) => {
                let error = error.clone();
                if is_allowed_in_aborted(spec) {
                    self.session_command(id, spec, args)
                } else {
                    self.parts.sessions.reply(&mut self.parts.core, id, error.into());
                    true
                }
            }
        };
        if done && let Some(session) = self.parts.sessions.get_mut(id.0) {
            session.replied(skip);
        }
        if tracks && done {
            let Parts { core, sessions, tracking, .. } = &mut self.parts;
            tracking.after(core, sessions, id, spec);
        }
        done
    }
}

impl Parts {
    /// Gives the client the error for a command that was not read.
    pub(in crate::gateway) fn refuse_unread(&mut self, id: SessionId, error: ErrorReply) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.counted = None;
        let skip = session.replies == Replies::SkipNext;
        self.refuse(id, error);
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.replied(skip);
        }
    }

    /// Refuses a command. The transaction that the session is in fails.
    pub(in crate::gateway) fn refuse(&mut self, id: SessionId, error: ErrorReply) {
        let session = self.sessions.get_mut(id.0);
        if let Some(position) = session.and_then(|session| session.counted.take()) {
            self.core.mail.stats.of_command(usize::from(position)).rejected += 1;
        }
        if let Some(session) = self.sessions.get_mut(id.0)
            && matches!((session.command, &session.mode), ("exec", SessionMode::Multi(_)))
        {
            let reply = multi::give_up(session, &error);
            return self.sessions.reply(&mut self.core, id, reply);
        }
        match self.sessions.get_mut(id.0).map(|session| &mut session.mode) {
            Some(SessionMode::Multi(multi)) => multi.failed = true,
            Some(&mut SessionMode::Interactive(txn)) => {
                self.transactions.discard(&mut self.core, txn);
                self.transactions.settle(&mut self.sessions);
            }
            _ => {}
        }
        self.sessions.reply(&mut self.core, id, error.into());
    }
}
