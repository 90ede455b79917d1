//! A shard begins or ceases to be led by this replica.
//!
//! Knowledge of a leader beyond the log (locks, waiting requests, proposals) is lost with the lead. All
//! requests that wait are answered at once, with a distinction: either nothing has happened and the
//! request may go to the next leader, or this replica cannot know.

use super::expiry::Expiry;
use crate::coordination::Ask;
use crate::entry::LogRecord;
use crate::ids::{MachineId, TxnId};
use crate::message::{Answer, Body, Refusal};
use crate::now::Now;
use crate::shard::Desk;
use crate::shard::Shard;
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

impl Desk {
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
                (_, RecipientKind::Ran) => match self.scripts.give_up(target) {
                    // Another record of the same request has told it already.
                    None => continue,
                    Some(runs) if how == GivenUp::Before && !runs.is_empty() => Body::Run(runs),
                    Some(_) => {
                        self.core.answer(gateway, token, Answer::Unknown);
                        continue;
                    }
                },
                _ if how == GivenUp::After => {
                    self.core.answer(gateway, token, Answer::Unknown);
                    continue;
                }
                (LogRecord::Apply(apply), RecipientKind::Replies) => Body::Apply(apply),
                (LogRecord::Apply(apply), RecipientKind::Turn) => {
                    self.waits.turns.again(gateway, token, apply)
                }
                (LogRecord::Flush(database), _) => Body::Flush { database },
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

impl Shard {
    /// Begins the lead of this replica in `term`; everything that was committed before is applied. Prepared
    /// transactions get their locks back.
    pub fn lead(&mut self, now: Now, term: u64) {
        self.desk.core.ahead = AheadOfLog::of_lead(term);
        self.desk.streams.begin_lead(term);
        self.desk.core.recent.iter_mut().for_each(|recent| recent.note_all(now.mono_us));
        let ahead: Vec<_> = self
            .desk
            .core
            .state
            .prepared
            .unsettled()
            .filter(|(txn, _)| !self.desk.core.state.streams.has_unit(*txn))
            .collect();
        for (txn, commit) in ahead {
            // This replica led before, and acted on decisions that others have not heard of.
            self.desk.core.log(LogRecord::Outcome { txn, commit }, Recipient::none());
            self.desk.core.move_clock(commit.unwrap_or_default());
            self.desk.core.state.decide(txn, commit, &mut self.desk.core.ahead);
        }
        self.desk.core.ahead.take_moved();
        let transactions = self.desk.core.state.prepared().values().filter(|p| !p.is_unit());
        let prepared: Vec<_> = transactions.cloned().collect();
        if !prepared.is_empty() {
            self.desk.core.track(now);
        }
        for inherited in prepared {
            self.desk.locking.inherit(&mut self.desk.core, now, inherited);
        }
        self.desk.waits.turns.begin_lead(now);
        let executed = self.desk.streams.inherit(&mut self.desk.core, now);
        self.desk.finish(now, executed);
        self.desk.service.begin_lead(&mut self.desk.core, now);
        self.desk.settle(now);
    }

    /// Drops everything that the gateways of a machine have sent, as far as they are known here: nothing more
    /// will come from them. Their transactions end, unless they are prepared, and these are settled soon.
    pub fn machine_gone(&mut self, now: Now, machine: MachineId) {
        self.desk.each_room(|room, core| room.forget(core, now, machine));
        self.desk.settle(now);
    }

    /// Settles a transaction that a start has found open, before there are any requests.
    pub fn resolve(&mut self, now: Now, txn: TxnId, commit: Option<Timestamp>) {
        self.desk.decide(now, Default::default(), txn, commit);
        // No gateway waits for an answer yet.
        self.desk.core.outbox.clear();
    }

    /// Ends the lead of this replica. Every request that waits for an answer gets one.
    pub fn step_down(&mut self) {
        let Abandoned { proposed, unproposed } = self.desk.core.tail.abandon();
        for batch in proposed {
            self.desk.give_up(batch, GivenUp::After);
        }
        for batch in unproposed {
            self.desk.give_up(batch, GivenUp::Before);
        }
        self.desk.each_room(|room, core| room.end_lead(core));
        debug_assert!(self.desk.rooms().iter().all(|room| room.is_empty()), "no request waits");
        self.desk.core.state.renounce(std::mem::take(&mut self.desk.core.ahead));
        self.desk.splitting.give_up();
        self.desk.scripts.end_lead();
        self.desk.core.locks = LockTable::new(self.desk.core.config.concurrency);
        self.desk.expiry = Expiry::default();
    }
}
