//! What a gateway waits for from shards, and what it sends.

use super::api::{GatewayStats, Output, SessionId};
use super::coordination::{Purpose, Sender};
use super::slab::{HANDLE_BITS, Slab};
use crate::gateway::routing::ways::Ways;
use crate::gateway::txn::work::Finish;
use crate::gateway::waiting::near::NearPurpose;
use crate::ids::{GatewayId, ShardId, StreamId, Token};
use crate::message::{Body, Request};
use crate::slot::Routes;
use adt::{Blob, Timestamp};
use std::collections::VecDeque;

/// Where a reply goes: a place in a session's queue of replies, or an item of the array there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub session: SessionId,
    pub seq: u64,
    pub item: u32,
}

/// The whole reply rather than an item of it.
pub(super) const WHOLE: u32 = u32::MAX;

/// The reply of an attempt of the blocking command that the session waits in.
pub(super) const ATTEMPT: u32 = u32::MAX - 1;

/// A request that a shard has not answered yet.
#[derive(Debug)]
pub(super) enum Pending {
    /// One operation of a session; its reply is the reply.
    Single { target: Target, wrote: Option<ShardId>, after: Option<u64> },
    /// Commands of a session on one shard, that are carried out together: where the reply of each goes,
    /// from how many operations it comes, and what makes it.
    Batch {
        parts: Vec<(Target, u32, Option<Box<Finish>>)>,
        wrote: Option<ShardId>,
        after: Option<u64>,
    },
    /// Operations of a session on one shard.
    Work { target: Target, wrote: Option<ShardId>, after: Option<u64>, finish: Box<Finish> },
    /// A group of a session's stream: its first unit, how many there are, and where they are.
    Units { session: SessionId, stream: StreamId, first: u32, count: u32, shard: ShardId },
    /// An early access of a transaction: one reply of a call.
    Access { job: u64, call: u64, index: u32, blocked: bool },
    /// The vote of a participant.
    Vote { job: u64, shard: ShardId, blocked: bool },
    /// The replies of a participant after the decision.
    Execution { job: u64, shard: ShardId },
    /// One operation of a transaction that is carried out without transactions.
    Loose { job: u64, index: u32 },
    /// Part of a snapshot over several shards.
    Snapshot { job: u64, part: u32 },
    /// A read, or reads asked again, of a read-only interactive transaction.
    Interval { job: u64, query: Option<u64>, part: u32 },
    /// The version of a watched key.
    Version { target: Target, key: Blob },
    /// An attempt of a blocking command.
    Attempt { job: u64 },
    /// An operation that waits for its turn.
    Turn { job: u64 },
    /// Something about a lock that the gateway keeps for its clients.
    Near { lock: u64, purpose: NearPurpose },
    /// Who waits for whom at a shard.
    Waits { job: u64, shard: ShardId },
    /// A wait for keys on a shard. Stays until it is ended.
    Wait { job: u64 },
    /// A shard's part of something that asks all of them.
    Gather { job: u64 },
    /// A shard's part of a cut.
    Cut { job: u64, shard: ShardId },
    /// A lock that several transactions share.
    Lease { lease: u64 },
    /// What a participant knows of a transaction whose coordinator is silent.
    Fate { job: u64 },
    /// A request of a client of the coordination service, or something that one of them needs, at a shard.
    Coordination { client: u64, shard: ShardId, purpose: Purpose },
    /// A group of what a client of the coordination service has sent ahead.
    Ahead { sender: Sender, stream: StreamId, first: u32, count: u32, shard: ShardId },
    /// Over how many shards the tree of the coordination service is.
    Spread,
    /// A step of the end of a session of the coordination service.
    Ending { job: u64 },
    /// A step of a `multi` over several shards of its tree.
    Joint { job: u64, shard: ShardId },
    /// The map is to say that a split is done.
    SplitDone,
    /// What a request has answered is to be remembered.
    Remembered,
}

impl Pending {
    /// The session that has sent this by itself, in no stream and for no transaction.
    pub fn of_loose(&self) -> Option<SessionId> {
        match self {
            Self::Single { target, .. } | Self::Work { target, .. } => Some(target.session),
            Self::Batch { parts, .. } => parts.first().map(|(target, ..)| target.session),
            _ => None,
        }
    }

