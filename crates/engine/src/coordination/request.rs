//! Requests and replies of the coordination service.
//!
//! The terms are those of ZooKeeper's programmer's guide and of its protocol definition
//! (`zookeeper.jute`, version 3.8). The byte formats are in `wire`.

use super::spread::Spread;
use crate::ids::ShardId;
use adt::Blob;

/// Number of a session, as its client knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeSessionId(pub i64);

/// Number of a change: a later change of the same tree has a larger one. Clients compare these
/// numbers and use them for nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

/// Secret with which a client resumes its session.
pub type Password = [u8; 16];

/// Reason for a refusal; the numbers are those of ZooKeeper's `KeeperException.Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// An operation of a `multi` that would have succeeded, had another one not failed.
    Ok = 0,
    /// An operation of a `multi` that was not tried because an earlier one failed.
    RuntimeInconsistency = -2,
    /// The bytes do not fit the operation.
    Marshalling = -5,
    /// The operation is unknown.
    Unimplemented = -6,
    /// A path or a number is invalid.
    BadArguments = -8,
    /// The node does not exist.
    NoNode = -101,
    /// The node's access control list does not allow it.
    NoAuth = -102,
    /// The node has another version.
    BadVersion = -103,
    /// Ephemeral nodes have no children.
    NoChildrenForEphemerals = -108,
    /// The node exists already.
    NodeExists = -110,
    /// The node has children.
    NotEmpty = -111,
    /// The session has ended.
    SessionExpired = -112,
    /// An access control list that is empty, or names an impossible identity.
    InvalidAcl = -114,
    /// Authentication failed, or its scheme is unknown.
    AuthFailed = -115,
    /// The session is now at another server.
    SessionMoved = -118,
    /// The watch does not exist.
    NoWatcher = -121,
    /// Clients cannot reconfigure the servers.
    ReconfigDisabled = -123,
    /// The limit of nodes, children or sessions is reached.
    QuotaExceeded = -125,
}

/// Identity of a client in access control: `world:anyone`, `digest:user:hash`, `ip:address`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Authentication scheme.
    pub scheme: Blob,
    /// Name of the client in the scheme.
    pub id: Blob,
}

/// One line of an access control list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// Permissions: a sum of [`Acl::READ`] and the others.
    pub perms: i32,
    /// Identity with these permissions.
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

/// Metadata of a node, as ZooKeeper's `Stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The change that created it.
    pub czxid: Zxid,
    /// The change that set its data last.
    pub mzxid: Zxid,
    /// Time of its creation, in milliseconds since 1970.
    pub ctime_ms: i64,
    /// Time at which its data were last set, in milliseconds since 1970.
    pub mtime_ms: i64,
    /// Number of times its data were set.
    pub version: i32,
    /// Number of times children were created and deleted.
    pub cversion: i32,
    /// Number of times its access control list was set.
    pub aversion: i32,
    /// Session that owns it, if it is ephemeral; 0 for others.
    pub ephemeral_owner: i64,
    /// Bytes of its data.
    pub data_length: i32,
    /// Number of its children.
    pub num_children: i32,
    /// The last change that created or deleted a child.
    pub pzxid: Zxid,
}

/// Lifetime of a node that no client deletes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lasts {
    /// For good.
    #[default]
    Always,
    /// Until the session ends that created it.
    Session,
    /// Container: until it has had children and has none any more.
    Children,
    /// Time to live: until it has no children and its data were not set for so many milliseconds.
    Ttl(i64),
}

impl Lasts {
    /// Longest time to live, in milliseconds: ZooKeeper has 40 bits for it.
    pub const TTL_MS_MAX: i64 = 0xff_ffff_ffff;
    const CONTAINER: i64 = i64::MIN;
    const TTL: i64 = 0xff << 56;

    /// Number of this lifetime for a node that this session creates, as ZooKeeper's `EphemeralType`
    /// encodes it in storage. Clients see the numbers of sessions alone.
    pub fn owner(self, session: TreeSessionId) -> i64 {
        match self {
            Self::Always => 0,
            Self::Session => session.0,
            Self::Children => Self::CONTAINER,
            Self::Ttl(ttl_ms) => Self::TTL | ttl_ms,
        }
    }

    /// Lifetime with this number; the number of a session is its id.
    pub fn of_owner(owner: i64) -> Self {
        match owner {
            0 => Self::Always,
            Self::CONTAINER => Self::Children,
            _ if owner & Self::TTL == Self::TTL => Self::Ttl(owner & Self::TTL_MS_MAX),
            _ => Self::Session,
        }
    }
}

