//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH`, as the Redis documentation of transactions has
//! them, over any keys of any shards. The state between the commands is in the session (`multi`).

use super::multi::give_up;
use super::transaction::repeated::keep_replies;
use super::work::{Form, Keep, Program, ProgramStep};
use crate::gateway::Gateway;
use crate::gateway::acl::denials::Denied;
use crate::gateway::admin::keyspace::{selected, with_all_keys};
use crate::gateway::api::SessionId;
use crate::gateway::clients::commands::refused_early;
use crate::gateway::clients::effect::Handled;
use crate::gateway::clients::publish::publication;
use crate::gateway::clients::session::{Multi, Session, SessionMode, SlotState};
use crate::gateway::clients::session_commands;
use crate::gateway::errors::discarded;
use crate::gateway::parts::Parts;
use crate::gateway::routing::databases::Reach;
use crate::gateway::routing::route::{route_of, unusable_key, unusable_key_of};
use crate::gateway::scripts::commands::{is_of_scripts, is_of_texts};
use crate::gateway::target::{Target, WHOLE};
use crate::gateway::waiting::{fence, section};
use crate::limits::WATCHED_KEYS_MAX;
use crate::message::{Condition, Guard, Published};
use adt::command::condition::{Expected, conditions};
use adt::command::database::Naming;
use adt::{ArgBuf, Args, CommandSpec, ErrorReply, Flags, Handler, Reply};

/// Answer that is kept for a command behind a transaction whose client was gone by then.
fn without_client(begun: bool) -> ErrorReply {
    let text = match begun {
        true => "this was carried out, and its answer was lost with the connection",
        false => "this was not carried out: the connection was gone",
    };
    ErrorReply::new("REPEATED", text)
}

/// Commands that are carried out at once although `EXEC` has not come.
const AT_ONCE: [&str; 6] = ["exec", "discard", "multi", "watch", "quit", "reset"];

/// Guards that the words of `EXEC` ask for, whose keys have the names that they had when the transaction was
/// begun, and that has so many others.
fn guards_of(args: &Args<'_>, naming: Naming<'_>, others: usize) -> Result<Vec<Guard>, ErrorReply> {
    let conditions = conditions(args)?;
    if others + conditions.len() > WATCHED_KEYS_MAX {
        let text =
            format!("a transaction has at most {WATCHED_KEYS_MAX} watched keys and conditions");
        return Err(ErrorReply::err(text));
    }
    let guard = |(at, expected): (usize, Expected)| {
        let key = naming.named(args.get(at).unwrap_or_default())?;
        match unusable_key(Reach::In(naming.database), &key) {
            Some(error) => Err(error),
            None => Ok(Guard { key, condition: Condition::Replies(expected) }),
        }
    };
    conditions.into_iter().map(guard).collect()
}

