//! Commands on several lists: moves from one to another, pops from the first non-empty list, and
//! the blocking forms.

use crate::command::database::shown;
use crate::kinds::list::{Elements, End, Op};
use crate::{
    Args, Attempt, Blob, Blocking, Command, Compound, ErrorReply, Keys, Op as AnyOp, Plan, Reply,
};

/// The end that word number `at` names.
fn end(args: &Args<'_>, at: usize) -> Result<End, ErrorReply> {
    match () {
        () if args.is(at, "LEFT") => Ok(End::Left),
        () if args.is(at, "RIGHT") => Ok(End::Right),
        () => Err(ErrorReply::syntax()),
    }
}

/// Takes an element at one end of `source` and puts it at one end of `target`.
fn move_element(source: Blob, from: End, target: Blob, to: End) -> Compound {
    let at = if from == End::Left { 0 } else { -1 };
    let reads = vec![
        (source.clone(), AnyOp::List(Op::At(at))),
        // Reads only whether the target is a list.
        (target.clone(), AnyOp::List(Op::Len)),
    ];
    let plan = move |replies: &[Reply]| {
        let nothing = |reply: &Reply| Plan { writes: Vec::new(), reply: reply.clone() };
        let element = match replies {
            [Reply::Bulk(_), error @ Reply::Error(_)] => return nothing(error),
            [Reply::Bulk(element), _] => element.clone(),
            [other, ..] => return nothing(other),
            [] => return nothing(&Reply::Nil),
        };
        let pushed: Elements = [element.clone()].into_iter().collect();
        // The push comes first: if source and target are the same, the list is never empty in
        // between, so that the key keeps its expiry.
        let writes = vec![
            (target.clone(), AnyOp::List(Op::Push(to, pushed))),
            (source.clone(), AnyOp::List(Op::Pop(from, None))),
        ];
        Plan { writes, reply: Reply::Bulk(element) }
    };
    Compound::new(reads, plan)
}

fn lmove(args: &Args<'_>) -> Result<Compound, ErrorReply> {
    let (from, to) = (end(args, 3)?, end(args, 4)?);
    Ok(move_element(args.blob(1)?, from, args.blob(2)?, to))
}

fn rpoplpush(args: &Args<'_>) -> Result<Compound, ErrorReply> {
    Ok(move_element(args.blob(1)?, End::Right, args.blob(2)?, End::Left))
}

pub(in crate::kinds::list) fn parse_move(args: &Args<'_>) -> Result<Command, ErrorReply> {
    lmove(args).map(Command::Compound)
}

pub(in crate::kinds::list) fn parse_rpoplpush(args: &Args<'_>) -> Result<Command, ErrorReply> {
    rpoplpush(args).map(Command::Compound)
}

fn waiting_move(source: Blob, compound: Compound, timeout_ms: u64) -> Command {
    let attempts = vec![(source, Attempt::Move(compound))];
    // Redis answers a null array after the time-out, although it answers an element otherwise.
    let (on_timeout, on_nothing) = (Reply::NilArray, Reply::Nil);
    Command::Blocking(Blocking::new(attempts, timeout_ms, on_timeout, on_nothing))
}

pub(in crate::kinds::list) fn parse_blocking_move(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let compound = lmove(args)?;
    Ok(waiting_move(args.blob(1)?, compound, args.timeout_ms(5)?))
}

pub(in crate::kinds::list) fn parse_blocking_rpoplpush(
    args: &Args<'_>,
) -> Result<Command, ErrorReply> {
    let timeout_ms = args.timeout_ms(3)?;
    Ok(waiting_move(args.blob(1)?, rpoplpush(args)?, timeout_ms))
}

/// Pairs the popped elements with their key; leaves nil and errors as they are.
fn named(key: &Blob, reply: Reply) -> Reply {
    match reply {
        Reply::Bulk(_) | Reply::Array(_) => Reply::Array(vec![Reply::Bulk(shown(key)), reply]),
        other => other,
    }
}

fn waiting_pop(keys: impl Iterator<Item = Blob>, op: &Op, timeout_ms: u64) -> Command {
    let take = || Attempt::Take { op: AnyOp::List(op.clone()), wrap: named };
    let attempts = keys.map(|key| (key, take())).collect();
    let (on_timeout, on_nothing) = (Reply::NilArray, Reply::NilArray);
    Command::Blocking(Blocking::new(attempts, timeout_ms, on_timeout, on_nothing))
}

pub(in crate::kinds::list) fn parse_blocking_pop(
    args: &Args<'_>,
    end: End,
) -> Result<Command, ErrorReply> {
    let last = args.len() - 1;
    let timeout_ms = args.timeout_ms(last)?;
    let keys = args.iter_from(1).take(last - 1).map(Blob::new);
    Ok(waiting_pop(keys, &Op::Pop(end, None), timeout_ms))
}

/// Keys, end and count of `LMPOP` and `BLMPOP`, with the number of keys at position `at`.
fn several(args: &Args<'_>, at: usize) -> Result<(Vec<Blob>, End, u64), ErrorReply> {
    let positions = Keys::Counted { at: at as i16, also: 0 }.positions(args)?;
    let keys: Vec<Blob> = positions.iter().filter_map(|&i| args.get(i)).map(Blob::new).collect();
    let after = at + 1 + keys.len();
    let end = end(args, after)?;
    let count = match args.len() - after {
        1 => 1,
        3 if args.is(after + 1, "COUNT") => {
            args.at_least(after + 2, 1, "count should be greater than 0")?
        }
        _ => return Err(ErrorReply::syntax()),
    };
    Ok((keys, end, count))
}

pub(in crate::kinds::list) fn parse_blocking_several(
    args: &Args<'_>,
) -> Result<Command, ErrorReply> {
    let timeout_ms = args.timeout_ms(1)?;
    let (keys, end, count) = several(args, 2)?;
    Ok(waiting_pop(keys.into_iter(), &Op::Pop(end, Some(count)), timeout_ms))
}

pub(in crate::kinds::list) fn parse_several(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (keys, end, count) = several(args, 1)?;
    let count = count as i64;
    let range = match end {
        End::Left => Op::Range(0, count - 1),
        End::Right => Op::Range(-count, -1),
    };
    let reads = keys.iter().map(|key| (key.clone(), AnyOp::List(range.clone()))).collect();
    let plan = move |replies: &[Reply]| {
        for (key, reply) in keys.iter().zip(replies) {
            match reply {
                Reply::Array(elements) if elements.is_empty() => {}
                Reply::Array(elements) => {
                    let mut elements = elements.clone();
                    if end == End::Right {
                        elements.reverse();
                    }
                    let op = Op::Pop(end, Some(elements.len() as u64));
                    return Plan {
                        writes: vec![(key.clone(), AnyOp::List(op))],
                        reply: named(key, Reply::Array(elements)),
                    };
                }
                other => return Plan { writes: Vec::new(), reply: other.clone() },
            }
        }
        Plan { writes: Vec::new(), reply: Reply::NilArray }
    };
    Ok(Command::Compound(Compound::new(reads, plan)))
}
