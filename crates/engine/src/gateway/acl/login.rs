//! Authentication: the words of `HELLO` and `AUTH`, the rules of users in the store, and the verdicts on
//! passwords.

use super::denials::Denied;
use super::{DEFAULT_USER, Login, User, Users, stored, wrong_password};
use crate::gateway::api::{Config, Output, SessionId};
use crate::gateway::clients::connection::hello::{self, Credentials, Hello};
use crate::gateway::clients::effect::Handled;
use crate::gateway::clients::session::{LoginAttempt, Session};
use crate::gateway::parts::Parts;
use crate::gateway::target::{LOGIN, Target};
use crate::gateway::txn::work::ProgramStep;
use adt::{Args, Blob, ErrorReply, Reply};
use std::sync::Arc;

impl Users {
    /// User of a new connection, if it may call commands before it authenticates.
    pub(in crate::gateway) fn first(&self, config: &Config) -> Option<Arc<User>> {
        if config.require_auth { None } else { self.unauthenticated().cloned() }
    }

    /// Carries out `HELLO` or `AUTH`.
    pub(in crate::gateway) fn authenticate(
        &mut self,
        parts: &mut Parts,
        id: SessionId,
        args: &Args<'_>,
    ) -> Handled {
        let (credentials, hello) = match self.parse(args) {
            Ok(parsed) => parsed,
            Err(error) => return error.into(),
        };
        if !parts.sessions.is_idle(id) {
            return Handled::Hold;
        }
        let version = parts.core.config.version;
        let Some(session) = parts.sessions.get_mut(id.0) else { return Handled::Later };
        let Some(credentials) = credentials else {
            return match hello.filter(|_| session.user.is_some()) {
                Some(hello) => session.greet(hello, version).into(),
                None => hello::unauthenticated().into(),
            };
        };
        let login = self.login(&credentials.user);
        if let Some(Login::Accept(user)) = login {
            return session.log_in(user, hello, version).into();
        }
        let name = credentials.user.clone();
        let target = parts.sessions.place(id, None);
        parts.sessions.bar(target);
        if let Some(session) = parts.sessions.get_mut(id.0) {
            session.about.attempt = Some(LoginAttempt { credentials, hello, target, found: None });
        }
        match login {
            Some(Login::Verify { verifier }) => verify(parts, id, verifier),
            _ => find(parts, id, &name),
        }
        Handled::Later
    }

    /// Takes the rules of the user as which a session authenticates.
    pub(in crate::gateway) fn found(&mut self, parts: &mut Parts, of: Target, reply: &Reply) {
        let id = of.session;
        let Some(session) = parts.sessions.get_mut(id.0) else { return };
        let Some(mut attempt) = session.about.attempt.take() else { return };
        let name = attempt.credentials.user.clone();
        let users = match stored::users_of(std::slice::from_ref(&name), reply) {
            Ok(users) => users,
            Err(error) => return parts.core.finish(attempt.target, error.into()),
        };
        let is_outdated = users.version < self.newest;
        // Rules that this build does not know give no rights.
        attempt.found = users.first().map(Arc::new);
        let login = Login::of(attempt.found.as_ref());
        if let (Login::Accept(user), false) = (&login, is_outdated) {
            return self.enter(parts, id, attempt, user.clone());
        }
        session.about.attempt = Some(attempt);
        match login {
            Login::Verify { verifier } if !is_outdated => verify(parts, id, verifier),
            _ => find(parts, id, &name),
        }
    }

    /// Takes the verdict on the password that a session has given.
    pub(in crate::gateway) fn verified(&mut self, parts: &mut Parts, id: SessionId, ok: bool) {
        let Some(session) = parts.sessions.get_mut(id.0) else { return };
        let Some(attempt) = session.about.attempt.take() else { return };
        let name = attempt.credentials.user.clone();
        let user = attempt.found.clone().or_else(|| self.user(&name).cloned());
        match user.filter(|user| ok && user.enabled()) {
            Some(user) if user.version.is_some_and(|version| version < self.newest) => {
                // Users have changed meanwhile, perhaps this one.
                session.about.attempt = Some(attempt);
                find(parts, id, &name);
            }
            Some(user) => self.enter(parts, id, attempt, user),
            None => {
                parts.core.mail.stats.auth_failures += 1;
                let command = if attempt.hello.is_some() { "HELLO" } else { "AUTH" };
                let name = String::from_utf8_lossy(&name);
                session.denied_as(&mut parts.core, &name, &Denied::Login(command));
                parts.core.finish(attempt.target, wrong_password().into());
            }
        }
    }

    /// Lets a session go on as a user.
    fn enter(&mut self, parts: &mut Parts, id: SessionId, attempt: LoginAttempt, user: Arc<User>) {
        let version = parts.core.config.version;
        let Some(session) = parts.sessions.get_mut(id.0) else { return };
        let is_stored = user.version.is_some();
        let reply = session.log_in(user, attempt.hello, version);
        parts.core.finish(attempt.target, reply);
        if is_stored {
            self.keep_looking(parts);
        }
    }

    /// Parses the words of `HELLO [protover [AUTH username password] [SETNAME clientname]]` or
    /// `AUTH [username] password`.
    fn parse(&self, args: &Args<'_>) -> Result<(Option<Credentials>, Option<Hello>), ErrorReply> {
        if args.is(0, "HELLO") {
            let mut hello = Hello::parse(args)?;
            return Ok((hello.credentials.take(), Some(hello)));
        }
        let credentials = Credentials::parse(args)?;
        if args.len() == 2
            && let Some(Login::Accept(_)) = self.login(DEFAULT_USER.as_bytes())
        {
            let text = "AUTH <password> called without any password configured for the default \
                        user. Are you sure your configuration is correct?";
            return Err(ErrorReply::err(text));
        }
        Ok((Some(credentials), None))
    }
}

/// Reads the rules of the user as which a session authenticates.
fn find(parts: &mut Parts, id: SessionId, name: &Blob) {
    let op = stored::read(std::slice::from_ref(name));
    let session = parts.sessions.get_mut(id.0);
    let Some(attempt) = session.and_then(|session| session.about.attempt.as_ref()) else { return };
    let target = Target { item: LOGIN, ..attempt.target };
    parts.carry_out_own(target, ProgramStep::Ops(vec![op], None));
}

/// Lets the password be checked that a session has given.
fn verify(parts: &mut Parts, id: SessionId, verifier: String) {
    let session = parts.sessions.get_mut(id.0);
    let Some(attempt) = session.and_then(|session| session.about.attempt.as_ref()) else { return };
    let user = String::from_utf8_lossy(&attempt.credentials.user).into_owned();
    let password = attempt.credentials.password.0.clone();
    let verify = Output::Verify { session: id, user, password, verifier };
    parts.core.mail.outputs.push_back(verify);
}

impl Session {
    /// Follows a `HELLO`; returns its reply.
    fn greet(&mut self, hello: Hello, version: &str) -> Reply {
        if let Some(protocol) = hello.protocol {
            self.protocol = protocol;
        }
        if let Some(name) = hello.name {
            self.about.name = String::from_utf8_lossy(&name).into_owned();
        }
        self.refresh();
        hello::greeting(self.about.client, self.protocol, version)
    }

    /// Gives the session its user; returns the reply to the command that has authenticated it.
    fn log_in(&mut self, user: Arc<User>, hello: Option<Hello>, version: &str) -> Reply {
        self.user = Some(user);
        self.refresh();
        hello.map_or(Reply::Ok, |hello| self.greet(hello, version))
    }
}
