//! Requests of a client after it has connected.

use super::Malformed;
use super::frame::framed;
use super::multi::{get_multi, get_multi_read, put_multi, put_multi_read};
use super::op::{Kind, Op};
use super::record::{Input, Record};
use adt::Blob;
use engine::coordination::{
    Change, Code, Create, CreateMode, Lasts, Read, WatcherType, Write, Zxid,
};
use std::fmt;

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Number that the client chose and the answer repeats. Requests outside of the order have
    /// [`PING_XID`](super::PING_XID), [`AUTH_XID`](super::AUTH_XID),
    /// [`SET_WATCHES_XID`](super::SET_WATCHES_XID).
    pub xid: i32,
    /// Operation with its arguments.
    pub what: Ask,
}

/// Operation of a request, with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Change of the tree, or end of the session. Decoding never yields [`Write::Open`]: a session
    /// begins with a [`ConnectRequest`](super::ConnectRequest).
    Write(Write),
    /// Read without an effect on the tree.
    Read {
        /// Read operation.
        read: Read,
        /// Whether to set a watch as well; only where the operation supports watches.
        watch: bool,
    },
    /// Sign of life.
    Ping,
    /// Authentication.
    Auth {
        /// Authentication scheme.
        scheme: Blob,
        /// Credentials.
        auth: Blob,
    },
    /// Watches that the client had on an earlier connection.
    SetWatches(SetWatches),
    /// New watch that stays until it is removed.
    AddWatch {
        /// Path of the node.
        path: Blob,
        /// Whether the watch covers everything below the node.
        recursive: bool,
    },
    /// Removal of watches.
    RemoveWatches {
        /// Path of the node.
        path: Blob,
        /// Type of the watches.
        which: WatcherType,
    },
    /// Check whether such watches exist.
    CheckWatches {
        /// Path of the node.
        path: Blob,
        /// Type of the watches.
        which: WatcherType,
    },
    /// Question for the client's identities. Answer: [`who_am_i`](super::who_am_i).
    WhoAmI,
    /// Operation with an unknown number, or a known one that is not supported: reconfiguration of
    /// the servers, SASL. The body was not read.
    Unimplemented(i32),
}

/// Watches that the client sets again, by kind. Events missed since then are sent at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetWatches {
    /// The latest change that the client has seen.
    pub since: Zxid,
    /// Paths of nodes whose data are watched.
    pub data: Vec<Blob>,
    /// Paths at which the client waits for a node.
    pub exist: Vec<Blob>,
    /// Paths of nodes whose children are watched.
    pub child: Vec<Blob>,
    /// Paths of persistent watches.
    pub persistent: Vec<Blob>,
    /// Paths of persistent watches that cover everything below the node.
    pub recursive: Vec<Blob>,
}

/// Bytes that are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRequest {
    /// The header is missing, so no answer is possible: the connection must be closed.
    Header,
    /// The header is valid, and the body does not fit the operation. The request is refused with
    /// `code`, in its turn, and the connection goes on.
    Body {
        /// The number of the request.
        xid: i32,
        /// The number of the operation.
        opcode: i32,
        /// [`Code::Marshalling`], or [`Code::BadArguments`] for the creation of a node of an
        /// unknown kind.
        code: Code,
    },
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("a request has no header"),
            Self::Body { xid, opcode, code } => {
                write!(f, "request {xid} is not what operation {opcode} takes: {code:?}")
            }
        }
    }
}

impl std::error::Error for BadRequest {}

/// Request that the protocol cannot express: [`Write::Open`], a lone [`Change::Check`],
/// [`Write::Reap`], the creation of a container or of a node with a time to live that does not ask
/// for the stat, [`Change::SetAcl`] within a `Multi`, several reads other than [`Read::Data`] and
/// [`Read::Children`] without stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inexpressible;

impl fmt::Display for Inexpressible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ZooKeeper's protocol cannot express this request")
    }
}

impl std::error::Error for Inexpressible {}

/// Reason why a body cannot be decoded.
pub(super) enum Flaw {
    /// The body does not fit the operation.
    Malformed,
    /// A new node would be of an unknown kind.
    BadFlags,
}

