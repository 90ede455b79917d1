//! Bundles: commands of one session on several shards of one process, at one moment.
//!
//! All workers of a machine that is alone share a [`BundleOrder`]. A bundle has a part for each of its
//! shards, and all parts enter the workers' inboxes at one moment. The order of these moments agrees with
//! every inbox, with the order of every connection and with real time, so that shards need not tell each
//! other anything about the order (`docs/internals/order.md`, "Inside one process"). That holds as long as
//! no part of a bundle waits at its shard. A shard at which one might wait is *disturbed*, and bundles do
//! not go there.

use crate::ids::ShardId;
use crate::replication::Persist;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reason why a part of a bundle might have to wait at a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Locks, waiting requests, a backup: whatever is not a stream.
    Locks,
    /// Units of streams, which are over soon.
    Streams,
}

impl Disturbance {
    fn bit(self) -> u8 {
        match self {
            Self::Locks => 1,
            Self::Streams => 2,
        }
    }
}

/// Order of the bundles of a machine's workers, and the shards to which no bundle may go.
#[derive(Debug)]
pub struct BundleOrder {
    /// Number of the last bundle.
    last: Mutex<u64>,
    /// For each shard, a bit for each [`Disturbance`].
    disturbed: Vec<AtomicU8>,
}

/// A moment in the order of bundles, which lasts until it is dropped.
pub struct Moment<'o> {
    order: &'o BundleOrder,
    last: MutexGuard<'o, u64>,
}

impl BundleOrder {
    /// Order for so many shards.
    pub fn new(shards: u16) -> Self {
        let disturbed = (0..shards).map(|_| AtomicU8::new(0)).collect();
        Self { last: Mutex::new(0), disturbed }
    }

    /// Begins the next moment, when the one before is over.
    pub fn moment(&self) -> Moment<'_> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        Moment { order: self, last }
    }

    fn bits(&self, shard: ShardId) -> u8 {
        let bits = self.disturbed.get(usize::from(shard.0));
        bits.map_or(u8::MAX, |bits| bits.load(Ordering::Acquire))
    }

    /// Whether a shard is disturbed for this reason.
    #[inline]
    pub fn is_disturbed(&self, shard: ShardId, reason: Disturbance) -> bool {
        self.bits(shard) & reason.bit() != 0
    }

    /// Reason why a bundle cannot go to these shards, if there is one.
    pub fn obstacle(&self, shards: impl Iterator<Item = ShardId>) -> Option<Disturbance> {
        let bits = shards.fold(0, |bits, shard| bits | self.bits(shard));
        let reasons = [Disturbance::Locks, Disturbance::Streams];
        reasons.into_iter().find(|reason| bits & reason.bit() != 0)
    }

    /// Notes that a shard is not disturbed for this reason any more. Only the shard's worker calls it.
    pub fn calm(&self, shard: ShardId, reason: Disturbance) {
        if let Some(bits) = self.disturbed.get(usize::from(shard.0)) {
            bits.fetch_and(!reason.bit(), Ordering::Release);
        }
    }
}

impl Moment<'_> {
    /// Number for a bundle of this moment.
    pub fn number(&mut self) -> u64 {
        *self.last += 1;
        *self.last
    }

    /// Notes that a shard is disturbed: bundles of earlier moments are in its worker's inbox, and no other
    /// ones follow.
    pub fn disturb(&self, shard: ShardId, reason: Disturbance) {
        if let Some(bits) = self.order.disturbed.get(usize::from(shard.0)) {
            bits.fetch_or(reason.bit(), Ordering::AcqRel);
        }
    }
}

/// Writes to the disk, held until bundles are complete.
///
/// All parts of a bundle become durable together: a crash leaves all of them or none. The bundles become
/// durable in their order, which is also that of each session. So a write waits until the parts of its
/// bundles and of all earlier ones were handed in; then all go to the disk in one atomic batch.
#[derive(Debug, Default)]
pub struct BundleWrites {
    held: VecDeque<Persist>,
    /// Parts of each incomplete bundle: how many there are, and how many were handed in.
    parts: BTreeMap<u64, (u16, u16)>,
    /// Number of the last bundle up to which all are complete.
    complete: u64,
}

