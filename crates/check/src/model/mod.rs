//! Naive reference models of the data types: the required replies when commands run one by one.
//!
//! Everything is written in the most obvious way: sorted or unsorted vectors, linear search, no
//! shared code with the product. The semantics are those of the Redis command documentation and,
//! for `COUNTER`, `TOPK`, `BAG` and `LOG`, of this project's own data types. A command that is not
//! modelled, or is used with options that are not, is *unknown*: [`Model::try_apply`] says so
//! instead of guessing.

mod bag;
mod counter;
mod hash;
mod keys;
mod list;
mod log;
mod set;
mod string;
mod topk;
mod zset;

use crate::history::Word;
pub use crate::value::Value as Reply;
use std::collections::BTreeMap;

/// Value of a key.
#[derive(Clone, Debug, PartialEq)]
enum Held {
    Text(Word),
    Hash(Vec<(Word, Word)>),
    Set(Vec<Word>),
    Zset(Vec<(f64, Word)>),
    List(Vec<Word>),
    Counter(counter::Counter),
    Topk(topk::Topk),
    Bag(Vec<i128>),
    Log(log::Log),
}

/// A whole store in its plainest form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    keys: BTreeMap<Word, Held>,
}

impl Model {
    /// Whether two stores have the same contents, disregarding order where the type has none.
    pub fn is_like(&self, other: &Self) -> bool {
        self.keys.len() == other.keys.len()
            && self.keys.iter().zip(&other.keys).all(|((key, a), (twin, b))| {
                let alike = match (a, b) {
                    (Held::Hash(a), Held::Hash(b)) => sorted(a) == sorted(b),
                    (Held::Set(a), Held::Set(b)) => sorted(a) == sorted(b),
                    (Held::Bag(a), Held::Bag(b)) => sorted(a) == sorted(b),
                    _ => a == b,
                };
                key == twin && alike
            })
    }

    /// Runs one command and answers it. A command that is not modelled answers an error and
    /// changes nothing.
    pub fn apply(&mut self, words: &[Word]) -> Reply {
        self.try_apply(words).unwrap_or_else(|| {
            let name = words.first().map(|word| crate::value::show_word(word)).unwrap_or_default();
            Reply::Error(format!("ERR the model does not know this form of {name}"))
        })
    }

    /// Runs one command and answers it; `None` if the command or an option is not modelled.
    pub fn try_apply(&mut self, words: &[Word]) -> Option<Reply> {
        let (name, args) = words.split_first()?;
        let name = lower(name);
        let done = keys::apply(self, &name, args).or_else(|| {
            let (key, args) = args.split_first()?;
            string::apply(self, &name, key, args)
                .or_else(|| hash::apply(self, &name, key, args))
                .or_else(|| set::apply(self, &name, key, args))
                .or_else(|| zset::apply(self, &name, key, args))
                .or_else(|| list::apply(self, &name, key, args))
                .or_else(|| counter::apply(self, &name, key, args))
                .or_else(|| topk::apply(self, &name, key, args))
                .or_else(|| bag::apply(self, &name, key, args))
                .or_else(|| log::apply(self, &name, key, args))
        })?;
        Some(done.unwrap_or_else(|error| error))
    }

    /// As [`Model::try_apply`], for a command with the reply `seen`, if it is known: where a
    /// command leaves the store a choice, the model makes the same one if it is permitted. `None`
    /// also if the choice is not known.
    pub fn try_follow(&mut self, words: &[Word], seen: Option<&Reply>) -> Option<Reply> {
        match words {
            [name, key] if lower(name) == "spop" => {
                Some(set::pop(self, key, seen)?.unwrap_or_else(|error| error))
            }
            _ => self.try_apply(words),
        }
    }

    /// Removes a key, as if it had never been written.
    pub fn forget(&mut self, key: &[u8]) {
        self.keys.remove(key);
    }

    /// Takes a value of one type out, lets `work` read or change it, and puts it back. `open` and
    /// `close` convert; `close` answers `None` for a value that ceases to exist. A key of another
    /// type answers `WRONGTYPE`, an error changes nothing.
    fn with<T>(
        &mut self,
        key: &Word,
        absent: T,
        open: impl Fn(Held) -> Option<T>,
        close: impl Fn(T) -> Option<Held>,
        work: impl FnOnce(&mut T) -> Done,
    ) -> Done {
        let before = self.keys.get(key).cloned();
        let mut value = match before {
            None => absent,
            Some(held) => open(held).ok_or_else(wrong_type)?,
        };
        let reply = work(&mut value)?;
        match close(value) {
            Some(held) => self.keys.insert(key.clone(), held),
            None => self.keys.remove(key),
        };
        Ok(reply)
    }
}

/// A reply, or an error that changed nothing.
type Done = Result<Reply, Reply>;

