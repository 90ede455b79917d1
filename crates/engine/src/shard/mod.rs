//! A shard: records, the locks on them, and the way of a request from admission to its place in
//! the log and back.
//!
//! `handle` takes a request, `end_turn` closes what the turn has collected into one log entry,
//! `committed` tells that an entry is durable, and answers are polled. Records change only in
//! [`State::apply`], only from committed entries. See `docs/internals/transactions.md` for the protocol.

pub(crate) mod ahead;
mod apply;
pub mod coordination;
mod leading;
pub(crate) mod locking;
pub mod state;
mod streams;
#[cfg(test)]
mod tests;
pub(crate) mod transfer;
pub(crate) mod waiting;

pub use locking::watermark;
pub use state::{fences, requests};
pub use transfer::{cut, snapshot, split};

use crate::entry::{Entry, LogRecord, Spacing};
use crate::ids::{Age, GatewayId, RequestId, ShardId, Token, TxnId};
use crate::limits::{ENTRY_RECORDS_MAX, LOCK_WAITERS_BUSY, OUTCOMES_WAIT_US, UNITS_OWE_US};
use crate::map::Range;
use crate::message::{Answer, Body, Concurrency, Notice, Refusal, Request, Response};
use crate::now::Now;
use crate::stats::ShardStats;
use adt::collections::Map;
use adt::random::mix;
use adt::{Blob, Reply, Timestamp};
use ahead::AheadOfLog;
use locking::contention::Contention;
use locking::grants::Claims;
use locking::locks::{LockTable, WaiterId};
use smallvec::SmallVec;
use state::State;
use state::recent::Recent;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use waiting::blocked::Blocked;
use waiting::observers::Observers;
use waiting::turns::TurnQueues;

/// What a shard is told when it is made.
#[derive(Clone, Copy, Debug)]
pub struct ShardConfig {
    /// Its number.
    pub id: ShardId,
    /// Which parts of the concurrency control are on.
    pub concurrency: Concurrency,
    /// Seed of its random numbers.
    pub seed: u64,
    /// The gateway next to it, which carries the word of sessions that end and, in a cluster, finds out what
    /// became of transactions whose own gateway is silent.
    pub beside: GatewayId,
    /// There are other machines, or may be. A server that is alone settles open transactions when it starts.
    pub clustered: bool,
    /// How often its leader looks for nodes of the coordination service whose time has come.
    pub reap_us: u64,
    /// A rule of the order of pipelines that it breaks. A server's shards break none.
    pub broken: Option<Rule>,
}

/// Rules of the order of pipelines over several shards (`docs/internals/order.md`), to be broken one at a
/// time: the simulator shows by that what each is needed for, and that it would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A clock goes up to the places that it has given.
    ClocksFollow,
    /// What has a lower proposal and is not durable yet comes first as well.
    UndurableCounts,
    /// Proposals are told when they are durable.
    ProposalsAreDurable,
    /// That nothing more of a pipeline is let in is in the log before it is told.
    RefusalsAreDurable,
    /// Requests of other sessions wait for what is sent ahead to several shards of a tree.
    BranchesAreHeld,
    /// Requests of other sessions wait for what is prepared of a `multi` over several shards.
    PreparedIsHeld,
}

/// How long after the last lock operations in the log are still noted in the lock table. Without
/// transactions there is nobody to protect, and single commands skip the table.
const TRACKING_US: u64 = 1_000_000;

/// Whom a log record's outcome is told.
#[derive(Clone, Copy, Debug)]
struct Recipient {
    gateway: GatewayId,
    token: Token,
    kind: RecipientKind,
}

