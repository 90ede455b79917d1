//! Commands that wait for something to take (`BLPOP` and its family).
//!
//! First every attempt is made once, in order. If none finds anything, the session waits: every
//! shard with one of its keys tells when such a key holds something and it is this session's turn;
//! then the attempts on that key are made again, as transactions that pass what is kept for them there.
//! A shard that has all that a session waits for may serve it by itself: then the end of the wait is asked
//! for, and what the shard answers is the reply.

use crate::entry::Apply;
use crate::gateway::api::SessionId;
use crate::gateway::clients::session::BlockedBy;
use crate::gateway::mail::{ATTEMPT, Mail, Pending, Target};
use crate::gateway::routing::route::{Route, long_key};
use crate::gateway::txn::calls::found_nothing;
use crate::gateway::txn::work::{Finish, Form, Outcome, Program, Step};
use crate::gateway::{Gateway, Job, Timer};
use crate::ids::ShardId;
use crate::message::{Answer, Body, Takes};
use adt::{Attempt, Blob, Blocking, Compound, ErrorReply, Plan, Reply};
use smallvec::smallvec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A session that waits in a blocking command.
pub(in crate::gateway) struct Wait {
    target: Target,
    blocking: Blocking,
    /// Attempts to make now, by number.
    to_try: VecDeque<usize>,
    /// An attempt is under way.
    trying: Option<usize>,
    /// The waits at the shards: shard, token, keys.
    waits: Vec<(ShardId, u64, Vec<Blob>)>,
    /// The reply to give when the present attempt finds nothing, because the wait is over.
    over: Option<Reply>,
    /// The only shard that it waits at knows what it takes.
    served: bool,
    /// That shard is asked to end the wait; the reply if it has not got anything by then.
    leaves: Option<Reply>,
    deadline_us: Option<u64>,
    /// Shards that have not said yet that it stands in their queues.
    missing: usize,
    /// It stands in all of them, and others are told that it waits.
    counted: bool,
}

impl Wait {
    /// Whether there are keys at a shard that it waits for.
    pub fn waits_at(&self, shard: ShardId) -> bool {
        self.waits.iter().any(|(at, ..)| *at == shard)
    }

    /// Waits no more at a shard; gives the keys.
    pub fn leave(&mut self, shard: ShardId, mail: &mut Mail) -> Vec<Blob> {
        let mut left = Vec::new();
        for (_, token, keys) in self.waits.extract_if(.., |(at, ..)| *at == shard) {
            mail.send(shard, token, Body::Unblock);
            mail.pending.remove(token);
            left.extend(keys);
        }
        left
    }

    /// Waits for keys at a shard, under this token.
    pub fn join(&mut self, shard: ShardId, token: u64, keys: Vec<Blob>) {
        self.waits.push((shard, token, keys));
    }
}

/// The same, which takes nothing from a key that holds something else.
fn patient(compound: Compound) -> Compound {
    let Compound { reads, plan } = compound;
    let plan = move |replies: &[Reply]| match replies.first() {
        Some(Reply::Error(_)) => Plan { writes: Vec::new(), reply: Reply::Nil },
        _ => plan(replies),
    };
    Compound { reads, plan: Arc::new(plan) }
}

/// Whether all that a command may do is at one shard.
fn is_of_one(blocking: &Blocking, mail: &Mail) -> bool {
    let mut route = Route::Nowhere;
    for (key, attempt) in &blocking.attempts {
        route.add(mail.shard_of(key));
        if let Attempt::Move(compound) = attempt {
            compound.reads.iter().for_each(|(key, _)| route.add(mail.shard_of(key)));
        }
    }
    matches!(route, Route::One(_))
}

