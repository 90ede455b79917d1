//! Logs: append only.
//!
//! `LOG.APPEND key entry [entry ...]` answers `OK`, `LOG.LEN key` the number of entries,
//! `LOG.TAIL key n` the newest n entries, oldest first.

use super::number::int;
use super::{Done, Held, Model, Reply, count, error, texts, wrong_arity};
use crate::history::Word;

type Log = Vec<Word>;

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut Log) -> Done) -> Done {
    let open = |held| match held {
        Held::Log(log) => Some(log),
        _ => None,
    };
    let close = |log: Log| if log.is_empty() { None } else { Some(Held::Log(log)) };
    model.with(key, Vec::new(), open, close, work)
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("log.append", [_, ..]) => with(model, key, |log| {
            log.extend_from_slice(args);
            Ok(Reply::ok())
        }),
        ("log.len", []) => with(model, key, |log| Ok(count(log.len()))),
        ("log.tail", [number]) => tail(model, key, number),
        ("log.append" | "log.len" | "log.tail", _) => Err(wrong_arity(name)),
        _ => return None,
    })
}

fn tail(model: &mut Model, key: &Word, number: &Word) -> Done {
    let number = usize::try_from(int(number)?).map_err(|_| error("ERR value is out of range"))?;
    with(model, key, |log| Ok(texts(&log[log.len().saturating_sub(number)..])))
}
