//! UID: identifiers that are unique for ever and promise no order.
//!
//! Redis' `INCR` as a source of identifiers reveals to every caller its place among all others, so
//! that callers have to wait for each other. An identifier that only needs to be new comes from the
//! commit timestamp, which no other transaction has: the answer does not depend on the state, and
//! any number of transactions draw identifiers from one key at the same time. The state is the
//! number of issued identifiers, and the place within the last timestamp, for transactions that
//! draw repeatedly.

use crate::command::commands;
use crate::{
    Access, ArgBuf, Args, Blob, Command, CommandSpec, Compound, Corrupt, Ctx, DataType, ErrorReply,
    Flags, Forecast, Keys, Meta, Op as AnyOp, Plan, Reply, Timestamp, ValueSink, ValueSource,
};

/// The state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    issued: u64,
    /// Highest timestamp at which identifiers were drawn, and their number at that timestamp.
    last: (Timestamp, u64),
}

/// Operations on a source of identifiers.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Issues one identifier, or an array of them.
    Next(Option<u64>),
    /// Number of issued identifiers.
    Issued,
    /// Reply of [`Op::Next`], if it were carried out now.
    Peek(Option<u64>),
    /// Issues the identifiers that [`Op::Peek`] has told: those at a timestamp from a place on.
    Give {
        /// The timestamp.
        ts: Timestamp,
        /// The first place.
        first: u64,
        /// Number of identifiers.
        count: u64,
    },
}

/// Most identifiers that one operation issues.
pub const COUNT_MAX: u64 = 10_000;

/// The base-32 digits of Crockford, which leave out letters that resemble others.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The identifier at place `index` of those drawn at a timestamp: 13 digits, then the place.
fn identifier(ts: Timestamp, index: u64) -> Blob {
    let digits = (0..13).rev().map(|i| char::from(DIGITS[(ts.0 >> (5 * i)) as usize & 31]));
    Blob::from(format!("{}-{index}", digits.collect::<String>()))
}

/// Timestamp and place of an identifier.
fn place(id: &[u8]) -> Option<(Timestamp, u64)> {
    let (digits, index) = id.split_at_checked(13)?;
    let digit = |d: &u8| DIGITS.iter().position(|other| other == d);
    let ts = digits.iter().try_fold(0u64, |ts, d| Some(ts << 5 | digit(d)? as u64))?;
    let index = crate::parse_int(index.strip_prefix(b"-")?).ok()?;
    Some((Timestamp(ts), u64::try_from(index).ok()?))
}

/// Reply with the identifiers at a timestamp from a place on.
fn reply_of(ts: Timestamp, first: u64, count: Option<u64>) -> Reply {
    let issue = |i| Reply::Bulk(identifier(ts, first + i));
    match count {
        None => issue(0),
        Some(count) => Reply::Array((0..count).map(issue).collect()),
    }
}

impl Value {
    /// The first free place at a timestamp.
    fn free(&self, ts: Timestamp) -> u64 {
        if self.last.0 == ts { self.last.1 } else { 0 }
    }

    /// Takes `count` places at a timestamp; gives the first.
    fn draw(&mut self, ts: Timestamp, count: u64) -> u64 {
        self.issued = self.issued.saturating_add(count);
        let first = self.free(ts);
        if self.last.0 <= ts {
            self.last = (ts, first + count);
        }
        first
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "uid";
    const FORECAST: Option<Forecast<Self, Op>> =
        Some(Forecast { reply: |_, _, _| None, is_always_possible: |_| true });
    const COMMANDS: &'static [CommandSpec] = COMMANDS;
    const MODES: &'static [&'static str] = &["read", "next", "give"];
    const SHARED: [u8; 8] = [0b1, 0b10, 0, 0, 0, 0, 0, 0];

