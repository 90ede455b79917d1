//! Replies of the `ACL` command. Verifiers of the configuration file never leave the server: a salted hash
//! can still be guessed at leisure. Digests of users in the store are shown, since tools of Redis compare
//! them.

use super::{User, Users, permissions};
use crate::gateway::clients::session_commands::lookup;
use adt::{Args, ErrorReply, Reply};

/// `ACL CAT [category]`: the categories, or the commands of one.
pub fn cat(category: Option<&[u8]>) -> Reply {
    let permissions = permissions();
    let Some(name) = category else {
        return Reply::Array(permissions.categories.iter().map(Reply::bulk).collect());
    };
    let number = std::str::from_utf8(name).ok().and_then(|name| permissions.category(name));
    let Some(number) = number else {
        return Reply::err(format!("Unknown category '{}'", name.escape_ascii()));
    };
    let members = permissions.all.iter().filter(|permission| permission.is_in(number));
    Reply::Array(members.map(|permission| Reply::bulk(permission.full_name())).collect())
}

/// Reply of `ACL LIST`, `USERS`, `GETUSER` or `DRYRUN`; none for other calls.
pub fn tell(users: &Users, args: &Args<'_>) -> Option<Reply> {
    match args.len() {
        2 if args.is(1, "LIST") => Some(list(users)),
        2 if args.is(1, "USERS") => Some(user_names(users)),
        3 if args.is(1, "GETUSER") => Some(get_user(users, args.get(2).unwrap_or_default())),
        _ if args.is(1, "DRYRUN") => Some(dry_run(users, args).unwrap_or_else(Reply::from)),
        _ => None,
    }
}

/// `ACL WHOAMI`.
pub fn who_am_i(user: &User) -> Reply {
    Reply::bulk(user.name())
}

/// `ACL USERS`.
pub(super) fn user_names(users: &Users) -> Reply {
    Reply::Array(users.users().map(|user| Reply::bulk(user.name())).collect())
}

/// `ACL LIST`: one line of rules per user.
pub(super) fn list(users: &Users) -> Reply {
    Reply::Array(users.users().map(|user| Reply::bulk(line(user))).collect())
}

fn line(user: &User) -> String {
    let mut words = vec!["user".to_owned(), user.name.clone()];
    words.extend(flags(user).into_iter().map(str::to_owned));
    words.extend(user.digests.iter().map(|digest| format!("#{digest}")));
    words.extend([keys(user), channels(user), user.commands.join(" ")]);
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

fn flags(user: &User) -> Vec<&'static str> {
    let mut flags = vec![if user.enabled { "on" } else { "off" }];
    if user.nopass {
        flags.push("nopass");
    }
    flags
}

fn keys(user: &User) -> String {
    if user.all_keys {
        return "~*".to_owned();
    }
    let rule = |rule: &super::KeyRule| {
        let flags = match (rule.read, rule.write) {
            (true, true) => "",
            (true, false) => "%R",
            (false, _) => "%W",
        };
        format!("{flags}~{}", rule.pattern.escape_ascii())
    };
    user.keys.iter().map(rule).collect::<Vec<_>>().join(" ")
}

fn channels(user: &User) -> String {
    if user.all_channels {
        return "&*".to_owned();
    }
    let names: Vec<_> = user.channels.iter().map(|c| format!("&{}", c.escape_ascii())).collect();
    if names.is_empty() { "resetchannels".to_owned() } else { names.join(" ") }
}

/// `ACL GETUSER name`: a map in the shape of Redis 7, or nil. Of the password of a user of the configuration
/// file it says only that there is one.
pub(super) fn get_user(users: &Users, name: &[u8]) -> Reply {
    let Some(user) = users.user(name) else { return Reply::Nil };
    let set = |words: Vec<&'static str>| Reply::Set(words.into_iter().map(Reply::bulk).collect());
    let hidden = user.verifier.is_some().then(|| Reply::bulk("(hidden)"));
    let passwords = user.digests.iter().map(Reply::bulk).chain(hidden).collect();
    let channels =
        if user.channels.is_empty() && !user.all_channels { String::new() } else { channels(user) };
    Reply::Map(vec![
        (Reply::bulk("flags"), set(flags(user))),
        (Reply::bulk("passwords"), Reply::Array(passwords)),
        (Reply::bulk("commands"), Reply::bulk(user.commands.join(" "))),
        (Reply::bulk("keys"), Reply::bulk(keys(user))),
        (Reply::bulk("channels"), Reply::bulk(channels)),
        (Reply::bulk("selectors"), Reply::Array(Vec::new())),
    ])
}

/// `ACL DRYRUN username command [arg ...]`: whether the user might make a call. `args` are all
/// words of the `ACL` command.
pub(super) fn dry_run(users: &Users, args: &Args<'_>) -> Result<Reply, ErrorReply> {
    let wrong = || ErrorReply::err("wrong number of arguments for 'acl|dryrun' command");
    let name = args.get(2).ok_or_else(wrong)?;
    let user = users
        .user(name)
        .ok_or_else(|| ErrorReply::err(format!("User '{}' not found", name.escape_ascii())))?;
    let call = args.tail(3).ok_or_else(wrong)?;
    let command = call.get(0).unwrap_or_default();
    let spec = lookup(command).ok_or_else(|| {
        ErrorReply::err(format!("Command '{}' not found", command.escape_ascii()))
    })?;
    spec.check_arity(call.len())?;
    Ok(match user.check(spec, &call) {
        Ok(()) => Reply::Ok,
        Err(error) if error.code() == "NOPERM" => Reply::bulk(error.text()),
        Err(error) => error.into(),
    })
}
