//! Reads that take no lock.

use super::expiry::Expiry;
use crate::cluster::slot::slot;
use crate::ids::TxnId;
use crate::message::{Answer, Body, Request};
use crate::now::Now;
use crate::shard::Rule;
use crate::shard::core::ShardCore;
use crate::shard::locking::claims::claims_of;
use crate::shard::locking::locks::{Claim, Class};
use crate::shard::locking::manager::LockManager;
use crate::shard::state::room::Room;
use adt::command::database::name_in;
use adt::key::KeyOp;
use adt::random::mix;
use adt::record::{self, Record};
use adt::{Blob, Ctx, Op, Reply, Timestamp};

/// Parts of a shard that reads work with: an expired key is removed first, and a read that cannot be
/// answered waits for the log or for locks.
pub(in crate::shard) struct Reads<'s> {
    pub core: &'s mut ShardCore,
    pub expiry: &'s mut Expiry,
    pub locking: &'s mut LockManager,
    /// The read has waited for the removal of what had expired when it came.
    pub reaped: bool,
}

impl Reads<'_> {
    /// Answers one read outside of transactions from the applied state, unless the session must see its
    /// own writes first or a transaction that may have been answered already is open on the record.
    pub fn read(self, now: Now, request: Request) {
        let Self { core, expiry, locking, reaped } = self;
        let Body::Read { ref key, ref op, fenced } = request.body else { return };
        if fenced && core.tail.has_unapplied() {
            return core.delay(request);
        }
        if !reaped && expiry.reap_all(core, now, std::iter::once(key)) {
            return core.delay_reaped(request);
        }
        if core.bars_passing(key, op) {
            let claims = claims_of(&request.body, &core.config.tags);
            return locking.enqueue(core, now, request, claims);
        }
        if let Some(entry) = core.earlier_in_flight(key, op) {
            return core.delayed.until_applied(entry, request);
        }
        let seed = core.step_random();
        let ctx = Ctx { now_ms: now.wall_ms(), ts: core.clock, seed };
        let reply = record::query(core.state.get(key), op, &ctx);
        core.reply(&request, reply);
    }

    /// Answers reads at one instant. See `docs/internals/transactions/reads.md`.
    pub fn read_at_once(self, now: Now, request: Request) {
        let Body::Snapshot { ref ops, at, fenced, dated, as_of } = request.body else { return };
        if !dated {
            return self.read_together(now, request);
        }
        let Self { core, expiry, locking, reaped } = self;
        // The parts of a bundle have timestamps of their own: all of them are seen, or none.
        if fenced && core.tail.has_unapplied() || core.tail.has_bundles() {
            return core.delay(request);
        }
        core.track(now);
        if !reaped && expiry.reap_all(core, now, ops.iter().map(|(key, _)| key)) {
            return core.delay_reaped(request);
        }
        if ops.iter().any(|(key, op)| core.bars_passing(key, op)) {
            let claims = claims_of(&request.body, &core.config.tags);
            return locking.enqueue(core, now, request, claims);
        }
        let clock = core.clock.max(at).max(Timestamp::from_micros(now.wall_us));
        let mut until = clock;
        let mut wait_for = None;
        for (key, claim) in claims_of(&request.body, &core.config.tags) {
            let record = core.state.get(&key);
            let Some(entry) = core.locks.in_flight_against(&key, &claim, record) else {
                continue;
            };
            // An entry that is still being built gets a timestamp above the clock.
            let Some(batch) = core.tail.proposed(entry) else { continue };
            // As for other reads: a transaction of a later timestamp may be carried out already.
            if batch.ts <= at.max(core.modified(record)) {
                wait_for = wait_for.max(Some(entry));
            } else {
                until = until.min(Timestamp(batch.ts.0 - 1));
            }
        }
        core.clock = clock;
        if let Some(entry) = wait_for {
            return core.delayed.until_applied(entry, request);
        }
        let ctx = core.ctx(now);
        let mut since = Timestamp::ZERO;
        let mut replies = Vec::new();
        let mut held_us = u64::MAX;
        let mut room = Room::default();
        let Body::Snapshot { ref ops, .. } = request.body else { return };
        if as_of.is_some() {
            for (key, _) in ops {
                let since = core.modified(core.state.get(key));
                core.ahead.want_versions(key, since, clock);
            }
        }
        let earlier = as_of.filter(|as_of| ops.iter().all(|(key, _)| core.knows(key, *as_of)));
        for (key, op) in ops {
            if let Some(recent) = &core.recent {
                held_us = held_us.min(recent.held_us(key, now.mono_us));
            }
            let record = core.state.get(key);
            let written = core.written(key, record);
            // All that may still come before that version's end is applied: entries were waited for up to
            // the timestamp of the present value, and a prepared transaction bars the read.
            let version = earlier.filter(|as_of| written > *as_of);
            let version = version.and_then(|as_of| core.ahead.version_at(key, as_of));
            let (record, began) = match version {
                Some(version) => {
                    until = until.min(version.until);
                    let newer = core.breaks(Rule::VersionsAreExact);
                    (if newer { record } else { version.record.as_ref() }, version.since)
                }
                None => (record, written),
            };
            since = since.max(began);
            replies.push(room.query(record, op, &ctx));
        }
        let answer = Answer::Snapshot { replies, since, until, held_us };
        core.answer(request.gateway, request.token, answer);
    }

    /// Answers reads at one instant whose time is not asked for.
    fn read_together(self, now: Now, request: Request) {
        let Self { core, expiry, locking, reaped } = self;
        let Body::Snapshot { ref ops, fenced, .. } = request.body else { return };
        if fenced && core.tail.has_unapplied() {
            return core.delay(request);
        }
        core.state.records().warm(ops.iter());
        if !reaped && expiry.reap_all(core, now, ops.iter().map(|(key, _)| key)) {
            return core.delay_reaped(request);
        }
        if ops.iter().any(|(key, op)| core.bars_passing(key, op)) {
            let claims = claims_of(&request.body, &core.config.tags);
            return locking.enqueue(core, now, request, claims);
        }
        let earlier = ops.iter().filter_map(|(key, op)| core.earlier_in_flight(key, op)).max();
        if let Some(entry) = earlier {
            return core.delayed.until_applied(entry, request);
        }
        let ctx = core.ctx(now);
        let mut room = Room::default();
        let replies = ops.iter().map(|(key, op)| room.query(core.state.get(key), op, &ctx));
        let replies = Answer::Replies(replies.collect());
        core.answer(request.gateway, request.token, replies);
    }

    /// Answers reads that are a part of a bundle: now, and not when what has expired is removed.
    pub fn read_part(self, now: Now, request: &Request) {
        let core = self.core;
        let Body::Snapshot { ref ops, .. } = request.body else { return };
        core.state.records().warm(ops.iter());
        let mut ctx = core.ctx(now);
        let mut room = Room::default();
        let replies = ops.iter().map(|(key, op)| {
            ctx.seed = mix(ctx.seed);
            room.query_left(core.state.get(key), op, &ctx)
        });
        let replies = replies.collect();
        core.answer(request.gateway, request.token, Answer::Replies(replies));
    }

    /// Answers which version of a record a guard may ask for.
    pub fn version(self, now: Now, request: Request) {
        let Self { core, expiry, locking, reaped } = self;
        let Body::Version { ref key } = request.body else { return };
        if !reaped {
            expiry.reap_all(core, now, std::iter::once(key));
        }
        // Records on their way settle first: the session's own writes are not to count as changes by others.
        if core.tail.has_unapplied() {
            return core.delay_reaped(request);
        }
        if core.bars_passing(key, &Op::Key(KeyOp::Fetch)) {
            let claims = claims_of(&request.body, &core.config.tags);
            return locking.enqueue(core, now, request, claims);
        }
        let version = core.state.records().version(key, &core.ahead);
        core.answer(request.gateway, request.token, Answer::Version(version));
    }
}

