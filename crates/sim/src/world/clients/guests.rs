//! Clients of the coordination service and their connections.

use super::Connection;
use crate::clients::errand::text;
use crate::clients::guest::{Action, Guest};
use crate::machine::server::Input;
use crate::machine::visits::Visit;
use crate::world::{Event, World};
use check::coordination::{History, Last};
use engine::coordination::service::Coordination;
use engine::coordination::spread::{HOME, Spread};
use engine::gateway::Said;
use engine::ids::ShardId;

/// Upper bound on the time until a server notices that such a client is gone.
const UNNOTICED_US: u64 = 3_000_000;

impl World {
    pub(in crate::world) fn wake_guest(&mut self, guest: u64) {
        let over = self.ending || self.now_us > self.faults_end_us;
        let (actions, pause_us) = self.guests[guest as usize].go_on(self.now_us, over);
        self.grant_guest(guest, actions);
        if let Some(pause_us) = pause_us {
            self.at(self.now_us + pause_us, Event::WakeGuest { guest });
        }
    }

    fn grant_guest(&mut self, guest: u64, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Connect(connect) => {
                    if self.connect_guest(guest) {
                        let number = self.lines[&guest].number;
                        self.guest_sends(
                            guest,
                            Input::Guest(number, Visit::Connects(Box::new(connect))),
                        );
                    } else {
                        self.guests[guest as usize].broken();
                    }
                }
                Action::Ask(asked) => {
                    let Some(line) = self.lines.get(&guest) else { return };
                    let input = Input::Guest(line.number, Visit::Asks(Box::new(asked)));
                    self.guest_sends(guest, input);
                }
                Action::Leave => self.guest_leaves(guest),
            }
        }
    }

    /// Closes the client's side of its connection. The server notices at once, or much later.
    fn guest_leaves(&mut self, guest: u64) {
        let Some(line) = self.lines.remove(&guest) else { return };
        let unnoticed = self.visits.percent(50);
        let later_us = if unnoticed { self.visits.below(UNNOTICED_US) } else { 0 };
        let time = (self.now_us + line.delay_us).max(line.last_out_us + 1) + later_us;
        let input = Box::new(Input::Guest(line.number, Visit::Left));
        self.deliver_at(time, line.machine, line.worker, input);
    }

    fn connect_guest(&mut self, guest: u64) -> bool {
        let mut up = self.present();
        up.retain(|machine| self.machines[usize::from(*machine)].is_up());
        if up.is_empty() {
            return false;
        }
        self.connection_numbers += 1;
        let number = self.connection_numbers;
        let machine = *self.visits.pick(&up);
        let worker = self.visits.below(u64::from(self.shape.workers)) as u16;
        let delay_us = self.visits.tail(20);
        let (last_out_us, last_in_us) = (self.now_us, 0);
        let line = Connection { number, machine, worker, delay_us, last_out_us, last_in_us };
        self.lines.insert(guest, line);
        self.guest_sends(guest, Input::Guest(number, Visit::Came));
        true
    }

    /// Sends an input in order, with a random delay.
    fn guest_sends(&mut self, guest: u64, input: Input) {
        let Some(line) = self.lines.get_mut(&guest) else { return };
        let time = (self.now_us + self.visits.tail(line.delay_us)).max(line.last_out_us + 1);
        line.last_out_us = time;
        let (machine, worker) = (line.machine, line.worker);
        self.deliver_at(time, machine, worker, Box::new(input));
    }

    /// Delivers a message of a machine on a connection.
    pub(in crate::world) fn send_to_guest(&mut self, number: u64, said: Said) {
        let found = self.lines.iter_mut().find(|(_, line)| line.number == number);
        let Some((guest, line)) = found else { return };
        let delay_us = self.visits.tail(line.delay_us);
        let time = (self.now_us + delay_us).max(line.last_in_us + 1);
        line.last_in_us = time;
        let guest = *guest;
        self.at(time, Event::ToGuest { guest, connection: number, said });
    }

    pub(in crate::world) fn tell_guest(&mut self, guest: u64, said: Said) {
        if said == Said::Close {
            self.lines.remove(&guest);
        }
        let actions = self.guests[guest as usize].said(self.now_us, said);
        self.grant_guest(guest, actions);
    }

    /// Breaks the connections of the clients at a machine that has stopped.
    pub(in crate::world) fn guests_lose(&mut self, machine: u16) {
        let here = self.lines.iter().filter(|(_, line)| line.machine == machine);
        for guest in here.map(|(guest, _)| *guest).collect::<Vec<_>>() {
            self.lines.remove(&guest);
            self.guests[guest as usize].broken();
        }
    }

    /// Adds the clients' observations and the final state of the service to the outcome.
    pub(in crate::world) fn note_guests(&mut self) {
        if self.guests.is_empty() {
            return;
        }
        let mut history = History { last: self.last_tree(), ..History::default() };
        for guest in &mut self.guests {
            history.sessions.append(&mut guest.sessions);
            for (mark, count) in &guest.marks {
                *self.outcome.marks.entry(mark).or_default() += count;
            }
        }
        self.outcome.sessions = Some(history);
        self.outcome.tree = self.tree();
        if self.outcome.tree.is_spread() {
            *self.outcome.marks.entry("trees_spread").or_default() += 1;
        }
    }

    /// Shards of the tree. If no shard has settled them, no client has used the tree.
    fn tree(&self) -> Spread {
        self.coordination(HOME).map_or(Spread::NOT, Coordination::spread)
    }

    /// Shard's part of the service, from some machine.
    fn coordination(&self, shard: ShardId) -> Option<&Coordination> {
        let workers = self.machines.iter().filter(|m| !m.is_retired).flat_map(|m| &m.workers);
        let replica = workers.filter_map(|worker| worker.node().replica(shard)).next()?;
        Some(replica.shard().state().coordination())
    }

    /// Tree as it is on some machines.
    fn last_tree(&self) -> Option<Last> {
        let sessions =
            self.coordination(HOME)?.sessions().keys().map(|session| session.0).collect();
        let parts: Option<Vec<&Coordination>> =
            self.tree().shards().map(|shard| self.coordination(shard)).collect();
        let nodes = parts?.into_iter().flat_map(nodes_of).collect();
        Some(Last { nodes, sessions })
    }

    /// Checks that all sessions have ended, since no client is left that could have one.
    pub(in crate::world) fn check_sessions(&self) -> Result<(), String> {
        if self.guests.iter().any(Guest::is_busy) {
            return Ok(());
        }
        for machine in self.machines.iter().filter(|machine| !machine.is_retired) {
            for replica in machine.workers.iter().flat_map(|worker| worker.node().replicas()) {
                let coordination = replica.shard().state().coordination();
                let ending = coordination.ending();
                if let Some(session) = ending.keys().next() {
                    let (machine, shard) = (machine.id.0, replica.id().0);
                    return Err(format!(
                        "session {} has not ended, at shard {shard} on machine {machine}",
                        session.0
                    ));
                }
                let sessions = coordination.sessions();
                if let Some((session, kept)) = sessions.first_key_value() {
                    return Err(format!(
                        "session {} with a timeout of {} ms is there at the end, on machine {}",
                        session.0, kept.timeout_ms, machine.id.0
                    ));
                }
            }
        }
        Ok(())
    }
}

/// All nodes of a shard except permanent ones: path, data, and the session that they end with.
fn nodes_of(coordination: &Coordination) -> Vec<(String, String, i64)> {
    let lasts = |path: &str| path != "/" && !path.starts_with("/zookeeper");
    let nodes = coordination.tree().iter().map(|(path, node)| {
        let data = node.data.as_ref().map(text).unwrap_or_default();
        (text(path), data, node.session().map_or(0, |session| session.0))
    });
    nodes.filter(|(path, ..)| lasts(path)).collect()
}
