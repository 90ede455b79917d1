//! Reads over several shards at one instant, without locks.
//!
//! Every shard reports in which interval its values were valid together. If one instant lies in all
//! intervals, the values are a snapshot at that instant. Otherwise the shards whose values ended too early
//! are read again, later. See `docs/internals/transactions/reads.md`.

use crate::gateway::core::Core;
use crate::gateway::mail::{Mail, Pending};
use crate::gateway::slab::Slab;
use crate::gateway::target::Target;
use crate::gateway::txn::table::Transactions;
use crate::gateway::txn::work::{Finish, Form, Program, ProgramStep};
use crate::ids::{KeyedOp, ShardId};
use crate::limits::{CLOCK_DRIFT_PERCENT_MAX, SNAPSHOT_ROUNDS_MAX};
use crate::message::{Answer, Body};
use crate::now::Now;
use adt::{Merge, Reply, Timestamp};

/// Distance of the next read from the youngest value, in microseconds; doubles with every round.
const MARGIN_US: u64 = 50;

/// Snapshot that is being read.
struct Snapshot {
    target: Target,
    finish: Finish,
    parts: Vec<ShardRead>,
    /// Index of the part of each operation.
    order: Vec<u16>,
    round: u32,
    /// Number of parts without an answer.
    left: usize,
}

/// Snapshots that are being read for clients of this gateway.
#[derive(Default)]
pub(in crate::gateway) struct Snapshots {
    open: Slab<Snapshot>,
}

/// Reads at one shard.
#[derive(Debug)]
pub(in crate::gateway) struct ShardRead {
    pub shard: ShardId,
    pub ops: Vec<KeyedOp>,
    pub replies: Vec<Reply>,
    pub since: Timestamp,
    pub until: Timestamp,
    /// Time at which the shard was asked.
    pub asked_us: u64,
}

impl ShardRead {
    pub fn new(shard: ShardId) -> Self {
        Self {
            shard,
            ops: Vec::new(),
            replies: Vec::new(),
            since: Timestamp::ZERO,
            until: Timestamp(u64::MAX),
            asked_us: 0,
        }
    }

    /// Asks the shard for the values at a timestamp or later, or for earlier ones that were valid at
    /// `as_of`. In a cluster timestamps of shards are not comparable.
    pub fn ask(
        &mut self,
        mail: &mut Mail,
        now: Now,
        pending: Pending,
        (at, as_of): (Timestamp, Option<Timestamp>),
    ) {
        let (at, as_of) = if mail.is_clustered() { (Timestamp::ZERO, None) } else { (at, as_of) };
        self.asked_us = now.mono_us;
        let ops = self.ops.clone();
        let body = Body::Snapshot { ops, at, fenced: false, dated: true, as_of };
        mail.ask(self.shard, pending, body);
    }

    /// Takes an answer; returns the replies. The shards of one machine report by their common clock from when
    /// to when the values were valid. Shards of several machines have no common clock. Then this gateway's
    /// own monotonic clock counts: the values were valid when the request was sent if they had not changed
    /// for as long as the answer took.
    pub fn take(&mut self, mail: &Mail, now: Now, answer: Answer) -> Option<Vec<Reply>> {
        let Answer::Snapshot { replies, since, until, held_us } = answer else { return None };
        (self.since, self.until) = (since, until);
        if mail.is_clustered() {
            // The shard's clock may be faster than this one.
            let held_us = held_us / 100 * (100 - CLOCK_DRIFT_PERCENT_MAX);
            self.since = Timestamp::from_micros(now.mono_us.saturating_sub(held_us));
            self.until = Timestamp::from_micros(self.asked_us);
        }
        Some(replies)
    }
}

/// Instant that all parts must reach: that of their youngest value.
pub(in crate::gateway) fn instant(parts: &[ShardRead]) -> Timestamp {
    parts.iter().map(|part| part.since).max().unwrap_or_default()
}

/// Last timestamp at which all parts were valid.
pub(in crate::gateway) fn latest<'p>(parts: impl Iterator<Item = &'p ShardRead>) -> Timestamp {
    parts.map(|part| part.until).min().unwrap_or(Timestamp(u64::MAX))
}

/// Timestamp at which to read again in this round.
pub(in crate::gateway) fn later(instant: Timestamp, round: u32) -> Timestamp {
    Timestamp::from_micros(instant.micros() + (MARGIN_US << round.min(20)))
}