impl Gateway {
    /// A blocking command outside of a transaction.
    pub(in crate::gateway) fn begin_blocking(&mut self, id: SessionId, blocking: Blocking) {
        let steps = [Step::Attempts(blocking)];
        if let Some(error) = long_key(&steps) {
            return self.reply(id, error.into());
        }
        let [Step::Attempts(blocking)] = steps else { return };
        let target = self.place(id, None);
        self.bar(target);
        let deadline_us = (blocking.timeout_ms > 0).then(|| {
            self.core.now.mono_us.saturating_add(blocking.timeout_ms.saturating_mul(1000))
        });
        let to_try = (0..blocking.attempts.len()).collect();
        let wait = Wait {
            target,
            blocking,
            to_try,
            trying: None,
            waits: Vec::new(),
            over: None,
            served: false,
            leaves: None,
            deadline_us,
            missing: 0,
            counted: false,
        };
        let job = self.jobs.insert(Job::Wait(Box::new(wait)));
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.blocked = Some(BlockedBy::Job(job));
            session.about.arrives = true;
        }
        self.try_next(job);
    }

    /// Makes the next attempt, or waits.
    fn try_next(&mut self, job: u64) {
        let Some(Job::Wait(wait)) = self.jobs.get_mut(job) else { return };
        if wait.trying.is_some() {
            return;
        }
        let Some(number) = wait.to_try.pop_front() else {
            return match wait.over.take() {
                Some(reply) => self.leave_wait(job, reply),
                None => self.wait_at_shards(job),
            };
        };
        wait.trying = Some(number);
        let (target, again) = (wait.target, !wait.waits.is_empty());
        match wait.blocking.attempts[number].clone() {
            (key, Attempt::Take { op, .. })
                if again && self.core.config.concurrency.takes_locks() =>
            {
                let target = Target { item: ATTEMPT, ..target };
                let finish = Finish { outcomes: vec![Outcome::Op(0)], form: Form::One, keep: None };
                self.begin_taker(target, vec![(key, op)], finish);
            }
            (key, Attempt::Take { op, .. }) => {
                let shard = self.core.mail.shard_of(&key);
                let body = if op.is_write() {
                    Body::Apply(Apply { ops: smallvec![(key, op)], ..Apply::default() })
                } else {
                    Body::Read { key, op, fenced: false }
                };
                self.core.mail.ask(shard, Pending::Attempt { job }, body);
            }
            (_, Attempt::Move(compound)) => {
                let target = Target { item: ATTEMPT, ..target };
                let compound = if again { patient(compound) } else { compound };
                let steps = vec![Step::Compound(compound)];
                let (guards, fences, request) = (Vec::new(), Vec::new(), None);
                let program = Program { target, steps, form: Form::One, guards, fences, request };
                if again {
                    self.bar(target);
                    self.begin_taking(program);
                } else {
                    self.launch(program, Route::Many);
                }
            }
        }
    }

    /// The present attempt has been answered by a shard.
    pub(in crate::gateway) fn attempted(&mut self, job: u64, answer: Answer) {
        let reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::Replies(mut replies) if replies.len() == 1 => replies.remove(0),
            other => crate::gateway::errors::unexpected(&other),
        };
        self.attempt_done(job, reply);
    }

    /// A session's present attempt has given a reply.
    pub(in crate::gateway) fn attempt_done(&mut self, job: u64, reply: Reply) {
        let Some(Job::Wait(wait)) = self.jobs.get_mut(job) else { return };
        let Some(number) = wait.trying.take() else { return };
        let wrong = !wait.waits.is_empty() && reply == ErrorReply::wrong_type().into();
        let reply = match &wait.blocking.attempts[number] {
            // A session that waits already goes on waiting for a value of the right type. A move has
            // seen to that.
            (_, Attempt::Take { .. }) if wrong => Reply::Nil,
            (key, Attempt::Take { wrap, .. }) if !reply.is_error() && !found_nothing(&reply) => {
                wrap(key, reply)
            }
            _ => reply,
        };
        if found_nothing(&reply) {
            self.try_next(job);
        } else {
            self.end_wait(job, reply);
        }
    }

    fn wait_at_shards(&mut self, job: u64) {
        let Some(Job::Wait(wait)) = self.jobs.get_mut(job) else { return };
        if wait.waits.is_empty() {
            let mut keys: BTreeMap<ShardId, Vec<Blob>> = BTreeMap::new();
            for (key, _) in &wait.blocking.attempts {
                keys.entry(self.core.mail.shard_of(key)).or_default().push(key.clone());
            }
            wait.missing = keys.len();
            wait.served =
                !self.core.mail.is_clustered() && is_of_one(&wait.blocking, &self.core.mail);
            for (shard, keys) in keys {
                let attempts = wait.blocking.attempts.iter().map(|(_, attempt)| attempt.clone());
                let takes = wait.served.then(|| Takes(attempts.collect()));
                let body = Body::Block { keys: keys.clone(), takes };
                let token = self.core.mail.ask(shard, Pending::Wait { job }, body);
                wait.waits.push((shard, token, keys));
            }
            if let Some(at_us) = wait.deadline_us {
                self.core.timers.insert((at_us, Timer::Deadline { job }));
            }
        } else {
            for (shard, token, keys) in &wait.waits {
                let body = Body::Block { keys: keys.clone(), takes: None };
                self.core.mail.send(*shard, *token, body);
            }
        }
    }

    /// A shard has a new leader, who knows nothing of those that wait.
    pub(in crate::gateway) fn wait_again(&mut self, shard: ShardId) {
        let waits = self.jobs.iter().filter_map(|(_, job)| match job {
            Job::Wait(wait) => Some(wait.waits.iter().filter(|(at, ..)| *at == shard)),
            _ => None,
        });
        let waits: Vec<_> =
            waits.flatten().map(|(_, token, keys)| (*token, keys.clone())).collect();
        for (token, keys) in waits {
            self.core.mail.send(shard, token, Body::Block { keys, takes: None });
        }
    }

    /// The session stands in the queues of a shard. Whoever is told that it waits may count on being
    /// behind it from now on.
    pub(in crate::gateway) fn arrived(&mut self, job: u64) {
        let Some(Job::Wait(wait)) = self.jobs.get_mut(job) else { return };
        wait.missing = wait.missing.saturating_sub(1);
        if wait.missing > 0 || wait.counted {
            return;
        }
        wait.counted = true;
        self.core.mail.stats.blocked += 1;
        if let Some(session) = self.sessions.get_mut(wait.target.session.0) {
            session.about.arrives = false;
        }
    }

    /// A key holds something, and it is this session's turn.
    pub(in crate::gateway) fn ready(&mut self, job: u64, key: &Blob) {
        let Some(Job::Wait(wait)) = self.jobs.get_mut(job) else { return };
        for (number, (k, _)) in wait.blocking.attempts.iter().enumerate() {
            if k == key && !wait.to_try.contains(&number) {
                wait.to_try.push_back(number);
            }
        }
        self.try_next(job);
    }

    /// The wait is over, with this reply: by its timeout, or by `CLIENT UNBLOCK`.
    pub(in crate::gateway) fn stop_waiting(&mut self, job: u64, reply: Reply) {
        let Some(Job::Wait(wait)) = self.jobs.get_mut(job) else { return };
        wait.over = Some(reply);
        wait.to_try.clear();
        self.try_next(job);
    }

    /// The time of a blocking command is over.
    pub(in crate::gateway) fn timed_out(&mut self, job: u64) {
        if let Some(Job::Wait(wait)) = self.jobs.get(job) {
            let reply = wait.blocking.on_timeout.clone();
            self.stop_waiting(job, reply);
        }
    }

    /// `CLIENT UNBLOCK`: whether the client was waiting.
    pub(in crate::gateway) fn unblock(&mut self, client: u64, error: bool) -> bool {
        let waiting = self.sessions.iter().find(|(_, s)| s.about.client == client);
        let job = match waiting.and_then(|(_, session)| session.blocked) {
            Some(BlockedBy::Job(job)) => job,
            Some(BlockedBy::Near(visit)) => {
                self.near_locks.unblock(&mut self.core, visit, error);
                return true;
            }
            None => return false,
        };
        if matches!(self.jobs.get(job), Some(Job::Turn(_))) {
            return self.unblock_turn(job, error);
        }
        if error {
            self.stop_waiting(job, super::turns::unblocked());
        } else {
            self.timed_out(job);
        }
        true
    }

    /// A wait is over, with this reply, unless the shard has got something for it.
    fn leave_wait(&mut self, job: u64, reply: Reply) {
        let Some(Job::Wait(wait)) = self.jobs.get_mut(job) else { return };
        let [(shard, token, _)] = &wait.waits[..] else { return self.end_wait(job, reply) };
        if !wait.served {
            return self.end_wait(job, reply);
        }
        if wait.leaves.is_none() {
            self.core.mail.send(*shard, *token, Body::Unblock);
        }
        wait.leaves = Some(reply);
    }

    /// A shard has ended a wait.
    pub(in crate::gateway) fn wait_answered(&mut self, token: u64, job: u64, answer: Answer) {
        let Some(Job::Wait(wait)) = self.jobs.get_mut(job) else { return };
        wait.waits.retain(|(_, waits, _)| *waits != token);
        match answer {
            Answer::Reply(reply) => self.end_wait(job, reply),
            Answer::Replies(_) => {
                let reply = wait.leaves.take().unwrap_or_else(|| wait.blocking.on_timeout.clone());
                self.end_wait(job, reply);
            }
            other => self.stop_waiting(job, crate::gateway::errors::unexpected(&other)),
        }
    }

    fn end_wait(&mut self, job: u64, reply: Reply) {
        let Some(target) = self.forget_wait(job) else { return };
        self.finish(target, reply);
    }

    /// Ends a wait without a reply; tells where the reply would have gone.
    pub(in crate::gateway) fn forget_wait(&mut self, job: u64) -> Option<Target> {
        let Some(Job::Wait(wait)) = self.jobs.remove(job) else { return None };
        self.core.mail.stats.blocked -= u64::from(wait.counted);
        for (shard, token, _) in wait.waits {
            self.core.mail.forget(token);
            self.core.mail.send(shard, token, Body::Unblock);
        }
        if let Some(at_us) = wait.deadline_us {
            self.core.timers.remove(&(at_us, Timer::Deadline { job }));
        }
        if let Some(session) = self.sessions.get_mut(wait.target.session.0) {
            session.blocked = None;
            session.about.arrives = false;
        }
        Some(wait.target)
    }
}
