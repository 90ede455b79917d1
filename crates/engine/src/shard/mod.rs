//! A shard: records, the locks on them, and the way of a request from admission to its place in
//! the log and back.
//!
//! `handle` takes a request, `end_turn` closes what the turn has collected into one log entry,
//! `committed` tells that an entry is durable, and answers are polled. Records change only in
//! [`State::apply`], only from committed entries. See `docs/internals/transactions/` for the protocol.

pub(crate) mod ahead;
mod apply;
mod config;
pub mod coordination;
mod core;
mod delayed;
mod expiry;
mod foreseen;
mod idle;
mod leading;
pub(crate) mod locking;
mod outbox;
mod reads;
mod scripts;
pub mod state;
mod streams;
mod tail;
#[cfg(test)]
mod tests;
pub(crate) mod transfer;
pub(crate) mod waiting;

pub use config::{Rule, ShardConfig};
pub use locking::watermark;
pub use outbox::Outbox;
pub use state::{fences, requests};
pub use streams::Streams;
pub use tail::LogTail;
pub use transfer::{cut, snapshot, split};

use self::core::ShardCore;
use self::expiry::Expiry;
use self::reads::{Reads, unfenced};
use crate::cluster::members::Members;
use crate::coordination::survey::{Listed, Survey};
use crate::entry::{Entry, LogRecord, SnapshotPart};
use crate::ids::{BundlePart, GatewayId, ShardId, Token};
use crate::limits::UNITS_OWE_US;
use crate::message::{Answer, Body, Refusal, Request};
use crate::now::Now;
use crate::pipeline::bundles::Disturbance;
use crate::stats::ShardStats;
use adt::Timestamp;
use adt::command::tags::TagRules;
use coordination::ServiceLeader;
use locking::manager::LockManager;
use scripts::Runs;
use state::State;
use tail::{Recipient, RecipientKind};
use transfer::cut::Cuts;
use transfer::split::Splitting;
use waiting::Waits;
use waiting::room::WaitingRoom;

/// One shard, as a replica drives it: requests, log entries and time go in, answers and log entries come
/// out.
#[derive(Debug)]
pub struct Shard {
    desk: Desk,
}

/// Parts of a shard's leader, and the state that they work with. The desk passes requests and their results
/// between the parts.
#[derive(Debug)]
struct Desk {
    core: ShardCore,
    /// Transactions and requests that wait for locks.
    locking: LockManager,
    expiry: Expiry,
    /// Requests that wait for changes of records, or for places of units.
    waits: Waits,
    cuts: Cuts,
    splitting: Splitting,
    streams: Streams,
    /// Scripts that run here.
    scripts: Runs,
    /// The coordination service's sessions.
    service: ServiceLeader,
    /// No other machine can lead the shard, which is known while something is done and not for longer.
    lead_is_certain: bool,
}

impl Desk {
    /// Takes a request from a gateway.
    fn handle(&mut self, now: Now, request: Request) {
        self.core.stats.requests += 1;
        self.core.state.tell_time(now.mono_us);
        let whole = &mut self.locking.whole;
        let Some(request) = whole.hold_back(&mut self.core, request) else { return };
        if matches!(request.body, Body::Pipeline(_)) {
            self.take_group(now, request);
            return self.settle(now);
        }
        if let Body::EndStream { stream, shards } = request.body {
            self.streams.ended(&self.core, now, stream, shards);
            return self.settle(now);
        }
        let asks = self.core.state.slots.range.is_some() || self.splitting.is_giving();
        if (asks || !self.core.config.tags.is_empty())
            && self.splitting.is_elsewhere(&self.core, &request.body)
        {
            let moved = Answer::Refused(Refusal::Moved);
            return self.core.answer(request.gateway, request.token, moved);
        }
        let Some(request) = self.hold_back(now, request) else { return };
        let units = self.streams.hold_records();
        let Some(request) = self.locking.enter_whole(&mut self.core, request, units) else {
            return;
        };
        if request.after.is_some_and(|after| self.is_held_up(request.gateway, after)) {
            return self.core.delayed.follow(request);
        }
        self.carry_out(now, request);
        self.settle(now);
    }

