//! Log: entries in order of commit timestamp, all of them or the newest n.
//!
//! Pushing to a list conflicts with every other push, since the order is visible. An entry of a log
//! has its place from the commit timestamp of its transaction and from its place within it,
//! whatever the order in which appends are carried out: they always commute, with their replies. A
//! log that keeps the newest n (`CAPLOG.INIT`) keeps this property, being the join of the entries
//! cut off at n. Reads conflict with appends, those of old entries too: an append that is still in
//! progress may have an earlier timestamp than an entry that is already present.

use crate::command::commands;
use crate::{
    Access, ArgBuf, Args, Blob, Command, CommandSpec, Compound, Corrupt, Ctx, DataType, ErrorReply,
    Flags, Forecast, Keys, Meta, Op as AnyOp, Plan, Reply, Timestamp, ValueSink, ValueSource,
    load_count, parse_int,
};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Values of one operation; one is the usual number of them.
pub type Values = SmallVec<[Blob; 1]>;

/// Most entries that a capped log can be asked to keep.
pub const CAPACITY_MAX: u64 = 1 << 32;

/// Place of an entry: its commit timestamp, and its index among the entries with that timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Commit timestamp of the transaction that appended the entry.
    pub ts: Timestamp,
    /// Number of entries that the transaction had appended before.
    pub index: u32,
}

/// Numbers below this share a microsecond: the lower bits of a [`Timestamp`].
const LOGICAL: u64 = Timestamp::PER_MICROSECOND;

impl Position {
    /// Before all entries.
    pub const MIN: Self = Self { ts: Timestamp::ZERO, index: 0 };
    /// After all entries.
    pub const MAX: Self = Self { ts: Timestamp(u64::MAX), index: u32::MAX };

    /// The identifier: microsecond since 1970, logical part of the timestamp, index.
    fn id(self) -> String {
        format!("{}-{}-{}", self.ts.micros(), self.ts.0 % LOGICAL, self.index)
    }

    /// Reads an identifier; `-` and `+` are the ends. Omitted parts are as low as possible, or as
    /// high if `high`.
    fn parse(word: &[u8], high: bool) -> Result<Self, ErrorReply> {
        match word {
            b"-" => return Ok(Self::MIN),
            b"+" => return Ok(Self::MAX),
            _ => {}
        }
        let mut parts = word.split(|b| *b == b'-');
        let mut part = |limit: u64| match parts.next() {
            None => Some(if high { limit } else { 0 }),
            Some(digits) => {
                parse_int(digits).ok().and_then(|n| u64::try_from(n).ok()).filter(|n| *n <= limit)
            }
        };
        let (micros, logical, index) =
            (part(u64::MAX / LOGICAL), part(LOGICAL - 1), part(u64::from(u32::MAX)));
        match (micros, logical, index, parts.next()) {
            (Some(micros), Some(logical), Some(index), None) => {
                Ok(Self { ts: Timestamp(micros * LOGICAL + logical), index: index as u32 })
            }
            _ => Err(ErrorReply::err("invalid id; use microseconds-logical-index, - or +")),
        }
    }
}

/// The state: entries in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    entries: VecDeque<(Position, Blob)>,
    /// Number of newest entries to keep; `None` keeps all.
    capacity: Option<usize>,
    /// Highest position ever assigned.
    last: Option<Position>,
}

/// Operations on a log.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Adds entries; answers the identifier of the last one.
    Append(Values),
    /// Creates an empty log that keeps this many of the newest entries; answers `OK`.
    Init(u64),
    /// Removes all but this many of the newest entries; answers how many it removed.
    Trim(u64),
    /// The newest entries before a position, newest first.
    Tail {
        /// Most entries to answer.
        count: u64,
        /// Only entries before this position.
        before: Position,
    },
    /// Entries from one position to another, both included, oldest first.
    Range {
        /// First position.
        from: Position,
        /// Last position.
        to: Position,
        /// Most entries to answer.
        count: Option<u64>,
    },
    /// Number of entries.
    Len,
    /// Identifier of the last of so many entries, if they were appended now.
    Next(u64),
    /// Adds entries from a position on, which [`Op::Next`] has told; answers the identifier of the last one.
    Put(Values, Position),
}

