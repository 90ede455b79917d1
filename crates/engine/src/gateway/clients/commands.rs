//! Commands that no data type owns: from the name to the part that carries it out, and the short ones.

use super::effect::{CommandEffect, Handled, View};
use super::publish::asks_for_keys;
use super::session::Session;
use super::{connection, publish, session_commands};
use crate::gateway::acl::Users;
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::admin::{backup, cluster, info, keyspace, shardmap};
use crate::gateway::api::{Admin, Output, Question, ServerReply, SessionId};
use crate::gateway::command_docs::{
    CONTAINERS, subcommand_syntax, unknown_subcommand, wrong_words,
};
use crate::gateway::core::Core;
use crate::gateway::mail::Target;
use crate::gateway::operators::commands as operators;
use crate::gateway::parts::Parts;
use crate::gateway::scripts::commands::is_of_scripts;
use crate::gateway::txn::multi;
use crate::gateway::txn::work::ProgramStep;
use crate::gateway::types::known::is_call;
use crate::gateway::waiting::fence;
use crate::gateway::{Gateway, acl, command_docs};
use crate::message::Body;
use crate::now::Now;
use crate::script::time;
use adt::command::{database, glob};
use adt::{ArgBuf, Args, CommandSpec, ErrorReply, Reply};

/// The error that keeps a queued command of the session from being carried out, if it is known already.
pub(in crate::gateway) fn refused_early(spec: &CommandSpec, args: &Args<'_>) -> Option<ErrorReply> {
    if !CONTAINERS.contains(&spec.name) {
        return None;
    }
    let word = args.get(1)?.to_ascii_lowercase();
    let known = adt::command::syntax::subcommands(spec.syntax);
    let is_known = word == b"help" || known.iter().any(|(name, _)| name.as_bytes() == word);
    if !is_known {
        return Some(unknown_subcommand(args));
    }
    command_docs::check_subcommand(spec, args).err()
}

impl Gateway {
    /// Carries out a command of the session. Tells whether it went ahead.
    pub(in crate::gateway) fn session_command(
        &mut self,
        id: SessionId,
        spec: &'static CommandSpec,
        args: &Args<'_>,
    ) -> bool {
        match self.handle(id, spec, args, None) {
            Handled::Reply(reply) => self.parts.sessions.reply(&mut self.parts.core, id, reply),
            Handled::Later => {}
            Handled::Hold => return false,
        }
        true
    }

