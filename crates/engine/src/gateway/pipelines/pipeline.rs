//! Pipelines: commands that a session has sent without waiting for replies.
//!
//! Commands are *gathered* while the present input is processed, and dispatched together. Commands on one
//! shard, if the session has no other open request, are sent as they are: shards keep the order of arrival.
//! Commands on several shards become a stream: see `docs/internals/order/`. If a part of a stream has
//! failed, it has had no effect and never will, and neither has any part after it. All of these are
//! dispatched once more.
//!
//! If all shards are led by this process, commands on several shards become a bundle instead of a stream, as
//! long as no part of it would have to wait at its shard.

use super::planned::Planned;
use super::stream::{Settled, Stream};
use crate::gateway::api::SessionId;
use crate::gateway::core::Core;
use crate::gateway::mail::Pending;
use crate::gateway::timer::Timer;
use crate::ids::{KeyedOp, ShardId, StreamId};
use crate::limits::WINDOW_UNITS_MAX;
use crate::message::{Answer, Body};
use crate::pipeline::Unit;
use crate::pipeline::bundles::Disturbance;
use adt::Reply;
use std::collections::VecDeque;
use std::sync::Arc;

/// First wait before failed commands are dispatched again, in microseconds; doubles up to 64 times as much.
const AGAIN_US: u64 = 500;

/// Requests of a session that are in no stream.
#[derive(Clone, Copy, Debug, Default)]
struct Loose {
    /// Number of requests without an answer.
    open: u32,
    /// Shard of these requests, unless they are at several.
    shard: Option<ShardId>,
    /// Token of the last request.
    last: u64,
}

/// Bundles of a session that are not answered.
#[derive(Clone, Debug, Default)]
struct Bundled {
    /// Number of parts without an answer, and how many of them write.
    open: u32,
    writing: u32,
    /// Numbers of the replies of each that is not told to its end: the first one, and that behind the last.
    replies: VecDeque<(u64, u64)>,
    /// Whether no bundle can be sent now: one was given back.
    barred: bool,
}

/// Group of a stream: the stream, its first unit, its shard and the number of its units.
#[derive(Clone, Copy)]
pub(in crate::gateway) struct UnitGroup {
    pub stream: StreamId,
    pub first: u32,
    pub shard: ShardId,
    pub count: u32,
}

/// Next step in the dispatch of a session's commands.
pub(in crate::gateway) enum Dispatch {
    /// No command is to be sent now.
    Nothing,
    /// A command is to be sent by itself.
    One(Planned),
    /// Commands on one shard are to be sent as one request.
    Batch(ShardId, Vec<Planned>),
    /// Commands are to be sent to their shards at one moment.
    Bundle(Vec<(ShardId, Planned)>),
    /// A part of a stream was sent; whether more commands wait for dispatch.
    Issued { more: bool },
}

/// End of a stream.
pub(in crate::gateway) enum StreamEnd {
    /// The stream goes on.
    Open,
    /// All units took effect.
    Dispatch,
    /// Failed commands are dispatched again after a while.
    Rests,
    /// Failed commands are refused for this reason.
    Refused(Vec<Planned>, Reply),
}

/// Pipeline of a session.
pub(in crate::gateway) struct Pipeline {
    /// Whether the session's commands keep their order across shards (`CLIENT ORDER`).
    ordered: bool,
    /// Commands that are to be dispatched.
    gathered: VecDeque<Planned>,
    /// Whether the session is in the list of sessions to be dispatched.
    queued: bool,
    /// Whether failed commands wait before they are dispatched again.
    rests: bool,
    loose: Loose,
    bundled: Bundled,
    /// Stream under way.
    stream: Option<Box<Stream<Planned>>>,
    /// Number of failed parts since the last one that succeeded.
    failures: u32,
}

impl Default for Pipeline {
    fn default() -> Self {
        let (gathered, loose, bundled) = Default::default();
        Self {
            ordered: true,
            gathered,
            queued: false,
            rests: false,
            loose,
            bundled,
            stream: None,
            failures: 0,
        }
    }
}

/// Shard of operations, if all are at one.
pub(in crate::gateway) fn home_of(core: &Core, ops: &[KeyedOp]) -> Option<ShardId> {
    let mut homes = ops.iter().map(|(key, _)| core.mail.shard_of(key));
    let first = homes.next()?;
    homes.all(|home| home == first).then_some(first)
}

impl Pipeline {
    /// Lets the session's commands keep their order across shards, or not.
    pub fn set_ordered(&mut self, ordered: bool) {
        self.ordered = ordered;
    }

    /// Whether the session's commands keep their order across shards.
    #[inline]
    pub fn keeps_order(&self, core: &Core) -> bool {
        core.config.order.is_kept() && self.ordered
    }

    /// Whether the session has commands open, or to be dispatched, whose order would be lost if one was sent
    /// to this shard as it is.
    pub fn orders(&self, shard: Option<ShardId>) -> bool {
        let elsewhere = self.loose.open > 0 && (shard.is_none() || self.loose.shard != shard);
        let bundled = self.bundled.open > 0;
        !self.gathered.is_empty() || self.stream.is_some() || bundled || elsewhere
    }

