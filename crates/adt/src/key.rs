//! Operations on a key whatever its type: existence, type, expiry, removal, moving whole values.
//!
//! Together they are a register beside the value ("absent, or present with a type and an expiry").
//! See the Redis documentation of `DEL`, `EXISTS`, `EXPIRE`, `TTL`, `TYPE`, `RENAME` and `COPY`.

pub mod sort;
#[cfg(test)]
mod tests;

use crate::command::database::{self, moved_to};
use crate::command::{commands, syntax};
use crate::types::{Corrupt, ValueSink, ValueSource};
use crate::{
    ArgBuf, Args, Blob, Command, CommandSpec, Compound, ErrorReply, Flags, Keys, Merge, Op, Plan,
    Record, Reply, Value, Whole,
};
use std::sync::Arc;

/// Longest name of a key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// An operation that every key has.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyOp {
    /// Removes the key; answers 1 if it was there.
    Del,
    /// [`KeyOp::Del`] by a command that puts the record elsewhere.
    Leave(Cause),
    /// Answers 1 if the key exists.
    Exists,
    /// The name of the value's type, or `none`.
    Type,
    /// Sets when the key ceases to exist; answers 1 if it was set.
    Expire {
        /// The moment.
        at: When,
        /// Condition on the present expiry.
        only: ExpireIf,
    },
    /// Removes the expiry; answers 1 if there was one.
    Persist,
    /// Time until the key expires.
    Ttl(TtlForm),
    /// Internal encoding of the value, for `OBJECT ENCODING`.
    Encoding,
    /// Seconds since the last write, for `OBJECT IDLETIME`; nil if the key is absent.
    Idle,
    /// Approximate size in memory, for `MEMORY USAGE`.
    Usage,
    /// The whole record ([`Reply::Record`]), or nil.
    Fetch,
    /// The elements of a list, a set or a sorted set, for `SORT`; nil if the key is absent.
    Elements,
    /// Replaces the whole record.
    Put(Box<Record>, Cause),
    /// The leader's decision that the key has expired, valid if its expiry is still this one.
    Reap {
        /// The expiry that has passed, in milliseconds since 1970.
        expire_at_ms: u64,
    },
    /// The leader's decision that parts of the value have expired; answers how many were removed.
    ReapParts {
        /// The moment by which they have expired, in milliseconds since 1970.
        now_ms: u64,
        /// Number of parts that are removed at most, the longest overdue first.
        most: u64,
    },
    /// An operation on all keys of the shard, in a transaction. Counts as a write: it is carried
    /// out at its place in the log.
    Whole(Box<Whole>),
}

/// Command by which a whole record comes to a key or leaves it, for the names of keyspace events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Cause {
    Rename,
    Move,
    Copy,
    Sort,
    Inter,
    Union,
    Diff,
    RankedInter,
    RankedUnion,
    RankedDiff,
    RankedRange,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 11] = [
        Self::Rename,
        Self::Move,
        Self::Copy,
        Self::Sort,
        Self::Inter,
        Self::Union,
        Self::Diff,
        Self::RankedInter,
        Self::RankedUnion,
        Self::RankedDiff,
        Self::RankedRange,
    ];

    /// Name of the event at the key to which the record comes.
    pub const fn came(self) -> &'static str {
        match self {
            Self::Rename => "rename_to",
            Self::Move => "move_to",
            Self::Copy => "copy_to",
            Self::Sort => "sortstore",
            Self::Inter => "sinterstore",
            Self::Union => "sunionstore",
            Self::Diff => "sdiffstore",
            Self::RankedInter => "zinterstore",
            Self::RankedUnion => "zunionstore",
            Self::RankedDiff => "zdiffstore",
            Self::RankedRange => "zrangestore",
        }
    }

    /// Name of the event at the key that the record leaves.
    pub const fn left(self) -> &'static str {
        match self {
            Self::Rename => "rename_from",
            Self::Move => "move_from",
            _ => "del",
        }
    }
}

/// A moment in milliseconds, absolute or relative to the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Since 1970.
    At(i64),
    /// After the time of the operation.
    In(i64),
}

impl When {
    /// Milliseconds since 1970; moments before 1970 count as 1970.
    pub fn resolve(self, now_ms: u64) -> u64 {
        match self {
            Self::At(ms) => ms.max(0) as u64,
            Self::In(ms) if ms >= 0 => now_ms.saturating_add(ms as u64).min(i64::MAX as u64),
            Self::In(ms) => now_ms.saturating_sub(ms.unsigned_abs()),
        }
    }
}

