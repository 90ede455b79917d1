//! Requests of clients of the coordination service, and the requests to shards that come of them.

use crate::coordination::branch::Footprint;
use crate::coordination::service::Command;
use crate::coordination::{Ask, Code, Identity, OfSession, Password, TreeSessionId, Write, Zxid};
use crate::gateway::api::CoordinationClient;
use crate::ids::ShardId;
use std::collections::BTreeMap;

/// First message of a client on a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connect {
    /// The session that the client resumes; none opens a new one.
    pub session: Option<TreeSessionId>,
    /// Password of the session, or of the one to be opened.
    pub password: Password,
    /// Session time-out that the client proposes.
    pub timeout_ms: i32,
    /// The latest change that the client has seen.
    pub seen: Zxid,
}

/// Request of a client that has a session.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientRequest {
    /// A change.
    Write(Write),
    /// Any other request that a shard answers.
    Of(OfSession),
    /// The client has proved this identity too. Answer: [`crate::coordination::Reply::Done`].
    Proved(Identity),
    /// A request that the server refuses with this code.
    Refused(Code),
}

impl ClientRequest {
    /// Branches of the tree that the request shows or changes.
    pub fn footprint(&self) -> Footprint {
        match self {
            Self::Write(write) => write.footprint(),
            Self::Of(of) => of.footprint(),
            Self::Proved(_) | Self::Refused(_) => Footprint::default(),
        }
    }

    /// If the request sets watches again: the change after which it looks for missed notifications.
    pub(super) fn since(&self) -> Option<Zxid> {
        match self {
            Self::Of(OfSession::Watch { since, .. }) => Some(*since),
            Self::Of(_) | Self::Write(_) | Self::Proved(_) | Self::Refused(_) => None,
        }
    }

    /// Request to a shard, for a session that knows of all changes up to `after` and whose client has
    /// proved these identities. None if no shard is asked.
    pub(super) fn into_ask(
        self,
        session: TreeSessionId,
        after: Zxid,
        identities: Vec<Identity>,
    ) -> Option<Ask> {
        Some(match self {
            Self::Write(write) => {
                Ask::Write(Command { identities, after, ..Command::of(session, write) })
            }
            Self::Of(of) => Ask::Of(session, of),
            Self::Proved(_) | Self::Refused(_) => return None,
        })
    }
}

/// Request of a client with its number on the connection, and the identities that the client had
/// proved when the request came.
#[derive(Debug)]
pub(super) struct NumberedRequest {
    pub seq: u64,
    pub request: ClientRequest,
    /// Filled for changes only: other requests contain the identities that they need.
    pub identities: Vec<Identity>,
}

/// Changes at several shards, all or none of which are to be made.
pub(super) struct MultiRequest {
    pub client: CoordinationClient,
    pub session: TreeSessionId,
    pub seq: u64,
    pub write: Write,
    pub identities: Vec<Identity>,
    /// Indexes of each shard's changes in `write`.
    pub places: BTreeMap<ShardId, Vec<usize>>,
}

/// Purpose of a request to a shard on behalf of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Purpose {
    /// To open or resume the client's session.
    Session,
    /// To answer the client's request with this number.
    Request(u64),
    /// To tell shard 0 that the session joins other shards.
    Join,
    /// To let the session enter another shard.
    Enter,
    /// To answer a part of a request that concerns several shards.
    Part,
    /// A side effect: no client waits for the answer.
    Aside,
}

/// Sender of a group of requests that were sent ahead.
#[derive(Clone, Copy, Debug)]
pub(in crate::gateway) struct Sender {
    pub client: CoordinationClient,
    pub session: TreeSessionId,
}