    /// Takes a part of a bundle, which waits for nothing: see [`Shard::is_calm`].
    fn take_part(&mut self, now: Now, request: Request, part: Option<BundlePart>) {
        self.core.stats.requests += 1;
        self.core.state.tell_time(now.mono_us);
        if let Body::Apply(apply) = &request.body {
            self.expiry.reap_all(&mut self.core, now, apply.keys());
            if let Some(part) = part {
                self.core.tail.expect_part(part);
            }
            self.put_alone(now, request);
        } else {
            self.reader().read_part(now, &request);
        }
        self.settle(now);
    }

    /// Gives a request back that may be carried out now, whether the shard stands still or not.
    #[inline]
    fn hold_back(&mut self, now: Now, request: Request) -> Option<Request> {
        if !self.core.frozen {
            return Some(request);
        }
        // Behind what waits for the end of a session, whatever else it waits for.
        let request = self.service.hold_behind(&mut self.core, now, request)?;
        let request = self.cuts.hold_back(&mut self.core, &self.locking, request);
        self.resume_released(now);
        request
    }

    /// Whether a request that was taken has not gone ahead.
    fn is_held_up(&self, gateway: GatewayId, token: Token) -> bool {
        self.locking.holds_up(gateway, token) || self.core.delayed.holds_up(gateway, token)
    }

    /// Lets requests go on whose session's earlier one has gone ahead. Tells whether one went.
    fn let_followers_go(&mut self, now: Now) -> bool {
        let mut went = false;
        for request in self.core.delayed.take_followers() {
            if request.after.is_some_and(|after| self.is_held_up(request.gateway, after)) {
                self.core.delayed.follow(request);
            } else {
                went = true;
                self.carry_out(now, request);
            }
        }
        went
    }

    /// Lets requests go on whose log entries are applied.
    fn resume_delayed(&mut self, now: Now) {
        while let Some((request, reaped)) = self.core.delayed.next_applied(self.core.tail.applied())
        {
            let reader = Reads { reaped, ..self.reader() };
            match request.body {
                Body::Read { .. } => reader.read(now, unfenced(request)),
                Body::Snapshot { .. } => reader.read_at_once(now, unfenced(request)),
                Body::Version { .. } => reader.version(now, request),
                Body::Inquire { txn } => self.inquire(request.gateway, request.token, txn),
                Body::Coordinate(_) => self.service.resume(&mut self.core, now, request),
                _ => self.carry_out(now, request),
            }
        }
    }

