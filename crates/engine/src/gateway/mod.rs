//! Gateways: they own the sessions of clients, turn commands into requests to shards, coordinate
//! transactions and put the replies back into the order of the commands.

pub mod acl;
mod api;
pub mod client_list;
pub mod command_docs;
pub mod hello;
pub mod info;
pub mod pubsub;
pub mod session_commands;

pub use api::{
    Admin, ClientFilter, Config, Facts, GatewayStats, Knowledge, Opening, Output, PeerMessage,
    Question, SessionId, UserConfig,
};

use crate::message::{GatewayId, Now, Response};
use adt::{Args, ErrorReply, Reply};
use std::collections::{BTreeMap, VecDeque};

/// One gateway. The server feeds it and carries out what [`Gateway::poll`] gives.
pub struct Gateway {
    config: Config,
    facts: Facts,
    stats: GatewayStats,
    outputs: VecDeque<Output>,
    sessions: BTreeMap<SessionId, Opening>,
    next: u64,
}

impl Gateway {
    /// A gateway without sessions.
    pub fn new(config: Config, _now: Now) -> Self {
        Self {
            config,
            facts: Facts::default(),
            stats: GatewayStats::default(),
            outputs: VecDeque::new(),
            sessions: BTreeMap::new(),
            next: 0,
        }
    }

    /// A client has connected.
    pub fn open(&mut self, _now: Now, opening: Opening) -> SessionId {
        self.next += 1;
        self.stats.sessions += 1;
        self.sessions.insert(SessionId(self.next), opening);
        SessionId(self.next)
    }

    /// A connection is gone: its transaction is aborted, its waits and subscriptions end.
    pub fn close(&mut self, _now: Now, session: SessionId) {
        if self.sessions.remove(&session).is_some() {
            self.stats.sessions -= 1;
        }
    }

    /// One command of a client.
    pub fn command(&mut self, _now: Now, session: SessionId, args: &Args<'_>) {
        self.stats.commands += 1;
        let name = args.get(0).unwrap_or_default().escape_ascii().to_string();
        let reply = Reply::err(format!("unknown command '{name}'"));
        self.outputs.push_back(Output::Reply { session, reply, protocol: 2 });
    }

    /// The client broke the protocol: it is told so, after the replies that it still gets, and the
    /// connection is closed.
    pub fn protocol_error(&mut self, _now: Now, session: SessionId, error: ErrorReply) {
        self.outputs.push_back(Output::Reply { session, reply: error.into(), protocol: 2 });
        self.outputs.push_back(Output::Close { session });
    }

    /// A shard has answered or noticed something.
    pub fn response(&mut self, _now: Now, _response: Response) {}

    /// Another gateway of the server says something.
    pub fn peer(&mut self, _now: Now, _from: GatewayId, _message: PeerMessage) {}

    /// The password that [`Output::Verify`] was about fits, or does not.
    pub fn verified(&mut self, _now: Now, _session: SessionId, _ok: bool) {}

    /// What [`Output::Admin`] asked for is done, or refused.
    pub fn admin_done(&mut self, _now: Now, session: SessionId, reply: Reply) {
        self.outputs.push_back(Output::Reply { session, reply, protocol: 2 });
    }

    /// A setting has a new value.
    pub fn configure(&mut self, name: &str, value: &str) {
        self.config.settings.insert(name.to_owned(), value.to_owned());
    }

    /// Sets what the server knows about itself.
    pub fn set_facts(&mut self, facts: Facts) {
        self.facts = facts;
    }

    /// Sets the counters to zero.
    pub fn reset_stats(&mut self) {
        self.stats = GatewayStats { sessions: self.stats.sessions, ..GatewayStats::default() };
    }

    /// Time has passed.
    pub fn tick(&mut self, _now: Now) {}

    /// When [`Gateway::tick`] has something to do, on the monotonic clock in microseconds.
    pub fn next_timeout(&self) -> Option<u64> {
        None
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// How many requests of a session are not answered yet.
    pub fn in_progress(&self, _session: SessionId) -> usize {
        0
    }

    /// RESP version of a session: 2 or 3.
    pub fn protocol(&self, _session: SessionId) -> u8 {
        2
    }

    /// Whether a session may send commands; until then its frames must be short.
    pub fn authenticated(&self, _session: SessionId) -> bool {
        !self.config.require_auth
    }

    /// What the gateway has counted.
    pub fn stats(&self) -> &GatewayStats {
        &self.stats
    }
}
