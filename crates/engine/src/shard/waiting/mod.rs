//! Requests that wait at a shard's leader for a change of a record, or for places of units.
//!
//! Each kind of wait is a part of [`Waits`]. As a [`WaitingRoom`] it says what bounds it, and what becomes
//! of its requests when a machine is gone and when the lead ends. So do other parts of the shard in which
//! requests wait: [`Desk::each_room`] has them all. (`docs/internals/where-requests-wait.md` has a table
//! of all waits.)
//!
//! [`Desk::each_room`]: crate::shard::Desk::each_room

pub(in crate::shard) mod blocked;
mod deadlocks;
mod followers;
mod newcomers;
mod observers;
pub(in crate::shard) mod room;
pub(in crate::shard) mod serving;
pub(in crate::shard) mod turns;
mod wiring;

use crate::ids::{GatewayId, Token};
use crate::now::Now;
use crate::shard::core::ShardCore;
use adt::Blob;
use blocked::Blocked;
use followers::ChangeFollowers;
use newcomers::Newcomers;
use observers::Observers;
use room::WaitingRoom;
use turns::TurnQueues;

/// All waits of a shard for changes of records, or for places of units.
#[derive(Debug, Default)]
pub(in crate::shard) struct Waits {
    /// `BLPOP` and its family. Woken when a key has something to take.
    pub blocked: Blocked,
    /// Locks, barriers and sections. Woken by a release, or by the last party that comes.
    pub turns: TurnQueues,
    /// `ELECTION.OBSERVE`. Woken by every change of the record.
    pub observers: Observers,
    /// Gateways whose clients cache what they have read, or subscribe to keyspace events. Told of every
    /// change of a record.
    pub followers: ChangeFollowers,
    /// Transactions and units. Woken when units of an earlier leader have their places.
    pub newcomers: Newcomers,
}

impl Waits {
    /// Whether nothing must be looked after: no client waits for a turn, and no request for places.
    pub fn is_quiet(&self) -> bool {
        self.turns.is_empty() && self.newcomers.is_empty()
    }

    /// Does what is due by time.
    pub fn tick(&mut self, core: &mut ShardCore, now: Now) {
        self.turns.tick(core, now);
        self.observers.tick(core, now);
        self.blocked.tick(core, now);
        self.followers.tick(now);
    }

    /// Lets the state report changes of records as long as a request waits for one. Called as soon as a wait
    /// begins, because units of pipelines may be carried out in the same call of the shard.
    #[inline]
    pub fn report_changes(&self, core: &mut ShardCore) {
        let wants = self.followers.wants();
        let none = self.blocked.is_empty()
            && self.turns.is_empty()
            && self.observers.is_empty()
            && !wants.keys;
        core.ahead.report_changes(!none);
        core.ahead.report_events(wants.events);
    }

    /// Lets requests know that a record has changed.
    pub fn changed(&mut self, core: &mut ShardCore, now: Now, key: &Blob) {
        self.turns.may_come(key);
        self.observers.show(core, now, key);
        self.blocked.changed(core, now, key);
    }

    /// Lets all requests know that records have changed.
    pub fn all_changed(&mut self, core: &mut ShardCore, now: Now, keys: Vec<Blob>) {
        keys.iter().for_each(|key| self.changed(core, now, key));
        self.followers.tell(core, keys);
    }

    /// Ends the wait of a client that has left.
    pub fn leave(&mut self, core: &mut ShardCore, now: Now, (gateway, token): (GatewayId, Token)) {
        self.turns.give_up(core, now, gateway, token);
        self.observers.end((gateway, token));
        self.blocked.leave(core, now, (gateway, token));
    }

    /// Ends the wait for a turn, or of an observer, with nil as its answer, unless it was answered by then.
    pub fn end_turn(&mut self, core: &mut ShardCore, now: Now, sender: (GatewayId, Token)) {
        self.turns.end_turn(core, now, sender);
        self.observers.end_in_vain(core, sender);
    }
}