/// Condition of `EXPIRE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpireIf {
    /// Unconditionally.
    Always,
    /// `NX`: only if there is no expiry.
    None,
    /// `XX`: only if there is an expiry.
    Some,
    /// `GT`: only if the new one is later (no expiry counts as never).
    Later,
    /// `LT`: only if the new one is earlier.
    Earlier,
    /// `XX LT`: only if there is an expiry and the new one is earlier.
    SomeEarlier,
}

impl ExpireIf {
    /// Whether the condition permits replacing the expiry `old` by `at`.
    pub(crate) fn allows(self, old: Option<u64>, at: u64) -> bool {
        match self {
            Self::Always => true,
            Self::None => old.is_none(),
            Self::Some => old.is_some(),
            Self::Later => old.is_some_and(|old| at > old),
            Self::Earlier => old.is_none_or(|old| at < old),
            Self::SomeEarlier => old.is_some_and(|old| at < old),
        }
    }
}

/// Form of the reply of the `TTL` family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlForm {
    /// `TTL`: seconds left, rounded to the nearest as Redis does.
    Seconds,
    /// `PTTL`: milliseconds left.
    Millis,
    /// `EXPIRETIME`: second since 1970, rounded likewise.
    AtSeconds,
    /// `PEXPIRETIME`: millisecond since 1970.
    AtMillis,
}

impl KeyOp {
    /// Whether the operation can change the key.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Del
                | Self::Leave(_)
                | Self::Expire { .. }
                | Self::Persist
                | Self::Put(..)
                | Self::Reap { .. }
                | Self::ReapParts { .. }
                | Self::Whole(_)
        )
    }

    /// Answers a read.
    pub fn query(&self, record: Option<&Record>, now_ms: u64) -> Reply {
        match self {
            Self::Exists => Reply::Int(i64::from(record.is_some())),
            Self::Type => match record {
                Some(record) => Reply::status(record.value.shown_type().to_owned()),
                None => Reply::status("none"),
            },
            Self::Ttl(form) => ttl(record, *form, now_ms),
            Self::Encoding => record.map_or(Reply::Nil, |r| Reply::bulk(r.value.type_name())),
            Self::Idle => record.map_or(Reply::Nil, |r| {
                let since_us = now_ms.saturating_mul(1000).saturating_sub(r.modified.micros());
                Reply::Int((since_us / 1_000_000) as i64)
            }),
            Self::Usage => record.map_or(Reply::Nil, |r| Reply::Int(r.heap_bytes() as i64)),
            Self::Elements => record.map_or(Reply::Nil, |r| sort::elements(&r.value)),
            Self::Fetch => record.map_or(Reply::Nil, |r| Reply::Record(Box::new(r.clone()))),
            _ => Reply::err("a write cannot be answered without being applied"),
        }
    }

    /// Carries out a write on the record under the key.
    pub fn apply(&self, slot: &mut Option<Record>, now_ms: u64) -> Reply {
        match self {
            Self::Put(record, _) => {
                *slot = Some((**record).clone());
                Reply::Ok
            }
            Self::Del | Self::Leave(_) => Reply::Int(i64::from(slot.take().is_some())),
            Self::Reap { expire_at_ms } => {
                let due = slot.as_ref().is_some_and(|r| r.expire_at_ms() == Some(*expire_at_ms));
                if due {
                    *slot = None;
                }
                Reply::Int(i64::from(due))
            }
            Self::ReapParts { now_ms, most } => {
                let most = usize::try_from(*most).unwrap_or(usize::MAX);
                let parts = slot.as_mut().map_or(0, |r| r.value.expire_parts(*now_ms, most));
                Reply::Int(parts as i64)
            }
            Self::Persist => {
                let expiring = slot.as_mut().filter(|r| r.expire_at_ms().is_some());
                let had = expiring.is_some();
                expiring.into_iter().for_each(|r| r.set_expiry(None));
                Reply::Int(i64::from(had))
            }
            Self::Expire { at, only } => expire(slot, at.resolve(now_ms), *only, now_ms),
            // The shard carries it out.
            Self::Whole(_) => Reply::err("no single record answers for all keys"),
            _ => self.query(slot.as_ref(), now_ms),
        }
    }
}

