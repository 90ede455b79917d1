//! Interactive transactions that only read, without locks.
//!
//! The transaction keeps the interval in which everything that it has read was valid together. A new
//! read asks for values that fit, which may be earlier versions of the records. If it does not fit, the
//! earlier reads are asked again: if they give the same replies, their interval reaches further; if
//! not, the transaction is aborted at that read.

use super::options::transaction_is_full;
use super::transaction::context::TxnEffect;
use crate::gateway::api::SessionId;
use crate::gateway::core::Core;
use crate::gateway::errors::Cause;
use crate::gateway::mail::{Pending, Target};
use crate::gateway::routing::snapshot::{ShardRead, instant, later, latest};
use crate::gateway::slab::Slab;
use crate::ids::{KeyedOp, ShardId, TxnId};
use crate::limits::{SNAPSHOT_ROUNDS_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_COMMANDS_MAX};
use crate::message::{Answer, Refusal};
use adt::{ErrorReply, Merge, Reply, Timestamp};
use std::collections::VecDeque;

/// A read-only interactive transaction.
struct LocklessTxn {
    id: TxnId,
    session: SessionId,
    /// Reads so far, by shard, with the interval of each shard.
    parts: Vec<ShardRead>,
    queries: Slab<Query>,
    /// Answers that wait until the earlier reads were asked again.
    waiting: VecDeque<(u64, u32, Answer)>,
    /// Number of shards that are being asked again.
    asked: usize,
    /// Number of times that shards were asked again for the present read.
    round: u32,
    /// The read that did not fit.
    current: Option<u64>,
    /// Number of reads, and bytes of their commands.
    reads: usize,
    bytes: usize,
}

/// Reads of one command.
struct Query {
    target: Target,
    merge: Option<Merge>,
    parts: Vec<ShardRead>,
    /// Place in `parts` of the shard of each operation.
    order: Vec<u16>,
    left: usize,
    /// Timestamp that all shards were asked for, if the values are younger.
    as_of: Timestamp,
}

/// Transactions of a gateway that only read, without locks.
#[derive(Default)]
pub(super) struct LocklessTransactions {
    open: Slab<Box<LocklessTxn>>,
}

/// Methods return the effect of a transaction that ends on its session.
impl LocklessTransactions {
    /// Begins a transaction. Returns its number.
    pub fn begin(&mut self, session: SessionId, id: TxnId) -> u64 {
        self.open.insert(Box::new(LocklessTxn {
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
        }))
    }

    /// Makes room for a command with so many bytes.
    pub fn make_room(&mut self, job: u64, bytes: usize) -> Result<(), ErrorReply> {
        let Some(txn) = self.open.get_mut(job) else { return Ok(()) };
        txn.bytes += bytes;
        if txn.reads >= TRANSACTION_COMMANDS_MAX || txn.bytes > TRANSACTION_BYTES_MAX {
            return Err(transaction_is_full());
        }
        Ok(())
    }

    /// Carries out the reads of one command.
    pub fn read(
        &mut self,
        core: &mut Core,
        job: u64,
        ops: Vec<KeyedOp>,
        merge: Option<Merge>,
        target: Target,
    ) -> Option<TxnEffect> {
        let txn = self.open.get_mut(job)?;
        txn.reads += ops.len();
        let (parts, order) = Default::default();
        let as_of = latest(txn.parts.iter());
        let mut query = Query { target, merge, parts, order, left: 0, as_of };
        for (key, op) in ops {
            let shard = core.mail.shard_of(&key);
            let at = query.parts.iter().position(|p| p.shard == shard).unwrap_or_else(|| {
                query.parts.push(ShardRead::new(shard));
                query.parts.len() - 1
            });
            query.order.push(at as u16);
            query.parts[at].ops.push((key, op));
        }
        query.left = query.parts.len();
        let nothing = query.left == 0;
        let within = (instant(&txn.parts), Some(as_of));
        let number = txn.queries.insert(query);
        let parts = txn.queries.get_mut(number).into_iter().flat_map(|query| &mut query.parts);
        for (index, part) in parts.enumerate() {
            let pending = Pending::Interval { job, query: Some(number), part: index as u32 };
            part.ask(&mut core.mail, core.now, pending, within);
        }
        if nothing { self.merge_query(core, job, number) } else { None }
    }

    /// Takes a shard's answer to a read, or to reads that were asked again (`query` is `None`).
    pub fn answered(
        &mut self,
        core: &mut Core,
        job: u64,
        (query, part): (Option<u64>, u32),
        answer: Answer,
    ) -> Option<TxnEffect> {
        if let Answer::Refused(refusal) = answer {
            return self.abort(core, job, Cause::Refused(refusal));
        }
        let Some(number) = query else { return self.asked_again(core, job, part, answer) };
        let txn = self.open.get_mut(job)?;
        if txn.asked > 0 {
            txn.waiting.push_back((number, part, answer));
            return None;
        }
        self.take_in(core, job, (number, part), answer)
    }

    fn take_in(
        &mut self,
        core: &mut Core,
        job: u64,
        (number, index): (u64, u32),
        answer: Answer,
    ) -> Option<TxnEffect> {
        let query = self.open.get_mut(job)?.queries.get_mut(number)?;
        let part = &mut query.parts[index as usize];
        if let Some(replies) = part.take(&core.mail, core.now, answer) {
            part.replies = replies;
        }
        query.left -= 1;
        if query.left > 0 || self.ask_earlier(core, job, number) {
            return None;
        }
        self.merge_query(core, job, number)
    }