/// Kind of a new node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateMode {
    /// Lifetime.
    pub lasts: Lasts,
    /// Whether a number that no other child of its parent has had is appended to its name.
    pub sequential: bool,
}

/// Creation of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// Path of the node; for a sequential one the path without the number.
    pub path: Blob,
    /// Data of the node. No data and empty data are distinct.
    pub data: Option<Blob>,
    /// Access control list of the node.
    pub acl: Vec<Acl>,
    /// Kind of the node.
    pub mode: CreateMode,
    /// Whether the answer includes the stat.
    pub stat: bool,
}

/// An operation that changes the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates a node. Answer: [`Reply::Created`].
    Create(Create),
    /// Deletes a node without children that has this version, or any for -1. Answer:
    /// [`Reply::Done`].
    Delete {
        /// Path of the node.
        path: Blob,
        /// Required version of the node.
        version: i32,
    },
    /// Sets the data of a node that has this version, or any for -1. Answer: [`Reply::Stat`].
    SetData {
        /// Path of the node.
        path: Blob,
        /// New data.
        data: Option<Blob>,
        /// Required version of the node.
        version: i32,
    },
    /// Sets the access control list of a node whose list has this version, or any for -1. Answer:
    /// [`Reply::Stat`].
    SetAcl {
        /// Path of the node.
        path: Blob,
        /// New access control list.
        acl: Vec<Acl>,
        /// Required version of the list.
        version: i32,
    },
    /// Changes nothing, and fails unless the node has this version, or any for -1. Answer:
    /// [`Reply::Done`].
    Check {
        /// Path of the node.
        path: Blob,
        /// Required version of the node.
        version: i32,
    },
}

impl Change {
    /// Path of the node; of a sequential one to create, the path without the number.
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

/// Write, which goes through the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// One operation.
    Change(Change),
    /// Several operations that take effect together or not at all. Answer: [`Reply::Multi`].
    Multi(Vec<Change>),
    /// Begin of a session. The log entry determines its number. Answer: [`Reply::Session`].
    Open {
        /// Session time-out.
        timeout_ms: i32,
        /// Password of the new session.
        password: Password,
    },
    /// End of the session and of its ephemeral nodes. Answer: [`Reply::Done`].
    Close,
    /// Deletion of containers and of nodes with a time to live that are due by now. The leader
    /// writes it by itself. Answer: [`Reply::Done`].
    Reap,
    /// Step in a tree that is spread over several shards.
    Spread(SpreadStep),
}

impl Write {
    /// Changes of the tree that the write makes itself, now or at its commit.
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Change(change) => std::slice::from_ref(change),
            Self::Multi(changes) | Self::Spread(SpreadStep::Prepare { changes, .. }) => changes,
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
        /// Path of the node.
        path: Blob,
        /// Whether the answer includes the stat.
        stat: bool,
    },
    /// Number of the node's descendants. Answer: [`Reply::Number`].
    Descendants(Blob),
    /// The session's ephemeral nodes whose paths have this prefix. Answer: [`Reply::Paths`].
    Ephemerals(Blob),
    /// Barrier between earlier changes and later reads of the session. Answer: [`Reply::Path`].
    Sync(Blob),
    /// Several reads, each with its own answer or error. Answer: [`Reply::Multi`].
    Multi(Vec<Read>),
}

impl Read {
    /// Path of the node that is read; none for several.
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

/// Result of an answered request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Success without a value.
    Done,
    /// A node was created.
    Created {
        /// Path of the node.
        path: Blob,
        /// Stat of the node, if the client asked for it.
        stat: Option<Stat>,
    },
    /// A node's stat.
    Stat(Stat),
    /// A node's data and stat.
    Data(Option<Blob>, Stat),
    /// A node's access control list and stat.
    Acl(Vec<Acl>, Stat),
    /// The names of a node's children, and its stat if the client asked for it.
    Children(Vec<Blob>, Option<Stat>),
    /// A number.
    Number(i32),
    /// Paths.
    Paths(Vec<Blob>),
    /// A path.
    Path(Blob),
    /// One result for each operation of a `multi`.
    Multi(Vec<Result<Reply, Code>>),
    /// A session has begun.
    Session(TreeSessionId),
    /// A session was resumed: its time-out in milliseconds, and the other shards that it has
    /// joined.
    Joined(i32, Vec<ShardId>),
}

/// Kind of an event of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum Happened {
    /// The node was created.
    Created = 1,
    /// The node was deleted.
    Deleted = 2,
    /// The node's data were set.
    Data = 3,
    /// A child was created or deleted.
    Children = 4,
}

