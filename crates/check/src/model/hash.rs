//! Hashes: a list of fields with values. Expiry is not modelled: commands that set a time are not known, and
//! no field has one.

use super::{Done, Held, Model, Reply, count, error, maybe, texts, truth, wrong_arity};
use super::{int, lower, parse, sum};
use crate::history::Word;

type Hash = Vec<(Word, Word)>;

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut Hash) -> Done) -> Done {
    let open = |held| match held {
        Held::Hash(hash) => Some(hash),
        _ => None,
    };
    let close = |hash: Hash| if hash.is_empty() { None } else { Some(Held::Hash(hash)) };
    model.with(key, Vec::new(), open, close, work)
}

fn find<'a>(hash: &'a Hash, field: &Word) -> Option<&'a Word> {
    hash.iter().find(|(name, _)| name == field).map(|(_, value)| value)
}

/// Sets a field; returns whether it is new.
fn put(hash: &mut Hash, field: &Word, value: &Word) -> bool {
    let new = find(hash, field).is_none();
    hash.retain(|(name, _)| name != field);
    hash.push((field.clone(), value.clone()));
    new
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("hset" | "hmset", pairs) if !pairs.is_empty() && pairs.len() % 2 == 0 => {
            with(model, key, |hash| {
                let new = pairs.chunks(2).filter(|pair| put(hash, &pair[0], &pair[1])).count();
                Ok(if name == "hset" { count(new) } else { Reply::ok() })
            })
        }
        ("hsetnx", [field, value]) => with(model, key, |hash| {
            let absent = find(hash, field).is_none();
            if absent {
                put(hash, field, value);
            }
            Ok(truth(absent))
        }),
        ("hget", [field]) => with(model, key, |hash| Ok(maybe(find(hash, field)))),
        ("hmget", [_, ..]) => with(model, key, |hash| {
            Ok(Reply::List(args.iter().map(|field| maybe(find(hash, field))).collect()))
        }),
        ("hdel", [_, ..]) => with(model, key, |hash| {
            let before = hash.len();
            hash.retain(|(name, _)| !args.contains(name));
            Ok(count(before - hash.len()))
        }),
        ("hincrby", [field, delta]) => increase(model, key, field, delta),
        ("hgetall", []) => with(model, key, |hash| {
            let pair = |(field, value): &(Word, Word)| (Reply::text(field), Reply::text(value));
            Ok(Reply::Map(hash.iter().map(pair).collect()))
        }),
        ("hkeys", []) => with(model, key, |hash| Ok(texts(hash.iter().map(|(name, _)| name)))),
        ("hvals", []) => with(model, key, |hash| Ok(texts(hash.iter().map(|(_, value)| value)))),
        ("hlen", []) => with(model, key, |hash| Ok(count(hash.len()))),
        ("hexists", [field]) => with(model, key, |hash| Ok(truth(find(hash, field).is_some()))),
        ("hgetex" | "httl" | "hpttl" | "hexpiretime" | "hpexpiretime" | "hpersist", words) => {
            let fields = behind_fields(words, 1)?;
            with(model, key, |hash| {
                let answer = |field: &Word| match find(hash, field) {
                    value if name == "hgetex" => maybe(value),
                    value => Reply::Int(if value.is_some() { -1 } else { -2 }),
                };
                Ok(Reply::List(fields.iter().map(answer).collect()))
            })
        }
        ("hsetex", words) => {
            let condition =
                words.first().map(|word| lower(word)).filter(|word| word == "fnx" || word == "fxx");
            let pairs = behind_fields(&words[usize::from(condition.is_some())..], 2)?;
            with(model, key, |hash| {
                let there = |pair: &[Word]| find(hash, &pair[0]).is_some();
                let sets = match condition.as_deref() {
                    Some("fnx") => !pairs.chunks(2).any(there),
                    Some(_) => pairs.chunks(2).all(there),
                    None => true,
                };
                for pair in pairs.chunks(2).filter(|_| sets) {
                    put(hash, &pair[0], &pair[1]);
                }
                Ok(truth(sets))
            })
        }
        (
            "hset" | "hmset" | "hsetnx" | "hget" | "hmget" | "hdel" | "hincrby" | "hgetall"
            | "hkeys" | "hvals" | "hlen" | "hexists",
            _,
        ) => Err(wrong_arity(name)),
        _ => return None,
    })
}

/// The words behind `FIELDS` and their number, of which there are so many for each field.
fn behind_fields(words: &[Word], each: usize) -> Option<&[Word]> {
    let [mark, number, fields @ ..] = words else { return None };
    let number = usize::try_from(parse(number)?).ok()?;
    let whole = lower(mark) == "fields" && number > 0 && fields.len() == each * number;
    whole.then_some(fields)
}

fn increase(model: &mut Model, key: &Word, field: &Word, delta: &Word) -> Done {
    let delta = int(delta)?;
    with(model, key, |hash| {
        let old = match find(hash, field) {
            None => Some(0),
            Some(digits) => parse(digits),
        };
        let old = old.ok_or_else(|| error("ERR hash value is not an integer"))?;
        let new = sum(old, delta)?;
        put(hash, field, &new.to_string().into_bytes());
        Ok(Reply::Int(new))
    })
}