impl From<Malformed> for Flaw {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl Request {
    /// Appends the frame.
    ///
    /// # Errors
    /// If the protocol cannot express the request; `out` is then unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Inexpressible> {
        let start = out.len();
        let result = framed(out, |out| {
            self.xid.put(out);
            self.what.opcode().ok_or(Inexpressible)?.put(out);
            self.what.put(out)
        });
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Decodes the content of a frame.
    ///
    /// # Errors
    /// If it is no request; [`BadRequest`] says what the server must do.
    pub fn decode(frame: &[u8]) -> Result<Self, BadRequest> {
        let mut input = Input::new(frame);
        let header = input.get().and_then(|xid| Ok((xid, input.get()?)));
        let (xid, opcode) = header.map_err(|Malformed| BadRequest::Header)?;
        let refused = |code| BadRequest::Body { xid, opcode, code };
        let what = match Ask::get(opcode, &mut input) {
            Ok(what) => what,
            Err(Flaw::Malformed) => return Err(refused(Code::Marshalling)),
            Err(Flaw::BadFlags) => return Err(refused(Code::BadArguments)),
        };
        Ok(Self { xid, what })
    }
}

impl Ask {
    /// Facts about the request that are needed to write or read the answer.
    pub fn kind(&self) -> Kind {
        let op = match self {
            Self::Write(Write::Multi(changes)) => {
                return Kind::Multi(changes.iter().map(Op::of_change).collect());
            }
            Self::Write(Write::Change(change)) => Op::of_change(change),
            Self::Write(Write::Close) => Op::CloseSession,
            Self::Read { read, .. } => Op::of_read(read),
            Self::Ping => Op::Ping,
            Self::Auth { .. } => Op::Auth,
            // As the Java library does: older servers know only the older operation.
            Self::SetWatches(SetWatches { persistent, recursive, .. })
                if persistent.is_empty() && recursive.is_empty() =>
            {
                Op::SetWatches
            }
            Self::SetWatches(_) => Op::SetWatches2,
            Self::AddWatch { .. } => Op::AddWatch,
            Self::RemoveWatches { .. } => Op::RemoveWatches,
            Self::CheckWatches { .. } => Op::CheckWatches,
            Self::WhoAmI => Op::WhoAmI,
            Self::Write(Write::Open { .. } | Write::Reap | Write::Spread(_))
            | Self::Unimplemented(_) => return Kind::Nothing,
        };
        Kind::One(op)
    }

    fn opcode(&self) -> Option<i32> {
        match self {
            Self::Unimplemented(opcode) => Some(*opcode),
            _ => self.kind().op().map(Op::number),
        }
    }

    fn put(&self, out: &mut Vec<u8>) -> Result<(), Inexpressible> {
        match self {
            Self::Write(Write::Change(Change::Check { .. })) => return Err(Inexpressible),
            Self::Write(Write::Open { .. } | Write::Reap | Write::Spread(_)) => {
                return Err(Inexpressible);
            }
            Self::Write(Write::Change(change)) => return put_change(change, out),
            Self::Write(Write::Multi(changes)) => return put_multi(changes, out),
            Self::Read { read, watch } => return put_read(read, *watch, out),
            Self::Auth { scheme, auth } => {
                AUTH_TYPE.put(out);
                scheme.put(out);
                auth.put(out);
            }
            Self::SetWatches(watches) => watches.put(self.kind() == SET_WATCHES_2, out),
            Self::AddWatch { path, recursive } => {
                path.put(out);
                i32::from(*recursive).put(out);
            }
            Self::RemoveWatches { path, which } | Self::CheckWatches { path, which } => {
                path.put(out);
                watcher_type(*which).put(out);
            }
            Self::Write(Write::Close) | Self::Ping | Self::WhoAmI | Self::Unimplemented(_) => (),
        }
        Ok(())
    }

