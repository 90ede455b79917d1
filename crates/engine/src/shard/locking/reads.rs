//! Reads that take no lock, and looks at the shard as a whole.

use super::grants::claims_of;
use super::locks::{Claim, Class};
use crate::message::{Answer, Body, Request};
use crate::now::Now;
use crate::shard::Shard;
use crate::shard::state::room::Room;
use crate::slot::slot;
use adt::key::KeyOp;
use adt::record;
use adt::{Blob, Ctx, Op, Reply, Timestamp};

impl Shard {
    /// One read outside of transactions: answered from the applied state, unless the session must
    /// see its own writes first or a transaction that may have been answered already is open on
    /// the record.
    pub(in crate::shard) fn read(&mut self, now: Now, request: Request) {
        let Body::Read { ref key, ref op, fenced } = request.body else { return };
        if fenced && self.core.tail.has_unapplied() {
            self.after.push_back((self.core.tail.newest(), request));
            return;
        }
        if self.something_expired(now) {
            let key = key.clone();
            if self.reap(now, &key) {
                self.after.push_back((self.core.tail.newest(), request));
                return;
            }
        }
        if !self.core.locks.is_empty() && self.passing_barred(key, op) {
            let claims = claims_of(&request.body);
            self.enqueue(now, request, claims);
            return;
        }
        if let Some(entry) = self.earlier_in_flight(key, op) {
            self.after.push_back((entry, request));
            return;
        }
        let seed = self.core.step_random();
        let ctx = Ctx { now_ms: now.wall_ms(), ts: self.core.clock, seed };
        let reply = record::query(self.core.state.get(key), op, &ctx);
        self.core.reply(&request, reply);
    }

    /// A log entry that is not applied yet, although something later is that it commutes with: a
    /// transaction is carried out as soon as it is decided. Who reads the one must not miss the
    /// other.
    fn earlier_in_flight(&self, key: &Blob, op: &Op) -> Option<u64> {
        let oldest = self.core.tail.oldest_proposed().filter(|_| self.core.tail.is_tracking())?;
        let record = self.core.state.get(key);
        let modified = record.map_or(self.core.state.removed(), |record| record.modified);
        if oldest.ts > modified {
            return None;
        }
        let claim = Claim::new(op.clone(), Class::Passing);
        let entry = self.core.locks.in_flight_against(key, &claim, record)?;
        let batch = self.core.tail.proposed(entry)?;
        (batch.ts <= modified).then_some(entry)
    }

    /// Whether a read can be answered from the applied state here and now.
    pub(in crate::shard) fn may_look(&self, key: &Blob, op: &Op) -> bool {
        let barred = !self.core.locks.is_empty() && self.passing_barred(key, op);
        !barred && self.earlier_in_flight(key, op).is_none()
    }

    pub(in crate::shard) fn passing_barred(&self, key: &Blob, op: &Op) -> bool {
        if self.txns.is_empty() && !self.streams.hold_records() && !self.keeps_for_waiters() {
            return false;
        }
        let claim = Claim::new(op.clone(), Class::Passing);
        let record = self.core.state.get(key);
        self.core.locks.barrier(key, &claim, None, None, record).is_some()
    }

