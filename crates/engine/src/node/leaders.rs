//! KnownLeaders of all shards, as far as this worker knows them.

use super::event::Event;
use super::outgoing::Outgoing;
use crate::cluster::map::ShardMap;
use crate::ids::{MachineId, ShardId, splits_of};
use std::collections::BTreeMap;

/// Leader of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownLeader {
    pub machine: MachineId,
    pub term: u64,
}

/// KnownLeaders of all shards.
#[derive(Debug)]
pub(super) struct KnownLeaders {
    known: Vec<Option<KnownLeader>>,
    /// By shard: number of its leads that the gateway has not been notified of yet.
    unnotified: Vec<u32>,
    /// Leads that began with a split that the local map does not record yet.
    early: BTreeMap<ShardId, KnownLeader>,
}

impl KnownLeaders {
    /// KnownLeaders of `count` shards: unknown, or a machine that is alone.
    pub fn new(count: usize, alone: Option<KnownLeader>) -> Self {
        Self { known: vec![alone; count], unnotified: vec![0; count], early: BTreeMap::new() }
    }

    /// The leader of a shard.
    #[inline]
    pub fn of(&self, shard: ShardId) -> Option<KnownLeader> {
        self.known.get(usize::from(shard.0)).copied().flatten()
    }

    /// The leader of a shard, if the gateway has been notified of it.
    #[inline]
    pub fn announced(&self, shard: ShardId) -> Option<KnownLeader> {
        let told = self.unnotified[usize::from(shard.0)] == 0;
        self.known[usize::from(shard.0)].filter(|_| told)
    }

    /// Notes that the gateway has been notified of a lead.
    #[inline]
    pub fn notified(&mut self, shard: ShardId) {
        self.unnotified[usize::from(shard.0)] -= 1;
    }

    /// Learns of a lead; `map` is the map that this worker knows.
    pub fn learn(
        &mut self,
        map: Option<&ShardMap>,
        out: &mut Outgoing,
        shard: ShardId,
        lead: KnownLeader,
    ) {
        let splits = splits_of(lead.term);
        let (most, least) = map.map_or((0, 0), |map| {
            let all = map.splits.iter().filter(|split| split.parent == shard).count();
            (all as u16, map.splits_done(shard))
        });
        if splits > most && self.early.get(&shard).is_none_or(|known| known.term < lead.term) {
            self.early.insert(shard, lead);
        }
        let Some(known) = self.known.get_mut(usize::from(shard.0)) else { return };
        let is_new = known.is_none_or(|known| known.term < lead.term);
        if !is_new || !(least..=most).contains(&splits) {
            return;
        }
        *known = Some(lead);
        self.unnotified[usize::from(shard.0)] += 1;
        out.event(Event::Led(shard, Some((lead.machine, lead.term))));
    }

    /// Adopts a new map: forgets the leads that it reports to have ended, and takes up those that
    /// it had not recorded before.
    pub fn adopt(&mut self, map: &ShardMap, out: &mut Outgoing) {
        for shard in map.all() {
            let ended = |lead: &KnownLeader| splits_of(lead.term) < map.splits_done(shard);
            if let Some(lead) = self.of(shard).filter(ended) {
                self.unlearn(out, shard, lead);
            }
        }
        for (shard, lead) in std::mem::take(&mut self.early) {
            self.learn(Some(map), out, shard, lead);
        }
    }

    /// Forgets a lead that has ended.
    pub fn unlearn(&mut self, out: &mut Outgoing, shard: ShardId, lead: KnownLeader) {
        let Some(known) = self.known.get_mut(usize::from(shard.0)) else { return };
        if *known == Some(lead) {
            *known = None;
            out.event(Event::Led(shard, None));
        }
    }

    /// Forgets the leads of a machine that is not connected any more.
    pub fn forget(&mut self, machine: MachineId) {
        for lead in &mut self.known {
            *lead = lead.filter(|lead| lead.machine != machine);
        }
    }
}
