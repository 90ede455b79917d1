//! Deadlocks: whoever would close a circle of those who wait for each other's locks is refused at once.
//!
//! A circle closes when somebody begins to wait, so that this is when it is looked for. A shard sees the
//! locks that it has. What it sees it tells gateways, which look for circles over several shards and
//! have whoever closes one refused, if it waits when they say so.

use super::turns::Number;
use crate::deadlock::{self as cycles, LockWait};
use crate::ids::{GatewayId, Token};
use crate::limits::DEADLOCK_STEPS_MAX;
use crate::now::Now;
use crate::shard::Shard;
use adt::{Blob, ErrorReply, Reply};
use std::collections::{BTreeSet, VecDeque};

impl Shard {
    /// The error for a turn that waits in a circle and is to be refused then.
    pub(in crate::shard) fn deadlock_of(&self, now: Now, number: Number) -> Option<ErrorReply> {
        let (.., op) = self.turns.what(number)?;
        if !op.detects() {
            return None;
        }
        let first = self.wait(now, number)?;
        let cycle = cycles::find(first, |name| self.waits_of(now, name))?;
        Some(deadlock(cycles::text(&cycle)))
    }

    fn wait(&self, now: Now, number: Number) -> Option<LockWait> {
        let (_, lock, op) = self.turns.what(number)?;
        Some(LockWait {
            number,
            since_us: self.turns.since_us(number)?,
            who: op.waiter()?.clone(),
            lock: lock.clone(),
            holders: adt::in_the_way(self.core.state.get(lock), op, now.wall_ms()),
            ahead: self.turns.ahead(lock, number).cloned().collect(),
        })
    }

    /// What somebody waits for here, who is first in turn first among several of the same name.
    fn waits_of(&self, now: Now, name: &Blob) -> Vec<LockWait> {
        let numbers = self.turns.of_name(name).map(|(number, ..)| number);
        numbers.filter_map(|number| self.wait(now, number)).collect()
    }

    /// What some wait for here, and whoever they wait for, and so on: nil if that is too much.
    pub(in crate::shard) fn told_waits(&self, now: Now, names: &[Blob]) -> Reply {
        let mut met: BTreeSet<Blob> = names.iter().cloned().collect();
        let mut next: VecDeque<Blob> = names.iter().cloned().collect();
        let (mut waits, mut steps) = (Vec::new(), 0);
        while let Some(name) = next.pop_front() {
            for wait in self.waits_of(now, &name) {
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

    /// A gateway has found that one of its waits is in a circle over several shards: it is refused, unless it
    /// has set out meanwhile.
    pub(in crate::shard) fn end_deadlock(
        &mut self,
        now: Now,
        gateway: GatewayId,
        token: Token,
        told: &Blob,
    ) {
        if let Some(number) = self.turns.waiting_as(gateway, token) {
            self.core.stats.locks.deadlocks += 1;
            let error = deadlock(String::from_utf8_lossy(told).into_owned());
            self.end_turn_with(now, number, error.into());
        }
    }
}

fn deadlock(text: String) -> ErrorReply {
    ErrorReply::new("DEADLOCK", text)
}
