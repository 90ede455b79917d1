//! Blocked commands: sessions that wait for something to take (`BLPOP` and its family).
//!
//! First every attempt is made once, in order. If none finds anything, the session waits: every
//! shard with one of its keys notifies it when such a key holds something and it is this session's turn;
//! then the attempts on that key are made again, as transactions that pass what is kept for them there.
//! A shard that has all that a session waits for may serve it by itself: then the end of the wait is asked
//! for, and the answer of the shard is the reply.

use super::effect::WaitEffect;
use super::turns::unblocked;
use crate::entry::Apply;
use crate::gateway::api::SessionId;
use crate::gateway::clients::session::BlockedBy;
use crate::gateway::clients::sessions::Sessions;
use crate::gateway::core::Core;
use crate::gateway::errors::{single_reply, unexpected};
use crate::gateway::mail::{ATTEMPT, Mail, Pending, Target};
use crate::gateway::routing::route::{Route, unusable_key_of};
use crate::gateway::slab::Slab;
use crate::gateway::timer::Timer;
use crate::gateway::txn::work::{Finish, Form, Outcome, Program, ProgramStep, found_nothing};
use crate::ids::ShardId;
use crate::message::{Answer, Body, Takes};
use adt::{Attempt, Blob, Blocking, Compound, ErrorReply, Next, Plan, Reply};
use smallvec::smallvec;
use std::collections::{BTreeMap, VecDeque};

/// Blocking command that a session waits in.
struct BlockedCommand {
    target: Target,
    blocking: Blocking,
    /// Attempts to make now, by number.
    to_try: VecDeque<usize>,
    /// Attempt that is under way.
    trying: Option<usize>,
    /// Places in the queues of shards: shard, token, keys.
    waits: Vec<(ShardId, u64, Vec<Blob>)>,
    /// Reply to give when the present attempt finds nothing, because the wait is over.
    over: Option<Reply>,
    /// Whether the command waits at one shard alone, which can serve it.
    served: bool,
    /// Reply to give when that shard has ended the wait, as it was asked to, without serving the command.
    leaves: Option<Reply>,
    deadline_us: Option<u64>,
    /// When the attempts are made again although no shard has called for them.
    looks_us: Option<u64>,
    /// Number of shards that have not confirmed the place in their queue.
    missing: usize,
    /// Whether all shards have confirmed: then the command counts as blocked.
    counted: bool,
}

/// Number of the attempt that is none: the reads in front of all attempts.
const BEGINNING: usize = usize::MAX;

/// Blocking commands that sessions of this gateway wait in.
#[derive(Default)]
pub(in crate::gateway) struct BlockedCommands {
    commands: Slab<Box<BlockedCommand>>,
}

/// A move that takes nothing from a key that holds a value of another type.
fn patient(compound: Compound) -> Compound {
    let Compound { reads, next } = compound;
    Compound::in_steps(reads, move |replies| match replies.first() {
        Some(Reply::Error(_)) => Next::Plan(Plan { writes: Vec::new(), reply: Reply::Nil }),
        _ => next(replies),
    })
}

/// Whether all that a command may do is at one shard.
fn is_of_one_shard(blocking: &Blocking, mail: &Mail) -> bool {
    let mut route = Route::Nowhere;
    for (key, attempt) in &blocking.attempts {
        route.add(mail.shard_of(key));
        if let Attempt::Move(compound) = attempt {
            compound.reads.iter().for_each(|(key, _)| route.add(mail.shard_of(key)));
        }
    }
    matches!(route, Route::One(_))
}

/// The attempts to make at first.
fn first_of(blocking: &Blocking) -> VecDeque<usize> {
    let count = blocking.attempts.len();
    (0..if blocking.alike { count.min(1) } else { count }).collect()
}

/// A command by itself.
fn program(target: Target, compound: Compound) -> Program {
    let steps = vec![ProgramStep::Compound(compound)];
    let (guards, fences, request) = (Vec::new(), Vec::new(), None);
    Program { target, steps, form: Form::One, guards, fences, request }
}

