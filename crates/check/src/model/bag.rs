//! Bags of numbers, known only by their summary.
//!
//! `BAG.ADD key value [value ...]` answers `OK`, `BAG.COUNT key` how many values there are,
//! `BAG.SUM key` their sum. Only integers are modelled.

use super::number::parse;
use super::{Done, Held, Model, Reply, count, error, wrong_arity};
use crate::history::Word;

type Bag = Vec<i128>;

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut Bag) -> Done) -> Done {
    let open = |held| match held {
        Held::Bag(bag) => Some(bag),
        _ => None,
    };
    let close = |bag: Bag| if bag.is_empty() { None } else { Some(Held::Bag(bag)) };
    model.with(key, Vec::new(), open, close, work)
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("bag.add", [_, ..]) => {
            let values: Option<Vec<i64>> = args.iter().map(|word| parse(word)).collect();
            let values = values?;
            with(model, key, |bag| {
                bag.extend(values.into_iter().map(i128::from));
                Ok(Reply::ok())
            })
        }
        ("bag.count", []) => with(model, key, |bag| Ok(count(bag.len()))),
        ("bag.sum", []) => with(model, key, |bag| {
            let sum = i64::try_from(bag.iter().sum::<i128>());
            sum.map(Reply::Int).map_err(|_| error("ERR the sum is out of range"))
        }),
        ("bag.add" | "bag.count" | "bag.sum", _) => Err(wrong_arity(name)),
        _ => return None,
    })
}
