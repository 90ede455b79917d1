//! Commands on keys of any type and on several keys.

use super::{Done, Held, Model, Reply, count, wrong_arity};
use crate::history::Word;

pub(super) fn apply(model: &mut Model, name: &str, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("del" | "unlink" | "exists" | "mget" | "mset" | "type", []) => Err(wrong_arity(name)),
        ("del" | "unlink", keys) => {
            let removed = keys.iter().filter(|key| model.keys.remove(*key).is_some());
            Ok(count(removed.count()))
        }
        ("exists", keys) => {
            Ok(count(keys.iter().filter(|key| model.keys.contains_key(*key)).count()))
        }
        ("type", [key]) => Ok(Reply::text(type_name(model.keys.get(key)))),
        ("mget", keys) => {
            let get = |key| match model.keys.get(key) {
                Some(Held::Text(text)) => Reply::text(text),
                _ => Reply::Nil,
            };
            Ok(Reply::List(keys.iter().map(get).collect()))
        }
        ("mset", pairs) if pairs.len() % 2 == 0 => {
            for pair in pairs.chunks(2) {
                model.keys.insert(pair[0].clone(), Held::Text(pair[1].clone()));
            }
            Ok(Reply::ok())
        }
        ("mset" | "type", _) => Err(wrong_arity(name)),
        _ => return None,
    })
}

fn type_name(held: Option<&Held>) -> &'static str {
    match held {
        None => "none",
        Some(Held::Text(_)) => "string",
        Some(Held::Hash(_)) => "hash",
        Some(Held::Set(_)) => "set",
        Some(Held::Zset(_)) => "zset",
        Some(Held::List(_)) => "list",
        Some(Held::Counter(_)) => "counter",
        Some(Held::Topk(_)) => "topk",
        Some(Held::Bag(_)) => "bag",
        Some(Held::Log(_)) => "log",
    }
}
