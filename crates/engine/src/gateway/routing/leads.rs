//! Changes of leaders: the wiring between [`Leaders`](super::leaders::Leaders) and the parts that get the
//! answers to lost requests.

use super::leaders::LostRequests;
use crate::gateway::core::Core;
use crate::gateway::mail::Pending;
use crate::gateway::parts::Parts;
use crate::gateway::waiting::turns::Turns;
use crate::ids::ShardId;
use crate::message::{Answer, Body, Refusal};

impl Parts {
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

    /// Ends what rested on the lead of a shard, which has ended: lost requests are held for the next
    /// leader, or answered without knowledge of their outcome; transactions that had locks there are
    /// aborted.
    pub(in crate::gateway) fn lead_ended(&mut self, shard: ShardId, lost: LostRequests) {
        for (token, again) in lost {
            if let Some(body) = again {
                take_back(&mut self.core, &self.turns, token, *body);
            } else if let Some(pending) = self.core.mail.take(token) {
                let answer = match pending {
                    Pending::Access { .. } | Pending::Lease { .. } => {
                        Answer::Refused(Refusal::LocksLost)
                    }
                    _ => Answer::Unknown,
                };
                self.answer(token, pending, answer);
            }
        }
        for token in self.core.mail.baseless(shard) {
            if let Some(pending) = self.core.mail.take(token) {
                self.answer(token, pending, Answer::Refused(Refusal::LocksLost));
            }
        }
        self.transactions.locks_lost(&mut self.core, shard);
    }
}

/// Holds a request that has come back without any effect. A request that waits for its turn is sent again
/// with the rest of its time-out.
pub(in crate::gateway) fn take_back(core: &mut Core, turns: &Turns, token: u64, mut body: Body) {
    if let Body::Await { timeout_ms, .. } = &mut body
        && let Some(Pending::Turn { job }) = core.mail.pending.get(token)
        && let Some(left_ms) = turns.left_ms(core, *job)
    {
        *timeout_ms = left_ms;
    }
    core.mail.take_back(core.now, token, body);
}
