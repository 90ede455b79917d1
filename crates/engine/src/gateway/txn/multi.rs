//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`, as the Redis documentation of transactions has
//! them, over any keys of any shards.

use super::work::{Form, Keep, Program, Step};
use crate::gateway::Gateway;
use crate::gateway::admin::keyspace::with_all_keys;
use crate::gateway::api::SessionId;
use crate::gateway::clients::commands::refused_early;
use crate::gateway::clients::effect::Handled;
use crate::gateway::clients::session::{Mode, Multi, Session, SlotState};
use crate::gateway::clients::session_commands;
use crate::gateway::errors::{discarded, moved};
use crate::gateway::mail::{Pending, Target};
use crate::gateway::routing::route::{key_too_long, long_key};
use crate::gateway::waiting::{fence, section};
use crate::limits::{
    FENCES_PER_REQUEST_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_COMMANDS_MAX, WATCHED_KEYS_MAX,
};
use crate::message::{Answer, Body, Guard};
use adt::{ArgBuf, Args, Blob, CommandSpec, ErrorReply, Flags, Handler, Reply};

/// What is kept as the answer to a command that was to be carried out behind a transaction whose client
/// was gone by then.
fn without_client(begun: bool) -> ErrorReply {
    let text = match begun {
        true => "this was carried out, and its answer was lost with the connection",
        false => "this was not carried out: the connection was gone",
    };
    ErrorReply::new("REPEATED", text)
}

/// Commands that are carried out at once although `EXEC` has not come.
const AT_ONCE: [&str; 6] = ["exec", "discard", "multi", "watch", "quit", "reset"];

impl Gateway {
    /// A command between `MULTI` and `EXEC`.
    pub(in crate::gateway) fn run_in_multi(
        &mut self,
        id: SessionId,
        spec: &'static CommandSpec,
        args: &Args<'_>,
    ) -> bool {
        if AT_ONCE.contains(&spec.name) {
            return self.session_command(id, spec, args);
        }
        if let "fence" | "lock.section" = spec.name {
            match self.step_of_prefix(id, spec, args) {
                Ok(step) => self.queue_step(id, step, args),
                Err(error) => self.refuse(id, error),
            }
            return true;
        }
        if spec.flags.has(Flags::NO_MULTI) {
            self.refuse(id, ErrorReply::err("Command not allowed inside a transaction"));
            return true;
        }
        if let Some(error) = refused_early(spec, args) {
            self.refuse(id, error);
            return true;
        }
        let step = match spec.handler {
            Handler::Session => Step::Later(ArgBuf::of(args.iter_from(0))),
            // A command whose words are wrong fails alone, when its turn comes.
            Handler::Data(parse) => parse(args).map_or_else(|e| Step::Fixed(e.into()), Step::from),
        };
        self.queue_step(id, step, args);
        true
    }

    /// The step of a command that is about the whole transaction, and may carry out another command.
    fn step_of_prefix(
        &mut self,
        id: SessionId,
        spec: &CommandSpec,
        args: &Args<'_>,
    ) -> Result<Step, ErrorReply> {
        let behind = match spec.name {
            "fence" => {
                let fence = fence::fence_of(args)?;
                Some((fence, self.step_behind(id, args, fence::PREFIX, fence::NAME)?))
            }
            _ => None,
        };
        let Some(Session { mode: Mode::Multi(multi), .. }) = self.sessions.get_mut(id.0) else {
            return Ok(Step::Fixed(Reply::Ok));
        };
        let Some((fence, step)) = behind else {
            let (step, timeout_ms) = section::first_of_multi(args, multi.steps.is_empty())?;
            multi.section_ms = Some(timeout_ms);
            return Ok(step);
        };
        if multi.fences.len() >= FENCES_PER_REQUEST_MAX {
            let text = format!("a transaction comes with at most {FENCES_PER_REQUEST_MAX} tokens");
            return Err(ErrorReply::err(text));
        }
        multi.fences.push(fence);
        Ok(step.unwrap_or(Step::Fixed(Reply::Ok)))
    }

