//! `CLIENT TRACKING`, `CLIENT CACHING`, `CLIENT TRACKINGINFO`, `CLIENT GETREDIR`: words and replies.

use super::{Scope, Tracker};
use crate::gateway::clients::session::Session;
use crate::gateway::command_docs::wrong_words;
use crate::limits::TRACKED_PREFIXES_MAX;
use adt::{Args, Blob, ErrorReply, Reply};
use std::collections::BTreeSet;

/// Change that `CLIENT TRACKING` makes.
pub enum Switch {
    /// This tracker from now on.
    On(Tracker),
    Off,
}

/// Words behind `CLIENT TRACKING ON`.
#[derive(Default)]
struct Options {
    redirect: Option<u64>,
    prefixes: Vec<Blob>,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
}

impl Options {
    fn parse(args: &Args<'_>) -> Result<Self, ErrorReply> {
        let mut options = Self::default();
        let mut at = 3;
        while at < args.len() {
            let more = at + 1 < args.len();
            match () {
                () if args.is(at, "REDIRECT") && more => {
                    at += 1;
                    if options.redirect.is_some() {
                        let text = "A client can only redirect to a single other client";
                        return Err(ErrorReply::err(text));
                    }
                    options.redirect = Some(args.int(at)?.max(0) as u64);
                }
                () if args.is(at, "PREFIX") && more => {
                    at += 1;
                    options.prefixes.push(args.blob(at)?);
                }
                () if args.is(at, "BCAST") => options.broadcast = true,
                () if args.is(at, "OPTIN") => options.opt_in = true,
                () if args.is(at, "OPTOUT") => options.opt_out = true,
                () if args.is(at, "NOLOOP") => options.no_loop = true,
                () => return Err(ErrorReply::syntax()),
            }
            at += 1;
        }
        Ok(options)
    }

    /// The prefixes besides those of before, which do not overlap.
    fn all_prefixes(&self, before: &BTreeSet<Blob>) -> Result<BTreeSet<Blob>, ErrorReply> {
        let overlaps = |a: &Blob, b: &Blob| a.starts_with(b) || b.starts_with(a);
        let text = |prefix: &Blob| String::from_utf8_lossy(prefix).into_owned();
        let mut all = before.clone();
        for (at, prefix) in self.prefixes.iter().enumerate() {
            let known = before.iter().find(|known| overlaps(prefix, known));
            if let Some(known) = known {
                return Err(ErrorReply::err(format!(
                    "Prefix '{}' overlaps with an existing prefix '{}'. Prefixes for a single client must \
                     not overlap.",
                    text(prefix),
                    text(known)
                )));
            }
            if let Some(other) =
                self.prefixes[at + 1..].iter().find(|other| overlaps(prefix, other))
            {
                return Err(ErrorReply::err(format!(
                    "Prefix '{}' overlaps with another provided prefix '{}'. Prefixes for a single client \
                     must not overlap.",
                    text(prefix),
                    text(other)
                )));
            }
            all.insert(prefix.clone());
        }
        if all.is_empty() {
            all.insert(Blob::from(""));
        }
        if all.len() > TRACKED_PREFIXES_MAX {
            let text = format!("a client can track at most {TRACKED_PREFIXES_MAX} prefixes");
            return Err(ErrorReply::err(text));
        }
        Ok(all)
    }
}

