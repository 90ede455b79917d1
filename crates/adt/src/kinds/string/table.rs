//! Commands of strings: parsing of their words into operations, and encoding.

use crate::command::commands;
use crate::key::{KeyOp, When, expiry_ms, invalid_expiry};
use crate::kinds::string::{
    BitRange, Compared, Expiry, Only, Op, SetReply, VALUE_BYTES_MAX, too_long,
};
use crate::kinds::string::{bitfield, bitop::Bitop, increx, lcs};
use crate::{
    ArgBuf, Args, Blob, Command, CommandSpec, Compound, ErrorReply, Flags, Keys, Merge,
    Op as AnyOp, Plan, Reply,
};
use std::sync::Arc;

fn one(args: &Args<'_>, op: Op) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, AnyOp::String(op)))
}

fn plain_set(value: Blob) -> Op {
    Op::Set { value, only: Only::Always, expiry: Expiry::Clear, reply: SetReply::Status }
}

/// An expiry option with its number at `at + 1`; `None` if the word is no such option.
pub(super) fn expiry_option(
    args: &Args<'_>,
    at: usize,
    command: &str,
) -> Result<Option<When>, ErrorReply> {
    let (unit_ms, absolute) = match () {
        () if args.is(at, "EX") => (1000, false),
        () if args.is(at, "PX") => (1, false),
        () if args.is(at, "EXAT") => (1000, true),
        () if args.is(at, "PXAT") => (1, true),
        () => return Ok(None),
    };
    let ms = positive_ms(args.int(at + 1)?, unit_ms, absolute, command)?;
    Ok(Some(if absolute { When::At(ms) } else { When::In(ms) }))
}

fn positive_ms(value: i64, unit_ms: i64, absolute: bool, command: &str) -> Result<i64, ErrorReply> {
    if value > 0 {
        return expiry_ms(value, unit_ms, absolute, command);
    }
    // Redis gives the same error for a time that is not positive and for one that is too large.
    Err(invalid_expiry(command))
}

fn parse_set(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let mut only = Only::Always;
    let mut expiry = Expiry::Clear;
    let mut reply = SetReply::Status;
    let mut i = 3;
    while i < args.len() {
        if args.is(i, "NX") && matches!(only, Only::Always | Only::IfAbsent) {
            only = Only::IfAbsent;
        } else if args.is(i, "XX") && matches!(only, Only::Always | Only::IfPresent) {
            only = Only::IfPresent;
        } else if only == Only::Always
            && let Some((compared, equal)) = Compared::parse(args, i)?
        {
            only = if equal { Only::IfEqual(compared) } else { Only::IfOther(compared) };
            i += 1;
        } else if args.is(i, "GET") {
            reply = SetReply::Old;
        } else if args.is(i, "KEEPTTL") && !matches!(expiry, Expiry::Set(_)) {
            expiry = Expiry::Keep;
        } else if expiry == Expiry::Clear
            && let Some(when) = expiry_option(args, i, "set")?
        {
            expiry = Expiry::Set(when);
            i += 1;
        } else {
            return Err(ErrorReply::syntax());
        }
        i += 1;
    }
    one(args, Op::Set { value: args.blob(2)?, only, expiry, reply })
}

fn parse_setex(args: &Args<'_>, unit_ms: i64, command: &str) -> Result<Command, ErrorReply> {
    let ms = positive_ms(args.int(2)?, unit_ms, false, command)?;
    let expiry = Expiry::Set(When::In(ms));
    one(args, Op::Set { value: args.blob(3)?, only: Only::Always, expiry, reply: SetReply::Status })
}

fn parse_setnx(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (only, expiry, reply) = (Only::IfAbsent, Expiry::Clear, SetReply::Flag);
    one(args, Op::Set { value: args.blob(2)?, only, expiry, reply })
}

fn parse_getset(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (only, expiry, reply) = (Only::Always, Expiry::Clear, SetReply::Old);
    one(args, Op::Set { value: args.blob(2)?, only, expiry, reply })
}

fn parse_delex(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let compared = match args.len() {
        2 => return Ok(Command::Single(args.blob(1)?, AnyOp::Key(KeyOp::Del))),
        4 => Compared::parse(args, 2)?,
        _ => None,
    };
    let (value, equal) = compared.ok_or_else(ErrorReply::syntax)?;
    one(args, Op::Remove { value, equal })
}

