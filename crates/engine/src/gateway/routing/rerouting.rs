//! Rerouting of requests for slots that a split has moved to a new shard.
//!
//! The leader of the shard that was split begins a new lead with the split, and announces the number of its
//! splits. From then on a gateway sends requests for the moved slots to the new shard. Requests that it had
//! sent before come back answered or untouched. Requests that come back, or were held, go to the new shard in
//! the order in which they were made, and no other request is sent there before that. So the requests of a
//! session on a key keep their order across a split, too. Where a session's order holds across shards,
//! requests that relied on one common shard, and have none any more, are dispatched anew.

use super::course::Course;
use crate::gateway::api::SessionId;
use crate::gateway::clients::sessions::Sessions;
use crate::gateway::core::Core;
use crate::gateway::errors::moved;
use crate::gateway::mail::{Pending, SentCommands, SessionRequest};
use crate::gateway::parts::Parts;
use crate::gateway::pipelines::planned::Planned;
use crate::gateway::target::Target;
use crate::ids::{KeyedOp, ShardId};
use crate::limits::SLOTS;
use crate::message::{Answer, Body, Refusal};
use adt::collections::Set;
use std::collections::{BTreeMap, BTreeSet};

/// Destination of a held request after a split.
enum Destination {
    /// The shard that was split.
    Here,
    /// Another shard.
    Moved(ShardId),
    /// Several shards.
    Several,
}

/// Outcome of a held request that concerns several shards after a split.
enum Relaunch {
    /// The program is carried out on this course, a transaction or reads without locks.
    Launch(Target, Box<Course>),
    /// The request is refused: it had no effect.
    Refuse,
    /// The request is gone.
    Nothing,
}

impl Parts {
    /// Follows new routes; `before` are the shards of all slots as they were.
    pub(in crate::gateway) fn routes_changed(&mut self, before: &[ShardId]) {
        let changed: BTreeSet<(ShardId, ShardId)> = (0..SLOTS)
            .map(|slot| (before[usize::from(slot)], self.core.mail.routes.shard_of_slot(slot)))
            .filter(|(old, new)| old != new)
            .collect();
        for (parent, child) in changed {
            let now = self.core.now;
            if let Some(leaders) = &mut self.core.mail.leaders {
                leaders.begin_rerouting(now, parent, child);
            }
            for job in self.snapshots.at(parent) {
                self.snapshots.give_up(&mut self.core, &mut self.transactions, job);
            }
            self.transactions.shard_split(&mut self.core, parent);
            self.blocked.move_from(&mut self.core, parent);
        }
        // The new shards are not followed yet.
        self.tracking.drop_all(&mut self.core, &mut self.sessions);
        self.tracking.follow_now(&mut self.core);
    }

    /// Sends held requests for a shard that was split to the shards that they concern now.
    pub(in crate::gateway) fn reroute(&mut self) {
        while let Some((parent, child)) =
            self.core.mail.leaders.as_ref().and_then(|leaders| leaders.next_rerouting())
        {
            for token in gather_again(&mut self.core, &mut self.sessions, parent) {
                if let Some((pending, answer)) = refused(&mut self.core, token) {
                    self.answer(token, pending, answer);
                }
            }
            let held = self.core.mail.leaders.as_ref().map(|leaders| leaders.held(parent));
            for token in held.into_iter().flatten() {
                let leaders = self.core.mail.leaders.as_ref();
                let Some(body) = leaders.and_then(|leaders| leaders.body(parent, token)) else {
                    continue;
                };
                match destination(&self.core, parent, body) {
                    Destination::Here => {}
                    Destination::Moved(shard) => {
                        count_elsewhere(&mut self.core, &mut self.sessions, token, (parent, shard));
                        let leaders = self.core.mail.leaders.iter_mut();
                        leaders.for_each(|leaders| leaders.move_held(token, shard));
                    }
                    Destination::Several => {
                        match relaunch(&mut self.core, &mut self.sessions, parent, token) {
                            Relaunch::Launch(target, course) => self.take(target, *course),
                            Relaunch::Refuse => {
                                if let Some((pending, answer)) = refused(&mut self.core, token) {
                                    self.answer(token, pending, answer);
                                }
                            }
                            Relaunch::Nothing => {}
                        }
                    }
                }
            }
            let leaders = self.core.mail.leaders.iter_mut();
            leaders.for_each(|leaders| leaders.end_rerouting(parent, child));
        }
    }
}

