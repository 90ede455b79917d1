//! Bags of numbers, known only by their summary.
//!
//! `BAG.ADD key number [number ...]` answers `OK`; `BAG.COUNT key` the number of numbers,
//! `BAG.SUM`, `BAG.MIN` and `BAG.MAX` exact decimal fractions. Numbers have up to nine digits after
//! the point. Mean and variance are not modelled.

use super::{Done, Held, Model, Reply, count, error, wrong_arity};
use crate::history::Word;

/// Numbers in units of 10^-9.
type Bag = Vec<i128>;

const ONE: i128 = 1_000_000_000;

/// The largest number, in units.
const MAX: i128 = 1_000_000_000_000 * ONE;

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut Bag) -> Done) -> Done {
    let open = |held| match held {
        Held::Bag(bag) => Some(bag),
        _ => None,
    };
    let close = |bag: Bag| if bag.is_empty() { None } else { Some(Held::Bag(bag)) };
    model.with(key, Vec::new(), open, close, work)
}

/// `-12.5` in units; digits are needed on both sides of a point.
fn parse(word: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(word).ok()?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(part) || part.len() > 9 || whole.len() > 30 {
        return None;
    }
    let units = whole.parse::<i128>().ok()? * ONE + format!("{part:0<9}").parse::<i128>().ok()?;
    let units = if text.starts_with('-') { -units } else { units };
    (units.abs() <= MAX).then_some(units)
}

fn show(units: i128) -> Reply {
    let sign = if units < 0 { "-" } else { "" };
    let (whole, part) = (units.abs() / ONE, units.abs() % ONE);
    let text = format!("{sign}{whole}.{part:09}");
    Reply::text(text.trim_end_matches('0').trim_end_matches('.'))
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("bag.add", [_, ..]) => {
            let numbers: Option<Vec<i128>> = args.iter().map(|word| parse(word)).collect();
            match numbers {
                None => Err(error("ERR value is not a decimal fraction with up to nine digits")),
                Some(numbers) => with(model, key, |bag| {
                    bag.extend(numbers);
                    Ok(Reply::ok())
                }),
            }
        }
        ("bag.count", []) => with(model, key, |bag| Ok(count(bag.len()))),
        ("bag.sum", []) => with(model, key, |bag| Ok(show(bag.iter().sum()))),
        ("bag.min", []) => {
            with(model, key, |bag| Ok(bag.iter().min().map_or(Reply::Nil, |least| show(*least))))
        }
        ("bag.max", []) => {
            with(model, key, |bag| Ok(bag.iter().max().map_or(Reply::Nil, |most| show(*most))))
        }
        ("bag.add" | "bag.count" | "bag.sum" | "bag.min" | "bag.max", _) => Err(wrong_arity(name)),
        _ => return None,
    })
}
