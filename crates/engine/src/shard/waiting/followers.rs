//! Gateways that follow the changes of all records, for the caches of their clients (`CLIENT TRACKING`) and
//! for keyspace events.
//!
//! A follower with caches is told which keys the committed entries have written, in numbered notices. It
//! follows again and again; each answer names the feed and its last notice. So it notices when notices were
//! lost, or when another leader has begun a feed of its own, and a gateway that is gone is not told for long.
//! Keyspace events have no numbers: one that is lost stays lost, as in Redis.

use super::room::WaitingRoom;
use crate::ids::{GatewayId, MachineId, Token};
use crate::limits::{CHANGED_BYTES_MAX, CHANGED_KEYS_MAX, FOLLOWER_US, FOLLOWERS_MAX};
use crate::message::{Answer, Following, KeyEvent, Notice, Refusal, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use adt::record::events::Classes;
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
    wants: Following,
}

/// All followers of a shard.
#[derive(Debug, Default)]
pub(in crate::shard) struct ChangeFollowers {
    all: BTreeMap<GatewayId, Follower>,
    /// Sum of what the followers want.
    wants: Following,
}

impl ChangeFollowers {
    /// Begins or continues the feed of a gateway; ends it if the gateway wants nothing any more.
    pub fn follow(&mut self, core: &mut ShardCore, now: Now, request: &Request, wants: Following) {
        if wants.is_empty() {
            self.keep(|gateway, _| *gateway != request.gateway);
            return core.reply(request, Reply::Array(vec![Reply::Int(0); 2]));
        }
        if self.is_full() && !self.all.contains_key(&request.gateway) {
            core.stats.refused += 1;
            return core.answer(request.gateway, request.token, Answer::Refused(Refusal::Busy));
        }
        let begin = || Follower { feed: core.draw() >> 1, told: 0, until_us: 0, wants };
        let follower = self.all.entry(request.gateway).or_insert_with(begin);
        follower.wants = wants;
        follower.until_us = now.mono_us.saturating_add(FOLLOWER_US);
        let numbers = [follower.feed, follower.told].map(|number| Reply::Int(number as i64));
        core.reply(request, Reply::Array(numbers.to_vec()));
        self.sum_up();
    }

    /// Sum of what the followers want to be told of.
    #[inline]
    pub fn wants(&self) -> Following {
        self.wants
    }

    fn sum_up(&mut self) {
        self.wants = self.all.values().fold(Following::default(), |sum, follower| Following {
            keys: sum.keys || follower.wants.keys,
            events: sum.events.or(follower.wants.events),
        });
    }

    /// Tells the followers with caches that these keys have changed.
    pub fn tell(&mut self, core: &mut ShardCore, keys: Vec<Blob>) {
        if !self.wants.keys || keys.is_empty() {
            return;
        }
        let all = match keys.len() {
            ..=CHANGED_KEYS_MAX => parts(keys, |key| key.len()),
            // One without keys stands for all.
            _ => vec![Arc::from([])],
        };
        for keys in all {
            for (gateway, follower) in self.all.iter_mut().filter(|(_, f)| f.wants.keys) {
                follower.told += 1;
                let (feed, number) = (follower.feed, follower.told);
                let keys = Arc::clone(&keys);
                let notice = Notice::Changed { shard: core.config.id, feed, number, keys };
                core.notice(*gateway, Token(0), notice);
            }
        }
    }

    /// Tells each follower the events that it wants.
    pub fn tell_events(&mut self, core: &mut ShardCore, events: Vec<KeyEvent>) {
        if events.is_empty() {
            return;
        }
        // Most gateways want the same.
        let mut known: Vec<(Classes, Vec<Arc<[KeyEvent]>>)> = Vec::new();
        for (gateway, follower) in &self.all {
            let wanted = follower.wants.events;
            let at = known.iter().position(|(classes, _)| *classes == wanted);
            let at = at.unwrap_or_else(|| {
                let events = events.iter().filter(|told| wanted.has(told.event.class)).cloned();
                known.push((wanted, parts(events, |told| told.key.len() + told.event.name.len())));
                known.len() - 1
            });
            for events in &known[at].1 {
                core.notice(*gateway, Token(0), Notice::Happened(Arc::clone(events)));
            }
        }
    }

    /// Forgets the followers that have not asked for a while.
    pub fn tick(&mut self, now: Now) {
        self.keep(|_, follower| follower.until_us > now.mono_us);
    }

    fn keep(&mut self, stays: impl Fn(&GatewayId, &Follower) -> bool) {
        let before = self.all.len();
        self.all.retain(|gateway, follower| stays(gateway, follower));
        if self.all.len() < before {
            self.sum_up();
        }
    }
}

/// Contents of one notice each.
fn parts<T>(all: impl IntoIterator<Item = T>, bytes_of: impl Fn(&T) -> usize) -> Vec<Arc<[T]>> {
    let (mut parts, mut some, mut bytes) = (Vec::new(), Vec::new(), 0);
    for one in all {
        if bytes > CHANGED_BYTES_MAX {
            parts.push(Arc::from(std::mem::take(&mut some)));
            bytes = 0;
        }
        bytes += bytes_of(&one);
        some.push(one);
    }
    if !some.is_empty() {
        parts.push(Arc::from(some));
    }
    parts
}

impl WaitingRoom for ChangeFollowers {
    fn limit(&self) -> usize {
        FOLLOWERS_MAX
    }

    fn len(&self) -> usize {
        self.all.len()
    }

    fn next_us(&self, _core: &ShardCore, _now: Now) -> Option<u64> {
        self.all.values().map(|follower| follower.until_us).min()
    }

    /// Forgets the machine's gateways, which follow again if they are there.
    fn forget(&mut self, _core: &mut ShardCore, _now: Now, machine: MachineId) {
        self.keep(|gateway, _| gateway.machine != machine);
    }

    /// The next leader begins feeds of its own.
    fn end_lead(&mut self, _core: &mut ShardCore) {
        *self = Self::default();
    }
}
