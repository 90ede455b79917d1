//! Interactive transactions that only read, without locks.
//!
//! The transaction keeps the interval in which everything that it has read was valid together.
//! When a new read does not fit, the earlier reads are asked again: if they give the same replies,
//! their interval reaches further; if not, the transaction is aborted at that read.

use crate::gateway::api::SessionId;
use crate::gateway::clients::session::Mode;
use crate::gateway::errors::Cause;
use crate::gateway::mail::{Pending, Target};
use crate::gateway::routing::snapshot::{ShardRead, instant, later};
use crate::gateway::slab::Slab;
use crate::gateway::{Gateway, Job};
use crate::ids::{KeyedOp, ShardId, TxnId};
use crate::limits::SNAPSHOT_ROUNDS_MAX;
use crate::message::Answer;
use adt::{Merge, Reply};
use std::collections::VecDeque;

/// A read-only interactive transaction.
pub(in crate::gateway) struct Intervals {
    pub id: TxnId,
    pub session: SessionId,
    /// What was read so far, by shard, with the interval of each shard.
    parts: Vec<ShardRead>,
    queries: Slab<Query>,
    /// Answers that wait until the earlier reads were asked again.
    waiting: VecDeque<(u64, u32, Answer)>,
    /// Shards that are being asked again, and how often that was done for the present read.
    asked: usize,
    round: u32,
    /// The read that did not fit.
    current: Option<u64>,
    /// How many reads there were, and the bytes of their commands.
    pub reads: usize,
    pub bytes: usize,
}

/// One command.
struct Query {
    target: Target,
    merge: Option<Merge>,
    parts: Vec<ShardRead>,
    order: Vec<u16>,
    left: usize,
}

impl Intervals {
    pub fn new(id: TxnId, session: SessionId) -> Self {
        Self {
            id,
            session,
            parts: Vec::new(),
            queries: Slab::default(),
            waiting: VecDeque::new(),
            asked: 0,
            round: 0,
            current: None,
            reads: 0,
            bytes: 0,
        }
    }

    /// Whether something was read, or is being read, at a shard.
    pub fn reads_at(&self, shard: ShardId) -> bool {
        let reading = self.queries.iter().flat_map(|(_, query)| &query.parts);
        self.parts.iter().chain(reading).any(|part| part.shard == shard)
    }
}

impl Gateway {
    /// Reads of one command of a read-only transaction.
    pub(in crate::gateway) fn read_in_interval(
        &mut self,
        job: u64,
        ops: Vec<KeyedOp>,
        merge: Option<Merge>,
        target: Target,
    ) {
        let Some(Job::Intervals(txn)) = self.jobs.get_mut(job) else { return };
        txn.reads += ops.len();
        let mut query = Query { target, merge, parts: Vec::new(), order: Vec::new(), left: 0 };
        for (key, op) in ops {
            let shard = self.core.mail.shard_of(&key);
            let at = query.parts.iter().position(|p| p.shard == shard).unwrap_or_else(|| {
                query.parts.push(ShardRead::new(shard));
                query.parts.len() - 1
            });
            query.order.push(at as u16);
            query.parts[at].ops.push((key, op));
        }
        query.left = query.parts.len();
        let at = instant(&txn.parts);
        let number = txn.queries.insert(query);
        let parts = txn.queries.get_mut(number).into_iter().flat_map(|query| &mut query.parts);
        for (index, part) in parts.enumerate() {
            let pending = Pending::Interval { job, query: Some(number), part: index as u32 };
            part.ask(&mut self.core.mail, self.core.now, pending, at);
        }
        if self.query_is_complete(job, number) {
            self.merge_query(job, number);
        }
    }

    fn query_is_complete(&self, job: u64, number: u64) -> bool {
        let Some(Job::Intervals(txn)) = self.jobs.get(job) else { return false };
        txn.queries.get(number).is_some_and(|query| query.left == 0)
    }

    /// A shard has answered a read, or reads that were asked again (`query` is `None`).
    pub(in crate::gateway) fn interval(
        &mut self,
        job: u64,
        query: Option<u64>,
        part: u32,
        answer: Answer,
    ) {
        if let Answer::Refused(refusal) = answer {
            return self.abort_intervals(job, Cause::Refused(refusal));
        }
        let Some(Job::Intervals(txn)) = self.jobs.get_mut(job) else { return };
        let Some(number) = query else { return self.asked_again(job, part, answer) };
        if txn.asked > 0 {
            txn.waiting.push_back((number, part, answer));
            return;
        }
        self.take_in(job, number, part, answer);
    }

    fn take_in(&mut self, job: u64, number: u64, index: u32, answer: Answer) {
        let Some(Job::Intervals(txn)) = self.jobs.get_mut(job) else { return };
        let Some(query) = txn.queries.get_mut(number) else { return };
        let part = &mut query.parts[index as usize];
        if let Some(replies) = part.take(&self.core.mail, self.core.now, answer) {
            part.replies = replies;
        }
        query.left -= 1;
        if query.left == 0 {
            self.merge_query(job, number);
        }
    }

