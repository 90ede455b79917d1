//! Shards without a leader: how long requests wait for one, and their answers when that is over.
//!
//! A held request that was never sent can be given up without effect: `CLUSTERDOWN`. A request that an
//! earlier leader had, and that is held to be sent again, may have taken effect: `INDEFINITE`. A request
//! that no client waits for, such as an inquiry about a transaction, waits on.

use crate::gateway::Gateway;
use crate::gateway::api::CoordinationClient;
use crate::gateway::errors::{Cause, Unled, indefinite};
use crate::gateway::mail::{Mail, Pending, SentCommands, SessionRequest};
use crate::gateway::parts::Parts;
use crate::gateway::pipelines::pipeline::UnitGroup;
use crate::gateway::txn::multi;
use crate::gateway::txn::transaction::repeated::of_this_try;
use crate::ids::ShardId;
use crate::message::{Answer, Body};
use adt::{ErrorReply, Reply};
use std::collections::BTreeSet;

/// Whether a request waits for a leader without a limit: no client waits for its answer, or the client has a
/// time-out of its own.
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
            | Pending::Follow { .. }
            | Pending::Remembered
    )
}

/// Held request that is given up.
enum UnledRequest {
    /// The connection of a client of the coordination service, which is closed: this tells the client
    /// that the outcome is unknown.
    Client(CoordinationClient),
    /// A request that is answered with this error, and whether it is certain that it had no effect.
    Request { pending: Pending, error: ErrorReply, certain: bool },
}

impl UnledRequest {
    /// Takes a held request, if a client waits for it.
    fn take(mail: &mut Mail, token: u64, unled: Unled) -> Option<Self> {
        let pending = mail.pending.get(token)?;
        if let Pending::Coordination { client, .. } = pending {
            return Some(Self::Client(CoordinationClient(*client)));
        }
        if waits_on(pending) {
            return None;
        }
        let leaders = mail.leaders.as_ref()?;
        let body = leaders.body(unled.shard, token)?;
        // A request that an earlier leader may have carried out must not be called without effect. Most
        // requests that a leader gives back are untouched, but not those that it may be asked twice.
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
        let pending = mail.take(token)?;
        Some(Self::Request { pending, error, certain })
    }
}

impl Gateway {
    /// Takes the shards whose requests are given up because they have no leader, with the reason. Each is
    /// returned once, until it has had a leader.
    pub fn take_unled(&mut self) -> Vec<(ShardId, String)> {
        let refused = self.parts.core.mail.leaders.as_mut().map(|leaders| leaders.take_refused());
        let refused = refused.unwrap_or_default().into_iter();
        refused.map(|shard| (shard, self.parts.core.unled(shard).why())).collect()
    }
}

impl Parts {
    /// Gives up requests that have waited long enough for a leader.
    pub(in crate::gateway) fn give_up_unled(&mut self) {
        for shard in self.core.mail.take_unled(self.core.now) {
            let unled = self.core.unled(shard);
            let held = self.core.mail.leaders.as_ref().map(|leaders| leaders.held(shard));
            let mut left = BTreeSet::new();
            for token in held.into_iter().flatten() {
                match UnledRequest::take(&mut self.core.mail, token, unled) {
                    None => {}
                    Some(UnledRequest::Client(client)) => drop(left.insert(client)),
                    Some(UnledRequest::Request { pending, error, certain }) => {
                        self.give_up_pending(token, pending, (certain, error), unled);
                    }
                }
            }
            for client in left {
                self.coordination.end_client(&mut self.core, client);
            }
        }
    }

    /// Answers a request that is given up.
    fn give_up_pending(
        &mut self,
        token: u64,
        pending: Pending,
        (certain, error): (bool, ErrorReply),
        unled: Unled,
    ) {
        let cause = Cause::Unled(unled);
        let reply = Reply::from(error);
        let behind = pending.session().filter(|_| certain);
        match pending {
            Pending::Session(SessionRequest { commands, wrote, .. }) => {
                let targets = commands.targets();
                let Some(first) = targets.first().copied() else { return };
                self.sessions.answered(first, wrote);
                if let SentCommands::Scripts(programs) = commands {
                    return self.scripts_given_up(programs, &reply);
                }
                targets.into_iter().for_each(|target| self.finish(target, reply.clone()));
            }
            Pending::Units { session, stream, first, count, shard } => {
                let group = UnitGroup { stream, first, shard, count };
                if certain && let Some(session) = self.sessions.get_mut(session.0) {
                    session.pipeline.refuse(group, &reply);
                }
                let core = &mut self.core;
                self.sessions.units_settled(core, session, group, Answer::Unknown, &reply);
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
            // All participants have voted: the transaction takes effect, and only its replies are lost.
            Pending::Execution { job, shard } => {
                self.transactions.executed(&mut self.core, job, shard, Answer::CarriedOut);
            }
            Pending::Loose { job, index } => {
                let answer = Answer::Reply(reply);
                self.transactions.loosely_answered(&mut self.core, job, index, answer);
            }
            // The reads under locks are refused.
            Pending::Snapshot { job, .. } => {
                self.snapshots.give_up(&mut self.core, &mut self.transactions, job);
            }
            Pending::Interval { job, .. } => {
                self.transactions.interval_given_up(&mut self.core, job, cause);
            }
            Pending::Version { target, key } => {
                let answer = Answer::Reply(reply);
                multi::watched(&mut self.core, &mut self.sessions, target, key, answer);
            }
            Pending::Attempt { job } => {
                let effect = self.blocked.attempted(&mut self.core, job, reply);
                self.wait_goes_on(effect);
            }
            Pending::Turn { job } => {
                let ended = self.turns.refused(&mut self.core, job, reply);
                self.wait_goes_on(ended);
            }
            Pending::Gather { job } => self.gathers.unanswered(&mut self.core, job, reply),
            // These are not given up.
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
            | Pending::Follow { .. }
            | Pending::Remembered => {}
        }
        if let Some(session) = behind {
            self.sessions.refuse_gathered(&mut self.core, session, &unled.error().into());
        }
    }
}
