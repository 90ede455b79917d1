//! Changes of leaders: the wiring between [`Leaders`](super::leaders::Leaders) and the parts that get the
//! answers to lost requests.

use crate::gateway::Gateway;
use crate::gateway::mail::Pending;
use crate::ids::{MachineId, ShardId, splits_of};
use crate::message::{Answer, Body, Refusal};
use crate::now::Now;

impl Gateway {
    /// Notes that a machine leads a shard from now on, in the lead with this number (another one than
    /// before if it is the same machine; see [`splits_of`]), or that the shard has no leader. Requests of an
    /// earlier leader are answered by that one, unless its machine is lost.
    pub fn shard_led(&mut self, now: Now, shard: ShardId, leader: Option<(MachineId, u64)>) {
        self.core.now = now;
        if !self.core.mail.is_clustered() {
            return;
        }
        self.core.mail.lead_changed(now, shard, leader);
        let splits = leader.map(|(_, lead)| splits_of(lead));
        if let (Some(splits), Some(map)) = (splits, self.core.topology.map())
            && splits > self.core.mail.routes.splits(shard)
        {
            let before = self.core.mail.routes.all();
            self.core.mail.routes.carried_out(shard, splits, map);
            self.routes_changed(&before);
        }
        self.locks_lost(shard);
        self.settle();
    }

    /// Notes that the connection to a machine is lost, and with it all answers to requests that it has.
    pub fn machine_lost(&mut self, now: Now, machine: MachineId) {
        self.core.now = now;
        self.core.topology.lost(machine);
        if !self.core.mail.is_clustered() {
            return;
        }
        for shard in self.core.mail.machine_lost(now, machine) {
            for (token, again) in self.core.mail.lose(now, shard) {
                self.answer_lost(token, again);
            }
            self.locks_lost(shard);
        }
        self.settle();
    }

    /// Sends held requests whose shards can be asked now.
    pub(in crate::gateway) fn send_held(&mut self) {
        self.reroute();
        loop {
            let ready = self.core.mail.take_ready();
            if ready.is_empty() {
                return;
            }
            for shard in ready {
                if self.core.mail.open(shard) {
                    self.blocked.register_again(&mut self.core, shard);
                }
            }
        }
    }

    /// Handles a request whose answer is lost with a leader: holds it for the next leader, or answers that
    /// its outcome is unknown.
    fn answer_lost(&mut self, token: u64, again: Option<Box<Body>>) {
        if let Some(body) = again {
            return self.not_taken(token, *body);
        }
        let Some(pending) = self.core.mail.take(token) else { return };
        let answer = match pending {
            Pending::Access { .. } | Pending::Lease { .. } => Answer::Refused(Refusal::LocksLost),
            _ => Answer::Unknown,
        };
        self.answer(token, pending, answer);
    }

    /// Ends the transactions that had locks at a shard whose lead has ended.
    fn locks_lost(&mut self, shard: ShardId) {
        for token in self.core.mail.baseless(shard) {
            if let Some(pending) = self.core.mail.take(token) {
                self.answer(token, pending, Answer::Refused(Refusal::LocksLost));
            }
        }
        self.transactions.locks_lost(&mut self.core, shard);
    }
}
