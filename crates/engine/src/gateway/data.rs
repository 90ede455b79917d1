//! Commands on keys: the short way of single operations, and which way everything else takes.

use super::Gateway;
use super::api::SessionId;
use super::mail::{Pending, Target, WHOLE};
use super::work::{Finish, Form, Program, Step, Work};
use crate::entry::Apply;
use crate::limits::KEY_BYTES_MAX;
use crate::message::{Body, Guard, RequestId, ShardId};
use crate::slot::slot;
use adt::{Blob, Command, ErrorReply, Op, Reply, Timestamp};
use smallvec::{SmallVec, smallvec};

/// Which shards something concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Nowhere,
    One(ShardId),
    Many,
}

impl Route {
    pub fn add(&mut self, shard: ShardId) {
        *self = match *self {
            Self::Nowhere => Self::One(shard),
            Self::One(one) if one == shard => Self::One(one),
            _ => Self::Many,
        };
    }
}

pub(super) fn key_too_long(key: &Blob) -> Option<ErrorReply> {
    (key.len() > KEY_BYTES_MAX)
        .then(|| ErrorReply::err(format!("a key has at most {KEY_BYTES_MAX} bytes")))
}

impl Gateway {
    /// One operation on one key: one message there, one back.
    #[inline]
    pub(super) fn single(&mut self, id: SessionId, key: Blob, op: Op) {
        if let Some(error) = key_too_long(&key) {
            return self.reply(id, error.into());
        }
        let shard = self.mail.shard_of(&key);
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let target = Target { session: id, seq: session.push(), item: WHOLE };
        // A read behind unanswered writes of the same session goes the way of the writes, so that
        // it sees those before it and not those after it.
        if op.is_write() || session.is_fenced(shard) {
            session.writes_to(shard);
            let apply = Apply { ops: smallvec![(key, op)], ..Apply::default() };
            self.mail.ask(
                shard,
                Pending::Single { target, wrote: Some(shard) },
                Body::Apply(apply),
            );
        } else {
            let body = Body::Read { key, op, fenced: false };
            self.mail.ask(shard, Pending::Single { target, wrote: None }, body);
        }
    }

