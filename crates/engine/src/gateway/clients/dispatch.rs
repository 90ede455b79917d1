//! From the words of a command to whoever carries it out: table, number of words, access control,
//! memory, and what the session is in the middle of.

use super::foreign::is_http;
use super::session::{Held, Mode, Replies};
use super::session_commands;
use crate::gateway::Gateway;
use crate::gateway::api::{Output, SessionId};
use crate::gateway::txn::multi;
use crate::limits::PIPELINE_REQUESTS_MAX;
use crate::now::Now;
use adt::{ArgBuf, Args, Command, CommandSpec, ErrorReply, Flags, Handler, known};

impl Gateway {
    /// One command of a client. Tells whether its reply may be large, as [`Gateway::is_heavy`] does.
    pub fn command(&mut self, now: Now, id: SessionId, args: &Args<'_>) -> bool {
        self.core.now = now;
        self.core.mail.stats.commands += 1;
        let Some(session) = self.sessions.get_mut(id.0) else { return false };
        if session.closing {
            return false;
        }
        session.active_us = now.mono_us;
        let wait = session.barrier.is_some() || !session.held.is_empty();
        let ran = !wait && self.run(id, args);
        let session = self.sessions.get(id.0);
        let heavy = if ran { session.is_some_and(|s| s.heavy) } else { self.is_heavy(args) };
        if !ran {
            self.hold(id, args);
        }
        self.settle();
        heavy
    }

    /// Whether the reply of a command may be large in comparison with the command. A connection does
    /// well to have few of these under way.
    pub fn is_heavy(&self, args: &Args<'_>) -> bool {
        self.find(args).is_ok_and(is_heavy)
    }

