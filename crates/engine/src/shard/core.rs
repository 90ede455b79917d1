//! State and outputs that all parts of a shard work with.
//!
//! A part owns what only it changes; its methods take `core: &mut ShardCore` besides.

use crate::entry::{Apply, LogRecord};
use crate::ids::{GatewayId, KeyedOp, Token};
use crate::message::{Answer, Body, Condition, Guard, Notice, Request, Version};
use crate::now::Now;
use crate::shard::ahead::AheadOfLog;
use crate::shard::config::{Rule, ShardConfig};
use crate::shard::delayed::Delayed;
use crate::shard::foreseen::{Effects, Foreseen};
use crate::shard::locking::locks::LockTable;
use crate::shard::outbox::Outbox;
use crate::shard::state::recent::Recent;
use crate::shard::state::{ApplyOutcome, State};
use crate::shard::tail::{LogTail, Recipient, RecipientKind};
use crate::shard::transfer::snapshot::Writers;
use crate::stats::ShardStats;
use adt::random::mix;
use adt::{Blob, Ctx, ErrorReply, Reply, Timestamp};
use smallvec::SmallVec;

/// State and outputs that all parts of a shard work with.
#[derive(Debug)]
pub(in crate::shard) struct ShardCore {
    pub config: ShardConfig,
    /// The replicated state.
    pub state: State,
    /// Knowledge of the leader about the state beyond the log.
    pub ahead: AheadOfLog,
    pub clock: Timestamp,
    /// Last random number.
    random: u64,
    pub locks: LockTable,
    pub tail: LogTail,
    pub foreseen: Foreseen,
    /// Last entry with a record that changes records without naming them.
    blind_until: u64,
    /// Snapshots in the making.
    pub writers: Writers,
    /// In a cluster: when keys changed last.
    pub recent: Option<Recent>,
    /// Requests that wait for the log or for their session.
    pub delayed: Delayed,
    /// The shard stands still, for a backup: nothing that changes data goes ahead.
    pub frozen: bool,
    pub outbox: Outbox,
    pub stats: ShardStats,
}

impl ShardCore {
    pub fn new(config: ShardConfig, state: State, clock: Timestamp) -> Self {
        Self {
            state,
            ahead: AheadOfLog::default(),
            clock,
            random: mix(config.seed ^ u64::from(config.id.0)),
            locks: LockTable::new(config.concurrency),
            tail: LogTail::new(),
            foreseen: Foreseen::default(),
            blind_until: 0,
            writers: Writers::default(),
            recent: config.clustered.then(Recent::default),
            delayed: Delayed::default(),
            frozen: false,
            outbox: Outbox::default(),
            stats: ShardStats::default(),
            config,
        }
    }

    /// Gives an answer to a gateway.
    pub fn answer(&mut self, gateway: GatewayId, token: Token, answer: Answer) {
        self.outbox.answer(gateway, token, answer);
    }

    pub fn notice(&mut self, gateway: GatewayId, token: Token, notice: Notice) {
        self.outbox.notice(gateway, token, notice);
    }

    pub fn reply(&mut self, request: &Request, reply: Reply) {
        self.answer(request.gateway, request.token, Answer::Reply(reply));
    }

    /// Answers that nothing of a request has happened here.
    pub fn turn_away(&mut self, gateway: GatewayId, token: Token, body: Body) {
        self.outbox.turn_away(gateway, token, body);
    }

    /// Delays a request until everything that is logged now is applied.
    pub fn delay(&mut self, request: Request) {
        self.delayed.until_applied(self.tail.newest(), request);
    }

    /// Delays a read until everything in the log is applied, which has the removal of what had expired.
    pub fn delay_reaped(&mut self, request: Request) {
        self.delayed.until_reaped(self.tail.newest(), request);
    }

    pub fn move_clock(&mut self, to: Timestamp) {
        self.clock = self.clock.max(to);
    }

    /// The next random number.
    pub fn draw(&mut self) -> u64 {
        self.random = mix(self.random);
        self.random
    }

    /// The last random number, and a step to another one that costs less than [`ShardCore::draw`].
    pub fn step_random(&mut self) -> u64 {
        let last = self.random;
        self.random = last.wrapping_add(0x9e37_79b9_7f4a_7c15);
        last
    }

    /// The last random number.
    pub fn random(&self) -> u64 {
        self.random
    }

    /// Time and a random number for an operation that the log does not give them.
    pub fn ctx(&mut self, now: Now) -> Ctx {
        Ctx { now_ms: now.wall_ms(), ts: self.clock, seed: self.draw() }
    }

    /// Whether a gateway is in this process, in this life of the machine.
    pub fn is_near(&self, gateway: GatewayId) -> bool {
        let beside = self.config.beside;
        (gateway.machine, gateway.life) == (beside.machine, beside.life)
    }

    /// Whether this shard breaks a rule on purpose.
    pub fn breaks(&self, rule: Rule) -> bool {
        self.config.broken == Some(rule)
    }