fn reply_of((position, value): &(Position, Blob)) -> Reply {
    Reply::Array(vec![Reply::bulk(position.id()), Reply::Bulk(value.clone())])
}

fn bounded(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

impl Value {
    /// Number of entries before a position.
    fn before(&self, position: Position) -> usize {
        // Appends mostly go to the end.
        match self.entries.back() {
            Some(newest) if newest.0 >= position => {
                self.entries.partition_point(|entry| entry.0 < position)
            }
            _ => self.entries.len(),
        }
    }

    /// The first index that is free at a timestamp.
    fn free_index(&self, ts: Timestamp) -> u32 {
        let next = |at: Position| if at.ts == ts { at.index.saturating_add(1) } else { 0 };
        match self.last {
            Some(last) if last.ts <= ts => next(last),
            None => 0,
            Some(_) => {
                let end = self.before(Position { ts, index: u32::MAX });
                end.checked_sub(1).and_then(|at| self.entries.get(at)).map_or(0, |e| next(e.0))
            }
        }
    }

    /// Adds entries at a position and behind it.
    fn put(&mut self, values: &Values, mut position: Position) -> Reply {
        let first = position.index;
        for (value, index) in values.iter().zip(first..) {
            position.index = index;
            let at = self.before(position);
            if self.entries.get(at).is_none_or(|entry| entry.0 != position) {
                self.entries.insert(at, (position, value.clone()));
            }
        }
        self.last = self.last.max(Some(position));
        if let Some(capacity) = self.capacity {
            self.keep(capacity);
        }
        Reply::bulk(position.id())
    }

    /// Removes all but the newest entries; returns the number of removed ones.
    fn keep(&mut self, count: usize) -> usize {
        let surplus = self.entries.len().saturating_sub(count);
        self.entries.drain(..surplus);
        surplus
    }

    fn init(&mut self, capacity: usize, present: bool) -> Reply {
        match self.capacity {
            _ if !present => {
                self.capacity = Some(capacity);
                Reply::Ok
            }
            Some(existing) if existing == capacity => Reply::Ok,
            Some(existing) => {
                Reply::err(format!("the key exists already, with capacity {existing}"))
            }
            None => Reply::err("the key exists already, without a capacity"),
        }
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "log";
    const FORECAST: Option<Forecast<Self, Op>> = Some(Forecast {
        reply: |_, _, _| None,
        is_always_possible: |op| !matches!(op, Op::Init(_)),
    });
    const COMMANDS: &'static [CommandSpec] = COMMANDS;
    const MODES: &'static [&'static str] = &["read", "append", "trim", "other"];
    const SHARED: [u8; 8] = [0b1, 0b10, 0b100, 0, 0, 0, 0, 0];

    fn is_write(op: &Op) -> bool {
        matches!(op, Op::Append(_) | Op::Init(_) | Op::Trim(_) | Op::Put(..))
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn creates(op: &Op) -> bool {
        matches!(op, Op::Append(_) | Op::Init(_) | Op::Put(..))
    }

    fn preserves_key(op: &Op) -> bool {
        Self::is_write(op)
    }

    fn query(&self, op: &Op, ctx: &Ctx) -> Reply {
        match op {
            Op::Tail { count, before } => {
                let end = self.before(*before);
                let newest = self.entries.range(..end).rev().take(bounded(*count));
                Reply::Array(newest.map(reply_of).collect())
            }
            Op::Range { from, to, count } => {
                let start = self.before(*from);
                let entries = self.entries.range(start..).take_while(|entry| entry.0 <= *to);
                let count = bounded(count.unwrap_or(u64::MAX));
                Reply::Array(entries.take(count).map(reply_of).collect())
            }
            Op::Len => Reply::Int(self.entries.len() as i64),
            Op::Next(count) => {
                let more = u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX);
                let index = self.free_index(ctx.ts).saturating_add(more);
                Reply::bulk(Position { ts: ctx.ts, index }.id())
            }
            Op::Append(_) | Op::Init(_) | Op::Trim(_) | Op::Put(..) => Reply::err("not a read"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        match op {
            Op::Append(values) => {
                self.put(values, Position { ts: ctx.ts, index: self.free_index(ctx.ts) })
            }
            Op::Put(values, first) => self.put(values, *first),
            Op::Init(capacity) => {
                meta.untouched = meta.present;
                self.init(bounded(*capacity), meta.present)
            }
            Op::Trim(count) => {
                let removed = self.keep(bounded(*count));
                meta.untouched = removed == 0;
                Reply::Int(removed as i64)
            }
            read => self.query(read, ctx),
        }
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        match (a.op, b.op) {
            (Op::Append(_), Op::Append(_)) => true,
            (Op::Trim(_), Op::Trim(_)) => !a.observed && !b.observed,
            (a, b) => !Self::is_write(a) && !Self::is_write(b),
        }
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        match access.op {
            Op::Append(_) => 1,
            Op::Trim(_) if !access.observed => 2,
            Op::Trim(_) | Op::Init(_) | Op::Put(..) => 3,
            _ => 0,
        }
    }

    fn chosen_first(key: &Blob, op: &Op) -> Option<Compound> {
        let Op::Append(values) = op else { return None };
        let (target, values) = (key.clone(), values.clone());
        let count = values.len() as u64;
        let plan = move |replies: &[Reply]| {
            let reply = replies.first().cloned().unwrap_or(Reply::Nil);
            let last = match &reply {
                Reply::Bulk(id) => Position::parse(id, false).ok(),
                _ => None,
            };
            let first = last.and_then(|last| {
                let before = u32::try_from(count - 1).ok()?;
                Some(Position { index: last.index.checked_sub(before)?, ..last })
            });
            let put = |first| (target.clone(), AnyOp::Log(Op::Put(values.clone(), first)));
            Plan { writes: first.map(put).into_iter().collect(), reply }
        };
        let reads = vec![(key.clone(), AnyOp::Log(Op::Next(count)))];
        Some(Compound::new(reads, plan))
    }

    fn combine(_earlier: &Op, _next: &Op) -> Option<Op> {
        // Entries of different transactions have different timestamps.
        None
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        match op {
            Op::Append(values) => {
                out.push("log.append").push(key);
                for value in values {
                    out.push(value);
                }
            }
            Op::Init(capacity) => {
                out.push("caplog.init").push(key).push_int(*capacity as i64);
            }
            Op::Trim(count) => {
                out.push("log.trim").push(key).push("maxlen").push_int(*count as i64);
            }
            Op::Tail { count, before } => {
                out.push("log.tail").push(key).push_int(*count as i64);
                if *before != Position::MAX {
                    out.push("before").push(before.id());
                }
            }
            Op::Range { from, to, count } => {
                out.push("log.range").push(key).push(from.id()).push(to.id());
                if let Some(count) = count {
                    out.push("count").push_int(*count as i64);
                }
            }
            Op::Len => {
                out.push("log.len").push(key);
            }
            Op::Next(count) => {
                out.push("log.next").push(key).push_int(*count as i64);
            }
            Op::Put(values, first) => {
                out.push("log.put").push(key).push(first.id());
                for value in values {
                    out.push(value);
                }
            }
        }
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        let mut position = |at: Position| {
            sink.number(at.ts.0);
            sink.number(u64::from(at.index));
        };
        position(self.last.unwrap_or(Position::MIN));
        sink.number(u64::from(self.last.is_some()));
        sink.number(self.capacity.map_or(0, |capacity| capacity as u64));
        sink.number(self.entries.len() as u64);
        for (at, value) in &self.entries {
            sink.number(at.ts.0);
            sink.number(u64::from(at.index));
            sink.bytes(value);
        }
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let last = load_position(source)?;
        let last = match source.number()? {
            0 => None,
            1 => Some(last),
            _ => return Err(Corrupt),
        };
        let capacity = match source.number()? {
            0 => None,
            capacity if capacity <= CAPACITY_MAX => Some(bounded(capacity)),
            _ => return Err(Corrupt),
        };
        let count = load_count(source, 3)?;
        if capacity.is_some_and(|capacity| count > capacity) {
            return Err(Corrupt);
        }
        let mut value = Self { entries: VecDeque::new(), capacity, last };
        for _ in 0..count {
            let at = load_position(source)?;
            let in_order = value.entries.back().is_none_or(|newest| newest.0 < at);
            if !in_order || last.is_none_or(|last| at > last) {
                return Err(Corrupt);
            }
            value.entries.push_back((at, Blob::new(source.bytes()?)));
        }
        Ok(value)
    }
}

fn load_position(source: &mut dyn ValueSource) -> Result<Position, Corrupt> {
    let ts = Timestamp(source.number()?);
    let index = u32::try_from(source.number()?).map_err(|_| Corrupt)?;
    Ok(Position { ts, index })
}

fn one(args: &Args<'_>, op: Op) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, AnyOp::Log(op)))
}

fn position(args: &Args<'_>, at: usize, high: bool) -> Result<Position, ErrorReply> {
    Position::parse(args.get(at).ok_or_else(ErrorReply::syntax)?, high)
}

fn count(args: &Args<'_>, at: usize) -> Result<u64, ErrorReply> {
    u64::try_from(args.int(at)?)
        .map_err(|_| ErrorReply::err("value is out of range, must be positive"))
}

fn parse_init(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let capacity = u64::try_from(args.int(2)?).ok();
    let capacity = capacity.filter(|c| (1..=CAPACITY_MAX).contains(c)).ok_or_else(|| {
        ErrorReply::err(format!("the capacity must be between 1 and {CAPACITY_MAX}"))
    })?;
    one(args, Op::Init(capacity))
}

fn parse_trim(args: &Args<'_>) -> Result<Command, ErrorReply> {
    if !args.is(2, "MAXLEN") {
        return Err(ErrorReply::syntax());
    }
    one(args, Op::Trim(count(args, 3)?))
}

fn parse_tail(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let before = match args.len() {
        3 => Position::MAX,
        5 if args.is(3, "BEFORE") => position(args, 4, false)?,
        _ => return Err(ErrorReply::syntax()),
    };
    one(args, Op::Tail { count: count(args, 2)?, before })
}

fn parse_range(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let count = match args.len() {
        4 => None,
        6 if args.is(4, "COUNT") => Some(count(args, 5)?),
        _ => return Err(ErrorReply::syntax()),
    };
    let (from, to) = (position(args, 2, false)?, position(args, 3, true)?);
    one(args, Op::Range { from, to, count })
}

const READ: Flags = Flags::READ;
const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const GROWS: Flags = Flags::WRITE.and(Flags::GROWS).and(Flags::FAST);

/// Forms of operations for the log and between machines.
pub(crate) const INTERNAL: &[CommandSpec] = commands! { "log";
    ("log.next", 3, READ, Keys::ONE,
        "Returns the id that the last of so many entries would get.", "key count", "O(1)") =>
        |a| one(a, Op::Next(a.int(2)? as u64));
    ("log.put", -4, GROWS, Keys::ONE,
        "Adds entries at a position.", "key id value [value ...]", "O(1) per value") =>
        |a| one(a, Op::Put(
            a.iter_from(3).map(Blob::new).collect(),
            Position::parse(a.get(2).unwrap_or_default(), false)?,
        ));
};

const COMMANDS: &[CommandSpec] = commands! { "log";
    ("log.append", -3, GROWS, Keys::ONE,
        "Adds entries at the position of the commit timestamp; returns the id of the last one.",
        "key value [value ...]", "O(1) per value") =>
        |a| one(a, Op::Append(a.iter_from(2).map(Blob::new).collect()));
    ("log.tail", -3, READ, Keys::ONE,
        "Returns the newest entries, newest first.",
        "key count [BEFORE id]", "O(log n + m) for m returned") =>
        parse_tail;
    ("log.range", -4, READ, Keys::ONE,
        "Returns the entries between two ids, oldest first.",
        "key from-id to-id [COUNT count]", "O(log n + m) for m returned") =>
        parse_range;
    ("log.len", 2, FAST_READ, Keys::ONE,
        "Counts the entries of a log.", "key", "O(1)") =>
        |a| one(a, Op::Len);
    ("log.trim", 4, Flags::WRITE, Keys::ONE,
        "Removes all but the newest entries.", "key MAXLEN count", "O(m) for m removed") =>
        parse_trim;
    ("caplog.init", 3, GROWS, Keys::ONE,
        "Creates a log that keeps the given number of newest entries.", "key capacity", "O(1)") =>
        parse_init;
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws;

    fn append(words: &str) -> Op {
        Op::Append(words.split(' ').map(Blob::from).collect())
    }

    fn samples() -> Vec<Op> {
        let at = |micros| Position { ts: Timestamp::from_micros(micros), index: 0 };
        vec![
            Op::Init(1),
            Op::Init(2),
            append("a"),
            append("b c"),
            append("d e f"),
            Op::Next(2),
            Op::Put(["g", "h"].into_iter().map(Blob::from).collect(), at(90)),
            Op::Trim(0),
            Op::Trim(1),
            Op::Tail { count: 2, before: Position::MAX },
            Op::Tail { count: 1, before: at(2) },
            Op::Range { from: Position::MIN, to: Position::MAX, count: None },
            Op::Range { from: at(1), to: at(2), count: Some(1) },
            Op::Len,
        ]
    }

    #[test]
    fn laws_hold() {
        laws::check_laws::<Value>(&samples(), 3);
    }

    /// Applies at a given microsecond and shows identifiers and values.
    fn run(value: &mut Value, at: u64, op: &Op) -> Reply {
        let ctx = Ctx { ts: Timestamp::from_micros(at), ..Ctx::default() };
        value.apply(op, &ctx, &mut Meta::default())
    }

    fn entries(value: &Value, words: &str) -> Vec<String> {
        let (_, op) = crate::record::decode(&ArgBuf::of(words.split(' ')).args()).expect("valid");
        let AnyOp::Log(op) = op else { panic!("of a log") };
        let Reply::Array(found) = value.query(&op, &Ctx::default()) else { panic!("an array") };
        let text = |part: &Reply| match part {
            Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("{other:?}"),
        };
        let show = |entry: &Reply| match entry {
            Reply::Array(pair) => pair.iter().map(text).collect::<Vec<_>>().join("="),
            other => panic!("{other:?}"),
        };
        found.iter().map(show).collect()
    }

    #[test]
    fn entries_are_in_order_of_their_timestamps() {
        let mut log = Value::default();
        assert_eq!(run(&mut log, 5, &append("a b")), Reply::bulk("5-0-1"));
        assert_eq!(run(&mut log, 9, &append("c")), Reply::bulk("9-0-0"));
        assert_eq!(run(&mut log, 5, &append("d")), Reply::bulk("5-0-2"));
        assert_eq!(run(&mut log, 7, &append("e")), Reply::bulk("7-0-0"));
        let all = ["5-0-0=a", "5-0-1=b", "5-0-2=d", "7-0-0=e", "9-0-0=c"];
        assert_eq!(entries(&log, "log.range k - +"), all);
        assert_eq!(entries(&log, "log.range k 5-0-1 7"), all[1..4]);
        assert_eq!(entries(&log, "log.range k 5 5 count 2"), all[..2]);
        assert!(entries(&log, "log.range k 8 6").is_empty());
        assert_eq!(entries(&log, "log.tail k 2"), [all[4], all[3]]);
        assert_eq!(entries(&log, "log.tail k 9 before 5-0-2"), [all[1], all[0]]);
        assert_eq!(run(&mut log, 9, &Op::Trim(1)), Reply::Int(4));
        assert_eq!(run(&mut log, 9, &Op::Trim(0)), Reply::Int(1));
        assert_eq!(run(&mut log, 9, &append("f")), Reply::bulk("9-0-1"));
    }

    #[test]
    fn a_capped_log_keeps_the_newest_by_timestamp() {
        let mut log = Value::default();
        assert_eq!(run(&mut log, 1, &Op::Init(2)), Reply::Ok);
        for (at, value) in [(4, "a"), (8, "b"), (2, "late"), (6, "c")] {
            run(&mut log, at, &append(value));
        }
        assert_eq!(entries(&log, "log.range k - +"), ["6-0-0=c", "8-0-0=b"]);
        let other = log.clone().apply(
            &Op::Init(3),
            &Ctx::default(),
            &mut Meta { present: true, ..Meta::default() },
        );
        assert_eq!(other, Reply::err("the key exists already, with capacity 2"));
    }

    #[test]
    fn wrong_words_are_refused() {
        for words in [
            "log.tail k -1",
            "log.tail k 1 before",
            "log.tail k 1 before x",
            "log.range k 1-2-3-4 +",
            "log.range k 1-4096 +",
            "log.range k - + count",
            "log.range k --1 +",
            "log.trim k minlen 1",
            "caplog.init k 0",
        ] {
            let words = ArgBuf::of(words.split(' '));
            assert!(crate::record::decode(&words.args()).is_err(), "{words:?}");
        }
    }
}