impl KeyOp {
    /// The reply that a write would have, if it does not depend on the value of the record under the key.
    pub fn foretell(&self, record: Option<&Record>, now_ms: u64) -> Option<Reply> {
        match self {
            Self::Put(..) => Some(Reply::Ok),
            Self::ReapParts { .. } if record.is_some() => None,
            _ => {
                let expiring = |r: &Record| {
                    Record::new(Value::String(Default::default())).expiring(r.expire_at_ms())
                };
                Some(self.apply(&mut record.map(expiring), now_ms))
            }
        }
    }

    /// The reply of a write that changes nothing on the record under the key.
    pub fn idle(&self, record: Option<&Record>, now_ms: u64) -> Option<Reply> {
        let idle = match (self, record) {
            (Self::Whole(_), _) => false,
            (_, None) => true,
            (Self::Persist, Some(record)) => record.expire_at_ms().is_none(),
            (Self::Expire { at, only }, Some(record)) => {
                !only.allows(record.expire_at_ms(), at.resolve(now_ms))
            }
            _ => false,
        };
        idle.then(|| self.apply(&mut None, now_ms))
    }
}

fn ttl(record: Option<&Record>, form: TtlForm, now_ms: u64) -> Reply {
    let Some(record) = record else { return Reply::Int(-2) };
    let Some(at) = record.expire_at_ms() else { return Reply::Int(-1) };
    let left = at.saturating_sub(now_ms);
    Reply::Int(match form {
        TtlForm::Seconds => (left + 500) / 1000,
        TtlForm::Millis => left,
        TtlForm::AtSeconds => (at + 500) / 1000,
        TtlForm::AtMillis => at,
    } as i64)
}

fn expire(slot: &mut Option<Record>, at: u64, only: ExpireIf, now_ms: u64) -> Reply {
    let Some(record) = slot else { return Reply::Int(0) };
    if !only.allows(record.expire_at_ms(), at) {
        return Reply::Int(0);
    }
    if at <= now_ms {
        *slot = None;
    } else {
        record.set_expiry(Some(at));
    }
    Reply::Int(1)
}

/// Longest expiry from now on: the moment must still fit a signed 64-bit number. This leaves room
/// for the clock until the year 2039.
const EXPIRE_IN_MS_MAX: i64 = i64::MAX - (1 << 41);

/// Converts an expiry argument in `unit_ms` to milliseconds, since 1970 if it is `absolute`;
/// `command` is for the error text.
pub fn expiry_ms(
    value: i64,
    unit_ms: i64,
    absolute: bool,
    command: &str,
) -> Result<i64, ErrorReply> {
    value
        .checked_mul(unit_ms)
        .filter(|ms| absolute || *ms <= EXPIRE_IN_MS_MAX)
        .ok_or_else(|| invalid_expiry(command))
}

/// The error for an invalid time.
pub fn invalid_expiry(command: &str) -> ErrorReply {
    ErrorReply::err(format!("invalid expire time in '{command}' command"))
}

fn parse_expire(args: &Args<'_>, unit_ms: i64, absolute: bool) -> Result<Command, ErrorReply> {
    let name = String::from_utf8_lossy(args.get(0).unwrap_or_default()).to_lowercase();
    // Redis checks the options first.
    let only = parse_expire_if(args)?;
    let ms = expiry_ms(args.int(2)?, unit_ms, absolute, &name)?;
    let at = if absolute { When::At(ms) } else { When::In(ms) };
    Ok(Command::Single(args.blob(1)?, Op::Key(KeyOp::Expire { at, only })))
}

fn parse_expire_if(args: &Args<'_>) -> Result<ExpireIf, ErrorReply> {
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    for (i, word) in args.iter_from(3).enumerate() {
        let flag = match () {
            () if args.is(i + 3, "NX") => &mut nx,
            () if args.is(i + 3, "XX") => &mut xx,
            () if args.is(i + 3, "GT") => &mut gt,
            () if args.is(i + 3, "LT") => &mut lt,
            () => {
                return Err(ErrorReply::err(format!("Unsupported option {}", word.escape_ascii())));
            }
        };
        *flag = true;
    }
    match (nx, xx, gt, lt) {
        (true, false, false, false) => Ok(ExpireIf::None),
        (true, ..) => {
            Err(ErrorReply::err("NX and XX, GT or LT options at the same time are not compatible"))
        }
        (_, _, true, true) => {
            Err(ErrorReply::err("GT and LT options at the same time are not compatible"))
        }
        (_, _, true, false) => Ok(ExpireIf::Later),
        (_, true, false, true) => Ok(ExpireIf::SomeEarlier),
        (_, false, false, true) => Ok(ExpireIf::Earlier),
        (_, true, false, false) => Ok(ExpireIf::Some),
        (_, false, false, false) => Ok(ExpireIf::Always),
    }
}

