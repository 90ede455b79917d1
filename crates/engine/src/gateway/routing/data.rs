//! Commands on keys: the short way of single operations, and which way everything else takes.

use super::route::{Route, key_too_long, long_key};
use crate::entry::Apply;
use crate::gateway::Gateway;
use crate::gateway::api::SessionId;
use crate::gateway::mail::{Pending, Target, WHOLE};
use crate::gateway::pipelines::planned::Planned;
use crate::gateway::txn::transaction::repeated::home_of;
use crate::gateway::txn::work::{Finish, Form, Outcome, Program, ProgramStep, Work};
use crate::ids::{KeyedOp, RequestId, ShardId};
use crate::message::{Body, Fence, Guard};
use crate::slot::slot;
use adt::{Blob, Command, ErrorReply, Op, Reply, Timestamp};
use smallvec::{SmallVec, smallvec};

fn numbered_wait() -> ErrorReply {
    let text = "a command that waits for something to take has no request number, and takes the one \
                that was given with it: use the command that does not wait, or LOCK.ACQUIRE";
    ErrorReply::err(text)
}

impl Gateway {
    /// One operation on one key: one message there, one back.
    #[inline]
    pub(in crate::gateway) fn single(&mut self, id: SessionId, key: Blob, op: Op) {
        if let Some(error) = key_too_long(&key) {
            return self.reply(id, error.into());
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let target = Target { session: id, seq: session.push(), item: WHOLE };
        if self.core.config.order.is_kept() && session.ordered {
            return self.gather_up(Planned { target, ops: smallvec![(key, op)], finish: None });
        }
        self.send_single(target, key, op);
    }

    /// Sends one operation as it is.
    #[inline]
    pub(in crate::gateway) fn send_single(&mut self, target: Target, key: Blob, op: Op) {
        let shard = self.core.mail.shard_of(&key);
        let Some(session) = self.sessions.get_mut(target.session.0) else { return };
        // A read behind unanswered writes of the same session goes the way of the writes, so that
        // it sees those before it and not those after it.
        let (wrote, body) = if op.is_write() || session.is_fenced(shard) {
            session.writes_to(shard);
            let ops = smallvec![(key, op)];
            (Some(shard), Body::Apply(Apply { ops, ..Apply::default() }))
        } else {
            (None, Body::Read { key, op, fenced: false })
        };
        let after = None;
        self.ask_loosely(target.session, shard, Pending::Single { target, wrote, after }, body);
    }

    /// A data command outside of transactions. Tells whether it went ahead.
    pub(in crate::gateway) fn data(&mut self, id: SessionId, command: Command) -> bool {
        // A stay in a lock that this server keeps is known here, whoever leads the shard.
        if let Command::Single(key, op) = &command
            && self.near_locks.may_answer(op)
            && let Some(went_ahead) = self.about_stay(id, key, op)
        {
            return went_ahead;
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return true };
        if session.redirects
            && let Some(error) = self.elsewhere(id, &command)
        {
            self.reply(id, error.into());
            return true;
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return true };
        let command = match command {
            Command::Single(key, op) if session.request.is_none() => {
                self.single(id, key, op);
                return true;
            }
            Command::Blocking(blocking) => {
                if !session.queue.is_empty() {
                    return false;
                }
                // It looks at its keys again and again, and finds nothing each time but the last.
                match self.take_request(id) {
                    Some(_) => self.reply(id, numbered_wait().into()),
                    None => self.begin_blocking(id, blocking),
                }
                return true;
            }
            Command::Awaiting(awaiting) => {
                if !session.queue.is_empty() {
                    return false;
                }
                self.begin_awaiting(id, awaiting);
                return true;
            }
            other => other,
        };
        let steps = vec![ProgramStep::from(command)];
        if let Some(error) = long_key(&steps) {
            self.reply(id, error.into());
            return true;
        }
        self.launch_in_turn(id, steps, Vec::new())
    }

    /// Carries out a command outside of transactions that is a program of its own, under these fencing
    /// tokens. Tells whether it went ahead.
    pub(in crate::gateway) fn launch_in_turn(
        &mut self,
        id: SessionId,
        steps: Vec<ProgramStep>,
        fences: Vec<Fence>,
    ) -> bool {
        let route = self.route(&steps, &[]);
        if !self.may_launch(id, &steps, route) {
            return false;
        }
        let request = self.sessions.get(id.0).and_then(|session| session.request.clone());
        // Its place is taken when it goes ahead.
        let target = Target { session: id, seq: 0, item: WHOLE };
        let guards = Vec::new();
        let mut program = Program { target, steps, form: Form::One, guards, fences, request };
        if self.loses_order(&program, route) {
            return false;
        }
        program.request = self.take_request(id);
        program.target = self.place(id, None);
        if program.steps.iter().any(|step| matches!(step, ProgramStep::Later(_))) {
            self.bar(program.target);
        }
        self.launch(program, route);
        true
    }

    /// Where a client that knows the leaders should have sent a command. What concerns several
    /// shards, and what waits, is carried out from wherever it comes.
    fn elsewhere(&self, id: SessionId, command: &Command) -> Option<ErrorReply> {
        let session = self.sessions.get(id.0)?;
        let (mut route, mut first) = (Route::Nowhere, None);
        let mut add = |key: &Blob, op: &Op| {
            if op.is_write() || !session.about.asks_replicas {
                route.add(self.core.mail.shard_of(key));
                first.get_or_insert(slot(key));
            }
        };
        match command {
            Command::Single(key, op) => add(key, op),
            Command::Multi { ops, .. } => ops.iter().for_each(|(key, op)| add(key, op)),
            _ => {}
        }
        let slot = first?;
        let Route::One(shard) = route else { return None };
        self.core.moved(shard, slot)
    }

    /// The request number that the client gave for what it sends now.
    pub(in crate::gateway) fn take_request(&mut self, id: SessionId) -> Option<RequestId> {
        let session = self.sessions.get_mut(id.0)?;
        let request = session.request.take();
        if request.is_some() {
            session.refresh();
        }
        request
    }

    /// Which shards the operations that are known and the guards concern.
    pub(in crate::gateway) fn route(&self, steps: &[ProgramStep], guards: &[Guard]) -> Route {
        let mut route = Route::Nowhere;
        for step in steps {
            match step {
                ProgramStep::Ops(ops, _) => {
                    ops.iter().for_each(|(key, _)| route.add(self.core.mail.shard_of(key)));
                }
                ProgramStep::Compound(_) | ProgramStep::Attempts(_) => return Route::Many,
                ProgramStep::Fixed(_) | ProgramStep::Later(_) => {}
            }
        }
        guards.iter().for_each(|guard| route.add(self.core.mail.shard_of(&guard.key)));
        route
    }

    /// Whether a program may start now. What takes several messages runs alone in its session, so
    /// that earlier and later commands of a pipeline cannot get between them.
    pub(in crate::gateway) fn may_launch(
        &self,
        id: SessionId,
        steps: &[ProgramStep],
        route: Route,
    ) -> bool {
        let alone = self.sessions.get(id.0).is_none_or(|session| session.queue.is_empty());
        let later = steps.iter().any(|step| matches!(step, ProgramStep::Later(_)));
        alone
            || (route != Route::Many && self.core.config.concurrency.sends_in_one_step() && !later)
    }

    /// Whether a program must wait, although it may start, because it would lose its place among the
    /// session's commands.
    pub(in crate::gateway) fn loses_order(&self, program: &Program, route: Route) -> bool {
        let shard = match route {
            Route::One(shard) => Some(shard),
            _ => None,
        };
        let id = program.target.session;
        let orders = |session: &crate::gateway::clients::session::Session| session.orders(shard);
        self.keeps_order(id)
            && !self.may_gather(program, route)
            && self.sessions.get(id.0).is_some_and(orders)
    }

    /// Whether a program is operations on one shard and nothing else, which can be a unit of a stream.
    fn may_gather(&self, program: &Program, route: Route) -> bool {
        let plain =
            program.guards.is_empty() && program.fences.is_empty() && program.request.is_none();
        let direct = |step: &ProgramStep| match step {
            ProgramStep::Ops(ops, _) => !about_all(ops),
            step => matches!(step, ProgramStep::Fixed(_)),
        };
        let one = matches!(route, Route::One(_));
        plain
            && one
            && self.core.config.concurrency.sends_in_one_step()
            && program.steps.iter().all(direct)
    }

    /// Carries a program out the cheapest way there is.
    pub(in crate::gateway) fn launch(&mut self, program: Program, route: Route) {
        let direct = program.steps.iter().all(ProgramStep::is_direct);
        let in_one_step = direct && self.core.config.concurrency.sends_in_one_step();
        if !program.fences.is_empty() && !in_one_step {
            let text = "FENCE needs what it guards to be carried out in one step";
            return self.finish(program.target, adt::ErrorReply::err(text).into());
        }
        if !direct || !self.core.config.concurrency.sends_in_one_step() {
            self.bar(program.target);
            return self.transactions.begin(&mut self.core, program, None);
        }
        let gathers = self.keeps_order(program.target.session) && self.may_gather(&program, route);
        let Program { target, steps, form, guards, fences, request } = program;
        let mut work = Work::default();
        for step in steps {
            match step {
                ProgramStep::Ops(ops, merge) => work.add(ops, merge),
                ProgramStep::Fixed(reply) => work.add_without_ops(Outcome::Fixed(reply)),
                ProgramStep::Later(words) => work.add_without_ops(Outcome::Later(words)),
                ProgramStep::Compound(_) | ProgramStep::Attempts(_) => {}
            }
        }
        let home = request.as_ref().and_then(|_| home_of(&work.ops));
        let finish = Finish::new(work.outcomes, form, request.as_ref(), home.as_ref());
        if gathers {
            let ops = SmallVec::from_vec(work.ops);
            return self.gather_up(Planned { target, ops, finish: Some(Box::new(finish)) });
        }
        let apply = Apply { ops: SmallVec::from_vec(work.ops), guards, fences, request };
        self.send_work(target, route, apply, finish);
    }

    /// Sends operations on one shard as they are, or begins a transaction if they are on several.
    pub(in crate::gateway) fn send_work(
        &mut self,
        target: Target,
        route: Route,
        apply: Apply,
        finish: Finish,
    ) {
        let Apply { ref ops, ref guards, ref fences, ref request } = apply;
        let only_reads = guards.is_empty()
            && fences.is_empty()
            && request.is_none()
            && ops.iter().all(|(_, op)| !op.is_write());
        // What is about all keys is let in as a transaction, even at a single shard.
        let route = if about_all(ops) { Route::Many } else { route };
        let route = match (route, request) {
            // That it was carried out is remembered all the same.
            (Route::Nowhere, Some(request)) => Route::One(self.core.mail.shard_of(&request.client)),
            (route, _) => route,
        };
        match route {
            Route::Nowhere => self.complete(target, &finish, std::iter::empty()),
            Route::One(shard) if only_reads && !self.is_fenced(target, shard) => {
                let ops = apply.ops.into_vec();
                let body = Body::Snapshot { ops, at: Timestamp::ZERO, fenced: false };
                let (wrote, after, finish) = (None, None, Box::new(finish));
                let pending = Pending::Work { target, wrote, after, finish };
                self.ask_loosely(target.session, shard, pending, body);
            }
            Route::One(shard) => self.apply_there(target, shard, apply, finish),
            Route::Many => {
                self.bar(target);
                let Apply { ops, guards, fences, request } = apply;
                if !fences.is_empty() {
                    return self
                        .finish(target, crate::gateway::waiting::fence::several_shards().into());
                }
                if only_reads && self.core.config.concurrency.reads_without_locks() {
                    self.snapshots.begin(&mut self.core, target, ops.into_vec(), finish);
                } else {
                    let (core, ops) = (&mut self.core, ops.into_vec());
                    self.transactions.begin_direct(core, target, ops, finish, (guards, request));
                }
            }
        }
    }

    fn is_fenced(&self, target: Target, shard: ShardId) -> bool {
        self.sessions.get(target.session.0).is_some_and(|session| session.is_fenced(shard))
    }

    pub(in crate::gateway) fn apply_there(
        &mut self,
        target: Target,
        shard: ShardId,
        apply: Apply,
        finish: Finish,
    ) {
        if let Some(session) = self.sessions.get_mut(target.session.0) {
            session.writes_to(shard);
        }
        let (wrote, after, finish) = (Some(shard), None, Box::new(finish));
        let pending = Pending::Work { target, wrote, after, finish };
        self.ask_loosely(target.session, shard, pending, Body::Apply(apply));
    }

    /// Makes the reply of a program from the replies of its operations, and carries out what the
    /// session does after it.
    pub(in crate::gateway) fn complete(
        &mut self,
        target: Target,
        finish: &Finish,
        replies: impl Iterator<Item = Reply>,
    ) {
        let items = finish.items(replies);
        self.complete_with(target, finish, items);
    }

    /// Makes the reply of a program from those of its commands.
    pub(in crate::gateway) fn complete_with(
        &mut self,
        target: Target,
        finish: &Finish,
        items: Vec<Option<Reply>>,
    ) {
        if items.iter().all(Option::is_some) {
            let reply = finish.reply(items);
            return self.finish(target, reply);
        }
        let later = finish.later();
        let later = later.map(|(item, words)| (Target { item, ..target }, words.clone()));
        let Some(session) = self.sessions.get_mut(target.session.0) else {
            return self.finish_without_client(later.collect(), items, finish.keep.as_deref());
        };
        session.about.later.extend(later);
        self.finish_partly(target, items, finish.keep.clone());
        self.finishing.push(target.session);
    }

    /// A write of the session is answered.
    #[inline]
    pub(in crate::gateway) fn written(&mut self, target: Target, wrote: Option<ShardId>) {
        if let Some(shard) = wrote
            && let Some(session) = self.sessions.get_mut(target.session.0)
        {
            session.wrote(shard);
        }
    }
}

/// Whether some operation is about all keys.
fn about_all(ops: &[KeyedOp]) -> bool {
    ops.iter().any(|(_, op)| op.whole().is_some())
}
