//! What is counted about the locks that clients take by name.
//!
//! Only the leader counts, when it tells those who have asked: so the numbers of all machines of a
//! cluster can be added up.

use crate::entry::Apply;
use crate::limits::QUEUES_SHOWN;
use crate::message::Answer;
use crate::now::Now;
use crate::shard::Shard;
use crate::shard::state::ApplyOutcome;
use crate::stats::LockStats;
use adt::{CameOf, Ctx, Op, Reply};

impl Shard {
    /// Operations were carried out, or not.
    pub(in crate::shard) fn count_locks(
        &mut self,
        apply: &Apply,
        outcome: &ApplyOutcome,
        ctx: &Ctx,
    ) {
        let locks = &mut self.core.stats.locks;
        match outcome {
            ApplyOutcome::Fenced => locks.fenced += 1,
            ApplyOutcome::Done(replies) => {
                let came_of = apply.ops.iter().zip(replies).map(|((_, op), r)| op.came_of(r, ctx));
                came_of.flatten().for_each(|one| locks.count(one));
            }
            _ => {}
        }
    }

    /// Somebody who was ready to wait is told.
    pub(in crate::shard) fn count_wait(
        &mut self,
        op: &Op,
        answer: &Answer,
        since_us: u64,
        now: Now,
    ) {
        if let Answer::Replies(replies) = answer
            && let Some(reply @ Reply::Int(_)) = replies.first()
            && op.came_of(reply, &self.core.ctx(now)) == Some(CameOf::Granted)
        {
            self.core.stats.locks.waits.record(now.mono_us.saturating_sub(since_us));
        }
    }

    /// The counters, and who waits now.
    pub(in crate::shard) fn lock_stats(&self, now_us: u64) -> LockStats {
        let mut queues: Vec<_> = self.turns.queues(now_us).collect();
        queues.sort_by(|(a, waiting_a, us_a), (b, waiting_b, us_b)| {
            (waiting_b, us_b, a).cmp(&(waiting_a, us_a, b))
        });
        let waiting = queues.iter().map(|(_, waiting, _)| waiting).sum();
        let longest_us = queues.iter().map(|(.., us)| *us).max().unwrap_or(0);
        queues.truncate(QUEUES_SHOWN);
        LockStats { waiting, longest_us, queues, ..self.core.stats.locks.clone() }
    }
}

impl LockStats {
    fn count(&mut self, came_of: CameOf) {
        match came_of {
            CameOf::Granted => self.granted += 1,
            CameOf::Refused => self.refused += 1,
            CameOf::Gone => self.gone += 1,
            CameOf::Ended { held_us } => {
                self.ended += 1;
                self.holds.record(held_us);
            }
        }
    }
}