    /// The parts that reads work with.
    fn reader(&mut self) -> Reads<'_> {
        let Self { core, expiry, locking, .. } = self;
        Reads { core, expiry, locking, reaped: false }
    }

    /// Admits all requests that can go after the changes of this call.
    fn settle(&mut self, now: Now) {
        loop {
            self.drop_refused();
            while let Some(key) = self.core.locks.take_marked() {
                self.begin_phase(now, &key);
            }
            let went = self.let_followers_go(now);
            let whole = self.locking.whole.take_behind();
            let resumed = !whole.is_empty();
            whole.into_iter().for_each(|request| self.handle(now, request));
            if !self.advance_next(now) && !went && !resumed && !self.recover_next(now) {
                break;
            }
        }
        self.look_at_turns(now);
        self.waits.report_changes(&mut self.core);
        if self.cuts.is_open() {
            let is_recovering = self.streams.is_recovering();
            self.cuts.go_on(&mut self.core, &self.locking, is_recovering);
            self.resume_released(now);
        }
    }

    fn carry_out(&mut self, now: Now, request: Request) {
        match request.body {
            Body::Read { .. } | Body::Snapshot { .. }
                if self.streams.keeps_back(&self.core, &request.body) =>
            {
                self.core.delay(request);
            }
            Body::Read { .. } => self.reader().read(now, request),
            Body::Apply(_) => self.admit_apply(now, request),
            Body::Await { ref apply, .. } if apply.observes() => {
                self.waits.observers.observe(&mut self.core, now, request);
                self.waits.report_changes(&mut self.core);
            }
            Body::Await { .. } => {
                self.take_turn(now, request);
                self.waits.report_changes(&mut self.core);
            }
            Body::Snapshot { .. } => self.reader().read_at_once(now, request),
            Body::Lock { .. } | Body::Prepare { .. } | Body::Run(_) => {
                self.begin_locking(now, request);
            }
            Body::Decide { txn, commit } => {
                self.decide(now, (request.gateway, request.token), txn, commit);
            }
            Body::Inquire { txn } => self.inquire(request.gateway, request.token, txn),
            Body::Cancel { txn } => {
                self.waits.newcomers.refuse(&mut self.core, txn, Refusal::LocksLost);
                self.locking.cancel(&mut self.core, txn, Refusal::LocksLost);
            }
            Body::Release { txn, after } => {
                self.core.move_clock(after);
                self.locking.end(&mut self.core, txn);
                self.pass_probes();
            }
            Body::ProbeAck { txn } => {
                self.locking.probe_answered(&mut self.core, txn);
                self.pass_probes();
            }
            Body::Block { ref keys, takes } => {
                let sender = (request.gateway, request.token);
                self.waits.blocked.block(&mut self.core, now, sender, (keys, takes));
                self.waits.report_changes(&mut self.core);
            }
            Body::Unblock => {
                let sender = (request.gateway, request.token);
                self.waits.leave(&mut self.core, now, sender);
            }
            Body::EndDeadlock { ref description } => {
                let sender = (request.gateway, request.token);
                self.waits.turns.end_deadlock(&mut self.core, now, sender, description);
            }
            Body::EndTurn => {
                let sender = (request.gateway, request.token);
                self.waits.end_turn(&mut self.core, now, sender);
            }
            Body::Flush { database } => {
                let kind = RecipientKind::Flushed;
                let target = Recipient { gateway: request.gateway, token: request.token, kind };
                self.core.log(LogRecord::Flush(database), target);
            }
            Body::Resolve(_) => self.locking.resolve_request(&mut self.core, request),
            Body::Remember(told) => {
                let kind = RecipientKind::Remembered;
                let target = Recipient { gateway: request.gateway, token: request.token, kind };
                self.core.log(LogRecord::Answered(told), target);
            }
            Body::Coordinate(_) => self.service.take(&mut self.core, now, request),
            Body::Cut { cut, step } => self.cut(now, (request.gateway, request.token), cut, step),
            Body::Version { .. } => self.reader().version(now, request),
            Body::Waiting { ref key } => {
                let reply = self.waits.turns.described(now, key);
                self.core.reply(&request, reply);
            }
            Body::Holders { ref key } => {
                let reply = self.locking.told_holders(&self.core, now, key);
                self.core.reply(&request, reply);
            }
            Body::Waits { ref names } => {
                let reply = self.waits.turns.waits(&self.core, now, names);
                self.core.reply(&request, reply);
            }
            Body::Stats => {
                let stats = Box::new(self.stats(now.mono_us));
                self.core.answer(request.gateway, request.token, Answer::Stats(stats));
            }
            Body::Follow(wants) => {
                self.waits.followers.follow(&mut self.core, now, &request, wants);
                self.waits.report_changes(&mut self.core);
            }
            Body::Scan { .. }
            | Body::Keys { .. }
            | Body::Count { .. }
            | Body::RandomKey { .. }
            | Body::KeysInSlot { .. } => self.core.look(now, &request),
            // Were taken before, or are taken by the replica.
            Body::Pipeline(_) | Body::EndStream { .. } | Body::Transfer { .. } => {}
        }
    }

    /// Acts on a record that is about to be proposed, which gives it its timestamp. Transactions and units
    /// stand in the order of execution from now on; everything else happens when a record is committed.
    fn announce(&mut self, record: &mut LogRecord, target: Recipient, ts: Timestamp) {
        if let (LogRecord::Prepare(prepare), RecipientKind::Vote(txn)) = (&*record, target.kind)
            && self.locking.knows(txn)
        {
            self.core.before_change(&prepare.apply.ops);
            self.core.state.announce(prepare.clone(), ts, &mut self.core.ahead);
        } else if let LogRecord::Propose(group) = record {
            self.streams.announce(&mut self.core, group, ts);
        } else if let LogRecord::Ordered { stream, link, .. } = record {
            if link.place == Timestamp::ZERO {
                link.place = ts;
            }
            self.streams.has_place(&self.core, *stream, *link);
        }
    }

    /// Counters of the shard, and its sizes now.
    fn stats(&self, now_us: u64) -> ShardStats {
        let mut stats = self.core.stats.clone();
        stats.keys = self.core.state.records().visible() as u64;
        stats.keys_with_expiry = self.core.state.records().expiring() as u64;
        stats.databases = self.core.state.records().databases().collect();
        stats.prepared = self.core.state.prepared().len() as u64;
        stats.locks = self.core.stats.locks.with_queues(self.waits.turns.queues(now_us));
        self.locking.count(&mut stats);
        stats
    }
}

