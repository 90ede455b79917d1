//! Connection of a client of the coordination service: its requests and their answers, the notices of
//! its watches, and the shards where its session is.

mod ahead;
mod plan;
mod queue;
mod scatter;

use super::request::{ClientRequest, Connect, MultiRequest, NumberedRequest, Purpose};
use crate::coordination::JointId;
use crate::coordination::service::Command;
use crate::coordination::spread::{HOME, Spread};
use crate::coordination::{
    Acl, Ask, Code, CoordinationAnswer, Identity, OfSession, Password, Reply, SessionNotice,
    TreeSessionId, WatchedEvent, Write, Zxid,
};
use crate::gateway::api::{CoordinationClient, Output, Said};
use crate::gateway::core::Core;
use crate::gateway::mail::Pending;
use crate::ids::ShardId;
use crate::limits::COORDINATION_REQUESTS_MAX;
use crate::message::Body;
pub(super) use ahead::Unanswered;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Connection of a client, with at most one session.
#[derive(Default)]
pub(super) struct Connection {
    identities: Vec<Identity>,
    /// The client's first message, until it is answered.
    connect: Option<Connect>,
    session: Option<TreeSessionId>,
    password: Password,
    timeout_ms: i32,
    /// The client was told that it has its session.
    is_on: bool,
    /// Requests without an answer to the client, the oldest first. Their numbers are consecutive.
    open: VecDeque<OpenRequest>,
    /// Requests without an answer that set watches again, with the last change of which the client has all
    /// notices.
    again: Vec<(u64, Zxid)>,
    /// Notices that follow the answers to some of those; mostly none.
    notices: Vec<LaterNotice>,
    /// Number of the next request.
    next: u64,
    /// Shards where the session is, shard 0 first.
    presences: Presences,
    /// The request that ends the session.
    ends: Option<u64>,
    closing: bool,
    queue: queue::SendQueue,
    joining: queue::Joining,
    /// The request that several shards answer now.
    scatter: Option<scatter::Scatter>,
    root_watches: scatter::RootWatches,
    /// Requests that were sent ahead.
    ahead: Option<Box<ahead::Ahead>>,
    /// The latest change that the client has seen on earlier connections, as it says.
    seen: Zxid,
    /// The number of joint `multi`s that this connection has tried.
    multis: u32,
}

/// Request that the client has no answer to.
struct OpenRequest {
    seq: u64,
    /// Answer that waits for those to earlier requests.
    ready: Option<ReadyAnswer>,
    /// Shards that have answered the request, while earlier requests or other shards have not.
    by: SmallVec<[ShardId; 1]>,
}

/// Fields of [`Said::Answered`].
struct ReadyAnswer {
    reply: Result<Reply, Code>,
    zxid: Zxid,
    at: Zxid,
}

/// Notice that follows the answer to a request.
struct LaterNotice {
    behind: u64,
    event: WatchedEvent,
    at: Zxid,
}

type Presences = SmallVec<[(ShardId, Presence); 1]>;

/// Presence of the session at a shard.
#[derive(Clone, Copy, Debug, Default)]
struct Presence {
    /// Number of notices that have come from the shard.
    notices: u64,
    /// The latest change at the shard that the client knows of.
    known: Zxid,
    /// The client may watch something there.
    watches: bool,
}

/// Surroundings of a connection while it handles an input.
pub(super) struct Context<'a> {
    /// Own name of the connection.
    pub client: CoordinationClient,
    pub core: &'a mut Core,
    pub spread: Spread,
    /// The session is moving to another connection of this gateway.
    pub is_leaving: bool,
    pub unanswered: &'a mut Unanswered,
    /// Joint `multi`s to be begun after the input.
    pub multis: &'a mut VecDeque<MultiRequest>,
}

impl Context<'_> {
    /// Sends a message to the client.
    pub fn say(&mut self, said: Said) {
        let client = self.client;
        self.core.mail.outputs.push_back(Output::Coordination { client, said });
    }
}

/// Time-out of a session whose client proposes one.
pub(super) fn granted(allowed: &RangeInclusive<i32>, proposed_ms: i32) -> i32 {
    proposed_ms.clamp(*allowed.start(), *allowed.end())
}

impl Connection {
    /// A connection from this address, without a session.
    pub fn new(address: Identity) -> Self {
        Self { identities: vec![address], ..Self::default() }
    }

    /// Identities that the client has proved.
    pub fn identities(&self) -> &[Identity] {
        &self.identities
    }

    /// The session of the connection.
    pub fn session(&self) -> Option<TreeSessionId> {
        self.session
    }

