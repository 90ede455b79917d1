//! Clients and their connections.

pub(in crate::world) mod cachers;
pub(in crate::world) mod guests;
pub(in crate::world) mod holders;

use super::backups::KEEPER;
use super::{Event, WAIT_US_MAX, World};
use crate::clients::client::{Action, Client};
use crate::machine::Machine;
use crate::machine::server::Input;
use adt::Reply;
use cachers::CACHERS;
use holders::HOLDERS;

/// Upper bound on the time until a server notices that a client is gone.
const UNNOTICED_US: u64 = 8_000_000;

#[derive(Clone, Copy)]
pub(super) struct Connection {
    pub number: u64,
    pub machine: u16,
    pub worker: u16,
    pub delay_us: u64,
    pub last_out_us: u64,
    pub last_in_us: u64,
}

impl World {
    /// Breaks a client's connection; both sides notice.
    pub(super) fn disconnect(&mut self, client: u64) {
        if self.leave(client, 0) {
            self.fault("disconnects");
            self.forsake(client, 5_000);
        }
    }

    /// Removes a client without the server's notice; its locks stay.
    pub(super) fn vanish(&mut self, client: u64) {
        let us = self.faults.between(0, UNNOTICED_US);
        if self.leave(client, us) {
            self.fault("clients_vanished");
            self.forsake(client, 2_000_000);
        }
    }

    /// Makes a waiting client give up and resend its request under the same number to another
    /// machine. The server may still be busy with the first copy.
    pub(super) fn lose_patience(&mut self, client: u64) {
        let asks = self.clients.get(client as usize).is_some_and(Client::may_ask_again);
        if !asks {
            return;
        }
        let us = self.faults.between(0, UNNOTICED_US);
        if self.leave(client, us) {
            self.fault("asked_twice");
            self.clients[client as usize].disconnected(self.now_us);
            self.wake_client(client);
        }
    }

    /// Closes the client's side of its connection; the server notices later.
    pub(super) fn leave(&mut self, client: u64, later_us: u64) -> bool {
        let Some(connection) = self.connections.remove(&client) else { return false };
        let time = (self.now_us + connection.delay_us).max(connection.last_out_us + 1) + later_us;
        let input = Box::new(Input::Close(connection.number));
        self.deliver_at(time, connection.machine, connection.worker, input);
        true
    }

    fn forsake(&mut self, client: u64, most_us: u64) {
        self.lose_connection(client);
        let time = self.now_us + self.network.between(100, most_us);
        self.at(time, Event::Wake { client });
    }

    /// Removes a client's connection, and tells the client.
    fn lose_connection(&mut self, client: u64) {
        let now_us = self.now_us;
        if let Some(holder) = self.holder(client) {
            holder.disconnected();
        } else if let Some(cacher) = self.cacher(client) {
            cacher.disconnected();
        } else if let Some(found) = self.clients.get_mut(client as usize) {
            found.disconnected(now_us);
        }
    }

    /// Whether a client has unfinished work.
    fn has_begun(&mut self, client: u64) -> bool {
        let holds = self.holder(client).map(|holder| holder.is_busy());
        holds.unwrap_or_else(|| self.clients[client as usize].is_busy())
    }

    /// Clients with unfinished work, and what they wait for.
    pub(in crate::world) fn stuck(&self) -> Vec<String> {
        let at = |connection: Option<&Connection>| match connection {
            Some(at) => format!("connected to worker {} of machine {}", at.worker, at.machine + 1),
            None => "not connected".to_owned(),
        };
        let mut stuck = Vec::new();
        for (number, client) in (0..).zip(&self.clients).filter(|(_, client)| client.is_busy()) {
            let at = at(self.connections.get(&number));
            stuck.push(format!("client {number}, {at}: {:?}", client.running()));
        }
        for (number, guest) in (0..).zip(&self.guests).filter(|(_, guest)| guest.is_busy()) {
            let at = at(self.lines.get(&number));
            stuck.push(format!(
                "client {number} of the coordination service, {at}: {}",
                guest.activity()
            ));
        }
        for (number, holder) in (0..).zip(&self.holders).filter(|(_, holder)| holder.is_busy()) {
            let at = at(self.connections.get(&(HOLDERS + number)));
            stuck.push(format!("client {number} of locks, {at}: {}", holder.activity()));
        }
        stuck
    }

    /// Whether some machine runs.
    fn any_is_up(&self) -> bool {
        self.machines.iter().any(Machine::is_up)
    }

