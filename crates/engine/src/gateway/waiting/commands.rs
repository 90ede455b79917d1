//! Effects of waits, which the gateway carries out, and the ends of waits from outside.

use super::effect::WaitEffect;
use crate::entry::Apply;
use crate::gateway::Gateway;
use crate::gateway::api::NearWord;
use crate::gateway::clients::session::BlockedBy;
use crate::gateway::parts::Parts;
use crate::gateway::routing::route::Route;
use crate::gateway::txn::work::{Finish, Form, Work};
use crate::ids::GatewayId;
use crate::now::Now;
use smallvec::SmallVec;

impl Gateway {
    /// Handles a message of another gateway of this server about locks that are kept for clients.
    pub fn near_told(&mut self, now: Now, from: GatewayId, word: NearWord) {
        self.parts.core.now = now;
        self.parts.near_locks.receive(&mut self.parts.core, from, word);
        self.settle();
    }
}

impl Parts {
    /// Carries out the effect of a wait, if it has one.
    pub(in crate::gateway) fn wait_goes_on(&mut self, effect: Option<WaitEffect>) {
        match effect {
            None => {}
            Some(WaitEffect::Ended(id)) => {
                if let Some(session) = self.sessions.get_mut(id.0) {
                    session.unblock(self.core.now);
                }
            }
            Some(WaitEffect::Arrived(id)) => {
                if let Some(session) = self.sessions.get_mut(id.0) {
                    session.about.arrives = false;
                }
            }
            Some(WaitEffect::Launch(program)) => self.launch(program, Route::Many),
            Some(WaitEffect::Take { target, ops, finish }) => {
                self.transactions.begin_taker(&mut self.core, target, ops, finish);
            }
            Some(WaitEffect::Move(program)) => {
                self.sessions.bar(program.target);
                self.transactions.begin_taking(&mut self.core, program);
            }
            Some(WaitEffect::Forward { target, key, op, request: None }) => {
                self.sessions.send_single(&mut self.core, target, key, op);
            }
            Some(WaitEffect::Forward { target, key, op, request }) => {
                let (shard, mut work) = (self.core.mail.shard_of(&key), Work::default());
                work.add(vec![(key, op)], None);
                let ops = SmallVec::from_vec(work.ops);
                let finish = Finish::new(work.outcomes, Form::One, None);
                let apply = Apply { ops, request, ..Apply::default() };
                self.sessions.send_work(&mut self.core, target, shard, apply, finish);
            }
        }
    }

    /// `CLIENT UNBLOCK`: ends the wait of a client. Tells whether it was waiting.
    pub(in crate::gateway) fn unblock(&mut self, client: u64, error: bool) -> bool {
        let session = self.sessions.of_client(client);
        let core = &mut self.core;
        match session.and_then(|(_, session)| session.blocked) {
            None => return false,
            Some(BlockedBy::Near(visit)) => self.near_locks.unblock(core, visit, error),
            Some(BlockedBy::Turn(turn)) => {
                let effect = self.turns.unblock(core, turn, error);
                self.wait_goes_on(effect);
            }
            Some(BlockedBy::Command(job)) => {
                let effect = self.blocked.unblock(core, job, error);
                self.wait_goes_on(effect);
            }
        }
        true
    }

    /// Ends the wait of a session whose connection is gone.
    pub(in crate::gateway) fn stop_waiting(&mut self, by: BlockedBy) {
        match by {
            BlockedBy::Near(visit) => self.near_locks.leave(&mut self.core, visit, None),
            BlockedBy::Turn(turn) => drop(self.turns.give_up(&mut self.core, turn)),
            BlockedBy::Command(job) => drop(self.blocked.give_up(&mut self.core, job)),
        }
    }
}
