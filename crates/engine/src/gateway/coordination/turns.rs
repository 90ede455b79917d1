//! Requests of a client in a tree that is spread, in the order in which it asks. What goes to one shard is
//! sent without waiting; what goes to several, as a stream ([`super::ahead`]). What can be no unit of a
//! stream, and whatever goes to another shard where there are no streams, is sent when all before it is
//! answered.

use super::super::Gateway;
use super::several::Plan;
use super::{Asked, Client, CoordinationClient, Errand};
use crate::coordination::service::Command;
use crate::coordination::spread::{HOME, Step};
use crate::coordination::{Ask, Code, Identity, OfSession, Reply, Write, Zxid};
use crate::level::Level;
use crate::message::{Now, ShardId};
use std::collections::VecDeque;

/// A request, and who its client was when it asked, as far as that was proved.
pub(super) type Waiting = (u64, Asked, Vec<Identity>);

/// What a client has asked and what has not been sent.
#[derive(Default)]
pub(super) struct Turns {
    pub waiting: VecDeque<Waiting>,
    /// Some of that has come since something was sent.
    asked: bool,
    /// How many requests are open that were not sent ahead, and at which shard, if it is one.
    pub open: usize,
    at: Option<ShardId>,
    /// Shards that it has joined and not entered yet.
    entering: Vec<ShardId>,
    /// How many of them have not answered.
    asked_to_enter: usize,
    /// About how large all is that was sent ahead, in bytes.
    pub ahead_bytes: usize,
    /// The next request is sent by itself: it had no effect when it was sent ahead.
    pub alone: bool,
    /// When shard 0 was asked anything the last time, in monotonic microseconds.
    home_us: u64,
    /// The number of the change with which its session has joined others, and how many `multi`s over several
    /// of them it has tried since it came.
    pub joined: Zxid,
    pub joints: u32,
    /// The latest change that it has seen on earlier connections, as it says.
    pub seen: Zxid,
}

impl Turns {
    /// Shard 0 hears of the session.
    pub fn home_heard(&mut self, now: Now) {
        self.home_us = now.mono_us;
    }

    /// Whether something is under way that several shards answer, and nothing else.
    pub fn are_several_asked(&self) -> bool {
        self.open > 0 && self.at.is_none()
    }

    fn lets(&self, shard: Option<ShardId>) -> bool {
        self.open == 0 || (shard.is_some() && self.at == shard)
    }
}

impl Gateway {
    /// A client has asked something.
    pub(super) fn take_turn(&mut self, id: CoordinationClient, seq: u64, asked: Asked) {
        let now = self.core.now;
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let waiting = client.request(seq, asked);
        client.turns.waiting.push_back(waiting);
        if !std::mem::replace(&mut client.turns.asked, true) {
            // It is sent when all that is there was read.
            self.clients.asking.push(id);
        }
        // Shard 0 alone decides that a session was silent for too long.
        let silent_us = now.mono_us.saturating_sub(client.turns.home_us);
        let often_us = u64::from(client.timeout_ms.unsigned_abs()) * 1000 / 6;
        let session = client.session;
        if let Some(session) = session.filter(|_| silent_us > often_us) {
            self.ask_shard(id, HOME, Errand::Aside, Ask::Of(session, OfSession::Ping));
        }
    }