fn each(args: &Args<'_>, op: KeyOp) -> Result<Command, ErrorReply> {
    if args.len() == 2 {
        return Ok(Command::Single(args.blob(1)?, Op::Key(op)));
    }
    let ops = args.iter_from(1).map(|key| (key.into(), Op::Key(op.clone()))).collect();
    Ok(Command::Multi { ops, merge: Merge::Sum })
}

fn single(args: &Args<'_>, op: KeyOp) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, Op::Key(op)))
}

fn rename(args: &Args<'_>, replace: bool) -> Result<Command, ErrorReply> {
    let names = (args.blob(1)?, args.blob(2)?);
    let (reads, plan) = move_record(names, Cause::Rename, replace);
    Ok(Command::Compound(Compound::new(reads, plan)))
}

/// Keys with reads of them.
type Reads = Vec<(Blob, Op)>;

/// Reads of a record, and what makes it another key's.
fn move_record(
    (from, to): (Blob, Blob),
    cause: Cause,
    replace: bool,
) -> (Reads, impl Fn(&[Reply]) -> Plan + Send + Sync + 'static) {
    let keep = cause == Cause::Copy;
    let fetch = |key: &Blob| (key.clone(), Op::Key(KeyOp::Fetch));
    let reads = if from == to { vec![fetch(&from)] } else { vec![fetch(&from), fetch(&to)] };
    let plan = move |replies: &[Reply]| {
        let nothing = |reply| Plan { writes: Vec::new(), reply };
        let Some(Reply::Record(record)) = replies.first() else {
            return nothing(if keep { Reply::Int(0) } else { Reply::err("no such key") });
        };
        if from == to {
            return nothing(if replace { Reply::Ok } else { Reply::Int(0) });
        }
        let occupied = matches!(replies.get(1), Some(Reply::Record(_)));
        if occupied && !replace {
            return nothing(Reply::Int(0));
        }
        let mut writes = vec![(to.clone(), Op::Key(KeyOp::Put(record.clone(), cause)))];
        if !keep {
            writes.push((from.clone(), Op::Key(KeyOp::Leave(cause))));
        }
        let reply = if !keep && replace { Reply::Ok } else { Reply::Int(1) };
        Plan { writes, reply }
    };
    (reads, plan)
}

fn same_object() -> ErrorReply {
    ErrorReply::err("source and destination objects are the same")
}

/// `MOVE`: the key is a stored one, of the database that is selected.
fn parse_move(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let from = args.blob(1)?;
    let to = moved_to(database::number(args, 2)?, &from);
    if from == to {
        return Err(same_object());
    }
    let (reads, plan) = move_record((from, to), Cause::Move, false);
    // A key that is not there is not moved, which is no error as it is for RENAME.
    let plan = move |replies: &[Reply]| match replies.first() {
        Some(Reply::Record(_)) => plan(replies),
        _ => Plan { writes: Vec::new(), reply: Reply::Int(0) },
    };
    Ok(Command::Compound(Compound::new(reads, plan)))
}

fn parse_copy(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (from, mut to) = (args.blob(1)?, args.blob(2)?);
    let mut replace = false;
    let mut i = 3;
    while i < args.len() {
        if args.is(i, "REPLACE") {
            replace = true;
        } else if args.is(i, "DB") && i + 1 < args.len() {
            to = moved_to(database::number(args, i + 1)?, &to);
            i += 1;
        } else {
            return Err(ErrorReply::syntax());
        }
        i += 1;
    }
    if from == to {
        return Err(same_object());
    }
    let (reads, plan) = move_record((from, to), Cause::Copy, replace);
    Ok(Command::Compound(Compound::new(reads, plan)))
}