impl BlockedCommand {
    /// Sets the timer for the next look, if there are looks.
    fn look_again(&mut self, core: &mut Core, job: u64) {
        if let Some(ms) = self.blocking.again_ms {
            let at_us = core.now.mono_us.saturating_add(ms.saturating_mul(1000));
            core.timers.insert((at_us, Timer::Look { job }));
            self.looks_us = Some(at_us);
        }
    }
}

impl BlockedCommands {
    /// Begins a command of a session, outside of a transaction.
    pub fn begin(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        blocking: Blocking,
    ) -> Option<WaitEffect> {
        let steps = [ProgramStep::Attempts(blocking)];
        if let Some(error) = unusable_key_of(sessions.get(id.0)?.reach, &steps) {
            sessions.reply(core, id, error.into());
            return None;
        }
        let [ProgramStep::Attempts(blocking)] = steps else { return None };
        let target = sessions.place(id, None);
        sessions.bar(target);
        let job = self.add(core, target, blocking);
        sessions.get_mut(id.0)?.block(BlockedBy::Command(job), core.now);
        self.advance(core, job)
    }

    /// Adds a command, and returns its number.
    fn add(&mut self, core: &Core, target: Target, blocking: Blocking) -> u64 {
        let deadline_us = (blocking.timeout_ms > 0)
            .then(|| core.now.mono_us.saturating_add(blocking.timeout_ms.saturating_mul(1000)));
        let to_try = first_of(&blocking);
        self.commands.insert(Box::new(BlockedCommand {
            target,
            blocking,
            to_try,
            trying: None,
            waits: Vec::new(),
            over: None,
            served: false,
            leaves: None,
            deadline_us,
            looks_us: None,
            missing: 0,
            counted: false,
        }))
    }

    /// Makes the next attempt, or waits.
    fn advance(&mut self, core: &mut Core, job: u64) -> Option<WaitEffect> {
        let command = self.commands.get_mut(job)?;
        if command.trying.is_some() {
            return None;
        }
        if let Some(begins) = &command.blocking.begins {
            command.trying = Some(BEGINNING);
            let target = Target { item: ATTEMPT, ..command.target };
            let plan = |replies: &[Reply]| Plan {
                writes: Vec::new(),
                reply: Reply::Array(replies.to_vec()),
            };
            let compound = Compound::new(begins.reads.clone(), plan);
            return Some(WaitEffect::Launch(program(target, compound)));
        }
        let Some(number) = command.to_try.pop_front() else {
            if let Some(reply) = command.over.take() {
                return self.leave(core, job, reply);
            }
            self.wait_at_shards(core, job);
            return None;
        };
        command.trying = Some(number);
        let (target, again) = (command.target, !command.waits.is_empty());
        let target = Target { item: ATTEMPT, ..target };
        match command.blocking.attempts[number].clone() {
            (key, Attempt::Take { op, .. }) if again && core.config.concurrency.takes_locks() => {
                let finish = Finish { outcomes: vec![Outcome::Op(0)], form: Form::One, keep: None };
                Some(WaitEffect::Take { target, ops: vec![(key, op)], finish })
            }
            (key, Attempt::Take { op, .. }) => {
                let shard = core.mail.shard_of(&key);
                let body = if op.is_write() {
                    Body::Apply(Apply { ops: smallvec![(key, op)], ..Apply::default() })
                } else {
                    Body::Read { key, op, fenced: false }
                };
                core.mail.ask(shard, Pending::Attempt { job }, body);
                None
            }
            (_, Attempt::Move(compound)) => {
                let compound = if again { patient(compound) } else { compound };
                let program = program(target, compound);
                Some(if again { WaitEffect::Move(program) } else { WaitEffect::Launch(program) })
            }
        }
    }

    /// Takes the shard's answer to the present attempt.
    pub fn answered(&mut self, core: &mut Core, job: u64, answer: Answer) -> Option<WaitEffect> {
        self.attempted(core, job, single_reply(answer))
    }

