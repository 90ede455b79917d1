//! Strings and integers in them.

use super::{Done, Held, Model, Reply, count, error, lower, maybe, syntax, truth, wrong_arity};
use super::{int, parse, sum};
use crate::history::Word;

type Text = Option<Word>;

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut Text) -> Done) -> Done {
    let open = |held| match held {
        Held::Text(text) => Some(Some(text)),
        _ => None,
    };
    model.with(key, None, open, |text: Text| text.map(Held::Text), work)
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("get", []) => with(model, key, |text| Ok(maybe(text.as_ref()))),
        ("strlen", []) => with(model, key, |text| Ok(count(text.as_ref().map_or(0, Vec::len)))),
        ("getdel", []) => with(model, key, |text| Ok(maybe(text.take().as_ref()))),
        ("getset", [value]) => {
            with(model, key, |text| Ok(maybe(text.replace(value.clone()).as_ref())))
        }
        ("set", [value, options @ ..]) => return set(model, key, value, options),
        ("setnx", [value]) => {
            let absent = !model.keys.contains_key(key);
            if absent {
                model.keys.insert(key.clone(), Held::Text(value.clone()));
            }
            Ok(truth(absent))
        }
        ("append", [tail]) => with(model, key, |text| {
            let all = text.get_or_insert_default();
            all.extend_from_slice(tail);
            Ok(count(all.len()))
        }),
        ("incr", []) => increase(model, key, Ok(1)),
        ("decr", []) => increase(model, key, Ok(-1)),
        ("incrby", [delta]) => increase(model, key, int(delta)),
        ("decrby", [delta]) => {
            let negated = int(delta).and_then(|delta| {
                delta.checked_neg().ok_or_else(|| error("ERR decrement would overflow"))
            });
            increase(model, key, negated)
        }
        (
            "get" | "strlen" | "getdel" | "getset" | "set" | "setnx" | "append" | "incr" | "decr"
            | "incrby" | "decrby",
            _,
        ) => Err(wrong_arity(name)),
        _ => return None,
    })
}

fn increase(model: &mut Model, key: &Word, delta: Result<i64, Reply>) -> Done {
    let delta = delta?;
    with(model, key, |text| {
        let old = match text {
            None => Some(0),
            Some(digits) => parse(digits),
        };
        let old = old.ok_or_else(|| error("ERR value is not an integer or out of range"))?;
        let new = sum(old, delta)?;
        *text = Some(new.to_string().into_bytes());
        Ok(Reply::Int(new))
    })
}

/// `SET` with `NX`, `XX` and `GET`; expiry is not modelled.
fn set(model: &mut Model, key: &Word, value: &Word, options: &[Word]) -> Option<Done> {
    let (mut nx, mut xx, mut get) = (false, false, false);
    for option in options {
        match lower(option).as_str() {
            "nx" => nx = true,
            "xx" => xx = true,
            "get" => get = true,
            _ => return None,
        }
    }
    if nx && xx {
        return Some(Err(syntax()));
    }
    let old = model.keys.get(key);
    let reply = match (get, old) {
        (false, _) => Reply::ok(),
        (true, None) => Reply::Nil,
        (true, Some(Held::Text(text))) => Reply::text(text),
        (true, Some(_)) => return Some(Err(super::wrong_type())),
    };
    if (nx && old.is_some()) || (xx && old.is_none()) {
        return Some(Ok(if get { reply } else { Reply::Nil }));
    }
    model.keys.insert(key.clone(), Held::Text(value.clone()));
    Some(Ok(reply))
}
