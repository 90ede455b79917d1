//! Requests that need locks, between the lock manager and the other parts of a shard.

use super::claims::{Claims, claims_of};
use super::locks::{Barrier, ClaimKind};
use crate::entry::{Apply, LogRecord};
use crate::ids::{GatewayId, Token, TxnId};
use crate::limits::LOOKS_MAX;
use crate::message::{Answer, Body, Guard, Refusal, Request};
use crate::now::Now;
use crate::shard::Desk;
use crate::shard::Shard;
use crate::shard::foreseen::Effects;
use crate::shard::locking::commits::FateAnswer;
use crate::shard::state::{ApplyOutcome, Executed};
use crate::shard::tail::{Recipient, RecipientKind};
use adt::{Blob, Reply, Timestamp};
use smallvec::SmallVec;

impl Shard {
    /// How often a transaction was told something before it was durable, since this replica leads.
    pub fn reads_ahead(&self) -> u64 {
        self.desk.locking.reads_ahead
    }
}

impl Desk {
    /// Admits operations whose only participant is this shard.
    pub(in crate::shard) fn admit_apply(&mut self, now: Now, request: Request) {
        let (Body::Apply(ref apply) | Body::Await { ref apply, .. }) = request.body else { return };
        self.expiry.reap_all(&mut self.core, now, apply.keys());
        let judged_now = apply.guards.iter().any(Guard::is_absence);
        if self.may_apply(now, &request) && !judged_now {
            self.put_alone(now, request);
        } else {
            self.begin_locking(now, request);
        }
    }

    /// Whether operations can go into the log at once, if their guards are judged there.
    pub(in crate::shard) fn may_apply(&self, now: Now, request: &Request) -> bool {
        let guarded = match &request.body {
            Body::Apply(apply) | Body::Await { apply, .. } => !apply.guards.is_empty(),
            _ => true,
        };
        let barred = || {
            let claims = claims_of(&request.body, &self.core.config.tags);
            self.locking.barrier(&self.core, now, request, &claims).is_some()
        };
        !self.core.locks.in_use() || (!guarded && !barred())
    }

    /// Logs operations that a request brings by themselves.
    pub(in crate::shard) fn put_alone(&mut self, now: Now, request: Request) {
        let sender = (request.gateway, request.token);
        let kind = RecipientKind::of_apply(&request.body);
        if let Body::Apply(apply) | Body::Await { apply, .. } = request.body {
            self.put_apply(now, sender, apply, (kind, None));
        }
    }

    /// Logs operations, and behind them the operations of other requests that they let go ahead.
    /// The records that they write may be known as they will be.
    pub(in crate::shard) fn put_apply(
        &mut self,
        now: Now,
        (gateway, token): (GatewayId, Token),
        mut apply: Apply,
        (kind, foreseen): (RecipientKind, Option<Effects>),
    ) {
        let under_way = self.locking.is_under_way(apply.request.as_ref());
        if under_way && kind == RecipientKind::Replies {
            return self.core.answer(gateway, token, Answer::Refused(Refusal::UnderWay));
        }
        self.core.renew_guards(&mut apply.guards, true);
        let awaited = self.waits.turns.awaited(&apply);
        let keys = self.waits.blocked.awaited_keys(&self.core, &apply);
        let commits = match kind {
            RecipientKind::Commit(txn) if apply.is_certain() => Some(txn),
            _ => None,
        };
        let serving = if keys.is_empty() {
            None
        } else {
            let units = self.streams.hold_records();
            self.waits.blocked.will_serve(&mut self.core, now, (&apply, kind), units)
        };
        self.core.tail.reserve(&apply);
        let target = Recipient { gateway, token, kind };
        match foreseen {
            Some(effects) => self.core.log_foreseen(apply, target, effects),
            None => self.core.log(LogRecord::Apply(apply), target),
        }
        if kind == RecipientKind::Turn {
            self.waits.turns.has_place(gateway, token);
        }
        self.let_in_behind(now, &awaited);
        if !keys.is_empty() {
            self.waits.blocked.serve_behind(&mut self.core, now, &keys, serving);
        }
        if let Some(txn) = commits.filter(|_| self.core.config.concurrency.reads_ahead()) {
            // Whatever comes from here on comes later in the log.
            self.locking.release_early(&mut self.core, txn);
        }
    }

