//! Gateways that follow the changes of all records, for the caches of their clients (`CLIENT TRACKING`).
//!
//! A follower is told which keys the committed entries have written, in numbered notices. It follows again
//! and again; each answer names the feed and its last notice. So it notices when notices were lost, or when
//! another leader has begun a feed of its own, and a gateway that is gone is not told for long.

use super::room::WaitingRoom;
use crate::ids::{GatewayId, MachineId, Token};
use crate::limits::{CHANGED_BYTES_MAX, CHANGED_KEYS_MAX, FOLLOWER_US, FOLLOWERS_MAX};
use crate::message::{Answer, Notice, Refusal, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use adt::{Blob, Reply};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
struct Follower {
    feed: u64,
    /// Number of its last notice.
    told: u64,
    /// When it is forgotten, unless it asks by then.
    until_us: u64,
}

/// All followers of a shard.
#[derive(Debug, Default)]
pub(in crate::shard) struct ChangeFollowers(BTreeMap<GatewayId, Follower>);

impl ChangeFollowers {
    /// Begins or continues the feed of a gateway.
    pub fn follow(&mut self, core: &mut ShardCore, now: Now, request: &Request) {
        if self.is_full() && !self.0.contains_key(&request.gateway) {
            core.stats.refused += 1;
            return core.answer(request.gateway, request.token, Answer::Refused(Refusal::Busy));
        }
        let begin = || Follower { feed: core.draw() >> 1, told: 0, until_us: 0 };
        let follower = self.0.entry(request.gateway).or_insert_with(begin);
        follower.until_us = now.mono_us.saturating_add(FOLLOWER_US);
        let numbers = [follower.feed, follower.told].map(|number| Reply::Int(number as i64));
        core.reply(request, Reply::Array(numbers.to_vec()));
    }

    /// Tells all followers that these keys have changed.
    pub fn tell(&mut self, core: &mut ShardCore, keys: Vec<Blob>) {
        if self.0.is_empty() || keys.is_empty() {
            return;
        }
        for keys in notices(keys) {
            for (gateway, follower) in &mut self.0 {
                follower.told += 1;
                let (feed, number) = (follower.feed, follower.told);
                let keys = Arc::clone(&keys);
                let notice = Notice::Changed { shard: core.config.id, feed, number, keys };
                core.notice(*gateway, Token(0), notice);
            }
        }
    }

    /// Forgets the followers that have not asked for a while.
    pub fn tick(&mut self, now: Now) {
        self.0.retain(|_, follower| follower.until_us > now.mono_us);
    }
}

/// Keys of one notice each; of one without keys, which stands for all, if there are too many.
fn notices(keys: Vec<Blob>) -> Vec<Arc<[Blob]>> {
    if keys.len() > CHANGED_KEYS_MAX {
        return vec![Arc::from([])];
    }
    let (mut all, mut some, mut bytes) = (Vec::new(), Vec::new(), 0);
    for key in keys {
        if bytes > CHANGED_BYTES_MAX {
            all.push(Arc::from(std::mem::take(&mut some)));
            bytes = 0;
        }
        bytes += key.len();
        some.push(key);
    }
    all.push(Arc::from(some));
    all
}

impl WaitingRoom for ChangeFollowers {
    fn limit(&self) -> usize {
        FOLLOWERS_MAX
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn next_us(&self, _core: &ShardCore, _now: Now) -> Option<u64> {
        self.0.values().map(|follower| follower.until_us).min()
    }

    /// Forgets the machine's gateways, which follow again if they are there.
    fn forget(&mut self, _core: &mut ShardCore, _now: Now, machine: MachineId) {
        self.0.retain(|gateway, _| gateway.machine != machine);
    }

    /// The next leader begins feeds of its own.
    fn end_lead(&mut self, _core: &mut ShardCore) {
        self.0.clear();
    }
}