/// Takes a held request that is refused: it had no effect.
fn refused(core: &mut Core, token: u64) -> Option<(Pending, Answer)> {
    let pending = core.mail.take(token)?;
    let answer = match pending {
        Pending::Gather { .. } => Answer::Reply(moved().into()),
        _ => Answer::Refused(Refusal::Moved),
    };
    Some((pending, answer))
}

/// Gathers the held requests of sessions again whose order holds across shards, if the requests relied on
/// one common shard and have none any more. They are dispatched anew, before all later ones. Returns
/// requests that are to be refused.
fn gather_again(core: &mut Core, sessions: &mut Sessions, parent: ShardId) -> Vec<u64> {
    let Some(leaders) = &core.mail.leaders else { return Vec::new() };
    // Requests by session, and whether one of them moves.
    let mut by_session: BTreeMap<u64, (Vec<u64>, bool)> = BTreeMap::new();
    for token in leaders.held(parent) {
        let Some(pending) = core.mail.pending.get(token) else { continue };
        let Some(id) = pending.session() else { continue };
        if !sessions.get(id.0).is_some_and(|session| session.pipeline.keeps_order(core)) {
            continue;
        }
        let body = leaders.body(parent, token);
        let moves =
            body.is_some_and(|b| !matches!(destination(core, parent, b), Destination::Here));
        let (tokens, parted) = by_session.entry(id.0).or_default();
        tokens.push(token);
        *parted |= moves;
    }
    let mut refused = Vec::new();
    for (id, (tokens, parted)) in by_session {
        let first = tokens.first().and_then(|token| core.mail.pending.get(*token));
        let batch = matches!(
            first,
            Some(Pending::Session(SessionRequest { commands: SentCommands::Batch(_), .. }))
        );
        let alone = tokens.len() == 1 && !batch;
        if parted && !alone {
            refused.extend(dispatch_anew(core, sessions, SessionId(id), parent, tokens));
        }
    }
    refused
}

/// Gathers the held requests of a session to a shard again. Returns requests that are to be refused.
fn dispatch_anew(
    core: &mut Core,
    sessions: &mut Sessions,
    id: SessionId,
    parent: ShardId,
    tokens: Vec<u64>,
) -> Vec<u64> {
    let mut again = Vec::new();
    let mut refused = Vec::new();
    let mut tokens = tokens.into_iter();
    for token in tokens.by_ref() {
        let leaders = core.mail.leaders.as_mut();
        let Some(body) = leaders.and_then(|leaders| leaders.take_held(parent, token)) else {
            continue;
        };
        let Some(ops) = plain_ops(body) else {
            // The request may need its own message, and no later request may overtake it.
            refused.push(token);
            break;
        };
        if let Some((target, wrote, commands)) =
            core.mail.take(token).and_then(|pending| take_apart(pending, ops))
        {
            sessions.answered(target, wrote);
            again.extend(commands);
        }
    }
    refused.extend(tokens);
    if let Some(session) = sessions.get_mut(id.0) {
        session.pipeline.gather_first(again);
        sessions.dispatch_soon(id);
    }
    refused
}

/// Commands of which a request consists, with the target of the first one and the shard that it wrote to.
pub(in crate::gateway) fn take_apart(
    pending: Pending,
    ops: Vec<KeyedOp>,
) -> Option<(Target, Option<ShardId>, Vec<Planned>)> {
    let Pending::Session(SessionRequest { commands, wrote, .. }) = pending else { return None };
    let parts = match commands {
        SentCommands::Single(target) => vec![(target, 1, None)],
        SentCommands::Work(target, finish) => vec![(target, ops.len() as u32, Some(finish))],
        SentCommands::Batch(parts) | SentCommands::Part(parts) => parts,
        // It is no list of operations.
        SentCommands::Scripts(..) => return None,
    };
    let first = parts.first().map(|(target, ..)| *target)?;
    let mut ops = ops.into_iter();
    let commands = parts.into_iter().map(|(target, count, finish)| {
        let ops = ops.by_ref().take(count as usize).collect();
        Planned { target, ops, finish }
    });
    Some((first, wrote, commands.collect()))
}

