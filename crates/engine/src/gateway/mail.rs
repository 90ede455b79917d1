//! Outbox of a gateway: the requests that wait for answers of shards, and the messages to be sent.

use super::api::{GatewayStats, Output, SessionId};
use super::coordination::{Purpose, Sender};
use super::slab::{HANDLE_BITS, Slab};
pub(super) use super::target::{ATTEMPT, Target};
use crate::cluster::slot::Routes;
use crate::gateway::routing::leaders::{Leaders, LostRequests};
use crate::gateway::txn::work::{Finish, Program};
use crate::gateway::waiting::near::NearPurpose;
use crate::ids::{GatewayId, MachineId, ShardId, StreamId, Token};
use crate::message::{Body, Request};
use crate::now::Now;
use adt::{Blob, Timestamp};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeSet, VecDeque};

/// Request that a shard has not answered yet: its purpose, and the part that gets the answer.
#[derive(Debug)]
pub(super) enum Pending {
    /// Request that a session has sent by itself, in no stream and for no transaction.
    Session(SessionRequest),
    /// Group of a session's stream: its first unit, the number of units, and their shard.
    Units { session: SessionId, stream: StreamId, first: u32, count: u32, shard: ShardId },
    /// Early access of a transaction: one reply of a call.
    Access { job: u64, call: u64, index: u32, blocked: bool },
    /// Vote of a participant.
    Vote { job: u64, shard: ShardId, blocked: bool },
    /// Replies of a participant after the decision.
    Execution { job: u64, shard: ShardId },
    /// One operation of a transaction that is carried out without transactions.
    Loose { job: u64, index: u32 },
    /// Part of a snapshot over several shards.
    Snapshot { job: u64, part: u32 },
    /// A read, or reads asked again, of a read-only interactive transaction.
    Interval { job: u64, query: Option<u64>, part: u32 },
    /// Version of a watched key.
    Version { target: Target, key: Blob },
    /// Attempt of a blocking command.
    Attempt { job: u64 },
    /// Operation that waits for its turn.
    Turn { job: u64 },
    /// Request about a lock that the gateway keeps for its clients.
    Near { lock: u64, purpose: NearPurpose },
    /// Waiters and holders at a shard, for the search of a deadlock cycle.
    Waits { job: u64, shard: ShardId },
    /// Wait for keys on a shard, which lasts until it is ended.
    Wait { job: u64 },
    /// Answer of a shard to an inquiry.
    Gather { job: u64 },
    /// Step of a cut at a shard.
    Cut { job: u64, shard: ShardId },
    /// Lock that several transactions share.
    Lease { lease: u64 },
    /// Knowledge of a participant about a transaction whose coordinator is silent.
    Fate { job: u64 },
    /// Request to a shard on behalf of a client of the coordination service.
    Coordination { client: u64, shard: ShardId, purpose: Purpose },
    /// Group of requests that a client of the coordination service has sent ahead.
    Ahead { sender: Sender, stream: StreamId, first: u32, count: u32, shard: ShardId },
    /// Number of shards of the coordination service's tree.
    Spread,
    /// Step of the end of a session of the coordination service.
    Ending { job: u64 },
    /// Step of a `multi` over several shards of the coordination service's tree.
    Joint { job: u64, shard: ShardId },
    /// Write of a shard map that marks a split as done.
    SplitDone,
    /// Changes of a shard, which the gateway follows.
    Follow { shard: ShardId },
    /// Replies of a request or a text of a script, which a shard is to keep: nothing waits for the answer.
    Remembered,
}

/// Request that a session has sent by itself, in no stream and for no transaction.
#[derive(Debug)]
pub(super) struct SessionRequest {
    pub commands: SentCommands,
    /// Shard that the request writes to.
    pub wrote: Option<ShardId>,
    /// Token of the request that this one must not overtake.
    pub after: Option<u64>,
}

/// A command that is carried out together with others: the target of its reply, the number of its operations,
/// and the recipe for the reply.
pub(super) type SentCommand = (Target, u32, Option<Box<Finish>>);

/// Commands that are sent as one request to one shard.
#[derive(Debug)]
pub(super) enum SentCommands {
    /// One operation, whose reply is the reply.
    Single(Target),
    /// Operations of one program, with the recipe for its reply.
    Work(Target, Box<Finish>),
    /// Scripts, each as the program that consists of it.
    Scripts(Vec<Program>),
    /// Commands that are carried out together.
    Batch(Vec<SentCommand>),
    /// Commands that are carried out together as a part of a bundle.
    Part(Vec<SentCommand>),
}

impl SentCommands {
    /// Session that has sent the commands.
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Single(target) | Self::Work(target, _) => Some(target.session),
            Self::Scripts(programs) => programs.first().map(|program| program.target.session),
            Self::Batch(parts) | Self::Part(parts) => {
                parts.first().map(|(target, ..)| target.session)
            }
        }
    }

    /// Targets of the replies.
    pub fn targets(&self) -> SmallVec<[Target; 1]> {
        match self {
            Self::Single(target) | Self::Work(target, _) => smallvec![*target],
            Self::Scripts(programs) => programs.iter().map(|program| program.target).collect(),
            Self::Batch(parts) | Self::Part(parts) => {
                parts.iter().map(|(target, ..)| *target).collect()
            }
        }
    }
}

