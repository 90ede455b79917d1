//! Logs: entries in commit order, all of them or the newest n.
//!
//! `LOG.APPEND key value [value ...]` answers the id of the last entry; ids contain the commit
//! timestamp, which the model does not know, so they are empty here and not compared.
//! `LOG.TAIL key count` answers the newest entries, newest first, and `LOG.RANGE key - +` all,
//! oldest first, as pairs of id and value. `LOG.LEN key` counts, `LOG.TRIM key MAXLEN count`
//! removes all but the newest, `CAPLOG.INIT key capacity` creates a log that keeps the newest n.

use super::int;
use super::{Done, Held, Model, Reply, count, error, lower, wrong_arity};
use crate::history::Word;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Log {
    capacity: Option<usize>,
    /// Oldest first.
    entries: Vec<Word>,
}

impl Log {
    fn keep(&mut self, newest: usize) -> usize {
        let removed = self.entries.len().saturating_sub(newest);
        self.entries.drain(..removed);
        removed
    }
}

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut Option<Log>) -> Done) -> Done {
    let open = |held| match held {
        Held::Log(log) => Some(Some(log)),
        _ => None,
    };
    model.with(key, None, open, |log: Option<Log>| log.map(Held::Log), work)
}

fn read(model: &mut Model, key: &Word, answer: impl FnOnce(&[Word]) -> Reply) -> Done {
    with(model, key, |log| Ok(answer(log.as_ref().map_or(&[], |log| &log.entries[..]))))
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("log.append", [_, ..]) => with(model, key, |log| {
            let log = log.get_or_insert_default();
            log.entries.extend_from_slice(args);
            log.keep(log.capacity.unwrap_or(usize::MAX));
            Ok(Reply::text(""))
        }),
        ("log.len", []) => read(model, key, |entries| count(entries.len())),
        ("log.tail", [number]) => number_of(number)
            .and_then(|number| read(model, key, |all| show(all.iter().rev().take(number)))),
        ("log.range", [from, to]) if from == b"-" && to == b"+" => {
            read(model, key, |entries| show(entries.iter()))
        }
        ("log.trim", [option, number]) if lower(option) == "maxlen" => {
            number_of(number).and_then(|number| {
                with(model, key, |log| Ok(count(log.as_mut().map_or(0, |log| log.keep(number)))))
            })
        }
        ("caplog.init", [capacity]) => number_of(capacity).and_then(|capacity| {
            with(model, key, |log| {
                let new = Log { capacity: Some(capacity), entries: Vec::new() };
                if log.get_or_insert(new).capacity != Some(capacity) {
                    return Err(error("ERR the key exists already, with another capacity"));
                }
                Ok(Reply::ok())
            })
        }),
        ("log.append" | "log.len" | "caplog.init", _) => Err(wrong_arity(name)),
        _ => return None,
    })
}

fn number_of(word: &Word) -> Result<usize, Reply> {
    usize::try_from(int(word)?).map_err(|_| error("ERR value is out of range"))
}

fn show<'a>(entries: impl Iterator<Item = &'a Word>) -> Reply {
    let pair = |value| Reply::List(vec![Reply::text(""), Reply::text(value)]);
    Reply::List(entries.map(pair).collect())
}