    /// Grants a request the locks that it needs, refuses it, or puts it into the queues.
    pub(in crate::shard) fn begin_locking(&mut self, now: Now, request: Request) {
        self.core.track(now);
        if matches!(&request.body, Body::Lock { op, .. } if op.whole().is_some()) {
            return self.look_at_all(now, request);
        }
        if let Body::Prepare { prepare, .. } = &request.body
            && prepare.participants.len() > 1
        {
            let rests_on = self.locking.rests_on(prepare.txn);
            if rests_on > self.core.tail.applied() {
                // It would commit elsewhere what rests on a write that may be lost here.
                return self.core.delayed.until_applied(rests_on, request);
            }
        }
        if !self.locking.open(&mut self.core, now, &request) {
            return;
        }
        let claims = self.locking.new_claims(&self.core, &request.body);
        // A removal is in the log before this request and conflicts with it, so that the request waits for
        // it in the ordinary way.
        if !matches!(request.body, Body::Run(_)) {
            // A script sees to that itself, and does not wait.
            self.expiry.reap_all(&mut self.core, now, claims.iter().map(|(key, _)| key));
        }
        if self.streams.keeps_out(&self.core, &request.body, &claims) {
            return self.waits.newcomers.hold(request);
        }
        let Some(barrier) = self.locking.barrier(&self.core, now, &request, &claims) else {
            self.core.stats.granted += 1;
            return self.grant(now, request, claims);
        };
        self.wait_or_refuse(now, request, claims, barrier);
    }

    /// Answers a transaction that looks at all keys. It was let in alone, and no other one comes in.
    fn look_at_all(&mut self, now: Now, request: Request) {
        let Body::Lock { txn, .. } = &request.body else { return };
        if !self.locking.whole.is(*txn) {
            // It has ended while this request waited for the log.
            return;
        }
        if !self.locking.open(&mut self.core, now, &request) {
            return;
        }
        if self.core.tail.has_unapplied() {
            return self.core.delay(request);
        }
        let Body::Lock { op, .. } = &request.body else { return };
        let ctx = self.core.ctx(now);
        let records = self.core.state.records();
        let reply = op.whole().map_or(Reply::Nil, |whole| records.look_at_all(whole, &ctx));
        let clock = self.core.clock.max(Timestamp::from_micros(now.wall_us));
        self.core.clock = clock;
        let answer = Answer::Locked { reply, clock, rests_at: None };
        self.core.answer(request.gateway, request.token, answer);
    }

    fn wait_or_refuse(&mut self, now: Now, request: Request, claims: Claims, barrier: Barrier) {
        let refused = self.locking.wait_or_refuse(&mut self.core, now, request, claims, barrier);
        if let Some(Request { gateway, token, .. }) = refused {
            let target = Recipient { gateway, token, kind: RecipientKind::Turn };
            self.turn_taken(now, target, Answer::Refused(Refusal::Busy));
        }
    }

    /// Carries out a request whose claims are free.
    fn grant(&mut self, now: Now, request: Request, claims: Claims) {
        match request.body {
            Body::Lock { .. } => self.locking.grant_lock(&mut self.core, now, request, claims),
            Body::Prepare { .. } => {
                let sender = (request.gateway, request.token);
                let alone = self.locking.grant_prepare(&mut self.core, now, request, claims);
                self.pass_probes();
                if let Some((apply, txn)) = alone {
                    self.put_apply(now, sender, apply, (RecipientKind::Commit(txn), None));
                }
            }
            Body::Pipeline(_) => self.grant_group(now, request, claims),
            Body::Apply(_) | Body::Await { .. } => self.put_alone(now, request),
            Body::Run(_) => self.run_scripts(now, request),
            Body::Read { .. } => self.reader().read(now, request),
            Body::Snapshot { .. } => self.reader().read_at_once(now, request),
            Body::Version { .. } => self.reader().version(now, request),
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
            | Body::EndDeadlock { .. }
            | Body::EndTurn
            | Body::Unblock
            | Body::Scan { .. }
            | Body::Keys { .. }
            | Body::Count { .. }
            | Body::RandomKey { .. }
            | Body::Flush { .. }
            | Body::Resolve(_)
            | Body::Remember(_)
            | Body::EndStream { .. }
            | Body::Stats
            | Body::Follow(_)
            | Body::Transfer { .. }
            | Body::KeysInSlot { .. }
            | Body::Coordinate(_)
            | Body::Cut { .. } => {}
        }
    }

    /// Looks at the requests that wait for `key` and whose obstacles are gone. If the oldest request in the
    /// queue goes, a phase begins: with it go others that are compatible with those admitted before,
    /// whatever their places.
    pub(in crate::shard) fn begin_phase(&mut self, now: Now, key: &Blob) {
        let mut phase = false;
        while let Some((_, id)) = self.core.locks.next_woken(key) {
            self.locking.is_woken(id);
            let is_first = self.core.locks.first(key) == Some(id);
            let went = self.admit(now, id, (key, phase));
            if went && is_first && !phase {
                phase = true;
                self.core.stats.phases += 1;
            }
        }
        if phase {
            self.extend_phase(now, key);
        }
    }