    /// Asks shards again whose values are too young to fit to the others: now it is known how early they have
    /// to be. Tells whether there are any.
    fn ask_earlier(&mut self, core: &mut Core, job: u64, number: u64) -> bool {
        let txn = self.open.get_mut(job).filter(|_| !core.mail.is_clustered());
        let Some(LocklessTxn { parts, queries, .. }) = txn.map(|txn| &mut **txn) else {
            return false;
        };
        let Some(query) = queries.get_mut(number) else { return false };
        let latest = latest(parts.iter().chain(&query.parts));
        if latest >= query.as_of {
            return false;
        }
        query.as_of = latest;
        let young = query.parts.iter_mut().enumerate().filter(|(_, part)| part.since > latest);
        for (index, part) in young {
            let pending = Pending::Interval { job, query: Some(number), part: index as u32 };
            part.ask(&mut core.mail, core.now, pending, (Timestamp::ZERO, Some(latest)));
            query.left += 1;
        }
        query.left > 0
    }

    /// Adds the reads of a command to the earlier ones, since all shards have answered it.
    fn merge_query(&mut self, core: &mut Core, job: u64, number: u64) -> Option<TxnEffect> {
        let txn = self.open.get_mut(job)?;
        let query = txn.queries.get(number)?;
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
        self.settle(core, job)
    }

    /// Answers the present read if everything fits, or asks again the parts that end too early.
    fn settle(&mut self, core: &mut Core, job: u64) -> Option<TxnEffect> {
        let txn = self.open.get_mut(job)?;
        let instant = instant(&txn.parts);
        if txn.parts.iter().any(|part| part.until < instant) {
            txn.round += 1;
            if txn.round >= SNAPSHOT_ROUNDS_MAX {
                return self.abort(core, job, Cause::Changed);
            }
            let at = later(instant, txn.round);
            core.mail.stats.snapshot_rounds += 1;
            let late = txn.parts.iter_mut().enumerate().filter(|(_, p)| p.until < instant);
            for (index, part) in late {
                let pending = Pending::Interval { job, query: None, part: index as u32 };
                let now = Some(Timestamp(u64::MAX));
                part.ask(&mut core.mail, core.now, pending, (at, now));
                txn.asked += 1;
            }
            return None;
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
            core.finish(query.target, reply);
        }
        self.take_in_waiting(core, job)
    }

    fn take_in_waiting(&mut self, core: &mut Core, job: u64) -> Option<TxnEffect> {
        loop {
            let txn = self.open.get_mut(job).filter(|txn| txn.asked == 0)?;
            let (number, part, answer) = txn.waiting.pop_front()?;
            if let Some(effect) = self.take_in(core, job, (number, part), answer) {
                return Some(effect);
            }
        }
    }

    fn asked_again(
        &mut self,
        core: &mut Core,
        job: u64,
        index: u32,
        answer: Answer,
    ) -> Option<TxnEffect> {
        let txn = self.open.get_mut(job)?;
        txn.asked -= 1;
        let part = &mut txn.parts[index as usize];
        let replies = part.take(&core.mail, core.now, answer)?;
        if replies != part.replies {
            return self.abort(core, job, Cause::Changed);
        }
        if txn.asked == 0 { self.settle(core, job) } else { None }
    }

    /// Ends a transaction that cannot go on.
    pub fn abort(&mut self, core: &mut Core, job: u64, cause: Cause) -> Option<TxnEffect> {
        let txn = self.open.remove(job)?;
        core.mail.stats.interactive -= 1;
        core.mail.stats.aborted += 1;
        let error = cause.error();
        for (_, query) in txn.queries.iter() {
            core.finish(query.target, error.clone().into());
        }
        Some(TxnEffect::Aborted { session: txn.session, txn: txn.id, error, over: false })
    }

    /// Ends the transactions that have read something at a shard that was split, or are reading there.
    pub fn shard_split(&mut self, core: &mut Core, shard: ShardId) -> Vec<TxnEffect> {
        let reads_there = |txn: &LocklessTxn| {
            let reading = txn.queries.iter().flat_map(|(_, query)| &query.parts);
            txn.parts.iter().chain(reading).any(|part| part.shard == shard)
        };
        let jobs = self.open.iter().filter(|(_, txn)| reads_there(txn)).map(|(job, _)| job);
        let jobs: Vec<u64> = jobs.collect();
        let cause = Cause::Refused(Refusal::Moved);
        jobs.into_iter().filter_map(|job| self.abort(core, job, cause)).collect()
    }

    /// Ends a transaction by `TXN COMMIT` or otherwise. The shards hold nothing for it.
    pub fn end(&mut self, core: &mut Core, job: u64, committed: bool) -> Option<TxnEffect> {
        let txn = self.open.remove(job)?;
        core.mail.stats.interactive -= 1;
        core.mail.stats.committed += u64::from(committed);
        Some(TxnEffect::Left(txn.session))
    }

    /// Number of transactions.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instant_of_nothing_is_zero_and_later_ones_grow() {
        assert_eq!(instant(&[]), Timestamp::ZERO);
        let margins: Vec<u64> =
            (0..4).map(|round| later(Timestamp::ZERO, round).micros()).collect();
        assert_eq!(margins, [50, 100, 200, 400]);
    }
}
