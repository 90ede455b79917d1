//! Union, intersection and difference of sorted sets (and of sets, whose members have score 1), and
//! taking from the first of several keys.

use crate::command::database::shown;
use crate::key::{Cause, KeyOp};
use crate::kinds::zset::{Op, Presence, Select, Value, positive_zero};
use crate::{
    Args, Blob, Command, Compound, Ctx, DataType, ErrorReply, Merge, Op as AnyOp, Plan, Record,
    Reply, Value as AnyValue, collections,
};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::zset) enum Algebra {
    Inter,
    Union,
    Diff,
}

#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    /// Combines two scores. Opposite infinities sum up to 0, as in Redis.
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum if (a + b).is_nan() => 0.0,
            Self::Sum => a + b,
            Self::Min => a.min(b),
            Self::Max => a.max(b),
        }
    }
}

/// The keys after their number at word `at`, and the position after them.
fn counted_keys(
    args: &Args<'_>,
    at: usize,
    too_few: &str,
) -> Result<(Vec<Blob>, usize), ErrorReply> {
    let count = args.int(at)?;
    if count < 1 {
        return Err(ErrorReply::err(too_few.to_owned()));
    }
    let left = args.len() - at - 1;
    let count =
        usize::try_from(count).ok().filter(|c| *c <= left).ok_or_else(ErrorReply::syntax)?;
    Ok((args.iter_from(at + 1).take(count).map(Blob::new).collect(), at + 1 + count))
}

/// The keys after their number at word `at`, of which there is at least one, and the position after
/// them.
pub(in crate::kinds::zset) fn some_keys(
    args: &Args<'_>,
    at: usize,
) -> Result<(Vec<Blob>, usize), ErrorReply> {
    let too_few = "numkeys should be greater than 0";
    args.at_least(at, 1, too_few)?;
    counted_keys(args, at, too_few)
}

/// The operation of set algebra with its weights and aggregation.
#[derive(Clone)]
struct Recipe {
    algebra: Algebra,
    weights: Vec<f64>,
    aggregate: Aggregate,
}

/// The sources, the recipe and whether scores are wanted.
struct Parsed {
    sources: Vec<(Blob, AnyOp)>,
    recipe: Recipe,
    with_scores: bool,
}

fn parse(args: &Args<'_>, at: usize, algebra: Algebra) -> Result<Parsed, ErrorReply> {
    let name = String::from_utf8_lossy(args.get(0).unwrap_or_default()).to_lowercase();
    let too_few = format!("at least 1 input key is needed for '{name}' command");
    let (keys, mut i) = counted_keys(args, at, &too_few)?;
    let (mut with_scores, mut aggregate) = (false, Aggregate::Sum);
    let mut weights = vec![1.0; keys.len()];
    let weighted = algebra != Algebra::Diff;
    while i < args.len() {
        if weighted && args.is(i, "WEIGHTS") && i + keys.len() < args.len() {
            for (k, weight) in weights.iter_mut().enumerate() {
                *weight = args
                    .float(i + 1 + k)
                    .map_err(|_| ErrorReply::err("weight value is not a float"))?;
            }
            i += 1 + keys.len();
        } else if weighted && args.is(i, "AGGREGATE") && i + 1 < args.len() {
            aggregate = match () {
                () if args.is(i + 1, "SUM") => Aggregate::Sum,
                () if args.is(i + 1, "MIN") => Aggregate::Min,
                () if args.is(i + 1, "MAX") => Aggregate::Max,
                () => return Err(ErrorReply::syntax()),
            };
            i += 2;
        } else if at == 1 && args.is(i, "WITHSCORES") {
            with_scores = true;
            i += 1;
        } else {
            return Err(ErrorReply::syntax());
        }
    }
    let recipe = Recipe { algebra, weights, aggregate };
    Ok(Parsed { sources: fetches(keys), recipe, with_scores })
}

fn fetches(keys: Vec<Blob>) -> Vec<(Blob, AnyOp)> {
    keys.into_iter().map(|key| (key, AnyOp::Key(KeyOp::Fetch))).collect()
}

