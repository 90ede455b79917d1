//! Shards of a worker at which parts of bundles might have to wait.
//!
//! The first request that could make a part wait marks its shard as disturbed, at a moment in the order
//! of bundles. Bundles of earlier moments may be in the inbox still, and come before the request: it is
//! held until the inbox was drained once, and later requests to that shard are held behind it.

use super::Replicas;
use crate::entry::EntryCodec;
use crate::ids::{BundlePart, ShardId};
use crate::message::Request;
use crate::now::Now;
use crate::pipeline::bundles::{BundleOrder, Disturbance, TakenParts};
use crate::replica::Replica;
use std::collections::VecDeque;
use std::iter::once;
use std::sync::Arc;

/// Shards of a worker at which parts of bundles might have to wait.
#[derive(Debug, Default)]
pub(in crate::node) struct Disturbed {
    /// Order of the machine's bundles; none if it has no bundles.
    order: Option<Arc<BundleOrder>>,
    /// Disturbed shards of this worker.
    shards: Vec<(ShardId, Disturbance)>,
    /// Requests that wait until the inbox was drained.
    held: VecDeque<(ShardId, Request)>,
    /// Parts of numbered bundles that were taken.
    taken: TakenParts,
    /// Whether parts without a number were taken that are not applied.
    unapplied: bool,
}

impl Disturbed {
    /// Gives a request back, unless it must wait until the inbox was drained.
    #[inline]
    pub fn hold(&mut self, shard: ShardId, request: Request) -> Option<Request> {
        if !self.held.is_empty() && self.held.iter().any(|(of, _)| *of == shard) {
            self.held.push_back((shard, request));
            return None;
        }
        let Some(reason) = request.body.disturbance() else { return Some(request) };
        let Some(order) = &self.order else { return Some(request) };
        if order.is_disturbed(shard, reason) {
            return Some(request);
        }
        let is_calm = order.obstacle(once(shard)).is_none();
        order.moment().disturb(shard, reason);
        self.shards.push((shard, reason));
        if !is_calm {
            return Some(request);
        }
        self.held.push_back((shard, request));
        None
    }

    /// Notes that a shard's turn ends: the parts that it was given may be proposed, as far as they may go to
    /// the disk.
    pub fn end_turn<C: EntryCodec + Clone>(&mut self, worker: u16, replica: &mut Replica<C>) {
        self.unapplied = false;
        let Some(wave) = replica.shard().tail().first_wave() else { return };
        if let Some(order) = self.order.as_ref().filter(|_| !replica.group().is_persisting())
            && let Some(end) = order.hand_in(worker, wave, self.taken)
        {
            replica.shard_mut().tail_mut().permit_wave(wave, end);
        }
    }
}

/// Bundles at the shards of a worker.
pub struct Bundles<'n, C> {
    pub(in crate::node) disturbed: &'n mut Disturbed,
    pub(in crate::node) replicas: &'n mut Replicas<C>,
}

impl<C: EntryCodec + Clone> Bundles<'_, C> {
    /// Takes part in the order of the bundles of a machine that is alone. The shards may have open
    /// transactions and units.
    pub fn share_order(self, order: Arc<BundleOrder>) {
        for &shard in self.replicas.local() {
            let shard = ShardId(shard as u16);
            for reason in [Disturbance::Locks, Disturbance::Streams] {
                order.moment().disturb(shard, reason);
                self.disturbed.shards.push((shard, reason));
            }
        }
        self.disturbed.order = Some(order);
    }

    /// Takes a part of a bundle for a shard here, from the inbox. The bundle's parts become durable together
    /// if it has a number.
    pub fn take_part(self, now: Now, shard: ShardId, request: Request, part: Option<BundlePart>) {
        part.into_iter().for_each(|part| self.disturbed.taken.add(part));
        let Some(replica) = self.replicas.get_mut(shard) else { return };
        self.disturbed.unapplied |= part.is_none() && !request.body.is_read_only();
        replica.take_part(now, request, part);
    }

    /// Whether parts were taken that are not applied, although they wait for no disk. Whatever comes next is
    /// to see them, as other workers may have shown the bundles' other parts already.
    #[inline]
    pub fn are_unapplied(&self) -> bool {
        self.disturbed.unapplied
    }

    /// Whether requests wait until everything that is in the inbox now was taken.
    #[inline]
    pub fn are_awaited(&self) -> bool {
        !self.disturbed.held.is_empty()
    }

    /// Takes the requests that waited until the inbox was drained.
    pub fn drained(self, now: Now) {
        while let Some((shard, request)) = self.disturbed.held.pop_front() {
            if let Some(replica) = self.replicas.get_mut(shard) {
                replica.handle(now, request);
            }
        }
    }

    /// Lets bundles go again to the shards at which no part would wait any more. After the clock was raised
    /// above everything that these shards have answered.
    pub fn calm(self) {
        let Disturbed { order, shards, held, .. } = self.disturbed;
        let Some(order) = order.as_ref().filter(|_| held.is_empty()) else { return };
        shards.retain(|&(shard, reason)| {
            let replica = self.replicas.get(shard);
            let is_calm = replica.is_none_or(|replica| replica.shard().is_calm(reason));
            if is_calm {
                order.calm(shard, reason);
            }
            !is_calm
        });
    }
}
