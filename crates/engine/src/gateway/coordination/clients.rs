//! Connections of all clients of the coordination service, and which of them has which session.

use super::connection::{Connection, Context, Unanswered, granted};
use super::request::{ClientRequest, Connect, MultiRequest, Purpose, Sender};
use crate::coordination::JointId;
use crate::coordination::SpreadStep;
use crate::coordination::service::Command;
use crate::coordination::spread::{HOME, Spread};
use crate::coordination::{
    Ask, Code, CoordinationAnswer, Identity, Reply, SessionNotice, TreeSessionId, Write, Zxid,
};
use crate::gateway::api::{CoordinationClient, Said};
use crate::gateway::core::Core;
use crate::gateway::mail::Pending;
use crate::gateway::slab::Slab;
use crate::ids::{ShardId, StreamId};
use crate::message::{Answer, Body};
use std::collections::{BTreeMap, VecDeque};

/// All clients of a gateway.
#[derive(Default)]
pub(super) struct Clients {
    connections: Slab<Connection>,
    /// Connections that have sessions.
    by_session: BTreeMap<TreeSessionId, u64>,
    /// Sessions that clients resume, with the last connection that tries.
    resuming: BTreeMap<TreeSessionId, u64>,
    /// Number of shards of the tree, once it is known.
    spread: Option<Spread>,
    asks_for_spread: bool,
    /// Connections that wait for that number.
    early: Vec<u64>,
    /// Connections with requests to be sent once everything that has come was read.
    asking: Vec<CoordinationClient>,
    unanswered: Unanswered,
    /// Joint `multi`s to be begun.
    multis: VecDeque<MultiRequest>,
}

impl Clients {
    /// Adds a connection from this address.
    pub fn came(&mut self, address: Identity) -> CoordinationClient {
        CoordinationClient(self.connections.insert(Connection::new(address)))
    }

    /// Removes a connection. Its session stays, without watches.
    pub fn left(&mut self, core: &mut Core, id: CoordinationClient) {
        let Some(connection) = self.connections.remove(id.0) else { return };
        if let Some(session) = connection.resumes()
            && self.resuming.get(&session) == Some(&id.0)
        {
            self.resuming.remove(&session);
            self.stays(core, session);
        }
        if let Some(session) = connection.session()
            && self.by_session.get(&session) == Some(&id.0)
        {
            self.by_session.remove(&session);
            if self.resuming.contains_key(&session) {
                // The session is moving to another connection of this gateway, which must not lose it.
                return;
            }
            for shard in connection.shards() {
                core.mail.tell(shard, Body::Coordinate(Box::new(Ask::Leave(session))));
            }
        }
    }

    /// Takes a client's first message. Answer: [`Said::Connected`] or [`Said::Expired`].
    pub fn connects(&mut self, core: &mut Core, id: CoordinationClient, connect: Connect) {
        let Some(connection) = self.connections.get_mut(id.0) else { return };
        connection.begin(connect);
        if self.spread.is_some() {
            return self.ask_for_session(core, id);
        }
        self.early.push(id.0);
        self.ask_for_spread(core);
    }

    fn ask_for_spread(&mut self, core: &mut Core) {
        if std::mem::replace(&mut self.asks_for_spread, true) {
            return;
        }
        let over = SpreadStep::Over(Spread::over(core.config.tree_shards));
        let command = Command::of(TreeSessionId::default(), Write::Spread(over));
        let body = Body::Coordinate(Box::new(Ask::Write(command)));
        core.mail.ask(HOME, Pending::Spread, body);
    }

    /// Learns the number of the tree's shards, which never changes.
    pub fn spread_known(&mut self, core: &mut Core, answer: Answer) {
        let number = match answer {
            Answer::Coordinated(answered) => match answered.reply {
                Ok(Reply::Number(shards)) => u16::try_from(shards).ok(),
                _ => None,
            },
            _ => None,
        };
        self.spread = number.map(Spread::over);
        self.asks_for_spread = false;
        if self.spread().is_spread() {
            // Clients that came before have asked shard 0 for everything.
            for client in self.by_session.values().copied().collect::<Vec<_>>() {
                self.end(core, CoordinationClient(client));
            }
        }
        for client in std::mem::take(&mut self.early) {
            match number {
                Some(_) => self.ask_for_session(core, CoordinationClient(client)),
                None => self.end(core, CoordinationClient(client)),
            }
        }
    }