/// Members and scores of a fetched record.
fn scored(reply: &Reply) -> Result<collections::Map<Blob, f64>, ErrorReply> {
    let record = match reply {
        Reply::Record(record) => record,
        Reply::Error(error) => return Err(error.clone()),
        _ => return Ok(collections::Map::default()),
    };
    match &record.value {
        AnyValue::ZSet(value) => Ok(value.scores.clone()),
        AnyValue::Set(value) => match value.query(&crate::kinds::set::Op::All, &Ctx::default()) {
            Reply::Set(members) => Ok(members
                .into_iter()
                .filter_map(|m| if let Reply::Bulk(m) = m { Some((m, 1.0)) } else { None })
                .collect()),
            _ => Ok(collections::Map::default()),
        },
        _ => Err(ErrorReply::wrong_type()),
    }
}

impl Recipe {
    fn combine(&self, replies: &[Reply]) -> Result<Value, ErrorReply> {
        let mut sources = replies.iter().map(scored).collect::<Result<Vec<_>, _>>()?;
        for (source, weight) in sources.iter_mut().zip(&self.weights) {
            for score in source.values_mut() {
                let weighted = *score * weight;
                *score = if weighted.is_nan() { 0.0 } else { positive_zero(weighted) };
            }
        }
        let mut sources = sources.into_iter();
        let mut all = sources.next().unwrap_or_default();
        for source in sources {
            match self.algebra {
                Algebra::Diff => all.retain(|member, _| !source.contains_key(member)),
                Algebra::Inter => all.retain(|member, score| match source.get(member) {
                    Some(other) => {
                        *score = self.aggregate.of(*score, *other);
                        true
                    }
                    None => false,
                }),
                Algebra::Union => {
                    for (member, score) in source {
                        let entry = all.entry(member);
                        entry.and_modify(|s| *s = self.aggregate.of(*s, score)).or_insert(score);
                    }
                }
            }
        }
        Ok(Value::of(all))
    }
}

/// `ZUNION`, `ZINTER`, `ZDIFF`.
pub(in crate::kinds::zset) fn parse_algebra(
    args: &Args<'_>,
    algebra: Algebra,
) -> Result<Command, ErrorReply> {
    let Parsed { sources, recipe, with_scores } = parse(args, 1, algebra)?;
    let merge = move |replies: Vec<Reply>| match recipe.combine(&replies) {
        Ok(value) => value.select_reply(&Select { with_scores, ..Select::ALL }),
        Err(error) => error.into(),
    };
    Ok(Command::Multi { ops: sources, merge: Merge::With(Arc::new(merge)) })
}

/// `ZINTERCARD`.
pub(in crate::kinds::zset) fn parse_intercard(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let too_few = "at least 1 input key is needed for 'zintercard' command";
    let (keys, after) = counted_keys(args, 1, too_few)?;
    let limit = match args.len() - after {
        0 => 0,
        2 if args.is(after, "LIMIT") => {
            args.at_least(after + 1, 0, "LIMIT can't be negative")? as usize
        }
        _ => return Err(ErrorReply::syntax()),
    };
    let weights = vec![1.0; keys.len()];
    let recipe = Recipe { algebra: Algebra::Inter, weights, aggregate: Aggregate::Sum };
    let merge = move |replies: Vec<Reply>| match recipe.combine(&replies) {
        Ok(value) if limit > 0 => Reply::Int(value.scores.len().min(limit) as i64),
        Ok(value) => Reply::Int(value.scores.len() as i64),
        Err(error) => error.into(),
    };
    Ok(Command::Multi { ops: fetches(keys), merge: Merge::With(Arc::new(merge)) })
}

/// Replaces the record under `target` by `value`; answers its size.
fn store(target: &Blob, value: Value, cause: Cause) -> Plan {
    let reply = Reply::Int(value.scores.len() as i64);
    let op = if value.is_empty() {
        KeyOp::Del
    } else {
        KeyOp::Put(Box::new(Record::new(AnyValue::ZSet(value.into()))), cause)
    };
    Plan { writes: vec![(target.clone(), AnyOp::Key(op))], reply }
}

fn refused(error: ErrorReply) -> Plan {
    Plan { writes: Vec::new(), reply: error.into() }
}