    /// The session that the client has asked to resume and has not got yet.
    pub fn resumes(&self) -> Option<TreeSessionId> {
        self.connect.as_ref().and_then(|connect| connect.session)
    }

    /// Whether nothing more is said to the client.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether so much is under way that nothing more should be read from the client.
    pub fn is_busy(&self) -> bool {
        !self.is_on && self.next > 0 || self.open.len() >= COORDINATION_REQUESTS_MAX
    }

    /// Shards where the session is, shard 0 first.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.presences.iter().map(|(shard, _)| *shard)
    }

    /// The latest change that the client knows of.
    pub fn known(&self) -> Zxid {
        self.presences.iter().map(|(_, presence)| presence.known).max().unwrap_or_default()
    }

    fn presence(&mut self, shard: ShardId) -> Option<&mut Presence> {
        self.presences.iter_mut().find(|(of, _)| *of == shard).map(|(_, presence)| presence)
    }

    fn is_at(&self, shard: ShardId) -> bool {
        self.shards().any(|of| of == shard)
    }

    /// Adds a shard to those where the session is, with the latest change there.
    fn add_presence(&mut self, shard: ShardId, known: Zxid) {
        self.presences.retain(|(of, _)| *of != shard);
        self.presences.push((shard, Presence { known, ..Presence::default() }));
    }

    /// Notes a change at a shard that the client learns of.
    fn hears(&mut self, shard: ShardId, zxid: Zxid) {
        if let Some(presence) = self.presence(shard) {
            presence.known = presence.known.max(zxid);
        }
    }

    /// Notes an answer of a shard as of a change; false if not all of the `notices` that the shard has
    /// sent before have come.
    fn hears_answer(&mut self, shard: ShardId, zxid: Zxid, notices: u64) -> bool {
        let is_whole = self.presence(shard).is_some_and(|presence| presence.notices == notices);
        if is_whole {
            self.hears(shard, zxid);
        }
        is_whole
    }

    /// Notes that the client may watch something at a shard once this request is answered.
    fn note_watching(&mut self, shard: ShardId, of: &OfSession) {
        let watches = matches!(of, OfSession::Read { watch: true, .. } | OfSession::Watch { .. });
        if let Some(presence) = self.presence(shard).filter(|_| watches) {
            presence.watches = true;
        }
    }

    /// The latest change up to which the client has got all notices of what it watches, once the request
    /// `answered` is answered.
    fn told_up_to(&self, answered: Option<u64>) -> Zxid {
        let watching = self.presences.iter().filter(|(_, presence)| presence.watches);
        let known = watching.map(|(_, presence)| presence.known).min();
        let known = known.unwrap_or_else(|| self.known());
        // A notice that waits has not been got. What a client missed before it set its watches again is
        // reported when that is answered; a large set comes in several requests.
        let waiting = self.notices.iter().map(|notice| Zxid(notice.at.0 - 1));
        let unanswered = self.again.iter().filter(|(seq, _)| Some(*seq) != answered);
        waiting.chain(unanswered.map(|(_, since)| *since)).fold(known, Zxid::min)
    }

    /// A request without an answer, by its number.
    fn open_request(&mut self, seq: u64) -> Option<&mut OpenRequest> {
        let at = seq.checked_sub(self.open.front()?.seq)?;
        self.open.get_mut(usize::try_from(at).ok()?)
    }

    /// Adds a request without an answer; returns its number.
    fn add_request(&mut self) -> u64 {
        let seq = self.next;
        self.next += 1;
        self.open.push_back(OpenRequest { seq, ready: None, by: SmallVec::new() });
        seq
    }

    /// The last request that a shard has answered and the client has no answer to, because earlier requests
    /// or other shards have not answered.
    fn last_answered_by(&self, shard: ShardId) -> Option<u64> {
        // Nothing else is answered out of order.
        let out_of_order = self.ahead.is_some() || self.queue.are_several_asked();
        let mut open = self.open.iter().rev().filter(|_| out_of_order);
        open.find(|request| request.by.contains(&shard)).map(|request| request.seq)
    }

    /// Takes the client's first message.
    pub fn begin(&mut self, connect: Connect) {
        self.password = connect.password;
        self.connect = Some(connect);
        self.add_request();
    }

    /// Asks shard 0 for the session that the client wants to open or resume.
    pub fn ask_for_session(&mut self, cx: &mut Context<'_>) {
        let Some(connect) = &self.connect else { return };
        let password = connect.password;
        let ask = match connect.session {
            Some(session) => Ask::Resume { session, password },
            None => {
                let timeout_ms = granted(&cx.core.config.session_timeout_ms, connect.timeout_ms);
                let write = Write::Open { timeout_ms, password };
                Ask::Write(Command::of(TreeSessionId::default(), write))
            }
        };
        self.ask_shard(cx, HOME, Purpose::Session, ask);
    }

    /// Takes the first message out, because shard 0 has answered it.
    pub fn take_connect(&mut self) -> Option<Connect> {
        let connect = self.connect.take()?;
        self.open.pop_front();
        Some(connect)
    }

    /// Gives the connection its session as of a change at shard 0.
    pub fn set_session(
        &mut self,
        (session, timeout_ms): (TreeSessionId, i32),
        zxid: Zxid,
        connect: &Connect,
    ) {
        (self.session, self.timeout_ms) = (Some(session), timeout_ms);
        self.add_presence(HOME, zxid);
        self.seen = connect.seen;
    }

    /// Lets the session enter the shards that it has joined before, then tells the client that it has it.
    pub fn enter(&mut self, cx: &mut Context<'_>, joined: Vec<ShardId>) {
        if joined.is_empty() { self.turn_on(cx) } else { self.join_shards(cx, joined) }
    }

    /// Tells the client that it has its session, which is at all shards that it has joined before.
    fn turn_on(&mut self, cx: &mut Context<'_>) {
        let Some(session) = self.session else { return };
        if self.known() < self.seen {
            // The client has seen a change that this cluster does not have.
            return self.end(cx);
        }
        self.is_on = true;
        let (timeout_ms, password) = (self.timeout_ms, self.password);
        cx.say(Said::Connected { session, timeout_ms, password });
    }

    /// Takes a request of the client; true if [`Self::send_in_order`] is to be called once everything that
    /// has come from clients was read.
    pub fn take(&mut self, cx: &mut Context<'_>, request: ClientRequest) -> bool {
        if self.closing || !self.is_on {
            return false;
        }
        let seq = self.add_request();
        self.again.extend(request.since().map(|since| (seq, since)));
        let known = self.known();
        match request {
            ClientRequest::Proved(identity) => {
                if !self.identities.contains(&identity) {
                    self.identities.push(identity);
                }
                self.answer(cx, seq, (known, Ok(Reply::Done)));
            }
            ClientRequest::Refused(code) => self.answer(cx, seq, (known, Err(code))),
            request => {
                let identities = match &request {
                    ClientRequest::Write(_) => self.identities.clone(),
                    _ => Vec::new(),
                };
                let request = NumberedRequest { seq, request, identities };
                if cx.spread.is_spread() || cx.is_leaving {
                    return self.enqueue(cx, request);
                }
                self.send_request(cx, HOME, request);
            }
        }
        false
    }

    /// Sends a request of the client to the shard that it concerns.
    fn send_request(&mut self, cx: &mut Context<'_>, shard: ShardId, request: NumberedRequest) {
        let NumberedRequest { seq, request, identities } = request;
        let Some(session) = self.session else { return };
        match &request {
            ClientRequest::Write(Write::Close) => self.ends = Some(seq),
            ClientRequest::Of(of) => self.note_watching(shard, of),
            _ => {}
        }
        let after = if cx.spread.is_spread() { self.known() } else { Zxid::default() };
        if let Some(ask) = request.into_ask(session, after, identities) {
            self.ask_shard(cx, shard, Purpose::Request(seq), ask);
        }
    }

    fn ask_shard(&mut self, cx: &mut Context<'_>, shard: ShardId, purpose: Purpose, ask: Ask) {
        if shard == HOME {
            self.queue.note_home(cx.core.now);
        }
        let pending = Pending::Coordination { client: cx.client.0, shard, purpose };
        cx.core.mail.ask(shard, pending, Body::Coordinate(Box::new(ask)));
    }

    /// Closes the connection: nothing more is said to the client.
    pub fn end(&mut self, cx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.closing, true) {
            cx.say(Said::Close);
        }
    }

    /// Handles the answer of a shard, unless it is about the session itself ([`Purpose::Session`]).
    pub fn shard_answered(
        &mut self,
        cx: &mut Context<'_>,
        shard: ShardId,
        purpose: Purpose,
        CoordinationAnswer { reply, zxid, notices }: CoordinationAnswer,
    ) {
        match purpose {
            Purpose::Enter if reply.is_ok() => return self.entered(cx, Some((shard, zxid))),
            Purpose::Enter if reply == Err(Code::SessionMoved) => return self.entered(cx, None),
            _ => {}
        }
        let moved = matches!(reply, Err(Code::SessionMoved));
        if moved || !self.hears_answer(shard, zxid, notices) {
            return self.end(cx);
        }
        match purpose {
            Purpose::Request(seq) => {
                self.answer(cx, seq, (zxid, reply));
                self.request_done(cx);
            }
            Purpose::Join => self.joined(cx, zxid, reply),
            Purpose::Part => self.part_answered(cx, shard, reply),
            Purpose::Session | Purpose::Enter => self.end(cx),
            Purpose::Aside => {}
        }
    }

    /// Name of the next try of a joint `multi`.
    pub fn next_multi(&mut self) -> JointId {
        self.multis += 1;
        JointId { joined: self.joining.joined, number: self.multis }
    }

    /// Notes a shard's answer about a joint `multi`, which is to this request if the shard has carried it
    /// out. Closes the connection if a notice of the shard was lost.
    pub fn hears_of_multi(
        &mut self,
        cx: &mut Context<'_>,
        shard: ShardId,
        (zxid, notices): (Zxid, u64),
        done: Option<u64>,
    ) {
        if !self.hears_answer(shard, zxid, notices) {
            return self.end(cx);
        }
        if let Some(request) = done.and_then(|seq| self.open_request(seq)) {
            request.by.push(shard);
        }
        if shard == HOME {
            self.queue.note_home(cx.core.now);
        }
    }

    /// Answers a request of the client, after those before it.
    pub fn answer(&mut self, cx: &mut Context<'_>, seq: u64, answer: (Zxid, Result<Reply, Code>)) {
        self.answer_by(cx, seq, None, answer);
    }

    /// Answers a request of the client, after those before it, which may have no answers from other shards
    /// yet.
    fn answer_by(
        &mut self,
        cx: &mut Context<'_>,
        seq: u64,
        by: Option<ShardId>,
        (at, reply): (Zxid, Result<Reply, Code>),
    ) {
        let zxid = self.told_up_to(Some(seq));
        if let Some(request) = self.open_request(seq) {
            request.ready = Some(ReadyAnswer { reply, zxid, at });
            request.by.extend(by);
        }
        while self.open.front().is_some_and(|request| request.ready.is_some())
            && let told = self.told_up_to(self.open.front().map(|request| request.seq))
            && let Some(OpenRequest { seq, ready: Some(ready), .. }) = self.open.pop_front()
        {
            self.again.retain(|(again, _)| *again != seq);
            let ReadyAnswer { reply, zxid, at } = ready;
            let zxid = zxid.min(told);
            let notices: Vec<LaterNotice> =
                self.notices.extract_if(.., |notice| notice.behind == seq).collect();
            let ended = self.ends == Some(seq)
                || matches!(
                    reply,
                    Err(Code::SessionExpired | Code::AuthFailed | Code::Unimplemented)
                );
            cx.say(Said::Answered { reply, zxid, at });
            if ended {
                return self.end(cx);
            }
            for LaterNotice { event, at, .. } in notices {
                cx.say(Said::Happened { event, zxid, at });
            }
        }
    }

    /// Tells the client of a change at a shard, behind the answers that the shard has given before.
    fn notify(&mut self, cx: &mut Context<'_>, shard: ShardId, event: WatchedEvent, at: Zxid) {
        if let Some(behind) = self.last_answered_by(shard) {
            return self.notices.push(LaterNotice { behind, event, at });
        }
        let zxid = self.told_up_to(None);
        cx.say(Said::Happened { event, zxid, at });
    }

    /// Handles a shard's notice to the session.
    pub fn shard_told(&mut self, cx: &mut Context<'_>, shard: ShardId, notice: SessionNotice) {
        let Some(presence) = self.presence(shard) else { return };
        if matches!(notice, SessionNotice::Happened(..)) && !presence.watches {
            // From an earlier leader, or for the connection that had the session before this one.
            return;
        }
        let notices_before = presence.notices;
        presence.notices += 1;
        match notice {
            SessionNotice::Carried { stream, seq, answered } if !self.closing => {
                if answered.notices != notices_before {
                    return self.end(cx);
                }
                self.ahead_carried(cx, shard, (stream, seq), *answered);
            }
            SessionNotice::Carried { .. } => {}
            SessionNotice::Happened(event, zxid, rules)
                if !self.closing && rules.allow(Acl::READ, &self.identities) =>
            {
                self.hears(shard, zxid);
                if self.passes_on(cx, shard, &event, zxid) {
                    self.notify(cx, shard, event, zxid);
                }
            }
            SessionNotice::Happened(..) => {}
            SessionNotice::Moved | SessionNotice::Ended => self.end(cx),
        }
    }
}