    fn ask_for_session(&mut self, core: &mut Core, id: CoordinationClient) {
        let Some(connection) = self.connections.get(id.0) else { return };
        if let Some(session) = connection.resumes() {
            self.resuming.insert(session, id.0);
            if self.unanswered.await_them(session, id) {
                return;
            }
        }
        if let Some((connection, mut cx)) = self.at(core, id) {
            connection.ask_for_session(&mut cx);
        }
    }

    /// Takes a request of a client that has a session. Answer: [`Said::Answered`], in the order of the
    /// requests.
    pub fn asks(&mut self, core: &mut Core, id: CoordinationClient, request: ClientRequest) {
        let Some((connection, mut cx)) = self.at(core, id) else { return };
        if connection.take(&mut cx, request) {
            self.asking.push(id);
        }
    }

    /// Whether connections have requests to be sent.
    pub fn have_requests(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Takes the connections that have requests to be sent.
    pub fn take_asking(&mut self) -> Vec<CoordinationClient> {
        std::mem::take(&mut self.asking)
    }

    /// Sends a connection's requests that need not wait.
    pub fn send(&mut self, core: &mut Core, id: CoordinationClient) {
        if let Some((connection, mut cx)) = self.at(core, id) {
            connection.send_in_order(&mut cx);
        }
    }

    /// Takes the next joint `multi` to be begun.
    pub fn next_multi_request(&mut self) -> Option<MultiRequest> {
        self.multis.pop_front()
    }

    /// A connection with its surroundings.
    fn at<'a>(
        &'a mut self,
        core: &'a mut Core,
        id: CoordinationClient,
    ) -> Option<(&'a mut Connection, Context<'a>)> {
        let (spread, is_leaving) = (self.spread(), self.is_leaving(id));
        let connection = self.connections.get_mut(id.0)?;
        let (unanswered, multis) = (&mut self.unanswered, &mut self.multis);
        Some((connection, Context { client: id, core, spread, is_leaving, unanswered, multis }))
    }

    /// Whether the session of a connection is moving to another connection of this gateway. Requests that
    /// are sent from now on would arrive behind the first message of that one, as if they were its own.
    pub fn is_leaving(&self, id: CoordinationClient) -> bool {
        let session = self.connections.get(id.0).and_then(Connection::session);
        let resuming = session.and_then(|session| self.resuming.get(&session));
        resuming.is_some_and(|resuming| *resuming != id.0)
    }

    /// Lets the present connection of a session go on, because the session does not move to another one.
    fn stays(&mut self, core: &mut Core, session: TreeSessionId) {
        if let Some(client) = self.by_session.get(&session) {
            self.send(core, CoordinationClient(*client));
        }
    }

    fn spread(&self) -> Spread {
        self.spread.unwrap_or_default()
    }

    /// Identities that a client has proved.
    pub fn identities(&self, id: CoordinationClient) -> &[Identity] {
        self.connections.get(id.0).map_or(&[], Connection::identities)
    }

    /// Whether so much of a client is under way that nothing more should be read from it.
    pub fn is_busy(&self, id: CoordinationClient) -> bool {
        self.connections.get(id.0).is_some_and(Connection::is_busy)
    }

    /// Closes a connection: nothing more is said to the client.
    pub fn end(&mut self, core: &mut Core, id: CoordinationClient) {
        if let Some((connection, mut cx)) = self.at(core, id) {
            connection.end(&mut cx);
        }
    }

    /// Handles a shard's answer to a request on behalf of a client.
    pub fn shard_answered(
        &mut self,
        core: &mut Core,
        id: CoordinationClient,
        (shard, purpose): (ShardId, Purpose),
        answer: Answer,
    ) {
        let Answer::Coordinated(answered) = answer else {
            // Whether the request took effect is unknown, of which a closed connection informs ZooKeeper's
            // clients.
            return self.end(core, id);
        };
        let Some((connection, mut cx)) = self.at(core, id) else { return };
        if connection.is_closing() {
            return;
        }
        match purpose {
            Purpose::Session => self.session_answered(core, id, answered.reply, answered.zxid),
            _ => connection.shard_answered(&mut cx, shard, purpose, *answered),
        }
    }