impl Shard {
    /// Takes a request from a gateway.
    pub fn handle(&mut self, now: Now, request: Request) {
        self.desk.handle(now, request);
    }

    /// Takes a part of a bundle. Its parts become durable together if it has a number.
    pub fn take_part(&mut self, now: Now, request: Request, part: Option<BundlePart>) {
        self.desk.take_part(now, request, part);
    }

    /// Whether no part of a bundle would have to wait for this reason if it came now.
    pub fn is_calm(&self, reason: Disturbance) -> bool {
        let Desk { core, locking, waits, cuts, splitting, streams, .. } = &self.desk;
        let is_calm = match reason {
            Disturbance::Locks => {
                locking.is_free()
                    && waits.blocked.is_empty()
                    && waits.is_quiet()
                    && !core.frozen
                    && !cuts.is_open()
                    && !splitting.is_giving()
                    && (streams.hold_records() || !core.locks.in_use())
            }
            Disturbance::Streams => {
                streams.is_idle() && !streams.hold_records() && !core.locks.in_use()
            }
        };
        is_calm && !core.delayed.disturbs(reason)
    }

    /// Counters of the shard, and its sizes now.
    pub fn stats(&self, now_us: u64) -> ShardStats {
        self.desk.stats(now_us)
    }

    /// An empty shard.
    pub fn new(config: ShardConfig) -> Self {
        Self::restored(config, State::default(), Timestamp::ZERO)
    }

    /// A shard with the state of a snapshot. Log entries after it are replayed with
    /// [`Shard::replay`].
    pub fn restored(mut config: ShardConfig, state: State, clock: Timestamp) -> Self {
        if config.id == ShardId::MAP {
            // Its only key is no name.
            config.tags = TagRules::NONE;
        }
        let scripts = Runs::new(config.interpreter);
        let desk = Desk {
            core: ShardCore::new(config, state, clock),
            locking: LockManager::default(),
            expiry: Expiry::default(),
            waits: Waits::default(),
            cuts: Cuts::default(),
            splitting: Splitting::default(),
            streams: Streams::default(),
            scripts,
            service: ServiceLeader::default(),
            lead_is_certain: false,
        };
        Self { desk }
    }

    /// The shard's number.
    pub fn id(&self) -> ShardId {
        self.desk.core.config.id
    }

    /// The replicated state.
    pub fn state(&self) -> &State {
        &self.desk.core.state
    }

    /// How far all shards have settled their transactions.
    pub fn hear_settled(&mut self, all: locking::watermark::SettledUpTo) {
        self.desk.core.state.fates_mut().hear_settled(all);
    }

