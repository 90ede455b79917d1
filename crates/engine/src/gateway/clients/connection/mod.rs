//! `CLIENT`: names and settings of connections, and commands about other clients.

pub mod client_list;
pub mod hello;

use super::effect::{CommandEffect, View};
use super::session::{Replies, Session, SessionMode};
use super::sessions::Sessions;
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::api::{ClientFilter, Output, Question, SessionId};
use crate::gateway::command_docs::{unknown_subcommand, wrong_words};
use crate::gateway::core::Core;
use crate::gateway::operators::commands;
use crate::gateway::operators::questions::LocalQuestion;
use crate::gateway::tracking;
use crate::ids::RequestId;
use crate::limits::REQUEST_CLIENT_BYTES_MAX;
use crate::now::Now;
use adt::{Args, Blob, ErrorReply, Reply};
use client_list::ClientLine;

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

/// `CLIENT` and its subcommands.
pub(in crate::gateway) fn command(view: View<'_>, args: &Args<'_>) -> CommandEffect {
    let word = args.get(1).unwrap_or_default().to_ascii_lowercase();
    match word.as_slice() {
        b"list" | b"kill" | b"unblock" => others(&view, args, &word),
        b"reply" => replies(view.session, args),
        b"request" => request(view.session, args),
        b"pause" => commands::pause(args),
        b"unpause" => Inquiry::of_machine(Combine::Ok, LocalQuestion::Unpause).into(),
        b"order" => order(view, args),
        b"maint_notifications" => {
            ErrorReply::err("maintenance notifications are not offered by this server").into()
        }
        _ => itself(view, args, &word),
    }
}

/// Subcommands that concern other clients.
fn others(view: &View<'_>, args: &Args<'_>, word: &[u8]) -> CommandEffect {
    let inquiry = match word {
        b"list" => client_list::parse_list(args)
            .map(|filter| (Combine::Clients, Question::ClientList(filter))),
        b"kill" => {
            let kill = client_list::parse_kill(args, view.session.about.client);
            kill.map(|kill| {
                let combine = if kill.by_address { Combine::KilledOne } else { Combine::Sum };
                (combine, Question::ClientKill(kill.filter))
            })
        }
        _ => parse_unblock(args).map(|question| (Combine::Unblocked, question)),
    };
    match inquiry {
        Ok((combine, question)) => Inquiry::of_gateways(combine, question).into(),
        Err(error) => error.into(),
    }
}

/// Subcommands that concern the connection itself.
fn itself(view: View<'_>, args: &Args<'_>, word: &[u8]) -> CommandEffect {
    let View { core, session, .. } = view;
    let reply = match (word, args.len()) {
        (b"getredir", 2) => Some(tracking::told_redirection(session)),
        (b"trackinginfo", 2) => Some(tracking::told(session)),
        (b"caching", _) => Some(tracking::caching(session, args)),
        _ => None,
    };
    if let Some(reply) = reply {
        return reply.into();
    }
    let about = &mut session.about;
    let reply = match (word, args.len()) {
        (b"id", 2) => Reply::Int(about.client as i64),
        (b"getname", 2) if about.name.is_empty() => Reply::Nil,
        (b"getname", 2) => Reply::bulk(&about.name),
        (b"info", 2) => Reply::Text(line(session, core.now).to_string() + "\n"),
        (b"setname", 3) => match hello::client_name(args.get(2).unwrap_or_default()) {
            Ok(name) => {
                about.name = text(&name);
                Reply::Ok
            }
            Err(error) => error.into(),
        },
        (b"setinfo", 4) => {
            let value = args.get(3).unwrap_or_default();
            let (attribute, field) = match () {
                () if args.is(2, "LIB-NAME") => ("lib-name", &mut about.lib_name),
                () if args.is(2, "LIB-VER") => ("lib-ver", &mut about.lib_ver),
                () => {
                    let what = text(args.get(2).unwrap_or_default());
                    return ErrorReply::err(format!("Unrecognized option '{what}'")).into();
                }
            };
            match hello::library_attribute(attribute, value) {
                Ok(value) => {
                    *field = text(&value);
                    Reply::Ok
                }
                Err(error) => error.into(),
            }
        }
        (b"no-evict", 3) => switch(args, &mut about.no_evict),
        (b"no-touch", 3) => switch(args, &mut about.no_touch),
        (b"id" | b"getname" | b"info" | b"setname" | b"setinfo" | b"no-evict" | b"no-touch", _) => {
            wrong_words("client", &text(word)).into()
        }
        _ => unknown_subcommand(args).into(),
    };
    reply.into()
}

/// `CLIENT REPLY ON | OFF | SKIP`.
fn replies(session: &mut Session, args: &Args<'_>) -> CommandEffect {
    if args.len() != 3 {
        return wrong_words("client", "reply").into();
    }
    let replies = match () {
        () if args.is(2, "ON") => Replies::On,
        () if args.is(2, "OFF") => Replies::Off,
        () if args.is(2, "SKIP") && session.replies == Replies::Off => Replies::Off,
        () if args.is(2, "SKIP") => Replies::SkipThis,
        () => return ErrorReply::syntax().into(),
    };
    session.replies = replies;
    session.refresh();
    if replies == Replies::On { Reply::Ok.into() } else { CommandEffect::Silent }
}