    /// Sends what need not wait any more.
    pub(super) fn send_in_turn(&mut self, id: CoordinationClient) {
        let (spread, joint) = (self.spread(), self.core.all_understand(Level::JOINT));
        if let Some(client) = self.clients.clients.get_mut(id.0) {
            client.turns.asked = false;
        }
        if self.is_being_left(id) {
            return;
        }
        // Behind the end of a session nothing more comes.
        let goes_on = |client: &Client| client.ends.is_none() && !client.closing;
        while self.clients.clients.get(id.0).is_some_and(goes_on)
            && !self.send_ahead(id)
            && let Some(client) = self.clients.clients.get_mut(id.0)
            && let Some((_, asked, _)) = client.turns.waiting.front()
        {
            let at = client.parts.iter().map(|(shard, _)| *shard);
            let plan = match Plan::of(spread, asked, at) {
                Plan::Joint(_) if !joint => Plan::Refused(Code::BadArguments),
                plan => plan,
            };
            let one = match &plan {
                Plan::One(shard) => Some(*shard),
                _ => None,
            };
            if !client.turns.lets(one) {
                return;
            }
            let missing: Vec<ShardId> =
                plan.shards().iter().copied().filter(|shard| !client.is_at(*shard)).collect();
            if !missing.is_empty() {
                if client.turns.open == 0 {
                    self.join_shards(id, missing);
                }
                return;
            }
            let Some((seq, asked, identities)) = client.turns.waiting.pop_front() else { return };
            let known = client.known();
            match plan {
                Plan::Refused(code) => self.client_answered(id, seq, known, Err(code)),
                Plan::One(shard) => {
                    client.turns.open += 1;
                    client.turns.at = Some(shard);
                    self.send_request(id, shard, (seq, asked, identities));
                }
                Plan::Several(parts) => {
                    client.turns.open += 1;
                    client.turns.at = None;
                    self.ask_several(id, seq, asked, parts);
                }
                Plan::Joint(places) => {
                    client.turns.open += 1;
                    client.turns.at = None;
                    self.ask_jointly(id, (seq, asked, identities), places);
                }
            }
        }
    }

    /// A request is answered.
    pub(super) fn turn_over(&mut self, id: CoordinationClient) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        client.turns.open = client.turns.open.saturating_sub(1);
        if !client.turns.waiting.is_empty() {
            self.send_in_turn(id);
        }
    }

    /// A session is about to enter shards: shard 0 has to know before.
    pub(super) fn join_shards(&mut self, id: CoordinationClient, shards: Vec<ShardId>) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(session) = client.session.filter(|_| client.turns.entering.is_empty()) else {
            return;
        };
        client.turns.entering = shards.clone();
        let command = Command::of(session, Write::Spread(Step::Join(shards)));
        self.ask_shard(id, HOME, Errand::Join, Ask::Write(command));
    }

    /// Shard 0 knows that a session enters others, since this change.
    pub(super) fn joined(
        &mut self,
        id: CoordinationClient,
        joined: Zxid,
        reply: Result<Reply, Code>,
    ) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(session) = client.session else { return };
        if let Err(code) = reply {
            return match client.turns.waiting.pop_front() {
                Some((seq, ..)) => self.client_answered(id, seq, joined, Err(code)),
                None => self.end_client(id),
            };
        }
        let (timeout_ms, password) = (client.timeout_ms, client.password);
        client.turns.asked_to_enter = client.turns.entering.len();
        client.turns.joined = joined;
        for shard in client.turns.entering.clone() {
            let enter = Step::Enter { timeout_ms, password, joined };
            let ask = Ask::Write(Command::of(session, Write::Spread(enter)));
            self.ask_shard(id, shard, Errand::Enter, ask);
        }
    }

    /// A session is at a shard, or was refused there: others have ended since it has joined, and it joins
    /// once more. If it was brought to another gateway, shard 0 says so.
    pub(super) fn entered(&mut self, id: CoordinationClient, entered: Option<(ShardId, Zxid)>) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        if let Some((shard, known)) = entered {
            client.comes_to(shard, known);
            client.turns.entering.retain(|of| *of != shard);
        }
        client.turns.asked_to_enter = client.turns.asked_to_enter.saturating_sub(1);
        if client.turns.asked_to_enter > 0 {
            return;
        }
        if !client.turns.entering.is_empty() {
            let again = std::mem::take(&mut client.turns.entering);
            return self.join_shards(id, again);
        }
        if client.is_on { self.send_in_turn(id) } else { self.client_is_on(id) }
    }
}
