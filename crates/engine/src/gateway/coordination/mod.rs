//! Clients of the coordination service. The session of a client is at shard 0, which knows the session's
//! gateway, and at every other shard where it has nodes or watches.
//!
//! Answers leave in the order of the requests. A shard answers in that order as well, as long as its lead
//! and the connections between the machines last. When one of these ends or a notice is lost, the gateway
//! closes the client's connection: the client connects again and resumes its session, as with ZooKeeper.
//!
//! If the tree is spread, requests to several shards are sent ahead as a stream (`connection/ahead.rs`), or
//! wait until those before them are answered (`connection/queue.rs`). Requests that several shards answer
//! are scattered and their answers merged (`connection/scatter.rs`); changes at several shards are made at
//! all of them or at none (`joint.rs`).

mod clients;
mod connection;
mod ends;
mod inputs;
mod joint;
mod request;

use super::api::CoordinationClient;
use super::core::Core;
use crate::coordination::JointId;
use crate::coordination::{SessionNotice, TreeSessionId, Zxid};
use crate::ids::{ShardId, StreamId};
use crate::message::Answer;
use clients::Clients;
use ends::SessionEnds;
pub use inputs::{CoordinationInputs, CoordinationStatus};
use joint::JointMultis;
pub use request::{ClientRequest, Connect};
pub(super) use request::{Purpose, Sender};

/// Front of the coordination service at a gateway.
#[derive(Default)]
pub(super) struct CoordinationFront {
    clients: Clients,
    multis: JointMultis,
    ends: SessionEnds,
}

impl CoordinationFront {
    /// Removes a connection, once its requests are sent.
    fn left(&mut self, core: &mut Core, id: CoordinationClient) {
        self.send_requests(core);
        self.clients.left(core, id);
        self.begin_multis(core);
    }

    /// Whether clients have requests to be sent by [`Self::send_requests`].
    pub fn have_requests(&self) -> bool {
        self.clients.have_requests()
    }

    /// Sends the requests of clients that have come since this was called last.
    pub fn send_requests(&mut self, core: &mut Core) {
        for client in self.clients.take_asking() {
            self.clients.send(core, client);
            self.begin_multis(core);
        }
    }

    /// Begins the joint `multi`s for which clients' turns have come.
    fn begin_multis(&mut self, core: &mut Core) {
        while let Some(request) = self.clients.next_multi_request() {
            self.multis.begin(core, &mut self.clients, request);
        }
    }

    /// Closes a client's connection.
    pub fn end_client(&mut self, core: &mut Core, id: CoordinationClient) {
        self.clients.end(core, id);
    }

    /// Handles a shard's answer to a request on behalf of a client.
    pub fn answered(
        &mut self,
        core: &mut Core,
        client: CoordinationClient,
        to: (ShardId, Purpose),
        answer: Answer,
    ) {
        self.clients.shard_answered(core, client, to, answer);
        self.begin_multis(core);
    }

    /// Handles a shard's answer to a group that was sent ahead: its stream, first unit and number of units.
    pub fn ahead_answered(
        &mut self,
        core: &mut Core,
        sender: Sender,
        (stream, first, count): (StreamId, u32, u32),
        answer: (ShardId, Answer),
    ) {
        self.clients.ahead_answered(core, sender, stream, (first, count), answer);
        self.begin_multis(core);
    }

    /// Learns over how many shards the tree is spread.
    pub fn spread_known(&mut self, core: &mut Core, answer: Answer) {
        self.clients.spread_known(core, answer);
    }

    /// Handles a shard's notice to a session.
    pub fn session_told(
        &mut self,
        core: &mut Core,
        shard: ShardId,
        session: TreeSessionId,
        notice: SessionNotice,
    ) {
        self.clients.session_told(core, shard, session, notice);
        self.begin_multis(core);
    }

    /// Carries out the end of a session that is at these shards besides shard 0.
    pub fn session_ends(
        &mut self,
        core: &mut Core,
        (session, ended, finished): (TreeSessionId, Zxid, bool),
        shards: Vec<ShardId>,
    ) {
        self.ends.begin(core, session, ended, finished, shards);
    }

    /// Handles a shard's answer to a stage of the end of a session.
    pub fn end_answered(&mut self, core: &mut Core, job: u64, answer: Answer) {
        self.ends.answered(core, job, answer);
    }

    /// Settles a joint `multi` that is not decided for long.
    pub fn settle_multi(
        &mut self,
        core: &mut Core,
        name: (TreeSessionId, JointId),
        shards: Vec<ShardId>,
    ) {
        self.multis.settle(core, &self.clients, name, shards);
    }

    /// Handles a shard's answer to a step of a joint `multi`.
    pub fn multi_answered(&mut self, core: &mut Core, job: u64, shard: ShardId, answer: Answer) {
        self.multis.answered(core, &mut self.clients, (job, shard), answer);
        self.begin_multis(core);
    }

    /// Goes on with a joint `multi` whose time has come.
    pub fn multi_due(&mut self, core: &mut Core, job: u64) {
        self.multis.due(core, &mut self.clients, job);
        self.begin_multis(core);
    }
}