    /// Puts operations into the entry of this turn whose effects on records are known.
    pub fn log_foreseen(&mut self, apply: Apply, target: Recipient, effects: Effects) {
        let Effects { records, now_ms } = effects;
        let record = LogRecord::Apply(apply);
        self.forget_foreseen(&record);
        self.tail.fix_time(now_ms);
        self.tail.push(record, target, self.state.mono_us(), &mut self.locks);
        for (key, record, kept_until_us) in records {
            self.locks.put_foreseen(key, record, kept_until_us);
        }
    }

    /// Puts a record into the entry of this turn.
    pub fn log(&mut self, record: LogRecord, target: Recipient) {
        self.forget_foreseen(&record);
        self.foresee(&record);
        self.tail.push(record, target, self.state.mono_us(), &mut self.locks);
    }

    /// Foresees records for which transactions wait, behind a record that goes into the log.
    fn foresee(&mut self, record: &LogRecord) {
        let Self { config, locks, tail, state, .. } = self;
        let may_begin = tail.is_tracked() && locks.in_use() && config.concurrency.reads_ahead();
        if !may_begin && !locks.foresees() {
            return;
        }
        let (certain, blind) = match record {
            LogRecord::Apply(apply) => {
                (apply.is_certain(), apply.ops.iter().any(|(_, op)| op.whole().is_some()))
            }
            LogRecord::Flush(_) | LogRecord::Split { .. } => (false, true),
            _ => (false, false),
        };
        if blind {
            locks.forget_foreseen(None);
            self.blind_until = tail.coming();
        }
        // Keys for which requests wait, and of which a write before this one cannot be foreseen.
        let mut unforeseen: SmallVec<[&Blob; 4]> = SmallVec::new();
        for (key, op) in record.ops().iter().filter(|(_, op)| op.is_write()) {
            if !certain || blind || !tail.is_tracked() {
                locks.forget_foreseen(Some(key));
            } else if (locks.foreseen(key).is_some() || tail.applied() >= self.blind_until)
                && !unforeseen.contains(&key)
                && !locks.foresee(key, op, state.get(key))
            {
                unforeseen.push(key);
            }
        }
    }

    /// Drops predictions that a record makes obsolete by changing what they are about.
    fn forget_foreseen(&mut self, record: &LogRecord) {
        if self.foreseen.is_empty() {
            return;
        }
        match record {
            LogRecord::Apply(apply) => {
                apply.ops.iter().filter(|(_, op)| op.is_write()).for_each(|(key, op)| {
                    self.foreseen.swap_remove(key);
                    if op.whole().is_some() {
                        self.foreseen.clear();
                    }
                });
            }
            _ => self.foreseen.clear(),
        }
    }

    /// Notes operations in the lock table from now on, those on their way included.
    pub fn track(&mut self, now: Now) {
        self.tail.track(now, &mut self.locks);
    }

    /// Copies records that are about to change into the snapshots in the making.
    pub fn before_change(&mut self, ops: &[KeyedOp]) {
        self.writers.keep(&self.state, ops);
    }

    /// Makes guards that name an earlier write name the last one, if nothing has changed in between. Whether
    /// a key stayed absent is judged here if `absence` says so: replicas know only whether there is a record.
    pub fn renew_guards(&self, guards: &mut [Guard], absence: bool) {
        for guard in guards {
            self.state.records().renew_guard(guard, &self.ahead);
            if absence && !self.state.records().stayed_absent(guard, &self.ahead) {
                guard.condition = Condition::Unchanged(Version::NONE);
            }
        }
    }

    /// Fails if a guard does not hold as far as the leader knows, with an error where its read is impossible.
    pub fn check_guards(&mut self, now: Now, apply: &Apply) -> Result<(), Option<ErrorReply>> {
        if apply.guards.is_empty() {
            return Ok(());
        }
        let ctx = self.ctx(now);
        let records = self.state.records();
        if !apply.guards.iter().all(|guard| records.stayed_absent(guard, &self.ahead)) {
            return Err(None);
        }
        records.check_guards(apply, &ctx)
    }

    /// Answer that an outcome of operations gives, and the counters about it.
    pub fn answer_of(
        &mut self,
        kind: RecipientKind,
        outcome: ApplyOutcome,
        ts: Timestamp,
    ) -> Answer {
        let commits = matches!(kind, RecipientKind::Commit(_));
        match outcome {
            ApplyOutcome::Done(replies) if commits => Answer::Committed { replies, ts },
            ApplyOutcome::Done(replies) => Answer::Replies(replies),
            ApplyOutcome::GuardFailed(error) => {
                self.stats.guard_failures += 1;
                Answer::GuardFailed(error)
            }
            ApplyOutcome::Fenced => {
                self.stats.guard_failures += 1;
                Answer::Fenced
            }
            ApplyOutcome::Repeated(outcome) => {
                self.stats.duplicates += 1;
                let (ts, dropped) = (outcome.ts, outcome.dropped.is_some());
                let (replies, whole) = outcome.told();
                if whole || dropped || commits {
                    Answer::TookEffect { ts, replies, whole }
                } else {
                    Answer::Repeated(replies.into())
                }
            }
            ApplyOutcome::Voided => Answer::Voided,
            ApplyOutcome::Forgotten => Answer::Forgotten,
        }
    }
}
