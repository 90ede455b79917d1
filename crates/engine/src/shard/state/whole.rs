//! Transactions about all keys: `FLUSHALL`, `DBSIZE` and their kin between `MULTI` and `EXEC`.
//!
//! Locks are on records, and there is none for all that are there and all that may come. So such a
//! transaction is let in only when nothing else is open here, and from then on to its end whatever else
//! comes waits for it. It never waits itself: if something is open it is refused, and its gateway tries
//! again. So nobody whom it holds up at one shard can hold it up at another one.

use super::State;
use crate::entry::Prepare;
use crate::ids::{Token, TxnId};
use crate::message::{Answer, Body, Notice, Refusal, Request};
use crate::now::Now;
use crate::shard::Shard;
use crate::shard::ahead::AheadOfLog;
use adt::scan::ScanArgs;
use adt::{Blob, Ctx, Record, Reply, Whole, glob};

/// Whether a prepare is about all keys.
fn is_whole(prepare: &Prepare) -> bool {
    prepare.apply.ops.iter().any(|(_, op)| op.whole().is_some())
}

/// Whether a request of others waits while something is done to all keys.
fn waits(body: &Body, whole: TxnId) -> bool {
    match body {
        Body::Lock { txn, .. } => *txn != whole,
        Body::Prepare { prepare, .. } => prepare.txn != whole,
        Body::Apply(_)
        | Body::Await { .. }
        | Body::Read { .. }
        | Body::Snapshot { .. }
        | Body::Version { .. }
        | Body::Pipeline(_)
        | Body::Flush
        | Body::Count
        | Body::Keys { .. }
        | Body::RandomKey
        | Body::Scan { .. } => true,
        _ => false,
    }
}

impl Shard {
    /// Gives a request back unless it waits for the end of a transaction about all keys.
    #[inline]
    pub(in crate::shard) fn stand_behind_whole(&mut self, request: Request) -> Option<Request> {
        let Some(whole) = self.whole else { return Some(request) };
        if !waits(&request.body, whole) {
            return Some(request);
        }
        if let Body::Prepare { prepare, .. } = &request.body
            && is_whole(prepare)
        {
            self.refuse_whole(&request);
        } else {
            self.behind_whole.push_back(request);
        }
        None
    }

    /// Lets a transaction about all keys in, or refuses it; gives everything else back.
    pub(in crate::shard) fn enter_whole(&mut self, request: Request) -> Option<Request> {
        let Body::Prepare { prepare, .. } = &request.body else { return Some(request) };
        if !is_whole(prepare) {
            return Some(request);
        }
        if self.is_open_but_for(prepare.txn) {
            self.ask_to_give_way(prepare.txn);
            self.refuse_whole(&request);
            return None;
        }
        self.whole = Some(prepare.txn);
        Some(request)
    }

    /// Younger transactions that hold something here give way, if they wait themselves, and gateways are
    /// told which are in the way: one that lasts too long is ended there. The next try finds less of them.
    fn ask_to_give_way(&mut self, whole: TxnId) {
        let holders = self.txns.iter().filter(|(txn, entry)| **txn != whole && !entry.prepared);
        let holders: Vec<_> = holders.map(|(txn, entry)| (entry.gateway, *txn)).collect();
        for (gateway, txn) in holders {
            if txn.age > whole.age || txn.is_lease() {
                self.wound(txn, whole.age);
            }
            self.core.notice(gateway, Token::default(), Notice::Wanted { txn });
        }
    }

    fn refuse_whole(&mut self, request: &Request) {
        self.core.stats.refused += 1;
        let refused = Answer::Refused(Refusal::Frozen);
        self.core.answer(request.gateway, request.token, refused);
    }

    /// Whether anything but a transaction holds something, or waits for it.
    fn is_open_but_for(&self, txn: TxnId) -> bool {
        self.txns.keys().any(|other| *other != txn)
            || !self.waiters.is_empty()
            || !self.core.state.prepared().is_empty()
            || self.streams.hold_records()
    }

    /// A lead begins with a transaction that is prepared.
    pub(in crate::shard) fn inherit_whole(&mut self, prepare: &Prepare) {
        if is_whole(prepare) {
            self.whole = Some(prepare.txn);
        }
    }

    /// A transaction is over.
    pub(in crate::shard) fn leave_whole(&mut self, txn: TxnId) {
        if self.whole == Some(txn) {
            self.whole = None;
        }
    }

    /// What has waited for a transaction about all keys goes on. Tells whether there was anything.
    pub(in crate::shard) fn go_on_behind_whole(&mut self, now: Now) -> bool {
        if self.whole.is_some() || self.behind_whole.is_empty() {
            return false;
        }
        for request in std::mem::take(&mut self.behind_whole) {
            self.handle(now, request);
        }
        true
    }
}

impl State {
    /// Carries out what is about all keys.
    pub(in crate::shard) fn about_all(
        &mut self,
        whole: &Whole,
        ctx: &Ctx,
        ahead: &mut AheadOfLog,
    ) -> Reply {
        match whole {
            Whole::Flush => {
                self.flush(ctx.ts, ahead);
                Reply::Ok
            }
            Whole::Count => Reply::Int(self.len() as i64),
            Whole::Names(pattern) => self.names(pattern, ctx.now_ms),
            Whole::Any => {
                let at = ctx.seed % self.len().max(1) as u64;
                self.at(at as usize).map_or(Reply::Nil, |(key, _)| Reply::Bulk(key.clone()))
            }
            Whole::Page(scan, type_name) => self.page(scan, type_name.as_ref(), ctx.now_ms),
        }
    }

    /// The keys that match a pattern.
    pub(in crate::shard) fn names(&self, pattern: &[u8], now_ms: u64) -> Reply {
        let matching =
            self.iter().filter(|(key, r)| is_live(r, now_ms) && glob::matches(pattern, key));
        Reply::Array(matching.map(|(key, _)| Reply::Bulk(key.clone())).collect())
    }

    /// One step of an iteration over the keys, over those of a type if one is named: where the next one
    /// begins, what was found, and how many keys were looked at.
    pub(in crate::shard) fn page(
        &self,
        scan: &ScanArgs,
        type_name: Option<&Blob>,
        now_ms: u64,
    ) -> Reply {
        let begin = if scan.cursor == 0 { u64::MAX } else { scan.cursor };
        let seen = begin.min(self.len() as u64).min(scan.count);
        let mut reply = scan.run(self.len(), |position, found| {
            let Some((key, record)) = self.at(position) else { return };
            let name = record.value.type_name().as_bytes();
            let of_type = type_name.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name));
            if is_live(record, now_ms) && of_type && scan.passes(key) {
                found.push(Reply::Bulk(key.clone()));
            }
        });
        if let Reply::Array(parts) = &mut reply {
            parts.push(Reply::Int(seen as i64));
        }
        reply
    }
}

fn is_live(record: &Record, now_ms: u64) -> bool {
    record.expire_at_ms.is_none_or(|at| at > now_ms)
}
