//! Commands of sorted sets, and the encoding of operations as commands.

use crate::command::commands;
use crate::command::database::shown;
use crate::command::scan::ScanArgs;
use crate::kinds::zset::algebra::{
    Algebra, key_and_pairs, parse_algebra, parse_end, parse_intercard, parse_mpop,
    parse_range_store, parse_store, presence_word, some_keys,
};
use crate::kinds::zset::ranges::{By, parse_range};
use crate::kinds::zset::{Direction, Members, Only, Op, Presence, Range, Select, positive_zero};
use crate::random::REPEATED_MAX;
use crate::{
    ArgBuf, Args, Attempt, Blob, Blocking, Command, CommandSpec, ErrorReply, Flags, Keys,
    Op as AnyOp, Reply,
};

fn one(args: &Args<'_>, op: Op) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, AnyOp::ZSet(op)))
}

fn members(args: &Args<'_>) -> Members {
    args.iter_from(2).map(Blob::new).collect()
}

fn parse_add(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    let (mut ch, mut incr) = (false, false);
    let mut i = 2;
    while i < args.len() {
        match () {
            () if args.is(i, "NX") => nx = true,
            () if args.is(i, "XX") => xx = true,
            () if args.is(i, "GT") => gt = true,
            () if args.is(i, "LT") => lt = true,
            () if args.is(i, "CH") => ch = true,
            () if args.is(i, "INCR") => incr = true,
            () => break,
        }
        i += 1;
    }
    let words = args.len() - i;
    if words == 0 || !words.is_multiple_of(2) {
        return Err(ErrorReply::syntax());
    }
    if nx && xx {
        return Err(ErrorReply::err("XX and NX options at the same time are not compatible"));
    }
    if (gt && lt) || (nx && (gt || lt)) {
        return Err(ErrorReply::err(
            "GT, LT, and/or NX options at the same time are not compatible",
        ));
    }
    if incr && words > 2 {
        return Err(ErrorReply::err("INCR option supports a single increment-element pair"));
    }
    let presence = match (nx, xx) {
        (true, _) => Presence::Absent,
        (_, true) => Presence::Present,
        _ => Presence::Any,
    };
    let direction = match (gt, lt) {
        (true, _) => Direction::Raise,
        (_, true) => Direction::Lower,
        _ => Direction::Any,
    };
    let only = Only { presence, direction };
    if incr {
        let (by, member) = (args.float(i)?, args.blob(i + 1)?);
        return one(args, Op::Incr { only, by, member });
    }
    let pair = |i: usize| Ok((positive_zero(args.float(i)?), args.blob(i + 1)?));
    let pairs = (i..args.len()).step_by(2).map(pair).collect::<Result<_, ErrorReply>>()?;
    one(args, Op::Add { only, ch, pairs })
}

fn parse_incr(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (by, member) = (args.float(2)?, args.blob(3)?);
    one(args, Op::Incr { only: Only::default(), by, member })
}

fn parse_pop(args: &Args<'_>, high: bool) -> Result<Command, ErrorReply> {
    let count = match args.len() {
        2 => None,
        3 => Some(args.count(2)?),
        _ => return Err(ErrorReply::syntax()),
    };
    one(args, Op::Pop { high, count })
}

fn parse_take(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (high, count) = parse_end(args, 2)?;
    one(args, Op::Take { high, count })
}

fn parse_rank(args: &Args<'_>, rev: bool) -> Result<Command, ErrorReply> {
    let with_score = match args.len() {
        3 => false,
        4 if args.is(3, "WITHSCORE") => true,
        _ => return Err(ErrorReply::syntax()),
    };
    one(args, Op::Rank { member: args.blob(2)?, rev, with_score })
}

fn parse_select(args: &Args<'_>, fixed: Option<(By, bool)>) -> Result<Command, ErrorReply> {
    one(args, Op::Select(Box::new(Select::parse(args, 2, fixed, false)?)))
}

fn parse_random(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let count = if args.len() > 2 { Some(args.int(2)?) } else { None };
    let with_scores = match args.len() {
        2 | 3 => false,
        4 if args.is(3, "WITHSCORES") => true,
        _ => return Err(ErrorReply::syntax()),
    };
    if count.is_some_and(|c| c < 0 && c.unsigned_abs() > REPEATED_MAX) {
        return Err(ErrorReply::err("value is out of range, at least -1000000"));
    }
    one(args, Op::Random { count, with_scores })
}