impl Gateway {
    /// Queues a command between `MULTI` and `EXEC`, or carries it out if it is one of the few for which that
    /// is to happen at once.
    pub(in crate::gateway) fn run_in_multi(
        &mut self,
        id: SessionId,
        spec: &'static CommandSpec,
        args: &Args<'_>,
    ) -> bool {
        if AT_ONCE.contains(&spec.name) {
            return self.session_command(id, spec, args);
        }
        let runs_program =
            self.parts.sessions.get(id.0).is_some_and(|session| session.runs_program);
        let step = if matches!(spec.name, "fence" | "lock.section") {
            self.parts.step_of_prefix(id, spec, args)
        } else if spec.flags.has(Flags::NO_MULTI) {
            Err(ErrorReply::err("Command not allowed inside a transaction"))
        } else if let Some(error) = refused_early(spec, args) {
            Err(error)
        } else {
            Ok(match spec.handler {
                // A command whose words are wrong fails alone, when its turn comes.
                _ if is_of_scripts(spec) || runs_program => {
                    let step = self.parts.script_step(id, spec, args);
                    step.unwrap_or_else(|error| ProgramStep::Fixed(error.into()))
                }
                Handler::Session => ProgramStep::Later(ArgBuf::of(args.iter_from(0))),
                Handler::Data(parse) => {
                    parse(args).map_or_else(|e| ProgramStep::Fixed(e.into()), ProgramStep::from)
                }
            })
        };
        let session = self.parts.sessions.get_mut(id.0);
        let Some(Session { mode: SessionMode::Multi(multi), counted, database, reach, .. }) =
            session
        else {
            return true;
        };
        let reach = *reach;
        // Steps about the texts of scripts are on records of the store's own.
        let clients = |step: &ProgramStep| match is_of_texts(spec) {
            true => None,
            false => unusable_key_of(reach, std::slice::from_ref(step)),
        };
        let step = step.and_then(|step| clients(&step).map_or(Ok(step), Err));
        match step.and_then(|step| multi.add_in(database, step, args)) {
            Ok(()) => {
                // It is counted when it is carried out.
                multi.counted.extend(counted.take());
                self.parts.sessions.reply(&mut self.parts.core, id, Reply::status("QUEUED"));
            }
            Err(error) => self.parts.refuse(id, error),
        }
        true
    }

    /// Carries out the next command of the session that was queued: after the operations on keys, and
    /// after the commands of the session that were queued before it.
    pub(in crate::gateway) fn run_later(&mut self, id: SessionId) {
        let next = self.parts.sessions.get_mut(id.0).and_then(|s| s.about.later.pop_front());
        let Some((target, words)) = next else { return };
        let args = &words.args();
        let Some(spec) = session_commands::lookup(args.get(0).unwrap_or_default()) else { return };
        // The user may have lost the right since the command was queued. Keys are in the words as they are
        // stored, and were checked then.
        if let Some(session) = self.parts.sessions.get(id.0)
            && let Some(user) = &session.user
            && let Ok(Some(refusal @ (Denied::Command(_) | Denied::Channel(_)))) =
                user.judge(spec, args)
        {
            session.denied(&mut self.parts.core, &refusal);
            let error = user.error(&refusal);
            return self.parts.finish(target, error.into());
        }
        self.parts.sessions.give(Some(target));
        let handled = self.handle(id, spec, args, Some(target));
        self.parts.sessions.give(None);
        match handled {
            Handled::Reply(reply) => self.parts.finish(target, reply),
            Handled::Later => {}
            Handled::Hold => {
                let error = ErrorReply::err(format!("'{}' cannot be run by EXEC", spec.name));
                self.parts.finish(target, error.into());
            }
        }
    }
}

impl Parts {
    /// Step of a command that is about the whole transaction, and may carry out another command.
    fn step_of_prefix(
        &mut self,
        id: SessionId,
        spec: &CommandSpec,
        args: &Args<'_>,
    ) -> Result<ProgramStep, ErrorReply> {
        let behind = if spec.name == "fence" {
            let reach = self.sessions.get(id.0).map_or(Reach::In(0), |session| session.reach);
            let fence = fence::fence_of(reach, args)?;
            Some((fence, self.step_behind(id, args, fence::PREFIX, fence::NAME)?))
        } else {
            None
        };
        let done = ProgramStep::Fixed(Reply::Ok);
        let Some(Session { mode: SessionMode::Multi(multi), .. }) = self.sessions.get_mut(id.0)
        else {
            return Ok(done);
        };
        let Some((fence, step)) = behind else { return multi.section(args) };
        multi.fence(fence)?;
        Ok(step.unwrap_or(done))
    }