    /// Handles shard 0's answer to the request for a session.
    fn session_answered(
        &mut self,
        core: &mut Core,
        id: CoordinationClient,
        reply: Result<Reply, Code>,
        zxid: Zxid,
    ) {
        let Some(connection) = self.connections.get_mut(id.0) else { return };
        let Some(connect) = connection.take_connect() else { return };
        if let Some(session) = connect.session
            && self.resuming.get(&session) == Some(&id.0)
        {
            self.resuming.remove(&session);
        }
        let granted = granted(&core.config.session_timeout_ms, connect.timeout_ms);
        let (session, timeout_ms, joined) = match (reply, connect.session) {
            (Ok(Reply::Session(session)), _) => (session, granted, Vec::new()),
            (Ok(Reply::Number(timeout_ms)), Some(session)) => (session, timeout_ms, Vec::new()),
            (Ok(Reply::Joined(timeout_ms, shards)), Some(session)) => (session, timeout_ms, shards),
            (refusal, _) => {
                let expired = refusal == Err(Code::SessionExpired);
                let spread = self.spread();
                let Some((_, mut cx)) = self.at(core, id) else { return };
                if expired && (zxid >= connect.seen || spread.is_spread()) {
                    cx.say(Said::Expired);
                }
                if let Some(session) = connect.session {
                    self.stays(core, session);
                }
                return self.end(core, id);
            }
        };
        connection.set_session((session, timeout_ms), zxid, &connect);
        if let Some(before) = self.by_session.insert(session, id.0) {
            self.end(core, CoordinationClient(before));
        }
        if let Some((connection, mut cx)) = self.at(core, id) {
            connection.enter(&mut cx, joined);
        }
    }

    /// Handles a shard's answer to a group that was sent ahead.
    pub fn ahead_answered(
        &mut self,
        core: &mut Core,
        Sender { client, session }: Sender,
        stream: StreamId,
        which: (u32, u32),
        (shard, answer): (ShardId, Answer),
    ) {
        for waiting in self.unanswered.answered(session) {
            self.ask_for_session(core, waiting);
        }
        if let Some((connection, mut cx)) = self.at(core, client) {
            connection.ahead_answered(&mut cx, stream, which, shard, answer);
        }
    }

    /// Handles a shard's notice to a session that may be at this gateway.
    pub fn session_told(
        &mut self,
        core: &mut Core,
        shard: ShardId,
        session: TreeSessionId,
        notice: SessionNotice,
    ) {
        let Some(id) = self.by_session.get(&session).copied() else { return };
        if let Some((connection, mut cx)) = self.at(core, CoordinationClient(id)) {
            connection.shard_told(&mut cx, shard, notice);
        }
    }
}

/// Methods for joint `multi`s ([`super::joint`]).
impl Clients {
    /// Whether a connection has this session and is open.
    pub fn has(&self, id: CoordinationClient, session: TreeSessionId) -> bool {
        let connection = self.connections.get(id.0);
        self.by_session.get(&session) == Some(&id.0)
            && connection.is_some_and(|connection| !connection.is_closing())
    }

    /// The latest change that a client knows of.
    pub fn known(&self, id: CoordinationClient) -> Zxid {
        self.connections.get(id.0).map(Connection::known).unwrap_or_default()
    }

    /// Name of the next try of a joint `multi`.
    pub fn next_multi(&mut self, id: CoordinationClient) -> Option<JointId> {
        self.connections.get_mut(id.0).map(Connection::next_multi)
    }

    /// Notes a shard's answer about a client's joint `multi`, which is `done` if the shard has carried out
    /// its part of this request.
    pub fn hears_of_multi(
        &mut self,
        core: &mut Core,
        id: CoordinationClient,
        (shard, answered): (ShardId, &CoordinationAnswer),
        done: Option<u64>,
    ) {
        if let Some((connection, mut cx)) = self.at(core, id) {
            connection.hears_of_multi(&mut cx, shard, (answered.zxid, answered.notices), done);
        }
    }

    /// Answers a request of a client.
    pub fn answer(
        &mut self,
        core: &mut Core,
        id: CoordinationClient,
        seq: u64,
        answer: (Zxid, Result<Reply, Code>),
    ) {
        if let Some((connection, mut cx)) = self.at(core, id) {
            connection.answer(&mut cx, seq, answer);
        }
    }

    /// Sends the requests that have waited for the end of a joint `multi`.
    pub fn multi_done(&mut self, core: &mut Core, id: CoordinationClient) {
        if let Some((connection, mut cx)) = self.at(core, id) {
            connection.request_done(&mut cx);
        }
    }
}
