//! Answers and notifications of a server.

use super::Malformed;
use super::frame::framed;
use super::multi::{get_results, put_changed, put_found};
use super::op::{Kind, Op};
use super::record::{Input, Record, put_list};
use crate::coordination;
use engine::coordination::{Code, Identity, Reply, WatchedEvent, Zxid};

/// Request number of notifications, which answer no request.
pub const NOTIFICATION_XID: i32 = -1;
/// The number of all pings and of their answers.
pub const PING_XID: i32 = -2;
/// Request number of authentication.
pub const AUTH_XID: i32 = -4;
/// Request number under which clients set their watches again.
pub const SET_WATCHES_XID: i32 = -8;

/// First part of every answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    /// The number of the request, or [`NOTIFICATION_XID`].
    pub xid: i32,
    /// The change that was made, or the latest one that the server knows. In a notification: the
    /// reported change, or -1 from servers before 3.9.
    pub zxid: Zxid,
    /// 0, or the reason why the request was refused; [`code`] knows those that Claret gives.
    pub err: i32,
}

impl Record for ReplyHeader {
    const BYTES_MIN: usize = 16;

    fn put(&self, out: &mut Vec<u8>) {
        self.xid.put(out);
        self.zxid.put(out);
        self.err.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self { xid: input.get()?, zxid: input.get()?, err: input.get()? })
    }
}

impl ReplyHeader {
    /// Decodes the header of a frame. Returns the rest as well, which is empty if the request was
    /// refused.
    ///
    /// # Errors
    /// If it is no reply.
    pub fn decode(frame: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut input = Input::new(frame);
        Ok((input.get()?, input.rest()))
    }
}

/// Reason with this number, as in [`ReplyHeader::err`], if Claret uses it.
pub fn code(err: i32) -> Option<Code> {
    coordination::code(err)
}

/// Appends the answer to a request of this kind as a frame: request number, the change that was
/// made or the latest known one, and the result.
///
/// A result that does not fit the kind is written as [`Code::RuntimeInconsistency`], so that the
/// client does not mistake one type for another. That includes [`Reply::Session`], which belongs
/// into a [`ConnectResponse`](super::ConnectResponse). [`Op::WhoAmI`] is answered by [`who_am_i`].
pub fn reply(kind: &Kind, xid: i32, zxid: Zxid, result: Result<&Reply, Code>, out: &mut Vec<u8>) {
    let start = out.len();
    let written = result.and_then(|reply| {
        let ops = if let Kind::Multi(ops) = kind { ops.as_slice() } else { &[] };
        framed(out, |out| {
            ReplyHeader { xid, zxid, err: 0 }.put(out);
            let op = kind.op().ok_or(Malformed)?;
            put_body(op, ops, reply, out)
        })
        .map_err(|Malformed| Code::RuntimeInconsistency)
    });
    if let Err(code) = written {
        out.truncate(start);
        refusal(xid, zxid, code, out);
    }
}

/// Appends the refusal of any request as a frame. [`Code::Ok`] is no reason: it occurs only among
/// the results of a `Multi`.
pub fn refusal(xid: i32, zxid: Zxid, code: Code, out: &mut Vec<u8>) {
    framed(out, |out| ReplyHeader { xid, zxid, err: code as i32 }.put(out));
}

/// Appends the answer to [`Ask::WhoAmI`](super::Ask::WhoAmI) as a frame. As in ZooKeeper, the name
/// in a `digest` identity goes out without its password hash.
pub fn who_am_i(xid: i32, zxid: Zxid, who: &[Identity], out: &mut Vec<u8>) {
    framed(out, |out| {
        ReplyHeader { xid, zxid, err: 0 }.put(out);
        put_list(who, out);
    });
}

/// Reads the answer to [`Ask::WhoAmI`](super::Ask::WhoAmI), after its header.
///
/// # Errors
/// If it is no such answer.
pub fn read_identities(body: &[u8]) -> Result<Vec<Identity>, Malformed> {
    Input::new(body).get()
}

