//! Counter: an integer made for contention.
//!
//! Redis' `INCR` answers the sum and so reveals to each caller its place in the order of all
//! others. `COUNTER.ADD` answers nothing: adds never conflict, observed or not, because the value
//! is wide enough (128 bits under 64-bit deltas) never to overflow. `COUNTER.TRY` keeps a counter
//! within bounds and answers whether it was applied; on a bounded counter two tries conflict for a
//! rule of pairs, since their verdicts may depend on the order, and go side by side as long as all
//! those outstanding fit ([`crate::escrow`]). `COUNTER.ATLEAST` conflicts only with adds that can
//! change its answer, and with none while all those outstanding leave it. A counter exists while it
//! is 0; an absent key counts as an unbounded 0.

use crate::command::commands;
use crate::escrow::{Amount, Quantity, Share};
use crate::{
    Access, ArgBuf, Args, Command, CommandSpec, Corrupt, Ctx, DataType, ErrorReply, Flags,
    Forecast, Foresight, Keys, Meta, Op as AnyOp, Reply, ValueSink, ValueSource,
};

/// Range of a counter, both ends included; `None` is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Lowest value.
    pub min: Option<i64>,
    /// Highest value.
    pub max: Option<i64>,
}

impl Bounds {
    fn hold(self, value: i128) -> bool {
        self.min.is_none_or(|min| value >= i128::from(min))
            && self.max.is_none_or(|max| value <= i128::from(max))
    }

    fn any(self) -> bool {
        self.min.is_some() || self.max.is_some()
    }
}

/// The state: a value within its bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    value: i128,
    bounds: Bounds,
}

/// Operations on a counter.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Replaces the value and the bounds; answers `OK`. The parser has checked that the value is
    /// within the bounds.
    Set(i64, Bounds),
    /// Adds and answers `OK`; refused on a bounded counter.
    Add(i64),
    /// Adds and answers the sum; refused if it would leave the bounds or 64 bits.
    Incr(i64),
    /// Adds if that keeps the bounds; answers 1 if it did, else 0.
    Try(i64),
    /// The value.
    Get,
    /// 1 if the value is at least this, else 0.
    AtLeast(i64),
    /// Lowest and highest value, nil for none.
    Bounds,
}

/// Farthest from 0 that a saved value may be: 2^62 adds away from overflow.
const VALUE_MAX: u128 = 1 << 126;

impl Value {
    fn int(value: i128) -> Reply {
        i64::try_from(value).map_or_else(
            |_| Reply::err("the counter is outside of the range of 64 bits"),
            Reply::Int,
        )
    }

    fn add(&mut self, delta: i64) -> Reply {
        if self.bounds.any() {
            return Reply::err("use COUNTER.TRY on a bounded counter");
        }
        match self.value.checked_add(i128::from(delta)) {
            Some(sum) => {
                self.value = sum;
                Reply::Ok
            }
            None => Reply::err("the counter would overflow"),
        }
    }

    fn incr(&mut self, delta: i64) -> Reply {
        let sum = self.value.saturating_add(i128::from(delta));
        if !self.bounds.hold(sum) {
            return Reply::err("the counter would leave its bounds");
        }
        let reply = Self::int(sum);
        if !reply.is_error() {
            self.value = sum;
        }
        reply
    }

    fn attempt(&mut self, delta: i64) -> Reply {
        let sum = self.value.checked_add(i128::from(delta)).filter(|sum| self.bounds.hold(*sum));
        self.value = sum.unwrap_or(self.value);
        Reply::Int(i64::from(sum.is_some()))
    }

    fn amount(&self) -> Amount {
        let (min, max) = (self.bounds.min.map(i128::from), self.bounds.max.map(i128::from));
        Amount { value: self.value, min, max }
    }

    fn at_least(&self, threshold: i64) -> bool {
        self.value >= i128::from(threshold)
    }
}