impl ShardCore {
    /// A log entry that is not applied yet, although a later operation is that commutes with it: a
    /// transaction is carried out as soon as it is decided. A reader that sees the later one must not miss
    /// the earlier one.
    fn earlier_in_flight(&self, key: &Blob, op: &Op) -> Option<u64> {
        let oldest = self.tail.oldest_proposed().filter(|_| self.tail.is_tracking())?;
        let record = self.state.get(key);
        let modified = self.modified(record);
        if oldest.ts > modified {
            return None;
        }
        let claim = Claim::new(op.clone(), Class::Passing);
        let entry = self.locks.in_flight_against(key, &claim, record)?;
        let batch = self.tail.proposed(entry)?;
        (batch.ts <= modified).then_some(entry)
    }

    /// Timestamp of the last write of a record. An absent one may have been removed last.
    fn modified(&self, record: Option<&Record>) -> Timestamp {
        record.map_or(self.state.records().removed(), |record| record.modified)
    }

    /// Timestamp of the last write to a key, as far as it is known.
    fn written(&self, key: &Blob, record: Option<&Record>) -> Timestamp {
        let modified = self.modified(record);
        match record {
            Some(_) => modified,
            None => self.ahead.last_written(key).map_or(modified, |at| at.min(modified)),
        }
    }

