//! Commands of lists: parsing of their words into operations, and encoding.

use crate::command::commands;
use crate::kinds::list::{Elements, End, Find, Op, moves};
use crate::{ArgBuf, Args, Blob, Command, CommandSpec, ErrorReply, Flags, Keys, Op as AnyOp};

fn one(args: &Args<'_>, op: Op) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, AnyOp::List(op)))
}

fn elements(args: &Args<'_>) -> Elements {
    args.iter_from(2).map(Blob::new).collect()
}

fn parse_pop(args: &Args<'_>, end: End) -> Result<Command, ErrorReply> {
    let count = match args.len() {
        2 => None,
        3 => Some(args.count(2)?),
        _ if end == End::Left => return Err(ErrorReply::arity("lpop")),
        _ => return Err(ErrorReply::arity("rpop")),
    };
    one(args, Op::Pop(end, count))
}

fn parse_insert(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let before = match () {
        () if args.is(2, "BEFORE") => true,
        () if args.is(2, "AFTER") => false,
        () => return Err(ErrorReply::syntax()),
    };
    one(args, Op::Insert { before, pivot: args.blob(3)?, element: args.blob(4)? })
}

fn parse_find(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let mut find = Find { element: args.blob(2)?, rank: 1, count: None, compare_max: 0 };
    let mut i = 3;
    while i < args.len() {
        if args.is(i, "RANK") {
            find.rank = args.int(i + 1)?;
            if find.rank == 0 {
                return Err(ErrorReply::err(
                    "RANK can't be zero: use 1 to start from the first match, 2 from the second \
                     ... or use negative to start from the end of the list",
                ));
            }
        } else if args.is(i, "COUNT") {
            find.count = Some(args.at_least(i + 1, 0, "COUNT can't be negative")?);
        } else if args.is(i, "MAXLEN") {
            find.compare_max = args.at_least(i + 1, 0, "MAXLEN can't be negative")?;
        } else {
            return Err(ErrorReply::syntax());
        }
        i += 2;
    }
    one(args, Op::Find(find))
}

/// Writes the words that the parsers above read back as the same operation.
pub(in crate::kinds::list) fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
    let name = match op {
        Op::Push(End::Left, _) => "lpush",
        Op::Push(End::Right, _) => "rpush",
        Op::PushIfPresent(End::Left, _) => "lpushx",
        Op::PushIfPresent(End::Right, _) => "rpushx",
        Op::Pop(End::Left, _) => "lpop",
        Op::Pop(End::Right, _) => "rpop",
        Op::SetAt(..) => "lset",
        Op::Insert { .. } => "linsert",
        Op::Remove(..) => "lrem",
        Op::Trim(..) => "ltrim",
        Op::Len => "llen",
        Op::Range(..) => "lrange",
        Op::At(_) => "lindex",
        Op::Find(_) => "lpos",
    };
    out.push(name).push(key);
    match op {
        Op::Push(_, elements) | Op::PushIfPresent(_, elements) => {
            for element in elements {
                out.push(element);
            }
        }
        Op::Pop(_, Some(count)) => _ = out.push_int(*count as i64),
        Op::SetAt(at, element) => _ = out.push_int(*at).push(element),
        Op::Insert { before, pivot, element } => {
            out.push(if *before { "before" } else { "after" }).push(pivot).push(element);
        }
        Op::Remove(count, element) => _ = out.push_int(*count).push(element),
        Op::Trim(start, end) | Op::Range(start, end) => _ = out.push_int(*start).push_int(*end),
        Op::At(at) => _ = out.push_int(*at),
        Op::Find(find) => {
            out.push(&find.element).push("rank").push_int(find.rank);
            if let Some(count) = find.count {
                out.push("count").push_int(count as i64);
            }
            out.push("maxlen").push_int(find.compare_max as i64);
        }
        Op::Pop(_, None) | Op::Len => {}
    }
}

const READ: Flags = Flags::READ;
const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const FAST_WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const GROWS: Flags = Flags::WRITE.and(Flags::GROWS);
const FAST_GROWS: Flags = GROWS.and(Flags::FAST);
const BLOCKING: Flags = Flags::WRITE.and(Flags::BLOCKING);
const ALL_BUT_LAST: Keys = Keys::Range { first: 1, last: -2, step: 1 };

