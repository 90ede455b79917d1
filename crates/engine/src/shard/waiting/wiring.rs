//! Connections of waits with the rest of the shard: all places where requests wait, and how turns go on
//! through locks and log.

use super::Waits;
use super::room::WaitingRoom;
use super::turns::NewTurn;
use crate::entry::LogRecord;
use crate::ids::{KeyedOp, MachineId};
use crate::message::{Answer, Request};
use crate::now::Now;
use crate::shard::Desk;
use crate::shard::Shard;
use crate::shard::core::ShardCore;
use crate::shard::delayed::Delayed;
use crate::shard::tail::Recipient;
use adt::{Blob, Op};

impl WaitingRoom for Delayed {
    fn len(&self) -> usize {
        self.count()
    }

    fn forget(&mut self, _core: &mut ShardCore, _now: Now, machine: MachineId) {
        self.drop_of(machine);
    }

    /// Sends the requests to the next leader, those that wait for the log first.
    fn end_lead(&mut self, core: &mut ShardCore) {
        for request in std::mem::take(self).into_requests() {
            core.turn_away(request.gateway, request.token, request.body);
        }
    }
}

impl Desk {
    /// Visits every place where requests wait, in the order in which requests are answered when the lead
    /// ends: of one session, those that wait for longest first. What is not in the log yet, or on its way
    /// there, is not among them: see [`Shard::step_down`].
    ///
    /// The parts are named one by one so that a new one cannot be forgotten here.
    pub(in crate::shard) fn each_room(
        &mut self,
        mut visit: impl FnMut(&mut dyn WaitingRoom, &mut ShardCore),
    ) {
        let Self {
            core,
            locking,
            expiry: _,
            waits,
            cuts,
            splitting: _,
            streams,
            service,
            scripts: _,
            lead_is_certain: _,
        } = self;
        let Waits { blocked, turns, observers, followers, newcomers } = waits;
        visit(locking, core);
        let mut delayed = std::mem::take(&mut core.delayed);
        visit(&mut delayed, core);
        core.delayed = delayed;
        visit(&mut locking.whole, core);
        let rooms: [&mut dyn WaitingRoom; 8] =
            [turns, observers, followers, blocked, newcomers, cuts, streams, service];
        rooms.into_iter().for_each(|room| visit(room, core));
    }

    /// Every place where requests wait, to look at.
    pub(in crate::shard) fn rooms(&self) -> [&dyn WaitingRoom; 11] {
        let Self { core, locking, waits, cuts, streams, service, .. } = self;
        let Waits { blocked, turns, observers, followers, newcomers } = waits;
        let (delayed, whole) = (&core.delayed, &locking.whole);
        [
            locking, delayed, whole, turns, observers, followers, blocked, newcomers, cuts,
            streams, service,
        ]
    }

    /// Whether successors may be told of a release before it is durable: no other machine can lead the shard,
    /// and all that is logged now will take effect here.
    pub(in crate::shard) fn may_tell_early(&self) -> bool {
        self.lead_is_certain && !self.core.frozen && !self.splitting.is_giving()
    }

    /// Takes an operation that waits for its turn.
    pub(in crate::shard) fn take_turn(&mut self, now: Now, request: Request) {
        let taken = self.waits.turns.take(&mut self.core, now, request);
        let Some(NewTurn { number, key, known }) = taken else { return };
        if known {
            let request = self.waits.turns.set_out(number);
            return request.into_iter().for_each(|request| self.admit_apply(now, request));
        }
        self.let_in(now, &key, None);
        self.waits.turns.settle_new(&mut self.core, now, number, &key);
    }

    /// Lets turns in right behind operations in the log that let them go.
    pub(in crate::shard) fn let_in_behind(&mut self, now: Now, awaited: &[KeyedOp]) {
        for (key, op) in awaited {
            self.let_in(now, key, Some(op));
        }
    }

    /// Lets the first turns of a record's queue in, as many as can go, after `behind` if one is given.
    fn let_in(&mut self, now: Now, key: &Blob, behind: Option<&Op>) {
        let step = self.waits.turns.begin_letting_in(&mut self.core, now, key, behind);
        let Some(mut step) = step else { return };
        while let Some(request) = self.waits.turns.let_in_next(key, &mut step) {
            self.admit_apply(now, request);
        }
        let certain = self.may_tell_early();
        self.waits.turns.end_letting_in(&mut self.core, now, key, (step, certain));
        // Transactions may hold the record of a barrier. It is examined again soon.
        if let Some((party, first)) = self.waits.turns.party(key)
            && self.may_apply(now, &first)
        {
            self.waits.turns.go_on_together(&mut self.core, &party);
        }
    }

    /// Examines queues whose records have changed, or whose turns have come back. While a backup stands
    /// still, or a transaction about all keys is open, no turn goes on.
    pub(in crate::shard) fn look_at_turns(&mut self, now: Now) {
        if self.core.frozen || self.locking.whole.is_open() {
            return;
        }
        while let Some(key) = self.waits.turns.next_look() {
            self.let_in(now, &key, None);
            self.waits.turns.tell_listening(&mut self.core, now, &key);
        }
    }

    /// Takes the answer to the operation of a turn.
    pub(in crate::shard) fn turn_taken(&mut self, now: Now, target: Recipient, answer: Answer) {
        let effect = self.waits.turns.taken(&mut self.core, now, target, answer);
        if let Some(undo) = effect.undo {
            let awaited = self.waits.turns.awaited(&undo);
            self.core.log(LogRecord::Apply(undo), Recipient::none());
            self.let_in_behind(now, &awaited);
        }
        for number in effect.copies {
            if let Some(request) = self.waits.turns.set_out_copy(number) {
                self.admit_apply(now, request);
            }
        }
    }
}

impl Shard {
    /// Whether a turn waits that can be named as a successor.
    pub fn has_successors(&self) -> bool {
        self.desk.waits.turns.has_successors()
    }

    /// How many successors were told early since the shard was started.
    pub fn told_early(&self) -> u64 {
        self.desk.core.stats.locks.early
    }
}
