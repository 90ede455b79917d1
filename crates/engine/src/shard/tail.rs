//! The tail of the log at a leader: entries that are being built, closed, or proposed and not applied.
//!
//! All records of one turn share the entry that is being built. A closed entry waits to be proposed; a
//! proposed one waits until it is durable on a majority, in the order of the proposals.

use crate::entry::{Apply, Entry, LogRecord, Spacing};
use crate::ids::{BundlePart, GatewayId, Token, TxnId};
use crate::limits::{ENTRY_RECORDS_MAX, LOOKED_BACK_MAX, OUTCOMES_WAIT_US};
use crate::now::Now;
use crate::shard::locking::locks::LockTable;
use adt::Timestamp;
use std::collections::VecDeque;

/// How long after the last lock operations in the log are still noted in the lock table. Without
/// transactions no other request needs to know them, and single commands skip the table.
pub(in crate::shard) const TRACKING_US: u64 = 1_000_000;

/// Addressee of a log record's outcome.
#[derive(Clone, Copy, Debug)]
pub(in crate::shard) struct Recipient {
    pub gateway: GatewayId,
    pub token: Token,
    pub kind: RecipientKind,
}

impl Recipient {
    /// No addressee: no request waits for the record.
    pub fn none() -> Self {
        let (gateway, token) = Default::default();
        Self { gateway, token, kind: RecipientKind::Silent }
    }
}

/// Answer that the addressee of a log record expects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::shard) enum RecipientKind {
    /// Replies of the operations.
    Replies,
    /// Reply of an operation that waits for its turn while that reply is nil.
    Turn,
    /// Replies of the operations; then the transaction's locks are released.
    Commit(TxnId),
    /// Vote of a prepared transaction.
    Vote(TxnId),
    /// `OK` for a flush.
    Flushed,
    /// Whether a request took effect.
    Resolved,
    /// `OK` once the replies of a request are remembered.
    Remembered,
    /// Result of a change of the coordination service.
    Coordinated,
    /// Confirmation that a transaction was not prepared here and never will be.
    Voided,
    /// Result for a request that waits for an element to take.
    Taken,
    /// Reply of a script.
    Ran,
    /// None: the record names the successor of a lock's holder.
    Named,
    /// None: no request asked for the record.
    Silent,
}

/// A log entry that is being built, or in the log and not applied yet.
#[derive(Debug, Default)]
pub(in crate::shard) struct Batch {
    pub number: u64,
    pub ts: Timestamp,
    pub spacing: Spacing,
    pub now_ms: u64,
    pub seed: u64,
    pub records: Vec<LogRecord>,
    pub targets: Vec<Recipient>,
    /// The operations are noted in the lock table.
    pub tracked: bool,
    /// A request waits for the entry.
    urgent: bool,
    /// When its first record came, in monotonic microseconds.
    since_us: u64,
    /// Time for all its operations, in milliseconds since 1970, if some of them rest on it already.
    fixed_ms: Option<u64>,
    /// How many numbers below its first timestamp are taken; see [`LogTail::reserve`].
    reserved: u64,
    /// Parts of bundles among its records.
    bundles: Vec<BundlePart>,
}

impl Batch {
    /// Timestamp of record number `index`, once the first one's is known.
    pub fn ts_of(&self, index: usize) -> Timestamp {
        self.spacing.ts_of(self.ts, index)
    }
}

/// Entries that a lead leaves behind when it ends.
pub(in crate::shard) struct Abandoned {
    /// Proposed: the next leader's log may have them.
    pub proposed: VecDeque<Batch>,
    /// Closed or being built, in order: never proposed.
    pub unproposed: VecDeque<Batch>,
}

/// Entries that this leader has written and not applied yet.
#[derive(Debug)]
pub struct LogTail {
    building: Batch,
    closed: VecDeque<Batch>,
    in_flight: VecDeque<Batch>,
    applied: u64,
    tracking_until_us: Option<u64>,
    /// Data was changed by some record since [`LogTail::watch`].
    changed: bool,
    /// Part of a bundle whose record comes next.
    coming: Option<BundlePart>,
    /// Entries with parts of bundles that are not applied.
    with_bundles: usize,
    /// Parts of bundles that were proposed since [`LogTail::take_bundles`].
    proposed_parts: Vec<BundlePart>,
    /// Wave of bundles that may be proposed, and its end if it ends with the next write.
    wave: Option<u64>,
    wave_end: Option<(u64, u64)>,
}