    /// Keeps a command until its turn comes.
    fn hold(&mut self, id: SessionId, args: &Args<'_>) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if session.held.len() >= 2 * PIPELINE_REQUESTS_MAX {
            let text = "too many commands were sent before the replies to earlier ones";
            session.held.push_back(Held::Fault(ErrorReply::err(text)));
            session.closing = true;
            return;
        }
        let words = ArgBuf::of(args.iter_from(0));
        let bytes = args.iter_from(0).map(<[u8]>::len).sum::<usize>() + args.len() * 8;
        session.held_bytes += bytes;
        session.held.push_back(Held::Command(words, bytes));
    }

    /// A command of a client is not read, because it is too large or there is no room for it: the client
    /// is told so in turn, and may go on.
    pub fn unread(&mut self, now: Now, id: SessionId, error: ErrorReply) {
        self.core.now = now;
        self.core.mail.stats.commands += 1;
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if session.closing {
            return;
        }
        session.active_us = now.mono_us;
        if session.barrier.is_some() || !session.held.is_empty() {
            session.held.push_back(Held::Refused(error));
        } else {
            self.refuse_unread(id, error);
        }
        self.settle();
    }

    pub(in crate::gateway) fn refuse_unread(&mut self, id: SessionId, error: ErrorReply) {
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.counted = None;
        }
        let skip = self.sessions.get(id.0).is_some_and(|s| s.replies == Replies::SkipNext);
        self.refuse(id, error);
        self.replies_after(id, skip);
    }

    /// The client broke the protocol: it is told so, after the replies that it still gets, and the
    /// connection is closed.
    pub fn protocol_error(&mut self, now: Now, id: SessionId, error: ErrorReply) {
        self.core.now = now;
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if session.closing {
            return;
        }
        if session.barrier.is_some() || !session.held.is_empty() {
            session.held.push_back(Held::Fault(error));
            session.closing = true;
        } else {
            self.reply_fault(id, error);
        }
    }

    pub(in crate::gateway) fn reply_fault(&mut self, id: SessionId, error: ErrorReply) {
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.queue.push_back(super::session::Slot {
                state: super::session::SlotState::Waiting,
                command: None,
                begun_us: 0,
                silent: false,
                last: false,
            });
            let seq = session.base + session.queue.len() as u64 - 1;
            self.close_after_replies(id);
            let target = crate::gateway::mail::Target {
                session: id,
                seq,
                item: crate::gateway::mail::WHOLE,
            };
            self.finish(target, error.into());
        }
    }

    /// Carries out a command, or says that it must wait for the replies before it.
    pub(in crate::gateway) fn run(&mut self, id: SessionId, args: &Args<'_>) -> bool {
        let (position, spec) = match find_at(args) {
            Ok(found) => found,
            Err(error) if args.is(0, "EXEC") => {
                let Some(session) = self.sessions.get_mut(id.0) else { return true };
                let reply = multi::give_up(session, &error);
                self.reply(id, reply);
                return true;
            }
            Err(error) => {
                let position = session_commands::position(args.get(0).unwrap_or_default());
                if let Some(session) = self.sessions.get_mut(id.0) {
                    session.counted = position.and_then(|position| u16::try_from(position).ok());
                }
                if is_http(args) {
                    let text =
                        "Protocol error: this is no HTTP server, and the connection is closed";
                    self.core.mail.outputs.push_back(Output::Foreign { session: id });
                    self.reply_fault(id, ErrorReply::err(text));
                } else {
                    self.refuse(id, error);
                }
                return true;
            }
        };
        let Some(session) = self.sessions.get_mut(id.0) else { return true };
        session.command = spec.name;
        session.heavy = is_heavy(spec);
        session.counted = u16::try_from(position).ok();
        session.begun_us = self.core.now.mono_us;
        let ran = self.run_found(id, spec, args);
        // A command that waits is counted when it goes ahead, and one that is refused is not.
        if ran && self.sessions.get(id.0).is_none_or(|session| session.counted.is_some()) {
            self.core.mail.stats.of_command(position).calls += 1;
        }
        ran
    }

    fn run_found(&mut self, id: SessionId, spec: &'static CommandSpec, args: &Args<'_>) -> bool {
        let Some(session) = self.sessions.get_mut(id.0) else { return true };
        let checked = spec.flags.has(Flags::COORDINATION)
            || (self.core.facts.over_memory_limit && spec.flags.has(Flags::GROWS))
            || (self.core.facts.over_log_limit && spec.flags.has(Flags::WRITE));
        if !session.plain || checked {
            return self.run_checked(id, spec, args);
        }
        match spec.handler {
            Handler::Data(parse) => match parse(args) {
                Ok(Command::Single(key, op)) if !self.near_locks.may_answer(&op) => {
                    self.single(id, key, op);
                    true
                }
                Ok(command) => self.data(id, command),
                Err(error) => {
                    self.reply(id, error.into());
                    true
                }
            },
            Handler::Session => {
                let done = self.session_command(id, spec, args);
                if done {
                    self.replies_after(id, false);
                }
                done
            }
        }
    }

    /// The command that the words call.
    pub(in crate::gateway) fn find(
        &self,
        args: &Args<'_>,
    ) -> Result<&'static CommandSpec, ErrorReply> {
        find_at(args).map(|(_, spec)| spec)
    }

    fn run_checked(&mut self, id: SessionId, spec: &'static CommandSpec, args: &Args<'_>) -> bool {
        if let Err(error) = self.permit(id, spec, args) {
            self.refuse(id, error);
            return true;
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return true };
        let skip = session.replies == Replies::SkipNext;
        let done = match &session.mode {
            Mode::Single => self.run_single(id, spec, args),
            Mode::Multi(_) => self.run_in_multi(id, spec, args),
            Mode::Interactive(txn) => {
                let txn = *txn;
                self.run_in_transaction(id, txn, spec, args)
            }
            Mode::Aborted(error) => {
                let error = error.clone();
                self.run_in_aborted(id, error, spec, args)
            }
        };
        if done {
            self.replies_after(id, skip);
        }
        done
    }

    /// Which replies the client wants after a command, which was to be skipped or not.
    fn replies_after(&mut self, id: SessionId, skip: bool) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        match session.replies {
            Replies::SkipThis => session.replies = Replies::SkipNext,
            Replies::SkipNext if skip => {
                session.replies = Replies::On;
                session.refresh();
            }
            _ => {}
        }
    }

    fn run_single(&mut self, id: SessionId, spec: &'static CommandSpec, args: &Args<'_>) -> bool {
        match spec.handler {
            Handler::Session => self.session_command(id, spec, args),
            Handler::Data(parse) => match parse(args) {
                Ok(command) => self.data(id, command),
                Err(error) => {
                    self.reply(id, error.into());
                    true
                }
            },
        }
    }

    /// Whether the session may call this now.
    pub(in crate::gateway) fn permit(
        &mut self,
        id: SessionId,
        spec: &CommandSpec,
        args: &Args<'_>,
    ) -> Result<(), ErrorReply> {
        let Some(session) = self.sessions.get_mut(id.0) else { return Ok(()) };
        match &session.user {
            None if spec.flags.has(Flags::NO_AUTH) => {}
            None => return Err(ErrorReply::new("NOAUTH", "Authentication required.")),
            Some(user) => {
                if let Err(error) = user.check(spec, args)
                    && !spec.flags.has(Flags::NO_AUTH)
                {
                    self.core.mail.stats.denied += 1;
                    return Err(error);
                }
            }
        }
        let managing =
            ["subscribe", "psubscribe", "unsubscribe", "punsubscribe", "ping", "quit", "reset"];
        if session.only_subscribes() && !managing.contains(&spec.name) {
            let text = format!(
                "Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
                 are allowed in this context",
                spec.name
            );
            return Err(ErrorReply::err(text));
        }
        if self.core.facts.over_memory_limit && spec.flags.has(Flags::GROWS) {
            let text = "command not allowed when used memory > 'maxmemory'.";
            return Err(ErrorReply::new("OOM", text));
        }
        if self.core.facts.over_log_limit && spec.flags.has(Flags::WRITE) {
            let text = "the log has outgrown its memory, and snapshots, which would shorten it, fail: \
                        see the server's log";
            return Err(ErrorReply::new("MISCONF", text));
        }
        Ok(())
    }

    /// Answers a command that is not carried out; a transaction that it was meant for fails.
    pub(in crate::gateway) fn refuse(&mut self, id: SessionId, error: ErrorReply) {
        let session = self.sessions.get_mut(id.0);
        if let Some(position) = session.and_then(|session| session.counted.take()) {
            self.core.mail.stats.of_command(usize::from(position)).rejected += 1;
        }
        match self.sessions.get_mut(id.0).map(|session| &mut session.mode) {
            Some(Mode::Multi(multi)) => multi.failed = true,
            Some(&mut Mode::Interactive(txn)) => self.discard_open(txn),
            _ => {}
        }
        self.reply(id, error.into());
    }
}