    /// Carries out a command of the session, whose reply goes to `place` if one is given.
    pub(in crate::gateway) fn handle(
        &mut self,
        id: SessionId,
        spec: &'static CommandSpec,
        args: &Args<'_>,
        place: Option<Target>,
    ) -> Handled {
        if CONTAINERS.contains(&spec.name) {
            match command_docs::check_subcommand(spec, args) {
                Ok(None) => {}
                Ok(Some(help)) => return help.into(),
                Err(error) => return error.into(),
            }
        }
        if spec.name == "acl"
            && let Some(handled) = self.users.command(&mut self.parts, id, args)
        {
            return handled;
        }
        match spec.name {
            _ if is_of_scripts(spec) || is_call(spec) => self.run_script(id, spec, args),
            "exec" => self.parts.exec(id, args),
            "watch" => multi::watch(&mut self.parts.core, &mut self.parts.sessions, id, args),
            "txn" => {
                let Parts { core, sessions, transactions, .. } = &mut self.parts;
                let effect = transactions.command(core, sessions, id, args);
                self.parts.carry_out(id, effect)
            }
            "publish" | "spublish" => self.parts.publish(id, args, place),
            _ if session_commands::subscribes(spec) => {
                let Parts { core, sessions, tracking, .. } = &mut self.parts;
                let asks = sessions.is_idle(id) && asks_for_keys(spec.name, args);
                if asks && !sessions.is_given() && tracking.waits_to_hear(core, sessions, id) {
                    return Handled::Hold;
                }
                let handled = self.pubsub.command(core, sessions, id, (spec.name, args));
                tracking.heard(core, self.pubsub.hears_keys());
                handled
            }
            "hello" | "auth" => self.users.authenticate(&mut self.parts, id, args),
            "monitor" => self.parts.monitor(id),
            "quit" => {
                self.parts.sessions.reply(&mut self.parts.core, id, Reply::Ok);
                self.parts.sessions.close_after_replies(&mut self.parts.core, id);
                Handled::Later
            }
            "reset" if !self.parts.sessions.is_idle(id) => Handled::Hold,
            "reset" => {
                self.parts.transactions.leave(&mut self.parts.core, &mut self.parts.sessions, id);
                self.pubsub.close(id);
                self.parts.core.stop_monitoring(id);
                let Parts { core, sessions, tracking, .. } = &mut self.parts;
                tracking.end(core, sessions, id);
                tracking.heard(core, self.pubsub.hears_keys());
                let user = self.users.first(&self.parts.core.config);
                let Some(session) = self.parts.sessions.get_mut(id.0) else {
                    return Handled::Later;
                };
                self.pubsub.count(&mut self.parts.core.mail.stats, id, session);
                session.reset(user);
                Reply::status("RESET").into()
            }
            "client" if args.is(1, "TRACKING") => {
                let Parts { core, sessions, tracking, .. } = &mut self.parts;
                tracking.track(core, sessions, id, args)
            }
            "fence" => self.parts.fence(id, args),
            "lock.section" => self.parts.section(id, args),
            "flushall" | "flushdb"
                if self.parts.sessions.is_numbered(id) && keyspace::check_flush(args).is_ok() =>
            {
                self.parts.as_transaction(id, args)
            }
            _ => {
                let idle = self.parts.sessions.is_idle(id);
                let Some(session) = self.parts.sessions.get_mut(id.0) else {
                    return Handled::Later;
                };
                let (core, users) = (&self.parts.core, &self.users);
                let view = View { core, users, session, idle };
                let effect = effect(view, spec, args);
                self.parts.carry_out(id, effect)
            }
        }
    }

    /// Takes the server's reply to an output.
    pub fn server_replied(&mut self, now: Now, id: SessionId, reply: ServerReply) {
        self.parts.core.now = now;
        match reply {
            ServerReply::Verified(ok) => self.users.verified(&mut self.parts, id, ok),
            ServerReply::Admin(reply) => {
                let session = self.parts.sessions.get_mut(id.0);
                if let Some(target) = session.and_then(|session| session.about.admin.take()) {
                    self.parts.core.finish(target, reply);
                }
            }
        }
        self.settle();
    }
}

impl Parts {
    /// Carries out a command of the session as a transaction that does nothing else, so that a shard
    /// remembers it under its request number.
    pub(in crate::gateway) fn as_transaction(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let step = ProgramStep::Later(ArgBuf::of(args.iter_from(0)));
        let database = self.sessions.get(id.0).map_or(0, |session| session.database);
        let step = keyspace::with_all_keys(&mut self.core, database, step);
        match self.launch_in_turn(id, vec![step], Vec::new()) {
            true => Handled::Later,
            false => Handled::Hold,
        }
    }

