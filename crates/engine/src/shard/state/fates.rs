//! Fates of transactions that are over, kept as long as another participant may ask for them.

use super::{Executed, OpReplies};
use crate::ids::TxnId;
use crate::limits::{EXECUTED_REPLIES_MAX, VOID_US};
use crate::shard::locking::watermark::SettledUpTo;
use adt::Timestamp;
use adt::collections::Map;
use std::collections::{BTreeSet, VecDeque};

/// How long an executed transaction's outcome is remembered at least, in microseconds. All
/// participants of a server that is alone log their outcomes in the same rounds of its one log, so a
/// participant that still lacks its own is at most a few rounds behind. In a cluster the other
/// shards' watermarks must have passed it as well.
pub const OUTCOME_US: u64 = 10_000_000;

/// Fates of transactions that are over.
#[derive(Clone, Debug, Default)]
pub struct Fates {
    /// Commit timestamps of transactions over several shards that were executed lately.
    outcomes: Map<TxnId, Timestamp>,
    /// Outcomes with the time of each (monotonic microseconds of this replica), the oldest first.
    outcomes_by_time: VecDeque<(u64, Timestamp, TxnId)>,
    /// In a cluster: how far other shards have settled their transactions.
    settled: Option<SettledUpTo>,
    /// No more shards than this have taken part in a transaction here.
    shards: u16,
    /// Transactions that were not prepared here and never will be.
    voids: BTreeSet<TxnId>,
    /// Void transactions with the time at which each was noted (monotonic microseconds), the oldest first.
    voids_by_time: VecDeque<(u64, TxnId)>,
    /// Replies of transactions that were carried out lately, for a coordinator that has lost them.
    kept: Option<VecDeque<Executed>>,
}

impl Fates {
    /// Notes how many shards may take part in a transaction.
    pub(super) fn count_shards(&mut self, shards: u16) {
        self.shards = self.shards.max(shards);
    }

    /// Commit timestamp of a transaction that was executed here lately. Another participant that has lost
    /// its outcome record in a crash asks for it.
    pub fn outcome(&self, txn: TxnId) -> Option<Timestamp> {
        self.outcomes.get(&txn).copied()
    }

    /// Outcomes that a snapshot has to contain.
    pub fn outcomes(&self) -> impl Iterator<Item = (TxnId, Timestamp)> {
        self.outcomes.iter().map(|(txn, ts)| (*txn, *ts))
    }

    /// Remembers an outcome until no participant can need it any more.
    pub fn remember(&mut self, txn: TxnId, ts: Timestamp, mono_us: u64) {
        self.outcomes.insert(txn, ts);
        self.outcomes_by_time.push_back((mono_us, ts, txn));
        while let Some((since_us, ts, txn)) = self.outcomes_by_time.front().copied() {
            let needed = self.settled.is_some_and(|all| !all.passed(self.shards, since_us, ts));
            if since_us + OUTCOME_US > mono_us || needed {
                break;
            }
            self.outcomes_by_time.pop_front();
            self.outcomes.swap_remove(&txn);
        }
    }

    /// Keeps outcomes from now on until all shards have settled them.
    pub fn keep_outcomes(&mut self) {
        self.settled = Some(SettledUpTo::default());
    }

    /// Notes how far all shards have settled their transactions.
    pub fn hear_settled(&mut self, all: SettledUpTo) {
        if let Some(settled) = &mut self.settled {
            *settled = all;
        }
    }

    /// Whether all shards have settled what was committed at `ts` and carried out at `since_us`.
    pub(in crate::shard) fn all_passed(&self, since_us: u64, ts: Timestamp) -> bool {
        self.settled.is_none_or(|all| all.passed(self.shards, since_us, ts))
    }

    /// Keeps the replies of transactions over several shards for a while from now on.
    pub fn keep_replies(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Replies of a transaction that was carried out lately, if they are kept.
    pub fn replies_of(&self, txn: TxnId) -> Option<&OpReplies> {
        self.kept.iter().flatten().find(|executed| executed.txn == txn).map(|e| &e.replies)
    }

    /// Notes the replies of a transaction that was carried out, if they are to be kept.
    pub(in crate::shard) fn note_replies(&mut self, executed: &Executed) {
        if let Some(kept) = &mut self.kept {
            if kept.len() >= EXECUTED_REPLIES_MAX {
                kept.pop_front();
            }
            kept.push_back(Executed { txn: executed.txn, replies: executed.replies.clone() });
        }
    }

    /// Notes that a transaction that was not prepared here never will be. Forgotten after [`VOID_US`] of this
    /// replica's monotonic time: what was sent before it was known arrives within that or not at
    /// all (see "When a coordinator is gone" in `docs/internals/replication/transactions.md`).
    pub fn void(&mut self, txn: TxnId, mono_us: u64) {
        if self.voids.insert(txn) {
            self.voids_by_time.push_back((mono_us, txn));
        }
        while let Some((heard_us, txn)) = self.voids_by_time.front().copied() {
            if heard_us + VOID_US > mono_us {
                break;
            }
            self.voids_by_time.pop_front();
            self.voids.remove(&txn);
        }
    }

    /// Whether a transaction must not be prepared here.
    pub fn is_void(&self, txn: TxnId) -> bool {
        self.voids.contains(&txn)
    }

    /// Transactions that must not be prepared here.
    pub fn voids(&self) -> impl Iterator<Item = TxnId> {
        self.voids.iter().copied()
    }
}
