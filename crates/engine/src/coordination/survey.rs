//! What a replica of the tree's shard can tell those who watch over the service: how much there is of
//! what, and lists of it.

use super::request::{SessionId, Zxid};
use super::service::Coordination;
use super::watches::Watches;
use adt::Blob;

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Nodes.
    pub nodes: usize,
    /// Nodes that end with a session.
    pub ephemerals: usize,
    /// Bytes of their paths and data.
    pub bytes: u64,
    /// Sessions.
    pub sessions: usize,
    /// The number of the last change.
    pub last: Zxid,
    /// Quotas.
    pub quotas: usize,
    /// Those of them of which there is more than they allow.
    pub quotas_exceeded: usize,
    /// What is watched; only the leader knows.
    pub watched: Option<Watched>,
}

/// How much is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// By how many sessions.
    pub sessions: usize,
    /// How many paths, however many sessions watch them.
    pub paths: usize,
    /// How many paths, each counted once for each session.
    pub watches: usize,
}

/// Who there is, and what each has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The sessions: for how many milliseconds each may be silent, and its nodes.
    pub sessions: Vec<(SessionId, i32, Vec<Blob>)>,
    /// The paths that each session watches; only the leader knows.
    pub watches: Option<Vec<(SessionId, Vec<Blob>)>>,
}

impl Survey {
    /// Of a replica; of a leader, which knows what is watched.
    pub fn of(service: &Coordination, watches: Option<&Watches>) -> Self {
        let ephemerals = service.sessions().values().map(|session| session.ephemerals.len()).sum();
        let (quotas, quotas_exceeded) = service.tree().quotas().counted();
        Self {
            nodes: service.tree().len(),
            ephemerals,
            bytes: service.tree().bytes(),
            sessions: service.sessions().len(),
            last: service.last(),
            quotas,
            quotas_exceeded,
            watched: watches.map(Watches::count),
        }
    }
}

impl Listed {
    /// Of a replica; of a leader, which knows what is watched.
    pub fn of(service: &Coordination, watches: Option<&Watches>) -> Self {
        let sessions = service.sessions().iter().map(|(id, session)| {
            (*id, session.timeout_ms, session.ephemerals.iter().cloned().collect())
        });
        Self { sessions: sessions.collect(), watches: watches.map(Watches::list) }
    }
}
