//! A shard has given slots to a new one: what becomes of requests that were meant for it.
//!
//! The leader of the shard that was split begins a new lead with the split, and says how many splits
//! there were. That is when a gateway sends what concerns the slots to the new shard. What it had
//! sent before comes back answered or untouched; what comes back, or was held, goes to the new shard
//! in the order in which it was made, and nothing else goes there before that. So the requests of a
//! session on a key keep their order across a split, too. Where a session's order holds across shards,
//! requests that relied on going to one shard, and do not go to one any more, are dispatched anew.

use crate::entry::Apply;
use crate::gateway::Gateway;
use crate::gateway::api::SessionId;
use crate::gateway::errors::moved;
use crate::gateway::mail::Pending;
use crate::gateway::pipelines::planned::Planned;
use crate::ids::{KeyedOp, ShardId};
use crate::message::{Answer, Body, Refusal};
use adt::collections::Set;
use std::collections::{BTreeMap, BTreeSet};

/// Where a request belongs.
enum Place {
    Here,
    There(ShardId),
    /// In several places, or in all.
    Nowhere,
}

impl Gateway {
    /// The routes may have changed: `before` are the slots as they were.
    pub(in crate::gateway) fn routes_changed(&mut self, before: &[ShardId]) {
        let all = 0..crate::limits::SLOTS;
        let changed: BTreeSet<(ShardId, ShardId)> = all
            .map(|slot| (before[usize::from(slot)], self.core.mail.routes.shard_of_slot(slot)))
            .filter(|(old, new)| old != new)
            .collect();
        for (parent, child) in changed {
            if let Some(leaders) = &mut self.core.mail.leaders {
                leaders.begin_rerouting(parent, child);
            }
            self.end_reads_at(parent);
            self.blocked.move_from(&mut self.core, parent);
        }
    }

    /// Reads without locks that have begun at a shard begin again.
    fn end_reads_at(&mut self, shard: ShardId) {
        for job in self.snapshots.at(shard) {
            let end = self.snapshots.give_up(job);
            self.snapshot_ended(end);
        }
        for effect in self.lockless.shard_split(&mut self.core, shard) {
            self.transaction_ended(Some(effect));
        }
    }

    /// Requests that are held for a shard that was split, and belong to the new one, go there.
    pub(in crate::gateway) fn reroute(&mut self) {
        while let Some((parent, child)) =
            self.core.mail.leaders.as_ref().and_then(|w| w.next_rerouting())
        {
            self.gather_again(parent);
            let held = self.core.mail.leaders.as_ref().map(|leaders| leaders.held(parent));
            for token in held.into_iter().flatten() {
                let leaders = self.core.mail.leaders.as_ref();
                let Some(body) = leaders.and_then(|leaders| leaders.body(parent, token)) else {
                    continue;
                };
                match self.place_of(parent, body) {
                    Place::Here => {}
                    Place::There(shard) => {
                        self.count_elsewhere(token, parent, shard);
                        self.core.mail.leaders.iter_mut().for_each(|w| w.move_held(token, shard));
                    }
                    Place::Nowhere => self.relaunch(parent, token),
                }
            }
            self.core
                .mail
                .leaders
                .iter_mut()
                .for_each(|leaders| leaders.end_rerouting(parent, child));
        }
    }

    /// Sessions whose order holds across shards, and whose requests to a shard that was split would lose
    /// it on their way to two, have them dispatched anew, before whatever came after them.
    fn gather_again(&mut self, parent: ShardId) {
        let Some(leaders) = &self.core.mail.leaders else { return };
        // By session: its requests, and whether one goes elsewhere.
        let mut by_session: BTreeMap<u64, (Vec<u64>, bool)> = BTreeMap::new();
        for token in leaders.held(parent) {
            let Some(pending) = self.core.mail.pending.get(token) else { continue };
            let Some(id) = pending.of_loose().filter(|id| self.keeps_order(*id)) else { continue };
            let body = leaders.body(parent, token);
            let goes = body.is_some_and(|b| !matches!(self.place_of(parent, b), Place::Here));
            let (tokens, parted) = by_session.entry(id.0).or_default();
            tokens.push(token);
            *parted |= goes;
        }
        for (id, (tokens, parted)) in by_session {
            let first = tokens.first().and_then(|token| self.core.mail.pending.get(*token));
            let alone = tokens.len() == 1 && !matches!(first, Some(Pending::Batch { .. }));
            if parted && !alone {
                self.dispatch_anew(SessionId(id), parent, tokens);
            }
        }
    }