    /// Everything that commits here before this is settled for good. The clock is moved: if nothing
    /// is open, that is so up to now, however long ago the last entry was.
    pub fn watermark(&mut self, now: Now) -> Timestamp {
        self.desk.core.move_clock(Timestamp::from_micros(now.wall_us));
        self.desk.core.state.watermark(self.desk.core.clock)
    }

    /// Whether there is nothing that must be looked after before the next request comes, but for
    /// expiry.
    pub fn is_quiet(&self) -> bool {
        let open = self.desk.core.state.prepared().is_empty()
            && self.desk.core.state.prepared.unsettled().next().is_none();
        open && !self.desk.cuts.is_open()
            && self.desk.locking.has_no_waiters()
            && self.desk.waits.is_quiet()
            && self.desk.streams.is_quiet()
            && self.desk.core.state.coordination().is_quiet()
            && !self.desk.core.tail.has_work()
            && self.desk.core.outbox.is_empty()
    }

    /// The shard's logical clock.
    pub fn clock(&self) -> Timestamp {
        self.desk.core.clock
    }

    /// The state of another replica's snapshot stands in the place of this one's. Answers that
    /// were not taken yet and the counters stay; everything else begins anew.
    pub(crate) fn restore(&mut self, state: State, clock: Timestamp) {
        let outbox = std::mem::take(&mut self.desk.core.outbox);
        let stats = std::mem::take(&mut self.desk.core.stats);
        *self = Self::restored(self.desk.core.config.clone(), state, clock);
        (self.desk.core.outbox, self.desk.core.stats) = (outbox, stats);
    }

    /// Answers for gateways.
    pub fn outbox(&self) -> &Outbox {
        &self.desk.core.outbox
    }

    /// Answers for gateways, to take them or to add some.
    #[inline]
    pub fn outbox_mut(&mut self) -> &mut Outbox {
        &mut self.desk.core.outbox
    }

    /// Pipelines over several shards.
    #[inline]
    pub fn streams(&self) -> &Streams {
        &self.desk.streams
    }

    /// Pipelines over several shards, to take their messages.
    pub fn streams_mut(&mut self) -> &mut Streams {
        &mut self.desk.streams
    }

    /// Log entries that are not applied yet.
    #[inline]
    pub fn tail(&self) -> &LogTail {
        &self.desk.core.tail
    }

    /// Log entries that are not applied yet, to take their parts of bundles.
    pub(crate) fn tail_mut(&mut self) -> &mut LogTail {
        &mut self.desk.core.tail
    }

    /// Closes the entry of this turn: later records go into another one.
    pub fn close_entry(&mut self) {
        self.desk.core.tail.close();
    }

    /// When `tick` should be called at the latest, in monotonic microseconds, if ever.
    pub fn next_timeout(&self, now: Now) -> Option<u64> {
        let expiry = self.desk.core.state.records().next_expiry_ms().map(|at| {
            let wait_ms = at.saturating_sub(now.wall_ms()).clamp(1, 100);
            now.mono_us + wait_ms * 1000
        });
        let soon = !self.desk.locking.has_no_waiters() && self.desk.streams.hold_records();
        let soon = soon.then_some(now.mono_us + UNITS_OWE_US);
        let rooms = self.desk.rooms();
        let rooms = rooms.iter().filter_map(|room| room.next_us(&self.desk.core, now));
        let kept = self.desk.core.locks.kept_until_us();
        expiry.into_iter().chain(soon).chain(rooms).chain(kept).min()
    }