    /// Takes the reply of the present attempt.
    pub fn attempted(&mut self, core: &mut Core, job: u64, reply: Reply) -> Option<WaitEffect> {
        let command = self.commands.get_mut(job)?;
        let number = command.trying.take()?;
        if let Some(begins) = command.blocking.begins.take() {
            let Reply::Array(replies) = reply else { return self.end(core, job, reply) };
            command.blocking.attempts = (begins.attempts)(&replies);
            command.to_try = first_of(&command.blocking);
            return self.advance(core, job);
        }
        let wrong = !command.waits.is_empty() && reply == ErrorReply::wrong_type().into();
        let reply = match &command.blocking.attempts[number] {
            // A session that waits already goes on waiting for a value of the right type. `patient` does
            // the same for a move.
            (_, Attempt::Take { .. }) if wrong => Reply::Nil,
            (key, Attempt::Take { wrap, .. }) if !found_nothing(&reply) => wrap(key, reply),
            _ => reply,
        };
        if found_nothing(&reply) { self.advance(core, job) } else { self.end(core, job, reply) }
    }

    /// Puts a command into the queues of its shards, or confirms its places there.
    fn wait_at_shards(&mut self, core: &mut Core, job: u64) {
        let Some(command) = self.commands.get_mut(job) else { return };
        if !command.waits.is_empty() {
            for (shard, token, keys) in &command.waits {
                let body = Body::Block { keys: keys.clone(), takes: None };
                core.mail.send(*shard, *token, body);
            }
            return;
        }
        let mut keys: BTreeMap<ShardId, Vec<Blob>> = BTreeMap::new();
        for (key, _) in &command.blocking.attempts {
            keys.entry(core.mail.shard_of(key)).or_default().push(key.clone());
        }
        command.missing = keys.len();
        // What is read together is not taken by a shard for its waiters.
        let takes = !core.mail.is_clustered() && !command.blocking.alike;
        command.served = takes && is_of_one_shard(&command.blocking, &core.mail);
        for (shard, keys) in keys {
            let attempts = command.blocking.attempts.iter().map(|(_, attempt)| attempt.clone());
            let takes = command.served.then(|| Takes(attempts.collect()));
            let body = Body::Block { keys: keys.clone(), takes };
            let token = core.mail.ask(shard, Pending::Wait { job }, body);
            command.waits.push((shard, token, keys));
        }
        if let Some(at_us) = command.deadline_us {
            core.timers.insert((at_us, Timer::Deadline { job }));
        }
        command.look_again(core, job);
    }

    /// Registers commands that wait at a shard with its new leader, which does not know them.
    pub fn register_again(&self, core: &mut Core, shard: ShardId) {
        let waits = self.commands.iter().flat_map(|(_, command)| &command.waits);
        for (_, token, keys) in waits.filter(|(at, ..)| *at == shard) {
            core.mail.send(shard, *token, Body::Block { keys: keys.clone(), takes: None });
        }
    }

    /// Moves commands that wait at a shard to the shards that have their keys now.
    pub fn move_from(&mut self, core: &mut Core, shard: ShardId) {
        for (job, command) in self.commands.iter_mut() {
            let mut keys = Vec::new();
            for (_, token, left) in command.waits.extract_if(.., |(at, ..)| *at == shard) {
                core.mail.send(shard, token, Body::Unblock);
                core.mail.pending.remove(token);
                keys.extend(left);
            }
            let mut by_shard: BTreeMap<ShardId, Vec<Blob>> = BTreeMap::new();
            for key in keys {
                by_shard.entry(core.mail.shard_of(&key)).or_default().push(key);
            }
            for (shard, keys) in by_shard {
                let body = Body::Block { keys: keys.clone(), takes: None };
                let token = core.mail.ask(shard, Pending::Wait { job }, body);
                command.waits.push((shard, token, keys));
            }
        }
    }

    /// Notes that a shard has a command in its queues. Once all shards have, a client that is informed of
    /// the wait may rely on coming after it.
    pub fn arrived(&mut self, core: &mut Core, job: u64) -> Option<WaitEffect> {
        let command = self.commands.get_mut(job)?;
        command.missing = command.missing.saturating_sub(1);
        if command.missing > 0 || command.counted {
            return None;
        }
        command.counted = true;
        core.mail.stats.blocked += 1;
        Some(WaitEffect::Arrived(command.target.session))
    }

