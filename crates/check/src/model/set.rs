//! Sets: a list of distinct members.
//!
//! `SPOP` takes any member. Only the reply reveals which one: the model follows it if the member
//! was in the set, and otherwise answers a possible one.

use super::{Done, Held, Model, Reply, count, texts, truth, wrong_arity};
use crate::history::Word;

type Set = Vec<Word>;

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut Set) -> Done) -> Done {
    let open = |held| match held {
        Held::Set(set) => Some(set),
        _ => None,
    };
    let close = |set: Set| if set.is_empty() { None } else { Some(Held::Set(set)) };
    model.with(key, Vec::new(), open, close, work)
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("sadd", [_, ..]) => with(model, key, |set| {
            let before = set.len();
            for member in args {
                if !set.contains(member) {
                    set.push(member.clone());
                }
            }
            Ok(count(set.len() - before))
        }),
        ("srem", [_, ..]) => with(model, key, |set| {
            let before = set.len();
            set.retain(|member| !args.contains(member));
            Ok(count(before - set.len()))
        }),
        ("sismember", [member]) => with(model, key, |set| Ok(truth(set.contains(member)))),
        ("smismember", [_, ..]) => with(model, key, |set| {
            Ok(Reply::List(args.iter().map(|member| truth(set.contains(member))).collect()))
        }),
        ("scard", []) => with(model, key, |set| Ok(count(set.len()))),
        ("smembers", []) => with(model, key, |set| Ok(texts(set.iter()))),
        ("sadd" | "srem" | "sismember" | "smismember" | "scard" | "smembers", _) => {
            Err(wrong_arity(name))
        }
        _ => return None,
    })
}

/// `SPOP` of one member with the reply `seen`; `None` if the reply is unknown and several members
/// could have been taken.
pub(super) fn pop(model: &mut Model, key: &Word, seen: Option<&Reply>) -> Option<Done> {
    let several = matches!(model.keys.get(key), Some(Held::Set(set)) if set.len() > 1);
    if several && seen.is_none() {
        return None;
    }
    Some(with(model, key, |set| {
        if set.is_empty() {
            return Ok(Reply::Nil);
        }
        let place = match seen {
            Some(Reply::Text(member)) => set.iter().position(|held| held == member),
            _ => None,
        };
        Ok(Reply::text(set.remove(place.unwrap_or(0))))
    }))
}
