//! Deadlock cycles: a request that would close a cycle of waits for locks is refused at once.
//!
//! A cycle closes when a request begins to wait, so the search is made then. A shard sees the locks that it
//! has. It reports its waits to gateways, which search for cycles over several shards and have the request
//! refused that closes one, if it waits when they say so.

use super::turns::{Number, TurnQueues};
use crate::deadlock::{self as cycles, LockWait};
use crate::ids::{GatewayId, Token};
use crate::limits::DEADLOCK_STEPS_MAX;
use crate::now::Now;
use crate::shard::core::ShardCore;
use adt::{Blob, ErrorReply, Reply};
use std::collections::{BTreeSet, VecDeque};

impl TurnQueues {
    /// The error for a turn that waits in a cycle and is to be refused then.
    pub(super) fn deadlock_of(
        &self,
        core: &ShardCore,
        now: Now,
        number: Number,
    ) -> Option<ErrorReply> {
        let (.., op) = self.what(number)?;
        if !op.detects() {
            return None;
        }
        let first = self.wait(core, now, number)?;
        let cycle = cycles::find(first, |name| self.waits_of(core, now, name))?;
        Some(deadlock(cycles::text(&cycle)))
    }

    fn wait(&self, core: &ShardCore, now: Now, number: Number) -> Option<LockWait> {
        let (_, lock, op) = self.what(number)?;
        Some(LockWait {
            number,
            since_us: self.since_us(number)?,
            who: op.waiter()?.clone(),
            lock: lock.clone(),
            holders: adt::in_the_way(core.state.get(lock), op, now.wall_ms()),
            ahead: self.ahead(lock, number).cloned().collect(),
        })
    }

    /// Waits of an owner here, the first in turn first.
    fn waits_of(&self, core: &ShardCore, now: Now, name: &Blob) -> Vec<LockWait> {
        let numbers = self.of_name(name).map(|(number, ..)| number);
        numbers.filter_map(|number| self.wait(core, now, number)).collect()
    }

    /// Waits of owners here, of the owners that they wait for, and so on: nil if that is too much.
    pub fn waits(&self, core: &ShardCore, now: Now, names: &[Blob]) -> Reply {
        let mut met: BTreeSet<Blob> = names.iter().cloned().collect();
        let mut next: VecDeque<Blob> = names.iter().cloned().collect();
        let (mut waits, mut steps) = (Vec::new(), 0);
        while let Some(name) = next.pop_front() {
            for wait in self.waits_of(core, now, &name) {
                steps += 1 + wait.behind().count();
                if steps > DEADLOCK_STEPS_MAX {
                    return Reply::Nil;
                }
                for behind in wait.behind() {
                    if met.insert(behind.clone()) {
                        next.push_back(behind.clone());
                    }
                }
                waits.push(wait);
            }
        }
        cycles::encode(&waits)
    }

    /// Refuses a wait in which a gateway has found a cycle over several shards, unless it has set out
    /// meanwhile.
    pub fn end_deadlock(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        (gateway, token): (GatewayId, Token),
        text: &Blob,
    ) {
        if let Some(number) = self.waiting_as(gateway, token) {
            core.stats.locks.deadlocks += 1;
            let error = deadlock(String::from_utf8_lossy(text).into_owned());
            self.end_with(core, now, number, error.into());
        }
    }

    /// Ends a wait by `CLIENT UNBLOCK`, unless its turn has come meanwhile.
    pub fn end_turn(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        (gateway, token): (GatewayId, Token),
    ) {
        match self.waiting_as(gateway, token) {
            Some(number) => self.end_with(core, now, number, Reply::Nil),
            None => self.ends_when_back(gateway, token),
        }
    }
}

fn deadlock(text: String) -> ErrorReply {
    ErrorReply::new("DEADLOCK", text)
}