impl LogTail {
    pub(in crate::shard) fn new() -> Self {
        Self {
            building: Batch { number: 1, ..Batch::default() },
            closed: VecDeque::new(),
            in_flight: VecDeque::new(),
            applied: 0,
            tracking_until_us: None,
            changed: false,
            coming: None,
            with_bundles: 0,
            proposed_parts: Vec::new(),
            wave: None,
            wave_end: None,
        }
    }

    /// Puts a record into the entry of this turn.
    pub(in crate::shard) fn push(
        &mut self,
        record: LogRecord,
        target: Recipient,
        mono_us: u64,
        locks: &mut LockTable,
    ) {
        self.changed |= changes_data(&record, target.kind);
        // All of a batch is tracked or nothing, whether that ends in the meantime or begins again.
        if self.building.records.is_empty() {
            self.building.tracked = self.tracking_until_us.is_some();
            self.building.since_us = mono_us;
        }
        // The leader has acted on an outcome already.
        let lazy = matches!(
            record,
            LogRecord::Outcome { .. }
                | LogRecord::Place { .. }
                | LogRecord::Settle { .. }
                | LogRecord::Forget(_)
                | LogRecord::Outlive(_)
        );
        self.building.urgent |= !lazy;
        if self.building.tracked {
            for (key, op) in record.ops() {
                locks.fly(key, op, self.building.number);
            }
        }
        self.building.records.push(record);
        self.building.targets.push(target);
        if target.kind == RecipientKind::Replies
            && let Some(part) = self.coming.take()
        {
            self.with_bundles += usize::from(self.building.bundles.is_empty());
            self.building.bundles.push(part);
        }
        if self.building.records.len() >= ENTRY_RECORDS_MAX {
            self.close_building();
        }
    }

    /// Notes that the next record with an answer for a client is this part of a bundle. Bundles of several
    /// waves are not in one entry.
    pub(in crate::shard) fn expect_part(&mut self, part: BundlePart) {
        if self.building.bundles.first().is_some_and(|first| first.wave != part.wave) {
            self.close();
        }
        self.coming = Some(part);
    }

    /// Wave of the first bundle that was not proposed.
    pub fn first_wave(&self) -> Option<u64> {
        if self.with_bundles == 0 {
            return None;
        }
        let batches = self.closed.iter().chain([&self.building]);
        batches.flat_map(|batch| &batch.bundles).next().map(|part| part.wave)
    }

    /// Lets bundles of a wave be proposed, which ends with the next write if `end` is given.
    pub fn permit_wave(&mut self, wave: u64, end: Option<u64>) {
        self.wave = Some(wave);
        self.wave_end = end.map(|end| (wave, end)).or(self.wave_end);
    }

    /// Takes the end of the wave that ends with this write.
    pub fn take_wave_end(&mut self) -> Option<(u64, u64)> {
        self.wave_end.take()
    }

    /// Whether parts of bundles are not applied.
    #[inline]
    pub(in crate::shard) fn has_bundles(&self) -> bool {
        self.with_bundles > 0
    }

    /// Takes the parts of bundles in the entries that were proposed since the last call.
    pub fn take_bundles(&mut self) -> Vec<BundlePart> {
        std::mem::take(&mut self.proposed_parts)
    }

    /// Closes the entry of this turn if it has records: later ones go into another entry.
    pub fn close(&mut self) {
        if !self.building.records.is_empty() {
            self.close_building();
        }
    }

    fn close_building(&mut self) {
        let number = self.building.number + 1;
        let full = std::mem::replace(&mut self.building, Batch { number, ..Batch::default() });
        self.closed.push_back(full);
    }

    /// Closes the entry of this turn unless `more` records fit into it.
    pub(in crate::shard) fn make_room(&mut self, more: usize) {
        if self.building.records.len() + more > ENTRY_RECORDS_MAX {
            self.close();
        }
    }

    /// Makes the entry of this turn go out although only lazy records may be in it.
    pub(in crate::shard) fn hurry(&mut self) {
        self.building.urgent = true;
    }

    /// Reserves the numbers that an operation takes which is logged next: a grant of a lock with a block
    /// of tokens takes several. The last one is that of its commit timestamp; the others lie between that
    /// one and the timestamps before, which the entry's timestamps are moved up for. Within an entry they
    /// follow each other. So an operation that could have been given another number of the same record has
    /// to be in an entry before.
    pub(in crate::shard) fn reserve(&mut self, apply: &Apply) {
        let [(key, op)] = &apply.ops[..] else { return };
        let numbers = op.reserves();
        if numbers <= 1 {
            return;
        }
        let records = &self.building.records;
        // A release gives no numbers, and the operation of the successor comes right behind it.
        let mut others = records.iter().flat_map(|record| record.ops());
        if records.len() > LOOKED_BACK_MAX || others.any(|(of, op)| of == key && !op.lets_go()) {
            self.close();
        }
        self.building.reserved = self.building.reserved.max(u64::from(numbers) - 1);
    }

