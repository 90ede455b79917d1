//! The operations and their numbers.

use engine::coordination::{Change, Lasts, Read};

/// Operation, with its number in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Op {
    /// Ends the session.
    CloseSession = -11,
    /// Creates a node.
    Create = 1,
    /// Deletes a node.
    Delete = 2,
    /// Reads a node's stat.
    Exists = 3,
    /// Reads a node's data.
    GetData = 4,
    /// Sets a node's data.
    SetData = 5,
    /// Reads a node's access control list.
    GetAcl = 6,
    /// Sets a node's access control list.
    SetAcl = 7,
    /// Reads the names of a node's children.
    GetChildren = 8,
    /// Waits for all earlier changes.
    Sync = 9,
    /// Keeps the session alive.
    Ping = 11,
    /// Reads the names of a node's children, and its stat.
    GetChildren2 = 12,
    /// Fails unless a node has a version; only in an [`Op::Multi`].
    Check = 13,
    /// Several changes, all or none.
    Multi = 14,
    /// Creates a node and returns its stat.
    Create2 = 15,
    /// Checks whether such watches exist.
    CheckWatches = 17,
    /// Removes watches.
    RemoveWatches = 18,
    /// Creates a container and returns its stat.
    CreateContainer = 19,
    /// Creates a node with a time to live and returns its stat.
    CreateTtl = 21,
    /// Reads several nodes' data or children.
    MultiRead = 22,
    /// Authenticates the client.
    Auth = 100,
    /// Sets again the watches that the client had on an earlier connection.
    SetWatches = 101,
    /// Reads the paths of the session's ephemeral nodes.
    GetEphemerals = 103,
    /// Counts a node's descendants.
    GetAllChildrenNumber = 104,
    /// Like [`Op::SetWatches`], with persistent watches.
    SetWatches2 = 105,
    /// Adds a persistent watch.
    AddWatch = 106,
    /// Reads the identities of the client.
    WhoAmI = 107,
}

impl Op {
    /// All operations.
    pub const ALL: [Self; 27] = [
        Self::CloseSession,
        Self::Create,
        Self::Delete,
        Self::Exists,
        Self::GetData,
        Self::SetData,
        Self::GetAcl,
        Self::SetAcl,
        Self::GetChildren,
        Self::Sync,
        Self::Ping,
        Self::GetChildren2,
        Self::Check,
        Self::Multi,
        Self::Create2,
        Self::CheckWatches,
        Self::RemoveWatches,
        Self::CreateContainer,
        Self::CreateTtl,
        Self::MultiRead,
        Self::Auth,
        Self::SetWatches,
        Self::GetEphemerals,
        Self::GetAllChildrenNumber,
        Self::SetWatches2,
        Self::AddWatch,
        Self::WhoAmI,
    ];

    /// Number of the operation, as in `ZooDefs.OpCode`.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The operation with this number, if there is one.
    pub fn of(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.number() == number)
    }

    pub(super) fn of_change(change: &Change) -> Self {
        match change {
            Change::Create(create) => match create.mode.lasts {
                Lasts::Children => Self::CreateContainer,
                Lasts::Ttl(_) => Self::CreateTtl,
                Lasts::Always | Lasts::Session if create.stat => Self::Create2,
                Lasts::Always | Lasts::Session => Self::Create,
            },
            Change::Delete { .. } => Self::Delete,
            Change::SetData { .. } => Self::SetData,
            Change::SetAcl { .. } => Self::SetAcl,
            Change::Check { .. } => Self::Check,
        }
    }

    pub(super) fn of_read(read: &Read) -> Self {
        match read {
            Read::Exists(_) => Self::Exists,
            Read::Data(_) => Self::GetData,
            Read::Acl(_) => Self::GetAcl,
            Read::Children { stat: true, .. } => Self::GetChildren2,
            Read::Children { stat: false, .. } => Self::GetChildren,
            Read::Descendants(_) => Self::GetAllChildrenNumber,
            Read::Ephemerals(_) => Self::GetEphemerals,
            Read::Sync(_) => Self::Sync,
            Read::Multi(_) => Self::MultiRead,
        }
    }
}

/// Facts about a request that are needed to write the answer to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// An undecodable request, which can only be answered with an error.
    #[default]
    Nothing,
    /// One operation, or several that only read.
    One(Op),
    /// Several changes, in this order.
    Multi(Vec<Op>),
}

impl Kind {
    /// The operation as a whole.
    pub fn op(&self) -> Option<Op> {
        match self {
            Self::Nothing => None,
            Self::One(op) => Some(*op),
            Self::Multi(_) => Some(Op::Multi),
        }
    }
}
