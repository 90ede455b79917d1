//! Queue of a record: the requests that wait for it, by lock mode, and what each of them waits for.
//!
//! A waiting request stands behind one obstacle, and is looked at again when that one is gone. So the work
//! of a release does not grow with the number of requests that wait for something else.

use super::modes::{Claim, ClaimKind};
use crate::ids::{Age, TxnId};
use crate::limits::LOOKS_MAX;
use adt::collections::Map;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Number of a waiting request; grows, so that equal ages are served in order of arrival.
pub type WaiterId = u64;

/// Place of a request in the queues.
pub type Place = (Age, WaiterId);

/// Obstacle that keeps a claim from being granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// A transaction holds the record.
    Holder(TxnId),
    /// Operations of this log entry are not applied yet.
    InFlight(u64),
    /// An older request waits for the record.
    Queue(WaiterId),
    /// The record's quantity leaves no room beside what is held and in flight.
    Room,
}

/// Whether requests of a lane matter to a request behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matter {
    /// No.
    Never,
    /// Only requests that are found to conflict.
    IfSeen,
    /// All requests but those that are found not to conflict.
    UnlessSeen,
}

/// Requests that claim a record in one mode.
#[derive(Clone, Debug)]
struct Lane {
    kind: ClaimKind,
    members: BTreeMap<Place, SmallVec<[Claim; 1]>>,
}

/// Requests that wait for a record.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    order: BTreeSet<Place>,
    lanes: SmallVec<[Lane; 1]>,
    behind: Map<Barrier, SmallVec<[Place; 2]>>,
    /// Requests whose obstacles are gone.
    woken: BTreeSet<Place>,
}

impl Line {
    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The requests, the oldest first.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.order.iter().copied()
    }

    /// Adds a claim of a request.
    pub fn enter(&mut self, place: Place, claim: Claim) {
        self.order.insert(place);
        let kind = claim.kind();
        let at = self.lanes.iter().position(|lane| lane.kind == kind).unwrap_or_else(|| {
            self.lanes.push(Lane { kind, members: BTreeMap::new() });
            self.lanes.len() - 1
        });
        self.lanes[at].members.entry(place).or_default().push(claim);
    }

    /// Takes a request out, if it is here, and wakes those that stood behind it.
    pub fn leave(&mut self, place: Place) {
        if self.order.remove(&place) {
            self.woken.remove(&place);
            self.lanes.iter_mut().for_each(|lane| drop(lane.members.remove(&place)));
            self.lanes.retain(|lane| !lane.members.is_empty());
            self.wake(Barrier::Queue(place.1));
        }
    }

    /// Notes what a request waits for.
    pub fn stand_behind(&mut self, barrier: Barrier, place: Place) {
        self.behind.entry(barrier).or_default().push(place);
    }

    /// Wakes the requests behind an obstacle that is gone.
    pub fn wake(&mut self, barrier: Barrier) {
        if self.behind.is_empty() {
            return;
        }
        let behind = self.behind.swap_remove(&barrier).into_iter().flatten();
        self.woken.extend(behind.filter(|place| self.order.contains(place)));
    }

    /// Wakes all requests.
    pub fn wake_all(&mut self) {
        self.woken.clone_from(&self.order);
    }

    /// Whether requests are to be looked at.
    pub fn is_awake(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Takes the oldest request that is to be looked at.
    pub fn next_woken(&mut self) -> Option<Place> {
        self.woken.pop_first()
    }

    /// The oldest request behind `after` that is in none of the lanes which `is_spent` names, with its lane.
    pub fn next_in_lanes(
        &self,
        after: Option<Place>,
        is_spent: impl Fn(ClaimKind) -> bool,
    ) -> Option<(Place, ClaimKind)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        let lanes = self.lanes.iter().filter(|lane| !is_spent(lane.kind));
        let next = lanes.filter_map(|lane| {
            let (place, _) = lane.members.range((from, Unbounded)).next()?;
            Some((*place, lane.kind))
        });
        next.min_by_key(|(place, _)| *place)
    }

    /// A request before `place` that the claim must not overtake: the latest one, unless too many would have
    /// to be looked at. `matter` tells whether modes matter to each other, `conflicts` whether claims do.
    pub fn latest_before(
        &self,
        kind: ClaimKind,
        place: Place,
        matter: impl Fn(ClaimKind) -> Matter,
        conflicts: impl Fn(&Claim) -> bool,
    ) -> Option<WaiterId> {
        self.lanes.iter().find_map(|lane| {
            let unseen = match matter(lane.kind) {
                Matter::Never => return None,
                Matter::IfSeen => false,
                Matter::UnlessSeen => true,
            };
            let end = if kind.passes_newly_come(lane.kind) {
                place.min((place.0.long_before(), 0))
            } else {
                place
            };
            let mut earlier = lane.members.range(..end).rev().enumerate();
            let latest = earlier
                .find(|(looks, (_, claims))| *looks >= LOOKS_MAX || claims.iter().any(&conflicts));
            let latest = latest.filter(|(looks, _)| unseen || *looks < LOOKS_MAX);
            latest.map(|(_, (place, _))| place.1)
        })
    }

    /// Age of the oldest request that a holder bars, or of an older one if too many would have to be looked
    /// at.
    pub fn oldest(
        &self,
        clashes: impl Fn(ClaimKind) -> bool,
        conflicts: impl Fn(&Claim) -> bool,
    ) -> Option<Age> {
        let lanes = self.lanes.iter().filter(|lane| clashes(lane.kind));
        let oldest = lanes.filter_map(|lane| {
            let mut members = lane.members.iter().enumerate();
            let found = members
                .find(|(looks, (_, claims))| *looks >= LOOKS_MAX || claims.iter().any(&conflicts));
            found.map(|(_, (place, _))| place.0)
        });
        oldest.min()
    }
}
