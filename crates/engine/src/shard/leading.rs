//! A shard begins or ceases to be led by this replica.
//!
//! What a leader knows beyond the log (locks, who waits, what was proposed) is lost with the lead.
//! Everybody who waits for an answer is told at once, and told apart: whether nothing has happened
//! and the request may go to the next leader, or whether nobody here can know.

use super::coordination::Leader;
use super::streams::is_own;
use super::{Batch, OpenTxn, Recipient, RecipientKind, Shard};
use crate::coordination::Ask;
use crate::entry::LogRecord;
use crate::ids::{GatewayId, Token, TxnId};
use crate::message::{Answer, Body, Refusal};
use crate::now::Now;
use crate::shard::ahead::AheadOfLog;
use crate::shard::locking::grants::claims_of;
use crate::shard::locking::locks::LockTable;
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
        self.ahead = AheadOfLog::of_lead(term);
        self.streams.term = term;
        self.recent.iter_mut().for_each(|recent| recent.note_all(now.mono_us));
        let ahead: Vec<_> =
            self.state.unsettled().filter(|(txn, _)| !self.state.is_of_stream(*txn)).collect();
        for (txn, commit) in ahead {
            // This replica led before, and acted on decisions that others have not heard of.
            self.log(LogRecord::Outcome { txn, commit }, Recipient::nobody());
            self.move_clock(commit.unwrap_or_default());
            self.state.decide(txn, commit, &mut self.ahead);
        }
        self.ahead.take_moved();
        let transactions = self.state.prepared().values().filter(|p| !p.is_unit());
        let prepared: Vec<_> = transactions.cloned().collect();
        if !prepared.is_empty() {
            self.track(now);
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
        let building = std::mem::take(&mut self.building);
        let number = building.number;
        for batch in std::mem::take(&mut self.in_flight) {
            self.give_up(batch, GivenUp::After);
        }
        for batch in std::mem::take(&mut self.closed) {
            self.give_up(batch, GivenUp::Before);
        }
        self.give_up(building, GivenUp::Before);
        self.building = Batch { number: number + 1, ..Batch::default() };
        self.applied = number;
        for (_, waiter) in std::mem::take(&mut self.waiters) {
            let request = waiter.request;
            if is_own(&request.body) {
                continue;
            }
            self.turn_away(request.gateway, request.token, request.body);
        }
        let followers = std::mem::take(&mut self.behind);
        let after = std::mem::take(&mut self.after).into_iter().map(|(_, request)| request);
        let behind_whole = std::mem::take(&mut self.behind_whole);
        self.whole = None;
        for request in after.chain(followers).chain(behind_whole) {
            self.turn_away(request.gateway, request.token, request.body);
        }
        for (_, requests) in std::mem::take(&mut self.resolving) {
            for request in requests {
                self.turn_away(request.gateway, request.token, request.body);
            }
        }
        self.turn_all_away();
        self.turn_observers_away();
        self.give_up_cut();
        for (txn, entry) in std::mem::take(&mut self.txns) {
            self.give_up_txn(txn, entry);
        }
        self.give_up_streams();
        self.state.renounce(std::mem::take(&mut self.ahead));
        self.giving = None;
        self.locks = LockTable::new(self.config.concurrency);
        self.tracking_until_us = None;
        self.wounded.clear();
        self.open_requests.clear();
        self.probing.clear();
        self.voiding.clear();
        self.reaping.clear();
        self.dirty.clear();
        self.blocked = Blocked::default();
        self.foreseen.clear();
        self.give_up_ends();
        self.coordination = Leader::default();
    }

    /// Nothing of a request has happened here.
    pub(crate) fn turn_away(&mut self, gateway: GatewayId, token: Token, body: Body) {
        if let Some(answer) = body.not_taken() {
            self.answer(gateway, token, answer);
        }
    }

    fn give_up_txn(&mut self, txn: TxnId, entry: OpenTxn) {
        if let Some((_, target)) = entry.unlogged {
            self.answer(target.gateway, target.token, Answer::Refused(Refusal::LocksLost));
        }
        let commit = self.state.prepared().get(&txn).and_then(|p| p.commit);
        for (gateway, token) in entry.decided.into_iter().chain(entry.askers) {
            if commit.is_some() {
                self.turn_away(gateway, token, Body::Decide { txn, commit });
            }
        }
    }

    fn give_up(&mut self, batch: Batch, how: GivenUp) {
        for (record, target) in batch.records.into_iter().zip(batch.targets) {
            let (gateway, token) = (target.gateway, target.token);
            let body = match (record, target.kind) {
                (_, RecipientKind::Nobody | RecipientKind::Named) => continue,
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
                    self.answer(gateway, token, Answer::Unknown);
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
                    self.answer(gateway, token, Answer::Refused(Refusal::LocksLost));
                    continue;
                }
            };
            self.turn_away(gateway, token, body);
        }
    }
}