    /// Whether the value of a key at a timestamp is known.
    fn knows(&self, key: &Blob, at: Timestamp) -> bool {
        self.written(key, self.state.get(key)) <= at || self.ahead.version_at(key, at).is_some()
    }

    /// Whether a read can be answered from the applied state here and now.
    pub fn may_look(&self, key: &Blob, op: &Op) -> bool {
        !self.bars_passing(key, op) && self.earlier_in_flight(key, op).is_none()
    }

    /// Whether a read that takes no lock has to wait for a transaction.
    #[inline]
    fn bars_passing(&self, key: &Blob, op: &Op) -> bool {
        if !self.locks.has_holders() {
            return false;
        }
        let (claim, nothing) = (Claim::new(op.clone(), Class::Passing), None::<TxnId>);
        self.locks.barrier(key, &claim, nothing, self.state.get(key)).is_some()
    }

    /// Answers a request about the shard as a whole.
    pub fn look(&mut self, now: Now, request: &Request) {
        let reply = match &request.body {
            Body::Count { database } => {
                Reply::Int(self.state.records().visible_in(*database) as i64)
            }
            Body::Keys { database, pattern } => {
                self.state.records().names(*database, pattern, now.wall_ms())
            }
            Body::RandomKey { database } => {
                let random = self.draw();
                self.state.records().any(*database, random)
            }
            Body::KeysInSlot { database, slot: wanted, count } => {
                let inside = self.state.records().iter().filter(|(key, _)| slot(key) == *wanted);
                let names = inside.filter_map(|(key, _)| name_in(*database, key));
                Reply::Array(names.take(*count).map(Reply::bulk).collect())
            }
            Body::Scan { database, scan, type_name } => {
                let (records, type_name) = (self.state.records(), type_name.as_ref());
                let mut page = records.page(*database, scan, type_name, now.wall_ms());
                if let Reply::Array(parts) = &mut page {
                    parts.push(Reply::Int(self.config.id.0.into()));
                }
                page
            }
            // Other parts of the shard take them.
            Body::Read { .. }
            | Body::Apply(_)
            | Body::Run(_)
            | Body::Snapshot { .. }
            | Body::Version { .. }
            | Body::Waiting { .. }
            | Body::Holders { .. }
            | Body::Waits { .. }
            | Body::Stats
            | Body::Follow(_)
            | Body::Lock { .. }
            | Body::Prepare { .. }
            | Body::Decide { .. }
            | Body::Inquire { .. }
            | Body::Cancel { .. }
            | Body::Release { .. }
            | Body::ProbeAck { .. }
            | Body::Block { .. }
            | Body::Await { .. }
            | Body::EndDeadlock { .. }
            | Body::EndTurn
            | Body::Unblock
            | Body::Flush { .. }
            | Body::Resolve(_)
            | Body::Remember(_)
            | Body::Pipeline(_)
            | Body::EndStream { .. }
            | Body::Transfer { .. }
            | Body::Coordinate(_)
            | Body::Cut { .. } => return,
        };
        self.reply(request, reply);
    }
}

/// A request that waited does not have to wait for its session's writes any more.
pub(in crate::shard) fn unfenced(mut request: Request) -> Request {
    if let Body::Read { fenced, .. } | Body::Snapshot { fenced, .. } = &mut request.body {
        *fenced = false;
    }
    request
}
