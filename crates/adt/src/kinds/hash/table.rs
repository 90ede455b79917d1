//! Commands of hashes: parsing of their words into operations, and encoding.

use crate::collections::Map;
use crate::command::commands;
use crate::command::scan::ScanArgs;
use crate::key::TtlForm;
use crate::kinds::hash::deadlines::{self, parse_expire, parse_ttl};
use crate::kinds::hash::{Fields, Op, Pairs};
use crate::random::REPEATED_MAX;
use crate::{ArgBuf, Args, Blob, Command, CommandSpec, ErrorReply, Flags, Keys, Op as AnyOp};

pub(super) fn one(args: &Args<'_>, op: Op) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, AnyOp::Hash(op)))
}

fn fields(args: &Args<'_>) -> Fields {
    args.iter_from(2).map(Blob::new).collect()
}

fn set(args: &Args<'_>, command: &str, op: fn(Pairs) -> Op) -> Result<Command, ErrorReply> {
    if args.len() % 2 == 1 {
        return Err(ErrorReply::arity(command));
    }
    one(args, op(pairs(args, 2)?))
}

/// Fields and values from a word on. Of a repeated field the last value counts; Redis' `HSET`
/// answers accordingly, since only the first occurrence can be new.
pub(super) fn pairs(args: &Args<'_>, first: usize) -> Result<Pairs, ErrorReply> {
    if args.len() == first + 2 {
        return Ok([(args.blob(first)?, args.blob(first + 1)?)].into_iter().collect());
    }
    let mut map = Map::default();
    for i in (first..args.len()).step_by(2) {
        map.insert(args.blob(i)?, args.blob(i + 1)?);
    }
    Ok(map.into_iter().collect())
}

fn parse_incr_float(args: &Args<'_>) -> Result<Command, ErrorReply> {
    if !args.float(3)?.is_finite() {
        return Err(ErrorReply::err("value is NaN or Infinity"));
    }
    one(args, Op::IncrFloat(args.blob(2)?, args.blob(3)?))
}

fn parse_random(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let values = match args.len() {
        2 => return one(args, Op::Random(None)),
        3 => false,
        4 if args.is(3, "WITHVALUES") => true,
        _ => return Err(ErrorReply::syntax()),
    };
    let count = args.int(2)?;
    if count < 0 && count.unsigned_abs() > REPEATED_MAX {
        return Err(ErrorReply::err("value is out of range, at least -1000000"));
    }
    one(args, Op::Random(Some((count, values))))
}

fn parse_scan(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let is_option = |i: &usize| args.is(*i, "NOVALUES") && !args.is(i - 1, "MATCH");
    let Some(at) = (3..args.len()).find(is_option) else {
        return one(args, Op::Scan(ScanArgs::parse(args, 2)?, true));
    };
    let others = args.iter_from(0).enumerate().filter(|(i, _)| *i != at);
    let others = ArgBuf::of(others.map(|(_, word)| word));
    one(args, Op::Scan(ScanArgs::parse(&others.args(), 2)?, false))
}

/// Writes the words that the parsers above read back as the same operation.
pub(in crate::kinds::hash) fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
    let name = match op {
        Op::Set(_) => "hset",
        Op::Put(_) => "hmset",
        Op::SetIfAbsent(..) => "hsetnx",
        Op::Remove(_) => "hdel",
        Op::Incr(..) => "hincrby",
        Op::IncrFloat(..) => "hincrbyfloat",
        Op::Get(_) => "hget",
        Op::GetEach(_) => "hmget",
        Op::Contains(_) => "hexists",
        Op::ValueLen(_) => "hstrlen",
        Op::Len => "hlen",
        Op::All => "hgetall",
        Op::Fields => "hkeys",
        Op::Values => "hvals",
        Op::Random(_) => "hrandfield",
        Op::Scan(..) => "hscan",
        // Their words lie behind `FIELDS`.
        Op::Take(_)
        | Op::Expire(..)
        | Op::Persist(_)
        | Op::Ttl(..)
        | Op::GetUntil(..)
        | Op::SetUntil { .. } => return deadlines::encode(op, key, out),
    };
    out.push(name).push(key);
    match op {
        Op::Set(pairs) | Op::Put(pairs) => {
            for (field, value) in pairs {
                out.push(field).push(value);
            }
        }
        Op::SetIfAbsent(field, value) => _ = out.push(field).push(value),
        Op::Remove(fields) | Op::GetEach(fields) => {
            for field in fields {
                out.push(field);
            }
        }
        Op::Incr(field, delta) => _ = out.push(field).push_int(*delta),
        Op::IncrFloat(field, delta) => _ = out.push(field).push(delta),
        Op::Get(field) | Op::Contains(field) | Op::ValueLen(field) => _ = out.push(field),
        Op::Random(Some((count, values))) => {
            out.push_int(*count);
            if *values {
                out.push("withvalues");
            }
        }
        Op::Scan(scan, values) => {
            scan.encode(out);
            if !values {
                out.push("novalues");
            }
        }
        _ => {}
    }
}

const READ: Flags = Flags::READ;
const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const FAST_WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const GROWS: Flags = FAST_WRITE.and(Flags::GROWS);