fn parse_getex(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let op = match args.len() {
        2 => Op::Get,
        3 if args.is(2, "PERSIST") => Op::GetEx(Expiry::Clear),
        4 => match expiry_option(args, 2, "getex")? {
            Some(when) => Op::GetEx(Expiry::Set(when)),
            None => return Err(ErrorReply::syntax()),
        },
        _ => return Err(ErrorReply::syntax()),
    };
    one(args, op)
}

/// Keys and values of `MSET` and `MSETNX`.
fn pairs(args: &Args<'_>, command: &str) -> Result<Vec<(Blob, AnyOp)>, ErrorReply> {
    if args.len().is_multiple_of(2) {
        let text = format!("wrong number of arguments for '{command}' command");
        return Err(ErrorReply::err(text));
    }
    let words: Vec<Blob> = args.iter_from(1).map(Blob::new).collect();
    let pair = |p: &[Blob]| (p[0].clone(), AnyOp::String(plain_set(p[1].clone())));
    Ok(words.chunks_exact(2).map(pair).collect())
}

fn parse_msetnx(args: &Args<'_>) -> Result<Command, ErrorReply> {
    Ok(Command::Compound(set_if_all(pairs(args, "msetnx")?, 0)))
}

/// Condition of `MSETEX` on all its keys.
#[derive(Clone, Copy, PartialEq)]
enum AllKeys {
    Any,
    Absent,
    Present,
}

fn parse_msetex(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let keys = PAIRS_COUNTED.positions(args)?;
    let (mut only, mut expiry) = (AllKeys::Any, None);
    let mut i = 2 + 2 * keys.len();
    while i < args.len() {
        if only == AllKeys::Any && args.is(i, "NX") {
            only = AllKeys::Absent;
        } else if only == AllKeys::Any && args.is(i, "XX") {
            only = AllKeys::Present;
        } else if expiry.is_none() && args.is(i, "KEEPTTL") {
            expiry = Some(Expiry::Keep);
        } else if expiry.is_none()
            && let Some(when) = expiry_option(args, i, "msetex")?
        {
            expiry = Some(Expiry::Set(when));
            i += 1;
        } else {
            return Err(ErrorReply::syntax());
        }
        i += 1;
    }
    let expiry = expiry.unwrap_or(Expiry::Clear);
    let set = |value| Op::Set { value, only: Only::Always, expiry, reply: SetReply::Status };
    let write = |at| Ok((args.blob(at)?, AnyOp::String(set(args.blob(at + 1)?))));
    let writes = keys.into_iter().map(write).collect::<Result<Vec<_>, ErrorReply>>()?;
    let wanted = match only {
        AllKeys::Any => {
            let one = |_| Reply::Int(1);
            return Ok(Command::Multi { ops: writes, merge: Merge::With(Arc::new(one)) });
        }
        AllKeys::Absent => 0,
        AllKeys::Present => 1,
    };
    Ok(Command::Compound(set_if_all(writes, wanted)))
}

/// Writes to keys if each of them is there (1), or none is (0).
fn set_if_all(writes: Vec<(Blob, AnyOp)>, wanted: i64) -> Compound {
    let reads = writes.iter().map(|(key, _)| (key.clone(), AnyOp::Key(KeyOp::Exists))).collect();
    Compound::new(reads, move |replies| {
        if replies.iter().all(|reply| *reply == Reply::Int(wanted)) {
            Plan { writes: writes.clone(), reply: Reply::Int(1) }
        } else {
            Plan { writes: Vec::new(), reply: Reply::Int(0) }
        }
    })
}

fn parse_mget(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let ops = args.iter_from(1).map(|key| (Blob::new(key), AnyOp::String(Op::Get))).collect();
    Ok(Command::Multi { ops, merge: Merge::Array })
}

fn parse_decrby(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let delta = args.int(2)?.checked_neg();
    one(args, Op::Incr(delta.ok_or_else(|| ErrorReply::err("decrement would overflow"))?))
}

fn parse_setrange(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let at = args.int(2)?;
    let bytes = args.blob(3)?;
    let at = u64::try_from(at).map_err(|_| ErrorReply::err("offset is out of range"))?;
    if !bytes.is_empty() && at.saturating_add(bytes.len() as u64) > VALUE_BYTES_MAX as u64 {
        return Err(too_long());
    }
    one(args, Op::SetRange(at, bytes))
}

/// Number of bits of a string of Redis' largest size (512 MB): a larger position is a mistake even
/// for a read.
const READ_BITS_MAX: u64 = 1 << 32;

fn bit_position(args: &Args<'_>, below: u64) -> Result<u64, ErrorReply> {
    let at = args.int(2).ok().and_then(|at| u64::try_from(at).ok()).filter(|at| *at < below);
    at.ok_or_else(|| ErrorReply::err("bit offset is not an integer or out of range"))
}

