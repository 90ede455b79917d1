//! Figures and lists about the service that a replica of the tree's shard gives to monitoring.

use super::request::{TreeSessionId, Zxid};
use super::service::Coordination;
use super::tree;
use super::tree::watches::Watches;
use adt::Blob;

/// Figures about the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of ephemeral nodes.
    pub ephemerals: usize,
    /// Bytes of all paths and data.
    pub bytes: u64,
    /// Number of sessions.
    pub sessions: usize,
    /// Number of the last change.
    pub last: Zxid,
    /// Number of quotas.
    pub quotas: usize,
    /// Number of quotas that are exceeded.
    pub quotas_exceeded: usize,
    /// Figures about watches; known to the leader alone.
    pub watched: Option<Watched>,
    /// Number of the tree's shards.
    pub shards: u16,
}

/// Figures about watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Number of sessions that watch something.
    pub sessions: usize,
    /// Number of watched paths, each counted once.
    pub paths: usize,
    /// Number of watches: each pair of a session and a path counts once.
    pub watches: usize,
}

/// Lists of sessions, nodes and watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Each session with its time-out in milliseconds and its ephemeral nodes.
    pub sessions: Vec<(TreeSessionId, i32, Vec<Blob>)>,
    /// Paths that each session watches; known to the leader alone.
    pub watches: Option<Vec<(TreeSessionId, Vec<Blob>)>>,
}

impl Survey {
    /// Figures of a replica, with watches if it is the leader.
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
            shards: service.spread().count(),
        }
    }
}

impl Survey {
    /// Figures without the parts that every shard of a spread tree has: the nodes that always
    /// exist, and the sessions, which are counted at shard 0.
    pub fn of_part(self) -> Self {
        Self { nodes: self.nodes.saturating_sub(tree::FIXED.len()), sessions: 0, ..self }
    }

    /// Adds the figures of another shard of a spread tree ([`Survey::of_part`]).
    pub fn add(&mut self, other: &Self) {
        self.nodes += other.nodes;
        self.ephemerals += other.ephemerals;
        self.bytes += other.bytes;
        self.last = self.last.max(other.last);
        self.quotas += other.quotas;
        self.quotas_exceeded += other.quotas_exceeded;
        if let Some(other) = &other.watched {
            let sum = self.watched.get_or_insert_default();
            sum.sessions = sum.sessions.max(other.sessions);
            sum.paths += other.paths;
            sum.watches += other.watches;
        }
    }
}

impl Listed {
    /// Adds the nodes and watches that the sessions have at another shard of a spread tree.
    pub fn add(&mut self, other: Self) {
        for (session, _, nodes) in other.sessions {
            let known = self.sessions.iter_mut().find(|(of, ..)| *of == session);
            if let Some((.., all)) = known {
                all.extend(nodes);
            }
        }
        if let (Some(all), Some(more)) = (&mut self.watches, other.watches) {
            for (session, paths) in more {
                match all.iter_mut().find(|(of, _)| *of == session) {
                    Some((_, all)) => all.extend(paths),
                    None => all.push((session, paths)),
                }
            }
        }
    }

    /// Lists of a replica, with watches if it is the leader.
    pub fn of(service: &Coordination, watches: Option<&Watches>) -> Self {
        let sessions = service.sessions().iter().map(|(id, session)| {
            (*id, session.timeout_ms, session.ephemerals.iter().cloned().collect())
        });
        Self { sessions: sessions.collect(), watches: watches.map(Watches::list) }
    }
}
