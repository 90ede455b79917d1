//! Bundles: commands of one session on several shards of one process, at one moment.
//!
//! All workers of a machine that is alone share a [`BundleOrder`]. A bundle has a part for each of its
//! shards, and all parts enter the workers' inboxes at one moment. The order of these moments agrees with
//! every inbox, with the order of every connection and with real time, so that shards need not tell each
//! other anything about the order (`docs/internals/order/bundles.md`). That holds as long as
//! no part of a bundle waits at its shard. A shard at which one might wait is *disturbed*, and bundles do
//! not go there.

use crate::ids::{BundlePart, ShardId};
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
    /// Numbers so far. Locked while a bundle or other messages enter the inboxes at one moment.
    numbers: Mutex<Numbers>,
    /// For each shard, a bit for each [`Disturbance`].
    disturbed: Vec<AtomicU8>,
}

/// Numbers of bundles so far.
#[derive(Debug)]
struct Numbers {
    /// Number of the last bundle.
    last: u64,
    /// Number of the wave that is not closed.
    wave: u64,
    /// For each worker, number of the parts that it was sent.
    sent: Vec<u64>,
}

/// Parts that a worker has taken out of its inbox: their number, and the wave of the last one.
#[derive(Debug, Clone, Copy, Default)]
pub struct TakenParts {
    parts: u64,
    wave: u64,
}

impl TakenParts {
    /// Notes that this part was taken.
    pub fn add(&mut self, part: BundlePart) {
        *self = Self { parts: self.parts + 1, wave: part.wave };
    }
}

/// A moment in the order of bundles, which lasts until it is dropped.
pub struct Moment<'o> {
    order: &'o BundleOrder,
    numbers: MutexGuard<'o, Numbers>,
}

impl BundleOrder {
    /// Order for so many shards and workers; shard s is at worker s modulo workers.
    pub fn new(shards: u16, workers: u16) -> Self {
        let disturbed = (0..shards).map(|_| AtomicU8::new(0)).collect();
        let numbers = Numbers { last: 0, wave: 0, sent: vec![0; usize::from(workers.max(1))] };
        Self { numbers: Mutex::new(numbers), disturbed }
    }

    /// Begins the next moment, when the one before is over.
    pub fn moment(&self) -> Moment<'_> {
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        Moment { order: self, numbers }
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

    /// Lets a worker hand in its parts of a wave, which go into one write of each shard. The first worker
    /// closes the wave, and is given its last bundle. None if parts of the wave are in the inbox still.
    pub fn hand_in(&self, worker: u16, wave: u64, taken: TakenParts) -> Option<Option<u64>> {
        let numbers = &mut *self.moment().numbers;
        let sent = numbers.sent.get(usize::from(worker)).copied().unwrap_or_default();
        if sent > taken.parts && taken.wave <= wave {
            return None;
        }
        let closes = numbers.wave == wave;
        numbers.wave += u64::from(closes);
        Some(closes.then_some(numbers.last))
    }
}

impl Moment<'_> {
    /// Number for a bundle of this moment, with a part for each of these shards.
    pub fn number(&mut self, shards: impl Iterator<Item = ShardId>) -> BundlePart {
        let Numbers { last, wave, sent } = &mut *self.numbers;
        *last += 1;
        let workers = sent.len();
        let mut parts = 0;
        for shard in shards {
            parts += 1;
            sent[usize::from(shard.0) % workers] += 1;
        }
        BundlePart { bundle: *last, parts, wave: *wave }
    }

    /// Notes that a shard is disturbed: bundles of earlier moments are in its worker's inbox, and no other
    /// ones follow.
    pub fn disturb(&self, shard: ShardId, reason: Disturbance) {
        if let Some(bits) = self.order.disturbed.get(usize::from(shard.0)) {
            bits.fetch_or(reason.bit(), Ordering::AcqRel);
        }
    }
}

/// Writes to the disk, held until waves of bundles are complete.
///
/// All parts of a bundle become durable together: a crash leaves all of them or none. The bundles become
/// durable in their order, which is also that of each session. One write of a shard has parts of many
/// bundles, so the bundles of a *wave* become durable together. A wave ends when the first shard hands a part
/// of it in, and each shard hands all of its parts of a wave in by one write. That write waits until the
/// parts of the wave and of all earlier ones were handed in; then all go to the disk in one atomic batch.
#[derive(Debug, Default)]
pub struct BundleWrites {
    held: VecDeque<Persist>,
    /// Parts of each incomplete bundle: how many there are, and how many were handed in.
    parts: BTreeMap<u64, (u16, u16)>,
    /// Number of the last bundle up to which all are complete.
    complete: u64,
    /// Last bundle of each wave that is closed and not complete.
    ends: BTreeMap<u64, u64>,
}

