//! Pipelines: commands that a session has sent without waiting for replies.
//!
//! Commands are *gathered* while the input that is there is looked at, and dispatched together. What
//! goes to one shard only, and is all that the session has open, goes there as it is: shards keep the
//! order in which requests come. What goes to several shards becomes a stream: see
//! `docs/internals/order.md`. If something of a stream has failed, which means that it has had no effect
//! and never will, so has everything after it, and all of that is dispatched once more.

use super::planned::Planned;
use super::stream::{Settled, Stream};
use crate::entry::Apply;
use crate::gateway::Gateway;
use crate::gateway::api::SessionId;
use crate::gateway::clients::session::Session;
use crate::gateway::mail::Pending;
use crate::gateway::routing::route::Route;
use crate::gateway::timer::Timer;
use crate::ids::{ShardId, StreamId};
use crate::limits::WINDOW_UNITS_MAX;
use crate::message::{Answer, Body, Refusal};
use crate::pipeline::Unit;
use adt::{Reply, Timestamp};
use smallvec::SmallVec;
use std::sync::Arc;

/// How long to wait before what has failed is dispatched again, at first; doubles up to 64 times as much.
const AGAIN_US: u64 = 500;

impl Session {
    /// Whether the session has commands open, or to be dispatched, whose order would be lost if one went
    /// to this shard as it is.
    pub fn orders(&self, shard: Option<ShardId>) -> bool {
        let elsewhere = self.loose.open > 0 && (shard.is_none() || self.loose.shard != shard);
        !self.gathered.is_empty() || self.stream.is_some() || elsewhere
    }

    /// A request in no stream is sent.
    pub fn begin_loose(&mut self, shard: ShardId) {
        self.loose.shard = match self.loose.open {
            0 => Some(shard),
            _ => self.loose.shard.filter(|other| *other == shard),
        };
        self.loose.open += 1;
    }
}

impl Gateway {
    /// Whether the session's commands keep their order over all shards.
    pub(in crate::gateway) fn keeps_order(&self, id: SessionId) -> bool {
        self.core.config.order.is_kept()
            && self.sessions.get(id.0).is_some_and(|session| session.ordered)
    }

    /// Puts a command behind those of the session that are to be dispatched.
    #[inline]
    pub(in crate::gateway) fn gather_up(&mut self, planned: Planned) {
        let id = planned.target.session;
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.gathered.push_back(planned);
        self.dispatch_soon(id);
    }

