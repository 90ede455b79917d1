//! TopK: the k best items by score.
//!
//! Each item keeps its highest score, items are ordered by score and then bytes, and only the k
//! best are kept. This is a join of a semilattice: puts commute with each other in every state,
//! whereas overwriting an item's score would not once an item has been cut off. The threshold for
//! being kept only rises, so a put that does not affect a read now never will, which makes the
//! rules for puts beside reads stable.

use super::zset::Order;
use crate::command::commands;
use crate::{
    Access, ArgBuf, Args, Blob, Command, CommandSpec, Corrupt, Ctx, DataType, ErrorReply, Flags,
    Forecast, Foresight, Keys, Meta, Op as AnyOp, Reply, ValueSink, ValueSource, collections,
    load_count,
};
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Scores with items; one pair is the usual number.
pub type Pairs = SmallVec<[(f64, Blob); 1]>;

/// Default number of items to keep.
pub const CAPACITY_DEFAULT: u64 = 10;

/// Most items that can be kept.
pub const CAPACITY_MAX: u64 = 1_000_000;

/// Most pairs that [`DataType::combine`] gathers in one operation.
const COMBINED_MAX: usize = 1024;

/// The state: the items that are kept, with their highest scores.
#[derive(Clone, Debug)]
pub struct Value {
    capacity: usize,
    scores: collections::Map<Blob, f64>,
    order: Order,
}

impl Default for Value {
    fn default() -> Self {
        let capacity = CAPACITY_DEFAULT as usize;
        Self { capacity, scores: collections::Map::default(), order: Order::default() }
    }
}

/// Compares scores only: they determine the order.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        (self.capacity, &self.scores) == (other.capacity, &other.scores)
    }
}

/// Operations on the k best items.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Creates an empty value that keeps this many items; answers `OK`.
    Init(u64),
    /// Offers items; answers `OK`, whether they are kept or not.
    Put(Pairs),
    /// The best items, best first.
    Best {
        /// Most items to answer.
        count: Option<u64>,
        /// Answers scores too.
        with_scores: bool,
    },
    /// Number of items that are kept.
    Count,
    /// Number of items that are better than an item; nil if it is not kept.
    RankOf(Blob),
    /// Most items that are kept.
    Capacity,
}

fn compare(a: (f64, &Blob), b: (f64, &Blob)) -> Ordering {
    a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1))
}

impl Value {
    /// Offers an item; returns whether it has an effect.
    fn put(&mut self, score: f64, item: &Blob) -> bool {
        if !self.changes(score, item) {
            return false;
        }
        if let Some(old) = self.scores.insert(item.clone(), score) {
            self.order.remove(old, item);
        }
        self.order.insert(score, item.clone());
        if self.scores.len() > self.capacity
            && let Some((score, worst)) = self.order.first().map(|(s, i)| (s, i.clone()))
        {
            self.order.remove(score, &worst);
            self.scores.swap_remove(&worst);
        }
        true
    }

    /// Whether offering an item has an effect. An offer without effect stays without one for ever.
    fn changes(&self, score: f64, item: &Blob) -> bool {
        match self.scores.get(item) {
            Some(old) => score > *old,
            None if self.scores.len() < self.capacity => true,
            None => self.order.first().is_some_and(|worst| compare((score, item), worst).is_gt()),
        }
    }