fn share(op: &Op) -> Option<Share> {
    match op {
        Op::Add(delta) | Op::Try(delta) => Some(Share::Change(*delta)),
        Op::AtLeast(threshold) => Some(Share::AtLeast(*threshold)),
        Op::Set(..) | Op::Incr(_) | Op::Get | Op::Bounds => None,
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "counter";
    const FORECAST: Option<Forecast<Self, Op>> = Some(Forecast {
        // All values have one size.
        reply: |value, op, ctx| Some(value.clone().apply(op, ctx, &mut Meta::default())),
        is_always_possible: |op| matches!(op, Op::Set(..) | Op::Try(_)),
    });
    const FORESIGHT: Option<Foresight<Self, Op>> =
        Some(Foresight { follows: |_| true, follows_in_time: |_| true, cost: |_| 1 });

    const COMMANDS: &'static [CommandSpec] = COMMANDS;
    const MODES: &'static [&'static str] = &["read", "add", "try", "increment", "set"];
    // An add changes no verdict of a try: without bounds there is only one, with bounds an add is
    // refused.
    const SHARED: [u8; 8] = [0b1, 0b110, 0b10, 0, 0, 0, 0, 0];

    const QUANTITY: Option<Quantity<Self, Op>> = Some(Quantity { share, amount: Self::amount });

    fn is_write(op: &Op) -> bool {
        matches!(op, Op::Set(..) | Op::Add(_) | Op::Incr(_) | Op::Try(_))
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn creates(op: &Op) -> bool {
        Self::is_write(op)
    }

    fn preserves_key(_op: &Op) -> bool {
        true
    }

    fn query(&self, op: &Op, _ctx: &Ctx) -> Reply {
        let bound = |b: Option<i64>| b.map_or(Reply::Nil, Reply::Int);
        match op {
            Op::Get => Self::int(self.value),
            Op::AtLeast(threshold) => Reply::Int(i64::from(self.at_least(*threshold))),
            Op::Bounds => Reply::Array(vec![bound(self.bounds.min), bound(self.bounds.max)]),
            _ => Reply::err("a write cannot be answered without being applied"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        let before = self.value;
        let reply = match op {
            Op::Set(value, bounds) => {
                *self = Self { value: i128::from(*value), bounds: *bounds };
                Reply::Ok
            }
            Op::Add(delta) => self.add(*delta),
            Op::Incr(delta) => self.incr(*delta),
            Op::Try(delta) => self.attempt(*delta),
            read => self.query(read, ctx),
        };
        meta.untouched = !matches!(op, Op::Set(..)) && self.value == before;
        reply
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        let unobserved = !a.observed && !b.observed;
        match (a.op, b.op) {
            (Op::Set(v, x), Op::Set(w, y)) => v == w && x == y,
            // Setting the current value changes nothing, so a read may be concurrent.
            (Op::Set(v, x), read) | (read, Op::Set(v, x)) if !Self::is_write(read) => {
                *x == self.bounds && i128::from(*v) == self.value
            }
            (Op::Set(..), _) | (_, Op::Set(..)) => false,
            // Only `SET` changes bounds.
            (Op::Bounds, _) | (_, Op::Bounds) => true,
            (Op::AtLeast(t), Op::Add(d) | Op::Incr(d) | Op::Try(d))
            | (Op::Add(d) | Op::Incr(d) | Op::Try(d), Op::AtLeast(t)) => {
                *d == 0 || (*d > 0) == self.at_least(*t)
            }
            (Op::Get, Op::Add(d) | Op::Incr(d) | Op::Try(d))
            | (Op::Add(d) | Op::Incr(d) | Op::Try(d), Op::Get) => {
                *d == 0
                    || (self.bounds.any()
                        && matches!((a.op, b.op), (Op::Add(_), _) | (_, Op::Add(_))))
            }
            (Op::Add(_), Op::Add(_) | Op::Try(_)) | (Op::Try(_), Op::Add(_)) => true,
            (Op::Try(d), Op::Try(e)) => !self.bounds.any() || (*d == 0 && *e == 0),
            // On a bounded counter an add is refused and changes nothing. Without bounds, a sum
            // that is observed fixes its place in the order, and one that is not observed may still
            // be refused at the end of the range.
            (Op::Incr(d), Op::Add(e) | Op::Try(e) | Op::Incr(e))
            | (Op::Add(e) | Op::Try(e), Op::Incr(d)) => {
                let refused =
                    self.bounds.any() && (matches!(a.op, Op::Add(_)) || matches!(b.op, Op::Add(_)));
                let middle = self.value.unsigned_abs() <= 1 << 62
                    && d.unsigned_abs() <= 1 << 40
                    && e.unsigned_abs() <= 1 << 40;
                refused || (*d == 0 && *e == 0) || (unobserved && middle && !self.bounds.any())
            }
            _ => !Self::is_write(a.op) && !Self::is_write(b.op),
        }
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        match access.op {
            Op::Add(_) => 1,
            Op::Try(_) => 2,
            Op::Incr(_) => 3,
            Op::Set(..) => 4,
            _ => 0,
        }
    }

    fn combine(earlier: &Op, next: &Op) -> Option<Op> {
        match (earlier, next) {
            (Op::Add(a), Op::Add(b)) => a.checked_add(*b).map(Op::Add),
            (_, Op::Set(..)) => Some(next.clone()),
            _ => None,
        }
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        match op {
            Op::Set(value, bounds) => {
                out.push("counter.set").push(key).push_int(*value);
                if let Some(min) = bounds.min {
                    out.push("min").push_int(min);
                }
                if let Some(max) = bounds.max {
                    out.push("max").push_int(max);
                }
                out
            }
            Op::Add(delta) => out.push("counter.add").push(key).push_int(*delta),
            Op::Incr(delta) => out.push("counter.incr").push(key).push_int(*delta),
            Op::Try(delta) => out.push("counter.try").push(key).push_int(*delta),
            Op::Get => out.push("counter.get").push(key),
            Op::AtLeast(threshold) => out.push("counter.atleast").push(key).push_int(*threshold),
            Op::Bounds => out.push("counter.bounds").push(key),
        };
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.number(self.value as u64);
        sink.number((self.value >> 64) as u64);
        for bound in [self.bounds.min, self.bounds.max] {
            sink.number(u64::from(bound.is_some()));
            sink.number(bound.unwrap_or(0) as u64);
        }
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let (low, high) = (source.number()?, source.number()?);
        let value = i128::from(high as i64) << 64 | i128::from(low);
        let mut bound = || match (source.number()?, source.number()?) {
            (0, 0) => Ok(None),
            (1, bound) => Ok(Some(bound as i64)),
            _ => Err(Corrupt),
        };
        let bounds = Bounds { min: bound()?, max: bound()? };
        let valid = bounds.hold(value) && value.unsigned_abs() <= VALUE_MAX;
        if valid { Ok(Self { value, bounds }) } else { Err(Corrupt) }
    }
}

fn one(args: &Args<'_>, op: Op) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, AnyOp::Counter(op)))
}

fn parse_set(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let value = args.int(2)?;
    let mut bounds = Bounds::default();
    let mut i = 3;
    while i < args.len() {
        if args.is(i, "MIN") && bounds.min.is_none() {
            bounds.min = Some(args.int(i + 1)?);
        } else if args.is(i, "MAX") && bounds.max.is_none() {
            bounds.max = Some(args.int(i + 1)?);
        } else {
            return Err(ErrorReply::syntax());
        }
        i += 2;
    }
    if !bounds.hold(i128::from(value)) {
        return Err(ErrorReply::err("the value must lie within MIN and MAX"));
    }
    one(args, Op::Set(value, bounds))
}

const READ: Flags = Flags::READ.and(Flags::FAST);
const GROWS: Flags = Flags::WRITE.and(Flags::GROWS).and(Flags::FAST);

const COMMANDS: &[CommandSpec] = commands! { "counter";
    ("counter.set", -3, GROWS, Keys::ONE,
        "Sets a counter and its bounds.", "key value [MIN low] [MAX high]", "O(1)") =>
        parse_set;
    ("counter.add", 3, GROWS, Keys::ONE,
        "Adds to an unbounded counter; adds never wait for each other.", "key delta", "O(1)") =>
        |a| one(a, Op::Add(a.int(2)?));
    ("counter.incr", 3, GROWS, Keys::ONE,
        "Adds to a counter and returns the sum.", "key delta", "O(1)") =>
        |a| one(a, Op::Incr(a.int(2)?));
    ("counter.try", 3, GROWS, Keys::ONE,
        "Adds to a counter if the sum is within its bounds; returns 1 if it did, else 0.", "key delta",
        "O(1)") =>
        |a| one(a, Op::Try(a.int(2)?));
    ("counter.get", 2, READ, Keys::ONE,
        "Returns a counter.", "key", "O(1)") =>
        |a| one(a, Op::Get);
    ("counter.atleast", 3, READ, Keys::ONE,
        "Returns 1 if a counter is at least a threshold, else 0.", "key threshold", "O(1)") =>
        |a| one(a, Op::AtLeast(a.int(2)?));
    ("counter.bounds", 2, READ, Keys::ONE,
        "Returns the lowest and the highest value that a counter may have, nil for none.", "key",
        "O(1)") =>
        |a| one(a, Op::Bounds);
};

#[cfg(test)]
pub(crate) fn samples() -> Vec<Op> {
    let bounded = Bounds { min: Some(0), max: Some(3) };
    vec![
        Op::Set(0, Bounds::default()),
        Op::Set(2, bounded),
        Op::Set(i64::MAX - 1, Bounds::default()),
        Op::Add(0),
        Op::Add(2),
        Op::Add(-1),
        Op::Incr(0),
        Op::Incr(1),
        Op::Incr(-2),
        Op::Try(0),
        Op::Try(1),
        Op::Try(-2),
        Op::Get,
        Op::AtLeast(0),
        Op::AtLeast(2),
        Op::Bounds,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::{check_laws, check_words, dialogue, escrow_violation};

    #[test]
    fn laws() {
        check_laws::<Value>(&samples(), 2);
        check_words(&samples().into_iter().map(AnyOp::Counter).collect::<Vec<_>>());
    }

    #[test]
    fn whatever_there_is_room_for_commutes_in_every_order_and_selection() {
        let more = [Op::Try(-1), Op::Set(3, Bounds { min: Some(-1), max: None }), Op::AtLeast(1)];
        let ops: Vec<Op> = samples().into_iter().chain(more).collect();
        assert_eq!(escrow_violation::<Value>(&ops, 2, false), None);
        assert!(escrow_violation::<Value>(&ops, 2, true).is_some(), "one is forgotten");
    }

    #[test]
    fn an_unbounded_counter_goes_beyond_64_bits_and_comes_back() {
        let outside = Reply::err("the counter is outside of the range of 64 bits");
        dialogue(&[
            ("counter.get k", Reply::Int(0)),
            ("counter.add k 9223372036854775807", Reply::Ok),
            ("counter.incr k 1", outside.clone()),
            ("counter.add k 1", Reply::Ok),
            ("counter.get k", outside),
            ("counter.atleast k 9223372036854775807", Reply::Int(1)),
            ("counter.add k -9223372036854775808", Reply::Ok),
            ("counter.get k", Reply::Int(0)),
            ("exists k", Reply::Int(1)),
            ("counter.bounds k", Reply::Array(vec![Reply::Nil, Reply::Nil])),
        ]);
    }

    #[test]
    fn a_bounded_counter_stays_within_its_bounds() {
        dialogue(&[
            ("counter.set k 4 min 0 max 3", Reply::err("the value must lie within MIN and MAX")),
            ("counter.set k 1 min 0 min 0", Reply::err("syntax error")),
            ("counter.set k 1 min 0 max 3", Reply::Ok),
            ("counter.add k 1", Reply::err("use COUNTER.TRY on a bounded counter")),
            ("counter.try k 3", Reply::Int(0)),
            ("counter.try k 2", Reply::Int(1)),
            ("counter.incr k 1", Reply::err("the counter would leave its bounds")),
            ("counter.incr k -3", Reply::Int(0)),
            ("counter.try k -1", Reply::Int(0)),
            ("counter.atleast k 1", Reply::Int(0)),
            ("counter.bounds k", Reply::Array(vec![Reply::Int(0), Reply::Int(3)])),
            ("get k", Reply::Error(ErrorReply::wrong_type())),
        ]);
    }

    #[test]
    fn adds_share_a_lock_whatever_is_seen() {
        let (a, b) = (AnyOp::Counter(Op::Add(1)), AnyOp::Counter(Op::Add(2)));
        let mode = |op, observed| crate::record::mode(Access { op, observed });
        assert!(mode(&a, true).shares(mode(&b, false)));
        assert_eq!(a.combine(&b), Some(AnyOp::Counter(Op::Add(3))));
    }
}
