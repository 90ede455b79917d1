//! Operations that change nothing are answered without being logged.
//!
//! When a batch is closed, everything before it is applied, so that the state shows which of its
//! operations would be idle at their place in the log: those on records that nothing before them
//! in the batch writes. Leaving them out of the log gives the same states and the same replies.

use super::{Batch, Shard, TargetKind};
use crate::entry::{Apply, LogRecord};
use crate::message::Now;
use crate::shard::apply::{Outcome, Replies, State, mix};
use adt::collections::Set;
use adt::{Blob, Ctx, Timestamp, record};

impl Shard {
    /// Answers what is idle in the batch that is being built, and takes it out.
    pub(super) fn answer_idle(&mut self, now: Now) {
        let current = self.in_flight.is_empty() && self.closed.is_empty();
        if !current || !candidates(&self.building).any(|candidate| candidate) {
            return;
        }
        let idle = self.idle_places();
        if !idle.iter().any(|idle| *idle) {
            return;
        }
        self.clock = self.clock.next().max(Timestamp::from_micros(now.wall_us));
        let ts = self.clock;
        let (records, targets) = (&mut self.building.records, &mut self.building.targets);
        let mut rest = (Vec::with_capacity(records.len()), Vec::with_capacity(records.len()));
        let all = std::mem::take(records).into_iter().zip(std::mem::take(targets));
        let mut answered = Vec::new();
        for ((record, target), idle) in all.zip(idle) {
            match record {
                LogRecord::Apply(apply) if idle => answered.push((apply, target)),
                record => {
                    rest.0.push(record);
                    rest.1.push(target);
                }
            }
        }
        (self.building.records, self.building.targets) = rest;
        for (index, (apply, target)) in answered.iter().enumerate() {
            let seed = mix(self.random ^ index as u64);
            let replies = replies(&self.state, apply, Ctx { now_ms: now.wall_ms(), ts, seed });
            self.stats.operations += replies.len() as u64;
            self.tell(*target, Outcome::Done(replies), ts);
        }
        self.random = mix(self.random);
        self.forget_idle(now, answered.iter().map(|(apply, _)| apply));
    }

    /// Which records of the batch are idle at their place.
    fn idle_places(&self) -> Vec<bool> {
        let mut written: Set<&Blob> = Set::default();
        let mut emptied = false;
        let places = self.building.records.iter().zip(candidates(&self.building));
        places
            .map(|(record, candidate)| {
                let (LogRecord::Apply(apply)
                | LogRecord::Prepare(crate::entry::Prepare { apply, .. })) = record
                else {
                    emptied |= matches!(record, LogRecord::Flush);
                    return false;
                };
                let idle = candidate
                    && !emptied
                    && apply.ops.iter().all(|(key, op)| {
                        !written.contains(key)
                            && (!op.is_write() || record::idle(self.state.get(key), op).is_some())
                    });
                if !idle {
                    let writes = apply.ops.iter().filter(|(_, op)| op.is_write());
                    written.extend(writes.map(|(key, _)| key));
                }
                idle
            })
            .collect()
    }

    /// The operations of the batch that were answered are not on their way any more.
    fn forget_idle<'a>(&mut self, now: Now, answered: impl Iterator<Item = &'a Apply>) {
        if self.building.tracked {
            let number = self.building.number;
            let mut landed: Set<&Blob> =
                answered.flat_map(|a| &a.ops).map(|(key, _)| key).collect();
            for record in &self.building.records {
                let LogRecord::Apply(apply) = record else { continue };
                for (key, _) in apply.ops.iter().filter(|(_, op)| op.is_write()) {
                    landed.swap_remove(key);
                }
            }
            for key in landed {
                if self.locks.land(key, number) {
                    self.dirty.push(key.clone());
                }
            }
        }
        if self.building.records.is_empty() {
            // Nothing is left to wait for.
            self.applied = self.building.number;
            self.building = Batch { number: self.applied + 1, ..Batch::default() };
            self.resume_after(now);
        }
        self.settle(now);
    }
}

/// For each record of the batch, whether it may be idle: operations of one shard whose outcome
/// nobody has to remember.
fn candidates(batch: &Batch) -> impl Iterator<Item = bool> {
    batch.records.iter().zip(&batch.targets).map(|(record, target)| match record {
        LogRecord::Apply(apply) => {
            apply.request.is_none()
                && apply.guards.is_empty()
                && target.kind != TargetKind::Nobody
                && apply.ops.iter().all(|(_, op)| !op.is_write() || op.may_be_idle())
        }
        _ => false,
    })
}

fn replies(state: &State, apply: &Apply, ctx: Ctx) -> Replies {
    let mut seed = ctx.seed;
    let answers = apply.ops.iter().map(|(key, op)| {
        seed = mix(seed);
        let record = state.get(key);
        record::idle(record, op).unwrap_or_else(|| record::query(record, op, &Ctx { seed, ..ctx }))
    });
    answers.collect()
}