    /// The request that this one must not overtake.
    fn after(&self) -> Option<u64> {
        match self {
            Self::Single { after, .. } | Self::Batch { after, .. } | Self::Work { after, .. } => {
                *after
            }
            _ => None,
        }
    }

    /// The request must not overtake another one.
    pub fn comes_after(&mut self, token: u64) {
        if let Self::Single { after, .. } | Self::Batch { after, .. } | Self::Work { after, .. } =
            self
        {
            *after = Some(token);
        }
    }
}

/// The bits of a token that say which request it is.
const HANDLE_MASK: u64 = (1 << HANDLE_BITS) - 1;

/// The way to the shards.
#[derive(Debug)]
pub(super) struct Mail {
    pub gateway: GatewayId,
    /// Which shard has which slots.
    pub routes: Routes,
    pub outputs: VecDeque<Output>,
    pub pending: Slab<Pending>,
    /// In a cluster: the ways to shards that other machines may lead.
    pub ways: Option<Ways>,
    pub stats: GatewayStats,
}

impl Mail {
    /// Sends a request that will be answered.
    #[inline]
    pub fn ask(&mut self, shard: ShardId, pending: Pending, body: Body) -> u64 {
        let answered = !matches!(pending, Pending::Wait { .. });
        let token = self.pending.insert(pending);
        if let Some(ways) = &mut self.ways
            && answered
        {
            ways.note(shard, token, &body);
        }
        self.send(shard, token, body);
        token
    }

    /// Nobody waits for an answer any more.
    pub fn forget(&mut self, token: u64) {
        self.pending.remove(token);
        if let Some(ways) = &mut self.ways {
            ways.forget(token);
        }
    }

    /// Nobody waits for an answer any more, and whoever was asked is told so: the shard that the
    /// request went to, under the token that it was asked with the last time.
    pub fn withdraw(&mut self, shard: ShardId, token: u64, body: Body) {
        let known = self.ways.as_ref().and_then(|ways| ways.asked(token));
        self.forget(token);
        match known {
            Some((shard, times, true)) => self.put(shard, token, times, body),
            // It has not gone out.
            Some(_) => {}
            None => self.send(shard, token, body),
        }
    }

    /// Adds to a request that waits for its answer, if the shard has it.
    pub fn add(&mut self, shard: ShardId, token: u64, body: Body) {
        match self.ways.as_ref().map(|ways| ways.asked(token)) {
            None => self.send(shard, token, body),
            Some(Some((shard, times, true))) => self.put(shard, token, times, body),
            Some(_) => {}
        }
    }

    /// Sends a request under a token.
    #[inline]
    pub fn send(&mut self, shard: ShardId, token: u64, body: Body) {
        let passes = match &mut self.ways {
            None => Some((0, body)),
            Some(ways) => ways.pass(shard, token, body),
        };
        if let Some((times, body)) = passes {
            self.put(shard, token, times, body);
        }
    }

    /// Sends a request for which the way is open, and which was asked again so many times.
    #[inline]
    pub fn put(&mut self, shard: ShardId, token: u64, times: u8, body: Body) {
        self.stats.requests += 1;
        let token = Token(token | u64::from(times) << HANDLE_BITS);
        let after = self.pending.get(token.0 & HANDLE_MASK).and_then(Pending::after).map(Token);
        let request = Request { gateway: self.gateway, token, after, body };
        self.outputs.push_back(Output::Shard { shard, request });
    }

    /// Our token of what was sent under one.
    pub fn token_of(sent: Token) -> u64 {
        sent.0 & HANDLE_MASK
    }

    /// Our token of what somebody has answered, unless the request was asked again since.
    #[inline]
    pub fn answered(&self, sent: Token) -> Option<u64> {
        let token = Self::token_of(sent);
        let times = self.ways.as_ref().map_or(0, |ways| ways.times(token));
        (u64::from(times) == sent.0 >> HANDLE_BITS).then_some(token)
    }

    /// Tells a shard something that it does not answer.
    pub fn tell(&mut self, shard: ShardId, body: Body) {
        self.send(shard, 0, body);
    }

    /// The shard of a key.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        self.routes.shard_of(key)
    }
}

/// The later of two timestamps, kept in the first.
pub(super) fn raise(timestamp: &mut Timestamp, to: Timestamp) {
    *timestamp = (*timestamp).max(to);
}
