//! Transactions over several shards whose coordinator is silent: who asks, and what is answered.
//!
//! See "When a coordinator is gone" in `docs/internals/transactions.md`.

use crate::entry::LogRecord;
use crate::ids::{GatewayId, MachineId, Token, TxnId};
use crate::limits::ORPHAN_US;
use crate::message::{Answer, Body, Fate, Notice, Refusal, Request};
use crate::now::Now;
use crate::shard::{Recipient, RecipientKind, Shard};

impl Shard {
    /// Somebody wants to know what became of a transaction. If it is not prepared here, it never
    /// will be, and that is logged before it is said.
    pub(in crate::shard) fn inquire(&mut self, gateway: GatewayId, token: Token, txn: TxnId) {
        if let Some(prepared) = self.core.state.prepared().get(&txn) {
            let fate = match prepared.commit {
                Some(commit) => Fate::Committed(commit),
                None if self.core.ahead.is_announced(txn) => {
                    // Not durable yet.
                    let request =
                        Request { gateway, token, after: None, body: Body::Inquire { txn } };
                    return self.after.push_back((self.core.tail.newest(), request));
                }
                None => Fate::Prepared { bound: prepared.bound },
            };
            return self.core.answer(gateway, token, Answer::Fate(fate));
        }
        if let Some(commit) = self.core.state.outcome(txn) {
            return self.core.answer(gateway, token, Answer::Fate(Fate::Committed(commit)));
        }
        if self.txns.get(&txn).is_some_and(|entry| entry.prepared) {
            // In the entry of this turn.
            let request = Request { gateway, token, after: None, body: Body::Inquire { txn } };
            return self.after.push_back((self.core.tail.newest(), request));
        }
        self.refuse_txn(txn);
        self.voiding.insert(txn);
        let target = Recipient { gateway, token, kind: RecipientKind::Voided };
        self.core.log(LogRecord::Void(txn), target);
    }

    /// Whatever a transaction that is not prepared here waits for is refused.
    fn refuse_txn(&mut self, txn: TxnId) {
        let Some(entry) = self.txns.get_mut(&txn) else { return };
        let unlogged = entry.unlogged.take();
        let waiters = std::mem::take(&mut entry.waiters);
        let refused = || Answer::Refused(Refusal::LocksLost);
        self.refuse_newcomer(txn, Refusal::LocksLost);
        if let Some((_, target)) = unlogged {
            self.core.answer(target.gateway, target.token, refused());
        }
        for id in waiters {
            if let Some(waiter) = self.waiters.remove(&id) {
                self.leave_queues(id, &waiter);
                self.core.answer(waiter.request.gateway, waiter.request.token, refused());
            }
        }
        self.end_txn(txn);
    }

    /// Transactions that are prepared here, and of which nobody has said for long what became of
    /// them, are reported to the gateway next to this shard.
    pub(in crate::shard) fn find_orphans(&mut self, now: Now) {
        if !self.core.config.clustered {
            return;
        }
        let silent = |touched_us: u64| now.mono_us.saturating_sub(touched_us) >= ORPHAN_US;
        let orphans: Vec<TxnId> = self
            .txns
            .iter()
            .filter(|(_, t)| t.prepared && t.decided.is_none() && silent(t.touched_us))
            .map(|(txn, _)| *txn)
            .collect();
        for txn in orphans {
            let Some(entry) = self.txns.get_mut(&txn) else { continue };
            entry.touched_us = now.mono_us;
            let Some(prepared) = self.core.state.prepared().get(&txn) else { continue };
            let participants = prepared.prepare.participants.clone();
            self.core.notice(
                self.core.config.beside,
                Token::default(),
                Notice::Orphan { txn, participants },
            );
        }
    }

    /// Nothing more will come from the gateways of a machine, as far as they are known here:
    /// transactions that they have begun end, unless they are prepared, and these are settled soon.
    pub fn machine_gone(&mut self, now: Now, machine: MachineId) {
        let of_it = |gateway: GatewayId| gateway.machine == machine;
        let gone: Vec<(TxnId, bool)> = self
            .txns
            .iter()
            .filter(|(_, t)| of_it(t.gateway) && !t.committing)
            .map(|(txn, t)| (*txn, t.prepared))
            .collect();
        for (txn, prepared) in gone {
            if !prepared {
                self.end_txn(txn);
            } else if let Some(entry) = self.txns.get_mut(&txn) {
                entry.touched_us = entry.touched_us.min(now.mono_us.saturating_sub(ORPHAN_US));
            }
        }
        let of_waiters = |waiter: &crate::shard::Waiter| of_it(waiter.request.gateway);
        let waiting: Vec<_> =
            self.waiters.iter().filter(|(_, w)| of_waiters(w)).map(|(id, _)| *id).collect();
        for id in waiting {
            if let Some(waiter) = self.waiters.remove(&id) {
                self.leave_queues(id, &waiter);
            }
        }
        self.after.retain(|(_, request)| !of_it(request.gateway));
        self.count_waiting_sessions();
        self.behind.retain(|request| !of_it(request.gateway));
        self.behind_whole.retain(|request| !of_it(request.gateway));
        self.forget_frozen(machine);
        self.forget_newcomers(machine);
        self.coordination.forget(machine);
        let freed = self.blocked.forget(machine);
        self.freed(now, freed);
        self.forget_turns(now, machine);
        self.observers.forget(machine);
        self.report_changes();
        self.settle(now);
    }
}
