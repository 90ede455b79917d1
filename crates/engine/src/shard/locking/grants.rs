//! Granting: which requests go ahead, which wait, and in which order waiting ones are admitted.

use super::locks::{Barrier, Claim, Class, WaiterId};
use crate::entry::{Apply, LogRecord};
use crate::ids::{Age, GatewayId, Token, TxnId};
use crate::limits::{LOCK_WAITERS_MAX, UNITS_STUCK_US, WANTED_AFTER_US};
use crate::message::{Answer, Body, Guard, Notice, Refusal, Request, Version};
use crate::now::Now;
use crate::shard::state::requests::Known;
use crate::shard::streams::{RECOVERY, claim_class, is_own};
use crate::shard::{OpenTxn, Recipient, RecipientKind, Shard, Waiter};
use adt::key::KeyOp;
use adt::record;
use adt::{Blob, Op, Reply, Timestamp};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeSet;

/// What is asked of which records.
pub(in crate::shard) type Claims = SmallVec<[(Blob, Claim); 1]>;

/// What a request asks of which records.
pub(in crate::shard) fn claims_of(body: &Body) -> Claims {
    let early = Class::Early { observed: true };
    let guards = |apply: &Apply, class| {
        let guard = move |guard: &Guard| {
            // That a key stayed absent is judged here and now, behind what is on its way.
            let class = if guard.is_absence() { early } else { class };
            (guard.key.clone(), Claim::new(Op::Key(KeyOp::Fetch), class))
        };
        apply.guards.iter().map(guard).collect::<Claims>()
    };
    let ops = |apply: &Apply, class| {
        let claim = move |(key, op): &(Blob, Op)| (key.clone(), Claim::new(op.clone(), class));
        apply.ops.iter().map(claim).collect::<Claims>()
    };
    match body {
        Body::Read { key, op, .. } => {
            smallvec![(key.clone(), Claim::new(op.clone(), Class::Passing))]
        }
        Body::Version { key } => {
            smallvec![(key.clone(), Claim::new(Op::Key(KeyOp::Fetch), Class::Passing))]
        }
        Body::Snapshot { ops, .. } => {
            ops.iter().map(|(k, op)| (k.clone(), Claim::new(op.clone(), Class::Passing))).collect()
        }
        // Writes whose replies come with the commit are locked together, to see whether all are possible.
        Body::Lock { key, op, own, observed, .. } => {
            let observed = *observed || !op.is_write();
            let claim = |op: &Op| (key.clone(), Claim::new(op.clone(), Class::Early { observed }));
            let own = own.iter().filter(|_| !observed);
            own.chain([op]).map(claim).collect()
        }
        Body::Apply(apply) | Body::Await { apply, .. } => {
            let mut claims = ops(apply, Class::Apply);
            claims.extend(guards(apply, Class::Passing));
            claims
        }
        Body::Prepare { prepare, .. } if prepare.participants.len() == 1 => {
            let mut claims = ops(&prepare.apply, Class::Apply);
            claims.extend(guards(&prepare.apply, Class::Passing));
            claims
        }
        Body::Pipeline(group) => {
            let class = claim_class(group);
            let claim = |(key, op): &(Blob, Op)| (key.clone(), Claim::new(op.clone(), class));
            group.ops().map(claim).collect()
        }
        Body::Prepare { prepare, .. } => {
            let mut claims = ops(&prepare.apply, Class::Prepared);
            claims.extend(guards(&prepare.apply, early));
            claims
        }
        _ => Claims::new(),
    }
}

/// Whether a request that is granted changes records.
fn writes(body: &Body) -> bool {
    matches!(body, Body::Apply(_) | Body::Await { .. } | Body::Prepare { .. } | Body::Pipeline(_))
}

fn txn_of(body: &Body) -> Option<TxnId> {
    match body {
        Body::Lock { txn, .. } => Some(*txn),
        Body::Prepare { prepare, .. } => Some(prepare.txn),
        _ => None,
    }
}