impl BundleWrites {
    /// Takes a write.
    pub fn add(&mut self, persist: Persist) {
        for part in &persist.bundles {
            let (parts, found) = self.parts.entry(part.bundle).or_default();
            (*parts, *found) = (part.parts, *found + 1);
        }
        self.held.push_back(persist);
    }

    /// Takes the writes that can go to the disk, in the order of each shard.
    pub fn take_ready(&mut self) -> Vec<Persist> {
        while let Some((&bundle, &(parts, found))) = self.parts.first_key_value()
            && bundle == self.complete + 1
            && parts == found
        {
            self.parts.pop_first();
            self.complete = bundle;
        }
        if self.parts.is_empty() {
            return std::mem::take(&mut self.held).into();
        }
        let mut behind: BTreeSet<ShardId> = BTreeSet::new();
        let (held, ready): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.held).into_iter().partition(|persist| {
                let early = persist.bundles.iter().any(|part| part.bundle > self.complete);
                if early {
                    behind.insert(persist.group);
                }
                behind.contains(&persist.group)
            });
        self.held = held;
        ready.into()
    }

    /// Writes that wait for others.
    pub fn held(&self) -> impl Iterator<Item = &Persist> {
        self.held.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BundlePart;

    fn persist(shard: u16, number: u64, parts: &[(u64, u16)]) -> Persist {
        let bundles = parts.iter().map(|&(bundle, parts)| BundlePart { bundle, parts }).collect();
        Persist { group: ShardId(shard), number, bundles, ..Persist::default() }
    }

    fn ready(writes: &mut BundleWrites) -> Vec<(u16, u64)> {
        writes.take_ready().iter().map(|persist| (persist.group.0, persist.number)).collect()
    }

    #[test]
    fn a_part_of_a_bundle_waits_for_all_the_others() {
        let mut writes = BundleWrites::default();
        writes.add(persist(0, 1, &[]));
        writes.add(persist(1, 1, &[(1, 2)]));
        writes.add(persist(1, 2, &[]));
        assert_eq!(ready(&mut writes), [(0, 1)]);
        writes.add(persist(0, 2, &[(1, 2)]));
        assert_eq!(ready(&mut writes), [(1, 1), (1, 2), (0, 2)]);
        assert_eq!(writes.held().count(), 0);
    }

    #[test]
    fn a_complete_bundle_waits_for_the_earlier_ones() {
        let mut writes = BundleWrites::default();
        writes.add(persist(2, 1, &[(2, 2)]));
        writes.add(persist(3, 1, &[(2, 2)]));
        writes.add(persist(0, 1, &[(1, 2)]));
        assert_eq!(ready(&mut writes), []);
        writes.add(persist(1, 1, &[(1, 2)]));
        assert_eq!(ready(&mut writes), [(2, 1), (3, 1), (0, 1), (1, 1)]);
    }

    #[test]
    fn a_shard_of_which_nothing_is_known_is_disturbed() {
        let order = BundleOrder::new(2);
        let both = || [ShardId(0), ShardId(1)].into_iter();
        assert_eq!(order.obstacle(both()), None);
        order.moment().disturb(ShardId(1), Disturbance::Streams);
        assert_eq!(order.obstacle(both()), Some(Disturbance::Streams));
        order.moment().disturb(ShardId(0), Disturbance::Locks);
        assert_eq!(order.obstacle(both()), Some(Disturbance::Locks));
        order.calm(ShardId(0), Disturbance::Locks);
        order.calm(ShardId(1), Disturbance::Streams);
        assert_eq!(order.obstacle(both()), None);
        assert!(order.obstacle([ShardId(2)].into_iter()).is_some());
    }
}