    /// A data command outside of transactions. Tells whether it went ahead.
    pub(super) fn data(&mut self, id: SessionId, command: Command) -> bool {
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
                self.begin_blocking(id, blocking);
                return true;
            }
            other => other,
        };
        let steps = vec![Step::from(command)];
        if let Some(error) = long_key(&steps) {
            self.reply(id, error.into());
            return true;
        }
        let route = self.route(&steps, &[]);
        if !self.may_launch(id, &steps, route) {
            return false;
        }
        let request = self.take_request(id);
        let target = self.place(id, None);
        self.launch(Program { target, steps, form: Form::One, guards: Vec::new(), request }, route);
        true
    }

    /// Where a client that knows the leaders should have sent a command. What concerns several
    /// shards, and what waits, is carried out from wherever it comes.
    fn elsewhere(&self, id: SessionId, command: &Command) -> Option<ErrorReply> {
        let session = self.sessions.get(id.0)?;
        let (mut route, mut first) = (Route::Nowhere, None);
        let mut add = |key: &Blob, op: &Op| {
            if op.is_write() || !session.about.asks_replicas {
                route.add(self.mail.shard_of(key));
                first.get_or_insert(slot(key));
            }
        };
        match command {
            Command::Single(key, op) => add(key, op),
            Command::Multi { ops, .. } => ops.iter().for_each(|(key, op)| add(key, op)),
            _ => {}
        }
        self.moved(route, first?)
    }

    /// The request number that the client gave for what it sends now.
    pub(super) fn take_request(&mut self, id: SessionId) -> Option<RequestId> {
        let session = self.sessions.get_mut(id.0)?;
        let request = session.request.take();
        if request.is_some() {
            session.refresh();
        }
        request
    }

    /// Which shards the operations that are known and the guards concern.
    pub(super) fn route(&self, steps: &[Step], guards: &[Guard]) -> Route {
        let mut route = Route::Nowhere;
        for step in steps {
            match step {
                Step::Ops(ops, _) => {
                    ops.iter().for_each(|(key, _)| route.add(self.mail.shard_of(key)));
                }
                Step::Compound(_) | Step::Attempts(_) => return Route::Many,
                Step::Fixed(_) | Step::Later(_) => {}
            }
        }
        guards.iter().for_each(|guard| route.add(self.mail.shard_of(&guard.key)));
        route
    }

    /// Whether a program may start now. What takes several messages runs alone in its session, so
    /// that earlier and later commands of a pipeline cannot get between them.
    pub(super) fn may_launch(&self, id: SessionId, steps: &[Step], route: Route) -> bool {
        let alone = self.sessions.get(id.0).is_none_or(|session| session.queue.is_empty());
        let later = steps.iter().any(|step| matches!(step, Step::Later(_)));
        alone || (route != Route::Many && self.config.concurrency.transactions && !later)
    }

    /// Carries a program out the cheapest way there is.
    pub(super) fn launch(&mut self, program: Program, route: Route) {
        let direct = program.steps.iter().all(Step::is_direct);
        if !direct || !self.config.concurrency.transactions {
            self.bar(program.target);
            return self.begin_txn(program, None);
        }
        let Program { target, steps, form, guards, request } = program;
        let mut work = Work::default();
        let mut later = Vec::new();
        for step in steps {
            match step {
                Step::Ops(ops, merge) => work.add(ops, merge),
                Step::Fixed(reply) => work.outcomes.push(super::work::Outcome::Fixed(reply)),
                Step::Later(words) => {
                    later.push((work.outcomes.len() as u32, words));
                    work.outcomes.push(super::work::Outcome::Fixed(Reply::Nil));
                }
                Step::Compound(_) | Step::Attempts(_) => {}
            }
        }
        let finish = Finish { outcomes: work.outcomes, form, later };
        let only_reads =
            guards.is_empty() && request.is_none() && work.ops.iter().all(|(_, op)| !op.is_write());
        match route {
            Route::Nowhere => self.complete(target, &finish, std::iter::empty()),
            Route::One(shard) if only_reads && !self.is_fenced(target, shard) => {
                let body = Body::Snapshot { ops: work.ops, at: Timestamp::ZERO, fenced: false };
                let pending = Pending::Work { target, wrote: None, finish: Box::new(finish) };
                self.mail.ask(shard, pending, body);
            }
            Route::One(shard) => {
                let apply = Apply { ops: SmallVec::from_vec(work.ops), guards, request };
                self.apply_there(target, shard, apply, finish);
            }
            Route::Many => {
                self.bar(target);
                if only_reads && self.config.concurrency.deferred {
                    self.begin_snapshot(target, work.ops, finish);
                } else {
                    self.begin_direct(target, work.ops, finish, guards, request);
                }
            }
        }
    }

    fn is_fenced(&self, target: Target, shard: ShardId) -> bool {
        self.sessions.get(target.session.0).is_some_and(|session| session.is_fenced(shard))
    }

    fn apply_there(&mut self, target: Target, shard: ShardId, apply: Apply, finish: Finish) {
        if let Some(session) = self.sessions.get_mut(target.session.0) {
            session.writes_to(shard);
        }
        let pending = Pending::Work { target, wrote: Some(shard), finish: Box::new(finish) };
        self.mail.ask(shard, pending, Body::Apply(apply));
    }

    /// Makes the reply of a program from the replies of its operations, and carries out what the
    /// session does after it.
    pub(super) fn complete(
        &mut self,
        target: Target,
        finish: &Finish,
        replies: impl Iterator<Item = Reply>,
    ) {
        let items = finish.items(replies);
        if finish.later.is_empty() {
            let reply = finish.reply(items);
            return self.finish(target, reply);
        }
        self.finish_partly(target, items, finish.later.len() as u32);
        for (item, words) in &finish.later {
            self.run_later(Target { item: *item, ..target }, &words.args());
        }
    }

    /// A write of the session is answered.
    #[inline]
    pub(super) fn written(&mut self, target: Target, wrote: Option<ShardId>) {
        if let Some(shard) = wrote
            && let Some(session) = self.sessions.get_mut(target.session.0)
        {
            session.wrote(shard);
        }
    }
}

/// The error for the first key of a program that is too long, if there is one.
pub(super) fn long_key(steps: &[Step]) -> Option<ErrorReply> {
    steps.iter().find_map(|step| match step {
        Step::Ops(ops, _) => ops.iter().find_map(|(key, _)| key_too_long(key)),
        Step::Compound(compound) => compound.reads.iter().find_map(|(key, _)| key_too_long(key)),
        Step::Attempts(blocking) => blocking.attempts.iter().find_map(|(key, _)| key_too_long(key)),
        Step::Fixed(_) | Step::Later(_) => None,
    })
}
