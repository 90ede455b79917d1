//! Sorted set: distinct members, each with a score, in order of score and then bytes.
//!
//! Changes of different members commute with each other. On one member, changes commute when their
//! outcome does not depend on the order (`GT` with `GT`, the same score twice), and a change and a
//! read commute when the member moves outside of the range that the read depends on: `rules.rs`.
//! Replies, limits and error texts follow the Redis documentation of the `Z...` commands.

mod algebra;
mod commands;
mod order;
mod ranges;
mod rules;

pub(crate) use commands::INTERNAL;
pub use ranges::{LexBound, LexRange, Range, ScoreBound, ScoreRange, Select};

pub(crate) use order::Order;

use crate::collections;
use crate::command::scan::ScanArgs;
use crate::key::sort::{ElementsOf, Sortable};
use crate::random;
use crate::{
    Access, ArgBuf, Blob, CommandSpec, Corrupt, Ctx, DataType, ErrorReply, Forecast, Foresight,
    Meta, Reply, ValueSink, ValueSource, format_float, load_count,
};
use indexmap::map::Entry;
use smallvec::SmallVec;
use std::iter;

/// Members named by one operation; one is the usual number.
pub type Members = SmallVec<[Blob; 1]>;

/// Scores with members; one pair is the usual number.
pub type Pairs = SmallVec<[(f64, Blob); 1]>;

/// The state: the score of each member, and the members in order.
#[derive(Clone, Debug, Default)]
pub struct Value {
    scores: collections::Map<Blob, f64>,
    order: Order,
}

/// Compares scores only: they determine the order.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.scores == other.scores
    }
}

/// Which members a change applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// All.
    #[default]
    Any,
    /// `NX`: only absent ones.
    Absent,
    /// `XX`: only present ones.
    Present,
}

/// Which changes of a score are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// All.
    #[default]
    Any,
    /// `GT`: only to a higher score. An absent member is added.
    Raise,
    /// `LT`: only to a lower score. An absent member is added.
    Lower,
}

/// Conditions of `ZADD`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Only {
    /// `NX` or `XX`.
    pub presence: Presence,
    /// `GT` or `LT`.
    pub direction: Direction,
}

/// A change of one score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// To a score.
    To(f64),
    /// By a difference; an absent member counts as 0.
    By(f64),
}

impl Only {
    /// The new score of a member whose score is `old`; none if the conditions do not hold.
    fn outcome(self, change: Change, old: Option<f64>) -> Result<Option<f64>, ErrorReply> {
        match (self.presence, old) {
            (Presence::Absent, Some(_)) | (Presence::Present, None) => return Ok(None),
            _ => {}
        }
        let new = match change {
            Change::To(score) => score,
            Change::By(by) => old.unwrap_or(0.0) + by,
        };
        if new.is_nan() {
            return Err(ErrorReply::err("resulting score is not a number (NaN)"));
        }
        Ok(match (self.direction, old) {
            (Direction::Raise, Some(old)) if new <= old => None,
            (Direction::Lower, Some(old)) if new >= old => None,
            _ => Some(positive_zero(new)),
        })
    }
}

/// The score itself, but 0 for negative zero: equal scores have one representation.
fn positive_zero(score: f64) -> f64 {
    score + 0.0
}

/// Operations on a sorted set.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Sets scores; answers how many members are new.
    Add {
        /// Conditions.
        only: Only,
        /// `CH`: answers how many members are new or changed.
        ch: bool,
        /// Scores and members, applied one after another.
        pairs: Pairs,
    },
    /// Changes a score by a difference; answers the new score, or nil if a condition fails.
    Incr {
        /// Conditions.
        only: Only,
        /// The difference.
        by: f64,
        /// The member.
        member: Blob,
    },
    /// Removes members; answers how many were there.
    Remove(Members),
    /// Removes the members in a range; answers how many there were.
    RemoveRange(Range),
    /// Removes and answers the lowest or highest member, or up to a number of them.
    Pop {
        /// From the high end.
        high: bool,
        /// Most members to remove; `None` removes one.
        count: Option<u64>,
    },
    /// [`Op::Pop`], but answers nil if there is no member.
    Take {
        /// From the high end.
        high: bool,
        /// Most members to take.
        count: u64,
    },
    /// The score of a member.
    Score(Blob),
    /// The score of each member.
    Scores(Members),
    /// Number of members.
    Card,
    /// Number of members in a range of scores or of bytes.
    Count(Range),
    /// Number of members before a member.
    Rank {
        /// The member.
        member: Blob,
        /// Counts from the high end.
        rev: bool,
        /// Answers the score too.
        with_score: bool,
    },
    /// The members in a range.
    Select(Box<Select>),
    /// One step of an iteration.
    Scan(ScanArgs),
    /// Arbitrary members: one; or distinct ones up to a number; or, for a negative number, that
    /// many with repetitions.
    Random {
        /// Number of members to answer.
        count: Option<i64>,
        /// Answers scores too.
        with_scores: bool,
    },
}