    fn is_write(op: &Op) -> bool {
        matches!(op, Op::Next(_) | Op::Give { .. })
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn creates(op: &Op) -> bool {
        matches!(op, Op::Next(_) | Op::Give { .. })
    }

    fn preserves_key(op: &Op) -> bool {
        matches!(op, Op::Next(_) | Op::Give { .. })
    }

    fn query(&self, op: &Op, ctx: &Ctx) -> Reply {
        match op {
            Op::Issued => Reply::Int(i64::try_from(self.issued).unwrap_or(i64::MAX)),
            Op::Peek(count) => reply_of(ctx.ts, self.free(ctx.ts), *count),
            Op::Next(_) | Op::Give { .. } => Reply::err("not a read"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, _meta: &mut Meta) -> Reply {
        match op {
            Op::Next(count) => reply_of(ctx.ts, self.draw(ctx.ts, count.unwrap_or(1)), *count),
            Op::Give { ts, first, count } => {
                self.issued = self.issued.saturating_add(*count);
                self.last = self.last.max((*ts, first.saturating_add(*count)));
                Reply::Ok
            }
            read => self.query(read, ctx),
        }
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        let mode = Self::mode(a);
        mode == Self::mode(b) && mode < 2
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        match access.op {
            Op::Issued | Op::Peek(_) => 0,
            Op::Next(_) => 1,
            Op::Give { .. } => 2,
        }
    }

    fn chosen_first(key: &Blob, op: &Op) -> Option<Compound> {
        let Op::Next(count) = op else { return None };
        let (target, number) = (key.clone(), count.unwrap_or(1));
        let plan = move |replies: &[Reply]| {
            let reply = replies.first().cloned().unwrap_or(Reply::Nil);
            let first = match &reply {
                Reply::Bulk(id) => place(id),
                Reply::Array(ids) => match ids.first() {
                    Some(Reply::Bulk(id)) => place(id),
                    _ => None,
                },
                _ => None,
            };
            let give =
                |(ts, first)| (target.clone(), AnyOp::Uid(Op::Give { ts, first, count: number }));
            Plan { writes: first.map(give).into_iter().collect(), reply }
        };
        let reads = vec![(key.clone(), AnyOp::Uid(Op::Peek(*count)))];
        Some(Compound::new(reads, plan))
    }

    fn combine(_earlier: &Op, _next: &Op) -> Option<Op> {
        None
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        match op {
            Op::Next(count) | Op::Peek(count) => {
                let is_read = matches!(op, Op::Peek(_));
                out.push(if is_read { "uid.peek" } else { "uid.next" }).push(key);
                if let Some(count) = count {
                    out.push("count").push_int(*count as i64);
                }
            }
            Op::Give { ts, first, count } => {
                let numbers = [ts.0, *first, *count].map(|number| number as i64);
                numbers.into_iter().fold(out.push("uid.give").push(key), ArgBuf::push_int);
            }
            Op::Issued => {
                out.push("uid.issued").push(key);
            }
        }
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.number(self.issued);
        sink.number(self.last.0.0);
        sink.number(self.last.1);
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let issued = source.number()?;
        let last = (Timestamp(source.number()?), source.number()?);
        if last.1 > issued { Err(Corrupt) } else { Ok(Self { issued, last }) }
    }
}

fn parse_give(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let number = |at| args.int(at).map(|number| number as u64);
    let (ts, first, count) = (Timestamp(number(2)?), number(3)?, number(4)?);
    Ok(Command::Single(args.blob(1)?, AnyOp::Uid(Op::Give { ts, first, count })))
}

fn parse_next(args: &Args<'_>, op: fn(Option<u64>) -> Op) -> Result<Command, ErrorReply> {
    let count = match args.len() {
        2 => None,
        4 if args.is(2, "COUNT") => {
            let count = u64::try_from(args.int(3)?).ok();
            let count = count.filter(|c| (1..=COUNT_MAX).contains(c)).ok_or_else(|| {
                ErrorReply::err(format!("COUNT must be between 1 and {COUNT_MAX}"))
            })?;
            Some(count)
        }
        _ => return Err(ErrorReply::syntax()),
    };
    Ok(Command::Single(args.blob(1)?, AnyOp::Uid(op(count))))
}

const COMMANDS: &[CommandSpec] = commands! { "uid";
    ("uid.next", -2, Flags::WRITE.and(Flags::GROWS).and(Flags::FAST), Keys::ONE,
        "Issues identifiers that are unique for ever, without order.",
        "key [COUNT count]", "O(1) per identifier") =>
        |a| parse_next(a, Op::Next);
    ("uid.issued", 2, Flags::READ.and(Flags::FAST), Keys::ONE,
        "Returns how many identifiers were issued.", "key", "O(1)") =>
        |a| Ok(Command::Single(a.blob(1)?, AnyOp::Uid(Op::Issued)));
};

/// Forms of operations for the log and between machines.
pub(crate) const INTERNAL: &[CommandSpec] = commands! { "uid";
    ("uid.peek", -2, Flags::READ, Keys::ONE,
        "Returns the identifiers that would be issued now.", "key [COUNT count]",
        "O(1) per identifier") =>
        |a| parse_next(a, Op::Peek);
    ("uid.give", 5, Flags::WRITE.and(Flags::GROWS), Keys::ONE,
        "Issues chosen identifiers.", "key timestamp first count", "O(1)") =>
        parse_give;
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn laws_hold() {
        let give = Op::Give { ts: Timestamp::from_micros(90), first: 0, count: 3 };
        let ops = [Op::Next(None), Op::Next(Some(3)), Op::Issued, Op::Peek(Some(2)), give];
        crate::laws::check_laws::<Value>(&ops, 2);
    }

    #[test]
    fn identifiers_differ_within_and_between_transactions() {
        let mut value = Value::default();
        let mut seen = BTreeSet::new();
        for ts in [5, 5, 9, 7, u64::MAX] {
            let ctx = Ctx { ts: Timestamp(ts), ..Ctx::default() };
            let reply = value.apply(&Op::Next(Some(3)), &ctx, &mut Meta::default());
            let Reply::Array(issued) = reply else { panic!("an array") };
            seen.extend(issued.iter().map(|id| format!("{id:?}")));
        }
        assert_eq!(seen.len(), 15);
        assert_eq!(value.query(&Op::Issued, &Ctx::default()), Reply::Int(15));
        assert_eq!(&*identifier(Timestamp(33), 2), b"0000000000011-2");
    }

    #[test]
    fn the_number_of_identifiers_is_bounded() {
        for words in ["uid.next k count 0", "uid.next k count 10001", "uid.next k 5"] {
            assert!(crate::record::decode(&ArgBuf::of(words.split(' ')).args()).is_err());
        }
    }
}
