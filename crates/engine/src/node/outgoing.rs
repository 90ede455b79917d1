//! Messages of a worker on their way to its gateway, to other workers and to other machines.

use super::event::Event;
use super::parcel::Parcel;
use crate::gateway::PeerMessage;
use crate::ids::{GatewayId, MachineId, ShardId};
use crate::message::{Request, Response};
use std::collections::{BTreeSet, VecDeque};

/// Destination of a parcel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    /// Another worker of this machine. `from` is the machine that the parcel comes from.
    Worker {
        /// The worker.
        worker: u16,
        /// Machine that the parcel comes from.
        from: MachineId,
    },
    /// Another machine.
    Machine(MachineId),
}

/// Messages of a worker that were not polled yet, and what decides where they go.
#[derive(Debug)]
pub(super) struct Outgoing {
    own: GatewayId,
    workers: u16,
    /// Machines with a connection to this one.
    pub connected: BTreeSet<MachineId>,
    events: VecDeque<Event>,
    parcels: VecDeque<(To, Parcel)>,
}

impl Outgoing {
    pub fn new(own: GatewayId, workers: u16) -> Self {
        let (connected, events, parcels) = Default::default();
        Self { own, workers, connected, events, parcels }
    }

    /// The worker of this machine that holds a shard, if the machine does.
    pub fn worker_of(&self, shard: ShardId) -> u16 {
        shard.0 % self.workers
    }

    /// Whether this worker holds a shard, if the machine does.
    pub fn is_ours(&self, shard: ShardId) -> bool {
        self.worker_of(shard) == self.own.worker
    }

    /// Whether a machine is this one.
    pub fn is_own_machine(&self, machine: MachineId) -> bool {
        machine == self.own.machine
    }

    /// The worker that holds the connection to a machine.
    pub fn listener(&self, machine: MachineId) -> u16 {
        machine.0 % self.workers
    }

    /// Adds something for this worker's gateway.
    #[inline]
    pub fn event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Sends a parcel to another machine.
    pub fn send_to_machine(&mut self, machine: MachineId, parcel: Parcel) {
        self.parcels.push_back((To::Machine(machine), parcel));
    }

    /// Sends a parcel of this machine to the worker that holds a shard.
    pub fn send_to_holder(&mut self, shard: ShardId, parcel: Parcel) {
        let (worker, from) = (self.worker_of(shard), self.own.machine);
        self.parcels.push_back((To::Worker { worker, from }, parcel));
    }

    /// Sends a parcel to the worker of a gateway.
    fn send(&mut self, to: GatewayId, parcel: Parcel) {
        let to = if to.machine == self.own.machine {
            To::Worker { worker: to.worker, from: self.own.machine }
        } else {
            To::Machine(to.machine)
        };
        self.parcels.push_back((to, parcel));
    }

    /// Sends a message of this worker's gateway to another gateway.
    pub fn message(&mut self, to: GatewayId, message: PeerMessage) {
        if to == self.own {
            return self.event(Event::Message(self.own, message));
        }
        self.send(to, Parcel::Gateway { from: self.own, to, message });
    }

    /// Sends an answer to its gateway.
    #[inline]
    pub fn deliver(&mut self, response: Response) {
        if response.gateway == self.own {
            self.event(Event::Response(response));
        } else {
            self.send(response.gateway, Parcel::Response(response));
        }
    }

    /// Answers that a request was not taken.
    pub fn turn_back(&mut self, request: Request) {
        let Request { gateway, token, body, .. } = request;
        if let Some(answer) = body.not_taken() {
            self.deliver(Response { gateway, token, answer });
        }
    }

    /// Forwards a parcel for a gateway, or gives it back if it is for this worker's. Parcels for gateways of
    /// an earlier life of this machine are dropped.
    pub fn forward(&mut self, to: GatewayId, from: MachineId, parcel: Parcel) -> Option<Parcel> {
        if to == self.own {
            return Some(parcel);
        }
        if to.machine == self.own.machine && to.life == self.own.life {
            self.pass_on(to.worker, from, parcel);
        }
        None
    }

    /// Forwards a parcel of `from` to another worker of this machine.
    pub fn pass_on(&mut self, worker: u16, from: MachineId, parcel: Parcel) {
        if worker < self.workers && worker != self.own.worker {
            self.parcels.push_back((To::Worker { worker, from }, parcel));
        }
    }

    /// Forwards a message of another machine to all workers, from the worker that receives it.
    pub fn spread(&mut self, from: MachineId, parcel: impl Fn() -> Parcel) {
        if from != self.own.machine && self.own.worker == self.listener(from) {
            for worker in 0..self.workers {
                self.pass_on(worker, from, parcel());
            }
        }
    }

    /// Sends a parcel to all other workers of this machine.
    pub fn send_to_workers(&mut self, parcel: impl Fn() -> Parcel) {
        for worker in 0..self.workers {
            self.pass_on(worker, self.own.machine, parcel());
        }
    }

    /// Sends a parcel to all other workers and all machines with a connection.
    pub fn send_to_all(&mut self, parcel: impl Fn() -> Parcel) {
        self.send_to_workers(&parcel);
        self.send_to_machines(parcel);
    }

    /// Sends a parcel to all machines with a connection.
    pub fn send_to_machines(&mut self, parcel: impl Fn() -> Parcel) {
        for machine in &self.connected {
            self.parcels.push_back((To::Machine(*machine), parcel()));
        }
    }

    /// The next event for this worker's gateway.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether there are events for this worker's gateway.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next parcel for others.
    #[inline]
    pub fn next_parcel(&mut self) -> Option<(To, Parcel)> {
        self.parcels.pop_front()
    }
}
