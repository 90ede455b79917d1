//! What a client of a tree that is spread sends ahead to several shards: as a stream, whose units keep their
//! order without waiting for each other (see [`crate::pipeline`]).
//!
//! Each is answered by itself when it is carried out, by a notice; the answer to a group says that there will
//! be no more. If something has had no effect, nothing has that was sent while it was open. Then the first of
//! these is sent by itself, and whatever is wrong with it is known from its answer.

use super::super::Gateway;
use super::super::api::Order;
use super::super::mail::Pending;
use super::several::Plan;
use super::turns::Waiting;
use super::{Asked, Client, CoordinationClient};
use crate::coordination::spread::{HOME, Spread};
use crate::coordination::{Answered, Ask, Change, SessionId, Write};
use crate::gateway::pipelines::stream::{Settled, Stream};
use crate::level::Level;
use crate::limits::{AHEAD_BYTES_MAX, WINDOW_UNITS_MAX};
use crate::message::{Answer, Body, ShardId};
use crate::pipeline::{StreamId, Unit};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A request in a stream.
#[derive(Debug)]
pub(super) struct Sent {
    waiting: Waiting,
    /// It is carried out.
    carried: bool,
}

/// Who has sent a group.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sender {
    client: CoordinationClient,
    session: SessionId,
}

pub(super) type Ahead = Stream<Sent>;

/// Sessions of which this gateway has sent something ahead that is not answered: how many groups, and which
/// connections wait for that because they are to be theirs. What an earlier connection has sent must not
/// come behind what a later one says first.
#[derive(Default)]
pub(super) struct Unanswered {
    of: BTreeMap<SessionId, (usize, Vec<CoordinationClient>)>,
}

impl Unanswered {
    fn sent(&mut self, session: SessionId) {
        self.of.entry(session).or_default().0 += 1;
    }

    /// One is answered; gives who has waited, if there are no more.
    fn answered(&mut self, session: SessionId) -> Vec<CoordinationClient> {
        let Some((groups, _)) = self.of.get_mut(&session) else { return Vec::new() };
        *groups -= 1;
        let over = *groups == 0;
        let ended = over.then(|| self.of.remove(&session)).flatten();
        ended.map(|(_, waiting)| waiting).unwrap_or_default()
    }

    /// Whether a connection has to wait before it becomes a session's.
    pub fn await_them(&mut self, session: SessionId, client: CoordinationClient) -> bool {
        let of = self.of.get_mut(&session);
        of.map(|(_, waiting)| waiting.push(client)).is_some()
    }
}

/// About how large a request is, in bytes.
fn weight(asked: &Asked) -> usize {
    let of = |change: &Change| {
        let data = match change {
            Change::Create(create) => create.data.as_ref(),
            Change::SetData { data, .. } => data.as_ref(),
            _ => None,
        };
        change.path().len() + data.map_or(0, |data| data.len())
    };
    match asked {
        Asked::Write(Write::Change(change)) => of(change),
        Asked::Write(Write::Multi(changes)) => changes.iter().map(of).sum(),
        _ => 0,
    }
}

impl Client {
    /// The shards of what can be sent ahead now, in the order of the requests; none if it is better to wait
    /// for room, or if it can be sent as it is.
    fn next_ahead(&self, spread: Spread) -> Vec<ShardId> {
        let waiting = &self.turns.waiting;
        let room = self.ahead.as_ref().map_or(WINDOW_UNITS_MAX, |ahead| ahead.room());
        // Each part of a stream names all that is in flight: many small ones cost more than a few.
        if room < waiting.len().min(WINDOW_UNITS_MAX / 2) {
            return Vec::new();
        }
        let mut bytes = self.turns.ahead_bytes;
        let home = |(_, asked, _): &Waiting| {
            bytes += weight(asked);
            if bytes > AHEAD_BYTES_MAX || !asked.touches().has_place() {
                return None;
            }
            match Plan::of(spread, asked, std::iter::empty()) {
                Plan::One(shard) if self.is_at(shard) => Some(shard),
                _ => None,
            }
        };
        let homes: Vec<ShardId> = waiting.iter().take(room).map_while(home).collect();
        let several = homes.iter().any(|home| Some(home) != homes.first());
        if several || self.ahead.is_some() { homes } else { Vec::new() }
    }
}

impl Gateway {
    /// Whether what goes to several shards of a tree can be sent without waiting.
    fn sends_ahead(&self) -> bool {
        self.core.config.order == Order::Constant && self.core.all_understand(Level::STREAMED)
    }