    fn get(opcode: i32, input: &mut Input<'_>) -> Result<Self, Flaw> {
        let Some(op) = Op::of(opcode) else { return Ok(Self::Unimplemented(opcode)) };
        Ok(match op {
            // A lone check has no encodable answer, and no client sends it.
            Op::Check => Self::Unimplemented(opcode),
            Op::Create
            | Op::Create2
            | Op::CreateContainer
            | Op::CreateTtl
            | Op::Delete
            | Op::SetData
            | Op::SetAcl => Self::Write(Write::Change(get_change(op, input)?)),
            Op::Multi => Self::Write(Write::Multi(get_multi(input)?)),
            Op::CloseSession => Self::Write(Write::Close),
            Op::MultiRead => Self::Read { read: Read::Multi(get_multi_read(input)?), watch: false },
            Op::Exists
            | Op::GetData
            | Op::GetAcl
            | Op::GetChildren
            | Op::GetChildren2
            | Op::Sync
            | Op::GetEphemerals
            | Op::GetAllChildrenNumber => {
                let (read, watch) = get_read(op, input)?;
                Self::Read { read, watch }
            }
            Op::Ping => Self::Ping,
            Op::Auth => {
                // No version of the protocol uses the type.
                let _type: i32 = input.get()?;
                Self::Auth { scheme: input.get()?, auth: input.get()? }
            }
            Op::SetWatches | Op::SetWatches2 => {
                Self::SetWatches(SetWatches::get(op == Op::SetWatches2, input)?)
            }
            Op::AddWatch => {
                let path = input.get()?;
                let recursive = match input.get::<i32>()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Flaw::Malformed),
                };
                Self::AddWatch { path, recursive }
            }
            Op::RemoveWatches => {
                Self::RemoveWatches { path: input.get()?, which: get_watcher_type(input)? }
            }
            Op::CheckWatches => {
                Self::CheckWatches { path: input.get()?, which: get_watcher_type(input)? }
            }
            Op::WhoAmI => Self::WhoAmI,
        })
    }
}

const SET_WATCHES_2: Kind = Kind::One(Op::SetWatches2);

/// Number that clients write before a scheme.
const AUTH_TYPE: i32 = 0;

impl SetWatches {
    fn put(&self, with_those_that_stay: bool, out: &mut Vec<u8>) {
        self.since.put(out);
        self.data.put(out);
        self.exist.put(out);
        self.child.put(out);
        if with_those_that_stay {
            self.persistent.put(out);
            self.recursive.put(out);
        }
    }

    fn get(with_those_that_stay: bool, input: &mut Input<'_>) -> Result<Self, Malformed> {
        let mut watches = Self {
            since: input.get()?,
            data: input.get()?,
            exist: input.get()?,
            child: input.get()?,
            ..Self::default()
        };
        if with_those_that_stay {
            watches.persistent = input.get()?;
            watches.recursive = input.get()?;
        }
        Ok(watches)
    }
}

fn watcher_type(which: WatcherType) -> i32 {
    match which {
        WatcherType::Children => 1,
        WatcherType::Data => 2,
        WatcherType::Any => 3,
        WatcherType::Persistent => 4,
        WatcherType::Recursive => 5,
    }
}

fn get_watcher_type(input: &mut Input<'_>) -> Result<WatcherType, Malformed> {
    match input.get::<i32>()? {
        1 => Ok(WatcherType::Children),
        2 => Ok(WatcherType::Data),
        3 => Ok(WatcherType::Any),
        4 => Ok(WatcherType::Persistent),
        5 => Ok(WatcherType::Recursive),
        _ => Err(Malformed),
    }
}

fn flags(mode: CreateMode) -> i32 {
    match (mode.lasts, mode.sequential) {
        (Lasts::Always, false) => 0,
        (Lasts::Session, false) => 1,
        (Lasts::Always, true) => 2,
        (Lasts::Session, true) => 3,
        // No client asks for a sequential container; the bit exists here.
        (Lasts::Children, false) => 4,
        (Lasts::Children, true) => 2,
        (Lasts::Ttl(_), false) => 5,
        (Lasts::Ttl(_), true) => 6,
    }
}