    /// Dispatches what the session has gathered when all that is there was looked at.
    pub(in crate::gateway) fn dispatch_soon(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id.0)
            && !std::mem::replace(&mut session.dispatching, true)
        {
            self.dispatching.push(id);
        }
    }

    /// Dispatches what was gathered.
    pub(in crate::gateway) fn dispatch_all(&mut self) {
        while let Some(id) = self.dispatching.pop() {
            if let Some(session) = self.sessions.get_mut(id.0) {
                session.dispatching = false;
                self.dispatch(id);
            }
        }
    }

    fn home_of(&self, planned: &Planned) -> Option<ShardId> {
        let mut homes = planned.ops.iter().map(|(key, _)| self.core.mail.shard_of(key));
        let first = homes.next()?;
        homes.all(|home| home == first).then_some(first)
    }

    fn dispatch(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let waits = session.stream.as_ref().is_some_and(|s| s.failed) || session.barrier.is_some();
        if session.gathered.is_empty() || session.rests || waits {
            return;
        }
        if !self.core.config.order.is_kept() && session.stream.is_none() {
            let gathered = std::mem::take(&mut session.gathered);
            return gathered.into_iter().for_each(|planned| self.send_loosely(planned));
        }
        let alone = session.loose.open == 0 && session.stream.is_none();
        let one_by_one = self.core.config.order.waits_for_answers();
        // Most commands are single ones, and pay nothing for the order.
        if alone && (one_by_one || session.gathered.len() == 1) {
            return self.send_first(id);
        }
        let batch = if one_by_one { None } else { self.next_batch(id) };
        let Some(batch) = batch else { return };
        let Some(&(first, _)) = batch.first() else {
            // What has come to concern several shards is no unit: it comes after the others.
            return if alone {
                self.send_first(id)
            };
        };
        let one = batch.iter().all(|(shard, _)| *shard == first);
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if session.stream.is_some() || !one {
            if !session.gathered.is_empty() {
                self.dispatch_soon(id);
            }
            return self.issue(id, batch);
        }
        let mut batch: Vec<Planned> = batch.into_iter().map(|(_, planned)| planned).collect();
        match batch.len() {
            1 => batch.drain(..).for_each(|planned| self.send_loosely(planned)),
            _ => self.send_batch(id, first, batch),
        }
    }

    /// Sends the first command that the session has gathered by itself.
    fn send_first(&mut self, id: SessionId) {
        let session = self.sessions.get_mut(id.0);
        if let Some(planned) = session.and_then(|session| session.gathered.pop_front()) {
            self.send_loosely(planned);
        }
    }

    /// Takes as many of a session's commands as can be dispatched now, with their shards; none of them if
    /// it is better to wait for room.
    fn next_batch(&mut self, id: SessionId) -> Option<Vec<(ShardId, Planned)>> {
        let session = self.sessions.get_mut(id.0)?;
        if self.core.config.order.is_handed_on() && session.stream.is_some() {
            return None;
        }
        let room = session.stream.as_ref().map_or(WINDOW_UNITS_MAX, |stream| stream.room());
        // Each part of a stream names all that is in flight: many small ones cost more than a few.
        if room < session.gathered.len().min(WINDOW_UNITS_MAX / 2) {
            return None;
        }
        let only = (session.loose.open > 0).then_some(session.loose.shard);
        let mut gathered = std::mem::take(&mut session.gathered);
        let mut batch = Vec::with_capacity(room.min(gathered.len()));
        while batch.len() < room
            && let Some(home) = gathered.front().and_then(|planned| self.home_of(planned))
            && only.is_none_or(|only| only == Some(home))
            && let Some(planned) = gathered.pop_front()
        {
            batch.push((home, planned));
        }
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.gathered = gathered;
        }
        Some(batch)
    }

    /// Sends commands to several shards as a stream, or as the next part of one.
    fn issue(&mut self, id: SessionId, batch: Vec<(ShardId, Planned)>) {
        let age = self.core.new_age();
        let chained = self.core.config.order.is_handed_on();
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let stream = session.stream.get_or_insert_with(|| Box::new(Stream::new(StreamId(age))));
        let stream_id = stream.id;
        let unit = |planned: &Planned| Unit { ops: planned.ops.clone(), ..Unit::default() };
        for (shard, group) in stream.issue(batch, chained, unit) {
            let (session, stream, first) = (id, stream_id, group.first());
            let count = group.units.len() as u32;
            let pending = Pending::Units { session, stream, first, count, shard };
            self.core.mail.ask(shard, pending, Body::Pipeline(Arc::new(group)));
        }
    }

    /// Sends a command by itself.
    fn send_loosely(&mut self, planned: Planned) {
        let route = self.home_of(&planned).map_or(Route::Many, Route::One);
        let Planned { target, mut ops, finish } = planned;
        match finish {
            None => {
                let Some((key, op)) = ops.pop() else { return };
                self.send_single(target, key, op);
            }
            Some(finish) => {
                let apply = Apply { ops, ..Apply::default() };
                self.send_work(target, route, apply, *finish);
            }
        }
    }

    /// A request in no stream is answered.
    #[inline]
    pub(in crate::gateway) fn end_loose(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.loose.open = session.loose.open.saturating_sub(1);
        if session.loose.open == 0 && !session.gathered.is_empty() {
            self.dispatch_soon(id);
        }
    }

    /// A shard says what became of a group.
    pub(in crate::gateway) fn units_answered(
        &mut self,
        (id, stream_id, first): (SessionId, StreamId, u32),
        (shard, count): (ShardId, u32),
        answer: Answer,
    ) {
        let lost = match answer {
            Answer::Unread => crate::gateway::errors::answer_unread().into(),
            Answer::Refused(Refusal::Unread) => crate::gateway::errors::request_unread().into(),
            _ => crate::gateway::errors::indefinite().into(),
        };
        self.units_settled((id, stream_id, first), (shard, count), answer, &lost);
    }

    /// A group of a session's stream is given up, for this reason. If it had no effect, what comes behind
    /// it has none either.
    pub(in crate::gateway) fn units_given_up(
        &mut self,
        which: (SessionId, StreamId, u32),
        (shard, count): (ShardId, u32),
        error: &Reply,
        certain: bool,
    ) {
        let stream = self.sessions.get_mut(which.0.0).and_then(|session| session.stream.as_mut());
        if let Some(stream) = stream.filter(|stream| certain && stream.id == which.1) {
            stream.refused = Some(error.clone());
        }
        self.units_settled(which, (shard, count), Answer::Unknown, error);
    }

    /// What became of a group of a session's stream; those who must not be sent once more are told
    /// `error`.
    fn units_settled(
        &mut self,
        (id, stream_id, first): (SessionId, StreamId, u32),
        (shard, count): (ShardId, u32),
        answer: Answer,
        error: &Reply,
    ) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let Some(stream) = session.stream.as_mut().filter(|stream| stream.id == stream_id) else {
            return;
        };
        let Settled { done, lost } = stream.answered(first, shard, count, answer);
        let over = stream.is_over();
        if !session.gathered.is_empty() {
            self.dispatch_soon(id);
        }
        for (planned, replies) in done {
            self.planned_done(planned.target, planned.finish, true, replies.into_iter());
        }
        for planned in lost {
            self.finish(planned.target, error.clone());
        }
        if over {
            self.end_stream(id);
        }
    }

    /// Everything of a session's stream is answered; what has failed is dispatched again.
    fn end_stream(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let Some(stream) = session.stream.take() else { return };
        self.core.end_stream(stream.id, stream.shards());
        let refused = stream.refused.clone();
        let again = stream.into_failed();
        if let Some(error) = refused {
            again.into_iter().for_each(|planned| self.finish(planned.target, error.clone()));
            self.refuse_gathered(id, &error);
            return self.dispatch_soon(id);
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if again.is_empty() {
            session.failures = 0;
            return self.dispatch_soon(id);
        }
        session.failures += 1;
        let wait = AGAIN_US << session.failures.min(6);
        session.gathered = again.into_iter().chain(session.gathered.drain(..)).collect();
        session.rests = true;
        self.core.set_timer(wait, Timer::Dispatch { session: id.0 });
    }

    /// Something of a session had no effect, for this reason: what it has sent behind that, and whose
    /// order it keeps, has none either.
    pub(in crate::gateway) fn refuse_gathered(&mut self, id: SessionId, error: &Reply) {
        if !self.keeps_order(id) {
            return;
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.failures = 0;
        let behind: Vec<Planned> = session.gathered.drain(..).collect();
        behind.into_iter().for_each(|planned| self.finish(planned.target, error.clone()));
    }

    /// What has failed may be dispatched again.
    pub(in crate::gateway) fn dispatch_again(&mut self, session: u64) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.rests = false;
        }
        self.dispatch_soon(SessionId(session));
    }

    /// Asks a shard for a session, in no stream, after whatever the session has asked of it before.
    #[inline]
    pub(in crate::gateway) fn ask_loosely(
        &mut self,
        id: SessionId,
        shard: ShardId,
        mut pending: Pending,
        body: Body,
    ) {
        let ordered = self.core.config.order.is_kept();
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let there = session.loose.open > 0 && session.loose.shard == Some(shard);
        if there && ordered && session.ordered {
            pending.comes_after(session.loose.last);
        }
        session.begin_loose(shard);
        let token = self.core.mail.ask(shard, pending, body);
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.loose.last = token;
        }
    }

    /// Sends commands on one shard as one request.
    fn send_batch(&mut self, id: SessionId, shard: ShardId, batch: Vec<Planned>) {
        let mut ops = Vec::with_capacity(batch.len());
        let mut parts = Vec::with_capacity(batch.len());
        for planned in batch {
            parts.push((planned.target, planned.ops.len() as u32, planned.finish));
            ops.extend(planned.ops);
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let writes = ops.iter().any(|(_, op)| op.is_write()) || session.is_fenced(shard);
        let (wrote, body) = if writes {
            session.writes_to(shard);
            let ops = SmallVec::from_vec(ops);
            (Some(shard), Body::Apply(Apply { ops, ..Apply::default() }))
        } else {
            (None, Body::Snapshot { ops, at: Timestamp::ZERO, fenced: false })
        };
        let after = None;
        self.ask_loosely(id, shard, Pending::Batch { parts, wrote, after }, body);
    }
}