fn parse_setbit(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let at = bit_position(args, VALUE_BYTES_MAX as u64 * 8)?;
    let on = match args.get(3) {
        Some(b"0") => false,
        Some(b"1") => true,
        _ => return Err(ErrorReply::err("bit is not an integer or out of range")),
    };
    one(args, Op::SetBit(at, on))
}

fn parse_bitcount(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let bits = match args.len() {
        2 => return one(args, Op::BitCount(None)),
        4 => false,
        5 if args.is(4, "BYTE") => false,
        5 if args.is(4, "BIT") => true,
        _ => return Err(ErrorReply::syntax()),
    };
    one(args, Op::BitCount(Some(BitRange { start: args.int(2)?, end: args.int(3)?, bits })))
}

fn parse_bitpos(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let on = match args.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(ErrorReply::err("The bit argument must be 1 or 0.")),
    };
    let bits = match args.len() {
        6 if args.is(5, "BIT") => true,
        6 if !args.is(5, "BYTE") => return Err(ErrorReply::syntax()),
        7.. => return Err(ErrorReply::syntax()),
        _ => false,
    };
    let start = if args.len() > 3 { args.int(3)? } else { 0 };
    let has_end = args.len() > 4;
    let end = if has_end { args.int(4)? } else { -1 };
    one(args, Op::BitPos(on, BitRange { start, end, bits }, has_end))
}

fn parse_bitfield(args: &Args<'_>, only_reads: bool) -> Result<Command, ErrorReply> {
    one(args, Op::BitField(bitfield::parse(args, only_reads)?.into()))
}

fn parse_bitop(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let bitop = Bitop::parse(args)?;
    let target = args.blob(2)?;
    let sources = args.iter_from(3).map(|key| (Blob::new(key), AnyOp::String(Op::Get)));
    let reads: Vec<_> = sources.collect();
    let plan = move |replies: &[Reply]| {
        if let Some(error) = replies.iter().find(|reply| reply.is_error()) {
            return Plan { writes: Vec::new(), reply: error.clone() };
        }
        let bytes = |reply: &Reply| match reply {
            Reply::Bulk(bytes) => bytes.clone(),
            _ => Blob::default(),
        };
        let sources: Vec<Blob> = replies.iter().map(bytes).collect();
        let result = bitop.run(&sources);
        let len = result.len();
        let write = match len {
            0 => AnyOp::Key(KeyOp::Del),
            _ => AnyOp::String(plain_set(Blob::from(result))),
        };
        Plan { writes: vec![(target.clone(), write)], reply: Reply::Int(len as i64) }
    };
    Ok(Command::Compound(Compound::new(reads, plan)))
}

fn encode_compared(value: &Compared, equal: bool, out: &mut ArgBuf) {
    let (condition, word) = value.words(equal);
    out.push(condition).push(&word);
}

/// Writes the words that the parsers above read back as the same operation.
pub(in crate::kinds::string) fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
    match op {
        Op::Get => out.push("get").push(key),
        Op::Set { value, reply: SetReply::Flag, .. } => out.push("setnx").push(key).push(value),
        Op::Set { value, only, expiry, reply } => {
            out.push("set").push(key).push(value);
            match only {
                Only::Always => {}
                Only::IfAbsent => _ = out.push("nx"),
                Only::IfPresent => _ = out.push("xx"),
                Only::IfEqual(value) => encode_compared(value, true, out),
                Only::IfOther(value) => encode_compared(value, false, out),
            }
            if *reply == SetReply::Old {
                out.push("get");
            }
            match expiry {
                Expiry::Clear => out,
                Expiry::Keep => out.push("keepttl"),
                Expiry::Set(when) => encode_when(*when, out),
            }
        }
        Op::Take => out.push("getdel").push(key),
        Op::Remove { value, equal } => {
            out.push("delex").push(key);
            encode_compared(value, *equal, out);
            out
        }
        Op::GetEx(Expiry::Set(when)) => encode_when(*when, out.push("getex").push(key)),
        Op::GetEx(_) => out.push("getex").push(key).push("persist"),
        Op::Incr(delta) => out.push("incrby").push(key).push_int(*delta),
        Op::IncrFloat(delta) => out.push("incrbyfloat").push(key).push(delta),
        Op::Increment(increment) => {
            increx::encode(increment, out.push("increx").push(key));
            out
        }
        Op::Append(bytes) => out.push("append").push(key).push(bytes),
        Op::Len => out.push("strlen").push(key),
        Op::Digest => out.push("digest").push(key),
        Op::GetRange(start, end) => out.push("getrange").push(key).push_int(*start).push_int(*end),
        Op::SetRange(at, bytes) => out.push("setrange").push(key).push_int(*at as i64).push(bytes),
        Op::GetBit(at) => out.push("getbit").push(key).push_int(*at as i64),
        Op::SetBit(at, on) => {
            out.push("setbit").push(key).push_int(*at as i64).push_int(i64::from(*on))
        }
        Op::BitCount(None) => out.push("bitcount").push(key),
        Op::BitCount(Some(BitRange { start, end, bits })) => {
            let unit = if *bits { "bit" } else { "byte" };
            out.push("bitcount").push(key).push_int(*start).push_int(*end).push(unit)
        }
        Op::BitPos(on, BitRange { start, end, bits }, has_end) => {
            out.push("bitpos").push(key).push_int(i64::from(*on)).push_int(*start);
            if *has_end {
                out.push_int(*end).push(if *bits { "bit" } else { "byte" });
            }
            out
        }
        Op::BitField(fields) => {
            bitfield::encode(fields, out.push("bitfield").push(key));
            out
        }
    };
}

