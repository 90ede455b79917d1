//! A shard begins or ceases to be led by this replica.
//!
//! What a leader knows beyond the log (locks, who waits, what was proposed) is lost with the lead.
//! Everybody who waits for an answer is told at once, and told apart: whether nothing has happened
//! and the request may go to the next leader, or whether nobody here can know.

use super::coordination::Leader;
use super::streams::is_own;
use super::{OpenTxn, Shard};
use crate::coordination::Ask;
use crate::entry::LogRecord;
use crate::ids::TxnId;
use crate::message::{Answer, Body, Refusal};
use crate::now::Now;
use crate::shard::ahead::AheadOfLog;
use crate::shard::locking::grants::claims_of;
use crate::shard::locking::locks::LockTable;
use crate::shard::tail::{Abandoned, Batch, Recipient, RecipientKind};
use crate::shard::waiting::blocked::Blocked;
use adt::Timestamp;

/// What a batch that was given up means for those who wait for it.
#[derive(Clone, Copy, PartialEq)]
enum GivenUp {
    /// It was never proposed.
    Before,
    /// It is in the log, and may be committed or replaced.
    After,
}

impl Shard {
    /// This replica leads the shard in `term` from now on, and has applied everything that was committed
    /// before. Prepared transactions get their locks back.
    pub fn lead(&mut self, now: Now, term: u64) {
        self.core.ahead = AheadOfLog::of_lead(term);
        self.streams.term = term;
        self.core.recent.iter_mut().for_each(|recent| recent.note_all(now.mono_us));
        let ahead: Vec<_> = self
            .core
            .state
            .unsettled()
            .filter(|(txn, _)| !self.core.state.is_of_stream(*txn))
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
            let (txn, prepare) = (inherited.prepare.txn, inherited.prepare);
            let request = prepare.apply.request.clone();
            let entry = OpenTxn {
                gateway: txn.age.gateway,
                touched_us: now.mono_us,
                prepared: true,
                decided: inherited.commit.map(|_| Default::default()),
                request: request.clone(),
                ..OpenTxn::default()
            };
            self.txns.insert(txn, entry);
            if let Some(id) = request {
                self.open_requests.insert(id, txn);
            }
            self.inherit_whole(&prepare);
            let claims = claims_of(&Body::Prepare { prepare, floor: Timestamp::ZERO });
            for (key, claim) in claims {
                self.hold(txn, &key, claim);
            }
            if inherited.commit.is_some() {
                self.release_early(txn);
            }
        }
        self.begin_turns(now);
        self.inherit_streams(now);
        self.watch_over_sessions(now);
        self.settle(now);
    }

    /// This replica does not lead the shard any more. Everybody who waits for an answer gets one.
    pub fn step_down(&mut self) {
        let Abandoned { proposed, unproposed } = self.core.tail.abandon();
        for batch in proposed {
            self.give_up(batch, GivenUp::After);
        }
        for batch in unproposed {
            self.give_up(batch, GivenUp::Before);
        }
        for (_, waiter) in std::mem::take(&mut self.waiters) {
            let request = waiter.request;
            if is_own(&request.body) {
                continue;
            }
            self.core.turn_away(request.gateway, request.token, request.body);
        }
        let followers = std::mem::take(&mut self.behind);
        let after = std::mem::take(&mut self.after).into_iter().map(|(_, request)| request);
        let behind_whole = std::mem::take(&mut self.behind_whole);
        self.whole = None;
        for request in after.chain(followers).chain(behind_whole) {
            self.core.turn_away(request.gateway, request.token, request.body);
        }
        for (_, requests) in std::mem::take(&mut self.resolving) {
            for request in requests {
                self.core.turn_away(request.gateway, request.token, request.body);
            }
        }
        self.turn_all_away();
        self.turn_observers_away();
        self.give_up_cut();
        for (txn, entry) in std::mem::take(&mut self.txns) {
            self.give_up_txn(txn, entry);
        }
        self.give_up_streams();
        self.core.state.renounce(std::mem::take(&mut self.core.ahead));
        self.giving = None;
        self.core.locks = LockTable::new(self.core.config.concurrency);
        self.wounded.clear();
        self.open_requests.clear();
        self.probing.clear();
        self.voiding.clear();
        self.reaping.clear();
        self.blocked = Blocked::default();
        self.core.foreseen.clear();
        self.give_up_ends();
        self.coordination = Leader::default();
    }

    fn give_up_txn(&mut self, txn: TxnId, entry: OpenTxn) {
        if let Some((_, target)) = entry.unlogged {
            self.core.answer(target.gateway, target.token, Answer::Refused(Refusal::LocksLost));
        }
        let commit = self.core.state.prepared().get(&txn).and_then(|p| p.commit);
        for (gateway, token) in entry.decided.into_iter().chain(entry.askers) {
            if commit.is_some() {
                self.core.turn_away(gateway, token, Body::Decide { txn, commit });
            }
        }
    }

    fn give_up(&mut self, batch: Batch, how: GivenUp) {
        for (record, target) in batch.records.into_iter().zip(batch.targets) {
            let (gateway, token) = (target.gateway, target.token);
            let body = match (record, target.kind) {
                (_, RecipientKind::Silent | RecipientKind::Named) => continue,
                (_, RecipientKind::Turn) if self.turns.was_told(target) => continue,
                // To ask once more for these is to ask the same.
                (LogRecord::Resolve(request), _) => Body::Resolve(request),
                (LogRecord::Answered(told), _) => Body::Remember(told),
                (LogRecord::Void(txn), _) => Body::Inquire { txn },
                // The ticket says that it is the same request, whatever becomes of this copy.
                (LogRecord::Apply(apply), RecipientKind::Turn) if apply.may_be_next() => {
                    self.turn_again(gateway, token, apply)
                }
                _ if how == GivenUp::After => {
                    self.core.answer(gateway, token, Answer::Unknown);
                    continue;
                }
                (LogRecord::Apply(apply), RecipientKind::Replies) => Body::Apply(apply),
                (LogRecord::Apply(apply), RecipientKind::Turn) => {
                    self.turn_again(gateway, token, apply)
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