    /// Admits requests in a phase, of each mode until a few are not compatible.
    fn extend_phase(&mut self, now: Now, key: &Blob) {
        let mut failures: SmallVec<[(ClaimKind, usize); 2]> = SmallVec::new();
        let mut last = None;
        loop {
            let is_spent =
                |kind| failures.iter().any(|(of, count)| *of == kind && *count >= LOOKS_MAX);
            let Some((place, kind)) = self.core.locks.next_in_lanes(key, last, is_spent) else {
                break;
            };
            last = Some(place);
            if self.admit(now, place.1, (key, true)) {
                continue;
            }
            match failures.iter_mut().find(|(of, _)| *of == kind) {
                Some((_, count)) => *count += 1,
                None => failures.push((kind, 1)),
            }
        }
    }

    /// Lets a waiting request go, if it can; see [`super::manager::LockManager::admit`].
    fn admit(&mut self, now: Now, id: u64, place: (&Blob, bool)) -> bool {
        let admitted = self.locking.admit(&mut self.core, now, id, place);
        let admitted = admitted.map(|(request, claims)| self.grant(now, request, claims));
        admitted.is_some()
    }

    /// Passes the fate of transactions on to groups of pipelines that hang on it.
    pub(in crate::shard) fn pass_probes(&mut self) {
        while let Some((group, txn)) = self.locking.take_probed() {
            self.group_probe_answered(group, txn);
        }
    }

    /// Answers the requester of operations with their outcome.
    pub(in crate::shard) fn tell(
        &mut self,
        now: Now,
        target: Recipient,
        outcome: ApplyOutcome,
        ts: Timestamp,
    ) {
        let answer = self.core.answer_of(target.kind, outcome, ts);
        match target.kind {
            RecipientKind::Silent | RecipientKind::Named => return,
            RecipientKind::Turn => return self.turn_taken(now, target, answer),
            RecipientKind::Ran => return self.scripts.ended(&mut self.core, target),
            RecipientKind::Taken => {
                let waiter = (target.gateway, target.token);
                return self.waits.blocked.taken(&mut self.core, now, waiter, &answer);
            }
            RecipientKind::Commit(txn) => {
                self.locking.end(&mut self.core, txn);
                self.pass_probes();
            }
            RecipientKind::Replies
            | RecipientKind::Vote(_)
            | RecipientKind::Flushed
            | RecipientKind::Resolved
            | RecipientKind::Remembered
            | RecipientKind::Coordinated
            | RecipientKind::Voided => {}
        }
        self.core.answer(target.gateway, target.token, answer);
    }

    /// Decides a transaction; `from` is answered when it is carried out.
    pub(in crate::shard) fn decide(
        &mut self,
        now: Now,
        from: (GatewayId, Token),
        txn: TxnId,
        commit: Option<Timestamp>,
    ) {
        let decided = self.locking.decide(&mut self.core, from, txn, commit);
        self.pass_probes();
        if decided {
            let executed = self.core.state.decide(txn, commit, &mut self.core.ahead);
            self.finish(now, executed);
            self.locking.release_early(&mut self.core, txn);
            self.carried_out(now);
        }
    }

    /// Acts on transactions and units that were carried out.
    pub(in crate::shard) fn finish(&mut self, now: Now, executed: Vec<Executed>) {
        for Executed { txn, replies } in executed {
            self.core.stats.operations += replies.len() as u64;
            if !self.streams.is_executed(&mut self.core, now, txn, &replies) {
                self.locking.executed(&mut self.core, now, txn, replies);
                self.pass_probes();
            }
        }
    }

    /// Acts on changes of records: transactions that had to wait were carried out, or have moved.
    pub(in crate::shard) fn carried_out(&mut self, now: Now) {
        self.wake_blocked(now);
        let units = self.streams.hold_records();
        self.locking.pass_blame_on(&mut self.core, units);
    }

    /// Lets requests that wait for changes of records know which have changed.
    pub(in crate::shard) fn wake_blocked(&mut self, now: Now) {
        let (changed, events) = (self.core.ahead.take_changed(), self.core.ahead.take_events());
        self.waits.all_changed(&mut self.core, now, changed);
        self.waits.followers.tell_events(&mut self.core, events);
        self.look_at_turns(now);
    }

    /// Answers an inquiry about a transaction, or delays it.
    pub(in crate::shard) fn inquire(&mut self, gateway: GatewayId, token: Token, txn: TxnId) {
        match self.locking.inquire(&self.core, txn) {
            FateAnswer::Known(fate) => {
                self.locking.inquired_by(&self.core, gateway, txn);
                self.core.answer(gateway, token, Answer::Fate(fate));
            }
            FateAnswer::Later => {
                let request = Request { gateway, token, after: None, body: Body::Inquire { txn } };
                self.core.delay(request);
            }
            FateAnswer::Void => {
                if self.locking.knows(txn) {
                    self.waits.newcomers.refuse(&mut self.core, txn, Refusal::LocksLost);
                }
                self.locking.void(&mut self.core, (gateway, token), txn);
                self.pass_probes();
            }
        }
    }
}
