//! Parsing of `XREAD` and `XREADGROUP`, which read several streams and may wait.

use super::{about_group, stream};
use crate::command::database::shown;
use crate::kinds::stream::group::Given;
use crate::kinds::stream::{After, Id, Task};
use crate::{
    Args, Attempt, Begins, Blob, Blocking, Command, Compound, ErrorReply, Keys, Merge, Op as AnyOp,
    Plan, Reply,
};
use std::sync::Arc;

/// Keys and places behind `STREAMS`, from word number 1 on.
pub(in crate::kinds::stream) const READ_KEYS: Keys = Keys::Behind { word: "STREAMS", from: 1 };
/// Keys and places behind `STREAMS`, after the group.
pub(in crate::kinds::stream) const GROUP_KEYS: Keys = Keys::Behind { word: "STREAMS", from: 4 };

fn in_read(key: &str, group: &str) -> String {
    format!("No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option")
}

/// Number of entries to read; 0 and less mean all.
pub(in crate::kinds::stream) fn read_count(
    args: &Args<'_>,
    at: usize,
) -> Result<Option<u64>, ErrorReply> {
    Ok(u64::try_from(args.int(at)?).ok().filter(|count| *count > 0))
}

/// Words of `XREAD` and `XREADGROUP`.
#[derive(Default)]
struct Reading {
    count: Option<u64>,
    block_ms: Option<u64>,
    no_ack: bool,
    claim_ms: Option<u64>,
    group: Option<(Blob, Blob)>,
    streams: Vec<(Blob, Vec<u8>)>,
}

fn reading(args: &Args<'_>, grouped: bool) -> Result<Reading, ErrorReply> {
    let mut found = Reading::default();
    let only = |what: &str| {
        let text =
            format!("The {what} option is only supported by XREADGROUP. You called XREAD instead.");
        Err(ErrorReply::err(text))
    };
    let mut at = 1;
    loop {
        let more = args.len().saturating_sub(at + 1);
        if more > 0 && args.is(at, "BLOCK") {
            let ms = args
                .int(at + 1)
                .map_err(|_| ErrorReply::err("timeout is not an integer or out of range"))?;
            let ms = u64::try_from(ms).map_err(|_| ErrorReply::err("timeout is negative"))?;
            found.block_ms = Some(ms);
            at += 2;
        } else if more > 0 && args.is(at, "COUNT") {
            found.count = read_count(args, at + 1)?;
            at += 2;
        } else if more > 0 && args.is(at, "STREAMS") {
            at += 1;
            break;
        } else if more > 1 && args.is(at, "GROUP") {
            if !grouped {
                return only("GROUP");
            }
            found.group = Some((args.blob(at + 1)?, args.blob(at + 2)?));
            at += 3;
        } else if args.is(at, "NOACK") {
            if !grouped {
                return only("NOACK");
            }
            found.no_ack = true;
            at += 1;
        } else if more > 0 && args.is(at, "CLAIM") {
            if !grouped {
                return only("CLAIM");
            }
            let error = |text| ErrorReply::err(format!("min-idle-time {text}"));
            let ms = args.int(at + 1).map_err(|_| error("is not an integer"))?;
            let ms = u64::try_from(ms).map_err(|_| error("must be a positive integer"))?;
            found.claim_ms = Some(ms);
            at += 2;
        } else {
            return Err(ErrorReply::syntax());
        }
    }
    let words = args.len() - at;
    if words % 2 == 1 {
        return Err(ErrorReply::err(
            "Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
        ));
    }
    if grouped && found.group.is_none() {
        return Err(ErrorReply::err("Missing GROUP option for XREADGROUP"));
    }
    let places = args.iter_from(at + words / 2).map(<[u8]>::to_vec);
    found.streams = args.iter_from(at).map(Blob::new).zip(places).take(words / 2).collect();
    Ok(found)
}

