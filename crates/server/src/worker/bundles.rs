//! Bundles: requests of a session to several shards that enter the workers' inboxes at one moment.

use super::Worker;
use crate::mail::{Bundle, Mail};
use engine::ids::ShardId;
use engine::message::Request;
use engine::now::Now;

impl Worker {
    /// Puts the requests of a bundle into the inboxes of their shards' workers, or gives all of them back.
    pub(super) fn send_bundle(
        &mut self,
        now: Now,
        writes: bool,
        requests: Vec<(ShardId, Request)>,
    ) {
        let own = usize::from(self.id.worker);
        let workers = self.peers.workers.len();
        let worker_of = |shard: ShardId| usize::from(shard.0) % workers;
        let shards = || requests.iter().map(|(shard, _)| *shard);
        let is_numbered = writes && self.peers.log.is_some();
        if !is_numbered && shards().all(|shard| worker_of(shard) == own) {
            self.take_own();
            return match self.peers.order.obstacle(shards()) {
                Some(reason) => self.gateway.not_bundled(now, requests, reason),
                None => self.take_parts(now, Bundle { part: None, writes, bytes: 0, requests }),
            };
        }
        let mut moment = self.peers.order.moment();
        if let Some(reason) = self.peers.order.obstacle(shards()) {
            drop(moment);
            return self.gateway.not_bundled(now, requests, reason);
        }
        let part = is_numbered.then(|| moment.number(shards()));
        let bytes = self.turn_bytes - std::mem::replace(&mut self.bundled_bytes, self.turn_bytes);
        let mut parts: Vec<(usize, Vec<(ShardId, Request)>)> = Vec::with_capacity(workers);
        for (shard, request) in requests {
            let to = worker_of(shard);
            match parts.iter_mut().find(|(worker, _)| *worker == to) {
                Some((_, own)) => own.push((shard, request)),
                None => parts.push((to, vec![(shard, request)])),
            }
        }
        let mut asleep = Vec::new();
        for (to, requests) in parts {
            let bundle = Bundle { part, writes, bytes, requests };
            if self.peers.workers[to].push(Mail::Bundle(bundle)) && to != own {
                asleep.push(to);
            }
            self.has_own |= to == own;
        }
        drop(moment);
        asleep.iter().for_each(|to| self.peers.workers[*to].wake());
    }

    /// Takes the parts of a bundle that are at shards of this worker.
    pub(super) fn take_parts(&mut self, now: Now, bundle: Bundle) {
        let Bundle { part, writes, bytes, requests } = bundle;
        if !writes {
            self.apply_parts();
        }
        for (shard, request) in requests {
            self.node.bundles().take_part(now, shard, request, part);
        }
        self.took(bytes);
    }

    /// Applies the parts of bundles that were taken, if they wait for no disk.
    #[inline]
    pub(super) fn apply_parts(&mut self) {
        if self.node.bundles().are_unapplied() {
            self.end_turn(self.clock.now());
        }
    }

    /// Takes what is in the inbox, if anything is, and lets requests go on that waited for that. Returns
    /// whether there was anything.
    pub(super) fn drain_inbox(&mut self) -> bool {
        if self.takes_mail {
            return false;
        }
        let mut any = false;
        while self.node.bundles().are_awaited() || self.inbox.has_mail() {
            any = true;
            self.take_mail();
            if self.node.bundles().are_awaited() {
                self.apply_parts();
                self.node.bundles().drained(self.clock.now());
            }
        }
        any
    }

    /// Takes parts of bundles that this worker has put into its own inbox, so that nothing overtakes them.
    #[inline]
    pub(super) fn take_own(&mut self) {
        if self.has_own {
            self.drain_inbox();
        }
    }
}
