//! A shard begins or ceases to be led by this replica.
//!
//! Knowledge of a leader beyond the log (locks, waiting requests, proposals) is lost with the lead. All
//! requests that wait are answered at once, with a distinction: either nothing has happened and the
//! request may go to the next leader, or this replica cannot know.

use super::Shard;
use super::coordination::ServiceLeader;
use super::expiry::Expiry;
use super::streams::is_own;
use crate::coordination::Ask;
use crate::entry::LogRecord;
use crate::ids::{MachineId, TxnId};
use crate::message::{Answer, Body, Refusal};
use crate::now::Now;
use crate::shard::ahead::AheadOfLog;
use crate::shard::locking::locks::LockTable;
use crate::shard::tail::{Abandoned, Batch, Recipient, RecipientKind};
use adt::Timestamp;

/// Meaning of a batch that was given up for the requests that wait for it.
#[derive(Clone, Copy, PartialEq)]
enum GivenUp {
    /// Never proposed.
    Before,
    /// In the log, where it may be committed or replaced.
    After,
}

impl Shard {
    /// Begins the lead of this replica in `term`; everything that was committed before is applied. Prepared
    /// transactions get their locks back.
    pub fn lead(&mut self, now: Now, term: u64) {
        self.core.ahead = AheadOfLog::of_lead(term);
        self.streams.begin_lead(term);
        self.core.recent.iter_mut().for_each(|recent| recent.note_all(now.mono_us));
        let ahead: Vec<_> = self
            .core
            .state
            .prepared
            .unsettled()
            .filter(|(txn, _)| !self.core.state.streams.has_unit(*txn))
            .collect();
        for (txn, commit) in ahead {
            // This replica led before, and acted on decisions that others have not heard of.
            self.core.log(LogRecord::Outcome { txn, commit }, Recipient::none());
            self.core.move_clock(commit.unwrap_or_default());
            self.core.state.decide(txn, commit, &mut self.core.ahead);
        }
        self.core.ahead.take_moved();
        let transactions = self.core.state.prepared().values().filter(|p| !p.is_unit());
        let prepared: Vec<_> = transactions.cloned().collect();
        if !prepared.is_empty() {
            self.core.track(now);
        }
        for inherited in prepared {
            self.locking.inherit(&mut self.core, now, inherited);
        }
        self.waits.turns.begin_lead(now);
        let executed = self.streams.inherit(&mut self.core, now);
        self.finish(now, executed);
        self.service.begin_lead(&mut self.core, now);
        self.settle(now);
    }

    /// Drops everything that the gateways of a machine have sent, as far as they are known here: nothing more
    /// will come from them. Their transactions end, unless they are prepared, and these are settled soon.
    pub fn machine_gone(&mut self, now: Now, machine: MachineId) {
        self.locking.forget(&mut self.core, now, machine);
        self.core.delayed.forget(machine);
        self.service.count_waiting(&self.core);
        self.cuts.forget(machine);
        self.service.forget(machine);
        self.waits.forget(&mut self.core, now, machine);
        self.settle(now);
    }

    /// Settles a transaction that a start has found open, before there are any requests.
    pub fn resolve(&mut self, now: Now, txn: TxnId, commit: Option<Timestamp>) {
        self.decide(now, Default::default(), txn, commit);
        // No gateway waits for an answer yet.
        self.core.outbox.clear();
    }

    /// Ends the lead of this replica. Every request that waits for an answer gets one.
    pub fn step_down(&mut self) {
        let Abandoned { proposed, unproposed } = self.core.tail.abandon();
        for batch in proposed {
            self.give_up(batch, GivenUp::After);
        }
        for batch in unproposed {
            self.give_up(batch, GivenUp::Before);
        }
        self.locking.give_up_waiters(&mut self.core, is_own);
        self.core.give_up_delayed();
        self.locking.whole.give_up(&mut self.core);
        self.locking.give_up_inquiries(&mut self.core);
        self.waits.end_lead(&mut self.core);
        self.cuts.give_up(&mut self.core);
        self.locking.give_up(&mut self.core);
        for ((gateway, token), group) in self.streams.end_lead() {
            self.core.turn_away(gateway, token, Body::Pipeline(group));
        }
        self.core.state.renounce(std::mem::take(&mut self.core.ahead));
        self.splitting.give_up();
        self.core.locks = LockTable::new(self.core.config.concurrency);
        self.expiry = Expiry::default();
        self.service.give_up(&mut self.core);
        self.service = ServiceLeader::default();
    }

    fn give_up(&mut self, batch: Batch, how: GivenUp) {
        for (record, target) in batch.records.into_iter().zip(batch.targets) {
            let (gateway, token) = (target.gateway, target.token);
            let body = match (record, target.kind) {
                (_, RecipientKind::Silent | RecipientKind::Named) => continue,
                (_, RecipientKind::Turn) if self.waits.turns.was_told(target) => continue,
                // To ask once more for these is to ask the same.
                (LogRecord::Resolve(request), _) => Body::Resolve(request),
                (LogRecord::Answered(told), _) => Body::Remember(told),
                (LogRecord::Void(txn), _) => Body::Inquire { txn },
                // The ticket says that it is the same request, whatever becomes of this copy.
                (LogRecord::Apply(apply), RecipientKind::Turn) if apply.may_be_successor() => {
                    self.waits.turns.again(gateway, token, apply)
                }
                _ if how == GivenUp::After => {
                    self.core.answer(gateway, token, Answer::Unknown);
                    continue;
                }
                (LogRecord::Apply(apply), RecipientKind::Replies) => Body::Apply(apply),
                (LogRecord::Apply(apply), RecipientKind::Turn) => {
                    self.waits.turns.again(gateway, token, apply)
                }
                (LogRecord::Flush, _) => Body::Flush,
                (LogRecord::Coordinate(command), _) => {
                    Body::Coordinate(Box::new(Ask::Write(*command)))
                }
                _ => {
                    self.core.answer(gateway, token, Answer::Refused(Refusal::LocksLost));
                    continue;
                }
            };
            self.core.turn_away(gateway, token, body);
        }
    }
}
