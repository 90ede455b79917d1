//! What clients of the coordination service ask for, and what they are told.
//!
//! The words are those of ZooKeeper's programmer's guide and of its protocol definition
//! (`zookeeper.jute`, version 3.8). Bytes are in `wire`.

use super::spread::Step;
use crate::ids::ShardId;
use adt::Blob;

/// A session, by the number that its client was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

/// The number of a change: a later change of the same tree has a larger one. Clients compare them
/// and look no further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

/// What proves that a session is one's own.
pub type Password = [u8; 16];

/// Why a request was refused; the numbers are those of ZooKeeper's `KeeperException.Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// An operation of a `multi` that would have been carried out, but for another one.
    Ok = 0,
    /// An operation of a `multi` that was not tried because one before it failed.
    RuntimeInconsistency = -2,
    /// The bytes are not what the operation takes.
    Marshalling = -5,
    /// There is no such operation.
    Unimplemented = -6,
    /// A path or a number that cannot be.
    BadArguments = -8,
    /// There is no such node.
    NoNode = -101,
    /// The node's access control list does not allow it.
    NoAuth = -102,
    /// The node has another version.
    BadVersion = -103,
    /// Ephemeral nodes have no children.
    NoChildrenForEphemerals = -108,
    /// There is such a node already.
    NodeExists = -110,
    /// The node has children.
    NotEmpty = -111,
    /// The session has ended.
    SessionExpired = -112,
    /// An access control list that says nothing, or names what nobody can be.
    InvalidAcl = -114,
    /// Authentication failed, or is of a kind that is not known.
    AuthFailed = -115,
    /// The session goes on at another server.
    SessionMoved = -118,
    /// There is no such watch.
    NoWatcher = -121,
    /// The servers cannot be changed by clients.
    ReconfigDisabled = -123,
    /// There are as many nodes, children or sessions as there can be.
    QuotaExceeded = -125,
}

/// Who somebody is, as far as access control goes: `world:anyone`, `digest:user:hash`, `ip:address`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// How it was found out.
    pub scheme: Blob,
    /// Who it is.
    pub id: Blob,
}

/// One line of an access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// What is allowed: a sum of [`Acl::READ`] and the others.
    pub perms: i32,
    /// To whom.
    pub who: Identity,
}

impl Acl {
    /// To read data and list children.
    pub const READ: i32 = 1;
    /// To set data.
    pub const WRITE: i32 = 2;
    /// To create children.
    pub const CREATE: i32 = 4;
    /// To delete children.
    pub const DELETE: i32 = 8;
    /// To set the access control list.
    pub const ADMIN: i32 = 16;
    /// Everything.
    pub const ALL: i32 = 31;
}

/// What there is to know of a node besides its data, as ZooKeeper's `Stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The change that created it.
    pub czxid: Zxid,
    /// The change that set its data last.
    pub mzxid: Zxid,
    /// When it was created, in milliseconds since 1970.
    pub ctime_ms: i64,
    /// When its data were set last.
    pub mtime_ms: i64,
    /// How often its data were set.
    pub version: i32,
    /// How often children were created and deleted.
    pub cversion: i32,
    /// How often its access control list was set.
    pub aversion: i32,
    /// The session that it ends with; nought for others.
    pub ephemeral_owner: i64,
    /// Bytes of its data.
    pub data_length: i32,
    /// Number of its children.
    pub num_children: i32,
    /// The change that created or deleted a child last.
    pub pzxid: Zxid,
}

/// How long a node is there, unless somebody deletes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lasts {
    /// For good.
    #[default]
    Always,
    /// Until the session ends that created it.
    Session,
    /// It is a container: until it has had children and has none any more.
    Children,
    /// Until it has no children and its data were not set for so many milliseconds.
    Ttl(i64),
}

impl Lasts {
    /// Longest time to live, in milliseconds: what fits into the 40 bits that ZooKeeper has for it.
    pub const TTL_MS_MAX: i64 = 0xff_ffff_ffff;
    const CONTAINER: i64 = i64::MIN;
    const TTL: i64 = 0xff << 56;

    /// A number that stands for it, if this session has created the node, as ZooKeeper's
    /// `EphemeralType` has it in what it keeps. Clients see those of sessions.
    pub fn owner(self, session: SessionId) -> i64 {
        match self {
            Self::Always => 0,
            Self::Session => session.0,
            Self::Children => Self::CONTAINER,
            Self::Ttl(ttl_ms) => Self::TTL | ttl_ms,
        }
    }

    /// What such a number stands for; the session is the number itself.
    pub fn of_owner(owner: i64) -> Self {
        match owner {
            0 => Self::Always,
            Self::CONTAINER => Self::Children,
            _ if owner & Self::TTL == Self::TTL => Self::Ttl(owner & Self::TTL_MS_MAX),
            _ => Self::Session,
        }
    }
}

/// What kind of node is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// How long it is there.
    pub lasts: Lasts,
    /// A number that no other child of its parent has had is added to its name.
    pub sequential: bool,
}

/// A node that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// Where; for a sequential one what its name begins with.
    pub path: Blob,
    /// With which data; none is not the same as none of it.
    pub data: Option<Blob>,
    /// Who may do what.
    pub acl: Vec<Acl>,
    /// What kind.
    pub mode: Mode,
    /// Its stat is asked for as well.
    pub stat: bool,
}