    fn best(&self, count: Option<u64>, with_scores: bool) -> Reply {
        let count = usize::try_from(count.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let best = self.order.walk(self.order.len().wrapping_sub(1), true).take(count);
        if with_scores {
            Reply::Scored(best.map(|(score, item)| (item.clone(), score)).collect())
        } else {
            Reply::Array(best.map(|(_, item)| Reply::Bulk(item.clone())).collect())
        }
    }

    /// Whether an offer that has an effect leaves the answer of `read` as it is.
    fn unseen(&self, score: f64, item: &Blob, read: &Op) -> bool {
        let below = |other: (f64, &Blob)| compare((score, item), other).is_lt();
        match read {
            Op::Capacity => true,
            Op::Count => self.scores.contains_key(item) || self.scores.len() == self.capacity,
            Op::Best { count: Some(0), .. } => true,
            Op::Best { count, .. } => {
                let last = count.and_then(|count| usize::try_from(count).ok());
                let last = last.and_then(|last| self.order.len().checked_sub(last));
                last.and_then(|rank| self.order.get(rank)).is_some_and(below)
            }
            Op::RankOf(other) if other == item => false,
            Op::RankOf(other) => match self.scores.get(other) {
                None => true,
                Some(&theirs) => {
                    let better = |own: &f64| compare((*own, item), (theirs, other)).is_gt();
                    self.scores.get(item).is_some_and(better) || below((theirs, other))
                }
            },
            Op::Init(_) | Op::Put(_) => false,
        }
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "topk";
    const FORECAST: Option<Forecast<Self, Op>> = Some(Forecast {
        reply: |_, op, _| matches!(op, Op::Put(_)).then_some(Reply::Ok),
        is_always_possible: |op| matches!(op, Op::Put(_)),
    });
    const FORESIGHT: Option<Foresight<Self, Op>> = Some(Foresight {
        follows: |_| true,
        follows_in_time: |_| true,
        cost: |value| value.scores.len(),
    });

    const COMMANDS: &'static [CommandSpec] = COMMANDS;
    const MODES: &'static [&'static str] = &["read", "put", "init"];
    const SHARED: [u8; 8] = [0b1, 0b10, 0, 0, 0, 0, 0, 0];

    fn is_write(op: &Op) -> bool {
        matches!(op, Op::Init(_) | Op::Put(_))
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn creates(op: &Op) -> bool {
        Self::is_write(op)
    }

    fn preserves_key(op: &Op) -> bool {
        Self::is_write(op)
    }

    fn query(&self, op: &Op, _ctx: &Ctx) -> Reply {
        match op {
            Op::Best { count, with_scores } => self.best(*count, *with_scores),
            Op::Count => Reply::Int(self.scores.len() as i64),
            Op::Capacity => Reply::Int(self.capacity as i64),
            Op::RankOf(item) => self.scores.get(item).map_or(Reply::Nil, |score| {
                let rank = self.order.rank(*score, item);
                Reply::Int((self.order.len() - 1 - rank) as i64)
            }),
            Op::Init(_) | Op::Put(_) => Reply::err("not a read"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        match op {
            Op::Init(capacity) if meta.present && *capacity != self.capacity as u64 => {
                Reply::err(format!("the key exists already, with capacity {}", self.capacity))
            }
            Op::Init(capacity) => {
                meta.untouched = meta.present;
                self.capacity = *capacity as usize;
                Reply::Ok
            }
            Op::Put(pairs) => {
                meta.untouched = true;
                for (score, item) in pairs {
                    meta.untouched &= !self.put(*score, item);
                }
                Reply::Ok
            }
            read => self.query(read, ctx),
        }
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        match (a.op, b.op) {
            (Op::Init(_), _) | (_, Op::Init(_)) => false,
            (Op::Put(_), Op::Put(_)) => true,
            (Op::Put(pairs), read) | (read, Op::Put(pairs)) => pairs.iter().all(|(score, item)| {
                !self.changes(*score, item) || self.unseen(*score, item, read)
            }),
            _ => true,
        }
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        match access.op {
            Op::Put(_) => 1,
            Op::Init(_) => 2,
            _ => 0,
        }
    }

    fn combine(earlier: &Op, next: &Op) -> Option<Op> {
        let (Op::Put(a), Op::Put(b)) = (earlier, next) else { return None };
        if a.len() + b.len() > COMBINED_MAX {
            return None;
        }
        let mut best: collections::Map<&Blob, f64> = collections::Map::default();
        for (score, item) in a.iter().chain(b) {
            let kept = best.entry(item).or_insert(*score);
            *kept = kept.max(*score);
        }
        Some(Op::Put(best.into_iter().map(|(item, score)| (score, item.clone())).collect()))
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        match op {
            Op::Init(capacity) => {
                out.push("topk.init").push(key).push_int(*capacity as i64);
            }
            Op::Put(pairs) => {
                out.push("topk.put").push(key);
                for (score, item) in pairs {
                    out.push(item).push_float(*score);
                }
            }
            Op::Best { count, with_scores } => {
                out.push("topk.best").push(key);
                if let Some(count) = count {
                    out.push_int(*count as i64);
                }
                if *with_scores {
                    out.push("withscores");
                }
            }
            Op::Count => {
                out.push("topk.count").push(key);
            }
            Op::RankOf(item) => {
                out.push("topk.rankof").push(key).push(item);
            }
            Op::Capacity => {
                out.push("topk.capacity").push(key);
            }
        }
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.number(self.capacity as u64);
        sink.number(self.scores.len() as u64);
        for (item, score) in &self.scores {
            sink.bytes(item);
            sink.number(score.to_bits());
        }
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let capacity = source.number()?;
        let count = load_count(source, 2)?;
        if !(1..=CAPACITY_MAX).contains(&capacity) || count as u64 > capacity {
            return Err(Corrupt);
        }
        let mut value = Self { capacity: capacity as usize, ..Self::default() };
        for _ in 0..count {
            let item = Blob::new(source.bytes()?);
            let score = f64::from_bits(source.number()?);
            if score.is_nan() || value.scores.contains_key(&item) {
                return Err(Corrupt);
            }
            value.put(score + 0.0, &item);
        }
        Ok(value)
    }
}

fn one(args: &Args<'_>, op: Op) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, AnyOp::TopK(op)))
}

fn parse_init(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let capacity = u64::try_from(args.int(2)?).ok();
    let capacity = capacity.filter(|c| (1..=CAPACITY_MAX).contains(c)).ok_or_else(|| {
        ErrorReply::err(format!("the capacity must be between 1 and {CAPACITY_MAX}"))
    })?;
    one(args, Op::Init(capacity))
}

fn parse_put(args: &Args<'_>) -> Result<Command, ErrorReply> {
    if !args.len().is_multiple_of(2) {
        return Err(ErrorReply::syntax());
    }
    // Adding 0 makes negative zero positive, so that equal scores have one representation.
    let pair = |i: usize| Ok((args.float(i + 1)? + 0.0, args.blob(i)?));
    let pairs = (2..args.len()).step_by(2).map(pair).collect::<Result<_, ErrorReply>>()?;
    one(args, Op::Put(pairs))
}

fn parse_best(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let with_scores = args.len() > 2 && args.is(args.len() - 1, "WITHSCORES");
    let count = match args.len() - usize::from(with_scores) {
        2 => None,
        3 => Some(
            u64::try_from(args.int(2)?)
                .map_err(|_| ErrorReply::err("value is out of range, must be positive"))?,
        ),
        _ => return Err(ErrorReply::syntax()),
    };
    one(args, Op::Best { count, with_scores })
}

const READ: Flags = Flags::READ;
const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const GROWS: Flags = Flags::WRITE.and(Flags::GROWS).and(Flags::FAST);

const COMMANDS: &[CommandSpec] = commands! { "topk";
    ("topk.init", 3, GROWS, Keys::ONE,
        "Creates a value that keeps the given number of best items.", "key capacity", "O(1)") =>
        parse_init;
    ("topk.put", -4, GROWS, Keys::ONE,
        "Offers items; each keeps its highest score, and only the best items are kept.",
        "key item score [item score ...]", "O(log n) per item") =>
        parse_put;
    ("topk.best", -2, READ, Keys::ONE,
        "Returns the best items, best first.", "key [count] [WITHSCORES]", "O(m) for m returned") =>
        parse_best;
    ("topk.count", 2, FAST_READ, Keys::ONE,
        "Counts the items that are kept.", "key", "O(1)") =>
        |a| one(a, Op::Count);
    ("topk.rankof", 3, FAST_READ, Keys::ONE,
        "Returns how many items are better than an item.", "key item", "O(log n)") =>
        |a| one(a, Op::RankOf(a.blob(2)?));
    ("topk.capacity", 2, FAST_READ, Keys::ONE,
        "Returns how many items are kept at most.", "key", "O(1)") =>
        |a| one(a, Op::Capacity);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws;

    fn put(pairs: &[(f64, &str)]) -> Op {
        Op::Put(pairs.iter().map(|(score, item)| (*score, Blob::from(*item))).collect())
    }

    fn samples() -> Vec<Op> {
        vec![
            Op::Init(1),
            Op::Init(2),
            put(&[(1.0, "a")]),
            put(&[(2.0, "a")]),
            put(&[(1.0, "b")]),
            put(&[(3.0, "b")]),
            put(&[(2.0, "c"), (1.5, "a")]),
            put(&[(3.0, "d")]),
            Op::Best { count: None, with_scores: true },
            Op::Best { count: Some(1), with_scores: false },
            Op::Best { count: Some(2), with_scores: true },
            Op::Count,
            Op::RankOf("a".into()),
            Op::RankOf("b".into()),
            Op::Capacity,
        ]
    }

    #[test]
    fn laws_hold() {
        laws::check_laws::<Value>(&samples(), 3);
    }

    #[test]
    fn the_best_are_kept_with_their_highest_scores() {
        let bulk = |text: &str| Reply::bulk(text);
        laws::dialogue(&[
            ("topk.capacity k", Reply::Int(10)),
            ("topk.init k 2", Reply::Ok),
            ("topk.init k 2", Reply::Ok),
            ("topk.init k 3", Reply::err("the key exists already, with capacity 2")),
            ("topk.put k a 5 b 1 a 3 c 2", Reply::Ok),
            ("topk.best k withscores", Reply::Scored(vec![("a".into(), 5.0), ("c".into(), 2.0)])),
            ("topk.put k b 2", Reply::Ok),
            ("topk.rankof k b", Reply::Nil),
            ("topk.put k d 2", Reply::Ok),
            ("topk.best k", Reply::Array(vec![bulk("a"), bulk("d")])),
            ("topk.rankof k d", Reply::Int(1)),
            ("topk.best k 0", Reply::Array(vec![])),
            ("topk.count k", Reply::Int(2)),
            ("topk.init l 0", Reply::err("the capacity must be between 1 and 1000000")),
            ("topk.put k a", Reply::err("wrong number of arguments for 'topk.put' command")),
            ("topk.put k a nan", Reply::Error(ErrorReply::not_float())),
        ]);
    }

    #[test]
    fn combined_puts_keep_the_highest_score_of_each_item() {
        let both = Value::combine(&put(&[(1.0, "a"), (4.0, "b")]), &put(&[(2.0, "a")]));
        assert_eq!(both, Some(put(&[(2.0, "a"), (4.0, "b")])));
        assert_eq!(Value::combine(&put(&[(1.0, "a")]), &Op::Init(1)), None);
    }
}