    /// Carries out the effect of a command.
    pub(in crate::gateway) fn carry_out(
        &mut self,
        id: SessionId,
        effect: CommandEffect,
    ) -> Handled {
        match effect {
            CommandEffect::Reply(reply) => Handled::Reply(reply),
            CommandEffect::Silent => Handled::Later,
            CommandEffect::Hold => Handled::Hold,
            CommandEffect::Ask(inquiry) => {
                let target = self.sessions.place(id, None);
                self.gather(target, *inquiry);
                Handled::Later
            }
            CommandEffect::Inquire(_) | CommandEffect::Cut | CommandEffect::Serve(_)
                if !self.sessions.is_idle(id) =>
            {
                Handled::Hold
            }
            CommandEffect::Inquire(inquiry) => {
                let target = self.sessions.place(id, None);
                self.sessions.bar(target);
                self.gather(target, *inquiry);
                Handled::Later
            }
            CommandEffect::Cut => {
                let target = self.sessions.place(id, None);
                self.sessions.bar(target);
                self.backups.begin(&mut self.core, target);
                Handled::Later
            }
            CommandEffect::Serve(action) => {
                let target = self.sessions.place(id, None);
                self.sessions.bar(target);
                if let Some(session) = self.sessions.get_mut(id.0) {
                    session.about.admin = Some(target);
                }
                self.core.mail.outputs.push_back(Output::Admin { session: id, action });
                Handled::Later
            }
        }
    }
}

fn select(session: &mut Session, args: &Args<'_>) -> CommandEffect {
    match database::number(args, 1) {
        Ok(number) => {
            session.database = number;
            Reply::Ok.into()
        }
        Err(error) => error.into(),
    }
}

/// The effect of a command that changes nothing but its session.
fn effect(view: View<'_>, spec: &CommandSpec, args: &Args<'_>) -> CommandEffect {
    let core = view.core;
    match spec.name {
        "multi" => multi::multi(view.session),
        "discard" => multi::discard(view.session),
        "unwatch" => multi::unwatch(view.session),
        "ping" => ping(view.session, args),
        "echo" => Reply::bulk(args.get(1).unwrap_or_default()).into(),
        "select" => select(view.session, args),
        "command" => match command_docs::reply(args) {
            Ok(reply) => reply.into(),
            Err(error) => error.into(),
        },
        "time" => time(core.now.wall_us).into(),
        "lolwut" => session_commands::lolwut(args).into(),
        "readonly" | "readwrite" => {
            // A replica may be asked, and any machine answers; or the leader is to be asked again.
            view.session.about.asks_replicas = spec.name == "readonly";
            Reply::Ok.into()
        }
        "asking" => Reply::Ok.into(),
        "role" => {
            Reply::Array(vec![Reply::bulk("master"), Reply::Int(0), Reply::Array(vec![])]).into()
        }
        "lastsave" => Reply::Int(core.facts.saved_s() as i64).into(),
        "info" => {
            let wanted = info::Wanted::parse(args);
            let ask_shards = wanted.needs_shards();
            let combine = Combine::Info(wanted);
            let inquiry = match ask_shards {
                true => Inquiry::of_all_shards(core, combine, || Body::Stats),
                false => Inquiry::of_shards(combine, Vec::new()),
            };
            inquiry.and_gateways(Question::Stats).into()
        }
        "config" => config(core, args),
        "slowlog" => operators::slowlog(args),
        "latency" => operators::latency(args),
        "acl" => acl_command(view.users, view.session, args),
        "save" => CommandEffect::Serve(Admin::Save),
        "bgsave" => CommandEffect::Serve(Admin::BackgroundSave),
        "shutdown" => shutdown(args),
        "client" => connection::command(view, args),
        "wait" => wait(core, view.idle, args),
        "cluster" => cluster::command(core, view.session, args),
        "failover" => cluster::failover(core, args),
        "shardmap" => shardmap::command(core, args),
        "pubsub" => publish::command(args),
        "backup" => backup::command(core, args),
        "lock.waiters" | "barrier.waiting" => fence::waiters(core, view.session.reach, args),
        _ => keyspace::command(core, (spec, view.session.database), args),
    }
}

fn ping(session: &Session, args: &Args<'_>) -> CommandEffect {
    if args.len() > 2 {
        return ErrorReply::err("wrong number of arguments for 'ping' command").into();
    }
    if session.only_subscribes() {
        let message = Reply::bulk(args.get(1).unwrap_or_default());
        return Reply::Array(vec![Reply::bulk("pong"), message]).into();
    }
    args.get(1).map_or(Reply::status("PONG"), Reply::bulk).into()
}

