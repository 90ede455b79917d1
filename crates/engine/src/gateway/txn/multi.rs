//! Commands between `MULTI` and `EXEC`, and watched keys: the state in the session.

use super::work::ProgramStep;
use crate::gateway::admin::keyspace::selected;
use crate::gateway::api::SessionId;
use crate::gateway::clients::effect::{CommandEffect, Handled};
use crate::gateway::clients::session::{Multi, Session, SessionMode, Watching};
use crate::gateway::clients::sessions::Sessions;
use crate::gateway::core::Core;
use crate::gateway::errors::{moved, unexpected};
use crate::gateway::mail::Pending;
use crate::gateway::routing::route::unusable_key;
use crate::gateway::target::Target;
use crate::gateway::waiting::section;
use crate::limits::{
    FENCES_PER_REQUEST_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_COMMANDS_MAX, WATCHED_KEYS_MAX,
};
use crate::message::{Answer, Body, Condition, Fence, Guard, Version};
use adt::{Args, Blob, ErrorReply, Reply};

/// `MULTI`.
pub(in crate::gateway) fn multi(session: &mut Session) -> CommandEffect {
    if matches!(session.mode, SessionMode::Multi(_)) {
        return ErrorReply::err("MULTI calls can not be nested").into();
    }
    let database = session.database;
    let multi = Multi { database, request: session.request.take(), ..Multi::default() };
    session.set_mode(SessionMode::Multi(Box::new(multi)));
    Reply::Ok.into()
}

/// `DISCARD`.
pub(in crate::gateway) fn discard(session: &mut Session) -> CommandEffect {
    if !matches!(session.mode, SessionMode::Multi(_)) {
        return ErrorReply::err("DISCARD without MULTI").into();
    }
    session.end_multi();
    Reply::Ok.into()
}

/// `UNWATCH`.
pub(in crate::gateway) fn unwatch(session: &mut Session) -> CommandEffect {
    session.unwatch();
    Reply::Ok.into()
}

/// Ends a transaction whose `EXEC` is refused, and returns the reply.
pub(in crate::gateway) fn give_up(session: &mut Session, error: &ErrorReply) -> Reply {
    session.end_multi();
    let text = format!("Transaction discarded because of: {}", error.text());
    ErrorReply::new("EXECABORT", text).into()
}

/// `WATCH`: asks for the versions of keys.
pub(in crate::gateway) fn watch(
    core: &mut Core,
    sessions: &mut Sessions,
    id: SessionId,
    args: &Args<'_>,
) -> Handled {
    let Some(session) = sessions.get_mut(id.0) else { return Handled::Later };
    let keys = match session.begin_watch(args) {
        Ok(keys) => keys,
        Err(handled) => return handled,
    };
    let target = sessions.place(id, None);
    if let Some(session) = sessions.get_mut(id.0) {
        session.watching = Some(Box::new(Watching::of(target.seq, keys.len())));
    }
    for key in keys {
        let shard = core.mail.shard_of(&key);
        let pending = Pending::Version { target, key: key.clone() };
        core.mail.ask(shard, pending, Body::Version { key });
    }
    Handled::Later
}

/// Takes the version of a watched key, or the error that it cannot be read.
pub(in crate::gateway) fn watched(
    core: &mut Core,
    sessions: &mut Sessions,
    target: Target,
    key: Blob,
    answer: Answer,
) {
    let version = match answer {
        Answer::Version(version) => Ok(version),
        Answer::Reply(error) => Err(error),
        Answer::Refused(_) => Err(moved().into()),
        other => Err(unexpected(&other)),
    };
    let session = sessions.get_mut(target.session.0);
    if let Some(reply) = session.and_then(|session| session.watched(target.seq, key, version)) {
        core.finish(target, reply);
    }
}

impl Session {
    /// Ends the transaction between `MULTI` and `EXEC`.
    pub(super) fn end_multi(&mut self) {
        if let SessionMode::Multi(multi) = &self.mode {
            self.database = multi.database;
        }
        self.leave_multi();
    }

    /// Leaves the transaction, whose commands are taken or dropped.
    pub(super) fn leave_multi(&mut self) {
        self.set_mode(SessionMode::Single);
        self.unwatch();
    }

