//! What a replica of the tree's shard can tell those who watch over the service: how much there is of
//! what, and lists of it.

use super::request::{SessionId, Zxid};
use super::service::Coordination;
use super::tree;
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
    /// Over how many shards the tree is.
    pub shards: u16,
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
            shards: service.spread().count(),
        }
    }
}

impl Survey {
    /// The same without what every shard of a tree that is spread has of its own: nodes that are always
    /// there, and sessions, which are those of shard 0.
    pub fn of_part(self) -> Self {
        Self { nodes: self.nodes.saturating_sub(tree::FIXED.len()), sessions: 0, ..self }
    }

    /// Adds what there is at other shards of a tree that is spread ([`Survey::of_part`]).
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
    /// Adds what the sessions have at another shard of a tree that is spread.
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

    /// Of a replica; of a leader, which knows what is watched.
    pub fn of(service: &Coordination, watches: Option<&Watches>) -> Self {
        let sessions = service.sessions().iter().map(|(id, session)| {
            (*id, session.timeout_ms, session.ephemerals.iter().cloned().collect())
        });
        Self { sessions: sessions.collect(), watches: watches.map(Watches::list) }
    }
}