impl Pending {
    /// One operation of a session, which may write to a shard.
    pub fn single(target: Target, wrote: Option<ShardId>) -> Self {
        Self::of_session(SentCommands::Single(target), wrote)
    }

    /// Request of a session, which may write to a shard.
    pub fn of_session(commands: SentCommands, wrote: Option<ShardId>) -> Self {
        Self::Session(SessionRequest { commands, wrote, after: None })
    }

    /// Session that has sent the request by itself.
    pub fn session(&self) -> Option<SessionId> {
        let Self::Session(request) = self else { return None };
        request.commands.session()
    }

    /// Token of the request that this one must not overtake.
    fn after(&self) -> Option<u64> {
        let Self::Session(request) = self else { return None };
        request.after
    }

    /// Notes that the request must not overtake another one.
    pub fn comes_after(&mut self, token: u64) {
        if let Self::Session(request) = self {
            request.after = Some(token);
        }
    }
}

/// Bits of a token that identify the request; the others count its repetitions.
const HANDLE_MASK: u64 = (1 << HANDLE_BITS) - 1;

/// Outbox of a gateway, and its requests without answers.
#[derive(Debug)]
pub(super) struct Mail {
    pub gateway: GatewayId,
    /// Shard of each slot.
    pub routes: Routes,
    pub outputs: VecDeque<Output>,
    pub pending: Slab<Pending>,
    /// In a cluster: leaders of the shards.
    pub leaders: Option<Leaders>,
    pub stats: GatewayStats,
}

impl Mail {
    /// Sends a request that is answered.
    #[inline]
    pub fn ask(&mut self, shard: ShardId, pending: Pending, body: Body) -> u64 {
        let answered = !matches!(pending, Pending::Wait { .. });
        let token = self.pending.insert(pending);
        if let Some(leaders) = &mut self.leaders
            && answered
        {
            leaders.note(shard, token, &body);
        }
        self.send(shard, token, body);
        token
    }

    /// Removes a request whose answer has arrived, or is not awaited any longer.
    #[inline]
    pub fn take(&mut self, token: u64) -> Option<Pending> {
        if let Some(leaders) = &mut self.leaders {
            leaders.forget(token);
        }
        self.pending.remove(token)
    }

    /// Removes a request whose answer is not awaited any longer.
    pub fn forget(&mut self, token: u64) {
        drop(self.take(token));
    }

    /// Removes a request whose answer is not awaited any longer, and notifies the shard that has it, under
    /// the token of the last repetition.
    pub fn withdraw(&mut self, shard: ShardId, token: u64, body: Body) {
        let known = self.leaders.as_ref().and_then(|leaders| leaders.asked(token));
        self.forget(token);
        match known {
            Some((shard, times, true)) => self.put(shard, token, times, body),
            // The request has not been sent.
            Some(_) => {}
            None => self.send(shard, token, body),
        }
    }

    /// Sends a message about a request that waits for its answer, if the shard has the request.
    pub fn add(&mut self, shard: ShardId, token: u64, body: Body) {
        match self.leaders.as_ref().map(|leaders| leaders.asked(token)) {
            None => self.send(shard, token, body),
            Some(Some((shard, times, true))) => self.put(shard, token, times, body),
            Some(_) => {}
        }
    }

    /// Whether a shard may have carried a request out.
    pub fn may_have_gone(&self, token: u64) -> bool {
        self.leaders.as_ref().is_none_or(|leaders| leaders.went(token))
    }

    /// Sends a message under a token, or holds it until the shard has a leader.
    #[inline]
    pub fn send(&mut self, shard: ShardId, token: u64, body: Body) {
        let passes = match &mut self.leaders {
            None => Some((0, body)),
            Some(leaders) => leaders.pass(shard, token, body),
        };
        if let Some((times, body)) = passes {
            self.put(shard, token, times, body);
        }
    }

    /// Sends a message to a shard that is open, as this repetition of the request.
    #[inline]
    pub fn put(&mut self, shard: ShardId, token: u64, times: u8, body: Body) {
        self.stats.requests += 1;
        let token = Token(token | u64::from(times) << HANDLE_BITS);
        let after = self.pending.get(token.0 & HANDLE_MASK).and_then(Pending::after).map(Token);
        let request = Request { gateway: self.gateway, token, after, body };
        self.outputs.push_back(Output::Shard { shard, request });
    }

    /// Sends requests to several shards of this process at one moment.
    pub fn bundle(&mut self, writes: bool, parts: Vec<(ShardId, Pending, Body)>) {
        let requests = parts.into_iter().map(|(shard, pending, body)| {
            self.stats.requests += 1;
            let token = Token(self.pending.insert(pending));
            (shard, Request { gateway: self.gateway, token, after: None, body })
        });
        let requests = requests.collect();
        self.outputs.push_back(Output::Bundle { writes, requests });
    }

