//! What became of a transaction whose coordinator is silent: this gateway finds out, and settles it.
//!
//! All participants are asked. One that has not prepared the transaction makes sure that it never
//! will; then it is aborted. If all have prepared it, it is committed, at the latest of their
//! bounds, exactly as its coordinator would have decided. Any number of gateways may do this at the
//! same time, the coordinator among them: they come to the same decision.

use crate::gateway::mail::Pending;
use crate::gateway::{Gateway, Job};
use crate::message::{Answer, Body, Fate, ShardId, TxnId};
use adt::Timestamp;
use smallvec::SmallVec;

/// A transaction that is being settled for somebody else.
pub(in crate::gateway) struct Recovery {
    txn: TxnId,
    participants: SmallVec<[ShardId; 4]>,
    left: usize,
    bound: Timestamp,
    committed: Option<Timestamp>,
    void: bool,
}

impl Gateway {
    /// A shard has a prepared transaction of which nobody says what became of it.
    pub(in crate::gateway) fn recover(&mut self, txn: TxnId, participants: SmallVec<[ShardId; 4]>) {
        if self.txns.contains_key(&txn) || !self.recovering.insert(txn) {
            return;
        }
        let left = participants.len();
        let (bound, committed, void) = (Timestamp::ZERO, None, false);
        let recovery =
            Recovery { txn, participants: participants.clone(), left, bound, committed, void };
        let job = self.jobs.insert(Job::Recovery(Box::new(recovery)));
        self.core.mail.stats.recoveries += 1;
        for shard in participants {
            self.core.mail.ask(shard, Pending::Fate { job }, Body::Inquire { txn });
        }
    }

    /// What a participant knows cannot be heard: nothing may be concluded from that. A shard that still
    /// waits says so again.
    pub(in crate::gateway) fn leave_unsettled(&mut self, job: u64) {
        if let Some(Job::Recovery(recovery)) = self.jobs.remove(job) {
            self.recovering.remove(&recovery.txn);
        }
    }

    /// A participant has said what it knows.
    pub(in crate::gateway) fn learned(&mut self, job: u64, answer: Answer) {
        let Some(Job::Recovery(recovery)) = self.jobs.get_mut(job) else { return };
        recovery.left -= 1;
        match answer {
            Answer::Fate(Fate::Prepared { bound }) => {
                crate::gateway::mail::raise(&mut recovery.bound, bound);
            }
            Answer::Fate(Fate::Committed(ts)) => recovery.committed = Some(ts),
            Answer::Fate(Fate::Void) => recovery.void = true,
            // Nothing may be concluded from what is no fate.
            _ => return self.leave_unsettled(job),
        }
        if recovery.left > 0 {
            return;
        }
        let Some(Job::Recovery(recovery)) = self.jobs.remove(job) else { return };
        self.recovering.remove(&recovery.txn);
        let prepared = (!recovery.void).then_some(recovery.bound);
        let commit = recovery.committed.or(prepared);
        for shard in recovery.participants {
            self.core.mail.tell(shard, Body::Decide { txn: recovery.txn, commit });
        }
    }
}
