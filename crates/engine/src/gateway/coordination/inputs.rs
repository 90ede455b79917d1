//! Inputs of a gateway from clients of the coordination service.

use super::CoordinationFront;
use super::request::{ClientRequest, Connect};
use crate::coordination::Identity;
use crate::gateway::Gateway;
use crate::gateway::api::CoordinationClient;
use crate::gateway::core::Core;
use crate::now::Now;

/// Door for inputs from clients of the coordination service; see [`Gateway::coordination`].
pub struct CoordinationInputs<'a> {
    core: &'a mut Core,
    front: &'a mut CoordinationFront,
}

/// State of a client of the coordination service that the server asks for.
#[derive(Clone, Copy, Debug)]
pub struct CoordinationStatus<'a> {
    /// Identities that the client has proved.
    pub identities: &'a [Identity],
    /// Whether so many requests of the client are under way that no more should be read from it.
    pub is_busy: bool,
}

impl Gateway {
    /// Opens the door for inputs from clients of the coordination service.
    pub fn coordination(&mut self, now: Now) -> CoordinationInputs<'_> {
        self.parts.core.now = now;
        CoordinationInputs { core: &mut self.parts.core, front: &mut self.parts.coordination }
    }

    /// State of a client of the coordination service.
    pub fn coordination_client(&self, id: CoordinationClient) -> CoordinationStatus<'_> {
        let clients = &self.parts.coordination.clients;
        CoordinationStatus { identities: clients.identities(id), is_busy: clients.is_busy(id) }
    }
}

impl CoordinationInputs<'_> {
    /// Adds a connection of a client. Its address may identify the client.
    pub fn came(&mut self, address: Identity) -> CoordinationClient {
        self.front.clients.came(address)
    }

    /// Removes a connection that is gone. Its session stays, without watches.
    pub fn left(&mut self, id: CoordinationClient) {
        self.front.left(self.core, id);
    }

    /// Takes a client's first message. Answer: [`crate::gateway::Said::Connected`] or
    /// [`crate::gateway::Said::Expired`].
    pub fn connects(&mut self, id: CoordinationClient, connect: Connect) {
        self.front.clients.connects(self.core, id, connect);
    }

    /// Takes a request of a client that has a session. Each request has one answer, in their order:
    /// [`crate::gateway::Said::Answered`].
    pub fn asks(&mut self, id: CoordinationClient, request: ClientRequest) {
        self.front.clients.asks(self.core, id, request);
    }
}
