//! Sorted sets: a vector of scores with members, sorted after every change.

use super::{Done, Held, Model, Reply, count, error, lower, slice, syntax, wrong_arity};
use super::{float, int};
use crate::history::Word;

type Zset = Vec<(f64, Word)>;

fn with(model: &mut Model, key: &Word, work: impl FnOnce(&mut Zset) -> Done) -> Done {
    let open = |held| match held {
        Held::Zset(zset) => Some(zset),
        _ => None,
    };
    let close = |zset: Zset| if zset.is_empty() { None } else { Some(Held::Zset(zset)) };
    model.with(key, Vec::new(), open, close, work)
}

fn score(zset: &Zset, member: &Word) -> Option<f64> {
    zset.iter().find(|(_, name)| name == member).map(|(score, _)| *score)
}

/// Sets a score; returns whether the member is new.
fn put(zset: &mut Zset, score: f64, member: &Word) -> bool {
    let before = zset.len();
    zset.retain(|(_, name)| name != member);
    let new = zset.len() == before;
    // Minus zero is zero.
    zset.push((score + 0.0, member.clone()));
    zset.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    new
}

pub(super) fn apply(model: &mut Model, name: &str, key: &Word, args: &[Word]) -> Option<Done> {
    Some(match (name, args) {
        ("zadd", [first, _, ..]) => {
            let options = ["nx", "xx", "gt", "lt", "ch", "incr"];
            if options.contains(&lower(first).as_str()) {
                return None;
            }
            add(model, key, args)
        }
        ("zrem", [_, ..]) => with(model, key, |zset| {
            let before = zset.len();
            zset.retain(|(_, member)| !args.contains(member));
            Ok(count(before - zset.len()))
        }),
        ("zscore", [member]) => {
            with(model, key, |zset| Ok(score(zset, member).map_or(Reply::Nil, Reply::Float)))
        }
        ("zcard", []) => with(model, key, |zset| Ok(count(zset.len()))),
        ("zincrby", [delta, member]) => increase(model, key, delta, member),
        ("zrank", [member]) => with(model, key, |zset| {
            let rank = zset.iter().position(|(_, name)| name == member);
            Ok(rank.map_or(Reply::Nil, count))
        }),
        ("zrange", [start, stop, options @ ..]) => {
            let scores = with_scores(options)?;
            by_rank(model, key, [start, stop], scores)
        }
        ("zrangebyscore", [min, max, options @ ..]) => {
            let scores = with_scores(options)?;
            by_score(model, key, [min, max], |found| Ok(show(found, scores)))
        }
        ("zcount", [min, max]) => by_score(model, key, [min, max], |found| Ok(count(found.len()))),
        (
            "zadd" | "zrem" | "zscore" | "zcard" | "zincrby" | "zrank" | "zrange" | "zrangebyscore"
            | "zcount",
            _,
        ) => Err(wrong_arity(name)),
        _ => return None,
    })
}

/// Whether scores are requested; `None` for options that are not modelled.
fn with_scores(options: &[Word]) -> Option<bool> {
    match options {
        [] => Some(false),
        [option] if lower(option) == "withscores" => Some(true),
        _ => None,
    }
}

fn show(found: &[(f64, Word)], scores: bool) -> Reply {
    let mut out = Vec::new();
    for (score, member) in found {
        out.push(Reply::text(member));
        if scores {
            out.push(Reply::Float(*score));
        }
    }
    Reply::List(out)
}

fn add(model: &mut Model, key: &Word, args: &[Word]) -> Done {
    if args.len() % 2 == 1 {
        return Err(syntax());
    }
    let scores: Vec<f64> = args.iter().step_by(2).map(|w| float(w)).collect::<Result<_, _>>()?;
    with(model, key, |zset| {
        let members = args.iter().skip(1).step_by(2);
        Ok(count(scores.iter().zip(members).filter(|(s, member)| put(zset, **s, member)).count()))
    })
}

fn increase(model: &mut Model, key: &Word, delta: &Word, member: &Word) -> Done {
    let delta = float(delta)?;
    with(model, key, |zset| {
        let new = score(zset, member).unwrap_or(0.0) + delta;
        if new.is_nan() {
            return Err(error("ERR resulting score is not a number (NaN)"));
        }
        put(zset, new, member);
        Ok(Reply::Float(new))
    })
}

fn by_rank(model: &mut Model, key: &Word, ends: [&Word; 2], scores: bool) -> Done {
    let [start, stop] = [int(ends[0])?, int(ends[1])?];
    with(model, key, |zset| Ok(show(&zset[slice(zset.len(), start, stop)], scores)))
}

/// A bound of scores: `(` in front excludes it.
fn bound(word: &Word) -> Result<(f64, bool), Reply> {
    let (digits, excluded) = match word.strip_prefix(b"(") {
        Some(digits) => (digits, true),
        None => (&word[..], false),
    };
    let number = float(digits).map_err(|_| error("ERR min or max is not a float"))?;
    Ok((number, excluded))
}

fn by_score(
    model: &mut Model,
    key: &Word,
    ends: [&Word; 2],
    answer: impl FnOnce(&[(f64, Word)]) -> Done,
) -> Done {
    let [(min, above), (max, below)] = [bound(ends[0])?, bound(ends[1])?];
    with(model, key, |zset| {
        let inside = |score: f64| {
            (score > min || (score == min && !above)) && (score < max || (score == max && !below))
        };
        let found: Zset = zset.iter().filter(|(score, _)| inside(*score)).cloned().collect();
        answer(&found)
    })
}
