//! Messages between gateways and the shards that hold the tree.

use super::request::SpreadStep;
use super::request::{
    Code, Identity, Password, Read, Reply, TreeSessionId, Watch, WatchedEvent, WatcherType, Write,
    Zxid,
};
use super::service::Command;
use super::tree::acl::Rules;
use super::tree::quota;
use super::tree::quota::QuotaNode;
use crate::ids::StreamId;
use adt::Blob;

/// Request of a gateway.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Change. The session must be at this gateway, except for [`Write::Open`], which places it
    /// there.
    Write(Command),
    /// Move of a session to this gateway, where its client has presented the password. From now on
    /// the session watches nothing, and no other gateway may use it. Answer: [`Reply::Number`], its
    /// time-out in milliseconds, or [`Reply::Joined`].
    Resume {
        /// Session to move.
        session: TreeSessionId,
        /// Password of the session.
        password: Password,
    },
    /// End of a session's connection and of its watches. No answer.
    Leave(TreeSessionId),
    /// Request of a session that is at this gateway.
    Of(TreeSessionId, OfSession),
}

/// Request of a session that changes nothing but its watches.
#[derive(Clone, Debug, PartialEq)]
pub enum OfSession {
    /// Sign of life of the client. Answer: [`Reply::Done`].
    Ping,
    /// Read. It also sets a watch if `watch` is set and the read finds a target: an existing node,
    /// or for [`Read::Exists`] also a missing one.
    Read {
        /// Authenticated identities of the client.
        identities: Vec<Identity>,
        /// Read operation.
        read: Read,
        /// Whether to set a watch.
        watch: bool,
    },
    /// Sets watches. Events since a change are sent at once, and their watches are not set. Answer:
    /// [`Reply::Done`].
    Watch {
        /// Change after which events are of interest.
        since: Zxid,
        /// Paths and types of the watches.
        watches: Vec<(Blob, Watch)>,
    },
    /// Removes watches. Answer: [`Reply::Done`], or [`Code::NoWatcher`].
    Unwatch {
        /// Path of the node.
        path: Blob,
        /// Type of the watches.
        which: WatcherType,
    },
    /// Checks whether the session has such watches. Answer: [`Reply::Done`], or
    /// [`Code::NoWatcher`].
    Watches {
        /// Path of the node.
        path: Blob,
        /// Type of the watches.
        which: WatcherType,
    },
}

impl Ask {
    /// Whether the request is answered from the leader's state, without the log.
    pub fn is_read_only(&self) -> bool {
        !matches!(self, Self::Write(_))
    }

    /// Whether the request prepares a `multi` over several shards.
    pub fn prepares(&self) -> bool {
        matches!(
            self,
            Self::Write(Command { write: Write::Spread(SpreadStep::Prepare { .. }), .. })
        )
    }

    /// Paths that the request reads or changes, each with a flag for everything below it.
    pub fn paths(&self) -> Vec<(&[u8], bool)> {
        match self {
            Self::Write(command) => {
                command.write.changes().iter().map(|c| (&c.path()[..], false)).collect()
            }
            Self::Of(_, OfSession::Read { read, .. }) => paths_of_read(read),
            Self::Of(_, OfSession::Watch { watches, .. }) => {
                watches.iter().map(|(path, _)| (&path[..], false)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Session that must be at the requesting gateway, if the request needs one.
    pub fn session(&self) -> Option<TreeSessionId> {
        match self {
            Self::Write(Command { write: Write::Open { .. }, .. }) => None,
            Self::Write(Command { write: Write::Spread(step), .. })
                if !step.is_asked_by_session() =>
            {
                None
            }
            Self::Write(Command { session, .. })
            | Self::Resume { session, .. }
            | Self::Leave(session)
            | Self::Of(session, _) => Some(*session),
        }
    }
}

fn paths_of_read(read: &Read) -> Vec<(&[u8], bool)> {
    match read {
        // A session's own nodes end with it.
        Read::Ephemerals(_) => Vec::new(),
        Read::Descendants(path) => vec![(path, true)],
        // The node of a quota's usage reports on another subtree.
        Read::Data(path) => match quota::part(path) {
            Some((of, QuotaNode::Stats)) => vec![(path, false), (of, true)],
            _ => vec![(path, false)],
        },
        Read::Multi(reads) => reads.iter().flat_map(paths_of_read).collect(),
        read => read.path().map(|path| (&path[..], false)).into_iter().collect(),
    }
}

/// Answer of the shard.
#[derive(Clone, Debug, PartialEq)]
pub struct CoordinationAnswer {
    /// The reply.
    pub reply: Result<Reply, Code>,
    /// Number of the change that the request made, or of the last one before it.
    pub zxid: Zxid,
    /// Number of notices ([`SessionNotice`]) sent to the session since it came to its gateway; the maximum
    /// for steps of a joint `multi` whose session is not at the requesting gateway. A gateway that
    /// has received fewer has lost some, and must not pass the answer to the client.
    pub notices: u64,
}

/// Notice of a shard to the gateway of a session, sent without a request.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionNotice {
    /// Event of a watch, with its change. The gateway passes it on only if these rules let the
    /// session read.
    Happened(WatchedEvent, Zxid, Rules),
    /// Completion of a request that the session has sent ahead as a unit of a stream.
    Carried {
        /// The stream.
        stream: StreamId,
        /// Number of the unit.
        seq: u32,
        /// The answer.
        answered: Box<CoordinationAnswer>,
    },
    /// The session is now at another gateway.
    Moved,
    /// The session has ended.
    Ended,
}