impl Snapshots {
    /// Begins to read on several shards.
    pub fn begin(&mut self, core: &mut Core, target: Target, ops: Vec<KeyedOp>, finish: Finish) {
        let mut parts: Vec<ShardRead> = Vec::new();
        let mut order = Vec::with_capacity(ops.len());
        for (key, op) in ops {
            let shard = core.mail.shard_of(&key);
            let at = parts.iter().position(|p| p.shard == shard).unwrap_or_else(|| {
                parts.push(ShardRead::new(shard));
                parts.len() - 1
            });
            order.push(at as u16);
            parts[at].ops.push((key, op));
        }
        let snapshot = Snapshot { target, finish, parts, order, round: 0, left: 0 };
        let job = self.open.insert(snapshot);
        self.read(core, job, Timestamp::ZERO, |_| true);
    }

    /// Asks the shards of some parts, perhaps again.
    fn read(
        &mut self,
        core: &mut Core,
        job: u64,
        at: Timestamp,
        which: impl Fn(&ShardRead) -> bool,
    ) {
        let Some(snapshot) = self.open.get_mut(job) else { return };
        core.mail.stats.snapshot_rounds += 1;
        for (index, part) in snapshot.parts.iter_mut().enumerate().filter(|(_, part)| which(part)) {
            let pending = Pending::Snapshot { job, part: index as u32 };
            part.ask(&mut core.mail, core.now, pending, (at, None));
            snapshot.left += 1;
        }
    }

    /// Takes a shard's answer. Values that change too fast are read under locks, as a transaction.
    pub fn answered(
        &mut self,
        core: &mut Core,
        transactions: &mut Transactions,
        (job, index): (u64, u32),
        answer: Answer,
    ) {
        if matches!(answer, Answer::Refused(_)) {
            return self.give_up(core, transactions, job);
        }
        let Some(snapshot) = self.open.get_mut(job) else { return };
        let part = &mut snapshot.parts[index as usize];
        if let Some(replies) = part.take(&core.mail, core.now, answer) {
            part.replies = replies;
        }
        snapshot.left -= 1;
        if snapshot.left > 0 {
            return;
        }
        let instant = instant(&snapshot.parts);
        if snapshot.parts.iter().all(|part| instant <= part.until) {
            return self.complete(core, job);
        }
        snapshot.round += 1;
        if snapshot.round >= SNAPSHOT_ROUNDS_MAX {
            return self.give_up(core, transactions, job);
        }
        let at = later(instant, snapshot.round);
        self.read(core, job, at, |part| part.until < instant);
    }

    fn complete(&mut self, core: &mut Core, job: u64) {
        let Some(snapshot) = self.open.remove(job) else { return };
        let Snapshot { target, finish, parts, order, .. } = snapshot;
        core.mail.stats.committed += 1;
        let mut replies: Vec<_> = parts.into_iter().map(|part| part.replies.into_iter()).collect();
        let in_order = order.iter().filter_map(|&part| replies[usize::from(part)].next());
        let items = finish.items(in_order);
        core.complete(target, finish, items);
    }

    /// Gives up reads without locks: they are carried out under locks, as a transaction.
    pub fn give_up(&mut self, core: &mut Core, transactions: &mut Transactions, job: u64) {
        let Some(snapshot) = self.open.remove(job) else { return };
        let Snapshot { target, finish, parts, order, .. } = snapshot;
        let mut ops: Vec<_> = parts.into_iter().map(|part| part.ops.into_iter()).collect();
        let in_order = order.iter().filter_map(|&part| ops[usize::from(part)].next()).collect();
        let program = Program {
            target,
            steps: vec![ProgramStep::Ops(in_order, Some(Merge::Array))],
            form: Form::One,
            guards: Vec::new(),
            fences: Vec::new(),
            request: None,
        };
        transactions.begin(core, program, Some(finish));
    }

    /// Ends a snapshot that cannot be read, for this reason.
    pub fn fail(&mut self, core: &mut Core, job: u64, error: Reply) {
        if let Some(snapshot) = self.open.remove(job) {
            core.finish(snapshot.target, error);
        }
    }

    /// Snapshots with reads at a shard.
    pub fn at(&self, shard: ShardId) -> Vec<u64> {
        let reads = |snapshot: &Snapshot| snapshot.parts.iter().any(|part| part.shard == shard);
        self.open.iter().filter(|(_, snapshot)| reads(snapshot)).map(|(job, _)| job).collect()
    }

    /// Number of snapshots that are being read.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.open.len()
    }
}