/// Reads `CLIENT TRACKING <ON | OFF> [REDIRECT id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`.
pub fn parse(session: &Session, args: &Args<'_>) -> Result<Switch, ErrorReply> {
    if args.len() < 3 {
        return Err(wrong_words("client", "tracking"));
    }
    let options = Options::parse(args)?;
    if args.is(2, "OFF") {
        return Ok(Switch::Off);
    }
    if !args.is(2, "ON") {
        return Err(ErrorReply::syntax());
    }
    if !options.broadcast && !options.prefixes.is_empty() {
        let text = "PREFIX option requires BCAST mode to be enabled";
        return Err(ErrorReply::err(text));
    }
    let old = session.about.tracker.as_deref();
    let none = BTreeSet::new();
    let prefixes = match old.map(|old| &old.scope) {
        Some(Scope::Prefixes(prefixes)) => prefixes,
        _ => &none,
    };
    if old.is_some() && options.broadcast == prefixes.is_empty() {
        return Err(ErrorReply::err(
            "You can't switch BCAST mode on/off before disabling tracking for this client, and then \
             re-enabling it with a different mode.",
        ));
    }
    if options.broadcast && (options.opt_in || options.opt_out) {
        return Err(ErrorReply::err("OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if options.opt_in && options.opt_out {
        return Err(ErrorReply::err("You can't specify both OPTIN mode and OPTOUT mode"));
    }
    let switches = match old.map(|old| &old.scope) {
        Some(Scope::OptIn) => options.opt_out,
        Some(Scope::OptOut) => options.opt_in,
        _ => false,
    };
    if switches {
        return Err(ErrorReply::err(
            "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
             re-enabling it with a different mode.",
        ));
    }
    if session.protocol == 2 && options.redirect.is_none() {
        return Err(ErrorReply::err(
            "RESP2 has no messages for the cache of this connection: choose RESP3 with HELLO 3, or \
             REDIRECT them to a connection that has subscribed to __redis__:invalidate",
        ));
    }
    let scope = match &options {
        Options { broadcast: true, .. } => Scope::Prefixes(options.all_prefixes(prefixes)?),
        Options { opt_in: true, .. } => Scope::OptIn,
        Options { opt_out: true, .. } => Scope::OptOut,
        _ => Scope::Reads,
    };
    Ok(Switch::On(Tracker {
        scope,
        redirect: options.redirect,
        broken: false,
        no_loop: options.no_loop,
        caching: None,
        queued: Vec::new(),
        seen: Vec::new(),
        again: Vec::new(),
    }))
}

/// `CLIENT CACHING <YES | NO>`.
pub(in crate::gateway) fn caching(session: &mut Session, args: &Args<'_>) -> Reply {
    if args.len() != 3 {
        return wrong_words("client", "caching").into();
    }
    let yes = args.is(2, "YES");
    let Some(tracker) = &mut session.about.tracker else {
        let text = "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
                    OPTOUT mode enabled";
        return ErrorReply::err(text).into();
    };
    match (&tracker.scope, yes) {
        _ if !yes && !args.is(2, "NO") => return ErrorReply::syntax().into(),
        (Scope::OptIn, true) | (Scope::OptOut, false) => tracker.caching = Some(yes),
        (_, true) => {
            let text = "CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
            return ErrorReply::err(text).into();
        }
        (_, false) => {
            let text = "CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
            return ErrorReply::err(text).into();
        }
    }
    Reply::Ok
}

/// The client that is told in place of this one, 0 for none; `None` without tracking.
pub(in crate::gateway) fn redirection(session: &Session) -> Option<u64> {
    session.about.tracker.as_ref().map(|tracker| tracker.redirect.unwrap_or(0))
}

/// Reply of `CLIENT GETREDIR`.
pub(in crate::gateway) fn told_redirection(session: &Session) -> Reply {
    Reply::Int(redirection(session).map_or(-1, |client| client as i64))
}

/// `CLIENT TRACKINGINFO`.
pub(in crate::gateway) fn told(session: &Session) -> Reply {
    let tracker = session.about.tracker.as_deref();
    let (mut flags, mut prefixes) = (vec!["off"], Vec::new());
    if let Some(tracker) = tracker {
        flags = vec!["on"];
        match &tracker.scope {
            Scope::Reads => {}
            Scope::OptIn => flags.push("optin"),
            Scope::OptOut => flags.push("optout"),
            Scope::Prefixes(all) => {
                flags.push("bcast");
                prefixes = all.iter().map(|prefix| Reply::Bulk(prefix.clone())).collect();
            }
        }
        flags.extend(tracker.caching.map(|yes| if yes { "caching-yes" } else { "caching-no" }));
        flags.extend(tracker.no_loop.then_some("noloop"));
        flags.extend(tracker.broken.then_some("broken_redirect"));
    }
    let named = |name: &str, value| (Reply::bulk(name), value);
    Reply::Map(vec![
        named("flags", Reply::Set(flags.into_iter().map(Reply::bulk).collect())),
        named("redirect", told_redirection(session)),
        named("prefixes", Reply::Array(prefixes)),
    ])
}
