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
        ("delifeq", [value]) => remove(model, key, value, true),
        ("delex", [condition, value]) => match lower(condition).as_str() {
            "ifeq" => remove(model, key, value, true),
            "ifne" => remove(model, key, value, false),
            // Digests are not modelled.
            "ifdeq" | "ifdne" => return None,
            _ => Err(syntax()),
        },
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
        ("increx", options) => return bounded(model, key, options),
        (
            "get" | "strlen" | "getdel" | "delifeq" | "getset" | "set" | "setnx" | "append"
            | "incr" | "decr" | "incrby" | "decrby",
            _,
        ) => Err(wrong_arity(name)),
        _ => return None,
    })
}

fn remove(model: &mut Model, key: &Word, value: &Word, equal: bool) -> Done {
    with(model, key, |text| {
        let removes = text.as_ref().is_some_and(|text| (text == value) == equal);
        if removes {
            *text = None;
        }
        Ok(truth(removes))
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

/// `INCREX` of integers; expiry is not modelled.
fn bounded(model: &mut Model, key: &Word, options: &[Word]) -> Option<Done> {
    let (mut delta, mut lower, mut upper) = (1, i64::MIN, i64::MAX);
    let mut saturate = false;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let number = match super::lower(option).as_str() {
            "saturate" => {
                saturate = true;
                continue;
            }
            "byint" => &mut delta,
            "lbound" => &mut lower,
            "ubound" => &mut upper,
            _ => return None,
        };
        *number = parse(options.next()?)?;
    }
    Some(with(model, key, |text| {
        let old = text.as_ref().map_or(Some(0), |digits| parse(digits));
        let old = old.ok_or_else(|| error("ERR value is not an integer or out of range"))?;
        let sum = i128::from(old) + i128::from(delta);
        let nearest = sum.max(lower.into()).min(upper.into());
        let added = if nearest == sum || saturate { nearest - i128::from(old) } else { 0 };
        let Ok(added) = i64::try_from(added) else {
            return Err(error("ERR applied increment would overflow"));
        };
        if nearest == sum || saturate {
            *text = Some((old + added).to_string().into_bytes());
        }
        Ok(Reply::List(vec![Reply::Int(old + added), Reply::Int(added)]))
    }))
}

/// `SET` with conditions and `GET`; expiry is not modelled.
fn set(model: &mut Model, key: &Word, value: &Word, options: &[Word]) -> Option<Done> {
    let (mut nx, mut xx, mut get) = (false, false, false);
    let mut compared: Option<(bool, &Word)> = None;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match lower(option).as_str() {
            "nx" => nx = true,
            "xx" => xx = true,
            "get" => get = true,
            name @ ("ifeq" | "ifne") => match options.next() {
                Some(value) if compared.is_none() => compared = Some((name == "ifeq", value)),
                _ => return Some(Err(syntax())),
            },
            _ => return None,
        }
    }
    if u8::from(nx) + u8::from(xx) + u8::from(compared.is_some()) > 1 {
        return Some(Err(syntax()));
    }
    let old = model.keys.get(key);
    let reply = match (get, old) {
        (false, _) => Reply::ok(),
        (true, None) => Reply::Nil,
        (true, Some(Held::Text(text))) => Reply::text(text),
        (true, Some(_)) => return Some(Err(super::wrong_type())),
    };
    let is_other = |text: &Word| compared.is_some_and(|(equal, value)| (text == value) != equal);
    let refused = match old {
        None => compared.is_some_and(|(equal, _)| equal),
        Some(Held::Text(text)) => is_other(text),
        Some(_) if compared.is_some() => return Some(Err(super::wrong_type())),
        Some(_) => false,
    };
    if refused || (nx && old.is_some()) || (xx && old.is_none()) {
        return Some(Ok(if get { reply } else { Reply::Nil }));
    }
    model.keys.insert(key.clone(), Held::Text(value.clone()));
    Some(Ok(reply))
}
