//! Connections of clients of the coordination service at a worker, as a server keeps them.

use crate::clients::guest::Guest;
use crate::plant::Plant;
use engine::coordination::{Ask, TreeSessionId};
use engine::gateway::coordination::{ClientRequest, Connect};
use engine::gateway::{CoordinationClient, Gateway, Said};
use engine::ids::{GatewayId, Token};
use engine::message::{Body, Request};
use engine::now::Now;
use std::collections::BTreeMap;

/// Act of such a client.
#[derive(Debug)]
pub enum Visit {
    /// Connects.
    Came,
    /// Requests a session.
    Connects(Box<Connect>),
    /// Sends a request.
    Asks(Box<ClientRequest>),
    /// Loses its connection.
    Left,
}

/// All such clients of a worker, by the numbers of their connections.
#[derive(Debug, Default)]
pub struct Visits {
    clients: BTreeMap<u64, CoordinationClient>,
    numbers: BTreeMap<CoordinationClient, u64>,
    /// For planted bugs: notifications that wait for an answer to overtake them, and current places
    /// of sessions.
    late: BTreeMap<u64, Vec<Said>>,
    homes: BTreeMap<TreeSessionId, GatewayId>,
}

impl Visits {
    /// Passes a client's act to the gateway.
    pub fn take(&mut self, gateway: &mut Gateway, now: Now, number: u64, visit: Visit) {
        let client = self.clients.get(&number).copied();
        match (visit, client) {
            (Visit::Came, _) => {
                let client = gateway.coordination(now).came(Guest::identity());
                self.clients.insert(number, client);
                self.numbers.insert(client, number);
            }
            (Visit::Connects(connect), Some(client)) => {
                gateway.coordination(now).connects(client, *connect);
            }
            (Visit::Asks(asked), Some(client)) => gateway.coordination(now).asks(client, *asked),
            (Visit::Left, Some(client)) => self.leave(gateway, now, number, client),
            // The gateway has closed the connection; the client does not know that yet.
            (_, None) => {}
        }
    }

    fn leave(&mut self, gateway: &mut Gateway, now: Now, number: u64, client: CoordinationClient) {
        self.clients.remove(&number);
        self.numbers.remove(&client);
        gateway.coordination(now).left(client);
    }

    /// Outputs for a message of the gateway to a client: the number of the connection, and the
    /// messages on it.
    pub fn say(
        &mut self,
        gateway: &mut Gateway,
        now: Now,
        (client, said): (CoordinationClient, Said),
        plant: Option<Plant>,
    ) -> Option<(u64, Vec<Said>)> {
        let number = *self.numbers.get(&client)?;
        if said == Said::Close {
            self.leave(gateway, now, number, client);
        }
        let said = match plant {
            Some(Plant::WatchAfterAnswer) => self.late(number, said),
            _ => vec![said],
        };
        Some((number, said))
    }

    /// Planted bug: delays a notification until after the answer that it should precede.
    fn late(&mut self, number: u64, said: Said) -> Vec<Said> {
        let late = self.late.entry(number).or_default();
        if matches!(said, Said::Happened { .. }) {
            late.push(said);
            return Vec::new();
        }
        std::iter::once(said).chain(std::mem::take(late)).collect()
    }

    /// Planted bug: makes a shard accept a gateway's request for a session that has moved.
    pub fn misplace(&mut self, request: &mut Request) {
        let Body::Coordinate(ask) = &request.body else { return };
        match &**ask {
            Ask::Resume { session, .. } => {
                self.homes.insert(*session, request.gateway);
            }
            Ask::Write(command) => {
                let home = self.homes.get(&command.session);
                if let Some(home) = home.filter(|home| **home != request.gateway) {
                    (request.gateway, request.token) = (*home, Token(u64::MAX));
                }
            }
            _ => {}
        }
    }
}
