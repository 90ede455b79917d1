//! Changes of leaders: the wiring between [`Leaders`](super::leaders::Leaders) and the parts that get the
//! answers to lost requests.

use crate::gateway::Gateway;
use crate::ids::ShardId;
use crate::message::{Answer, Refusal};

impl Gateway {
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

    /// Ends the transactions that had locks at a shard whose lead has ended.
    pub(in crate::gateway) fn locks_lost(&mut self, shard: ShardId) {
        for token in self.core.mail.baseless(shard) {
            if let Some(pending) = self.core.mail.take(token) {
                self.answer(token, pending, Answer::Refused(Refusal::LocksLost));
            }
        }
        self.transactions.locks_lost(&mut self.core, shard);
    }
}