    /// Reads at one instant. See "Reads without locks" in `docs/internals/transactions.md`.
    pub(in crate::shard) fn snapshot_read(&mut self, now: Now, request: Request) {
        let Body::Snapshot { ref ops, at, fenced } = request.body else { return };
        if fenced && self.core.tail.has_unapplied() {
            self.after.push_back((self.core.tail.newest(), request));
            return;
        }
        self.core.track(now);
        if self.something_expired(now) {
            let keys: Vec<Blob> = ops.iter().map(|(key, _)| key.clone()).collect();
            if keys.iter().filter(|key| self.reap(now, key)).count() > 0 {
                self.after.push_back((self.core.tail.newest(), request));
                return;
            }
        }
        let Body::Snapshot { ref ops, .. } = request.body else { return };
        if !self.core.locks.is_empty() && ops.iter().any(|(key, op)| self.passing_barred(key, op)) {
            let claims = claims_of(&request.body);
            self.enqueue(now, request, claims);
            return;
        }
        let clock = self.core.clock.max(at).max(Timestamp::from_micros(now.wall_us));
        let mut until = clock;
        let mut wait_for = None;
        for (key, claim) in claims_of(&request.body) {
            let record = self.core.state.get(&key);
            let Some(entry) = self.core.locks.in_flight_against(&key, &claim, record) else {
                continue;
            };
            // An entry that is still being built gets a timestamp above the clock.
            let Some(batch) = self.core.tail.proposed(entry) else { continue };
            if batch.ts <= at {
                wait_for = wait_for.max(Some(entry));
            } else {
                until = until.min(Timestamp(batch.ts.0 - 1));
            }
        }
        self.core.clock = clock;
        if let Some(entry) = wait_for {
            self.after.push_back((entry, request));
            return;
        }
        let ctx = self.core.ctx(now);
        let mut since = Timestamp::ZERO;
        let mut replies = Vec::new();
        let mut held_us = u64::MAX;
        let mut room = Room::default();
        let Body::Snapshot { ref ops, .. } = request.body else { return };
        for (key, op) in ops {
            if let Some(recent) = &self.core.recent {
                held_us = held_us.min(recent.held_us(key, now.mono_us));
            }
            let record = self.core.state.get(key);
            since = since.max(record.map_or(self.core.state.removed(), |r| r.modified));
            replies.push(room.query(record, op, &ctx));
        }
        let answer = Answer::Snapshot { replies, since, until, held_us };
        self.core.answer(request.gateway, request.token, answer);
    }

    /// Requests that look at the shard as a whole.
    pub(in crate::shard) fn look(&mut self, now: Now, request: Request) {
        let reply = match &request.body {
            Body::Count => Reply::Int(self.core.state.len() as i64),
            Body::Keys { pattern } => self.core.state.names(pattern, now.wall_ms()),
            Body::RandomKey => {
                let random = self.core.draw();
                let len = self.core.state.len() as u64;
                let at = if len == 0 { 0 } else { (random % len) as usize };
                self.core.state.at(at).map_or(Reply::Nil, |(key, _)| Reply::Bulk(key.clone()))
            }
            Body::KeysInSlot { slot: wanted, count } => {
                let inside = self.core.state.iter().filter(|(key, _)| slot(key) == *wanted);
                let keys = inside.take(*count).map(|(key, _)| Reply::Bulk(key.clone()));
                Reply::Array(keys.collect())
            }
            Body::Scan { scan, type_name } => {
                let mut page = self.core.state.page(scan, type_name.as_ref(), now.wall_ms());
                if let Reply::Array(parts) = &mut page {
                    parts.push(Reply::Int(self.core.config.id.0.into()));
                }
                page
            }
            Body::Waiting { key } => self.told_waiting(now, key),
            Body::Holders { key } => self.told_holders(now, key),
            Body::Waits { names } => self.told_waits(now, names),
            Body::Version { key } => {
                let key = key.clone();
                if self.something_expired(now) {
                    self.reap(now, &key);
                }
                // What is on its way settles first: the session's own writes are not to count as
                // changes by others.
                if self.core.tail.has_unapplied() {
                    self.after.push_back((self.core.tail.newest(), request));
                    return;
                }
                if self.passing_barred(&key, &Op::Key(KeyOp::Fetch)) {
                    let claims = claims_of(&request.body);
                    self.enqueue(now, request, claims);
                    return;
                }
                let version = self.core.state.version(&key, &self.core.ahead);
                self.core.answer(request.gateway, request.token, Answer::Version(version));
                return;
            }
            Body::Stats => {
                let stats = Box::new(self.stats(now.mono_us));
                self.core.answer(request.gateway, request.token, Answer::Stats(stats));
                return;
            }
            // They do more than to look.
            Body::Read { .. }
            | Body::Apply(_)
            | Body::Snapshot { .. }
            | Body::Lock { .. }
            | Body::Prepare { .. }
            | Body::Decide { .. }
            | Body::Inquire { .. }
            | Body::Cancel { .. }
            | Body::Release { .. }
            | Body::ProbeAck { .. }
            | Body::Block { .. }
            | Body::Await { .. }
            | Body::EndCircle { .. }
            | Body::Unblock
            | Body::Flush
            | Body::Resolve(_)
            | Body::Remember(_)
            | Body::Pipeline(_)
            | Body::EndStream { .. }
            | Body::Transfer { .. }
            | Body::Coordinate(_)
            | Body::Cut { .. } => return,
        };
        self.core.reply(&request, reply);
    }
}
