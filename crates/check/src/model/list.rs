//! Lists.

use super::int;
use super::{Done, Held, Model, Reply, count, error, maybe, slice, texts, wrong_arity};
use crate::history::Word;

type List = Vec<Word>;

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut List) -> Done) -> Done {
    let open = |held| match held {
        Held::List(list) => Some(list),
        _ => None,
    };
    let close = |list: List| if list.is_empty() { None } else { Some(Held::List(list)) };
    model.with(key, Vec::new(), open, close, work)
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("rpush", [_, ..]) => with(model, key, |list| {
            list.extend_from_slice(args);
            Ok(count(list.len()))
        }),
        ("lpush", [_, ..]) => with(model, key, |list| {
            for element in args {
                list.insert(0, element.clone());
            }
            Ok(count(list.len()))
        }),
        ("lpop" | "rpop", []) => with(model, key, |list| {
            let index = if name == "lpop" { 0 } else { list.len().saturating_sub(1) };
            Ok(if list.is_empty() { Reply::Nil } else { Reply::Text(list.remove(index)) })
        }),
        ("lpop" | "rpop", [number]) => pop_many(model, key, name == "lpop", number),
        ("llen", []) => with(model, key, |list| Ok(count(list.len()))),
        ("lindex", [index]) => index_of(model, key, index),
        ("lrange", [start, stop]) => range(model, key, start, stop),
        ("rpush" | "lpush" | "lpop" | "rpop" | "llen" | "lindex" | "lrange", _) => {
            Err(wrong_arity(name))
        }
        _ => return None,
    })
}

fn pop_many(model: &mut Model, key: &Word, left: bool, number: &Word) -> Done {
    let number = int(number).ok().filter(|number| *number >= 0);
    let number = number.ok_or_else(|| error("ERR value is out of range, must be positive"))?;
    with(model, key, |list| {
        if list.is_empty() {
            return Ok(Reply::Nil);
        }
        let mut popped = Vec::new();
        for _ in 0..number.min(list.len() as i64) {
            popped.push(if left { list.remove(0) } else { list.remove(list.len() - 1) });
        }
        Ok(texts(popped.iter()))
    })
}

fn index_of(model: &mut Model, key: &Word, index: &Word) -> Done {
    let index = int(index)?;
    with(model, key, |list| Ok(maybe(list[slice(list.len(), index, index)].first())))
}

fn range(model: &mut Model, key: &Word, start: &Word, stop: &Word) -> Done {
    let [start, stop] = [int(start)?, int(stop)?];
    with(model, key, |list| Ok(texts(&list[slice(list.len(), start, stop)])))
}
