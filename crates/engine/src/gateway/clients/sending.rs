//! Requests of sessions to shards: single operations, commands on one shard, and commands that are
//! dispatched in the session's order.

use super::sessions::Sessions;
use crate::entry::Apply;
use crate::gateway::api::SessionId;
use crate::gateway::core::Core;
use crate::gateway::errors::unexpected;
use crate::gateway::mail::{Mail, Pending, SentCommand, SentCommands};
use crate::gateway::pipelines::pipeline::{Dispatch, StreamEnd, UnitGroup, home_of};
use crate::gateway::pipelines::planned::Planned;
use crate::gateway::pipelines::stream::Settled;
use crate::gateway::routing::course::{Course, may_gather};
use crate::gateway::routing::rerouting::{plain_ops, take_apart};
use crate::gateway::routing::route::{Route, only_reads, unusable_key};
use crate::gateway::target::{Target, WHOLE};
use crate::gateway::txn::work::{Finish, Program, ProgramStep};
use crate::ids::ShardId;
use crate::message::{Answer, Body, Request};
use crate::pipeline::bundles::Disturbance;
use crate::script::ScriptRun;
use adt::{Blob, Op, Reply, Timestamp};
use smallvec::{SmallVec, smallvec};

impl Sessions {
    /// Sends one operation on one key: one message there, one back. A session whose commands keep their
    /// order gathers it.
    #[inline]
    pub fn single(&mut self, core: &mut Core, id: SessionId, key: Blob, op: Op) {
        let Some(session) = self.get_mut(id.0) else { return };
        if let Some(error) = unusable_key(session.reach, &key) {
            return self.reply(core, id, error.into());
        }
        let target = Target { session: id, seq: session.push(), item: WHOLE };
        if session.pipeline.keeps_order(core) {
            return self.gather(Planned { target, ops: smallvec![(key, op)], finish: None });
        }
        self.send_single(core, target, key, op);
    }

    /// Sends one operation as it is.
    #[inline]
    pub fn send_single(&mut self, core: &mut Core, target: Target, key: Blob, op: Op) {
        let shard = core.mail.shard_of(&key);
        let Some(session) = self.get_mut(target.session.0) else { return };
        // A read behind unanswered writes of its session is sent as a write is, so that it sees the writes
        // before it and not those after it.
        let (wrote, body) = if op.is_write() || session.is_fenced(shard) {
            session.writes_to(shard);
            let ops = smallvec![(key, op)];
            (Some(shard), Body::Apply(Apply { ops, ..Apply::default() }))
        } else {
            (None, Body::Read { key, op, fenced: false })
        };
        session.pipeline.ask(core, shard, Pending::single(target, wrote), body);
    }

    /// Sends operations on one shard as one request.
    pub fn send_work(
        &mut self,
        core: &mut Core,
        target: Target,
        shard: ShardId,
        apply: Apply,
        finish: Finish,
    ) {
        let Some(session) = self.get_mut(target.session.0) else { return };
        let finish = Box::new(finish);
        let (wrote, body) = if only_reads(&apply) && !session.is_fenced(shard) {
            let ops = apply.ops.into_vec();
            (
                None,
                Body::Snapshot {
                    ops,
                    at: Timestamp::ZERO,
                    fenced: false,
                    dated: false,
                    as_of: None,
                },
            )
        } else {
            session.writes_to(shard);
            (Some(shard), Body::Apply(apply))
        };
        let pending = Pending::of_session(SentCommands::Work(target, finish), wrote);
        session.pipeline.ask(core, shard, pending, body);
    }

    /// Sends scripts to the shard of their keys. They are carried out otherwise if the shard cannot.
    pub fn send_scripts(
        &mut self,
        core: &mut Core,
        shard: ShardId,
        scripts: Vec<(ScriptRun, Program)>,
    ) {
        let (runs, programs): (Vec<_>, Vec<_>) = scripts.into_iter().unzip();
        let first = programs.first().and_then(|program| self.get_mut(program.target.session.0));
        let Some(session) = first else { return };
        session.writes_to(shard);
        let pending = Pending::of_session(SentCommands::Scripts(programs), Some(shard));
        session.pipeline.ask(core, shard, pending, Body::Run(runs));
    }

    /// Sends commands on one shard as one request.
    fn send_batch(&mut self, core: &mut Core, id: SessionId, shard: ShardId, batch: Vec<Planned>) {
        let Some(session) = self.get_mut(id.0) else { return };
        let is_write = |planned: &Planned| planned.ops.iter().any(|(_, op)| op.is_write());
        let writes = batch.iter().any(is_write) || session.is_fenced(shard);
        if writes {
            session.writes_to(shard);
        }
        let (sent, body) = as_one(batch, writes);
        let pending = Pending::of_session(SentCommands::Batch(sent), writes.then_some(shard));
        session.pipeline.ask(core, shard, pending, body);
    }