impl Shard {
    fn age_of(&self, now: Now, request: &Request) -> Age {
        if matches!(request.body, Body::Pipeline(_)) {
            // Others of its stream may hold up whatever this waits for, and cannot give way.
            return Age::OLDEST;
        }
        txn_of(&request.body).map_or(
            // No transaction has such an age, so that of two who wait for each other one is older.
            Age { began: Timestamp::from_micros(now.wall_us), gateway: GatewayId::LAST },
            |txn| txn.age,
        )
    }

    /// Operations whose only participant is this shard.
    pub(in crate::shard) fn admit_apply(&mut self, now: Now, request: Request) {
        let (Body::Apply(ref apply) | Body::Await { ref apply, .. }) = request.body else { return };
        if self.something_expired(now) {
            let keys: SmallVec<[Blob; 4]> = apply.ops.iter().map(|(key, _)| key.clone()).collect();
            for key in &keys {
                self.reap(now, key);
            }
        }
        let (Body::Apply(ref apply) | Body::Await { ref apply, .. }) = request.body else { return };
        let free = self.may_apply(now, &request);
        let judged_now = apply.guards.iter().any(Guard::is_absence);
        if free && !judged_now {
            let kind = RecipientKind::of_apply(&request.body);
            self.put_apply(now, request, kind);
        } else {
            self.begin_locking(now, request);
        }
    }

    /// Whether operations can go into the log at once, if what their guards say is judged there.
    pub(in crate::shard) fn may_apply(&self, now: Now, request: &Request) -> bool {
        let guarded = match &request.body {
            Body::Apply(apply) | Body::Await { apply, .. } => !apply.guards.is_empty(),
            _ => true,
        };
        self.core.locks.is_empty()
            || (self.txns.is_empty()
                && self.waiters.is_empty()
                && !self.streams.hold_records()
                && !self.keeps_for_waiters())
            || (!guarded && !self.apply_barred(now, request))
    }

    fn apply_barred(&self, now: Now, request: &Request) -> bool {
        let age = (self.age_of(now, request), self.next_waiter);
        claims_of(&request.body).iter().any(|(key, claim)| {
            let record = self.core.state.get(key);
            self.core.locks.barrier(key, claim, None, Some(age), record).is_some()
        })
    }

    fn put_apply(&mut self, now: Now, request: Request, kind: RecipientKind) {
        let (gateway, token) = (request.gateway, request.token);
        let mut apply = match request.body {
            Body::Apply(apply) | Body::Await { apply, .. } => apply,
            Body::Prepare { prepare, .. } => prepare.apply,
            // They bring no operations for the log.
            Body::Read { .. }
            | Body::Snapshot { .. }
            | Body::Lock { .. }
            | Body::Decide { .. }
            | Body::Inquire { .. }
            | Body::Cancel { .. }
            | Body::Release { .. }
            | Body::ProbeAck { .. }
            | Body::Version { .. }
            | Body::Block { .. }
            | Body::Waiting { .. }
            | Body::Holders { .. }
            | Body::Waits { .. }
            | Body::EndCircle { .. }
            | Body::Unblock
            | Body::Scan { .. }
            | Body::Keys { .. }
            | Body::Count
            | Body::RandomKey
            | Body::Flush
            | Body::Resolve(_)
            | Body::Remember(_)
            | Body::Pipeline(_)
            | Body::EndStream { .. }
            | Body::Stats
            | Body::Transfer { .. }
            | Body::KeysInSlot { .. }
            | Body::Coordinate(_)
            | Body::Cut { .. } => return,
        };
        // A transaction over several shards under the same number is not decided.
        let open = apply.request.as_ref().and_then(|id| self.open_requests.get(id));
        let open = open.is_some_and(|txn| *txn != TxnId::default());
        if open && kind == RecipientKind::Replies {
            return self.core.answer(gateway, token, Answer::Refused(Refusal::UnderWay));
        }
        for guard in &mut apply.guards {
            self.core.state.renew_guard(guard, &self.core.ahead);
            // Replicas know only whether there is a record now.
            if !self.core.state.stayed_absent(guard, &self.core.ahead) {
                guard.version = Version::NONE;
            }
        }
        let awaited = self.awaited(&apply);
        let keys = self.awaited_keys(&apply);
        let serving = if keys.is_empty() { None } else { self.will_serve(now, &apply, kind) };
        self.core.tail.reserve(&apply);
        self.core.log(LogRecord::Apply(apply), Recipient { gateway, token, kind });
        if kind == RecipientKind::Turn {
            self.turns.has_place(gateway, token);
        }
        self.let_in_behind(now, &awaited);
        if !keys.is_empty() {
            self.serve_behind(now, &keys, serving);
        }
    }