fn blocking(
    keys: impl Iterator<Item = Blob>,
    (high, count): (bool, u64),
    timeout_ms: u64,
    wrap: fn(&Blob, Reply) -> Reply,
) -> Command {
    let attempt = |key| (key, Attempt::Take { op: AnyOp::ZSet(Op::Take { high, count }), wrap });
    let attempts = keys.map(attempt).collect();
    let (on_timeout, on_nothing) = (Reply::NilArray, Reply::NilArray);
    Command::Blocking(Blocking::new(attempts, timeout_ms, on_timeout, on_nothing))
}

fn wrap_one(key: &Blob, reply: Reply) -> Reply {
    match reply {
        Reply::Scored(taken) => match taken.into_iter().next() {
            Some((member, score)) => Reply::Array(vec![
                Reply::Bulk(shown(key)),
                Reply::Bulk(member),
                Reply::Double(score),
            ]),
            None => Reply::NilArray,
        },
        Reply::Nil => Reply::NilArray,
        other => other,
    }
}

fn wrap_pairs(key: &Blob, reply: Reply) -> Reply {
    match reply {
        Reply::Scored(taken) => key_and_pairs(key, &taken),
        Reply::Nil => Reply::NilArray,
        other => other,
    }
}

fn parse_bpop(args: &Args<'_>, high: bool) -> Result<Command, ErrorReply> {
    let last = args.len() - 1;
    let timeout_ms = args.timeout_ms(last)?;
    let keys = args.iter_from(1).take(last - 1).map(Blob::new);
    Ok(blocking(keys, (high, 1), timeout_ms, wrap_one))
}

fn parse_bmpop(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let timeout_ms = args.timeout_ms(1)?;
    let (keys, after) = some_keys(args, 2)?;
    let end = parse_end(args, after)?;
    Ok(blocking(keys.into_iter(), end, timeout_ms, wrap_pairs))
}

/// Writes `op` as a command that parses to the same operation.
pub(in crate::kinds::zset) fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
    let end = |high: bool| if high { "max" } else { "min" };
    match op {
        Op::Add { only, ch, pairs } => {
            out.push("zadd").push(key);
            encode_only(*only, out);
            if *ch {
                out.push("ch");
            }
            for (score, member) in pairs {
                out.push_float(*score).push(member);
            }
        }
        Op::Incr { only, by, member } if *only == Only::default() => {
            out.push("zincrby").push(key).push_float(*by).push(member);
        }
        Op::Incr { only, by, member } => {
            out.push("zadd").push(key);
            encode_only(*only, out);
            out.push("incr").push_float(*by).push(member);
        }
        Op::Remove(members) => encode_members("zrem", key, members, out),
        Op::RemoveRange(range) => {
            out.push(match range {
                Range::Score(_) => "zremrangebyscore",
                Range::Lex(_) => "zremrangebylex",
                Range::Rank(..) => "zremrangebyrank",
            });
            range.encode(false, out.push(key));
        }
        Op::Pop { high, count } => {
            out.push(if *high { "zpopmax" } else { "zpopmin" }).push(key);
            if let Some(count) = count {
                out.push_int(*count as i64);
            }
        }
        Op::Take { high, count } => {
            out.push("zset.take").push(key).push(end(*high)).push("count").push_int(*count as i64);
        }
        read => encode_read(read, key, out),
    }
}

fn encode_read(op: &Op, key: &[u8], out: &mut ArgBuf) {
    match op {
        Op::Score(member) => {
            out.push("zscore").push(key).push(member);
        }
        Op::Scores(members) => encode_members("zmscore", key, members, out),
        Op::Count(range) => {
            let name = if matches!(range, Range::Lex(_)) { "zlexcount" } else { "zcount" };
            range.encode(false, out.push(name).push(key));
        }
        Op::Rank { member, rev, with_score } => {
            out.push(if *rev { "zrevrank" } else { "zrank" }).push(key).push(member);
            if *with_score {
                out.push("withscore");
            }
        }
        Op::Select(select) => select.encode(key, out),
        Op::Scan(scan) => scan.encode(out.push("zscan").push(key)),
        Op::Random { count, with_scores } => {
            out.push("zrandmember").push(key);
            if let Some(count) = count {
                out.push_int(*count);
            }
            if *with_scores {
                out.push("withscores");
            }
        }
        _ => {
            out.push("zcard").push(key);
        }
    }
}

fn encode_members(name: &str, key: &[u8], members: &Members, out: &mut ArgBuf) {
    out.push(name).push(key);
    for member in members {
        out.push(member);
    }
}

fn encode_only(only: Only, out: &mut ArgBuf) {
    if let Some(word) = presence_word(only.presence) {
        out.push(word);
    }
    match only.direction {
        Direction::Any => {}
        Direction::Raise => {
            out.push("gt");
        }
        Direction::Lower => {
            out.push("lt");
        }
    }
}

