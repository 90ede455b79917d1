//! Orphans: transactions whose coordinator is silent. This gateway finds out what became of them, and
//! settles them.
//!
//! All participants are asked. One that has not prepared the transaction makes sure that it never
//! will; then it is aborted. If all have prepared it, it is committed, at the latest of their
//! bounds, exactly as its coordinator would have decided. Any number of gateways may do this at the
//! same time, the coordinator among them: they come to the same decision.

use crate::gateway::core::Core;
use crate::gateway::mail::{Pending, raise};
use crate::gateway::slab::Slab;
use crate::ids::{ShardId, TxnId};
use crate::message::{Answer, Body, Fate};
use adt::Timestamp;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// A transaction that is being settled in place of its coordinator.
struct Orphan {
    txn: TxnId,
    participants: SmallVec<[ShardId; 4]>,
    /// Number of participants that have not answered.
    left: usize,
    /// The largest bound that a participant has prepared it with.
    bound: Timestamp,
    /// When it was committed, if a participant knows that.
    committed: Option<Timestamp>,
    /// Whether a participant will never prepare it.
    void: bool,
}

/// Transactions that this gateway settles in place of their coordinators.
#[derive(Default)]
pub(in crate::gateway) struct Orphans {
    open: Slab<Orphan>,
    txns: BTreeSet<TxnId>,
}

impl Orphans {
    /// Asks the participants of a transaction for its fate, unless they are being asked already.
    pub fn begin(&mut self, core: &mut Core, txn: TxnId, participants: SmallVec<[ShardId; 4]>) {
        if !self.txns.insert(txn) {
            return;
        }
        let left = participants.len();
        let (bound, committed, void) = (Timestamp::ZERO, None, false);
        let orphan =
            Orphan { txn, participants: participants.clone(), left, bound, committed, void };
        let job = self.open.insert(orphan);
        core.mail.stats.recoveries += 1;
        for shard in participants {
            core.mail.ask(shard, Pending::Fate { job }, Body::Inquire { txn });
        }
    }

    /// Takes the answer of a participant. With the last one, the transaction is settled.
    pub fn answered(&mut self, core: &mut Core, job: u64, answer: Answer) {
        let Some(orphan) = self.open.get_mut(job) else { return };
        orphan.left -= 1;
        match answer {
            Answer::Fate(Fate::Prepared { bound }) => raise(&mut orphan.bound, bound),
            Answer::Fate(Fate::Committed(ts)) => orphan.committed = Some(ts),
            Answer::Fate(Fate::Void) => orphan.void = true,
            // Nothing may be concluded from what is no fate.
            _ => return self.give_up(job),
        }
        if orphan.left > 0 {
            return;
        }
        let Some(orphan) = self.open.remove(job) else { return };
        self.txns.remove(&orphan.txn);
        let prepared = (!orphan.void).then_some(orphan.bound);
        let commit = orphan.committed.or(prepared);
        raise(&mut core.decided, commit.unwrap_or_default());
        for shard in orphan.participants {
            core.mail.tell(shard, Body::Decide { txn: orphan.txn, commit });
        }
    }

    /// Leaves a transaction as it is, because a participant cannot be heard: nothing may be concluded from
    /// that. A shard that still waits for the decision says so again.
    pub fn give_up(&mut self, job: u64) {
        if let Some(orphan) = self.open.remove(job) {
            self.txns.remove(&orphan.txn);
        }
    }
}
