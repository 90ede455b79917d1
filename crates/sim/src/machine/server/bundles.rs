//! Bundles of a simulated worker: requests to several shards that enter mailboxes at one moment.

use super::{Input, Sent, Worker};
use crate::plant::Plant;
use engine::ids::ShardId;
use engine::message::Request;
use engine::now::Now;

impl Worker {
    /// Takes the messages of the other workers and of the disk, and lets requests go on that waited for that.
    pub(super) fn drain(&mut self, now: Now, sent: &mut Vec<Sent>) -> Result<bool, String> {
        let mut any = false;
        while self.node.bundles().are_awaited() || !self.mailbox.is_empty() {
            any = true;
            while let Some(input) = self.mailbox.pop_front() {
                self.take(now, input, sent)?;
            }
            self.apply_parts(now, sent)?;
            self.node.bundles().drained(now);
        }
        Ok(any)
    }

    /// Applies the parts of bundles that were taken, if they wait for no disk.
    pub(super) fn apply_parts(&mut self, now: Now, sent: &mut Vec<Sent>) -> Result<(), String> {
        if self.node.bundles().are_unapplied() && self.plant != Some(Plant::HiddenPart) {
            self.end_turn(now, sent)?;
        }
        Ok(())
    }

    /// Sends the requests of a bundle to their shards at one moment, or gives all of them back.
    pub(super) fn send_bundle(
        &mut self,
        now: Now,
        writes: bool,
        requests: Vec<(ShardId, Request)>,
        sent: &mut Vec<Sent>,
    ) {
        let mut moment = self.order.moment();
        let shards = requests.iter().map(|(shard, _)| *shard);
        let unchecked = self.plant == Some(Plant::UncheckedBundle);
        if let Some(reason) = self.order.obstacle(shards).filter(|_| !unchecked) {
            drop(moment);
            self.mark("bundles_given_back", 1);
            return self.gateway.not_bundled(now, requests, reason);
        }
        let shards = requests.iter().map(|(shard, _)| *shard);
        let part = (writes && !self.volatile).then(|| moment.number(shards));
        drop(moment);
        self.mark("bundles", 1);
        for (shard, request) in requests {
            let to = shard.0 % self.workers;
            let input = Input::Part(shard, Box::new(request), part);
            if to == self.index {
                self.mailbox.push_back(input);
            } else {
                sent.push(Sent::Worker(to, Box::new(input)));
            }
        }
    }

    /// Lets bundles go again to shards where none would wait. After the clock was raised.
    pub fn calm(&mut self) {
        self.node.bundles().calm();
    }
}