    /// All shards have answered a command: its reads join the earlier ones.
    fn merge_query(&mut self, job: u64, number: u64) {
        let Some(Job::Intervals(txn)) = self.jobs.get_mut(job) else { return };
        let Some(query) = txn.queries.get(number) else { return };
        for new in &query.parts {
            let at = txn.parts.iter().position(|p| p.shard == new.shard).unwrap_or_else(|| {
                txn.parts.push(ShardRead::new(new.shard));
                txn.parts.len() - 1
            });
            let part = &mut txn.parts[at];
            part.ops.extend(new.ops.iter().cloned());
            part.replies.extend(new.replies.iter().cloned());
            part.since = part.since.max(new.since);
            part.until = part.until.min(new.until);
        }
        txn.current = Some(number);
        txn.round = 0;
        self.settle_interval(job);
    }

    /// Answers the present read if everything fits, or asks again what ends too early.
    fn settle_interval(&mut self, job: u64) {
        let Some(Job::Intervals(txn)) = self.jobs.get_mut(job) else { return };
        let instant = instant(&txn.parts);
        if txn.parts.iter().any(|part| part.until < instant) {
            txn.round += 1;
            if txn.round >= SNAPSHOT_ROUNDS_MAX {
                return self.abort_intervals(job, Cause::Changed);
            }
            let at = later(instant, txn.round);
            self.core.mail.stats.snapshot_rounds += 1;
            let late = txn.parts.iter_mut().enumerate().filter(|(_, p)| p.until < instant);
            for (index, part) in late {
                let pending = Pending::Interval { job, query: None, part: index as u32 };
                part.ask(&mut self.core.mail, self.core.now, pending, at);
                txn.asked += 1;
            }
            return;
        }
        if let Some(query) = txn.current.take().and_then(|number| txn.queries.remove(number)) {
            let mut replies: Vec<_> =
                query.parts.into_iter().map(|part| part.replies.into_iter()).collect();
            let in_order = query.order.iter().filter_map(|&p| replies[usize::from(p)].next());
            let mut in_order: Vec<Reply> = in_order.collect();
            let reply = match query.merge {
                Some(merge) => merge.apply(in_order),
                None => in_order.pop().unwrap_or(Reply::Nil),
            };
            self.finish(query.target, reply);
        }
        self.take_in_waiting(job);
    }

    fn take_in_waiting(&mut self, job: u64) {
        let Some(Job::Intervals(txn)) = self.jobs.get_mut(job) else { return };
        if txn.asked == 0
            && let Some((number, part, answer)) = txn.waiting.pop_front()
        {
            self.take_in(job, number, part, answer);
            self.take_in_waiting(job);
        }
    }

    fn asked_again(&mut self, job: u64, index: u32, answer: Answer) {
        let Some(Job::Intervals(txn)) = self.jobs.get_mut(job) else { return };
        txn.asked -= 1;
        let part = &mut txn.parts[index as usize];
        let Some(replies) = part.take(&self.core.mail, self.core.now, answer) else { return };
        if replies != part.replies {
            return self.abort_intervals(job, Cause::Changed);
        }
        if txn.asked == 0 {
            self.settle_interval(job);
        }
    }

    /// The transaction cannot go on.
    pub(in crate::gateway) fn abort_intervals(&mut self, job: u64, cause: Cause) {
        let Some(Job::Intervals(txn)) = self.jobs.remove(job) else { return };
        self.core.mail.stats.interactive -= 1;
        self.core.mail.stats.aborted += 1;
        let error = cause.error();
        self.enter_aborted(txn.session, txn.id, cause.error(), false);
        let targets: Vec<Target> = txn.queries.iter().map(|(_, query)| query.target).collect();
        for target in targets {
            self.finish(target, error.clone().into());
        }
    }

    /// The transaction ends; there is nothing to let go of.
    pub(in crate::gateway) fn end_intervals(&mut self, job: u64, committed: bool) {
        let Some(Job::Intervals(txn)) = self.jobs.remove(job) else { return };
        self.core.mail.stats.interactive -= 1;
        if committed {
            self.core.mail.stats.committed += 1;
        }
        if let Some(session) = self.sessions.get_mut(txn.session.0) {
            session.mode = Mode::Single;
            session.retry = None;
            session.refresh();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::Timestamp;

    #[test]
    fn the_instant_of_nothing_is_zero_and_later_ones_grow() {
        assert_eq!(instant(&[]), Timestamp::ZERO);
        let margins: Vec<u64> =
            (0..4).map(|round| later(Timestamp::ZERO, round).micros()).collect();
        assert_eq!(margins, [50, 100, 200, 400]);
    }
}