pub(in crate::kinds::list) const COMMANDS: &[CommandSpec] = commands! { "list";
    ("lpush", -3, FAST_GROWS, Keys::ONE,
        "Adds elements at the left end; returns the length.", "key element [element ...]",
        "O(1) per element") =>
        |a| one(a, Op::Push(End::Left, elements(a)));
    ("rpush", -3, FAST_GROWS, Keys::ONE,
        "Adds elements at the right end; returns the length.", "key element [element ...]",
        "O(1) per element") =>
        |a| one(a, Op::Push(End::Right, elements(a)));
    ("lpushx", -3, FAST_GROWS, Keys::ONE,
        "Adds elements at the left end of a list that exists.", "key element [element ...]",
        "O(1) per element") =>
        |a| one(a, Op::PushIfPresent(End::Left, elements(a)));
    ("rpushx", -3, FAST_GROWS, Keys::ONE,
        "Adds elements at the right end of a list that exists.", "key element [element ...]",
        "O(1) per element") =>
        |a| one(a, Op::PushIfPresent(End::Right, elements(a)));
    ("lpop", -2, FAST_WRITE, Keys::ONE,
        "Removes and returns elements at the left end.", "key [count]", "O(1) per element") =>
        |a| parse_pop(a, End::Left);
    ("rpop", -2, FAST_WRITE, Keys::ONE,
        "Removes and returns elements at the right end.", "key [count]", "O(1) per element") =>
        |a| parse_pop(a, End::Right);
    ("llen", 2, FAST_READ, Keys::ONE,
        "Counts the elements.", "key", "O(1)") =>
        |a| one(a, Op::Len);
    ("lrange", 4, READ, Keys::ONE,
        "Returns the elements from a first to a last position.", "key start stop",
        "O(n) in the elements returned") =>
        |a| one(a, Op::Range(a.int(2)?, a.int(3)?));
    ("lindex", 3, READ, Keys::ONE,
        "Returns the element at a position.", "key index", "O(1)") =>
        |a| one(a, Op::At(a.int(2)?));
    ("lset", 4, GROWS, Keys::ONE,
        "Replaces the element at a position.", "key index element", "O(1)") =>
        |a| one(a, Op::SetAt(a.int(2)?, a.blob(3)?));
    ("lrem", 4, Flags::WRITE, Keys::ONE,
        "Removes elements of a value; returns how many.", "key count element", "O(n)") =>
        |a| one(a, Op::Remove(a.int(2)?, a.blob(3)?));
    ("ltrim", 4, Flags::WRITE, Keys::ONE,
        "Removes all elements outside of a range.", "key start stop",
        "O(n) in the elements removed") =>
        |a| one(a, Op::Trim(a.int(2)?, a.int(3)?));
    ("linsert", 5, GROWS, Keys::ONE,
        "Inserts an element beside another.", "key <BEFORE | AFTER> pivot element", "O(n)") =>
        parse_insert;
    ("lpos", -3, READ, Keys::ONE,
        "Returns the positions of an element.",
        "key element [RANK rank] [COUNT num-matches] [MAXLEN len]", "O(n)") =>
        parse_find;
    ("lmove", 5, GROWS, Keys::TWO,
        "Moves an element between ends of lists.",
        "source destination <LEFT | RIGHT> <LEFT | RIGHT>", "O(1)") =>
        moves::parse_move;
    ("rpoplpush", 3, GROWS, Keys::TWO,
        "Moves an element from the right end of a list to the left end of another.",
        "source destination", "O(1)") =>
        moves::parse_rpoplpush;
    ("lmpop", -4, Flags::WRITE, Keys::Counted { at: 1, also: 0 },
        "Removes and returns elements of the first list that has any.",
        "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]", "O(n) in keys and elements") =>
        moves::parse_several;
    ("blpop", -3, BLOCKING, ALL_BUT_LAST,
        "Removes and returns an element at the left end; waits for one.",
        "key [key ...] timeout", "O(1) per key") =>
        |a| moves::parse_blocking_pop(a, End::Left);
    ("brpop", -3, BLOCKING, ALL_BUT_LAST,
        "Removes and returns an element at the right end; waits for one.",
        "key [key ...] timeout", "O(1) per key") =>
        |a| moves::parse_blocking_pop(a, End::Right);
    ("blmove", 6, BLOCKING.and(Flags::GROWS), Keys::TWO,
        "Moves an element between ends of lists; waits for one.",
        "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout", "O(1)") =>
        moves::parse_blocking_move;
    ("brpoplpush", 4, BLOCKING.and(Flags::GROWS), Keys::TWO,
        "Moves an element from the right end of a list to the left end of another; waits for one.",
        "source destination timeout", "O(1)") =>
        moves::parse_blocking_rpoplpush;
    ("blmpop", -5, BLOCKING, Keys::Counted { at: 2, also: 0 },
        "Removes and returns elements of the first list that has any; waits for some.",
        "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
        "O(n) in keys and elements") =>
        moves::parse_blocking_several;
};