/// `ZUNIONSTORE`, `ZINTERSTORE`, `ZDIFFSTORE`.
pub(in crate::kinds::zset) fn parse_store(
    args: &Args<'_>,
    algebra: Algebra,
) -> Result<Command, ErrorReply> {
    let target = args.blob(1)?;
    let cause = match algebra {
        Algebra::Inter => Cause::RankedInter,
        Algebra::Union => Cause::RankedUnion,
        Algebra::Diff => Cause::RankedDiff,
    };
    let Parsed { sources, recipe, .. } = parse(args, 2, algebra)?;
    let plan = move |replies: &[Reply]| match recipe.combine(replies) {
        Ok(value) => store(&target, value, cause),
        Err(error) => refused(error),
    };
    Ok(Command::Compound(Compound::new(sources, plan)))
}

/// `ZRANGESTORE`.
pub(in crate::kinds::zset) fn parse_range_store(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let target = args.blob(1)?;
    let select = Select::parse(args, 3, None, true)?;
    let reads = vec![(args.blob(2)?, AnyOp::ZSet(Op::Select(Box::new(select))))];
    let plan = move |replies: &[Reply]| match replies.first() {
        Some(Reply::Scored(found)) => {
            store(&target, Value::of(found.iter().cloned()), Cause::RankedRange)
        }
        Some(Reply::Error(error)) => refused(error.clone()),
        _ => store(&target, Value::default(), Cause::RankedRange),
    };
    Ok(Command::Compound(Compound::new(reads, plan)))
}

/// Key, and members with scores in pairs: the reply of `ZMPOP` and `BZMPOP`.
pub(in crate::kinds::zset) fn key_and_pairs(key: &Blob, taken: &[(Blob, f64)]) -> Reply {
    let pair = |(m, s): &(Blob, f64)| Reply::Array(vec![Reply::Bulk(m.clone()), Reply::Double(*s)]);
    Reply::Array(vec![Reply::Bulk(shown(key)), Reply::Array(taken.iter().map(pair).collect())])
}

/// `MIN | MAX [COUNT count]` at word `at`: whether from the high end, and how many.
pub(in crate::kinds::zset) fn parse_end(
    args: &Args<'_>,
    at: usize,
) -> Result<(bool, u64), ErrorReply> {
    let high = match () {
        () if args.is(at, "MIN") => false,
        () if args.is(at, "MAX") => true,
        () => return Err(ErrorReply::syntax()),
    };
    let count = match args.len() - at {
        1 => 1,
        3 if args.is(at + 1, "COUNT") => {
            args.at_least(at + 2, 1, "count should be greater than 0")?
        }
        _ => return Err(ErrorReply::syntax()),
    };
    Ok((high, count))
}

/// `ZMPOP`: looks at the keys in turn and takes from the first that has members.
pub(in crate::kinds::zset) fn parse_mpop(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (keys, after) = some_keys(args, 1)?;
    let (high, count) = parse_end(args, after)?;
    let last = i64::try_from(count - 1).unwrap_or(i64::MAX);
    let top = Select { range: crate::kinds::zset::Range::Rank(0, last), rev: high, ..Select::ALL };
    let top = AnyOp::ZSet(Op::Select(Box::new(top)));
    let reads = keys.iter().map(|key| (key.clone(), top.clone())).collect();
    let plan = move |replies: &[Reply]| {
        for (key, reply) in keys.iter().zip(replies) {
            match reply {
                Reply::Error(error) => return refused(error.clone()),
                Reply::Scored(found) if !found.is_empty() => {
                    let members = found.iter().map(|(member, _)| member.clone()).collect();
                    return Plan {
                        writes: vec![(key.clone(), AnyOp::ZSet(Op::Remove(members)))],
                        reply: key_and_pairs(key, found),
                    };
                }
                _ => {}
            }
        }
        Plan { writes: Vec::new(), reply: Reply::NilArray }
    };
    Ok(Command::Compound(Compound::new(reads, plan)))
}

/// The word for `NX` or `XX`, if any.
pub(in crate::kinds::zset) fn presence_word(presence: Presence) -> Option<&'static str> {
    match presence {
        Presence::Any => None,
        Presence::Absent => Some("nx"),
        Presence::Present => Some("xx"),
    }
}