fn parse_object(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let one = |op| Ok(Command::Single(args.blob(2)?, Op::Key(op)));
    let if_present = |reply: Reply| {
        let merge = move |found: Vec<Reply>| match found.first() {
            Some(Reply::Int(1)) => reply.clone(),
            _ => Reply::Nil,
        };
        let ops = vec![(args.blob(2)?, Op::Key(KeyOp::Exists))];
        Ok(Command::Multi { ops, merge: Merge::With(Arc::new(merge)) })
    };
    if args.len() == 2 && args.is(1, "HELP") {
        return Ok(answered(syntax::help("object", OBJECT)));
    }
    let names = ["encoding", "freq", "idletime", "refcount"];
    let Some(name) = names.into_iter().find(|name| args.is(1, name)) else {
        return Err(ErrorReply::unknown_subcommand("OBJECT", args));
    };
    match name {
        _ if args.len() != 3 => Err(ErrorReply::arity(&format!("object|{name}"))),
        "encoding" => one(KeyOp::Encoding),
        "idletime" => one(KeyOp::Idle),
        "refcount" => if_present(Reply::Int(1)),
        _ => {
            let text = "An LFU maxmemory policy is not selected, access frequency not tracked.";
            if_present(Reply::err(text))
        }
    }
}

fn parse_memory(args: &Args<'_>) -> Result<Command, ErrorReply> {
    match args.len() {
        2 if args.is(1, "HELP") => return Ok(answered(syntax::help("memory", MEMORY))),
        2 if args.is(1, "USAGE") => return Err(ErrorReply::arity("memory|usage")),
        _ if !args.is(1, "USAGE") => return Err(ErrorReply::unknown_subcommand("MEMORY", args)),
        3 => {}
        // Every element of a value is counted, whatever number of samples is asked for.
        5 if args.is(3, "SAMPLES") => {
            if args.int(4)? < 0 {
                return Err(ErrorReply::syntax());
            }
        }
        _ => return Err(ErrorReply::syntax()),
    }
    Ok(Command::Single(args.blob(2)?, Op::Key(KeyOp::Usage)))
}

/// A command whose reply is already known.
fn answered(reply: Reply) -> Command {
    Command::Multi { ops: Vec::new(), merge: Merge::With(Arc::new(move |_| reply.clone())) }
}

const OBJECT: &str = "ENCODING key | FREQ key | IDLETIME key | REFCOUNT key";
const MEMORY: &str = "USAGE key [SAMPLES count]";

const READ: Flags = Flags::READ.and(Flags::FAST);
const WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const EXPIRE: &str = "key time [NX | XX | GT | LT]";

