//! Documentation of commands: the replies of `COMMAND`, and the reference page.
//!
//! All of it comes from the command table. Forms are those of Redis 7, which clients parse to find keys
//! and to print help.

mod commuting;
mod differences;
mod docs;
pub(in crate::gateway) mod find;
mod key_flags;
mod markdown;
mod samples;

pub use differences::differences;
pub use docs::docs;
use key_flags::{KeyFlags, key_flags};
pub use markdown::markdown;

use super::acl::permissions;
use crate::gateway::clients::session_commands::{all, lookup};
use adt::command::glob;
use adt::command::syntax::{self, Part};
use adt::{Args, CommandSpec, ErrorReply, Flags, Keys, Reply};

/// Commands of Redis that have others in them, known by their second word, and tell which.
pub(super) const CONTAINERS: [&str; 14] = [
    "acl", "client", "cluster", "command", "config", "function", "latency", "memory", "object",
    "pubsub", "script", "slowlog", "xgroup", "xinfo",
];

/// The error for a subcommand that does not exist.
pub(in crate::gateway) fn unknown_subcommand(args: &Args<'_>) -> ErrorReply {
    let name = String::from_utf8_lossy(args.get(0).unwrap_or_default()).to_ascii_uppercase();
    ErrorReply::unknown_subcommand(&name, args)
}

/// The error for a subcommand that takes words, but not these.
pub(in crate::gateway) fn subcommand_syntax(args: &Args<'_>) -> ErrorReply {
    let shown = |at| String::from_utf8_lossy(args.get(at).unwrap_or_default()).into_owned();
    ErrorReply::err(format!(
        "unknown subcommand or wrong number of arguments for '{}'. Try {} HELP.",
        shown(1),
        shown(0).to_ascii_uppercase()
    ))
}

/// The error for a subcommand with too few or too many words.
pub(in crate::gateway) fn wrong_words(container: &str, subcommand: &str) -> ErrorReply {
    ErrorReply::arity(&format!("{container}|{subcommand}"))
}

/// The reply of `COMMAND` and of its subcommands.
pub fn reply(args: &Args<'_>) -> Result<Reply, ErrorReply> {
    let sub = args.get(1).unwrap_or_default();
    let names = || args.iter_from(2);
    match sub.to_ascii_lowercase().as_slice() {
        b"" if args.len() == 1 => Ok(Reply::Array(all().iter().map(|s| info(s)).collect())),
        b"count" if args.len() == 2 => Ok(Reply::Int(all().len() as i64)),
        b"info" if args.len() == 2 => Ok(Reply::Array(all().iter().map(|s| info(s)).collect())),
        b"info" => {
            Ok(Reply::Array(names().map(|name| lookup(name).map_or(Reply::Nil, info)).collect()))
        }
        b"docs" if args.len() == 2 => Ok(Reply::Map(all().iter().map(|s| docs(s)).collect())),
        b"docs" => Ok(Reply::Map(names().filter_map(lookup).map(docs).collect())),
        b"list" => list(args),
        b"getkeys" => get_keys(args),
        b"count" => Err(wrong_words("command", "count")),
        _ => Err(unknown_subcommand(args)),
    }
}

/// Checks the subcommand of a command that is a container of subcommands. Returns the help that the
/// client asks for, or nothing if the subcommand is to be carried out.
pub fn check_subcommand(spec: &CommandSpec, args: &Args<'_>) -> Result<Option<Reply>, ErrorReply> {
    let Some(word) = args.get(1) else { return Ok(None) };
    let known = syntax::subcommands(spec.syntax);
    if known.is_empty() {
        return Ok(None);
    }
    if args.len() == 2 && args.is(1, "HELP") {
        return Ok(Some(syntax::help(spec.name, spec.syntax)));
    }
    let word = word.to_ascii_lowercase();
    let mut forms = known.iter().filter(|(name, _)| name.as_bytes() == word).peekable();
    let Some((name, _)) = forms.peek().copied() else { return Ok(None) };
    let fits = |(_, rest): &(String, &str)| match 2 + words(rest) {
        exact @ 0.. => args.len() as i64 == exact,
        least => args.len() as i64 >= -least,
    };
    if forms.any(fits) { Ok(None) } else { Err(wrong_words(spec.name, name)) }
}