    /// Token of this gateway for a request, without the number of its repetitions.
    pub fn token_of(sent: Token) -> u64 {
        sent.0 & HANDLE_MASK
    }

    /// Token of this gateway for an answered request, unless the request was repeated since.
    #[inline]
    pub fn answered(&self, sent: Token) -> Option<u64> {
        let token = Self::token_of(sent);
        let times = self.leaders.as_ref().map_or(0, |leaders| leaders.times(token));
        (u64::from(times) == sent.0 >> HANDLE_BITS).then_some(token)
    }

    /// Whether the server belongs to a cluster, whose machines share no clock.
    pub fn is_clustered(&self) -> bool {
        self.leaders.is_some()
    }

    /// Whether held requests can be sent ([`Mail::open`]).
    pub fn is_ready(&self) -> bool {
        self.leaders.as_ref().is_some_and(Leaders::are_ready)
    }

    /// Holds a request that has come back without any effect.
    pub fn take_back(&mut self, now: Now, token: u64, body: Body) {
        if let Some(leaders) = &mut self.leaders {
            leaders.take_back(now, token, body);
        }
    }

    /// Holds the requests to a shard that are still in the outbox: its leader has changed.
    fn take_back_unsent(&mut self, now: Now, shard: ShardId) {
        let Some(leaders) = &mut self.leaders else { return };
        let (unsent, others): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.outputs)
            .into_iter()
            .partition(|output| matches!(output, Output::Shard { shard: to, .. } if *to == shard));
        self.outputs = others;
        for output in unsent {
            if let Output::Shard { request: Request { token, body, .. }, .. } = output {
                // A message about a request is not the request itself, which has its token.
                if !matches!(body, Body::EndDeadlock { .. } | Body::EndTurn | Body::Unblock) {
                    leaders.take_back(now, Self::token_of(token), body);
                }
            }
        }
    }

    /// Notes the new leader of a shard, with the number of its lead, or that there is none.
    pub fn lead_changed(&mut self, now: Now, shard: ShardId, leader: Option<(MachineId, u64)>) {
        self.take_back_unsent(now, shard);
        if let Some(leaders) = &mut self.leaders {
            leaders.changed(now, shard, leader);
        }
    }

    /// Notes that a machine is lost. Returns the shards whose leader it was: their requests are lost
    /// ([`Mail::lose`]).
    pub fn machine_lost(&mut self, now: Now, machine: MachineId) -> Vec<ShardId> {
        let leaders = self.leaders.as_mut();
        leaders.map(|leaders| leaders.machine_lost(now, machine)).unwrap_or_default()
    }

    /// Takes the requests that the lost leader of a shard has. A read is not sent again if its session has
    /// sent a request with an unknown outcome later: the read might show effects of that one.
    pub fn lose(&mut self, now: Now, shard: ShardId) -> LostRequests {
        self.take_back_unsent(now, shard);
        let Some(leaders) = &mut self.leaders else { return Vec::new() };
        let mut lost = leaders.lose(now, shard);
        let mut unknown: BTreeSet<SessionId> = BTreeSet::new();
        for (token, again) in lost.iter_mut().rev() {
            let pending = self.pending.get(*token);
            let Some(session) = pending.and_then(Pending::session) else { continue };
            if again.is_none() {
                unknown.insert(session);
            } else if unknown.contains(&session) {
                *again = None;
            }
        }
        lost
    }

    /// Tokens of held requests that rest on locks of a lead that has ended.
    pub fn baseless(&self, shard: ShardId) -> Vec<u64> {
        self.leaders.as_ref().map(|leaders| leaders.baseless(shard)).unwrap_or_default()
    }

    /// Time at which requests will have waited long enough for a leader, on the monotonic clock.
    pub fn unled_due_us(&self) -> Option<u64> {
        self.leaders.as_ref()?.due_us()
    }

    /// Takes the shards whose requests have waited long enough for a leader.
    pub fn take_unled(&mut self, now: Now) -> Vec<ShardId> {
        let leaders = self.leaders.as_mut();
        leaders.map(|leaders| leaders.take_due(now.mono_us)).unwrap_or_default()
    }

    /// Takes the shards whose next leader can be asked now.
    pub fn take_ready(&mut self) -> Vec<ShardId> {
        self.leaders.as_mut().map(Leaders::take_ready).unwrap_or_default()
    }

    /// Sends the requests that are held for a shard, if its next leader can be asked. Returns whether the
    /// shard has become open.
    pub fn open(&mut self, shard: ShardId) -> bool {
        let Some(leaders) = &mut self.leaders else { return false };
        let (held, opens) = leaders.open(shard);
        for (token, times, body) in held {
            self.put(shard, token, times, body);
        }
        opens
    }

    /// Sends a shard a message that has no answer.
    pub fn tell(&mut self, shard: ShardId, body: Body) {
        self.send(shard, 0, body);
    }

    /// Shard of a key.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> ShardId {
        self.routes.shard_of(key)
    }
}

/// Raises a timestamp to another one, if that is later.
pub(super) fn raise(timestamp: &mut Timestamp, to: Timestamp) {
    *timestamp = (*timestamp).max(to);
}