    /// Begins to note operations in the lock table, those of entries that are not applied included.
    pub(in crate::shard) fn track(&mut self, now: Now, locks: &mut LockTable) {
        let was_tracking = self.tracking_until_us.replace(now.mono_us + TRACKING_US).is_some();
        if was_tracking {
            return;
        }
        for batch in self.in_flight.iter_mut().chain(&mut self.closed).chain([&mut self.building]) {
            if batch.tracked {
                continue;
            }
            batch.tracked = true;
            for record in &batch.records {
                for (key, op) in record.ops() {
                    locks.fly(key, op, batch.number);
                }
            }
        }
    }

    /// Whether operations are noted in the lock table.
    pub(in crate::shard) fn is_tracking(&self) -> bool {
        self.tracking_until_us.is_some()
    }

    /// Whether the operations of a record that comes now are noted in the lock table.
    #[inline]
    pub(in crate::shard) fn is_tracked(&self) -> bool {
        let begins = self.building.records.is_empty();
        if begins { self.is_tracking() } else { self.building.tracked }
    }

    /// Time that an operation which comes now into the entry of this turn may go by, in milliseconds since
    /// 1970, if it is fixed with [`LogTail::fix_time`].
    pub(in crate::shard) fn time(&self, now: Now) -> u64 {
        self.building.fixed_ms.unwrap_or(now.wall_ms())
    }

    /// Fixes the time by which the operations of the entry of this turn go, in milliseconds since 1970.
    pub(in crate::shard) fn fix_time(&mut self, now_ms: u64) {
        self.building.fixed_ms = Some(now_ms);
    }

    /// Number of the entry into which the next record goes.
    pub(in crate::shard) fn coming(&self) -> u64 {
        self.building.number
    }

    /// Ends the noting of operations in the lock table, if it has lasted long enough.
    pub(in crate::shard) fn end_tracking(&mut self, now: Now) {
        self.tracking_until_us = self.tracking_until_us.filter(|until| *until >= now.mono_us);
    }

    /// Begins to watch for records that change data.
    pub(in crate::shard) fn watch(&mut self) {
        self.changed = false;
    }

    /// Whether some record changed data since [`LogTail::watch`].
    pub(in crate::shard) fn has_changed(&self) -> bool {
        self.changed
    }

    /// Number of the entry that holds the newest record which was not acted on yet: a state to which all
    /// entries up to this one are applied contains everything.
    pub(in crate::shard) fn newest(&self) -> u64 {
        if !self.building.urgent { self.building.number - 1 } else { self.building.number }
    }

    /// Number of the last applied entry.
    pub(in crate::shard) fn applied(&self) -> u64 {
        self.applied
    }

    pub(in crate::shard) fn has_unapplied(&self) -> bool {
        self.newest() > self.applied
    }

    /// Records that are not applied, in the order of the log.
    pub(in crate::shard) fn unapplied(&self) -> impl Iterator<Item = &LogRecord> {
        let batches = self.in_flight.iter().chain(&self.closed).chain([&self.building]);
        batches.flat_map(|batch| &batch.records)
    }

    /// The oldest proposed entry, which is applied next.
    pub(in crate::shard) fn oldest_proposed(&self) -> Option<&Batch> {
        self.in_flight.front()
    }

    /// The proposed entry with this number.
    pub(in crate::shard) fn proposed(&self, number: u64) -> Option<&Batch> {
        self.in_flight.iter().find(|batch| batch.number == number)
    }

    /// Whether there is something to propose.
    pub fn has_work(&self) -> bool {
        !self.building.records.is_empty() || !self.closed.is_empty()
    }

    /// Whether no request waits for the records that are to be proposed: they are outcomes of
    /// transactions, which a later leader needs. They go with the next record that a request waits for,
    /// if that comes soon: an entry costs a write on every machine, however little is in it.
    pub fn is_patient(&self, now: Now) -> bool {
        self.outcomes_due_us().is_some_and(|due_us| now.mono_us < due_us)
    }

    /// Whether there is nothing else to propose than such outcomes.
    pub fn has_only_outcomes(&self) -> bool {
        let nothing_else = self.closed.is_empty() && !self.building.urgent;
        nothing_else && !self.building.records.is_empty()
    }

