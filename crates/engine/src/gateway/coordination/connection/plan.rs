//! Plans of requests in a spread tree: to which shards each request goes.

use crate::coordination::spread::{HOME, Location, Spread};
use crate::coordination::{Code, OfSession, Read, Watch, Zxid};
use crate::gateway::coordination::request::ClientRequest;
use crate::ids::ShardId;
use adt::Blob;
use std::collections::BTreeMap;

/// Shards to which a request goes.
pub(super) enum Plan {
    /// One shard, unchanged.
    One(ShardId),
    /// Several shards, each with its own request.
    Several(Vec<(ShardId, OfSession)>),
    /// Several shards, which make all changes or none; with the indexes of each shard's changes.
    Joint(BTreeMap<ShardId, Vec<usize>>),
    /// None: the request is answered with this code.
    Refused(Code),
}

/// Whether a node is at all shards.
pub(super) fn is_everywhere(spread: Spread, path: &[u8]) -> bool {
    spread.place(path) == Location::Everywhere
}

impl Plan {
    /// Plan of a request of a client whose session is at these shards.
    pub fn of(spread: Spread, request: &ClientRequest, at: impl Iterator<Item = ShardId>) -> Self {
        if !spread.is_spread() {
            return Self::One(HOME);
        }
        let of = match request {
            ClientRequest::Write(write) => {
                let shard = spread.place_of_write(write).shard();
                let joint = || Self::Joint(spread.parts(write.changes()));
                return shard.map_or_else(joint, Self::One);
            }
            ClientRequest::Of(of) => of,
            ClientRequest::Proved(_) => return Self::One(HOME),
            ClientRequest::Refused(code) => return Self::Refused(*code),
        };
        let to = |shards: &mut dyn Iterator<Item = ShardId>| {
            Self::Several(shards.map(|shard| (shard, of.clone())).collect())
        };
        match of {
            OfSession::Ping => to(&mut at.into_iter()),
            OfSession::Read { read, .. } => match (spread.place_of_read(read), read) {
                (Location::Everywhere, Read::Ephemerals(_)) => to(&mut at.into_iter()),
                (Location::Everywhere, _) => Self::of_root(spread, of),
                (place, _) => place.shard().map_or(Self::Refused(Code::BadArguments), Self::One),
            },
            OfSession::Watch { since, watches } => Self::of_watches(spread, *since, watches),
            OfSession::Unwatch { path, .. } | OfSession::Watches { path, .. } => {
                match spread.place(path).shard() {
                    Some(shard) => Self::One(shard),
                    None => to(&mut spread.shards()),
                }
            }
        }
    }

    /// Plan of a read of the root. Shard 0 has the root's data and gets the request; the other shards have
    /// children of it and are asked for those.
    fn of_root(spread: Spread, of: &OfSession) -> Self {
        let OfSession::Read { identities, read, watch } = of else { return Self::One(HOME) };
        let each = |shard| {
            let identities = identities.clone();
            let (read, watch) = match read {
                Read::Children { path, .. } => {
                    (Read::Children { path: path.clone(), stat: true }, *watch)
                }
                read if shard == HOME => (read.clone(), *watch),
                Read::Descendants(_) => (read.clone(), false),
                read => {
                    let path = read.path().cloned().unwrap_or_default();
                    (Read::Children { path, stat: true }, false)
                }
            };
            (shard, OfSession::Read { identities, read, watch })
        };
        Self::Several(spread.shards().map(each).collect())
    }

    /// Plan of a renewal of watches: each shard gets the watches of its nodes.
    fn of_watches(spread: Spread, since: Zxid, watches: &[(Blob, Watch)]) -> Self {
        let mut parts: BTreeMap<ShardId, Vec<(Blob, Watch)>> = BTreeMap::new();
        for (path, watch) in watches {
            let shards = match (spread.place(path), watch) {
                (Location::Everywhere, Watch::Data | Watch::Exist) => vec![HOME],
                (Location::Everywhere, _) => spread.shards().collect(),
                (place, _) => place.shard().into_iter().collect(),
            };
            for shard in shards {
                parts.entry(shard).or_default().push((path.clone(), *watch));
            }
        }
        if let Some(shard) = parts.keys().next().copied().filter(|_| parts.len() == 1) {
            return Self::One(shard);
        }
        if parts.is_empty() {
            return Self::One(HOME);
        }
        let each = |(shard, watches)| (shard, OfSession::Watch { since, watches });
        Self::Several(parts.into_iter().map(each).collect())
    }

    /// All shards of the plan.
    pub fn shards(&self) -> Vec<ShardId> {
        match self {
            Self::One(shard) => vec![*shard],
            Self::Several(parts) => parts.iter().map(|(shard, _)| *shard).collect(),
            Self::Joint(places) => places.keys().copied().collect(),
            Self::Refused(_) => Vec::new(),
        }
    }
}
