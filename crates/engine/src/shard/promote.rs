//! Whoever waits long for units of pipelines gets a place among them.
//!
//! A unit stands in the order of its records from the moment at which it comes; an operation that is in
//! no stream waits until its records are free, which under ever new pipelines they never are. So one that
//! has waited for a while is *promoted*: it becomes a transaction that is prepared here and nowhere else,
//! stands where it is put, and is decided as soon as it is in the log. It waits for those before it only,
//! none of whom waits for it.
//!
//! Early locks have no place that could be given to them. Where one has waited long, the units that come
//! are refused for a while (their gateways dispatch them again), until it is held.

use super::locks::WaiterId;
use super::{Shard, Waiter};
use crate::entry::{Apply, Prepare};
use crate::limits::{UNITS_OWE_US, UNITS_YIELD_US};
use crate::message::{Age, Body, GatewayId, Now, Request, TxnId};
use adt::Timestamp;
use smallvec::SmallVec;

impl Prepare {
    /// Whether the only participant carries it out like operations in no transaction.
    pub fn is_alone(&self) -> bool {
        self.participants.len() == 1 && !self.is_promoted()
    }

    /// Whether a shard has made it of operations in no transaction.
    pub fn is_promoted(&self) -> bool {
        self.txn.is_promoted()
    }
}

impl TxnId {
    /// Whether a shard has made the transaction: no gateway has such a number.
    pub fn is_promoted(self) -> bool {
        self.age.gateway == GatewayId::LAST
    }
}

/// What can be promoted, as what a transaction does.
fn promoted(body: Body) -> Option<Apply> {
    match body {
        Body::Apply(apply) if apply.fences.is_empty() => Some(apply),
        Body::Read { key, op, .. } => {
            Some(Apply { ops: SmallVec::from_iter([(key, op)]), ..Apply::default() })
        }
        Body::Snapshot { ops, .. } => {
            Some(Apply { ops: SmallVec::from_vec(ops), ..Apply::default() })
        }
        _ => None,
    }
}

/// Whether [`promoted`] is possible.
fn can_be_promoted(body: &Body) -> bool {
    match body {
        Body::Apply(apply) => apply.fences.is_empty(),
        Body::Read { .. } | Body::Snapshot { .. } => true,
        _ => false,
    }
}

impl Shard {
    /// Looks for those who have waited long for units of pipelines.
    pub(super) fn promote_stuck(&mut self, now: Now) {
        self.streams.owed.clear();
        if !self.streams.hold_records() || self.waiters.is_empty() {
            return;
        }
        let waited = |waiter: &Waiter, us: u64| now.mono_us >= waiter.since_us.saturating_add(us);
        let owed = self.waiters.values().filter(|w| {
            let locks = matches!(w.request.body, Body::Lock { .. });
            locks && waited(w, UNITS_OWE_US) && self.waits_for_units(w)
        });
        let owed = owed.flat_map(|w| w.claims.iter().map(|(key, _)| key.clone())).collect();
        self.streams.owed = owed;
        if self.giving.is_some() || self.is_frozen() {
            return;
        }
        let stuck = self.waiters.iter().filter(|(_, w)| {
            can_be_promoted(&w.request.body) && waited(w, UNITS_YIELD_US) && self.waits_for_units(w)
        });
        let stuck: Vec<WaiterId> = stuck.map(|(id, _)| *id).collect();
        for id in stuck {
            self.promote(now, id);
        }
    }

    fn promote(&mut self, now: Now, id: WaiterId) {
        let Some(waiter) = self.waiters.remove(&id) else { return };
        self.leave_queues(id, &waiter);
        let Request { gateway, token, after, body } = waiter.request;
        // Nobody else was looked for.
        let Some(apply) = promoted(body) else { return };
        self.move_clock(self.clock.next().max(Timestamp::from_micros(now.wall_us)));
        let age = Age { began: self.clock, gateway: GatewayId::LAST };
        // Clocks of shards may agree.
        let txn = TxnId { age, attempt: self.config.id.0.into() };
        let participants = SmallVec::from_iter([self.config.id]);
        let prepare = Prepare { txn, participants, apply };
        let body = Body::Prepare { prepare, floor: Timestamp::ZERO };
        self.begin_locking(now, Request { gateway, token, after, body });
    }

    /// Whether a promoted request of a gateway is not in the log yet.
    pub(super) fn is_promoting(&self, gateway: GatewayId, token: crate::message::Token) -> bool {
        self.txns.iter().filter(|(txn, _)| txn.is_promoted()).any(|(_, entry)| {
            let unlogged = entry.unlogged.as_ref();
            unlogged.is_some_and(|(_, t)| t.gateway == gateway && t.token.is_again(token))
        })
    }

    /// Promoted transactions that an earlier leader has left undecided: that they are in the log decides.
    pub(super) fn decide_promoted(&mut self, now: Now) {
        let open = self.state.prepared().iter().filter(|(txn, p)| {
            txn.is_promoted() && p.commit.is_none() && !self.state.is_announced(**txn)
        });
        let open: Vec<(TxnId, Timestamp)> = open.map(|(txn, p)| (*txn, p.bound)).collect();
        for (txn, bound) in open {
            self.decide(now, Default::default(), txn, Some(bound));
        }
    }
}