/// Destination of a request that is held for the shard `here`.
fn destination(core: &Core, here: ShardId, body: &Body) -> Destination {
    let (mail, tags) = (&core.mail, core.naming(0).tags);
    let mut shards: Set<ShardId> = Set::default();
    match body {
        Body::Read { key, .. }
        | Body::Version { key }
        | Body::Waiting { key }
        | Body::Holders { key } => {
            shards.insert(mail.shard_of(key));
        }
        Body::Snapshot { ops, .. } => {
            shards.extend(ops.iter().map(|(key, _)| mail.shard_of(key)));
        }
        Body::Apply(apply) | Body::Await { apply, .. } => {
            shards.extend(apply.keys().map(|key| mail.shard_of(key)));
        }
        Body::Run(runs) => {
            let keys = runs.iter().flat_map(|run| run.keys(tags));
            shards.extend(keys.map(|key| mail.shard_of(&key)));
        }
        // The shard that was split knows whether its units have taken effect there, and refuses them if they
        // have not and cannot any more.
        Body::Pipeline(_) => return Destination::Here,
        Body::KeysInSlot { slot, .. } => {
            shards.insert(mail.routes.shard_of_slot(*slot));
        }
        Body::Resolve(request) => {
            shards.insert(mail.shard_of(&core.client_key(request)));
        }
        // A question to all shards has not been sent to the new one.
        Body::Keys { .. } | Body::Count { .. } | Body::Flush { .. } => return Destination::Several,
        // Requests about state of the shard itself: a transaction, a wait, a cut, its tree.
        Body::Lock { .. }
        | Body::Prepare { .. }
        | Body::Decide { .. }
        | Body::Inquire { .. }
        | Body::Cancel { .. }
        | Body::Release { .. }
        | Body::ProbeAck { .. }
        | Body::Block { .. }
        | Body::Waits { .. }
        | Body::EndDeadlock { .. }
        | Body::EndTurn
        | Body::Unblock
        | Body::Scan { .. }
        | Body::RandomKey { .. }
        | Body::EndStream { .. }
        | Body::Stats
        | Body::Follow(_)
        | Body::Remember(_)
        | Body::Transfer { .. }
        | Body::Coordinate(_)
        | Body::Cut { .. } => {}
    }
    match (shards.len(), shards.first()) {
        (0, _) => Destination::Here,
        (1, Some(shard)) if *shard == here => Destination::Here,
        (1, Some(shard)) => Destination::Moved(*shard),
        _ => Destination::Several,
    }
}

/// Counts a write without an answer for the shard that it is sent to now.
fn count_elsewhere(
    core: &mut Core,
    sessions: &mut Sessions,
    token: u64,
    (from, to): (ShardId, ShardId),
) {
    if let Some(Pending::Session(request)) = core.mail.pending.get_mut(token)
        && request.wrote == Some(from)
        && let Some(id) = request.commands.session()
        && let Some(session) = sessions.get_mut(id.0)
    {
        request.wrote = Some(to);
        session.pipeline.rerouted();
        session.wrote(from);
        session.writes_to(to);
    }
}

/// Outcome of a held request that concerns several shards now. If its session has no other request under
/// way, the request is carried out as a transaction; otherwise a transaction might come after later
/// requests of the session, and the request is refused.
fn relaunch(core: &mut Core, sessions: &mut Sessions, parent: ShardId, token: u64) -> Relaunch {
    let Some(&Pending::Session(SessionRequest {
        commands: SentCommands::Work(target, _),
        wrote,
        ..
    })) = core.mail.pending.get(token)
    else {
        return Relaunch::Refuse;
    };
    let session = sessions.get(target.session.0);
    if session.is_none_or(|s| s.queue.len() != 1 || s.base != target.seq) {
        return Relaunch::Refuse;
    }
    let held = core.mail.leaders.as_mut().and_then(|leaders| leaders.take_held(parent, token));
    let (
        Some(body),
        Some(Pending::Session(SessionRequest { commands: SentCommands::Work(_, finish), .. })),
    ) = (held, core.mail.take(token))
    else {
        return Relaunch::Nothing;
    };
    sessions.answered(target, wrote);
    let course = match body {
        Body::Apply(apply) if apply.fences.is_empty() => Course::Transaction(apply, *finish),
        Body::Snapshot { ops, .. } => Course::Snapshot(ops, *finish),
        _ => Course::Refused(moved().into()),
    };
    Relaunch::Launch(target, Box::new(course))
}

/// Operations of a request that consists of nothing else.
pub(in crate::gateway) fn plain_ops(body: Body) -> Option<Vec<KeyedOp>> {
    match body {
        Body::Read { key, op, .. } => Some(vec![(key, op)]),
        Body::Snapshot { ops, .. } => Some(ops),
        Body::Apply(apply)
            if apply.guards.is_empty() && apply.fences.is_empty() && apply.request.is_none() =>
        {
            Some(apply.ops.into_vec())
        }
        _ => None,
    }
}
