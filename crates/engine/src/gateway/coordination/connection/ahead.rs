//! Requests of a client of a spread tree that are sent ahead to several shards: as a stream, whose units
//! keep their order without waiting for each other (see [`crate::pipeline`]).
//!
//! Each request is answered by itself when it is carried out, by a notice; the answer to a group says that
//! no more notices follow. If a request has had no effect, no request has that was sent while it was open.
//! Then the first of these is sent by itself, and its answer shows the error.

use super::plan::Plan;
use super::{Connection, Context};
use crate::coordination::spread::{HOME, Spread};
use crate::coordination::{Change, CoordinationAnswer, TreeSessionId, Write};
use crate::gateway::api::CoordinationClient;
use crate::gateway::coordination::request::{ClientRequest, NumberedRequest, Sender};
use crate::gateway::core::Core;
use crate::gateway::mail::Pending;
use crate::gateway::pipelines::stream::{Settled, Stream};
use crate::ids::{ShardId, StreamId};
use crate::limits::{AHEAD_BYTES_MAX, WINDOW_UNITS_MAX};
use crate::message::{Answer, Body};
use crate::pipeline::Unit;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Request in a stream.
#[derive(Debug)]
pub(super) struct SentAhead {
    request: NumberedRequest,
    /// A shard has carried the request out.
    carried: bool,
}

/// Stream of a connection.
pub(super) type Ahead = Stream<SentAhead>;

/// Groups that this gateway has sent ahead and that are not answered, by session: their number, and the
/// connections that wait for the last answer before they resume the session. Requests of an earlier
/// connection must not arrive behind the first message of a later one.
#[derive(Default)]
pub(in crate::gateway::coordination) struct Unanswered {
    by_session: BTreeMap<TreeSessionId, (usize, Vec<CoordinationClient>)>,
}

impl Unanswered {
    fn sent(&mut self, session: TreeSessionId) {
        self.by_session.entry(session).or_default().0 += 1;
    }

    /// Notes an answer; returns the connections that have waited if it was the last one.
    pub fn answered(&mut self, session: TreeSessionId) -> Vec<CoordinationClient> {
        let Some((groups, _)) = self.by_session.get_mut(&session) else { return Vec::new() };
        *groups -= 1;
        let over = *groups == 0;
        let ended = over.then(|| self.by_session.remove(&session)).flatten();
        ended.map(|(_, waiting)| waiting).unwrap_or_default()
    }

    /// Whether a connection has to wait before it resumes a session.
    pub fn await_them(&mut self, session: TreeSessionId, client: CoordinationClient) -> bool {
        let groups = self.by_session.get_mut(&session);
        groups.map(|(_, waiting)| waiting.push(client)).is_some()
    }
}

/// Approximate size of a request, in bytes.
fn weight(request: &ClientRequest) -> usize {
    let of = |change: &Change| {
        let data = match change {
            Change::Create(create) => create.data.as_ref(),
            Change::SetData { data, .. } => data.as_ref(),
            _ => None,
        };
        change.path().len() + data.map_or(0, |data| data.len())
    };
    match request {
        ClientRequest::Write(Write::Change(change)) => of(change),
        ClientRequest::Write(Write::Multi(changes)) => changes.iter().map(of).sum(),
        _ => 0,
    }
}

/// Whether requests to several shards of a tree can be sent without waiting.
fn may_send_ahead(core: &Core) -> bool {
    core.config.order.sends_requests_ahead()
}

impl Connection {
    /// Shards of the requests that can be sent ahead now, in their order; none if it is better to wait for
    /// room, or if the requests can be sent without a stream.
    fn next_ahead(&self, spread: Spread) -> Vec<ShardId> {
        let waiting = &self.queue.waiting;
        let room = self.ahead.as_ref().map_or(WINDOW_UNITS_MAX, |ahead| ahead.room());
        // Each group of a stream names all units in flight: many small groups cost more than a few.
        if room < waiting.len().min(WINDOW_UNITS_MAX / 2) {
            return Vec::new();
        }
        let mut bytes = self.queue.ahead_bytes;
        let home = |NumberedRequest { request, .. }: &NumberedRequest| {
            bytes += weight(request);
            if bytes > AHEAD_BYTES_MAX || !request.footprint().has_place() {
                return None;
            }
            match Plan::of(spread, request, std::iter::empty()) {
                Plan::One(shard) if self.is_at(shard) => Some(shard),
                _ => None,
            }
        };
        let homes: Vec<ShardId> = waiting.iter().take(room).map_while(home).collect();
        let several = homes.iter().any(|home| Some(home) != homes.first());
        if several || self.ahead.is_some() { homes } else { Vec::new() }
    }

