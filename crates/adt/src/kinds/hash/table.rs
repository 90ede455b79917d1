//! Commands of hashes: parsing of their words into operations, and encoding.

use crate::collections::Map;
use crate::command::commands;
use crate::command::scan::ScanArgs;
use crate::kinds::hash::{Fields, Op, Pairs};
use crate::random::REPEATED_MAX;
use crate::{ArgBuf, Args, Blob, Command, CommandSpec, ErrorReply, Flags, Keys, Op as AnyOp};

fn one(args: &Args<'_>, op: Op) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, AnyOp::Hash(op)))
}

fn fields(args: &Args<'_>) -> Fields {
    args.iter_from(2).map(Blob::new).collect()
}

/// Fields and values from word 2 on. Of a repeated field the last value counts; Redis' `HSET`
/// answers accordingly, since only the first occurrence can be new.
fn pairs(args: &Args<'_>, command: &str) -> Result<Pairs, ErrorReply> {
    if args.len() % 2 == 1 {
        let text = format!("wrong number of arguments for '{command}' command");
        return Err(ErrorReply::err(text));
    }
    if args.len() == 4 {
        return Ok([(args.blob(2)?, args.blob(3)?)].into_iter().collect());
    }
    let mut map = Map::default();
    for i in (2..args.len()).step_by(2) {
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

fn parse_take(args: &Args<'_>) -> Result<Command, ErrorReply> {
    if !args.is(2, "FIELDS") {
        let text = "Mandatory argument FIELDS is missing or not at the right position";
        return Err(ErrorReply::err(text));
    }
    let count = args.at_least(3, 1, "Number of fields must be a positive integer")?;
    if count != args.len() as u64 - 4 {
        let text = "The `numfields` parameter must match the number of arguments";
        return Err(ErrorReply::err(text));
    }
    one(args, Op::Take(args.iter_from(4).map(Blob::new).collect()))
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

/// Writes the words that the parsers above read back as the same operation.
pub(in crate::kinds::hash) fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
    let name = match op {
        Op::Set(_) => "hset",
        Op::Put(_) => "hmset",
        Op::SetIfAbsent(..) => "hsetnx",
        Op::Remove(_) => "hdel",
        Op::Take(_) => "hgetdel",
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
        Op::Scan(_) => "hscan",
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
        Op::Take(fields) => {
            out.push("fields").push_int(fields.len() as i64);
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
        Op::Scan(scan) => scan.encode(out),
        Op::Random(None) | Op::Len | Op::All | Op::Fields | Op::Values => {}
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
        |a| one(a, Op::Set(pairs(a, "hset")?));
    ("hmset", -4, GROWS, Keys::ONE,
        "Sets fields.", "key field value [field value ...]", "O(1) per field") =>
        |a| one(a, Op::Put(pairs(a, "hmset")?));
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
        parse_take;
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
        "Iterates over fields and values.", "key cursor [MATCH pattern] [COUNT count]",
        "O(1) per step") =>
        |a| one(a, Op::Scan(ScanArgs::parse(a, 2)?));
    ("hrandfield", -2, READ, Keys::ONE,
        "Returns arbitrary fields.", "key [count [WITHVALUES]]", "O(n)") =>
        parse_random;
};