    /// Notes the answer to a request that a session has sent by itself, perhaps a write on this shard.
    #[inline]
    pub fn answered(&mut self, target: Target, wrote: Option<ShardId>) {
        let Some(session) = self.get_mut(target.session.0) else { return };
        if let Some(shard) = wrote {
            session.wrote(shard);
        }
        if session.pipeline.answered() {
            self.dispatch_soon(target.session);
        }
    }

    /// Takes the answer to commands that were sent as one request.
    pub fn batch_answered(
        &mut self,
        core: &mut Core,
        parts: Vec<SentCommand>,
        wrote: Option<ShardId>,
        answer: Answer,
    ) {
        let Some(first) = parts.first().map(|(target, ..)| *target) else { return };
        self.answered(first, wrote);
        carried_out_together(core, parts, wrote.is_some(), answer);
    }

    /// Sends commands on several shards at one moment.
    fn send_bundle(&mut self, core: &mut Core, id: SessionId, batch: Vec<(ShardId, Planned)>) {
        let Some(session) = self.get_mut(id.0) else { return };
        let writes = session.pipeline.writes_with(&batch);
        let reply = |planned: Option<&(ShardId, Planned)>| planned.map_or(0, |(_, p)| p.target.seq);
        let replies = (reply(batch.first()), reply(batch.last()));
        let mut shards: SmallVec<[(ShardId, Vec<Planned>); 4]> = SmallVec::new();
        for (shard, planned) in batch {
            match shards.iter_mut().find(|(of, _)| *of == shard) {
                Some((_, own)) => own.push(planned),
                None => shards.push((shard, vec![planned])),
            }
        }
        session.pipeline.bundle(shards.len() as u32, writes, replies);
        let mut requests = Vec::with_capacity(shards.len());
        for (shard, own) in shards {
            if writes {
                session.writes_to(shard);
            }
            let (sent, body) = as_one(own, writes);
            let pending = Pending::of_session(SentCommands::Part(sent), writes.then_some(shard));
            requests.push((shard, pending, body));
        }
        core.mail.bundle(writes, requests);
    }

    /// Takes the requests of a bundle back that was not sent. Its commands are dispatched again, before all
    /// later ones.
    pub fn unbundle(
        &mut self,
        core: &mut Core,
        requests: Vec<(ShardId, Request)>,
        reason: Disturbance,
    ) {
        let mut again = Vec::new();
        for (_, request) in requests {
            let pending = core.mail.take(Mail::token_of(request.token));
            let commands = plain_ops(request.body).zip(pending);
            let Some((target, wrote, commands)) =
                commands.and_then(|(ops, pending)| take_apart(pending, ops))
            else {
                continue;
            };
            again.extend(commands);
            let Some(session) = self.get_mut(target.session.0) else { continue };
            wrote.into_iter().for_each(|shard| session.wrote(shard));
            session.pipeline.part_answered(wrote.is_some());
        }
        again.sort_by_key(|planned: &Planned| planned.target.seq);
        let Some(id) = again.first().map(|planned| planned.target.session) else { return };
        let Some(session) = self.get_mut(id.0) else { return };
        session.pipeline.unbundle(core, id, again, reason);
        self.dispatch_soon(id);
    }

    /// Takes the answer to a part of a bundle.
    pub fn part_answered(
        &mut self,
        core: &mut Core,
        parts: Vec<SentCommand>,
        wrote: Option<ShardId>,
        answer: Answer,
    ) {
        if let Some(id) = parts.first().map(|(target, ..)| target.session)
            && let Some(session) = self.get_mut(id.0)
        {
            wrote.into_iter().for_each(|shard| session.wrote(shard));
            if session.pipeline.part_answered(wrote.is_some()) {
                self.dispatch_soon(id);
            }
        }
        carried_out_together(core, parts, wrote.is_some(), answer);
    }

    /// Takes the outcome of a group of a session's stream. Commands with an unknown outcome are not sent
    /// again: they are answered with `error`.
    pub fn units_settled(
        &mut self,
        core: &mut Core,
        id: SessionId,
        group: UnitGroup,
        answer: Answer,
        error: &Reply,
    ) {
        let Some(session) = self.get_mut(id.0) else { return };
        let Some(settled) = session.pipeline.settle(group, answer) else { return };
        let Settled { done, lost } = settled;
        for (planned, replies) in done {
            core.carried_out(planned.target, planned.finish, true, replies.into_iter());
        }
        for planned in lost {
            core.finish(planned.target, error.clone());
        }
        match session.pipeline.end_stream(core, id) {
            StreamEnd::Rests => {}
            StreamEnd::Open => {
                if session.pipeline.has_gathered() {
                    self.dispatch_soon(id);
                }
            }
            StreamEnd::Dispatch => self.dispatch_soon(id),
            StreamEnd::Refused(commands, error) => {
                for planned in commands {
                    core.finish(planned.target, error.clone());
                }
                self.refuse_gathered(core, id, &error);
                self.dispatch_soon(id);
            }
        }
    }

