//! Inputs of a gateway from clients of the coordination service.

use super::request::{ClientRequest, Connect};
use crate::coordination::Identity;
use crate::gateway::Gateway;
use crate::gateway::api::CoordinationClient;
use crate::now::Now;

impl Gateway {
    /// Adds a connection of a client. Its address may identify the client.
    pub fn client_came(&mut self, now: Now, address: Identity) -> CoordinationClient {
        self.core.now = now;
        self.coordination.clients.came(address)
    }

    /// Removes a connection that is gone. Its session stays, without watches.
    pub fn client_left(&mut self, now: Now, id: CoordinationClient) {
        self.core.now = now;
        self.coordination.left(&mut self.core, id);
    }

    /// Takes a client's first message. Answer: [`crate::gateway::Said::Connected`] or [`crate::gateway::Said::Expired`].
    pub fn client_connects(&mut self, now: Now, id: CoordinationClient, connect: Connect) {
        self.core.now = now;
        self.coordination.clients.connects(&mut self.core, id, connect);
    }

    /// Takes a request of a client that has a session. Each request has one answer, in their order:
    /// [`crate::gateway::Said::Answered`].
    pub fn client_asks(&mut self, now: Now, id: CoordinationClient, request: ClientRequest) {
        self.core.now = now;
        self.coordination.clients.asks(&mut self.core, id, request);
    }

    /// Identities that a client has proved.
    pub fn client_identities(&self, id: CoordinationClient) -> &[Identity] {
        self.coordination.clients.identities(id)
    }

    /// Whether so much of a client is under way that nothing more should be read from it.
    pub fn client_is_busy(&self, id: CoordinationClient) -> bool {
        self.coordination.clients.is_busy(id)
    }
}