    /// A request that needs locks: granted at once, refused, or put into the queues.
    pub(in crate::shard) fn begin_locking(&mut self, now: Now, request: Request) {
        self.core.track(now);
        if let Some(txn) = txn_of(&request.body) {
            let known = self.txns.contains_key(&txn);
            if !known && self.is_busy() && !matches!(request.body, Body::Prepare { .. }) {
                self.core.stats.refused += 1;
                return self.core.answer(
                    request.gateway,
                    request.token,
                    Answer::Refused(Refusal::Busy),
                );
            }
            let gateway = request.gateway;
            let entry =
                self.txns.entry(txn).or_insert_with(|| OpenTxn { gateway, ..OpenTxn::default() });
            entry.touched_us = now.mono_us;
        }
        self.reap_before_lock(now, &request);
        let age = self.age_of(now, &request);
        let claims = claims_of(&request.body);
        if self.waits_for_places(&request.body, &claims) {
            return self.hold_newcomer(request);
        }
        let txn = txn_of(&request.body);
        let queue_from = Some((age, self.next_waiter));
        let barrier = claims.iter().find_map(|(key, claim)| {
            let record = self.core.state.get(key);
            self.core.locks.barrier(key, claim, txn, queue_from, record)
        });
        match barrier {
            None => {
                self.core.stats.granted += 1;
                self.grant(now, request, claims);
            }
            Some(barrier) => self.wait_or_refuse(now, request, claims, barrier),
        }
    }

    fn reap_before_lock(&mut self, now: Now, request: &Request) {
        if !self.something_expired(now) {
            return;
        }
        for (key, _) in claims_of(&request.body) {
            // The removal is in the log before this request and conflicts with it, so that the
            // request waits for it in the ordinary way.
            self.reap(now, &key);
        }
    }

    fn wait_or_refuse(&mut self, now: Now, request: Request, claims: Claims, barrier: Barrier) {
        let interactive = matches!(request.body, Body::Lock { .. });
        let no_wait = !self.core.config.concurrency.waits_for_locks() && interactive;
        if no_wait && barrier != Barrier::InFlight {
            self.count_conflict(&request, &claims);
            self.core.stats.refused += 1;
            let refused = Answer::Refused(Refusal::Conflict);
            return self.core.answer(request.gateway, request.token, refused);
        }
        // There are no more requests of the shard itself than streams.
        if self.waiters.len() >= LOCK_WAITERS_MAX && !is_own(&request.body) {
            self.core.stats.refused += 1;
            let refused = Answer::Refused(Refusal::Busy);
            let (gateway, token) = (request.gateway, request.token);
            return self.turn_taken(
                now,
                Recipient { gateway, token, kind: RecipientKind::Turn },
                refused,
            );
        }
        self.count_conflict(&request, &claims);
        self.enqueue(now, request, claims);
    }

    /// Puts a request into the queues of all its records.
    pub(in crate::shard) fn enqueue(&mut self, now: Now, request: Request, claims: Claims) {
        let id = self.next_waiter;
        self.next_waiter += 1;
        self.core.stats.waited += 1;
        let age = self.age_of(now, &request);
        for (key, claim) in &claims {
            self.core.locks.enqueue(key, age, id, claim.clone());
        }
        let (gateway, token) = (request.gateway, request.token);
        if let Some(txn) = txn_of(&request.body) {
            if let Some(entry) = self.txns.get_mut(&txn) {
                entry.waiters.push(id);
            }
            self.core.notice(gateway, token, Notice::Blocked { txn });
        }
        self.waiters.insert(id, Box::new(Waiter { age, since_us: now.mono_us, claims, request }));
        self.wound_for(id);
    }