/// Event of a node, as a watching client receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedEvent {
    /// Kind of the event.
    pub happened: Happened,
    /// Path of the node.
    pub path: Blob,
}

/// Type of a watch to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watch {
    /// The next change of a node's data or its end.
    Data,
    /// The creation of a node that does not exist.
    Exist,
    /// The next change of a node's children or its end.
    Child,
    /// All changes of a node and of its children, until it is removed.
    Persistent,
    /// All changes of a node and of everything below, until it is removed.
    Recursive,
}

/// Type of watches to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatcherType {
    /// One-time watches on children.
    Children,
    /// One-time watches on data and on missing nodes.
    Data,
    /// All.
    Any,
    /// Persistent watches on a node and its children.
    Persistent,
    /// Persistent watches on everything below as well.
    Recursive,
}

/// Identity of a `multi` within a session: later ones are larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JointId {
    /// Number of the change at shard 0 with which the session joined the other shards for its
    /// connection.
    pub joined: Zxid,
    /// Number of the `multi` within the connection.
    pub number: u32,
}

/// Messages to shards about a tree that is spread and about sessions that are at several of them.
/// Gateways and shards send them by themselves and the session need not be at a gateway, except for
/// [`SpreadStep::Join`] and [`SpreadStep::Prepare`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpreadStep {
    /// Spreads the tree over so many shards, if it was not spread before and has always been empty.
    /// At shard 0. Answer: [`Reply::Number`](super::Reply::Number), the final number of shards.
    Over(Spread),
    /// Announces that the session is about to enter these shards. At shard 0; it enters them with
    /// the number of this change. Answer: [`Reply::Done`](super::Reply::Done).
    Join(Vec<ShardId>),
    /// Places the session at this shard and at the gateway that sends the step. Answer:
    /// [`Reply::Done`](super::Reply::Done), or [`Code::SessionMoved`](super::Code::SessionMoved) if
    /// it has entered with a later number, or may have ended since.
    Enter {
        /// Session time-out in milliseconds, which the answer to
        /// [`Ask::Resume`](super::Ask::Resume) reports.
        timeout_ms: i32,
        /// Password, which [`Ask::Resume`](super::Ask::Resume) must match.
        password: Password,
        /// Number of the change at shard 0 with which it has joined.
        joined: Zxid,
    },
    /// Begins the session's end at this shard: its further requests are refused, and its nodes are
    /// hidden until it is known to have ended everywhere. It cannot enter any more with a smaller
    /// number. Answer: [`Reply::Done`](super::Reply::Done).
    Depart {
        /// Number of the change at shard 0 with which the end began.
        ended: Zxid,
    },
    /// Ends the session, which has departed from all other shards, and deletes its nodes at shard
    /// 0. Answer: [`Reply::Done`](super::Reply::Done).
    Finish,
    /// Completes the session's end at this shard and deletes its nodes. Answer:
    /// [`Reply::Done`](super::Reply::Done).
    Gone,
    /// Makes shard 0 forget the session, after all shards have completed its end. Answer:
    /// [`Reply::Done`](super::Reply::Done).
    Forget,
    /// Tries the changes of a session's `multi` at this shard, which then await the decision.
    /// Answer: their outcome, as [`Reply::Multi`](super::Reply::Multi); or
    /// [`Reply::Done`](super::Reply::Done), if they cannot be prepared now.
    Prepare {
        /// Identity of the `multi`.
        id: JointId,
        /// All shards that take part.
        shards: Vec<ShardId>,
        /// Changes at this shard.
        changes: Vec<Change>,
    },
    /// Asks for the state of a `multi`; a shard that does not know it will not prepare it any more.
    /// Answer: [`Reply::Number`](super::Reply::Number), see
    /// [`JointState::number`](super::service::JointState::number).
    Inquire {
        /// Identity of the `multi`.
        id: JointId,
    },
    /// Decides a `multi`. Answer, if it was prepared here until now: the results of its changes, as
    /// [`Reply::Multi`](super::Reply::Multi), which is empty if it has no effect. Otherwise
    /// [`Reply::Done`](super::Reply::Done).
    Decide {
        /// Identity of the `multi`.
        id: JointId,
        /// Whether all shards have prepared it, and none votes against it.
        commit: bool,
    },
}

impl SpreadStep {
    /// Whether the session must be at the requesting gateway.
    pub fn is_asked_by_session(&self) -> bool {
        matches!(self, Self::Join(_) | Self::Prepare { .. })
    }

    /// Whether the step belongs to a `multi` over several shards.
    pub fn is_of_joint(&self) -> bool {
        matches!(self, Self::Prepare { .. } | Self::Inquire { .. } | Self::Decide { .. })
    }
}
