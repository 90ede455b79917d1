//! Authentication: the words of `HELLO` and `AUTH`, and the verdicts on passwords.

use super::denials::Denied;
use super::{DEFAULT_USER, Login, User, Users, wrong_password};
use crate::gateway::api::{Config, Output, SessionId};
use crate::gateway::clients::connection::hello::{self, Credentials, Hello};
use crate::gateway::clients::effect::Handled;
use crate::gateway::clients::session::{Session, Verdict};
use crate::gateway::clients::sessions::Sessions;
use crate::gateway::core::Core;
use adt::{Args, ErrorReply, Reply};
use std::sync::Arc;

impl Users {
    /// User of a new connection, if it may call commands before it authenticates.
    pub(in crate::gateway) fn first(&self, config: &Config) -> Option<Arc<User>> {
        if config.require_auth { None } else { self.unauthenticated().cloned() }
    }

    /// Carries out `HELLO` or `AUTH`.
    pub(in crate::gateway) fn authenticate(
        &self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        args: &Args<'_>,
    ) -> Handled {
        let (credentials, hello) = match self.parse(args) {
            Ok(parsed) => parsed,
            Err(error) => return error.into(),
        };
        if !sessions.is_idle(id) {
            return Handled::Hold;
        }
        let version = core.config.version;
        let Some(session) = sessions.get_mut(id.0) else { return Handled::Later };
        let Some(credentials) = credentials else {
            return match hello.filter(|_| session.user.is_some()) {
                Some(hello) => session.greet(hello, version).into(),
                None => hello::unauthenticated().into(),
            };
        };
        match self.login(&credentials.user) {
            Login::Accept(user) => session.log_in(user, hello, version).into(),
            Login::Verify { verifier } => {
                let target = sessions.place(id, None);
                sessions.bar(target);
                let user = String::from_utf8_lossy(&credentials.user).into_owned();
                if let Some(session) = sessions.get_mut(id.0) {
                    let user = user.clone();
                    session.about.verdict = Some(Verdict { user, hello, target });
                }
                let password = credentials.password.0;
                let verify = Output::Verify { session: id, user, password, verifier };
                core.mail.outputs.push_back(verify);
                Handled::Later
            }
        }
    }

    /// Takes the verdict on the password that a session has given.
    pub(in crate::gateway) fn verified(&self, core: &mut Core, session: &mut Session, ok: bool) {
        let Some(Verdict { user, hello, target }) = session.about.verdict.take() else { return };
        let reply = match self.user(&user).filter(|user| ok && user.enabled()) {
            Some(user) => session.log_in(user.clone(), hello, core.config.version),
            None => {
                core.mail.stats.auth_failures += 1;
                let command = if hello.is_some() { "HELLO" } else { "AUTH" };
                session.denied_as(core, &user, &Denied::Login(command));
                wrong_password().into()
            }
        };
        core.finish(target, reply);
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
            && let Login::Accept(_) = self.login(DEFAULT_USER.as_bytes())
        {
            let text = "AUTH <password> called without any password configured for the default \
                        user. Are you sure your configuration is correct?";
            return Err(ErrorReply::err(text));
        }
        Ok((Some(credentials), None))
    }
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
