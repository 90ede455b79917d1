//! Counters with optional bounds.
//!
//! `COUNTER.SET key value [MIN low] [MAX high]` sets value and bounds; `COUNTER.ADD key delta`
//! answers `OK`, `COUNTER.INCR key [delta]` the new value, `COUNTER.TRY key delta` 1 or, if the
//! value would leave its bounds, 0 without effect. `ADD` and `INCR` answer an error then.

use super::number::int;
use super::{Done, Held, Model, Reply, error, lower, truth, wrong_arity};
use crate::history::Word;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counter {
    value: i64,
    min: i64,
    max: i64,
}

impl Counter {
    const ZERO: Self = Self { value: 0, min: i64::MIN, max: i64::MAX };

    fn add(&mut self, delta: i64) -> bool {
        let new = i128::from(self.value) + i128::from(delta);
        let fits = i128::from(self.min) <= new && new <= i128::from(self.max);
        if fits {
            self.value = new as i64;
        }
        fits
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
    let one = b"1".to_vec();
    Some(match (name, args) {
        ("counter.get", []) => {
            with(model, key, |counter| Ok(Reply::Int(counter.as_ref().map_or(0, |c| c.value))))
        }
        ("counter.set", [value, options @ ..]) => return set(model, key, value, options),
        ("counter.add", [delta]) => {
            change(model, key, delta, |fits, _| if fits { Ok(Reply::ok()) } else { refuse() })
        }
        ("counter.incr", []) => {
            change(model, key, &one, |fits, new| if fits { Ok(Reply::Int(new)) } else { refuse() })
        }
        ("counter.incr", [delta]) => {
            change(model, key, delta, |fits, new| if fits { Ok(Reply::Int(new)) } else { refuse() })
        }
        ("counter.try", [delta]) => change(model, key, delta, |fits, _| Ok(truth(fits))),
        ("counter.get" | "counter.set" | "counter.add" | "counter.incr" | "counter.try", _) => {
            Err(wrong_arity(name))
        }
        _ => return None,
    })
}

fn refuse() -> Done {
    Err(error("ERR the counter would leave its bounds"))
}

fn change(
    model: &mut Model,
    key: &Word,
    delta: &Word,
    answer: impl FnOnce(bool, i64) -> Done,
) -> Done {
    let delta = int(delta)?;
    with(model, key, |counter| {
        let counter = counter.get_or_insert(Counter::ZERO);
        let fits = counter.add(delta);
        answer(fits, counter.value)
    })
}

fn set(model: &mut Model, key: &Word, value: &Word, options: &[Word]) -> Option<Done> {
    let mut new = Counter::ZERO;
    let mut parse = || -> Result<bool, Reply> {
        new.value = int(value)?;
        for option in options.chunks(2) {
            match (lower(&option[0]).as_str(), option) {
                ("min", [_, bound]) => new.min = int(bound)?,
                ("max", [_, bound]) => new.max = int(bound)?,
                _ => return Ok(false),
            }
        }
        Ok(true)
    };
    match parse() {
        Err(error) => return Some(Err(error)),
        Ok(false) => return None,
        Ok(true) => {}
    }
    if new.value < new.min || new.max < new.value {
        return Some(refuse());
    }
    Some(with(model, key, |counter| {
        *counter = Some(new);
        Ok(Reply::ok())
    }))
}
