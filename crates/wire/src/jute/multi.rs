//! Several operations in one request, and their results in one reply: each behind a header with its
//! kind, and after the last one a header that marks the end.

use super::Malformed;
use super::op::Op;
use super::record::{Input, Record};
use super::reply::{code, get_body, put_body};
use super::request::{Flaw, Inexpressible, get_change, get_read, put_change, put_read};
use engine::coordination::{Change, Code, Read, Reply};

/// Kind of a result that is an error.
const ERROR: i32 = -1;

struct Header {
    kind: i32,
    done: bool,
    err: i32,
}

const END: Header = Header { kind: -1, done: true, err: -1 };

impl Record for Header {
    const BYTES_MIN: usize = 9;

    fn put(&self, out: &mut Vec<u8>) {
        self.kind.put(out);
        self.done.put(out);
        self.err.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self { kind: input.get()?, done: input.get()?, err: input.get()? })
    }
}

/// Writes the header of an operation in a request.
fn put_asked(op: Op, out: &mut Vec<u8>) {
    Header { kind: op.number(), done: false, err: -1 }.put(out);
}

/// Reads the kind of the next part; `None` is the end.
fn next(input: &mut Input<'_>) -> Result<Option<i32>, Malformed> {
    let header: Header = input.get()?;
    Ok(if header.done { None } else { Some(header.kind) })
}

pub(super) fn put_multi(changes: &[Change], out: &mut Vec<u8>) -> Result<(), Inexpressible> {
    for change in changes {
        if matches!(change, Change::SetAcl { .. }) {
            return Err(Inexpressible);
        }
        put_asked(Op::of_change(change), out);
        put_change(change, out)?;
    }
    END.put(out);
    Ok(())
}

pub(super) fn get_multi(input: &mut Input<'_>) -> Result<Vec<Change>, Flaw> {
    let mut changes = Vec::new();
    while let Some(kind) = next(input)? {
        match Op::of(kind) {
            Some(
                op @ (Op::Create
                | Op::Create2
                | Op::CreateContainer
                | Op::CreateTtl
                | Op::Delete
                | Op::SetData
                | Op::Check),
            ) => changes.push(get_change(op, input)?),
            _ => return Err(Flaw::Malformed),
        }
    }
    Ok(changes)
}

pub(super) fn put_multi_read(reads: &[Read], out: &mut Vec<u8>) -> Result<(), Inexpressible> {
    for read in reads {
        if !matches!(read, Read::Data(_) | Read::Children { stat: false, .. }) {
            return Err(Inexpressible);
        }
        put_asked(Op::of_read(read), out);
        put_read(read, false, out)?;
    }
    END.put(out);
    Ok(())
}

/// Reads several reads. They cannot set watches, although the format has a byte for that.
pub(super) fn get_multi_read(input: &mut Input<'_>) -> Result<Vec<Read>, Malformed> {
    let mut reads = Vec::new();
    while let Some(kind) = next(input)? {
        match Op::of(kind) {
            Some(op @ (Op::GetData | Op::GetChildren)) => reads.push(get_read(op, input)?.0),
            _ => return Err(Malformed),
        }
    }
    Ok(reads)
}

fn put_error(err: i32, out: &mut Vec<u8>) {
    Header { kind: ERROR, done: false, err }.put(out);
    err.put(out);
}

/// Writes the results of changes with the operations `ops`. If one has failed, all are errors,
/// since no change took effect, and those that would have succeeded get [`Code::Ok`].
pub(super) fn put_changed(
    ops: &[Op],
    results: &[Result<Reply, Code>],
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    for (i, result) in results.iter().enumerate() {
        match result {
            Err(code) => put_error(*code as i32, out),
            Ok(reply) => {
                let op = match reply {
                    // As ZooKeeper 3.8: within a `Multi`, the result of creating a persistent or
                    // ephemeral node has no stat, even if the client asked for it.
                    Reply::Created { .. } if !has_a_life(ops.get(i)) => Op::Create,
                    Reply::Created { stat: Some(_), .. } => Op::Create2,
                    Reply::Created { .. } => Op::Create,
                    Reply::Stat(_) => Op::SetData,
                    Reply::Done if ops.get(i) == Some(&Op::Check) => Op::Check,
                    Reply::Done => Op::Delete,
                    _ => return Err(Malformed),
                };
                put_answer(op, reply, out)?;
            }
        }
    }
    END.put(out);
    Ok(())
}

/// Writes the results of reads, which are independent of each other.
pub(super) fn put_found(
    results: &[Result<Reply, Code>],
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    for result in results {
        match result {
            Err(code) => put_error(*code as i32, out),
            Ok(reply @ Reply::Data(..)) => put_answer(Op::GetData, reply, out)?,
            Ok(reply @ Reply::Children(..)) => put_answer(Op::GetChildren, reply, out)?,
            Ok(_) => return Err(Malformed),
        }
    }
    END.put(out);
    Ok(())
}

/// Whether the operation creates a container or a node with a time to live.
fn has_a_life(op: Option<&Op>) -> bool {
    matches!(op, Some(Op::CreateContainer | Op::CreateTtl))
}

fn put_answer(op: Op, reply: &Reply, out: &mut Vec<u8>) -> Result<(), Malformed> {
    Header { kind: op.number(), done: false, err: 0 }.put(out);
    // On its own a check has no encodable answer; here its kind is enough.
    if op == Op::Check { Ok(()) } else { put_body(op, &[], reply, out) }
}

/// Reads the results of changes or reads.
pub(super) fn get_results(input: &mut Input<'_>) -> Result<Vec<Result<Reply, Code>>, Malformed> {
    let mut results = Vec::new();
    while let Some(kind) = next(input)? {
        results.push(match Op::of(kind) {
            None if kind == ERROR => Err(code(input.get()?).ok_or(Malformed)?),
            Some(Op::Check) => Ok(Reply::Done),
            Some(
                op @ (Op::Create
                | Op::Create2
                | Op::Delete
                | Op::SetData
                | Op::GetData
                | Op::GetChildren),
            ) => Ok(get_body(op, input)?),
            _ => return Err(Malformed),
        });
    }
    Ok(results)
}