impl Value {
    /// A sorted set of these members. The last score of a member counts.
    pub(crate) fn of(scored: impl IntoIterator<Item = (Blob, f64)>) -> Self {
        let mut value = Self::default();
        for (member, score) in scored {
            value.set(member, score);
        }
        value
    }

    fn set(&mut self, member: Blob, score: f64) {
        // Setting a score without conditions cannot fail.
        let _ = self.change(Only::default(), Change::To(score), member);
    }

    /// Changes one score. Gives the old and the new one, or nothing if a condition fails.
    #[allow(clippy::type_complexity)]
    fn change(
        &mut self,
        only: Only,
        change: Change,
        member: Blob,
    ) -> Result<Option<(Option<f64>, f64)>, ErrorReply> {
        match self.scores.entry(member) {
            Entry::Occupied(mut entry) => {
                let old = *entry.get();
                let Some(new) = only.outcome(change, Some(old))? else { return Ok(None) };
                if new != old {
                    *entry.get_mut() = new;
                    if let Some(member) = self.order.remove(old, entry.key()) {
                        self.order.insert(new, member);
                    }
                }
                Ok(Some((Some(old), new)))
            }
            Entry::Vacant(entry) => {
                let Some(new) = only.outcome(change, None)? else { return Ok(None) };
                self.order.insert(new, entry.key().clone());
                entry.insert(new);
                Ok(Some((None, new)))
            }
        }
    }

    fn add(&mut self, only: Only, ch: bool, pairs: &Pairs, meta: &mut Meta) -> Reply {
        let (mut added, mut moved) = (0, 0);
        for (score, member) in pairs {
            match self.change(only, Change::To(*score), member.clone()) {
                Ok(Some((None, _))) => added += 1,
                Ok(Some((Some(old), new))) if old != new => moved += 1,
                Ok(_) => {}
                Err(error) => return error.into(),
            }
        }
        meta.untouched = added + moved == 0;
        Reply::Int(if ch { added + moved } else { added })
    }

    fn remove(&mut self, member: &Blob) -> bool {
        let Some(score) = self.scores.swap_remove(member) else { return false };
        self.order.remove(score, member);
        true
    }