impl Recipient {
    /// Nobody is told.
    fn nobody() -> Self {
        let (gateway, token) = Default::default();
        Self { gateway, token, kind: RecipientKind::Nobody }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum RecipientKind {
    /// Replies of the operations.
    Replies,
    /// The reply of an operation that waits for its turn while it is nil.
    Turn,
    /// Replies of the operations; then the transaction's locks are released.
    Commit(TxnId),
    /// The vote of a prepared transaction.
    Vote(TxnId),
    /// `OK`.
    Flushed,
    /// Whether a request took effect.
    Resolved,
    /// That it is remembered what a request has answered.
    Remembered,
    /// What came of a change of the coordination service.
    Coordinated,
    /// That a transaction was not prepared here and never will be.
    Voided,
    /// What a request that waits for something to take has got.
    Taken,
    /// Nobody asked; somebody is named as the next.
    Named,
    /// Nobody asked.
    Nobody,
}

/// A log entry that is being built, or in the log and not applied yet.
#[derive(Debug, Default)]
struct Batch {
    number: u64,
    ts: Timestamp,
    spacing: Spacing,
    now_ms: u64,
    seed: u64,
    records: Vec<LogRecord>,
    targets: Vec<Recipient>,
    /// Its operations are noted in the lock table.
    tracked: bool,
    /// Somebody waits for it.
    urgent: bool,
    /// When its first record came, in monotonic microseconds.
    since_us: u64,
    /// How many numbers below its first timestamp are taken; see [`reserved`].
    reserved: u64,
}

impl Batch {
    /// Timestamp of record number `index`, once the first one's is known.
    fn ts_of(&self, index: usize) -> Timestamp {
        self.spacing.ts_of(self.ts, index)
    }
}

/// A transaction that holds or waits for something here.
#[derive(Debug, Default)]
struct OpenTxn {
    gateway: GatewayId,
    keys: SmallVec<[Blob; 4]>,
    touched_us: u64,
    waiters: SmallVec<[WaiterId; 1]>,
    /// Its prepare, while it is held back, and the transactions that hold it back.
    unlogged: Option<(crate::entry::Prepare, Recipient)>,
    probes: BTreeSet<TxnId>,
    /// Where the replies go once the transaction is executed.
    decided: Option<(GatewayId, Token)>,
    /// Others who have said the same, and want the replies as well.
    askers: SmallVec<[(GatewayId, Token); 1]>,
    /// Its prepare is in the log.
    prepared: bool,
    /// Its only record, which commits it, is in the log.
    committing: bool,
    request: Option<RequestId>,
}

/// A request that waits for locks.
#[derive(Debug)]
struct Waiter {
    age: Age,
    since_us: u64,
    claims: Claims,
    request: Request,
}

/// One shard at its leader.
#[derive(Debug)]
pub struct Shard {
    config: ShardConfig,
    state: State,
    ahead: AheadOfLog,
    clock: Timestamp,
    random: u64,
    locks: LockTable,
    tracking_until_us: Option<u64>,
    building: Batch,
    closed: VecDeque<Batch>,
    in_flight: VecDeque<Batch>,
    applied: u64,
    txns: Map<TxnId, OpenTxn>,
    /// Who was told to give way, and for whom.
    wounded: BTreeMap<TxnId, Age>,
    open_requests: BTreeMap<RequestId, TxnId>,
    /// Who wants to know whether an open request takes effect.
    resolving: BTreeMap<RequestId, Vec<Request>>,
    probing: BTreeMap<TxnId, Vec<TxnId>>,
    waiters: BTreeMap<WaiterId, Box<Waiter>>,
    next_waiter: WaiterId,
    after: VecDeque<(u64, Request)>,
    /// Requests that must not overtake others of their sessions.
    behind: VecDeque<Request>,
    /// The transaction that is about all keys, and the requests that wait for its end.
    whole: Option<TxnId>,
    behind_whole: VecDeque<Request>,
    /// Transactions that must not be prepared here, as soon as the record that says so is applied.
    voiding: BTreeSet<TxnId>,
    reaping: BTreeSet<Blob>,
    dirty: Vec<Blob>,
    blocked: Blocked,
    foreseen: crate::shard::waiting::serving::Foreseen,
    turns: TurnQueues,
    observers: Observers,
    contention: Contention,
    snapshot: Option<transfer::snapshot::Writer>,
    cut: Option<transfer::cut::ShardCut>,
    /// In a cluster: when keys changed last.
    recent: Option<Recent>,
    /// Slots that are about to be given away, and what came of the last split.
    giving: Option<Range>,
    born: Option<transfer::split::Born>,
    streams: streams::LeaderStreams,
    coordination: coordination::Leader,
    outputs: VecDeque<Response>,
    stats: ShardStats,
    /// No other machine can lead the shard, which is known while something is done and not for longer.
    lead_is_certain: bool,
}

impl Shard {
    /// An empty shard.
    pub fn new(config: ShardConfig) -> Self {
        Self::restored(config, State::default(), Timestamp::ZERO)
    }

    /// A shard with the state of a snapshot. Log entries after it are replayed with
    /// [`Shard::replay`].
    pub fn restored(config: ShardConfig, state: State, clock: Timestamp) -> Self {
        Self {
            config,
            state,
            ahead: AheadOfLog::default(),
            clock,
            random: mix(config.seed ^ u64::from(config.id.0)),
            locks: LockTable::new(config.concurrency),
            tracking_until_us: None,
            building: Batch { number: 1, ..Batch::default() },
            closed: VecDeque::new(),
            in_flight: VecDeque::new(),
            applied: 0,
            txns: Map::default(),
            wounded: BTreeMap::new(),
            open_requests: BTreeMap::new(),
            resolving: BTreeMap::new(),
            probing: BTreeMap::new(),
            waiters: BTreeMap::new(),
            next_waiter: 0,
            after: VecDeque::new(),
            behind: VecDeque::new(),
            whole: None,
            behind_whole: VecDeque::new(),
            voiding: BTreeSet::new(),
            reaping: BTreeSet::new(),
            dirty: Vec::new(),
            blocked: Blocked::default(),
            foreseen: Map::default(),
            turns: TurnQueues::default(),
            observers: Observers::default(),
            contention: Contention::default(),
            snapshot: None,
            cut: None,
            recent: config.clustered.then(Recent::default),
            giving: None,
            born: None,
            streams: streams::LeaderStreams::default(),
            coordination: coordination::Leader::default(),
            outputs: VecDeque::new(),
            stats: ShardStats::default(),
            lead_is_certain: false,
        }
    }

    /// The shard's number.
    pub fn id(&self) -> ShardId {
        self.config.id
    }

    /// The replicated state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How far all shards have settled their transactions.
    pub fn hear_settled(&mut self, all: locking::watermark::SettledUpTo) {
        self.state.hear_settled(all);
    }

    /// Everything that commits here before this is settled for good. The clock is moved: if nothing
    /// is open, that is so up to now, however long ago the last entry was.
    pub fn watermark(&mut self, now: Now) -> Timestamp {
        self.move_clock(Timestamp::from_micros(now.wall_us));
        self.state.watermark(self.clock)
    }

    /// Whether there is nothing that must be looked after before the next request comes, but for
    /// expiry.
    pub fn is_quiet(&self) -> bool {
        let open = self.state.prepared().is_empty() && self.state.unsettled().next().is_none();
        open && self.cut.is_none()
            && self.waiters.is_empty()
            && self.turns.is_empty()
            && self.streams.is_quiet()
            && self.state.coordination().is_quiet()
            && !self.has_work()
            && !self.has_answers()
    }

    /// The shard's logical clock.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// The state of another replica's snapshot stands in the place of this one's. Answers that
    /// nobody has taken yet and the counters stay; everything else begins anew.
    pub(crate) fn restore(&mut self, state: State, clock: Timestamp) {
        let outputs = std::mem::take(&mut self.outputs);
        let stats = std::mem::take(&mut self.stats);
        let restored = Self::restored(self.config, state, clock);
        *self = Self { outputs, stats, ..restored };
    }

    /// The next answer for a gateway.
    #[inline]
    pub fn poll(&mut self) -> Option<Response> {
        self.outputs.pop_front()
    }

    /// When `tick` should be called at the latest, in monotonic microseconds, if ever.
    pub fn next_timeout(&self, now: Now) -> Option<u64> {
        let expiry = self.state.next_expiry_ms().map(|at| {
            let wait_ms = at.saturating_sub(now.wall_ms()).clamp(1, 100);
            now.mono_us + wait_ms * 1000
        });
        let prepared = self.config.clustered && !self.state.prepared().is_empty();
        let watching = !self.waiters.is_empty() || prepared;
        let soon = !self.waiters.is_empty() && self.streams.hold_records();
        let wait_us = if soon { UNITS_OWE_US } else { 100_000 };
        let waiting = watching.then_some(now.mono_us + wait_us);
        let streams = self.streams_timeout(now);
        let sessions = self.coordination.next_us(self.state.coordination());
        let waits = self.turns.next_us(now).into_iter().chain(self.observers.next_us(now));
        let sessions = sessions.into_iter().chain(waits);
        let sessions = sessions.chain(self.kept_until_us());
        let due = expiry.into_iter().chain(waiting).chain(streams).chain(sessions);
        due.chain(self.cut_timeout()).min()
    }

    /// Does what is due by time: expiry, and word to transactions that others have waited for.
    pub fn tick(&mut self, now: Now) {
        self.reap_due(now);
        self.tell_wanted(now);
        self.find_orphans(now);
        self.tick_streams(now);
        self.refuse_stuck(now);
        self.note_owed(now);
        self.expire_cut(now);
        self.end_silent_sessions(now);
        self.remind_of_ends(now);
        self.remind_of_joints(now);
        self.tick_turns(now);
        self.tick_observers(now);
        self.tick_kept(now);
        self.reap_nodes(now);
        let needless = self.blocked.is_empty() && !self.locks.in_use();
        if self.tracking_until_us.is_some_and(|until| until < now.mono_us) && needless {
            self.tracking_until_us = None;
        }
        self.settle(now);
    }

    /// Does something at a moment at which no other machine can lead the shard.
    pub fn as_only_leader(&mut self, act: impl FnOnce(&mut Self)) {
        self.lead_is_certain = true;
        act(self);
        self.lead_is_certain = false;
    }

    /// Takes a request from a gateway.
    pub fn handle(&mut self, now: Now, request: Request) {
        self.stats.requests += 1;
        self.state.tell_time(now.mono_us);
        let Some(request) = self.stand_behind_whole(request) else { return };
        if matches!(request.body, Body::Pipeline(_)) {
            self.take_group(now, request);
            return self.settle(now);
        }
        if let Body::EndStream { stream, shards } = request.body {
            self.end_stream(now, stream, shards);
            return self.settle(now);
        }
        if (self.state.slots.range.is_some() || self.giving.is_some())
            && self.send_elsewhere(&request)
        {
            return;
        }
        let Some(request) = self.hold_back(now, request) else { return };
        let Some(request) = self.enter_whole(request) else { return };
        if request.after.is_some_and(|after| self.is_held_up(request.gateway, after)) {
            self.behind.push_back(request);
            return;
        }
        self.carry_out(now, request);
        self.settle(now);
    }

    /// Whether a request that was taken has not gone ahead.
    fn is_held_up(&self, gateway: GatewayId, token: Token) -> bool {
        let is = |request: &Request| request.gateway == gateway && request.token.is_again(token);
        self.waiters.values().any(|waiter| is(&waiter.request))
            || self.behind.iter().any(is)
            || self.after.iter().any(|(_, request)| is(request))
    }

    /// Requests go on that had to let others of their sessions go first.
    fn let_followers_go(&mut self, now: Now) -> bool {
        let mut went = false;
        for request in std::mem::take(&mut self.behind) {
            if request.after.is_some_and(|after| self.is_held_up(request.gateway, after)) {
                self.behind.push_back(request);
            } else {
                went = true;
                self.carry_out(now, request);
            }
        }
        went
    }

    fn carry_out(&mut self, now: Now, request: Request) {
        match request.body {
            Body::Read { .. } | Body::Snapshot { .. } if self.waits_for_ordered(&request.body) => {
                self.after.push_back((self.tail(), request));
            }
            Body::Read { .. } => self.read(now, request),
            Body::Apply(_) => self.admit_apply(now, request),
            Body::Await { ref apply, .. } if apply.observes() => self.observe(now, request),
            Body::Await { .. } => self.take_turn(now, request),
            Body::Snapshot { .. } => self.snapshot_read(now, request),
            Body::Lock { .. } | Body::Prepare { .. } => self.begin_locking(now, request),
            Body::Decide { txn, commit } => {
                self.decide(now, (request.gateway, request.token), txn, commit);
            }
            Body::Inquire { txn } => self.inquire(request.gateway, request.token, txn),
            Body::Cancel { txn } => self.cancel(txn, Refusal::LocksLost),
            Body::Release { txn, after } => {
                self.move_clock(after);
                self.end_txn(txn);
            }
            Body::ProbeAck { txn } => self.probe_answered(txn),
            Body::Block { ref keys, takes } => {
                self.block(now, (request.gateway, request.token), keys, takes);
            }
            Body::Unblock => {
                self.give_up_turn(now, request.gateway, request.token);
                self.observers.end((request.gateway, request.token));
                self.unblock(now, (request.gateway, request.token));
            }
            Body::EndCircle { ref told } => {
                self.end_circle(now, request.gateway, request.token, told)
            }
            Body::Flush => {
                let kind = RecipientKind::Flushed;
                let target = Recipient { gateway: request.gateway, token: request.token, kind };
                self.log(LogRecord::Flush, target);
            }
            Body::Resolve(_) => self.resolve_request(request),
            Body::Remember(told) => {
                let kind = RecipientKind::Remembered;
                let target = Recipient { gateway: request.gateway, token: request.token, kind };
                self.log(LogRecord::Answered(told), target);
            }
            Body::Coordinate(_) => self.coordinate(now, request),
            Body::Cut { cut, step } => self.cut(now, (request.gateway, request.token), cut, step),
            Body::Version { .. }
            | Body::Waiting { .. }
            | Body::Holders { .. }
            | Body::Waits { .. }
            | Body::Scan { .. }
            | Body::Keys { .. }
            | Body::Count
            | Body::RandomKey
            | Body::Stats
            | Body::KeysInSlot { .. } => self.look(now, request),
            // Were taken before, or are taken by the replica.
            Body::Pipeline(_) | Body::EndStream { .. } | Body::Transfer { .. } => {}
        }
    }

    pub(crate) fn answer(&mut self, gateway: GatewayId, token: Token, answer: Answer) {
        self.outputs.push_back(Response { gateway, token, answer });
    }

    fn notice(&mut self, gateway: GatewayId, token: Token, notice: Notice) {
        self.answer(gateway, token, Answer::Notice(notice));
    }

    fn move_clock(&mut self, to: Timestamp) {
        self.clock = self.clock.max(to);
    }

    /// Number of the batch that holds the newest record which was not acted on yet; what is applied up
    /// to it has seen all.
    fn tail(&self) -> u64 {
        if !self.building.urgent { self.building.number - 1 } else { self.building.number }
    }

    fn has_unapplied(&self) -> bool {
        self.tail() > self.applied
    }

    /// Puts a record into the entry of this turn.
    fn log(&mut self, record: LogRecord, target: Recipient) {
        self.note_for_cut(&record, target.kind);
        self.forget_foreseen(&record);
        // All of a batch is tracked or nothing, whether that ends in the meantime or begins again.
        if self.building.records.is_empty() {
            self.building.tracked = self.tracking_until_us.is_some();
            self.building.since_us = self.state.mono_us();
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
                self.locks.fly(key, op, self.building.number);
            }
        }
        self.building.records.push(record);
        self.building.targets.push(target);
        if self.building.records.len() >= ENTRY_RECORDS_MAX {
            self.close_building();
        }
    }

    /// What comes from now on goes into another log entry: this one is large enough.
    pub fn close_entry(&mut self) {
        if !self.building.records.is_empty() {
            self.close_building();
        }
    }

    fn close_building(&mut self) {
        let number = self.building.number + 1;
        let full = std::mem::replace(&mut self.building, Batch { number, ..Batch::default() });
        self.closed.push_back(full);
    }

    /// From now on, operations in the log are noted in the lock table, those on their way included.
    fn track(&mut self, now: Now) {
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
                    self.locks.fly(key, op, batch.number);
                }
            }
        }
    }

    /// Whether there are answers to be polled.
    pub fn has_answers(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// Whether there is something to propose.
    pub fn has_work(&self) -> bool {
        !self.building.records.is_empty() || !self.closed.is_empty()
    }

    /// Whether nobody waits for what is to be proposed: what became of transactions of other shards as
    /// well, which is for those who may lead later. It goes with the next thing that somebody waits for,
    /// if that comes soon: an entry costs a write on every machine, however little is in it.
    pub fn is_patient(&self, now: Now) -> bool {
        self.outcomes_due_us().is_some_and(|due_us| now.mono_us < due_us)
    }

    /// Whether there is nothing else to propose than such outcomes.
    pub fn has_only_outcomes(&self) -> bool {
        let nothing_else = self.closed.is_empty() && !self.building.urgent;
        nothing_else && !self.building.records.is_empty()
    }

    /// Whether there is something to propose that somebody waits for.
    #[inline]
    pub fn has_urgent(&self) -> bool {
        self.building.urgent || !self.closed.is_empty()
    }

    /// Until when outcomes may wait, if nothing else does. On a machine that is alone all shards share
    /// the writes of one log, and there is nothing to gain.
    pub fn outcomes_due_us(&self) -> Option<u64> {
        let waits = self.config.clustered && self.has_only_outcomes();
        waits.then_some(self.building.since_us + OUTCOMES_WAIT_US)
    }

    /// Closes the entry of this turn, if there is something in it. It is to be proposed at once;
    /// [`Shard::committed`] is told when it is durable, in the order of the calls.
    pub fn end_turn(&mut self, now: Now) -> Option<Entry> {
        if self.closed.is_empty() {
            self.close_entry();
        }
        self.next_closed(now)
    }

    /// Whether an entry is closed and not proposed.
    pub fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// The next entry that is closed, to be proposed as [`Shard::end_turn`] says. What came after
    /// [`Shard::close_entry`] is not in it.
    pub fn next_closed(&mut self, now: Now) -> Option<Entry> {
        let mut batch = self.closed.pop_front()?;
        self.random = mix(self.random);
        batch.spacing = Spacing::of(&batch.records);
        let next = match batch.spacing {
            Spacing::Next => self.clock.next(),
            // Whatever was given a timestamp before has another number.
            Spacing::Microsecond => {
                Timestamp::from_micros(self.clock.after_us()).later_by_us(batch.reserved)
            }
        };
        batch.ts = next.max(Timestamp::from_micros(now.wall_us));
        batch.now_ms = now.wall_ms();
        batch.seed = self.random;
        self.clock = batch.ts_of(batch.records.len());
        let (first, spacing) = (batch.ts, batch.spacing);
        for (index, record) in batch.records.iter_mut().enumerate() {
            self.announce(record, batch.targets[index], spacing.ts_of(first, index));
        }
        let records = std::mem::take(&mut batch.records);
        let entry = Entry { now_ms: batch.now_ms, ts: batch.ts, seed: batch.seed, records };
        self.stats.log_appends += 1;
        self.stats.log_records += entry.records.len() as u64;
        self.in_flight.push_back(batch);
        Some(entry)
    }

    /// Acts on a record that is about to be proposed, which gives it its timestamp. Transactions and units
    /// stand in the order of execution from now on; everything else happens when a record is committed.
    fn announce(&mut self, record: &mut LogRecord, target: Recipient, ts: Timestamp) {
        if let (LogRecord::Prepare(prepare), RecipientKind::Vote(txn)) = (&*record, target.kind)
            && self.txns.contains_key(&txn)
        {
            self.before_change(&prepare.apply.ops);
            self.state.announce(prepare.clone(), ts, &mut self.ahead);
        } else if let LogRecord::Propose(group) = record {
            self.announce_group(group, ts);
        } else if let LogRecord::Ordered { stream, link, .. } = record {
            if link.place == Timestamp::ZERO {
                link.place = ts;
            }
            self.has_place(*stream, *link);
        }
    }

    /// Gives back a proposed entry's records once they are encoded: the leader applies them from
    /// memory. Belongs to the last [`Shard::end_turn`].
    pub fn keep(&mut self, entry: Entry, encoded_bytes: usize) {
        self.stats.log_bytes += encoded_bytes as u64;
        let batch = self.in_flight.back_mut().expect("an entry was closed before");
        batch.records = entry.records;
    }

    /// Too many requests wait here: new transactions should come back later.
    fn is_busy(&self) -> bool {
        self.waiters.len() >= LOCK_WAITERS_BUSY
    }

    /// What the shard has counted, and its sizes now.
    pub fn stats(&self, now_us: u64) -> ShardStats {
        let mut stats = self.stats.clone();
        stats.keys = self.state.len() as u64;
        stats.keys_with_expiry = self.state.expiring() as u64;
        stats.waiting = self.waiters.len() as u64;
        stats.prepared = self.state.prepared().len() as u64;
        stats.conflicts = self.contention.conflicts();
        stats.hot_keys = self.contention.hot_keys();
        stats.locks = self.lock_stats(now_us);
        stats
    }

    fn reply(&mut self, request: &Request, reply: Reply) {
        self.answer(request.gateway, request.token, Answer::Reply(reply));
    }
}