impl BundleWrites {
    /// Takes a write.
    pub fn add(&mut self, persist: Persist) {
        for part in &persist.bundles {
            let (parts, found) = self.parts.entry(part.bundle).or_default();
            (*parts, *found) = (part.parts, *found + 1);
        }
        self.ends.extend(persist.wave_end);
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
        let Self { ends, complete, .. } = self;
        let is_complete = |part: &BundlePart| ends.get(&part.wave).is_some_and(|e| e <= complete);
        let mut behind: BTreeSet<ShardId> = BTreeSet::new();
        let (held, ready): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.held).into_iter().partition(|persist| {
                if !persist.bundles.first().is_none_or(is_complete) {
                    behind.insert(persist.group);
                }
                behind.contains(&persist.group)
            });
        self.held = held;
        self.ends.retain(|_, end| *end > self.complete);
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

    fn part(bundle: u64, wave: u64) -> BundlePart {
        BundlePart { bundle, parts: 2, wave }
    }

    fn persist(shard: u16, parts: &[BundlePart], wave_end: Option<(u64, u64)>) -> Persist {
        Persist { group: ShardId(shard), bundles: parts.to_vec(), wave_end, ..Persist::default() }
    }

    fn ready(writes: &mut BundleWrites) -> Vec<u16> {
        writes.take_ready().iter().map(|persist| persist.group.0).collect()
    }

    fn shards(of: &[u16]) -> impl Iterator<Item = ShardId> {
        of.iter().copied().map(ShardId)
    }

    #[test]
    fn a_part_of_a_bundle_waits_for_all_the_others() {
        let mut writes = BundleWrites::default();
        writes.add(persist(0, &[], None));
        writes.add(persist(1, &[part(1, 0)], Some((0, 1))));
        writes.add(persist(1, &[], None));
        assert_eq!(ready(&mut writes), [0]);
        writes.add(persist(0, &[part(1, 0)], None));
        assert_eq!(ready(&mut writes), [1, 1, 0]);
        assert_eq!(writes.held().count(), 0);
    }

    #[test]
    fn a_complete_bundle_waits_for_the_earlier_ones() {
        let mut writes = BundleWrites::default();
        writes.add(persist(2, &[part(2, 1)], Some((1, 2))));
        writes.add(persist(3, &[part(2, 1)], None));
        writes.add(persist(0, &[part(1, 0)], Some((0, 1))));
        assert!(ready(&mut writes).is_empty());
        writes.add(persist(1, &[part(1, 0)], None));
        assert_eq!(ready(&mut writes), [2, 3, 0, 1]);
    }

    #[test]
    fn bundles_whose_parts_share_a_write_become_durable_together() {
        let mut writes = BundleWrites::default();
        writes.add(persist(0, &[part(1, 0)], Some((0, 2))));
        writes.add(persist(1, &[part(1, 0), part(2, 0)], None));
        assert!(ready(&mut writes).is_empty(), "the first bundle alone would be torn");
        writes.add(persist(2, &[part(2, 0)], None));
        assert_eq!(ready(&mut writes), [0, 1, 2]);
    }

    #[test]
    fn a_wave_ends_with_the_first_write_and_later_ones_have_all_their_parts() {
        let order = BundleOrder::new(4, 2);
        let (mut even, mut odd) = (TakenParts::default(), TakenParts::default());
        let first = order.moment().number(shards(&[0, 1]));
        let second = order.moment().number(shards(&[1, 3]));
        assert_eq!((first.wave, second.wave, second.parts), (0, 0, 2));
        even.add(first);
        odd.add(first);
        odd.add(second);
        assert_eq!(order.hand_in(1, 0, odd), None, "the second has a part for another shard there");
        assert_eq!(order.hand_in(0, 0, even), Some(Some(2)));
        odd.add(second);
        let third = order.moment().number(shards(&[0, 1]));
        assert_eq!(third.wave, 1);
        assert_eq!(order.hand_in(1, 0, odd), None, "it is not known what the third is");
        odd.add(third);
        assert_eq!(order.hand_in(1, 0, odd), Some(None));
        assert_eq!(order.hand_in(1, 1, odd), Some(Some(3)));
    }

    #[test]
    fn a_shard_of_which_nothing_is_known_is_disturbed() {
        let order = BundleOrder::new(2, 1);
        let both = || shards(&[0, 1]);
        assert_eq!(order.obstacle(both()), None);
        order.moment().disturb(ShardId(1), Disturbance::Streams);
        assert_eq!(order.obstacle(both()), Some(Disturbance::Streams));
        order.moment().disturb(ShardId(0), Disturbance::Locks);
        assert_eq!(order.obstacle(both()), Some(Disturbance::Locks));
        order.calm(ShardId(0), Disturbance::Locks);
        order.calm(ShardId(1), Disturbance::Streams);
        assert_eq!(order.obstacle(both()), None);
        assert!(order.obstacle(shards(&[2])).is_some());
    }
}