    /// Adds a command to a transaction, or refuses it.
    pub(in crate::gateway) fn queue_step(&mut self, id: SessionId, step: Step, args: &Args<'_>) {
        let session = self.sessions.get_mut(id.0);
        let Some(Session { mode: Mode::Multi(multi), counted, .. }) = session else { return };
        let bytes: usize = args.iter_from(0).map(<[u8]>::len).sum();
        let full = multi.steps.len() >= TRANSACTION_COMMANDS_MAX
            || multi.bytes + bytes > TRANSACTION_BYTES_MAX;
        if full {
            self.refuse(
                id,
                ErrorReply::err(format!(
                    "a transaction has at most {TRANSACTION_COMMANDS_MAX} commands and \
                     {TRANSACTION_BYTES_MAX} bytes"
                )),
            );
            return;
        }
        if let Some(error) = long_key(std::slice::from_ref(&step)) {
            return self.refuse(id, error);
        }
        multi.bytes += bytes;
        multi.steps.push(step);
        // It is counted when it is carried out.
        multi.counted.extend(counted.take());
        self.reply(id, Reply::Status("QUEUED"));
    }

    /// `MULTI`.
    pub(in crate::gateway) fn multi(&mut self, id: SessionId) -> Handled {
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        if matches!(session.mode, Mode::Multi(_)) {
            return ErrorReply::err("MULTI calls can not be nested").into();
        }
        let multi = Multi { request: session.request.take(), ..Multi::default() };
        session.mode = Mode::Multi(Box::new(multi));
        session.refresh();
        Reply::Ok.into()
    }

