//! Users in the store: changes of them, and what gateways read of them.
//!
//! All users that are not in the configuration file are one record of the store's own: a hash with the rules
//! of each user by its name, and with a version that grows with every change. So a change is replicated and
//! backed up, and all gateways see changes in one order. No gateway keeps a copy of all: a login reads the
//! rules of its user, and gateways are told which users have changed (`follow`).

use super::change::UserChange;
use super::{KeyRule, USERS_MAX, User, Users, shown};
use crate::gateway::txn::work::ProgramStep;
use crate::ids::KeyedOp;
use crate::limits::STORED_USERS_BYTES_MAX;
use crate::script::keys::{field, on_own, users_key};
use adt::{Blob, Compound, ErrorReply, Plan, Reply};
use std::sync::Arc;

/// First byte of the fields with rules.
const USER: u8 = b'u';
/// Field with the number of changes so far.
const VERSION: &[u8] = b"version";
/// Field with the bytes of all names and rules.
const BYTES: &[u8] = b"bytes";
/// Separator of the rules of a user.
const SEPARATOR: char = '\0';

/// Operation on the record of all users in the store.
fn on_users(words: &[&[u8]]) -> KeyedOp {
    on_own(users_key(), words)
}

fn number(reply: Option<&Reply>) -> u64 {
    let Some(Reply::Bulk(digits)) = reply else { return 0 };
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Reads the users with these names.
pub(super) fn read(names: &[Blob]) -> KeyedOp {
    let fields: Vec<Vec<u8>> = names.iter().map(|name| field(USER, name)).collect();
    let mut words: Vec<&[u8]> = vec![b"hmget", VERSION, BYTES];
    words.extend(fields.iter().map(Vec::as_slice));
    on_users(&words)
}

/// Reads all users in the store.
pub(super) fn read_all() -> KeyedOp {
    on_users(&[b"hgetall"])
}

/// The users, from the reply of [`read_all`].
pub(super) fn all(reply: Option<&Reply>) -> UserChange {
    let mut change = UserChange { version: 0, lines: Vec::new() };
    let Some(Reply::Map(pairs)) = reply else { return change };
    for (field, value) in pairs {
        let (Reply::Bulk(field), Reply::Bulk(line)) = (field, value) else { continue };
        match field.split_first() {
            _ if field.as_slice() == VERSION => change.version = number(Some(value)),
            Some((&USER, name)) => change.lines.push((Blob::new(name), Some(line.clone()))),
            _ => {}
        }
    }
    change
}

/// The part of the record that a change is about.
struct Looked {
    bytes: usize,
    users: UserChange,
}

/// The users, from the reply of [`read`].
pub(super) fn users_of(names: &[Blob], reply: &Reply) -> Result<UserChange, ErrorReply> {
    looked(names, reply).map(|looked| looked.users)
}

fn looked(names: &[Blob], reply: &Reply) -> Result<Looked, ErrorReply> {
    let values = match reply {
        Reply::Array(values) => values,
        Reply::Error(error) => return Err(error.clone()),
        _ => return Err(ErrorReply::err("the users in the store cannot be read")),
    };
    let line =
        |value: &Reply| if let Reply::Bulk(line) = value { Some(line.clone()) } else { None };
    let lines = names.iter().cloned().zip(values.iter().skip(2).map(line)).collect();
    let version = number(values.first());
    Ok(Looked { bytes: number(values.get(1)) as usize, users: UserChange { version, lines } })
}

/// Bytes that a user counts for.
fn bytes_of(name: &Blob, line: Option<&Blob>) -> usize {
    line.map_or(0, |line| name.len() + line.len())
}

impl Looked {
    /// Gives users these rules, or removes them. The reply names them, with `reply` for the client.
    fn change(self, lines: Vec<(Blob, Option<Blob>)>, reply: Reply) -> Result<Plan, ErrorReply> {
        let before = self.users.lines.iter().map(|(name, line)| bytes_of(name, line.as_ref()));
        let after: usize = lines.iter().map(|(name, line)| bytes_of(name, line.as_ref())).sum();
        let bytes = (self.bytes + after).saturating_sub(before.sum());
        if after > 0 && bytes > STORED_USERS_BYTES_MAX {
            let text =
                format!("all users together have at most {STORED_USERS_BYTES_MAX} bytes of rules");
            return Err(ErrorReply::err(text));
        }
        let change = UserChange { version: self.users.version + 1, lines };
        let (version, bytes) = (change.version.to_string(), bytes.to_string());
        let fields: Vec<Vec<u8>> = change.lines.iter().map(|(name, _)| field(USER, name)).collect();
        let mut set: Vec<&[u8]> =
            vec![b"hset", VERSION, version.as_bytes(), BYTES, bytes.as_bytes()];
        let mut removed: Vec<&[u8]> = vec![b"hdel"];
        for (field, (_, line)) in fields.iter().zip(&change.lines) {
            match line {
                Some(line) => set.extend([field.as_slice(), line]),
                None => removed.push(field),
            }
        }
        let mut writes = vec![on_users(&set)];
        writes.extend((removed.len() > 1).then(|| on_users(&removed)));
        Ok(Plan { writes, reply: change.into_reply(reply) })
    }

    /// Tells of the users as they are, with `reply` for the client.
    fn unchanged(self, reply: Reply) -> Result<Plan, ErrorReply> {
        Ok(Plan { writes: Vec::new(), reply: self.users.into_reply(reply) })
    }
}

/// Step that reads users, and more of the record, and goes on with what was found. The reply is that of
/// [`UserChange::into_reply`].
fn behind(
    names: Vec<Blob>,
    more: Option<KeyedOp>,
    next: impl Fn(Looked, Option<&Reply>) -> Result<Plan, ErrorReply> + Send + Sync + 'static,
) -> ProgramStep {
    let reads = [Some(read(&names)), more].into_iter().flatten().collect();
    let plan = move |replies: &[Reply]| {
        let looked = looked(&names, replies.first().unwrap_or(&Reply::Nil));
        let plan = looked.and_then(|looked| next(looked, replies.get(1)));
        plan.unwrap_or_else(|error| Plan { writes: Vec::new(), reply: error.into() })
    };
    ProgramStep::Compound(Compound::new(reads, plan))
}

/// Step that applies rules to a user, whom it makes if there is none: all of them, or none.
pub(super) fn setting(name: &str, rules: Vec<String>) -> ProgramStep {
    let name = name.to_owned();
    let names = vec![Blob::from(name.as_str())];
    behind(names, Some(on_users(&[b"hlen"])), move |looked, fields| {
        // Version and bytes are fields, too.
        let is_full = matches!(fields, Some(Reply::Int(n)) if *n > USERS_MAX as i64 + 1);
        let Some((key, line)) = looked.users.lines.first().cloned() else {
            return looked.unchanged(Reply::Ok);
        };
        if line.is_none() && is_full {
            return Err(ErrorReply::err(format!("there can be at most {USERS_MAX} users")));
        }
        let user = User::stored(&name, looked.users.version, line.as_deref().unwrap_or_default());
        let mut user = user.map_err(ErrorReply::err)?;
        for rule in &rules {
            let told = |why| format!("Error in ACL SETUSER modifier '{}': {why}", shown(rule));
            user.change(rule).map_err(|why| ErrorReply::err(told(why)))?;
        }
        looked.change(vec![(key, Some(user.line()))], Reply::Ok)
    })
}

/// Step that removes users; the client's reply is their number.
pub(super) fn removing(names: Vec<Blob>) -> ProgramStep {
    behind(names, None, |looked, _| {
        let there = looked.users.lines.iter().filter(|(_, line)| line.is_some());
        let lines: Vec<_> = there.map(|(name, _)| (name.clone(), None)).collect();
        let count = Reply::Int(lines.len() as i64);
        if lines.is_empty() { looked.unchanged(count) } else { looked.change(lines, count) }
    })
}

/// Step that looks at users.
pub(super) fn looking(names: Vec<Blob>) -> ProgramStep {
    behind(names, None, |looked, _| looked.unchanged(Reply::Ok))
}

impl UserChange {
    /// The first user, if there is one.
    pub(super) fn first(&self) -> Option<User> {
        let (name, line) = self.lines.first()?;
        User::stored(std::str::from_utf8(name).ok()?, self.version, line.as_ref()?).ok()
    }
}

impl User {
    /// User in the store with these rules.
    pub(super) fn stored(name: &str, version: u64, line: &[u8]) -> Result<Self, String> {
        let mut user = Self { version: Some(version), ..Self::new(name) };
        let line = std::str::from_utf8(line).map_err(|error| error.to_string())?;
        for rule in line.split(SEPARATOR).filter(|rule| !rule.is_empty()) {
            user.change(rule)
                .map_err(|why| format!("the rule '{}' in the store: {why}", shown(rule)))?;
        }
        Ok(user)
    }

    /// Rules of the user as the store has them.
    fn line(&self) -> Blob {
        let switch = if self.enabled { "on" } else { "off" };
        let text = |pattern: &Blob| String::from_utf8_lossy(pattern).into_owned();
        let key = |rule: &KeyRule| match (rule.read, rule.write) {
            (true, true) => format!("~{}", text(&rule.pattern)),
            (true, false) => format!("%R~{}", text(&rule.pattern)),
            (false, _) => format!("%W~{}", text(&rule.pattern)),
        };
        let mut rules = vec![switch.to_owned()];
        rules.extend(self.nopass.then(|| "nopass".to_owned()));
        rules.extend(self.digests.iter().map(|digest| format!("#{digest}")));
        rules.extend(self.all_keys.then(|| "~*".to_owned()));
        rules.extend(self.keys.iter().map(key));
        rules.extend(self.all_channels.then(|| "&*".to_owned()));
        rules.extend(self.channels.iter().map(|channel| format!("&{}", text(channel))));
        rules.extend(self.commands.iter().cloned());
        Blob::from(rules.join(&SEPARATOR.to_string()).as_str())
    }
}

impl Users {
    /// All users: these, and those in the store.
    pub(super) fn with(&self, stored: &UserChange) -> Self {
        let mut users = (*self.users).clone();
        for (name, line) in &stored.lines {
            let (Ok(name), Some(line)) = (std::str::from_utf8(name), line) else { continue };
            if let Ok(user) = User::stored(name, stored.version, line) {
                users.entry(name.to_owned()).or_insert_with(|| Arc::new(user));
            }
        }
        Self { users: Arc::new(users), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plan of a step whose reads have these replies.
    fn plan(step: ProgramStep, line: Option<&str>, replies: [&str; 2], fields: i64) -> Plan {
        let ProgramStep::Compound(compound) = step else { panic!("a compound") };
        let line = line.map_or(Reply::Nil, Reply::bulk);
        let [version, bytes] = replies.map(Reply::bulk);
        compound.plan(&[Reply::Array(vec![version, bytes, line]), Reply::Int(fields)]).unwrap()
    }

    #[test]
    fn the_store_has_room_for_so_many_users_and_changes_of_them() {
        let set = || setting("ann", vec!["on".to_owned()]);
        let all = USERS_MAX as i64 + 2;
        assert!(!plan(set(), None, ["7", "9"], all - 1).reply.is_error());
        let full = plan(set(), None, ["7", "9"], all);
        assert_eq!(full.reply, Reply::err("there can be at most 10000 users"));
        assert!(full.writes.is_empty());
        assert!(!plan(set(), Some("off\0-@all"), ["7", "9"], all).reply.is_error());
        let bytes = STORED_USERS_BYTES_MAX.to_string();
        assert!(plan(set(), None, ["7", &bytes], 5).reply.is_error());
        assert!(!plan(set(), Some("off\0-@all"), ["7", &bytes], 5).reply.is_error());
    }

    #[test]
    fn a_change_has_the_next_version_and_what_changes_nothing_has_none() {
        let change = |step, line| {
            let plan = plan(step, line, ["7", "9"], 3);
            let (change, reply) = UserChange::of_reply(plan.reply).unwrap();
            (change.version, change.lines, reply, plan.writes.len())
        };
        let ann = || Blob::from("ann");
        let line = || Some(Blob::from("on\0-@all"));
        assert_eq!(
            change(setting("ann", vec!["on".to_owned()]), None),
            (8, vec![(ann(), line())], Reply::Ok, 1)
        );
        let removal = || removing(vec![ann()]);
        assert_eq!(change(removal(), Some("on")), (8, vec![(ann(), None)], Reply::Int(1), 2));
        assert_eq!(change(removal(), None), (7, vec![(ann(), None)], Reply::Int(0), 0));
        let seen = (7, vec![(ann(), line())], Reply::Ok, 0);
        assert_eq!(change(looking(vec![ann()]), Some("on\0-@all")), seen);
    }
}