/// Appends a notification as a frame. Servers since 3.9 include the change; older ones send -1, and
/// clients accept both.
pub fn notification(zxid: Zxid, event: &WatchedEvent, out: &mut Vec<u8>) {
    framed(out, |out| {
        ReplyHeader { xid: NOTIFICATION_XID, zxid, err: 0 }.put(out);
        event.put(out);
    });
}

/// Reads an event, after a header with the number [`NOTIFICATION_XID`].
///
/// # Errors
/// If it is no event of a node.
pub fn read_event(body: &[u8]) -> Result<WatchedEvent, Malformed> {
    Input::new(body).get()
}

/// Reads the answer to a request for `op`, after its header, whose `err` must be 0.
///
/// # Errors
/// If it is no answer to such a request, or an operation of a `Multi` was refused for a reason that
/// Claret does not know. [`Op::WhoAmI`] is answered otherwise: see [`read_identities`].
pub fn read_reply(op: Op, body: &[u8]) -> Result<Reply, Malformed> {
    get_body(op, &mut Input::new(body))
}

/// Writes the body of an answer to `op`.
///
/// # Errors
/// If the reply does not fit `op`.
pub(super) fn put_body(
    op: Op,
    ops: &[Op],
    reply: &Reply,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    match (op, reply) {
        (Op::Create, Reply::Created { path, .. }) | (Op::Sync, Reply::Path(path)) => path.put(out),
        (
            Op::Create2 | Op::CreateContainer | Op::CreateTtl,
            Reply::Created { path, stat: Some(stat) },
        ) => {
            path.put(out);
            stat.put(out);
        }
        (Op::Exists | Op::SetData | Op::SetAcl, Reply::Stat(stat)) => stat.put(out),
        (Op::GetData, Reply::Data(data, stat)) => {
            data.put(out);
            stat.put(out);
        }
        (Op::GetAcl, Reply::Acl(acl, stat)) => {
            acl.put(out);
            stat.put(out);
        }
        (Op::GetChildren, Reply::Children(names, _)) => names.put(out),
        (Op::GetChildren2, Reply::Children(names, Some(stat))) => {
            names.put(out);
            stat.put(out);
        }
        (Op::GetEphemerals, Reply::Paths(paths)) => paths.put(out),
        (Op::GetAllChildrenNumber, Reply::Number(number)) => number.put(out),
        (Op::Multi, Reply::Multi(results)) => put_changed(ops, results, out)?,
        (Op::MultiRead, Reply::Multi(results)) => put_found(results, out)?,
        // Clients read a record here that repeats the error.
        (Op::AddWatch, Reply::Done) => 0i32.put(out),
        (op, Reply::Done) if has_no_body(op) => (),
        _ => return Err(Malformed),
    }
    Ok(())
}

pub(super) fn get_body(op: Op, input: &mut Input<'_>) -> Result<Reply, Malformed> {
    Ok(match op {
        Op::Create => Reply::Created { path: input.get()?, stat: None },
        Op::Sync => Reply::Path(input.get()?),
        Op::Create2 | Op::CreateContainer | Op::CreateTtl => {
            Reply::Created { path: input.get()?, stat: Some(input.get()?) }
        }
        Op::Exists | Op::SetData | Op::SetAcl => Reply::Stat(input.get()?),
        Op::GetData => Reply::Data(input.get()?, input.get()?),
        Op::GetAcl => Reply::Acl(input.get()?, input.get()?),
        Op::GetChildren => Reply::Children(input.get()?, None),
        Op::GetChildren2 => Reply::Children(input.get()?, Some(input.get()?)),
        Op::GetEphemerals => Reply::Paths(input.get()?),
        Op::GetAllChildrenNumber => Reply::Number(input.get()?),
        Op::Multi | Op::MultiRead => Reply::Multi(get_results(input)?),
        Op::AddWatch => {
            let _err: i32 = input.get()?;
            Reply::Done
        }
        op if has_no_body(op) => Reply::Done,
        _ => return Err(Malformed),
    })
}

/// Whether the answer to `op` is its header alone.
fn has_no_body(op: Op) -> bool {
    matches!(
        op,
        Op::Delete
            | Op::CloseSession
            | Op::Ping
            | Op::Auth
            | Op::SetWatches
            | Op::SetWatches2
            | Op::RemoveWatches
            | Op::CheckWatches
    )
}
