//! Connections of cuts and splits with the rest of the shard.

use super::cut::gone;
use super::split::Born;
use crate::cluster::map::Range;
use crate::entry::SnapshotPart;
use crate::ids::{GatewayId, ShardId, Token, TxnId};
use crate::message::{Answer, Body, CutStep, Refusal};
use crate::now::Now;
use crate::shard::locking::manager::LockWaiter;
use crate::shard::state::State;
use crate::shard::state::slots::is_in;
use crate::shard::{Desk, Shard};
use adt::Reply;

impl Desk {
    /// Takes a step of a cut that a gateway makes. Pieces are asked for with [`Shard::cut_piece`].
    pub(in crate::shard) fn cut(
        &mut self,
        now: Now,
        from: (GatewayId, Token),
        number: u64,
        step: CutStep,
    ) {
        self.expire_cut(now);
        let core = &mut self.core;
        let reply = match step {
            CutStep::Freeze => {
                let refused = self.cuts.freeze(core, now, from, number, self.splitting.is_giving());
                match refused {
                    Some(refused) => refused,
                    None => return self.refuse_waiting(now),
                }
            }
            CutStep::Release => self.cuts.release(core, now, number),
            CutStep::Piece(_) => gone(),
            CutStep::End => self.cuts.end(core, number),
        };
        self.resume_released(now);
        self.core.answer(from.0, from.1, Answer::Reply(reply));
    }

    /// Refuses parts of transactions and pipelines that wait here.
    fn refuse_waiting(&mut self, now: Now) {
        let waits = |waiter: &LockWaiter| match &waiter.request.body {
            Body::Prepare { prepare, .. } if prepare.participants.len() > 1 => Some(prepare.txn),
            _ => None,
        };
        let waiting: Vec<TxnId> = self.locking.waiting().filter_map(waits).collect();
        for txn in waiting {
            self.waits.newcomers.refuse(&mut self.core, txn, Refusal::Frozen);
            self.locking.cancel(&mut self.core, txn, Refusal::Frozen);
        }
        self.refuse_waiting_groups(now);
    }

    /// Carries out the requests that were held back, if the shard does not stand still any more.
    pub(in crate::shard) fn resume_released(&mut self, now: Now) {
        let Some(held) = self.cuts.take_released() else { return };
        for waiter in self.locking.waiting() {
            waiter.claims.iter().for_each(|(key, _)| self.core.locks.wake_all(key));
        }
        self.streams.mark_chains(&self.core);
        self.settle(now);
        self.service.go_on(&mut self.core, now);
        for request in held {
            self.handle(now, request);
        }
    }

    /// Gives a cut up that was not continued in time.
    pub(in crate::shard) fn expire_cut(&mut self, now: Now) {
        self.cuts.expire(&mut self.core, now);
        self.resume_released(now);
    }
}

impl Shard {
    /// A piece of the state that is kept for a cut; see [`CutStep::Piece`].
    pub fn cut_piece(
        &mut self,
        now: Now,
        piece: (u64, u64),
        encode: impl Fn(&SnapshotPart, &mut Vec<u8>),
    ) -> Reply {
        self.desk.expire_cut(now);
        self.desk.cuts.piece(&mut self.desk.core, now, piece, encode)
    }

    /// Begins to give slots away: no new transaction gets locks there. Tells whether nothing is prepared on
    /// them any more.
    pub fn begin_giving(&mut self, range: Range) -> bool {
        self.desk.splitting.begin(range);
        let mut keys = self.desk.locking.prepared_keys();
        let mut in_state =
            self.desk.core.state.prepared().values().flat_map(|p| &p.prepare.apply.ops);
        let free =
            !keys.any(|key| is_in(key, range)) && !in_state.any(|(key, _)| is_in(key, range));
        // Nor may there be units that have still to get their places, or are on their way to the log.
        let mut contents = self.desk.core.state.streams.all_contents().map(|(key, _)| key);
        let units = free && !contents.any(|key| is_in(key, range));
        units && !self.desk.streams.open_keys().any(|key| is_in(key, range))
    }

    /// Puts the split into an entry of its own, behind everything else.
    pub fn log_split(&mut self, child: ShardId, first: u16, range: Range) {
        self.desk.core.log_split(child, first, range);
    }

    /// Takes the beginnings of a new shard, if this one has just given it part of its slots.
    pub fn take_born(&mut self) -> Option<Born> {
        self.desk.splitting.take_born()
    }

    /// The state, of a shard that no driver uses any more.
    pub fn into_state(self) -> State {
        self.desk.core.state
    }
}
