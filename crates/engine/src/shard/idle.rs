//! Operations that change nothing are answered without being logged.
//!
//! When a batch is closed, everything before it is applied, so that the state shows which of its
//! operations would be idle at their place in the log: those on records that nothing before them
//! in the batch writes. Leaving them out of the log gives the same states and the same replies.

use crate::entry::{Apply, LogRecord};
use crate::now::Now;
use crate::shard::Desk;
use crate::shard::Shard;
use crate::shard::state::{ApplyOutcome, OpReplies, State};
use crate::shard::tail::{Batch, Recipient, RecipientKind};
use adt::collections::Set;
use adt::random::mix;
use adt::{Blob, Ctx, Reply, Timestamp, record};
use smallvec::SmallVec;

impl Desk {
    /// The operations of the batch that were answered are not on their way any more.
    fn forget_idle(&mut self, now: Now, answered: &[Apply]) {
        let building = self.core.tail.building_mut();
        if building.tracked {
            let mut landed: Set<&Blob> =
                answered.iter().flat_map(|a| &a.ops).map(|(key, _)| key).collect();
            for record in &building.records {
                let LogRecord::Apply(apply) = record else { continue };
                for (key, _) in apply.ops.iter().filter(|(_, op)| op.is_write()) {
                    landed.swap_remove(key);
                }
            }
            for key in landed {
                self.core.locks.land(key, building.number);
            }
        }
        if self.core.tail.skip_if_empty() {
            // Nothing is left to wait for.
            self.waits.blocked.end_coming(&mut self.core, now);
            self.resume_delayed(now);
        }
        self.settle(now);
    }
}

impl Shard {
    /// Answers what is idle in the batch that is being built, and takes it out. Before
    /// [`Shard::end_turn`], and only by a replica that is certain to lead the shard: the log will not
    /// tell.
    pub fn answer_idle(&mut self, now: Now) {
        let Some(building) = self.desk.core.tail.only_building() else { return };
        // The reply of a part of a bundle must not come before the bundle is durable.
        if self.desk.core.tail.has_bundles() {
            return;
        }
        // Neither must that of a transaction that has seen what comes before it in the batch.
        let (locking, scripts) = (&self.desk.locking, &self.desk.scripts);
        let rests = |target: &Recipient| match target.kind {
            RecipientKind::Commit(txn) => locking.rests_on(txn) >= building.number,
            RecipientKind::Ran => scripts.rests(target),
            _ => false,
        };
        if !candidates(building, rests).any(|candidate| candidate) {
            return;
        }
        let ts = self.desk.core.clock.next().max(Timestamp::from_micros(now.wall_us));
        let ctx = Ctx { now_ms: now.wall_ms(), ts, seed: self.desk.core.random() };
        let candidates = candidates(building, rests);
        let replies = idle_replies(building, candidates, &self.desk.core.state, ctx);
        if replies.iter().all(Option::is_none) {
            return;
        }
        self.desk.core.clock = ts;
        self.desk.core.draw();
        let Batch { records, targets, .. } = self.desk.core.tail.building_mut();
        let all = std::mem::take(records).into_iter().zip(std::mem::take(targets)).zip(replies);
        let mut answered = Vec::new();
        for ((record, target), replies) in all {
            match (record, replies) {
                (LogRecord::Apply(apply), Some(replies)) => answered.push((apply, target, replies)),
                (record, _) => {
                    records.push(record);
                    targets.push(target);
                }
            }
        }
        let mut done = Vec::with_capacity(answered.len());
        for (apply, target, replies) in answered {
            self.desk.core.stats.operations += replies.len() as u64;
            let outcome = ApplyOutcome::Done(replies);
            self.desk.core.stats.locks.count_outcome(&apply, &outcome, &ctx);
            self.desk.tell(now, target, outcome, ts);
            done.push(apply);
        }
        self.desk.forget_idle(now, &done);
    }
}

/// For each record of the batch its replies, if it is idle at its place.
fn idle_replies(
    building: &Batch,
    candidates: impl Iterator<Item = bool>,
    state: &State,
    ctx: Ctx,
) -> Vec<Option<OpReplies>> {
    let mut written: Set<&Blob> = Set::default();
    let mut emptied = false;
    let mut all = Vec::with_capacity(building.records.len());
    for (record, candidate) in building.records.iter().zip(candidates) {
        let apply = match record {
            LogRecord::Apply(apply) => apply,
            LogRecord::Prepare(prepare) => &prepare.apply,
            LogRecord::Propose(group) => {
                let writes = group.ops().filter(|(_, op)| op.is_write());
                written.extend(writes.map(|(key, _)| key));
                all.push(None);
                continue;
            }
            LogRecord::Ordered { ops, .. } => {
                let writes = ops.iter().filter(|(_, op)| op.is_write());
                written.extend(writes.map(|(key, _)| key));
                all.push(None);
                continue;
            }
            other => {
                emptied |= matches!(other, LogRecord::Flush(_));
                all.push(None);
                continue;
            }
        };
        emptied |= apply.ops.iter().any(|(_, op)| op.whole().is_some());
        let free = candidate && !emptied && apply.ops.iter().all(|(k, _)| !written.contains(k));
        let seed = mix(ctx.seed ^ all.len() as u64);
        let replies = if free { replies(state, apply, Ctx { seed, ..ctx }) } else { None };
        if replies.is_none() {
            let writes = apply.ops.iter().filter(|(_, op)| op.is_write());
            written.extend(writes.map(|(key, _)| key));
        }
        all.push(replies);
    }
    all
}

/// For each record of the batch, whether it may be idle: operations of one shard whose outcome
/// need not be remembered. Those whose recipient `rests` on the batch are none.
fn candidates<'b>(
    batch: &'b Batch,
    rests: impl Fn(&Recipient) -> bool + 'b,
) -> impl Iterator<Item = bool> + 'b {
    batch.records.iter().zip(&batch.targets).map(move |(record, target)| match record {
        LogRecord::Apply(apply) => {
            apply.is_certain()
                && target.kind != RecipientKind::Silent
                && !rests(target)
                && apply.ops.iter().all(|(_, op)| !op.is_write() || op.may_be_idle())
        }
        _ => false,
    })
}

/// The replies of operations that are all idle or reads. The reads, which may be dear, are answered
/// once that is known.
fn replies(state: &State, apply: &Apply, ctx: Ctx) -> Option<OpReplies> {
    let known = apply.ops.iter().map(|(key, op)| match op.is_write() {
        true => record::idle(state.get(key), op, ctx.now_ms).map(Some),
        false => Some(None),
    });
    let known: SmallVec<[Option<Reply>; 1]> = known.collect::<Option<_>>()?;
    let mut seed = ctx.seed;
    let answers = known.into_iter().zip(&apply.ops).map(|(reply, (key, op))| {
        seed = mix(seed);
        reply.unwrap_or_else(|| record::query(state.get(key), op, &Ctx { seed, ..ctx }))
    });
    Some(answers.collect())
}
