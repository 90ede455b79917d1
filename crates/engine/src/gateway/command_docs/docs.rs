//! The entries of `COMMAND DOCS`, whose arguments come from the syntax notation.

use super::map;
use adt::command::syntax::{self, Part};
use adt::{CommandSpec, Reply};

/// First version that has the commands.
const SINCE: &str = "0.1.0";

/// Name and documentation of a command.
pub fn docs(spec: &CommandSpec) -> (Reply, Reply) {
    let mut fields = about(spec);
    let subcommands = syntax::subcommands(spec.syntax);
    if subcommands.is_empty() {
        put_arguments(&mut fields, spec.syntax);
    } else {
        let entry = |(name, rest): (String, &str)| {
            let mut fields = about(spec);
            put_arguments(&mut fields, rest);
            (Reply::bulk(format!("{}|{name}", spec.name)), map(fields))
        };
        let entries = subcommands.into_iter().map(entry).collect();
        fields.push(("subcommands", Reply::Map(entries)));
    }
    (Reply::bulk(spec.name), map(fields))
}

fn about(spec: &CommandSpec) -> Vec<(&'static str, Reply)> {
    vec![
        ("summary", Reply::bulk(spec.summary)),
        ("since", Reply::bulk(SINCE)),
        ("group", Reply::bulk(spec.group)),
        ("complexity", Reply::bulk(spec.complexity)),
    ]
}

fn put_arguments(fields: &mut Vec<(&str, Reply)>, syntax: &str) {
    let arguments = arguments(&syntax::parse(syntax).unwrap_or_default());
    if !arguments.is_empty() {
        fields.push(("arguments", Reply::Array(arguments)));
    }
}

/// One argument as it is told.
#[derive(Default)]
struct Argument {
    name: String,
    kind: &'static str,
    token: Option<String>,
    flags: Vec<&'static str>,
    inner: Vec<Reply>,
}

impl Argument {
    fn reply(self) -> Reply {
        let mut fields = vec![("name", Reply::bulk(&self.name)), ("type", Reply::bulk(self.kind))];
        if self.inner.is_empty() && self.kind != "pure-token" {
            fields.push(("display_text", Reply::bulk(&self.name)));
        }
        if let Some(token) = self.token {
            fields.push(("token", Reply::bulk(token)));
        }
        if !self.flags.is_empty() {
            fields.push(("flags", Reply::Set(self.flags.into_iter().map(Reply::status).collect())));
        }
        if !self.inner.is_empty() {
            fields.push(("arguments", Reply::Array(self.inner)));
        }
        map(fields)
    }
}

fn arguments(parts: &[Part]) -> Vec<Reply> {
    gather(parts).into_iter().map(Argument::reply).collect()
}

/// The arguments of a sequence; a word before an argument is that argument's token.
fn gather(parts: &[Part]) -> Vec<Argument> {
    let mut found = Vec::new();
    let mut i = 0;
    while i < parts.len() {
        let word = match (&parts[i], parts.get(i + 1)) {
            (Part::Word(word), Some(Part::Name(_) | Part::Many(_))) => Some(word),
            _ => None,
        };
        if let Some(word) = word {
            found.push(Argument { token: Some(word.clone()), ..argument(&parts[i + 1]) });
            i += 2;
        } else {
            found.push(argument(&parts[i]));
            i += 1;
        }
    }
    found
}

fn argument(part: &Part) -> Argument {
    match part {
        Part::Word(word) => Argument {
            name: word.to_ascii_lowercase(),
            kind: "pure-token",
            token: Some(word.clone()),
            ..Argument::default()
        },
        Part::Name(name) => {
            Argument { name: name.clone(), kind: kind(name), ..Argument::default() }
        }
        Part::Optional(inner) => with_flag(block(inner), "optional"),
        Part::Many(inner) => with_flag(block(inner), "multiple"),
        Part::Choice(forms) => {
            let forms: Vec<Argument> = forms.iter().map(|form| block(form)).collect();
            let name = forms.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join("-or-");
            let inner = forms.into_iter().map(Argument::reply).collect();
            Argument { name, kind: "oneof", inner, ..Argument::default() }
        }
    }
}

fn with_flag(mut argument: Argument, flag: &'static str) -> Argument {
    argument.flags.push(flag);
    argument
}

/// A sequence as one argument.
fn block(parts: &[Part]) -> Argument {
    let mut inner = gather(parts);
    if inner.len() == 1 {
        return inner.remove(0);
    }
    let name = inner.iter().map(|a| a.name.as_str()).collect::<Vec<_>>().join("-");
    let inner = inner.into_iter().map(Argument::reply).collect();
    Argument { name, kind: "block", inner, ..Argument::default() }
}

/// The type of an argument, by its name.
fn kind(name: &str) -> &'static str {
    match name {
        _ if ["key", "source", "destination"].iter().any(|k| name.contains(k)) => "key",
        "pattern" => "pattern",
        "count" | "cursor" | "index" | "start" | "stop" | "offset" | "seconds" | "milliseconds"
        | "limit" | "slot" | "id" => "integer",
        _ if name.starts_with("num") => "integer",
        "score" => "double",
        _ => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::clients::session_commands::{all, lookup};

    fn get<'a>(map: &'a Reply, name: &str) -> Option<&'a Reply> {
        let Reply::Map(fields) = map else { panic!("a map: {map:?}") };
        fields.iter().find(|f| f.0 == Reply::bulk(name)).map(|f| &f.1)
    }

    fn check(arguments: &Reply) {
        let Reply::Array(arguments) = arguments else { panic!("an array") };
        assert!(!arguments.is_empty());
        for argument in arguments {
            assert!(matches!(get(argument, "name"), Some(Reply::Bulk(name)) if !name.is_empty()));
            let Some(Reply::Bulk(kind)) = get(argument, "type") else { panic!("a type") };
            let nested = get(argument, "arguments");
            assert_eq!(nested.is_some(), [&b"oneof"[..], b"block"].contains(&kind.as_slice()));
            nested.iter().for_each(|inner| check(inner));
        }
    }

    #[test]
    fn every_command_is_documented() {
        for spec in all() {
            let (name, about) = docs(spec);
            assert_eq!(name, Reply::bulk(spec.name));
            for field in ["summary", "since", "group", "complexity"] {
                assert!(matches!(get(&about, field), Some(Reply::Bulk(_))), "{}", spec.name);
            }
            get(&about, "arguments").iter().for_each(|a| check(a));
            assert!(
                spec.syntax.is_empty()
                    || get(&about, "arguments").is_some() != get(&about, "subcommands").is_some()
            );
        }
    }

    #[test]
    fn arguments_have_tokens_and_flags() {
        let (_, about) = docs(lookup(b"sscan").unwrap());
        let Some(Reply::Array(arguments)) = get(&about, "arguments") else { panic!("arguments") };
        assert_eq!(get(&arguments[0], "type"), Some(&Reply::bulk("key")));
        assert_eq!(get(&arguments[2], "token"), Some(&Reply::bulk("MATCH")));
        assert_eq!(get(&arguments[2], "flags"), Some(&Reply::Set(vec![Reply::status("optional")])));
        let (_, about) = docs(lookup(b"sadd").unwrap());
        let Some(Reply::Array(arguments)) = get(&about, "arguments") else { panic!("arguments") };
        assert_eq!(get(&arguments[1], "flags"), Some(&Reply::Set(vec![Reply::status("multiple")])));
    }
}