/// `CLIENT ORDER ON | OFF`: whether commands that are sent without waiting for replies keep their order
/// across shards.
fn order(view: View<'_>, args: &Args<'_>) -> CommandEffect {
    if args.len() != 3 {
        return wrong_words("client", "order").into();
    }
    let ordered = match () {
        () if args.is(2, "ON") => true,
        () if args.is(2, "OFF") => false,
        () => return ErrorReply::syntax().into(),
    };
    if !view.idle {
        return CommandEffect::Hold;
    }
    view.session.pipeline.set_ordered(ordered);
    Reply::Ok.into()
}

/// `CLIENT REQUEST name number`: the next command or transaction has this request number.
fn request(session: &mut Session, args: &Args<'_>) -> CommandEffect {
    if args.len() != 4 {
        return wrong_words("client", "request").into();
    }
    let request = match request_id(args, 2) {
        Ok(request) => request,
        Err(error) => return error.into(),
    };
    session.request = Some(request);
    session.refresh();
    Reply::Ok.into()
}

/// Lines of the clients that a filter lets through.
pub(in crate::gateway) fn lines(
    core: &Core,
    sessions: &Sessions,
    filter: &ClientFilter,
) -> Vec<(SessionId, ClientLine)> {
    let lines = sessions.iter().map(|(handle, session)| {
        let id = SessionId(handle);
        (id, line(session, core.now))
    });
    lines.filter(|(_, line)| line.passes(filter)).collect()
}

/// Closes the connections that match; tells how many there were.
pub(in crate::gateway) fn kill(
    core: &mut Core,
    sessions: &mut Sessions,
    filter: &ClientFilter,
) -> usize {
    let ids: Vec<SessionId> = lines(core, sessions, filter).into_iter().map(|(id, _)| id).collect();
    close(core, sessions, &ids);
    ids.len()
}

/// Closes connections.
pub(in crate::gateway) fn close(core: &mut Core, sessions: &mut Sessions, ids: &[SessionId]) {
    for id in ids {
        let Some(session) = sessions.get_mut(id.0) else { continue };
        session.close_after_replies(core, *id);
        // Its only missing reply may be that of the present command.
        let itself =
            session.queue.len() == 1 && ["acl", "client", "exec"].contains(&session.command);
        if !session.queue.is_empty() && !itself {
            // It may wait for ever, in a blocking command for instance.
            core.mail.outputs.push_back(Output::Close { session: *id });
        }
    }
}

/// `CLIENT UNBLOCK number [TIMEOUT | ERROR]`.
fn parse_unblock(args: &Args<'_>) -> Result<Question, ErrorReply> {
    let error = match args.len() {
        3 => false,
        4 if args.is(3, "TIMEOUT") => false,
        4 if args.is(3, "ERROR") => true,
        4 => {
            let text = "CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
            return Err(ErrorReply::err(text));
        }
        _ => return Err(wrong_words("client", "unblock")),
    };
    let client = args.int(2)?.max(0) as u64;
    Ok(Question::Unblock { client, error })
}

fn switch(args: &Args<'_>, to: &mut bool) -> Reply {
    match () {
        () if args.is(2, "ON") => *to = true,
        () if args.is(2, "OFF") => *to = false,
        () => return ErrorReply::syntax().into(),
    }
    Reply::Ok
}

/// Line about a session.
pub(in crate::gateway) fn line(session: &Session, now: Now) -> ClientLine {
    let about = &session.about;
    let seconds_since = |us: u64| now.mono_us.saturating_sub(us) / 1_000_000;
    let (queued, multi_bytes) = match &session.mode {
        SessionMode::Multi(multi) => (Some(multi.steps.len()), multi.bytes),
        _ => (None, 0),
    };
    ClientLine {
        id: about.client,
        address: about.opening.peer.clone(),
        local_address: about.opening.local_address.clone(),
        name: about.name.clone(),
        age_s: seconds_since(about.opened_us),
        idle_s: seconds_since(session.active_us),
        database: session.database,
        subscribed: session.subscribed,
        queued,
        watched: session.watched.len(),
        blocked: session.blocked.is_some() && !session.about.arrives,
        in_transaction: matches!(session.mode, SessionMode::Interactive(_)),
        transaction_bytes: multi_bytes + session.held_bytes,
        output_bytes: 0,
        command: session.command.to_owned(),
        user: session.user.as_ref().map_or(String::new(), |user| user.name().to_owned()),
        protocol: session.protocol,
        redirection: tracking::redirection(session),
        tracking: about.tracker.as_ref().map_or((false, false), |tracker| {
            (tracker.broken, matches!(tracker.scope, tracking::Scope::Prefixes(_)))
        }),
        lib_name: about.lib_name.clone(),
        lib_ver: about.lib_ver.clone(),
    }
}

/// Name and request number at two words.
pub(in crate::gateway) fn request_id(args: &Args<'_>, at: usize) -> Result<RequestId, ErrorReply> {
    let client = Blob::from(args.get(at).unwrap_or_default());
    let number = args.int(at + 1).ok().and_then(|number| u64::try_from(number).ok());
    if client.is_empty() || client.len() > REQUEST_CLIENT_BYTES_MAX {
        let text = format!("the name has 1 to {REQUEST_CLIENT_BYTES_MAX} bytes");
        return Err(ErrorReply::err(text));
    }
    let number = number.ok_or_else(|| ErrorReply::err("the number is not an integer from 0 on"))?;
    Ok(RequestId { client, number })
}