/// `COMMAND LIST [FILTERBY <MODULE name | ACLCAT category | PATTERN pattern>]`.
fn list(args: &Args<'_>) -> Result<Reply, ErrorReply> {
    let names = |keep: &dyn Fn(&CommandSpec) -> bool| {
        let names = all().iter().filter(|spec| keep(spec)).map(|spec| Reply::bulk(spec.name));
        Reply::Array(names.collect())
    };
    if args.len() == 2 {
        return Ok(names(&|_| true));
    }
    if args.len() != 5 || !args.is(2, "FILTERBY") {
        return Err(ErrorReply::syntax());
    }
    let value = args.get(4).unwrap_or_default();
    match () {
        () if args.is(3, "MODULE") => Ok(names(&|_| false)),
        () if args.is(3, "PATTERN") => {
            let pattern = value.to_ascii_lowercase();
            Ok(names(&|spec| glob::matches(&pattern, spec.name.as_bytes())))
        }
        () if args.is(3, "ACLCAT") => Ok(names(&|spec| {
            permissions().categories_of(spec).any(|c| c.as_bytes().eq_ignore_ascii_case(value))
        })),
        () => Err(ErrorReply::syntax()),
    }
}

/// `COMMAND GETKEYS command [arg ...]`.
fn get_keys(args: &Args<'_>) -> Result<Reply, ErrorReply> {
    let call = args.tail(2).ok_or_else(|| {
        ErrorReply::err("wrong number of arguments for 'command|getkeys' command")
    })?;
    let spec = lookup(call.get(0).unwrap_or_default())
        .ok_or_else(|| ErrorReply::err("Invalid command specified"))?;
    spec.check_arity(call.len())
        .map_err(|_| ErrorReply::err("Invalid number of arguments specified for command"))?;
    if spec.keys == Keys::None {
        return Err(ErrorReply::err("The command has no key arguments"));
    }
    let positions = spec
        .keys
        .positions(&call)
        .map_err(|_| ErrorReply::err("Invalid arguments specified for command"))?;
    if positions.is_empty() && spec.keys == Keys::Conditions {
        return Err(ErrorReply::err("The command has no key arguments"));
    }
    Ok(Reply::Array(positions.into_iter().filter_map(|i| call.get(i)).map(Reply::bulk).collect()))
}

/// The entry of a command in `COMMAND INFO`: name, arity, flags, first key, last key, step,
/// categories, tips, key specifications, subcommands.
pub fn info(spec: &CommandSpec) -> Reply {
    let subcommands = syntax::subcommands(spec.syntax).into_iter().map(|(name, rest)| {
        let arity = 2 + words(rest);
        entry(spec, &format!("{}|{name}", spec.name), arity, Vec::new())
    });
    let mut subcommands: Vec<Reply> = subcommands.collect();
    if CONTAINERS.contains(&spec.name) {
        subcommands.push(entry(spec, &format!("{}|help", spec.name), 2, Vec::new()));
    }
    entry(spec, spec.name, i64::from(spec.arity), subcommands)
}

fn entry(spec: &CommandSpec, name: &str, arity: i64, subcommands: Vec<Reply>) -> Reply {
    let (first, last, step) = key_range(told_keys(spec));
    let categories: Vec<String> =
        permissions().categories_of(spec).map(|category| format!("@{category}")).collect();
    Reply::Array(vec![
        Reply::bulk(name),
        Reply::Int(arity),
        Reply::Set(flag_names(spec).into_iter().map(Reply::status).collect()),
        Reply::Int(first),
        Reply::Int(last),
        Reply::Int(step),
        Reply::Set(categories.into_iter().map(Reply::bulk).collect()),
        Reply::Array(Vec::new()),
        Reply::Array(key_specifications(spec)),
        Reply::Array(subcommands),
    ])
}

/// Number of words of a subcommand's syntax in the convention of [`CommandSpec::arity`], without
/// the two words before it: the least number, and -2 more than that if there may be others.
fn words(syntax: &str) -> i64 {
    let parts = syntax::parse(syntax).unwrap_or_default();
    let (least, fixed) = count(&parts);
    if fixed { least } else { -least - 4 }
}

fn count(parts: &[Part]) -> (i64, bool) {
    parts.iter().fold((0, true), |(sum, fixed), part| {
        let (least, same) = match part {
            Part::Word(_) | Part::Name(_) => (1, true),
            Part::Optional(_) => (0, false),
            Part::Many(inner) => (count(inner).0, false),
            Part::Choice(forms) => {
                let counts: Vec<_> = forms.iter().map(|form| count(form)).collect();
                let least = counts.iter().map(|c| c.0).min().unwrap_or(0);
                (least, counts.iter().all(|c| *c == (least, true)))
            }
        };
        (sum + least, fixed && same)
    })
}