/// The entries of streams, of those that have any.
fn by_stream(keys: &[Blob], replies: &[Reply]) -> Reply {
    let mut found = Vec::new();
    for (key, reply) in keys.iter().zip(replies) {
        match reply {
            Reply::Nil | Reply::NilArray => {}
            Reply::Error(_) => return about_group(key, reply.clone(), in_read),
            entries => found.push((shown(key), entries.clone())),
        }
    }
    if found.is_empty() { Reply::NilArray } else { Reply::Named(found) }
}

/// The reply for one stream.
fn of_one(key: &Blob, reply: Reply) -> Reply {
    by_stream(std::slice::from_ref(key), &[reply])
}

/// Shortest and longest time after which a client that waits looks again for entries that have become due, in
/// milliseconds.
const CLAIM_AGAIN_MS_MIN: u64 = 100;
const CLAIM_AGAIN_MS_MAX: u64 = 1_000;

type Ops = Vec<(Blob, AnyOp)>;

/// The delivery of what was read of a stream, and the entries to answer.
fn delivery_of(write: &AnyOp, read: &Reply) -> Option<(AnyOp, Reply)> {
    let AnyOp::Stream(task) = write else { return None };
    match (&**task, read) {
        (Task::ReadGroup { group, consumer, no_ack, claim_ms: Some(_), .. }, read) => {
            let Given { rows, pending, new } = Given::in_reply(read)?;
            let (group, consumer, no_ack) = (group.clone(), consumer.clone(), *no_ack);
            Some((stream(Task::HandOut { group, consumer, pending, new, no_ack }), rows))
        }
        (_, Reply::Array(_)) => Some((write.clone(), read.clone())),
        _ => None,
    }
}

/// A delivery of due and new entries in two steps: the entries depend on the time.
pub(in crate::kinds::stream) fn due_first(key: &Blob, write: &Task) -> Option<Compound> {
    let Task::ReadGroup { group, claim_ms: Some(ms), count, .. } = write else { return None };
    let read = Task::Due { group: group.clone(), min_idle_ms: *ms, count: *count };
    let (target, write) = (key.clone(), stream(write.clone()));
    let plan = move |replies: &[Reply]| {
        let read = replies.first().unwrap_or(&Reply::Nil);
        match delivery_of(&write, read) {
            Some((write, reply)) => Plan { writes: vec![(target.clone(), write)], reply },
            None => Plan { writes: Vec::new(), reply: read.clone() },
        }
    };
    Some(Compound::new(vec![(key.clone(), stream(read))], plan))
}

/// Reads several streams; afterwards the write of each is due that has entries.
fn several(reads: Ops, writes: Ops) -> Compound {
    let keys: Vec<Blob> = reads.iter().map(|(key, _)| key.clone()).collect();
    let plan = move |replies: &[Reply]| {
        let mut due = Vec::new();
        let mut found = replies.to_vec();
        for ((key, write), reply) in writes.iter().zip(&mut found) {
            if let Some((write, rows)) = delivery_of(write, reply) {
                due.push((key.clone(), write));
                *reply = rows;
            }
        }
        let reply = by_stream(&keys, &found);
        Plan { writes: if reply.is_error() { Vec::new() } else { due }, reply }
    };
    Compound::new(reads, plan)
}

/// Attempts to read `ops`, of which several are read together.
fn attempts(ops: Ops, together: impl Fn(Ops) -> Compound) -> Vec<(Blob, Attempt)> {
    if let [(key, op)] = &ops[..] {
        return vec![(key.clone(), Attempt::Take { op: op.clone(), wrap: of_one })];
    }
    let compound = together(ops.clone());
    ops.into_iter().map(|(key, _)| (key, Attempt::Move(compound.clone()))).collect()
}

fn waiting(
    attempts: Vec<(Blob, Attempt)>,
    timeout_ms: u64,
    (begins, again_ms): (Option<Begins>, Option<u64>),
) -> Command {
    let blocking = Blocking::new(attempts, timeout_ms, Reply::NilArray, Reply::NilArray);
    Command::Blocking(Blocking { alike: true, begins, again_ms, ..blocking })
}

