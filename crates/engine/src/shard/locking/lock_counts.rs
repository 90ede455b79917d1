//! Counters of the locks that clients take by name.
//!
//! Only the leader counts, when it answers requests: so the numbers of all machines of a cluster can be
//! added up.

use crate::entry::Apply;
use crate::limits::QUEUES_SHOWN;
use crate::message::Answer;
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::state::ApplyOutcome;
use crate::stats::LockStats;
use adt::{Blob, CameOf, Ctx, Op, Reply};

impl LockStats {
    /// Counts operations that were carried out, or not.
    pub(in crate::shard) fn count_outcome(
        &mut self,
        apply: &Apply,
        outcome: &ApplyOutcome,
        ctx: &Ctx,
    ) {
        match outcome {
            ApplyOutcome::Fenced => self.fenced += 1,
            ApplyOutcome::Done(replies) => {
                let came_of = apply.ops.iter().zip(replies).map(|((_, op), r)| op.came_of(r, ctx));
                came_of.flatten().for_each(|one| self.count(one));
            }
            ApplyOutcome::GuardFailed(_)
            | ApplyOutcome::Repeated(_)
            | ApplyOutcome::Voided
            | ApplyOutcome::Forgotten => {}
        }
    }

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

    /// Counters with the queues of requests that wait now.
    pub(in crate::shard) fn with_queues(
        &self,
        queues: impl Iterator<Item = (Blob, u64, u64)>,
    ) -> Self {
        let mut queues: Vec<_> = queues.collect();
        queues.sort_by(|(a, waiting_a, us_a), (b, waiting_b, us_b)| {
            (waiting_b, us_b, a).cmp(&(waiting_a, us_a, b))
        });
        let waiting = queues.iter().map(|(_, waiting, _)| waiting).sum();
        let longest_us = queues.iter().map(|(.., us)| *us).max().unwrap_or(0);
        queues.truncate(QUEUES_SHOWN);
        Self { waiting, longest_us, queues, ..self.clone() }
    }
}

impl ShardCore {
    /// Counts the wait of a request that is answered now.
    pub fn count_wait(&mut self, op: &Op, answer: &Answer, since_us: u64, now: Now) {
        if let Answer::Replies(replies) = answer
            && let Some(reply @ Reply::Int(_)) = replies.first()
            && op.came_of(reply, &self.ctx(now)) == Some(CameOf::Granted)
        {
            self.stats.locks.waits.record(now.mono_us.saturating_sub(since_us));
        }
    }
}
