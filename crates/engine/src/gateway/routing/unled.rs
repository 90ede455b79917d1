//! Shards that nobody leads: for how long requests wait for a leader, and what they are told then.
//!
//! A request that is held has not gone anywhere, so it can be given up without effect and the client
//! told so: `CLUSTERDOWN`. One that an earlier leader had, and that is held to be asked again, may
//! have taken effect: `INDEFINITE`. What no client waits for, such as finding out what became of a
//! transaction, waits on.

use crate::gateway::Gateway;
use crate::gateway::api::CoordinationClient;
use crate::gateway::errors::{Cause, Unled, indefinite};
use crate::gateway::mail::{Pending, Target};
use crate::gateway::txn::transaction::repeated::of_this_try;
use crate::ids::ShardId;
use crate::limits::REPLICAS_MAX;
use crate::message::{Answer, Body};
use adt::{ErrorReply, Reply};
use std::collections::BTreeSet;

/// Whether a request waits for a leader however long that takes: no client waits for its answer, or
/// the client has a time-out of its own.
fn waits_on(pending: &Pending) -> bool {
    matches!(
        pending,
        Pending::Ahead { .. }
            | Pending::Near { .. }
            | Pending::Waits { .. }
            | Pending::Wait { .. }
            | Pending::Cut { .. }
            | Pending::Fate { .. }
            | Pending::Spread
            | Pending::Ending { .. }
            | Pending::Joint { .. }
            | Pending::SplitDone
            | Pending::Remembered
    )
}

impl Gateway {
    /// What is known of a shard that nobody leads.
    fn unled(&self, shard: ShardId) -> Unled {
        let own = self.core.config.id.machine;
        let machines = self.core.machines();
        let holders = machines.iter().filter(|m| self.core.topology.holds(m.number, shard));
        let (mut count, mut missing, mut at) = (0, [0; REPLICAS_MAX], 0);
        for machine in holders {
            count += 1;
            if !machine.linked && at < REPLICAS_MAX {
                missing[at] = machine.number.0;
                at += 1;
            }
        }
        missing[..at].sort_unstable();
        Unled { shard, own, holders: count, missing }
    }

    /// Shards whose requests are given up because nobody leads them, with the reason. Each is given
    /// once, until it has had a leader.
    pub fn take_unled(&mut self) -> Vec<(ShardId, String)> {
        let refused = self.core.mail.leaders.as_mut().map(|leaders| leaders.take_refused());
        let refused = refused.unwrap_or_default().into_iter();
        refused.map(|shard| (shard, self.unled(shard).why())).collect()
    }

    /// When requests have waited long enough for a leader, on the monotonic clock in microseconds.
    pub(in crate::gateway) fn unled_due_us(&self) -> Option<u64> {
        self.core.mail.leaders.as_ref()?.due_us()
    }

    /// Gives up requests that have waited long enough for a leader.
    pub(in crate::gateway) fn give_up_unled(&mut self) {
        let now_us = self.core.now.mono_us;
        let due = self
            .core
            .mail
            .leaders
            .as_mut()
            .map(|leaders| leaders.take_due(now_us))
            .unwrap_or_default();
        for shard in due {
            let unled = self.unled(shard);
            let held = self.core.mail.leaders.as_ref().map(|leaders| leaders.held(shard));
            let mut left = BTreeSet::new();
            for token in held.into_iter().flatten() {
                left.extend(self.give_up(token, unled));
            }
            for client in left {
                self.coordination.end_client(&mut self.core, client);
            }
        }
    }

