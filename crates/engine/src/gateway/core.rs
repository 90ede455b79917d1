//! What every part of a gateway works with: the time, the settings, the outbox and the timers.

use super::admin::topology::Topology;
use super::api::{Config, Facts};
use super::mail::Mail;
use super::timer::Timer;
use crate::message::Now;
use adt::Timestamp;
use std::collections::BTreeSet;

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
}
