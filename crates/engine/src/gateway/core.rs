//! What every part of a gateway works with: the time, the settings, the outbox and the timers.

use super::admin::topology::Topology;
use super::api::{Config, Facts};
use super::mail::{Mail, Target};
use super::timer::Timer;
use crate::message::{GatewayId, Now};
use adt::{Reply, Timestamp};
use std::collections::{BTreeSet, VecDeque};

/// State that belongs to no part of a gateway, because each of them needs it.
pub(super) struct Core {
    pub config: Config,
    /// Facts that the server tells about itself.
    pub facts: Facts,
    pub now: Now,
    /// Logical clock from which the ages of transactions are taken.
    pub clock: Timestamp,
    /// State of the generator of random numbers.
    pub seed: u64,
    /// Outbox: requests to shards, and what the server has to do.
    pub mail: Mail,
    /// Timers by the time at which they are due.
    pub timers: BTreeSet<(u64, Timer)>,
    /// The machines of the cluster, and which of them leads which shard.
    pub topology: Topology,
    /// Replies that parts have found, for [`super::Gateway::settle`] to put into their places.
    pub replies: VecDeque<(Target, Reply)>,
}

impl Core {
    /// Gives a place its reply, before the gateway takes its next input.
    pub fn finish(&mut self, target: Target, reply: Reply) {
        self.replies.push_back((target, reply));
    }

    /// Sets a timer that is due in so many microseconds.
    pub fn set_timer(&mut self, in_us: u64, timer: Timer) {
        self.timers.insert((self.now.mono_us.saturating_add(in_us), timer));
    }

    /// A random number (SplitMix64).
    pub fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::shard::state::mix(self.seed)
    }

    /// The other gateways of this machine.
    pub fn other_gateways(&self) -> impl Iterator<Item = GatewayId> + use<> {
        let own = self.config.id;
        (0..self.config.gateways)
            .map(move |worker| GatewayId { worker, ..own })
            .filter(move |gateway| *gateway != own)
    }
}
