//! Reads over several shards at one instant, without locks.
//!
//! Every shard tells in which interval its values were valid together. If one instant lies in all
//! intervals, the values are a snapshot at that instant. Otherwise those shards whose values ended
//! too early are read again, later. See "Reads without locks" in `docs/internals/transactions.md`.

use crate::gateway::mail::{Mail, Pending, Target};
use crate::gateway::txn::work::{Finish, Program, Step};
use crate::gateway::{Gateway, Job};
use crate::ids::{KeyedOp, ShardId};
use crate::limits::{CLOCK_DRIFT_PERCENT_MAX, SNAPSHOT_ROUNDS_MAX};
use crate::message::{Answer, Body};
use crate::now::Now;
use adt::{Reply, Timestamp};

/// How far behind the youngest value the shards are read again, in microseconds; doubles with
/// every round.
const MARGIN_US: u64 = 50;

/// A snapshot that is being put together.
pub(in crate::gateway) struct Snapshot {
    target: Target,
    finish: Finish,
    parts: Vec<Part>,
    /// For each operation, the part that it is in.
    order: Vec<u16>,
    round: u32,
    left: usize,
}

impl Snapshot {
    /// Whether part of it is read at a shard.
    pub fn reads(&self, shard: ShardId) -> bool {
        self.parts.iter().any(|part| part.shard == shard)
    }
}

/// What one shard reads.
#[derive(Debug)]
pub(in crate::gateway) struct Part {
    pub shard: ShardId,
    pub ops: Vec<KeyedOp>,
    pub replies: Vec<Reply>,
    pub since: Timestamp,
    pub until: Timestamp,
    /// When the shard was asked.
    pub asked_us: u64,
}

impl Part {
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

    /// Asks the shard, at a timestamp or later. In a cluster timestamps tell nothing.
    pub fn ask(&mut self, mail: &mut Mail, now: Now, pending: Pending, at: Timestamp) {
        let at = if mail.ways.is_some() { Timestamp::ZERO } else { at };
        self.asked_us = now.mono_us;
        mail.ask(self.shard, pending, Body::Snapshot { ops: self.ops.clone(), at, fenced: false });
    }

    /// Takes an answer; gives the replies. The shards of one machine tell by the clock that they
    /// share from when to when the values were there. Those of several machines share none: then
    /// this gateway's own monotonic clock counts, and what is certain is that the values were there
    /// when the question was sent, if they had not changed for as long as the answer took.
    pub fn take(&mut self, mail: &Mail, now: Now, answer: Answer) -> Option<Vec<Reply>> {
        let Answer::Snapshot { replies, since, until, held_us } = answer else { return None };
        (self.since, self.until) = (since, until);
        if mail.ways.is_some() {
            // The shard's clock may be faster than this one.
            let held_us = held_us / 100 * (100 - CLOCK_DRIFT_PERCENT_MAX);
            self.since = Timestamp::from_micros(now.mono_us.saturating_sub(held_us));
            self.until = Timestamp::from_micros(self.asked_us);
        }
        Some(replies)
    }
}

/// The instant that all parts must reach: the youngest of their values.
pub(in crate::gateway) fn instant(parts: &[Part]) -> Timestamp {
    parts.iter().map(|part| part.since).max().unwrap_or_default()
}

/// When to read again in this round.
pub(in crate::gateway) fn later(instant: Timestamp, round: u32) -> Timestamp {
    Timestamp::from_micros(instant.micros() + (MARGIN_US << round.min(20)))
}

impl Gateway {
    /// Reads on several shards.
    pub(in crate::gateway) fn begin_snapshot(
        &mut self,
        target: Target,
        ops: Vec<KeyedOp>,
        finish: Finish,
    ) {
        let mut parts: Vec<Part> = Vec::new();
        let mut order = Vec::with_capacity(ops.len());
        for (key, op) in ops {
            let shard = self.core.mail.shard_of(&key);
            let at = parts.iter().position(|p| p.shard == shard).unwrap_or_else(|| {
                parts.push(Part::new(shard));
                parts.len() - 1
            });
            order.push(at as u16);
            parts[at].ops.push((key, op));
        }
        let snapshot = Snapshot { target, finish, parts, order, round: 0, left: 0 };
        let job = self.jobs.insert(Job::Snapshot(Box::new(snapshot)));
        self.read_parts(job, Timestamp::ZERO, |_| true);
    }

    /// Asks the shards of some parts (again).
    fn read_parts(&mut self, job: u64, at: Timestamp, which: impl Fn(&Part) -> bool) {
        let Some(Job::Snapshot(snapshot)) = self.jobs.get_mut(job) else { return };
        self.core.mail.stats.snapshot_rounds += 1;
        for (index, part) in snapshot.parts.iter_mut().enumerate().filter(|(_, part)| which(part)) {
            let pending = Pending::Snapshot { job, part: index as u32 };
            part.ask(&mut self.core.mail, self.core.now, pending, at);
            snapshot.left += 1;
        }
    }

    /// One shard has answered.
    pub(in crate::gateway) fn snapshot_part(&mut self, job: u64, index: u32, answer: Answer) {
        if matches!(answer, Answer::Refused(_)) {
            return self.lock_instead(job);
        }
        let Some(Job::Snapshot(snapshot)) = self.jobs.get_mut(job) else { return };
        let part = &mut snapshot.parts[index as usize];
        if let Some(replies) = part.take(&self.core.mail, self.core.now, answer) {
            part.replies = replies;
        }
        snapshot.left -= 1;
        if snapshot.left > 0 {
            return;
        }
        let instant = instant(&snapshot.parts);
        if snapshot.parts.iter().all(|part| instant <= part.until) {
            return self.finish_snapshot(job);
        }
        snapshot.round += 1;
        if snapshot.round >= SNAPSHOT_ROUNDS_MAX {
            return self.lock_instead(job);
        }
        let at = later(instant, snapshot.round);
        self.read_parts(job, at, |part| part.until < instant);
    }

    fn finish_snapshot(&mut self, job: u64) {
        let Some(Job::Snapshot(snapshot)) = self.jobs.remove(job) else { return };
        self.core.mail.stats.committed += 1;
        let Snapshot { target, finish, parts, order, .. } = *snapshot;
        let mut replies: Vec<_> = parts.into_iter().map(|part| part.replies.into_iter()).collect();
        let in_order = order.iter().filter_map(|&part| replies[usize::from(part)].next());
        let in_order: Vec<Reply> = in_order.collect();
        self.complete(target, &finish, in_order.into_iter());
    }

    /// The reads cannot be carried out.
    pub(in crate::gateway) fn fail_snapshot(&mut self, job: u64, error: Reply) {
        if let Some(Job::Snapshot(snapshot)) = self.jobs.remove(job) {
            self.finish(snapshot.target, error);
        }
    }

    /// The values change too fast: read them under locks.
    pub(in crate::gateway) fn lock_instead(&mut self, job: u64) {
        let Some(Job::Snapshot(snapshot)) = self.jobs.remove(job) else { return };
        let Snapshot { target, finish, parts, order, .. } = *snapshot;
        let mut ops: Vec<_> = parts.into_iter().map(|part| part.ops.into_iter()).collect();
        let in_order = order.iter().filter_map(|&part| ops[usize::from(part)].next()).collect();
        let merge = adt::Merge::Array;
        let program = Program {
            target,
            steps: vec![Step::Ops(in_order, Some(merge))],
            form: crate::gateway::txn::work::Form::One,
            guards: Vec::new(),
            fences: Vec::new(),
            request: None,
        };
        self.begin_txn(program, Some(finish));
    }
}