    pub(super) fn wake_client(&mut self, client: u64) {
        if self.cacher(client).is_some() {
            return self.cacher_goes_on(client);
        }
        let over = self.ending || self.now_us > self.faults_end_us;
        let busy = self.has_begun(client);
        if over && !busy {
            return;
        }
        if !self.any_is_up() {
            let time = self.now_us + 5_000;
            return self.at(time, Event::Wake { client });
        }
        let lull_us = self.lull_until_us.min(self.faults_end_us);
        if self.now_us < lull_us && !busy {
            let time = lull_us + self.network.between(0, 5_000);
            return self.at(time, Event::Wake { client });
        }
        if !self.connections.contains_key(&client) {
            self.connect(client);
        } else if self.clients.get(client as usize).is_some_and(Client::is_waiting) {
            return;
        }
        if (HOLDERS..KEEPER).contains(&client) {
            return self.holder_goes_on(client);
        }
        let actions = self.clients[client as usize].go_on(self.now_us);
        self.grant(client, actions);
    }

    pub(super) fn grant(&mut self, client: u64, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(words) => self.send(client, words),
                Action::Sleep(us) => {
                    let time = self.now_us + us;
                    self.at(time, Event::Wake { client });
                }
                Action::Leave(us) => {
                    self.leave(client, us);
                    self.forsake(client, 100_000);
                }
            }
        }
    }

    /// Delivers a reply to a client.
    pub(super) fn deliver_reply(&mut self, client: u64, reply: Reply) -> Result<(), String> {
        if client == KEEPER {
            return self.keeper_reply(reply);
        }
        if client >= CACHERS {
            self.tell_cacher(client, reply);
            return Ok(());
        }
        if client >= HOLDERS {
            self.tell_holder(client, &reply);
            return Ok(());
        }
        let waited_us = self.clients[client as usize].waits_us(self.now_us);
        // If clients keep locks, or are gone with them, others wait for as long.
        let at_once = !self.shape.is_cluster() && !self.swarm.keeps_locks();
        if at_once && waited_us > WAIT_US_MAX {
            return Err(format!("client {client} waited for a reply for {waited_us} us"));
        }
        let actions = self.clients[client as usize].reply(self.now_us, reply);
        self.grant(client, actions);
        Ok(())
    }

    pub(super) fn connect(&mut self, client: u64) {
        self.connection_numbers += 1;
        let number = self.connection_numbers;
        let mut up = self.present();
        up.retain(|machine| self.machines[usize::from(*machine)].is_up());
        // A machine that has just joined refuses commands with keys until it has the map.
        let knows = |machine: &u16| self.machines[usize::from(*machine)].knows_map();
        if self.shape.is_cluster() && up.iter().any(knows) {
            up.retain(knows);
        }
        let machine = *self.network.pick(&up);
        let worker = self.network.below(u64::from(self.shape.workers)) as u16;
        let delay_us = self.network.tail(20);
        let last_out_us = self.now_us;
        let connection =
            Connection { number, machine, worker, delay_us, last_out_us, last_in_us: 0 };
        self.connections.insert(client, connection);
        self.send_to_server(client, Input::Open(number));
    }

    pub(super) fn send(&mut self, client: u64, words: Vec<String>) {
        let Some(connection) = self.connections.get(&client) else { return };
        let number = connection.number;
        self.send_to_server(client, Input::Command(number, words));
    }

    /// Sends an input in order, with a random delay.
    fn send_to_server(&mut self, client: u64, input: Input) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        let time =
            (self.now_us + self.network.tail(connection.delay_us)).max(connection.last_out_us + 1);
        connection.last_out_us = time;
        let (machine, worker) = (connection.machine, connection.worker);
        self.deliver_at(time, machine, worker, Box::new(input));
    }

    /// Breaks the connections of the clients at a machine that has stopped.
    pub(super) fn disconnect_all(&mut self, machine: u16) {
        self.guests_lose(machine);
        let here = |c: &&(u64, Connection)| c.1.machine == machine;
        let all: Vec<(u64, Connection)> =
            self.connections.iter().map(|(client, c)| (*client, *c)).collect();
        for (client, _) in all.iter().filter(here) {
            self.connections.remove(client);
            let other = self.holder(*client).is_some() || self.cacher(*client).is_some();
            if other || (*client as usize) < self.clients.len() {
                self.lose_connection(*client);
                let time = self.now_us + self.network.between(1000, 20_000);
                self.at(time, Event::Wake { client: *client });
            }
        }
    }
}