/// The command that the words call, and its position in the table.
fn find_at(args: &Args<'_>) -> Result<(usize, &'static CommandSpec), ErrorReply> {
    let name = args.get(0).unwrap_or_default();
    let position = session_commands::position(name).ok_or_else(|| unknown(args))?;
    let spec = session_commands::all()[position];
    spec.check_arity(args.len())?;
    Ok((position, spec))
}

/// Whether a command reads, in time that grows with what there is, or carries another command out.
#[inline]
fn is_heavy(spec: &CommandSpec) -> bool {
    let light = spec.flags.has(Flags::FAST) || spec.flags.has(Flags::BLOCKING);
    if light || (spec.flags.has(Flags::WRITE) && spec.name != "fence") {
        return false;
    }
    spec.complexity != "O(1)"
}

/// The error for a name that is no command, word by word as Redis has it, unless Redis knows it.
fn unknown(args: &Args<'_>) -> ErrorReply {
    if let Some(error) = known::not_built(args) {
        return error;
    }
    let shown = |word: &[u8], most: usize| {
        String::from_utf8_lossy(&word[..word.len().min(most)]).into_owned()
    };
    let mut rest = String::new();
    for word in args.iter_from(1) {
        if rest.len() >= 128 {
            break;
        }
        let most = 128 - rest.len();
        rest.push_str(&format!("'{}' ", shown(word, most)));
    }
    let name = shown(args.get(0).unwrap_or_default(), 128);
    ErrorReply::err(format!("unknown command '{name}', with args beginning with: {rest}"))
}