/// The keys that a command names. Every modelled command but a few has one, its first argument.
pub fn keys_of(words: &[Word]) -> Vec<&Word> {
    let Some((name, args)) = words.split_first() else { return Vec::new() };
    match lower(name).as_str() {
        "del" | "unlink" | "exists" | "mget" => args.iter().collect(),
        "mset" => args.iter().step_by(2).collect(),
        _ => args.iter().take(1).collect(),
    }
}

fn sorted<T: Clone + Ord>(values: &[T]) -> Vec<T> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values
}

/// Whether a command can never change anything.
pub fn is_read(words: &[Word]) -> bool {
    const READS: &str = "get mget strlen exists type hget hmget hgetall hlen hexists hkeys hvals \
                         sismember smismember scard smembers zscore zcard zrange zrangebyscore \
                         zcount zrank llen lrange lindex counter.get counter.atleast \
                         counter.bounds topk.best topk.count topk.rankof topk.capacity bag.count \
                         bag.sum bag.min bag.max bag.mean bag.stats log.len log.tail log.range";
    words.first().is_some_and(|name| {
        let name = lower(name);
        READS.split(' ').any(|read| read == name)
    })
}

/// Whether a write with this reply changed nothing: a store need not log it.
pub fn is_idle(words: &[Word], reply: &Reply) -> bool {
    let name = words.first().map(|name| lower(name)).unwrap_or_default();
    match name.as_str() {
        "set" => {
            // With `GET`, nil is the old value.
            let has = |option| words.iter().skip(3).any(|word| lower(word) == option);
            *reply == Reply::Nil && has("nx") && !has("get")
        }
        "spop" => *reply == Reply::Nil,
        "setnx" | "hsetnx" | "sadd" | "srem" | "hdel" | "zrem" | "del" => *reply == Reply::Int(0),
        _ => false,
    }
}

/// Whether two replies to this command are equivalent; collections without order are compared
/// without order, and ids that contain a commit timestamp not at all.
pub fn agree(words: &[Word], expected: &Reply, actual: &Reply) -> bool {
    let name = words.first().map(|name| lower(name)).unwrap_or_default();
    match name.as_str() {
        "smembers" | "hkeys" | "hvals" => expected.agrees_unordered(actual, 1),
        "hgetall" => expected.agrees_unordered(actual, 2),
        "log.append" => expected.is_error() == actual.is_error(),
        "log.tail" | "log.range" if !expected.is_error() => {
            // Pairs of id and value.
            let values =
                |reply: &Reply| Reply::List(reply.flat().into_iter().skip(1).step_by(2).collect());
            matches!(actual, Reply::List(_)) && values(expected).agrees(&values(actual))
        }
        _ => expected.agrees(actual),
    }
}

/// A command's name or an option in lower case.
pub(crate) fn lower(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_lowercase()
}

fn wrong_type() -> Reply {
    error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

fn error(text: &str) -> Reply {
    Reply::Error(text.to_owned())
}

fn wrong_arity(name: &str) -> Reply {
    Reply::Error(format!("ERR wrong number of arguments for '{name}' command"))
}

fn syntax() -> Reply {
    error("ERR syntax error")
}

fn truth(value: bool) -> Reply {
    Reply::Int(i64::from(value))
}

fn count(number: usize) -> Reply {
    Reply::Int(number as i64)
}

fn texts<'a>(words: impl IntoIterator<Item = &'a Word>) -> Reply {
    Reply::List(words.into_iter().map(Reply::text).collect())
}

fn maybe(word: Option<&Word>) -> Reply {
    word.map_or(Reply::Nil, Reply::text)
}

/// The part of a sequence of `len` elements that inclusive indexes select; negative indexes count
/// from the end (`LRANGE`, `ZRANGE`).
fn slice(len: usize, start: i64, stop: i64) -> std::ops::Range<usize> {
    let len = len as i64;
    let from = |index: i64| if index < 0 { len.saturating_add(index) } else { index };
    let first = from(start).max(0);
    let last = from(stop).min(len - 1);
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}

#[cfg(test)]
mod tests;

/// An integer as Redis reads it: decimal, no sign except `-`, no leading zeros.
fn int(word: &[u8]) -> Result<i64, Reply> {
    parse(word).ok_or_else(|| error("ERR value is not an integer or out of range"))
}

/// As [`int`], without an error text.
fn parse(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// A float; infinities are numbers, NaN is not.
fn float(word: &[u8]) -> Result<f64, Reply> {
    let bad = || error("ERR value is not a valid float");
    let number: f64 =
        std::str::from_utf8(word).ok().and_then(|t| t.parse().ok()).ok_or_else(bad)?;
    if number.is_nan() { Err(bad()) } else { Ok(number) }
}

/// A sum, or an error on overflow.
fn sum(a: i64, b: i64) -> Result<i64, Reply> {
    a.checked_add(b).ok_or_else(|| error("ERR increment or decrement would overflow"))
}
