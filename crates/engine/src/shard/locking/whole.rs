//! Transactions about all keys: `FLUSHALL`, `DBSIZE` and their kin between `MULTI` and `EXEC`, and scripts
//! that look at all keys.
//!
//! Locks are on records, and no lock covers all present and future keys. So such a transaction is let
//! in only when nothing else is open here, and from then on to its end all other requests wait for it.
//! It never waits itself: if something is open it is refused, and its gateway tries again. So no
//! transaction that it holds up at one shard can hold it up at another one.

use super::manager::LockManager;
use crate::entry::Prepare;
use crate::ids::{MachineId, Token, TxnId};
use crate::message::{Answer, Body, Notice, Refusal, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::waiting::room::WaitingRoom;
use std::collections::VecDeque;

/// The transaction about all keys, and the requests that wait for its end.
#[derive(Debug, Default)]
pub(in crate::shard) struct Whole {
    txn: Option<TxnId>,
    behind: VecDeque<Request>,
}

/// Whether a prepare is about all keys.
fn is_whole(prepare: &Prepare) -> bool {
    prepare.apply.ops.iter().any(|(_, op)| op.whole().is_some())
}

/// The transaction of a request that is about all keys: a prepare, or a look at all keys before the commit.
fn whole_of(body: &Body) -> Option<TxnId> {
    match body {
        Body::Prepare { prepare, .. } if is_whole(prepare) => Some(prepare.txn),
        Body::Lock { txn, op, .. } if op.whole().is_some() => Some(*txn),
        _ => None,
    }
}

/// Whether a request waits while `whole` works on all keys.
fn waits(body: &Body, whole: TxnId) -> bool {
    match body {
        Body::Lock { txn, .. } => *txn != whole,
        Body::Prepare { prepare, .. } => prepare.txn != whole,
        Body::Apply(_)
        | Body::Run(_)
        | Body::Await { .. }
        | Body::Read { .. }
        | Body::Snapshot { .. }
        | Body::Version { .. }
        | Body::Pipeline(_)
        | Body::Flush { .. }
        | Body::Count { .. }
        | Body::Keys { .. }
        | Body::RandomKey { .. }
        | Body::Scan { .. } => true,
        _ => false,
    }
}

fn refuse(core: &mut ShardCore, request: &Request) {
    core.stats.refused += 1;
    core.answer(request.gateway, request.token, Answer::Refused(Refusal::Frozen));
}

impl Whole {
    /// Whether a transaction about all keys is open.
    pub fn is_open(&self) -> bool {
        self.txn.is_some()
    }

    /// Whether a transaction is the one about all keys.
    pub fn is(&self, txn: TxnId) -> bool {
        self.txn == Some(txn)
    }

    /// Gives a request back unless it waits for the end of the transaction.
    #[inline]
    pub fn hold_back(&mut self, core: &mut ShardCore, request: Request) -> Option<Request> {
        let Some(whole) = self.txn else { return Some(request) };
        if !waits(&request.body, whole) {
            return Some(request);
        }
        if whole_of(&request.body).is_some() {
            refuse(core, &request);
        } else {
            self.behind.push_back(request);
        }
        None
    }

    /// Notes that a lead begins with a transaction that is prepared.
    pub fn inherit(&mut self, prepare: &Prepare) {
        if is_whole(prepare) {
            self.txn = Some(prepare.txn);
        }
    }

    /// Notes that a transaction is over.
    pub fn leave(&mut self, txn: TxnId) {
        if self.is(txn) {
            self.txn = None;
        }
    }

    /// Takes the requests that waited, if the transaction is over.
    pub fn take_behind(&mut self) -> VecDeque<Request> {
        if self.is_open() { VecDeque::new() } else { std::mem::take(&mut self.behind) }
    }
}

impl WaitingRoom for Whole {
    fn len(&self) -> usize {
        self.behind.len()
    }

    /// Drops the requests of the machine.
    fn forget(&mut self, _core: &mut ShardCore, _now: Now, machine: MachineId) {
        self.behind.retain(|request| request.gateway.machine != machine);
    }

    /// Sends the requests that wait to the next leader.
    fn end_lead(&mut self, core: &mut ShardCore) {
        for request in std::mem::take(self).behind {
            core.turn_away(request.gateway, request.token, request.body);
        }
    }
}

impl LockManager {
    /// Lets a transaction about all keys in, or refuses it, for example while `units` of pipelines hold
    /// records; gives every other request back.
    pub fn enter_whole(
        &mut self,
        core: &mut ShardCore,
        request: Request,
        units: bool,
    ) -> Option<Request> {
        let Some(txn) = whole_of(&request.body) else { return Some(request) };
        let open = self.txns.keys().any(|other| *other != txn)
            || !self.waiters.is_empty()
            || !core.state.prepared().is_empty();
        if open || units {
            self.ask_to_give_way(core, txn);
            refuse(core, &request);
            return None;
        }
        self.whole.txn = Some(txn);
        Some(request)
    }

    /// Asks younger transactions that hold something here to give way, if they wait themselves, and notifies
    /// gateways of those in the way: one that lasts too long is ended there. The next try finds fewer.
    fn ask_to_give_way(&mut self, core: &mut ShardCore, whole: TxnId) {
        let holders = self.txns.iter().filter(|(txn, entry)| **txn != whole && !entry.prepared);
        let holders: Vec<_> = holders.map(|(txn, entry)| (entry.gateway, *txn)).collect();
        for (gateway, txn) in holders {
            if txn.age > whole.age || txn.is_lease() {
                self.wound(core, txn, whole.age);
            }
            core.notice(gateway, Token::default(), Notice::Wanted { txn });
        }
    }
}