/// The commands of this file.
pub const COMMANDS: &[CommandSpec] = commands! { "generic";
    ("del", -2, Flags::WRITE, Keys::ALL,
        "Removes keys.", "key [key ...]", "O(1) per key") =>
        |a| each(a, KeyOp::Del);
    ("unlink", -2, WRITE, Keys::ALL,
        "Removes keys; in Claret the same as DEL.", "key [key ...]", "O(1) per key") =>
        |a| each(a, KeyOp::Del);
    ("exists", -2, READ, Keys::ALL,
        "Counts how many of the keys exist.", "key [key ...]", "O(1) per key") =>
        |a| each(a, KeyOp::Exists);
    ("touch", -2, READ, Keys::ALL,
        "Counts how many of the keys exist.", "key [key ...]", "O(1) per key") =>
        |a| each(a, KeyOp::Exists);
    ("type", 2, READ, Keys::ONE,
        "Returns the type of the value.", "key", "O(1) per key") =>
        |a| single(a, KeyOp::Type);
    ("expire", -3, WRITE, Keys::ONE,
        "Sets a key to expire after a number of seconds.", EXPIRE, "O(1) per key") =>
        |a| parse_expire(a, 1000, false);
    ("pexpire", -3, WRITE, Keys::ONE,
        "Sets a key to expire after a number of milliseconds.", EXPIRE, "O(1) per key") =>
        |a| parse_expire(a, 1, false);
    ("expireat", -3, WRITE, Keys::ONE,
        "Sets a key to expire at a time in seconds since 1970.", EXPIRE, "O(1) per key") =>
        |a| parse_expire(a, 1000, true);
    ("pexpireat", -3, WRITE, Keys::ONE,
        "Sets a key to expire at a time in milliseconds since 1970.", EXPIRE, "O(1) per key") =>
        |a| parse_expire(a, 1, true);
    ("persist", 2, WRITE, Keys::ONE,
        "Removes a key's expiry.", "key", "O(1) per key") =>
        |a| single(a, KeyOp::Persist);
    ("ttl", 2, READ, Keys::ONE,
        "Returns the seconds until a key expires.", "key", "O(1) per key") =>
        |a| single(a, KeyOp::Ttl(TtlForm::Seconds));
    ("pttl", 2, READ, Keys::ONE,
        "Returns the milliseconds until a key expires.", "key", "O(1) per key") =>
        |a| single(a, KeyOp::Ttl(TtlForm::Millis));
    ("expiretime", 2, READ, Keys::ONE,
        "Returns the time in seconds since 1970 at which a key expires.", "key", "O(1) per key") =>
        |a| single(a, KeyOp::Ttl(TtlForm::AtSeconds));
    ("pexpiretime", 2, READ, Keys::ONE,
        "Returns the time in milliseconds since 1970 at which a key expires.", "key", "O(1) per key") =>
        |a| single(a, KeyOp::Ttl(TtlForm::AtMillis));
    ("rename", 3, Flags::WRITE, Keys::TWO,
        "Renames a key, replacing the other.", "key newkey", "O(1) per key") =>
        |a| rename(a, true);
    ("renamenx", 3, WRITE, Keys::TWO,
        "Renames a key if the new name is free.", "key newkey", "O(1) per key") =>
        |a| rename(a, false);
    ("move", 3, WRITE.and(Flags::DATABASES), Keys::ONE,
        "Moves a key to another database, unless that has it.", "key db", "O(1) per key") =>
        parse_move;
    ("copy", -3, Flags::WRITE.and(Flags::GROWS).and(Flags::DATABASES), Keys::TWO,
        "Copies a value to another key.", "source destination [DB index] [REPLACE]", "O(1) per key") =>
        parse_copy;
    ("sort", -2, Flags::WRITE.and(Flags::GROWS).and(Flags::DANGEROUS), Keys::Sort,
        "Sorts the elements of a list, a set or a sorted set, and returns or stores them.",
        "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] \
         [STORE destination]",
        "O(n+m*log(m)) with n elements of which m are returned") =>
        |a| sort::parse(a, false);
    ("sort_ro", -2, Flags::READ.and(Flags::DANGEROUS), Keys::Sort,
        "Sorts the elements of a list, a set or a sorted set, and returns them.",
        "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]",
        "O(n+m*log(m)) with n elements of which m are returned") =>
        |a| sort::parse(a, true);
    ("object", -2, READ, Keys::Range { first: 2, last: 2, step: 1 },
        "Returns how a value is represented, and when it was written.", OBJECT, "O(1) per key") =>
        parse_object;
    ("memory", -2, READ, Keys::Range { first: 2, last: 2, step: 1 },
        "Returns approximately how much memory a value takes.", MEMORY, "O(1) per key") =>
        parse_memory;
};

/// Forms that only the log uses; clients cannot send them.
pub const INTERNAL: &[CommandSpec] = commands! { "generic";
    ("record.fetch", 2, Flags::READ, Keys::ONE,
        "Reads a whole record.", "key", "O(1) per key") =>
        |a| single(a, KeyOp::Fetch);
    ("record.elements", 2, Flags::READ, Keys::ONE,
        "Reads the elements of a list, a set or a sorted set.", "key", "O(n)") =>
        |a| single(a, KeyOp::Elements);
    ("record.put", -5, Flags::WRITE, Keys::ONE,
        "Replaces a whole record.", "key event type expiry part [part ...]", "O(1) per key") =>
        parse_put;
    ("record.leave", 3, Flags::WRITE, Keys::ONE,
        "Removes a key whose record goes elsewhere.", "key event", "O(1) per key") =>
        |a| single(a, KeyOp::Leave(cause(a, Cause::left)?));
    ("record.reap", 3, Flags::WRITE, Keys::ONE,
        "Removes an expired key.", "key time", "O(1) per key") =>
        |a| single(a, KeyOp::Reap { expire_at_ms: a.int(2)?.max(0) as u64 });
    ("record.reap-parts", 4, Flags::WRITE, Keys::ONE,
        "Removes expired parts of a value.", "key time count", "O(log(n)) per part") =>
        |a| single(a, KeyOp::ReapParts { now_ms: a.count(2)?, most: a.count(3)? });
};