    /// Refuses the commands that a session has gathered behind a request without effect, if it keeps their
    /// order: they must have no effect either.
    pub fn refuse_gathered(&mut self, core: &mut Core, id: SessionId, error: &Reply) {
        let session = self.get_mut(id.0).filter(|session| session.pipeline.keeps_order(core));
        for planned in session.map(|s| s.pipeline.take_gathered()).unwrap_or_default() {
            core.finish(planned.target, error.clone());
        }
    }

    /// Whether a program may start now. A program that takes several messages runs alone in its session, so
    /// that earlier and later commands of a pipeline cannot get between these messages.
    pub fn may_launch(
        &self,
        core: &Core,
        id: SessionId,
        steps: &[ProgramStep],
        route: Route,
    ) -> bool {
        let alone = self.get(id.0).is_none_or(|session| session.queue.is_empty());
        let later = steps.iter().any(|step| matches!(step, ProgramStep::Later(_)));
        alone || (route != Route::Many && core.config.concurrency.sends_in_one_step() && !later)
    }

    /// Whether a program that may start must wait all the same, because it would lose its place among its
    /// session's commands.
    pub fn loses_order(&self, core: &Core, program: &Program, route: Route) -> bool {
        let shard = match route {
            Route::One(shard) => Some(shard),
            _ => None,
        };
        let Some(session) = self.get(program.target.session.0) else { return false };
        session.pipeline.keeps_order(core)
            && !may_gather(core, program, route)
            && session.pipeline.orders(shard)
    }

    /// Adds a command behind those of its session that are to be dispatched.
    #[inline]
    pub fn gather(&mut self, planned: Planned) {
        let id = planned.target.session;
        let Some(session) = self.get_mut(id.0) else { return };
        session.pipeline.gather(planned);
        self.dispatch_soon(id);
    }

    /// Dispatches the commands that a session has gathered. Returns the course of a command that has come to
    /// concern several shards.
    #[must_use]
    pub fn dispatch(&mut self, core: &mut Core, id: SessionId) -> Option<(Target, Course)> {
        let session = self.get_mut(id.0)?;
        let is_barred = session.barrier.is_some();
        match session.pipeline.dispatch(core, id, is_barred) {
            Dispatch::Nothing => {}
            Dispatch::Issued { more } => {
                if more {
                    self.dispatch_soon(id);
                }
            }
            Dispatch::Batch(shard, batch) => self.send_batch(core, id, shard, batch),
            Dispatch::Bundle(batch) => self.send_bundle(core, id, batch),
            Dispatch::One(planned) => {
                let Planned { target, mut ops, finish } = planned;
                let Some(finish) = finish else {
                    let (key, op) = ops.pop()?;
                    self.send_single(core, target, key, op);
                    return None;
                };
                let route = home_of(core, &ops).map_or(Route::Many, Route::One);
                let apply = Apply { ops, ..Apply::default() };
                match Course::of(core, route, apply, *finish) {
                    Course::OneShard(shard, apply, finish) => {
                        self.send_work(core, target, shard, apply, finish);
                    }
                    course => return Some((target, course)),
                }
            }
        }
        None
    }
}

/// Commands on one shard as one request.
fn as_one(commands: Vec<Planned>, writes: bool) -> (Vec<SentCommand>, Body) {
    let mut ops = Vec::with_capacity(commands.len());
    let mut sent = Vec::with_capacity(commands.len());
    for planned in commands {
        sent.push((planned.target, planned.ops.len() as u32, planned.finish));
        ops.extend(planned.ops);
    }
    let body = if writes {
        Body::Apply(Apply { ops: SmallVec::from_vec(ops), ..Apply::default() })
    } else {
        Body::Snapshot { ops, at: Timestamp::ZERO, fenced: false, dated: false, as_of: None }
    };
    (sent, body)
}

/// Gives commands that were carried out together their replies.
fn carried_out_together(core: &mut Core, parts: Vec<SentCommand>, wrote: bool, answer: Answer) {
    let replies: Vec<Reply> = match answer {
        Answer::Replies(replies) => replies.into_vec(),
        Answer::Snapshot { replies, .. } => replies,
        other => {
            for (target, ..) in parts {
                core.finish(target, unexpected(&other));
            }
            return;
        }
    };
    let mut replies = replies.into_iter();
    for (target, count, finish) in parts {
        let own: SmallVec<[Reply; 1]> = replies.by_ref().take(count as usize).collect();
        core.carried_out(target, finish, wrote, own.into_iter());
    }
}