    /// `EXEC` with words that it does not take: the transaction is over.
    pub(in crate::gateway) fn give_up_multi(&mut self, id: SessionId, error: &ErrorReply) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if matches!(session.mode, Mode::Multi(_)) {
            session.mode = Mode::Single;
            session.watched.clear();
            session.refresh();
        }
        let text = format!("Transaction discarded because of: {}", error.text());
        self.reply(id, ErrorReply::new("EXECABORT", text).into());
    }

    /// `DISCARD`.
    pub(in crate::gateway) fn discard(&mut self, id: SessionId) -> Handled {
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        if !matches!(session.mode, Mode::Multi(_)) {
            return ErrorReply::err("DISCARD without MULTI").into();
        }
        session.mode = Mode::Single;
        session.watched.clear();
        session.refresh();
        Reply::Ok.into()
    }

    /// `EXEC`.
    pub(in crate::gateway) fn exec(&mut self, id: SessionId) -> Handled {
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        if session.watching > 0 {
            return Handled::Hold;
        }
        let Mode::Multi(multi) = &mut session.mode else {
            return ErrorReply::err("EXEC without MULTI").into();
        };
        let multi = std::mem::take(&mut **multi);
        if multi.failed {
            session.mode = Mode::Single;
            session.watched.clear();
            session.refresh();
            return discarded().into();
        }
        let guards = std::mem::take(&mut session.watched);
        let target = Target { session: id, seq: 0, item: crate::gateway::mail::WHOLE };
        let Multi { steps, request, fences, section_ms, bytes, counted, .. } = multi;
        let steps: Vec<Step> =
            steps.into_iter().map(|step| with_all_keys(&mut self.core, step)).collect();
        let route = self.route(&steps, &guards);
        let mut program = Program { target, steps, form: Form::Array, guards, fences, request };
        let may_launch = self.may_launch(id, &program.steps, route);
        let may_launch = may_launch && !self.loses_order(&program, route);
        // Whoever waits for a lock has nothing else under way.
        let may_launch = may_launch && (section_ms.is_none() || self.is_idle(id));
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        if !may_launch {
            session.watched = program.guards;
            let (steps, fences, request) = (program.steps, program.fences, program.request);
            let failed = false;
            let queued = Multi { steps, fences, request, section_ms, bytes, counted, failed };
            session.mode = Mode::Multi(Box::new(queued));
            return Handled::Hold;
        }
        session.mode = Mode::Single;
        session.refresh();
        for position in counted {
            self.core.mail.stats.of_command(usize::from(position)).calls += 1;
        }
        program.target = self.place(id, None);
        if !program.fences.is_empty()
            && let Err(error) = fence::of_one_slot(&program.steps)
        {
            self.finish(program.target, error.into());
            return Handled::Later;
        }
        if let Some(timeout_ms) = section_ms {
            match section::check(&program) {
                Ok(()) => self.begin_section(program, timeout_ms),
                Err(error) => self.finish(program.target, error.into()),
            }
            return Handled::Later;
        }
        if program.steps.iter().any(|step| matches!(step, Step::Later(_))) {
            self.bar(program.target);
        }
        self.launch(program, route);
        Handled::Later
    }

    /// The next command of the session that was queued: carried out after the operations on keys, and
    /// after what was queued before it.
    pub(in crate::gateway) fn run_later(&mut self, id: SessionId) {
        let next = self.sessions.get_mut(id.0).and_then(|s| s.about.later.pop_front());
        let Some((target, words)) = next else { return };
        let args = &words.args();
        let Some(spec) = session_commands::lookup(args.get(0).unwrap_or_default()) else { return };
        self.given = Some(target);
        let handled = self.handle(id, spec, args, Some(target));
        self.given = None;
        match handled {
            Handled::Reply(reply) => self.finish(target, reply),
            Handled::Later => {}
            Handled::Hold => {
                let error = ErrorReply::err(format!("'{}' cannot be run by EXEC", spec.name));
                self.finish(target, error.into());
            }
        }
    }

    /// The client of a transaction that took effect is gone. Behind it messages are published all the same;
    /// the rest would be about its connection, or be answered to it.
    pub(in crate::gateway) fn finish_without_client(
        &mut self,
        later: Vec<(Target, ArgBuf)>,
        mut items: Vec<Option<Reply>>,
        keep: Option<&Keep>,
    ) {
        for (target, words) in later {
            let args = &words.args();
            let publishes = args.is(0, "PUBLISH");
            if publishes {
                self.publish_there(target, args);
            }
            if let Some(item) = items.get_mut(target.item as usize) {
                *item = Some(without_client(publishes).into());
            }
        }
        if let Some(Keep { request, home, .. }) = keep {
            // What has no reply yet was begun.
            let items = items.into_iter().map(|item| item.unwrap_or(without_client(true).into()));
            self.keep_replies(request, home, items.collect());
        }
    }

    /// A session ends while it carries out commands behind a transaction.
    pub(in crate::gateway) fn end_later(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let mut later = std::mem::take(&mut session.about.later);
        let partial = session.queue.iter_mut().find_map(|slot| match &mut slot.state {
            SlotState::Partial(items, _, keep) => Some((std::mem::take(items), keep.take())),
            SlotState::Waiting | SlotState::Done(_) => None,
        });
        let Some((items, keep)) = partial else { return };
        self.finish_without_client(later.drain(..).collect(), items, keep.as_deref());
    }

    /// `WATCH`.
    pub(in crate::gateway) fn watch(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        if matches!(session.mode, Mode::Multi(_)) {
            return ErrorReply::err("WATCH inside MULTI is not allowed").into();
        }
        // The session's own earlier writes must not look like changes by somebody else.
        if !session.queue.is_empty() {
            return Handled::Hold;
        }
        let keys: Vec<Blob> = args.iter_from(1).map(Blob::from).collect();
        if let Some(error) = keys.iter().find_map(key_too_long) {
            return error.into();
        }
        if session.watched.len() + keys.len() > WATCHED_KEYS_MAX {
            let text = format!("a connection can watch at most {WATCHED_KEYS_MAX} keys");
            return ErrorReply::err(text).into();
        }
        session.watching = keys.len() as u32;
        let target = self.place(id, None);
        for key in keys {
            let shard = self.core.mail.shard_of(&key);
            let pending = Pending::Version { target, key: key.clone() };
            self.core.mail.ask(shard, pending, Body::Version { key });
        }
        Handled::Later
    }

    /// The version of a watched key is known.
    pub(in crate::gateway) fn watched(&mut self, target: Target, key: Blob, answer: Answer) {
        if matches!(answer, Answer::Refused(_)) {
            return self.watch_failed(target, moved().into());
        }
        let Some(session) = self.sessions.get_mut(target.session.0) else { return };
        let Answer::Version(version) = answer else { return };
        if session.watching == 0 {
            return;
        }
        session.watching -= 1;
        // What was seen first counts.
        if !session.watched.iter().any(|guard| guard.key == key) {
            session.watched.push(Guard { key, version });
        }
        if session.watching == 0 {
            self.finish(target, Reply::Ok);
        }
    }

    /// A key that is to be watched cannot be looked at.
    pub(in crate::gateway) fn watch_failed(&mut self, target: Target, error: Reply) {
        let Some(session) = self.sessions.get_mut(target.session.0) else { return };
        if std::mem::take(&mut session.watching) > 0 {
            session.watched.clear();
            self.finish(target, error);
        }
    }

    /// `UNWATCH`.
    pub(in crate::gateway) fn unwatch(&mut self, id: SessionId) -> Handled {
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        if session.watching > 0 {
            return Handled::Hold;
        }
        session.watched.clear();
        Reply::Ok.into()
    }
}