/// Redis' names of a command's flags.
fn flag_names(spec: &CommandSpec) -> Vec<&'static str> {
    let names = [
        ("write", Flags::WRITE),
        ("readonly", Flags::READ),
        ("denyoom", Flags::GROWS),
        ("admin", Flags::ADMIN),
        ("pubsub", Flags::PUBSUB),
        ("blocking", Flags::BLOCKING),
        ("fast", Flags::FAST),
        ("no_auth", Flags::NO_AUTH),
        ("no_multi", Flags::NO_MULTI),
    ];
    let mut set: Vec<_> =
        names.iter().filter(|(_, flag)| spec.flags.has(*flag)).map(|(name, _)| *name).collect();
    if !matches!(told_keys(spec), Keys::None | Keys::Range { .. }) {
        set.push("movablekeys");
    }
    set
}

/// Keys that clients are told of: clients of a cluster find a machine by a sharded channel as by a key.
fn told_keys(spec: &CommandSpec) -> Keys {
    match spec.name {
        "spublish" => Keys::ONE,
        // Clients of Redis know of none.
        "exec" => Keys::None,
        "ssubscribe" | "sunsubscribe" => Keys::Range { first: 1, last: -1, step: 1 },
        _ => spec.keys,
    }
}

/// First key, last key and step as clients know them; zeros where counting is needed.
fn key_range(keys: Keys) -> (i64, i64, i64) {
    match keys {
        Keys::Range { first, last, step } => (first.into(), last.into(), step.into()),
        Keys::Counted { also, .. } if also > 0 => (also.into(), also.into(), 1),
        Keys::Sort => (1, 1, 1),
        Keys::None
        | Keys::Counted { .. }
        | Keys::Declared { .. }
        | Keys::Pairs { .. }
        | Keys::Behind { .. }
        | Keys::Conditions => (0, 0, 0),
    }
}