    /// Sends ahead what can be; tells whether a stream is under way, to which nothing else can be added now.
    pub(super) fn send_ahead(&mut self, id: CoordinationClient) -> bool {
        let (spread, sends_ahead) = (self.spread(), self.sends_ahead());
        let Some(client) = self.clients.clients.get_mut(id.0) else { return false };
        match &client.ahead {
            Some(ahead) if ahead.failed => return true,
            Some(_) => {}
            None if client.turns.open > 0 || !sends_ahead => return false,
            None if std::mem::take(&mut client.turns.alone) => return false,
            None => {}
        }
        let homes = client.next_ahead(spread);
        let Some(session) = client.session.filter(|_| !homes.is_empty()) else {
            return client.ahead.is_some();
        };
        self.issue_ahead(id, session, homes);
        true
    }

    fn issue_ahead(&mut self, id: CoordinationClient, session: SessionId, homes: Vec<ShardId>) {
        let (age, now) = (self.new_age(), self.core.now);
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let after = client.known();
        let requests: Vec<Waiting> = client.turns.waiting.drain(..homes.len()).collect();
        let mut batch = Vec::with_capacity(homes.len());
        for (shard, waiting) in homes.into_iter().zip(requests) {
            client.turns.ahead_bytes += weight(&waiting.1);
            if let Asked::Of(of) = &waiting.1 {
                client.note_watching(shard, of);
            }
            if shard == HOME {
                client.turns.home_heard(now);
            }
            batch.push((shard, Sent { waiting, carried: false }));
        }
        let ahead = client.ahead.get_or_insert_with(|| Box::new(Stream::new(StreamId(age))));
        let stream = ahead.id;
        let unit = |Sent { waiting: (_, asked, identities), .. }: &Sent| {
            let mut ask = asked.clone().into_ask(session, after, identities.clone());
            if let Some(Ask::Write(command)) = &mut ask {
                command.quotas = true;
            }
            let (ops, ask) = (asked.touches().tickets(), ask.map(Box::new));
            Unit { ops, ask, ..Unit::default() }
        };
        for (shard, group) in ahead.issue(batch, false, unit) {
            self.clients.unanswered.sent(session);
            let sender = Sender { client: id, session };
            let (first, count) = (group.first(), group.units.len() as u32);
            let pending = Pending::Ahead { sender, stream, first, count, shard };
            self.core.mail.ask(shard, pending, Body::Pipeline(Arc::new(group)));
        }
    }

    /// A request that was sent ahead is carried out.
    pub(super) fn ahead_carried(
        &mut self,
        id: CoordinationClient,
        shard: ShardId,
        (stream, seq): (StreamId, u32),
        answered: Answered,
    ) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Answered { reply, zxid, .. } = answered;
        client.hears(shard, zxid);
        let ahead = client.ahead.as_mut().filter(|ahead| ahead.id == stream);
        let sent = ahead.and_then(|ahead| ahead.get_mut(seq)).filter(|sent| !sent.carried);
        let Some(sent) = sent else { return };
        sent.carried = true;
        let request = sent.waiting.0;
        self.client_answered_by(id, request, Some(shard), (zxid, reply));
    }

    /// A shard says what became of a group.
    pub(in super::super) fn ahead_answered(
        &mut self,
        Sender { client: id, session }: Sender,
        stream: StreamId,
        (first, count): (u32, u32),
        shard: ShardId,
        answer: Answer,
    ) {
        for waiting in self.clients.unanswered.answered(session) {
            self.ask_for_session(waiting);
        }
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(ahead) = client.ahead.as_mut().filter(|ahead| ahead.id == stream) else { return };
        let Settled { done, lost } = ahead.answered(first, shard, count, answer);
        let over = ahead.is_over();
        let weights = done.iter().map(|(sent, _)| weight(&sent.waiting.1));
        client.turns.ahead_bytes = client.turns.ahead_bytes.saturating_sub(weights.sum());
        if !lost.is_empty() || done.iter().any(|(sent, _)| !sent.carried) {
            // They took effect, or nobody knows, and what they have answered is lost.
            return self.end_client(id);
        }
        if over {
            self.end_ahead(id);
        }
        self.send_in_turn(id);
    }

    /// All of what was sent ahead is answered; what has had no effect is sent once more.
    fn end_ahead(&mut self, id: CoordinationClient) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(ahead) = client.ahead.take() else { return };
        let shards = ahead.shards().to_vec();
        let stream = ahead.id;
        let failed = ahead.into_failed();
        client.turns.ahead_bytes = 0;
        client.turns.alone = !failed.is_empty();
        for sent in failed.into_iter().rev() {
            client.turns.waiting.push_front(sent.waiting);
        }
        self.core.end_stream(stream, &shards);
    }
}