    /// `EXEC`: carries out the queued commands, or holds itself back until that is possible.
    pub(in crate::gateway) fn exec(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        if session.watching.is_some() {
            return Handled::Hold;
        }
        let SessionMode::Multi(multi) = &mut session.mode else {
            return ErrorReply::err("EXEC without MULTI").into();
        };
        let watched = session.watched.len();
        let conditions = match guards_of(args, self.core.naming(multi.database), watched) {
            Err(error) if !multi.failed => return give_up(session, &error).into(),
            found => found.unwrap_or_default(),
        };
        let multi = std::mem::take(&mut **multi);
        // What the transaction selects is selected when it takes effect.
        let mut database = multi.database;
        session.database = database;
        if multi.failed {
            session.leave_multi();
            return discarded().into();
        }
        let mut guards = std::mem::take(&mut session.watched);
        guards.extend(conditions);
        let target = Target { session: id, seq: 0, item: WHOLE };
        let Multi { steps, request, fences, section_ms, bytes, counted, .. } = multi;
        let begun_in = database;
        let steps = steps.into_iter().map(|step| {
            database = selected(&step).unwrap_or(database);
            with_all_keys(&mut self.core, database, step)
        });
        let steps: Vec<ProgramStep> = steps.collect();
        let route = route_of(&self.core, &steps, &guards);
        let mut program = Program { target, steps, form: Form::Array, guards, fences, request };
        let may_launch = self.sessions.may_launch(&self.core, id, &program.steps, route);
        let may_launch = may_launch && !self.sessions.loses_order(&self.core, &program, route);
        // A session that waits for a lock has nothing else under way.
        let may_launch = may_launch && (section_ms.is_none() || self.sessions.is_idle(id));
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        if !may_launch {
            session.watched = program.guards;
            // The conditions are in the words, which are looked at again.
            session.watched.truncate(watched);
            let (steps, fences, request) = (program.steps, program.fences, program.request);
            let (failed, database) = (false, begun_in);
            let queued =
                Multi { steps, fences, request, section_ms, bytes, counted, database, failed };
            session.set_mode(SessionMode::Multi(Box::new(queued)));
            return Handled::Hold;
        }
        session.set_mode(SessionMode::Single);
        for position in counted {
            self.core.mail.stats.of_command(usize::from(position)).calls += 1;
        }
        program.target = self.sessions.place(id, None);
        if !program.fences.is_empty()
            && let Err(error) = fence::of_one_slot(&program.steps)
        {
            self.finish(program.target, error.into());
            return Handled::Later;
        }
        if let Some(timeout_ms) = section_ms {
            match section::check(&program) {
                Ok(()) => {
                    let target = program.target;
                    let (apply, finish) = section::operations(program);
                    let (core, sessions) = (&mut self.core, &mut self.sessions);
                    let section = Some(Box::new(finish));
                    self.turns.wait(core, sessions, target, (apply, timeout_ms), section);
                }
                Err(error) => self.finish(program.target, error.into()),
            }
            return Handled::Later;
        }
        if program.steps.iter().any(|step| matches!(step, ProgramStep::Later(_))) {
            self.sessions.bar(program.target);
        }
        self.launch(program, route);
        Handled::Later
    }

    /// Finishes a transaction that took effect, and whose client is gone. Behind it messages are published
    /// all the same; the other commands would be about the connection, or be answered to it.
    pub(in crate::gateway) fn finish_without_client(
        &mut self,
        later: Vec<(Target, ArgBuf)>,
        mut items: Vec<Option<Reply>>,
        keep: Option<&Keep>,
    ) {
        for (target, words) in later {
            let published = Published::of(&words.args());
            let publishes = published.is_some();
            if let Some(published) = published {
                let inquiry = publication(&mut self.core, published);
                self.gather(target, inquiry);
            }
            if let Some(item) = items.get_mut(target.item as usize) {
                *item = Some(without_client(publishes).into());
            }
        }
        if let Some(Keep { request, home, .. }) = keep {
            // A command without a reply was begun.
            let items = items.into_iter().map(|item| item.unwrap_or(without_client(true).into()));
            keep_replies(&mut self.core, request, home, items.collect());
        }
    }

    /// Finishes the commands behind a transaction of a session that ends.
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
}