    /// Makes the attempts on a key again, since it holds something and it is this command's turn.
    pub fn ready(&mut self, core: &mut Core, job: u64, key: &Blob) -> Option<WaitEffect> {
        let command = self.commands.get_mut(job)?;
        // The shard has been told that the wait is over. It may end before an attempt does, which would then
        // take an element for no client.
        if command.leaves.is_some() {
            return None;
        }
        for (number, (k, _)) in command.blocking.attempts.iter().enumerate() {
            let enough = command.blocking.alike && !command.to_try.is_empty();
            if k == key && !enough && !command.to_try.contains(&number) {
                command.to_try.push_back(number);
            }
        }
        self.advance(core, job)
    }

    /// Makes the attempts again, since what they find depends on the time.
    pub fn looks(&mut self, core: &mut Core, job: u64) -> Option<WaitEffect> {
        let command = self.commands.get_mut(job)?;
        command.looks_us = None;
        command.look_again(core, job);
        if command.over.is_some() || command.leaves.is_some() {
            return None;
        }
        if command.trying.is_none() && command.to_try.is_empty() {
            command.to_try = first_of(&command.blocking);
        }
        self.advance(core, job)
    }

    /// Ends a wait with this reply, unless the present attempt finds something.
    pub fn stop(&mut self, core: &mut Core, job: u64, reply: Reply) -> Option<WaitEffect> {
        let command = self.commands.get_mut(job)?;
        command.over = Some(reply);
        command.to_try.clear();
        self.advance(core, job)
    }

    /// Ends a wait because its time is over.
    pub fn timed_out(&mut self, core: &mut Core, job: u64) -> Option<WaitEffect> {
        let reply = self.commands.get(job)?.blocking.on_timeout.clone();
        self.stop(core, job, reply)
    }

    /// Ends a wait by `CLIENT UNBLOCK`.
    pub fn unblock(&mut self, core: &mut Core, job: u64, error: bool) -> Option<WaitEffect> {
        if error { self.stop(core, job, unblocked()) } else { self.timed_out(core, job) }
    }

    /// Ends a wait with this reply, unless the shard has served it by then.
    fn leave(&mut self, core: &mut Core, job: u64, reply: Reply) -> Option<WaitEffect> {
        let command = self.commands.get_mut(job)?;
        let [(shard, token, _)] = &command.waits[..] else { return self.end(core, job, reply) };
        if !command.served {
            return self.end(core, job, reply);
        }
        if command.leaves.is_none() {
            core.mail.send(*shard, *token, Body::Unblock);
        }
        command.leaves = Some(reply);
        None
    }

    /// Takes the answer of a shard that has ended a wait.
    pub fn wait_ended(
        &mut self,
        core: &mut Core,
        token: u64,
        job: u64,
        answer: Answer,
    ) -> Option<WaitEffect> {
        let command = self.commands.get_mut(job)?;
        command.waits.retain(|(_, waits, _)| *waits != token);
        match answer {
            Answer::Reply(reply) => self.end(core, job, reply),
            Answer::Replies(_) => {
                let on_timeout = &command.blocking.on_timeout;
                let reply = command.leaves.take().unwrap_or_else(|| on_timeout.clone());
                self.end(core, job, reply)
            }
            other => self.stop(core, job, unexpected(&other)),
        }
    }

    fn end(&mut self, core: &mut Core, job: u64, reply: Reply) -> Option<WaitEffect> {
        let target = self.give_up(core, job)?;
        core.finish(target, reply);
        Some(WaitEffect::Ended(target.session))
    }

    /// Ends a wait without a reply. Returns the place that the reply would have had.
    pub fn give_up(&mut self, core: &mut Core, job: u64) -> Option<Target> {
        let command = self.commands.remove(job)?;
        core.mail.stats.blocked -= u64::from(command.counted);
        for (shard, token, _) in command.waits {
            core.mail.forget(token);
            core.mail.send(shard, token, Body::Unblock);
        }
        if let Some(at_us) = command.deadline_us {
            core.timers.remove(&(at_us, Timer::Deadline { job }));
        }
        if let Some(at_us) = command.looks_us {
            core.timers.remove(&(at_us, Timer::Look { job }));
        }
        Some(command.target)
    }

    /// Number of commands that wait.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.commands.len()
    }
}