const READ: Flags = Flags::READ;
const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const WRITE: Flags = Flags::WRITE;
const FAST_WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const GROWS: Flags = Flags::WRITE.and(Flags::GROWS);
const BLOCKS: Flags = FAST_WRITE.and(Flags::BLOCKING);
const BEFORE_LAST: Keys = Keys::Range { first: 1, last: -2, step: 1 };
const COUNTED: Keys = Keys::Counted { at: 1, also: 0 };
const COUNTED_STORE: Keys = Keys::Counted { at: 2, also: 1 };

const OPTIONS: &str =
    "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]";
const STORE_OPTIONS: &str = "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] \
    [AGGREGATE SUM | MIN | MAX]";

pub(in crate::kinds::zset) const COMMANDS: &[CommandSpec] = commands! { "sorted-set";
    ("zadd", -4, GROWS.and(Flags::FAST), Keys::ONE,
        "Adds members to a sorted set or changes their scores.",
        "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
        "O(log n) per member") =>
        parse_add;
    ("zincrby", 4, GROWS.and(Flags::FAST), Keys::ONE,
        "Increases the score of a member.", "key increment member", "O(log n)") =>
        parse_incr;
    ("zrem", -3, FAST_WRITE, Keys::ONE,
        "Removes members from a sorted set.", "key member [member ...]", "O(log n) per member") =>
        |a| one(a, Op::Remove(members(a)));
    ("zremrangebyscore", 4, WRITE, Keys::ONE,
        "Removes the members in a range of scores.",
        "key min max", "O(log n + m) for m found") =>
        |a| one(a, Op::RemoveRange(parse_range(a, 2, By::Score, false)?));
    ("zremrangebyrank", 4, WRITE, Keys::ONE,
        "Removes the members in a range of ranks.",
        "key start stop", "O(log n + m) for m found") =>
        |a| one(a, Op::RemoveRange(parse_range(a, 2, By::Rank, false)?));
    ("zremrangebylex", 4, WRITE, Keys::ONE,
        "Removes the members in a range of byte strings.",
        "key min max", "O(log n + m) for m found") =>
        |a| one(a, Op::RemoveRange(parse_range(a, 2, By::Lex, false)?));
    ("zpopmin", -2, FAST_WRITE, Keys::ONE,
        "Removes and returns the members with the lowest scores.",
        "key [count]", "O(log n + m) for m found") =>
        |a| parse_pop(a, false);
    ("zpopmax", -2, FAST_WRITE, Keys::ONE,
        "Removes and returns the members with the highest scores.",
        "key [count]", "O(log n + m) for m found") =>
        |a| parse_pop(a, true);
    ("zset.take", -3, FAST_WRITE, Keys::ONE,
        "Removes and returns members like ZPOPMIN and ZPOPMAX, or answers nil if there is none.",
        "key MIN | MAX [COUNT count]", "O(log n + m) for m found") =>
        parse_take;
    ("zmpop", -4, WRITE, COUNTED,
        "Removes and returns members of the first key that has any.",
        "numkeys key [key ...] MIN | MAX [COUNT count]", "O(log n + m) for m found") =>
        parse_mpop;
    ("bzpopmin", -3, BLOCKS, BEFORE_LAST,
        "Like ZPOPMIN on the first key that has members; waits for one.",
        "key [key ...] timeout", "O(log n)") =>
        |a| parse_bpop(a, false);
    ("bzpopmax", -3, BLOCKS, BEFORE_LAST,
        "Like ZPOPMAX on the first key that has members; waits for one.",
        "key [key ...] timeout", "O(log n)") =>
        |a| parse_bpop(a, true);
    ("bzmpop", -5, WRITE.and(Flags::BLOCKING), Keys::Counted { at: 2, also: 0 },
        "Like ZMPOP, but waits for a member.",
        "timeout numkeys key [key ...] MIN | MAX [COUNT count]", "O(log n + m) for m found") =>
        parse_bmpop;
    ("zscore", 3, FAST_READ, Keys::ONE,
        "Returns the score of a member.", "key member", "O(1)") =>
        |a| one(a, Op::Score(a.blob(2)?));
    ("zmscore", -3, FAST_READ, Keys::ONE,
        "Returns the scores of members.", "key member [member ...]", "O(1) per member") =>
        |a| one(a, Op::Scores(members(a)));
    ("zcard", 2, FAST_READ, Keys::ONE,
        "Counts the members of a sorted set.", "key", "O(1)") =>
        |a| one(a, Op::Card);
    ("zcount", 4, FAST_READ, Keys::ONE,
        "Counts the members in a range of scores.", "key min max", "O(log n)") =>
        |a| one(a, Op::Count(parse_range(a, 2, By::Score, false)?));
    ("zlexcount", 4, FAST_READ, Keys::ONE,
        "Counts the members in a range of byte strings.", "key min max", "O(log n)") =>
        |a| one(a, Op::Count(parse_range(a, 2, By::Lex, false)?));
    ("zrank", -3, FAST_READ, Keys::ONE,
        "Returns how many members come before a member.", "key member [WITHSCORE]", "O(log n)") =>
        |a| parse_rank(a, false);
    ("zrevrank", -3, FAST_READ, Keys::ONE,
        "Returns how many members come after a member.", "key member [WITHSCORE]", "O(log n)") =>
        |a| parse_rank(a, true);
    ("zrange", -4, READ, Keys::ONE,
        "Returns the members in a range of ranks, scores or byte strings.",
        "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
        "O(log n + m) for m found") =>
        |a| parse_select(a, None);
    ("zrevrange", -4, READ, Keys::ONE,
        "Returns the members in a range of ranks, highest first.",
        "key start stop [WITHSCORES]", "O(log n + m) for m found") =>
        |a| parse_select(a, Some((By::Rank, true)));
    ("zrangebyscore", -4, READ, Keys::ONE,
        "Returns the members in a range of scores.",
        "key min max [WITHSCORES] [LIMIT offset count]", "O(log n + m) for m found") =>
        |a| parse_select(a, Some((By::Score, false)));
    ("zrevrangebyscore", -4, READ, Keys::ONE,
        "Returns the members in a range of scores, highest first.",
        "key max min [WITHSCORES] [LIMIT offset count]", "O(log n + m) for m found") =>
        |a| parse_select(a, Some((By::Score, true)));
    ("zrangebylex", -4, READ, Keys::ONE,
        "Returns the members in a range of byte strings.",
        "key min max [LIMIT offset count]", "O(log n + m) for m found") =>
        |a| parse_select(a, Some((By::Lex, false)));
    ("zrevrangebylex", -4, READ, Keys::ONE,
        "Returns the members in a range of byte strings, highest first.",
        "key max min [LIMIT offset count]", "O(log n + m) for m found") =>
        |a| parse_select(a, Some((By::Lex, true)));
    ("zrangestore", -5, GROWS, Keys::TWO,
        "Stores a range of members under another key.",
        "destination source min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
        "O(log n + m) for m found") =>
        parse_range_store;
    ("zscan", -3, READ, Keys::ONE,
        "Iterates over members and scores.",
        "key cursor [MATCH pattern] [COUNT count]", "O(1) per step") =>
        |a| one(a, Op::Scan(ScanArgs::parse(a, 2)?));
    ("zrandmember", -2, READ, Keys::ONE,
        "Returns arbitrary members.", "key [count [WITHSCORES]]", "O(n)") =>
        parse_random;
    ("zunion", -3, READ, COUNTED,
        "Unites sorted sets.", OPTIONS, "O(m log m) in all members") =>
        |a| parse_algebra(a, Algebra::Union);
    ("zinter", -3, READ, COUNTED,
        "Intersects sorted sets.", OPTIONS, "O(m log m) in all members") =>
        |a| parse_algebra(a, Algebra::Inter);
    ("zdiff", -3, READ, COUNTED,
        "Returns the members of the first sorted set that the others lack.",
        "numkeys key [key ...] [WITHSCORES]", "O(m log m) in all members") =>
        |a| parse_algebra(a, Algebra::Diff);
    ("zintercard", -3, READ, COUNTED,
        "Counts the members of an intersection.",
        "numkeys key [key ...] [LIMIT limit]", "O(m log m) in all members") =>
        parse_intercard;
    ("zunionstore", -4, GROWS, COUNTED_STORE,
        "Stores a union.", STORE_OPTIONS, "O(m log m) in all members") =>
        |a| parse_store(a, Algebra::Union);
    ("zinterstore", -4, GROWS, COUNTED_STORE,
        "Stores an intersection.", STORE_OPTIONS, "O(m log m) in all members") =>
        |a| parse_store(a, Algebra::Inter);
    ("zdiffstore", -4, GROWS, COUNTED_STORE,
        "Stores a difference.", "destination numkeys key [key ...]", "O(m log m) in all members") =>
        |a| parse_store(a, Algebra::Diff);
};

/// Forms that only the log and other machines use.
pub(crate) const INTERNAL: &[CommandSpec] = commands! { "sorted-set";
    ("zset.scored", -4, READ, Keys::ONE,
        "Returns the members in a range with their scores.",
        "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
        "O(log n + m) for m found") =>
        |a| one(a, Op::Select(Box::new(Select::parse(a, 2, None, true)?)));
};
