//! The k best items: each keeps its largest score, and only the first k by score remain.
//!
//! `TOPK.INIT key capacity` creates, `TOPK.PUT key item score [item score ...]` answers `OK`,
//! `TOPK.BEST key [count] [WITHSCORES]` the best items, best first, `TOPK.COUNT key` the number of
//! kept items, `TOPK.RANKOF key item` the number of better items, `TOPK.CAPACITY key` the largest
//! number of kept items. Among equal scores the larger item counts as better.

use super::{Done, Held, Model, Reply, count, error, lower, wrong_arity};
use super::{float, int};
use crate::history::Word;

/// Default number of items to keep.
const CAPACITY: usize = 10;

/// The largest capacity.
const CAPACITY_MAX: i64 = 1_000_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Topk {
    capacity: usize,
    /// Best first.
    items: Vec<(f64, Word)>,
}

impl Topk {
    const EMPTY: Self = Self { capacity: CAPACITY, items: Vec::new() };

    fn put(&mut self, score: f64, item: &Word) {
        let old = self.items.iter().find(|(_, name)| name == item).map(|(score, _)| *score);
        let best = old.map_or(score, |old| old.max(score));
        self.items.retain(|(_, name)| name != item);
        self.items.push((best + 0.0, item.clone()));
        self.items.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.cmp(&a.1)));
        self.items.truncate(self.capacity);
    }
}

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut Option<Topk>) -> Done) -> Done {
    let open = |held| match held {
        Held::Topk(topk) => Some(Some(topk)),
        _ => None,
    };
    model.with(key, None, open, |topk: Option<Topk>| topk.map(Held::Topk), work)
}

fn read(model: &mut Model, key: &Word, answer: impl FnOnce(&Topk) -> Reply) -> Done {
    with(model, key, |topk| Ok(answer(topk.as_ref().unwrap_or(&Topk::EMPTY))))
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("topk.init", [capacity]) => init(model, key, capacity),
        ("topk.put", [_, _, ..]) if args.len().is_multiple_of(2) => put(model, key, args),
        ("topk.best", options) => return best(model, key, options),
        ("topk.count", []) => read(model, key, |topk| count(topk.items.len())),
        ("topk.capacity", []) => read(model, key, |topk| count(topk.capacity)),
        ("topk.rankof", [item]) => read(model, key, |topk| {
            let rank = topk.items.iter().position(|(_, name)| name == item);
            rank.map_or(Reply::Nil, count)
        }),
        ("topk.init" | "topk.put" | "topk.count" | "topk.capacity" | "topk.rankof", _) => {
            Err(wrong_arity(name))
        }
        _ => return None,
    })
}

fn init(model: &mut Model, key: &Word, capacity: &Word) -> Done {
    let capacity = int(capacity)?;
    if !(1..=CAPACITY_MAX).contains(&capacity) {
        return Err(error("ERR the capacity must be between 1 and 1000000"));
    }
    with(model, key, |topk| {
        let made = topk.get_or_insert(Topk { capacity: capacity as usize, items: Vec::new() });
        if made.capacity != capacity as usize {
            return Err(error("ERR the key exists already, with another capacity"));
        }
        Ok(Reply::ok())
    })
}

fn put(model: &mut Model, key: &Word, args: &[Word]) -> Done {
    let pairs = args.chunks(2).map(|pair| Ok((&pair[0], float(&pair[1])?)));
    let pairs: Vec<(&Word, f64)> = pairs.collect::<Result<_, Reply>>()?;
    with(model, key, |topk| {
        let topk = topk.get_or_insert(Topk::EMPTY);
        pairs.iter().for_each(|(item, score)| topk.put(*score, item));
        Ok(Reply::ok())
    })
}

fn best(model: &mut Model, key: &Word, options: &[Word]) -> Option<Done> {
    let (scores, number) = match options {
        [rest @ .., last] if lower(last) == "withscores" => (true, rest),
        rest => (false, rest),
    };
    let number = match number {
        [] => Ok(i64::MAX),
        [number] => int(number),
        _ => return None,
    };
    let number = match number {
        Ok(number) if number >= 0 => number as usize,
        Ok(_) => return None,
        Err(error) => return Some(Err(error)),
    };
    Some(read(model, key, |topk| {
        let mut shown = Vec::new();
        for (score, item) in topk.items.iter().take(number) {
            shown.push(Reply::text(item));
            if scores {
                shown.push(Reply::Float(*score));
            }
        }
        Reply::List(shown)
    }))
}
