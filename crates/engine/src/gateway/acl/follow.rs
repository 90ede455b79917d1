//! Changes of users in the store, and the sessions that follow them.
//!
//! The gateway that has changed a user tells all gateways of the cluster, and replies when those of its
//! machine know. A machine that was not connected misses that: each gateway looks at the users of its
//! sessions from time to time.

use super::change::UserChange;
use super::{DEFAULT_USER, User, Users, passwords, stored};
use crate::gateway::admin::inquiry::Combine;
use crate::gateway::api::{Broadcast, SessionId};
use crate::gateway::clients::connection;
use crate::gateway::clients::effect::Handled;
use crate::gateway::clients::publish::told;
use crate::gateway::clients::pubsub::PubSub;
use crate::gateway::clients::session::SessionMode;
use crate::gateway::command_docs::wrong_words;
use crate::gateway::errors::says_lost_leader;
use crate::gateway::parts::Parts;
use crate::gateway::routing::course::Course;
use crate::gateway::routing::route::route_of;
use crate::gateway::target::{LOOK, NOWHERE, Target, USERS};
use crate::gateway::timer::Timer;
use crate::gateway::txn::work::{Form, Program, ProgramStep};
use crate::limits::USERS_LOOK_US;
use adt::{ArgBuf, Args, Blob, ErrorReply, Merge, Reply};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The error for changes of a user that is not in the store.
fn is_configured(name: &str) -> ErrorReply {
    ErrorReply::err(format!(
        "the user '{name}' is in the configuration file: change [[users]] there, on every machine, and \
         restart the machines one after the other"
    ))
}

impl Parts {
    /// Carries out a step of the gateway's own, whose reply goes to the target. It has no place among the
    /// commands of a session.
    pub(in crate::gateway) fn carry_out_own(&mut self, target: Target, step: ProgramStep) {
        let steps = vec![step];
        let route = route_of(&self.core, &steps, &[]);
        let (guards, fences) = (Vec::new(), Vec::new());
        let program = Program { target, steps, form: Form::One, guards, fences, request: None };
        let (target, course) = Course::of_program(&mut self.core, false, program, route);
        self.take(target, course);
    }
}

/// Commands.
impl Users {
    /// Carries out a call of `ACL` that is about users in the store, if it is.
    pub(in crate::gateway) fn command(
        &self,
        parts: &mut Parts,
        id: SessionId,
        args: &Args<'_>,
    ) -> Option<Handled> {
        if ["SETUSER", "DELUSER", "LOAD", "SAVE"].iter().any(|word| args.is(1, word)) {
            return Some(self.change(parts, id, args));
        }
        let step = self.telling(args)?;
        if !parts.sessions.is_idle(id) {
            return Some(Handled::Hold);
        }
        let target = parts.sessions.place(id, None);
        parts.sessions.bar(target);
        parts.carry_out_own(target, step);
        Some(Handled::Later)
    }

    /// Step of a call of `ACL` whose reply tells of users in the store, if it does.
    fn telling(&self, args: &Args<'_>) -> Option<ProgramStep> {
        let all =
            (args.len() == 2 && (args.is(1, "LIST") || args.is(1, "USERS"))).then(stored::read_all);
        let named = || {
            let one = (args.len() == 3 && args.is(1, "GETUSER"))
                || (args.len() > 3 && args.is(1, "DRYRUN"));
            let name = args.get(2).filter(|_| one)?;
            // The user may be known here.
            self.login(name).is_none().then(|| Blob::new(name))
        };
        let name = if all.is_some() { None } else { Some(named()?) };
        let op = all.or_else(|| Some(stored::read(std::slice::from_ref(name.as_ref()?))))?;
        let (words, users) = (ArgBuf::of(args.iter_from(0)), self.clone());
        let merge = move |replies: Vec<Reply>| {
            let stored = match (&name, replies.first()) {
                (Some(name), Some(reply)) => stored::users_of(std::slice::from_ref(name), reply),
                (_, reply) => Ok(stored::all(reply)),
            };
            match stored {
                Ok(stored) => {
                    super::tell(&users.with(&stored), &words.args()).unwrap_or(Reply::Nil)
                }
                Err(error) => error.into(),
            }
        };
        Some(ProgramStep::Ops(vec![op], Some(Merge::With(Arc::new(merge)))))
    }

    /// `ACL SETUSER`, `ACL DELUSER`, `ACL LOAD` and `ACL SAVE`.
    fn change(&self, parts: &mut Parts, id: SessionId, args: &Args<'_>) -> Handled {
        let step = match self.changing(args) {
            Ok(step) => step,
            Err(error) => return error.into(),
        };
        if !parts.sessions.is_idle(id) {
            return Handled::Hold;
        }
        let Some(step) = step else {
            // Changes are kept, and in effect, as soon as they are made. A machine may have missed one.
            let target = parts.sessions.place(id, None);
            let inquiry = told(&mut parts.core, Broadcast::LookAtUsers, Combine::Ok);
            parts.gather(target, inquiry);
            return Handled::Later;
        };
        if args.is(1, "SETUSER")
            && let Err(error) = parts.core.check_growth()
        {
            return error.into();
        }
        let target = parts.sessions.place(id, None);
        parts.sessions.bar(target);
        if let Some(session) = parts.sessions.get_mut(id.0) {
            session.about.changes_users = Some(target);
        }
        parts.carry_out_own(Target { item: USERS, ..target }, step);
        Handled::Later
    }

