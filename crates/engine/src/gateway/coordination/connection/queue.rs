//! Requests of a client of a spread tree, sent in the order in which the client issues them.
//!
//! Requests to one shard are sent without waiting for answers; requests to several shards, as a stream
//! ([`super::ahead`]). A request that cannot be a unit of a stream, and any request to another shard if
//! there are no streams, waits until all requests before it are answered.

use super::plan::Plan;
use super::{Connection, Context};
use crate::coordination::SpreadStep;
use crate::coordination::service::Command;
use crate::coordination::spread::HOME;
use crate::coordination::{Ask, Code, OfSession, Reply, Write, Zxid};
use crate::gateway::coordination::request::{
    ClientRequest, MultiRequest, NumberedRequest, Purpose,
};
use crate::ids::ShardId;
use crate::now::Now;
use std::collections::VecDeque;

/// Requests that are not sent, and facts about the sent ones that decide when the next is sent.
#[derive(Default)]
pub(super) struct SendQueue {
    pub waiting: VecDeque<NumberedRequest>,
    /// Requests have come since some were sent.
    is_fresh: bool,
    /// Number of requests without an answer that were not sent ahead.
    pub open: usize,
    /// Shard of the open requests, if it is a single one.
    at: Option<ShardId>,
    /// Approximate size of all requests that were sent ahead, in bytes.
    pub ahead_bytes: usize,
    /// The next request is sent by itself, because it had no effect when it was sent ahead.
    pub alone: bool,
    /// When shard 0 was asked anything last, in monotonic microseconds.
    home_us: u64,
}

/// Progress of the session in entering shards besides shard 0.
#[derive(Default)]
pub(super) struct Joining {
    /// Number of the change with which the session has joined other shards.
    pub joined: Zxid,
    /// Shards that the session has joined and not entered yet.
    entering: Vec<ShardId>,
    /// Number of them that have not answered.
    unanswered: usize,
}

impl SendQueue {
    /// Notes that shard 0 hears of the session.
    pub fn note_home(&mut self, now: Now) {
        self.home_us = now.mono_us;
    }

    /// Whether a request that several shards answer is under way, and nothing else.
    pub fn are_several_asked(&self) -> bool {
        self.open > 0 && self.at.is_none()
    }

    /// Whether a request to this shard alone, or to several shards, can be sent now.
    fn admits(&self, shard: Option<ShardId>) -> bool {
        self.open == 0 || (shard.is_some() && self.at == shard)
    }
}

impl Connection {
    /// Adds a request behind the others; true if it is the first since some were sent.
    pub(super) fn enqueue(&mut self, cx: &mut Context<'_>, request: NumberedRequest) -> bool {
        let now = cx.core.now;
        self.queue.waiting.push_back(request);
        let first = !std::mem::replace(&mut self.queue.is_fresh, true);
        // Shard 0 alone decides that a session was silent for too long.
        let silent_us = now.mono_us.saturating_sub(self.queue.home_us);
        let often_us = u64::from(self.timeout_ms.unsigned_abs()) * 1000 / 6;
        if let Some(session) = self.session.filter(|_| silent_us > often_us) {
            self.ask_shard(cx, HOME, Purpose::Aside, Ask::Of(session, OfSession::Ping));
        }
        first
    }

    /// Sends the requests that need not wait any longer.
    pub fn send_in_order(&mut self, cx: &mut Context<'_>) {
        self.queue.is_fresh = false;
        if cx.is_leaving {
            return;
        }
        // Nothing is sent behind the end of the session.
        while self.ends.is_none()
            && !self.closing
            && !self.send_ahead(cx)
            && let Some(next) = self.queue.waiting.front()
        {
            let plan = Plan::of(cx.spread, &next.request, self.shards());
            let one = match &plan {
                Plan::One(shard) => Some(*shard),
                _ => None,
            };
            if !self.queue.admits(one) {
                return;
            }
            let missing: Vec<ShardId> =
                plan.shards().iter().copied().filter(|shard| !self.is_at(*shard)).collect();
            if !missing.is_empty() {
                if self.queue.open == 0 {
                    self.join_shards(cx, missing);
                }
                return;
            }
            let Some(next) = self.queue.waiting.pop_front() else { return };
            if let Plan::Refused(code) = plan {
                let known = self.known();
                self.answer(cx, next.seq, (known, Err(code)));
                continue;
            }
            self.queue.open += 1;
            self.queue.at = one;
            match plan {
                Plan::Refused(_) => {}
                Plan::One(shard) => self.send_request(cx, shard, next),
                Plan::Several(parts) => self.scatter(cx, next, parts),
                Plan::Joint(places) => {
                    let NumberedRequest { seq, request, identities } = next;
                    if let (ClientRequest::Write(write), Some(session)) = (request, self.session) {
                        let client = cx.client;
                        let multi =
                            MultiRequest { client, session, seq, write, identities, places };
                        cx.multis.push_back(multi);
                    }
                }
            }
        }
    }

    /// Notes that a request was answered that was not sent ahead.
    pub fn request_done(&mut self, cx: &mut Context<'_>) {
        self.queue.open = self.queue.open.saturating_sub(1);
        if !self.queue.waiting.is_empty() {
            self.send_in_order(cx);
        }
    }

    /// Tells shard 0 that the session is about to enter other shards, which has to know it before.
    pub(super) fn join_shards(&mut self, cx: &mut Context<'_>, shards: Vec<ShardId>) {
        let Some(session) = self.session.filter(|_| self.joining.entering.is_empty()) else {
            return;
        };
        self.joining.entering = shards.clone();
        let command = Command::of(session, Write::Spread(SpreadStep::Join(shards)));
        self.ask_shard(cx, HOME, Purpose::Join, Ask::Write(command));
    }

    /// Enters the shards that the session has joined with this change at shard 0.
    pub(super) fn joined(
        &mut self,
        cx: &mut Context<'_>,
        joined: Zxid,
        reply: Result<Reply, Code>,
    ) {
        let Some(session) = self.session else { return };
        if let Err(code) = reply {
            return match self.queue.waiting.pop_front() {
                Some(NumberedRequest { seq, .. }) => self.answer(cx, seq, (joined, Err(code))),
                None => self.end(cx),
            };
        }
        let (timeout_ms, password) = (self.timeout_ms, self.password);
        self.joining.unanswered = self.joining.entering.len();
        self.joining.joined = joined;
        for shard in self.joining.entering.clone() {
            let enter = SpreadStep::Enter { timeout_ms, password, joined };
            let ask = Ask::Write(Command::of(session, Write::Spread(enter)));
            self.ask_shard(cx, shard, Purpose::Enter, ask);
        }
    }

    /// Handles a shard's answer to the entry of the session. None if the shard has refused it, because
    /// other sessions have ended since this one has joined: then the session joins once more. If it has
    /// moved to another gateway, shard 0 says so then.
    pub(super) fn entered(&mut self, cx: &mut Context<'_>, entered: Option<(ShardId, Zxid)>) {
        if let Some((shard, known)) = entered {
            self.add_presence(shard, known);
            self.joining.entering.retain(|of| *of != shard);
        }
        self.joining.unanswered = self.joining.unanswered.saturating_sub(1);
        if self.joining.unanswered > 0 {
            return;
        }
        if !self.joining.entering.is_empty() {
            let again = std::mem::take(&mut self.joining.entering);
            return self.join_shards(cx, again);
        }
        if self.is_on { self.send_in_order(cx) } else { self.turn_on(cx) }
    }
}