    /// Gives up a request that is held, if a client waits for it. A client of the coordination service
    /// is given back: to it, the end of its connection is what says that nothing is known.
    fn give_up(&mut self, token: u64, unled: Unled) -> Option<CoordinationClient> {
        let pending = self.core.mail.pending.get(token)?;
        if let Pending::Coordination { client, .. } = pending {
            return Some(CoordinationClient(*client));
        }
        if waits_on(pending) {
            return None;
        }
        let leaders = self.core.mail.leaders.as_ref()?;
        let body = leaders.body(unled.shard, token)?;
        // What an earlier leader may have carried out must not be called without effect. Most of what a
        // leader gives back is untouched, but not what it may be asked for twice.
        let twice = matches!(
            body,
            Body::Inquire { .. } | Body::Pipeline(_) | Body::Await { .. } | Body::Resolve(_)
        );
        let given_back = leaders.times(token) == 0 && !twice;
        let inquires = matches!(body, Body::Inquire { .. });
        let certain = body.is_read_only() || given_back || !leaders.went(token) && !inquires;
        let numbered = match body {
            Body::Apply(apply) | Body::Await { apply, .. } => apply.request.is_some(),
            _ => false,
        };
        let error = match certain {
            true if numbered => of_this_try(&unled.error()),
            true => unled.error(),
            false => indefinite(),
        };
        let pending = self.core.mail.pending.remove(token)?;
        self.core.mail.forget(token);
        self.give_up_pending(token, pending, (certain, error), unled);
        None
    }

    fn give_up_pending(
        &mut self,
        token: u64,
        pending: Pending,
        (certain, error): (bool, ErrorReply),
        unled: Unled,
    ) {
        let cause = Cause::Unled(unled);
        let reply = Reply::from(error);
        let behind = pending.of_loose().filter(|_| certain);
        match pending {
            Pending::Single { target, wrote, .. } => {
                self.single_answered(target, wrote, Answer::Reply(reply));
            }
            Pending::Work { target, wrote, .. } => {
                self.written(target, wrote);
                self.end_loose(target.session);
                self.finish(target, reply);
            }
            Pending::Batch { parts, wrote, .. } => {
                let targets: Vec<Target> = parts.iter().map(|(target, ..)| *target).collect();
                let Some(first) = targets.first().copied() else { return };
                self.written(first, wrote);
                self.end_loose(first.session);
                targets.into_iter().for_each(|target| self.finish(target, reply.clone()));
            }
            Pending::Units { session, stream, first, count, shard } => {
                let which = (session, stream, first);
                self.units_given_up(which, (shard, count), &reply, certain);
            }
            Pending::Access { job, blocked, .. } => {
                let core = &mut self.core;
                self.transactions.access_given_up(core, (token, blocked), job, cause);
            }
            Pending::Lease { lease } => {
                self.transactions.lease_refused(&mut self.core, lease, cause);
            }
            Pending::Vote { job, blocked, .. } => {
                let (core, reason) = (&mut self.core, (certain, cause));
                self.transactions.vote_given_up(core, (token, blocked), job, reason);
            }
            // All have voted: it took effect, or will, and only its replies are lost.
            Pending::Execution { job, shard } => {
                self.transactions.executed(&mut self.core, job, shard, Answer::CarriedOut);
            }
            Pending::Loose { job, index } => {
                let answer = Answer::Reply(reply);
                self.transactions.loosely_answered(&mut self.core, job, index, answer);
            }
            // Under locks, it is refused.
            Pending::Snapshot { job, .. } => {
                let end = self.snapshots.give_up(job);
                self.snapshot_ended(end);
            }
            Pending::Interval { job, .. } => {
                let effect = self.lockless.abort(&mut self.core, job, cause);
                self.transaction_ended(effect);
            }
            Pending::Version { target, .. } => self.watch_failed(target, reply),
            Pending::Attempt { job } => {
                let effect = self.blocked.attempted(&mut self.core, job, reply);
                self.blocked_goes_on(effect);
            }
            Pending::Turn { job } => {
                let ended = self.turns.refused(&mut self.core, job, reply);
                self.waits_no_longer(ended);
            }
            Pending::Gather { job } => self.gathers.unanswered(&mut self.core, job, reply),
            // They are not given up.
            Pending::Coordination { .. }
            | Pending::Ahead { .. }
            | Pending::Near { .. }
            | Pending::Waits { .. }
            | Pending::Wait { .. }
            | Pending::Cut { .. }
            | Pending::Fate { .. }
            | Pending::Spread
            | Pending::Ending { .. }
            | Pending::Joint { .. }
            | Pending::SplitDone
            | Pending::Remembered => {}
        }
        if let Some(session) = behind {
            self.refuse_gathered(session, &unled.error().into());
        }
    }
}
