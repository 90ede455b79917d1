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
    Access, ArgBuf, Args, Blob, Command, CommandSpec, Corrupt, Ctx, DataType, ErrorReply, Flags,
    Keys, Meta, Op as AnyOp, Reply, Timestamp, ValueSink, ValueSource,
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

impl Value {
    /// Takes `count` places at a timestamp; gives the first.
    fn draw(&mut self, ts: Timestamp, count: u64) -> u64 {
        self.issued = self.issued.saturating_add(count);
        let first = if self.last.0 == ts { self.last.1 } else { 0 };
        if self.last.0 <= ts {
            self.last = (ts, first + count);
        }
        first
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "uid";
    const COMMANDS: &'static [CommandSpec] = COMMANDS;
    const MODES: &'static [&'static str] = &["read", "next"];
    const SHARED: [u8; 8] = [0b1, 0b10, 0, 0, 0, 0, 0, 0];

    fn is_write(op: &Op) -> bool {
        matches!(op, Op::Next(_))
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn creates(op: &Op) -> bool {
        matches!(op, Op::Next(_))
    }

    fn preserves_key(op: &Op) -> bool {
        matches!(op, Op::Next(_))
    }

    fn query(&self, op: &Op, _ctx: &Ctx) -> Reply {
        match op {
            Op::Issued => Reply::Int(i64::try_from(self.issued).unwrap_or(i64::MAX)),
            Op::Next(_) => Reply::err("not a read"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, _meta: &mut Meta) -> Reply {
        match op {
            Op::Next(None) => Reply::Bulk(identifier(ctx.ts, self.draw(ctx.ts, 1))),
            Op::Next(Some(count)) => {
                let first = self.draw(ctx.ts, *count);
                let issue = |i| Reply::Bulk(identifier(ctx.ts, first + i));
                Reply::Array((0..*count).map(issue).collect())
            }
            read => self.query(read, ctx),
        }
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        Self::is_write(a.op) == Self::is_write(b.op)
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        u8::from(Self::is_write(access.op))
    }

    fn combine(_earlier: &Op, _next: &Op) -> Option<Op> {
        None
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        match op {
            Op::Next(count) => {
                out.push("uid.next").push(key);
                if let Some(count) = count {
                    out.push("count").push_int(*count as i64);
                }
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

fn parse_next(args: &Args<'_>) -> Result<Command, ErrorReply> {
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
    Ok(Command::Single(args.blob(1)?, AnyOp::Uid(Op::Next(count))))
}

const COMMANDS: &[CommandSpec] = commands! { "uid";
    ("uid.next", -2, Flags::WRITE.and(Flags::GROWS).and(Flags::FAST), Keys::ONE,
        "Issues identifiers that are unique for ever, without order.",
        "key [COUNT count]", "O(1) per identifier") =>
        parse_next;
    ("uid.issued", 2, Flags::READ.and(Flags::FAST), Keys::ONE,
        "Returns how many identifiers were issued.", "key", "O(1)") =>
        |a| Ok(Command::Single(a.blob(1)?, AnyOp::Uid(Op::Issued)));
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn laws_hold() {
        crate::laws::check_laws::<Value>(&[Op::Next(None), Op::Next(Some(3)), Op::Issued], 2);
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