pub(in crate::kinds::hash) const COMMANDS: &[CommandSpec] = commands! { "hash";
    ("hset", -4, GROWS, Keys::ONE,
        "Sets fields; returns how many are new.", "key field value [field value ...]",
        "O(1) per field") =>
        |a| set(a, "hset", Op::Set);
    ("hmset", -4, GROWS, Keys::ONE,
        "Sets fields.", "key field value [field value ...]", "O(1) per field") =>
        |a| set(a, "hmset", Op::Put);
    ("hsetnx", 4, GROWS, Keys::ONE,
        "Sets a field that does not exist.", "key field value", "O(1)") =>
        |a| one(a, Op::SetIfAbsent(a.blob(2)?, a.blob(3)?));
    ("hget", 3, FAST_READ, Keys::ONE,
        "Returns the value of a field.", "key field", "O(1)") =>
        |a| one(a, Op::Get(a.blob(2)?));
    ("hmget", -3, FAST_READ, Keys::ONE,
        "Returns the values of fields.", "key field [field ...]", "O(1) per field") =>
        |a| one(a, Op::GetEach(fields(a)));
    ("hgetall", 2, READ, Keys::ONE,
        "Returns all fields with their values.", "key", "O(n)") =>
        |a| one(a, Op::All);
    ("hdel", -3, FAST_WRITE, Keys::ONE,
        "Removes fields; returns how many there were.", "key field [field ...]",
        "O(1) per field") =>
        |a| one(a, Op::Remove(fields(a)));
    ("hexists", 3, FAST_READ, Keys::ONE,
        "Returns whether a field exists.", "key field", "O(1)") =>
        |a| one(a, Op::Contains(a.blob(2)?));
    ("hlen", 2, FAST_READ, Keys::ONE,
        "Counts the fields.", "key", "O(1)") =>
        |a| one(a, Op::Len);
    ("hstrlen", 3, FAST_READ, Keys::ONE,
        "Returns the length of a field's value in bytes.", "key field", "O(1)") =>
        |a| one(a, Op::ValueLen(a.blob(2)?));
    ("hgetdel", -5, FAST_WRITE, Keys::ONE,
        "Returns the values of fields and removes the fields.",
        "key FIELDS numfields field [field ...]", "O(1) per field") =>
        deadlines::parse_take;
    ("hincrby", 4, GROWS, Keys::ONE,
        "Adds to an integer field.", "key field increment", "O(1)") =>
        |a| one(a, Op::Incr(a.blob(2)?, a.int(3)?));
    ("hincrbyfloat", 4, GROWS, Keys::ONE,
        "Adds to a decimal field.", "key field increment", "O(1)") =>
        parse_incr_float;
    ("hkeys", 2, READ, Keys::ONE,
        "Returns all fields.", "key", "O(n)") =>
        |a| one(a, Op::Fields);
    ("hvals", 2, READ, Keys::ONE,
        "Returns all values.", "key", "O(n)") =>
        |a| one(a, Op::Values);
    ("hscan", -3, READ, Keys::ONE,
        "Iterates over fields and values.", "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
        "O(1) per step") =>
        parse_scan;
    ("hrandfield", -2, READ, Keys::ONE,
        "Returns arbitrary fields.", "key [count [WITHVALUES]]", "O(n)") =>
        parse_random;
    ("hexpire", -6, GROWS, Keys::ONE,
        "Sets fields to expire after a number of seconds.",
        "key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]", "O(log(n)) per field") =>
        |a| parse_expire(a, (1000, false));
    ("hpexpire", -6, GROWS, Keys::ONE,
        "Sets fields to expire after a number of milliseconds.",
        "key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]", "O(log(n)) per field") =>
        |a| parse_expire(a, (1, false));
    ("hexpireat", -6, GROWS, Keys::ONE,
        "Sets fields to expire at a time in seconds since 1970.",
        "key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        "O(log(n)) per field") =>
        |a| parse_expire(a, (1000, true));
    ("hpexpireat", -6, GROWS, Keys::ONE,
        "Sets fields to expire at a time in milliseconds since 1970.",
        "key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
        "O(log(n)) per field") =>
        |a| parse_expire(a, (1, true));
    ("hpersist", -5, FAST_WRITE, Keys::ONE,
        "Removes the expiry of fields.", "key FIELDS numfields field [field ...]", "O(log(n)) per field") =>
        deadlines::parse_persist;
    ("httl", -5, FAST_READ, Keys::ONE,
        "Returns the seconds until fields expire.",
        "key FIELDS numfields field [field ...]", "O(1) per field") =>
        |a| parse_ttl(a, TtlForm::Seconds);
    ("hpttl", -5, FAST_READ, Keys::ONE,
        "Returns the milliseconds until fields expire.",
        "key FIELDS numfields field [field ...]", "O(1) per field") =>
        |a| parse_ttl(a, TtlForm::Millis);
    ("hexpiretime", -5, FAST_READ, Keys::ONE,
        "Returns the times in seconds since 1970 at which fields expire.",
        "key FIELDS numfields field [field ...]", "O(1) per field") =>
        |a| parse_ttl(a, TtlForm::AtSeconds);
    ("hpexpiretime", -5, FAST_READ, Keys::ONE,
        "Returns the times in milliseconds since 1970 at which fields expire.",
        "key FIELDS numfields field [field ...]", "O(1) per field") =>
        |a| parse_ttl(a, TtlForm::AtMillis);
    ("hgetex", -5, FAST_WRITE, Keys::ONE,
        "Returns the values of fields and changes when they expire.",
        "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | \
         PERSIST] FIELDS numfields field [field ...]", "O(log(n)) per field") =>
        deadlines::parse_get_until;
    ("hsetex", -6, GROWS, Keys::ONE,
        "Sets fields and when they expire, if none of them is there or all are.",
        "key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
         PXAT unix-time-milliseconds | KEEPTTL] FIELDS numfields field value [field value ...]",
        "O(log(n)) per field") =>
        deadlines::parse_set_until;
};
