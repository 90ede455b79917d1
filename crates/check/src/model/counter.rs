//! Counters with optional bounds.
//!
//! `COUNTER.SET key value [MIN low] [MAX high]` sets value and bounds. `COUNTER.ADD key delta`
//! answers `OK` and is refused on a bounded counter; without bounds a counter is wider than 64
//! bits. `COUNTER.INCR key delta` answers the new value, or an error if that would leave the bounds
//! or 64 bits; `COUNTER.TRY key delta` 1, or 0 without effect. `COUNTER.GET`, `COUNTER.ATLEAST`
//! and `COUNTER.BOUNDS` read; an absent counter is an unbounded 0.

use super::int;
use super::{Done, Held, Model, Reply, error, lower, syntax, truth, wrong_arity};
use crate::history::Word;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counter {
    value: i128,
    min: Option<i64>,
    max: Option<i64>,
}

impl Counter {
    /// Adds if the bounds permit it.
    fn add(&mut self, delta: i64) -> bool {
        let new = self.value + i128::from(delta);
        let low = self.min.is_some_and(|min| new < i128::from(min));
        let high = self.max.is_some_and(|max| i128::from(max) < new);
        if !low && !high {
            self.value = new;
        }
        !low && !high
    }

    fn is_bounded(&self) -> bool {
        self.min.is_some() || self.max.is_some()
    }

    fn shown(&self) -> Done {
        let number = i64::try_from(self.value);
        let outside = |_| error("ERR the counter is outside of the range of 64 bits");
        number.map(Reply::Int).map_err(outside)
    }
}

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut Option<Counter>) -> Done) -> Done {
    let open = |held| match held {
        Held::Counter(counter) => Some(Some(counter)),
        _ => None,
    };
    model.with(key, None, open, |counter: Option<Counter>| counter.map(Held::Counter), work)
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("counter.get", []) => read(model, key, |counter| counter.shown()),
        ("counter.atleast", [threshold]) => int(threshold).and_then(|threshold| {
            read(model, key, |counter| Ok(truth(counter.value >= i128::from(threshold))))
        }),
        ("counter.bounds", []) => read(model, key, |counter| {
            let bound = |bound: Option<i64>| bound.map_or(Reply::Nil, Reply::Int);
            Ok(Reply::List(vec![bound(counter.min), bound(counter.max)]))
        }),
        ("counter.set", [value, options @ ..]) => set(model, key, value, options),
        ("counter.add", [delta]) => change(model, key, delta, |counter, delta| {
            if counter.is_bounded() {
                return Err(error("ERR use COUNTER.TRY on a bounded counter"));
            }
            counter.add(delta);
            Ok(Reply::ok())
        }),
        ("counter.incr", [delta]) => {
            change(
                model,
                key,
                delta,
                |counter, delta| {
                    if counter.add(delta) { counter.shown() } else { refuse() }
                },
            )
        }
        ("counter.try", [delta]) => {
            change(model, key, delta, |counter, delta| Ok(truth(counter.add(delta))))
        }
        (
            "counter.get" | "counter.atleast" | "counter.bounds" | "counter.set" | "counter.add"
            | "counter.incr" | "counter.try",
            _,
        ) => Err(wrong_arity(name)),
        _ => return None,
    })
}

fn refuse() -> Done {
    Err(error("ERR the counter would leave its bounds"))
}

fn read(model: &mut Model, key: &Word, answer: impl FnOnce(&Counter) -> Done) -> Done {
    with(model, key, |counter| answer(&counter.clone().unwrap_or_default()))
}

fn change(
    model: &mut Model,
    key: &Word,
    delta: &Word,
    work: impl FnOnce(&mut Counter, i64) -> Done,
) -> Done {
    let delta = int(delta)?;
    with(model, key, |counter| work(counter.get_or_insert_default(), delta))
}

fn set(model: &mut Model, key: &Word, value: &Word, options: &[Word]) -> Done {
    let number = int(value)?;
    let mut new = Counter { value: i128::from(number), ..Counter::default() };
    for option in options.chunks(2) {
        let [name, bound] = option else { return Err(syntax()) };
        let place = match lower(name).as_str() {
            "min" => &mut new.min,
            "max" => &mut new.max,
            _ => return Err(syntax()),
        };
        if place.replace(int(bound)?).is_some() {
            return Err(syntax());
        }
    }
    if new.min.is_some_and(|min| number < min) || new.max.is_some_and(|max| max < number) {
        return Err(error("ERR the value must lie within MIN and MAX"));
    }
    with(model, key, |counter| {
        *counter = Some(new);
        Ok(Reply::ok())
    })
}