    /// Whether there is a record to propose that a request waits for.
    #[inline]
    pub fn has_urgent(&self) -> bool {
        self.building.urgent || !self.closed.is_empty()
    }

    /// Until when outcomes may wait, if nothing else does. On a machine that is alone the write would cost
    /// what the next transaction waits for: the disk is busy with it when that one has its prepare ready.
    pub fn outcomes_due_us(&self) -> Option<u64> {
        let waits = self.has_only_outcomes();
        waits.then_some(self.building.since_us + OUTCOMES_WAIT_US)
    }

    /// Whether an entry is closed and not proposed.
    pub fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Takes the next closed entry out and gives it its timestamps, the first above `clock`.
    pub(in crate::shard) fn stamp_next(
        &mut self,
        now: Now,
        clock: Timestamp,
        seed: u64,
    ) -> Option<Batch> {
        let first = self.closed.front()?.bundles.first();
        if first.is_some_and(|first| Some(first.wave) != self.wave) {
            return None;
        }
        let mut batch = self.closed.pop_front()?;
        batch.spacing = Spacing::of(&batch.records);
        let next = match batch.spacing {
            Spacing::Next => clock.next(),
            // Every timestamp that was given before has another number.
            Spacing::Microsecond => {
                Timestamp::from_micros(clock.after_us()).later_by_us(batch.reserved)
            }
        };
        batch.ts = next.max(Timestamp::from_micros(now.wall_us));
        batch.now_ms = batch.fixed_ms.unwrap_or(now.wall_ms());
        batch.seed = seed;
        Some(batch)
    }

    /// Notes that a stamped entry is proposed; its records come back with [`LogTail::keep`].
    pub(in crate::shard) fn propose(&mut self, mut batch: Batch) -> Entry {
        let records = std::mem::take(&mut batch.records);
        self.proposed_parts.extend(&batch.bundles);
        let entry = Entry { now_ms: batch.now_ms, ts: batch.ts, seed: batch.seed, records };
        self.in_flight.push_back(batch);
        entry
    }

    /// Takes the records of the newest proposed entry back.
    pub(in crate::shard) fn keep(&mut self, records: Vec<LogRecord>) {
        let batch = self.in_flight.back_mut().expect("an entry was closed before");
        batch.records = records;
    }

    /// Takes the oldest proposed entry out: it is committed, and counts as applied from now on.
    pub(in crate::shard) fn commit_next(&mut self) -> Option<Batch> {
        let batch = self.in_flight.pop_front()?;
        self.with_bundles -= usize::from(!batch.bundles.is_empty());
        self.applied = batch.number;
        Some(batch)
    }

    /// The entry of this turn, if all entries before it are applied.
    pub(in crate::shard) fn only_building(&self) -> Option<&Batch> {
        (self.in_flight.is_empty() && self.closed.is_empty()).then_some(&self.building)
    }

    /// The entry of this turn, to take records out of it; then [`LogTail::skip_if_empty`].
    pub(in crate::shard) fn building_mut(&mut self) -> &mut Batch {
        &mut self.building
    }

    /// Counts the entry of this turn as applied if it has no records. Tells whether it has none.
    pub(in crate::shard) fn skip_if_empty(&mut self) -> bool {
        let empty = self.building.records.is_empty();
        if empty {
            self.applied = self.building.number;
            self.building = Batch { number: self.applied + 1, ..Batch::default() };
        }
        empty
    }

    /// Takes out all entries that are not applied: the lead ends.
    pub(in crate::shard) fn abandon(&mut self) -> Abandoned {
        let number = self.building.number;
        let new = Batch { number: number + 1, ..Batch::default() };
        let building = std::mem::replace(&mut self.building, new);
        let mut unproposed = std::mem::take(&mut self.closed);
        unproposed.push_back(building);
        self.applied = number;
        self.with_bundles = 0;
        self.tracking_until_us = None;
        Abandoned { proposed: std::mem::take(&mut self.in_flight), unproposed }
    }
}

/// Whether a record changes data. An expiry was due before; and what is remembered of pipelines and
/// requests is no data.
fn changes_data(record: &LogRecord, kind: RecipientKind) -> bool {
    let expiry = matches!(record, LogRecord::Apply(_)) && kind == RecipientKind::Silent;
    let memory = match record {
        LogRecord::Refuse(_)
        | LogRecord::Forget(_)
        | LogRecord::Outlive(_)
        | LogRecord::Answered(_)
        | LogRecord::Promise { .. } => true,
        LogRecord::Settle { units, .. } => units.iter().all(|(_, place)| place.is_none()),
        _ => false,
    };
    !expiry && !memory
}