pub(super) fn encode_when(when: When, out: &mut ArgBuf) -> &mut ArgBuf {
    match when {
        When::At(ms) => out.push("pxat").push_int(ms),
        When::In(ms) => out.push("px").push_int(ms),
    }
}

const READ: Flags = Flags::READ;
const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const FAST_WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const GROWS: Flags = Flags::WRITE.and(Flags::GROWS);
const FAST_GROWS: Flags = GROWS.and(Flags::FAST);
const PAIRS: Keys = Keys::Range { first: 1, last: -1, step: 2 };
const PAIRS_COUNTED: Keys = Keys::Pairs { at: 1 };

pub(in crate::kinds::string) const COMMANDS: &[CommandSpec] = commands! { "string";
    ("get", 2, FAST_READ, Keys::ONE,
        "Returns a string.", "key", "O(1)") =>
        |a| one(a, Op::Get);
    ("set", -3, GROWS, Keys::ONE,
        "Sets a string, whatever the key held before.",
        "key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET] [EX seconds | \
         PX ms | EXAT second | PXAT ms | KEEPTTL]",
        "O(1), O(n) in the length with a digest") =>
        parse_set;
    ("setnx", 3, FAST_GROWS, Keys::ONE,
        "Sets a string if the key does not exist.", "key value", "O(1)") =>
        parse_setnx;
    ("setex", 4, GROWS, Keys::ONE,
        "Sets a string that expires after seconds.", "key seconds value", "O(1)") =>
        |a| parse_setex(a, 1000, "setex");
    ("psetex", 4, GROWS, Keys::ONE,
        "Sets a string that expires after milliseconds.", "key milliseconds value", "O(1)") =>
        |a| parse_setex(a, 1, "psetex");
    ("getset", 3, FAST_GROWS, Keys::ONE,
        "Sets a string and returns its old value.", "key value", "O(1)") =>
        parse_getset;
    ("getdel", 2, FAST_WRITE, Keys::ONE,
        "Returns a string and removes its key.", "key", "O(1)") =>
        |a| one(a, Op::Take);
    ("delex", -2, FAST_WRITE, Keys::ONE,
        "Removes a key if it holds a string, or another one.",
        "key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]",
        "O(1), O(n) in the length with a digest") =>
        parse_delex;
    ("delifeq", 3, FAST_WRITE, Keys::ONE,
        "Removes a key if it holds a string.", "key value", "O(1)") =>
        |a| one(a, Op::Remove { value: Compared::Text(a.blob(2)?), equal: true });
    ("getex", -2, FAST_WRITE, Keys::ONE,
        "Returns a string and changes its key's expiry.",
        "key [EX seconds | PX ms | EXAT second | PXAT ms | PERSIST]", "O(1)") =>
        parse_getex;
    ("mget", -2, FAST_READ, Keys::ALL,
        "Returns the strings of several keys.", "key [key ...]", "O(1) per key") =>
        parse_mget;
    ("mset", -3, GROWS, PAIRS,
        "Sets several strings at once.", "key value [key value ...]", "O(1) per key") =>
        |a| Ok(Command::Multi { ops: pairs(a, "mset")?, merge: Merge::Ok });
    ("msetnx", -3, GROWS, PAIRS,
        "Sets several strings if none of the keys exists.", "key value [key value ...]",
        "O(1) per key") =>
        parse_msetnx;
    ("msetex", -4, GROWS, PAIRS_COUNTED,
        "Sets several strings, if none of the keys exists or all do, with one expiry.",
        "numkeys key value [key value ...] [NX | XX] [EX seconds | PX ms | EXAT second | PXAT ms | \
         KEEPTTL]",
        "O(1) per key") =>
        parse_msetex;
    ("incr", 2, FAST_GROWS, Keys::ONE,
        "Adds one to an integer.", "key", "O(1)") =>
        |a| one(a, Op::Incr(1));
    ("decr", 2, FAST_GROWS, Keys::ONE,
        "Subtracts one from an integer.", "key", "O(1)") =>
        |a| one(a, Op::Incr(-1));
    ("incrby", 3, FAST_GROWS, Keys::ONE,
        "Adds to an integer.", "key increment", "O(1)") =>
        |a| one(a, Op::Incr(a.int(2)?));
    ("decrby", 3, FAST_GROWS, Keys::ONE,
        "Subtracts from an integer.", "key decrement", "O(1)") =>
        parse_decrby;
    ("incrbyfloat", 3, FAST_GROWS, Keys::ONE,
        "Adds to a decimal number.", "key increment", "O(1)") =>
        |a| one(a, Op::IncrFloat(a.float(2).and_then(|_| a.blob(2))?));
    ("increx", -2, FAST_GROWS, Keys::ONE,
        "Adds to a number within bounds, sets its key's expiry, and returns the sum and what was added.",
        "key [BYINT increment | BYFLOAT increment] [LBOUND bound] [UBOUND bound] [SATURATE] \
         [EX seconds | PX ms | EXAT second | PXAT ms | PERSIST] [ENX]",
        "O(1)") =>
        increx::parse;
    ("append", 3, FAST_GROWS, Keys::ONE,
        "Adds bytes at the end of a string.", "key value", "O(n)") =>
        |a| one(a, Op::Append(a.blob(2)?));
    ("digest", 2, FAST_READ, Keys::ONE,
        "Returns the digest of a string, with which conditions compare it.", "key", "O(n) in the length") =>
        |a| one(a, Op::Digest);
    ("strlen", 2, FAST_READ, Keys::ONE,
        "Returns the length of a string in bytes.", "key", "O(1)") =>
        |a| one(a, Op::Len);
    ("getrange", 4, READ, Keys::ONE,
        "Returns a part of a string.", "key start end", "O(n) in the bytes returned") =>
        |a| one(a, Op::GetRange(a.int(2)?, a.int(3)?));
    ("substr", 4, READ, Keys::ONE,
        "Returns a part of a string; old name of GETRANGE.", "key start end",
        "O(n) in the bytes returned") =>
        |a| one(a, Op::GetRange(a.int(2)?, a.int(3)?));
    ("setrange", 4, GROWS, Keys::ONE,
        "Overwrites a part of a string.", "key offset value", "O(n)") =>
        parse_setrange;
    ("setbit", 4, GROWS, Keys::ONE,
        "Sets or clears a bit and returns its old value.", "key offset value", "O(n)") =>
        parse_setbit;
    ("getbit", 3, FAST_READ, Keys::ONE,
        "Returns a bit.", "key offset", "O(1)") =>
        |a| one(a, Op::GetBit(bit_position(a, READ_BITS_MAX)?));
    ("bitcount", -2, READ, Keys::ONE,
        "Counts the bits that are set.", "key [start end [BYTE | BIT]]", "O(n)") =>
        parse_bitcount;
    ("bitpos", -3, READ, Keys::ONE,
        "Returns the position of the first bit that is set, or clear.",
        "key bit [start [end [BYTE | BIT]]]", "O(n)") =>
        parse_bitpos;
    ("bitfield", -2, GROWS, Keys::ONE,
        "Reads and changes integers of some bits each.",
        "key [GET encoding offset | [OVERFLOW WRAP | SAT | FAIL] SET encoding offset value | \
         INCRBY encoding offset increment ...]",
        "O(n)") =>
        |a| parse_bitfield(a, false);
    ("bitfield_ro", -2, FAST_READ, Keys::ONE,
        "Reads integers of some bits each.", "key [GET encoding offset ...]", "O(n)") =>
        |a| parse_bitfield(a, true);
    ("bitop", -4, GROWS, Keys::Range { first: 2, last: -1, step: 1 },
        "Combines strings bit by bit and stores the result.",
        "AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE destination key [key ...]", "O(n)") =>
        parse_bitop;
    ("lcs", -3, READ, Keys::TWO,
        "Returns the longest common subsequence of two strings.",
        "key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]", "O(n*m)") =>
        lcs::parse;
};