    /// Step of a change, if there is something to change.
    fn changing(&self, args: &Args<'_>) -> Result<Option<ProgramStep>, ErrorReply> {
        if args.is(1, "DELUSER") && args.iter_from(2).any(|name| name == DEFAULT_USER.as_bytes()) {
            return Err(ErrorReply::err("The 'default' user cannot be removed"));
        }
        let in_store = |name: &[u8]| match std::str::from_utf8(name) {
            Ok(name) if name == DEFAULT_USER || self.users.contains_key(name) => {
                Err(is_configured(name))
            }
            Ok(name) => super::check_name(name).map(|()| name.to_owned()).map_err(ErrorReply::err),
            Err(_) => Err(ErrorReply::err("a user name is text in UTF-8")),
        };
        match args.len() {
            3.. if args.is(1, "SETUSER") => {
                let name = in_store(args.get(2).unwrap_or_default())?;
                let rules = args.iter_from(3).map(passwords::digested);
                let rules = rules.collect::<Result<Vec<_>, _>>().map_err(ErrorReply::err)?;
                Ok(Some(stored::setting(&name, rules)))
            }
            3.. if args.is(1, "DELUSER") => {
                let names = args.iter_from(2).map(in_store).collect::<Result<BTreeSet<_>, _>>()?;
                Ok(Some(stored::removing(
                    names.iter().map(|name| Blob::from(name.as_str())).collect(),
                )))
            }
            2 if args.is(1, "LOAD") || args.is(1, "SAVE") => Ok(None),
            _ => {
                let word =
                    String::from_utf8_lossy(args.get(1).unwrap_or_default()).to_ascii_lowercase();
                Err(wrong_words("acl", &word))
            }
        }
    }

    /// Takes the reply to a change that a session has made: all gateways are told before the client is.
    pub(in crate::gateway) fn changed(&mut self, parts: &mut Parts, of: Target, reply: Reply) {
        let session = parts.sessions.get_mut(of.session.0);
        let target = session.and_then(|session| session.about.changes_users.take());
        let target = target.unwrap_or(NOWHERE);
        match UserChange::of_reply(reply) {
            Ok((change, reply)) => {
                let inquiry =
                    told(&mut parts.core, Broadcast::Users(change), Combine::Known(reply));
                parts.gather(target, inquiry);
            }
            Err(error) => {
                if says_lost_leader(&error) {
                    // It may have taken effect.
                    parts.core.afterwards.push_back(Broadcast::LookAtUsers);
                }
                parts.core.finish(target, error.into());
            }
        }
    }
}

/// Sessions.
impl Users {
    /// Looks at the users of all sessions, whose rights may have changed unnoticed. Returns whether any of
    /// them is in the store.
    pub(in crate::gateway) fn look(&self, parts: &mut Parts) -> bool {
        let of = |user: &Arc<User>| user.version.is_some().then(|| Blob::from(user.name.as_str()));
        let users = parts.sessions.iter().filter_map(|(_, session)| session.user.as_ref());
        let names: BTreeSet<Blob> = users.filter_map(of).collect();
        let any = !names.is_empty();
        if any {
            parts.carry_out_own(LOOK, stored::looking(names.into_iter().collect()));
        }
        any
    }

    /// Looks at users when it is time, and again later as long as sessions have users in the store.
    pub(in crate::gateway) fn look_again(&mut self, parts: &mut Parts) {
        self.looks = self.look(parts);
        if self.looks {
            parts.core.set_timer(USERS_LOOK_US, Timer::Users);
        }
    }

    /// Begins to look at users from time to time.
    pub(super) fn keep_looking(&mut self, parts: &mut Parts) {
        if !self.looks {
            self.looks = true;
            parts.core.set_timer(USERS_LOOK_US, Timer::Users);
        }
    }

    /// Takes the reply of a look at users.
    pub(in crate::gateway) fn looked(&mut self, parts: &mut Parts, pubsub: &PubSub, reply: Reply) {
        // The next look may tell if this one does not.
        if let Ok((users, _)) = UserChange::of_reply(reply) {
            self.follow(parts, pubsub, &users);
        }
    }

    /// Gives sessions the new rights of their users. Sessions are closed whose users are gone, or that listen
    /// to what their users may not hear any more; and those that monitor, or wait in a command that may not
    /// be allowed any more, if their users have lost rights.
    pub(in crate::gateway) fn follow(
        &mut self,
        parts: &mut Parts,
        pubsub: &PubSub,
        change: &UserChange,
    ) {
        self.newest = self.newest.max(change.version);
        let mut users: BTreeMap<&str, Option<Arc<User>>> = BTreeMap::new();
        for (name, line) in &change.lines {
            let Ok(name) = std::str::from_utf8(name) else { continue };
            // Rules that this build does not know give no rights.
            let user = line.as_ref().and_then(|line| User::stored(name, change.version, line).ok());
            users.insert(name, user.map(Arc::new));
        }
        let mut closed = Vec::new();
        for (handle, session) in parts.sessions.iter_mut() {
            let Some(old) = &session.user else { continue };
            let is_older = old.version.is_some_and(|version| version < change.version);
            let Some(new) = users.get(old.name.as_str()).filter(|_| is_older) else { continue };
            let id = SessionId(handle);
            let Some(new) = new else {
                closed.push(id);
                continue;
            };
            if !new.includes(old) {
                if let SessionMode::Multi(multi) = &mut session.mode {
                    multi.failed = true;
                }
                let hears = pubsub.all_of(id, |pattern, name| new.may_listen(pattern, name));
                if !hears || session.blocked.is_some() || parts.core.monitors.has(id) {
                    closed.push(id);
                }
            }
            session.user = Some(new.clone());
            session.refresh();
        }
        connection::close(&mut parts.core, &mut parts.sessions, &closed);
    }
}