    /// What a session has sent to a shard, and is held here, is gathered again.
    fn dispatch_anew(&mut self, id: SessionId, parent: ShardId, tokens: Vec<u64>) {
        let mut again = Vec::new();
        let mut tokens = tokens.into_iter();
        for token in tokens.by_ref() {
            let leaders = self.core.mail.leaders.as_mut();
            let Some(body) = leaders.and_then(|leaders| leaders.take_held(parent, token)) else {
                continue;
            };
            let Some(ops) = plain_ops(body) else {
                // It may need its own message, and nothing behind it may come before it.
                self.refuse_held(token);
                break;
            };
            let pending = self.core.mail.pending.remove(token);
            self.core.mail.forget(token);
            if let Some(pending) = pending {
                self.take_apart(pending, ops, &mut again);
            }
        }
        tokens.for_each(|token| self.refuse_held(token));
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.gathered = again.into_iter().chain(session.gathered.drain(..)).collect();
            self.dispatch_soon(id);
        }
    }

    /// The commands that a request was made of.
    fn take_apart(&mut self, pending: Pending, ops: Vec<KeyedOp>, into: &mut Vec<Planned>) {
        let (parts, wrote) = match pending {
            Pending::Single { target, wrote, .. } => (vec![(target, 1, None)], wrote),
            Pending::Work { target, wrote, finish, .. } => {
                (vec![(target, ops.len() as u32, Some(finish))], wrote)
            }
            Pending::Batch { parts, wrote, .. } => (parts, wrote),
            // They are in no stream, and no session has sent them by itself.
            Pending::Units { .. }
            | Pending::Access { .. }
            | Pending::Vote { .. }
            | Pending::Execution { .. }
            | Pending::Loose { .. }
            | Pending::Snapshot { .. }
            | Pending::Interval { .. }
            | Pending::Version { .. }
            | Pending::Attempt { .. }
            | Pending::Turn { .. }
            | Pending::Near { .. }
            | Pending::Waits { .. }
            | Pending::Wait { .. }
            | Pending::Gather { .. }
            | Pending::Cut { .. }
            | Pending::Lease { .. }
            | Pending::Fate { .. }
            | Pending::Coordination { .. }
            | Pending::Ahead { .. }
            | Pending::Spread
            | Pending::Ending { .. }
            | Pending::Joint { .. }
            | Pending::SplitDone
            | Pending::Remembered => return,
        };
        let Some((first, ..)) = parts.first() else { return };
        let first = *first;
        self.written(first, wrote);
        self.end_loose(first.session);
        let mut ops = ops.into_iter();
        into.extend(parts.into_iter().map(|(target, count, finish)| {
            let ops = ops.by_ref().take(count as usize).collect();
            Planned { target, ops, finish }
        }));
    }

    fn place_of(&self, here: ShardId, body: &Body) -> Place {
        let mut shards: Set<ShardId> = Set::default();
        match body {
            Body::Read { key, .. }
            | Body::Version { key }
            | Body::Waiting { key }
            | Body::Holders { key } => {
                shards.insert(self.core.mail.shard_of(key));
            }
            Body::Snapshot { ops, .. } => {
                shards.extend(ops.iter().map(|(key, _)| self.core.mail.shard_of(key)));
            }
            Body::Apply(apply) | Body::Await { apply, .. } => {
                shards.extend(apply.ops.iter().map(|(key, _)| self.core.mail.shard_of(key)));
                shards.extend(apply.guards.iter().map(|g| self.core.mail.shard_of(&g.key)));
            }
            // The shard that was split knows whether its units have taken effect there, and refuses them if
            // they have not and cannot any more.
            Body::Pipeline(_) => return Place::Here,
            Body::KeysInSlot { slot, .. } => {
                shards.insert(self.core.mail.routes.shard_of_slot(*slot));
            }
            Body::Resolve(request) => {
                shards.insert(self.core.mail.shard_of(&request.client));
            }
            // What asks all shards has not asked the new one.
            Body::Keys { .. } | Body::Count | Body::Flush => return Place::Nowhere,
            // About what the shard itself holds: a transaction, a wait, a cut, its tree.
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
            | Body::Unblock
            | Body::Scan { .. }
            | Body::RandomKey
            | Body::EndStream { .. }
            | Body::Stats
            | Body::Remember(_)
            | Body::Transfer { .. }
            | Body::Coordinate(_)
            | Body::Cut { .. } => {}
        }
        match (shards.len(), shards.first()) {
            (0, _) => Place::Here,
            (1, Some(shard)) if *shard == here => Place::Here,
            (1, Some(shard)) => Place::There(*shard),
            _ => Place::Nowhere,
        }
    }

    /// A write that is not answered is on its way to another shard.
    fn count_elsewhere(&mut self, token: u64, from: ShardId, to: ShardId) {
        let (id, wrote) = match self.core.mail.pending.get_mut(token) {
            Some(Pending::Single { target, wrote, .. } | Pending::Work { target, wrote, .. }) => {
                (target.session, wrote)
            }
            Some(Pending::Batch { parts, wrote, .. }) => match parts.first() {
                Some((target, ..)) => (target.session, wrote),
                None => return,
            },
            Some(
                Pending::Units { .. }
                | Pending::Access { .. }
                | Pending::Vote { .. }
                | Pending::Execution { .. }
                | Pending::Loose { .. }
                | Pending::Snapshot { .. }
                | Pending::Interval { .. }
                | Pending::Version { .. }
                | Pending::Attempt { .. }
                | Pending::Turn { .. }
                | Pending::Near { .. }
                | Pending::Waits { .. }
                | Pending::Wait { .. }
                | Pending::Gather { .. }
                | Pending::Cut { .. }
                | Pending::Lease { .. }
                | Pending::Fate { .. }
                | Pending::Coordination { .. }
                | Pending::Ahead { .. }
                | Pending::Spread
                | Pending::Ending { .. }
                | Pending::Joint { .. }
                | Pending::SplitDone
                | Pending::Remembered,
            )
            | None => return,
        };
        if *wrote == Some(from)
            && let Some(session) = self.sessions.get_mut(id.0)
        {
            *wrote = Some(to);
            session.loose.shard = None;
            session.wrote(from);
            session.writes_to(to);
        }
    }

    /// A request that is held concerns several shards now. If its session has nothing else under way
    /// it is carried out as what it has become, a transaction; otherwise that could come after what
    /// the session has sent since, and it is refused.
    fn relaunch(&mut self, parent: ShardId, token: u64) {
        let Some(Pending::Work { target, .. }) = self.core.mail.pending.get(token) else {
            return self.refuse_held(token);
        };
        let target = *target;
        let session = self.sessions.get(target.session.0);
        if session.is_none_or(|s| s.queue.len() != 1 || s.base != target.seq) {
            return self.refuse_held(token);
        }
        let held =
            self.core.mail.leaders.as_mut().and_then(|leaders| leaders.take_held(parent, token));
        let pending = self.core.mail.pending.remove(token);
        self.core.mail.forget(token);
        let (Some(body), Some(Pending::Work { wrote, finish, .. })) = (held, pending) else {
            return;
        };
        self.written(target, wrote);
        self.end_loose(target.session);
        self.bar(target);
        match body {
            Body::Apply(Apply { ops, guards, fences, request }) if fences.is_empty() => {
                let (core, ops) = (&mut self.core, ops.into_vec());
                self.transactions.begin_direct(core, target, ops, *finish, (guards, request));
            }
            Body::Snapshot { ops, .. } => {
                self.snapshots.begin(&mut self.core, target, ops, *finish)
            }
            _ => self.finish(target, moved().into()),
        }
    }

    /// A request that is held is answered: it had no effect.
    fn refuse_held(&mut self, token: u64) {
        let pending = self.core.mail.pending.remove(token);
        self.core.mail.forget(token);
        let Some(pending) = pending else { return };
        let answer = match pending {
            Pending::Gather { .. } => Answer::Reply(moved().into()),
            _ => Answer::Refused(Refusal::Moved),
        };
        self.answer(token, pending, answer);
    }
}

/// The operations of a request that is nothing but operations.
fn plain_ops(body: Body) -> Option<Vec<KeyedOp>> {
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