    /// Lets younger holders that the waiter is blocked by know that they should give way.
    pub(in crate::shard) fn wound_for(&mut self, id: WaiterId) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        let (age, own) = (waiter.age, txn_of(&waiter.request.body));
        let mut hints: Vec<TxnId> = Vec::new();
        let mut seen = BTreeSet::new();
        for (key, claim) in &waiter.claims {
            let record = self.core.state.get(key);
            for (txn, _) in self.core.locks.holders_against(key, claim, own, record) {
                hints.push(txn);
                let decided = |holder: &OpenTxn| holder.decided.is_some();
                if self.txns.get(&txn).map_or_else(|| self.core.state.is_unit(txn), decided) {
                    // It is committed; those that must be carried out before it are not.
                    hints.extend(self.core.state.awaited_by(txn, &mut seen));
                }
            }
        }
        hints.retain(|txn| {
            let told = self.wounded.get(txn).is_some_and(|by| !txn.is_lease() || *by <= age);
            (txn.age > age || txn.is_lease()) && Some(*txn) != own && !told
        });
        for txn in hints {
            self.wound(txn, age);
        }
    }

    pub(in crate::shard) fn wound(&mut self, txn: TxnId, by: Age) {
        let Some(holder) = self.txns.get(&txn) else { return };
        let idle_us = self.core.state.mono_us().saturating_sub(holder.touched_us);
        let gateway = holder.gateway;
        self.wounded.insert(txn, by);
        self.core.stats.wounds += 1;
        self.core.notice(gateway, Token::default(), Notice::Wound { txn, idle_us, by });
    }

    /// Transactions that hold what others have waited for are told so, as long as these wait.
    pub(in crate::shard) fn tell_wanted(&mut self, now: Now) {
        if self.waiters.is_empty() {
            return;
        }
        let long = |waiter: WaiterId| {
            let waiter = self.waiters.get(&waiter);
            waiter.is_some_and(|waiter| now.mono_us >= waiter.since_us + WANTED_AFTER_US)
        };
        let wanted =
            |txn: &OpenTxn| txn.keys.iter().any(|key| self.core.locks.first(key).is_some_and(long));
        let holders = self.txns.iter().filter(|(_, txn)| !txn.prepared && wanted(txn));
        let holders: Vec<_> = holders.map(|(id, txn)| (txn.gateway, *id)).collect();
        for (gateway, txn) in holders {
            self.core.notice(gateway, Token::default(), Notice::Wanted { txn });
        }
    }

    /// Who holds a record: how many wait, for how many milliseconds the first, and the transactions.
    pub(in crate::shard) fn told_holders(&self, now: Now, key: &Blob) -> Reply {
        let queue = self.core.locks.queue(key);
        let first = queue.first().and_then(|waiter| self.waiters.get(waiter));
        let waited_us = first.map_or(0, |waiter| now.mono_us.saturating_sub(waiter.since_us));
        let names = self.core.locks.holders(key).map(|txn| Reply::bulk(txn.to_string()));
        Reply::Array(vec![
            Reply::Int(queue.len() as i64),
            Reply::Int((waited_us / 1000) as i64),
            Reply::Array(names.collect()),
        ])
    }

    /// Transactions that have waited long for units of pipelines are refused: what the units wait for, at
    /// other shards, may wait for these transactions.
    pub(in crate::shard) fn refuse_stuck(&mut self, now: Now) {
        if !self.streams.hold_records() {
            return;
        }
        let stuck: Vec<WaiterId> = self
            .waiters
            .iter()
            .filter(|(_, w)| txn_of(&w.request.body).is_some())
            .filter(|(_, w)| now.mono_us >= w.since_us + UNITS_STUCK_US && self.waits_for_units(w))
            .map(|(id, _)| *id)
            .collect();
        for id in stuck {
            let Some(waiter) = self.waiters.remove(&id) else { continue };
            self.leave_queues(id, &waiter);
            if let Some(entry) = txn_of(&waiter.request.body).and_then(|t| self.txns.get_mut(&t)) {
                entry.waiters.retain(|waiting| *waiting != id);
            }
            self.core.stats.refused += 1;
            let refused = Answer::Refused(Refusal::Conflict);
            self.core.answer(waiter.request.gateway, waiter.request.token, refused);
        }
    }

    /// Whether a waiting request waits for units of pipelines.
    pub(in crate::shard) fn waits_for_units(&self, waiter: &Waiter) -> bool {
        waiter.claims.iter().any(|(key, claim)| {
            let record = self.core.state.get(key);
            let own = txn_of(&waiter.request.body);
            let mut holders = self.core.locks.holders_against(key, claim, own, record);
            holders.any(|(txn, _)| txn == RECOVERY || self.core.state.is_unit(txn))
        })
    }

    fn count_conflict(&mut self, request: &Request, claims: &Claims) {
        let own = txn_of(&request.body);
        for (key, claim) in claims {
            let record = self.core.state.get(key);
            let held = self.core.locks.holders_against(key, claim, own, record).next();
            if let Some((_, held)) = held {
                let names = (held.mode_name(), claim.mode_name());
                self.contention.waits(names.0, names.1);
                return;
            }
        }
    }

    /// Carries out a request whose claims are free.
    fn grant(&mut self, now: Now, request: Request, claims: Claims) {
        match request.body {
            Body::Lock { .. } => self.grant_lock(now, request, claims),
            Body::Prepare { .. } => self.grant_prepare(now, request, claims),
            Body::Pipeline(_) => self.grant_group(now, request, claims),
            Body::Apply(_) | Body::Await { .. } => {
                let kind = RecipientKind::of_apply(&request.body);
                self.put_apply(now, request, kind);
            }
            Body::Read { .. } => self.read(now, request),
            Body::Snapshot { .. } => self.snapshot_read(now, request),
            Body::Version { .. } => self.look(now, request),
            // They claim nothing.
            Body::Decide { .. }
            | Body::Inquire { .. }
            | Body::Cancel { .. }
            | Body::Release { .. }
            | Body::ProbeAck { .. }
            | Body::Block { .. }
            | Body::Waiting { .. }
            | Body::Holders { .. }
            | Body::Waits { .. }
            | Body::EndCircle { .. }
            | Body::Unblock
            | Body::Scan { .. }
            | Body::Keys { .. }
            | Body::Count
            | Body::RandomKey
            | Body::Flush
            | Body::Resolve(_)
            | Body::Remember(_)
            | Body::EndStream { .. }
            | Body::Stats
            | Body::Transfer { .. }
            | Body::KeysInSlot { .. }
            | Body::Coordinate(_)
            | Body::Cut { .. } => {}
        }
    }

    pub(in crate::shard) fn hold(&mut self, txn: TxnId, key: &Blob, claim: Claim) {
        self.core.locks.hold(key, txn, claim);
        if let Some(entry) = self.txns.get_mut(&txn)
            && !entry.keys.contains(key)
        {
            entry.keys.push(key.clone());
        }
    }

    fn grant_lock(&mut self, now: Now, request: Request, claims: Claims) {
        let Body::Lock { txn, key, op, own, observed } = request.body else { return };
        for (key, claim) in claims {
            self.hold(txn, &key, claim);
        }
        if txn.is_lease() {
            // The oldest of those who wait for it counts, though they are younger than the lease.
            for waiter in self.core.locks.queue(&key) {
                self.wound_for(waiter);
                if self.wounded.contains_key(&txn) {
                    break;
                }
            }
        }
        let reply = if op.is_write() && !observed {
            self.check_early(now, &key, own.iter().chain([&op]))
        } else {
            self.answer_early(now, &key, &op, &own)
        };
        let clock = self.core.clock.max(Timestamp::from_micros(now.wall_us));
        self.core.clock = clock;
        self.core.answer(request.gateway, request.token, Answer::Locked { reply, clock });
    }

    /// The reply of `op` on the committed state with the transaction's own writes on top.
    fn answer_early(&mut self, now: Now, key: &Blob, op: &Op, own: &[Op]) -> Reply {
        let ctx = self.core.ctx(now);
        let committed = self.core.state.get(key);
        if own.is_empty() && !op.is_write() {
            return record::query(committed, op, &ctx);
        }
        let mut scratch = committed.cloned();
        for earlier in own {
            record::apply(&mut scratch, earlier, &ctx);
        }
        record::apply(&mut scratch, op, &ctx)
    }

    /// Whether writes are all possible on the committed state: `QUEUED`, or the first error.
    fn check_early<'a>(
        &mut self,
        now: Now,
        key: &Blob,
        writes: impl Iterator<Item = &'a Op>,
    ) -> Reply {
        let ctx = self.core.ctx(now);
        let mut scratch = self.core.state.get(key).cloned();
        let mut replies = writes.map(|op| record::apply(&mut scratch, op, &ctx));
        replies.find(Reply::is_error).unwrap_or(Reply::Status("QUEUED"))
    }

    fn grant_prepare(&mut self, now: Now, mut request: Request, claims: Claims) {
        let (gateway, token) = (request.gateway, request.token);
        let Body::Prepare { ref mut prepare, floor } = request.body else { return };
        prepare
            .apply
            .guards
            .iter_mut()
            .for_each(|guard| self.core.state.renew_guard(guard, &self.core.ahead));
        let txn = prepare.txn;
        if self.core.state.is_void(txn) || self.voiding.contains(&txn) {
            // Somebody has given it up already.
            self.core.answer(gateway, token, Answer::Refused(Refusal::LocksLost));
            return self.end_txn(txn);
        }
        self.core.move_clock(floor);
        let open = prepare.apply.request.as_ref().and_then(|id| self.open_requests.get(id));
        if open.is_some_and(|open| *open != txn) {
            self.core.answer(gateway, token, Answer::Refused(Refusal::UnderWay));
            return self.end_txn(txn);
        }
        if prepare.participants.len() == 1 {
            if let Some(entry) = self.txns.get_mut(&txn) {
                entry.committing = true;
            }
            return self.put_apply(now, request, RecipientKind::Commit(txn));
        }
        if let Some(id) = &prepare.apply.request {
            let answer = self.core.state.requests().get(id).map(|known| match known {
                Known::TookEffect(outcome) => {
                    let (replies, whole) = outcome.clone().told();
                    Answer::TookEffect { ts: outcome.ts, replies, whole }
                }
                Known::Void => Answer::Voided,
                Known::Forgotten => Answer::Forgotten,
            });
            if let Some(answer) = answer {
                self.core.stats.duplicates += 1;
                self.core.answer(gateway, token, answer);
                return self.end_txn(txn);
            }
            self.open_requests.insert(id.clone(), txn);
            if let Some(entry) = self.txns.get_mut(&txn) {
                entry.request = Some(id.clone());
            }
        }
        let guards = &prepare.apply.guards;
        let stayed =
            guards.iter().all(|guard| self.core.state.stayed_absent(guard, &self.core.ahead));
        if !stayed || !self.core.state.guards_hold(&prepare.apply) {
            self.core.stats.guard_failures += 1;
            self.core.answer(gateway, token, Answer::GuardFailed);
            return self.end_txn(txn);
        }
        let probes = self.probe_conflicts(txn, &claims);
        for (key, claim) in claims {
            self.hold(txn, &key, claim);
        }
        let Body::Prepare { prepare, .. } = request.body else { return };
        let target = Recipient { gateway, token, kind: RecipientKind::Vote(txn) };
        if let Some(entry) = self.txns.get_mut(&txn) {
            entry.touched_us = now.mono_us;
            entry.probes = probes;
            entry.unlogged = Some((prepare, target));
        }
        self.log_prepare_if_ready(txn);
    }

    /// Logs the prepare once everything that is decided before it is known to be (the record's
    /// timestamp is taken from the clock then).
    fn log_prepare_if_ready(&mut self, txn: TxnId) {
        let Some(entry) = self.txns.get_mut(&txn) else { return };
        if entry.probes.is_empty()
            && let Some((mut prepare, target)) = entry.unlogged.take()
        {
            entry.prepared = true;
            let guards = &mut prepare.apply.guards;
            for key in &entry.keys {
                // What its program was told of a record must hold until the commit under the next leader
                // as well, which knows only of locks that follow from this record.
                if self.core.locks.is_told(key, txn) && guards.iter().all(|guard| guard.key != *key)
                {
                    guards.push(Guard {
                        key: key.clone(),
                        version: self.core.state.version(key, &self.core.ahead),
                    });
                }
            }
            self.core.log(LogRecord::Prepare(prepare), target);
        }
    }

    /// `txn` is decided, or was certainly undecided when a prepare that hangs on it was asked for.
    pub(in crate::shard) fn probe_answered(&mut self, txn: TxnId) {
        let waiting: Vec<TxnId> = self.probing.remove(&txn).into_iter().flatten().collect();
        for id in waiting {
            if let Some(entry) = self.txns.get_mut(&id) {
                entry.probes.remove(&txn);
            } else {
                self.group_probe_answered(id, txn);
            }
            self.log_prepare_if_ready(id);
        }
    }

    /// A transaction is over here: it holds nothing and waits for nothing any more.
    pub(in crate::shard) fn end_txn(&mut self, txn: TxnId) {
        self.leave_whole(txn);
        let Some(entry) = self.txns.swap_remove(&txn) else { return };
        self.wounded.remove(&txn);
        if let Some(request) = entry.request
            && self.open_requests.get(&request) == Some(&txn)
        {
            self.close_request(&request);
        }
        for id in entry.waiters {
            if let Some(waiter) = self.waiters.remove(&id) {
                self.leave_queues(id, &waiter);
            }
        }
        for key in entry.keys {
            self.core.locks.release(&key, txn);
        }
        self.probe_answered(txn);
    }

    pub(in crate::shard) fn leave_queues(&mut self, id: WaiterId, waiter: &Waiter) {
        for (key, _) in &waiter.claims {
            // A request may ask several things of one record.
            if self.core.locks.dequeue(key, id) {
                // Whoever stood behind may go now.
                self.core.locks.mark(key.clone());
            }
        }
    }

    /// Admits whoever can go after the changes of this call.
    pub(in crate::shard) fn settle(&mut self, now: Now) {
        loop {
            while let Some(key) = self.core.locks.take_marked() {
                self.begin_phase(now, &key);
            }
            let went = !self.behind.is_empty() && self.let_followers_go(now);
            let resumed = self.go_on_behind_whole(now);
            if !self.advance_next(now) && !went && !resumed && !self.recover_next(now) {
                break;
            }
        }
        self.look_at_turns(now);
        self.go_on_with_cut(now);
    }

    /// If the oldest waiter of `key` can go, a phase begins: it goes, and with it everybody who is
    /// compatible with those admitted before.
    fn begin_phase(&mut self, now: Now, key: &Blob) {
        let Some(first) = self.core.locks.first(key) else { return };
        if self.admit(now, first, key, true) {
            self.core.stats.phases += 1;
            for waiter in self.core.locks.queue(key) {
                self.admit(now, waiter, key, true);
            }
        } else {
            for waiter in self.core.locks.queue(key) {
                let Some(waiting) = self.waiters.get(&waiter) else { continue };
                match waiting.request.body {
                    // Reads that take no lock never bar anybody, so they need not wait for their turn.
                    Body::Read { .. } | Body::Snapshot { .. } | Body::Version { .. } => {
                        self.admit(now, waiter, key, true);
                    }
                    // What waits in front may wait for other records, and need not be waited for.
                    Body::Prepare { .. } | Body::Pipeline(_) => {
                        self.admit(now, waiter, key, false);
                    }
                    // They wait for their turn, or do not stand in these queues.
                    Body::Apply(_)
                    | Body::Lock { .. }
                    | Body::Decide { .. }
                    | Body::Inquire { .. }
                    | Body::Cancel { .. }
                    | Body::Release { .. }
                    | Body::ProbeAck { .. }
                    | Body::Block { .. }
                    | Body::Await { .. }
                    | Body::Waiting { .. }
                    | Body::Holders { .. }
                    | Body::Waits { .. }
                    | Body::EndCircle { .. }
                    | Body::Unblock
                    | Body::Scan { .. }
                    | Body::Keys { .. }
                    | Body::Count
                    | Body::RandomKey
                    | Body::Flush
                    | Body::Resolve(_)
                    | Body::Remember(_)
                    | Body::EndStream { .. }
                    | Body::Stats
                    | Body::Transfer { .. }
                    | Body::KeysInSlot { .. }
                    | Body::Coordinate(_)
                    | Body::Cut { .. } => {}
                }
            }
        }
        if let Some(first) = self.core.locks.first(key) {
            self.wound_for(first);
        }
    }

    /// Lets a waiter go, if it can; in a phase of `hot` nobody who waits for that record stands before it.
    fn admit(&mut self, now: Now, id: WaiterId, hot: &Blob, phase: bool) -> bool {
        let Some(waiter) = self.waiters.get(&id) else { return false };
        if self.is_frozen() && writes(&waiter.request.body) {
            return false;
        }
        let txn = txn_of(&waiter.request.body);
        let barred = waiter.claims.iter().any(|(key, claim)| {
            let record = self.core.state.get(key);
            let place = (waiter.age, id);
            // A phase of one record lets nobody jump the queues of others.
            let queue_from = (!phase || key != hot).then_some(place);
            self.core.locks.barrier(key, claim, txn, queue_from, record).is_some()
                || self.core.locks.overtakes(key, claim, place, record)
        });
        if barred {
            return false;
        }
        let Some(waiter) = self.waiters.remove(&id) else { return false };
        let waited_us = now.mono_us.saturating_sub(waiter.since_us);
        self.core.stats.waited_us += waited_us;
        self.contention.waited(hot, waited_us);
        for (key, _) in &waiter.claims {
            if self.core.locks.dequeue(key, id)
                && key != hot
                && self.core.locks.first(key).is_some()
            {
                self.core.locks.mark(key.clone());
            }
        }
        if let Some(entry) = txn.and_then(|txn| self.txns.get_mut(&txn)) {
            entry.waiters.retain(|waiter| *waiter != id);
            entry.touched_us = now.mono_us;
        }
        self.grant(now, waiter.request, waiter.claims);
        true
    }

    /// Whom to ask whether a prepared transaction that matters to this one is decided already.
    pub(in crate::shard) fn probe_conflicts(
        &mut self,
        txn: TxnId,
        claims: &[(Blob, Claim)],
    ) -> BTreeSet<TxnId> {
        let mut open = BTreeSet::new();
        for (key, claim) in claims {
            let record = self.core.state.get(key);
            open.extend(self.core.locks.prepared_conflicts(key, claim, txn, record).filter(
                |other| self.txns.get(other).is_some_and(|t| t.prepared && t.decided.is_none()),
            ));
        }
        for other in &open {
            let gateway = self.txns.get(other).map_or(GatewayId::default(), |t| t.gateway);
            self.probing.entry(*other).or_default().push(txn);
            let notice = Notice::Probe { txn: *other, shard: self.core.config.id };
            self.core.notice(gateway, Token::default(), notice);
        }
        open
    }
}