/// An operation that changes the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates a node. Answer: [`Reply::Created`].
    Create(Create),
    /// Deletes a node without children that has this version, or any for -1. Answer: [`Reply::Done`].
    Delete {
        /// Where.
        path: Blob,
        /// Its version.
        version: i32,
    },
    /// Sets the data of a node that has this version, or any for -1. Answer: [`Reply::Stat`].
    SetData {
        /// Where.
        path: Blob,
        /// To what.
        data: Option<Blob>,
        /// Its version.
        version: i32,
    },
    /// Sets the access control list of a node whose list has this version, or any for -1. Answer:
    /// [`Reply::Stat`].
    SetAcl {
        /// Where.
        path: Blob,
        /// To what.
        acl: Vec<Acl>,
        /// The list's version.
        version: i32,
    },
    /// Changes nothing, and fails unless the node has this version, or any for -1. Answer:
    /// [`Reply::Done`].
    Check {
        /// Where.
        path: Blob,
        /// Its version.
        version: i32,
    },
}

impl Change {
    /// The node that it is about; of a sequential one that is to be created, what its path begins with.
    pub fn path(&self) -> &Blob {
        match self {
            Self::Create(create) => &create.path,
            Self::Delete { path, .. }
            | Self::SetData { path, .. }
            | Self::SetAcl { path, .. }
            | Self::Check { path, .. } => path,
        }
    }
}

/// What goes into the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// One operation.
    Change(Change),
    /// All of them, or nothing. Answer: [`Reply::Multi`].
    Multi(Vec<Change>),
    /// A session begins, whose number comes out of the log. Answer: [`Reply::Session`].
    Open {
        /// It ends when nothing was heard of it for so long.
        timeout_ms: i32,
        /// What will prove that it is one's own.
        password: Password,
    },
    /// The session ends, and its ephemeral nodes with it. Answer: [`Reply::Done`].
    Close,
    /// Containers and nodes with a time to live whose time has come by now are deleted. No session asks
    /// that: the leader finds that it is time. Answer: [`Reply::Done`].
    Reap,
    /// Something about a tree that is spread over several shards.
    Spread(Step),
}

impl Write {
    /// What it changes of the tree by itself, now or if that is decided.
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Change(change) => std::slice::from_ref(change),
            Self::Multi(changes) | Self::Spread(Step::Prepare { changes, .. }) => changes,
            Self::Open { .. } | Self::Close | Self::Reap | Self::Spread(_) => &[],
        }
    }
}

/// An operation that changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// Answer: [`Reply::Stat`].
    Exists(Blob),
    /// Answer: [`Reply::Data`].
    Data(Blob),
    /// Answer: [`Reply::Acl`].
    Acl(Blob),
    /// The names of the node's children. Answer: [`Reply::Children`].
    Children {
        /// Where.
        path: Blob,
        /// The node's stat is asked for as well.
        stat: bool,
    },
    /// How many nodes there are below. Answer: [`Reply::Number`].
    Descendants(Blob),
    /// The session's ephemeral nodes whose paths begin so. Answer: [`Reply::Paths`].
    Ephemerals(Blob),
    /// Whatever was done before this is seen by whatever is asked after it. Answer: [`Reply::Path`].
    Sync(Blob),
    /// Several, each with an answer or an error of its own. Answer: [`Reply::Multi`].
    Multi(Vec<Read>),
}

impl Read {
    /// The node that is looked at; none if there are several.
    pub fn path(&self) -> Option<&Blob> {
        match self {
            Self::Exists(path)
            | Self::Data(path)
            | Self::Acl(path)
            | Self::Children { path, .. }
            | Self::Descendants(path)
            | Self::Ephemerals(path)
            | Self::Sync(path) => Some(path),
            Self::Multi(_) => None,
        }
    }
}

/// What an answered request has found out or done.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// There is nothing to say.
    Done,
    /// A node was created.
    Created {
        /// Its path.
        path: Blob,
        /// Its stat, if it was asked for.
        stat: Option<Stat>,
    },
    /// A node's stat.
    Stat(Stat),
    /// A node's data and stat.
    Data(Option<Blob>, Stat),
    /// A node's access control list and stat.
    Acl(Vec<Acl>, Stat),
    /// The names of a node's children, and its stat if it was asked for.
    Children(Vec<Blob>, Option<Stat>),
    /// A number.
    Number(i32),
    /// Paths.
    Paths(Vec<Blob>),
    /// A path.
    Path(Blob),
    /// One for each operation of a `multi`.
    Multi(Vec<Result<Reply, Code>>),
    /// A session has begun.
    Session(SessionId),
    /// A session is back, with this timeout in milliseconds, that has joined other shards.
    Joined(i32, Vec<ShardId>),
}

/// What has happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum Happened {
    /// It was created.
    Created = 1,
    /// It was deleted.
    Deleted = 2,
    /// Its data were set.
    Data = 3,
    /// A child was created or deleted.
    Children = 4,
}

/// Something that has happened, as a client is told who watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub happened: Happened,
    /// To which node.
    pub path: Blob,
}

/// What a watch is set on, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watch {
    /// The next change of a node's data or its end.
    Data,
    /// A node that is not there: its creation.
    Exist,
    /// The next change of a node's children or its end.
    Child,
    /// All changes of a node and of its children, until it is removed.
    Persistent,
    /// All changes of a node and of everything below, until it is removed.
    Recursive,
}

/// Which watches are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatcherType {
    /// Those on children, for one change.
    Children,
    /// Those on data, and on nodes that are not there, for one change.
    Data,
    /// All.
    Any,
    /// Those that stay, on the node and its children.
    Persistent,
    /// Those that stay, on everything below as well.
    Recursive,
}