    /// Whether commands wait for dispatch.
    #[inline]
    pub fn has_gathered(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// Adds a command behind those to be dispatched.
    #[inline]
    pub fn gather(&mut self, planned: Planned) {
        self.gathered.push_back(planned);
    }

    /// Adds commands in front of those to be dispatched.
    pub fn gather_first(&mut self, commands: Vec<Planned>) {
        self.gathered = commands.into_iter().chain(self.gathered.drain(..)).collect();
    }

    /// Takes the commands to be dispatched: the ones before them had no effect, and they have none either.
    pub fn take_gathered(&mut self) -> VecDeque<Planned> {
        self.failures = 0;
        std::mem::take(&mut self.gathered)
    }

    /// Notes that the session is in the list of sessions to be dispatched. False if it was before.
    #[inline]
    pub fn queue(&mut self) -> bool {
        !std::mem::replace(&mut self.queued, true)
    }

    /// Notes that failed commands may be dispatched again.
    pub fn has_rested(&mut self) {
        self.rests = false;
    }

    /// Sends a request, in no stream, after all earlier requests of the session to that shard.
    #[inline]
    pub fn ask(&mut self, core: &mut Core, shard: ShardId, mut pending: Pending, body: Body) {
        let is_open = self.loose.open > 0;
        if is_open && self.loose.shard == Some(shard) && self.keeps_order(core) {
            pending.comes_after(self.loose.last);
        }
        self.loose.shard = match is_open {
            false => Some(shard),
            true => self.loose.shard.filter(|other| *other == shard),
        };
        self.loose.open += 1;
        self.loose.last = core.mail.ask(shard, pending, body);
    }

    /// Notes the answer to a request in no stream. Returns whether the session is to be dispatched.
    #[inline]
    pub fn answered(&mut self) -> bool {
        self.loose.open = self.loose.open.saturating_sub(1);
        self.loose.open == 0 && !self.gathered.is_empty()
    }

    /// Whether the parts of a bundle must come after writes of the session, or write themselves.
    pub fn writes_with(&self, batch: &[(ShardId, Planned)]) -> bool {
        let mut ops = batch.iter().flat_map(|(_, planned)| &planned.ops);
        self.bundled.writing > 0 || ops.any(|(_, op)| op.is_write())
    }

    /// Notes that a bundle of so many parts is sent, with the numbers of the first and the last of its
    /// replies.
    pub fn bundle(&mut self, parts: u32, writes: bool, (first, last): (u64, u64)) {
        self.bundled.open += parts;
        self.bundled.replies.push_back((first, last + 1));
        self.bundled.writing += if writes { parts } else { 0 };
    }

    /// Whether the next reply, which has this number, is of the same bundle as the one before: it comes about
    /// as soon.
    #[inline]
    pub fn comes_soon(&self, next: u64) -> bool {
        self.bundled.replies.front().is_some_and(|(first, end)| *first < next && next < *end)
    }

    /// Notes that the session has told all replies before this one.
    #[inline]
    pub fn told(&mut self, next: u64) {
        while self.bundled.replies.front().is_some_and(|(_, end)| *end <= next) {
            self.bundled.replies.pop_front();
        }
    }

    /// Notes the answer to a part of a bundle. Returns whether the session is to be dispatched.
    pub fn part_answered(&mut self, wrote: bool) -> bool {
        self.bundled.open -= 1;
        self.bundled.writing -= u32::from(wrote);
        self.bundled.open == 0 && !self.gathered.is_empty()
    }

    /// Takes commands back whose bundle was not sent. Streams are over soon, and the bundle is tried again
    /// then; otherwise the commands become a stream.
    pub fn unbundle(
        &mut self,
        core: &mut Core,
        id: SessionId,
        commands: Vec<Planned>,
        reason: Disturbance,
    ) {
        if let Some(first) = commands.first().map(|planned| planned.target.seq) {
            self.bundled.replies.retain(|(of, _)| *of != first);
        }
        self.gather_first(commands);
        if reason == Disturbance::Streams {
            self.rests = true;
            core.set_timer(AGAIN_US, Timer::Dispatch { session: id.0 });
        } else {
            self.bundled.barred = true;
        }
    }

    /// Notes that a request in no stream is at another shard than it was sent to.
    pub fn rerouted(&mut self) {
        self.loose.shard = None;
    }

    /// Takes the next step of the dispatch, unless a reply bars it. Sends the units of streams.
    pub fn dispatch(&mut self, core: &mut Core, id: SessionId, is_barred: bool) -> Dispatch {
        self.queued = false;
        let waits = self.rests || is_barred || self.stream.as_ref().is_some_and(|s| s.failed);
        if self.gathered.is_empty() || waits {
            return Dispatch::Nothing;
        }
        let bundled = self.bundled.open > 0;
        if bundled && self.bundled.barred {
            return Dispatch::Nothing;
        }
        let alone = self.loose.open == 0 && self.stream.is_none() && !bundled;
        let one_by_one = core.config.order.waits_for_answers();
        // Most commands are single ones, and pay nothing for the order.
        if alone && (one_by_one || self.gathered.len() == 1) {
            return self.first();
        }
        let batch = if one_by_one { None } else { self.next_batch(core) };
        let Some(mut batch) = batch else { return Dispatch::Nothing };
        let Some(&(first, _)) = batch.first() else {
            // A command that has come to concern several shards is no unit: it waits for the others.
            return if alone { self.first() } else { Dispatch::Nothing };
        };
        let one = batch.iter().all(|(shard, _)| *shard == first);
        let bundles = core.config.bundles && !self.bundled.barred;
        if bundles && self.stream.is_none() && (!one || bundled) {
            return Dispatch::Bundle(batch);
        }
        if self.stream.is_some() || !one {
            self.issue(core, id, batch);
            return Dispatch::Issued { more: !self.gathered.is_empty() };
        }
        match (batch.len(), batch.pop()) {
            (1, Some((_, planned))) => Dispatch::One(planned),
            (_, last) => {
                Dispatch::Batch(first, batch.into_iter().chain(last).map(|(_, p)| p).collect())
            }
        }
    }

    fn first(&mut self) -> Dispatch {
        self.gathered.pop_front().map_or(Dispatch::Nothing, Dispatch::One)
    }

    /// Takes as many commands as can be dispatched now, with their shards; none of them if it is better to
    /// wait for room.
    fn next_batch(&mut self, core: &Core) -> Option<Vec<(ShardId, Planned)>> {
        if core.config.order.is_handed_on() && self.stream.is_some() {
            return None;
        }
        let room = self.stream.as_ref().map_or(WINDOW_UNITS_MAX, |stream| stream.room());
        // Each part of a stream names all units in flight: many small parts cost more than a few.
        if room < self.gathered.len().min(WINDOW_UNITS_MAX / 2) {
            return None;
        }
        let only = (self.loose.open > 0).then_some(self.loose.shard);
        let mut batch = Vec::with_capacity(room.min(self.gathered.len()));
        while batch.len() < room
            && let Some(home) =
                self.gathered.front().and_then(|planned| home_of(core, &planned.ops))
            && only.is_none_or(|only| only == Some(home))
            && let Some(planned) = self.gathered.pop_front()
        {
            batch.push((home, planned));
        }
        Some(batch)
    }

    /// Sends commands to several shards as a stream, or as the next part of one.
    fn issue(&mut self, core: &mut Core, session: SessionId, batch: Vec<(ShardId, Planned)>) {
        let age = core.new_age();
        let chained = core.config.order.is_handed_on();
        let stream = self.stream.get_or_insert_with(|| Box::new(Stream::new(StreamId(age))));
        let stream_id = stream.id;
        let unit = |planned: &Planned| Unit { ops: planned.ops.clone(), ..Unit::default() };
        for (shard, group) in stream.issue(batch, chained, unit) {
            let (stream, first) = (stream_id, group.first());
            let count = group.units.len() as u32;
            let pending = Pending::Units { session, stream, first, count, shard };
            core.mail.ask(shard, pending, Body::Pipeline(Arc::new(group)));
        }
    }

    /// Notes that a group had no effect for this reason: failed commands of its stream are refused.
    pub fn refuse(&mut self, group: UnitGroup, error: &Reply) {
        let stream = self.stream.as_mut().filter(|stream| stream.id == group.stream);
        if let Some(stream) = stream {
            stream.refused = Some(error.clone());
        }
    }

    /// Takes the outcome of a group, unless its stream is over. [`Pipeline::end_stream`] follows.
    pub fn settle(&mut self, group: UnitGroup, answer: Answer) -> Option<Settled<Planned>> {
        let UnitGroup { stream, first, shard, count } = group;
        let stream = self.stream.as_mut().filter(|present| present.id == stream)?;
        Some(stream.answered(first, shard, count, answer))
    }

    /// Ends the stream if all its groups are answered.
    pub fn end_stream(&mut self, core: &mut Core, id: SessionId) -> StreamEnd {
        let Some(mut stream) = self.stream.take_if(|stream| stream.is_over()) else {
            return StreamEnd::Open;
        };
        core.end_stream(stream.id, stream.shards());
        self.bundled.barred = false;
        let refused = stream.refused.take();
        let again = stream.into_failed();
        if let Some(error) = refused {
            return StreamEnd::Refused(again, error);
        }
        if again.is_empty() {
            self.failures = 0;
            return StreamEnd::Dispatch;
        }
        self.failures += 1;
        self.gather_first(again);
        self.rests = true;
        core.set_timer(AGAIN_US << self.failures.min(6), Timer::Dispatch { session: id.0 });
        StreamEnd::Rests
    }
}