    /// Members of a choice that are in the sorted set.
    fn part<'a>(&self, members: impl Iterator<Item = &'a Blob>) -> Self {
        Self::of(members.filter_map(|m| self.scores.get(m).map(|score| (m.clone(), *score))))
    }

    /// Up to a number of members from an end on.
    fn at_end(&self, high: bool, count: u64) -> Vec<(Blob, f64)> {
        let count = count.min(self.order.len() as u64) as usize;
        let start = if high { self.order.len().wrapping_sub(1) } else { 0 };
        self.order.walk(start, high).take(count).map(|(s, m)| (m.clone(), s)).collect()
    }

    fn pop(&mut self, high: bool, count: u64) -> Vec<(Blob, f64)> {
        let taken = self.at_end(high, count);
        for (member, _) in &taken {
            self.remove(member);
        }
        taken
    }

    fn remove_range(&mut self, range: &Range) -> Reply {
        let select = Select { range: range.clone(), ..Select::ALL };
        let found = self.select(&select);
        for (member, _) in &found {
            self.remove(member);
        }
        Reply::Int(found.len() as i64)
    }

    fn score(&self, member: &Blob) -> Reply {
        self.scores.get(member).map_or(Reply::Nil, |score| Reply::Double(*score))
    }

    fn rank(&self, member: &Blob, rev: bool, with_score: bool) -> Reply {
        let Some(&score) = self.scores.get(member) else {
            return if with_score { Reply::NilArray } else { Reply::Nil };
        };
        let rank = self.order.rank(score, member);
        let rank = if rev { self.order.len() - 1 - rank } else { rank };
        let rank = Reply::Int(rank as i64);
        if with_score { Reply::Array(vec![rank, Reply::Double(score)]) } else { rank }
    }

    fn random(&self, count: i64, seed: u64) -> Vec<(Blob, f64)> {
        let chosen = random::choose(self.scores.len(), count, seed).into_iter();
        chosen.filter_map(|i| self.scores.get_index(i)).map(|(m, s)| (m.clone(), *s)).collect()
    }

    fn random_reply(&self, count: Option<i64>, with_scores: bool, seed: u64) -> Reply {
        let found = self.random(count.unwrap_or(1), seed);
        let mut members = found.iter().map(|(member, _)| Reply::Bulk(member.clone()));
        match count {
            None => members.next().unwrap_or(Reply::Nil),
            Some(_) if with_scores => Reply::Scored(found),
            Some(_) => Reply::Array(members.collect()),
        }
    }

    fn scan(&self, scan: &ScanArgs) -> Reply {
        scan.run(self.scores.len(), |i, found| {
            if let Some((member, score)) = self.scores.get_index(i)
                && scan.passes(member)
            {
                found.push(Reply::Bulk(member.clone()));
                found.push(Reply::bulk(format_float(*score)));
            }
        })
    }

    /// Reply of a write that is not carried out: that of what it names, of an end or of a range.
    fn foretell(&self, op: &Op, ctx: &Ctx) -> Option<Reply> {
        let mut part = match op {
            Op::Add { pairs, .. } => self.part(pairs.iter().map(|(_, member)| member)),
            Op::Incr { member, .. } => self.part(iter::once(member)),
            Op::Remove(members) => self.part(members.iter()),
            Op::RemoveRange(range) => {
                let (_, count) = self.slice(range, false)?;
                return Some(Reply::Int(count as i64));
            }
            op => return taking(op, |high, count| self.at_end(high, count)),
        };
        Some(part.apply(op, ctx, &mut Meta::default()))
    }

    /// Whether no value answers a write with an error.
    fn is_always_possible(op: &Op) -> bool {
        match op {
            Op::Add { pairs, .. } => pairs.iter().all(|(score, _)| !score.is_nan()),
            op => !matches!(op, Op::Incr { .. }),
        }
    }
}

/// Reply of an operation that takes members from an end, which are given the end and their number. `None` if
/// it is another operation.
fn taking(op: &Op, members: impl FnOnce(bool, u64) -> Vec<(Blob, f64)>) -> Option<Reply> {
    Some(match op {
        // Two elements, not a pair in an array.
        Op::Pop { high, count: None } => {
            let flat = |(member, score)| vec![Reply::Bulk(member), Reply::Double(score)];
            Reply::Array(members(*high, 1).into_iter().next().map(flat).unwrap_or_default())
        }
        Op::Pop { high, count: Some(count) } => Reply::Scored(members(*high, *count)),
        Op::Take { high, count } => match members(*high, *count) {
            taken if taken.is_empty() => Reply::Nil,
            taken => Reply::Scored(taken),
        },
        _ => return None,
    })
}

