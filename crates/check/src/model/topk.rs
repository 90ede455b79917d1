//! The k best items: each keeps its largest score, and only the first k by score remain.
//!
//! `TOPK.PUT key score item [score item ...]` answers `OK`; `TOPK.BEST key [n]` the best items
//! with their scores, best first; `TOPK.COUNT key` how many are kept. Among equal scores the
//! larger item counts as better.

use super::number::{float, int};
use super::{Done, Held, Model, Reply, count, error, wrong_arity};
use crate::history::Word;

/// How many items are kept if nobody says otherwise.
const CAPACITY: usize = 100;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Topk {
    /// Best first.
    items: Vec<(f64, Word)>,
}

impl Topk {
    fn put(&mut self, score: f64, item: &Word) {
        let old = self.items.iter().find(|(_, name)| name == item).map(|(score, _)| *score);
        let best = old.map_or(score, |old| old.max(score));
        self.items.retain(|(_, name)| name != item);
        self.items.push((best + 0.0, item.clone()));
        self.items.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.cmp(&a.1)));
        self.items.truncate(CAPACITY);
    }
}

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut Topk) -> Done) -> Done {
    let open = |held| match held {
        Held::Topk(topk) => Some(topk),
        _ => None,
    };
    let close = |topk: Topk| if topk.items.is_empty() { None } else { Some(Held::Topk(topk)) };
    model.with(key, Topk::default(), open, close, work)
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("topk.put", [_, _, ..]) if args.len().is_multiple_of(2) => put(model, key, args),
        ("topk.best", []) => with(model, key, |topk| Ok(show(topk, CAPACITY))),
        ("topk.best", [number]) => best(model, key, number),
        ("topk.count", []) => with(model, key, |topk| Ok(count(topk.items.len()))),
        ("topk.put" | "topk.best" | "topk.count", _) => Err(wrong_arity(name)),
        _ => return None,
    })
}

fn put(model: &mut Model, key: &Word, args: &[Word]) -> Done {
    let scores: Vec<f64> = args.iter().step_by(2).map(|w| float(w)).collect::<Result<_, _>>()?;
    with(model, key, |topk| {
        for (score, item) in scores.iter().zip(args.iter().skip(1).step_by(2)) {
            topk.put(*score, item);
        }
        Ok(Reply::ok())
    })
}

fn best(model: &mut Model, key: &Word, number: &Word) -> Done {
    let number = int(number)?;
    let number = usize::try_from(number).map_err(|_| error("ERR value is out of range"))?;
    with(model, key, |topk| Ok(show(topk, number)))
}

fn show(topk: &Topk, number: usize) -> Reply {
    let pair = |(score, item): &(f64, Word)| vec![Reply::text(item), Reply::Float(*score)];
    Reply::List(topk.items.iter().take(number).flat_map(pair).collect())
}