impl KeyOp {
    /// Writes the operation as the words of a command that parses to the same operation.
    pub fn encode(&self, key: &[u8], out: &mut ArgBuf) {
        match self {
            Self::Del => out.push("del").push(key),
            Self::Exists => out.push("exists").push(key),
            Self::Type => out.push("type").push(key),
            Self::Persist => out.push("persist").push(key),
            Self::Encoding => out.push("object").push("encoding").push(key),
            Self::Idle => out.push("object").push("idletime").push(key),
            Self::Usage => out.push("memory").push("usage").push(key),
            Self::Fetch => out.push("record.fetch").push(key),
            Self::Elements => out.push("record.elements").push(key),
            Self::Reap { expire_at_ms } => {
                out.push("record.reap").push(key).push_int(*expire_at_ms as i64)
            }
            Self::ReapParts { now_ms, most } => {
                let most = (*most).min(i64::MAX as u64);
                out.push("record.reap-parts")
                    .push(key)
                    .push_int(*now_ms as i64)
                    .push_int(most as i64)
            }
            Self::Ttl(form) => out
                .push(match form {
                    TtlForm::Seconds => "ttl",
                    TtlForm::Millis => "pttl",
                    TtlForm::AtSeconds => "expiretime",
                    TtlForm::AtMillis => "pexpiretime",
                })
                .push(key),
            Self::Expire { at, only } => {
                match at {
                    When::At(ms) => out.push("pexpireat").push(key).push_int(*ms),
                    When::In(ms) => out.push("pexpire").push(key).push_int(*ms),
                };
                match only {
                    ExpireIf::Always => out,
                    ExpireIf::None => out.push("nx"),
                    ExpireIf::Some => out.push("xx"),
                    ExpireIf::Later => out.push("gt"),
                    ExpireIf::Earlier => out.push("lt"),
                    ExpireIf::SomeEarlier => out.push("xx").push("lt"),
                }
            }
            Self::Whole(whole) => {
                whole.encode(key, out);
                out
            }
            Self::Leave(cause) => out.push("record.leave").push(key).push(cause.left()),
            Self::Put(record, cause) => {
                let (event, type_name) = (cause.came(), record.value.type_name());
                out.push("record.put").push(key).push(event).push(type_name);
                out.push_int(record.expire_at_ms().map_or(-1, |ms| ms as i64));
                record.value.save(out);
                out
            }
        };
    }
}

/// The parts of a value as words: byte strings as they are, numbers in decimal.
impl ValueSink for ArgBuf {
    fn bytes(&mut self, bytes: &[u8]) {
        self.push(bytes);
    }
    fn number(&mut self, number: u64) {
        self.push_int(number as i64);
    }
}

struct ArgSource<'a> {
    args: Args<'a>,
    next: usize,
}

impl ValueSource for ArgSource<'_> {
    fn bytes(&mut self) -> Result<&[u8], Corrupt> {
        self.next += 1;
        self.args.get(self.next - 1).ok_or(Corrupt)
    }
    fn number(&mut self) -> Result<u64, Corrupt> {
        self.next += 1;
        self.args.int(self.next - 1).map(|n| n as u64).map_err(|_| Corrupt)
    }
    fn remaining(&self) -> usize {
        self.args.len().saturating_sub(self.next)
    }
}

/// Cause whose event is the second word behind the name of the operation.
fn cause(args: &Args<'_>, event: fn(Cause) -> &'static str) -> Result<Cause, ErrorReply> {
    let named = |cause: &Cause| args.get(2) == Some(event(*cause).as_bytes());
    Cause::ALL.into_iter().find(named).ok_or_else(|| Corrupt.into())
}

fn parse_put(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let cause = cause(args, Cause::came)?;
    let name = args.get(3).unwrap_or_default();
    let expire_at_ms = u64::try_from(args.int(4)?).ok();
    let mut source = ArgSource { args: *args, next: 5 };
    let value = Value::load(name, &mut source)?;
    if source.remaining() > 0 {
        return Err(Corrupt.into());
    }
    let record = Record::new(value).expiring(expire_at_ms);
    single(args, KeyOp::Put(Box::new(record), cause))
}