fn map(pairs: Vec<(&str, Reply)>) -> Reply {
    Reply::Map(pairs.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}

fn key_specifications(spec: &CommandSpec) -> Vec<Reply> {
    let (flags, others) = key_flags(spec);
    let search =
        |flags: KeyFlags, (kind, begin): (&str, Reply), find: &str, how: Vec<(&str, i16)>| {
            let how = how.into_iter().map(|(name, n)| (name, Reply::Int(n.into()))).collect();
            map(vec![
                ("flags", Reply::Set(flags.iter().map(|flag| Reply::status(*flag)).collect())),
                ("begin_search", map(vec![("type", Reply::bulk(kind)), ("spec", begin)])),
                ("find_keys", map(vec![("type", Reply::bulk(find)), ("spec", map(how))])),
            ])
        };
    let specification = |flags: KeyFlags, begin: i16, find: &str, how: Vec<(&str, i16)>| {
        search(flags, ("index", map(vec![("index", Reply::Int(begin.into()))])), find, how)
    };
    let range = |flags: KeyFlags, first: i16, last: i16, step: i16| {
        let last = if last < 0 { last } else { last - first };
        let how = vec![("lastkey", last), ("keystep", step), ("limit", 0)];
        specification(flags, first, "range", how)
    };
    match told_keys(spec) {
        Keys::None | Keys::Conditions => Vec::new(),
        Keys::Range { first, last, step } => match others {
            None => vec![range(flags, first, last, step)],
            Some(others) => {
                vec![range(flags, first, first, 1), range(others, first + step, last, step)]
            }
        },
        Keys::Behind { word, from } => {
            let from = Reply::Int(from.into());
            let begin = map(vec![("keyword", Reply::bulk(word)), ("startfrom", from)]);
            let how = vec![("lastkey", -1), ("keystep", 1), ("limit", 2)];
            vec![search(flags, ("keyword", begin), "range", how)]
        }
        Keys::Declared { at } => {
            let how = vec![("keynumidx", 0), ("firstkey", 1), ("keystep", 1)];
            vec![specification(flags, at, "keynum", how)]
        }
        Keys::Pairs { at } => {
            let how = vec![("keynumidx", 0), ("firstkey", 1), ("keystep", 2)];
            vec![specification(flags, at, "keynum", how)]
        }
        // The destination may be anywhere.
        Keys::Sort => {
            let begin = ("unknown", map(Vec::new()));
            let target = search(others.unwrap_or(flags), begin, "unknown", Vec::new());
            vec![range(flags, 1, 1, 1), target]
        }
        Keys::Counted { at, also } => {
            let how = vec![("keynumidx", 0), ("firstkey", 1), ("keystep", 1)];
            let counted = specification(others.unwrap_or(flags), at, "keynum", how);
            let target = (also > 0).then(|| range(flags, also, also, 1));
            target.into_iter().chain([counted]).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::ArgBuf;

    fn ask(line: &str) -> Result<Reply, String> {
        reply(&ArgBuf::of(line.split(' ')).args()).map_err(|e| e.to_string())
    }

    fn array(line: &str) -> Vec<Reply> {
        match ask(line) {
            Ok(Reply::Array(items)) => items,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn entries_have_the_ten_parts_that_clients_read() {
        let entries = array("command");
        assert_eq!(entries.len(), all().len());
        assert_eq!(ask("command count"), Ok(Reply::Int(all().len() as i64)));
        for entry in entries {
            let Reply::Array(parts) = entry else { panic!("an array") };
            let shape = [
                matches!(parts[0], Reply::Bulk(_)),
                matches!(parts[1], Reply::Int(_)),
                matches!(&parts[2], Reply::Set(f) if f.iter().all(|f| matches!(f, Reply::Status(_)))),
                parts[3..6].iter().all(|n| matches!(n, Reply::Int(_))),
                matches!(parts[6], Reply::Set(_)),
                parts[7..].iter().all(|p| matches!(p, Reply::Array(_))),
                parts.len() == 10,
            ];
            assert_eq!(shape, [true; 7], "{parts:?}");
        }
    }

    #[test]
    fn unknown_names_have_no_entry() {
        let entries = array("command info sadd nosuch");
        assert_eq!(entries[1], Reply::Nil);
        let Reply::Array(parts) = &entries[0] else { panic!("an array") };
        assert_eq!(parts[0], Reply::bulk("sadd"));
        assert_eq!(parts[1], Reply::Int(-3));
        assert_eq!(parts[3..6], [Reply::Int(1), Reply::Int(1), Reply::Int(1)]);
        assert_eq!(ask("command docs nosuch"), Ok(Reply::Map(Vec::new())));
    }

    #[test]
    fn subcommands_have_entries_with_their_own_arity() {
        let entry = info(lookup(b"config").unwrap());
        let Reply::Array(parts) = entry else { panic!("an array") };
        let Reply::Array(subcommands) = &parts[9] else { panic!("an array") };
        let arity = |name: &str| {
            subcommands.iter().find_map(|s| match s {
                Reply::Array(parts) if parts[0] == Reply::bulk(name) => Some(parts[1].clone()),
                _ => None,
            })
        };
        assert_eq!(arity("config|get"), Some(Reply::Int(-3)));
        assert_eq!(arity("config|set"), Some(Reply::Int(-4)));
        assert_eq!(arity("config|resetstat"), Some(Reply::Int(2)));
    }

    #[test]
    fn keys_are_found() {
        let keys = |names: &[&str]| names.iter().map(Reply::bulk).collect::<Vec<_>>();
        assert_eq!(array("command getkeys sadd a m"), keys(&["a"]));
        assert_eq!(array("command getkeys del a b"), keys(&["a", "b"]));
        assert_eq!(array("command getkeys sintercard 2 a b LIMIT 1"), keys(&["a", "b"]));
        for (line, error) in [
            ("command getkeys", "wrong number of arguments"),
            ("command getkeys nosuch", "Invalid command specified"),
            ("command getkeys sadd a", "Invalid number of arguments"),
            ("command getkeys ping", "The command has no key arguments"),
            ("command getkeys sintercard 9 a b", "Invalid arguments"),
            ("command nonsense", "unknown subcommand 'nonsense'. Try COMMAND HELP."),
            ("command getkeysandflags get a", "COMMAND GETKEYSANDFLAGS is not built in Claret"),
            ("command list filterby", "syntax error"),
        ] {
            assert!(ask(line).unwrap_err().contains(error), "{line}");
        }
    }

    #[test]
    fn lists_are_filtered() {
        assert_eq!(array("command list").len(), all().len());
        assert_eq!(array("command list FILTERBY PATTERN Xno*"), []);
        assert!(array("command list FILTERBY PATTERN sad*").contains(&Reply::bulk("sadd")));
        assert!(array("command list FILTERBY ACLCAT set").contains(&Reply::bulk("sadd")));
        assert!(!array("command list FILTERBY ACLCAT set").contains(&Reply::bulk("ping")));
        assert_eq!(array("command list FILTERBY MODULE json"), []);
    }
}