fn at_once(ops: Ops) -> Command {
    let keys: Vec<Blob> = ops.iter().map(|(key, _)| key.clone()).collect();
    let merge = move |replies: Vec<Reply>| by_stream(&keys, &replies);
    Command::Multi { ops, merge: Merge::All(Arc::new(merge)) }
}

/// Whether a read begins at `$`.
fn at_end(op: &AnyOp) -> bool {
    match op {
        AnyOp::Stream(task) => matches!(**task, Task::Read { after: After::End, .. }),
        _ => false,
    }
}

/// Finds where `$` is before anything is waited for.
fn from_the_end(ops: &Ops) -> Option<Begins> {
    if !ops.iter().any(|(_, op)| at_end(op)) {
        return None;
    }
    let reads = ops.iter().map(|(key, _)| (key.clone(), stream(Task::Last))).collect();
    let ops = ops.clone();
    let settled = move |replies: &[Reply]| {
        let mut settled = ops.clone();
        for ((_, op), reply) in settled.iter_mut().zip(replies) {
            if at_end(op)
                && let AnyOp::Stream(task) = op
                && let Task::Read { after, .. } = &mut **task
                && let Reply::Bulk(last) = reply
                && let Ok(last) = Id::parse(last, 0)
            {
                *after = After::Id(last);
            }
        }
        attempts(settled, |ops| several(ops, Vec::new()))
    };
    Some(Begins { reads, attempts: Arc::new(settled) })
}

pub(in crate::kinds::stream) fn read(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let Reading { count, block_ms, streams, .. } = reading(args, false)?;
    let mut ops = Vec::new();
    for (key, place) in streams {
        let after = match place.as_slice() {
            b"$" => After::End,
            b"+" => After::Last,
            b">" => {
                return Err(ErrorReply::err(
                    "The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
                     <consumer> option.",
                ));
            }
            id => After::Id(Id::parse(id, 0)?),
        };
        ops.push((key, stream(Task::Read { after, count })));
    }
    let Some(timeout_ms) = block_ms else { return Ok(at_once(ops)) };
    let begins = from_the_end(&ops);
    Ok(waiting(attempts(ops, |ops| several(ops, Vec::new())), timeout_ms, (begins, None)))
}

pub(in crate::kinds::stream) fn read_group(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let Reading { count, block_ms, no_ack, claim_ms, group, streams } = reading(args, true)?;
    let Some((group, consumer)) = group else { return Err(ErrorReply::syntax()) };
    let (mut peeks, mut deliveries) = (Vec::new(), Vec::new());
    for (key, place) in streams {
        let after = match place.as_slice() {
            b">" => None,
            b"$" => {
                return Err(ErrorReply::err(
                    "The $ ID is meaningless in the context of XREADGROUP: you want to read the history \
                     of this consumer by specifying a proper ID, or use the > ID to get new messages. \
                     The $ ID would just return an empty result set.",
                ));
            }
            id => Some(Id::parse(id, 0)?),
        };
        let (group, consumer) = (group.clone(), consumer.clone());
        let claim_ms = claim_ms.filter(|_| after.is_none());
        let peek = match claim_ms {
            Some(min_idle_ms) => Task::Due { group: group.clone(), min_idle_ms, count },
            None => {
                let (group, consumer) = (group.clone(), consumer.clone());
                Task::PeekGroup { group, consumer, after, count }
            }
        };
        let delivery = Task::ReadGroup { group, consumer, after, count, no_ack, claim_ms };
        peeks.push((key.clone(), stream(peek)));
        deliveries.push((key, stream(delivery)));
    }
    // Of several streams all groups must be there before anything is delivered.
    let together = |deliveries| several(peeks.clone(), deliveries);
    match block_ms {
        Some(timeout_ms) => {
            let again_ms = claim_ms.map(|ms| ms.clamp(CLAIM_AGAIN_MS_MIN, CLAIM_AGAIN_MS_MAX));
            Ok(waiting(attempts(deliveries, together), timeout_ms, (None, again_ms)))
        }
        None if deliveries.len() == 1 => Ok(at_once(deliveries)),
        None => Ok(Command::Compound(together(deliveries))),
    }
}