fn config(core: &Core, args: &Args<'_>) -> CommandEffect {
    if args.is(1, "GET") {
        if args.len() < 3 {
            return wrong_words("config", "get").into();
        }
        let wanted = |name: &str| {
            args.iter_from(2)
                .any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
        };
        let settings = core.config.settings.iter().filter(|(name, _)| wanted(name));
        return Reply::Map(settings.map(|(n, v)| (Reply::bulk(n), Reply::bulk(v))).collect())
            .into();
    }
    if args.is(1, "RESETSTAT") && args.len() == 2 {
        return CommandEffect::Serve(Admin::ResetStats);
    }
    if args.is(1, "SET") {
        if args.len() < 4 || !args.len().is_multiple_of(2) {
            return wrong_words("config", "set").into();
        }
        let text = |i| String::from_utf8_lossy(args.get(i).unwrap_or_default()).into_owned();
        let pairs = (2..args.len()).step_by(2).map(|i| (text(i).to_lowercase(), text(i + 1)));
        let pairs: Vec<_> = pairs.collect();
        let known = |name: &String| core.config.settings.iter().any(|(known, _)| known == name);
        if let Some((name, _)) = pairs.iter().find(|(name, _)| !known(name)) {
            let text = format!("Unknown option or number of arguments for CONFIG SET - '{name}'");
            return ErrorReply::err(text).into();
        }
        let named_before = |i: &usize| pairs[..*i].iter().any(|(name, _)| *name == pairs[*i].0);
        if let Some(twice) = (0..pairs.len()).find(named_before) {
            let text = format!(
                "CONFIG SET failed (possibly related to argument '{}') - duplicate parameter",
                pairs[twice].0
            );
            return ErrorReply::err(text).into();
        }
        return CommandEffect::Serve(Admin::ConfigSet(pairs));
    }
    unknown_subcommand(args).into()
}

fn acl_command(users: &Users, session: &Session, args: &Args<'_>) -> CommandEffect {
    if args.is(1, "LOG") {
        return operators::acl_log(args);
    }
    if args.is(1, "GENPASS") {
        return match operators::bits(args) {
            Ok(bits) => CommandEffect::Serve(Admin::Password { bits }),
            Err(error) => error.into(),
        };
    }
    let reply = match args.len() {
        2 | 3 if args.is(1, "CAT") => acl::cat(args.get(2)),
        2 if args.is(1, "WHOAMI") => {
            let user = session.user.as_ref();
            user.map_or(Reply::Nil, |user| acl::who_am_i(user))
        }
        _ if args.is(1, "CAT") => subcommand_syntax(args).into(),
        _ => acl::tell(users, args).unwrap_or_else(|| unknown_subcommand(args).into()),
    };
    reply.into()
}

fn shutdown(args: &Args<'_>) -> CommandEffect {
    let mut save = false;
    for i in 1..args.len() {
        match () {
            () if args.is(i, "SAVE") => save = true,
            () if args.is(i, "NOSAVE") => save = false,
            () if args.is(i, "NOW") || args.is(i, "FORCE") => {}
            () => return ErrorReply::syntax().into(),
        }
    }
    CommandEffect::Serve(Admin::Shutdown { save })
}

/// `WAIT`: a write that is answered is replicated already.
fn wait(core: &Core, idle: bool, args: &Args<'_>) -> CommandEffect {
    let timeout = || {
        let error = "timeout is not an integer or out of range";
        args.int(2).map_err(|_| ErrorReply::err(error))
    };
    let numbers = args.int(1).and_then(|n| Ok((n, timeout()?)));
    match numbers {
        Err(error) => error.into(),
        Ok((_, timeout)) if timeout < 0 => ErrorReply::err("timeout is negative").into(),
        Ok(_) if !idle => CommandEffect::Hold,
        Ok(_) => Reply::Int(core.topology.replicas(core.mail.routes.shards()) as i64).into(),
    }
}