    /// Does what is due by time: expiry, and word to transactions that others have waited for.
    pub fn tick(&mut self, now: Now) {
        self.desk.expiry.reap_due(&mut self.desk.core, now);
        self.desk.locking.tell_wanted(&mut self.desk.core, now);
        self.desk.locking.find_orphans(&mut self.desk.core, now);
        self.desk.tick_streams(now);
        let units = self.desk.streams.hold_records();
        if units {
            self.desk.locking.refuse_stuck(&mut self.desk.core, now);
        }
        self.desk.locking.note_owed(&self.desk.core, now, units);
        self.desk.expire_cut(now);
        self.desk.service.end_silent_sessions(&mut self.desk.core, now);
        self.desk.service.remind_of_ends(&mut self.desk.core, now);
        self.desk.service.remind_of_joints(&mut self.desk.core, now);
        self.desk.waits.tick(&mut self.desk.core, now);
        self.desk.service.reap_nodes(&mut self.desk.core, now);
        self.desk.core.locks.drop_kept(now.mono_us);
        let needless = self.desk.waits.blocked.is_empty() && !self.desk.core.locks.in_use();
        if needless {
            self.desk.core.tail.end_tracking(now);
        }
        self.desk.settle(now);
    }

    /// Does something at a moment at which no other machine can lead the shard.
    pub fn as_only_leader(&mut self, act: impl FnOnce(&mut Self)) {
        self.desk.lead_is_certain = true;
        act(self);
        self.desk.lead_is_certain = false;
    }

    /// Closes the entry of this turn, if there is something in it, and gives the oldest closed entry. It is
    /// to be proposed at once; [`Shard::committed`] is called when it is durable, in the order of the calls.
    pub fn end_turn(&mut self, now: Now) -> Option<Entry> {
        if !self.desk.core.tail.has_closed() {
            self.desk.core.tail.close();
        }
        self.next_closed(now)
    }

    /// The next entry that is closed, to be proposed as [`Shard::end_turn`] says. Records that were logged
    /// after [`Shard::close_entry`] are not in it.
    pub fn next_closed(&mut self, now: Now) -> Option<Entry> {
        if !self.desk.core.tail.has_closed() {
            return None;
        }
        let seed = self.desk.core.draw();
        let mut batch = self.desk.core.tail.stamp_next(now, self.desk.core.clock, seed)?;
        self.desk.core.clock = batch.ts_of(batch.records.len());
        let (first, spacing) = (batch.ts, batch.spacing);
        for (index, record) in batch.records.iter_mut().enumerate() {
            self.desk.announce(record, batch.targets[index], spacing.ts_of(first, index));
        }
        let entry = self.desk.core.tail.propose(batch);
        self.desk.core.stats.log_appends += 1;
        self.desk.core.stats.log_records += entry.records.len() as u64;
        Some(entry)
    }

    /// Gives back a proposed entry's records once they are encoded: the leader applies them from
    /// memory. Belongs to the last [`Shard::end_turn`].
    pub fn keep(&mut self, entry: Entry, encoded_bytes: usize) {
        self.desk.core.stats.log_bytes += encoded_bytes as u64;
        self.desk.core.tail.keep(entry.records);
    }

    /// Sizes of the coordination service.
    pub fn survey(&self) -> Survey {
        self.desk.service.survey(&self.desk.core)
    }

    /// Sessions of the coordination service, and what each has.
    pub fn list_sessions(&self) -> Listed {
        self.desk.service.list(&self.desk.core)
    }

    /// Whether the shard stands still, for a backup.
    pub fn is_frozen(&self) -> bool {
        self.desk.core.frozen
    }

    /// Begins a snapshot of the present state, which contains the log up to `index` of `term`, when the group
    /// had these members (none: those that founded it). One that was begun before is given up.
    pub fn begin_snapshot(&mut self, index: u64, term: u64, members: Option<Members>) {
        self.desk.core.begin_snapshot(index, term, members);
    }

    /// The next parts of the snapshot, at most `count`; see [`ShardCore::snapshot_parts`].
    pub fn snapshot_parts(&mut self, count: usize) -> Vec<SnapshotPart> {
        self.desk.core.snapshot_parts(count)
    }

    /// Whether a snapshot is in the making.
    pub fn is_taking_snapshot(&self) -> bool {
        self.desk.core.writers.snapshot.is_some()
    }
}