/// Most pairs that [`DataType::combine`] gathers in one operation.
const COMBINED_MAX: usize = 1024;

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "zset";
    const FORECAST: Option<Forecast<Self, Op>> =
        Some(Forecast { reply: Self::foretell, is_always_possible: Self::is_always_possible });
    const ELEMENTS: Option<ElementsOf<Self>> = Some(|value| {
        let items = Box::new(value.order.walk(0, false).map(|(_, member)| member.clone()));
        Sortable { count: value.order.len(), ordered: true, items }
    });
    const FORESIGHT: Option<Foresight<Self, Op>> = Some(Foresight {
        follows: |_| true,
        follows_in_time: |_| true,
        cost: |value| value.scores.len(),
    });

    const COMMANDS: &'static [CommandSpec] = commands::COMMANDS;
    const MODES: &'static [&'static str] =
        &["read", "remove", "raise", "lower", "add", "increment", "pop", "remove range"];
    const SHARED: [u8; 8] = [0b1, 0b10, 0b100, 0b1000, 0, 0, 0, 0];

    fn is_write(op: &Op) -> bool {
        matches!(
            op,
            Op::Add { .. }
                | Op::Incr { .. }
                | Op::Remove(_)
                | Op::RemoveRange(_)
                | Op::Pop { .. }
                | Op::Take { .. }
        )
    }

    fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    fn creates(op: &Op) -> bool {
        match op {
            Op::Add { only, .. } | Op::Incr { only, .. } => only.presence != Presence::Present,
            _ => false,
        }
    }

    fn preserves_key(op: &Op) -> bool {
        matches!(op, Op::Add { .. } | Op::Incr { .. })
    }

    fn query(&self, op: &Op, ctx: &Ctx) -> Reply {
        match op {
            Op::Score(member) => self.score(member),
            Op::Scores(members) => Reply::Array(members.iter().map(|m| self.score(m)).collect()),
            Op::Card => Reply::Int(self.scores.len() as i64),
            Op::Count(range) => Reply::Int(self.count(range) as i64),
            Op::Rank { member, rev, with_score } => self.rank(member, *rev, *with_score),
            Op::Select(select) => self.select_reply(select),
            Op::Scan(scan) => self.scan(scan),
            Op::Random { count, with_scores } => self.random_reply(*count, *with_scores, ctx.seed),
            _ => Reply::err("not a read"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        let before = self.scores.len();
        let reply = match op {
            Op::Add { only, ch, pairs } => return self.add(*only, *ch, pairs, meta),
            Op::Incr { only, by, member } => {
                let change = self.change(*only, Change::By(*by), member.clone());
                meta.untouched = !matches!(change, Ok(Some((old, new))) if old != Some(new));
                return match change {
                    Ok(Some((_, new))) => Reply::Double(new),
                    Ok(None) => Reply::Nil,
                    Err(error) => error.into(),
                };
            }
            Op::Remove(members) => {
                let mut removed = 0;
                for member in members {
                    removed += i64::from(self.remove(member));
                }
                Reply::Int(removed)
            }
            Op::RemoveRange(range) => self.remove_range(range),
            op => taking(op, |high, count| self.pop(high, count))
                .unwrap_or_else(|| self.query(op, ctx)),
        };
        meta.untouched = self.scores.len() == before;
        reply
    }

    fn may_be_idle(op: &Op) -> bool {
        Self::is_write(op)
    }

    fn idle(&self, op: &Op, _now_ms: u64) -> Option<Reply> {
        let counts = matches!(op, Op::Add { .. } | Op::Remove(_) | Op::RemoveRange(_));
        (counts && rules::is_idle(self, op)).then_some(Reply::Int(0))
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        rules::commute(self, a, b)
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        match access.op {
            Op::Remove(_) if !access.observed => 1,
            Op::Add { only: Only { presence: Presence::Any, direction }, .. }
                if !access.observed && *direction != Direction::Any =>
            {
                if *direction == Direction::Raise { 2 } else { 3 }
            }
            Op::Add { .. } => 4,
            Op::Incr { .. } => 5,
            Op::Pop { .. } | Op::Take { .. } => 6,
            Op::Remove(_) | Op::RemoveRange(_) => 7,
            _ => 0,
        }
    }

    fn combine(earlier: &Op, next: &Op) -> Option<Op> {
        match (earlier, next) {
            (Op::Add { only, ch, pairs: a }, Op::Add { only: other, ch: _, pairs: b })
                if only == other && a.len() + b.len() <= COMBINED_MAX =>
            {
                let pairs = a.iter().chain(b).cloned().collect();
                Some(Op::Add { only: *only, ch: *ch, pairs })
            }
            (Op::Remove(a), Op::Remove(b)) if a.len() + b.len() <= COMBINED_MAX => {
                Some(Op::Remove(a.iter().chain(b).cloned().collect()))
            }
            _ => None,
        }
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        commands::encode(op, key, out);
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.number(self.scores.len() as u64);
        for (member, score) in &self.scores {
            sink.bytes(member);
            sink.number(score.to_bits());
        }
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let count = load_count(source, 2)?;
        let mut value = Self::default();
        for _ in 0..count {
            let member = Blob::new(source.bytes()?);
            let score = f64::from_bits(source.number()?);
            if score.is_nan() || value.scores.contains_key(&member) {
                return Err(Corrupt);
            }
            value.set(member, score);
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