/// Kind of node that an operation creates with these flags, by the rules of ZooKeeper's server:
/// [`Op::CreateContainer`] creates a container whatever the flags say, and takes only the
/// sequential bit from them; the container flag of other operations means a persistent node.
fn get_mode(op: Op, flags: i32, ttl_ms: Option<i64>) -> Result<CreateMode, Flaw> {
    let sequential = matches!(flags, 2 | 3 | 6);
    let lasts = match (op, flags, ttl_ms) {
        (_, 5 | 6, Some(ttl_ms)) => Lasts::Ttl(ttl_ms),
        (Op::CreateContainer, 0..=4, _) => Lasts::Children,
        (Op::Create | Op::Create2, 0 | 2 | 4, _) => Lasts::Always,
        (Op::Create | Op::Create2, 1 | 3, _) => Lasts::Session,
        _ => return Err(Flaw::BadFlags),
    };
    Ok(CreateMode { lasts, sequential })
}

/// Reads the node that [`Op::Create`] or one of its variants creates.
fn get_create(op: Op, path: Blob, input: &mut Input<'_>) -> Result<Create, Flaw> {
    let (data, acl, flags) = (input.get()?, input.get()?, input.get()?);
    let ttl_ms = if op == Op::CreateTtl { Some(input.get()?) } else { None };
    let mode = get_mode(op, flags, ttl_ms)?;
    Ok(Create { path, data, acl, mode, stat: op != Op::Create })
}

pub(super) fn put_change(change: &Change, out: &mut Vec<u8>) -> Result<(), Inexpressible> {
    match change {
        Change::Create(create) => {
            let lasts = create.mode.lasts;
            if matches!(lasts, Lasts::Children | Lasts::Ttl(_)) && !create.stat {
                return Err(Inexpressible);
            }
            create.path.put(out);
            create.data.put(out);
            create.acl.put(out);
            flags(create.mode).put(out);
            if let Lasts::Ttl(ttl_ms) = lasts {
                ttl_ms.put(out);
            }
        }
        Change::Delete { path, version } | Change::Check { path, version } => {
            path.put(out);
            version.put(out);
        }
        Change::SetData { path, data, version } => {
            path.put(out);
            data.put(out);
            version.put(out);
        }
        Change::SetAcl { path, acl, version } => {
            path.put(out);
            acl.put(out);
            version.put(out);
        }
    }
    Ok(())
}

pub(super) fn get_change(op: Op, input: &mut Input<'_>) -> Result<Change, Flaw> {
    let path = input.get()?;
    Ok(match op {
        Op::Create | Op::Create2 | Op::CreateContainer | Op::CreateTtl => {
            Change::Create(get_create(op, path, input)?)
        }
        Op::Delete => Change::Delete { path, version: input.get()? },
        Op::SetData => Change::SetData { path, data: input.get()?, version: input.get()? },
        Op::SetAcl => Change::SetAcl { path, acl: input.get()?, version: input.get()? },
        Op::Check => Change::Check { path, version: input.get()? },
        _ => return Err(Flaw::Malformed),
    })
}

pub(super) fn put_read(read: &Read, watch: bool, out: &mut Vec<u8>) -> Result<(), Inexpressible> {
    match read {
        Read::Exists(path) | Read::Data(path) | Read::Children { path, .. } => {
            path.put(out);
            watch.put(out);
        }
        Read::Acl(path) | Read::Descendants(path) | Read::Ephemerals(path) | Read::Sync(path) => {
            path.put(out);
        }
        Read::Multi(reads) => return put_multi_read(reads, out),
    }
    Ok(())
}

pub(super) fn get_read(op: Op, input: &mut Input<'_>) -> Result<(Read, bool), Malformed> {
    let path = input.get()?;
    let watched = matches!(op, Op::Exists | Op::GetData | Op::GetChildren | Op::GetChildren2);
    let watch = watched && input.get()?;
    let read = match op {
        Op::Exists => Read::Exists(path),
        Op::GetData => Read::Data(path),
        Op::GetAcl => Read::Acl(path),
        Op::GetChildren | Op::GetChildren2 => Read::Children { path, stat: op == Op::GetChildren2 },
        Op::Sync => Read::Sync(path),
        Op::GetEphemerals => Read::Ephemerals(path),
        Op::GetAllChildrenNumber => Read::Descendants(path),
        _ => return Err(Malformed),
    };
    Ok((read, watch))
}