    /// Keys to be watched, whose versions are to be asked for.
    fn begin_watch(&mut self, args: &Args<'_>) -> Result<Vec<Blob>, Handled> {
        if matches!(self.mode, SessionMode::Multi(_)) {
            return Err(ErrorReply::err("WATCH inside MULTI is not allowed").into());
        }
        // The session's own earlier writes must not look like changes by another client.
        if !self.queue.is_empty() {
            return Err(Handled::Hold);
        }
        let keys: Vec<Blob> = args.iter_from(1).map(Blob::from).collect();
        if let Some(error) = keys.iter().find_map(|key| unusable_key(self.reach, key)) {
            return Err(error.into());
        }
        if self.watched.len() + keys.len() > WATCHED_KEYS_MAX {
            let text = format!("a connection can watch at most {WATCHED_KEYS_MAX} keys");
            return Err(ErrorReply::err(text).into());
        }
        Ok(keys)
    }

    /// Forgets all watched keys, also those whose versions are not known yet.
    pub fn unwatch(&mut self) {
        self.watched.clear();
        if let Some(watching) = &mut self.watching {
            watching.forgotten = true;
        }
    }

    /// Whether keys are watched, or will be when their versions are known.
    pub fn watches(&self) -> bool {
        let watching = self.watching.as_ref().is_some_and(|watching| !watching.forgotten);
        watching || !self.watched.is_empty()
    }

    /// Takes the version of a key that the `WATCH` at a place of the replies has asked for, or the error
    /// that it cannot be read. Returns the reply to `WATCH` if it is complete.
    fn watched(&mut self, seq: u64, key: Blob, version: Result<Version, Reply>) -> Option<Reply> {
        // Other shards may answer after one of them has refused, when the next `WATCH` is under way.
        let watching = self.watching.as_mut().filter(|watching| watching.seq == seq)?;
        match version {
            Ok(version) => {
                watching.guards.push(Guard { key, condition: Condition::Unchanged(version) });
            }
            Err(error) => {
                // Keys of earlier commands stay watched: the client may go on to `EXEC`.
                self.watching = None;
                return Some(error);
            }
        }
        watching.missing -= 1;
        if watching.missing > 0 {
            return None;
        }
        let done = self.watching.take()?;
        for guard in done.guards.into_iter().filter(|_| !done.forgotten) {
            // The first version that was seen counts.
            if !self.watched.iter().any(|known| known.key == guard.key) {
                self.watched.push(guard);
            }
        }
        Some(Reply::Ok)
    }
}

impl Watching {
    /// `WATCH` of a number of keys, with the place of its reply.
    fn of(seq: u64, keys: usize) -> Self {
        Self { seq, missing: keys, guards: Vec::new(), forgotten: false }
    }
}

impl Multi {
    /// Adds a command, if there is room for it. It may select the database of the next ones.
    pub(super) fn add_in(
        &mut self,
        database: &mut u8,
        step: ProgramStep,
        args: &Args<'_>,
    ) -> Result<(), ErrorReply> {
        let selected = selected(&step);
        if selected.is_some() && self.request.is_some() {
            let text =
                "a transaction with a request number selects no database: SELECT before MULTI";
            return Err(ErrorReply::err(text));
        }
        self.add(step, args)?;
        *database = selected.unwrap_or(*database);
        Ok(())
    }

    /// Adds a command, if there is room for it.
    fn add(&mut self, step: ProgramStep, args: &Args<'_>) -> Result<(), ErrorReply> {
        let bytes: usize = args.iter_from(0).map(<[u8]>::len).sum();
        let full = self.steps.len() >= TRANSACTION_COMMANDS_MAX
            || self.bytes + bytes > TRANSACTION_BYTES_MAX;
        if full {
            return Err(ErrorReply::err(format!(
                "a transaction has at most {TRANSACTION_COMMANDS_MAX} commands and \
                 {TRANSACTION_BYTES_MAX} bytes"
            )));
        }
        self.bytes += bytes;
        self.steps.push(step);
        Ok(())
    }

    /// Adds a fencing token under which the whole transaction is carried out.
    pub(super) fn fence(&mut self, fence: Fence) -> Result<(), ErrorReply> {
        if self.fences.len() >= FENCES_PER_REQUEST_MAX {
            let text = format!("a transaction comes with at most {FENCES_PER_REQUEST_MAX} tokens");
            return Err(ErrorReply::err(text));
        }
        self.fences.push(fence);
        Ok(())
    }

    /// Makes a section of the whole transaction, of which this is the first step.
    pub(super) fn section(&mut self, args: &Args<'_>) -> Result<ProgramStep, ErrorReply> {
        let (step, timeout_ms) = section::first_of_multi(args, self.steps.is_empty())?;
        self.section_ms = Some(timeout_ms);
        Ok(step)
    }
}