    /// Sends requests ahead if possible; true if a stream is under way, to which nothing else can be added
    /// now.
    pub(super) fn send_ahead(&mut self, cx: &mut Context<'_>) -> bool {
        match &self.ahead {
            Some(ahead) if ahead.failed => return true,
            Some(_) => {}
            None if self.queue.open > 0 || !may_send_ahead(cx.core) => return false,
            None if std::mem::take(&mut self.queue.alone) => return false,
            None => {}
        }
        let homes = self.next_ahead(cx.spread);
        let Some(session) = self.session.filter(|_| !homes.is_empty()) else {
            return self.ahead.is_some();
        };
        self.issue_ahead(cx, session, homes);
        true
    }

    fn issue_ahead(&mut self, cx: &mut Context<'_>, session: TreeSessionId, homes: Vec<ShardId>) {
        let (age, now) = (cx.core.new_age(), cx.core.now);
        let after = self.known();
        let requests: Vec<NumberedRequest> = self.queue.waiting.drain(..homes.len()).collect();
        let mut batch = Vec::with_capacity(homes.len());
        for (shard, request) in homes.into_iter().zip(requests) {
            self.queue.ahead_bytes += weight(&request.request);
            if let ClientRequest::Of(of) = &request.request {
                self.note_watching(shard, of);
            }
            if shard == HOME {
                self.queue.note_home(now);
            }
            batch.push((shard, SentAhead { request, carried: false }));
        }
        let ahead = self.ahead.get_or_insert_with(|| Box::new(Stream::new(StreamId(age))));
        let stream = ahead.id;
        let unit = |SentAhead { request: sent, .. }: &SentAhead| {
            let NumberedRequest { request, identities, .. } = sent;
            let ask = request.clone().into_ask(session, after, identities.clone());
            let (ops, ask) = (request.footprint().tickets(), ask.map(Box::new));
            Unit { ops, ask, ..Unit::default() }
        };
        for (shard, group) in ahead.issue(batch, false, unit) {
            cx.unanswered.sent(session);
            let sender = Sender { client: cx.client, session };
            let (first, count) = (group.first(), group.units.len() as u32);
            let pending = Pending::Ahead { sender, stream, first, count, shard };
            cx.core.mail.ask(shard, pending, Body::Pipeline(Arc::new(group)));
        }
    }

    /// Answers a request that was sent ahead and is carried out.
    pub(super) fn ahead_carried(
        &mut self,
        cx: &mut Context<'_>,
        shard: ShardId,
        (stream, seq): (StreamId, u32),
        answered: CoordinationAnswer,
    ) {
        let CoordinationAnswer { reply, zxid, .. } = answered;
        self.hears(shard, zxid);
        let ahead = self.ahead.as_mut().filter(|ahead| ahead.id == stream);
        let sent = ahead.and_then(|ahead| ahead.get_mut(seq)).filter(|sent| !sent.carried);
        let Some(sent) = sent else { return };
        sent.carried = true;
        let request = sent.request.seq;
        self.answer_by(cx, request, Some(shard), (zxid, reply));
    }

    /// Handles a shard's answer to a group.
    pub fn ahead_answered(
        &mut self,
        cx: &mut Context<'_>,
        stream: StreamId,
        (first, count): (u32, u32),
        shard: ShardId,
        answer: Answer,
    ) {
        let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.id == stream) else { return };
        let Settled { done, lost } = ahead.answered(first, shard, count, answer);
        let over = ahead.is_over();
        let weights = done.iter().map(|(sent, _)| weight(&sent.request.request));
        self.queue.ahead_bytes = self.queue.ahead_bytes.saturating_sub(weights.sum());
        if !lost.is_empty() || done.iter().any(|(sent, _)| !sent.carried) {
            // They took effect, or may have, and their answers are lost.
            return self.end(cx);
        }
        if over {
            self.end_ahead(cx);
        }
        self.send_in_order(cx);
    }

    /// Ends a stream that is answered as a whole. Requests that had no effect are sent once more.
    fn end_ahead(&mut self, cx: &mut Context<'_>) {
        let Some(ahead) = self.ahead.take() else { return };
        let shards = ahead.shards().to_vec();
        let stream = ahead.id;
        let failed = ahead.into_failed();
        self.queue.ahead_bytes = 0;
        self.queue.alone = !failed.is_empty();
        for sent in failed.into_iter().rev() {
            self.queue.waiting.push_front(sent.request);
        }
        cx.core.end_stream(stream, &shards);
    }
}
